"""A zone is what the standard library says it is, at every instant."""

from __future__ import annotations

import io
import random
from zoneinfo import ZoneInfo

import pytest

from duly.errors import UsageError
from duly.timetable.data_sources import TzdataWheel
from duly.timetable.instants import from_seconds
from duly.timetable.tzif import read_tzif
from duly.timetable.zones import FOREVER, Zone, ZoneDatabase, default_zones
from tests.each_row import each_row
from tests.timetable.local_time_oracle import DAY, Oracle, distinct_keys, seconds
from tests.timetable.made_zones import MadeRelease, release, tzif

ZONES = default_zones()
STANDARD, SUMMER = (3600, False, "CET"), (7200, True, "CEST")


def walk(zone: Zone, start: int, end: int):
    """Yield the segments from one instant to another."""
    while start < end:
        yield (segment := zone.segment(start))
        start = segment.end


def says_the_same(zone: Zone, oracle: Oracle, instant: int) -> bool:
    segment, shown = zone.segment(instant), oracle.shown(instant)
    return (segment.offset, segment.abbreviation) == (oracle.offset(instant), shown.tzname())


def test_every_zone_agrees_with_the_standard_library_at_every_change():
    """Each change, a second around it, and the middle between two, as far as the changes go."""
    wrong = []
    for key in distinct_keys(ZONES):
        zone, oracle = ZONES.zone(key), Oracle(ZONES, key)
        for segment in walk(zone, seconds(1800, 1, 1), seconds(2110, 1, 1)):
            start = max(segment.start, seconds(1800, 1, 1))
            end = min(segment.end, seconds(2110, 1, 1))
            moments = (start - 1, start, start + 1, (start + end) // 2)
            wrong += [(key, at) for at in moments if not says_the_same(zone, oracle, at)]

    assert wrong == []


def test_every_zone_agrees_with_the_standard_library_at_any_instant():
    """Found without asking our own zones where they change; near and in years far away."""
    draw, wrong = random.Random(1), []
    for key in distinct_keys(ZONES):
        zone, oracle = ZONES.zone(key), Oracle(ZONES, key)
        moments = list(range(seconds(1900, 1, 1), seconds(2110, 1, 1), 61 * DAY))
        moments += [draw.randrange(seconds(1900, 1, 1), seconds(2500, 1, 1)) for _ in range(60)]
        moments += [draw.randrange(seconds(2, 1, 1), seconds(9998, 1, 1)) for _ in range(10)]
        wrong += [(key, at) for at in moments if not says_the_same(zone, oracle, at)]

    assert wrong == []


@pytest.mark.parametrize(
    "year", [2039, 2040, 2041, 2099, 2100, 2150, 2499, 2500, 2501, 2899, 2900, 9998]
)
@pytest.mark.parametrize("key", ["Europe/Paris", "America/Santiago", "Australia/Lord_Howe"])
def test_a_zone_that_was_never_asked_before_knows_a_far_year(key, year):
    """The first question decides nothing; each of these is asked of a zone just read."""
    oracle = Oracle(ZONES, key)
    for month in (1, 7):
        fresh = ZoneDatabase(ZONES.files).zone(key)
        at = seconds(year, month, 15)

        assert oracle.offset(at) == fresh.segment(at).offset


@each_row("key", ["Europe/Paris", "America/New_York", "Pacific/Apia", "Africa/Casablanca", "UTC"])
def test_segments_follow_each_other_without_holes_to_the_end_of_time(key):
    """Also where listed changes end, where the rule's cycle begins, and where it repeats."""
    zone = ZONES.zone(key)
    stretches = [
        (-FOREVER, seconds(2104, 1, 1)),
        (seconds(2498, 1, 1), seconds(2504, 1, 1)),
        (seconds(9890, 1, 1), seconds(9999, 12, 31)),
    ]
    for start, end in stretches:
        before = None
        for segment in walk(zone, start, end):
            if before is not None:
                assert before.end == segment.start
                assert before.offset == segment.offset_before
                assert before.wall_end == segment.floor
                assert before.ceiling == segment.wall_start
            before = segment
            assert segment == zone.segment(max(segment.start, -FOREVER))
            assert segment == zone.segment(segment.end - 1)


def test_no_clock_jumps_again_before_it_has_made_up_for_the_last_jump():
    """What the resolution of local times relies on; a release that breaks it must be seen."""
    too_soon = [
        (key, segment.start)
        for key in distinct_keys(ZONES)
        for segment in walk(ZONES.zone(key), seconds(1800, 1, 1), seconds(2110, 1, 1))
        if segment.end - segment.start <= abs(segment.offset - segment.offset_before)
        or segment.floor not in (-FOREVER, segment.start + segment.offset_before)
    ]

    assert too_soon == []


def test_a_zone_without_rule_lasts_for_ever():
    zone = ZONES.zone("Asia/Kolkata")
    last = zone.segment(FOREVER - 1)

    assert (last.offset, last.end, last.ceiling) == (19_800, FOREVER, FOREVER)


def test_what_held_before_the_first_change_has_held_for_ever():
    first = ZONES.zone("Europe/Paris").segment(-FOREVER)

    assert (
        first.offset, first.abbreviation, first.start, first.has_gap,
    ) == (561, "LMT", -FOREVER, False)  # fmt: skip


@each_row(
    ("key", "day", "offsets"),
    [
        ("Australia/Lord_Howe", (2025, 10, 5), [37_800, 39_600]),
        ("Antarctica/Troll", (2025, 3, 30), [0, 7200]),
        ("Pacific/Apia", (2011, 12, 30), [-36_000, 50_400]),
        ("Pacific/Kwajalein", (1993, 8, 21), [-43_200, 43_200]),
        ("Africa/Monrovia", (1972, 1, 7), [-2670, 0]),
        ("Europe/Dublin", (2025, 3, 30), [0, 3600]),
    ],
)
def test_unusual_jumps_have_their_size(key, day, offsets):
    """Half an hour, two hours, a whole day, and one in seconds."""
    noon = seconds(*day) + DAY // 2
    found = [segment.offset for segment in walk(ZONES.zone(key), noon - DAY, noon + DAY)]

    assert offsets == found


@each_row(
    "footer",
    [
        "CET-1CEST,M3.5.0,M10.5.0/3",
        "CET-1CEST,M3.5.0/-1,M10.5.0/25",  # the evening before, the morning after
        "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",  # summer over the turn of the year
        "IST-1GMT0,M10.5.0,M3.5.0/1",  # winter is the exception
        "AAA5BBB,J60/2,J300/2",  # days that skip the 29th of February
        "AAA5BBB,M2.5.1/0,M11.4.6/24:00:30",  # the fifth week of February, and seconds
        "<-02>2<-01>,M3.5.0/-1,M10.5.0/0",
        "AAA-14BBB-15,M9.4.0/3,M4.1.0/4",
        "AAA12",
        "<-0330>3:30",
    ],
)
def test_a_rule_for_the_future_is_read_as_the_standard_library_reads_it(footer):
    """Every form that POSIX allows, over more than a cycle of leap years."""
    # The last listed change hands over to the rule, so the file must end in what the rule says then.
    info = ZoneInfo.from_file(io.BytesIO(tzif((0, False, "OLD"), [(0, STANDARD)], footer)))
    january = from_seconds(0).replace(year=2001).astimezone(info)
    offset = january.utcoffset()
    assert offset is not None
    kind = (int(offset.total_seconds()), bool(january.dst()), january.tzname() or "")
    zones = release(X=tzif((0, False, "OLD"), [(seconds(2001, 1, 1), kind)], footer))
    zone, oracle = zones.zone("X"), Oracle(zones, "X")
    moments = [seconds(2001, 2, 1) + hour * 8999 for hour in range(80_000)][::7]
    wrong = [from_seconds(at) for at in moments if not says_the_same(zone, oracle, at)]

    assert wrong == []


@each_row(
    ("footer", "year", "day"),
    [
        ("AAA0BBB,J59/0,J300/0", 2023, (2, 28)),
        ("AAA0BBB,J59/0,J300/0", 2024, (2, 28)),
        ("AAA0BBB,J60/0,J300/0", 2024, (3, 1)),
        ("AAA0BBB,59/0,300/0", 2023, (3, 1)),
        ("AAA0BBB,59/0,300/0", 2024, (2, 29)),
        ("AAA0BBB,0/0,300/0", 2024, (1, 1)),
        ("AAA0BBB,M2.5.4/0,300/0", 2024, (2, 29)),
        ("AAA0BBB,M2.5.4/0,300/0", 2023, (2, 23)),
    ],
)
def test_days_of_a_rule_count_the_leap_day_or_not_as_posix_says(footer, year, day):
    """By hand, as the standard library counts some of these differently from POSIX."""
    zone = release(X=tzif((0, False, "AAA"), [(0, (0, False, "AAA"))], footer)).zone("X")
    summers = [
        segment.start
        for segment in walk(zone, seconds(year, 1, 1) - 1, seconds(year, 12, 31))
        if segment.is_summer
    ]

    assert [seconds(year, *day)] == summers


def test_summer_time_that_never_ends_leaves_no_seams():
    """A rule says so by ending it at the very instant at which it starts again."""
    kind = (-14_400, True, "EDT")
    zone = release(X=tzif(kind, [(0, kind)], "XXX3EDT4,0/0,J365/23")).zone("X")
    segments = list(walk(zone, seconds(1990, 1, 1), seconds(2010, 1, 1)))
    segments += walk(zone, seconds(2098, 1, 1), seconds(2110, 1, 1))

    assert {-14_400} == {segment.offset for segment in segments}
    assert all(segment.floor == segment.wall_start for segment in segments)
    assert all(segment.ceiling == segment.wall_end for segment in segments)


@each_row(
    "content",
    [
        b"",
        b"TZif",
        b"not a zone file, but long enough to have the header of one" * 2,
        tzif(STANDARD)[:-30],
        tzif(STANDARD, [(0, SUMMER)])[:90],
        tzif(STANDARD, footer="CET-1CEST,M3.5.0"),
        tzif(STANDARD).replace(b"TZif2", b"TZif\0"),
    ],
)
def test_a_file_that_is_not_a_zone_is_refused(content):
    with pytest.raises(ValueError, match=r"\w"):
        read_tzif(content)


def test_a_zone_is_read_once():
    zones = ZoneDatabase(TzdataWheel())

    assert zones.zone("Europe/Paris") is zones.zone("Europe/Paris")


def test_the_release_is_named():
    """Its version is shown."""
    assert ZONES.version == TzdataWheel().version
    assert ZONES.version[:2] == "20"
    assert ZoneDatabase(MadeRelease({}, "2031a")).version == "2031a"


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("Europe/Pariss", "'Europe/Paris'"),
        ("europe/paris", "'Europe/Paris'"),
        ("America/New York", "'America/New_York'"),
        ("utc", "'UTC'"),
        ("Pacific/Berlin", "'Europe/Berlin'"),
        ("berlin", "'Europe/Berlin'"),
        ("Europe/Berln", "'Europe/Berlin'"),
        ("US/Estern", "'US/Eastern'"),
    ],
)
def test_an_unknown_zone_is_refused_with_the_nearest(key, nearest):
    """Field, value and remedy."""
    with pytest.raises(UsageError) as caught:
        ZONES.zone(key)

    assert f"tz: {key!r} is not a time zone; did you mean {nearest}?" == str(caught.value)


@each_row("key", ["PST", "CEST", "GMT+5", "Mars/Phobos"])
def test_no_zone_of_another_time_is_suggested(key):
    """What is like PST by its letters is an hour away, and Etc/GMT+5 lies behind UTC."""
    with pytest.raises(UsageError, match="give an IANA name such as"):
        ZONES.zone(key)


@each_row("key", ["", "../../etc/passwd", "Europe/../UTC", "zone.tab", "x" * 5000, None, 7, []])
def test_what_is_no_name_at_all_is_refused(key):
    """No path out of the database, no cost without bound."""
    with pytest.raises(UsageError, match="tz: "):
        ZONES.zone(key)


@pytest.mark.parametrize("key", ["Asia/Gaza", "Asia/Hebron"])
def test_changes_that_are_listed_for_decades_come_before_the_yearly_rule(key):
    """Their summer time avoids Ramadan, which is listed year by year until 2086."""
    zone, oracle = ZONES.zone(key), Oracle(ZONES, key)
    moments = range(seconds(2035, 1, 1), seconds(2095, 1, 1), 5 * DAY)

    assert [] == [at for at in moments if not says_the_same(zone, oracle, at)]
