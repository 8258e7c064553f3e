"""Planned load: how many runs timetables promise in each hour of the coming week (UX 13).

It finds the nine-o'clock herd before it comes. What fires all the time is in no herd and would hide
one: it is named, and not drawn. What is counted is bounded, and what is not counted is told: an
hour of a schedule counts so many at the most, and all schedules together so many steps.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly import Schedule
    from duly_web.moments import Clocks

DAYS, HOURS = 7, 24
PER_HOUR_MAX = 60
STEPS_MAX = 8_000
LEVELS = 5
PROBED_HOURS = range(0, HOURS, 4)
"""What is full in each of these hours of a day fires all the time."""
HERD_FROM = 3
"""So many at one instant are worth a hint."""
NAMES_SHOWN_MAX = 5
HOUR = timedelta(hours=1)
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One hour."""

    day: int
    hour: int
    at: datetime | None
    """None for an hour that clocks jump over."""
    count: int
    level: int
    """From 0 (nothing) and 1 (as quiet as the quietest) to 5 (as full as the fullest hour)."""
    is_capped: bool
    """Whether a schedule has more in this hour than it is counted for."""

    @property
    def text(self) -> str:
        """Write the count as short as a cell is."""
        if not self.count:
            return ""
        short = f"{self.count / 1000:.1f}k" if self.count >= 1000 else str(self.count)
        return f"{short}+" if self.is_capped else short


