"""Instants as they are typed and printed, and previews of what a rule brings."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from duly.cli.output import print_aside, print_line, print_table
from duly.clock import SystemClock
from duly.errors import UsageError
from duly.timetable.instants import (
    SECOND_US,
    clock_name_and_offset,
    distance_text,
    iso_utc,
    to_microseconds,
    units_text,
)
from duly.timetable.language.detect import moment_from, needs_zone
from duly.timetable.preview import Preview
from duly.timetable.zones import default_zones

if TYPE_CHECKING:
    from duly.clock import Clock


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


def read_moment(text: str, tz: str, clock: Clock, field: str) -> datetime:
    """Read a moment; wall times and days are meant in `tz`."""
    return moment_from(text, tz, clock.now(), field)


def read_local_moment(text: str, field: str, *, as_json: bool) -> datetime:
    """Read a moment; wall times and days are meant in the zone of this machine, which is told."""
    moment = local_moment(text, field)
    note_local_moment(text, moment, field, as_json=as_json)
    return moment


def local_moment(text: str, field: str) -> datetime:
    """Read a moment; wall times and days are meant in the zone of this machine."""
    tz = machine_zone() if needs_zone(text) else "UTC"
    return read_moment(text, tz, SystemClock(), field)


def note_local_moment(text: str, moment: datetime, field: str, *, as_json: bool) -> None:
    """Say in which zone a moment was meant, if it is another one elsewhere."""
    if not needs_zone(text):
        return
    tz, option = machine_zone(), f"--{field.removeprefix('--')}"
    meant = f"{option} {text} is {zoned_text(moment, tz)} in {tz}, the zone of this machine"
    print_aside("note", f"{meant}; an ISO time with an offset names any other", as_json=as_json)


ETC = Path("/etc")
"""Where the system keeps which zone it is set to."""


def machine_zone(etc: Path = ETC) -> str:
    """Return the IANA name of this machine's zone: $TZ, else what the system is set to."""
    said, link, file = os.environ.get("TZ"), etc / "localtime", etc / "timezone"
    if said is not None:
        source, name = "$TZ", said.removeprefix(":") or "UTC"
    elif link.is_symlink():
        source, name = str(link), str(link.resolve())
    elif file.is_file():
        source, name = str(file), file.read_text("utf-8").strip()
    elif link.exists():
        source, name = str(link), "a file without a name"
    else:
        return "UTC"  # as the C library has it
    name = name.rpartition("zoneinfo/")[2]
    try:
        return default_zones().zone(name).key
    except UsageError as error:
        problem = f"is this machine's zone ({source}), and no IANA name"
        remedy = "set TZ, such as TZ=Europe/Paris, or give an ISO time with an offset"
        raise UsageError("tz", name, problem, remedy) from error


QUIET_CHANGES_MAX = 3


def print_occurrences(found: Preview, *, is_from_now: bool, since: datetime | None = None) -> None:
    """Print the occurrences as a table, with their distance from `since`, or the preview's start.

    A star marks what a clock change touches.
    """
    sign = "in" if is_from_now else "+"
    rows = [
        (
            wall_text(occurrence.local, occurrence.abbreviation)
            + (" *" if occurrence.change else ""),
            iso_utc(occurrence.utc),
            f"{sign} {distance_text(since or found.after, occurrence.utc)}",
        )
        for occurrence in found.occurrences
    ]
    print_table((f"local time ({found.tz})", "UTC", "distance"), rows)


def print_changes(found: Preview) -> None:
    """Print what clock changes do: those that touch an occurrence, then a few that do not."""
    for change in found.changes:
        if change.affects:
            print_line(("* ", "bold yellow"), change.text)
    quiet = [change for change in found.changes if not change.affects]
    for change in quiet[:QUIET_CHANGES_MAX]:
        print_line((f"  {change.text}", "dim"))
