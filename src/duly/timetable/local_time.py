"""From wall times to instants: what becomes of a local time that does not exist, or exists twice.

A wall rule says which wall times are meant, as if every day had 24 hours. A zone is a line of
segments with constant offsets. Two policies decide what happens between segments:

    gap   `next`   one instant, the first after the gap, for all wall times inside it
          `shift`  each wall time inside the gap moves by the gap's length
          `skip`   wall times inside the gap are dropped
    fold  `first`, `second` or `both` of the two instants that show the same wall time

Within a segment the mapping is a subtraction. So a policy amounts to an interval of wall times that
each segment may use, and to at most one instant (or a shifted copy) for the gap before it. Several
wall times may collapse into one instant; an instant is never returned twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from duly.errors import UsageError
from duly.timetable.instants import DAY

if TYPE_CHECKING:
    from duly.timetable.zones import Segment, Zone

Gap = Literal["next", "shift", "skip"]
Fold = Literal["first", "second", "both"]
GAPS: tuple[Gap, ...] = ("next", "shift", "skip")
FOLDS: tuple[Fold, ...] = ("first", "second", "both")

REACH = 2 * DAY
"""More than any zone was ever away from UTC: how far a wall time may lie from its instant."""


class WallRule(Protocol):
    """A set of wall times (whole seconds since 1970 as if UTC), asked for its members in order."""

    def at_or_after(self, wall: int) -> int | None:
        """Return the first member that is not before `wall`, or None if there is none, ever."""
        ...

    def at_or_before(self, wall: int) -> int | None:
        """Return the last member that is not after `wall`, or None if there is none."""
        ...

    def count(self, start: int, end: int) -> int:
        """Return how many members lie in [start, end)."""
        ...


@dataclass(frozen=True, slots=True)
class Resolution:
    """The instants that show a wall time: none in a gap, two in a fold, one otherwise."""

    kind: Literal["unique", "gap", "fold"]
    instants: tuple[int, ...]


def check_policies(gap: str, fold: str) -> None:
    """Refuse anything but the literals."""
    if gap not in GAPS:
        raise UsageError("gap", gap, "is not a policy", f"choose one of {', '.join(GAPS)}")
    if fold not in FOLDS:
        raise UsageError("fold", fold, "is not a policy", f"choose one of {', '.join(FOLDS)}")


def resolve(zone: Zone, wall: int) -> Resolution:
    """Find every instant at which a zone's clock shows a wall time."""
    instants = []
    instant = wall - REACH
    while instant <= wall + REACH:
        segment = zone.segment(instant)
        if segment.wall_start <= wall < segment.wall_end:
            instants.append(wall - segment.offset)
        instant = segment.end
    kind: Literal["unique", "gap", "fold"] = "gap" if not instants else "unique"
    return Resolution("fold" if len(instants) > 1 else kind, tuple(instants))


@dataclass(frozen=True, slots=True)
class LocalRule:
    """A wall rule as a zone's clocks show it, under two policies; instants are whole seconds."""

    walls: WallRule
    zone: Zone
    gap: Gap
    fold: Fold

    def first_from(self, instant: int) -> int | None:
        """Return the first instant of the rule that is not before `instant`."""
        segment = self.zone.recent
        if not segment.start <= instant < segment.end:
            segment = self.zone.segment(instant)
        low = instant + segment.offset
        if low >= segment.plain_from:  # no policy has a say here, as nearly always
            wall = self.walls.at_or_after(low)
            if wall is not None and wall < segment.plain_until:
                return wall - segment.offset
        while True:
            segment = self.zone.segment(instant)
            after_gap = self._first_after_gap(segment, instant)
            low, high = self._usable(segment)
            low = max(low, instant + segment.offset)
            wall = self.walls.at_or_after(low)
            if wall is not None and wall < high:
                found = wall - segment.offset
                return found if after_gap is None else min(found, after_gap)
            if after_gap is not None:
                return after_gap
            # Nothing in this segment. Later ones show higher wall times, except in a coming fold.
            instant = segment.end
            if segment.ceiling >= low:
                if wall is None:
                    return None
                instant = max(instant, wall - REACH)

    def last_until(self, instant: int) -> int | None:
        """Return the last instant of the rule that is not after `instant`."""
        while True:
            segment = self.zone.segment(instant)
            after_gap = self._last_after_gap(segment, instant)
            low, high = self._usable(segment)
            high = min(high - 1, instant + segment.offset)
            wall = self.walls.at_or_before(high)
            if wall is not None and wall >= low:
                found = wall - segment.offset
                return found if after_gap is None else max(found, after_gap)
            if after_gap is not None:
                return after_gap
            # Nothing in this segment. Earlier ones show lower wall times, except in a fold before.
            instant = segment.start - 1
            if segment.floor <= high:
                if wall is None:
                    return None
                instant = min(instant, wall + REACH)

    def count(self, start: int, end: int) -> int:
        """Return how many instants of the rule lie in [start, end)."""
        total = 0
        while start < end:
            segment = self.zone.segment(start)
            stop = min(end, segment.end)
            low, high = self._usable(segment)
            low, high = max(low, start + segment.offset), min(high, stop + segment.offset)
            if low < high:
                total += self.walls.count(low, high)
            total += self._count_after_gap(segment, start, stop)
            start = stop
        return total

    def _usable(self, segment: Segment) -> tuple[int, int]:
        """Return the wall times [low, high) for which this segment is the one that counts."""
        low, high = segment.start + segment.offset, segment.end + segment.offset
        if self.fold == "first":
            return max(low, segment.floor), high
        if self.fold == "second":
            return low, min(high, segment.ceiling)
        return low, high

    def _first_after_gap(self, segment: Segment, instant: int) -> int | None:
        """Return the first instant, not before `instant`, that comes of a segment's gap."""
        if self.gap == "skip" or not segment.has_gap:
            return None
        low = segment.floor
        if self.gap == "next":
            if instant > segment.start:
                return None
        else:
            low = max(low, instant + segment.offset_before)
        wall = self.walls.at_or_after(low)
        if wall is None or wall >= segment.wall_start:
            return None
        return segment.start if self.gap == "next" else wall - segment.offset_before

    def _last_after_gap(self, segment: Segment, instant: int) -> int | None:
        """Return the last instant, not after `instant`, that comes of a segment's gap."""
        if self.gap == "skip" or not segment.has_gap:
            return None
        high = segment.wall_start - 1
        if self.gap == "shift":
            high = min(high, instant + segment.offset_before)
        wall = self.walls.at_or_before(high)
        if wall is None or wall < segment.floor:
            return None
        return segment.start if self.gap == "next" else wall - segment.offset_before

    def _count_after_gap(self, segment: Segment, start: int, stop: int) -> int:
        """Return how many instants the gap before a segment adds to those it has anyway."""
        total = 0
        found = self._first_after_gap(segment, start)
        low, high = self._usable(segment)
        if self.gap == "shift" and found is not None and found < stop:
            # A rule that means every second has all of these anyway; there is nothing to look for.
            first = found + segment.offset
            last = min(stop, segment.wall_start - segment.offset_before) + segment.offset
            if low <= first and last <= high and self.walls.count(first, last) == last - first:
                return 0
        while found is not None and found < stop:
            wall = found + segment.offset
            if not (low <= wall < high and self.walls.at_or_after(wall) == wall):
                total += 1
            found = self._first_after_gap(segment, found + 1)
        return total
