"""systemd calendar events: what they mean, what is refused, and a brute-force matcher."""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly import UsageError, oncalendar, timetable_from_json
from duly.timetable.instants import to_microseconds
from tests.each_row import each_row

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MINUTE = timedelta(minutes=1)
START = datetime(2024, 2, 28, 12, tzinfo=UTC)  # a Wednesday in a leap year


def next_texts(expression: str, n: int = 2) -> list[str]:
    return [f"{when:%Y-%m-%d %H:%M:%S}" for when in oncalendar(expression).upcoming(START, n)]


@each_row(
    ("expression", "first", "second"),
    [
        ("minutely", "2024-02-28 12:01:00", "2024-02-28 12:02:00"),
        ("hourly", "2024-02-28 13:00:00", "2024-02-28 14:00:00"),
        ("daily", "2024-02-29 00:00:00", "2024-03-01 00:00:00"),
        ("weekly", "2024-03-04 00:00:00", "2024-03-11 00:00:00"),
        ("monthly", "2024-03-01 00:00:00", "2024-04-01 00:00:00"),
        ("quarterly", "2024-04-01 00:00:00", "2024-07-01 00:00:00"),
        ("semiannually", "2024-07-01 00:00:00", "2025-01-01 00:00:00"),
        ("yearly", "2025-01-01 00:00:00", "2026-01-01 00:00:00"),
        ("Sat,Mon 08:05:40", "2024-03-02 08:05:40", "2024-03-04 08:05:40"),
        ("Fri, 17:48", "2024-03-01 17:48:00", "2024-03-08 17:48:00"),
        ("Mon-Wed 10:00", "2024-03-04 10:00:00", "2024-03-05 10:00:00"),
        ("thursday..SAT", "2024-02-29 00:00:00", "2024-03-01 00:00:00"),
        ("*-*~1", "2024-02-29 00:00:00", "2024-03-31 00:00:00"),
        ("*~3,1", "2024-02-29 00:00:00", "2024-03-29 00:00:00"),
        ("*-*~7/3", "2024-02-29 00:00:00", "2024-03-25 00:00:00"),
        ("*-*~2..8/3", "2024-03-24 00:00:00", "2024-03-27 00:00:00"),
        ("Mon *-05~07/1", "2024-05-27 00:00:00", "2025-05-26 00:00:00"),
        ("*-02-29 6:00", "2024-02-29 06:00:00", "2028-02-29 06:00:00"),
        ("25..26-12-24", "2025-12-24 00:00:00", "2026-12-24 00:00:00"),
        ("2020/3-01-01", "2026-01-01 00:00:00", "2029-01-01 00:00:00"),
        ("12..14/2:0/45", "2024-02-28 12:45:00", "2024-02-28 14:00:00"),
        ("*:5..60/2", "2024-02-28 12:05:00", "2024-02-28 12:07:00"),
        ("*:*:0/20", "2024-02-28 12:00:20", "2024-02-28 12:00:40"),
        ("13:00:1.0..3.8", "2024-02-28 13:00:01", "2024-02-28 13:00:02"),
        ("  Thu   06:00  ", "2024-02-29 06:00:00", "2024-03-07 06:00:00"),
    ],
)  # fmt: skip
def test_an_expression_means_what_systemd_means_by_it(expression, first, second):
    assert [first, second] == next_texts(expression)


@each_row(
    ("spelling", "name"),
    [
        ("semi-annually", "semiannually"),
        ("biannually", "semiannually"),
        ("bi-annually", "semiannually"),
        ("annually", "yearly"),
        ("anually", "yearly"),
        ("DAILY", "daily"),
    ],
)
def test_short_forms_have_other_spellings(spelling, name):
    assert oncalendar(name).event == oncalendar(spelling).event


def test_seconds_since_1970_are_one_instant_in_utc():
    rule = oncalendar("@1493187147")

    assert [datetime(2017, 4, 26, 6, 12, 27, tzinfo=UTC)] == rule.upcoming(
        datetime.min.replace(tzinfo=UTC), 2
    )
    assert "UTC" == rule.tz


