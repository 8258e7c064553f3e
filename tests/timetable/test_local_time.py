"""What becomes of local times that are missing or doubled, told night by night."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from duly.errors import UsageError
from duly.timetable.cron import cron
from duly.timetable.instants import from_seconds, wall_datetime, wall_seconds
from duly.timetable.local_time import LocalRule, Resolution, check_policies, resolve
from duly.timetable.zones import default_zones
from tests.each_row import each_row
from tests.timetable.local_time_oracle import DailyTimes

ZONES = default_zones()


def wall(text: str) -> int:
    return wall_seconds(datetime.fromisoformat(text))


def daily(*times: str) -> DailyTimes:
    return DailyTimes(tuple(wall(f"1970-01-01T{time}") for time in times))


def shown(key: str, instant: int) -> str:
    """What a zone's clock shows at an instant, with its offset in hours."""
    offset = ZONES.zone(key).segment(instant).offset
    return f"{wall_datetime(instant + offset).isoformat(timespec='minutes')}{offset / 3600:+g}"


def fires(key: str, rule: DailyTimes, gap: str, fold: str, day: str) -> list[str]:
    """All instants from noon of the day before to noon of a day, as the zone's clock shows them."""
    zone, noon = ZONES.zone(key), wall(f"{day}T12:00")
    start = resolve(zone, noon - 86_400).instants[0]
    end = resolve(zone, noon).instants[0]
    found, instant = [], LocalRule(rule, zone, gap, fold).first_from(start)  # type: ignore[arg-type]
    while instant is not None and instant < end:
        found.append(shown(key, instant)[5:])
        instant = LocalRule(rule, zone, gap, fold).first_from(instant + 1)  # type: ignore[arg-type]
    return found


GAPS = [
    # Berlin jumps from 02:00 to 03:00.
    ("Europe/Berlin", "2026-03-29", "02:30", "next", ["03-29T03:00+2"]),
    ("Europe/Berlin", "2026-03-29", "02:30", "shift", ["03-29T03:30+2"]),
    ("Europe/Berlin", "2026-03-29", "02:30", "skip", []),
    ("Europe/Berlin", "2026-03-29", "02:00", "next", ["03-29T03:00+2"]),
    ("Europe/Berlin", "2026-03-29", "02:00", "skip", []),
    ("Europe/Berlin", "2026-03-29", "03:00", "skip", ["03-29T03:00+2"]),
    ("Europe/Berlin", "2026-03-29", "01:59", "skip", ["03-29T01:59+1"]),
    # Half an hour, two hours, a quarter of an hour and a bit.
    ("Australia/Lord_Howe", "2025-10-05", "02:15", "next", ["10-05T02:30+11"]),
    ("Australia/Lord_Howe", "2025-10-05", "02:15", "shift", ["10-05T02:45+11"]),
    ("Antarctica/Troll", "2025-03-30", "02:10", "next", ["03-30T03:00+2"]),
    ("Antarctica/Troll", "2025-03-30", "02:10", "shift", ["03-30T04:10+2"]),
    # Midnight itself does not exist.
    ("America/Havana", "2025-03-09", "00:00", "next", ["03-09T01:00-4"]),
    ("America/Havana", "2025-03-09", "00:30", "shift", ["03-09T01:30-4"]),
    ("America/Santiago", "2025-09-07", "00:00", "next", ["09-07T01:00-3"]),
    ("America/Santiago", "2025-09-07", "00:00", "skip", []),
    # A law that calls winter the exception changes nothing for the clock.
    ("Europe/Dublin", "2025-03-30", "01:30", "next", ["03-30T02:00+1"]),
    ("Africa/Casablanca", "2025-04-06", "02:30", "next", ["04-06T03:00+1"]),
]


@each_row(("key", "day", "time", "gap", "expected"), GAPS)
def test_a_missing_time_is_decided_by_the_gap_policy(key, day, time, gap, expected):
    """Spring forward."""
    assert expected == fires(key, daily(time), gap, "first", day)


