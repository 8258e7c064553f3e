"""Sets of times of day as cron fields: each is divided into a few products of hours and minutes."""

from __future__ import annotations

from dataclasses import dataclass

from duly.domain.instants import DAY, HOUR, MINUTE
from duly.domain.language.sentence import Window
from duly.domain.language.tokens import NotUnderstoodError
from duly.domain.timetable.phrases import members, runs

ALL_DAY = Window(0, DAY - 1, is_exact=True)


@dataclass(frozen=True, slots=True)
class ClockSet:
    """All times whose hour, minute and second are members of three bitmasks.

    `is_interval` marks times that stand for "every so often" and were not named one by one: they
    are written with a star where they can be, which is how cron knows them.
    """

    hours: int
    minutes: int
    seconds: int = 1
    is_interval: bool = False

    @property
    def fields(self) -> str:
        """Return the fields of a cron expression for seconds (if any), minutes and hours."""
        star = self.is_interval
        text = f"{field_text(self.minutes, 60, star=star)} {field_text(self.hours, 24, star=star)}"
        return text if self.seconds == 1 else f"{field_text(self.seconds, 60, star=star)} {text}"

    @property
    def first(self) -> tuple[int, int, int]:
        """The first hour, minute and second."""
        return members(self.hours)[0], members(self.minutes)[0], members(self.seconds)[0]


def named_times(times: list[int]) -> list[ClockSet]:
    """Divide times of day that were named one by one."""
    minutes_of: dict[tuple[int, int], int] = {}
    for time in times:
        key = time % MINUTE, time // HOUR
        minutes_of[key] = minutes_of.get(key, 0) | 1 << time // MINUTE % 60
    hours_of: dict[tuple[int, int], int] = {}
    for (second, hour), minutes in sorted(minutes_of.items()):
        hours_of[second, minutes] = hours_of.get((second, minutes), 0) | 1 << hour
    return [ClockSet(hours, minutes, 1 << second) for (second, minutes), hours in hours_of.items()]


def stepped_times(step: int, within: Window) -> list[ClockSet]:
    """Divide the times of a window, every `step` seconds from its start on, its end included."""
    if within.end < within.start:
        # Beyond midnight: count on from the evening, so that the steps don't start afresh at 00:00.
        early = within.start + -(-(DAY - within.start) // step) * step - DAY
        evening = stepped_times(step, Window(within.start, DAY - 1, within.is_exact))
        morning = Window(early, within.end, within.is_exact)
        return evening + (stepped_times(step, morning) if early <= within.end else [])
    if step % MINUTE == 0 and within.start % MINUTE == 0:
        return _minute_steps(
            range(within.start // MINUTE, within.end // MINUTE + 1, step // MINUTE)
        )
    if MINUTE % step == 0 and within.start % MINUTE == 0 and (within.end + 1) % MINUTE in (0, 1):
        return _second_steps(step, within)
    remedy = "step by whole minutes, or by seconds that divide a minute, and start on a minute"
    raise NotUnderstoodError("has a distance that does not fit the clock", remedy)


def _minute_steps(minutes_of_day: range, seconds: int = 1) -> list[ClockSet]:
    minutes_of: dict[int, int] = {}
    for minute in minutes_of_day:
        minutes_of[minute // 60] = minutes_of.get(minute // 60, 0) | 1 << minute % 60
    hours_of: dict[int, int] = {}
    for hour, minutes in minutes_of.items():
        hours_of[minutes] = hours_of.get(minutes, 0) | 1 << hour
    return [
        ClockSet(hours, minutes, seconds, is_interval=True) for minutes, hours in hours_of.items()
    ]


def _second_steps(step: int, within: Window) -> list[ClockSet]:
    seconds = sum(1 << second for second in range(0, 60, step))
    end = within.end // MINUTE
    if within.end % MINUTE:
        return _minute_steps(range(within.start // MINUTE, end + 1), seconds)
    steps = _minute_steps(range(within.start // MINUTE, end), seconds)
    return steps + _minute_steps(range(end, end + 1))


def field_text(mask: int, size: int, low: int = 0, *, star: bool = False) -> str:
    """Write a bitmask as a cron field; with a star only if asked, as that changes its meaning."""
    numbers = members(mask)
    step = numbers[1] - numbers[0] if len(numbers) > 1 else 0
    if star and step and numbers == list(range(low, size, step)) and size % step == 0:
        return "*" if step == 1 else f"*/{step}"
    texts = []
    for first, last in runs(numbers):
        texts += [str(first)] if first == last else [f"{first}-{last}"]
    return ",".join(texts)
