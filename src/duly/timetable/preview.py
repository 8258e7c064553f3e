"""Next occurrences, locally and in UTC, and what clock changes do to them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Literal

from duly.errors import UsageError
from duly.timetable.combinators import Union, zone_of
from duly.timetable.instants import (
    SECOND_US,
    duration_words,
    from_microseconds,
    from_seconds,
    iso_utc,
    to_microseconds,
    wall_datetime,
)
from duly.timetable.interval import LAST_INSTANT
from duly.timetable.phrases import join
from duly.timetable.timetable import Timetable, Zoned
from duly.timetable.zones import ZoneDatabase, default_zones

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.timetable.zones import Segment


CHANGES_MAX = 50
NAMED_TIMES_MAX = 3


@dataclass(frozen=True, slots=True)
class ClockChange:
    """A moment at which a zone's clocks jump, and what a timetable makes of it."""

    at: datetime
    tz: str
    kind: Literal["gap", "fold"]
    wall_before: datetime
    wall_after: datetime
    moved_until: datetime
    affects: bool
    text: str

    def touches(self, instant: datetime, local: datetime) -> bool:
        """Say whether an occurrence is one that a policy decided about."""
        if self.kind == "gap":
            return self.at <= instant < self.moved_until
        wall = local.replace(tzinfo=None)
        is_near = abs(instant - self.at) <= self.wall_before - self.wall_after
        return is_near and self.wall_after <= wall < self.wall_before


def clock_changes(timetable: Timetable, start: datetime, end: datetime) -> list[ClockChange]:
    """List the clock changes in (start, end] in the zones of a timetable, in order, at most 50."""
    first = to_microseconds(start, "start") // SECOND_US
    last = to_microseconds(end, "end") // SECOND_US
    if last < first:
        raise UsageError("end", end.isoformat(), "lies before the start", "give a later end")
    changes = {}
    for leaf in zoned_leaves(timetable):
        for segment in _changes(leaf, first, last):
            change = _explained(timetable, leaf, segment)
            changes[change.at, change.text] = change
    return sorted(changes.values(), key=lambda change: (change.at, change.text))[:CHANGES_MAX]


def zoned_leaves(timetable: Timetable) -> Iterator[Zoned]:
    """Yield the rules about wall times that a timetable is made of; what it leaves out is none."""
    if isinstance(timetable, Zoned):
        yield timetable
    elif isinstance(timetable, Union):
        for part in timetable.parts:
            yield from zoned_leaves(part)
    elif isinstance(inner := getattr(timetable, "timetable", None), Timetable):
        yield from zoned_leaves(inner)


def _changes(leaf: Zoned, first: int, last: int) -> Iterator[Segment]:
    """Yield the segments that begin in (first, last] with another offset than the one before."""
    segment = leaf.local.zone.segment(first)
    for _ in range(CHANGES_MAX):
        if segment.end > last:
            return
        segment = leaf.local.zone.segment(segment.end)
        if segment.offset != segment.offset_before:
            yield segment


def _explained(timetable: Timetable, leaf: Zoned, segment: Segment) -> ClockChange:
    before, after = segment.start + segment.offset_before, segment.wall_start
    is_gap = after > before
    low, high = min(before, after), max(before, after)
    walls = [wall for wall in _named(leaf, low, high) if _counts(timetable, leaf, segment, wall)]
    day = f"{wall_datetime(low):%a %Y-%m-%d}"
    verb = "jump from" if is_gap else "go back from"
    end = _told_after(before, after)
    start = _time(before) if end == _time(after) else _day_and_time(before)
    jump = f"{day}: clocks in {leaf.tz} {verb} {start} to {end}."
    if not walls:
        effect = f" Nothing is due in the {_length(high - low)} concerned."
    elif is_gap:
        effect = _gap_effect(leaf, segment, walls)
    else:
        effect = _fold_effect(leaf, segment, walls)
    return ClockChange(
        at=from_seconds(segment.start),
        tz=leaf.tz,
        kind="gap" if is_gap else "fold",
        wall_before=wall_datetime(before),
        wall_after=wall_datetime(after),
        moved_until=_moved_until(leaf, segment),
        affects=bool(walls),
        text=jump + effect,
    )


