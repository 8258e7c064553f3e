"""`duly zones`: find a zone, and see what a release of the time-zone database changes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from duly.almanac.zone_files import ZoneFolder
from duly.cli.moments import read_moment
from duly.cli.output import console, print_json, print_table
from duly.clock import SystemClock
from duly.domain.instants import iso_utc
from duly.domain.zones.changes import ZoneChange, zone_changes
from duly.domain.zones.database import ZoneDatabase, default_zones
from duly.domain.zones.search import ZoneMatch, search_zones
from duly.errors import UsageError

NUMBER_DEFAULT = 10
WINDOW_DEFAULT_DAYS = 400
DAYS_MAX = 36_500

app = App(name="zones", help="Find time zones, and compare releases of the time-zone database.")


@app.command
def search(
    query: str,
    /,
    *,
    number: Annotated[int, Parameter(name=["--number", "-n"])] = NUMBER_DEFAULT,
    json: bool = False,
) -> None:
    """Find a zone by city, country, IANA name, alias, abbreviation or offset.

    Parameters
    ----------
    query
        For example berlin, japan, US/Eastern, CET or +05:30.
    number
        How many zones to show at the most.
    json
        Print JSON.
    """
    matches = search_zones(query, at=SystemClock().now(), limit=number)
    if json:
        print_json([_match_json(match) for match in matches])
        return
    if not matches:
        remedy = "try a larger city in the same zone, the country, or an offset such as +02:00"
        raise UsageError("query", query, "is not in the time-zone database", remedy)
    rows = [(match.key, _now(match), _offset(match.offset), match.why) for match in matches]
    print_table(("zone", "now", "offset", "why"), rows)


@app.command
def diff(  # noqa: PLR0913 - each option of the command is an argument
    old: str,
    new: str = "wheel",
    /,
    *,
    after: Annotated[str, Parameter(allow_leading_hyphen=True)] = "now",
    days: int = WINDOW_DEFAULT_DAYS,
    json: bool = False,
) -> None:
    """Show which zones differ between two releases of the time-zone database.

    Parameters
    ----------
    old
        A folder of compiled zones, such as /usr/share/zoneinfo, or "wheel" for the installed one.
    new
        The same, for the newer release.
    after
        From when on to compare.
    days
        For how many days.
    json
        Print JSON.
    """
    if not 1 <= days <= DAYS_MAX:
        raise UsageError("days", days, "is out of range", f"give 1 to {DAYS_MAX:,}")
    start = read_moment(after, "UTC", SystemClock(), "after")
    before, later = _database("old", old), _database("new", new)
    changes = zone_changes(before, later, start, start + timedelta(days=days))
    if json:
        versions = {"old": before.version, "new": later.version}
        print_json({**versions, "changes": [_change_json(change) for change in changes]})
        return
    out = console()
    out.print(f"{len(changes)} zones differ between {before.version} and {later.version}")
    for change in changes:
        out.print(f"  {_told(change)}")


def _database(field: str, place: str) -> ZoneDatabase:
    if place == "wheel":
        return default_zones()
    folder = Path(place)
    zones = ZoneDatabase(ZoneFolder(folder)) if folder.is_dir() else None
    if zones is None or not zones.keys:
        remedy = "name a folder of compiled zones, or wheel"
        raise UsageError(field, place, "holds no time zones", remedy)
    return zones


def _now(match: ZoneMatch) -> str:
    # Some zones have no abbreviation but their offset, which has a column of its own.
    name = f" {match.abbreviation}" if match.abbreviation.isalpha() else ""
    return f"{match.local_at:%a %H:%M}{name}"


def _match_json(match: ZoneMatch) -> dict[str, object]:
    return {
        "zone": match.key,
        "city": match.city,
        "countries": list(match.countries),
        "group": match.group,
        "offset": _offset(match.offset),
        "abbreviation": match.abbreviation,
        "local_time": match.local_at.isoformat(),
        "why": match.why,
    }


def _change_json(change: ZoneChange) -> dict[str, object]:
    return {
        "zone": change.key,
        "kind": change.kind,
        "at": iso_utc(change.at) if change.at else None,
        "old_offset": _offset(change.old_offset) if change.old_offset is not None else None,
        "new_offset": _offset(change.new_offset) if change.new_offset is not None else None,
    }


def _told(change: ZoneChange) -> str:
    if change.at is None or change.old_offset is None or change.new_offset is None:
        return f"{change.key}: {change.kind}"
    offsets = f"{_offset(change.old_offset)} becomes {_offset(change.new_offset)}"
    return f"{change.key}: from {iso_utc(change.at)}, {offsets}"


def _offset(offset: timedelta) -> str:
    sign = "-" if offset < timedelta(0) else "+"
    minutes, seconds = divmod(abs(offset) // timedelta(seconds=1), 60)
    text = f"{sign}{minutes // 60:02}:{minutes % 60:02}"
    return f"{text}:{seconds:02}" if seconds else text