FOLDS = [
    # Berlin shows 02:00 to 03:00 twice.
    ("Europe/Berlin", "2026-10-25", "02:30", "first", ["10-25T02:30+2"]),
    ("Europe/Berlin", "2026-10-25", "02:30", "second", ["10-25T02:30+1"]),
    ("Europe/Berlin", "2026-10-25", "02:30", "both", ["10-25T02:30+2", "10-25T02:30+1"]),
    ("Europe/Berlin", "2026-10-25", "02:00", "both", ["10-25T02:00+2", "10-25T02:00+1"]),
    ("Europe/Berlin", "2026-10-25", "03:00", "both", ["10-25T03:00+1"]),
    ("Europe/Berlin", "2026-10-25", "01:59", "both", ["10-25T01:59+2"]),
    ("Australia/Lord_Howe", "2025-04-06", "01:45", "first", ["04-06T01:45+11"]),
    ("Australia/Lord_Howe", "2025-04-06", "01:45", "second", ["04-06T01:45+10.5"]),
    ("Antarctica/Troll", "2025-10-26", "01:10", "both", ["10-26T01:10+2", "10-26T01:10+0"]),
    # The last hour of a day, shown twice before midnight.
    ("America/Santiago", "2025-04-06", "23:30", "first", ["04-05T23:30-3"]),
    ("America/Santiago", "2025-04-06", "23:30", "second", ["04-05T23:30-4"]),
    ("America/Santiago", "2025-04-06", "00:00", "both", ["04-06T00:00-4"]),
    ("America/Havana", "2025-11-02", "00:30", "both", ["11-02T00:30-4", "11-02T00:30-5"]),
    ("Europe/Dublin", "2025-10-26", "01:30", "both", ["10-26T01:30+1", "10-26T01:30+0"]),
    ("Africa/Casablanca", "2025-02-23", "02:30", "both", ["02-23T02:30+1", "02-23T02:30+0"]),
]


@each_row(("key", "day", "time", "fold", "expected"), FOLDS)
def test_a_doubled_time_is_decided_by_the_fold_policy(key, day, time, fold, expected):
    """Autumn back."""
    assert expected == fires(key, daily(time), "next", fold, day)


def test_times_that_fall_into_one_gap_collapse_into_one():
    """Three times are missing, and the first instant after the gap stands for all of them."""
    rule = daily("02:00", "02:20", "02:40", "03:00")

    assert fires("Europe/Berlin", rule, "next", "first", "2026-03-29") == ["03-29T03:00+2"]


def test_times_that_are_shifted_onto_others_are_given_once():
    """02:30 moves to 03:30, where there is one already."""
    rule = daily("02:15", "02:30", "03:30")
    expected = ["03-29T03:15+2", "03-29T03:30+2"]

    assert expected == fires("Europe/Berlin", rule, "shift", "first", "2026-03-29")


def test_shifted_times_stay_in_order_with_real_ones():
    """02:45 moves to 03:45, past the real 03:10."""
    rule = daily("02:45", "03:10")
    expected = ["03-29T03:10+2", "03-29T03:45+2"]

    assert expected == fires("Europe/Berlin", rule, "shift", "first", "2026-03-29")


@pytest.mark.parametrize(
    ("gap", "expected"),
    [
        ("next", ["2011-12-29T09:00-10", "2011-12-31T00:00+14", "2011-12-31T09:00+14"]),
        ("shift", ["2011-12-29T09:00-10", "2011-12-31T09:00+14", "2012-01-01T09:00+14"]),
        ("skip", ["2011-12-29T09:00-10", "2011-12-31T09:00+14", "2012-01-01T09:00+14"]),
    ],
)
def test_a_day_that_is_missing_altogether(gap, expected):
    """Samoa crossed the date line; there was no 30 December 2011."""
    zone, rule = ZONES.zone("Pacific/Apia"), daily("09:00")
    instant = resolve(zone, wall("2011-12-29T00:00")).instants[0]
    found = []
    for _ in range(3):
        at = LocalRule(rule, zone, gap, "first").first_from(instant)
        assert at is not None
        found.append(at)
        instant = at + 1

    assert expected == [shown("Pacific/Apia", at) for at in found]


def test_a_day_that_happened_twice():
    """Kwajalein crossed it the other way in 1969, and clocks went back a day."""
    found = resolve(ZONES.zone("Pacific/Kwajalein"), wall("1969-09-30T12:00"))

    assert found.kind == "fold"
    assert 82_800 <= found.instants[1] - found.instants[0] <= 86_400


