"""Recurrence rules against python-dateutil, against themselves, and against a plain calendar.

dateutil is asked where both read a rule alike. Left out, as decision 0006 says: plain and numbered
weekdays together (dateutil wants both to hold), BYSETPOS in a week that the rule starts within, the
yearly all-day rules without a weekday, weeks 52 and 53 (dateutil mistakes some), BYYEARDAY from the end
under WEEKLY (likewise), and combinations of INTERVAL and BY parts that it refuses.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING, Any

from dateutil.rrule import rrulestr
from hypothesis import assume, example, given, reject, settings
from hypothesis import strategies as st

from duly.errors import UsageError
from duly.timetable.rrule import RRule, rrule
from duly.timetable.rrule_compiler import floor_sum
from duly.timetable.rrule_parser import FREQUENCIES, WEEKDAY_CODES

if TYPE_CHECKING:
    from collections.abc import Callable

SECOND = timedelta(seconds=1)
ZONES = (
    "UTC",
    "Europe/Paris",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Havana",
    "Pacific/Apia",
)

starts = st.datetimes(datetime(1980, 1, 1), datetime(2035, 12, 31)).map(
    lambda t: t.replace(microsecond=0)
)
instants = st.datetimes(datetime(1975, 1, 1), datetime(2060, 1, 1)).map(
    lambda t: t.replace(tzinfo=UTC)
)


def unless_given_up(test: Callable[..., None]) -> Callable[..., None]:
    """Leave out the rules whose steps of hours or less miss their BY parts for thousands of days."""

    @wraps(test)
    def tolerant(**arguments: Any) -> None:
        try:
            test(**arguments)
        except UsageError as error:
            if error.field != "INTERVAL" or "INTERVAL=" not in arguments["expression"]:
                raise
            reject()

    return tolerant


def microseconds(instant: datetime) -> int:
    return (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def numbers(
    low: int, high: int, size: int = 4, *, is_signed: bool = False
) -> st.SearchStrategy[str]:
    one = st.integers(low, high)
    if is_signed:
        one |= st.integers(-high, -low)
    return st.lists(one, min_size=1, max_size=size, unique=True).map(
        lambda values: ",".join(map(str, values))
    )


@st.composite
def weekday_lists(draw: st.DrawFn, freq: str) -> str:
    codes = draw(st.lists(st.sampled_from(WEEKDAY_CODES), min_size=1, max_size=5, unique=True))
    if freq in ("YEARLY", "MONTHLY") and draw(st.booleans()):
        places = st.sampled_from([1, 2, 3, 4, -1, -2])
        return ",".join(f"{draw(places)}{code}" for code in codes)
    return ",".join(codes)


@st.composite
def rules(draw: st.DrawFn, frequencies: tuple[str, ...] = FREQUENCIES) -> str:
    """Draw a rule of any frequency; most have a part or two, as people's rules do."""
    freq = draw(st.sampled_from(frequencies))
    parts = {"FREQ": freq}
    optional = {
        "INTERVAL": st.sampled_from([2, 3, 4, 5, 7, 12, 25, 90, 100, 1441]).map(str),
        "BYMONTH": numbers(1, 12),
        "BYWEEKNO": numbers(1, 51, is_signed=True),
        "BYYEARDAY": numbers(1, 366, 40, is_signed=freq != "WEEKLY"),
        "BYMONTHDAY": numbers(1, 31, 8, is_signed=True),
        "BYDAY": weekday_lists(freq),
        "BYHOUR": numbers(0, 23),
        "BYMINUTE": numbers(0, 59),
        "BYSECOND": numbers(0, 59),
        "WKST": st.sampled_from(WEEKDAY_CODES),
    }
    names = draw(st.lists(st.sampled_from(list(optional)), max_size=4, unique=True))
    parts |= {name: draw(optional[name]) for name in names}
    if any(name.startswith("BY") for name in names) and draw(st.integers(0, 3)) == 0:
        parts["BYSETPOS"] = draw(numbers(1, 5, 3, is_signed=True))
    return ";".join(f"{name}={value}" for name, value in parts.items())


