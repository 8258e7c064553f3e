"""A day of every month by number, weekday or business day; reads "last friday"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from duly.errors import UsageError
from duly.timetable.business_calendar import (
    WEEKDAYS,
    BusinessCalendar,
    Roll,
    read_calendar,
    read_roll,
)
from duly.timetable.day_sets import (
    ALL_WEEKDAYS,
    MONTH_STARTS,
    DaysAndTimes,
    YearlyDates,
    days_of_weekdays,
    listed_days,
)
from duly.timetable.instants import HOUR, MINUTE, YEAR_MAX, YEAR_MIN, first_day_of, is_leap
from duly.timetable.phrases import WEEKDAYS as WEEKDAY_NAMES
from duly.timetable.phrases import clock, join, ordinal
from duly.timetable.time_sets import TIMES_MAX, ListedTimes, read_time, time_text
from duly.timetable.timetable import Zoned

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import time

    from duly.timetable.local_time import Fold, Gap, WallRule


TEXT_LENGTH_MAX = 80
BUSINESS_DAY = "business day"
DAY = "day"
ORDINALS = (
    *("first", "second", "third", "fourth", "fifth"),
    *("sixth", "seventh", "eighth", "ninth", "tenth"),
)
_NUMBER = re.compile(r"([0-9]{1,2})(st|nd|rd|th)")
_NUMBERS_MAX = {DAY: 31, BUSINESS_DAY: 31} | dict.fromkeys(WEEKDAYS, 5)
_REMEDY = "give 1 to 31, 'last day', '5th business day', '3rd last business day' or 'first monday'"
_SUGGESTED = [
    f"{number} {unit}"
    for unit in _NUMBERS_MAX
    for number in ("first", "second", "third", "5th", "last", "second last", "3rd last")
]


@dataclass(frozen=True, slots=True)
class MonthDay:
    """The nth of a month's days, business days or weekdays by name; from the end if negative."""

    number: int
    unit: str = DAY

    @property
    def weekday(self) -> int | None:
        """The weekday meant, Monday = 0, if it is one."""
        return WEEKDAYS.index(self.unit) if self.unit in WEEKDAYS else None

    def of(self, members: int) -> int | None:
        """Return the place of the nth bit among a month's members, or None if there are fewer."""
        if members.bit_count() < abs(self.number):
            return None
        for _ in range(abs(self.number) - 1):
            members ^= _outermost(members, self.number)
        return _outermost(members, self.number).bit_length() - 1

    def __str__(self) -> str:
        """Say it: "15th", "last day", "3rd last business day", "1st Monday"."""
        if self.unit == DAY:
            return ordinal(self.number) if self.number > 0 else f"{ordinal(self.number)} day"
        weekday = self.weekday
        unit = self.unit if weekday is None else WEEKDAY_NAMES[weekday]
        return f"{'first' if self.number == 1 else ordinal(self.number)} {unit}"


def _outermost(members: int, number: int) -> int:
    """Return the lowest bit alone, or for a negative number the highest."""
    return members & -members if number > 0 else 1 << members.bit_length() - 1


def read_month_day(day: int | str) -> MonthDay:
    """Read a number, or words in any case; refuse others with the nearest thing there is."""
    if isinstance(day, int) and not isinstance(day, bool):
        if not 1 <= day <= 31:
            _refuse(day, "is not a day of a month")
        return MonthDay(day)
    if not isinstance(day, str) or len(day) > TEXT_LENGTH_MAX:
        _refuse(day, "is not a day of a month")
    return _read_words(day)


