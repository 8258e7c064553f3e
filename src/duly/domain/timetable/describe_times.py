"""Times of day in words: which of the many ways of saying a set of times is the shortest true one.

A set of times is hours x minutes x seconds. Where its members lie at one distance from each other
it is a progression ("every 15 minutes from 08:00 to 16:45"); a few are listed; the rest is said
level by level ("at minutes 5 and 17 of hours 8 to 12"). Every wording names its set exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from duly.domain.instants import DAY, HOUR, MINUTE
from duly.domain.timetable.phrases import (
    clock,
    clock_of,
    join,
    members,
    ordinal,
    plural,
    runs,
    stretches,
)
from duly.domain.timetable.times import TimesOfDay

LISTED_MAX = 4
LISTED_IRREGULAR_MAX = 8
STRETCHES_MAX = 3
STEPPED_MIN = 4
"""So many numbers at one distance read better by their ends than as a list."""

_ALL_HOURS = (1 << 24) - 1
_ALL_SIXTY = (1 << 60) - 1
_NUMBERS = [str(number) for number in range(60)]


@dataclass(frozen=True, slots=True)
class TimesPhrase:
    """The words for a set of times; `is_list` if they are named times: "at 09:00 and 18:00"."""

    text: str
    is_list: bool


@dataclass(frozen=True, slots=True)
class Progression:
    """Seconds of the day from `first` to `last`, each `step` after the one before."""

    first: int
    last: int
    step: int

    @property
    def is_even(self) -> bool:
        """Whether it goes on at the same distance across midnight."""
        return self.last + self.step - self.first == DAY


def describe_times(times: TimesOfDay) -> TimesPhrase:
    """Say which times of day are meant."""
    progression = _progression(times)
    if progression:
        return _regular(progression)
    if times.size <= LISTED_IRREGULAR_MAX:
        return TimesPhrase(f"at {join(_clocks(times))}", is_list=True)
    return TimesPhrase(_several(times) or _by_level(times), is_list=False)


def describe_listed(times: list[int]) -> TimesPhrase | None:
    """Say times that are no product of hours and minutes, sorted; None if there is no short way."""
    steps = {after - before for before, after in pairwise(times)}
    if len(steps) == 1:
        return _regular(Progression(times[0], times[-1], steps.pop()))
    if len(times) <= LISTED_IRREGULAR_MAX:
        return TimesPhrase(f"at {join([clock_of(time) for time in times])}", is_list=True)
    return None


def _regular(progression: Progression) -> TimesPhrase:
    """Say a progression: round the clock, as a short list, or by its ends."""
    first, last, step = progression.first, progression.last, progression.step
    size = (last - first) // step + 1 if step else 1
    even = _even(progression) if progression.is_even and size > 2 else None
    if even:
        return TimesPhrase(even, is_list=False)
    if size <= LISTED_MAX:
        clocks = [clock_of(first + step * place) for place in range(size)]
        return TimesPhrase(f"at {join(clocks)}", is_list=True)
    return TimesPhrase(f"{_every(step)} {_ends(progression)}", is_list=False)


def number_set(numbers: list[int], names: list[str]) -> str:
    """Name numbers by their stretches: "1, 5 to 9 and 12"."""
    return join(stretches(numbers, names))


def step_of(numbers: list[int]) -> int | None:
    """Return the distance of numbers that lie evenly, if they are many and not neighbours."""
    distances = {after - before for before, after in pairwise(numbers)}
    if len(numbers) < STEPPED_MIN or len(distances) != 1 or distances == {1}:
        return None
    return distances.pop()


def _progression(times: TimesOfDay) -> Progression | None:
    """Return the set as a progression, if it is one; decided level by level."""
    hours, minutes, seconds = members(times.hours), members(times.minutes), members(times.seconds)
    if times.size == 1:
        return Progression(times.first, times.first, 0)
    hour_round = 60 if len(hours) > 1 else None
    minute_round = 60 if len(minutes) > 1 else hour_round
    # The finest level that has several members sets the step; those above it must follow on.
    if len(seconds) > 1:
        levels, unit = [(seconds, minute_round), (minutes, hour_round), (hours, None)], 1
    elif len(minutes) > 1:
        levels, unit = [(minutes, hour_round), (hours, None)], MINUTE
    else:
        levels, unit = [(hours, None)], HOUR
    step, *above = [_distance(numbers, around) for numbers, around in levels]
    if step is None or any(distance not in (0, 1) for distance in above):
        return None
    return Progression(times.first, times.last, step * unit)


def _distance(numbers: list[int], around: int | None) -> int | None:
    """Return the one distance between numbers (0 for a single one), also around the end."""
    distances = {after - before for before, after in pairwise(numbers)}
    if around:
        distances.add(numbers[0] + around - numbers[-1])
    if len(distances) > 1:
        return None
    return distances.pop() if distances else 0


def _every(step: int) -> str:
    size, unit = next(
        (size, unit)
        for size, unit in ((HOUR, "hour"), (MINUTE, "minute"), (1, "second"))
        if step % size == 0
    )
    return f"every {unit}" if step == size else f"every {plural(step // size, unit)}"


def _even(progression: Progression) -> str | None:
    """Say a progression that runs round the clock; None if its start needs to be said otherwise."""
    first, step = progression.first, progression.step
    if first == 0:
        return _every(step)
    if step == HOUR and first % MINUTE == 0:
        return f"at minute {first // MINUTE} of every hour"
    if step == MINUTE:
        return f"at second {first} of every minute"
    return None


def _ends(progression: Progression) -> str:
    return f"from {clock_of(progression.first)} to {clock_of(progression.last)}"


def _clocks(times: TimesOfDay) -> list[str]:
    return [
        clock(hour, minute, second)
        for hour in members(times.hours)
        for minute in members(times.minutes)
        for second in members(times.seconds)
    ]


def _several(times: TimesOfDay) -> str | None:
    """Say a set as a few progressions of one step, one for each stretch of hours."""
    stretched = runs(members(times.hours))
    if not 2 <= len(stretched) <= STRETCHES_MAX:
        return None
    steps: set[int] = set()
    ends = []
    for first, last in stretched:
        hours = (2 << last) - (1 << first)
        part = TimesOfDay(hours, times.minutes, times.seconds)
        if part.size == 1:
            ends.append(f"at {clock_of(part.first)}")
            continue
        progression = _progression(part)
        if not progression:
            return None
        steps.add(progression.step)
        ends.append(_ends(progression))
    return f"{_every(steps.pop())} {join(ends)}" if len(steps) == 1 else None


def _by_level(times: TimesOfDay) -> str:
    """Say seconds, minutes and hours one after the other."""
    hours = "every hour" if times.hours == _ALL_HOURS else _level(times.hours, "hour")
    minutes = "every minute" if times.minutes == _ALL_SIXTY else _level(times.minutes, "minute")
    if times.minutes == _ALL_SIXTY and times.hours == _ALL_HOURS:
        within = minutes
    else:
        within = f"{minutes} of {hours}"
    if times.seconds == 1:
        return within if minutes == "every minute" else f"at {within}"
    if times.seconds == _ALL_SIXTY:
        return f"every second of {within}"
    return f"at {_level(times.seconds, 'second')} of {within}"


def _level(mask: int, unit: str) -> str:
    numbers = members(mask)
    step = step_of(numbers)
    if step:
        return f"every {ordinal(step)} {unit} from {numbers[0]} to {numbers[-1]}"
    return f"{unit if len(numbers) == 1 else unit + 's'} {number_set(numbers, _NUMBERS)}"
