"""A program that makes promises through Duly and keeps its own ledger of what it was told.

    python -m tests.system.client_program URL LEDGER SEED SCHEDULES

It makes schedules, then goes on giving orders about them and about delayed runs until its standard
input is closed, or it is killed. In the end it resumes what it has paused. Each order is on disk
before it is given, and again with its answer.
"""

from __future__ import annotations

import random
import select
import sys
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import duly
from duly.clock import SystemClock
from duly.timetable.instants import from_microseconds
from tests.system.evidence import DONE, REFUSED, Order, OrderBook

if TYPE_CHECKING:
    from collections.abc import Callable

ORDER_EVERY_SECONDS = 0.02
SECOND_US = 1_000_000
PERIODS_US = (SECOND_US, SECOND_US, 2 * SECOND_US)
POLICIES = ("latest", "skip", "all")
TRIES_MAX = 50
AGAIN_MAX = 3
"""How often an order without an answer is given again, under the same id."""


@dataclass
class Client:
    """Gives orders, and writes down what it was told."""

    app: duly.App
    book: OrderBook
    draw: random.Random
    prefix: str
    clock: SystemClock = field(default_factory=SystemClock)
    active: list[str] = field(default_factory=list)
    paused: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    count: int = 0

    def give(self, order: Order, call: Callable[[], object], times: int = 1) -> Order:
        """Write an order down, give it, and write its answer down.

        What was not answered may have happened, and what is refused later does not tell.
        """
        self.book.write(order)
        unheard: str | None = None
        for _ in range(times):
            try:
                call()
                order.answer = DONE
                break
            except (duly.Conflict, duly.NotFound, duly.UsageError):
                order.answer = unheard or REFUSED
                break
            except duly.StoreError as error:
                order.answer = unheard = str(error)
        order.answered_at = self.clock.now_us()
        self.book.write(order)
        return order

    def order(self, kind: str, subject: str, period_us: int = 0, due_at: int = 0) -> Order:
        now = self.clock.now_us()
        return Order(kind=kind, subject=subject, asked_at=now, period_us=period_us, due_at=due_at)

    def call(self) -> duly.BoundCall:
        """Return what is to be run."""
        return self.app.call("ping")

    def schedule_call(self) -> duly.BoundCall:
        """Return what is to be run again and again."""
        return self.call()

    def create(self) -> None:
        self.count += 1
        name, period_us = f"{self.prefix}-s{self.count}", self.draw.choice(PERIODS_US)
        policy = duly.Misfire(self.draw.choice(POLICIES), grace=self.draw.choice(("3s", "60s")))
        timetable = duly.every(timedelta(microseconds=period_us))
        call = self.schedule_call()
        given = self.give(
            self.order("create", name, period_us),
            # Nobody may be there to end runs: what is tried here is firing, each occurrence.
            lambda: self.app.schedules.create(
                name, call, timetable, misfire=policy, overlap="allow"
            ),
        )
        if given.is_done:
            self.active.append(name)

    def pause(self) -> None:
        if self.active:
            name = self.active.pop(self.draw.randrange(len(self.active)))
            if self.give(self.order("pause", name), lambda: self._pause(name)).is_done:
                self.paused.append(name)

    def _pause(self, name: str) -> None:
        self.app.schedules.pause(name, reason="a test")

    def resume(self) -> None:
        if self.paused:
            name = self.paused.pop()
            missed = self.draw.choice(("skip", "misfire"))
            given = self.give(
                self.order("resume", name),
                lambda: self.app.schedules.resume(name, missed=missed),
            )
            (self.active if given.is_done else self.paused).append(name)

    def delete(self) -> None:
        if len(self.active) > 10:
            name = self.active.pop(self.draw.randrange(len(self.active)))
            self.give(self.order("delete", name), lambda: self.app.schedules.delete(name))

    def edit(self) -> None:
        """Change a template in a way that leaves its occurrences as they are."""
        if self.active:
            name, priority = self.draw.choice(self.active), self.draw.randrange(10)
            self.give(
                self.order("edit", name),
                lambda: self.app.schedules.edit(name, priority=priority),
            )

    def enqueue(self) -> None:
        self.count += 1
        key, due_at = f"{self.prefix}-d{self.count}", self._soon()
        call, at = self.call(), from_microseconds(due_at)
        # As programs make them: they sort by time.
        one = UUID(int=due_at // 1000 << 80 | self.draw.getrandbits(80))
        given = self.give(
            self.order("enqueue", key, due_at=due_at),
            lambda: self.app.enqueue(call, at=at, key=key, id=one),
            AGAIN_MAX,
        )
        if given.is_done:
            self.keys.append(key)

    def move(self) -> None:
        if self.keys:
            key, due_at = self._some_key(), self._soon()
            at = from_microseconds(due_at)
            order = self.order("move", key, due_at=due_at)
            if self.give(order, lambda: self.app.move(key, at=at)).is_unknown:
                self.keys.remove(key)  # it may yet happen, after whatever would be asked next

    def cancel(self) -> None:
        if self.keys:
            key = self._some_key()
            self.give(self.order("cancel", key), lambda: self.app.cancel(key))
            self.keys.remove(key)

    def go_on(self) -> None:
        """Give one order."""
        kinds = (
            self.enqueue,
            self.move,
            self.cancel,
            self.pause,
            self.resume,
            self.edit,
            self.delete,
        )
        self.draw.choices(kinds, weights=(10, 4, 2, 1, 1, 0.5, 0.3))[0]()

    def finish(self) -> None:
        """Leave nothing paused; what can't be told now is told again."""
        for _ in range(TRIES_MAX):
            self.resume()

    def close(self) -> None:
        """Let go of the store and the ledger."""
        self.app.close()
        self.book.close()

    def _some_key(self) -> str:
        return self.draw.choice(self.keys[-20:])

    def _soon(self) -> int:
        return self.clock.now_us() + self.draw.randrange(20_000, 3 * SECOND_US)


def new_app(url: str) -> duly.App:
    """Return an application with the one task that is ever asked for."""
    app = duly.App(url, name="system-test")

    @app.task
    def ping() -> None:
        """Do nothing."""

    return app


def main(url: str, ledger: Path, seed: str, schedules: int) -> None:
    """Give orders until standard input is closed."""
    with new_app(url) as app:
        give_orders(Client(app, OrderBook(ledger), random.Random(seed), seed), schedules)


def give_orders(client: Client, schedules: int) -> None:
    """Make schedules, and go on with orders until standard input is closed."""
    for _ in range(schedules):
        client.create()
    while not select.select([sys.stdin], [], [], ORDER_EVERY_SECONDS)[0]:
        client.go_on()
    client.finish()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
