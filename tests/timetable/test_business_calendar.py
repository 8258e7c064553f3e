"""Business days: weekends, holidays, rolls, and where the holidays come from."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from importlib.metadata import version

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly import BusinessCalendar, UsageError
from duly.timetable.business_calendar import (
    ROLL_DAYS_MAX,
    ROLLS,
    Roll,
    default_holidays,
    read_calendar,
)
from duly.timetable.data_sources import HolidaysPackage
from tests.each_row import each_row

DAY = timedelta(days=1)
GULF = BusinessCalendar(weekend=["friday", "saturday"], holidays=[date(2026, 4, 26)])


@dataclass(frozen=True, eq=False)
class MadeUp:
    """A source with one country, whose only holiday is its first Monday of May."""

    name: str = "made up"
    version: str = "7"
    codes: frozenset[str] = frozenset({"ZZ"})
    asked: list[int] = field(default_factory=list)

    def subdivisions(self, code: str) -> frozenset[str]:
        return frozenset({"N", "S"})

    def weekend(self, code: str) -> frozenset[int]:
        return frozenset({6})

    def days_off(self, code: str, subdivision: str | None, year: int) -> frozenset[date]:
        self.asked.append(year)
        days = [date(year, 1, 1) + number * DAY for number in range(365)]
        first = next(day for day in days if day.month == 5 and day.weekday() == 0)
        return frozenset({first, *(day for day in days if day.weekday() == 6)})


def test_monday_to_friday_is_what_nothing_said_means():
    week = [date(2026, 11, 9) + number * DAY for number in range(7)]

    assert [True] * 5 + [False] * 2 == [BusinessCalendar().is_business_day(day) for day in week]


def test_a_weekend_and_holidays_of_ones_own():
    days = [date(2026, 4, 23) + number * DAY for number in range(5)]  # Thursday to Monday

    assert [True, False, False, False, True] == [GULF.is_business_day(day) for day in days]


def test_a_country_has_its_holidays_observed_and_its_own_weekend():
    """The 4th of July 2026 is a Saturday, observed on the Friday; Egypt rests on Friday and Saturday."""
    america, egypt = BusinessCalendar("US"), BusinessCalendar("EG")

    assert not america.is_business_day(date(2026, 7, 3))
    assert america.is_business_day(date(2026, 7, 6))
    assert not egypt.is_business_day(date(2026, 11, 13))
    assert egypt.is_business_day(date(2026, 11, 15))


def test_a_subdivision_adds_its_own_holidays():
    """Epiphany is a holiday in Bavaria and not in Berlin."""
    epiphany = date(2026, 1, 6)

    assert not BusinessCalendar("DE", "BY").is_business_day(epiphany)
    assert BusinessCalendar("DE", "BE").is_business_day(epiphany)


def test_an_exchange_is_a_calendar_too():
    """Good Friday is a working day in the United States, and none on Wall Street."""
    good_friday = date(2026, 4, 3)

    assert BusinessCalendar("US").is_business_day(good_friday)
    assert not BusinessCalendar("XNYS").is_business_day(good_friday)


def test_own_holidays_come_on_top_of_a_countrys():
    calendar = BusinessCalendar("US", holidays=["2026-12-24"])

    assert not calendar.is_business_day(date(2026, 12, 24))
    assert not calendar.is_business_day(date(2026, 12, 25))


def test_a_weekend_that_moved_is_where_it_was_then():
    """Saudi Arabia rested on Thursday and Friday until June 2013, on Friday and Saturday since."""
    calendar = BusinessCalendar("SA")

    assert not calendar.is_business_day(date(2013, 5, 2))
    assert calendar.is_business_day(date(2014, 5, 1))


@pytest.mark.parametrize(
    ("roll", "in_the_middle", "at_the_end", "at_the_start"),
    [
        ("following", date(2026, 8, 17), date(2026, 11, 2), date(2026, 2, 2)),
        ("preceding", date(2026, 8, 14), date(2026, 10, 30), date(2026, 1, 30)),
        ("modified-following", date(2026, 8, 17), date(2026, 10, 30), date(2026, 2, 2)),
        ("modified-preceding", date(2026, 8, 14), date(2026, 10, 30), date(2026, 2, 2)),
    ],
)
def test_a_roll_moves_a_day_off_and_a_modified_one_stays_in_the_month(
    roll, in_the_middle, at_the_end, at_the_start
):
    calendar = BusinessCalendar()

    assert in_the_middle == calendar.rolled(date(2026, 8, 15), roll)
    assert at_the_end == calendar.rolled(date(2026, 10, 31), roll)
    assert at_the_start == calendar.rolled(date(2026, 2, 1), roll)


def test_a_business_day_is_not_moved():
    assert {date(2026, 11, 10)} == {
        BusinessCalendar().rolled(date(2026, 11, 10), roll) for roll in ROLLS
    }


def test_a_roll_gives_up_after_a_month():
    """A calendar that closes for a year has no next business day worth having."""
    closed = [date(2026, 1, 1) + number * DAY for number in range(365)]
    calendar = BusinessCalendar(holidays=closed)

    assert calendar.rolled(date(2026, 6, 15), "following") is None
    assert date(2027, 1, 1) == calendar.rolled(date(2026, 12, 20), "following")


def by_hand(calendar: BusinessCalendar, day: date, roll: Roll) -> date | None:
    """Walk day by day."""
    step = DAY if roll.endswith("following") else -DAY
    found = day
    for direction in (step, -step):
        found = day
        while not calendar.is_business_day(found) and abs(found - day) <= ROLL_DAYS_MAX * DAY:
            found += direction
        if not roll.startswith("modified") or found.month == day.month:
            break
    return found if abs(found - day) <= ROLL_DAYS_MAX * DAY else None


@given(
    st.sets(st.integers(0, 6), max_size=6),
    st.sets(st.dates(date(2026, 1, 1), date(2026, 4, 1)), max_size=40),
    st.dates(date(2025, 12, 1), date(2026, 5, 1)),
    st.sampled_from(ROLLS),
)
@settings(max_examples=200)
def test_rolls_agree_with_walking_day_by_day(weekend, holidays, day, roll):
    calendar = BusinessCalendar(weekend=tuple(weekend), holidays=holidays)

    assert by_hand(calendar, day, roll) == calendar.rolled(day, roll)


@given(
    st.sets(st.integers(0, 6), max_size=6), st.sets(st.dates(date(2026, 1, 1), date(2026, 12, 31)))
)
@settings(max_examples=100)
def test_the_business_days_of_a_year_are_neither_weekend_nor_holiday(weekend, holidays):
    calendar = BusinessCalendar(weekend=tuple(weekend), holidays=holidays)
    days = [date(2026, 1, 1) + number * DAY for number in range(365)]
    expected = [day for day in days if day.weekday() not in weekend and day not in holidays]

    assert expected == [day for month in range(1, 13) for day in calendar.in_month(2026, month)]


def test_holidays_come_from_a_source_with_a_name_and_a_version():
    """What they were computed from is readable."""
    source = default_holidays()

    assert ("holidays", version("holidays")) == (source.name, source.version)


def test_the_source_can_be_replaced_and_is_asked_for_a_year_once():
    """And a year's holidays are kept, as they are costly."""
    source = MadeUp()
    calendar = BusinessCalendar("ZZ", source=source)

    assert 26 == len(calendar.in_month(2026, 4))
    assert [False, True] == [calendar.is_business_day(date(2026, 5, day)) for day in (4, 9)]
    assert [2026] == source.asked


