"""INTERVAL: which years, months, weeks or days a rule lets through, by arithmetic alone."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import gcd
from typing import TYPE_CHECKING, Protocol

from duly.domain.instants import (
    CYCLE_DAYS,
    CYCLE_YEARS,
    FIRST_DAY,
    LAST_DAY,
    YEAR_MAX,
    YEAR_MIN,
    first_day_of,
    is_leap,
    year_of,
)
from duly.domain.timetable.dates import days_of_months

if TYPE_CHECKING:
    from duly.domain.timetable.rrule_days import DayParts

_YEAR_DAYS_MAX = 366


class Interval(Protocol):
    """Which periods of a frequency INTERVAL lets through.

    `cycles` is how many 400-year cycles of the calendar pass before the same days are let through
    again: what was not found by then will never be.
    """

    cycles: int

    def reachable(self, parts: DayParts) -> DayParts | None:
        """Leave out months or weekdays that are never let through; None if that is all."""
        ...

    def days_of(self, year: int) -> int:
        """Return the bitmap of a year's days that lie in such periods."""
        ...

    def first_year_from(self, year: int) -> int:
        """Return the first year not before `year` with such days; beyond 9999 if there is none."""
        ...

    def last_year_until(self, year: int) -> int:
        """Return the last year not after `year` with such days; before 1 if there is none."""
        ...


class EveryNthYear:
    """Years at a fixed distance."""

    def __init__(self, year: int, step: int) -> None:
        """Count from a year."""
        self._year, self._step = year, step
        self.cycles = step // gcd(step, CYCLE_YEARS)

    def reachable(self, parts: DayParts) -> DayParts | None:
        """Return the parts unchanged."""
        return parts

    def days_of(self, year: int) -> int:
        """Return the whole year, or nothing of it."""
        return 0 if (year - self._year) % self._step else (1 << _YEAR_DAYS_MAX) - 1

    def first_year_from(self, year: int) -> int:
        """Leap to the next year that counts."""
        return year + (self._year - year) % self._step

    def last_year_until(self, year: int) -> int:
        """Leap back to the last year that counts."""
        return year - (year - self._year) % self._step


class EveryNthMonth:
    """Months at a fixed distance."""

    def __init__(self, year: int, month: int, step: int) -> None:
        """Count from a month."""
        self._month, self._step = 12 * year + month - 1, step
        self.cycles = step // gcd(step, 12 * CYCLE_YEARS)

    def reachable(self, parts: DayParts) -> DayParts | None:
        """Leave out months: every 4th from March never comes to April."""
        reach = gcd(self._step, 12)
        months = parts.months & sum(2 << month for month in range(self._month % reach, 12, reach))
        return replace(parts, months=months) if months else None

    def days_of(self, year: int) -> int:
        """Return the days of the year's months that count."""
        first = (self._month - 12 * year) % self._step
        months = sum(2 << month for month in range(first, 12, self._step))
        return days_of_months(months, leap=is_leap(year))

    def first_year_from(self, year: int) -> int:
        """Leap to the year of the next month that counts."""
        return year + (self._month - 12 * year) % self._step // 12

    def last_year_until(self, year: int) -> int:
        """Leap back to the year of the last month that counts."""
        december = 12 * year + 11
        return (december - (december - self._month) % self._step) // 12


class EveryNthStretch:
    """Stretches of days (single days, or weeks) at a fixed distance."""

    def __init__(self, day: int, width: int, step: int) -> None:
        """Count from a stretch that starts on a day since 1970 and is `width` days long."""
        self._day, self._width, self._period = day, width, width * step
        self.cycles = self._period // gcd(self._period, CYCLE_DAYS)

    def reachable(self, parts: DayParts) -> DayParts | None:
        """Leave out weekdays: every 14th day is always the same."""
        if self._width > 1 or self._period % 7:
            return parts
        weekday = 1 << (self._day + 3) % 7
        if parts.weekdays and not parts.weekdays & weekday:
            return None
        return replace(parts, weekdays=weekday)

    def days_of(self, year: int) -> int:
        """Return the days of the year's stretches; the first may have begun the year before."""
        phase = (first_day_of(year) - self._day) % self._period
        tooth = (1 << self._width) - 1
        if self._period > _YEAR_DAYS_MAX:
            ahead = self._period - phase
            days = tooth << ahead if ahead < _YEAR_DAYS_MAX else 0
            return days | tooth >> phase if phase < self._width else days
        return _comb(self._width, self._period) >> phase

    def first_year_from(self, year: int) -> int:
        """Leap to the year of the next stretch that counts."""
        if year > YEAR_MAX or self._period <= _YEAR_DAYS_MAX:
            return year
        first = first_day_of(year)
        phase = (first - self._day) % self._period
        if phase < self._width:
            return year
        day = first + self._period - phase
        return year_of(day) if day <= LAST_DAY else YEAR_MAX + 1

    def last_year_until(self, year: int) -> int:
        """Leap back to the year of the last stretch that counts."""
        if self._period <= _YEAR_DAYS_MAX:
            return year
        end = first_day_of(year) + 364 + is_leap(year)
        phase = (end - self._day) % self._period
        day = end - max(0, phase - self._width + 1)
        return year_of(day) if day >= FIRST_DAY else YEAR_MIN - 1


@lru_cache(maxsize=256)
def _comb(width: int, period: int) -> int:
    """Return teeth of `width` bits, one every `period` bits, for two years and more."""
    teeth = range(0, 2 * _YEAR_DAYS_MAX + period, period)
    return sum((1 << width) - 1 << tooth for tooth in teeth)
