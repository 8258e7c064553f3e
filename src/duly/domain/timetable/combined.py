"""Timetables made of others: union, exclusion, and a limit on how many.

Choosing by day of the calendar is in `by_day.py`, how long one is valid in `validity.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from duly.domain.instants import SECOND_US, as_day, from_microseconds, to_microseconds
from duly.domain.timetable.by_day import ExcludingDates
from duly.domain.timetable.cron import Cron
from duly.domain.timetable.describe_cron import describe_crons
from duly.domain.timetable.interval import FIRST_INSTANT
from duly.domain.timetable.leap import Leap, leap_of
from duly.domain.timetable.patience import Combined, Patience
from duly.domain.timetable.phrases import spoken
from duly.domain.timetable.timetable import Timetable, Zoned
from duly.errors import UsageError

if TYPE_CHECKING:
    from datetime import date, datetime

    from duly.domain.zones.database import ZoneDatabase

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

    def first_within(self, instant: int, patience: Patience) -> int | None:
        """Return the earliest of the parts'."""
        found = (patience.first_from(part, instant) for part in self.parts)
        return min((one for one in found if one is not None), default=None)

    def last_within(self, instant: int, patience: Patience) -> int | None:
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
        object.__setattr__(self, "leap", leap_of(self.timetable, parts))

    def first_within(self, instant: int, patience: Patience) -> int | None:
        """Step over excluded occurrences, while patience lasts."""
        while True:
            found = patience.first_from(self.timetable, instant)
            if found is None or patience.first_from(self.excluded, found) != found:
                return found
            instant = found + 1
            if self.leap:
                instant = self.leap.after(found // SECOND_US, patience) * SECOND_US

    def last_within(self, instant: int, patience: Patience) -> int | None:
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
        patience = Patience(self, COUNT_QUESTIONS_MAX)
        last = None
        for _ in range(self.n):
            found = patience.first_from(self.timetable, start)
            if found is None:
                break
            last, start = found, found + 1
        return last

    def first_within(self, instant: int, patience: Patience) -> int | None:
        """Look from the start on, and not beyond the last."""
        found = patience.first_from(self.timetable, max(instant, self.start_us))
        if found is None or self.last_us is None or found > self.last_us:
            return None
        return found

    def last_within(self, instant: int, patience: Patience) -> int | None:
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
