"""A fleet on virtual time: dispatchers and workers on a memory store, ticked when they like."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from duly.domain.enums import Lane, TaskKind
from duly.domain.outcomes import Succeeded
from duly.domain.runs import TaskPolicy
from duly.domain.tasks import NO_LIMITS, TaskLimits
from duly.engine.dispatcher.context import Node
from duly.engine.dispatcher.dispatcher import Dispatcher
from duly.engine.dispatcher.settings import DispatcherSettings
from duly.engine.manual_clock import START_US, ManualClock
from duly.engine.worker import Worker, WorkerSettings
from duly.errors import StoreUnavailable
from duly.store.memory import MemoryStore
from duly.store.ports.queries import RunFilter
from duly.store.ports.schedules import Stale
from duly.testing import SeededDraws
from duly.timetable.instants import duration_microseconds
from duly_conformance.kit import add_runs, change_of, new_run, new_schedule

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.domain.ids import RunId
    from duly.domain.outcomes import End
    from duly.domain.runs import AttemptRecord, RunRecord
    from duly.domain.schedule_changes import ScheduleChange
    from duly.domain.schedules import ScheduleRecord
    from duly.domain.tasks import RunContext
    from duly.engine.executors.executor import AttemptWork
    from duly.engine.loop import Service
    from duly.store.ports.execution import ClaimedRun
    from duly.telemetry import Event
    from duly.telemetry.tracing import Tracing

EventT = TypeVar("EventT", bound="Event")
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
TICKS_MAX = 20_000
"""More ticks without any time passing would be spinning."""


class Recorder:
    """Keeps what is told."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: type[EventT]) -> list[EventT]:
        return [event for event in self.events if isinstance(event, kind)]


