"""From the parts of an RRULE to a wall rule: defaults, BYSETPOS, bounds, steps below a day.

A step of n hours, minutes or seconds from DTSTART keeps its distance across midnight, so each day
has its own pattern: a ladder of bits, moved to the day's first step and masked by BYHOUR.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate
from math import gcd
from typing import TYPE_CHECKING, Any

from duly.errors import UsageError
from duly.timetable.day_sets import ALL_MONTHS, ALL_WEEKDAYS, Dates, DaysAndTimes, EveryDay
from duly.timetable.instants import (
    DAY,
    EPOCH_ORDINAL,
    FIRST_DAY,
    HOUR,
    LAST_DAY,
    MINUTE,
    wall_seconds,
)
from duly.timetable.rrule_days import (
    DayParts,
    EveryNthMonth,
    EveryNthStretch,
    EveryNthYear,
    PeriodFilter,
    RRuleDates,
)
from duly.timetable.rrule_parser import RRuleParts, read_rrule
from duly.timetable.time_sets import TimesOfDay

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from duly.timetable.local_time import WallRule


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


UNITS = {"HOURLY": HOUR, "MINUTELY": MINUTE, "SECONDLY": 1}
_ALL_HOURS = range(24)
_ALL_SIXTY = range(60)


class Nothing:
    """A wall rule without members: what 30 February comes to."""

    counts_by_day = False

    def at_or_after(self, wall: int) -> int | None:
        """Return None."""
        return None

    def at_or_before(self, wall: int) -> int | None:
        """Return None."""
        return None

    def count(self, start: int, end: int) -> int:
        """Return 0."""
        return 0


class AnyOf:
    """A wall rule: the members of several that have none in common."""

    def __init__(self, rules: Sequence[WallRule]) -> None:
        """Join the rules."""
        self._rules = rules

    def at_or_after(self, wall: int) -> int | None:
        """Return the earliest answer."""
        found = [rule.at_or_after(wall) for rule in self._rules]
        return min((one for one in found if one is not None), default=None)

    def at_or_before(self, wall: int) -> int | None:
        """Return the latest answer."""
        found = [rule.at_or_before(wall) for rule in self._rules]
        return max((one for one in found if one is not None), default=None)

    def count(self, start: int, end: int) -> int:
        """Add up."""
        return sum(rule.count(start, end) for rule in self._rules)


class Bounded:
    """A wall rule, from its first member on and up to a last wall time, both included."""

    def __init__(self, rule: WallRule, first: int, until: int | None) -> None:
        """Cut a rule off on both sides; `first` is a member."""
        self._rule, self._first, self._until = rule, first, until
        self.counts_by_day = isinstance(rule, SteppedRule) and rule.counts_by_day

    def at_or_after(self, wall: int) -> int | None:
        """Look no earlier than the first member."""
        found = self._first if wall <= self._first else self._rule.at_or_after(wall)
        if found is None or self._until is None or found <= self._until:
            return found
        return None

    def at_or_before(self, wall: int) -> int | None:
        """Look no later than the last wall time."""
        if self._until is not None and wall > self._until:
            wall = self._until
        return self._rule.at_or_before(wall) if wall >= self._first else None

    def count(self, start: int, end: int) -> int:
        """Count what lies between the bounds."""
        if self._until is not None:
            end = min(end, self._until + 1)
        start = max(start, self._first)
        return self._rule.count(start, end) if start < end else 0


@lru_cache(maxsize=512)
def compile_rrule(expression: str, dtstart: datetime) -> Bounded | Nothing:
    """Compile a rule; COUNT and an UNTIL in UTC are about instants, and left to the timetable."""
    parts = with_defaults(read_rrule(expression), dtstart)
    endless = _by_steps(parts, dtstart) if parts.freq in UNITS else _by_days(parts, dtstart)
    first = endless.at_or_after(wall_seconds(dtstart))
    if first is None:
        return Nothing()
    until = parts.until.second if parts.until and not parts.until.is_utc else None
    return Bounded(endless, first, until)


def with_defaults(parts: RRuleParts, dtstart: datetime) -> RRuleParts:
    """Fill in from DTSTART what the rule leaves open, so that every part that matters is there.

    Calendars and libraries differ about weeks without a weekday and days without a month, every
    year: an all-day rule is read as calendars do, any other as libraries do. See decision 0006.
    """
    changes: dict[str, Any] = {}
    if not (parts.by_week_no or parts.by_year_day or parts.by_month_day or parts.by_day):
        if parts.freq == "WEEKLY":
            changes["by_day"] = ((dtstart.weekday(), 0),)
        elif parts.freq in ("YEARLY", "MONTHLY"):
            changes["by_month_day"] = (dtstart.day,)
            if parts.freq == "YEARLY" and not parts.by_month:
                changes["by_month"] = (dtstart.month,)
    elif _is_all_day(parts, dtstart) and not (parts.by_day or parts.by_year_day):
        changes |= _all_day_defaults(parts, dtstart)
    for unit, name in (("HOURLY", "hour"), ("MINUTELY", "minute"), ("SECONDLY", "second")):
        if not getattr(parts, f"by_{name}") and _is_longer(parts, unit):
            changes[f"by_{name}"] = (getattr(dtstart, name),)
    return replace(parts, **changes)


def _all_day_defaults(parts: RRuleParts, dtstart: datetime) -> dict[str, Any]:
    """Return the weekday for a yearly week, or the month for yearly days of a month."""
    if parts.freq != "YEARLY":
        return {}
    if parts.by_week_no:
        return {} if parts.by_month_day else {"by_day": ((dtstart.weekday(), 0),)}
    return {} if parts.by_month else {"by_month": (dtstart.month,)}


def _is_all_day(parts: RRuleParts, dtstart: datetime) -> bool:
    """Say whether the rule is about days alone: it starts with a date, and names no time of day."""
    names_time = parts.by_hour or parts.by_minute or parts.by_second
    return not names_time and not (dtstart.hour or dtstart.minute or dtstart.second)


def _is_longer(parts: RRuleParts, unit: str) -> bool:
    """Say whether the rule's period is longer than a unit, which it then has to name."""
    return UNITS.get(parts.freq, DAY) > UNITS[unit]


