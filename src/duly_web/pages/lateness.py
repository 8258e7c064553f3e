"""How late runs begin and how late they are useful: three numbers each, and a drawing (UX 11)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from duly.api.views import LATE_BOUNDS_US, Lateness, units_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly import App, Schedule
    from duly.api.views import WindowVitals

SCHEDULES_MAX = 5
RUNS_MAX = 200
"""So many runs of the tenant are looked at, and of each of so many schedules."""
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Parts:
    """How late half of them were, and 95 and 99 of 100."""

    count: int
    p50: timedelta | None
    p95: timedelta | None
    p99: timedelta | None


@dataclass(frozen=True, slots=True)
class LateRow:
    """A schedule, or all of the tenant."""

    name: str | None
    """None for all."""
    started: Parts
    useful: Parts


@dataclass(frozen=True, slots=True)
class Bucket:
    """Runs that were late by about as much."""

    words: str
    started: int
    useful: int
    started_height: float
    useful_height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LatenessPart:
    """The drawing of one, and the numbers of several."""

    of: str | None
    rows: tuple[LateRow, ...]
    """All of the tenant, then its first schedules by name."""
    is_cut: bool
    """Whether there are others."""
    buckets: tuple[Bucket, ...]
    runs: int
    sentence: str


def look_at_lateness(app: App, schedules: Sequence[Schedule], of: str | None) -> LatenessPart:
    """Look at the newest runs of a tenant, and of its first schedules by name."""
    first = schedules[:SCHEDULES_MAX]
    found = app.vitals.windows([one.id for one in first], runs=RUNS_MAX)
    drawn = found.tenant if of is None else app.vitals.of_schedule(of).window
    window = drawn.window
    own = ((one.name, found.schedules[one.id]) for one in first if one.id in found.schedules)
    return LatenessPart(
        of=of,
        rows=(_row(None, found.tenant), *(_row(name, looked) for name, looked in own)),
        is_cut=len(schedules) > len(first),
        buckets=_buckets(window.started_counts, window.useful_counts),
        runs=window.runs,
        sentence=lateness_sentence(window.started),
    )


def _row(name: str | None, looked: WindowVitals) -> LateRow:
    window = looked.window
    return LateRow(name, _parts(window.started), _parts(window.useful_after))


def _parts(late: Lateness) -> Parts:
    found = [None if one is None else one * MICROSECOND for one in (late.p50, late.p95, late.p99)]
    return Parts(late.runs, *found)


def _buckets(started: Sequence[int], useful: Sequence[int]) -> tuple[Bucket, ...]:
    most = max(*started, *useful)
    if not most:
        return ()
    words = [f"≤ {units_text(bound)}" for bound in LATE_BOUNDS_US]
    words.append(f"> {units_text(LATE_BOUNDS_US[-1])}")
    return tuple(
        Bucket(word, a, b, round(a / most * 100, 1), round(b / most * 100, 1))
        for word, a, b in zip(words, started, useful, strict=True)
    )


def lateness_sentence(started: Lateness) -> str:
    """Say how late runs begin, of as many as there are."""
    if started.p50 is None or started.p99 is None:
        return "No run has begun yet."
    half = units_text(started.p50) or "less than 1 s"
    nearly = units_text(started.p99) or "less than 1 s"
    if started.runs == 1:
        return f"The one run that has begun did so within {half} of its due."
    begun = f"Half of {started.runs:,} runs began within {half} of their due"
    return f"{begun}, 99 of 100 within {nearly}."