@lru_cache(maxsize=1024)
def _read_words(text: str) -> MonthDay:
    words = text.lower().split()
    if len(words) == 1 and words[0][0].isdigit():
        words = [ordinal(int(words[0])) if re.fullmatch("[0-9]{1,2}", words[0]) else words[0], DAY]
    unit = " ".join(words[-2:]) if words[-2:] == BUSINESS_DAY.split() else "".join(words[-1:])
    rest = words[: -len(unit.split())] if unit in _NUMBERS_MAX else []
    from_end = rest[-1:] == ["last"]
    number = 1 if rest == ["last"] else _number(rest[:-1] if from_end else rest)
    if not number or number > _NUMBERS_MAX[unit]:
        close = get_close_matches(" ".join(words), _SUGGESTED, n=1)
        remedy = f"did you mean {close[0]!r}?" if close else _REMEDY
        _refuse(text, "is not a day of a month", remedy)
    return MonthDay(-number if from_end else number, unit)


def _number(words: list[str]) -> int | None:
    """Read "third" or "3rd"."""
    if len(words) != 1:
        return None
    if words[0] in ORDINALS:
        return ORDINALS.index(words[0]) + 1
    found = _NUMBER.fullmatch(words[0])
    if not found or ordinal(int(found[1])) != words[0].lstrip("0"):
        return None
    return int(found[1])


def _refuse(day: object, problem: str, remedy: str = _REMEDY) -> NoReturn:
    raise UsageError("day", day, problem, remedy)


YEARS_AHEAD_MAX = 12
"""How far to look for a month that has the day: a year of holidays costs a millisecond or two."""

YEARS_KEPT_MAX = 64

