"""Planned load: how many runs timetables promise in each hour of the coming week (UX 13).

It finds the nine-o'clock herd before it comes. What is counted is bounded: an hour of a schedule
counts sixty occurrences at the most, and all schedules together so many steps.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly import Schedule
    from duly_web.moments import Clocks

DAYS, HOURS = 7, 24
PER_HOUR_MAX = 60
STEPS_MAX = 8_000
HERD_FROM = 3
"""So many at one instant are worth a hint."""
NAMES_SHOWN_MAX = 5
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One hour."""

    day: int
    hour: int
    at: datetime
    count: int
    strength: int
    """From 0 (nothing) to 10 (the fullest hour)."""


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

    rows: tuple[tuple[datetime, tuple[Cell, ...]], ...]
    total: int
    most: Cell | None
    herd: Herd | None
    zone: str
    counted: int
    """How many schedules were counted."""
    is_cut: bool


@dataclass(slots=True)
class _Count:
    start: datetime
    hours: Counter[int] = field(default_factory=Counter)
    instants: dict[datetime, list[str]] = field(default_factory=dict)
    steps: int = 0

    def add(self, schedule: Schedule) -> None:
        """Count the occurrences of one schedule; a dense hour is cut off."""
        at, within, hour_before = self.start - timedelta(microseconds=1), 0, -1
        while self.steps < STEPS_MAX:
            self.steps += 1
            found = schedule.timetable.next(at)
            hour = DAYS * HOURS if found is None else (found - self.start) // HOUR
            if found is None or hour >= DAYS * HOURS:
                return
            within = within + 1 if hour == hour_before else 1
            hour_before, at = hour, found
            self.hours[hour] += 1
            self.instants.setdefault(found, []).append(schedule.name)
            if within >= PER_HOUR_MAX:
                at = self.start + (hour + 1) * HOUR - timedelta(microseconds=1)


def plan_load(
    schedules: Iterable[Schedule], now: datetime, clocks: Clocks, *, is_cut: bool
) -> PlannedLoad:
    """Count what is promised from the current day on, in the visitor's zone."""
    start = _midnight(now, clocks)
    count = _Count(start)
    counted = 0
    for one in sorted(schedules, key=lambda one: _interval(one, start), reverse=True):
        if count.steps >= STEPS_MAX:
            is_cut = True
            break
        count.add(one)
        counted += 1
    most = max(count.hours.values(), default=0)
    rows = tuple(
        (start + timedelta(days=day), tuple(_cell(count, day, hour, most) for hour in range(HOURS)))
        for day in range(DAYS)
    )
    cells = [cell for _, row in rows for cell in row]
    return PlannedLoad(
        rows=rows,
        total=sum(count.hours.values()),
        most=max(cells, key=lambda one: (one.count, -one.day, -one.hour)) if most else None,
        herd=_herd(count, now),
        zone=clocks.mine or "UTC",
        counted=counted,
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
    """Return when the visitor's day began; a day whose clock is put on has a row like any other."""
    clock = clocks.mine_at(now)
    passed = timedelta(hours=clock.hour, minutes=clock.minute, seconds=clock.second)
    return (now - passed).replace(microsecond=0)


def _cell(count: _Count, day: int, hour: int, most: int) -> Cell:
    number = count.hours[day * HOURS + hour]
    strength = 0 if not number else max(1, round(10 * number / most))
    at = count.start + timedelta(days=day, hours=hour)
    return Cell(day=day, hour=hour, at=at, count=number, strength=strength)


def _herd(count: _Count, now: datetime) -> Herd | None:
    coming = [(at, names) for at, names in count.instants.items() if at >= now]
    at, names = max(coming, key=lambda one: (len(one[1]), -one[0].timestamp()), default=(now, []))
    if len(names) < HERD_FROM:
        return None
    begin = at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    taken = {one.minute for one in count.instants if begin <= one < begin + HOUR}
    quiet = [minute for minute in (7, 23, 37, 52, 13, 41) if minute not in taken]
    shown = sorted(names)[:NAMES_SHOWN_MAX]
    return Herd(
        at=at,
        count=len(names),
        names=tuple(shown),
        more=len(names) - len(shown),
        quiet_minutes=tuple(quiet[:3]),
    )
