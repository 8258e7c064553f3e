"""Zone as segments of constant offset, ZoneDatabase, differences between two tzdata releases.

Where the offset grows, wall times are skipped (a gap); where it shrinks, they are shown twice
(a fold). Each segment carries what detects both: `floor`, the highest wall time reached before
it, and `ceiling`, the lowest that any later segment shows again.

    wall      ────────floor┊  gap  ┊wall_start──────────ceiling┊  fold  ┊wall_end
    instant   ──────────────────── start ────────────────────────────── end ────

`zone_changes` and `moved` are pure: they compare two releases. The processes that hold timers
record the differences and report them.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from duly.errors import UsageError
from duly.timetable.data_sources import TzdataWheel, ZoneFiles
from duly.timetable.instants import (
    CYCLE_DAYS,
    DAY,
    SECOND_US,
    first_day_of,
    from_seconds,
    to_microseconds,
    year_of,
)
from duly.timetable.tzif import read_tzif

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duly.timetable.timetable import Timetable
    from duly.timetable.tzif import OffsetChange, ZoneFile


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

    def _ruled(self, first_year: int, last_year: int, after: int) -> list[OffsetChange]:
        assert self._rule is not None
        years = range(first_year, last_year + 1)
        # Summer time that never ends is written as ending at the instant at which it starts again:
        # of two changes at one instant, only the later is real.
        changes = {change.at: change for year in years for change in self._rule.changes(year)}
        return [change for at, change in changes.items() if at > after]


def _lay_out(first: OffsetChange, changes: list[OffsetChange]) -> tuple[list[int], list[Segment]]:
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


KEY_LENGTH_MAX = 80


class ZoneDatabase:
    """One release of the tz database, read on demand."""

    def __init__(self, files: ZoneFiles) -> None:
        """Read from `files`; each zone is read at most once."""
        self.files = files
        self._zones: dict[str, Zone] = {}

    def __reduce__(self) -> tuple[Callable[..., ZoneDatabase], tuple[ZoneFiles, ...]]:
        """Copy and pickle where the zones come from, and not the zones: they are read again."""
        return (default_zones, ()) if self is default_zones() else (type(self), (self.files,))

    @property
    def version(self) -> str:
        """The release, such as `2026a`."""
        return self.files.version

    @property
    def keys(self) -> frozenset[str]:
        """Every name that `zone` accepts."""
        return self.files.keys

    def zone(self, key: str) -> Zone:
        """Return the zone of an IANA name or alias; refuse others and suggest the nearest."""
        found = self._zones.get(key) if isinstance(key, str) else None
        if found is None:
            found = self._zones[key] = Zone(self._checked(key), read_tzif(self.files.read(key)))
        return found

    def _checked(self, key: str) -> str:
        if isinstance(key, str) and key in self.files.keys:
            return key
        remedy = "give an IANA name such as 'Europe/Paris' or 'UTC'"
        name = getattr(key, "key", None)
        if isinstance(name, str) and name in self.files.keys:
            remedy = f"give its name, {name!r}"
        if isinstance(key, str) and len(key) <= KEY_LENGTH_MAX:
            nearest = self._nearest(key)
            remedy = f"did you mean {nearest!r}?" if nearest else remedy
        raise UsageError("tz", key, "is not a time zone", remedy)

    def _nearest(self, key: str) -> str | None:
        """Return the zone of that city, else the one that is spelled most like it."""
        typed = key.strip().replace(" ", "_").casefold()
        # Etc/GMT+5 is five hours behind: the opposite of what GMT+5 mostly means.
        names = (name for name in sorted(self.files.keys) if not name.startswith("Etc/"))
        folded = {name.casefold(): name for name in names}
        is_short = len(typed) <= _ABBREVIATION_MAX  # PST is like MST, and another time
        cities = {name.rpartition("/")[2] for name in folded}
        alike = 1.0 if is_short else _CITY_CUTOFF
        city = get_close_matches(typed.rpartition("/")[2], cities, n=1, cutoff=alike)
        if not city and is_short:
            return None
        among = [name for name in folded if [name.rpartition("/")[2]] == city] or folded
        close = get_close_matches(typed, among, n=1, cutoff=0.0 if city else _NAME_CUTOFF)
        return folded[close[0]] if close else None


_ABBREVIATION_MAX = 5
_CITY_CUTOFF, _NAME_CUTOFF = 0.85, 0.6
"""How alike names must be to be suggested: a city alone is known by fewer letters."""


@cache
def default_zones() -> ZoneDatabase:
    """Return the zones of the installed tzdata wheel, shared by everything in the process."""
    return ZoneDatabase(TzdataWheel())