@each_row(
    ("expression", "field"),
    [
        ("", "oncalendar"),
        (" utc", "oncalendar"),
        ("often", "oncalendar"),
        ("daily 10:00", "oncalendar"),
        ("10:00 *-*-*", "oncalendar"),
        ("@12x", "oncalendar"),
        ("@0 Europe/Paris", "oncalendar"),
        ("@99999999999", "oncalendar"),
        ("Mon..", "weekday"),
        ("Mon,,Tue", "weekday"),
        ("Mon..Tue..Wed", "weekday"),
        ("Sat..Mon", "weekday"),
        ("Mondays 10:00", "weekday"),
        ("10:00 Mon", "weekday"),
        ("Mon Tue", "weekday"),
        ("7", "date"),
        ("1~2~3", "date"),
        ("1-2-3-4", "date"),
        ("1969-01-01", "year"),
        ("2200-01-01", "year"),
        ("*-13-01", "month"),
        ("*-12..1-01", "month"),
        ("*-00-01", "month"),
        ("*-*-32", "day"),
        ("*-*-1,*", "day"),
        ("*-*-1.5", "day"),
        ("*-*~29", "day"),
        ("*-*~5/5", "day"),
        ("24:00", "hour"),
        ("20/4:00", "hour"),
        ("*/2:00", "hour"),
        ("+1:00", "hour"),
        ("٣:00", "hour"),
        ("00:60", "minute"),
        ("00:00/60", "minute"),
        ("00:5/0", "minute"),
        ("00:10..5", "minute"),
        ("00:00:60", "second"),
        ("00:00:50/10", "second"),
        ("00:00:05..05", "second"),
        ("00:00:00.5", "second"),
        ("00:00:00/0.5", "second"),
        ("00:00:*\n", "second"),
        ("1:2:3:4", "time"),
        ("daily Mars/Olympus", "tz"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_by_part(expression, field):
    """The error names the part that is wrong."""
    with pytest.raises(UsageError) as caught:
        oncalendar(expression)

    assert field == caught.value.field


def test_a_fraction_of_a_second_is_refused_with_what_to_use_instead():
    with pytest.raises(UsageError, match=r"every\('500ms'\)"):
        oncalendar("*:*:0/0.5")


@each_row("expression", [None, 5, [], b"daily", "1," * 5000, "Mon," * 400, "\0"])
def test_anything_but_a_short_text_is_refused(expression):
    with pytest.raises(UsageError):
        oncalendar(expression)


def test_a_zone_in_the_expression_is_the_zone():
    rule = oncalendar("Mon 09:00 Europe/Paris")

    assert "Europe/Paris" == rule.tz
    assert datetime(2024, 3, 4, 8, tzinfo=UTC) == rule.next(START)


def test_a_zone_in_the_expression_may_be_repeated_but_not_contradicted():
    assert "UTC" == oncalendar("daily utc", tz="UTC").tz
    with pytest.raises(UsageError, match="contradicts"):
        oncalendar("daily Europe/Paris", tz="UTC")


@pytest.mark.parametrize(
    ("gap", "expected"),
    [
        ("next", "2024-03-10T07:00:00+00:00"),
        ("shift", "2024-03-10T07:30:00+00:00"),
        ("skip", "2024-03-11T06:30:00+00:00"),
    ],
)
def test_spring_a_time_that_is_skipped_follows_the_policy(gap, expected):
    """02:30 does not exist in New York on 10 March 2024."""
    rule = oncalendar("02:30", tz="America/New_York", gap=gap)

    assert datetime.fromisoformat(expected) == rule.next(datetime(2024, 3, 9, 12, tzinfo=UTC))


@pytest.mark.parametrize(
    ("fold", "expected"),
    [("first", ["05:30"]), ("second", ["06:30"]), ("both", ["05:30", "06:30"])],
)
def test_autumn_a_time_that_comes_twice_follows_the_policy(fold, expected):
    """01:30 exists twice in New York on 3 November 2024."""
    rule = oncalendar("2024-11-03 01:30", tz="America/New_York", fold=fold)

    assert expected == [f"{when:%H:%M}" for when in rule.upcoming(START, 3)]


@each_row(
    ("expression", "words"),
    [
        ("Mon..Fri 09:00", "every weekday at 09:00 (UTC)"),
        ("*:0/15", "every 15 minutes (UTC)"),
        ("Sat *:0/15", "every 15 minutes on Saturday (UTC)"),
        ("*-06..08-* 9,18:00", "every day in June to August at 09:00 and 18:00 (UTC)"),
        ("*-*~1 18:00 Europe/Paris", "on the last day of every month at 18:00 (Europe/Paris)"),
        ("*-*~5,3", "on the 5th last and 3rd last day of every month at 00:00 (UTC)"),
        ("Mon *-05~07/1", "on the last 7 days of May, if it is a Monday, at 00:00 (UTC)"),
        ("2027-12-24", "on the 24th of December in 2027 at 00:00 (UTC)"),
        ("2000/4-02-29", "on the 29th of February in every 4th year from 2000 to 2196 at 00:00 (UTC)"),
        ("*-*-15/5 06:00", "on every 5th day from the 15th to the 30th of every month at 06:00 (UTC)"),
    ],
)  # fmt: skip
def test_it_describes_itself(expression, words):
    """Every wording names the set exactly."""
    assert words == oncalendar(expression).describe()


def test_the_stored_form_keeps_the_words():
    """What the person said, and nothing derived."""
    rule = oncalendar("Wed *-1 Europe/Paris", gap="skip", fold="both")
    stored = rule.to_json()

    assert {
        "kind": "oncalendar",
        "expression": "Wed *-1 Europe/Paris",
        "tz": "Europe/Paris",
        "gap": "skip",
        "fold": "both",
    } == stored
    assert rule == timetable_from_json(stored)


@pytest.mark.parametrize("expression", ["*-04-31", "Mon 2023-10-15", "2012-*-*", "*-02-30 *:*:*"])
def test_what_never_comes_again_has_no_next(expression):
    """An answer, not a search without end."""
    assert oncalendar(expression).next(START) is None


@dataclass(frozen=True)
class Part:
    """One component as a list of (start, stop, step), None for what is left out; empty means `*`."""

    items: tuple[tuple[int, int | None, int | None], ...]

    def __str__(self) -> str:
        return ",".join(
            f"{start}{'' if stop is None else f'..{stop}'}{'' if step is None else f'/{step}'}"
            for start, stop, step in self.items
        ) or "*"  # fmt: skip

    def has(self, value: int, high: int = 10_000) -> bool:
        return not self.items or any(
            start
            <= value
            <= (start if stop is None and step is None else high if stop is None else stop)
            and (value - start) % (step or 1) == 0
            for start, stop, step in self.items
        )

    def has_from_end(self, value: int) -> bool:
        return not self.items or any(self.has_one_from_end(value, item) for item in self.items)

    @staticmethod
    def has_one_from_end(value: int, item: tuple[int, int | None, int | None]) -> bool:
        start, stop, step = item
        if stop is None:  # a repetition walks towards the month's end
            return value == start or (
                step is not None and value < start and (start - value) % step == 0
            )
        return start <= value <= stop and (value - start) % (step or 1) == 0


@dataclass(frozen=True)
class Matcher:
    """An event as its parts, compared with one minute after the other."""

    weekdays: tuple[int, ...]
    month: Part
    day: Part
    from_end: bool
    hour: Part
    minute: Part

    def __str__(self) -> str:
        names = ",".join(NAMES[day] for day in self.weekdays)
        date = f"{self.month}{'~' if self.from_end else '-'}{self.day}"
        return f"{names} {date} {self.hour}:{self.minute}".strip()

    def has(self, wall: datetime) -> bool:
        return self.has_day(wall) and self.hour.has(wall.hour) and self.minute.has(wall.minute)

    def has_day(self, wall: datetime) -> bool:
        length = monthrange(wall.year, wall.month)[1]
        is_day = (
            self.day.has_from_end(length - wall.day + 1)
            if self.from_end
            else self.day.has(wall.day)
        )
        is_weekday = not self.weekdays or wall.weekday() in self.weekdays
        return is_day and is_weekday and self.month.has(wall.month)

    def minutes(self, start: datetime, end: datetime) -> Iterator[datetime]:
        when = start
        while when < end:
            if when.hour == when.minute == 0 and not self.has_day(when):
                when += timedelta(days=1)
                continue
            if self.has(when):
                yield when
            when += MINUTE


@st.composite
def parts(draw: st.DrawFn, low: int, high: int, *, from_end: bool = False) -> Part:
    items = []
    for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2]))):
        start = draw(st.integers(low, high))
        stop = draw(st.none() | st.integers(start, high))
        room = (high - start) if not from_end else start - low
        if stop is not None:
            step = draw(st.none() | st.integers(1, max(1, high - low)))
        else:
            step = draw(st.none() | st.integers(1, room)) if room else None
        items.append((start, stop, step))
    return Part(tuple(items))


