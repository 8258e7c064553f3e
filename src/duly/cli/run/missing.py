"""`duly run missing`: occurrences that were expected and have no run, each with what is known."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from cyclopts import Parameter

from duly.app import App
from duly.cli.moments import read_moment
from duly.cli.output import print_aside, print_json, print_line, print_table
from duly.cli.references import find_schedule
from duly.cli.target import Target, opened
from duly.client.missing import LookedFrom, MissingRun
from duly.clock import SystemClock
from duly.domain.time_texts import utc_text
from duly.errors import UsageError

TARGET = Target()
MISSING = 1
"""The exit code when something is missing."""


def missing(
    *,
    since: Annotated[str, Parameter(allow_leading_hyphen=True)] = "-1d",
    until: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    schedule: str | None = None,
    target: Target = TARGET,
) -> int:
    """Show occurrences that timetables ask for and that have no run: lost, owed, or held.

    What was skipped by a policy, or on purpose, has its reason and is not missing: duly schedule
    occurrences shows it. What retention has removed is unknown, and not missing either. The exit
    code is 1 when something is missing.

    Parameters
    ----------
    since
        From when on: an ISO time, today, -2h; a day ago unless given.
    until
        Up to when; now unless given. What was missing then and was made since is no longer missing.
    schedule
        Only of this schedule, by its name or id.
    """
    with opened(target, makes_store=False) as app:
        now = app.status().now
        start = read_moment(since, "UTC", SystemClock(), "since")
        if start >= now:
            raise UsageError("since", since, "lies in the future", "give a moment that has been")
        end = None if until is None else read_moment(until, "UTC", SystemClock(), "until")
        named = None if schedule is None else find_schedule(app, schedule, by_beginning=True).id
        found, cut = _look(app, (start, end), named)
    for one in cut:
        text = f"{one.schedule} fires often: it was looked at since {utc_text(one.since)} only"
        print_aside("note", text, as_json=target.json)
    if target.json:
        print_json([one.to_json() for one in found])
    else:
        _print(found, start)
    return MISSING if any(one.is_missing for one in found) else 0


def _look(
    app: App, span: tuple[datetime, datetime | None], schedule: object
) -> tuple[list[MissingRun], list[LookedFrom]]:
    """Look at all schedules, or at one, a few at a time."""
    page = app.runs.missing(*span, schedule=schedule)  # type: ignore[arg-type] # an id or None
    found, cut = [*page.items], [*page.cut]
    while page.after is not None:
        page = app.runs.missing(*span, after=page.after)
        found += page.items
        cut += page.cut
    return found, cut


def _print(found: list[MissingRun], start: datetime) -> None:
    if not found:
        print_line(f"Nothing is missing since {utc_text(start)}.")
        return
    rows = [
        (one.label, utc_text(one.scheduled_for), one.verdict, one.cause or "-", one.says)
        for one in found
    ]
    print_table(("expected", "UTC", "verdict", "cause", "what is known"), rows)
