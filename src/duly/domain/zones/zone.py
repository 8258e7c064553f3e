"""A zone as a line of segments, each with one offset: the whole truth about its wall clock.

Where the offset grows, wall times are jumped over (a gap); where it shrinks, they are shown twice
(a fold). Each segment carries what is needed to tell: `floor`, the wall time that had been reached
before it, and `ceiling`, the lowest that any later segment will show again.

    wall      ────────floor┊  gap  ┊wall_start──────────ceiling┊  fold  ┊wall_end
    instant   ──────────────────── start ────────────────────────────── end ────
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from duly.domain.instants import CYCLE_DAYS, DAY, first_day_of, year_of

if TYPE_CHECKING:
    from duly.domain.zones.posix_rule import Change
    from duly.domain.zones.tzif import ZoneFile

FOREVER = 1 << 62
FAR_YEAR = 2040
"""Up to here, or to the last listed change if that is later, changes are laid out at once; beyond,
the yearly rule repeats with the calendar's cycle."""

_CYCLE = CYCLE_DAYS * DAY


class Segment(NamedTuple):
    """A stretch of instants [start, end) with one offset; all numbers are seconds.

    A named tuple, because a zone has hundreds of them and a search loads every zone.
    """

    start: int
    end: int
    offset: int
    offset_before: int
    floor: int
    ceiling: int
    abbreviation: str
    is_summer: bool
    plain_from: int
    plain_until: int
    """Wall times [plain_from, plain_until) exist once, and no gap's wall times move among them."""

    @property
    def wall_start(self) -> int:
        """The first wall time of the segment."""
        return self.start + self.offset

    @property
    def wall_end(self) -> int:
        """The wall time at which the segment ends; it is not shown any more."""
        return self.end + self.offset

    @property
    def has_gap(self) -> bool:
        """Whether wall times [floor, wall_start) were jumped over to get here."""
        return -FOREVER < self.floor < self.start + self.offset


class Zone:
    """The segments of one zone, found by instant."""

    def __init__(self, key: str, file: ZoneFile) -> None:
        """Lay out the listed changes, and those that the yearly rule adds up to `FAR_YEAR`."""
        self.key = key
        self._rule = file.rule
        changes = list(file.changes)
        far_year = FAR_YEAR
        if self._rule:
            last = changes[-1].at if changes else -FOREVER
            first_year = year_of(last // DAY) if changes else 1970
            far_year = max(FAR_YEAR, first_year + 2)
            changes += self._ruled(first_year, far_year + 1, after=last)
        self._far_start = first_day_of(far_year) * DAY
        self._starts, self._segments = _lay_out(file.first, changes)
        self._far: dict[int, tuple[list[int], list[Segment]]] = {}
        # Never the last: under a yearly rule, what lies beyond `FAR_YEAR` is not in this table.
        self.recent = self._segments[0]

    @property
    def changes_every_year(self) -> bool:
        """Whether its clocks change for ever, by a yearly rule."""
        return self._rule is not None

    def segment(self, instant: int) -> Segment:
        """Return the segment in which an instant lies."""
        # Questions come in clusters; the one remembered answer saves most of the searches.
        # Threads may overwrite it at will: it is checked, never trusted.
        recent = self.recent
        if recent.start <= instant < recent.end:
            return recent
        if instant >= self._far_start and self._rule:
            found = self._far_segment(instant)
        else:
            found = self._segments[bisect_right(self._starts, instant)]
        self.recent = found
        return found

    def _far_segment(self, instant: int) -> Segment:
        """Lay out the years around an instant of the first cycle, and move what is found there."""
        shift = (instant - self._far_start) // _CYCLE * _CYCLE
        year = year_of((instant - shift) // DAY)
        if year not in self._far:
            first, *changes = self._ruled(year - 2, year + 2, after=-FOREVER)
            self._far[year] = _lay_out(first, changes)
        starts, segments = self._far[year]
        near = segments[bisect_right(starts, instant - shift)]
        if not shift:
            return near
        return near._replace(
            start=near.start + shift,
            end=near.end + shift,
            floor=near.floor + shift,
            ceiling=near.ceiling + shift,
            plain_from=near.plain_from + shift,
            plain_until=near.plain_until + shift,
        )

    def _ruled(self, first_year: int, last_year: int, after: int) -> list[Change]:
        assert self._rule is not None
        years = range(first_year, last_year + 1)
        # Summer time that never ends is written as ending at the instant at which it starts again:
        # of two changes at one instant, only the later is real.
        changes = {change.at: change for year in years for change in self._rule.changes(year)}
        return [change for at, change in changes.items() if at > after]


def _lay_out(first: Change, changes: list[Change]) -> tuple[list[int], list[Segment]]:
    """Turn changes into segments: floors grow from the left, ceilings shrink from the right."""
    starts = [change.at for change in changes]
    kinds = [first, *changes]
    ends = [*starts, FOREVER]
    ceilings = [FOREVER] * len(kinds)
    for index in range(len(kinds) - 2, -1, -1):
        ceilings[index] = min(ceilings[index + 1], starts[index] + kinds[index + 1].offset)
    segments = []
    floor, start, before = -FOREVER, -FOREVER, first.offset
    for kind, end, ceiling in zip(kinds, ends, ceilings, strict=True):
        offset = kind.offset
        # Where no policy has a say, which is nearly everywhere.
        gap = max(0, start + offset - floor) if floor > -FOREVER else 0
        plain = max(floor, start + offset + gap), min(end + offset, ceiling)
        names = kind.abbreviation, kind.is_summer
        segments.append(Segment(start, end, offset, before, floor, ceiling, *names, *plain))
        start, before = end, offset
        floor = max(floor, end + kind.offset)
    return starts, segments
