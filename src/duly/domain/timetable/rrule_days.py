"""Which days of a year the BY parts of a recurrence rule choose, as one bitmap a year.

That depends on the year's first weekday, its length, and (for weeks that it shares with its
neighbours) on theirs: 28 kinds of year in all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from duly.domain.instants import CYCLE_YEARS, first_day_of, is_leap
from duly.domain.timetable.dates import (
    ALL_MONTHS,
    ALL_WEEKDAYS,
    MONTH_STARTS,
    days_of_month_days,
    days_of_months,
    days_of_weekdays,
)

if TYPE_CHECKING:
    from duly.domain.timetable.rrule_text import Frequency


class YearKind(NamedTuple):
    """All that a rule can tell about a year: its first weekday (Monday is 0) and three lengths."""

    first_weekday: int
    leap: bool
    leap_before: bool
    leap_after: bool

    @property
    def length(self) -> int:
        """How many days it has."""
        return 365 + self.leap

    @property
    def before(self) -> YearKind:
        """The year before; of its own past nothing is known, and nothing is asked."""
        weekday = (self.first_weekday - 365 - self.leap_before) % 7
        return YearKind(weekday, self.leap_before, leap_before=False, leap_after=self.leap)

    @property
    def after(self) -> YearKind:
        """The year after; of its own future nothing is known, and nothing is asked."""
        weekday = (self.first_weekday + self.length) % 7
        return YearKind(weekday, self.leap_after, leap_before=self.leap, leap_after=False)


@lru_cache(maxsize=2048)
def kind_of(year: int) -> YearKind:
    """Return the kind of a year."""
    weekday = (first_day_of(year) + 3) % 7
    return YearKind(weekday, is_leap(year), is_leap(year - 1), is_leap(year + 1))


KINDS = tuple({kind_of(year): None for year in range(2000, 2000 + CYCLE_YEARS)})
"""All that there are."""


@dataclass(frozen=True, slots=True)
class DayParts:
    """The parts of a rule that choose days, defaults filled in; an empty one lets all through."""

    freq: Frequency
    week_start: int
    months: int = ALL_MONTHS
    week_numbers: frozenset[int] = frozenset()
    year_days: tuple[int, ...] = ()
    month_days: tuple[int, ...] = ()
    weekdays: int = 0
    numbered_weekdays: tuple[tuple[int, int], ...] = ()
    counts_in_month: bool = False

    @property
    def is_every_day(self) -> bool:
        """Whether no day is left out."""
        return self == DayParts(self.freq, self.week_start)

    def days(self, kind: YearKind) -> int:
        """Return the days of a kind of year that every part agrees to."""
        days = days_of_months(self.months, leap=kind.leap)
        if self.week_numbers:
            days &= days_of_weeks(kind, self.week_start, self.week_numbers)
        if self.year_days:
            days &= _days_of_year_days(self.year_days, kind.length)
        if self.month_days:
            days &= _days_from_both_ends(self.month_days, leap=kind.leap)
        if self.weekdays or self.numbered_weekdays:
            chosen = days_of_weekdays(self.weekdays, kind.first_weekday, leap=kind.leap)
            days &= chosen | self._numbered(kind)
        return days

    def _numbered(self, kind: YearKind) -> int:
        """Return days such as the second Monday or the last Friday, of the months or the year."""
        starts = MONTH_STARTS[kind.leap]
        edges = starts if self.counts_in_month else (0, kind.length)
        days = 0
        for start, end in pairwise(edges):
            for weekday, number in self.numbered_weekdays:
                first = (weekday - kind.first_weekday - start) % 7
                last = first + (end - start - 1 - first) // 7 * 7
                day = first + 7 * (number - 1) if number > 0 else last + 7 * (number + 1)
                if 0 <= day < end - start:
                    days |= 1 << start + day
        return days


def days_of_weeks(kind: YearKind, week_start: int, numbers: frozenset[int]) -> int:
    """Return the days of numbered weeks; week 1 is the first with four days of the year or more.

    The year's first days may lie in the last week of the year before, its last days in the first
    week of the year after: they are counted there, and chosen if that week's number is.
    """
    start, end = _first_week(kind, week_start), kind.length + _first_week(kind.after, week_start)
    weeks = (end - start) // 7
    days = 0  # with seven bits of room below, for a first week that starts before the year
    for number in numbers:
        place = number - 1 if number > 0 else weeks + number
        if 0 <= place < weeks:
            days |= ALL_WEEKDAYS << 7 + start + 7 * place
    before = kind.before
    weeks_before = (start + before.length - _first_week(before, week_start)) // 7
    if start > 0 and numbers & {-1, weeks_before}:
        days |= (1 << start) - 1 << 7
    after = kind.after
    end_after = kind.length + after.length + _first_week(after.after, week_start)
    weeks_after = (end_after - end) // 7
    if numbers & {1, -weeks_after}:
        days |= ALL_WEEKDAYS << 7 + end
    return days >> 7 & (1 << kind.length) - 1


def _first_week(kind: YearKind, week_start: int) -> int:
    """Return the day of the year on which week 1 starts, from -3 to 3."""
    return (week_start - kind.first_weekday + 3) % 7 - 3


def _days_of_year_days(numbers: tuple[int, ...], length: int) -> int:
    days = 0
    for number in numbers:
        day = number - 1 if number > 0 else length + number
        if 0 <= day < length:
            days |= 1 << day
    return days


def _days_from_both_ends(numbers: tuple[int, ...], *, leap: bool) -> int:
    forward = sum(1 << number for number in numbers if number > 0)
    days = days_of_month_days(forward, leap=leap)
    starts = MONTH_STARTS[leap]
    for start, end in pairwise(starts):
        for number in numbers:
            if number < 0 and end + number >= start:
                days |= 1 << end + number
    return days
