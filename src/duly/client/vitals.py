"""Vitals of schedules, tasks and tenants; proof of a day.

Vitals are computed on request, from a bounded number of the newest runs. Nothing is stored for
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from duly.client.doubt_view import check_view
from duly.client.last_ends import endings_view
from duly.client.parameters import read_choice, read_limit, read_looked_for, require_at_most
from duly.client.runs import run_views
from duly.client.schedule_history import Occurrence, read_occurrences
from duly.client.schedule_orders import find_schedule
from duly.client.status import completion_findings, trigger_findings
from duly.client.vitals_view import (
    EITHER,
    SUCCEEDED,
    VERIFIED,
    ActiveAttempt,
    CompletionVitals,
    ScheduleVitals,
    TriggerVitals,
    VitalSigns,
    WindowVitals,
    WorkVitals,
    span,
)
from duly.domain import verification
from duly.domain.backfill import BackfillStatus
from duly.domain.enums import RunState, ScheduleStatus, SkipReason
from duly.domain.ids import RunId, ScheduleId, occurrence_run_id
from duly.domain.runs import OccurrenceStatusKind
from duly.domain.verification import ProofStatus, Scope, check_name
from duly.domain.vitals import (
    RUNS_LOOKED_AT,
    WINDOW_RUNS,
    LastEnd,
    LastEnds,
    LastError,
    VitalsFilter,
    summarize_runs,
    useful_at,
)
from duly.errors import NotFound, UsageError
from duly.store.derived_queries import Reach, read_signs
from duly.store.ports.backfill import LISTED_MAX
from duly.store.ports.queries import RunFilter, ScheduleFilter
from duly.timetable.combinators import zone_of
from duly.timetable.instants import from_microseconds, moment_or_none, to_microseconds
from duly.timetable.once import at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from duly.client.caller import Caller
    from duly.client.doubt_view import Check
    from duly.client.run_view import Run
    from duly.client.runs import Runs
    from duly.client.schedule_orders import Reference
    from duly.domain.schedules import ScheduleRecord
    from duly.domain.vitals import RunVital, Signs
    from duly.store.ports.backfill import BackfillRecord
    from duly.store.ports.queries import Findings, ScheduleSnapshot, TenantCounts

    Line = list[Run]
    Place = tuple[str, UUID]


LINE_MAX = 100
"""So many runs of one occurrence are looked at, the newest."""
ASKED_MAX = 1_000
"""So many runs are asked about at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenOccurrence:
    """One occurrence: what became of it, and how sure one can be."""

    occurrence: Occurrence
    runs: tuple[Run, ...]
    """Its run and those that repeat it, the first one first."""
    check: Check | None
    """The last look at its result."""
    scope: Scope
    standing: str
    why: str

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            **self.occurrence.to_json(),
            "standing": self.standing,
            "why": self.why,
            "runs": [
                {"id": str(run.id), "origin": run.origin, "state": run.state} for run in self.runs
            ],
            "check": None if self.check is None else self.check.to_json(),
            "scope": self.scope.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What is known about all of a day's occurrences of a schedule."""

    schedule: str
    day: date
    tz: str
    occurrences: tuple[ProvenOccurrence, ...]

    @property
    def is_proven(self) -> bool:
        """Whether every occurrence of the day is proven, and there is one."""
        found = [one.standing for one in self.occurrences]
        return bool(found) and all(standing == ProofStatus.PROVEN for standing in found)

    @property
    def is_ambiguous(self) -> bool:
        """Whether nobody knows what one of them did."""
        return any(one.standing == ProofStatus.AMBIGUOUS for one in self.occurrences)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "schedule": self.schedule,
            "day": self.day.isoformat(),
            "zone": self.tz,
            "is_proven": self.is_proven,
            "occurrences": [one.to_json() for one in self.occurrences],
        }


