"""The past: an application's engine in virtual time, on a file, from some days ago until now.

What happened is made by the dispatcher and the workers that ship, ticked at each instant at which
something is to be done. Nothing is written around them: what they leave is history like any other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.demo.acting import VirtualExecutor
from duly.domain.instants import HOUR, MINUTE, SECOND_US
from duly.domain.literals import TaskKind
from duly.engine.dispatcher import Dispatcher
from duly.engine.settings import DispatcherSettings
from duly.engine.surroundings import Node
from duly.engine.worker import Worker, WorkerSettings
from duly.store.dispatch import LoadTimers

if TYPE_CHECKING:
    from duly.app import App
    from duly.engine.manual_clock import ManualClock
    from duly.store.protocol import Store

HOST = "demo-history"
SHARDS = (0,)
ROUNDS_MAX = 2_000
"""How often something may be done at one instant; more is a history that does not come to rest."""
IDLE_US = 15 * MINUTE * SECOND_US
"""How long nobody looks, when nothing is to be done."""
_STEP_US = 20_000
_MOMENT_US = 1_000
_OPEN_US = 8 * SECOND_US
_HOUR_US = HOUR * SECOND_US
# They are looked at when something happens, which is every few minutes: leases last for hours.
_DISPATCHER = DispatcherSettings(
    ttl_us=4 * _HOUR_US,
    renew_every_us=_HOUR_US,
    gates_every_us=6 * _HOUR_US,
    prune_every_us=24 * _HOUR_US,
    seal_every_us=6 * _HOUR_US,
)
_WORKER = WorkerSettings(
    ttl_us=4 * _HOUR_US,
    beat_every_us=_HOUR_US,
    lease_margin_us=_HOUR_US,
    talk_every_us=0,
    claim_apart_us=1,
    poll_min_us=_HOUR_US,
    poll_max_us=_HOUR_US,
)
_MORTAL = replace(
    _WORKER, ttl_us=15 * SECOND_US, beat_every_us=3 * SECOND_US, lease_margin_us=2 * SECOND_US
)


class Past:
    """A dispatcher and a worker in virtual time; moving the clock has them do what falls due."""

    def __init__(self, app: App, store: Store, clock: ManualClock) -> None:
        self._store = store
        self._clock = clock
        self._catalogue = app.catalogue()
        self._processes = 0
        self._ticked_at = 0
        self._dispatchers: list[Dispatcher] = []
        self._dispatcher = self._new_dispatcher()
        self._crew = [self._new_worker(_WORKER)]

    @property
    def runs(self) -> int:
        """How many runs were made of what fell due."""
        counted = [one.statistics for one in self._dispatchers]
        return sum(one.runs + one.caught_up + one.backfilled for one in counted)

    def live_until(self, until: int) -> None:
        """Let time pass, and have done what falls due meanwhile."""
        self._work(has_news=True)  # somebody may have ordered something since
        self._settle(until)
        while (at := self._next_at()) <= until:
            self._clock.advance(max(0, at - self._clock.now_us()))
            self._settle(until)
        self._clock.advance(max(0, until - self._clock.now_us()))

    def live(self, seconds: float) -> None:
        """Let so much time pass."""
        self.live_until(self._clock.now_us() + round(seconds * SECOND_US))

    def watch(self, seconds: float) -> None:
        """Let so much time pass with a dispatcher that looks around every second.

        For what no timer announces: workers that are lost, backfills that go on at a rate.
        """
        ends_at = self._clock.now_us() + round(seconds * SECOND_US)
        while self._clock.now_us() < ends_at:
            self._dispatcher.tick()
            self.live(1)

    def open(self) -> None:
        """Have the dispatcher take its shards, for which it takes a few seconds."""
        ends_at = self._clock.now_us() + _OPEN_US
        while self._clock.now_us() < ends_at:
            self._dispatcher.tick()
            self._clock.advance(SECOND_US // 4)

    def be_away_until(self, until: int) -> None:
        """Have no dispatcher for a while: what falls due meanwhile is late."""
        self._dispatcher.stop()
        while (at := self._worked_at()) is not None and at <= until:
            self._clock.advance(max(0, at - self._clock.now_us()))
            self._work()
        self._clock.advance(max(0, until - self._clock.now_us()))
        self._dispatcher = self._new_dispatcher()
        self.open()

    def lose_worker(self, seconds: float) -> None:
        """Let a worker of its own take what is queued, and vanish in the middle of it."""
        kept = self._crew
        self._crew = [lost] = [self._new_worker(_MORTAL)]
        self.live(seconds)
        self._crew = kept
        self.watch(2 * _MORTAL.ttl_us / SECOND_US)
        lost[1].close()

    def lack_workers(self, seconds: float) -> None:
        """Have nobody work for a while: what is queued waits."""
        kept, self._crew = self._crew, []
        self.live(seconds)
        self._crew = kept
        self._work(has_news=True)

    def close(self) -> None:
        """End them in good order: what runs is given back."""
        for worker, _ in self._crew:
            worker.stop()
        self._dispatcher.stop()

    def _new_node(self) -> Node:
        self._processes += 1
        return Node(host=HOST, process=self._processes)

    def _new_dispatcher(self) -> Dispatcher:
        new = Dispatcher(self._store, self._clock, _DISPATCHER, node=self._new_node())
        self._dispatchers.append(new)
        return new

    def _new_worker(self, settings: WorkerSettings) -> tuple[Worker, VirtualExecutor]:
        executor = VirtualExecutor(self._clock)
        executors = dict.fromkeys(TaskKind, executor)
        node = self._new_node()
        worker = Worker(self._store, self._clock, self._catalogue, executors, settings, node=node)
        return worker, executor

    def _next_at(self) -> int:
        """Return the next instant at which something is to be done, or somebody looks."""
        now = self._clock.now_us()
        times = (now + IDLE_US, self._due_at(now + IDLE_US), self._worked_at())
        return min(one for one in times if one is not None)

    def _due_at(self, until: int) -> int | None:
        """Return when the first timer is due, if that is not after `until`."""
        order = LoadTimers(shards=SHARDS, after=None, until=until, limit=1, is_whole=False)
        return next((one.due_at for one in self._store.load_timers(order).timers), None)

    def _worked_at(self) -> int | None:
        times = [executor.next_at() for _, executor in self._crew]
        return min((one for one in times if one is not None), default=None)

    def _settle(self, until: int) -> None:
        """Do all that is to be done at this instant; a few milliseconds may pass by it."""
        self._work()
        for _ in range(ROUNDS_MAX):
            if self._ticked_at + IDLE_US > self._clock.now_us() and not self._is_due():
                return
            self._ticked_at = self._clock.now_us()
            self._dispatcher.wake()
            wanted = self._dispatcher.tick()
            self._work(has_news=True)
            left_us = max(0, until - self._clock.now_us())
            wait_us = min(wanted - self._clock.monotonic_us(), _STEP_US)
            self._clock.advance(min(max(_MOMENT_US, wait_us), left_us))
        raise AssertionError("the demo's history does not come to rest")

    def _is_due(self) -> bool:
        return self._due_at(self._clock.now_us()) is not None

    def _work(self, *, has_news: bool = False) -> None:
        """Have the workers do what there is, until nothing more ends."""
        for worker, executor in self._crew:
            ended = executor.ended
            has_gone_on = executor.go_on()
            if has_news:
                worker.wake()
                worker.tick()
            if has_news or has_gone_on:
                worker.tick()
            while ended != (ended := executor.ended):
                # What has ended may have opened a gate, or made room: there may be more to take.
                worker.tick()
                worker.wake()
                worker.tick()
