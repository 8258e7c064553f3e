"""What moves when governments change the clocks: two releases, side by side.

Each case is a real decision at short notice, as the release before it and the one after it saw it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from duly.errors import UsageError
from duly.timetable.cron import Cron, cron
from duly.timetable.data_sources import ZoneFolder
from duly.timetable.zones import Move, ZoneChange, ZoneDatabase, default_zones, moved, zone_changes
from tests.each_row import each_row
from tests.timetable.local_time_oracle import Oracle, seconds
from tests.timetable.made_zones import release, tzif

EET, EEST = (7200, False, "EET"), (10_800, True, "EEST")
CAT, EAT = (7200, False, "CAT"), (10_800, False, "EAT")
VOLT, MSK = (14_400, False, "+04"), (10_800, False, "MSK")
OPERATING_SYSTEM = Path("/usr/share/zoneinfo")


def utc(year: int, month: int, day: int, *time: int) -> datetime:
    hour, minute, second = (*time, 0, 0, 0)[:3]
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC)


def hours(number: int) -> timedelta:
    return timedelta(hours=number)


OLD = release(
    "old",
    Africa__Cairo=tzif(EET, [(seconds(2014, 9, 25, 21), EET)], "EET-2"),
    Asia__Beirut=tzif(
        EET, [(seconds(2022, 10, 29, 21), EET)], "EET-2EEST,M3.5.0/0,M10.5.0/0"
    ),
    Africa__Juba=tzif(CAT, [(seconds(2000, 1, 15, 9), EAT)], "EAT-3"),
    Europe__Volgograd=tzif(MSK, [(seconds(2018, 10, 27, 23), VOLT)], "<+04>-4"),
    Africa__Tunis=tzif((3600, False, "CET"), footer="CET-1"),
    US__Pacific_New=tzif((-28_800, False, "PST"), footer="PST8PDT,M3.2.0,M11.1.0"),
)  # fmt: skip
NEW = release(
    "new",
    # Announced in March 2023: summer time is back, from the last Friday of April.
    Africa__Cairo=tzif(
        EET, [(seconds(2023, 3, 1), EET)], "EET-2EEST,M4.5.5/0,M10.5.4/24"
    ),
    # Announced three days before: it starts on 20 April instead of 26 March 2023.
    Asia__Beirut=tzif(
        EET,
        [
            (seconds(2022, 10, 29, 21), EET),
            (seconds(2023, 4, 20, 22), EEST),
            (seconds(2023, 10, 28, 21), EET),
        ],
        "EET-2EEST,M3.5.0/0,M10.5.0/0",
    ),
    # South Sudan moved to UTC+02:00 on 1 February 2021.
    Africa__Juba=tzif(
        CAT, [(seconds(2000, 1, 15, 9), EAT), (seconds(2021, 1, 31, 21), CAT)], "CAT-2"
    ),
    # Volgograd moved to Moscow time on 27 December 2020.
    Europe__Volgograd=tzif(
        MSK, [(seconds(2018, 10, 27, 23), VOLT), (seconds(2020, 12, 26, 22), MSK)], "MSK-3"
    ),
    # The same in other words: the writer lists a change that is none.
    Africa__Tunis=tzif(
        (3600, False, "CET"), [(seconds(2020, 1, 1), (3600, False, "CET"))], "CET-1"
    ),
    Europe__Kyiv=tzif(EET, footer="EET-2EEST,M3.5.0/3,M10.5.0/4"),
)  # fmt: skip

CHANGES = {
    "Africa/Cairo": ZoneChange(
        "Africa/Cairo", "changed", utc(2023, 4, 27, 22), hours(2), hours(3)
    ),
    "Africa/Juba": ZoneChange("Africa/Juba", "changed", utc(2021, 1, 31, 21), hours(3), hours(2)),
    "Asia/Beirut": ZoneChange("Asia/Beirut", "changed", utc(2023, 3, 25, 22), hours(3), hours(2)),
    "Europe/Kyiv": ZoneChange("Europe/Kyiv", "added"),
    "Europe/Volgograd": ZoneChange(
        "Europe/Volgograd", "changed", utc(2020, 12, 26, 22), hours(4), hours(3)
    ),
    "US/Pacific_New": ZoneChange("US/Pacific_New", "removed"),
}  # fmt: skip


def changes(start: datetime, end: datetime) -> dict[str, ZoneChange]:
    return {change.key: change for change in zone_changes(OLD, NEW, start, end)}


def test_each_zone_that_differs_is_named_with_the_first_instant_and_both_offsets():
    """Added, removed and changed zones, by name; what is the same in other words is not named."""
    found = zone_changes(OLD, NEW, utc(2020, 1, 1), utc(2024, 1, 1))

    assert list(CHANGES.values()) == found


def test_only_what_differs_within_the_window_is_named():
    found = changes(utc(2023, 6, 1), utc(2023, 10, 1))

    assert {
        "Africa/Cairo",
        "Africa/Juba",
        "Europe/Volgograd",
        "Europe/Kyiv",
        "US/Pacific_New",
    } == set(found)


def test_a_window_that_starts_amid_a_difference_starts_with_it():
    start = utc(2023, 4, 1, 0, 0, 30)

    assert start == changes(start, utc(2023, 4, 2))["Asia/Beirut"].at


@pytest.mark.parametrize("seconds_more", [0, 1])
def test_a_window_ends_before_its_end(seconds_more):
    """[start, end): the instant of the first difference is outside, and a second more inside."""
    end = utc(2023, 4, 27, 22) + timedelta(seconds=seconds_more)
    found = changes(utc(2023, 4, 1), end)

    assert bool(seconds_more) == ("Africa/Cairo" in found)


def test_a_release_differs_from_itself_in_nothing():
    again = ZoneDatabase(NEW.files)

    assert zone_changes(NEW, again, utc(1900, 1, 1), utc(2099, 1, 1)) == []


@each_row(
    ("start", "end", "message"),
    [
        (utc(2024, 1, 1), utc(2024, 1, 1), "end: .* is not later than start; give a later end"),
        (utc(2024, 1, 2), utc(2024, 1, 1), "end: .* is not later than start"),
        (utc(1, 1, 1), utc(9999, 1, 1), "end: .* is more than 200 years after start"),
        (datetime(2024, 1, 1), utc(2025, 1, 1), "start: .* has no time zone"),
        (utc(2024, 1, 1), "2025", "end: '2025' is not a datetime"),
    ],
)
def test_a_bad_window_is_refused(start, end, message):
    """Field, value and remedy."""
    with pytest.raises(UsageError, match=f"^{message}"):
        zone_changes(OLD, NEW, start, end)


MOVES = [
    # Every day at nine, asked before the night in which the old and the new clocks part.
    ("Africa/Cairo", utc(2023, 4, 27, 21), utc(2023, 4, 28, 7), utc(2023, 4, 28, 6)),
    ("Asia/Beirut", utc(2023, 3, 25, 21), utc(2023, 3, 26, 6), utc(2023, 3, 26, 7)),
    ("Africa/Juba", utc(2021, 1, 31, 20), utc(2021, 2, 1, 6), utc(2021, 2, 1, 7)),
    ("Europe/Volgograd", utc(2020, 12, 26, 21), utc(2020, 12, 27, 5), utc(2020, 12, 27, 6)),
]


@pytest.mark.parametrize(("key", "after", "old_at", "new_at"), MOVES)
def test_a_promise_at_nine_stays_at_nine_on_the_new_clock(key, after, old_at, new_at):
    """The local time is what was promised; the instant is derived, and moves."""
    nine = cron("0 9 * * *", tz=key, gap="next")

    assert [Move("report", old_at, new_at)] == moved({"report": nine.under(OLD)}, OLD, NEW, after)
    assert Oracle(NEW, key).shown(int(new_at.timestamp())).hour == 9


@pytest.mark.parametrize(("key", "after", "old_at", "new_at"), MOVES)
def test_a_promise_in_another_zone_does_not_move(key, after, old_at, new_at):
    assert moved({"report": cron("0 9 * * *", tz="Africa/Tunis").under(OLD)}, OLD, NEW, after) == []


def test_a_promise_before_the_clocks_part_does_not_move():
    nine = cron("0 9 * * *", tz="Africa/Cairo")

    assert moved({"report": nine}, OLD, NEW, utc(2023, 4, 26, 12)) == []


def test_a_time_that_exists_under_one_release_alone_moves_to_the_end_of_the_gap():
    """Beirut's clocks were to jump at midnight; under the new release they did not."""
    midnight = cron("30 0 26 3 *", tz="Asia/Beirut")
    (move,) = moved({"backup": midnight}, OLD, NEW, utc(2023, 3, 25, 12))

    assert Move("backup", utc(2023, 3, 25, 22), utc(2023, 3, 25, 22, 30)) == move


