"""Hours, minutes or seconds at a fixed distance: the wall rule of a frequency below a day.

The n-th hour, minute or second from DTSTART keeps its distance across midnight, so each day has
its own pattern: a ladder of bits, moved to where the steps happen to fall, cut out by BYHOUR.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import gcd
from typing import TYPE_CHECKING

from duly.domain.instants import DAY, FIRST_DAY, LAST_DAY
from duly.domain.timetable.dates import Dates, EveryDay
from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

DAYS_SCANNED_MAX = 1_200
CYCLE_DAYS_MAX = 2_000
RUNS_MAX = 60


@dataclass(frozen=True, slots=True)
class Steps:
    """Units of `unit` seconds at a distance of `step` units, of which one is the unit `start`."""

    unit: int
    step: int
    start: int

    @property
    def per_day(self) -> int:
        """How many units a day has."""
        return DAY // self.unit

    def offset(self, day: int) -> int:
        """Return the first step in or after a day, in units from the day's start."""
        return (self.start - day * self.per_day) % self.step

    def last_day(self, day: int) -> int:
        """Return the day of the last step that is not after a day."""
        end = (day + 1) * self.per_day - 1
        return (end - (end - self.start) % self.step) // self.per_day

    def first_day(self, day: int) -> int:
        """Return the day of the first step that is not before a day."""
        return day + self.offset(day) // self.per_day

    def total_before(self, place: int, first: int, last: int) -> int:
        """Add up, for the days [first, last), the steps before a place of the day."""
        before_first = first * self.per_day + place - self.start + self.step - 1
        return floor_sum(last - first, self.per_day, before_first, self.step)


