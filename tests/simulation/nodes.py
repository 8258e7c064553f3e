"""Nodes: processes of the world. Each is a greenlet that runs shipped code on a store by proxy.

The proxy has the store's own methods; each hands the call to the world and waits for the reply in
virtual time. So a node can be stopped, killed or cut off at every store call and nowhere else,
which is all that the store could ever notice.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import greenlet  # type: ignore[import-untyped]

from duly.errors import StoreUnavailable
from duly.store.ports.dispatch import MemberKind
from tests.simulation.handing import fire_and_claim
from tests.simulation.world import Call, Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.task_threads import Strand
    from tests.simulation.world import World

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLION = 1_000_000


class Killed(greenlet.GreenletExit):  # type: ignore[misc]
    """Thrown into a node whose process dies."""


class NodeClock:
    """The clocks of one machine: a wall clock that may be wrong, and one that is never set."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._since = world.true_at
        self._counted_us = 0
        self._offset_us = world.true_at
        self.drift_ppm = 0

    def now(self) -> datetime:
        """Return the current instant, aware, in UTC."""
        return _EPOCH + timedelta(microseconds=self.now_us())

    def now_us(self) -> int:
        """Return the current instant in microseconds since 1970."""
        return self._offset_us + self.monotonic_us()

    def monotonic_us(self) -> int:
        """Return microseconds since the node's machine started, drift included."""
        passed_us = self._world.true_at - self._since
        return self._counted_us + passed_us + passed_us * self.drift_ppm // MILLION

    def set(self, now_us: int, drift_ppm: int | None = None) -> None:
        """Step the wall clock, and let it run faster or slower from now on."""
        self._counted_us, self._since = self.monotonic_us(), self._world.true_at
        self._offset_us = now_us - self._counted_us
        self.drift_ppm = self.drift_ppm if drift_ppm is None else drift_ppm

    def true_after_us(self, duration_us: int) -> int:
        """Return how much true time passes while this clock counts a duration."""
        return duration_us * MILLION // (MILLION + self.drift_ppm) + 1


class Node:
    """One process: its program, its clocks, and whether it runs, waits, stands still or is dead."""

    def __init__(self, world: World, name: str, program: Callable[[Node], None]) -> None:
        self.world = world
        self.name = name
        self.clock = NodeClock(world)
        self.store = ProxyStore(self)
        self.paused_until = 0
        self.cut_until = 0
        self.known_at = 0
        self.calls = 0
        self.decided_at: int | None = None
        self.aimed_at: int | None = None
        self.wakeups: list[ProxyWakeups] = []
        self.stop: Callable[[], None] | None = None
        """How to ask the process to end in good order, if it can be asked."""
        self.stop_now: Callable[[], None] | None = None
        """How to ask it not to wait for anything."""
        self.is_ending = False
        """Whether somebody has asked this process to end, or it is worn out."""
        self.starts = 0
        self.strands: dict[greenlet.greenlet, Strand] = {}
        """Threads and children of the process."""
        self._program = program
        self._lent: list[Lent] = []
        self._turn = 0
        self._waits_at: ProxyWakeups | None = None
        self._greenlet: greenlet.greenlet | None = None
        world.nodes.append(self)

    @property
    def is_alive(self) -> bool:
        """Say whether the process runs, if only to stand still."""
        return self._greenlet is not None

    def start(self) -> None:
        """Start a new process on this machine, unless there is one."""
        if self.is_alive:
            return
        self.stop = self.stop_now = None
        self.is_ending = False
        self.starts += 1
        self._greenlet = greenlet.greenlet(self._run, parent=self.world.hub)
        self._turn += 1
        turn = self._turn
        self.world.after(0, lambda: self.resume(turn))

    def kill(self) -> None:
        """End the process where it stands; what it has sent stays sent."""
        victim, self._greenlet = self._greenlet, None
        self._turn += 1
        self.paused_until = 0
        self._end_strands()
        for wakeups in self.wakeups:
            wakeups.inner.close()
        self.wakeups.clear()
        # A database notices a closed connection, and undoes what was open on it.
        for lent in self._lent:
            if not lent.is_over:
                lent.end(is_commit=False)
        self._lent.clear()
        if victim is not None:
            victim.throw(Killed)
            self._end_strands()  # what it has started in its `finally` never begins

    def resume(self, turn: int, value: object = None, error: Exception | None = None) -> None:
        """Go on after a wait, unless that wait is over already; later, when standing still."""
        if turn != self._turn or self._greenlet is None:
            return
        if self.world.true_at < self.paused_until:
            self.world.at(self.paused_until, lambda: self.resume(turn, value, error))
            return
        self._turn += 1
        self._waits_at = None
        if error is not None:
            self._greenlet.throw(error)
        else:
            self.known_at = max(self.known_at, getattr(value, "now", 0))
            self._greenlet.switch(value)

    def call(self, operation: str, *arguments: Any, within: object = None, **named: Any) -> Any:
        """Send a call to the store and wait for its reply."""
        strand = self.strands.get(greenlet.getcurrent())
        if strand is not None:
            return strand.call(operation, arguments, named)
        self._refuse_the_dead()
        call = Call(
            self,
            self._turn,
            operation,
            arguments,
            self.decided_at,
            self.known_at,
            self.aimed_at,
            within,
            named,
        )
        self.decided_at = self.aimed_at = None
        self.calls += 1
        self.world.send(call)
        return self.world.hub.switch()

    def perform(self, call: Call) -> Any:
        """Carry out a call that has arrived, on the world's one store."""
        store, operation = self.world.store, call.operation
        if operation == "begin":
            lent = Lent(store.transaction(*call.arguments))
            self._lent.append(lent)
            return lent
        if operation in {"commit", "roll_back"}:
            call.arguments[0].end(is_commit=operation == "commit")
            return None
        if operation == "fire_and_claim":
            return fire_and_claim(store, *call.arguments)
        if call.within is not None:
            store = store.joined(call.within)
        return getattr(store, operation)(*call.arguments, **call.named)

    def wait(self, duration_us: int, at: ProxyWakeups | None = None) -> bool:
        """Let time pass on this node's clock; True when woken before."""
        self._refuse_the_dead()
        turn = self._turn
        self._waits_at = at
        delay_us = self.clock.true_after_us(max(duration_us, 0))
        self.world.after(delay_us, lambda: self.resume(turn))
        return bool(self.world.hub.switch())

    def look_for_wakeup(self) -> None:
        """Notice whether the store has woken this node; the wake-up may get lost on its way."""
        for wakeups in self.wakeups:
            if not wakeups.inner.wait(0):
                continue
            if self.world.weather.loses_wakeup():
                self.world.counts["lost wake-ups"] += 1
                continue
            self.world.after(self.world.weather.wakeup_delay_us(), partial(self.wake, wakeups))

    def wake(self, wakeups: ProxyWakeups) -> None:
        """Wake the process if it waits there, or else when it next would."""
        wakeups.is_woken = True
        if self._waits_at is wakeups:
            wakeups.is_woken = False
            turn = self._turn
            self.world.after(0, lambda: self.resume(turn, value=True))

    def _end_strands(self) -> None:
        for strand in list(self.strands.values()):
            strand.end()

    def _refuse_the_dead(self) -> None:
        # Whatever a dying process still tries in its `finally` never leaves the machine.
        if greenlet.getcurrent() is not self._greenlet:
            raise Killed

    def _run(self, *_: object) -> None:
        try:
            self._program(self)
        except Killed:
            return
        except StoreUnavailable:
            # A process that gives up ends; somebody starts it again.
            self.world.counts["gave up"] += 1
        except Exception as error:
            if isinstance(error, Violation):
                raise
            text = f"{self.name} raised {type(error).__name__}: {error}"
            raise Violation(text) from error
        if self._greenlet is greenlet.getcurrent():
            self._greenlet = None
            self._turn += 1
            self._end_strands()
            for wakeups in self.wakeups:
                wakeups.inner.close()
            self.wakeups.clear()