def test_a_country_without_the_extra_says_what_to_install(monkeypatch):
    """The remedy is a command that can be typed."""
    monkeypatch.setitem(sys.modules, "holidays", None)
    monkeypatch.setitem(sys.modules, "holidays.registry", None)

    with pytest.raises(UsageError, match=r"install duly\[calendars\]"):
        BusinessCalendar("US", source=HolidaysPackage())


def test_a_calendar_of_ones_own_needs_no_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "holidays", None)

    assert BusinessCalendar(source=HolidaysPackage()).is_business_day(date(2026, 11, 10))


def test_years_that_no_source_knows_have_weekends_alone():
    """A search through centuries asks nobody for holidays."""
    source = MadeUp()
    calendar = BusinessCalendar("ZZ", source=source)

    assert 26 == len(calendar.in_month(2500, 5))
    assert [] == source.asked


@each_row(
    ("arguments", "field", "remedy"),
    [
        ({"country": "us"}, "calendar", "'US'"),
        ({"country": "USAA"}, "calendar", "'USA'"),
        ({"country": "Atlantis"}, "calendar", "'XNYS'"),
        ({"country": 7}, "calendar", "code"),
        ({"country": "DE", "subdivision": "bayern"}, "calendar", "'Bayern'"),
        ({"country": "DE", "subdivision": "QQ"}, "calendar", "BY"),
        ({"country": "LV", "subdivision": "QQ"}, "calendar", "leave it out"),
        ({"subdivision": "BY"}, "calendar", "('DE', 'BY')"),
        ({"country": "US", "weekend": ["sunday"]}, "weekend", "'US'"),
        ({"weekend": "sunday"}, "weekend", "('friday', 'saturday')"),
        ({"weekend": ["sun"]}, "weekend", "('friday', 'saturday')"),
        ({"weekend": [7]}, "weekend", "('friday', 'saturday')"),
        ({"weekend": range(7)}, "weekend", "('friday', 'saturday')"),
        ({"holidays": "2026-12-24"}, "holidays", "2026-12-24"),
        ({"holidays": ["24.12.2026"]}, "holidays", "2026-12-24"),
        ({"holidays": ["2026-02-30"]}, "holidays", "2026-12-24"),
        ({"holidays": [datetime(2026, 12, 24)]}, "holidays", "2026-12-24"),
        ({"holidays": ["2026-12-24"] * 10_001}, "holidays", "10,000"),
    ],
)
def test_what_is_wrong_is_named_with_the_nearest_valid_thing(arguments, field, remedy):
    with pytest.raises(UsageError) as caught:
        BusinessCalendar(**arguments)

    assert field == caught.value.field
    assert remedy in caught.value.remedy