@st.composite
def matchers(draw: st.DrawFn) -> Matcher:
    from_end = draw(st.booleans())
    return Matcher(
        tuple(sorted(draw(st.sets(st.integers(0, 6), max_size=3)))),
        draw(parts(1, 12)),
        draw(parts(1, 28 if from_end else 31, from_end=from_end)),
        from_end,
        draw(parts(0, 23)),
        draw(parts(0, 59)),
    )


starts = st.datetimes(datetime(2019, 1, 1), datetime(2031, 1, 1), timezones=st.just(UTC)).map(
    lambda when: when.replace(second=0, microsecond=0)
)


@given(matchers(), starts)
@settings(max_examples=120)
def test_the_next_minutes_are_those_a_brute_force_finds(matcher, start):
    """Every minute of half a year, until twenty match."""
    end = start + timedelta(days=180)
    expected = list(islice(matcher.minutes(start + MINUTE, end), 20))
    found = oncalendar(str(matcher)).upcoming(start, 20)

    assert expected == [when for when in found if when < end]


@given(matchers(), starts)
@settings(max_examples=60)
def test_previous_mirrors_next(matcher, start):
    """Next is later, previous is earlier, and each leads back to the other."""
    rule = oncalendar(str(matcher))
    found = rule.next(start)
    if found is None:
        assert not list(islice(matcher.minutes(start + MINUTE, start + timedelta(days=366)), 1))
        return

    assert found > start
    assert rule.previous(found) == rule.previous(start + MINUTE)
    assert found == rule.previous(found + timedelta(microseconds=1))


