"""Faults: what goes wrong with calls, processes, clocks and the store, all drawn from the seed.

Faults of single calls are drawn as the calls come; the others are planned as a list before the
world begins, so that a failing world can be shrunk by leaving some of them out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.simulation.recipe import MINUTE, SECOND, Recipe

if TYPE_CHECKING:
    from tests.simulation.nodes import Node
    from tests.simulation.world import Call, World

TTL_US = 5 * SECOND
MILLISECOND = 1000
LONG_US = (10 * MILLISECOND, 200 * MILLISECOND, 2 * SECOND, TTL_US, 2 * TTL_US, 10 * TTL_US)
"""How long a process stands still: from a collection of garbage to ten times its membership."""
FENCED = frozenset(
    (
        "fire_timers", "drain_owed", "release_leases", "acquire_leases",
        "claim_runs", "fire_and_claim", "beat", "report", "save_checkpoint", "finish_runs",
        "finish_and_claim", "settle_lost", "step_backfill", "admit", "hold_watch", "apply_alerts",
        "settle_delivery",
    )
)  # fmt: skip
"""Writes that hurt most when they arrive late."""
OFTEN = {"step_backfill": 20}
"""Writes that are rare, and so are late more often."""
HELD = frozenset(
    (
        "claim_runs", "fire_and_claim", "admit", "beat", "finish_runs", "finish_and_claim",
        "settle_lost",
    )
)  # fmt: skip
"""Calls whose late answers let a process go on with what it no longer holds."""
EDGE_REACH_US = 4 * SECOND


class Weather:
    """What becomes of each call: how long it takes, whether it arrives, whether its reply does."""

    def __init__(self, recipe: Recipe) -> None:
        draws = recipe.stream("weather")
        self.is_calm = False
        self.outages = 0
        self._recipe = recipe
        self._draws = recipe.stream("calls")
        rates = {kind: draws.choice((0.002, 0.01, 0.04)) for kind in sorted(recipe.kinds)}
        self._request_loss = rates.get("lost-request", 0.0)
        self._reply_loss = rates.get("lost-reply", 0.0)
        self._slow_request = rates.get("slow-request", 0.0)
        self._slow_reply = rates.get("slow-reply", 0.0)
        self._edge = 0.2 if "edge" in rates else 0.0
        self._acted_late = 0.15 if "slow-reply" in rates else 0.0
        """How often claims that were found lost are settled when the finder has lost its lease."""
        self._wakeup_loss = 0.2 if "lost-wakeup" in rates else 0.0
        self._usual_us = draws.choice((300, 1000, 5000))

    @property
    def is_down(self) -> bool:
        """Say whether the store refuses everything just now."""
        return self.outages > 0

    def loses_request(self, call: Call) -> bool:
        """Say whether a call never arrives."""
        if call.node.cut_until > call.node.world.true_at:
            return True
        return not self.is_calm and self._draws.random() < self._request_loss

    def loses_reply(self, call: Call) -> bool:
        """Say whether a call is carried out and nobody hears of it."""
        if call.node.cut_until > call.node.world.true_at:
            return True
        return not self.is_calm and self._draws.random() < self._reply_loss

    def loses_wakeup(self) -> bool:
        """Say whether a wake-up gets lost."""
        return not self.is_calm and self._draws.random() < self._wakeup_loss

    def loses_opening(self) -> bool:
        """Say whether who has ended a run dies before it lets the next one go."""
        return not self.is_calm and self._draws.random() < self._wakeup_loss

    def wakeup_delay_us(self) -> int:
        """Return how long a wake-up is on its way."""
        return self._draws.randint(50, self._usual_us)

    def request_delay_us(self, call: Call) -> int:
        """Return how long a request is on its way; some linger until nobody waits any more."""
        is_fenced = call.operation in FENCED
        rate = OFTEN.get(call.operation, 4 if is_fenced else 1) * self._slow_request
        if not self.is_calm and self._draws.random() < rate:
            return self._draws.choice(LONG_US[2:] if is_fenced else LONG_US)
        return self._draws.randint(50, self._usual_us)

    def reply_delay_us(self, call: Call, result: object) -> int:
        """Return how long a reply is on its way."""
        if not self.is_calm and result and self._draws.random() < self._acted_late:
            return self._draws.choice(LONG_US[-2:])
        is_held = call.operation in HELD
        rate = 4 * self._slow_reply if is_held else self._slow_reply
        if not self.is_calm and self._draws.random() < rate:
            return self._draws.choice(LONG_US if is_held else LONG_US[:-1])
        return self._draws.randint(50, self._usual_us)

    def patience_us(self, call: Call) -> int:
        """Return how long a node waits for a reply that does not come."""
        return self._draws.choice((20 * MILLISECOND, SECOND, 3 * SECOND))

    def aim(self, call: Call, arrives_at: int) -> int:
        """Return when a call arrives: exactly where it hurts, if it can wait for that."""
        aimed_at = call.aimed_at
        if call.operation == "fire_timers" and not self.is_calm and self._edge:
            edges = [
                fire.late_after
                for fire in call.arguments[0].schedules
                if fire.late_after is not None
            ]
            if edges and self._draws.random() < self._edge:
                aimed_at = self._draws.choice(edges) + self._draws.choice((0, 0, 1))
        if aimed_at is None:
            return arrives_at
        true_at = aimed_at - call.node.world.clock.offset_us
        return true_at if arrives_at < true_at < arrives_at + EDGE_REACH_US else arrives_at


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """One thing that goes wrong at a moment, for a while."""

    kind: str
    at: int
    length_us: int
    node: int
    """Which node, by its place among those of its sort."""
    size_us: int


PLANNED = ("crash", "stop", "pause", "cut", "outage", "blackout", "skew", "store-step")
RARE = frozenset(("outage", "blackout", "store-step"))
STEPS_US = (
    -3_600 * SECOND, -5 * SECOND, -400 * MILLISECOND, -30 * MILLISECOND,
    30 * MILLISECOND, 400 * MILLISECOND, 5 * SECOND, 300 * SECOND,
)  # fmt: skip
STORE_STEPS_US = (-2 * SECOND, -300 * MILLISECOND, 300 * MILLISECOND, 2 * SECOND, 20 * SECOND)


def planned_faults(recipe: Recipe) -> list[PlannedFault]:
    """Return everything that will go wrong beside single calls, in order."""
    chosen = recipe.planned
    return [
        fault
        for number, fault in enumerate(_possible_faults(recipe))
        if recipe.has(fault.kind) and (chosen is None or number in chosen)
    ]


def planned_count(recipe: Recipe) -> int:
    """Return how many faults there are to choose from."""
    return len(_possible_faults(recipe))


def _possible_faults(recipe: Recipe) -> list[PlannedFault]:
    """Draw faults of every kind, so that leaving a kind out leaves the numbers of others as is."""
    draws = recipe.stream("faults")
    faults = []
    for kind in PLANNED:
        often = draws.randint(1, 2 if kind in RARE else 4)
        for _ in range(often):
            at = recipe.start_at + draws.randint(0, recipe.seconds * SECOND)
            length_us = draws.choice((SECOND, *LONG_US))
            if kind == "blackout":
                length_us = draws.randint(3 * SECOND, 70 * SECOND)
            sizes = STORE_STEPS_US if kind == "store-step" else STEPS_US
            size_us, node = draws.choice(sizes), draws.randint(0, 99)
            faults.append(PlannedFault(kind, at, length_us, node, size_us))
    return sorted(faults, key=lambda fault: fault.at)


class Mischief:
    """Carries out the planned faults, and puts everything right again when they are over."""

    def __init__(
        self, world: World, dispatchers: list[Node], workers: list[Node], users: list[Node]
    ) -> None:
        self._world = world
        self._dispatchers = dispatchers
        self._workers = workers
        self._services = [*dispatchers, *workers]
        """Whose clocks matter, and which somebody keeps running."""
        self._everybody = [*dispatchers, *users, *workers]
        self._blackouts = 0
        for fault in planned_faults(world.recipe):
            world.at(fault.at, lambda fault=fault: self._begin(fault))  # type: ignore[misc]

    def end(self) -> None:
        """End all that is wrong: processes run, clocks are set, the store is up."""
        world = self._world
        world.weather.is_calm = True
        world.weather.outages = 0
        self._blackouts = 0
        for node in self._everybody:
            node.cut_until = 0
            node.paused_until = min(node.paused_until, world.true_at)
        for node in self._services:
            node.clock.set(world.clock.now_us(), drift_ppm=0)
        self._keep_running()

    def _keep_running(self) -> None:
        """Start whoever is still about to end, as an operator's supervisor would."""
        for node in self._services:
            node.start()
        self._world.after(SECOND, self._keep_running)

    def _begin(self, fault: PlannedFault) -> None:  # noqa: C901 - one branch for each kind
        world = self._world
        if world.weather.is_calm:
            return
        world.counts[f"fault: {fault.kind}"] += 1
        node = self._everybody[fault.node % len(self._everybody)]
        service = self._services[fault.node % len(self._services)]
        match fault.kind:
            case "crash":
                self._crash(node if fault.node % 3 == 0 else service, fault.length_us)
            case "stop":
                self._stop(service, fault)
            case "pause":
                node.paused_until = max(node.paused_until, world.true_at + fault.length_us)
            case "cut":
                node.cut_until = max(node.cut_until, world.true_at + fault.length_us)
            case "outage":
                world.weather.outages += 1
                world.after(min(fault.length_us, 20 * SECOND), self._end_outage)
            case "blackout":
                self._blackouts += 1
                for one in self._dispatchers:
                    one.kill()
                world.after(fault.length_us, self._end_blackout)
            case "skew":
                self._skew(service, fault)
            case "store-step":
                self._step_store(fault)

    def _crash(self, node: Node, length_us: int) -> None:
        node.kill()
        self._world.after(length_us, lambda: self._start(node))

    def _stop(self, node: Node, fault: PlannedFault) -> None:
        """Ask a process to end in good order; the impatient ask a second time."""
        if node.stop is not None:
            node.is_ending = True
            node.stop()
            if node.stop_now is not None and fault.node % 2:
                self._world.after(min(fault.length_us, 3 * SECOND), node.stop_now)
        self._world.after(fault.length_us, lambda: self._start(node))
        if node in self._workers:
            # It may take its time to end; then it is still started again.
            self._world.after(fault.length_us + 30 * SECOND, lambda: self._start(node))

    def _start(self, node: Node) -> None:
        if not self._blackouts or node not in self._dispatchers:
            node.start()

    def _end_outage(self) -> None:
        self._world.weather.outages = max(0, self._world.weather.outages - 1)

    def _end_blackout(self) -> None:
        self._blackouts = max(0, self._blackouts - 1)
        for node in self._dispatchers:
            self._start(node)

    def _skew(self, node: Node, fault: PlannedFault) -> None:
        world = self._world
        drift_ppm = fault.node * 10 - 500
        node.clock.set(node.clock.now_us() + fault.size_us, drift_ppm=drift_ppm)
        if fault.node % 4:
            world.after(fault.length_us, lambda: node.clock.set(world.clock.now_us()))

    def _step_store(self, fault: PlannedFault) -> None:
        world = self._world
        world.clock.offset_us += fault.size_us
        for node in self._services if fault.node % 4 else ():
            delay_us = fault.node * 100 * MILLISECOND % MINUTE
            world.after(delay_us, lambda node=node: node.clock.set(world.clock.now_us()))  # type: ignore[misc]
