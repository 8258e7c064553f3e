"""Sets of times of day: products of hours, minutes, seconds, or listed ones."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from datetime import time
from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn

from duly.errors import UsageError
from duly.timetable.instants import DAY, HOUR, MINUTE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


LISTED_MAX = 1440
"""A list of every minute is worth its memory; one of every second is not."""


@lru_cache(maxsize=1024)
def next_table(mask: int, size: int) -> tuple[int, ...]:
    """For every value 0..size + 1, tabulate the first member of a bitmask not before it, or -1."""
    table = [-1] * (size + 2)
    for value in range(size - 1, -1, -1):
        table[value] = value if mask >> value & 1 else table[value + 1]
    return tuple(table)


@lru_cache(maxsize=1024)
def previous_table(mask: int, size: int) -> tuple[int, ...]:
    """For every value 0..size-1, tabulate the last member of a bitmask not after it, or -1."""
    table = []
    last = -1
    for value in range(size):
        last = value if mask >> value & 1 else last
        table.append(last)
    return tuple(table)


class TimesOfDay:
    """The seconds of a day whose hour, minute and second are members of three bitmasks."""

    def __init__(self, hours: int, minutes: int, seconds: int = 1) -> None:
        """Tabulate the masks; none of them may be empty."""
        self.hours, self.minutes, self.seconds = hours, minutes, seconds
        self._hour_from = next_table(hours, 24)
        self._minute_from = next_table(minutes, 60)
        self._second_from = next_table(seconds, 60)
        self._minute, self._second = self._minute_from[0], self._second_from[0]
        self._is_on_the_minute = seconds == 1
        self.size = hours.bit_count() * minutes.bit_count() * seconds.bit_count()
        self.first = self._hour_from[0] * HOUR + self._minute * MINUTE + self._second
        self.last = (hours.bit_length() - 1) * HOUR + (minutes.bit_length() - 1) * MINUTE
        self.last += seconds.bit_length() - 1

    def at_or_after(self, time: int) -> int:
        """Return the first member not before a second of the day, or -1."""
        if self._is_on_the_minute:
            hour, minute = divmod((time + 59) // MINUTE, 60)
        else:
            hour, rest = divmod(time, HOUR)
            minute, second = divmod(rest, MINUTE)
            if self._hour_from[hour] == hour and self._minute_from[minute] == minute:
                second = self._second_from[second]
                if second >= 0:
                    return hour * HOUR + minute * MINUTE + second
            minute += 1
        if self._hour_from[hour] == hour:
            minute = self._minute_from[minute]
            if minute >= 0:
                return hour * HOUR + minute * MINUTE + self._second
        hour = self._hour_from[hour + 1]
        return hour * HOUR + self._minute * MINUTE + self._second if hour >= 0 else -1

    def at_or_before(self, time: int) -> int:
        """Return the last member not after a second of the day, or -1."""
        hours = previous_table(self.hours, 24)
        minutes, seconds = previous_table(self.minutes, 60), previous_table(self.seconds, 60)
        hour, rest = divmod(time, HOUR)
        minute, second = divmod(rest, MINUTE)
        if hours[hour] == hour:
            if minutes[minute] == minute and seconds[second] >= 0:
                return hour * HOUR + minute * MINUTE + seconds[second]
            minute = minutes[minute - 1] if minute else -1
            if minute >= 0:
                return hour * HOUR + minute * MINUTE + seconds[59]
        hour = hours[hour - 1] if hour else -1
        return hour * HOUR + minutes[59] * MINUTE + seconds[59] if hour >= 0 else -1

    @property
    def bitmap(self) -> int:
        """All seconds of the day as a bitmap."""
        return _repeated(self.hours, _repeated(self.minutes, self.seconds, MINUTE), HOUR)

    def members(self, start: int = 0, end: int = DAY) -> Iterable[int]:
        """Return the members in [start, end), in order: from a list if they are few."""
        if self.size > LISTED_MAX:
            return self._stepped(start, end)
        listed = _listed(self.hours, self.minutes, self.seconds)
        if start <= 0 and end >= DAY:
            return listed
        return listed[bisect_left(listed, start) : bisect_left(listed, end)]

    def _stepped(self, start: int, end: int) -> Iterator[int]:
        time = self.at_or_after(max(start, 0))
        while 0 <= time < end:
            yield time
            time = self.at_or_after(time + 1) if time + 1 < DAY else -1

    def count_before(self, time: int) -> int:
        """Return how many members lie before a second of the day (0..86,400)."""
        hour, rest = divmod(time, HOUR)
        minute, second = divmod(rest, MINUTE)
        seconds, minutes = self.seconds.bit_count(), self.minutes.bit_count()
        total = (self.hours & (1 << hour) - 1).bit_count() * minutes * seconds
        if self.hours >> hour & 1:
            total += (self.minutes & (1 << minute) - 1).bit_count() * seconds
            if self.minutes >> minute & 1:
                total += (self.seconds & (1 << second) - 1).bit_count()
        return total


@lru_cache(maxsize=256)
def _listed(hours: int, minutes: int, seconds: int) -> tuple[int, ...]:
    """List times of day, once for all rules that share them; a list of minutes is large."""
    times = TimesOfDay(hours, minutes, seconds)
    return tuple(times._stepped(0, DAY))  # noqa: SLF001 - its own class


@lru_cache(maxsize=1024)
def _repeated(mask: int, pattern: int, distance: int) -> int:
    """Repeat a pattern of bits at each member of a mask."""
    bits = 0
    for number in range(mask.bit_length()):
        if mask >> number & 1:
            bits |= pattern << number * distance
    return bits


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
