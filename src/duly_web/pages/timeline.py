"""The timeline: a lane for each schedule, what became of the past, and what is to come (UX 10)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from duly.api.views import LATE, zone_of
from duly_web.states import mark

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duly import App, Run, Schedule
    from duly.api.views import Occurrence
    from duly_web.moments import Clocks
    from duly_web.pages.attention import Attention

SpanName = Literal["3h", "12h", "2d"]
SPANS: dict[SpanName, timedelta] = {
    "3h": timedelta(hours=3),
    "12h": timedelta(hours=12),
    "2d": timedelta(days=2),
}
PAST_SHARE = 0.7
LANES_MAX = 10
RUNS_MAX = 60
"""Of a lane, the newest so many."""
SIGNS_MAX = 300
"""Of a lane, so many occurrences are asked for what became of them."""
EACH_MAX = 40
"""Up to so many runs of a lane are drawn each; more are drawn as columns."""
COLUMNS = 80
COMING_MAX = 40
NARROWEST = 0.35
"""Of the width, in percent."""
_TONES = ("bad", "doubt", "warn", "busy", "wait", "quiet", "good")
"""The first of these that a column holds is what it shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A run, or several that stand too close."""

    x: float
    width: float
    tone: str
    run: str | None
    words: str
    is_late: bool


@dataclass(frozen=True, slots=True)
class Sign:
    """An occurrence without a run of its own: skipped, owed or missing."""

    x: float
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One schedule."""

    name: str
    status: str
    zone: str | None
    bars: tuple[Bar, ...]
    signs: tuple[Sign, ...]
    coming: tuple[float, ...]
    is_dense: bool
    """Whether what is to come stands too close to be told apart."""
    counts: tuple[tuple[str, int], ...]
    """By state: how many runs the lane shows, and how many signs."""
    late: int
    next_due: datetime | None
    is_cut: bool
    attention: str | None = None
    """Why it is shown among the first, by the word of a state; None if it needs nobody."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A line of the axis."""

    x: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """All lanes, on one axis."""

    span: SpanName
    lanes: tuple[Lane, ...]
    more: int
    """How many others there are,"""
    is_cut: bool
    """and whether there are still more that were not looked at."""
    now_x: float
    ticks: tuple[Tick, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """From when until when, and where an instant stands between."""

    start: datetime
    now: datetime
    end: datetime
    span: SpanName

    @classmethod
    def around(cls, now: datetime, span: SpanName) -> Axis:
        """Return the axis of a span, most of it past."""
        length = SPANS[span]
        return cls(now - length * PAST_SHARE, now, now + length * (1 - PAST_SHARE), span)

    def x(self, at: datetime) -> float:
        """Return where an instant stands, in percent."""
        part = (at - self.start) / (self.end - self.start)
        return round(min(max(part, 0.0), 1.0) * 100, 2)


def draw_timeline(app: App, found: Attention, axis: Axis, clocks: Clocks) -> Timeline:
    """Draw the lanes of those that need somebody, and of the busiest."""
    drawn = found.schedules[:LANES_MAX]
    runs = app.runs.newest([one.id for one in drawn], limit=RUNS_MAX)
    past = {one.id: (axis.start, axis.now) for one in drawn}
    expected = app.schedules.many_occurrences(past, most=SIGNS_MAX)
    lanes = tuple(
        replace(
            _lane(one, axis, runs.get(one.id, []), expected.get(one.id, [])),
            attention=found.why.get(one.id),
        )
        for one in drawn
    )
    return Timeline(
        span=axis.span,
        lanes=lanes,
        more=max(0, len(found.schedules) - LANES_MAX),
        is_cut=found.is_cut,
        now_x=axis.x(axis.now),
        ticks=tuple(_ticks(axis, clocks)),
    )


def _lane(
    schedule: Schedule, axis: Axis, newest: Sequence[Run], expected: Iterable[Occurrence]
) -> Lane:
    runs = [
        run
        for run in newest
        if run.origin != "verify" and axis.start <= run.scheduled_for < axis.end
    ]
    signs = tuple(_signs(expected, axis))
    coming = _coming(schedule, axis)
    counts = Counter(run.state for run in runs) + Counter(one.kind for one in signs)
    return Lane(
        name=schedule.name,
        status=schedule.status,
        zone=zone_of(schedule.timetable),
        bars=tuple(_each(runs, axis) if len(runs) <= EACH_MAX else _columns(runs, axis)),
        signs=signs,
        coming=tuple(axis.x(at) for at in coming),
        is_dense=len(coming) >= COMING_MAX,
        counts=tuple(counts.most_common()),
        late=sum(_is_late(run) for run in runs),
        next_due=schedule.next_due,
        is_cut=len(newest) >= RUNS_MAX and newest[-1].scheduled_for >= axis.start,
    )


def _coming(schedule: Schedule, axis: Axis) -> list[datetime]:
    if schedule.status != "active":
        return []
    found = schedule.timetable.upcoming(axis.now, COMING_MAX)
    return [at for at in found if at < axis.end]


def _signs(expected: Iterable[Occurrence], axis: Axis) -> Iterable[Sign]:
    """Return what was expected and has no run."""
    for one in expected:
        if one.verdict in {"skipped", "owed", "missing"} and one.run is None:
            yield Sign(axis.x(one.scheduled_for), one.verdict)


def _each(runs: Iterable[Run], axis: Axis) -> Iterable[Bar]:
    for run in runs:
        begin, end = _reach(run, axis)
        yield Bar(
            x=axis.x(begin),
            width=max(round(axis.x(end) - axis.x(begin), 2), NARROWEST),
            tone=mark(run.state).tone,
            run=str(run.id),
            words=f"{run.label}: {mark(run.state).word}{', late' if _is_late(run) else ''}",
            is_late=_is_late(run),
        )


def _columns(runs: Iterable[Run], axis: Axis) -> Iterable[Bar]:
    """Put runs that stand close into columns; neighbours that look alike are one."""
    columns: dict[int, list[Run]] = {}
    for run in runs:
        place = int(axis.x(_reach(run, axis)[0]) * COLUMNS / 100)
        columns.setdefault(min(place, COLUMNS - 1), []).append(run)
    drawn: list[tuple[int, int, str, int]] = []
    for place, held in sorted(columns.items()):
        tone: str = min((mark(run.state).tone for run in held), key=_TONES.index)
        if drawn and drawn[-1][1] == place and drawn[-1][2] == tone:
            begin, _, _, count = drawn.pop()
            drawn.append((begin, place + 1, tone, count + len(held)))
        else:
            drawn.append((place, place + 1, tone, len(held)))
    wide = 100 / COLUMNS
    for begin, end, tone, count in drawn:
        yield Bar(
            x=round(begin * wide, 2),
            width=round((end - begin) * wide - 0.1, 2),
            tone=tone,
            run=None,
            words=f"{count} runs",
            is_late=False,
        )


def _reach(run: Run, axis: Axis) -> tuple[datetime, datetime]:
    begin = run.started_at or run.scheduled_for
    if run.finished_at is not None:
        return begin, max(begin, run.finished_at)
    return begin, axis.now if run.state == "running" else begin


def _is_late(run: Run) -> bool:
    begun = run.claimed_at if run.started_at is None else run.started_at
    return run.attempt == 1 and begun is not None and begun - run.due_at > LATE


def _ticks(axis: Axis, clocks: Clocks) -> Iterable[Tick]:
    """Return whole hours of the visitor's clock, some eight of them."""
    length = axis.end - axis.start
    steps = (timedelta(minutes=30), timedelta(hours=2), timedelta(hours=6))
    step = next((one for one in steps if length / one <= 9), steps[-1])
    clock = clocks.mine_at(axis.start)
    passed = timedelta(hours=clock.hour, minutes=clock.minute, seconds=clock.second)
    at = axis.start - passed % step + step
    while at < axis.end:
        yield Tick(axis.x(at), f"{clocks.mine_at(at):%H:%M}")
        at += step