@each_row(
    ("key", "time", "expected"),
    [
        ("Europe/Berlin", "2026-03-29T01:59:59", Resolution("unique", (1_774_745_999,))),
        ("Europe/Berlin", "2026-03-29T02:00:00", Resolution("gap", ())),
        ("Europe/Berlin", "2026-03-29T02:59:59", Resolution("gap", ())),
        ("Europe/Berlin", "2026-03-29T03:00:00", Resolution("unique", (1_774_746_000,))),
        (
            "Europe/Berlin",
            "2026-10-25T02:00:00",
            Resolution("fold", (1_792_886_400, 1_792_890_000)),
        ),
        ("Europe/Berlin", "2026-10-25T03:00:00", Resolution("unique", (1_792_893_600,))),
        ("UTC", "1970-01-01T00:00:00", Resolution("unique", (0,))),
        ("Pacific/Apia", "2011-12-30T12:00:00", Resolution("gap", ())),
    ],
)
def test_a_local_time_is_unique_missing_or_doubled(key, time, expected):
    """To the second."""
    assert expected == resolve(ZONES.zone(key), wall(time))


def test_counting_sees_what_the_policies_do():
    """A year in Berlin has 365 times 02:30, one of which is missing and one doubled."""
    zone, rule = ZONES.zone("Europe/Berlin"), daily("02:30")
    year = [resolve(zone, wall(f"{year}-01-01T00:00")).instants[0] for year in (2026, 2027)]
    counts = {
        (gap, fold): LocalRule(rule, zone, gap, fold).count(*year)
        for gap in ("next", "skip")
        for fold in ("first", "both")
    }

    assert counts == {
        ("next", "first"): 365,
        ("next", "both"): 366,
        ("skip", "first"): 364,
        ("skip", "both"): 365,
    }


@each_row("gap", ["next", "shift", "skip"])
@each_row("fold", ["first", "second", "both"])
@each_row("key", ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC"])
def test_a_rule_that_never_holds_has_no_instant(key, gap, fold):
    """It ends; it never spins."""

    class Never:
        def at_or_after(self, wall: int) -> int | None:
            return None

        def at_or_before(self, wall: int) -> int | None:
            return None

        def count(self, start: int, end: int) -> int:
            return 0

    zone = ZONES.zone(key)
    for instant in (wall("0001-01-03"), wall("1900-01-01"), wall("2026-03-29"), wall("9998-01-01")):
        assert LocalRule(Never(), zone, gap, fold).first_from(instant) is None
        assert LocalRule(Never(), zone, gap, fold).last_until(instant) is None


@each_row("key", ["Pacific/Kiritimati", "Etc/GMT+12", "America/New_York", "Asia/Manila"])
@each_row("shift", [-14, 0, 14])
def test_the_ends_of_the_calendar_are_answered_and_not_stumbled_over(key, shift):
    """The first and the last datetime that Python has, in zones far east and far west."""
    offset = timezone(timedelta(hours=shift))
    first, last = datetime.min.replace(tzinfo=offset), datetime.max.replace(tzinfo=offset)
    rule = cron("30 2 * * *", tz=key)

    found = rule.next(first)
    assert found is not None
    assert found.year == 1
    assert rule.previous(first) is None
    assert rule.next(last) is None
    found = rule.previous(last)
    assert found is not None
    assert found.year == 9999


def test_before_clocks_were_agreed_upon_a_town_had_its_own_time():
    """Noon in Paris in 1890 was at 11:50:39 UTC, seconds included."""
    zone = ZONES.zone("Europe/Paris")
    found = LocalRule(daily("12:00"), zone, "next", "first").first_from(wall("1890-06-01T00:00"))
    assert found is not None

    assert datetime(1890, 6, 1, 11, 50, 39, tzinfo=UTC) == from_seconds(found)


@pytest.mark.parametrize(
    ("gap", "fold", "message"),
    [
        ("later", "first", "gap: 'later' is not a policy; choose one of next, shift, skip"),
        ("next", "earliest", "fold: 'earliest' is not a policy; choose one of first, second, both"),
    ],
)
def test_a_policy_that_does_not_exist_is_refused(gap, fold, message):
    """Field, value and remedy."""
    with pytest.raises(UsageError) as caught:
        check_policies(gap, fold)

    assert message == str(caught.value)
