"""Worker processes: the shipped loop around the shipped worker, on a node of the world."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from duly.engine.dispatcher.context import Node as Surroundings
from duly.engine.loop import Loop
from duly.engine.worker import Worker, WorkerSettings
from duly.errors import StoreUnavailable
from duly.store.ports.dispatch import MemberKind
from duly_conformance.kit import DirectClaims
from tests.simulation.dispatching import Listener, TimedService
from tests.simulation.executing import ScriptedExecutor
from tests.simulation.handing import taking_settings, taking_store
from tests.simulation.recipe import SECOND
from tests.simulation.scripts import KINDS, QUEUES, ScriptedCatalogue, scripted_tasks

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from duly.engine.worker.exchange import Order
    from duly.store.ports.execution import Claimed, ClaimRuns, Finished
    from tests.simulation.executing import Observer
    from tests.simulation.handing import Hands
    from tests.simulation.nodes import Node


AHEAD_SHARE = 0.5
"""Of the workers, those that order claims before the runs of the last have begun."""


WAITS_MAX_US = SECOND
"""A run that was claimed begins or is given back within this."""
POOLS_SHARE = 0.3
"""Of the workers, those whose async tasks have slots of their own."""


class SeededDraws:
    """Random bytes that are the same every time."""

    def __init__(self, draws: Random) -> None:
        self._draws = draws

    def draw(self, size: int) -> bytes:
        """Return so many bytes."""
        return self._draws.randbytes(size)


class LateReply:
    """What becomes of an order when somebody asks for its answer; now and then it seems there."""

    def __init__(self, order: Order, *, is_there: bool) -> None:
        self._order = order
        self._is_there = is_there

    def is_there(self) -> bool:
        """Say whether nobody need wait for it."""
        return self._is_there

    def __call__(self) -> Finished:
        """Carry it out."""
        return self._order()


class LateCourier:
    """Brings ends to the store after more was asked for, as a slow thread would."""

    is_direct = False

    def __init__(self) -> None:
        self._sent = 0

    def send(self, order: Order) -> LateReply:
        """Carry out an order when its answer is asked for."""
        self._sent += 1
        return LateReply(order, is_there=self._sent % 2 == 0)

    def close(self) -> None:
        """Let go of nothing."""


class TimedWorker(TimedService):
    """A worker that keeps no claimed run for long that it can't begin."""

    def __init__(self, node: Node, worker: Worker) -> None:
        super().__init__(node, worker)
        self._world, self._clock = node.world, node.clock
        self._slots = worker._holdings.slots  # noqa: SLF001 - what it holds shows nowhere else

    def tick(self) -> int:
        """Look at what it kept though it had waited for too long when the tick began."""
        began_at = self._clock.monotonic_us()
        wake_at = super().tick()
        waiting = [one for one in self._slots.ahead() if one.since + WAITS_MAX_US <= began_at]
        self._world.counts["ticks with runs ahead of slots"] += any(self._slots.ahead())
        if waiting:
            self._world.broken = "R4: a worker keeps runs that it can't begin"
        return wake_at


class ClaimsAhead:
    """Claims of which the answer is asked for later: carried out at once, or only then."""

    def __init__(self, node: Node, store: Any, *, is_late: bool) -> None:
        self._claims = DirectClaims(store)
        self._is_late = is_late
        self._node = node
        self._counts = node.world.counts

    def __call__(self, order: ClaimRuns) -> Callable[[], Claimed]:
        """Order a claim; what is raised is raised at once, or when the answer is asked for."""
        self._counts["claims ahead"] += 1
        answer = None if self._is_late else self._begin(order)
        calls = self._node.calls

        def hear() -> Claimed:
            self._counts["ends told between claims"] += self._node.calls > calls
            claimed = (answer or self._begin(order))()
            self._counts["runs claimed ahead"] += len(claimed.runs)
            return claimed

        return hear

    def _begin(self, order: ClaimRuns) -> Callable[[], Claimed]:
        try:
            return self._claims(order)
        except StoreUnavailable:
            self._counts["claims ahead unheard"] += 1
            raise