def day_parts(parts: RRuleParts) -> DayParts:
    """Return the parts that choose days; weekdays are numbered in months and years only."""
    is_numbered = parts.freq in ("YEARLY", "MONTHLY")
    numbered = tuple(day for day in parts.by_day if day[1]) if is_numbered else ()
    plain = {weekday for weekday, number in parts.by_day if not number or not is_numbered}
    return DayParts(
        freq=parts.freq,
        week_start=parts.wkst or 0,
        months=_mask(parts.by_month) or ALL_MONTHS,
        week_numbers=frozenset(parts.by_week_no),
        year_days=parts.by_year_day,
        month_days=parts.by_month_day,
        weekdays=_mask(plain),
        numbered_weekdays=numbered,
        counts_in_month=parts.freq == "MONTHLY" or bool(parts.by_month),
    )


def _by_days(parts: RRuleParts, dtstart: datetime) -> WallRule:
    """Compile a rule whose period is a day or longer: days x times of day."""
    days, interval = day_parts(parts), _interval(parts, dtstart)
    if interval is None and days.is_every_day and not parts.by_set_pos:
        return DaysAndTimes(EveryDay(), times_of(parts))
    reachable = interval.reachable(days) if interval else days
    if reachable is None:
        return Nothing()
    if parts.by_set_pos:
        pairs = _by_positions(parts, reachable, interval)
    else:
        pairs = [(RRuleDates(reachable, interval), times_of(parts))]
    rules = [DaysAndTimes(dates, times) for dates, times in pairs if dates.is_possible]
    # One that never has a member would be searched in vain at every question.
    start = wall_seconds(dtstart)
    rules = [rule for rule in rules if rule.at_or_after(start) is not None]
    return rules[0] if len(rules) == 1 else AnyOf(rules)


def _interval(parts: RRuleParts, dtstart: datetime) -> PeriodFilter | None:
    day = dtstart.toordinal() - EPOCH_ORDINAL
    if parts.interval == 1:
        return None
    match parts.freq:
        case "YEARLY":
            return EveryNthYear(dtstart.year, parts.interval)
        case "MONTHLY":
            return EveryNthMonth(dtstart.year, dtstart.month, parts.interval)
        case "WEEKLY":
            since_week_start = (dtstart.weekday() - (parts.wkst or 0)) % 7
            return EveryNthStretch(day - since_week_start, 7, parts.interval)
        case _:
            return EveryNthStretch(day, 1, parts.interval)


