"""Decides which occurrences of a backfill's span come next, and what they become.

A plan lists the exact occurrences of the span and what is known about each, before any run is made.
The chosen occurrences are made into runs at a rate, a few at a time, on a lane of their own. Each
occurrence is checked again when its turn comes, so that a run that exists by then is not made
twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from duly.domain.enums import RunState
from duly.domain.ids import occurrence_run_id, ordered_run_id
from duly.domain.runs import OccurrenceStatusKind
from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duly.domain.fire_planning import ScheduleVersion
    from duly.domain.ids import BackfillId, RunId
    from duly.domain.runs import OccurrenceStatus


SLOTS_MAX = 100_000
"""A longer span is divided by the person who asks for it: so many runs are rarely meant."""


class BackfillOccurrenceKind(StrEnum):
    """What is known about an occurrence, as far as a backfill goes."""

    MISSING = "missing"
    """It was never run: skipped, coalesced, fallen into a pause, or before there was a schedule."""
    FAILED = "failed"
    """It was run and did not succeed, and nothing of it is open: dead letters, too."""
    SUCCEEDED = "succeeded"
    AMBIGUOUS = "ambiguous"
    """It may have had its effect; a person decides."""
    IN_FLIGHT = "in-flight"
    """It is queued, running or waiting, or still owed."""
    UNKNOWN = "unknown"
    """Its history has been removed: it may have been run."""


FILLED = frozenset((BackfillOccurrenceKind.MISSING, BackfillOccurrenceKind.FAILED))
"""What is made unless a person says otherwise: nothing that may have been done."""
NEVER = frozenset((BackfillOccurrenceKind.IN_FLIGHT,))
"""What is not made whatever is said: there is a run already that will say how it ends."""


class BackfillMode(StrEnum):
    """What is done about occurrences that have a run."""

    FILL = "fill"
    """Only what is missing or failed gets a run."""
    REDO = "redo"
    """What is chosen gets a new run, whether it succeeded or not; on record as a repetition."""


class BackfillOrder(StrEnum):
    """Which end of the span comes first."""

    OLDEST = "oldest-first"
    NEWEST = "newest-first"


class BackfillStatus(StrEnum):
    """Whether a backfill goes on."""

    ACTIVE = "active"
    PAUSED = "paused"
    DONE = "done"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Slot:
    """One occurrence of the span, and what is known about it."""

    scheduled_for: int
    kind: BackfillOccurrenceKind
    run_id: RunId | None = None
    """The run that it has, if it has one."""
    reason: str | None = None


def slots_of(template: ScheduleVersion, since: int, until: int) -> list[int]:
    """Return the nominal times of a span, its end not included; refuse a span without bounds."""
    if since >= until:
        remedy = "give the earlier instant as `since`, the later one as `until`"
        raise UsageError("until", until, "is not later than the beginning of the span", remedy)
    found: list[int] = []
    for instant in _walk(template, since, until):
        found.append(instant)
        if len(found) > SLOTS_MAX:
            remedy = f"divide the span: at most {SLOTS_MAX:,} occurrences at a time"
            raise UsageError("until", until, "makes the span too long", remedy)
    return found


def classify(verdict: OccurrenceStatus, runs: Sequence[tuple[RunId, RunState]] = ()) -> Slot:
    """Say what a backfill makes of what is known about an occurrence, and of all its runs.

    Of several runs the one that tells most counts: an occurrence that failed and was made good is
    a success, and one that is open again will tell.
    """
    at = verdict.scheduled_for
    if runs:
        run_id, state = min(runs, key=lambda one: _WEIGHTS[class_of(one[1])])
        return Slot(at, class_of(state), run_id, str(state))
    match verdict.kind:
        case OccurrenceStatusKind.OWED | OccurrenceStatusKind.PENDING:
            return Slot(at, BackfillOccurrenceKind.IN_FLIGHT, None, str(verdict.kind))
        case OccurrenceStatusKind.UNKNOWN:
            return Slot(at, BackfillOccurrenceKind.UNKNOWN, None, "pruned")
        case _:
            reason = None if verdict.reason is None else str(verdict.reason)
            return Slot(at, BackfillOccurrenceKind.MISSING, None, reason)


def state_seen(state: RunState, fence: int) -> RunState:
    """Return a run's state as a backfill takes it.

    What was skipped after an attempt was in doubt, and an operator left it so: whether it was done
    is as unknown as before.
    """
    return RunState.AMBIGUOUS if state is RunState.SKIPPED and fence else state


def class_of(state: RunState) -> BackfillOccurrenceKind:
    """Say what a run in that state is to a backfill."""
    match state:
        case RunState.SUCCEEDED | RunState.HANDED_OVER:
            return BackfillOccurrenceKind.SUCCEEDED
        case RunState.AMBIGUOUS:
            return BackfillOccurrenceKind.AMBIGUOUS
        case RunState.BLOCKED | RunState.QUEUED | RunState.RUNNING | RunState.RETRYING:
            return BackfillOccurrenceKind.IN_FLIGHT
        case RunState.SKIPPED | RunState.COALESCED | RunState.REPLACED:
            return BackfillOccurrenceKind.MISSING
        case _:
            return BackfillOccurrenceKind.FAILED


_WEIGHTS = {
    BackfillOccurrenceKind.SUCCEEDED: 0,
    BackfillOccurrenceKind.IN_FLIGHT: 1,
    BackfillOccurrenceKind.AMBIGUOUS: 2,
    BackfillOccurrenceKind.FAILED: 3,
    BackfillOccurrenceKind.MISSING: 4,
}
"""Which of several runs of one occurrence tells most about it: the lowest."""


def _walk(template: ScheduleVersion, since: int, until: int) -> Iterator[int]:
    timetable, instant = template.definition.timetable, since
    while True:
        found = timetable.first_from(instant)
        if found is None or found >= until:
            return
        yield found
        instant = found + 1


class BackfillSpan(NamedTuple):
    """What is left of a backfill's span."""

    since: int
    until: int
    """Not included."""
    order: BackfillOrder
    cursor: int
    """The next occurrence."""


