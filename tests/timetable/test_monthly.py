"""Calendar rules: days of the month in words, business days and rolls, by brute force."""

from __future__ import annotations

from calendar import monthrange
from datetime import UTC, date, datetime, time, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly import BusinessCalendar, UsageError, monthly, timetable_from_json
from duly.timetable.business_calendar import ROLLS, WEEKDAYS, Roll
from duly.timetable.instants import to_microseconds
from duly.timetable.monthly import MonthDay, read_month_day
from tests.each_row import each_row

DAY = timedelta(days=1)
START = datetime(2026, 1, 15, tzinfo=UTC)


def next_days(day: int | str, n: int = 3, **options) -> list[str]:
    return [f"{when:%m-%d}" for when in monthly(day, at="12:00", **options).upcoming(START, n)]


@each_row(
    ("day", "expected"),
    [
        (1, ["02-01", "03-01", "04-01"]),
        (31, ["01-31", "03-31", "05-31"]),
        ("31", ["01-31", "03-31", "05-31"]),
        ("15th", ["01-15", "02-15", "03-15"]),
        ("last day", ["01-31", "02-28", "03-31"]),
        ("3rd last day", ["01-29", "02-26", "03-29"]),
        ("First Day", ["02-01", "03-01", "04-01"]),
        ("first business day", ["02-02", "03-02", "04-01"]),
        ("5th business day", ["02-06", "03-06", "04-07"]),
        ("last business day", ["01-30", "02-27", "03-31"]),
        ("third last  BUSINESS day", ["01-28", "02-25", "03-27"]),
        ("first monday", ["02-02", "03-02", "04-06"]),
        ("2nd tuesday", ["02-10", "03-10", "04-14"]),
        ("last friday", ["01-30", "02-27", "03-27"]),
        ("fifth saturday", ["01-31", "05-30", "08-29"]),
        ("second last sunday", ["01-18", "02-15", "03-22"]),
    ],
)  # fmt: skip
def test_a_day_of_the_month_in_numbers_or_words(day, expected):
    assert expected == next_days(day)


def test_the_last_business_day_respects_a_countrys_holidays():
    """Memorial Day is the last Monday of May, here the 25th; New Year's Eve 2027 is observed for 2028."""
    rule = monthly("last business day", at="18:00", tz="America/New_York", calendar="US")

    assert datetime(2027, 12, 30, 23, tzinfo=UTC) == rule.next(datetime(2027, 12, 15, tzinfo=UTC))


def test_a_roll_may_leave_the_month_and_the_year():
    """The 31st of December 2028 is a Sunday, New Year's Day a holiday."""
    rule = monthly(31, at="12:00", calendar="US", roll="following")
    before = datetime(2028, 12, 15, tzinfo=UTC)

    assert [date(2029, 1, 2), date(2029, 1, 31)] == [
        when.date() for when in rule.upcoming(before, 2)
    ]
    assert datetime(2029, 1, 2, 12, tzinfo=UTC) == rule.previous(datetime(2029, 1, 20, tzinfo=UTC))


def test_a_month_without_the_day_is_not_rolled_into():
    assert ["02-02", "03-31", "06-01"] == next_days(31, roll="following")


def test_a_weekday_that_is_a_holiday_rolls():
    """The first Monday of September is Labor Day."""
    rule = monthly("first monday", at="09:00", calendar="US", roll="following")

    assert datetime(2026, 9, 8, 9, tzinfo=UTC) == rule.next(datetime(2026, 8, 20, tzinfo=UTC))


def test_several_times_a_day_that_are_no_product_of_hours_and_minutes():
    rule = monthly(15, at=["17:30", "9:05", time(9, 5), "23:59:59"])

    assert ["09:05:00", "17:30:00", "23:59:59", "09:05:00"] == [
        f"{when:%H:%M:%S}" for when in rule.upcoming(START, 4)
    ]


def test_spring_and_autumn_follow_the_policies():
    """02:30 on 29 March 2026 does not exist in Berlin, on 25 October it exists twice."""
    spring = monthly("last sunday", at="02:30", tz="Europe/Berlin", gap="shift")
    autumn = monthly("last sunday", at="02:30", tz="Europe/Berlin", fold="both")

    assert datetime(2026, 3, 29, 1, 30, tzinfo=UTC) == spring.next(
        datetime(2026, 3, 20, tzinfo=UTC)
    )
    assert [0, 1] == [when.hour for when in autumn.upcoming(datetime(2026, 10, 20, tzinfo=UTC), 2)]