def _counts(timetable: Timetable, leaf: Zoned, segment: Segment, wall: int) -> bool:
    """Say whether the whole timetable, of which a rule is a part, has what comes of a wall time."""
    is_gap = segment.wall_start > segment.start + segment.offset_before
    if is_gap:
        instants = [segment.start if leaf.local.gap == "next" else wall - segment.offset_before]
    else:
        offsets = {"first": [segment.offset_before], "second": [segment.offset]}
        both = [segment.offset_before, segment.offset]
        instants = [wall - offset for offset in offsets.get(leaf.local.fold, both)]
    with suppress(UsageError):  # a timetable that can't be computed is told so elsewhere
        if is_gap and leaf.local.gap == "skip":
            edge = segment.start * SECOND_US
            ends = timetable.last_until(edge - 1), timetable.first_from(edge)
            return None not in ends
        found = (timetable.first_from(one * SECOND_US) == one * SECOND_US for one in instants)
        return any(found)
    return False


def _moved_until(leaf: Zoned, segment: Segment) -> datetime:
    """Return until when occurrences after a gap are ones that were moved there."""
    if leaf.local.gap == "next":
        return from_seconds(segment.start + 1)
    gap = segment.offset - segment.offset_before if leaf.local.gap == "shift" else 0
    return from_seconds(segment.start + max(0, gap))


def _gap_effect(leaf: Zoned, segment: Segment, walls: list[int]) -> str:
    times, plural = _times(walls)
    missing = f" {times} {'do' if plural else 'does'} not exist that day"
    they = "they" if plural else "it"
    if leaf.local.gap == "skip":
        reason = (
            "every real instant counts, and there is none" if _is_instants(leaf) else "gap=skip"
        )
        return f"{missing} and {'are' if plural else 'is'} left out ({reason})."
    if leaf.local.gap == "shift":
        moved, _ = _times([wall - segment.offset_before + segment.offset for wall in walls])
        run = f"{they} run{'' if plural else 's'} at {moved}"
        return f"{missing}; {run}, moved by the gap (gap=shift)."
    after = segment.wall_start
    end = _told_after(segment.start + segment.offset_before, after)
    if leaf.local.walls.at_or_after(after) == after:
        run = f"{they} {'fall' if plural else 'falls'} together with {end}, which is due anyway"
        return f"{missing}; {run} (gap=next)."
    run = f"{they} {'run once, together,' if plural else 'runs'} at {end}"
    return f"{missing}; {run}, the first moment after (gap=next)."


def _fold_effect(leaf: Zoned, segment: Segment, walls: list[int]) -> str:
    times, plural = _times(walls)
    twice = f" {times} {'come' if plural else 'comes'} twice"
    if leaf.local.fold == "both":
        reason = "every real instant counts" if _is_instants(leaf) else "fold=both"
        return f"{twice} and {'run' if plural else 'runs'} both times ({reason})."
    offset = segment.offset_before if leaf.local.fold == "first" else segment.offset
    instant = f"{from_seconds(walls[0] - offset):%H:%M} UTC"
    fold = leaf.local.fold
    return (
        f"{twice} and {'run' if plural else 'runs'} once, the {fold} time, {instant} (fold={fold})."
    )


def _is_instants(leaf: Zoned) -> bool:
    """Say whether the rule itself, not the person, decided that policies don't apply."""
    return (leaf.local.gap, leaf.local.fold) != (leaf.gap, leaf.fold)


def _named(leaf: Zoned, low: int, high: int) -> list[int]:
    """Return the first few wall times of a rule in [low, high): one more than are named."""
    walls: list[int] = []
    wall = leaf.local.walls.at_or_after(low)
    while wall is not None and wall < high and len(walls) <= NAMED_TIMES_MAX:
        walls.append(wall)
        wall = leaf.local.walls.at_or_after(wall + 1)
    return walls


def _times(walls: list[int]) -> tuple[str, bool]:
    if len(walls) > NAMED_TIMES_MAX:
        return f"{_time(walls[0])}, {_time(walls[1])} and further times", True
    return join([_time(wall) for wall in walls]), len(walls) > 1


def _time(wall: int) -> str:
    return f"{wall_datetime(wall):%H:%M:%S}".removesuffix(":00")


def _told_after(before: int, after: int) -> str:
    """Tell where a jump leads; a whole day may be left out, which the time alone would not tell."""
    is_one_day = wall_datetime(before).date() == wall_datetime(after).date()
    return _time(after) if is_one_day else _day_and_time(after)


def _day_and_time(wall: int) -> str:
    return f"{wall_datetime(wall):%a %Y-%m-%d} {_time(wall)}"


def _length(seconds: int) -> str:
    return duration_words(seconds * SECOND_US).removeprefix("1 ")


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
