"""Health of schedules from their newest runs: punctuality, failures, freshness, run times.

`Signs` judge triggers and completions separately, because a trigger may be punctual for days while
nothing useful is completed. A run's own success and the result of its check are different facts, so
both are shown.

Vitals are computed on request from a bounded window of the newest runs, so that no run pays for
them. The reach of the window is part of the answer: what is no longer kept, or was not read, is
unknown and not "never".

A `RunSpan` lasts from the fire of a run until the run is over, because it blocks the next run for
all that time. It includes the waits for a worker and for another attempt.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.domain.enums import AttemptState, Finding, Lane, Origin, RunState, ScheduleStatus
from duly.domain.runs import Reason
from duly.domain.schedules import jitter_offset_us
from duly.errors import UsageError
from duly.timetable.instants import HOUR, MINUTE, SECOND_US, duration_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from duly.domain.ids import RunId, ScheduleId
    from duly.domain.schedules import Definition, ScheduleRecord
    from duly.timetable.timetable import Timetable


WINDOW_RUNS = 500
"""Of one schedule, task or tenant: so many of its newest runs are looked at."""
WINDOW_RUNS_EACH = 20
"""Of each of many schedules."""
FAILURES_SHOWN_MAX = 10
BEHIND_MAX = 1_000
"""So many occurrences are counted since the last useful completion, and no more."""
STALE_FROM = 2.0
"""From so many cadences on a useful completion is stale: one may be late, two are not chance."""
LATE_BOUNDS_US = tuple(
    seconds * SECOND_US for seconds in (1, 5, 15, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR)
)
"""Where lateness is cut into parts for a drawing."""
_CLASS = re.compile(r"[A-Za-z_][\w.]*")
_CLASS_LENGTH_MAX = 80
_OPEN_UNBEGUN = frozenset((RunState.QUEUED, RunState.BLOCKED))


class Lateness(NamedTuple):
    """How late runs were, in microseconds: half of them, 95 and 99 of 100 no later than this."""

    runs: int = 0
    p50: int | None = None
    p95: int | None = None
    p99: int | None = None


class FailureKind(NamedTuple):
    """One way in which runs went wrong, and how many of them last did so."""

    state: str
    """Failed, timed-out or lost."""
    reason: str | None
    error: str | None
    """The class of the error, as its last line begins."""
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VitalsWindow:
    """What the newest runs tell, all together."""

    runs: int
    since: int | None
    """When the oldest of them fell due; None if there is none."""
    fired: Lateness
    """From due to fired: the trigger's."""
    started: Lateness
    """From due to the first start; what has not begun counts with how late it is by now."""
    useful_after: Lateness
    """From due to the useful completion."""
    useful: int
    attempts: int
    retries: int
    """Attempts beyond the first of each run."""
    failures: tuple[FailureKind, ...]
    failures_more: int
    """How many runs went wrong in other ways than those listed."""
    started_counts: tuple[int, ...] = ()
    """How `started` is spread, by `LATE_BOUNDS_US`; and `useful_after`, for drawings."""
    useful_counts: tuple[int, ...] = ()

    @property
    def useful_per_attempt(self) -> float | None:
        """How many useful completions an attempt brings; None if nothing was tried."""
        return None if not self.attempts else self.useful / self.attempts


def summarize_runs(
    runs: Sequence[RunVital], is_checked: Callable[[str], bool], now: int
) -> VitalsWindow:
    """Look at runs, newest first; `is_checked` says whether a task has a check."""
    own = [run for run in runs if run.origin is not Origin.VERIFY]
    live = [run for run in own if run.lane is Lane.LIVE]
    useful = [(run, useful_at(run, is_checked=is_checked(run.task))) for run in own]
    kinds = Counter(kind for run in own if (kind := failure_kind(run)) is not None)
    shown = sorted(kinds.items(), key=lambda item: (-item[1], *(part or "" for part in item[0])))
    told = shown[:FAILURES_SHOWN_MAX]
    started = [at - run.due_at for run in live if (at := _started_at(run, now)) is not None]
    ended = [at - run.due_at for run, at in useful if at is not None and run.lane is Lane.LIVE]
    return VitalsWindow(
        runs=len(own),
        since=min((run.due_at for run in own), default=None),
        fired=lateness(run.fired_at - run.due_at for run in live if run.fired_at is not None),
        started=lateness(started),
        useful_after=lateness(ended),
        useful=sum(at is not None for _, at in useful),
        attempts=sum(run.attempt for run in own),
        retries=sum(max(run.attempt - 1, 0) for run in own),
        failures=tuple(FailureKind(*kind, count) for kind, count in told),
        failures_more=sum(count for _, count in shown[FAILURES_SHOWN_MAX:]),
        started_counts=count_lates(started),
        useful_counts=count_lates(ended),
    )


