"""The words that descriptions are made of: lists, ordinals, days, months and times of day."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from duly.domain.instants import HOUR, MINUTE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.timetable.timetable import Zoned

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