class ProxyWakeups:
    """A place to wait at in virtual time; the store's own place says when it is woken."""

    def __init__(self, node: Node, inner: Any) -> None:
        self.inner = inner
        self.address: str = inner.address
        self.is_woken = False
        self._node = node

    def wait(self, timeout_us: int) -> bool:
        """Wait at most that long; True when woken."""
        if self.is_woken:
            self.is_woken = False
            return True
        return self._node.wait(timeout_us, self)

    def wake(self) -> None:
        """Wake whoever waits here."""
        self._node.wake(self)

    def nudge(self) -> None:
        """End the wait; nobody in a simulated process does it from another thread."""
        self._node.wake(self)

    def close(self) -> None:
        """Let go of it."""
        if self in self._node.wakeups:
            self._node.wakeups.remove(self)
            self.inner.close()


class ProxyTransaction:
    """A lent connection by proxy: begun, used and committed by calls that take their time."""

    def __init__(self, node: Node, limit_us: int) -> None:
        self._node = node
        self._limit_us = limit_us

    def __enter__(self) -> Any:
        """Begin."""
        self._lent = self._node.call("begin", self._limit_us)
        return self._lent.transaction

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Commit, or roll back."""
        self._node.call("commit" if kind is None else "roll_back", self._lent)


class Lent:
    """The store's side of a lent connection."""

    def __init__(self, manager: Any) -> None:
        self.transaction = manager.__enter__()
        self.is_over = False
        self._manager = manager

    def end(self, *, is_commit: bool) -> None:
        """Commit or undo; whoever comes too late finds the connection closed."""
        if self.is_over:
            raise StoreUnavailable("simulated", "the connection is closed", "begin again")
        self.is_over = True
        if is_commit:
            self._manager.__exit__(None, None, None)
            return
        undone = Killed()
        try:
            self._manager.__exit__(Killed, undone, None)
        except Killed:
            return


class ProxyStore:
    """A store as one node reaches it: every method is a call that may go wrong."""

    name = "simulated"

    def __init__(self, node: Node, within: object = None) -> None:
        self._node = node
        self._within = within

    def joined(self, within: object) -> ProxyStore:
        """Return this store as part of a transaction."""
        return ProxyStore(self._node, within)

    def __getattr__(self, operation: str) -> Any:
        """Return the operation, as this node would call it."""
        if operation.startswith("_"):
            raise AttributeError(operation)

        def call(*arguments: Any, **named: Any) -> Any:
            return self._node.call(operation, *arguments, within=self._within, **named)

        setattr(self, operation, call)
        return call

    def wakeups(self, kind: MemberKind = MemberKind.DISPATCHER) -> ProxyWakeups:
        """Return a place to wait at."""
        proxy = ProxyWakeups(self._node, self._node.world.store.wakeups(kind))
        self._node.wakeups.append(proxy)
        return proxy

    def transaction(self, limit_us: int) -> ProxyTransaction:
        """Lend a connection."""
        return ProxyTransaction(self._node, limit_us)

    def close(self) -> None:
        """Let go of nothing: the world owns the store."""
