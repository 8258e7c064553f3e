"""Durations as people write them: "90s", "15m", "1h30m", "2d", "250ms"."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import NoReturn

from duly.domain.instants import DAY, HOUR, MINUTE, SECOND_US
from duly.errors import UsageError

UNITS_US = {
    "us": 1,
    "ms": 1000,
    "s": SECOND_US,
    "m": MINUTE * SECOND_US,
    "h": HOUR * SECOND_US,
    "d": DAY * SECOND_US,
    "w": 7 * DAY * SECOND_US,
}
UNIT_NAMES = {
    "d": "day",
    "h": "hour",
    "m": "minute",
    "s": "second",
    "ms": "millisecond",
    "us": "microsecond",
}
DURATION_MAX_US = 36_600 * DAY * SECOND_US
_PART = re.compile(r" *([0-9]{1,12}) *(us|ms|s|m|h|d|w)")
_WHOLE = re.compile(rf" *-?(?:{_PART.pattern})+ *")
LENGTH_MAX = 100


def duration_microseconds(duration: str | timedelta, field: str) -> int:
    """Return a duration in microseconds; refuse what is not one, or longer than a century."""
    if isinstance(duration, timedelta):
        total = duration // timedelta(microseconds=1)
        if abs(total) > DURATION_MAX_US:
            _refuse(field, duration, "is longer than a century")
        return total
    text = duration if isinstance(duration, str) and len(duration) <= LENGTH_MAX else ""
    if not _WHOLE.fullmatch(text):
        _refuse(field, duration, "is not a duration")
    sign = -1 if "-" in text else 1
    total = sum(int(number) * UNITS_US[unit] for number, unit in _PART.findall(text))
    if total > DURATION_MAX_US:
        _refuse(field, duration, "is longer than a century")
    return sign * total


def duration_text(microseconds: int) -> str:
    """Write a duration as it is read: "1h30m"."""
    text = ""
    rest = abs(microseconds)
    for unit in UNIT_NAMES:
        number, rest = divmod(rest, UNITS_US[unit])
        text += f"{number}{unit}" if number else ""
    return f"{'-' if microseconds < 0 else ''}{text or '0s'}"


def duration_words(microseconds: int) -> str:
    """Say a duration in words: "1 hour 30 minutes"."""
    words = []
    rest = abs(microseconds)
    for unit, name in UNIT_NAMES.items():
        number, rest = divmod(rest, UNITS_US[unit])
        if number:
            words.append(f"{number} {name}{'s' if number > 1 else ''}")
    return " ".join(words) or "no time"


def _refuse(field: str, value: object, problem: str) -> NoReturn:
    raise UsageError(field, value, problem, "write for example '30s', '15m', '1h30m' or '2d'")