@each_row(
    ("day", "remedy"),
    [
        (0, "1 to 31"),
        (32, "1 to 31"),
        (-1, "'last day'"),
        (True, "1 to 31"),
        (1.5, "1 to 31"),
        (None, "1 to 31"),
        ("", "'last day'"),
        ("last", "'last day'"),
        ("last bussiness day", "'last business day'"),
        ("3th day", "th day'"),
        ("0th day", "th day'"),
        ("32nd day", "'second day'"),
        ("6th monday", "'5th monday'"),
        ("frist monday", "'first monday'"),
        ("٣rd day", "day'"),
        ("x" * 1000, "1 to 31"),
        ("24th business day", "23 business days"),
    ],
)
def test_a_day_that_is_none_is_refused_with_the_nearest_that_is(day, remedy):
    with pytest.raises(UsageError) as caught:
        monthly(day, at="12:00")

    assert "day" == caught.value.field
    assert remedy in caught.value.remedy


@each_row(
    "at",
    ["24:00", "12:60", "12:00:60", "12", "6pm", "", "٣:00", "1:2", None, 12, [], ["x"], [None], "1" * 99,
     time(12, tzinfo=UTC), time(12, 0, 0, 1), ["12:00"] * 101],
)  # fmt: skip
def test_a_time_that_is_none_is_refused(at):
    with pytest.raises(UsageError) as caught:
        monthly(1, at=at)

    assert "at" == caught.value.field


