"""`duly schedule apply`, `export`: schedules as a file declares them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from duly.app import App
from duly.cli.output import print_json, print_line
from duly.cli.references import find_schedule
from duly.cli.schedule.toml_text import toml_table
from duly.cli.target import Target, opened
from duly.client.declarations import Declarations
from duly.errors import NotFound

TARGET = Target()
INCOMPLETE = 1


def apply(
    *,
    file: Annotated[Path, Parameter(name=["--file", "-f"])],
    dry_run: bool = False,
    prune: bool = False,
    target: Target = TARGET,
) -> int:
    """Make schedules as a file declares them; what a person paused or deleted stays so.

    Parameters
    ----------
    file
        A TOML file of [schedules.NAME] tables; duly schedule export writes one.
    dry_run
        Say what would be done, and do nothing.
    prune
        Delete schedules that this file declared earlier and no longer does.
    """
    with opened(target) as app:
        app.declarations = Declarations(app.name)
        app.declarations.sources.clear()  # this file alone: not what the application's code says
        app.declare(file)
        if dry_run:
            planned = _planned(app, prune=prune)
            if target.json:
                print_json({"dry_run": True, **planned})
            else:
                for what, names in planned.items():
                    if names:
                        print_line(f"{what.replace('_', ' ')}: {', '.join(names)}")
                print_line("Nothing was stored (--dry-run).")
            return 0
        report = app.reconcile(prune=prune)
        if target.json:
            print_json(report.to_json())
        else:
            for line in report.lines():
                print_line(line)
            if report.created or report.changed or report.revived or report.pruned:
                print_line(("undo: ", "dim"), "apply the file as it was; with --prune if it grew")
        return 0 if report.is_clean else INCOMPLETE


def export(*names: str, target: Target = TARGET) -> None:
    """Write schedules as TOML that apply reads back.

    Parameters
    ----------
    names
        The names or ids of schedules; all unless given.
    """
    with opened(target) as app:
        found = [find_schedule(app, name) for name in names] or app.schedules.list()
        if target.json:
            print_json([one.to_json() for one in found])
            return
        for number, schedule in enumerate(found):
            if number:
                print_line("")
            print_line(toml_table(schedule))


def _planned(app: App, *, prune: bool) -> dict[str, list[str]]:
    """Say what applying would do, by comparing as it would."""
    planned: dict[str, list[str]] = {"would_create": [], "would_change": [], "unchanged": []}
    wanted = app.declarations.resolved(app.tasks, app.store.list_tasks())
    for new in wanted:
        stored = _stored(app, new.name)
        if stored is None:
            planned["would_create"].append(new.name)
        elif stored == new.definition.to_json():
            planned["unchanged"].append(new.name)
        else:
            planned["would_change"].append(new.name)
    declared = {new.name for new in wanted}
    for source in app.declarations.sources:
        orphans = [
            one.name for one in app.schedules.list(declared_by=source) if one.name not in declared
        ]
        planned["would_delete" if prune else "no_longer_declared"] = orphans
    return planned


def _stored(app: App, name: str) -> Any:  # noqa: ANN401 - JSON values, or none
    try:
        schedule = app.schedules.get(name)
    except NotFound:
        return None
    stored = schedule.to_json()
    keys = ("task", "arguments", "queue", "priority", "timetable", "misfire", "jitter", "overlap")
    return {key: stored[key] for key in keys}
