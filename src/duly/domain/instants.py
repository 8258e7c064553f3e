"""Instants and days as integers: aware datetimes at the edge, whole numbers since 1970 inside."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

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
