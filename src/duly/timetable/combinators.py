"""Timetables made of others: union, exclusion, days, validity, first n; search budget.

`Leap` skips a stretch of excluded occurrences at once. Testing every minute of an excluded weekend
would take thousands of questions. Where a rule and its exclusions are days and times of one zone,
wall times give the answer. A leap never goes beyond the wall times that no gap or fold policy
affects, so that it only passes over occurrences that are certainly excluded.

`SearchBudget` bounds the questions for one answer. An exclusion asks again until an occurrence is
left, and nested exclusions would multiply; so all parts of a timetable share one budget. The answer
of a part holds until that part's next occurrence, so it is not computed again before.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Self

from duly.errors import UsageError
from duly.timetable.cron import Cron
from duly.timetable.day_sets import DaysAndTimes
from duly.timetable.description import describe_crons
from duly.timetable.instants import (
    DAY,
    EPOCH_ORDINAL,
    SECOND_US,
    as_day,
    from_microseconds,
    to_microseconds,
    year_of,
)
from duly.timetable.interval import FIRST_INSTANT
from duly.timetable.once import OnceLocal
from duly.timetable.phrases import join, plural, spoken
from duly.timetable.timetable import Timetable, Zoned
from duly.timetable.zones import ZoneDatabase, default_zones

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly.timetable.business_calendar import BusinessCalendar


DAY_COST = 10
"""A day of seconds is compared as a whole, which takes as long as some ten questions."""


class Leap:
    """Leads from an occurrence that is left out to where the next that is not may be."""

    def __init__(self, rule: Zoned, walls: DaysAndTimes, left_out: list[DaysAndTimes]) -> None:
        """Take a rule, its days and times, and those that are left out, all of one zone."""
        self._zone, self._walls = rule.local.zone, walls
        self._times = walls.times.bitmap
        self._left_out = [(other.dates, other.times.bitmap) for other in left_out]

    def after(self, second: int, patience: SearchBudget) -> int:
        """Return a later second, before which everything is left out."""
        segment = self._zone.segment(second)
        wall, limit = second + segment.offset, segment.plain_until
        if not segment.plain_from <= wall < limit:
            return second + 1
        day, time = divmod(wall + 1, DAY)
        while True:
            patience.spend(DAY_COST)
            found = self._walls.dates.at_or_after(day)
            if found is None or found * DAY >= limit:
                return limit - segment.offset
            day, time = (day, time) if found == day else (found, 0)
            kept = self._kept(day) >> time
            if kept:
                time += (kept & -kept).bit_length() - 1
                return min(day * DAY + time, limit) - segment.offset
            day, time = day + 1, 0

    def before(self, second: int, patience: SearchBudget) -> int:
        """Return an earlier second, after which everything is left out."""
        segment = self._zone.segment(second)
        wall, limit = second + segment.offset, segment.plain_from
        if not limit <= wall < segment.plain_until:
            return second - 1
        day, time = divmod(wall - 1, DAY)
        while True:
            patience.spend(DAY_COST)
            found = self._walls.dates.at_or_before(day)
            if found is None or (found + 1) * DAY <= limit:
                return limit - segment.offset - 1
            day, time = (day, time) if found == day else (found, DAY - 1)
            kept = self._kept(day) & (2 << time) - 1
            if kept:
                return max(day * DAY + kept.bit_length() - 1, limit - 1) - segment.offset
            day, time = day - 1, DAY - 1

    def _kept(self, day: int) -> int:
        kept = self._times
        for dates, times in self._left_out:
            if dates.at_or_after(day) == day:
                kept &= ~times
        return kept


def skip_excluded_stretch(timetable: Timetable, left_out: Iterable[Timetable]) -> Leap | None:
    """Return what leads past occurrences that are left out; None where wall times can't tell."""
    if not isinstance(timetable, Zoned) or not isinstance(timetable.local.walls, DaysAndTimes):
        return None
    walls = [
        other.local.walls
        for other in left_out
        if isinstance(other, Zoned) and other.local.zone is timetable.local.zone
    ]
    known = [one for one in walls if isinstance(one, DaysAndTimes)]
    return Leap(timetable, timetable.local.walls, known) if known else None


