"""Previews: the next occurrences in local time and UTC, and what clocks do to them (T5)."""

from __future__ import annotations

from datetime import datetime

from duly.cli.output import print_line, print_table
from duly.cli.times import wall_text
from duly.domain.instants import iso_utc
from duly.domain.time_texts import distance_text
from duly.domain.timetable.preview import Preview

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