@each_row(
    ("arguments", "field", "remedy"),
    [
        ({"day": "last business day", "roll": "following"}, "roll", "leave roll out"),
        ({"day": 1, "roll": "next"}, "roll", "following, preceding"),
        ({"day": 1, "calendar": "US"}, "calendar", "roll='following'"),
        ({"day": 1, "calendar": "UU", "roll": "following"}, "calendar", "code"),
        ({"day": 1, "tz": "Europe/Pari"}, "tz", "'Europe/Paris'"),
        ({"day": 1, "gap": "jump"}, "gap", "next, shift, skip"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, field, remedy):
    with pytest.raises(UsageError) as caught:
        monthly(at="12:00", **arguments)

    assert field == caught.value.field
    assert remedy in caught.value.remedy


@each_row(
    ("rule", "words"),
    [
        (
            monthly("last business day", at="18:00", tz="America/New_York", calendar="US"),
            "on the last business day (US) of the month at 18:00 (America/New_York)",
        ),
        (monthly(15, at=["9:05", "18:00"]), "on the 15th of the month at 09:05 and 18:00 (UTC)"),
        (monthly("last day", at="0:00:30"), "on the last day of the month at 00:00:30 (UTC)"),
        (
            monthly("2nd last business day", at="9:00"),
            "on the 2nd last business day (Monday to Friday) of the month at 09:00 (UTC)",
        ),
        (
            monthly("first monday", at="9:00", calendar=("DE", "BY"), roll="preceding"),
            "on the first Monday of the month, or the business day before (DE-BY), at 09:00 (UTC)",
        ),
        (
            monthly(31, at="9:00", roll="modified-following"),
            "on the 31st of the month, or the next business day (Monday to Friday), but the one before at the month's end, at 09:00 (UTC)",
        ),
    ],
)
def test_it_describes_itself(rule, words):
    assert words == rule.describe()


@pytest.mark.parametrize(
    ("calendar", "stored"),
    [
        ("US", "US"),
        (("DE", "BY"), ["DE", "BY"]),
        (
            BusinessCalendar(weekend=["friday"], holidays=[date(2026, 4, 26)]),
            {"weekend": ["friday"], "holidays": ["2026-04-26"]},
        ),
    ],
)
def test_the_stored_form_keeps_the_words(calendar, stored):
    """What the person said, and nothing derived."""
    rule = monthly("3rd LAST day", at=("9:05", time(18)), calendar=calendar, roll="following")

    assert {
        "kind": "monthly",
        "day": "3rd LAST day",
        "at": ["9:05", "18:00"],
        "calendar": stored,
        "roll": "following",
        "tz": "UTC",
        "gap": "next",
        "fold": "first",
    } == rule.to_json()
    assert rule == timetable_from_json(rule.to_json())


def test_a_rule_that_never_fires_again_says_so():
    """Thirty-one business days in a month, but for a holiday in each of the next hundred years."""
    holidays = [date(year, month, 5) for year in range(2026, 2126) for month in range(1, 13)]
    rule = monthly(
        "31st business day", at="12:00", calendar=BusinessCalendar(weekend=(), holidays=holidays)
    )

    assert rule.next(START) is None


numbers = st.integers(1, 5) | st.integers(-5, -1)
month_days = st.one_of(
    st.integers(1, 31).map(MonthDay),
    st.integers(-31, -1).map(MonthDay),
    st.builds(MonthDay, st.integers(1, 23) | st.integers(-23, -1), st.just("business day")),
    st.builds(MonthDay, numbers, st.sampled_from(WEEKDAYS)),
)
calendars = st.builds(
    lambda weekend, holidays: BusinessCalendar(weekend=tuple(weekend), holidays=holidays),
    st.sets(st.integers(0, 6), max_size=2),
    st.sets(st.dates(date(2025, 12, 1), date(2028, 1, 31)), max_size=60),
)
instants = st.datetimes(datetime(2026, 1, 1), datetime(2027, 6, 1), timezones=st.just(UTC))


def said(day: MonthDay) -> int | str:
    """Say a day in the words that a person would use."""
    number = abs(day.number)
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number not in (11, 12, 13) else 0, "th")
    if day.number == -1:
        return f"last {day.unit}"
    return f"{number}{suffix} {'last ' if day.number < 0 else ''}{day.unit}"


def chosen(day: MonthDay, calendar: BusinessCalendar, year: int, month: int) -> date | None:
    """Look at every day of the month."""
    days = [date(year, month, number + 1) for number in range(monthrange(year, month)[1])]
    if day.unit == "business day":
        days = [found for found in days if calendar.is_business_day(found)]
    elif day.unit != "day":
        days = [found for found in days if WEEKDAYS[found.weekday()] == day.unit]
    place = day.number - 1 if day.number > 0 else day.number
    return days[place] if -len(days) <= place < len(days) else None


def brute_force(day: MonthDay, calendar: BusinessCalendar, roll) -> list[datetime]:
    """Return every occurrence at 09:00 and 17:30 of the years 2026 and 2027, month by month."""
    found = set()
    for month in range(-1, 26):
        one = chosen(day, calendar, 2026 + month // 12, month % 12 + 1)
        moved = calendar.rolled(one, roll) if one and roll else one
        if moved:
            found.add(moved)
    times = (time(9), time(17, 30))
    return [datetime.combine(one, at, UTC) for one in sorted(found) for at in times]


@given(month_days, calendars, st.sampled_from([None, *ROLLS]), instants, instants)
@settings(max_examples=250)
def test_occurrences_are_those_of_looking_at_every_day(day, calendar, roll, start, end):
    """Next, previous and count, against every day of two years."""
    if day.unit == "business day":
        roll = None
        if abs(day.number) > 31 - 4 * len(calendar.weekend_days):
            return
    used = calendar if roll or day.unit == "business day" else None
    rule = monthly(said(day), at=["17:30", "9:00"], calendar=used, roll=roll)
    occurrences = brute_force(day, calendar, roll)

    later = [when for when in occurrences if when > start]
    assert (
        later[:10]
        == [when for when in rule.upcoming(start, 10) if when <= occurrences[-1]][: len(later)]
    )
    earlier = [when for when in occurrences if when < end and when.year >= 2026]
    if earlier:
        assert earlier[-1] == rule.previous(end)
    inside = [when for when in occurrences if start <= when < end]
    assert len(inside) == rule.count(to_microseconds(start), to_microseconds(max(start, end)))


@given(month_days)
def test_words_are_read_as_they_are_said(day):
    assert day == read_month_day(said(day))


@given(month_days, st.sampled_from(["US", ("DE", "BY"), "SA", None]), instants)
@settings(max_examples=100)
def test_next_is_later_and_previous_mirrors_it(day, calendar, start):
    roll: Roll | None = None if day.unit == "business day" else "modified-following"
    rule = monthly(said(day), at="9:00", tz="America/New_York", calendar=calendar, roll=roll)
    found = rule.next(start)

    assert found is None or found > start
    assert found is None or found == rule.previous(found + timedelta(microseconds=1))
    assert found is None or (rule.previous(found) or start) <= start


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("Following", "following"),
        ("modified following", "modified-following"),
        ("modified_preceding", "modified-preceding"),
        ("modified", "modified-following"),
    ],
)
def test_a_roll_is_known_by_its_usual_spellings(said, read):
    """Rolls (following, preceding, modified)."""
    assert monthly(31, at="09:00", roll=read) == monthly(31, at="09:00", roll=said)
