"""Schedules in files: schedule apply and export, and the TOML they are written in."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from duly.app import App
from duly.cli.context import Target, open_app, spoken_parts
from duly.cli.output import print_block, print_json, print_line
from duly.cli.references import find_schedule
from duly.cli.schedule_text import NEXT_SHOWN, print_next
from duly.client.declarations import Declarations, Reconciliation
from duly.client.schedule_view import MICROSECOND, Schedule
from duly.domain.policies import NO_BOUND, PRESETS, Misfire
from duly.domain.schedules import OVERLAP_DEFAULT, PRIORITY_DEFAULT, QUEUE_DEFAULT
from duly.errors import NotFound
from duly.timetable.combinators import spread
from duly.timetable.instants import duration_text
from duly.timetable.timetable import Timetable

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml_table(schedule: Schedule) -> str:
    """Write a schedule as `[schedules.NAME]` and its keys; defaults go without saying."""
    values: dict[str, Any] = {"task": schedule.task}
    if schedule.arguments:
        values["arguments"] = schedule.arguments
    values |= _rule(schedule.name, schedule.timetable)
    values |= _preset_and_misfire(schedule)
    if schedule.jitter:
        values["jitter"] = duration_text(schedule.jitter // MICROSECOND)
    if schedule.overlap != _usual(schedule)[1]:
        values["overlap"] = schedule.overlap
    if schedule.serialize_by is not None:
        values["serialize_by"] = schedule.serialize_by
    if schedule.queue != QUEUE_DEFAULT:
        values["queue"] = schedule.queue
    if schedule.priority != PRIORITY_DEFAULT:
        values["priority"] = schedule.priority
    if schedule.owner is not None:
        values["owner"] = schedule.owner
    lines = [f"[schedules.{_key(schedule.name)}]"]
    lines += [f"{key} = {_value(value)}" for key, value in values.items()]
    return "\n".join(lines)


def _usual(schedule: Schedule) -> tuple[Misfire, str]:
    """Return the policies that go without saying: those of its preset, or the defaults."""
    preset = PRESETS.get(schedule.preset or "")
    if preset is None:
        return Misfire(), str(OVERLAP_DEFAULT)
    return preset.misfire, str(preset.overlap)


def _preset_and_misfire(schedule: Schedule) -> dict[str, Any]:
    values: dict[str, Any] = {} if schedule.preset is None else {"preset": schedule.preset}
    if schedule.misfire != _usual(schedule)[0]:
        stored = schedule.misfire.to_json()
        values["misfire"] = {
            key: NO_BOUND if part is None else part for key, part in stored.items()
        }
    return values


def _rule(name: str, timetable: Timetable) -> dict[str, Any]:
    """Say a rule as a person would, if that says all of it; else as it is stored."""
    spoken = spoken_parts(timetable, name)
    if spoken is not None:
        defaults = {"tz": "UTC", "gap": "next", "fold": "first"}
        return {key: part for key, part in spoken.items() if defaults.get(key) != part}
    stored = timetable.to_json()
    return {"timetable": {key: part for key, part in stored.items() if part is not None}}


def _key(text: str) -> str:
    return text if _BARE_KEY.fullmatch(text) else _text(text)


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case datetime():
            return value.isoformat()
        case list() | tuple():
            return f"[{', '.join(_value(one) for one in value)}]"
        case dict():
            parts = (f"{_key(str(key))} = {_value(one)}" for key, one in value.items())
            return f"{{ {', '.join(parts)} }}"
        case _:
            return _text(str(value))


def _text(text: str) -> str:
    # JSON's escapes are TOML's as well, but for the slash and what lies past 16 bits.
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in quoted)


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
    with open_app(target, needs_store=True, is_rehearsal=dry_run) as app:
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
    """Say when it will run, with what it was."""
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
    with open_app(target, makes_store=False) as app:
        found = [find_schedule(app, name) for name in names] or app.schedules.list()
        if target.json:
            print_json([one.to_json() for one in found])
            return
        for number, schedule in enumerate(found):
            if number:
                print_line("")
            print_block(toml_table(schedule), indent=0)