_ROLLED = {"following": "the next business day", "preceding": "the business day before"}
_UNLESS = {
    "modified-following": " but the one before at the month's end,",
    "modified-preceding": " but the next one at the month's start,",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Monthly(Zoned):
    """A day of every month at some times, in a zone; `calendar` is None where none was given."""

    kind: ClassVar[str] = "monthly"
    day: int | str
    at: str | tuple[str, ...]
    calendar: BusinessCalendar | None = None
    roll: Roll | None = None

    @property
    def month_day(self) -> MonthDay:
        """The day, read."""
        return read_month_day(self.day)

    @property
    def times(self) -> ListedTimes:
        """The times of day, read."""
        return ListedTimes(map(read_time, [self.at] if isinstance(self.at, str) else self.at))

    def _compiled(self) -> WallRule:
        month_day, times = self.month_day, self.times
        _check_sense(self)
        calendar = self.calendar or BusinessCalendar()
        return DaysAndTimes(MonthlyDates(month_day, calendar, self.roll), times)

    def describe(self) -> str:
        """Say in words: "on the last business day (US) of the month at 18:00 (Europe/Paris)"."""
        label = (self.calendar or BusinessCalendar()).label
        day = f"on the {self.month_day}"
        if self.month_day.unit == BUSINESS_DAY:
            day += f" ({label})"
        day += " of the month"
        if self.roll:
            day += f", or {_ROLLED[self.roll.removeprefix('modified-')]} ({label}),"
            day += _UNLESS.get(self.roll, "")
        times = self.times.members()
        clocks = [clock(time // HOUR, time // MINUTE % 60, time % MINUTE) for time in times]
        return f"{day} at {join(clocks)} ({self.tz})"

    def to_json(self) -> dict[str, Any]:
        """Return the day, times, calendar and roll as they were given."""
        at = self.at if isinstance(self.at, str) else list(self.at)
        calendar = None if self.calendar is None else self.calendar.to_json()
        return self._stored(day=self.day, at=at, calendar=calendar, roll=self.roll)


class MonthlyDates(YearlyDates):
    """One day of each month that has it, rolled to a business day if that is asked for."""

    years_ahead_max = YEARS_AHEAD_MAX

    def __init__(self, day: MonthDay, calendar: BusinessCalendar, roll: Roll | None) -> None:
        """Take the day and where it moves."""
        super().__init__()
        self._day, self._calendar = day, calendar
        self._roll: Roll | None = roll
        self._years: dict[int, int] = {}

    def days_of(self, year: int) -> int:
        """Compute a year once; a few are kept."""
        days = self._years.get(year)
        if days is None:
            if len(self._years) >= YEARS_KEPT_MAX:
                self._years.clear()
            days = self._years[year] = self._rolled_into(year) if self._roll else self._chosen(year)
        return days

    def _chosen(self, year: int) -> int:
        """Return the day of each month, as the rule names it."""
        members = self._members(year)
        starts = MONTH_STARTS[is_leap(year)]
        days = 0
        for start, end in pairwise(starts):
            place = self._day.of(members >> start & (1 << end - start) - 1)
            if place is not None:
                days |= 1 << start + place
        return days

    def _members(self, year: int) -> int:
        """Return the days that are counted: all of a year, its business days, or one weekday's."""
        if self._day.unit == BUSINESS_DAY:
            return self._calendar.business_days.days_of(year)
        weekday = self._day.weekday
        mask = ALL_WEEKDAYS if weekday is None else 1 << weekday
        return days_of_weekdays(mask, (first_day_of(year) + 3) % 7, leap=is_leap(year))

    def _rolled_into(self, year: int) -> int:
        """Return where the days have moved to, and what a neighbouring year moved into this one."""
        roll = self._roll
        assert roll is not None
        first = first_day_of(year)
        length = 366 if is_leap(year) else 365
        chosen = [first + place for place in listed_days(self._chosen(year))]
        if roll == "following" and year > YEAR_MIN:
            before = first_day_of(year - 1)
            chosen += [before + place for place in listed_days(self._chosen(year - 1))[-1:]]
        if roll == "preceding" and year < YEAR_MAX:
            chosen += [first + length + place for place in listed_days(self._chosen(year + 1))[:1]]
        days = 0
        for day in chosen:
            rolled = self._calendar.rolled_number(day, roll)
            if rolled is not None and first <= rolled < first + length:
                days |= 1 << rolled - first
        return days


def _check_sense(rule: Monthly) -> None:
    """Refuse a roll or a calendar that could change nothing, and a day that no month has."""
    day = rule.month_day
    if rule.roll is not None:
        if day.unit == BUSINESS_DAY:
            problem = f"has nothing to move: {rule.day!r} is a business day"
            raise UsageError("roll", rule.roll, problem, "leave roll out")
    elif rule.calendar is not None and day.unit != BUSINESS_DAY:
        remedy = "add roll='following' (or another), or leave calendar out"
        raise UsageError("calendar", rule.calendar.label, f"does not change {rule.day!r}", remedy)
    if day.unit == BUSINESS_DAY:
        most = 31 - 4 * len((rule.calendar or BusinessCalendar()).weekend_days)
        if abs(day.number) > most:
            remedy = f"no month has more than {most} business days there: give a lower number"
            raise UsageError("day", rule.day, "never comes", remedy)


def monthly(  # noqa: PLR0913, PLR0917 - a rule has as many parts as a person names
    day: int | str,
    at: str | time | Sequence[str | time],
    tz: str = "UTC",
    calendar: BusinessCalendar | str | Sequence[str] | Mapping[str, Any] | None = None,
    roll: Roll | None = None,
    gap: Gap = "next",
    fold: Fold = "first",
) -> Monthly:
    """Make a timetable of one day of every month, at one or more times of 24 hours.

    `day` is 1 to 31 (a month without it has no occurrence), or words: "last day", "3rd last day",
    "5th business day", "last friday". `roll` moves a day that is not a business day; a modified
    roll stays in the month. Business days are those of `calendar`: a country such as "US", a part
    of it such as ("DE", "BY"), an exchange, or a `BusinessCalendar`; without it Monday to Friday.
    """
    if isinstance(at, list | tuple) and not 1 <= len(at) <= TIMES_MAX:
        raise UsageError("at", at, "has no times or too many", f"give 1 to {TIMES_MAX} times")
    return Monthly(
        day=day,
        at=tuple(map(time_text, at)) if isinstance(at, list | tuple) else time_text(at),
        tz=tz,
        calendar=None if calendar is None else read_calendar(calendar),
        roll=None if roll is None else read_roll(roll),
        gap=gap,
        fold=fold,
    )