def test_moves_are_reported_in_the_order_given():
    timetables = {name: cron("0 9 * * *", tz="Africa/Juba") for name in ("b", "c", "a")}

    assert [move.name for move in moved(timetables, OLD, NEW, utc(2022, 1, 1))] == ["b", "c", "a"]


def test_a_zone_that_a_release_lacks_is_reported_and_stops_nobody():
    """What can't be computed says why."""
    timetables = {
        "gone": Cron(expression="0 9 * * *", tz="US/Pacific_New", zones=OLD),
        "juba": cron("0 9 * * *", tz="Africa/Juba"),
    }
    gone, juba = moved(timetables, OLD, NEW, utc(2022, 1, 1))

    assert ("gone", utc(2022, 1, 1, 17), None) == (gone.name, gone.old_at, gone.new_at)
    assert gone.problem is not None
    assert gone.problem.startswith("tz: 'US/Pacific_New' is not a time zone")
    assert (juba.name, juba.problem) == ("juba", None)


def test_after_must_be_an_instant():
    """Also where there is nothing to compute."""
    with pytest.raises(UsageError, match=r"^after: .* has no time zone"):
        moved({}, OLD, NEW, datetime(2022, 1, 1))


@pytest.mark.skipif(not OPERATING_SYSTEM.is_dir(), reason="this machine has no zones of its own")
def test_the_operating_systems_copy_differs_only_where_the_standard_library_says_so():
    """Whichever releases the two are, each reported difference is real, and its first second too."""
    wheel = default_zones()
    system = ZoneDatabase(ZoneFolder(OPERATING_SYSTEM))
    start, end = utc(2020, 1, 1), utc(2040, 1, 1)
    found = zone_changes(system, wheel, start, end)
    differing = {change.key for change in found}

    for change in found:
        if change.at and change.old_offset is not None and change.new_offset is not None:
            at = int(change.at.timestamp())
            offsets = Oracle(system, change.key).offset(at), Oracle(wheel, change.key).offset(at)
            assert offsets == (change.old_offset.total_seconds(), change.new_offset.total_seconds())
            assert offsets[0] != offsets[1]
    for key in ("Europe/Paris", "America/New_York", "Asia/Kolkata", "Africa/Cairo", "UTC"):
        agree = all(
            Oracle(system, key).offset(at) == Oracle(wheel, key).offset(at)
            for at in range(int(start.timestamp()), int(end.timestamp()), 7 * 86_400)
        )
        assert agree == (key not in differing)
