"""Business days: which days are worked on, and to which day an occurrence on another day moves.

A calendar is a country's (or an exchange's) with extra holidays, or a custom one: a weekend and a
list of holidays. Each year is a bitmap, as in every set of days.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import date
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import Any, Literal, NoReturn, cast

from duly.errors import UsageError
from duly.timetable.data_sources import HolidaySource, HolidaysPackage
from duly.timetable.day_sets import (
    ALL_WEEKDAYS,
    MONTH_STARTS,
    YearlyDates,
    days_of_weekdays,
    listed_days,
)
from duly.timetable.instants import EPOCH_ORDINAL, as_day, first_day_of, is_leap
from duly.timetable.phrases import WEEKDAYS as WEEKDAY_NAMES

Roll = Literal["following", "preceding", "modified-following", "modified-preceding"]
ROLLS: tuple[Roll, ...] = ("following", "preceding", "modified-following", "modified-preceding")
WEEKDAYS = tuple(name.lower() for name in WEEKDAY_NAMES)
ROLL_DAYS_MAX = 31
"""A roll that moves a day further has lost its meaning, and gives no day."""

HOLIDAYS_MAX = 10_000
CODE_LENGTH_MAX = 80
CODES_SHOWN_MAX = 10
HOLIDAY_YEARS = range(1900, 2101)
"""Nobody's laws reach further; in other years a country has its weekend and no holidays."""

_SATURDAY_SUNDAY = WEEKDAYS[5:]
_KEYS = {"country", "subdivision", "weekend", "holidays"}


@cache
def default_holidays() -> HolidaySource:
    """Return the holidays of the installed package, shared by everything in the process."""
    return HolidaysPackage()


@dataclass(frozen=True, slots=True)
class BusinessCalendar:
    """Which days are business days; without arguments, Monday to Friday.

    `country` is a code such as "US", or an exchange's such as "XNYS"; its weekend comes with it.
    `weekend` names weekdays, or counts them from Monday = 0; `holidays` are dates, or ISO texts.
    """

    country: str | None = None
    subdivision: str | None = None
    weekend: Collection[str | int] | None = None
    holidays: Collection[date | str] = ()
    source: HolidaySource = field(default_factory=default_holidays, compare=False, repr=False)
    business_days: BusinessDays = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Check everything, and keep it in a form that can be compared."""
        if self.country is None:
            if self.subdivision is not None:
                remedy = f"give the country too, as in ('DE', {self.subdivision!r})"
                _refuse(self.subdivision, "is a subdivision of no country", remedy)
        else:
            self._check_country(self.country)
            if self.weekend is not None:
                remedy = f"leave it out: it comes with {self.country!r}"
                _refuse(self.weekend, "is a second weekend", remedy, "weekend")
        weekend = _SATURDAY_SUNDAY if self.weekend is None else _weekend(self.weekend)
        object.__setattr__(self, "weekend", weekend if self.country is None else None)
        object.__setattr__(self, "holidays", _holidays(self.holidays))
        object.__setattr__(self, "business_days", BusinessDays(self))

    @property
    def weekend_days(self) -> frozenset[int]:
        """The weekend as it is now, counted from Monday = 0."""
        if self.country is not None:
            return self.source.weekend(self.country)
        return frozenset(WEEKDAYS.index(str(name)) for name in self.weekend or ())

    @property
    def label(self) -> str:
        """A short name for descriptions."""
        name = "-".join(part for part in (self.country, self.subdivision) if part)
        if self.weekend == _SATURDAY_SUNDAY and not self.holidays:
            return "Monday to Friday"
        if self.country is None:
            return "own calendar"
        return f"{name} and own holidays" if self.holidays else name

    def is_business_day(self, day: date) -> bool:
        """Say whether a day is neither a holiday nor part of a weekend."""
        number = day.toordinal() - EPOCH_ORDINAL
        return self.business_days.at_or_after(number) == number

    def rolled(self, day: date, roll: Roll) -> date | None:
        """Move a day that is not a business day to one that is; None if that is a month away."""
        found = self.rolled_number(day.toordinal() - EPOCH_ORDINAL, read_roll(roll))
        return None if found is None else _date(found)

    def rolled_number(self, day: int, roll: Roll) -> int | None:
        """Do the same for days since 1970; a modified roll turns round where a month ends."""
        searches = [self.business_days.at_or_after, self.business_days.at_or_before]
        if roll.endswith("preceding"):
            searches.reverse()
        found = searches[0](day)
        leaves_month = found is None or _date(found).month != _date(day).month
        if roll.startswith("modified") and leaves_month:
            found = searches[1](day)
        return None if found is None or abs(found - day) > ROLL_DAYS_MAX else found

    def in_month(self, year: int, month: int) -> list[date]:
        """Return the business days of a month, in order."""
        start, end = MONTH_STARTS[is_leap(year)][month - 1 : month + 1]
        days = self.business_days.days_of(year) >> start & (1 << end - start) - 1
        return [date(year, month, place + 1) for place in listed_days(days)]

    def to_json(self) -> Any:  # noqa: ANN401 - a text, a list or an object
        """Return what the person said: "US", ["DE", "BY"], or a weekend and holidays."""
        holidays = sorted(str(day) for day in self.holidays)
        if self.country is None:
            weekend = [WEEKDAYS[number] for number in sorted(self.weekend_days)]
            return {"weekend": weekend, "holidays": holidays}
        if holidays:
            named = {"country": self.country, "subdivision": self.subdivision}
            return {key: value for key, value in named.items() if value} | {"holidays": holidays}
        return self.country if self.subdivision is None else [self.country, self.subdivision]

    def _check_country(self, country: str) -> None:
        try:
            codes = self.source.codes
            _check_code("country or exchange", country, codes, "give a code such as 'US' or 'XNYS'")
            if self.subdivision is not None:
                known = self.source.subdivisions(country)
                some = ", ".join(
                    sorted(known, key=lambda name: (len(name), name))[:CODES_SHOWN_MAX]
                )
                remedy = f"give one such as {some}" if known else "leave it out"
                _check_code(f"subdivision of {country!r}", self.subdivision, known, remedy)
        except ModuleNotFoundError as error:
            problem, remedy = "needs the holidays of countries", "install duly[calendars]"
            raise UsageError("calendar", country, problem, remedy) from error


class BusinessDays(YearlyDates):
    """The business days of a calendar as a set of days."""

    years_ahead_max = 1
    """A business day that is more than a year away is of no use to anybody."""

    def __init__(self, calendar: BusinessCalendar) -> None:
        """Take the weekend, and remember own holidays by year."""
        super().__init__()
        self._source, self._country = calendar.source, calendar.country
        self._subdivision = calendar.subdivision
        self._weekdays = ALL_WEEKDAYS & ~sum(1 << day for day in calendar.weekend_days)
        self._own: dict[int, int] = {}
        for day in cast("frozenset[date]", calendar.holidays):
            bit = 1 << day.timetuple().tm_yday - 1
            self._own[day.year] = self._own.get(day.year, 0) | bit

    def days_of(self, year: int) -> int:
        """Take the holidays out of a year's working weekdays."""
        if self._country is None or year not in HOLIDAY_YEARS:
            first_weekday = (first_day_of(year) + 3) % 7
            days = days_of_weekdays(self._weekdays, first_weekday, leap=is_leap(year))
        else:
            days = _country_days(self._source, self._country, self._subdivision, year)
        return days & ~self._own.get(year, 0)


