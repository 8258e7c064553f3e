"""Missing occurrences: compares what the timetable expects with what is on record.

`expect` derives occurrences from intent, not from what was recorded: from each version of a
schedule's template and the time it was in force. So an occurrence is found also when its run and
every trace of it are gone. An occurrence whose record retention has removed is unknown, not
missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from duly.domain.enums import ScheduleStatus
from duly.domain.runs import OccurrenceStatusKind
from duly.domain.schedules import jitter_offset_us
from duly.errors import UsageError
from duly.timetable.combinators import zone_of
from duly.timetable.instants import DAY, HOUR, MINUTE, SECOND_US

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from duly.domain.ids import RunId, ScheduleId
    from duly.domain.runs import OccurrenceStatus
    from duly.domain.schedules import Definition, ScheduleRecord
    from duly.domain.vitals import DefinitionRecord

LATE_US = MINUTE * SECOND_US
"""What is due for no longer is under way, whatever its grace."""
MOVED_MAX_US = (DAY + 2 * HOUR) * SECOND_US
"""So far newer time-zone rules may put an occurrence that ran under older ones."""
_END_OF_TIME = 1 << 62


class ExpectedOccurrenceKind(StrEnum):
    """What became of an expected occurrence: exactly one of these."""

    PRESENT = "present"
    SKIPPED = "skipped"
    OWED = "owed"
    HELD = "held"
    """Its schedule rests: it is decided when it goes on."""
    DUE = "due"
    """It is still to come, or so lately due that it is under way."""
    UNKNOWN = "unknown"
    MISSING = "missing"


class MissingCause(StrEnum):
    """Why an occurrence is missing, as far as records tell."""

    NO_DISPATCHER = "no-dispatcher"
    DISPATCHER_HOLDING = "dispatcher-holding"
    DISPATCHER_BEHIND = "dispatcher-behind"
    UNRECORDED = "unrecorded"


class Expected(NamedTuple):
    """An occurrence that the timetable in force asks for."""

    scheduled_for: int
    due_at: int
    definition: Definition
    in_force: tuple[int, int]
    """From when until when that was in force, both included."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What was expected in a span, oldest first."""

    slots: tuple[Expected, ...]
    since: int
    """From when on all are there: later than was asked for where there are too many."""


class DispatcherPresence(NamedTuple):
    """A dispatcher that is alive, as far as a cause is drawn from it."""

    started_at: int
    is_holding: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedOccurrence:
    """An expected occurrence, and what became of it."""

    schedule_id: ScheduleId
    scheduled_for: int
    due_at: int
    kind: ExpectedOccurrenceKind
    run_id: RunId | None = None
    reason: str | None = None
    """Why it was skipped, or is held."""
    cause: MissingCause | None = None
    was_kept: bool | None = None
    """Of a missing one: whether a dispatcher that is alive now was there when it fell due."""


def expect(
    record: ScheduleRecord,
    definitions: Sequence[DefinitionRecord],
    span: tuple[int, int],
    slots_max: int,
) -> Expectation:
    """Say what was expected from an instant on, up to another; of too many, the newest.

    Definitions are newest first. Each is in force from when it was written until the next was: an
    edit leaves what fell due before it to the old one, and the new one begins after it.
    """
    since, until = span
    found: list[Expected] = []
    room, last, end = slots_max, until, _END_OF_TIME
    for number, one in enumerate(definitions):
        coming = record.pending.scheduled_for if record.pending else record.held_for
        first = one.made_at + 1
        if number == 0 and coming is not None:
            # What is pending is promised, also if the order was written a moment after its time.
            first = min(first, coming)
        begin = max(first, since)
        offset_us = jitter_offset_us(record.id, one.definition.jitter_us)
        slots = [
            Expected(instant, instant + offset_us, one.definition, (first, end))
            for instant in _instants(one.definition, (begin, last), room)
        ]
        found = [*slots, *found]
        room -= len(slots)
        if room <= 0 and slots:
            return Expectation(tuple(found), slots[0].scheduled_for)
        last, end = min(last, one.made_at), one.made_at
        if first <= since or last < since:
            break
    return Expectation(tuple(found), since)


def judge_slot(
    expected: Expected, verdict: OccurrenceStatus, record: ScheduleRecord, now: int
) -> ExpectedOccurrence:
    """Say what became of an occurrence, by what the store has on record; its cause comes later."""
    kind, reason = _kind(expected, verdict, record, now)
    return ExpectedOccurrence(
        schedule_id=record.id,
        scheduled_for=expected.scheduled_for,
        due_at=expected.due_at,
        kind=kind,
        run_id=verdict.run_id,
        reason=reason if verdict.reason is None else str(verdict.reason),
    )


