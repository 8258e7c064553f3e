"""Cron where clocks change, in far years and at the ends of the calendar."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from duly import cron
from tests.each_row import each_row
from tests.timetable.instants import NOON, moment, moments, upcoming

GAPS = [
    # zone, expression, the evening before; then: next, shift, skip
    (
        "America/New_York",
        "30 2 * * *",
        "2026-03-07T12:00-05:00",
        "2026-03-08T03:00-04:00",
        "2026-03-08T03:30-04:00",
        "2026-03-09T02:30-04:00",
    ),
    (
        "Europe/Berlin",
        "30 2 * * *",
        "2026-03-28T12:00+01:00",
        "2026-03-29T03:00+02:00",
        "2026-03-29T03:30+02:00",
        "2026-03-30T02:30+02:00",
    ),
    (
        "Australia/Lord_Howe",
        "15 2 * * *",
        "2026-10-03T12:00+10:30",
        "2026-10-04T02:30+11:00",
        "2026-10-04T02:45+11:00",
        "2026-10-05T02:15+11:00",
    ),
    (
        "America/Havana",
        "30 0 * * *",
        "2026-03-07T12:00-05:00",
        "2026-03-08T01:00-04:00",
        "2026-03-08T01:30-04:00",
        "2026-03-09T00:30-04:00",
    ),
    (
        "America/Santiago",
        "30 0 * * *",
        "2026-09-05T12:00-04:00",
        "2026-09-06T01:00-03:00",
        "2026-09-06T01:30-03:00",
        "2026-09-07T00:30-03:00",
    ),
    (
        "Pacific/Apia",
        "0 9 30 * *",
        "2011-12-29T12:00-10:00",
        "2011-12-31T00:00+14:00",
        "2011-12-31T09:00+14:00",
        "2012-01-30T09:00+14:00",
    ),
    (
        "Africa/Casablanca",
        "30 2 * * *",
        "2026-03-21T12:00+00:00",
        "2026-03-22T03:00+01:00",
        "2026-03-22T03:30+01:00",
        "2026-03-23T02:30+01:00",
    ),
    (
        "Europe/Dublin",
        "30 1 * * *",
        "2026-03-28T12:00+00:00",
        "2026-03-29T02:00+01:00",
        "2026-03-29T02:30+01:00",
        "2026-03-30T01:30+01:00",
    ),
    (
        "Australia/Sydney",
        "30 2 * * *",
        "2026-10-03T12:00+10:00",
        "2026-10-04T03:00+11:00",
        "2026-10-04T03:30+11:00",
        "2026-10-05T02:30+11:00",
    ),
]
FOLDS = [
    # zone, expression, the noon before; then: the first pass, the second pass
    (
        "America/New_York",
        "30 1 * * *",
        "2026-10-31T12:00-04:00",
        "2026-11-01T01:30-04:00",
        "2026-11-01T01:30-05:00",
    ),
    (
        "Europe/Berlin",
        "30 2 * * *",
        "2026-10-24T12:00+02:00",
        "2026-10-25T02:30+02:00",
        "2026-10-25T02:30+01:00",
    ),
    (
        "Australia/Lord_Howe",
        "45 1 * * *",
        "2026-04-04T12:00+11:00",
        "2026-04-05T01:45+11:00",
        "2026-04-05T01:45+10:30",
    ),
    (
        "America/Havana",
        "30 0 * * *",
        "2025-11-01T12:00-04:00",
        "2025-11-02T00:30-04:00",
        "2025-11-02T00:30-05:00",
    ),
    (
        "America/Santiago",
        "30 23 * * *",
        "2026-04-04T12:00-03:00",
        "2026-04-04T23:30-03:00",
        "2026-04-04T23:30-04:00",
    ),
    (
        "Pacific/Apia",
        "30 3 * * *",
        "2012-03-31T12:00+14:00",
        "2012-04-01T03:30+14:00",
        "2012-04-01T03:30+13:00",
    ),
    (
        "Africa/Casablanca",
        "30 2 * * *",
        "2026-02-14T12:00+01:00",
        "2026-02-15T02:30+01:00",
        "2026-02-15T02:30+00:00",
    ),
    (
        "Europe/Dublin",
        "30 1 * * *",
        "2026-10-24T12:00+01:00",
        "2026-10-25T01:30+01:00",
        "2026-10-25T01:30+00:00",
    ),
    (
        "Australia/Sydney",
        "30 2 * * *",
        "2026-04-04T12:00+11:00",
        "2026-04-05T02:30+11:00",
        "2026-04-05T02:30+10:00",
    ),
]
every_gap = pytest.mark.parametrize(
    ("tz", "expression", "after", "by_next", "by_shift", "by_skip"),
    GAPS,
    ids=[case[0] for case in GAPS],
)
every_fold = pytest.mark.parametrize(
    ("tz", "expression", "after", "first", "second"), FOLDS, ids=[case[0] for case in FOLDS]
)


@every_gap
def test_a_named_time_in_a_gap_fires_at_its_end(tz, expression, after, by_next, by_shift, by_skip):
    """The default."""
    assert moments(by_next) == upcoming(cron(expression, tz), after, 1)


@every_gap
def test_a_named_time_in_a_gap_may_shift(tz, expression, after, by_next, by_shift, by_skip):
    assert moments(by_shift) == upcoming(cron(expression, tz, gap="shift"), after, 1)


@every_gap
def test_a_named_time_in_a_gap_may_be_skipped(tz, expression, after, by_next, by_shift, by_skip):
    assert moments(by_skip) == upcoming(cron(expression, tz, gap="skip"), after, 1)


@every_fold
def test_a_named_time_in_a_fold_fires_on_the_first_pass(tz, expression, after, first, second):
    """The default; and not again before the next day."""
    found = upcoming(cron(expression, tz), after, 2)

    assert moments(first) == found[:1]
    assert found[1] > moment(second)


@every_fold
def test_a_named_time_in_a_fold_may_wait_for_the_second_pass(tz, expression, after, first, second):
    assert moments(second) == upcoming(cron(expression, tz, fold="second"), after, 1)


@every_fold
def test_a_named_time_in_a_fold_may_fire_on_both(tz, expression, after, first, second):
    assert moments(first, second) == upcoming(cron(expression, tz, fold="both"), after, 2)


@each_row(("tz", "after"), [(case[0], case[2]) for case in [*GAPS, *FOLDS]])
@each_row(("gap", "fold"), [("next", "first"), ("shift", "second"), ("skip", "both")])
def test_a_minute_with_a_star_means_every_real_instant_whatever_the_clocks_do(tz, after, gap, fold):
    """Debian's distinction."""
    found = upcoming(cron("*/15 * * * *", tz, gap, fold), after, 200)
    distances = {later - earlier for earlier, later in pairwise(found)}

    assert {timedelta(minutes=15)} == distances