@lru_cache(maxsize=2048)  # some 250 bytes each
def _country_days(source: HolidaySource, country: str, subdivision: str | None, year: int) -> int:
    """Return a country's business days in a year; asking the source costs a millisecond or two."""
    days = (1 << (366 if is_leap(year) else 365)) - 1
    for day in source.days_off(country, subdivision, year):
        days &= ~(1 << day.timetuple().tm_yday - 1)
    return days


def read_calendar(value: object) -> BusinessCalendar:
    """Make a calendar of what a person may give: None, "US", ("DE", "BY"), JSON, or a calendar."""
    match value:
        case BusinessCalendar():
            return value
        case None:
            return BusinessCalendar()
        case str():
            country, _, subdivision = value.partition("-")
            return BusinessCalendar(country, subdivision or None)
        case (str() as country, (str() | None) as subdivision):
            return BusinessCalendar(country, subdivision)
        case Mapping() if value and _KEYS.issuperset(value):
            return BusinessCalendar(**value)
    remedy = "give 'US', ('DE', 'BY') or BusinessCalendar(weekend=…, holidays=…)"
    return _refuse(value, "is not a calendar", remedy)


def read_roll(roll: object) -> Roll:
    """Return a roll by its name; "modified" alone means modified following, as among bankers."""
    name = roll.strip().lower().replace("_", "-").replace(" ", "-") if isinstance(roll, str) else ""
    for known in ROLLS:
        if name == known or (name == "modified" and known == "modified-following"):
            return known
    raise UsageError("roll", roll, "is not a roll", f"choose one of {', '.join(ROLLS)}")


def _check_code(what: str, code: object, known: frozenset[str], remedy: str) -> None:
    if isinstance(code, str) and code in known:
        return
    if isinstance(code, str) and len(code) <= CODE_LENGTH_MAX:
        folded = {name.casefold(): name for name in sorted(known)}
        close = get_close_matches(code.strip().casefold(), folded, n=1, cutoff=0.7)
        remedy = f"did you mean {folded[close[0]]!r}?" if close else remedy
    _refuse(code, f"is not a {what}", remedy)


def _weekend(weekend: object) -> tuple[str, ...]:
    """Return a weekend as names of weekdays, in order."""
    remedy = "name weekdays, as in ('friday', 'saturday')"
    if isinstance(weekend, str) or not isinstance(weekend, Collection) or len(weekend) > 7:
        _refuse(weekend, "is not a weekend", remedy, "weekend")
    numbers = set()
    for day in weekend:
        if isinstance(day, str) and day.strip().lower() in WEEKDAYS:
            numbers.add(WEEKDAYS.index(day.strip().lower()))
        elif isinstance(day, int) and not isinstance(day, bool) and 0 <= day <= 6:
            numbers.add(day)
        else:
            _refuse(day, "is not a weekday", remedy, "weekend")
    if sum(1 << number for number in numbers) == ALL_WEEKDAYS:
        _refuse(weekend, "leaves no day to work on", remedy, "weekend")
    return tuple(WEEKDAYS[number] for number in sorted(numbers))


def _holidays(holidays: object) -> frozenset[date]:
    remedy = f"give up to {HOLIDAYS_MAX:,} dates, as in ['2026-12-24']"
    is_single = isinstance(holidays, str | bytes | Mapping)
    if is_single or not isinstance(holidays, Collection) or len(holidays) > HOLIDAYS_MAX:
        _refuse(holidays, "is not a list of dates", remedy, "holidays")
    return frozenset(_holiday(day) for day in holidays)


def _holiday(day: object) -> date:
    found = as_day(day)
    if found is None:
        _refuse(day, "is not a date", "give a date, or text such as '2026-12-24'", "holidays")
    return found


def _date(day: int) -> date:
    return date.fromordinal(day + EPOCH_ORDINAL)


def _refuse(value: object, problem: str, remedy: str, field: str = "calendar") -> NoReturn:
    raise UsageError(field, value, problem, remedy)
