"""An independent answer to "when does this local time happen?", from the standard library alone.

It knows a zone only as a function from instant to offset, and tries every wall minute: which offsets
in use nearby lead to an instant that really shows it? None: it lies in a gap. Slow, and plain to see.
"""

from __future__ import annotations

import io
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly.timetable.zones import ZoneDatabase

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = 86_400


def seconds(year: int, month: int, day: int, hour: int = 0) -> int:
    """Seconds since 1970 of a UTC time, or of a wall time as if it were UTC."""
    return int((datetime(year, month, day, hour, tzinfo=UTC) - EPOCH).total_seconds())


class Oracle:
    """A zone of the standard library, read from the same file."""

    def __init__(self, zones: ZoneDatabase, key: str) -> None:
        self.info = ZoneInfo.from_file(io.BytesIO(zones.files.read(key)), key)

    def shown(self, instant: int) -> datetime:
        return (EPOCH + timedelta(seconds=instant)).astimezone(self.info)

    def offset(self, instant: int) -> int:
        offset = self.shown(instant).utcoffset()
        assert offset is not None
        return int(offset.total_seconds())

    def changes(self, start: int, end: int, step: int = DAY // 8) -> list[tuple[int, int, int]]:
        """Find each instant in (start, end] at which the offset changes, with the offsets around it."""
        found = []
        for begin in range(start, end, step):
            low, high = begin, min(begin + step, end)
            before, after = self.offset(low), self.offset(high)
            if before != after:
                while high - low > 1:
                    middle = (low + high) // 2
                    low, high = (middle, high) if self.offset(middle) == before else (low, middle)
                found.append((high, before, after))
        return found


@dataclass(frozen=True)
class DailyTimes:
    """The simplest wall rule: some times on every day there is."""

    times: tuple[int, ...]

    def at_or_after(self, wall: int) -> int | None:
        day, time = divmod(wall, DAY)
        place = bisect_left(self.times, time)
        if place == len(self.times):
            return (day + 1) * DAY + self.times[0]
        return day * DAY + self.times[place]

    def at_or_before(self, wall: int) -> int | None:
        day, time = divmod(wall, DAY)
        place = bisect_right(self.times, time)
        return day * DAY + self.times[place - 1] if place else (day - 1) * DAY + self.times[-1]

    def count(self, start: int, end: int) -> int:
        return self._until(end) - self._until(start)

    def _until(self, wall: int) -> int:
        day, time = divmod(wall, DAY)
        return day * len(self.times) + bisect_left(self.times, time)

    def members(self, start: int, end: int) -> list[int]:
        days = range(start // DAY, end // DAY + 1)
        walls = [day * DAY + time for day in days for time in self.times]
        return [wall for wall in walls if start <= wall < end]


EVERY_MINUTE = DailyTimes(tuple(range(0, DAY, 60)))
A_FEW_TIMES = DailyTimes(
    tuple(
        hour * 3600 + minute * 60
        for hour, minute in [(0, 0), (0, 15), (0, 59), (1, 0), (1, 30), (2, 0), (2, 30), (3, 0),
                             (4, 10), (12, 0), (21, 45), (23, 0), (23, 30), (23, 59)]
    )
)  # fmt: skip


class Window:
    """All wall times of a rule around a stretch of instants [start, end), with what becomes of each."""

    def __init__(self, oracle: Oracle, rule: DailyTimes, start: int, end: int) -> None:
        self.start, self.end = start, end
        # Some days beyond either end: what is shifted out of a gap may come from there.
        self._changes = oracle.changes(start - 4 * DAY, end + 4 * DAY)
        offsets = {offset for change in self._changes for offset in change[1:]}
        offsets.add(oracle.offset(start))
        low, high = start + min(offsets) - DAY, end + max(offsets) + DAY
        self._shown: dict[int, list[int]] = {
            wall: sorted(
                wall - offset for offset in offsets if oracle.offset(wall - offset) == offset
            )
            for wall in rule.members(low, high)
        }

    def instants(self, gap: str, fold: str) -> list[int]:
        """Return every instant of the rule in [start, end) under two policies, in order."""
        found: set[int] = set()
        for wall, instants in self._shown.items():
            if instants:
                found.update(
                    {"first": instants[:1], "second": instants[-1:], "both": instants}[fold]
                )
            else:
                found.update(self._out_of_gap(wall, gap))
        return sorted(instant for instant in found if self.start <= instant < self.end)

    def _out_of_gap(self, wall: int, gap: str) -> Iterable[int]:
        for at, before, after in self._changes:
            if at + before <= wall < at + after:
                return {"next": [at], "shift": [wall - before], "skip": []}[gap]
        raise AssertionError(f"{wall} is not shown, and not jumped over either")


@cache
def distinct_keys(zones: ZoneDatabase) -> tuple[str, ...]:
    """Return the zones without those that are a copy of another."""
    keys: dict[bytes, str] = {}
    for key in sorted(zones.keys):
        keys.setdefault(zones.files.read(key), key)
    return tuple(sorted(keys.values()))
