"""`duly run missing`: occurrences that were expected and have no run, each with what is known."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from cyclopts import Parameter

from duly.app import App
from duly.cli.moments import read_moment
from duly.cli.output import print_aside, print_json, print_line, print_table
from duly.cli.references import find_schedule
from duly.cli.schedule.telling import zone
from duly.cli.target import Target, opened
from duly.cli.times import zoned_text
from duly.client.history import Occurrence
from duly.client.schedule_view import Schedule
from duly.clock import SystemClock
from duly.domain.time_texts import utc_text
from duly.errors import UsageError

TARGET = Target()
MISSING = 1
"""The exit code when something is missing."""
_MEANINGS = {
    "missing": "nothing is recorded of it, which must never be: duly db check",
    "owed": "it was missed, and waits to be caught up with",
    "pending": "its time has come, and nobody has fired it: duly doctor",
}
_PAUSED = "its schedule rests: it is decided when it goes on"


def missing(
    *,
    since: Annotated[str, Parameter(allow_leading_hyphen=True)] = "-1d",
    schedule: str | None = None,
    target: Target = TARGET,
) -> int:
    """Show occurrences that were expected and have no run: lost, owed, or not fired yet.

    What was skipped by a policy, or on purpose, has its reason and is not missing: duly schedule
    occurrences shows it. The exit code is 1 when something is missing.

    Parameters
    ----------
    since
        From when on: an ISO time, today, -2h; a day ago unless given.
    schedule
        Only of this schedule, by its name or id.
    """
    with opened(target, makes_store=False) as app:
        now = app.status().now
        start = read_moment(since, "UTC", SystemClock(), "since")
        if start >= now:
            raise UsageError("since", since, "lies in the future", "give a moment that has been")
        named = None if schedule is None else find_schedule(app, schedule, by_beginning=True)
        schedules = app.schedules.list() if named is None else [named]
        found = [
            (one, occurrence)
            for one in schedules
            for occurrence in _expected(app, one, (start, now), as_json=target.json)
            if occurrence.verdict in _MEANINGS
        ]
        if target.json:
            print_json([{"schedule": one.name, **each.to_json()} for one, each in found])
        else:
            _print(found, start)
        return MISSING if found else 0


def _expected(
    app: App, schedule: Schedule, span: tuple[datetime, datetime], *, as_json: bool
) -> list[Occurrence]:
    """Return what was expected of a schedule; of one that fires too often, say so and go on."""
    try:
        return app.schedules.occurrences(schedule.id, *span)
    except UsageError as error:
        remedy = f"give a later --since, with --schedule {schedule.name}"
        print_aside(
            "note", f"{schedule.name} was left out: {error.remedy}; {remedy}", as_json=as_json
        )
        return []


def _print(found: list[tuple[Schedule, Occurrence]], start: datetime) -> None:
    if not found:
        print_line(f"Nothing is missing since {utc_text(start)}.")
        return
    rows = [
        (
            one.name,
            zoned_text(each.scheduled_for, zone(one.timetable)),
            utc_text(each.scheduled_for),
            each.verdict,
            _meaning(one, each),
        )
        for one, each in found
    ]
    print_table(("schedule", "expected", "UTC", "verdict", "what is known"), rows)


def _meaning(schedule: Schedule, occurrence: Occurrence) -> str:
    if occurrence.verdict == "pending" and schedule.status == "paused":
        return _PAUSED
    return _MEANINGS[occurrence.verdict]
