"""A preview of a timetable: its next occurrences, locally and in UTC, and what clocks do to it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from duly.domain.instants import SECOND_US, from_microseconds, iso_utc, to_microseconds
from duly.domain.timetable.combined import zone_of
from duly.domain.timetable.explain import ClockChange, clock_changes
from duly.domain.timetable.interval import LAST_INSTANT
from duly.domain.zones.database import ZoneDatabase, default_zones

if TYPE_CHECKING:
    from duly.domain.timetable.timetable import Timetable

A_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class PreviewedOccurrence:
    """One coming occurrence, as the clock on the wall and as UTC show it."""

    utc: datetime
    local: datetime
    abbreviation: str
    tz: str
    change: ClockChange | None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "utc": iso_utc(self.utc),
            "local": self.local.isoformat(),
            "zone": self.tz,
            "abbreviation": self.abbreviation,
            "clock_change": self.change.text if self.change else None,
        }


@dataclass(frozen=True, slots=True)
class Preview:
    """What a person should see before they agree to a timetable."""

    timetable: Timetable
    tz: str
    tzdata: str
    after: datetime
    occurrences: tuple[PreviewedOccurrence, ...]
    changes: tuple[ClockChange, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "kind": self.timetable.kind,
            "description": self.timetable.describe(),
            "tz": self.tz,
            "tzdata": self.tzdata,
            "after": iso_utc(self.after),
            "occurrences": [self._with_distance(one) for one in self.occurrences],
            "clock_changes": [change.text for change in self.changes],
            "timetable": self.timetable.to_json(),
        }

    def _with_distance(self, occurrence: PreviewedOccurrence) -> dict[str, Any]:
        distance = occurrence.utc - self.after
        return {**occurrence.to_json(), "in_seconds": distance.total_seconds()}


def preview(  # noqa: PLR0913 - what to show, and where to look it up
    timetable: Timetable,
    after: datetime,
    n: int,
    *,
    tz: str = "UTC",
    zones: ZoneDatabase | None = None,
) -> Preview:
    """Preview the next `n` occurrences, in the timetable's own zone or, if it has none, in `tz`."""
    zones = zones or default_zones()
    shown_in = zone_of(timetable) or tz
    instants = timetable.upcoming(after, n)
    end = instants[-1] if instants else after
    # A day more, so that what the night after the last of the list does is told too.
    limit = from_microseconds(LAST_INSTANT)
    changes = clock_changes(timetable, after, max(after, min(end, limit - A_DAY) + A_DAY))
    occurrences = tuple(_previewed(one, shown_in, zones, changes) for one in instants)
    return Preview(timetable, shown_in, zones.version, after, occurrences, tuple(changes))


def _previewed(
    instant: datetime, tz: str, zones: ZoneDatabase, changes: list[ClockChange]
) -> PreviewedOccurrence:
    segment = zones.zone(tz).segment(to_microseconds(instant) // SECOND_US)
    local = instant.astimezone(timezone(timedelta(seconds=segment.offset)))
    near = [change for change in changes if change.affects and change.touches(instant, local)]
    return PreviewedOccurrence(instant, local, segment.abbreviation, tz, near[0] if near else None)
