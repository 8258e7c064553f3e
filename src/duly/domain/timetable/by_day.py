"""Timetables chosen by the day they fall on: not on certain dates, only on business days."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any, ClassVar, Self

from duly.domain.instants import DAY, EPOCH_ORDINAL, SECOND_US, year_of
from duly.domain.timetable.patience import Combined, Patience
from duly.domain.timetable.phrases import join, plural
from duly.domain.zones.database import ZoneDatabase, default_zones
from duly.errors import UsageError

if TYPE_CHECKING:
    from duly.domain.timetable.business_calendar import BusinessCalendar
    from duly.domain.timetable.timetable import Timetable

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

    def first_within(self, instant: int, patience: Patience) -> int | None:
        """Step over days that are left out, each as a whole."""
        years: set[int] = set()
        while True:
            found = patience.first_from(self.timetable, instant)
            day = None if found is None else self._day_left_out(found)
            if found is None or day is None:
                return found
            instant = self._day_edge(found, day + 1)
            self._check(years, day)

    def last_within(self, instant: int, patience: Patience) -> int | None:
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