def working(number: int, observer: Observer, hands: Hands) -> Callable[[Node], None]:
    """Return the program of one worker, with settings of its own."""
    recipe = hands.recipe
    draws = recipe.stream(f"worker{number}")
    ahead = recipe.stream(f"ahead{number}")
    is_ahead, is_late = ahead.random() < AHEAD_SHARE, ahead.random() < 0.5
    settings = _settings(draws, number)
    if is_ahead:
        settings = _ahead_settings(settings, ahead)
    pools = recipe.stream(f"pools{number}")
    if pools.random() < POOLS_SHARE:
        settings = _pooled_settings(settings, pools)
    takes = hands.taking.get(number)
    if takes is not None:
        settings = taking_settings(settings, takes)
    tasks = scripted_tasks(recipe)
    if number and draws.random() < 0.2:
        tasks.pop("task2")

    def work(node: Node) -> None:
        store: Any = node.store if takes is None else taking_store(node, hands, takes)
        wakeups: Any = node.store.wakeups(MemberKind.WORKER)
        listener = Listener(node)
        worker = Worker(
            store,
            node.clock,
            ScriptedCatalogue(tasks),
            {kind: ScriptedExecutor(node, kind, observer, settings) for kind in KINDS},
            settings,
            telemetry=listener,
            node=_place(node, number, wakeups.address),
            wakeups=wakeups,
            draws=SeededDraws(draws),
            courier=LateCourier() if number % 2 else None,
            begin_claim=ClaimsAhead(node, store, is_late=is_late) if is_ahead else None,
        )
        loop = Loop(TimedWorker(node, worker), wakeups, node.clock, listener)
        worker.on_over = loop.stop
        node.stop, node.stop_now = worker.drain, worker.stop_now
        loop.run()

    return work


def _place(node: Node, number: int, wake_address: str) -> Surroundings:
    """Return where a worker runs: two to a machine, where it matters; a new process each time."""
    host = f"h{number // 2}" if node.world.recipe.has_standing else node.name
    process = 100 * number + node.starts
    return Surroundings(host=host, process=process, wake_address=wake_address)


def _settings(draws: Random, number: int) -> WorkerSettings:
    ttl = draws.choice((5, 8, 15))
    queues = None
    if number:
        queues = draws.choice((None, tuple(draws.sample(QUEUES, 2)), (draws.choice(QUEUES),)))
    return WorkerSettings(
        slots=draws.choice((2, 3, 6, 10)),
        queues=queues,
        queue_limits=draws.choice(({}, {}, {"mail": 1})),
        ttl_us=ttl * SECOND,
        beat_every_us=draws.choice((1, 3)) * SECOND,
        together_max=(100, 0, 1)[number % 3],
        lease_margin_us=draws.choice((SECOND // 2, SECOND)),
        grace_us=draws.choice((0, 2, 10)) * SECOND,
        cancel_grace_us=draws.choice((0, 1, 3)) * SECOND,
        leaked_max=draws.choice((1, 3)),
        unknown_after_us=SECOND,
        unknown_after_max_us=4 * SECOND,
        unknown_grace_us=12 * SECOND,
    )


def _ahead_settings(settings: WorkerSettings, draws: Random) -> WorkerSettings:
    """Return the settings of one that claims so few at a time that a handful is a crowd."""
    return replace(
        settings,
        slots=draws.choice((settings.slots, 10, 20)),
        queue_limits={},
        claim_max=draws.choice((1, 1, 2, 3)),
        claims_ahead_max=draws.choice((1, 2, 4)),
    )


def _pooled_settings(settings: WorkerSettings, draws: Random) -> WorkerSettings:
    """Return the settings of one that was not told how many runs it may execute."""
    return replace(
        settings,
        slots=None,
        async_slots=draws.choice((2, 4, 12)),
        other_slots=draws.choice((1, 2, 4)),
    )
