"""What changes between two releases of the time-zone database: which zones, and whose next instant.

Pure: it says what would move. Writing it down and telling people is left to those who hold timers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from duly.domain.instants import SECOND_US, from_seconds, to_microseconds
from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.domain.timetable.timetable import Timetable
    from duly.domain.zones.database import ZoneDatabase
    from duly.domain.zones.zone import Zone

WINDOW_MAX = timedelta(days=366 * 200)


@dataclass(frozen=True, slots=True)
class ZoneChange:
    """A zone about which two releases disagree.

    `at` is the first instant within the window at which they do, with the offset that each gives
    it; a zone that one of them lacks has neither.
    """

    key: str
    kind: Literal["added", "removed", "changed"]
    at: datetime | None = None
    old_offset: timedelta | None = None
    new_offset: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """A timetable whose next instant differs between two releases.

    None means that it has no next instant; `problem` says why, if a release can't compute one.
    """

    name: str
    old_at: datetime | None
    new_at: datetime | None
    problem: str | None = None


def zone_changes(
    old: ZoneDatabase, new: ZoneDatabase, start: datetime, end: datetime
) -> list[ZoneChange]:
    """Return the zones that two releases give different offsets within [start, end), by name."""
    first, last = _checked_window(start, end)
    changes = []
    for key in sorted(old.keys | new.keys):
        if key not in new.keys:
            changes.append(ZoneChange(key, "removed"))
        elif key not in old.keys:
            changes.append(ZoneChange(key, "added"))
        elif old.files.read(key) != new.files.read(key):
            change = _first_difference(old.zone(key), new.zone(key), first, last)
            changes += [change] if change else []
    return changes


def _checked_window(start: datetime, end: datetime) -> tuple[int, int]:
    first = -(-to_microseconds(start, "start") // SECOND_US)
    last = -(-to_microseconds(end, "end") // SECOND_US)
    if first >= last:
        raise UsageError("end", end, "is not later than start", "give a later end")
    if end - start > WINDOW_MAX:
        raise UsageError("end", end, "is more than 200 years after start", "give an earlier end")
    return first, last


def _first_difference(old: Zone, new: Zone, first: int, last: int) -> ZoneChange | None:
    """Walk both lines of segments side by side until their offsets differ."""
    instant = first
    while instant < last:
        before, after = old.segment(instant), new.segment(instant)
        if before.offset != after.offset:
            offsets = timedelta(seconds=before.offset), timedelta(seconds=after.offset)
            return ZoneChange(old.key, "changed", from_seconds(instant), *offsets)
        instant = min(before.end, after.end)
    return None


def moved(
    timetables: Mapping[str, Timetable], old: ZoneDatabase, new: ZoneDatabase, after: datetime
) -> list[Move]:
    """Return whose next instant after `after` differs between two releases, in the given order.

    One that a release can't compute, because its zone is not in it, is reported and does not stop
    the others.
    """
    to_microseconds(after)
    moves = []
    for name, timetable in timetables.items():
        old_at, old_problem = _next_under(timetable, old, after)
        new_at, new_problem = _next_under(timetable, new, after)
        if (old_at, old_problem) != (new_at, new_problem):
            moves.append(Move(name, old_at, new_at, new_problem or old_problem))
    return moves


def _next_under(
    timetable: Timetable, zones: ZoneDatabase, after: datetime
) -> tuple[datetime | None, str | None]:
    try:
        return timetable.under(zones).next(after), None
    except UsageError as error:
        return None, str(error)
