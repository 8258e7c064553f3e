"""`duly schedule apply`, `export`: schedules as a file declares them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from duly.cli.output import print_block, print_json, print_line
from duly.cli.references import find_schedule
from duly.cli.schedule.toml_text import toml_table
from duly.cli.target import Target, opened
from duly.client.declarations import Declarations

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
    with opened(target, needs_store=True) as app:
        app.declarations = Declarations(app.name)
        app.declarations.sources.clear()  # this file alone: not what the application's code says
        app.declare(file)
        report = app.reconcile(prune=prune, dry_run=dry_run)
        if target.json:
            print_json({"dry_run": dry_run, **report.to_json()})
        else:
            for line in report.lines():
                print_line(line)
            if dry_run:
                print_line("Nothing was stored (--dry-run).")
            elif report.created or report.changed or report.revived or report.pruned:
                print_line(("undo: ", "dim"), "apply the file as it was; with --prune if it grew")
        return 0 if report.is_clean else INCOMPLETE


def export(*names: str, target: Target = TARGET) -> None:
    """Write schedules as TOML that apply reads back.

    Parameters
    ----------
    names
        The names or ids of schedules; all unless given.
    """
    with opened(target, makes_store=False) as app:
        found = [find_schedule(app, name) for name in names] or app.schedules.list()
        if target.json:
            print_json([one.to_json() for one in found])
            return
        for number, schedule in enumerate(found):
            if number:
                print_line("")
            print_block(toml_table(schedule), indent=0)
