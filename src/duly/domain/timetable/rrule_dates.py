"""The days of a recurrence rule: what its BY parts choose in a year, thinned out by INTERVAL."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from duly.domain.instants import (
    CYCLE_YEARS,
    FIRST_DAY,
    LAST_DAY,
    YEAR_MAX,
    YEAR_MIN,
    first_day_of,
    year_of,
)
from duly.domain.timetable.dates import MONTH_STARTS, YearlyDates
from duly.domain.timetable.rrule_days import KINDS, DayParts, YearKind, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly.domain.timetable.rrule_interval import Interval

_ENDS = frozenset({0, -1})


class RRuleDates(YearlyDates):
    """The days that a rule's parts choose, in the periods that INTERVAL lets through.

    `positions` picks days by their place among those chosen in each period (0 is the first, -1 the
    last): BYSETPOS without the times of day. None keeps them all.
    """

    def __init__(
        self, parts: DayParts, interval: Interval | None, positions: frozenset[int] | None = None
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
