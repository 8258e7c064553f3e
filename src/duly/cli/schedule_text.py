"""What all orders about a schedule tell: when it runs next, and how to undo what was done."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from duly.app import App
from duly.cli.confirm import undo_command
from duly.cli.output import print_json, print_line
from duly.cli.times import print_changes, print_occurrences, relative_text, zoned_text
from duly.client.schedule_view import Schedule
from duly.timetable.combinators import zone_of
from duly.timetable.preview import preview
from duly.timetable.timetable import Timetable

NEXT_SHOWN = 3


def zone(timetable: Timetable) -> str:
    """Return the zone that a timetable's times are shown in."""
    return zone_of(timetable) or "UTC"


def local_text(schedule: Schedule, instant: datetime | None) -> str:
    """Write an instant in a schedule's own zone."""
    return zoned_text(instant, zone(schedule.timetable))


def print_next(app: App, timetable: Timetable, after: datetime | None = None) -> None:
    """Print the next occurrences, in local time and UTC."""
    now = app.schedules.preview(timetable, n=1).after
    start = now if after is None else max(now, after)
    found = preview(timetable, start, NEXT_SHOWN)
    if not found.occurrences:
        print_line("There is no further occurrence.")
        return
    print_occurrences(found, is_from_now=True, since=now)
    print_changes(found)


def print_pending(app: App, schedule: Schedule) -> None:
    """Print what a schedule will do next: from its pending occurrence on."""
    if schedule.next_for is not None:
        print_next(app, schedule.timetable, schedule.next_for - timedelta(microseconds=1))


def next_sentence(schedule: Schedule, now: datetime) -> str:
    """Say when a schedule runs next, or why it does not."""
    if schedule.next_due is None:
        why = f": {schedule.reason}" if schedule.reason else ""
        return f"It is {schedule.status}{why}."
    when = f"{local_text(schedule, schedule.next_due)}, {relative_text(now, schedule.next_due)}"
    spread = " (with its jitter)" if schedule.next_due != schedule.next_for else ""
    return f"Next run: {when}{spread}."


def undo(*words: str) -> str:
    """Return the command that undoes an order, fit to be typed."""
    return undo_command("schedule", *words)


def print_result(schedule: Schedule, **more: Any) -> None:  # noqa: ANN401 - JSON values
    """Print a schedule as JSON, with what comes next."""
    upcoming = [one.to_json() for one in schedule.upcoming(NEXT_SHOWN)]
    print_json({**schedule.to_json(), "upcoming": upcoming, **more})


def print_warning(schedule: Schedule) -> None:
    """Print what an operator should look into, if there is anything."""
    if schedule.warning is not None:
        is_slow = schedule.run_times is not None and schedule.run_times.warning is not None
        remedy = (
            "make it faster or rarer, or choose what then happens with --overlap"
            if is_slow
            else "compare it with the others, and rename it"
        )
        print_line(("warning: ", "bold yellow"), f"{schedule.name}: {schedule.warning}; {remedy}")


def note_missing_dispatcher(app: App) -> None:
    """Say that nothing will fire, if nobody is there to do it."""
    members = app.status().members
    if not any(one.is_alive and one.kind == "dispatcher" for one in members):
        print_line(
            ("note: ", "bold yellow"),
            "no dispatcher has reported yet, and nothing fires without one: start duly dispatcher,"
            " unless one has just been started",
        )