@each_row("value", [7, (), ("DE",), ("DE", "BY", "x"), {}, {"state": "BY"}, ("DE", 5)])
def test_what_is_not_a_calendar_is_refused(value):
    with pytest.raises(UsageError) as caught:
        read_calendar(value)

    assert "calendar" == caught.value.field


@each_row(
    ("calendar", "stored"),
    [
        (BusinessCalendar(), {"weekend": ["saturday", "sunday"], "holidays": []}),
        (BusinessCalendar("US"), "US"),
        (BusinessCalendar("DE", "BY"), ["DE", "BY"]),
        (GULF, {"weekend": ["friday", "saturday"], "holidays": ["2026-04-26"]}),
        (
            BusinessCalendar("DE", "BY", holidays=["2026-12-24"]),
            {"country": "DE", "subdivision": "BY", "holidays": ["2026-12-24"]},
        ),
    ],
)
def test_the_stored_form_is_read_back(calendar, stored):
    """What the person said is kept."""
    assert stored == calendar.to_json()
    assert calendar == read_calendar(stored)
    assert hash(calendar) == hash(read_calendar(stored))


@pytest.mark.parametrize(
    ("calendar", "label"),
    [
        (BusinessCalendar(), "Monday to Friday"),
        (BusinessCalendar("DE", "BY"), "DE-BY"),
        (BusinessCalendar("US", holidays=["2026-12-24"]), "US and own holidays"),
        (GULF, "own calendar"),
    ],
)
def test_it_has_a_short_name(calendar, label):
    assert label == calendar.label


def test_a_year_that_the_source_knows_little_of_is_no_warning():
    """Warnings are errors here; India's holidays follow the moon, and are known some years ahead."""
    assert BusinessCalendar("IN").is_business_day(date(2037, 8, 14)) in {True, False}