def reads_alike(expression: str, dtstart: datetime) -> bool:
    """Say whether dateutil and RFC 5545, as we read it, mean the same by a rule."""
    parts = dict(part.split("=") for part in expression.split(";"))
    if parts["FREQ"] == "WEEKLY" and "BYSETPOS" in parts:
        return dtstart.weekday() == WEEKDAY_CODES.index(parts.get("WKST", "MO"))
    is_all_day = dtstart.time() == time(0) and not {"BYHOUR", "BYMINUTE", "BYSECOND"} & set(parts)
    return not (is_all_day and parts["FREQ"] == "YEARLY" and "BYDAY" not in parts)


def reach(expression: str) -> timedelta:
    """Return how far dateutil may be sent: it walks there, in steps of the frequency."""
    days = {"SECONDLY": 3, "MINUTELY": 30, "HOURLY": 400}
    return timedelta(days=days.get(expression.removeprefix("FREQ=").partition(";")[0], 20_000))


def expansion(expression: str, dtstart: datetime, n: int) -> list[datetime] | None:
    """Ask dateutil for the first occurrences; None where it finds INTERVAL and BY parts at odds."""
    try:
        found = list(islice(rrulestr(expression, dtstart=dtstart), n))
    except ValueError:
        return None
    return [one.replace(tzinfo=UTC) for one in found]


@given(rules(), starts)
@settings(max_examples=200)
@example("FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=SU", datetime(1997, 8, 5, 9))
@example("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2", datetime(1997, 9, 29, 9))
@example("FREQ=HOURLY;INTERVAL=7;BYDAY=MO,TH;BYMINUTE=10,50", datetime(2024, 2, 28, 23, 59, 59))
@example("FREQ=SECONDLY;INTERVAL=90;BYHOUR=3", datetime(1999, 12, 31, 12))
@unless_given_up
def test_the_first_occurrences_are_those_of_dateutil(expression, dtstart):
    """And so are the steps back through them, and their number."""
    assume(reads_alike(expression, dtstart))
    timetable = rrule(expression, dtstart=dtstart)
    start = dtstart.replace(tzinfo=UTC)
    found = [
        one for one in timetable.upcoming(start - SECOND, 8) if one - start < reach(expression)
    ]
    expected = expansion(expression, dtstart, len(found))
    assume(found and expected is not None)

    assert expected == found
    for earlier, later in zip([None, *found], found, strict=False):
        assert earlier == timetable.previous(later)
    assert len(found) == timetable.count(microseconds(start) - 1, microseconds(found[-1]) + 1)


@given(rules(FREQUENCIES[:5]), starts, st.integers(1, 30))
@settings(max_examples=100)
@unless_given_up
def test_a_count_ends_where_dateutil_ends(expression, dtstart, count):
    assume(reads_alike(expression, dtstart))
    timetable = rrule(f"{expression};COUNT={count}", dtstart=dtstart)
    start = dtstart.replace(tzinfo=UTC)
    found = timetable.upcoming(start - SECOND, count + 1)
    assume(found and found[count - 1 :] and found[-1] - start < reach(expression))
    expected = expansion(f"{expression};COUNT={count}", dtstart, count + 1)
    assume(expected is not None)

    assert expected == found
    assert found[-1] == timetable.previous(datetime(2200, 1, 1, tzinfo=UTC))


def in_a_zone(expression: str, dtstart: datetime, where: tuple[str, str, str]) -> RRule:
    tz, gap, fold = where
    assume(not (gap == "shift" and "SECONDLY" in expression and "COUNT" in expression))
    return rrule(expression, dtstart=dtstart, tz=tz, gap=gap, fold=fold)  # type: ignore[arg-type]