SIZE_MAX = 150
DEPTH_MAX = 20
QUESTIONS_MAX = 5000


class SearchBudget:
    """How many more questions may be asked for one answer."""

    def __init__(self, asked: Timetable, questions: int = QUESTIONS_MAX) -> None:
        """Allow a number of questions for an answer of the timetable that was asked."""
        self._asked, self._left = asked, questions
        self._ahead: dict[int, tuple[int, int | None]] = {}
        self._behind: dict[int, tuple[int, int | None]] = {}

    def first_from(self, part: Timetable, instant: int) -> int | None:
        """Ask a part for its first occurrence not before an instant, and count the question."""
        self.spend()
        if isinstance(part, Combined):
            return part.first_within(instant, self)
        asked, found = self._ahead.get(id(part), (instant + 1, None))
        if instant < asked or (found is not None and found < instant):
            found = part.first_from(instant)
            self._ahead[id(part)] = instant, found
        return found

    def last_until(self, part: Timetable, instant: int) -> int | None:
        """Ask a part for its last occurrence not after an instant, and count the question."""
        self.spend()
        if isinstance(part, Combined):
            return part.last_within(instant, self)
        asked, found = self._behind.get(id(part), (instant - 1, None))
        if instant > asked or (found is not None and found > instant):
            found = part.last_until(instant)
            self._behind[id(part)] = instant, found
        return found

    def spend(self, questions: int = 1) -> None:
        """Take questions off, and give up when none are left."""
        self._left -= questions
        if self._left < 0:
            raise UsageError(
                "timetable",
                self._asked.describe(),
                "leaves out too many occurrences in a row",
                "exclude less, or use .between() for a long pause",
            )


@dataclass(frozen=True, slots=True)
class Combined(Timetable):
    """A timetable that is made of others; it is as large as all of them, and one more."""

    size: int = field(init=False, compare=False, repr=False)
    depth: int = field(init=False, compare=False, repr=False)

    def _measure(self, *parts: Timetable) -> None:
        """Add up the parts, and refuse what would cost too much to ask, to describe or to store."""
        for part in parts:
            if not isinstance(part, Timetable):
                raise UsageError(self.kind, part, "is not a timetable", "combine cron(…), every(…)")
        within = [part for part in parts if isinstance(part, Combined)]
        size = 1 + len(parts) - len(within) + sum(part.size for part in within)
        depth = 2 + max((part.depth - 1 for part in within), default=0)
        if size > SIZE_MAX:
            remedy = f"combine at most {SIZE_MAX} timetables"
            raise UsageError(self.kind, size, "is too large a number of timetables", remedy)
        if depth > DEPTH_MAX:
            remedy = f"nest at most {DEPTH_MAX}, for example by excluding several at once"
            raise UsageError(self.kind, depth, "is too deep a nesting of timetables", remedy)
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "depth", depth)

    def first_from(self, instant: int) -> int | None:
        """Return the first occurrence not before an instant, in microseconds since 1970."""
        return self.first_within(instant, SearchBudget(self))

    def last_until(self, instant: int) -> int | None:
        """Return the last occurrence not after an instant, in microseconds since 1970."""
        return self.last_within(instant, SearchBudget(self))

    @abstractmethod
    def first_within(self, instant: int, patience: SearchBudget) -> int | None:
        """Return the first occurrence not before an instant, if patience lasts."""

    @abstractmethod
    def last_within(self, instant: int, patience: SearchBudget) -> int | None:
        """Return the last occurrence not after an instant, if patience lasts."""


DATES_MAX = 5000
DATES_NAMED_MAX = 5
YEARS_MAX = 12
"""How far to look for a day that is not left out: a year of holidays costs a millisecond or two."""


