"""`duly schedule apply`, `export`: schedules as a file declares them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from duly.app import App
from duly.cli.output import print_block, print_json, print_line
from duly.cli.references import find_schedule
from duly.cli.schedule.telling import NEXT_SHOWN, print_next
from duly.cli.schedule.toml_text import toml_table
from duly.cli.target import Target, opened
from duly.client.declarations import Declarations
from duly.client.reconciling import Reconciliation
from duly.domain.timetable.combined import spread
from duly.domain.timetable.timetable import Timetable
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
    with opened(target, needs_store=True, is_rehearsal=dry_run) as app:
        app.declarations = Declarations(app.name)
        app.declarations.sources.clear()  # this file alone: not what the application's code says
        app.declare(file)
        before = _rules_before(app)
        report = app.reconcile(prune=prune, dry_run=dry_run)
        rules = _rules_after(app, report)
        if target.json:
            told = {name: _told(app, rule, before.get(name)) for name, rule in rules.items()}
            print_json({"dry_run": dry_run, **report.to_json(), "schedules": told})
        else:
            for line in report.lines():
                print_line(line)
            for name, rule in rules.items():
                _print_rule(app, name, rule, before.get(name))
            if dry_run:
                print_line("Nothing was stored (--dry-run).")
            elif report.created or report.changed or report.revived or report.pruned:
                print_line(("undo: ", "dim"), "apply the file as it was; with --prune if it grew")
        return 0 if report.is_clean else INCOMPLETE


def _rules_before(app: App) -> dict[str, Timetable]:
    """Return by which rules those run now that the file declares as well."""
    found = {}
    for name in app.declarations.by_name():
        with suppress(NotFound):
            found[name] = app.schedules.get(name).timetable
    return found


def _rules_after(app: App, report: Reconciliation) -> dict[str, Timetable]:
    """Return by which rules those are to run that were made, changed or brought back."""
    declared = app.declarations.by_name()
    names = [*report.created, *report.changed, *report.revived]
    return {name: spread(declared[name].timetable, name) for name in names if name in declared}


def _told(app: App, rule: Timetable, before: Timetable | None) -> dict[str, Any]:
    found = app.schedules.preview(rule, n=NEXT_SHOWN).to_json()
    return {**found, "before": None if before is None or before == rule else before.describe()}


def _print_rule(app: App, name: str, rule: Timetable, before: Timetable | None) -> None:
    """Say when it will run, with what it was (T5)."""
    print_line((f"{name}: {rule.describe()}", "bold"))
    if before is not None and before != rule:
        print_line(f"before: {before.describe()}")
    print_next(app, rule)


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
