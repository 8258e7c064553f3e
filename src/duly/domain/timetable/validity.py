"""Timetables that are valid for a time: between instants, or days of a zone's calendar."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Self

from duly.domain.instants import as_day, to_microseconds
from duly.domain.timetable.interval import FIRST_INSTANT
from duly.domain.timetable.once import OnceLocal
from duly.domain.timetable.patience import Combined, Patience
from duly.domain.timetable.phrases import spoken
from duly.domain.zones.database import ZoneDatabase, default_zones
from duly.errors import UsageError

if TYPE_CHECKING:
    from duly.domain.timetable.timetable import Timetable

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

    def first_within(self, instant: int, patience: Patience) -> int | None:
        """Look from the start on, and not beyond the end."""
        if self.start_us is not None:
            instant = max(instant, self.start_us)
        found = patience.first_from(self.timetable, instant)
        is_over = found is not None and self.end_us is not None and found > self.end_us
        return None if is_over else found

    def last_within(self, instant: int, patience: Patience) -> int | None:
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
