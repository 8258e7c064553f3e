"""The timeline of runs, and the planned load of a week.

`plan_load` finds the instants at which many schedules fall due together, before they come. A
schedule that fires all the time belongs to no such peak and would hide one: it is named and not
drawn.

`plan_load` bounds what it counts, for one schedule in an hour and for all schedules together. It
states what it did not count.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Literal

from duly.api.views import LATE, zone_of
from duly.web.formatting import mark

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duly import App, Run, Schedule
    from duly.api.views import Occurrence
    from duly.web.formatting import TimeFormatter
    from duly.web.pages.overview import Attention


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
class LoadPeak:
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
    herd: LoadPeak | None
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
    schedules: Iterable[Schedule], now: datetime, clocks: TimeFormatter, *, is_cut: bool
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


def _midnight(now: datetime, clocks: TimeFormatter) -> datetime:
    """Return when the visitor's day began, also where clocks have changed since."""
    clock = clocks.mine_at(now)
    wall = clock.replace(hour=0, minute=0, second=0, microsecond=0)
    begin = now - (clock - wall)
    return begin - (clocks.mine_at(begin) - wall)


def _places(count: _Count, clocks: TimeFormatter) -> dict[tuple[int, int], list[int]]:
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


def _herd(count: _Count, now: datetime, clocks: TimeFormatter) -> LoadPeak | None:
    coming = [(at, names) for at, names in count.instants.items() if at >= now]
    at, names = max(coming, key=lambda one: (len(one[1]), -one[0].timestamp()), default=(now, []))
    if len(names) < HERD_FROM:
        return None
    # The minutes of the visitor's clock: not every zone is whole hours off UTC.
    begin = at - timedelta(minutes=clocks.mine_at(at).minute, seconds=at.second)
    taken = {clocks.mine_at(one).minute for one in count.instants if begin <= one < begin + HOUR}
    quiet = [minute for minute in (7, 23, 37, 52, 13, 41) if minute not in taken]
    shown = sorted(names)[:NAMES_SHOWN_MAX]
    return LoadPeak(
        at=at,
        count=len(names),
        names=tuple(shown),
        more=len(names) - len(shown),
        quiet_minutes=tuple(quiet[:3]),
    )


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
class TimelineLane:
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
    lanes: tuple[TimelineLane, ...]
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


def draw_timeline(app: App, found: Attention, axis: Axis, clocks: TimeFormatter) -> Timeline:
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
) -> TimelineLane:
    runs = [
        run
        for run in newest
        if run.origin != "verify" and axis.start <= run.scheduled_for < axis.end
    ]
    signs = tuple(_signs(expected, axis))
    coming = _coming(schedule, axis)
    counts = Counter(run.state for run in runs) + Counter(one.kind for one in signs)
    return TimelineLane(
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


def _ticks(axis: Axis, clocks: TimeFormatter) -> Iterable[Tick]:
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