@given(matchers(), starts, st.integers(0, 3 * 1440))
@settings(max_examples=60)
def test_the_count_is_the_number_of_minutes(matcher, start, length):
    end = start + length * MINUTE
    expected = sum(1 for _ in matcher.minutes(start, end))

    assert expected == oncalendar(str(matcher)).count(to_microseconds(start), to_microseconds(end))


ZONES = [
    "America/New_York",
    "Europe/Dublin",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Asia/Gaza",
]


@given(matchers(), st.sampled_from(ZONES), st.datetimes(datetime(2019, 1, 1), datetime(2025, 1, 1)))
@settings(max_examples=60)
def test_without_policies_every_real_minute_that_shows_a_match_is_found(matcher, key, start):
    """Gap="skip", fold="both" is what a clock on the wall would do."""
    zone = ZoneInfo(key)
    start = start.replace(second=0, microsecond=0, tzinfo=UTC)
    minutes = (start + number * MINUTE for number in range(1, 3 * 1440))
    expected = [when for when in minutes if matcher.has(when.astimezone(zone))]
    rule = oncalendar(str(matcher), tz=key, gap="skip", fold="both")

    found = rule.upcoming(start, len(expected) + 1)
    assert expected == [when for when in found if when < start + timedelta(days=3)]


@given(st.text(st.sampled_from("0123456789*-~:/., MonTueUTC@"), max_size=30) | st.text(max_size=30))
@settings(max_examples=300)
def test_any_text_is_a_timetable_or_a_usage_error(text):
    """Nothing else is raised, and whatever is read can say what it means."""
    try:
        rule = oncalendar(text)
    except UsageError:
        return

    found = rule.next(START)
    assert found is None or found > START
    assert rule.describe()