def _by_positions(
    parts: RRuleParts, days: DayParts, interval: PeriodFilter | None
) -> list[tuple[RRuleDates, TimesOfDay]]:
    """Compile BYSETPOS: a position in a period's days x times is a place of a day, and a time.

    Two positions that meet in some periods (1 and -1, where there is only one) fall on the same
    time of day; grouped by it, they are counted once.
    """
    hours, minutes, seconds = parts.by_hour, parts.by_minute, parts.by_second
    size = len(hours) * len(minutes) * len(seconds)
    places: dict[int, set[int]] = defaultdict(set)
    for position in parts.by_set_pos:
        place, index = divmod(position - 1 if position > 0 else position, size)
        places[index].add(place)
    pairs = []
    for index, chosen in places.items():
        rest, second = divmod(index, len(seconds))
        hour, minute = divmod(rest, len(minutes))
        time = TimesOfDay(1 << hours[hour], 1 << minutes[minute], 1 << seconds[second])
        pairs.append((RRuleDates(days, interval, frozenset(chosen)), time))
    return pairs


def _by_steps(parts: RRuleParts, dtstart: datetime) -> WallRule:
    """Compile a rule whose period is shorter than a day: steps, filtered and refined."""
    days = day_parts(parts)
    dates = EveryDay() if days.is_every_day else RRuleDates(days, None)
    if isinstance(dates, RRuleDates) and not dates.is_possible:
        return Nothing()
    unit = UNITS[parts.freq]
    steps = Steps(unit, parts.interval, wall_seconds(dtstart) // unit)
    per_circle = 24 if unit == HOUR else 60
    if per_circle % steps.step == 0 and not parts.by_set_pos:
        times = _round_times(parts, steps.start % steps.step)
        return DaysAndTimes(dates, times) if times else Nothing()
    within = _within(parts)
    allowed = _allowed(parts)
    if not within or not allowed:
        return Nothing()
    rule = SteppedRule(steps, dates, allowed, within)
    return rule if rule.is_possible_on(days.weekdays or ALL_WEEKDAYS) else Nothing()


def _round_times(parts: RRuleParts, first: int) -> TimesOfDay | None:
    """Return the times of a rule whose steps go round the clock and meet themselves."""
    name = {"HOURLY": "by_hour", "MINUTELY": "by_minute", "SECONDLY": "by_second"}[parts.freq]
    full = _ALL_HOURS if name == "by_hour" else _ALL_SIXTY
    steps = range(first, len(full), parts.interval)
    kept: Any = tuple(step for step in steps if step in (getattr(parts, name) or full))
    return times_of(replace(parts, **{name: kept})) if kept else None


def times_of(parts: RRuleParts) -> TimesOfDay:
    """Return hours x minutes x seconds; what is not named is all of them."""
    return TimesOfDay(
        _mask(parts.by_hour or _ALL_HOURS),
        _mask(parts.by_minute or _ALL_SIXTY),
        _mask(parts.by_second or _ALL_SIXTY),
    )


def _within(parts: RRuleParts) -> tuple[int, ...]:
    """Return the seconds of each hour, minute or second that the finer parts name."""
    minutes = parts.by_minute if parts.freq == "HOURLY" else (0,)
    seconds = parts.by_second if parts.freq != "SECONDLY" else (0,)
    within = tuple(minute * MINUTE + second for minute in minutes for second in seconds)
    if not parts.by_set_pos:
        return within
    size = len(within)
    places = {position - 1 if position > 0 else size + position for position in parts.by_set_pos}
    return tuple(within[place] for place in sorted(places) if 0 <= place < size)


def _allowed(parts: RRuleParts) -> int:
    """Return the day's hours, minutes or seconds that the coarser parts let through."""
    hours = _mask(parts.by_hour or _ALL_HOURS)
    if parts.freq == "HOURLY":
        return hours
    minutes = _spread(hours, _mask(parts.by_minute or _ALL_SIXTY), 24)
    if parts.freq == "MINUTELY":
        return minutes
    return _spread(minutes, _mask(parts.by_second or _ALL_SIXTY), 24 * 60)


def _spread(outer: int, inner: int, size: int) -> int:
    """Put a copy of 60 bits in place of each set bit."""
    copies = [inner if outer >> place & 1 else 0 for place in range(size)]
    # Sixty bits are seven and a half bytes: pairs of copies make whole ones.
    pairs = zip(copies[::2], copies[1::2], strict=True)
    joined = b"".join((low | high << 60).to_bytes(15, "little") for low, high in pairs)
    return int.from_bytes(joined, "little")


def _mask(numbers: Sequence[int] | set[int]) -> int:
    return sum(1 << number for number in numbers)