class Proving:
    """Answers whether a day's work is done, all of it and once."""

    def __init__(self, caller: Caller, runs: Runs) -> None:
        self._caller = caller
        self._runs = runs

    def prove(self, schedule: Reference, day: date | str) -> Proof:
        """Return what is known of a schedule's occurrences on a day, in its own time zone."""
        seen = find_schedule(self._caller, schedule)
        read = _read_day(day)
        tz = zone_of(seen.record.definition.timetable) or "UTC"
        found = read_occurrences(self._caller, seen, _span(read, tz))
        return Proof(
            schedule=seen.record.name,
            day=read,
            tz=tz,
            occurrences=self._judged(found, self._lines(seen, found)),
        )

    def _lines(self, seen: ScheduleSnapshot, occurrences: Sequence[Occurrence]) -> list[Line]:
        """Return the runs of each occurrence: its own, and what people have run once more."""
        if not occurrences:
            return []
        lines: dict[datetime, Line] = {one.scheduled_for: [] for one in occurrences}
        for run in self._runs_within(seen, min(lines), max(lines)):
            line = lines.get(run.scheduled_for)
            if line is not None and len(line) < LINE_MAX:
                line.append(run)
        known = {run.id: run for line in lines.values() for run in line}
        standing = _runs_that_stand(seen.record.id, occurrences)
        known |= self._named(sorted(set(standing.values()) - known.keys()))
        for one in occurrences:
            line = lines[one.scheduled_for]
            # One that stands for it is of another instant.
            its = standing.get(one.scheduled_for)
            stand_in = None if its is None else known.get(its)
            if stand_in is not None and its not in {run.id for run in line}:
                line.append(stand_in)
        return [
            sorted(lines[one.scheduled_for], key=lambda run: (run.created_at, run.id))
            for one in occurrences
        ]

    def _runs_within(self, seen: ScheduleSnapshot, first: datetime, last: datetime) -> Line:
        most = self._caller.settings.listed_max
        found = self._runs.list(
            schedule=UUID(bytes=seen.record.id),
            since=first,
            until=last + timedelta(microseconds=1),
            limit=most,
        )
        if len(found) == most:
            remedy = f"what can be proven has fewer than {most:,}: look at them with app.runs.list"
            raise UsageError("day", first.date().isoformat(), "has too many runs", remedy)
        return found

    def _named(self, ids: Sequence[UUID]) -> dict[UUID, Run]:
        caller = self._caller
        found = [
            record
            for some in _parts(RunId(one.bytes) for one in ids)
            for record in caller.store.get_runs(some).values()
            if record.tenant == caller.tenant
        ]
        return {run.id: run for run in run_views(caller, found)}

    def _judged(
        self, occurrences: Sequence[Occurrence], lines: Sequence[Line]
    ) -> tuple[ProvenOccurrence, ...]:
        now = from_microseconds(self._caller.store.now())
        ids = dict.fromkeys(RunId(run.id.bytes) for line in lines for run in line)
        findings: dict[RunId, Findings] = {}
        for some in _parts(ids):
            findings |= self._caller.store.read_findings(some)
        return tuple(
            _proven(one, line, [findings[RunId(run.id.bytes)] for run in line], now)
            for one, line in zip(occurrences, lines, strict=True)
        )


def _runs_that_stand(
    schedule: ScheduleId, occurrences: Sequence[Occurrence]
) -> dict[datetime, UUID]:
    """Return the run that stands for each occurrence: where that was replaced too, the last one.

    A run that was in the way of an occurrence does not stand for it.
    """
    stand_in: dict[UUID, UUID] = {}
    found: dict[datetime, UUID] = {}
    for one in reversed(occurrences):
        was_in_the_way = one.verdict == "skipped" and one.reason != SkipReason.COALESCED
        if one.run is not None and not was_in_the_way:
            own = UUID(bytes=occurrence_run_id(schedule, to_microseconds(one.scheduled_for)))
            found[one.scheduled_for] = stand_in[own] = stand_in.get(one.run, one.run)
    return found


