"""How commands write times: never without a zone, and a distance beside it where that helps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from duly.domain.instants import SECOND_US, to_microseconds
from duly.domain.time_texts import clock_name_and_offset, distance_text, units_text
from duly.domain.zones.database import default_zones

_MILLISECOND_US = 1000
_ONE_PERCENT = 0.01


def exact_text(instant: datetime | None) -> str:
    """Write an instant in UTC, to the millisecond; a dash when there is none."""
    if instant is None:
        return "-"
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def zoned_text(instant: datetime | None, tz: str) -> str:
    """Write an instant as the clock on the wall of a zone shows it; a dash when there is none."""
    if instant is None:
        return "-"
    segment = default_zones().zone(tz).segment(to_microseconds(instant) // SECOND_US)
    local = instant.astimezone(timezone(timedelta(seconds=segment.offset)))
    return wall_text(local, segment.abbreviation)


def wall_text(local: datetime, abbreviation: str) -> str:
    """Write a local time with its zone: "Mon 2026-11-02 02:30 CET (+01:00)"."""
    seconds = local.second or local.microsecond
    clock = f"{local:%H:%M:%S}" if seconds else f"{local:%H:%M}"
    zone = clock_name_and_offset(abbreviation, local.utcoffset() or timedelta())
    return f"{local:%a %Y-%m-%d} {clock} {zone}"


def relative_text(now: datetime, then: datetime | None) -> str:
    """Say how far ahead or back an instant is: "in 2 d 3 h", "5 min ago"."""
    if then is None:
        return "-"
    if then >= now:
        return f"in {distance_text(now, then)}"
    return f"{distance_text(then, now)} ago"


def lateness_text(late: timedelta | None) -> str:
    """Say how late something was: milliseconds below a second, else its two largest units."""
    if late is None:
        return "-"
    late_us = late // timedelta(microseconds=1)
    if late_us < SECOND_US:
        return f"{late_us / _MILLISECOND_US:.1f} ms"
    return units_text(late_us)


def share_text(share: float) -> str:
    """Say a part of a whole in percent; a little is not nothing."""
    return "<1%" if 0 < share < _ONE_PERCENT else f"{share:.0%}"