class Line:
    """The line between one dispatcher and the store: it can be cut, or lose an answer."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.is_cut = False
        self.loses: set[str] = set()
        """Operations whose next answer is lost after they were carried out."""
        self.breaks: dict[str, Callable[[Any], bool]] = {}
        """Operations that fail, for a reason of their own, on a command that matches."""
        self.breaks_with: Exception = ValueError("a row that nobody can read")
        self.refuses: dict[str, Callable[[Any], bool]] = {}
        """Operations that the store does not answer, on a command that matches."""
        self.asked: dict[str, list[Any]] = {}
        """What each operation was asked with."""
        self.fails_at: int | None = None
        """Which call fails; after it was carried out if `is_done`."""
        self.is_done = False
        self.count = 0
        self.pauses: dict[str, Callable[[], None]] = {}
        """What happens, once, before the answer of an operation is seen."""
        self.calls: list[str] = []

    def finish_and_claim(self, finishes: Any, claim: Any) -> Any:
        """Do the one and then the other, each of which can go wrong."""
        return self.finish_runs(claim.worker, finishes), self.claim_runs(claim)

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._store, name)
        if not callable(operation):
            return operation

        def call(*arguments: Any) -> Any:
            self.calls.append(name)
            self.count += 1
            self.asked.setdefault(name, []).extend(arguments[:1])
            is_failing = self.count == self.fails_at
            if self.is_cut or (is_failing and not self.is_done):
                raise StoreUnavailable("memory", "is cut off", "try again")
            if name in self.refuses and self.refuses[name](arguments[-1]):
                raise StoreUnavailable("memory", "took too long", "ask for less")
            if name in self.breaks and self.breaks[name](arguments[-1]):
                raise self.breaks_with
            answer = operation(*arguments)
            self.pauses.pop(name, lambda: None)()
            if name in self.loses or is_failing:
                self.loses.discard(name)
                raise StoreUnavailable("memory", "lost the answer", "look again")
            return answer

        return call


class Scripted:
    """An executor whose code does what the test says, when the test says it."""

    def __init__(self) -> None:
        self.works: list[AttemptWork] = []
        self.asked: list[AttemptWork] = []
        self.insisted: list[AttemptWork] = []
        self.is_closed = False
        self.can_be_stopped = True
        """Whether insisting helps; a thread's code can't be stopped."""
        self.on_start: Callable[[AttemptWork], None] = lambda work: work.began()
        self.on_ask: Callable[[AttemptWork], None] = lambda work: None
        self.on_insist: Callable[[AttemptWork], None] = lambda work: None

    def start(self, work: AttemptWork) -> None:
        self.works.append(work)
        self.on_start(work)

    def ask(self, work: AttemptWork) -> None:
        self.asked.append(work)
        self.on_ask(work)

    def insist(self, work: AttemptWork) -> bool:
        self.insisted.append(work)
        if self.can_be_stopped:
            self.on_insist(work)
        return self.can_be_stopped

    def close(self) -> None:
        self.is_closed = True

    def does(self, end: End) -> None:
        """Let every work begin and end like this, at once."""

        def start(work: AttemptWork) -> None:
            work.began()
            work.ended(end)

        self.on_start = start


@dataclass
class Known:
    """A task that a worker knows."""

    name: str
    policy: TaskPolicy = field(default_factory=TaskPolicy)
    kind: TaskKind = TaskKind.THREAD
    plan: None = None
    limits: TaskLimits = NO_LIMITS

    def prepare(self, claimed: ClaimedRun, live: RunContext) -> Callable[[], Any]:
        return lambda: (claimed, live)


class Tasks:
    """The tasks that a worker knows."""

    def __init__(self, *known: Known) -> None:
        self._known = {one.name: one for one in known}

    def find(self, name: str) -> Known | None:
        return self._known.get(name)

    def names(self) -> list[str]:
        return sorted(self._known)


@dataclass
class Shop:
    """A worker, its executor and its line to the store."""

    worker: Worker
    executor: Scripted
    line: Line

    @property
    def works(self) -> list[AttemptWork]:
        return self.executor.works

    def end(self, end: End | None = None, number: int = -1) -> None:
        """Let a work end, the last one unless told, and the worker see it."""
        self.works[number].ended(end or Succeeded())
        self.worker.wake()
        self.worker.tick()


class Rig:
    """A store, its clock, and the dispatchers and workers on it."""

    def __init__(self, shards: int = 4) -> None:
        self.store_clock = ManualClock()
        self.store = MemoryStore(self.store_clock, shards=shards)
        self.clocks = [self.store_clock]
        self.fleet: list[Dispatcher] = []
        self.workers: list[Worker] = []
        self._own_clocks: dict[int, ManualClock] = {}
        self.lines: list[Line] = []
        self.recorder: Any = Recorder()
        self.tracing: Tracing | None = None

    def dispatcher(self, *, own_clock: bool = False, **parts: Any) -> Dispatcher:
        """Add a dispatcher; with a clock of its own if that is to go wrong.

        With `ahead`, made of its line, it begins to fire what it hears of later.
        """
        ahead = parts.pop("ahead", None)
        node = Node(**{key: parts.pop(key) for key in ("zones",) if key in parts})
        clock = self._clock(is_own=own_clock)
        line = Line(self.store)
        made = Dispatcher(
            line,
            clock,
            DispatcherSettings(**parts),
            telemetry=self.recorder,
            node=node,
            begin_fire=None if ahead is None else ahead(line),
            tracing=self.tracing,
        )
        self.fleet.append(made)
        self.lines.append(line)
        self._own_clocks[id(made)] = clock
        return made

    def _clock(self, *, is_own: bool) -> ManualClock:
        if not is_own:
            return self.store_clock
        clock = ManualClock(self.now)
        self.clocks.append(clock)
        return clock

    def worker(
        self,
        *known: Known,
        kinds: tuple[TaskKind, ...] = tuple(TaskKind),
        own_clock: bool = False,
        **parts: Any,
    ) -> Shop:
        """Add a worker that knows `remind` and `report`, or the tasks that are given."""
        clock = self._clock(is_own=own_clock)
        line, executor = Line(self.store), Scripted()
        wakeups = parts.pop("wakeups", None)
        tasks = Tasks(*(known or (Known("remind"), Known("report"))))
        made = Worker(
            line,
            clock,
            tasks,
            dict.fromkeys(kinds, executor),
            WorkerSettings(**parts),
            telemetry=self.recorder,
            draws=SeededDraws(),
            wakeups=wakeups,
            tracing=self.tracing,
        )
        self.workers.append(made)
        self._own_clocks[id(made)] = clock
        return Shop(made, executor, line)

    def kill(self, service: Dispatcher | Worker) -> None:
        """End a process without a word, as SIGKILL does."""
        if isinstance(service, Worker):
            self.workers.remove(service)
        else:
            self.fleet.remove(service)

    @property
    def now(self) -> int:
        return self.store_clock.now_us()

    def at(self, duration: str) -> int:
        """Return the instant that lies a duration after the start."""
        return START_US + duration_microseconds(duration, "duration")

    def advance(self, microseconds: int) -> None:
        """Let time pass without anybody ticking."""
        for clock in self.clocks:
            clock.advance(microseconds)

    def run(self, duration: int | str) -> None:
        """Tick everybody whenever they want to be, for a while."""
        length = duration if isinstance(duration, int) else duration_microseconds(duration, "for")
        end = self.now + length
        ticks, last = 0, self.now
        while True:
            services: list[Service] = [*self.fleet, *self.workers]
            waits = [max(0, one.tick() - self._monotonic(one)) for one in services]
            step = max(0, min([*waits, end - self.now]))
            ticks = ticks + 1 if self.now == last else 0
            last = self.now

            assert ticks < TICKS_MAX, "it spins"
            if self.now >= end and step == 0 and min(waits, default=1) > 0:
                return
            if step:
                self.advance(step)

    def run_until(self, instant: int) -> None:
        """Tick until the store's clock shows an instant."""
        self.run(instant - self.now)

    def schedule(self, name: str = "nightly", **parts: Any) -> ScheduleRecord:
        """Make a schedule."""
        return self.store.create_schedule(new_schedule(self.now, name, **parts)).record

    def delay(self, microseconds: int, text: str = "reminder", **parts: Any) -> bytes:
        """Ask for a run after a while."""
        order = add_runs(new_run(self.now + microseconds, text, **parts))
        return self.store.add_runs(order)[0].id

    def change(self, record: ScheduleRecord, change: ScheduleChange) -> ScheduleRecord:
        """Apply a change."""
        answer = self.store.change_schedule(change_of(record, change))

        assert not isinstance(answer, Stale)
        return answer

    def see(self, record: ScheduleRecord) -> ScheduleRecord:
        """Return a schedule as it is now."""
        seen = self.store.get_schedule(record.id)

        assert seen is not None
        return seen.record

    def runs(self, record: ScheduleRecord | None = None) -> list[RunRecord]:
        """Return runs in order of the occurrence they stand for."""
        schedule_id = None if record is None else record.id
        wanted = RunFilter(tenant="default", schedule_id=schedule_id, limit=100_000)
        found = self.store.list_runs(wanted)
        return sorted(found, key=lambda run: run.scheduled_for)

    def instants(self, record: ScheduleRecord) -> list[int]:
        """Return what a schedule's runs were scheduled for, in seconds after the start."""
        return [(run.scheduled_for - START_US) // SECOND for run in self.runs(record)]

    def lateness(self) -> list[int]:
        """Return how long after its due each run became visible, in microseconds."""
        return [run.fired_at - run.not_before for run in self.runs() if run.fired_at is not None]

    def owners(self, lane: Lane = Lane.LIVE) -> list[tuple[int, ...]]:
        """Return the shards of each dispatcher."""
        return [one.shards(lane) for one in self.fleet]

    def enqueue(self, text: str = "reminder", **parts: Any) -> RunId:
        """Ask for a run at once."""
        return self.store.add_runs(add_runs(new_run(None, text, **parts)))[0].id

    def state(self, run: RunId) -> str:
        """Return where a run is, or its outcome."""
        return str(self.look(run).state)

    def look(self, run: RunId) -> RunRecord:
        """Return a run as it is now."""
        found = self.store.get_run(run)

        assert found is not None
        return found

    def attempts(self, run: RunId) -> list[AttemptRecord]:
        """Return every claim of a run."""
        return self.store.list_attempts(run)

    def ended(self, run: RunId) -> list[tuple[str, str | None]]:
        """Return state and reason of every claim of a run."""
        return [(str(one.state), one.reason) for one in self.attempts(run)]

    def _monotonic(self, service: Service) -> int:
        return self._own_clocks.get(id(service), self.store_clock).monotonic_us()