places = st.tuples(
    st.sampled_from(ZONES),
    st.sampled_from(["next", "shift", "skip"]),
    st.sampled_from(["first", "second", "both"]),
)
ends = st.sampled_from(
    ["", ";COUNT=7", ";COUNT=100000", ";UNTIL=20300101T000000Z", ";UNTIL=20310601"]
)


@given(rules(), ends, starts, places, instants)
@settings(max_examples=150)
@unless_given_up
def test_the_next_is_later_and_previous_leads_back(expression, end, dtstart, where, instant):
    """In any zone, under any policies, however the rule ends."""
    timetable = in_a_zone(expression + end, dtstart, where)
    found = timetable.next(instant)
    if found is None:
        last = timetable.previous(instant + SECOND)
        assert last is None or last <= instant
        return
    following = timetable.next(found)

    assert found > instant
    assert following is None or following > found
    assert found == timetable.previous(found + SECOND)
    assert following is None or found == timetable.previous(following)


@given(rules(), ends, starts, places)
@settings(max_examples=80)
@unless_given_up
def test_counting_agrees_with_walking(expression, end, dtstart, where):
    timetable = in_a_zone(expression + end, dtstart, where)
    walked = timetable.upcoming(dtstart.replace(tzinfo=UTC) - timedelta(days=3), 12)
    assume(walked)
    for size, occurrence in enumerate(walked, 1):
        start, stop = microseconds(walked[0]), microseconds(occurrence) + 1
        assert size == timetable.count(start, stop)


@given(rules(FREQUENCIES[:4]), starts, places, st.integers(1, 12))
@settings(max_examples=100)
def test_a_count_cuts_the_endless_rule_off(expression, dtstart, where, count):
    """COUNT counts the instants that the policies leave or make."""
    endless = in_a_zone(expression, dtstart, where)
    limited = in_a_zone(f"{expression};COUNT={count}", dtstart, where)
    before = dtstart.replace(tzinfo=UTC) - timedelta(days=3)

    assert endless.upcoming(before, count) == limited.upcoming(before, count + 1)


@given(st.integers(1, 53), st.sampled_from([1, -1]), st.integers(1990, 2050))
@settings(max_examples=100)
@example(53, -1, 2025)
@example(52, -1, 2019)
@example(53, 1, 2020)
def test_weeks_are_those_of_the_iso_calendar(number, sign, year):
    """The plain calendar as oracle, also where dateutil is mistaken."""
    timetable = rrule(f"FREQ=DAILY;BYWEEKNO={sign * number}", dtstart=date(year, 1, 1))
    expected = []
    for day in range(366):
        one = date(year, 1, 1) + timedelta(days=day)
        iso = one.isocalendar()
        weeks = date(iso.year, 12, 28).isocalendar().week
        if iso.week == (number if sign > 0 else weeks + 1 - number):
            expected.append(one)
    end = microseconds(datetime(year, 1, 1, tzinfo=UTC) + timedelta(days=366))
    start = datetime(year, 1, 1, tzinfo=UTC)
    found = timetable.upcoming(start - SECOND, len(expected) + 1)

    assert expected == [one.date() for one in found if microseconds(one) < end]


@given(rules(), ends, starts)
@settings(max_examples=100)
@unless_given_up
def test_every_rule_has_words(expression, end, dtstart):
    words = rrule(expression + end, dtstart=dtstart).describe()

    assert words.startswith("every ")
    assert f"from {dtstart.date().isoformat()}" in words
    assert ",," not in words
    assert "  " not in words


@given(st.integers(0, 30), st.integers(0, 99), st.integers(-99, 99), st.integers(1, 30))
def test_the_sum_of_floors_is_what_adding_them_gives(size, factor, summand, divisor):
    """Counting by arithmetic."""
    expected = sum((factor * i + summand) // divisor for i in range(size))

    assert expected == floor_sum(size, factor, summand, divisor)
