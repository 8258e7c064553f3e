"""What the newest runs tell: lateness, what was useful, how it went wrong, and the rhythm."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from duly import at, cron, every
from duly.domain.enums import Finding, Lane, Origin, RunState
from duly.domain.ids import RunId
from duly.domain.vitals import (
    BEHIND_MAX,
    FAILURES_SHOWN_MAX,
    LATE_BOUNDS_US,
    Fault,
    Lateness,
    RunVital,
    cadence_of,
    count_behind,
    count_lates,
    error_class,
    lateness,
    summarize_runs,
    useful_at,
)
from duly.timetable.instants import to_microseconds
from tests.timetable.instants import moment

MINUTE_US = 60_000_000
WORKDAY = cron("*/15 9-17 * * MON-FRI", tz="Europe/Berlin")
RUN = RunVital(
    run_id=RunId(bytes(16)),
    schedule_id=None,
    task="work",
    origin=Origin.SCHEDULE,
    lane=Lane.LIVE,
    scheduled_for=0,
    due_at=0,
    fired_at=5,
    state=RunState.SUCCEEDED,
    reason=None,
    finished_at=100,
    attempt=1,
    begun_at=20,
    worker=1,
    claimed_at=20,
    started_at=30,
    progress_done=None,
    progress_total=None,
    progress_at=None,
    next_at=None,
    heartbeat_at=None,
    attempt_ended_at=100,
    finding=None,
    found_at=None,
    fault=None,
)


def us(text: str) -> int:
    return to_microseconds(moment(text))


@given(st.lists(st.integers(-10, 10_000), min_size=1))
def test_so_many_of_a_hundred_are_no_later(lates):
    """Each percentile is a lateness that occurred; nobody is early."""
    found = lateness(lates)

    assert len(lates) == found.runs
    for percent, value in ((50, found.p50), (95, found.p95), (99, found.p99)):
        no_later = sum(max(one, 0) <= value for one in lates)
        assert no_later * 100 >= percent * len(lates)
        assert value in {max(one, 0) for one in lates}
    assert Lateness() == lateness([])


def test_a_completion_is_useful_when_its_check_says_so_if_it_has_one():
    """And when it says so itself, if not."""
    verified = RUN._replace(finding=Finding.PRESENT, found_at=150)
    refuted = RUN._replace(finding=Finding.PARTIAL, found_at=150)
    failed = verified._replace(state=RunState.FAILED)

    assert (100, None) == (useful_at(RUN, is_checked=False), useful_at(RUN, is_checked=True))
    assert (150, None) == tuple(useful_at(one, is_checked=True) for one in (verified, refuted))
    assert (None, None) == tuple(useful_at(failed, is_checked=one) for one in (True, False))


def test_a_window_tells_starts_apart_from_fires_and_useful_ends():
    """What waits counts with how late it is by now; a check's own run is no work."""
    waiting = RUN._replace(
        state=RunState.QUEUED, begun_at=None, started_at=None, finished_at=None, attempt=0
    )
    retried = RUN._replace(attempt=3, begun_at=21, started_at=70)
    check = RUN._replace(origin=Origin.VERIFY)
    history = RUN._replace(lane=Lane.BACKFILL, origin=Origin.BACKFILL, started_at=9_000)

    found = summarize_runs([waiting, retried, RUN, check, history], lambda _: False, 1_000)

    assert (4, 5, 2, 3) == (found.runs, found.attempts, found.retries, found.useful)
    assert Lateness(3, 5, 5, 5) == found.fired
    assert Lateness(3, 30, 1_000, 1_000) == found.started
    assert Lateness(2, 100, 100, 100) == found.useful_after
    assert 0.6 == found.useful_per_attempt
    assert summarize_runs([], lambda _: False, 0).useful_per_attempt is None


def test_lates_are_counted_by_how_late_they_are():
    """Each once, what is beyond all bounds at the end; nobody is earlier than the first."""
    found = count_lates([0, 1_000_000, 1_000_001, 59_000_000, 10**12])

    assert (2, 1, 0, 1, 0, 0, 0, 0, 1) == found
    assert len(LATE_BOUNDS_US) + 1 == len(found)


def test_ways_to_go_wrong_are_counted_and_bounded():
    """The most frequent first; what is beyond the list is counted."""
    faults = [
        RUN._replace(fault=Fault("failed", "error", f"Error{number % 12}: {number}", 1))
        for number in range(30)
    ]

    found = summarize_runs(faults, lambda _: False, 0)

    assert FAILURES_SHOWN_MAX == len(found.failures)
    assert ("failed", "error", "Error0", 3) == tuple(found.failures[0])
    assert 30 == sum(one.runs for one in found.failures) + found.failures_more


def test_the_class_of_an_error_is_how_its_last_line_begins():
    """Whatever the text holds."""
    assert "ValueError" == error_class("Traceback …\n  File\nValueError: no such ledger\n")
    assert "app.errors.Gone" == error_class("app.errors.Gone")
    assert "…" == error_class(" … ")
    assert 80 * "x" == error_class("x" * 1_000)
    assert [None, None] == [error_class(None), error_class(" \n ")]


def test_the_cadence_is_the_longer_of_the_last_two_intervals():
    """A night or a weekend is not held against the first run after it."""
    by_day = cadence_of(WORKDAY, us("2026-04-07T10:07Z"))
    first_of_the_day = cadence_of(WORKDAY, us("2026-04-07T07:05Z"))
    second_of_the_day = cadence_of(WORKDAY, us("2026-04-07T07:20Z"))

    assert 15 * MINUTE_US == by_day == second_of_the_day
    # Between 17:45 on Monday and 09:00 on Tuesday, local time.
    assert (15 * 60 + 15) * MINUTE_US == first_of_the_day


def test_without_a_rhythm_there_is_no_cadence():
    """Once is once."""
    once = at("2026-04-03T02:00", tz="UTC")

    assert cadence_of(once, us("2026-04-03T01:00Z")) is None
    assert cadence_of(once, us("2026-04-03T03:00Z")) is None


def test_occurrences_behind_are_counted_up_to_a_bound():
    """A rule that fires each second for a year costs no more than its bound."""
    begin = us("2026-04-03T02:00Z")

    assert 4 == count_behind(every("15m"), begin, begin + 60 * MINUTE_US)
    assert BEHIND_MAX == count_behind(every("1s"), begin, begin + 1_000_000 * MINUTE_US)