def floor_sum(size: int, factor: int, summand: int, divisor: int) -> int:
    """Return the sum of (factor * i + summand) // divisor for i in range(size).

    Counts the lattice points below a line; as in Euclid's algorithm, the line is turned over and
    shortened until nothing is left.
    """
    total = 0
    while True:
        whole, factor = divmod(factor, divisor)
        total += whole * (size * (size - 1) // 2)
        whole, summand = divmod(summand, divisor)
        total += whole * size
        height = factor * size + summand
        if height < divisor:
            return total
        size, summand = divmod(height, divisor)
        factor, divisor = divisor, factor


def ladder(step: int, size: int) -> int:
    """Return bits at a fixed distance, from bit 0 on, for `size` bits or more."""
    bits, span = 1, step
    while span < size:
        bits |= bits << span
        span *= 2
    return bits


class SteppedRule:
    """A wall rule: certain seconds (`within`) of the units that steps hit and that are `allowed`.

    `allowed` is a bitmap of the day's units. The search gives up with an error after a number of
    days that no sensible rule comes near: it might go on for centuries.
    """

    def __init__(self, steps: Steps, dates: Dates, allowed: int, within: tuple[int, ...]) -> None:
        """Combine; neither `allowed` nor `within` may be empty."""
        self._steps, self._dates, self._allowed, self._within = steps, dates, allowed, within
        self._ladder = ladder(steps.step, steps.per_day)
        self._recent = (LAST_DAY + 1, 0)

    def is_possible_on(self, weekdays: int) -> bool:
        """Say whether steps ever hit an allowed unit on one of these weekdays (bit 0: Monday)."""
        steps = self._steps
        reach = gcd(steps.step, 7 * steps.per_day)
        rungs = ladder(reach, steps.per_day)
        week = Steps(steps.unit, reach, steps.start)
        return any(
            week.offset(day) < steps.per_day and self._allowed & rungs << week.offset(day)
            for day in range(7)
            if weekdays >> (day + 3) % 7 & 1  # 1970 began on a Thursday
        )

    def at_or_after(self, wall: int) -> int | None:
        """Return the first member not before a wall time."""
        unit, second = divmod(wall, self._steps.unit)
        day, place = divmod(unit, self._steps.per_day)
        left = self._units_of(day) >> place
        if left & 1 and second <= self._within[-1]:
            return wall - second + self._within[bisect_left(self._within, second)]
        left &= ~1
        if left:
            return self._wall(day, place + (left & -left).bit_length() - 1, self._within[0])
        for _ in range(DAYS_SCANNED_MAX):
            found = self._dates.at_or_after(self._steps.first_day(day + 1))
            if found is None:
                return None
            day, units = found, self._units_of(found)
            if units:
                return self._wall(day, (units & -units).bit_length() - 1, self._within[0])
        raise self._too_rare()

    def at_or_before(self, wall: int) -> int | None:
        """Return the last member not after a wall time."""
        unit, second = divmod(wall, self._steps.unit)
        day, place = divmod(unit, self._steps.per_day)
        units = self._units_of(day)
        if units >> place & 1 and second >= self._within[0]:
            return wall - second + self._within[bisect_right(self._within, second) - 1]
        units &= (1 << place) - 1
        for _ in range(DAYS_SCANNED_MAX):
            if units:
                return self._wall(day, units.bit_length() - 1, self._within[-1])
            found = self._dates.at_or_before(self._steps.last_day(day - 1))
            if found is None:
                return None
            day, units = found, self._units_of(found)
        raise self._too_rare()

    def count(self, start: int, end: int) -> int:
        """Count whole days, and mend the first and the last."""
        if start >= end:
            return 0
        first, last = start // DAY, end // DAY
        whole = self._units_between(first, last) * len(self._within)
        return whole - self._before_on_its_day(start) + self._before_on_its_day(end)

    def _units_of(self, day: int) -> int:
        """Return the day's units that are hit and allowed, if the day itself is."""
        known, units = self._recent
        if known == day:
            return units
        offset = self._steps.offset(day)
        if offset >= self._steps.per_day or self._dates.at_or_after(day) != day:
            units = 0
        else:
            units = self._allowed & self._ladder << offset
        self._recent = (day, units)
        return units

    def _wall(self, day: int, place: int, second: int) -> int:
        return day * DAY + place * self._steps.unit + second

    def _before_on_its_day(self, wall: int) -> int:
        unit, second = divmod(wall, self._steps.unit)
        day, place = divmod(unit, self._steps.per_day)
        units = self._units_of(day)
        total = (units & (1 << place) - 1).bit_count() * len(self._within)
        return total + bisect_left(self._within, second) if units >> place & 1 else total

    def _units_between(self, first: int, last: int) -> int:
        """Return how many units the days [first, last) have."""
        steps = self._steps
        first, last = max(first, FIRST_DAY), min(last, LAST_DAY + 1)
        if steps.per_day % steps.step == 0:
            units = self._allowed & self._ladder << steps.offset(0)
            return self._dates.count(first, last) * units.bit_count()
        if isinstance(self._dates, EveryDay):
            return self._units_of_stretch(first, last)
        total, day = 0, self._dates.at_or_after(steps.first_day(first))
        while day is not None and day < last:
            total += self._units_of(day).bit_count()
            day = self._dates.at_or_after(steps.first_day(day + 1))
        return total

    def _units_of_stretch(self, first: int, last: int) -> int:
        """Count on days that are all in: by runs of allowed units if they are few, or by cycles."""
        if self._runs:
            before = self._steps.total_before
            return sum(
                before(end, first, last) - before(start, first, last) for start, end in self._runs
            )
        if self._cycle_days <= CYCLE_DAYS_MAX:
            return self._cycle_before(last) - self._cycle_before(first)
        return sum(self._units_of(day).bit_count() for day in range(first, last))

    @property
    def counts_by_day(self) -> bool:
        """Whether counting takes a step for every day, and so does not go far."""
        if self._steps.per_day % self._steps.step == 0:
            return False
        if isinstance(self._dates, EveryDay):
            return not self._runs and self._cycle_days > CYCLE_DAYS_MAX
        return True

    @cached_property
    def _runs(self) -> list[tuple[int, int]]:
        """The allowed units as runs [start, end); none if they are too many to be of use."""
        starts, ends = self._allowed & ~(self._allowed << 1), self._allowed & ~(self._allowed >> 1)
        if starts.bit_count() > RUNS_MAX:
            return []
        return [(start, end + 1) for start, end in zip(_places(starts), _places(ends), strict=True)]

    @property
    def _cycle_days(self) -> int:
        """After so many days the steps fall on the same units again."""
        return self._steps.step // gcd(self._steps.step, self._steps.per_day)

    @cached_property
    def _cycle(self) -> tuple[int, ...]:
        """How many units the first n days of a cycle have, for each n."""
        sizes = (self._units_of(day).bit_count() for day in range(self._cycle_days))
        return tuple(accumulate(sizes, initial=0))

    def _cycle_before(self, day: int) -> int:
        cycles, rest = divmod(day, self._cycle_days)
        return cycles * self._cycle[-1] + self._cycle[rest]

    def _too_rare(self) -> UsageError:
        return UsageError(
            "INTERVAL",
            self._steps.step,
            f"meets the BY parts on none of {DAYS_SCANNED_MAX:,} days in a row",
            "choose an interval that divides a day, or drop the BY parts it misses",
        )


def _places(bits: int) -> Iterator[int]:
    """Yield the places of the set bits."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
