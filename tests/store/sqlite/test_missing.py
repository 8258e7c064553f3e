"""What was removed from the file by hand is found, because intent still asks for it."""

from __future__ import annotations

import apsw
import pytest

from duly import cron
from duly.domain.missing_occurrences import ExpectedOccurrenceKind, MissingCause
from duly.engine.manual_clock import ManualClock
from duly.store.sqlite import SqliteStore
from duly_conformance import steps
from duly_conformance.kit import HOUR_US
from tests.store.removing import REMOVALS, lived, slots
from tests.store.sqlite.made_file import made_file

HOUR_MS = HOUR_US // 1000


@pytest.mark.parametrize("what", REMOVALS)
def test_what_is_removed_behind_its_back_is_missing(tmp_path, what):
    """A run with its attempts and its end, a skip, a range that is owed."""
    clock = ManualClock()
    path = made_file(tmp_path / "duly.db", clock)
    store = SqliteStore(path, clock)
    tables, places = REMOVALS[what]
    try:
        lived(store, clock)
        before = slots(store)
        with apsw.Connection(str(path)) as line:
            for table in tables:
                line.execute(f"DELETE FROM duly_{table}")  # noqa: S608 - of ours
        found = [one for one in slots(store) if one.kind is ExpectedOccurrenceKind.MISSING]

        assert [] == [one for one in before if one.kind is ExpectedOccurrenceKind.MISSING]
        assert [before[place].scheduled_for for place in places] == [
            one.scheduled_for for one in found
        ]
        assert {MissingCause.UNRECORDED} == {one.cause for one in found}
    finally:
        store.close()


def test_a_timer_that_was_taken_away_shows_when_its_time_has_passed(tmp_path):
    """An active schedule without a pending instant fires nothing, and all of it is missing."""
    clock = ManualClock()
    path = made_file(tmp_path / "duly.db", clock)
    store = SqliteStore(path, clock)
    try:
        lived(store, clock)
        with apsw.Connection(str(path)) as line:
            line.execute("UPDATE duly_schedule_state SET next_for = NULL, next_due = NULL")
        clock.advance("3d")

        missing = [one for one in slots(store) if one.kind is ExpectedOccurrenceKind.MISSING]
        assert 3 == len(missing)
        assert {MissingCause.UNRECORDED} == {one.cause for one in missing}
    finally:
        store.close()


def test_what_ran_at_another_instant_under_older_rules_is_not_missing(tmp_path):
    """The run is there, an hour from where newer time-zone rules put it."""
    clock = ManualClock()
    path = made_file(tmp_path / "duly.db", clock)
    store = SqliteStore(path, clock)
    try:
        nightly = cron("30 2 * * *", tz="Europe/Berlin")
        record = steps.create(store, timetable=nightly)
        for _ in range(2):
            record = steps.fire_due(store, clock, record)
        first, second = (one.run_id or b"" for one in slots(store))
        with apsw.Connection(str(path)) as line:
            for run_id in (first, second):
                stamp = int.from_bytes(run_id[:6]) + HOUR_MS
                moved = stamp.to_bytes(6) + run_id[6:]
                line.execute(
                    "UPDATE duly_runs SET id = ?1, scheduled_for = scheduled_for + ?2,"
                    " not_before = not_before + ?2, fired_at = fired_at + ?2 WHERE id = ?3",
                    (moved, HOUR_US, run_id),
                )
        clock.advance("2h")
        found = slots(store)

        assert [ExpectedOccurrenceKind.PRESENT] * 2 == [one.kind for one in found]
        assert {first, second}.isdisjoint(one.run_id for one in found)
    finally:
        store.close()
