"""Outages: a world without mischief in which nobody fires for a while, and what comes after.

Everything in it is the shipped dispatcher on the memory store, in virtual time; the rest of this is
keeping count. A checker may look on: it holds every settlement against the misfire policy, but
walks each range anew, which is too slow for ten thousand occurrences.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from duly.domain.audit import Actor
from duly.domain.enums import Origin
from duly.domain.ids import schedule_id
from duly.domain.schedule_changes import first_pending
from duly.domain.schedules import Call, Definition
from duly.engine.dispatcher.context import Node as Surroundings
from duly.engine.dispatcher.dispatcher import Dispatcher
from duly.engine.dispatcher.settings import DispatcherSettings
from duly.engine.loop import Loop
from duly.store.memory import MemoryStore
from duly.store.ports.dispatch import FireResult
from duly.store.ports.queries import RunFilter
from duly.store.ports.schedules import CreateSchedule
from duly.timetable.instants import from_microseconds
from duly.timetable.interval import Interval
from tests.simulation.checker import Checker
from tests.simulation.dispatching import Listener, TimedService
from tests.simulation.executing import Observer
from tests.simulation.faults import Weather
from tests.simulation.nodes import Node
from tests.simulation.recipe import SECOND, Recipe
from tests.simulation.users import TENANT
from tests.simulation.world import Violation, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.domain.ids import ScheduleId
    from duly.domain.policies import Misfire
    from duly.domain.runs import RunRecord
    from duly.timetable.timetable import Timetable
    from tests.simulation.world import Executed

PAGE = 1000
PER_SECOND = 100
"""How many missed occurrences the fleet makes runs of, where nothing else is said."""


@dataclass(eq=False)
class Outage:
    """One dispatcher, some schedules, and what was seen of them."""

    settings: DispatcherSettings = field(
        default_factory=lambda: DispatcherSettings(catch_up_per_second=PER_SECOND)
    )
    usual_us: tuple[int, int] = (50, 1000)
    """How long a call is on its way, there or back."""
    is_checked: bool = True
    lateness_us: list[int] = field(default_factory=list)
    """Of every occurrence that was fired on time or late, in the order of the fires."""
    drained: list[tuple[int, int]] = field(default_factory=list)
    """When runs of what was owed were made, and how many."""
    filled: list[tuple[int, int]] = field(default_factory=list)
    """The same of a backfill."""
    on_drained: Callable[[int], None] | None = None
    """Told how many were drained so far."""

    def __post_init__(self) -> None:
        """Begin, with nobody there yet."""
        recipe = Recipe(seed=0, kinds=frozenset(), shards=2)
        weather = Weather(recipe)
        weather.is_calm = True
        low, high = self.usual_us
        draws = recipe.stream("outage")
        for way in ("request_delay_us", "reply_delay_us"):
            setattr(weather, way, lambda *_: draws.randint(low, high))
        self.checker = Checker()
        self.world = World(recipe, self._see, weather)
        self.checker.counts = self.checker.work.counts = self.world.counts
        self.checker.work.observer = Observer(self.world)
        self.store = self.world.store = MemoryStore(self.world.clock, shards=recipe.shards)
        self.begun_at = self.world.true_at
        self.node = Node(self.world, "d0", self._dispatch)
        self._made = 0

    def _dispatch(self, node: Node) -> None:
        store: Any = node.store
        wakeups = node.store.wakeups()
        listener = Listener(node)
        surroundings = Surroundings(host=node.name, wake_address=wakeups.address)
        dispatcher = Dispatcher(
            store, node.clock, self.settings, telemetry=listener, node=surroundings
        )
        loop = Loop(TimedService(node, dispatcher), wakeups, node.clock, listener)
        node.stop = loop.stop
        loop.run()

    # What happens

    def create(self, name: str, timetable: Timetable, misfire: Misfire, **parts: Any) -> ScheduleId:
        """Make a schedule."""
        now = self.store.now()
        definition = Definition(call=Call(task="t"), timetable=timetable, misfire=misfire, **parts)
        new_id = schedule_id(now, name.encode().ljust(10))
        command = CreateSchedule(
            id=new_id,
            tenant=TENANT,
            name=name,
            definition=definition,
            pending=first_pending(new_id, definition, now),
            owner=None,
            declared_by=None,
            actor=Actor("somebody", "simulation"),
        )
        self.store.create_schedule(command)
        self.checker.ledger.create(command)
        return new_id

    def ending(self, seconds: int) -> Timetable:
        """Return a rule of one occurrence a second, that ends after so many."""
        last = from_microseconds(self.begun_at + seconds * SECOND)
        return Interval("1s").between(None, last)

    def until(self, seconds: float) -> None:
        """Let time pass until so long after the beginning."""
        self.world.run(self.begun_at + round(seconds * SECOND))

    def start(self) -> None:
        """Start the dispatcher."""
        self.node.start()

    def stop(self) -> None:
        """End it in good order."""
        assert self.node.stop is not None
        self.node.stop()

    def crash(self, seconds: float) -> None:
        """End it where it stands, and start another after a while."""
        self.world.after(0, self.node.kill)
        self.world.after(round(seconds * SECOND), self.node.start)

    def close(self) -> None:
        """End everything."""
        self.node.kill()

    # What was seen

    def _see(self, executed: Executed) -> None:
        if executed.error is not None:
            return
        if self.is_checked:
            self.checker.see(executed)
        match executed.call.operation:
            case "fire_timers":
                self._see_fires(executed)
            case "drain_owed" if executed.result is FireResult.FIRED:
                made = len(executed.call.arguments[0].settlement.runs)
                self.drained.append((executed.at, made))
                self._made += made
                if self.on_drained is not None:
                    self.on_drained(self._made)
            case "step_backfill" if executed.result.result is FireResult.FIRED:
                self.filled.append((executed.at, executed.result.made))

    def _see_fires(self, executed: Executed) -> None:
        fires = executed.call.arguments[0].schedules
        for fire, result in zip(fires, executed.result.results, strict=False):
            if result is FireResult.FIRED and fire.late_after is not None:
                self.lateness_us.append(executed.at - fire.timer.due_at)

    def runs_of(self, schedule: ScheduleId) -> list[RunRecord]:
        """Return a schedule's runs, the newest occurrence first."""
        found: list[RunRecord] = []
        before = None
        while True:
            command = RunFilter(tenant=TENANT, schedule_id=schedule, before_id=before, limit=PAGE)
            page = self.store.list_runs(command)
            found += page
            if len(page) < PAGE:
                return found
            before = page[-1].id

    def caught_up(self, schedule: ScheduleId) -> int:
        """Return how many of a schedule's runs are late ones."""
        return sum(run.origin is Origin.CATCH_UP for run in self.runs_of(schedule))

    def skipped(self, schedule: ScheduleId) -> Counter[str]:
        """Return how many occurrences were skipped, by reason: by the ends of each range."""
        found: Counter[str] = Counter()
        for skip in self.store.list_skips(schedule, PAGE):
            found[skip.reason] += (skip.last_for - skip.first_for) // SECOND + 1
        return found

    def check_rate(self, starts: int) -> None:
        """No more is made than the rate allows, beside a second's worth for each start."""
        allowed = float(PER_SECOND * starts)
        before = self.drained[0][0] if self.drained else 0
        for at, made in self.drained:
            allowed += PER_SECOND * (at - before) / SECOND - made
            before = at
            if allowed < 0:
                raise Violation("INV-9: more is caught up than the rate allows")


def percentile(values: list[int], share: float) -> int:
    """Return the value that a share of all is not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
