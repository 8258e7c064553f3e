"""A calendar of a schedule's days: what its runs of each day came to, backfills told apart (17)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from duly import default_zones
from duly_web.states import mark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly import Run

WEEKS = 18
CELL = 16
LEFT, TOP = 32, 16
"""Room for the names of days and months."""
RUNS_LOOKED_AT = 300
TONE_ORDER = ("bad", "doubt", "warn", "busy", "wait", "good", "quiet")
"""The first of these that a day has is what it looks like."""
BACKFILLS = frozenset({"backfill", "rerun", "repair"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """One day of the calendar."""

    day: date
    x: int
    y: int
    tone: str
    count: int
    backfills: int
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """Weeks as columns, Monday on top."""

    days: tuple[Day, ...]
    zone: str
    looked_at: int
    is_cut: bool
    """Whether there are older runs than those that were looked at."""
    months: tuple[tuple[int, str], ...]
    """Where each month begins, and its name."""
    width: int = LEFT + WEEKS * CELL
    height: int = TOP + 7 * CELL
    weekdays: tuple[tuple[int, str], ...] = tuple(
        (TOP + place * CELL + 12, name) for place, name in ((0, "Mon"), (2, "Wed"), (4, "Fri"))
    )
    listed: tuple[Day, ...] = field(default=())
    """The days with runs, newest first, for the table beside it."""


def run_calendar(runs: Sequence[Run], zone: str, now: datetime) -> Calendar:
    """Draw the days of the last few months, by each run's nominal day."""
    by_day: dict[date, list[Run]] = {}
    for run in runs:
        by_day.setdefault(_day(run.scheduled_for, zone), []).append(run)
    today = _day(now, zone)
    first = today - timedelta(days=today.weekday() + 7 * (WEEKS - 1))
    days = []
    for place in range((today - first).days + 1):
        day = first + timedelta(days=place)
        x, y = LEFT + place // 7 * CELL, TOP + place % 7 * CELL
        days.append(_shown(day, x, y, by_day.get(day, [])))
    return Calendar(
        days=tuple(days),
        months=tuple((one.x, f"{one.day:%b}") for one in days if one.day.day <= 7 and one.y == TOP),
        zone=zone,
        looked_at=len(runs),
        is_cut=len(runs) >= RUNS_LOOKED_AT,
        listed=tuple(one for one in reversed(days) if one.count),
    )


def _shown(day: date, x: int, y: int, runs: list[Run]) -> Day:
    tones = {mark(run.state).tone for run in runs}
    tone = next((one for one in TONE_ORDER if one in tones), "none")
    backfills = sum(run.lane == "backfill" or run.origin in BACKFILLS for run in runs)
    counted = Counter(mark(run.state).word for run in runs)
    words = ", ".join(f"{count} {word}" for word, count in counted.most_common())
    if backfills:
        words += f"; {backfills} by backfill or rerun"
    return Day(day=day, x=x, y=y, tone=tone, count=len(runs), backfills=backfills, words=words)


def _day(at: datetime, zone: str) -> date:
    segment = default_zones().zone(zone).segment(int(at.timestamp()))
    return (at.astimezone(UTC) + timedelta(seconds=segment.offset)).date()
