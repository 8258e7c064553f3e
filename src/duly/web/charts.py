"""Calendar heatmap, duration bars, lateness histogram, chain of times.

A drawing uses few SVG paths, one for each kind of end, so that a page of schedules stays small.
Each kind has its own shape as well as its colour, and a sentence says the same to a reader who
can't see the drawing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from duly import default_zones
from duly.api.views import LATE_BOUNDS_US, Lateness, units_text
from duly.web.formatting import mark, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly import App, Run, Schedule
    from duly.api.views import Attempt, Check, WindowVitals


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


SCHEDULES_MAX = 5
RUNS_MAX = 200
"""So many runs of the tenant are looked at, and of each of so many schedules."""
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class LatenessQuantiles:
    """The count of runs, and the 50th, 95th and 99th percentile of their lateness."""

    count: int
    p50: timedelta | None
    p95: timedelta | None
    p99: timedelta | None


@dataclass(frozen=True, slots=True)
class LateRow:
    """A schedule, or all of the tenant."""

    name: str | None
    """None for all."""
    started: LatenessQuantiles
    useful: LatenessQuantiles


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


def _parts(late: Lateness) -> LatenessQuantiles:
    found = [None if one is None else one * MICROSECOND for one in (late.p50, late.p95, late.p99)]
    return LatenessQuantiles(late.runs, *found)


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


NARROWEST = 1.5
"""Of the bar, in percent: what took no time is still seen."""
_NOTHING = timedelta()


@dataclass(frozen=True, slots=True)
class Link:
    """One fact of the chain, with its time; None for what has not happened."""

    name: str
    at: datetime | None
    since: timedelta | None
    """How long after the one before that has happened."""
    is_longest: bool = False


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A part of the bar, between two facts."""

    words: str
    length: timedelta
    x: float
    width: float
    is_waiting: bool
    """Whether nobody worked on it."""
    is_longest: bool


@dataclass(frozen=True, slots=True)
class RunChain:
    """All of it."""

    links: tuple[Link, ...]
    stretches: tuple[TimeRange, ...]
    sentence: str


def make_chain(
    run: Run, attempts: Sequence[Attempt], checks: Sequence[Check], now: datetime
) -> RunChain:
    """Return the facts in their order; none stands in for another."""
    last = attempts[-1] if attempts else None
    is_parted = last is not None and last.is_apart_from(run)
    verified = next((one.at for one in reversed(checks) if one.finding == "present"), None)
    facts: list[tuple[str, datetime | None]] = [
        ("due", run.due_at),
        ("created", run.created_at),
        ("dispatched", run.fired_at),
        ("claimed", run.claimed_at or (last.claimed_at if last else None)),
        ("started", run.started_at or (last.started_at if last else None)),
        ("heartbeat", last.heartbeat_at if last else None),
        ("progress", last.progress_at if last else None),
        ("effects begun", last.effects_at if last else None),
        ("settled" if last and last.is_settled_by_order(run) else "completed", run.finished_at),
        ("verified", verified),
    ]
    if is_parted and last is not None:
        facts.insert(-2, ("attempt ended", last.ended_at))
    if len(attempts) > 1:
        facts.insert(3, ("first claimed", attempts[0].claimed_at))
    stretches = _stretches(dict(facts), run, last if is_parted else None, now)
    longest = next((one for one in stretches if one.is_longest), None)
    sentence = "" if longest is None else f"The longest part is {longest.words}."
    return RunChain(_links(facts), stretches, sentence)


_REPEATED = frozenset({"heartbeat", "progress"})
"""Of these the newest is told: what lies before it is no gap, and none begins with it."""


def _links(facts: Sequence[tuple[str, datetime | None]]) -> tuple[Link, ...]:
    before: datetime | None = None
    found: list[tuple[str, datetime | None, timedelta | None]] = []
    for name, at in facts:
        since = at - before if at is not None and before is not None else None
        found.append((name, at, None if since is None or since < _NOTHING else since))
        if at is not None and name not in _REPEATED and (before is None or at > before):
            before = at
    gaps = [one for name, _, one in found if one is not None and name not in _REPEATED]
    most = max(gaps, default=_NOTHING)
    return tuple(
        Link(name, at, since, is_longest=since == most > _NOTHING and name not in _REPEATED)
        for name, at, since in found
    )


_PARTS = {
    "dispatched": ("until it was dispatched", True),
    "first claimed": ("until a worker first took it", True),
    "claimed": ("until a worker took it", True),
    "started": ("until it was started", True),
    "worked": ("its work", False),
    "completed": ("its work", False),
    "settled": ("until it was settled", True),
    "verified": ("until its result was verified", True),
}
"""By the fact that ends a part: what it is called, and whether it is a wait."""


_DOUBT = "in doubt for"


def _still(run: Run, last: Attempt | None) -> str:
    """Say what an open run does that nobody runs."""
    if run.state != "ambiguous" or last is None:
        return "and nothing happens since"
    return "nothing has been heard for" if last.state == "lost" else _DOUBT


