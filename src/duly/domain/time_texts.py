"""How instants and distances are written for people: to the second, and in their largest units."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from duly.domain.durations import UNITS_US
from duly.domain.instants import iso_utc, to_microseconds


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