class Planned(NamedTuple):
    """An occurrence whose turn has come, and the runs that it would become."""

    scheduled_for: int
    not_before: int
    fills: RunId
    """The one run of the occurrence, if it has none."""
    redoes: RunId
    """Another, which only this backfill can make, if it has one."""


class BackfillStep(NamedTuple):
    """The next occurrences, and where the step after this one begins."""

    slots: tuple[Planned, ...]
    cursor: int | None
    """None when there are no more."""


def first_of(template: ScheduleVersion, since: int, until: int, order: BackfillOrder) -> int | None:
    """Return the occurrence that a backfill begins with; None if the span has none."""
    timetable = template.definition.timetable
    if order is BackfillOrder.OLDEST:
        found = timetable.first_from(since)
        return None if found is None or found >= until else found
    found = timetable.last_until(until - 1)
    return None if found is None or found < since else found


def rest_of(span: BackfillSpan) -> tuple[int, int]:
    """Return the part of a span that nobody has looked at yet: from its cursor on, by its order."""
    if span.order is BackfillOrder.OLDEST:
        return span.cursor, span.until
    return span.since, span.cursor + 1


def next_step(
    template: ScheduleVersion, span: BackfillSpan, backfill: BackfillId, count: int
) -> BackfillStep:
    """Return the next few occurrences of a span."""
    cursor: int | None = span.cursor
    slots: list[Planned] = []
    while cursor is not None and len(slots) < count:
        slots.append(_planned(template, cursor, backfill))
        cursor = _following(template, span, cursor)
    return BackfillStep(tuple(slots), cursor)


def _planned(template: ScheduleVersion, scheduled_for: int, backfill: BackfillId) -> Planned:
    schedule = template.schedule_id
    return Planned(
        scheduled_for,
        template.pending(scheduled_for).due_at,
        occurrence_run_id(schedule, scheduled_for),
        ordered_run_id("redo", scheduled_for, backfill, schedule),
    )


def _following(template: ScheduleVersion, span: BackfillSpan, occurrence: int) -> int | None:
    if span.order is BackfillOrder.OLDEST:
        return first_of(template, occurrence + 1, span.until, span.order)
    return first_of(template, span.since, occurrence, span.order)