def test_an_hour_with_a_star_is_enough_to_mean_every_real_instant():
    """30 minutes past each hour that exists, and in both passes."""
    spring = upcoming(cron("30 * * * *", "Europe/Berlin"), "2026-03-29T01:00+01:00", 2)
    autumn = upcoming(cron("30 * * * *", "Europe/Berlin"), "2026-10-25T02:00+02:00", 2)

    assert moments("2026-03-29T01:30+01:00", "2026-03-29T03:30+02:00") == spring
    assert moments("2026-10-25T02:30+02:00", "2026-10-25T02:30+01:00") == autumn


def test_ranges_and_lists_of_hours_name_times():
    """They don't start with a star."""
    found = upcoming(cron("30 1-3 * * *", "Europe/Berlin"), "2026-10-25T01:30+02:00", 3)

    assert (
        moments("2026-10-25T02:30+02:00", "2026-10-25T03:30+01:00", "2026-10-26T01:30+01:00")
        == found
    )


def test_named_times_that_fall_into_one_gap_collapse_into_one():
    found = upcoming(cron("0,15,30,45 2 * * *", "Europe/Berlin"), "2026-03-28T12:00+01:00", 2)

    assert moments("2026-03-29T03:00+02:00", "2026-03-30T02:00+02:00") == found


def test_a_gap_collapses_into_a_time_that_is_named_anyway():
    """02:30 and 03:00 are one occurrence on the night the clocks go forward."""
    found = upcoming(cron("30,0 2,3 * * *", "Europe/Berlin"), "2026-03-28T12:00+01:00", 2)

    assert moments("2026-03-29T03:00+02:00", "2026-03-29T03:30+02:00") == found


@pytest.mark.parametrize(
    "expression", ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 L-30 2 *", "0 0 0 31 2 ? 2030"]
)
def test_a_day_that_never_comes_is_told_at_once(expression):
    timetable = cron(expression, "America/New_York")

    assert timetable.next(moment(NOON)) is None
    assert timetable.previous(moment(NOON)) is None
    assert upcoming(timetable, NOON, 3) == []


def test_a_day_that_comes_once_in_decades_is_found():
    """29 February on a Sunday; the year 2100 is not a leap year."""
    found = upcoming(cron("0 0 29 2 */7"), NOON, 4)

    assert moments("2032-02-29", "2060-02-29", "2088-02-29", "2128-02-29") == found


def test_far_years_keep_their_summer_time():
    """The yearly rule goes on, with the calendar's own cycle."""
    timetable = cron("30 2 * * *", "Europe/Berlin")

    assert moments("2500-03-28T03:00+02:00") == upcoming(timetable, "2500-03-27T12:00Z", 1)
    assert moments("9999-10-31T02:30+02:00") == upcoming(timetable, "9999-10-30T12:00Z", 1)


def test_years_before_1970_are_ordinary():
    """Berlin's clocks went forward on 1 April 1940, at 02:00."""
    timetable = cron("30 2 * * *", "Europe/Berlin")

    assert moments("1940-04-01T03:00+02:00") == upcoming(timetable, "1940-03-31T12:00+01:00", 1)
    assert moment("1940-03-31T02:30+01:00") == timetable.previous(moment("1940-03-31T12:00+01:00"))


@each_row("tz", ["UTC", "America/New_York", "Asia/Tokyo", "Pacific/Kiritimati"])
@each_row("expression", ["* * * * *", "0 23 * * *", "0 0 31 12 *", "0 0 1 1 *", "0 0 * * 1-7"])
def test_the_ends_of_the_calendar_are_no_trap(expression, tz):
    """There, the answer is None and never an overflow."""
    timetable = cron(expression, tz)
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    soon = timetable.upcoming(first, 3)

    assert [timetable.next(first), *map(timetable.next, soon[:-1])] == soon
    assert timetable.next(last) is None
    assert timetable.previous(first) is None
    assert timetable.previous(soon[0]) is None
    assert timetable.next(timetable.previous(last) or first) is None
