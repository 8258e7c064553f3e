"""The world: true time, a queue of events, and a store that executes one call after another.

Nothing happens by itself. The earliest event is taken, time jumps to it, and whatever it starts
runs until it must wait: for a reply, for a wake-up, for a moment. A store call is three events
(sent, executed, replied), so that whatever goes wrong can do so between any two of them.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from itertools import count
from typing import TYPE_CHECKING, Any

import greenlet  # type: ignore[import-untyped]

from duly.errors import DulyError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.simulation.faults import Weather
    from tests.simulation.nodes import Node
    from tests.simulation.recipe import Recipe

EVENTS_MAX = 400_000
"""A world that goes on for longer than this spins."""
PATIENCE_US = 1_500_000
"""How long a process waits for an answer before it takes it for lost."""
ANNOUNCING = frozenset(
    (
        "create_schedule", "change_schedule", "add_runs", "move_delayed", "commit",
        "fire_timers", "fire_and_claim", "drain_owed", "finish_runs", "finish_and_claim",
        "settle_lost", "cancel_run", "retry_runs", "resume_queue",
    )
)  # fmt: skip
"""Calls that may wake somebody."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Violation(Exception):  # noqa: N818 - what the simulation looks for
    """A promise was broken; it names the invariant."""


@dataclass(eq=False, slots=True)
class Call:
    """One call of a node, on its way to the store and back."""

    node: Node
    turn: int
    operation: str
    arguments: tuple[Any, ...]
    decided_at: int | None
    """The store's time on which an order was decided, when the caller says so."""
    known_at: int
    """The latest store's time that the caller had been told when it sent this."""
    aimed_at: int | None
    """The store's time at which it is meant to arrive, if that is still to come."""
    within: object = None
    named: Mapping[str, Any] = field(default_factory=dict)
    """What is said by name."""


@dataclass(eq=False, slots=True)
class Executed:
    """What the store did with a call, and when by its own clock."""

    call: Call
    at: int
    asked_at: int
    """The same, unless it was done within a transaction, which counts from its commit."""
    result: Any = None
    error: DulyError | None = None


class StoreClock:
    """The store's clock: true time, unless somebody has stepped it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.offset_us = 0

    def now(self) -> datetime:
        """Return the current instant, aware, in UTC."""
        return _EPOCH + timedelta(microseconds=self.now_us())

    def now_us(self) -> int:
        """Return the current instant in microseconds since 1970."""
        return self._world.true_at + self.offset_us

    def monotonic_us(self) -> int:
        """Return microseconds since the world began."""
        return self._world.true_at - self._world.recipe.start_at


@dataclass(eq=False)
class World:
    """All there is: time, events, the store, its observer, and what has happened so often."""

    recipe: Recipe
    seen: Callable[[Executed], None]
    """Whoever is told of every executed call."""
    weather: Weather
    store: Any = None
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Begin at the recipe's moment, with nothing to do."""
        self.true_at = self.recipe.start_at
        self.clock = StoreClock(self)
        self.hub = greenlet.getcurrent()
        self.nodes: list[Node] = []
        self.executing: Call | None = None
        self.broken: str | None = None
        """What a process complained about that no process should ever meet."""
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._trace = blake2b(digest_size=16)

    @property
    def trace(self) -> str:
        """Return a hash of everything that was executed so far."""
        return self._trace.hexdigest()

    def at(self, when: int, action: Callable[[], None]) -> None:
        """Do something at a true time, or at once when it has passed."""
        heapq.heappush(self._events, (max(when, self.true_at), next(self._order), action))

    def after(self, delay_us: int, action: Callable[[], None]) -> None:
        """Do something after a while of true time."""
        self.at(self.true_at + delay_us, action)

    def run(self, until: int) -> None:
        """Let time pass."""
        events = self._events
        while events and events[0][0] <= until:
            self.true_at, order, action = heapq.heappop(events)
            if order > EVENTS_MAX:
                raise Violation(f"the world spins: more than {EVENTS_MAX} events")
            action()
            if self.broken is not None:
                raise Violation(self.broken)
        self.true_at = until

    def send(self, call: Call) -> None:
        """Put a call on its way; it may get lost, come late, or come at the worst moment."""
        weather = self.weather
        if weather.loses_request(call):
            self._fail(call, "its request was lost")
            return
        arrives_at = self.true_at + weather.request_delay_us(call)
        if arrives_at > self.true_at + PATIENCE_US:
            # It arrives when nobody waits for it any more, and is carried out all the same.
            self.counts["requests out of time"] += 1
            self._fail(call, "it took too long")
        aimed = weather.aim(call, arrives_at)
        self.at(aimed, lambda: self._arrive(call))

    def _arrive(self, call: Call) -> None:
        if self.weather.is_down:
            self._fail(call, "the store was down")
            return
        executed = self._execute(call)
        if call.operation in ANNOUNCING:
            for node in self.nodes:
                node.look_for_wakeup()
        if self.weather.loses_reply(call):
            self.counts["lost replies"] += 1
            self._fail(call, "its reply was lost")
            return
        found = getattr(executed.result, "claims", None)
        delay_us = self.weather.reply_delay_us(call, found)
        self.after(delay_us, lambda: call.node.resume(call.turn, executed.result, executed.error))

    def _execute(self, call: Call) -> Executed:
        now = self.clock.now_us()
        executed = Executed(call, now, now)
        self.counts["operations"] += 1
        self.executing = call
        try:
            executed.result = call.node.perform(call)
        except DulyError as error:
            executed.error = error
        except AssertionError as error:
            text = f"the store's own assertion failed in {call.operation}: {error}"
            raise Violation(text) from error
        self._note(executed)
        self.seen(executed)
        return executed

    def _fail(self, call: Call, problem: str) -> None:
        error = StoreUnavailable("simulated", problem, "try again")
        delay_us = self.weather.patience_us(call)
        self.after(delay_us, lambda: call.node.resume(call.turn, None, error))

    def _note(self, executed: Executed) -> None:
        call, result = executed.call, executed.result
        brief = (
            self.true_at,
            call.node.name,
            call.operation,
            executed.at,
            type(result).__name__,
            getattr(result, "results", None),
            getattr(result, "now", None),
            type(executed.error).__name__,
        )
        self._trace.update(repr(brief).encode())