@dataclass(frozen=True, slots=True)
class ByDay(Combined):
    """A timetable without the occurrences on days, of a zone's calendar, that are left out."""

    timetable: Timetable
    tz: str
    zones: ZoneDatabase = field(
        default_factory=default_zones, compare=False, repr=False, kw_only=True
    )

    @abstractmethod
    def leaves_out(self, day: date) -> bool:
        """Say whether a day of the zone's calendar is left out."""

    def first_within(self, instant: int, patience: SearchBudget) -> int | None:
        """Step over days that are left out, each as a whole."""
        years: set[int] = set()
        while True:
            found = patience.first_from(self.timetable, instant)
            day = None if found is None else self._day_left_out(found)
            if found is None or day is None:
                return found
            instant = self._day_edge(found, day + 1)
            self._check(years, day)

    def last_within(self, instant: int, patience: SearchBudget) -> int | None:
        """Step back over days that are left out, each as a whole."""
        years: set[int] = set()
        while True:
            found = patience.last_until(self.timetable, instant)
            day = None if found is None else self._day_left_out(found)
            if found is None or day is None:
                return found
            instant = self._day_edge(found, day) - 1
            self._check(years, day)

    def _check(self, years: set[int], day: int) -> None:
        """Give up after so many years in which occurrences were left out, wherever they are."""
        years.add(year_of(day))
        if len(years) > YEARS_MAX:
            problem = f"has no occurrence in {YEARS_MAX} years that is not left out"
            raise UsageError("days", self.describe(), problem, "leave out fewer days")

    def _day_left_out(self, instant: int) -> int | None:
        segment = self.zones.zone(self.tz).segment(instant // SECOND_US)
        day = (instant // SECOND_US + segment.offset) // DAY
        return day if self.leaves_out(date.fromordinal(day + EPOCH_ORDINAL)) else None

    def _day_edge(self, instant: int, day: int) -> int:
        """Return midnight, or a change of offset before it, where the day may be another."""
        segment = self.zones.zone(self.tz).segment(instant // SECOND_US)
        midnight = day * DAY - segment.offset
        return min(max(midnight, segment.start), segment.end) * SECOND_US


@dataclass(frozen=True, slots=True)
class ExcludingDates(ByDay):
    """A timetable without certain dates."""

    kind: ClassVar[str] = "excluding-dates"
    dates: frozenset[date]

    def __post_init__(self) -> None:
        """Check the dates and the zone."""
        self._measure(self.timetable)
        if not 1 <= len(self.dates) <= DATES_MAX:
            remedy = f"exclude 1 to {DATES_MAX:,} dates"
            raise UsageError("excluding", len(self.dates), "is not a number of dates", remedy)
        self.zones.zone(self.tz)

    def leaves_out(self, day: date) -> bool:
        """Say whether it is one of the dates."""
        return day in self.dates

    def describe(self) -> str:
        """Name the days, if they are few."""
        names = [day.isoformat() for day in sorted(self.dates)]
        named = join(names) if len(names) <= DATES_NAMED_MAX else plural(len(names), "day")
        return f"{self.timetable.describe()}, except on {named}"

    def to_json(self) -> dict[str, Any]:
        """Return the timetable, the dates and their zone."""
        dates = [day.isoformat() for day in sorted(self.dates)]
        stored = self.timetable.to_json()
        return {"kind": self.kind, "timetable": stored, "dates": dates, "tz": self.tz}

    def under(self, zones: ZoneDatabase) -> Self:
        """Read it under another release."""
        return replace(self, timetable=self.timetable.under(zones), zones=zones)


@dataclass(frozen=True, slots=True)
class OnBusinessDays(ByDay):
    """A timetable that is only valid on the business days of a calendar."""

    kind: ClassVar[str] = "on-business-days"
    calendar: BusinessCalendar

    def __post_init__(self) -> None:
        """Check the zone."""
        self._measure(self.timetable)
        self.zones.zone(self.tz)

    def leaves_out(self, day: date) -> bool:
        """Say whether it is a holiday or part of a weekend."""
        return not self.calendar.is_business_day(day)

    def describe(self) -> str:
        """Name the calendar."""
        return f"{self.timetable.describe()}, only on business days ({self.calendar.label})"

    def to_json(self) -> dict[str, Any]:
        """Return the timetable, the calendar and its zone."""
        stored, calendar = self.timetable.to_json(), self.calendar.to_json()
        return {"kind": self.kind, "timetable": stored, "calendar": calendar, "tz": self.tz}

    def under(self, zones: ZoneDatabase) -> Self:
        """Read it under another release."""
        return replace(self, timetable=self.timetable.under(zones), zones=zones)


LIMIT_MAX = 1000
COUNT_QUESTIONS_MAX = 20_000
"""A limit is counted out once, when it is set; that may take longer than one answer."""


@dataclass(frozen=True, slots=True)
class Union(Combined):
    """Whatever any of its parts says; an instant that several name counts once."""

    kind: ClassVar[str] = "union"
    parts: tuple[Timetable, ...]

    def __post_init__(self) -> None:
        """Bound the size."""
        if not self.parts:
            raise UsageError("union", self.parts, "is empty", "give at least one timetable")
        self._measure(*self.parts)

    def first_within(self, instant: int, patience: SearchBudget) -> int | None:
        """Return the earliest of the parts'."""
        found = (patience.first_from(part, instant) for part in self.parts)
        return min((one for one in found if one is not None), default=None)

    def last_within(self, instant: int, patience: SearchBudget) -> int | None:
        """Return the latest of the parts'."""
        found = (patience.last_until(part, instant) for part in self.parts)
        return max((one for one in found if one is not None), default=None)

    def describe(self) -> str:
        """Describe the parts; cron expressions that differ in their times only are said as one."""
        crons = [part for part in self.parts if isinstance(part, Cron)]
        others = [part.describe() for part in self.parts if not isinstance(part, Cron)]
        return "; and ".join([*describe_crons(crons), *others])

    def to_json(self) -> dict[str, Any]:
        """Return the parts."""
        return {"kind": self.kind, "parts": [part.to_json() for part in self.parts]}

    def under(self, zones: ZoneDatabase) -> Self:
        """Read each part under another release."""
        return type(self)(tuple(part.under(zones) for part in self.parts))


@dataclass(frozen=True, slots=True)
class Excluding(Combined):
    """A timetable without the occurrences of another."""

    kind: ClassVar[str] = "excluding"
    timetable: Timetable
    excluded: Timetable
    leap: Leap | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Bound the size, and see whether whole stretches can be passed over."""
        self._measure(self.timetable, self.excluded)
        parts = self.excluded.parts if isinstance(self.excluded, Union) else (self.excluded,)
        object.__setattr__(self, "leap", skip_excluded_stretch(self.timetable, parts))

    def first_within(self, instant: int, patience: SearchBudget) -> int | None:
        """Step over excluded occurrences, while patience lasts."""
        while True:
            found = patience.first_from(self.timetable, instant)
            if found is None or patience.first_from(self.excluded, found) != found:
                return found
            instant = found + 1
            if self.leap:
                instant = self.leap.after(found // SECOND_US, patience) * SECOND_US

    def last_within(self, instant: int, patience: SearchBudget) -> int | None:
        """Step back over excluded occurrences, while patience lasts."""
        while True:
            found = patience.last_until(self.timetable, instant)
            if found is None or patience.last_until(self.excluded, found) != found:
                return found
            instant = found - 1
            if self.leap:
                instant = self.leap.before(found // SECOND_US, patience) * SECOND_US

    def describe(self) -> str:
        """Say what, and what not."""
        return f"{self.timetable.describe()}, except {self.excluded.describe()}"

    def to_json(self) -> dict[str, Any]:
        """Return both timetables."""
        return {
            "kind": self.kind,
            "timetable": self.timetable.to_json(),
            "excluded": self.excluded.to_json(),
        }

    def under(self, zones: ZoneDatabase) -> Self:
        """Read both under another release."""
        return type(self)(self.timetable.under(zones), self.excluded.under(zones))


@dataclass(frozen=True, slots=True)
class Limited(Combined):
    """The first `n` occurrences from a start on."""

    kind: ClassVar[str] = "limited"
    timetable: Timetable
    n: int
    start: datetime
    start_us: int = field(init=False, compare=False, repr=False)
    last_us: int | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Find the last occurrence once; counting again at every question would cost too much."""
        self._measure(self.timetable)
        if not isinstance(self.n, int) or isinstance(self.n, bool) or not 1 <= self.n <= LIMIT_MAX:
            remedy = f"give 1 to {LIMIT_MAX:,}, or an end by .between()"
            raise UsageError("limited", self.n, "is out of range", remedy)
        start = to_microseconds(self.start, "start")
        object.__setattr__(self, "start_us", start)
        object.__setattr__(self, "last_us", self._nth(max(start, FIRST_INSTANT)))

    def _nth(self, start: int) -> int | None:
        """Return the n-th occurrence from a start on, or the last if there are fewer."""
        if not isinstance(self.timetable, Combined):
            occurrences = self.timetable.upcoming(from_microseconds(start - 1), self.n)
            return to_microseconds(occurrences[-1]) if occurrences else None
        patience = SearchBudget(self, COUNT_QUESTIONS_MAX)
        last = None
        for _ in range(self.n):
            found = patience.first_from(self.timetable, start)
            if found is None:
                break
            last, start = found, found + 1
        return last

    def first_within(self, instant: int, patience: SearchBudget) -> int | None:
        """Look from the start on, and not beyond the last."""
        found = patience.first_from(self.timetable, max(instant, self.start_us))
        if found is None or self.last_us is None or found > self.last_us:
            return None
        return found

    def last_within(self, instant: int, patience: SearchBudget) -> int | None:
        """Look from the last back, and not before the start."""
        if self.last_us is None:
            return None
        found = patience.last_until(self.timetable, min(instant, self.last_us))
        return found if found is not None and found >= self.start_us else None

    def describe(self) -> str:
        """Say how many."""
        times = "once" if self.n == 1 else f"{self.n:,} times"
        return f"{self.timetable.describe()}, {times} from {spoken(self.start)}"

    def to_json(self) -> dict[str, Any]:
        """Return the timetable, the number and the start."""
        return {
            "kind": self.kind,
            "timetable": self.timetable.to_json(),
            "n": self.n,
            "start": self.start.isoformat(),
        }

    def under(self, zones: ZoneDatabase) -> Self:
        """Read it under another release."""
        return type(self)(self.timetable.under(zones), self.n, self.start)


def spread(timetable: Timetable, seed: str) -> Timetable:
    """Return a timetable whose `H` are spread by a seed, where they were left open."""
    if isinstance(timetable, Cron):
        return replace(timetable, seed=seed) if timetable.is_open else timetable
    if not isinstance(timetable, Combined) or not is_dataclass(timetable):
        return timetable
    parts = {one.name: getattr(timetable, one.name) for one in fields(timetable) if one.init}
    closed = {name: _spread_part(part, seed) for name, part in parts.items()}
    changed: dict[str, Any] = {
        name: part for name, part in closed.items() if part is not parts[name]
    }
    return replace(timetable, **changed) if changed else timetable


def require_spread(timetable: Timetable) -> None:
    """Refuse a timetable with an `H` that is still open, where no schedule's name spreads it."""
    if spread(timetable, "any") is not timetable:
        timetable.first_from(0)  # raises the error that says what is missing


def _spread_part(part: object, seed: str) -> object:
    if isinstance(part, Timetable):
        return spread(part, seed)
    if isinstance(part, tuple) and all(isinstance(one, Timetable) for one in part):
        made = tuple(spread(one, seed) for one in part)
        return part if all(new is old for new, old in zip(made, part, strict=True)) else made
    return part


def union(first: Timetable, second: Timetable) -> Union:
    """Combine two timetables; unions within are taken apart."""
    parts: list[Timetable] = []
    for one in (first, second):
        if not isinstance(one, Timetable):
            raise UsageError("union", one, "is not a timetable", "combine cron(…) | every(…)")
        parts += one.parts if isinstance(one, Union) else [one]
    return Union(tuple(parts))


def excluding(
    timetable: Timetable, others: tuple[Timetable | date | str, ...], tz: str | None
) -> Timetable:
    """Leave out timetables and days; days lie in `tz`, or in the timetable's own zone."""
    tables = [other for other in others if isinstance(other, Timetable)]
    dates = frozenset(_day(other) for other in others if not isinstance(other, Timetable))
    if not others:
        raise UsageError("excluding", others, "is empty", "give timetables or dates to leave out")
    result = timetable
    if tables:
        result = Excluding(result, tables[0] if len(tables) == 1 else Union(tuple(tables)))
    if not dates:
        return result
    return ExcludingDates(result, own_zone(timetable, tz), dates)


def own_zone(timetable: Timetable, tz: str | None) -> str:
    """Return the zone in which a timetable's days lie: as given, or its own."""
    zone = tz or zone_of(timetable)
    if zone is None:
        raise UsageError("tz", tz, "is missing", "say in which zone the days lie: tz=…")
    return zone


def zone_of(timetable: Timetable) -> str | None:
    """Return the zone that a timetable's wall times are in, if it has one."""
    if isinstance(timetable, Zoned):
        return timetable.tz
    if isinstance(timetable, Union):
        zones = {zone for part in timetable.parts if (zone := zone_of(part))}
        return zones.pop() if len(zones) == 1 else None
    inner = getattr(timetable, "timetable", None)
    return zone_of(inner) if isinstance(inner, Timetable) else None


def _day(value: object) -> date:
    day = as_day(value)
    if day is None:
        remedy = "give a timetable, or a date such as '2026-12-25'"
        raise UsageError("excluding", value, "is not a date", remedy)
    return day


_REMEDY = "give two aware datetimes, or two dates such as '2026-12-31'"


@dataclass(frozen=True, slots=True)
class Valid(Combined):
    """A timetable between two bounds, which are included; either may be open."""

    timetable: Timetable
    start_us: int | None = field(init=False, compare=False, repr=False)
    end_us: int | None = field(init=False, compare=False, repr=False)

    def _bound(self, start: int | None, end: int | None) -> None:
        self._measure(self.timetable)
        object.__setattr__(self, "start_us", start)
        object.__setattr__(self, "end_us", end)

    def first_within(self, instant: int, patience: SearchBudget) -> int | None:
        """Look from the start on, and not beyond the end."""
        if self.start_us is not None:
            instant = max(instant, self.start_us)
        found = patience.first_from(self.timetable, instant)
        is_over = found is not None and self.end_us is not None and found > self.end_us
        return None if is_over else found

    def last_within(self, instant: int, patience: SearchBudget) -> int | None:
        """Look from the end back, and not before the start."""
        if self.end_us is not None:
            instant = min(instant, self.end_us)
        found = patience.last_until(self.timetable, instant)
        is_early = found is not None and self.start_us is not None and found < self.start_us
        return None if is_early else found


@dataclass(frozen=True, slots=True)
class Between(Valid):
    """A timetable that is valid from one instant until another, both included."""

    kind: ClassVar[str] = "between"
    start: datetime | None
    end: datetime | None

    def __post_init__(self) -> None:
        """Check that the bounds are instants, in order."""
        start = None if self.start is None else to_microseconds(self.start, "start")
        end = None if self.end is None else to_microseconds(self.end, "end")
        if start is not None and end is not None and end < start:
            _refuse_order(self.end)
        self._bound(start, end)

    def describe(self) -> str:
        """Say the bounds."""
        start = f", from {spoken(self.start)}" if self.start else ""
        end = f", until {spoken(self.end)}" if self.end else ""
        return f"{self.timetable.describe()}{start}{end}"

    def to_json(self) -> dict[str, Any]:
        """Return the timetable and the bounds."""
        return _stored(self.kind, self.timetable, self.start, self.end)

    def under(self, zones: ZoneDatabase) -> Self:
        """Read it under another release."""
        return replace(self, timetable=self.timetable.under(zones))


@dataclass(frozen=True, slots=True)
class BetweenDates(Valid):
    """A timetable that is valid from one day until another of a zone's calendar, both included."""

    kind: ClassVar[str] = "between-dates"
    start: date | None
    end: date | None
    tz: str
    zones: ZoneDatabase = field(
        default_factory=default_zones, compare=False, repr=False, kw_only=True
    )

    def __post_init__(self) -> None:
        """Find out when the first day begins and the last one ends."""
        if self.start and self.end and self.end < self.start:
            _refuse_order(self.end)
        start = self._beginning("start", self.start) if self.start else None
        after = self._beginning("end", self.end + timedelta(days=1)) if self.end else None
        self._bound(start, None if after is None else after - 1)

    def _beginning(self, name: str, day: date) -> int:
        """Return the instant at which a day begins, in microseconds since 1970."""
        try:
            midnight = datetime.combine(day, time())
            found = OnceLocal(when=midnight, tz=self.tz, zones=self.zones).first_from(FIRST_INSTANT)
        except (OverflowError, UsageError) as error:
            if isinstance(error, UsageError) and error.field == "tz":
                raise
            remedy = "give a date from 0001-01-03 to 9999-12-27"
            raise UsageError(name, day.isoformat(), "is out of the calendar", remedy) from error
        assert found is not None, "a wall time is never dropped under gap='next'"
        return found

    def describe(self) -> str:
        """Say the days."""
        start = f", from {self.start}" if self.start else ""
        end = f", until {self.end}" if self.end else ""
        return f"{self.timetable.describe()}{start}{end}"

    def to_json(self) -> dict[str, Any]:
        """Return the timetable, the days and their zone."""
        return _stored(self.kind, self.timetable, self.start, self.end) | {"tz": self.tz}

    def under(self, zones: ZoneDatabase) -> Self:
        """Read it under another release: its days may begin at other instants there."""
        return replace(self, timetable=self.timetable.under(zones), zones=zones)


def between(
    timetable: Timetable, start: object, end: object, zone: str | None
) -> Between | BetweenDates:
    """Limit a timetable to instants or, in a zone, to days; the two kinds do not mix."""
    first, last = as_day(start), as_day(end)
    if first or last:
        for name, value, day in (("start", start, first), ("end", end, last)):
            if value is not None and day is None:
                raise UsageError(name, value, "is no date, and the other bound is", _REMEDY)
        if zone is None:
            raise UsageError("tz", zone, "is missing", "say in which zone the days lie: tz=…")
        return BetweenDates(timetable, first, last, zone)
    for name, value in (("start", start), ("end", end)):
        if value is not None and not isinstance(value, datetime):
            raise UsageError(name, value, "is neither an instant nor a date", _REMEDY)
    return Between(timetable, start, end)  # type: ignore[arg-type]


def _stored(
    kind: str, timetable: Timetable, start: date | None, end: date | None
) -> dict[str, Any]:
    return {
        "kind": kind,
        "timetable": timetable.to_json(),
        "start": start.isoformat() if start else None,
        "end": end.isoformat() if end else None,
    }


def _refuse_order(end: date | None) -> None:
    value = end.isoformat() if end else None
    raise UsageError("end", value, "lies before the start", "give an end after the start")