def _parts(ids: Iterable[RunId]) -> Iterator[list[RunId]]:
    """Return as many at a time as are asked about at once."""
    rest = iter(ids)
    while some := list(islice(rest, ASKED_MAX)):
        yield some


def _proven(
    occurrence: Occurrence, runs: Sequence[Run], findings: Sequence[Findings], now: datetime
) -> ProvenOccurrence:
    """Judge one by all of its runs: the last check counts, and the last that knew its scope."""
    check, scope = None, Scope()
    for one in findings:
        check = one.verdicts[-1] if one.verdicts else check
        scope = one.scope if one.scope.is_known else scope
    evidence = verification.OccurrenceEvidence(
        OccurrenceStatusKind(occurrence.verdict),
        tuple(RunState(run.state) for run in runs),
        None if check is None else check.finding,
        scope,
        is_due=occurrence.scheduled_for <= now,
    )
    standing, why = verification.judge(evidence)
    return ProvenOccurrence(
        occurrence=occurrence,
        runs=tuple(runs),
        check=None if check is None else check_view(check),
        scope=scope,
        standing=str(standing),
        why=why,
    )


def _read_day(day: object) -> date:
    if isinstance(day, datetime):
        return day.date()
    if isinstance(day, date):
        return day
    try:
        return date.fromisoformat(str(day))
    except ValueError as error:
        remedy = "give a date, such as 2026-04-03"
        raise UsageError("day", day, "is not a day", remedy) from error


def _span(day: date, tz: str) -> tuple[int, int]:
    """Return the first instant of a zone's day, and that of the next."""
    return _midnight(day, tz), _midnight(day + timedelta(days=1), tz)


def _midnight(day: date, tz: str) -> int:
    # One that a gap swallows is the first moment after it.
    first = at(datetime.combine(day, time()), tz=tz).next(datetime.min.replace(tzinfo=UTC))
    assert first is not None, "every wall time has an instant under the default policies"
    return to_microseconds(first)


ATTEMPTS_SHOWN_MAX = 20
NOT_WELL_SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class VitalsScope:
    """Whose vitals they are, and as of when."""

    of: str
    name: str
    now: int


