"""Makes vitals of what was read: one schedule's, or those of many put together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from duly.client.judging import completion_findings, trigger_findings
from duly.client.last_ends import endings_view
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
from duly.domain.checking import check_name
from duly.domain.identity import RunId
from duly.domain.instants import from_microseconds, moment_or_none
from duly.domain.last_ends import LastEnd, LastEnds, LastError
from duly.domain.literals import RunState, ScheduleStatus
from duly.domain.vitals import look_at, useful_at

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duly.domain.run_vitals import RunVital
    from duly.domain.signs import Signs
    from duly.store.backfilling import BackfillRecord
    from duly.store.reading import TenantCounts

ATTEMPTS_SHOWN_MAX = 20
NOT_WELL_SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose vitals they are, and as of when."""

    of: str
    name: str
    now: int


@dataclass(frozen=True, slots=True)
class Total:
    """What is known of all that is a tenant's, and not of a window alone."""

    counts: TenantCounts

    @property
    def oldest_queued_at(self) -> int | None:
        """When the run that waits longest was queued."""
        waiting = [one.oldest_at for one in self.counts.queues.values()]
        return min((one for one in waiting if one is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
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
    total: Total | None = None
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


def vital_signs(subject: Subject, found: Found) -> VitalSigns:
    """Show all that is known of a schedule, a task or a tenant."""
    is_one = subject.of == "schedule"
    rows = [] if is_one else [schedule_vitals(one) for one in found.signs]
    bad = [one for one in rows if not (one.trigger.is_well and one.completion.is_well)]
    bad.sort(key=lambda one: (-(one.completion.ratio or 0.0), one.name))

    def is_checked(task: str) -> bool:
        return check_name(task) in found.checked

    window = look_at(found.runs, is_checked, subject.now)
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
        for found, at in (
            (success, useful_at(run, is_checked=False)),
            (verified, useful_at(run, is_checked=True)),
            (useful, useful_at(run, is_checked=is_checked(run.task))),
        ):
            if at is not None:
                found.append(LastEnd(*of, at))
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


def _work(found: Found, now: int) -> WorkVitals:
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