def _stretches(
    facts: dict[str, datetime | None], run: Run, last: Attempt | None, now: datetime
) -> tuple[TimeRange, ...]:
    """Return the parts; `last` is an attempt that ended, and its run not with it."""
    # What a claim that was never started did was no work.
    facts["worked"] = None if last is None or last.started_at is None else last.worked_until
    known = [(name, at) for name in ("due", *_PARTS) if (at := facts.get(name)) is not None]
    if run.finished_at is None:
        name = "completed" if run.state == "running" else "open"
        known.append((name, now))
    names = {**_PARTS, "open": (_still(run, last), True)}
    if facts["worked"] is not None:
        names["completed"] = ("until it was ended", True)
    if run.reason in {"reconciled", "reconciled-incomplete"}:
        names["settled"] = (_DOUBT, True)
    parts = [
        (*names[name], max(at - before, _NOTHING)) for (_, before), (name, at) in pairwise(known)
    ]
    total = sum((length for *_, length in parts), _NOTHING)
    if not total:
        return ()
    most = max(length for *_, length in parts)
    shares = [max(length / total * 100, NARROWEST) for *_, length in parts]
    scale = 100 / sum(shares)
    drawn, x = [], 0.0
    for (words, is_waiting, length), share in zip(parts, shares, strict=True):
        width = share * scale
        drawn.append(
            TimeRange(words, length, round(x, 2), round(width, 2), is_waiting, length == most)
        )
        x += width
    return tuple(drawn)


RUNS = 20
BAR, GAP, HEIGHT = 5, 1, 22
STEP = BAR + GAP
TALLEST = 15
"""Below the bars stand the marks that tell ends apart without colours."""
BASE = 16
DRAWN_FROM = 0.001
"""Seconds: below, a line of lateness would draw the noise of a clock."""


@dataclass(frozen=True, slots=True)
class DurationBars:
    """Bars, by tone, and their words."""

    paths: tuple[tuple[str, str], ...]
    """Tone, and what is drawn."""
    words: str
    width: int = RUNS * STEP
    height: int = HEIGHT


@dataclass(frozen=True, slots=True)
class LatenessLine:
    """A line of lateness, and its words."""

    points: str
    words: str
    worst: str
    width: int = RUNS * STEP
    height: int = HEIGHT


def run_strip(runs: Sequence[Run], now: datetime) -> DurationBars | None:
    """Draw the last runs, oldest first; as high as they took."""
    shown = list(runs[:RUNS])[::-1]
    if not shown:
        return None
    lengths = [_length(one, now) for one in shown]
    longest = max(lengths) or 1.0
    drawn: dict[str, list[str]] = {}
    for place, (run, length) in enumerate(zip(shown, lengths, strict=True)):
        tone = mark(run.state).tone
        tall = max(2, round(length / longest * TALLEST))
        drawn.setdefault(tone, []).append(_bar(tone, place * STEP, tall))
    counted = Counter(mark(one.state).word for one in shown)
    ends = ", ".join(f"{number} {word}" for word, number in counted.most_common())
    took = [_took(one) for one in shown]
    known = [one for one in took if one is not None]
    usual = f"; usually {span(_middle(known))}, at most {span(max(known))}" if known else ""
    return DurationBars(
        paths=tuple((tone, "".join(parts)) for tone, parts in drawn.items()),
        words=f"Last {len(shown)} runs: {ends}{usual}",
    )


def lateness_spark(runs: Sequence[Run]) -> LatenessLine | None:
    """Draw how late the last runs were, oldest first."""
    late = [one.lateness for one in runs[:RUNS] if one.lateness is not None][::-1]
    if len(late) < 2:
        return None
    seconds = [max(0.0, one.total_seconds()) for one in late]
    highest = max(seconds)
    points = " ".join(
        f"{place * STEP + BAR // 2},{HEIGHT - 2 - round(value / highest * (HEIGHT - 4))}"
        for place, value in enumerate(seconds)
        if highest >= DRAWN_FROM
    )
    worst = span(max(late))
    words = (
        f"Lateness of the last {len(late)} runs: usually {span(_middle(late))}, at worst {worst}"
    )
    return LatenessLine(points, words, worst)


def _bar(tone: str, x: int, tall: int) -> str:
    bar = f"M{x} {BASE}v{-tall}h{BAR}v{tall}z"
    middle = x + BAR / 2
    match tone:
        case "bad":  # a cross below
            return f"{bar}M{x} {BASE + 1}l5 5l-.8.8l-5-5zM{x + 5} {BASE + 1}l-5 5l.8.8l5-5z"
        case "doubt":  # a diamond below
            return f"{bar}M{middle} {BASE + 1}l2.5 2.500l-2.500 2.500l-2.500-2.500z"
        case "good" | "busy" | "wait" | "warn":  # what is not over yet is drawn hollow
            return bar
        case _:  # a flat line: nothing was run
            return f"M{x} {BASE}v-2h{BAR}v2z"


def _middle(values: Sequence[timedelta]) -> timedelta:
    return sorted(values)[len(values) // 2]


def _took(run: Run) -> timedelta | None:
    if run.started_at is None or run.finished_at is None:
        return None
    return run.finished_at - run.started_at


def _length(run: Run, now: datetime) -> float:
    if run.started_at is None:
        return 0.0
    return max(0.0, ((run.finished_at or now) - run.started_at).total_seconds())
