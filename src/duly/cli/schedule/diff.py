"""`duly schedule diff`: what a change of a schedule changed, field by field."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from duly.cli.audit_table import changes
from duly.cli.output import print_json, print_line
from duly.cli.references import find_schedule
from duly.cli.schedule.telling import undo
from duly.cli.target import Target, opened
from duly.client.history import HistoryEntry
from duly.domain.time_texts import utc_text
from duly.errors import NotFound

TARGET = Target()


def diff(
    name: str,
    /,
    *,
    entry: int | None = None,
    number: Annotated[int, Parameter(name=["--number", "-n"])] = 1,
    target: Target = TARGET,
) -> None:
    """Show what was changed about a schedule, field by field; the last change unless told.

    Parameters
    ----------
    name
        The schedule's name or id, or a beginning that only it has.
    entry
        The number of the change, as duly schedule history --json has it.
    number
        How many of the last changes to show.
    """
    with opened(target, makes_store=False, needs_store=True) as app:
        found = find_schedule(app, name, by_beginning=True)
        history = app.schedules.history(found.id)
        made = [one for one in history if changes(one.before, one.after)]
        chosen = [one for one in made if one.number == entry] if entry else made[:number]
        if entry is not None and not chosen:
            remedy = f"{undo('history', found.name)} --json has the numbers"
            raise NotFound("entry", entry, remedy)
        if target.json:
            print_json([_json(one) for one in chosen])
            return
        for one in chosen:
            _print(one)
        if not chosen:
            print_line(f"{found.name} is as it was made.")


def _json(entry: HistoryEntry) -> dict[str, Any]:
    found = changes(entry.before, entry.after)
    listed = [{"field": key, "before": old, "after": new} for key, old, new in found]
    return {**entry.to_json(), "changes": listed}


def _print(entry: HistoryEntry) -> None:
    why = f": {entry.reason}" if entry.reason else ""
    by = f"{entry.actor} ({entry.source})"
    print_line((f"#{entry.number} {entry.action}", "bold"), f" {utc_text(entry.at)} by {by}{why}")
    for key, old, new in changes(entry.before, entry.after):
        print_line(("- ", "red"), f"{key}: {old}")
        print_line(("+ ", "green"), f"{key}: {new}")
