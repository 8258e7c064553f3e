"""Sets of days, kept as one bitmap a year.

Every Gregorian year is one of fourteen kinds: it starts on one of seven weekdays and is leap or
not. So a rule that depends only on month, day and weekday has at most fourteen different years.
They are computed once for all centuries. A rule that has no day in any of them never has one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from itertools import accumulate, product
from typing import TYPE_CHECKING

from duly.timetable.instants import (
    CYCLE_YEARS,
    DAY,
    FIRST_DAY,
    LAST_DAY,
    YEAR_MAX,
    YEAR_MIN,
    days_in_month,
    first_day_of,
    is_leap,
    year_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.timetable.time_sets import TimesOfDay

ALL_WEEKDAYS = 0b1111111
ALL_MONTHS = 0b1111111111110
MONTH_STARTS = tuple(
    (0, *accumulate(days_in_month(year, month) for month in range(1, 13))) for year in (2001, 2000)
)
"""For common and leap years: the day of the year on which each month starts, and its length."""


class Dates(ABC):
    """A set of days since 1970, asked for its members in order."""

    @property
    def is_possible(self) -> bool:
        """Whether there may be members at all; a set that knows of none need not search."""
        return True

    @abstractmethod
    def at_or_after(self, day: int) -> int | None:
        """Return the first member not before a day, or None if there is none within a cycle."""

    @abstractmethod
    def at_or_before(self, day: int) -> int | None:
        """Return the last member not after a day, or None if there is none within a cycle."""

    @abstractmethod
    def count(self, start: int, end: int) -> int:
        """Return how many members lie in [start, end)."""

    def members(self, start: int, end: int) -> Iterator[int]:
        """Yield the members in [start, end), in order."""
        day = self.at_or_after(start)
        while day is not None and day < end:
            yield day
            day = self.at_or_after(day + 1)


class EveryDay(Dates):
    """All days there are."""

    def at_or_after(self, day: int) -> int | None:
        """Return the day itself."""
        return max(day, FIRST_DAY) if day <= LAST_DAY else None

    def at_or_before(self, day: int) -> int | None:
        """Return the day itself."""
        return min(day, LAST_DAY) if day >= FIRST_DAY else None

    def count(self, start: int, end: int) -> int:
        """Return the length of the interval."""
        return max(0, min(end, LAST_DAY + 1) - max(start, FIRST_DAY))

    def members(self, start: int, end: int) -> Iterator[int]:
        """Yield the days of the interval."""
        yield from range(max(start, FIRST_DAY), min(end, LAST_DAY + 1))


class YearlyDates(Dates):
    """A set of days that is computed year by year, by `days_of`."""

    years_ahead_max = CYCLE_YEARS
    """How far to look: a whole cycle of the calendar, unless a year costs more than a few steps."""

    def __init__(self) -> None:
        """Start with nothing remembered."""
        self._recent = (0, 0, 0)

    @abstractmethod
    def days_of(self, year: int) -> int:
        """Return the members in a year as a bitmap: bit 0 is the first of January."""

    def first_year_from(self, year: int) -> int:
        """Return the first year not before `year` that may have members; a chance to leap ahead."""
        return year

    def at_or_after(self, day: int) -> int | None:
        """Search the day's year, then the years after it."""
        # As in a zone, one remembered year answers most questions; it is checked, never trusted.
        start, end, days = self._recent
        if not start <= day < end:
            if not FIRST_DAY <= day <= LAST_DAY:
                return None if day > LAST_DAY else self.at_or_after(FIRST_DAY)
            start, end, days = self._load(year_of(day))
        left = days >> (day - start)
        if left:
            return day + (left & -left).bit_length() - 1
        first = year_of(day) + 1
        year = self.first_year_from(first)
        while year <= min(first + self.years_ahead_max, YEAR_MAX):
            days = self._days_inside(year)
            if days:
                start, _, _ = self._load(year)
                return start + (days & -days).bit_length() - 1
            if year == first and not self.is_possible:
                break
            year = self.first_year_from(year + 1)
        return None

    def at_or_before(self, day: int) -> int | None:
        """Search the day's year, then the years before it."""
        if not FIRST_DAY <= day <= LAST_DAY:
            return None if day < FIRST_DAY else self.at_or_before(LAST_DAY)
        last = year_of(day)
        start = first_day_of(last)
        days = self._days_inside(last) & (2 << (day - start)) - 1
        if days:
            return start + days.bit_length() - 1
        for year in range(last - 1, max(last - 1 - self.years_ahead_max, YEAR_MIN - 1), -1):
            days = self._days_inside(year)
            if days:
                return first_day_of(year) + days.bit_length() - 1
            if year == last - 1 and not self.is_possible:
                break
        return None

    def count(self, start: int, end: int) -> int:
        """Add up the members of each year touched."""
        start, end = max(start, FIRST_DAY), min(end, LAST_DAY + 1)
        if start >= end:
            return 0
        first, last = year_of(start), year_of(end - 1)
        total = sum(self.days_of(year).bit_count() for year in range(first, last + 1))
        total -= (self.days_of(first) & (1 << start - first_day_of(first)) - 1).bit_count()
        return total - (self.days_of(last) >> end - first_day_of(last)).bit_count()

    def members(self, start: int, end: int) -> Iterator[int]:
        """Yield the members year by year; a year without any leads to a search for the next."""
        found = self.at_or_after(start)
        while found is not None and found < end:
            year = year_of(found)
            first = first_day_of(year)
            days = [first + number for number in listed_days(self._days_inside(year))]
            if days[0] < start or days[-1] >= end:
                days = [day for day in days if start <= day < end]
            yield from days
            found = self._first_of_next(year)

    def _first_of_next(self, year: int) -> int | None:
        """Return the first member after a year; mostly the next year has one."""
        if year >= YEAR_MAX:
            return None
        days, first = self._days_inside(year + 1), first_day_of(year + 1)
        return first + (days & -days).bit_length() - 1 if days else self.at_or_after(first)

    def _load(self, year: int) -> tuple[int, int, int]:
        start = first_day_of(year)
        length = 366 if is_leap(year) else 365
        self._recent = (start, start + length, self._days_inside(year))
        return self._recent

    def _days_inside(self, year: int) -> int:
        """Return the members of a year, without the days at either end of the calendar."""
        days = self.days_of(year)
        if year == YEAR_MIN:
            days &= -1 << FIRST_DAY - first_day_of(year)
        elif year == YEAR_MAX:
            days &= (2 << LAST_DAY - first_day_of(year)) - 1
        return days


