"""Fixed intervals: real time, counted from an anchor."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly import UsageError, every
from tests.each_row import each_row

MICROSECOND = timedelta(microseconds=1)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


NOON = moment("2026-01-01T12:00+00:00")


def test_an_interval_is_counted_from_1970():
    found = every("15m").upcoming(moment("2026-01-01T12:07:30+00:00"), 2)

    assert [NOON + timedelta(minutes=15), NOON + timedelta(minutes=30)] == found


def test_an_anchor_moves_it():
    anchored = every("1h", anchor=moment("2026-01-01T10:20:30+00:00"))

    assert moment("2026-01-01T12:20:30+00:00") == anchored.next(NOON)
    assert moment("2026-01-01T11:20:30+00:00") == anchored.previous(NOON)


def test_an_interval_runs_before_its_anchor_too():
    """An anchor says where, not since when; `between` says that."""
    anchored = every("24h", anchor=moment("2030-06-01T09:00+00:00"))

    assert moment("2026-01-02T09:00+00:00") == anchored.next(NOON)


def test_an_interval_is_blind_to_clocks_on_the_wall():
    """24 hours are 24 hours, also when Berlin's day has 23."""
    anchored = every("24h", anchor=moment("2026-03-28T09:00+01:00"))
    found = anchored.upcoming(moment("2026-03-28T08:00+01:00"), 3)

    assert [
        moment("2026-03-28T09:00+01:00"),
        moment("2026-03-29T10:00+02:00"),
        moment("2026-03-30T10:00+02:00"),
    ] == found


def test_a_period_may_be_a_timedelta_and_shorter_than_a_second():
    found = every(timedelta(milliseconds=250)).upcoming(NOON, 2)

    assert [NOON + timedelta(milliseconds=250), NOON + timedelta(milliseconds=500)] == found


def test_next_is_strictly_later_down_to_the_microsecond():
    hourly = every("1h")
    hour = timedelta(hours=1)

    assert NOON == hourly.next(NOON - MICROSECOND)
    assert NOON + hour == hourly.next(NOON)
    assert NOON + hour == hourly.next(NOON + MICROSECOND)
    assert NOON == hourly.previous(NOON + MICROSECOND)
    assert NOON - hour == hourly.previous(NOON)


@each_row("period", ["100ms", "7s", "1h", "1000d", "36600d"])
def test_the_ends_of_the_calendar_are_no_trap(period):
    timetable = every(period)
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    earliest, latest = timetable.next(first), timetable.previous(last)

    assert earliest is not None
    assert latest is not None
    assert timetable.previous(earliest) is None
    assert timetable.next(latest) is None
    assert timetable.next(last) is None
    assert timetable.previous(first) is None


@each_row(
    ("period", "problem"),
    [
        ("99ms", "too short"),
        ("0s", "too short"),
        ("-5m", "too short"),
        (timedelta(0), "too short"),
        (timedelta.max, "longer than a century"),
        ("99999999d", "longer than a century"),
        ("soon", "not a duration"),
        (900, "not a duration"),
        (None, "not a duration"),
    ],
)
def test_a_period_that_is_none_is_refused(period, problem):
    with pytest.raises(UsageError, match=problem) as caught:
        every(period)

    assert "every" == caught.value.field


@pytest.mark.parametrize("anchor", [datetime(2026, 1, 1), "2026-01-01", None])
def test_an_anchor_needs_a_zone(anchor):
    with pytest.raises(UsageError, match="aware datetime") as caught:
        every("1h", anchor=anchor)

    assert "anchor" == caught.value.field


def test_an_interval_is_equal_by_its_words():
    assert every("90m") == every("90m")
    assert hash(every("90m")) == hash(every("90m"))
    assert every("1h30m") != every("90m")
    assert every(timedelta(minutes=90)) == every("1h30m")
    assert every("90m", anchor=NOON) != every("90m")


moments = st.datetimes(timezones=st.just(UTC))
periods = st.timedeltas(timedelta(milliseconds=100), timedelta(days=3000))


@given(periods, moments, moments)
def test_occurrences_are_a_whole_number_of_periods_from_the_anchor(period, anchor, asked):
    timetable = every(period, anchor)
    found = timetable.upcoming(asked, 4)

    assert all((later - anchor) % period == timedelta(0) for later in found)
    assert all(later - earlier == period for earlier, later in pairwise(found))
    assert all(found[0] > asked for _ in found[:1])
    assert found[:-1] == [timetable.previous(later) for later in found[1:]]
