"""`duly next`: says when it will happen, and what the clocks will do to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from cyclopts import Parameter

from duly.cli.moments import local_date, read_moment
from duly.cli.output import print_json, print_line
from duly.cli.previews import print_changes, print_occurrences
from duly.cli.rules import refuse_idle, with_calendar
from duly.clock import SystemClock
from duly.domain.language.recognise import KIND_NAMES, Kind, kind_of, recognise
from duly.domain.local_time import Fold, Gap
from duly.domain.timetable.cron import CronDialect, cron
from duly.domain.timetable.preview import Preview, preview
from duly.domain.timetable.rrule import RRule
from duly.domain.timetable.timetable import Timetable
from duly.domain.zones.database import default_zones
from duly.errors import UsageError

NUMBER_DEFAULT = 5
_NAME = re.compile(r"[A-Za-z][\w.-]*")
"""One word, as names of schedules mostly are."""


def next_occurrences(  # noqa: PLR0913 - each option of the command is an argument
    expression: str,
    /,
    *,
    tz: str = "UTC",
    after: Annotated[str, Parameter(allow_leading_hyphen=True)] = "now",
    number: Annotated[int, Parameter(name=["--number", "-n"])] = NUMBER_DEFAULT,
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
        raise UsageError("number", number, "is too few", "ask for 1 occurrence or more")
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
