"""Parts of descriptions: lists, ordinals, weekdays, sets of times of day.

A set of times is hours x minutes x seconds. A set whose members are evenly spaced is a progression
("every 15 minutes from 08:00 to 16:45"). A set of a few times is listed. Any other is described
level by level ("at minutes 5 and 17 of hours 8 to 12"). Every wording names its set exactly.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from duly.timetable.instants import DAY, HOUR, MINUTE
from duly.timetable.time_sets import TimesOfDay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.timetable.timetable import Zoned


WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "",
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_REPETITION = re.compile(r"every (?:\d+ )?(?:hour|minute|second)s?")
WORKDAYS_MASK = 0b0011111
WEEKEND_MASK = 0b1100000


def join(items: Sequence[str], word: str = "and") -> str:
    """Join items as a person would: "a", "a and b", "a, b and c"."""
    if len(items) <= 1:
        return "".join(items)
    return f"{', '.join(items[:-1])} {word} {items[-1]}"


def ordinal(number: int) -> str:
    """Return 1st, 2nd, 3rd, 4th, 11th, 22nd; negative numbers count from the end: -1 is "last"."""
    if number == -1:
        return "last"
    if number < 0:
        return f"{ordinal(-number)} last"
    suffix = (
        "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    )
    return f"{number}{suffix}"


def plural(number: int, unit: str) -> str:
    """Return "1 minute", "15 minutes"."""
    return f"{number:,} {unit}" if number == 1 else f"{number:,} {unit}s"


def clock(hour: int, minute: int, second: int = 0) -> str:
    """Return a time of day in 24 hours, with seconds only where there are any."""
    return f"{hour:02}:{minute:02}:{second:02}" if second else f"{hour:02}:{minute:02}"


def clock_of(time: int) -> str:
    """Return a second of the day as a time."""
    return clock(time // HOUR, time // MINUTE % 60, time % MINUTE)


def members(mask: int) -> list[int]:
    """Return the numbers in a bitmask, in order."""
    return [number for number in range(mask.bit_length()) if mask >> number & 1]


def runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Group sorted numbers into (first, last) stretches without holes."""
    stretches: list[tuple[int, int]] = []
    for number in numbers:
        if stretches and number == stretches[-1][1] + 1:
            stretches[-1] = (stretches[-1][0], number)
        else:
            stretches.append((number, number))
    return stretches


def weekdays(mask: int) -> str:
    """Name a set of weekdays (bit 0 is Monday): "weekday", "Monday and Friday"."""
    if mask == WORKDAYS_MASK:
        return "weekday"
    if mask == WEEKEND_MASK:
        return "Saturday and Sunday"
    return join(stretches(members(mask), WEEKDAYS))


def months(mask: int) -> str:
    """Name a set of months (bit 1 is January)."""
    return join(stretches(members(mask), MONTHS))


def stretches(numbers: Sequence[int], names: Sequence[str]) -> list[str]:
    """Name numbers, and three or more in a row by their ends: "Monday to Thursday"."""
    named = []
    for first, last in runs(numbers):
        if last - first >= 2:
            named.append(f"{names[first]} to {names[last]}")
        else:
            named += [names[number] for number in range(first, last + 1)]
    return named


def spoken(instant: datetime) -> str:
    """Say an instant as "2026-04-03 at 09:00 (+02:00)"; UTC by its name."""
    text = f"{instant:%Y-%m-%d at %H:%M:%S}".removesuffix(":00")
    if instant.utcoffset() == timedelta(0):
        return f"{text} (UTC)"
    offset = instant.isoformat().removeprefix(instant.replace(tzinfo=None).isoformat())
    return f"{text} ({offset})" if instant.tzinfo else text


def placed(words: str, rule: Zoned) -> str:
    """Add the zone; say "on the wall clock" where a repetition pauses while clocks go back."""
    is_endless = _REPETITION.fullmatch(words) is not None
    counts_all = (rule.local.gap, rule.local.fold) == ("skip", "both")
    if is_endless and not counts_all and rule.local.zone.changes_every_year:
        words += " on the wall clock"
    return f"{words} ({rule.tz})"


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