def lateness(lates: Iterable[int]) -> Lateness:
    """Return how late some were, each as it is on record; nobody is early."""
    ordered = sorted(max(one, 0) for one in lates)
    if not ordered:
        return Lateness()
    return Lateness(len(ordered), *(_rank(ordered, of) for of in (50, 95, 99)))


def count_lates(lates: Iterable[int]) -> tuple[int, ...]:
    """Count how many were no later than each of `LATE_BOUNDS_US`, and at the end those beyond."""
    ordered = sorted(lates)
    ends = [0, *(bisect_right(ordered, bound) for bound in LATE_BOUNDS_US), len(ordered)]
    return tuple(after - before for before, after in pairwise(ends))


def useful_at(run: RunVital, *, is_checked: bool) -> int | None:
    """Return when a run's completion was useful; None if it was not, or is not known to be.

    A task that has a check is believed when the check has found its work in place; any other when
    it says that it succeeded. A run that an operator closed with items missing is never useful.
    """
    if run.state is not RunState.SUCCEEDED or run.reason == Reason.RECONCILED_INCOMPLETE:
        return None
    if not is_checked:
        return run.finished_at
    return run.found_at if run.finding is Finding.PRESENT else None


def failure_kind(run: RunVital) -> tuple[str, str | None, str | None] | None:
    """Say how a run last went wrong: state, reason and class of error; None if it never did."""
    if run.fault is None:
        return None
    return run.fault.state, run.fault.reason, error_class(run.fault.error_end)


def error_class(text: str | None) -> str | None:
    """Return the class of an error, as the last line of its text begins; None if it has none."""
    lines = [line for line in (text or "").splitlines() if line.strip()]
    if not lines:
        return None
    found = _CLASS.match(lines[-1])
    word = lines[-1].strip() if found is None else found.group()
    return word[:_CLASS_LENGTH_MAX]


def cadence_of(timetable: Timetable, now: int) -> int | None:
    """Return how far apart occurrences are around now: the longer of the last two intervals.

    The longer, so that in the morning the first of many is not measured by the night that it ends.
    None if there are no two: then nothing is known of a rhythm.
    """
    try:
        coming = timetable.first_from(now + 1)
        last = timetable.last_until(now)
        before = None if last is None else timetable.last_until(last - 1)
        after = None if coming is None else timetable.first_from(coming + 1)
    except UsageError:
        return None  # a rule that can't look back has no rhythm to compare with
    if last is not None and coming is not None:
        return max(coming - last, 0 if before is None else last - before)
    if coming is not None and after is not None:
        return after - coming
    return None if last is None or before is None else last - before


def count_behind(timetable: Timetable, after: int, until: int) -> int:
    """Count the occurrences later than an instant and not later than another; up to a bound."""
    count, cursor = 0, after
    try:
        while count < BEHIND_MAX:
            found = timetable.first_from(cursor + 1)
            if found is None or found > until:
                break
            count, cursor = count + 1, found
    except UsageError:
        return count
    return count


def _started_at(run: RunVital, now: int) -> int | None:
    """Return when a run was first started, or now if it waits; None if it never was nor will be."""
    if run.attempt <= 1 and run.started_at is not None:
        return run.started_at
    if run.begun_at is not None:
        # Of a run that was tried again its first claim is on record, and not its first start.
        return run.begun_at
    return now if run.state in _OPEN_UNBEGUN and run.fired_at is not None else None


