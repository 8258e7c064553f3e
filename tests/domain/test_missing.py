"""What intent asks for, and what is told of it: pure, by the versions of a template."""

from __future__ import annotations

from dataclasses import replace

from duly import Misfire, cron, every
from duly.domain.enums import ScheduleStatus, SkipReason
from duly.domain.ids import ScheduleId
from duly.domain.missing_occurrences import (
    MOVED_MAX_US,
    DispatcherPresence,
    ExpectedOccurrenceKind,
    MissingCause,
    cause_of,
    expect,
    judge_slot,
    neighbourhood,
    was_kept,
)
from duly.domain.runs import OccurrenceStatus, OccurrenceStatusKind
from duly.domain.schedules import NextOccurrence, jitter_offset_us
from duly.domain.vitals import DefinitionRecord
from duly.engine.manual_clock import ManualClock
from duly.store.memory import MemoryStore
from duly.timetable.instants import to_microseconds
from duly_conformance import steps
from duly_conformance.kit import definition
from tests.each_row import each_row
from tests.timetable.instants import moment

MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US
NOON = to_microseconds(moment("2026-04-02T12:00Z"))
RECORD = replace(steps.create(MemoryStore(ManualClock(NOON))), pending=None)


def made(at: int, number: int = 1, **parts) -> DefinitionRecord:
    return DefinitionRecord(number, at, definition(**parts))


def hours(found) -> list[float]:
    """Return when each was expected, in hours after noon."""
    return [(one.scheduled_for - NOON) / HOUR_US for one in found.slots]


def test_each_rule_asks_for_its_own_time():
    """Up to the edit the old one, after it the new one; nothing before the first."""
    versions = [
        made(NOON + 150 * MINUTE_US, 2, timetable=every("2h")),
        made(NOON, timetable=every("1h")),
    ]
    found = expect(RECORD, versions, (0, NOON + 7 * HOUR_US), 100)

    assert [1, 2, 4, 6] == hours(found)
    assert [1, 1, 2, 2] == [
        1 if one.definition is versions[1].definition else 2 for one in found.slots
    ]
    assert 0 == found.since


def test_of_too_many_the_newest_are_expected_across_an_edit():
    """And from when on is told."""
    versions = [
        made(NOON + 150 * MINUTE_US, 2, timetable=every("2h")),
        made(NOON, timetable=every("1h")),
    ]
    found = expect(RECORD, versions, (0, NOON + 7 * HOUR_US), 3)

    assert [2, 4, 6] == hours(found)
    assert NOON + 2 * HOUR_US == found.since


def test_what_is_pending_is_expected_although_the_order_was_written_after_its_time():
    """It is promised."""
    late = replace(RECORD, pending=NextOccurrence(NOON + HOUR_US, NOON + HOUR_US))
    found = expect(late, [made(NOON + 90 * MINUTE_US)], (0, NOON + 2 * HOUR_US), 10)

    assert [1, 2] == hours(found)


def test_jitter_moves_what_is_due_and_not_what_is_expected():
    versions = [made(NOON, timetable=every("1h"), jitter_us=HOUR_US)]
    (first, *_) = expect(RECORD, versions, (0, NOON + 3 * HOUR_US), 10).slots

    offset = jitter_offset_us(ScheduleId(RECORD.id), HOUR_US)
    assert (NOON + HOUR_US, NOON + HOUR_US + offset) == (first.scheduled_for, first.due_at)


@each_row(
    ("kind", "status", "late_us", "expected"),
    [
        (OccurrenceStatusKind.RUN, "active", 0, ExpectedOccurrenceKind.PRESENT),
        (OccurrenceStatusKind.SKIPPED, "active", 0, ExpectedOccurrenceKind.SKIPPED),
        (OccurrenceStatusKind.OWED, "active", 0, ExpectedOccurrenceKind.OWED),
        (OccurrenceStatusKind.UNKNOWN, "active", 0, ExpectedOccurrenceKind.UNKNOWN),
        (OccurrenceStatusKind.MISSING, "active", 0, ExpectedOccurrenceKind.MISSING),
        (OccurrenceStatusKind.PENDING, "active", 5 * MINUTE_US, ExpectedOccurrenceKind.DUE),
        (OccurrenceStatusKind.PENDING, "active", 5 * MINUTE_US + 1, ExpectedOccurrenceKind.MISSING),
        (OccurrenceStatusKind.PENDING, "paused", HOUR_US, ExpectedOccurrenceKind.HELD),
        (OccurrenceStatusKind.PENDING, "deleted", HOUR_US, ExpectedOccurrenceKind.HELD),
    ],
)
def test_each_verdict_has_its_kind(kind, status, late_us, expected):
    """Exact at the grace; a rest is no loss."""
    versions = [made(NOON, timetable=every("1h"), misfire=Misfire(grace="5m"))]
    (one,) = expect(RECORD, versions, (0, NOON + HOUR_US), 10).slots
    record = replace(RECORD, status=ScheduleStatus(status))
    reason = SkipReason.MISFIRE if kind is OccurrenceStatusKind.SKIPPED else None
    verdict = OccurrenceStatus(one.scheduled_for, kind, reason=reason)
    slot = judge_slot(one, verdict, record, one.due_at + late_us)

    assert expected is slot.kind
    assert (
        "misfire" if reason else None if expected is not ExpectedOccurrenceKind.HELD else status
    ) == slot.reason


def test_a_cause_is_told_from_who_keeps_time():
    """What is not even pending was removed, whoever keeps time."""
    (one,) = expect(RECORD, [made(NOON)], (0, NOON + HOUR_US), 10).slots
    pending = OccurrenceStatus(one.scheduled_for, OccurrenceStatusKind.PENDING)
    gone = OccurrenceStatus(one.scheduled_for, OccurrenceStatusKind.MISSING)
    slot = judge_slot(one, pending, RECORD, one.due_at + HOUR_US)
    early, late = (
        DispatcherPresence(NOON, is_holding=False),
        DispatcherPresence(NOON + 3 * HOUR_US, is_holding=True),
    )

    assert MissingCause.NO_DISPATCHER is cause_of(slot, pending, [])
    assert MissingCause.DISPATCHER_HOLDING is cause_of(slot, pending, [late])
    assert MissingCause.DISPATCHER_BEHIND is cause_of(slot, pending, [late, early])
    assert MissingCause.UNRECORDED is cause_of(slot, gone, [])
    assert (True, False) == (was_kept(slot, [early, late]), was_kept(slot, [late]))


def test_newer_time_zone_rules_move_an_occurrence_between_its_neighbours():
    """And no further than the rule was in force; without a zone nothing moves."""
    daily = made(NOON, timetable=cron("30 2 * * *", tz="Europe/Berlin"))
    first, second = expect(RECORD, [daily], (0, NOON + 40 * HOUR_US), 10).slots
    (plain, *_) = expect(RECORD, [made(NOON)], (0, NOON + HOUR_US), 10).slots

    assert (NOON, second.scheduled_for) == neighbourhood(first)
    around = neighbourhood(second)
    assert around is not None
    assert first.scheduled_for == around[0]
    assert around[1] <= second.scheduled_for + MOVED_MAX_US
    assert neighbourhood(plain) is None
