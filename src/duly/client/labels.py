"""Labels: how a run is called by people, such as `nightly-report@2026-04-03T02:00+02:00` (R1).

A label names a moment exactly, in the schedule's own zone; it can be typed back in look-ups. It is
not an identity: a renamed schedule, or a rerun, may share one.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from duly.domain.instants import SECOND_US, from_microseconds, to_microseconds
from duly.domain.zones.database import default_zones

SEPARATOR = "@"


def run_label(name: str, instant: int, tz: str | None) -> str:
    """Return a run's label: in a zone's own time with its offset, or in UTC with a Z."""
    if tz is None or tz == "UTC":
        return (
            f"{name}{SEPARATOR}{_moment(from_microseconds(instant))}".removesuffix("+00:00") + "Z"
        )
    return f"{name}{SEPARATOR}{_moment(local_moment(instant, tz))}"


def read_label(text: str) -> tuple[str, int] | None:
    """Return a label's name and instant; None when the text is not a label."""
    name, separator, moment = text.rpartition(SEPARATOR)
    if not (name and separator):
        return None
    try:
        instant = datetime.fromisoformat(moment)
    except ValueError:
        return None
    return (name, to_microseconds(instant)) if instant.utcoffset() is not None else None


def local_moment(instant: int, tz: str) -> datetime:
    """Return an instant as the clock on the wall of a zone shows it, with its offset."""
    offset = default_zones().zone(tz).segment(instant // SECOND_US).offset
    return from_microseconds(instant).astimezone(timezone(timedelta(seconds=offset)))


def _moment(moment: datetime) -> str:
    """Write minutes alone where that is exact, and as much more as it takes where it is not."""
    if moment.microsecond:
        return moment.isoformat()
    return moment.isoformat(timespec="seconds" if moment.second else "minutes")