class CalendarDates(YearlyDates):
    """Days chosen by month, day and weekday alone: `days_of_kind` is asked for at most 14 years."""

    def __init__(self) -> None:
        """Start with none of the fourteen years known."""
        super().__init__()
        self._kinds: dict[tuple[int, bool], int] = {}

    @abstractmethod
    def days_of_kind(self, first_weekday: int, *, leap: bool) -> int:
        """Return the bitmap of a year that starts on a weekday (Monday is 0)."""

    def days_of(self, year: int) -> int:
        """Look the year's kind up."""
        return self._days_of_kind(((first_day_of(year) + 3) % 7, is_leap(year)))

    @property
    def is_possible(self) -> bool:
        """Whether any of the fourteen years has a member."""
        kinds = product(range(7), (False, True))
        return any(self._days_of_kind(kind) for kind in kinds)

    def _days_of_kind(self, kind: tuple[int, bool]) -> int:
        first_weekday, leap = kind
        days = self._kinds.get(kind)
        if days is None:
            days = self._kinds[kind] = self.days_of_kind(first_weekday, leap=leap)
        return days


@lru_cache(maxsize=1024)
def listed_days(days: int) -> tuple[int, ...]:
    """List the members of a year's bitmap."""
    return tuple(number for number in range(days.bit_length()) if days >> number & 1)


@lru_cache(maxsize=1024)
def days_of_months(months: int, *, leap: bool) -> int:
    """Return the bitmap of all days in a set of months (bit 1 is January)."""
    starts = MONTH_STARTS[leap]
    days = 0
    for month in range(1, 13):
        if months >> month & 1:
            days |= (1 << starts[month]) - (1 << starts[month - 1])
    return days


@lru_cache(maxsize=1024)
def days_of_weekdays(weekdays: int, first_weekday: int, *, leap: bool) -> int:
    """Return the bitmap of all days that fall on a set of weekdays (bit 0 is Monday)."""
    length = 366 if leap else 365
    # A week's pattern as seen from the first of January, repeated by multiplication.
    week = (weekdays >> first_weekday | weekdays << 7 - first_weekday) & ALL_WEEKDAYS
    repeats = ((1 << 7 * 53) - 1) // ALL_WEEKDAYS
    return week * repeats & (1 << length) - 1


@lru_cache(maxsize=1024)
def days_of_month_days(month_days: int, *, leap: bool) -> int:
    """Return the bitmap of the days whose number in the month is in a set (bit 1 is the first)."""
    starts = MONTH_STARTS[leap]
    days = 0
    for month in range(12):
        length = starts[month + 1] - starts[month]
        days |= (month_days >> 1 & (1 << length) - 1) << starts[month]
    return days


class DaysAndTimes:
    """A wall rule: every time of a set of times of day, on every day of a set of days."""

    def __init__(self, dates: Dates, times: TimesOfDay) -> None:
        """Combine the two sets."""
        self.dates, self.times = dates, times
        self._has_every_day = isinstance(dates, EveryDay)
        self._time_from = times.at_or_after

    def at_or_after(self, wall: int) -> int | None:
        """Return the first member not before a wall time."""
        day, time = divmod(wall, DAY)
        # To ask "every day" for a day would be a call too many: this is where schedules spend time.
        is_plain = self._has_every_day and FIRST_DAY <= day <= LAST_DAY
        found = day if is_plain else self.dates.at_or_after(day)
        if found == day:
            time = self._time_from(time)
            if time >= 0:
                return day * DAY + time
            found = self.dates.at_or_after(day + 1)
        return None if found is None else found * DAY + self.times.first

    def members(self, start: int, end: int) -> Iterator[int]:
        """Yield the members in [start, end), in order."""
        days = self.dates.members(start // DAY, -(-end // DAY))
        if self.times.size == 1:
            walls = (day * DAY + self.times.first for day in days)
            yield from (wall for wall in walls if start <= wall < end)
            return
        for day in days:
            midnight = day * DAY
            for time in self.times.members(start - midnight, end - midnight):
                yield midnight + time

    def at_or_before(self, wall: int) -> int | None:
        """Return the last member not after a wall time."""
        day, time = divmod(wall, DAY)
        found = self.dates.at_or_before(day)
        if found == day:
            time = self.times.at_or_before(time)
            if time >= 0:
                return day * DAY + time
            found = self.dates.at_or_before(day - 1)
        return None if found is None else found * DAY + self.times.last

    def count(self, start: int, end: int) -> int:
        """Count whole days, and mend the first and the last."""
        first, start_time = divmod(start, DAY)
        last, end_time = divmod(end, DAY)
        total = self.dates.count(first, last) * self.times.size
        if start_time and self.dates.count(first, first + 1):
            total -= self.times.count_before(start_time)
        if end_time and self.dates.count(last, last + 1):
            total += self.times.count_before(end_time)
        return total