@dataclass(frozen=True, slots=True)
class Totals:
    """What is known of all that is a tenant's, and not of a window alone."""

    counts: TenantCounts

    @property
    def oldest_queued_at(self) -> int | None:
        """When the run that waits longest was queued."""
        waiting = [one.oldest_at for one in self.counts.queues.values()]
        return min((one for one in waiting if one is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class VitalsData:
    """What was read."""

    signs: Sequence[Signs]
    runs: Sequence[RunVital]
    """Newest first."""
    is_whole: bool
    """Whether those runs are all there are on record."""
    checked: frozenset[str]
    """Names of tasks that are known, checks among them."""
    owed: int
    backfills: Sequence[BackfillRecord]
    total: Totals | None = None
    schedules_more: int = 0


def schedule_vitals(signs: Signs) -> ScheduleVitals:
    """Show one schedule on a line."""
    record = signs.record
    return ScheduleVitals(
        id=UUID(bytes=record.id),
        name=record.name,
        task=record.definition.call.task,
        status=str(record.status),
        as_of=from_microseconds(signs.now),
        trigger=_trigger([signs], 0),
        completion=_completion([signs], _useful_by([signs])),
    )


def vital_signs(subject: VitalsScope, found: VitalsData) -> VitalSigns:
    """Show all that is known of a schedule, a task or a tenant."""
    is_one = subject.of == "schedule"
    rows = [] if is_one else [schedule_vitals(one) for one in found.signs]
    bad = [one for one in rows if not (one.trigger.is_well and one.completion.is_well)]
    bad.sort(key=lambda one: (-(one.completion.ratio or 0.0), one.name))

    def is_checked(task: str) -> bool:
        return check_name(task) in found.checked

    window = summarize_runs(found.runs, is_checked, subject.now)
    signs = found.signs
    by = _useful_by(signs)
    if not signs and subject.of == "task":
        by = VERIFIED if is_checked(subject.name) else SUCCEEDED
    return VitalSigns(
        of=subject.of,
        name=subject.name,
        as_of=from_microseconds(subject.now),
        trigger=_trigger(signs, found.owed),
        completion=_completion(signs, by, None if is_one else _ends_of(found.runs, is_checked)),
        work=_work(found, subject.now),
        window=WindowVitals(window=window, is_whole=found.is_whole),
        not_well=tuple(bad[:NOT_WELL_SHOWN_MAX]),
        schedules_more=found.schedules_more,
    )


def _trigger(signs: Sequence[Signs], owed: int) -> TriggerVitals:
    triggers = [one.trigger for one in signs]
    last = max(
        (one for one in triggers if one.last_fired_at is not None),
        key=lambda one: one.last_fired_at or 0,
        default=None,
    )
    return TriggerVitals(
        schedules=sum(one.record.status is ScheduleStatus.ACTIVE for one in signs),
        next_due_at=moment_or_none(_least([one.next_due_at for one in triggers])),
        last_fired_at=None if last is None else moment_or_none(last.last_fired_at),
        last_run=None if last is None or last.last_run is None else UUID(bytes=last.last_run),
        lateness=None if last is None else span(last.late_us),
        overdue=span(_most([one.overdue_us for one in triggers])),
        fires=sum(one.record.fires for one in signs),
        overlaps=sum(one.record.overlaps for one in signs),
        owed=owed,
        findings=tuple(finding for one in signs for finding in trigger_findings(one)),
    )


class _Ends(NamedTuple):
    """How runs ended that may have no schedule."""

    ends: LastEnds
    useful: LastEnd | None
    finished_at: int | None


def _ends_of(runs: Sequence[RunVital], is_checked: Callable[[str], bool]) -> _Ends:
    """Return how runs ended, whoever has asked for them."""
    success, verified, useful = list[LastEnd](), list[LastEnd](), list[LastEnd]()
    errors: list[LastError] = []
    for run in runs:
        of = RunId(run.run_id), run.scheduled_for
        for found, ended_at in (
            (success, useful_at(run, is_checked=False)),
            (verified, useful_at(run, is_checked=True)),
            (useful, useful_at(run, is_checked=is_checked(run.task))),
        ):
            if ended_at is not None:
                found.append(LastEnd(*of, ended_at))
        if run.fault is not None:
            errors.append(LastError(*of, run.fault.at, run.fault.reason, run.fault.error_end))
    ends = LastEnds(
        success=_newest(success),
        verified=_newest(verified),
        error=max(errors, key=lambda one: one.at, default=None),
    )
    return _Ends(ends, _newest(useful), _most([run.attempt_ended_at for run in runs]))


def _completion(
    signs: Sequence[Signs], useful_by: str, others: _Ends | None = None
) -> CompletionVitals:
    """Put completions together; of several the age and cadence are those of the worst."""
    seen = [one.completion for one in signs]
    every = [one.ends for one in seen] + ([] if others is None else [others.ends])
    merged = endings_view(
        LastEnds(
            success=_newest([one.success for one in every]),
            verified=_newest([one.verified for one in every]),
            error=max(
                (one.error for one in every if one.error is not None),
                key=lambda one: one.at,
                default=None,
            ),
            unknown_through=_most([one.unknown_through for one in every]),
        )
    )
    last = [one.useful for one in seen] + ([] if others is None else [others.useful])
    useful = endings_view(LastEnds(success=_newest(last))).success
    finished = [one.finished_at for one in seen]
    finished += [] if others is None else [others.finished_at]
    worst = max(seen, key=lambda one: (one.is_stale, one.ratio or 0.0), default=None)
    return CompletionVitals(
        last_finished_at=moment_or_none(_most(finished)),
        last_success=merged.success,
        last_verified=merged.verified,
        last_error=merged.error,
        last_useful=useful,
        useful_by=useful_by,
        age=None if worst is None else span(worst.age_us),
        cadence=None if worst is None else span(worst.cadence_us),
        behind=0 if worst is None else worst.behind,
        unknown_through=merged.unknown_through,
        findings=tuple(finding for one in signs for finding in completion_findings(one)),
    )


def _work(found: VitalsData, now: int) -> WorkVitals:
    by_state: dict[RunState, list[RunVital]] = {}
    for run in found.runs:
        by_state.setdefault(run.state, []).append(run)

    def count(state: RunState) -> int:
        return len(by_state.get(state, ()))

    going_on = sorted(by_state.get(RunState.RUNNING, ()), key=lambda one: one.claimed_at or now)
    waiting = [one.fired_at for one in by_state.get(RunState.QUEUED, ())]
    oldest, total = _least(waiting), found.total
    running, queued, retrying = len(going_on), len(waiting), count(RunState.RETRYING)
    dead, ambiguous = count(RunState.DEAD), count(RunState.AMBIGUOUS)
    if total is not None:
        counts = total.counts
        oldest, running = total.oldest_queued_at, sum(counts.held.values())
        queued = sum(one.queued for one in counts.queues.values())
        retrying, dead, ambiguous = counts.retrying, counts.dead, counts.ambiguous
    return WorkVitals(
        running=running,
        attempts=tuple(_attempt(one, now) for one in going_on[:ATTEMPTS_SHOWN_MAX]),
        queued=queued,
        queue_delay=None if oldest is None else span(max(now - oldest, 0)),
        retrying=retrying,
        dead=dead,
        ambiguous=ambiguous,
        backfills=len(found.backfills),
        backfill_left=sum(one.total - one.looked_at for one in found.backfills),
    )


def _attempt(run: RunVital, now: int) -> ActiveAttempt:
    def age(since: int | None) -> int | None:
        return None if since is None else max(now - since, 0)

    held = span(age(run.claimed_at))
    assert held is not None, "a run that goes on was claimed"
    return ActiveAttempt(
        run=UUID(bytes=run.run_id),
        scheduled_for=from_microseconds(run.scheduled_for),
        task=run.task,
        attempt=run.attempt,
        worker=run.worker,
        age=held,
        heartbeat_age=span(age(run.heartbeat_at)),
        progress_done=run.progress_done,
        progress_total=run.progress_total,
        progress_age=span(age(run.progress_at)),
    )


def _useful_by(signs: Sequence[Signs]) -> str:
    kinds = {one.completion.is_checked for one in signs}
    if len(kinds) == 1:
        return VERIFIED if kinds.pop() else SUCCEEDED
    return EITHER if kinds else SUCCEEDED


def _newest(ends: Sequence[LastEnd | None]) -> LastEnd | None:
    return max((one for one in ends if one is not None), key=lambda one: one.at, default=None)


def _least(instants: Sequence[int | None]) -> int | None:
    return min((one for one in instants if one is not None), default=None)


def _most(instants: Sequence[int | None]) -> int | None:
    return max((one for one in instants if one is not None), default=None)


SCHEDULES_MAX = 100
"""Of a task or a tenant so many active schedules are looked at, and on a page at the most."""
LOOKED_AT_MAX = 200
"""So many schedules are looked at at a glance, if they are named."""
OPEN_MAX = 100
"""So many open runs of a task are looked at besides its newest."""
PAGES_MAX = 3
"""So many pages of a search are read for a window: each at a bounded price."""
_IN_WORK = frozenset({RunState.RUNNING, RunState.RETRYING, RunState.DEAD, RunState.AMBIGUOUS})
_ALL_OF_ONE = Reach(window=WINDOW_RUNS, ends=RUNS_LOOKED_AT)
_ON_A_LINE = Reach(window=5)
"""A line tells of when work last ended, and nothing else that a longer look would find."""
_AT_A_GLANCE = Reach(window=3, ends=20, has_errors=False)
_ACTIVE = frozenset({ScheduleStatus.ACTIVE})


class VitalsPage(NamedTuple):
    """Schedules with their vitals, and after which one the next page begins."""

    items: list[ScheduleVitals]
    after: Place | None


class TimeWindows(NamedTuple):
    """What the newest runs tell: all of the tenant's, and those of some schedules."""

    tenant: WindowVitals
    schedules: dict[UUID, WindowVitals]


class Vitals:
    """How what an application has promised is doing."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def of_schedule(self, schedule: Reference) -> VitalSigns:
        """Return all that is known of how one schedule is doing, by its name or id."""
        seen = find_schedule(self._caller, schedule)
        store, record = self._caller.store, seen.record
        (signs,) = read_signs(store, [record], _ALL_OF_ONE)
        subject = VitalsScope("schedule", record.name, seen.now)
        return vital_signs(
            subject,
            VitalsData(
                signs=[signs],
                runs=signs.runs,
                is_whole=len(signs.runs) < WINDOW_RUNS and record.pruned_through is None,
                checked=self._checked(),
                owed=len(store.list_owed(record.id)),
                backfills=self._backfills(record.id),
            ),
        )

    def of_task(self, name: str) -> VitalSigns:
        """Return how a task is doing, by all its schedules and whoever else asks for it."""
        task = read_looked_for("task", name)
        if task is None:
            raise UsageError("task", name, "names no task", "give its name")
        if task not in self._caller.store.list_tasks() and self._caller.tasks.find(task) is None:
            raise NotFound("task", task, "list them with duly task list")
        return self._of_many(VitalsScope("task", task, self._caller.store.now()), task)

    def of_tenant(self, name: str | None = None) -> VitalSigns:
        """Return how a tenant is doing: this application's own, which is the only one it sees."""
        tenant = self._caller.tenant
        if name not in (None, tenant):
            remedy = "open an application of that tenant, or ask a server for it"
            raise NotFound("tenant", name, remedy)
        return self._of_many(VitalsScope("tenant", tenant, self._caller.store.now()), None)

    def schedules(  # noqa: PLR0913 - each filter is an argument
        self,
        *,
        after: Place | None = None,
        limit: int = SCHEDULES_MAX,
        status: str | None = "active",
        task: str | None = None,
        name_prefix: str | None = None,
        with_errors: bool = True,
    ) -> VitalsPage:
        """Return a page of schedules by name, each with what its trigger does and what comes of it.

        Active ones, unless another status is named, or None for all that are not deleted. Without
        errors fewer runs are looked at, and the last error is not told: that is most of the price.
        """
        most = read_limit(limit, SCHEDULES_MAX)
        tenant, store = self._caller.tenant, self._caller.store
        place = None if after is None else (tenant, after[0], ScheduleId(after[1].bytes))
        command = ScheduleFilter(
            tenant=tenant,
            statuses=None
            if status is None
            else frozenset({read_choice("status", status, ScheduleStatus)}),
            task=read_looked_for("task", task),
            name_prefix=read_looked_for("name_prefix", name_prefix),
            after=place,
            limit=most + 1,
        )
        records = store.list_schedules(command)
        reach = _ON_A_LINE if with_errors else _AT_A_GLANCE
        signs = read_signs(store, records[:most], reach)
        items = [schedule_vitals(one) for one in signs]
        last = items[-1] if len(records) > most else None
        return VitalsPage(items, None if last is None else (last.name, last.id))

    def of_schedules(self, schedules: Sequence[UUID]) -> list[ScheduleVitals]:
        """Return how some schedules are doing, as a page of them without errors tells it.

        Who is not there, or not of this tenant, is left out.
        """
        require_at_most("schedules", len(schedules), LOOKED_AT_MAX)
        store = self._caller.store
        seen = store.get_schedules([ScheduleId(one.bytes) for one in schedules])
        own = [one for one in seen.values() if one.tenant == self._caller.tenant]
        return [schedule_vitals(one) for one in read_signs(store, own, _AT_A_GLANCE)]

    def windows(self, schedules: Sequence[UUID] = (), *, runs: int) -> TimeWindows:
        """Look at so many of the newest runs of the tenant, and of each of some schedules.

        How late they were and what came of them is told, and nothing else: a part of the price.
        Schedules that are not of this tenant are left out.
        """
        most = read_limit(runs, WINDOW_RUNS)
        require_at_most("schedules", len(schedules), SCHEDULES_MAX)
        store, checked = self._caller.store, self._checked()
        tenants, is_whole = self._window(None, most)
        seen = store.get_schedules([ScheduleId(one.bytes) for one in schedules])
        ids = [one for one, record in seen.items() if record.tenant == self._caller.tenant]
        own: dict[ScheduleId, list[RunVital]] = {one: [] for one in ids}
        for run in store.list_run_vitals(VitalsFilter(schedule_ids=ids, limit=most)) if ids else ():
            assert run.schedule_id is not None, "they were found by it"
            own[run.schedule_id].append(run)
        now = store.now()

        def is_checked(task: str) -> bool:
            return check_name(task) in checked

        def shown(found: Sequence[RunVital], *, is_whole: bool) -> WindowVitals:
            return WindowVitals(window=summarize_runs(found, is_checked, now), is_whole=is_whole)

        return TimeWindows(
            shown(tenants, is_whole=is_whole),
            {
                UUID(bytes=one): shown(found, is_whole=len(found) < most)
                for one, found in own.items()
            },
        )

    def _of_many(self, subject: VitalsScope, task: str | None) -> VitalSigns:
        store, tenant = self._caller.store, self._caller.tenant
        command = ScheduleFilter(
            tenant=tenant, statuses=_ACTIVE, task=task, limit=SCHEDULES_MAX + 1
        )
        records = store.list_schedules(command)
        told = records[:SCHEDULES_MAX]
        runs, is_whole = self._window(task)
        counts = None if task is not None else store.count_tenant(tenant)
        return vital_signs(
            subject,
            VitalsData(
                signs=read_signs(store, told, _ON_A_LINE),
                runs=runs,
                is_whole=is_whole,
                checked=self._checked(),
                owed=self._owed(told) if counts is None else counts.owed,
                backfills=self._backfills_of(None if task is None else told),
                total=None if counts is None else Totals(counts),
                schedules_more=len(records) - len(told),
            ),
        )

    def _window(self, task: str | None, most: int = WINDOW_RUNS) -> tuple[Sequence[RunVital], bool]:
        """Return the newest runs of a task or of the tenant, and whether they are all there are."""
        store, tenant = self._caller.store, self._caller.tenant
        ids: list[RunId] = []
        before: RunId | None = None
        for _ in range(PAGES_MAX):
            left = most - len(ids)
            page = store.search_runs(
                RunFilter(tenant=tenant, task=task, before_id=before, limit=left)
            )
            ids += [one.id for one in page.records]
            before = page.next
            if before is None or len(ids) >= most:
                break
        # What goes on may be older than all of those.
        going_on = store.search_runs(
            RunFilter(tenant=tenant, task=task, states=_IN_WORK, limit=OPEN_MAX)
        )
        named = {*ids, *(one.id for one in going_on.records)}
        return store.list_run_vitals(VitalsFilter(run_ids=sorted(named))), before is None

    def _checked(self) -> frozenset[str]:
        return frozenset(self._caller.store.list_tasks())

    def _owed(self, records: Sequence[ScheduleRecord]) -> int:
        return sum(len(self._caller.store.list_owed(one.id)) for one in records)

    def _backfills(self, schedule_id: ScheduleId | None) -> list[BackfillRecord]:
        found = self._caller.store.list_backfills(self._caller.tenant, schedule_id, LISTED_MAX)
        return [one for one in found if one.status is BackfillStatus.ACTIVE]

    def _backfills_of(self, records: Sequence[ScheduleRecord] | None) -> list[BackfillRecord]:
        found = self._backfills(None)
        if records is None:
            return found
        own = {one.id for one in records}
        return [one for one in found if one.schedule_id in own]
