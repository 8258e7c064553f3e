"""Which days BY parts choose and INTERVAL lets through, as one bitmap a year.

The choice of BY parts depends on the year's first weekday, its length, and (for weeks that it
shares with its neighbours) on their lengths: 28 kinds of year in all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import gcd
from typing import TYPE_CHECKING, NamedTuple, Protocol

from duly.timetable.day_sets import (
    ALL_MONTHS,
    ALL_WEEKDAYS,
    MONTH_STARTS,
    YearlyDates,
    days_of_month_days,
    days_of_months,
    days_of_weekdays,
)
from duly.timetable.instants import (
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

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly.timetable.rrule_parser import Frequency


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


_ENDS = frozenset({0, -1})


class RRuleDates(YearlyDates):
    """The days that a rule's parts choose, in the periods that INTERVAL lets through.

    `positions` picks days by their place among those chosen in each period (0 is the first, -1 the
    last): BYSETPOS without the times of day. None keeps them all.
    """

    def __init__(
        self,
        parts: DayParts,
        interval: PeriodFilter | None,
        positions: frozenset[int] | None = None,
    ) -> None:
        """Start with no kind of year known."""
        super().__init__()
        self.parts, self._interval, self._positions = parts, interval, positions
        self._kinds: dict[YearKind, int] = {}
        if interval is not None:
            self.years_ahead_max = min(CYCLE_YEARS * interval.cycles, YEAR_MAX)

    @property
    def is_possible(self) -> bool:
        """Whether any kind of year has a member, before INTERVAL is asked."""
        return any(self._days_of_kind(kind) for kind in KINDS)

    def days_of(self, year: int) -> int:
        """Look the year's kind up and thin it out."""
        days = self._days_of_kind(kind_of(year))
        return days & self._interval.days_of(year) if days and self._interval else days

    def first_year_from(self, year: int) -> int:
        """Leap as far as the interval allows."""
        return self._interval.first_year_from(year) if self._interval else year

    def at_or_before(self, day: int) -> int | None:
        """Search as usual, from the last year that the interval lets through."""
        if self._interval and FIRST_DAY <= day <= LAST_DAY:
            year = self._interval.last_year_until(year_of(day))
            if year < YEAR_MIN:
                return None
            if year < year_of(day):
                day = first_day_of(year + 1) - 1
        return super().at_or_before(day)

    def _days_of_kind(self, kind: YearKind) -> int:
        days = self._kinds.get(kind)
        if days is None:
            days = self._kinds[kind] = self._chosen(kind)
        return days

    def _chosen(self, kind: YearKind) -> int:
        days = self.parts.days(kind)
        if self._positions is None:
            return days
        match self.parts.freq:
            case "YEARLY":
                return pick(days, self._positions)
            case "MONTHLY":
                return pick_within(days, MONTH_STARTS[kind.leap], self._positions)
            case "WEEKLY":
                return self._picked_by_week(days, kind, self._positions)
            case _:  # a day is a period of its own, with one day in it
                return days if self._positions & {0, -1} else 0

    def _picked_by_week(self, days: int, kind: YearKind, positions: frozenset[int]) -> int:
        """Pick within weeks, of which the first and last reach into the years beside this one."""
        before, length = kind.before, kind.length
        days = self.parts.days(before) >> before.length - 7 | days << 7
        days |= self.parts.days(kind.after) << length + 7
        # Counted from seven days before the year, which is the same weekday as its first.
        first = (self.parts.week_start - kind.first_weekday) % 7
        picked = pick_within(days, range(first, length + 15, 7), positions)
        return picked >> 7 & (1 << length) - 1


def pick_within(days: int, edges: Iterable[int], positions: frozenset[int]) -> int:
    """Pick within each stretch of days between two edges."""
    picked = 0
    for start, end in pairwise(edges):
        picked |= pick(days >> start & (1 << end - start) - 1, positions) << start
    return picked


def pick(days: int, positions: frozenset[int]) -> int:
    """Keep those set bits whose place among the set bits is one of `positions`."""
    if positions <= _ENDS:
        first = days & -days if 0 in positions else 0
        return first | (1 << days.bit_length() >> 1 if -1 in positions else 0)
    places = days.bit_count()
    wanted = {position if position >= 0 else places + position for position in positions}
    picked = 0
    for place in range(places):
        lowest = days & -days
        if place in wanted:
            picked |= lowest
        days ^= lowest
    return picked


_YEAR_DAYS_MAX = 366


class PeriodFilter(Protocol):
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
