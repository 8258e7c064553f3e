"""`duly schedule list`, `history`, `occurrences`: looking at schedules, changing nothing."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from duly.cli.audit_table import print_entries
from duly.cli.moments import read_moment
from duly.cli.output import print_json, print_line, print_table
from duly.cli.references import find_schedule
from duly.cli.schedule.last_ends import LAST_ENDS_HEADINGS, last_ends_cells
from duly.cli.schedule.telling import local_text, print_warning, zone
from duly.cli.target import Target, opened
from duly.cli.times import relative_text, share_text, zoned_text
from duly.client.schedule_view import Schedule
from duly.clock import SystemClock
from duly.domain.time_texts import utc_text

TARGET = Target()
HISTORY_DEFAULT = 50


def list_schedules(  # noqa: PLR0913 - each filter is an argument
    *,
    status: str | None = None,
    task: str | None = None,
    owner: str | None = None,
    prefix: str | None = None,
    all_: Annotated[bool, Parameter(name="--all")] = False,
    target: Target = TARGET,
) -> None:
    """List schedules in order of name.

    Parameters
    ----------
    status
        Only those that are active, paused, ended or deleted.
    task
        Only those that run this task.
    owner
        Only those that belong to this owner.
    prefix
        Only those whose name begins like this.
    all_
        Deleted ones too.
    """
    with opened(target, makes_store=False) as app:
        found = app.schedules.list(
            status=status,
            task=task,
            owner=owner,
            name_prefix=prefix,
            include_deleted=all_,
            with_run_times=True,
            with_last_ends=True,
        )
        if target.json:
            print_json([one.to_json() for one in found])
            return
        if not found:
            print_line("No schedule found. duly schedule create --help says how to make one.")
            return
        now = app.status().now
        rows = [
            (
                one.name,
                one.status,
                local_text(one, one.next_due),
                relative_text(now, one.next_due) if one.next_due else _why(one),
                one.timetable.describe(),
                one.task,
                _share(one),
                f"{one.overlaps:,}",
                *last_ends_cells(one, now),
            )
            for one in found
        ]
        headings = ("name", "status", "next run", "", "when", "task", "run/interval", "overlaps")
        print_table((*headings, *LAST_ENDS_HEADINGS), rows)
        for one in found:
            print_warning(one)


def history(
    name: str,
    /,
    *,
    number: Annotated[int, Parameter(name=["--number", "-n"])] = HISTORY_DEFAULT,
    target: Target = TARGET,
) -> None:
    """Show who did what to a schedule, when, why and from where; newest first.

    Parameters
    ----------
    name
        The schedule's name or id, or a beginning that only it has.
    number
        How many entries to show at the most.
    """
    with opened(target, makes_store=False) as app:
        found = find_schedule(app, name, by_beginning=True)
        entries = app.schedules.history(found.id, limit=number)
        if target.json:
            print_json([entry.to_json() for entry in entries])
        else:
            print_entries(entries, has_subject=False)


def occurrences(
    name: str,
    /,
    *,
    start: Annotated[str, Parameter(name="--from", allow_leading_hyphen=True)] = "-1d",
    end: Annotated[str, Parameter(name="--to", allow_leading_hyphen=True)] = "now",
    target: Target = TARGET,
) -> None:
    """Show what became of each expected occurrence: run, skipped, owed or pending.

    Parameters
    ----------
    name
        The schedule's name or id, or a beginning that only it has.
    start
        From when on: an ISO time (in the schedule's zone), today, -2h; a day ago unless given.
    end
        Until when: an ISO time, now, tomorrow, +1h.
    """
    with opened(target, makes_store=False) as app:
        found = find_schedule(app, name, by_beginning=True)
        tz = zone(found.timetable)
        span = [read_moment(text, tz, SystemClock(), word) for text, word in _span(start, end)]
        judged = app.schedules.occurrences(found.id, span[0], span[1])
        if target.json:
            print_json([one.to_json() for one in judged])
            return
        if not judged:
            print_line(
                f"{found.name} had no occurrence from {zoned_text(span[0], tz)}"
                f" to {zoned_text(span[1], tz)}."
            )
            return
        rows = [
            (
                zoned_text(one.scheduled_for, tz),
                utc_text(one.scheduled_for),
                one.verdict,
                one.reason or "-",
                "-" if one.run is None else str(one.run),
            )
            for one in judged
        ]
        print_table((f"expected ({tz})", "UTC", "verdict", "why", "run"), rows)


def _span(start: str, end: str) -> list[tuple[str, str]]:
    return [(start, "from"), (end, "to")]


def _share(schedule: Schedule) -> str:
    """Say which part of the time between two occurrences a run takes (O2)."""
    times = schedule.run_times
    return "-" if times is None or times.ratio is None else share_text(times.ratio)


def _why(schedule: Schedule) -> str:
    """Say why there is no next run."""
    return schedule.reason or "-"
