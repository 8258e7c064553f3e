"""One simulation: make a world from a recipe, let it go wrong, let it be quiet, reckon."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from duly.store.memory import MemoryStore
from tests.simulation.alert_checker import AlertChecker
from tests.simulation.alert_operators import Warden
from tests.simulation.checker import Checker
from tests.simulation.crowds import Crowd
from tests.simulation.dispatching import dispatching
from tests.simulation.effect_checker import EffectChecker
from tests.simulation.executing import Observer
from tests.simulation.faults import Mischief, Weather
from tests.simulation.final_check import reckon
from tests.simulation.final_work_check import reckon_work
from tests.simulation.handing import Hands
from tests.simulation.limit_checker import LimitChecker
from tests.simulation.limiting import Caller, Limiter
from tests.simulation.nodes import Node
from tests.simulation.operators import Operator
from tests.simulation.policy_operators import Steward
from tests.simulation.recipe import SECOND, Recipe
from tests.simulation.reconcilers import Reconciler, Repeater
from tests.simulation.standing_checker import StandingChecker
from tests.simulation.users import User
from tests.simulation.watching import watching
from tests.simulation.worker_operators import Foreman
from tests.simulation.working import working
from tests.simulation.world import Violation, World

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from duly.domain.ids import ScheduleId

RECONCILERS = 2
QUIET_US = 62 * SECOND
"""After the faults stop everything due must be handled within a minute (INV-26)."""
QUIET_WATCHED_US = 110 * SECOND
"""What a receiver has refused all the time is brought to it again within this."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a simulation found, and how often things happened in it."""

    recipe: Recipe
    violation: str | None
    trace: str
    counts: Counter[str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A deliberate defect, put into the store or into the code around it."""

    name: str
    store: Callable[..., Any] = MemoryStore
    shows_in: int = 0  # a world that it is known to break: looked at before all others
    patch: Callable[[World], AbstractContextManager[object]] = lambda _: nullcontext()


HEALTHY = Mutant("healthy")


def simulate(recipe: Recipe, mutant: Mutant = HEALTHY) -> Report:
    """Play a recipe; report the first violation, or none."""
    checker = Checker()
    world = World(recipe, checker.see, Weather(recipe))
    checker.counts = checker.work.counts = world.counts
    checker.work.observer = observer = Observer(world)
    world.store = mutant.store(world.clock, shards=recipe.shards)
    if recipe.has_effects:
        checker.work.effects = EffectChecker(checker.work, observer.outside)
    if recipe.has_limits:
        checker.work.limits = observer.limits = LimitChecker(checker.work, world)
        lose_openings(world)
    if recipe.has_policies:
        checker.watch_policies(world.store)
        lose_openings(world)
    if recipe.has_standing:
        checker.work.standing = StandingChecker(checker.ledger, checker.work, world)
    if recipe.watchers:
        checker.alerts = AlertChecker(world)
    violation = None
    try:
        with mutant.patch(world):
            play(world, observer, checker.alerts)
        reckon_everything(checker, world)
    except Violation as broken:
        violation = str(broken)
    finally:
        for node in world.nodes:
            node.kill()
        world.store.close()
    return Report(recipe, violation, world.trace, world.counts)


def reckon_everything(checker: Checker, world: World) -> None:
    """Compare all that is kept with all that was told and seen."""
    runs = reckon(checker.ledger, checker.work.runs, world)
    reckon_work(checker.work, runs, world)
    if checker.work.effects is not None:
        checker.work.effects.reckon(world.store)
    if checker.work.limits is not None:
        checker.work.limits.reckon(runs)
    if checker.backfills is not None:
        checker.backfills.reckon(world.store.now())
    if checker.work.standing is not None:
        checker.work.standing.reckon()
    if checker.alerts is not None:
        checker.alerts.reckon()


def lose_openings(world: World) -> None:
    """Let some die between the end of a run and letting the next one go, where that shows."""
    if not isinstance(world.store, MemoryStore):
        return
    let_go = world.store._open  # noqa: SLF001 - in between two transactions of one call

    def let_go_or_die(gates: set[str] | None, limit: int) -> int:
        if gates is not None and world.weather.loses_opening():
            world.counts["lost openings"] += 1
            return 0
        return let_go(gates, limit)

    world.store._open = let_go_or_die  # type: ignore[method-assign] # noqa: SLF001 - as above


def play(world: World, observer: Observer, alerts: AlertChecker | None = None) -> None:
    """Let dispatchers, workers, watchers and users live through the faults, and then through the quiet."""
    recipe, hands = world.recipe, Hands(world)
    known: list[ScheduleId] = []
    dispatchers = [Node(world, f"d{n}", dispatching(n, hands)) for n in range(recipe.dispatchers)]
    users = [Node(world, f"u{n}", User(recipe, n, known).live) for n in range(recipe.users)]
    workers = [Node(world, f"w{n}", working(n, observer, hands)) for n in range(recipe.workers)]
    if workers:
        users.append(Node(world, "o0", Operator(recipe).live))
    if recipe.has_policies:
        users.append(Node(world, "p0", Steward(recipe, known).live))
    if recipe.has_limits:
        users.append(Node(world, "c0", Caller(recipe, recipe.users, known).live))
        users.append(Node(world, "l0", Limiter(recipe).live))
    if recipe.has_effects:
        for number in range(RECONCILERS):
            reconciler = Reconciler(recipe, number, observer.outside)
            users.append(Node(world, f"r{number}", reconciler.live))
        users.append(Node(world, "r9", Repeater(recipe, observer.outside).live))
    watchers = []
    if alerts is not None:
        programs = [watching(recipe, number, alerts) for number in range(recipe.watchers)]
        watchers = [Node(world, f"g{number}", one) for number, one in enumerate(programs)]
        users.append(Node(world, "a0", Warden(recipe).live))
    if recipe.has_standing:
        # Nobody stops this one: whoever else would put everybody back into service?
        Node(world, "f0", Foreman(recipe, workers).live)
    if hands.is_any:
        Node(world, "q0", Crowd(recipe).live)
    mischief = Mischief(world, dispatchers, [*workers, *watchers], users)
    for node in world.nodes:
        node.start()
    until = recipe.start_at + recipe.seconds * SECOND
    world.run(until)
    mischief.end()
    world.run(until + (QUIET_WATCHED_US if watchers else QUIET_US))
