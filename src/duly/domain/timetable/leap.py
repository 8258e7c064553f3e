"""Leaps over stretches in which every occurrence of a rule is left out.

To ask "the next minute, and is it left out?" all through a weekend would take thousands of
questions. Where a rule and what it leaves out are days and times of one zone, wall times answer at
once. A leap never leads beyond the wall times that no policy has a say about, so that it only ever
passes over occurrences that are left out for certain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.instants import DAY
from duly.domain.timetable.dates import DaysAndTimes
from duly.domain.timetable.timetable import Timetable, Zoned

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly.domain.timetable.patience import Patience

DAY_COST = 10
"""A day of seconds is compared as a whole, which takes as long as some ten questions."""


class Leap:
    """Leads from an occurrence that is left out to where the next that is not may be."""

    def __init__(self, rule: Zoned, walls: DaysAndTimes, left_out: list[DaysAndTimes]) -> None:
        """Take a rule, its days and times, and those that are left out, all of one zone."""
        self._zone, self._walls = rule.local.zone, walls
        self._times = walls.times.bitmap
        self._left_out = [(other.dates, other.times.bitmap) for other in left_out]

    def after(self, second: int, patience: Patience) -> int:
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

    def before(self, second: int, patience: Patience) -> int:
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


def leap_of(timetable: Timetable, left_out: Iterable[Timetable]) -> Leap | None:
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