def _rank(ordered: Sequence[int], percent: int) -> int:
    """Return the value that so many of a hundred do not exceed: one of those there are."""
    return ordered[-(-len(ordered) * percent // 100) - 1]


RUNS_LOOKED_AT = 1_000
"""Of one schedule: so many of its newest runs."""
RUNS_LOOKED_AT_EACH = 100
"""Of each of many."""
ERRORS = frozenset((AttemptState.FAILED, AttemptState.TIMED_OUT, AttemptState.LOST))
"""How an attempt ends that went wrong, also where a later one made it good."""


class LastEnd(NamedTuple):
    """A run that ended well, or was found to have."""

    run_id: RunId
    scheduled_for: int
    at: int


class LastError(NamedTuple):
    """An attempt that went wrong, or the end of a run that failed."""

    run_id: RunId
    scheduled_for: int
    at: int
    reason: str | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LastEnds:
    """How the newest runs of a schedule ended: of each sort the newest run."""

    success: LastEnd | None = None
    verified: LastEnd | None = None
    """The newest success whose last check found everything in place, and when that was found."""
    error: LastError | None = None
    unknown_through: int | None = None
    """Of what fell due up to this instant not every run was looked at; None: no run is missing."""


NO_ENDS = LastEnds()


def unknown_through(pruned_through: int | None, beyond: int | None) -> int | None:
    """Return up to when history is unknown: removed, or beyond the newest runs that were read."""
    known = [one for one in (pruned_through, beyond) if one is not None]
    return max(known, default=None)


RUN_TIMES_LOOKED_AT = 20
OCCURRENCES_LOOKED_AT = 11
"""So many coming ones tell how close together two of them lie."""
WARN_FROM = 0.8
"""From this part of the interval on somebody is told: before runs overlap, and not after."""
_MICROSECOND = timedelta(microseconds=1)
_MILLISECOND_US = 1000
_PERCENT = 100


class RunSpan(NamedTuple):
    """From when to when a run was, or is, in the way of others."""

    fired_at: int
    ended_at: int | None
    """None while it is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimes:
    """How long a schedule's runs take, beside how long they may."""

    interval: timedelta | None
    """The shortest time between two of its coming occurrences; None if there are no two."""
    usual: timedelta | None
    """What nine of ten of its last runs did not exceed, from fire to end; None if none is over."""
    open_for: timedelta | None
    """How long its oldest open run has been open; None if there is none."""
    count: int
    """How many runs this is drawn from."""

    @property
    def ratio(self) -> float | None:
        """What part of the interval a run usually takes: from 1 on, runs overlap."""
        if self.usual is None or self.interval is None:
            return None
        return self.usual / self.interval

    @property
    def warning(self) -> str | None:
        """Say that runs overlap, or soon will; None while there is room."""
        if self.interval is None:
            return None
        ratio, apart = self.ratio or 0.0, _words(self.interval)
        if ratio >= WARN_FROM and self.usual is not None:
            share = f"{round(ratio * _PERCENT)}% of the {apart} until the next one"
            end = "they overlap" if ratio >= 1 else "a little slower, and they overlap"
            return f"runs take up to {_words(self.usual)}, {share}: {end}"
        if self.open_for is not None and self.open_for / self.interval >= WARN_FROM:
            often = apart.removeprefix("1 ") if apart.count(" ") == 1 else apart
            open_for = _words(self.open_for)
            return f"a run has been open for {open_for}, and the next comes every {often}"
        return None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values, durations in seconds."""
        return {
            "interval": _seconds(self.interval),
            "usual": _seconds(self.usual),
            "open_for": _seconds(self.open_for),
            "ratio": None if self.ratio is None else round(self.ratio, 4),
            "runs": self.count,
        }


def run_times(
    timetable: Timetable, spans: Sequence[RunSpan], now: datetime, now_us: int
) -> RunTimes:
    """Return how long runs take by their spans, and how far apart coming occurrences lie."""
    coming = timetable.upcoming(now, OCCURRENCES_LOOKED_AT)
    ended = sorted(span.ended_at - span.fired_at for span in spans if span.ended_at is not None)
    opened = [span.fired_at for span in spans if span.ended_at is None]
    return RunTimes(
        interval=min((later - one for one, later in pairwise(coming)), default=None),
        usual=None if not ended else _ninth_of_ten(ended) * _MICROSECOND,
        open_for=None if not opened else max(now_us - min(opened), 0) * _MICROSECOND,
        count=len(ended),
    )


def _ninth_of_ten(values: Sequence[int]) -> int:
    return values[-(-len(values) * 9 // 10) - 1]


def _words(duration: timedelta) -> str:
    """Write a duration as people read it: nobody wants its microseconds."""
    microseconds = duration // _MICROSECOND
    unit = SECOND_US if microseconds >= SECOND_US else _MILLISECOND_US
    return duration_words(microseconds - microseconds % unit)


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()


ERROR_END_MAX = 300
"""How much of an error is read: its end, where its class stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VitalsFilter:
    """Which runs: so many of the newest of each schedule, and those that are named."""

    schedule_ids: Sequence[ScheduleId] = ()
    limit: int = 0
    """Of each schedule, its newest by id."""
    run_ids: Sequence[RunId] = ()


class Fault(NamedTuple):
    """How a run's last attempt that went wrong did so, though a later one may have made it good."""

    state: str
    """Failed, timed-out or lost."""
    reason: str | None
    error_end: str | None
    at: int


class RunVital(NamedTuple):
    """One run: its own facts, each with its time."""

    run_id: RunId
    schedule_id: ScheduleId | None
    task: str
    origin: Origin
    lane: Lane
    scheduled_for: int
    due_at: int
    """Its nominal time plus jitter."""
    fired_at: int | None
    state: RunState
    reason: str | None
    finished_at: int | None
    attempt: int
    """How often it was started."""
    begun_at: int | None
    """When it was claimed for the first time."""
    worker: int | None
    claimed_at: int | None
    """Of the claim that holds it or closed it."""
    started_at: int | None
    progress_done: int | None
    progress_total: int | None
    progress_at: int | None
    next_at: int | None
    """While retrying: when its next attempt falls due."""
    heartbeat_at: int | None
    """When the worker that holds it was last heard of; None unless one does."""
    attempt_ended_at: int | None
    """When an attempt of it was last over, however it ended."""
    finding: Finding | None
    """What was found last of its result, and when."""
    found_at: int | None
    fault: Fault | None


class DefinitionRecord(NamedTuple):
    """One version of a schedule's template, and when it was written."""

    number: int
    made_at: int
    definition: Definition


LATE_US = MINUTE * SECOND_US
"""The grace of most schedules: what is overdue for longer is late by anybody's measure."""
_BEHIND_FROM = 2
"""So many occurrences must be without a useful completion: while one is under way all is well."""
_STALE_US_MIN = MINUTE * SECOND_US
"""No completion is stale sooner: of what is due every few seconds, a busy moment delays several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerSigns:
    """Whether a schedule fires when it should."""

    next_due_at: int | None
    last_fired_at: int | None
    last_run: RunId | None
    late_us: int | None
    """How long after its due it fired last."""
    overdue_us: int | None
    """How long its pending occurrence has been due; None while it is not."""

    @property
    def is_well(self) -> bool:
        """Whether nothing is due for longer than anybody's grace."""
        return self.overdue_us is None or self.overdue_us <= LATE_US


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionSigns:
    """Whether what a schedule is there for gets done."""

    finished_at: int | None
    """When an attempt of it was last over, however it ended."""
    ends: LastEnds
    useful: LastEnd | None
    """The last useful completion: verified where the task has a check, succeeded where not."""
    is_checked: bool
    age_us: int | None
    """How old that is."""
    cadence_us: int | None
    """How far apart occurrences are around now."""
    behind: int
    """How many occurrences have fallen due since the one that was last useful."""
    is_stale: bool

    @property
    def ratio(self) -> float | None:
        """How many cadences old the last useful completion is."""
        if self.age_us is None or not self.cadence_us:
            return None
        return self.age_us / self.cadence_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """A schedule with both, and the runs that they are drawn from."""

    record: ScheduleRecord
    now: int
    trigger: TriggerSigns
    completion: CompletionSigns
    runs: tuple[RunVital, ...]
    """Its newest, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VitalsInput:
    """What was read about a schedule, for its signs to be seen."""

    runs: Sequence[RunVital]
    """Its newest, newest first."""
    ends: LastEnds
    is_checked: bool
    """Whether its task has a check."""
    now: int


def signs_of(record: ScheduleRecord, known: VitalsInput) -> Signs:
    """Return the signs of a schedule."""
    return Signs(
        record=record,
        now=known.now,
        trigger=_trigger(record, known.now),
        completion=_completion(record, known),
        runs=tuple(known.runs),
    )


def _trigger(record: ScheduleRecord, now: int) -> TriggerSigns:
    pending, fired_at = record.pending, record.last_fired_at
    offset_us = jitter_offset_us(record.id, record.definition.jitter_us)
    is_known = record.last_for is not None and fired_at is not None
    late_us = None
    if is_known:
        assert record.last_for is not None, "just seen"
        assert fired_at is not None, "just seen"
        # An edit may have changed the jitter since: then it is no longer known.
        late_us = max(fired_at - record.last_for - offset_us, 0)
    return TriggerSigns(
        next_due_at=None if pending is None else pending.due_at,
        last_fired_at=fired_at,
        last_run=record.last_run,
        late_us=late_us,
        overdue_us=None if pending is None or pending.due_at > now else now - pending.due_at,
    )


def _completion(record: ScheduleRecord, known: VitalsInput) -> CompletionSigns:
    now, timetable = known.now, record.definition.timetable
    useful = known.ends.verified if known.is_checked else known.ends.success
    cadence_us = cadence_of(timetable, now)
    # Nobody is behind with what an order has just begun or taken up again.
    floor = max(record.updated_at, record.created_at)
    since_for = floor if useful is None else max(floor, useful.scheduled_for)
    offset_us = jitter_offset_us(record.id, record.definition.jitter_us)
    behind = count_behind(timetable, since_for, now - offset_us)
    since = floor if useful is None else max(floor, useful.at)
    is_stale = (
        record.status is ScheduleStatus.ACTIVE
        and behind >= _BEHIND_FROM
        and cadence_us is not None
        and now - since >= max(STALE_FROM * cadence_us, _STALE_US_MIN)
    )
    ended = [run.attempt_ended_at for run in known.runs if run.attempt_ended_at is not None]
    return CompletionSigns(
        finished_at=max(ended, default=None),
        ends=known.ends,
        useful=useful,
        is_checked=known.is_checked,
        age_us=None if useful is None else max(now - useful.at, 0),
        cadence_us=cadence_us,
        behind=behind,
        is_stale=is_stale,
    )
