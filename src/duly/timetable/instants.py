"""Instants and durations: microseconds, aware datetimes, "1h30m", ISO text, distances in words."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone
from typing import NoReturn

from duly.errors import UsageError

SECOND_US = 1_000_000
MINUTE = 60
HOUR = 3600
DAY = 86_400
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
CYCLE_YEARS = 400
CYCLE_DAYS = 146_097
"""The Gregorian calendar repeats itself, weekdays included, every 400 years."""

YEAR_MIN = 1
YEAR_MAX = 9999
FIRST_DAY = date.min.toordinal() - EPOCH_ORDINAL + 2
LAST_DAY = date.max.toordinal() - EPOCH_ORDINAL - 2
"""Two days are left at either end, so that no zone's offset leads out of the calendar."""

_MONTH_DAYS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def to_microseconds(instant: datetime, field: str = "after") -> int:
    """Return an aware instant as microseconds since 1970; refuse a naive one."""
    try:
        since = instant - EPOCH
    except TypeError as error:
        problem = "has no time zone" if isinstance(instant, datetime) else "is not a datetime"
        remedy = "give an aware datetime, for example datetime.now(UTC)"
        raise UsageError(field, instant, problem, remedy) from error
    return (since.days * DAY + since.seconds) * SECOND_US + since.microseconds


def from_microseconds(microseconds: int) -> datetime:
    """Return microseconds since 1970 as an aware UTC datetime."""
    return EPOCH + timedelta(0, 0, microseconds)


def from_seconds(seconds: int) -> datetime:
    """Return seconds since 1970 as an aware UTC datetime."""
    # The first is faster, but not every system's C library goes back before 1970.
    return datetime.fromtimestamp(seconds, UTC) if seconds > 0 else EPOCH + timedelta(0, seconds)


def iso_utc(instant: datetime) -> str:
    """Write an instant in UTC as programs expect it: 2026-04-03T07:00:00Z."""
    return instant.isoformat().replace("+00:00", "Z")


def moment_or_none(microseconds: int | None) -> datetime | None:
    """Return what may not have been yet as `from_microseconds` does."""
    return None if microseconds is None else from_microseconds(microseconds)


def iso_or_none(instant: datetime | None) -> str | None:
    """Write what may not have been yet as `iso_utc` does."""
    return None if instant is None else iso_utc(instant)


def as_day(value: object) -> date | None:
    """Return a date, or an ISO text of one, as a date; None for anything else."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        return date.fromisoformat(value) if isinstance(value, str) and len(value) == 10 else None
    except ValueError:
        return None


def wall_seconds(wall: datetime) -> int:
    """Return a naive wall time as seconds since 1970, as if it were UTC."""
    day = wall.toordinal() - EPOCH_ORDINAL
    return day * DAY + wall.hour * HOUR + wall.minute * MINUTE + wall.second


def wall_datetime(wall: int) -> datetime:
    """Return wall seconds as a naive datetime."""
    return datetime(1970, 1, 1) + timedelta(0, wall)  # noqa: DTZ001 - a wall time has no zone


def year_of(day: int) -> int:
    """Return the year in which a day since 1970 lies."""
    return date.fromordinal(day + EPOCH_ORDINAL).year


def first_day_of(year: int) -> int:
    """Return a year's first of January, in days since 1970."""
    return date(year, 1, 1).toordinal() - EPOCH_ORDINAL


def is_leap(year: int) -> bool:
    """Say whether a year has a 29th of February."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_in_month(year: int, month: int) -> int:
    """Return how many days a month has."""
    return 29 if month == 2 and is_leap(year) else _MONTH_DAYS[month]  # February


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


def utc_text(instant: datetime | None) -> str:
    """Write an instant in UTC, to the second; a dash when there is none."""
    return "-" if instant is None else iso_utc(instant.astimezone(UTC).replace(microsecond=0))


def clock_name(abbreviation: str, offset: timedelta) -> str:
    """Name the clock on a zone's wall: its own letters, such as CET, or UTC+05:30 if it has none.

    The one way in which a time says whose it is; beside the letters an offset may stand, too.
    """
    if abbreviation.isalpha():
        return abbreviation
    return f"UTC{offset_text(offset)}" if offset else "UTC"


def clock_name_and_offset(abbreviation: str, offset: timedelta) -> str:
    """Name the clock on a zone's wall with what it is off UTC: CET (+01:00), or UTC+05:30."""
    name = clock_name(abbreviation, offset)
    return f"{name} ({offset_text(offset)})" if abbreviation.isalpha() else name


def offset_text(offset: timedelta) -> str:
    """Write what a clock is off UTC: +01:00; of long ago also to the second."""
    return datetime(2000, 1, 1, tzinfo=timezone(offset)).isoformat()[19:]


def distance_text(start: datetime, end: datetime) -> str:
    """Say a distance in its two largest units: "2 d 3 h"."""
    return units_text(to_microseconds(end) - to_microseconds(start)) or "less than 1 s"


def units_text(rest: int) -> str:
    """Write microseconds in their two largest units; nothing below a second."""
    parts: list[tuple[int, str]] = []
    for unit, name in (("d", "d"), ("h", "h"), ("m", "min"), ("s", "s")):
        number, rest = divmod(rest, UNITS_US[unit])
        if number or parts:
            parts.append((number, name))
    return " ".join(f"{number:,} {name}" for number, name in parts[:2] if number)
