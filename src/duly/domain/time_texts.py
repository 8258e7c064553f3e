"""How instants and distances are written for people: to the second, and in their largest units."""

from __future__ import annotations

from datetime import UTC, datetime

from duly.domain.durations import UNITS_US
from duly.domain.instants import iso_utc, to_microseconds


def utc_text(instant: datetime | None) -> str:
    """Write an instant in UTC, to the second; a dash when there is none."""
    return "-" if instant is None else iso_utc(instant.astimezone(UTC).replace(microsecond=0))


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