def cause_of(
    slot: ExpectedOccurrence, verdict: OccurrenceStatus, keepers: Sequence[DispatcherPresence]
) -> MissingCause:
    """Say why an occurrence is missing: nobody keeps time, or nothing is recorded of it."""
    if verdict.kind is not OccurrenceStatusKind.PENDING:
        return MissingCause.UNRECORDED
    if not keepers:
        return MissingCause.NO_DISPATCHER
    if all(one.is_holding for one in keepers):
        return MissingCause.DISPATCHER_HOLDING
    assert slot.kind is ExpectedOccurrenceKind.MISSING, "only what is missing has a cause"
    return MissingCause.DISPATCHER_BEHIND


def was_kept(slot: ExpectedOccurrence, keepers: Iterable[DispatcherPresence]) -> bool:
    """Say whether a dispatcher that is alive now was there when an occurrence fell due."""
    return any(one.started_at <= slot.due_at for one in keepers)


def neighbourhood(slot: Expected) -> tuple[int, int] | None:
    """Return between which instants, both excluded, a run may be the one of this occurrence.

    Newer time-zone rules may say another instant than that at which it was run when it was due.
    None where no zone has a say in it.
    """
    at, timetable = slot.scheduled_for, slot.definition.timetable
    if zone_of(timetable) in (None, "UTC"):
        return None
    try:
        before, after = timetable.last_until(at - 1), timetable.first_from(at + 1)
    except UsageError:
        return None
    begin, end = slot.in_force
    return (
        max(at - MOVED_MAX_US, begin - 1, at - MOVED_MAX_US if before is None else before),
        min(at + MOVED_MAX_US, end + 1, at + MOVED_MAX_US if after is None else after),
    )


def _kind(
    expected: Expected, verdict: OccurrenceStatus, record: ScheduleRecord, now: int
) -> tuple[ExpectedOccurrenceKind, str | None]:
    if verdict.kind is not OccurrenceStatusKind.PENDING:
        return _KINDS[verdict.kind], None
    if record.status is not ScheduleStatus.ACTIVE:
        return ExpectedOccurrenceKind.HELD, str(record.status)
    grace_us = max(expected.definition.misfire.grace_us, LATE_US)
    is_under_way = now - expected.due_at <= grace_us
    return ExpectedOccurrenceKind.DUE if is_under_way else ExpectedOccurrenceKind.MISSING, None


_KINDS = {
    OccurrenceStatusKind.RUN: ExpectedOccurrenceKind.PRESENT,
    OccurrenceStatusKind.COALESCED: ExpectedOccurrenceKind.PRESENT,
    OccurrenceStatusKind.REPLACED: ExpectedOccurrenceKind.PRESENT,
    OccurrenceStatusKind.SKIPPED: ExpectedOccurrenceKind.SKIPPED,
    OccurrenceStatusKind.OWED: ExpectedOccurrenceKind.OWED,
    OccurrenceStatusKind.UNKNOWN: ExpectedOccurrenceKind.UNKNOWN,
    OccurrenceStatusKind.MISSING: ExpectedOccurrenceKind.MISSING,
}


def _instants(definition: Definition, span: tuple[int, int], slots_max: int) -> list[int]:
    """Return the occurrences of a span, both ends included; of too many, the newest."""
    begin, until = span
    if slots_max <= 0:
        return []
    found: list[int] = []
    for instant in _forwards(definition, begin, until):
        found.append(instant)
        if len(found) > slots_max:
            return _newest(definition, (begin, until), slots_max) or found[:slots_max]
    return found


def _forwards(definition: Definition, begin: int, until: int) -> Iterator[int]:
    cursor = begin
    while cursor <= until:
        try:
            found = definition.timetable.first_from(cursor)
        except UsageError:
            return  # a rule that can't be computed any more has ended its schedule
        if found is None or found > until:
            return
        yield found
        cursor = found + 1


def _newest(definition: Definition, span: tuple[int, int], slots_max: int) -> list[int]:
    """Return the last occurrences of a span, oldest first; none of a rule that can't look back."""
    begin, cursor = span
    found: list[int] = []
    while len(found) < slots_max:
        try:
            last = definition.timetable.last_until(cursor)
        except UsageError:
            return []
        if last is None or last < begin:
            break
        found.append(last)
        cursor = last - 1
    return found[::-1]
