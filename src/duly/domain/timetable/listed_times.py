"""Times of day that a person lists one by one: "18:00", or ["9:05", "18:00:30"]."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from datetime import time
from typing import TYPE_CHECKING, NoReturn

from duly.domain.instants import DAY, HOUR, MINUTE
from duly.domain.timetable.times import TimesOfDay
from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

TIMES_MAX = 100
TEXT_LENGTH_MAX = 20
_TIME = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")


class ListedTimes(TimesOfDay):
    """Some times of the day, which need not be a product of hours, minutes and seconds."""

    def __init__(self, times: Iterable[int]) -> None:
        """Keep the seconds of the day in order; there must be one at least."""
        self._times = tuple(sorted(set(times)))
        super().__init__(*_masks(self._times))
        self.first, self.last = self._times[0], self._times[-1]
        self.size = len(self._times)

    def at_or_after(self, time: int) -> int:
        """Return the first member not before a second of the day, or -1."""
        place = bisect_left(self._times, time)
        return self._times[place] if place < len(self._times) else -1

    def at_or_before(self, time: int) -> int:
        """Return the last member not after a second of the day, or -1."""
        place = bisect_right(self._times, time)
        return self._times[place - 1] if place else -1

    @property
    def bitmap(self) -> int:
        """All of them as a bitmap of the day's seconds."""
        return sum(1 << time for time in self._times)

    def members(self, start: int = 0, end: int = DAY) -> Iterable[int]:
        """Return the members in [start, end), in order."""
        return self._times[bisect_left(self._times, start) : bisect_left(self._times, end)]

    def count_before(self, time: int) -> int:
        """Return how many members lie before a second of the day (0..86,400)."""
        return bisect_left(self._times, time)


def _masks(times: tuple[int, ...]) -> tuple[int, int, int]:
    """Return the hours, minutes and seconds that occur."""
    hours = minutes = seconds = 0
    for moment in times:
        hours |= 1 << moment // HOUR
        minutes |= 1 << moment // MINUTE % 60
        seconds |= 1 << moment % MINUTE
    return hours, minutes, seconds


def read_time(at: object) -> int:
    """Read "18:00", "9:05", "18:00:30" or a `datetime.time` as a second of the day."""
    text = time_text(at)
    found = _TIME.fullmatch(text)
    if not found:
        _refuse(at, "is not a time of day")
    hour, minute, second = int(found[1]), int(found[2]), int(found[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        _refuse(at, "is out of range", "give 00:00 to 23:59:59")
    return hour * HOUR + minute * MINUTE + second


def time_text(at: object) -> str:
    """Return a time as the text that stands for it; refuse what can't be one."""
    if isinstance(at, time):
        if at.tzinfo is not None:
            _refuse(at, "has a time zone of its own", "give the zone as tz=")
        if at.microsecond:
            _refuse(at, "has a fraction of a second", "give whole seconds")
        return at.isoformat("seconds" if at.second else "minutes")
    if not isinstance(at, str) or len(at) > TEXT_LENGTH_MAX:
        _refuse(at, "is not a time of day")
    return at


def _refuse(at: object, problem: str, remedy: str = "write 24 hours, as in '18:00'") -> NoReturn:
    raise UsageError("at", at, problem, remedy)
