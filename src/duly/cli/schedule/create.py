"""`duly schedule create`: makes a schedule, and shows what was promised."""

from __future__ import annotations

from typing import Any

from duly.app import App
from duly.cli.calls import ArgumentOptions, note_unchecked, read_call
from duly.cli.output import print_json, print_line
from duly.cli.rules import RuleOptions, read_rule
from duly.cli.schedule.policies import PolicyOptions
from duly.cli.schedule.telling import (
    NEXT_SHOWN,
    next_sentence,
    note_missing_dispatcher,
    print_next,
    print_result,
    undo,
)
from duly.cli.target import Target, opened
from duly.cli.undoing import print_undo
from duly.client.definitions import read_definition
from duly.client.reading import read_name
from duly.client.schedule_view import Schedule
from duly.client.tasks import BoundCall
from duly.domain.misfire import Misfire
from duly.domain.timetable.timetable import Timetable
from duly.errors import Conflict, NotFound, UsageError

RULE = RuleOptions()
ARGUMENTS = ArgumentOptions()
POLICIES = PolicyOptions()
TARGET = Target()


def create(  # noqa: PLR0913 - each group of options is an argument
    name: str,
    /,
    *,
    task: str,
    rule: RuleOptions = RULE,
    arguments: ArgumentOptions = ARGUMENTS,
    policies: PolicyOptions = POLICIES,
    dry_run: bool = False,
    target: Target = TARGET,
) -> None:
    """Make a schedule: it owes a run of a task at every occurrence of a rule.

    Parameters
    ----------
    name
        What it is called; no other schedule may have the name.
    task
        The task to run: one of --app, or one that a program has made known to the store.
    dry_run
        Check everything and show when it would run, but store nothing.
    """
    with opened(target, is_rehearsal=dry_run) as app:
        now = app.status().now
        timetable = read_rule(rule, read_name(name), now)
        call = read_call(app, task, arguments)
        terms = _terms(policies)
        before = _standing(app, name)
        if dry_run:
            _print_dry(app, (name, call, timetable), terms, as_json=target.json)
            return
        schedule = app.schedules.create(name, call, timetable, owner=policies.owner, **terms)
        is_new = before is None or before.id != schedule.id
        taking_back = undo("delete", name, "--reason", "made by mistake", "--yes")
        if target.json:
            print_result(schedule, is_new=is_new, undo=taking_back if is_new else None)
            return
        print_line((schedule.describe(), "bold"))
        print_next(app, schedule.timetable)
        if not is_new:
            version = schedule.version
            print_line(f"{name} is there already, just like this (version {version}). No change.")
            return
        print_line(f"Created {name}. {next_sentence(schedule, now)}")
        print_undo(taking_back)
        note_unchecked(app, task)
        note_missing_dispatcher(app)


def _terms(policies: PolicyOptions) -> dict[str, Any]:
    return {
        "preset": policies.preset,
        "misfire": policies.misfire_over(Misfire()),
        "overlap": policies.overlap,
        "serialize_by": policies.serialize_by,
        "jitter": policies.jitter,
        "queue": policies.queue,
        "priority": policies.priority,
    }


def _standing(app: App, name: str) -> Schedule | None:
    """Return the schedule that has the name, if one has."""
    try:
        found = app.schedules.get(name)
    except NotFound:
        return None
    return None if found.status == "deleted" or found.name != name else found


def _print_dry(
    app: App, parts: tuple[str, BoundCall, Timetable], terms: dict[str, Any], *, as_json: bool
) -> None:
    """Check what creating would check, and show what it would show."""
    name, call, timetable = parts
    definition = read_definition(call, timetable, terms, name)
    standing = _standing(app, name)
    if standing is not None:
        remedy = f"see {undo('show', name)}; duly schedule edit changes it"
        raise Conflict("schedule", name, "exists already", remedy)
    found = app.schedules.preview(timetable, n=NEXT_SHOWN)
    if not found.occurrences:
        problem = "has no occurrence in the future"
        raise UsageError("when", timetable.describe(), problem, "give a rule that has one")
    if as_json:
        print_json({"name": name, "dry_run": True, **definition.to_json(), **found.to_json()})
        return
    print_line((f"{call.task}: {timetable.describe()}", "bold"))
    print_next(app, timetable)
    print_line("Nothing was stored (--dry-run).")
