"""Single dates: an instant, a wall time in a zone, a delay after an event."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from duly import UsageError, after, at
from tests.each_row import each_row

EARLY = datetime(2000, 1, 1, tzinfo=UTC)
LATE = datetime(2100, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def test_an_instant_fires_once():
    timetable = at("2026-04-03T09:00+02:00")
    seven = moment("2026-04-03T07:00+00:00")

    assert [seven] == timetable.upcoming(EARLY, 5)
    assert seven == timetable.next(seven - MICROSECOND)
    assert timetable.next(seven) is None
    assert seven == timetable.previous(seven + MICROSECOND)
    assert timetable.previous(seven) is None


def test_an_instant_may_be_an_aware_datetime_with_microseconds():
    when = datetime(2026, 4, 3, 9, 0, 0, 123_456, tzinfo=ZoneInfo("Europe/Paris"))

    assert moment("2026-04-03T07:00:00.123456+00:00") == at(when).next(EARLY)


def test_the_second_pass_of_a_fold_is_heard():
    """The person's datetime says which of the two it means."""
    first = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))

    assert moment("2026-10-25T00:30+00:00") == at(first).next(EARLY)
    assert moment("2026-10-25T01:30+00:00") == at(first.replace(fold=1)).next(EARLY)


def test_a_wall_time_is_read_in_its_zone():
    assert moment("2026-04-03T07:00+00:00") == at("2026-04-03T09:00", tz="Europe/Paris").next(EARLY)
    assert moment("2026-04-03T00:00+00:00") == at(datetime(2026, 4, 3), tz="UTC").next(EARLY)


@pytest.mark.parametrize(
    ("gap", "expected"),
    [
        ("next", ["2026-03-29T03:00+02:00"]),
        ("shift", ["2026-03-29T03:30+02:00"]),
        ("skip", []),
    ],
)
def test_a_wall_time_in_a_gap_follows_its_policy(gap, expected):
    """Skipped, it never comes."""
    timetable = at("2026-03-29T02:30", tz="Europe/Berlin", gap=gap)

    assert [moment(text) for text in expected] == timetable.upcoming(EARLY, 3)
    assert timetable.previous(LATE) == (moment(expected[0]) if expected else None)


@pytest.mark.parametrize(
    ("fold", "expected"),
    [
        ("first", ["2026-10-25T02:30+02:00"]),
        ("second", ["2026-10-25T02:30+01:00"]),
        ("both", ["2026-10-25T02:30+02:00", "2026-10-25T02:30+01:00"]),
    ],
)
def test_a_wall_time_in_a_fold_follows_its_policy(fold, expected):
    timetable = at("2026-10-25T02:30", tz="Europe/Berlin", fold=fold)

    assert [moment(text) for text in expected] == timetable.upcoming(EARLY, 3)


def test_a_delay_follows_an_event():
    event = moment("2026-04-03T09:00+02:00")

    assert event + timedelta(hours=24) == after(event, "24h").next(EARLY)
    assert event - timedelta(minutes=90) == after(event, "-1h30m").next(EARLY)
    assert event + timedelta(days=2) == after(event, timedelta(days=2)).next(EARLY)


@each_row(
    ("given", "field"),
    [
        ({"when": "tomorrow"}, "when"),
        ({"when": ""}, "when"),
        ({"when": "2026-02-30T09:00", "tz": "UTC"}, "when"),
        ({"when": "2026-04-03T09:00"}, "when"),
        ({"when": datetime(2026, 4, 3)}, "when"),
        ({"when": date(2026, 4, 3), "tz": "UTC"}, "when"),
        ({"when": None}, "when"),
        ({"when": 1_775_000_000}, "when"),
        ({"when": "2026-04-03T09:00:00.5", "tz": "UTC"}, "when"),
        ({"when": "2026-04-03T09:00+02:00", "tz": "Europe/Paris"}, "tz"),
        ({"when": "2026-04-03T09:00", "tz": "Europe/Pariss"}, "tz"),
        ({"when": "2026-04-03T09:00", "tz": "UTC", "gap": "no"}, "gap"),
        ({"when": "2026-04-03T09:00", "tz": "UTC", "fold": "no"}, "fold"),
    ],
)
def test_a_date_that_is_none_is_refused(given, field):
    with pytest.raises(UsageError) as caught:
        at(**given)

    assert field == caught.value.field
    assert caught.value.remedy


@pytest.mark.parametrize(
    "when",
    [
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))),
        datetime.max.replace(tzinfo=UTC),
    ],
)
def test_an_instant_at_the_end_of_the_calendar_is_refused(when):
    """Some zone could not show it."""
    with pytest.raises(UsageError, match="end of the calendar; give a date from"):
        at(when)


@pytest.mark.parametrize("when", ["0001-01-01T00:00", "9999-12-31T23:00"])
@pytest.mark.parametrize("tz", ["America/New_York", "Asia/Tokyo"])
def test_a_wall_time_at_the_end_of_the_calendar_is_refused(when, tz):
    with pytest.raises(UsageError, match="end of the calendar; give a date from"):
        at(when, tz=tz)


@pytest.mark.parametrize("when", ["0001-01-03T00:00", "9999-12-29T23:59"])
@pytest.mark.parametrize("tz", ["America/New_York", "Pacific/Kiritimati"])
def test_a_wall_time_close_to_it_is_an_instant_like_others(when, tz):
    found = at(when, tz=tz).upcoming(datetime.min.replace(tzinfo=UTC), 2)

    assert 1 == len(found)


def test_a_delay_out_of_the_calendar_is_refused():
    with pytest.raises(UsageError, match="leads out of the calendar") as caught:
        after(datetime(9999, 12, 1, tzinfo=UTC), "100d")

    assert "delay" == caught.value.field


@pytest.mark.parametrize(
    ("event", "delay", "field"),
    [(datetime(2026, 1, 1), "1h", "event"), (None, "1h", "event"), (EARLY, "soon", "delay")],
)
def test_a_delay_needs_an_event_and_a_duration(event, delay, field):
    with pytest.raises(UsageError) as caught:
        after(event, delay)

    assert field == caught.value.field


ONES = [
    at("2026-04-03T09:00+02:00"),
    at("2026-04-03T09:00", tz="Europe/Paris", gap="shift"),
    after(EARLY, "24h"),
]


@pytest.mark.parametrize("timetable", ONES, ids=["instant", "wall time", "delay"])
def test_a_date_is_a_value(timetable):
    again = [copy.copy(timetable), copy.deepcopy(timetable), pickle.loads(pickle.dumps(timetable))]

    assert [timetable] * 3 == again
    assert {hash(timetable)} == {hash(one) for one in again}
    assert all(one.next(EARLY) == timetable.next(EARLY) for one in again)


def test_the_offset_of_an_old_zone_is_said_in_full():
    """Monrovia was 43 minutes and 8 seconds behind."""
    described = at(datetime(1881, 1, 1, tzinfo=ZoneInfo("Africa/Monrovia"))).describe()

    assert "once, on 1881-01-01 at 00:00 (-00:43:08)" == described


def test_a_datetime_may_say_which_of_two_it_means():
    """Python's own `fold` is respected."""
    second = datetime(2026, 10, 25, 2, 30, fold=1)

    assert at(second.replace(fold=0), "Europe/Berlin", fold="second") == at(second, "Europe/Berlin")
