"""Moments as people type them: ISO times, now, today, tomorrow, +10m."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from duly.domain.durations import duration_microseconds
from duly.domain.instants import to_microseconds
from duly.domain.timetable.interval import FIRST_INSTANT, LAST_INSTANT
from duly.domain.timetable.once import at
from duly.domain.zones.database import default_zones
from duly.errors import UsageError, require_text

MOMENT_LENGTH_MAX = 60

_DAY = re.compile(
    r"(?P<day>today|tomorrow)(?: +(?:at +)?(?P<hour>[0-9]{1,2})(?::(?P<minute>[0-5][0-9]))?"
    r" *(?P<half>am|pm)?)?"
)


def moment_from(text: str, tz: str, now: datetime, field: str) -> datetime:
    """Read a moment; wall times and days are meant in `tz`."""
    require_text(field, text, MOMENT_LENGTH_MAX)
    words = text.strip().lower()
    if words == "now":
        return now
    if (spoken := _DAY.fullmatch(words)) is not None:
        today = local_date(now, tz) + timedelta(days=spoken["day"] == "tomorrow")
        hour, minute = _clock(spoken, text, field)
        day = datetime(today.year, today.month, today.day, hour, minute)  # noqa: DTZ001
        return _instant_of(day, tz)
    ways = "give such as 2026-11-18T09:00, now, today, tomorrow 9am, +2d or -2h"
    if words.startswith(("+", "-")):
        if words[1:].lstrip().startswith(("+", "-")):  # ahead or ago, but not both
            raise UsageError(field, text, "has two signs, so it is not a moment", ways)
        return now + timedelta(microseconds=duration_microseconds(words.removeprefix("+"), field))
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        remedy = f"{ways}; without an offset it is meant in {tz}"
        raise UsageError(field, text, "is not a moment", remedy) from error
    remedy = "give a date from 0001-01-03 to 9999-12-29"
    try:
        instant = moment.astimezone(UTC) if moment.tzinfo else _instant_of(moment, tz)
    except (OverflowError, UsageError) as error:
        raise UsageError(field, text, "is out of the calendar", remedy) from error
    if not FIRST_INSTANT <= to_microseconds(instant) <= LAST_INSTANT:
        raise UsageError(field, text, "is out of the calendar", remedy)
    return instant


def _clock(spoken: re.Match[str], text: str, field: str) -> tuple[int, int]:
    """Return hour and minute of a day as they were said; midnight if they were not."""
    if spoken["hour"] is None:
        return 0, 0
    hour, half = int(spoken["hour"]), spoken["half"]
    if not (1 <= hour <= 12 if half else hour <= 23):
        raise UsageError(field, text, "is no time of day", "give such as tomorrow 9am or 17:30")
    hour = hour % 12 + 12 * (half == "pm") if half else hour
    return hour, int(spoken["minute"] or 0)


def local_date(instant: datetime, tz: str) -> date:
    """Return the date that a zone's calendar shows at an instant."""
    segment = default_zones().zone(tz).segment(int(instant.timestamp()))
    return (instant.astimezone(UTC) + timedelta(seconds=segment.offset)).date()


def _instant_of(wall: datetime, tz: str) -> datetime:
    """Return the instant of a wall time; one that a gap swallows is the first moment after it."""
    whole = at(wall.replace(microsecond=0), tz=tz).next(datetime.min.replace(tzinfo=UTC))
    assert whole is not None, "every wall time has an instant under the default policies"
    return whole + timedelta(microseconds=wall.microsecond)