@dataclass(frozen=True, slots=True, kw_only=True)
class Herd:
    """The instant at which most fall due together."""

    at: datetime
    count: int
    names: tuple[str, ...]
    more: int
    quiet_minutes: tuple[int, ...]
    """Minutes of that hour at which nothing falls due."""

    @property
    def quiet_words(self) -> str:
        """Write those minutes."""
        return ", :".join(f"{one:02d}" for one in self.quiet_minutes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLoad:
    """A week by hours."""

    rows: tuple[tuple[date, tuple[Cell, ...]], ...]
    total: int
    most: Cell | None
    levels: tuple[tuple[int, str], ...]
    """Each level that is drawn, and how many runs in an hour it stands for."""
    herd: Herd | None
    zone: str
    counted: int
    """How many schedules were counted."""
    steady: tuple[str, ...]
    """Which fire all the time, and are not drawn; some of them by name,"""
    steady_more: int
    """and how many more."""
    left_out: int
    """How many of those that were looked at are not counted: they would have taken too long."""
    is_cut: bool
    """Whether there are schedules that were not looked at."""
    per_hour_max: int = PER_HOUR_MAX

    @property
    def has_capped(self) -> bool:
        """Whether an hour of the drawing has more than it shows."""
        return any(cell.is_capped for _, row in self.rows for cell in row)


@dataclass(frozen=True, slots=True)
class Scale:
    """From the quietest hour that has any run to the fullest: what is always there is pale."""

    least: int
    most: int

    def level(self, number: int) -> int:
        """Return how full an hour is, from 1 to 5; 0 for one without a run."""
        return -(-LEVELS * (number - self.least + 1) // self._reach) if number else 0

    def levels(self) -> tuple[tuple[int, str], ...]:
        """Return what each level stands for; where hours differ little there are fewer."""
        found = []
        for level in range(1, LEVELS + 1):
            low = self.least + self._reach * (level - 1) // LEVELS
            high = self.least + self._reach * level // LEVELS - 1
            if low <= high and high:
                found.append((level, f"{low:,}" if low == high else f"{low:,} to {high:,}"))
        return tuple(found)

    @property
    def _reach(self) -> int:
        return self.most - self.least + 1


@dataclass(slots=True)
class _Count:
    start: datetime
    end: datetime
    hours: Counter[int] = field(default_factory=Counter)
    """By how many have passed since the start."""
    capped: set[int] = field(default_factory=set)
    instants: dict[datetime, list[str]] = field(default_factory=dict)
    steps: int = 0

    def is_steady(self, schedule: Schedule) -> bool:
        """Say whether a schedule fires all the time: as often as it counts for, hour by hour."""
        return all(self._is_full(schedule, hour) for hour in PROBED_HOURS)

    def _is_full(self, schedule: Schedule, hour: int) -> bool:
        begin = self.start + hour * HOUR
        found = schedule.timetable.upcoming(begin - MICROSECOND, PER_HOUR_MAX)
        self.steps += len(found)
        return len(found) == PER_HOUR_MAX and found[-1] < begin + HOUR

    def add(self, schedule: Schedule) -> bool:
        """Count the occurrences of one schedule, all of them or none; a dense hour is cut off."""
        at, within, hour_before = self.start - MICROSECOND, 0, -1
        found: list[datetime] = []
        capped: set[int] = set()
        while self.steps < STEPS_MAX:
            self.steps += 1
            one = schedule.timetable.next(at)
            if one is None or one >= self.end:
                self._take(schedule.name, found, capped)
                return True
            hour = (one - self.start) // HOUR
            within = within + 1 if hour == hour_before else 1
            hour_before, at = hour, one
            if within > PER_HOUR_MAX:
                capped.add(hour)
                at = self.start + (hour + 1) * HOUR - MICROSECOND
            else:
                found.append(one)
        return False

    def _take(self, name: str, found: list[datetime], capped: set[int]) -> None:
        self.hours.update((one - self.start) // HOUR for one in found)
        self.capped |= capped
        for one in found:
            self.instants.setdefault(one, []).append(name)


def plan_load(
    schedules: Iterable[Schedule], now: datetime, clocks: Clocks, *, is_cut: bool
) -> PlannedLoad:
    """Count what is promised from the current day on, in the visitor's zone."""
    start = _midnight(now, clocks)
    noon_after = start + (DAYS * HOURS + HOURS // 2) * HOUR
    count = _Count(start, _midnight(noon_after, clocks))
    counted, steady, left_out = 0, [], 0
    for one in sorted(schedules, key=lambda one: _interval(one, start), reverse=True):
        if count.steps >= STEPS_MAX:
            left_out += 1
        elif count.is_steady(one):
            steady.append(one.name)
        elif count.add(one):
            counted += 1
        else:
            left_out += 1
    places = _places(count, clocks)
    numbers = [number for one in places.values() if (number := _number(count, one))]
    scale = Scale(min(numbers, default=0), max(numbers, default=0))
    first = clocks.mine_at(start).date()
    rows = tuple(
        (
            first + timedelta(days=day),
            tuple(
                _cell(count, (day, hour), places.get((day, hour), []), scale)
                for hour in range(HOURS)
            ),
        )
        for day in range(DAYS)
    )
    cells = [cell for _, row in rows for cell in row]
    return PlannedLoad(
        rows=rows,
        total=sum(count.hours.values()),
        most=max(cells, key=lambda one: (one.count, -one.day, -one.hour)) if scale.most else None,
        levels=scale.levels(),
        herd=_herd(count, now, clocks),
        zone=clocks.mine or "UTC",
        counted=counted,
        steady=tuple(sorted(steady)[:NAMES_SHOWN_MAX]),
        steady_more=max(0, len(steady) - NAMES_SHOWN_MAX),
        left_out=left_out,
        is_cut=is_cut,
    )


def _interval(schedule: Schedule, start: datetime) -> timedelta:
    """Return how far its first two occurrences are apart: who fires seldom is counted first.

    One that fires every minute would take as much as a thousand others, and is in no herd.
    """
    first = schedule.timetable.next(start)
    second = None if first is None else schedule.timetable.next(first)
    return timedelta.max if first is None or second is None else second - first


def _midnight(now: datetime, clocks: Clocks) -> datetime:
    """Return when the visitor's day began, also where clocks have changed since."""
    clock = clocks.mine_at(now)
    wall = clock.replace(hour=0, minute=0, second=0, microsecond=0)
    begin = now - (clock - wall)
    return begin - (clocks.mine_at(begin) - wall)


def _places(count: _Count, clocks: Clocks) -> dict[tuple[int, int], list[int]]:
    """Return which hours that pass are in each day and hour of the visitor's clock.

    An hour that clocks jump over has none, and one that they repeat has two.
    """
    first = clocks.mine_at(count.start).date()
    found: dict[tuple[int, int], list[int]] = {}
    for passed in range(-(-(count.end - count.start) // HOUR)):
        local = clocks.mine_at(count.start + passed * HOUR)
        found.setdefault(((local.date() - first).days, local.hour), []).append(passed)
    return found


def _number(count: _Count, places: Iterable[int]) -> int:
    return sum(count.hours[one] for one in places)


def _cell(count: _Count, at: tuple[int, int], places: list[int], scale: Scale) -> Cell:
    number = _number(count, places)
    return Cell(
        day=at[0],
        hour=at[1],
        at=count.start + places[0] * HOUR if places else None,
        count=number,
        level=scale.level(number),
        is_capped=not count.capped.isdisjoint(places),
    )


def _herd(count: _Count, now: datetime, clocks: Clocks) -> Herd | None:
    coming = [(at, names) for at, names in count.instants.items() if at >= now]
    at, names = max(coming, key=lambda one: (len(one[1]), -one[0].timestamp()), default=(now, []))
    if len(names) < HERD_FROM:
        return None
    # The minutes of the visitor's clock: not every zone is whole hours off UTC.
    begin = at - timedelta(minutes=clocks.mine_at(at).minute, seconds=at.second)
    taken = {clocks.mine_at(one).minute for one in count.instants if begin <= one < begin + HOUR}
    quiet = [minute for minute in (7, 23, 37, 52, 13, 41) if minute not in taken]
    shown = sorted(names)[:NAMES_SHOWN_MAX]
    return Herd(
        at=at,
        count=len(names),
        names=tuple(shown),
        more=len(names) - len(shown),
        quiet_minutes=tuple(quiet[:3]),
    )
