"""Commands about rules and zones: next, zones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from duly.cli.context import refuse_idle, with_calendar
from duly.cli.output import console, print_json, print_line, print_table
from duly.cli.times import print_changes, print_occurrences, read_local_moment, read_moment
from duly.clock import SystemClock
from duly.errors import UsageError
from duly.timetable.cron import CronDialect, cron
from duly.timetable.data_sources import ZoneFolder
from duly.timetable.instants import iso_utc
from duly.timetable.language.detect import KIND_NAMES, Kind, kind_of, local_date, recognise
from duly.timetable.local_time import Fold, Gap
from duly.timetable.preview import Preview, preview
from duly.timetable.rrule import RRule
from duly.timetable.timetable import Timetable
from duly.timetable.zone_search import ZoneMatch, search_zones
from duly.timetable.zones import ZoneChange, ZoneDatabase, default_zones, zone_changes

NUMBER_DEFAULT = 5
_NAME = re.compile(r"[A-Za-z][\w.-]*")
"""One word, as names of schedules mostly are."""


def next_occurrences(  # noqa: PLR0913 - each option of the command is an argument
    expression: str,
    /,
    *,
    tz: str = "UTC",
    after: Annotated[str, Parameter(allow_leading_hyphen=True)] = "now",
    number: Annotated[int, Parameter(name=["--limit", "-n"])] = NUMBER_DEFAULT,
    gap: Gap | None = None,
    fold: Fold | None = None,
    dtstart: str | None = None,
    seed: str | None = None,
    calendar: str | None = None,
    dialect: CronDialect = "cron",
    json: bool = False,
) -> None:
    """Show when a rule fires next: cron, RRULE, OnCalendar, an interval, a date or plain words.

    Parameters
    ----------
    expression
        Such as "0 2 * * *", "FREQ=WEEKLY;BYDAY=MO", "Mon..Fri 09:00", "15m", "every weekday at 9".
    tz
        The zone that wall times are meant in, by its IANA name.
    after
        From when on: an ISO time (in --tz if it has no offset), now, today, tomorrow, +10m, -2h.
    number
        How many occurrences to show.
    gap
        What becomes of a wall time that clocks jump over: next (the default), shift or skip.
    fold
        Which, when clocks go back and a wall time comes twice: first (the default), second or both.
    dtstart
        Where an RRULE starts counting; the day of --after unless given.
    seed
        What H in a cron expression is spread by, usually the schedule's name.
    calendar
        Whose business days count: a country (US), one of its states (DE-BY), or an exchange (XNYS).
    dialect
        How cron counts weekdays: cron has Sunday as 0 and 7, quartz as 1.
    json
        Print JSON.
    """
    if number < 1:
        raise UsageError("limit", number, "is too few", "ask for 1 occurrence or more")
    default_zones().zone(tz)
    start = read_moment(after, tz, SystemClock(), "after")
    first = dtstart or f"{local_date(start, tz).isoformat()}T00:00:00"
    policies: dict[str, Any] = {"gap": gap or "next", "fold": fold or "first"}
    if dialect == "quartz":
        timetable: Timetable = cron(expression, tz, seed=seed, dialect=dialect, **policies)
    else:
        with _told_of_schedules(expression):
            timetable = recognise(expression, tz=tz, dtstart=first, seed=seed, **policies)
    refuse_idle({"gap": gap, "fold": fold, "dtstart": dtstart, "seed": seed}, timetable)
    if calendar is not None:
        timetable = with_calendar(timetable, calendar, tz)
    found = preview(timetable, start, number, tz=tz)
    kind: Kind = "cron" if dialect == "quartz" else kind_of(expression)
    read_as = KIND_NAMES[kind]
    if json:
        print_json({"expression": expression, "read_as": read_as, **found.to_json()})
    else:
        _print(found, read_as, is_from_now=after == "now")
        if dtstart is None and isinstance(timetable, RRule) and kind == "rrule":
            print_line((f"counted from {timetable.dtstart}; --dtstart says otherwise", "dim"))


@contextmanager
def _told_of_schedules(expression: str) -> Iterator[None]:
    """Tell who gave a name, and no rule, where schedules of that name are shown."""
    try:
        yield
    except UsageError as error:
        if not _NAME.fullmatch(expression):
            raise
        remedy = f"{error.remedy}; for a schedule: duly schedule show {expression}"
        raise UsageError(error.field, error.value, error.problem, remedy) from error


def _print(found: Preview, read_as: str, *, is_from_now: bool) -> None:
    print_line((found.timetable.describe(), "bold"))
    if found.occurrences:
        print_occurrences(found, is_from_now=is_from_now)
    else:
        print_line(f"No further occurrence after {found.after.isoformat(' ', 'seconds')}.")
    print_changes(found)
    print_line((f"read as {read_as}, in {found.tz}, tzdata {found.tzdata}", "dim"))


ZONES_DEFAULT = 10
WINDOW_DEFAULT_DAYS = 400
DAYS_MAX = 36_500

app = App(name="zones", help="Find time zones, and compare releases of the time-zone database.")


@app.command
def search(
    query: str,
    /,
    *,
    number: Annotated[int, Parameter(name=["--limit", "-n"])] = ZONES_DEFAULT,
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
    start = read_local_moment(after, "after", as_json=json)
    before, later = _database("old", old), _database("new", new)
    changes = zone_changes(before, later, start, start + timedelta(days=days))
    if json:
        versions = {"old": before.version, "new": later.version}
        print_json({**versions, "changes": [_change_json(change) for change in changes]})
        return
    out = console()
    differ = "1 zone differs" if len(changes) == 1 else f"{len(changes)} zones differ"
    out.print(f"{differ} between {before.version} and {later.version}")
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
