"""`duly schedule edit`: changes a schedule, and shows what that moves."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from cyclopts import Parameter

from duly.app import App
from duly.cli.calls import ArgumentOptions, read_call
from duly.cli.output import print_line
from duly.cli.references import find_schedule
from duly.cli.rules import RuleOptions, edited_rule, spoken_parts
from duly.cli.schedule.policies import PolicyOptions
from duly.cli.schedule.telling import (
    local_text,
    print_pending,
    print_result,
    undo,
)
from duly.cli.target import Target, opened
from duly.cli.undoing import print_undo
from duly.client.schedule_view import MICROSECOND, Schedule
from duly.domain.durations import duration_text
from duly.domain.misfire import NO_BOUND
from duly.domain.presets import NO_PRESET, PRESETS
from duly.errors import UsageError

RULE = RuleOptions()
ARGUMENTS = ArgumentOptions()
POLICIES = PolicyOptions()
TARGET = Target()


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class EditOptions:
    """What an edit may change beside the rule and the policies, and on which terms."""

    task: str | None = None
    """Another task to run."""
    rename: str | None = None
    """Another name."""
    version: int | None = None
    """Only if the schedule is still at this version, as duly schedule show has it."""
    reason: str | None = None
    """Why; it is recorded."""


EDIT = EditOptions()
_CHANGE_REMEDY = (
    "give --when, --tz, --task, --arguments, --preset, --misfire, --overlap, --jitter, --queue,"
    " --priority, --owner or --rename"
)


def edit(  # noqa: PLR0913 - each group of options is an argument
    name: str,
    /,
    *,
    options: EditOptions = EDIT,
    rule: RuleOptions = RULE,
    arguments: ArgumentOptions = ARGUMENTS,
    policies: PolicyOptions = POLICIES,
    target: Target = TARGET,
) -> None:
    """Change a schedule: what is given changes, the rest stays, and what was due stays owed.

    Parameters
    ----------
    name
        The schedule's name or id.
    """
    with opened(target, makes_store=False) as app:
        before = find_schedule(app, name)
        changes = _changes(app, before, (options, rule, arguments, policies))
        if not changes:
            raise UsageError("edit", name, "is asked to change nothing", _CHANGE_REMEDY)
        after = app.schedules.edit(
            before.id, version=options.version, reason=options.reason, **changes
        )
        taking_back = _undo(before, after)
        if target.json:
            moved = {"before": _iso(before), "after": _iso(after)}
            print_result(after, moved=moved, undo=taking_back)
            return
        if after.version == before.version:
            print_line(f"{after.name} is like this already (version {after.version}). No change.")
            return
        print_line((after.describe(), "bold"))
        print_line(f"Edited {after.name}, now version {after.version}. {_moved(before, after)}")
        print_pending(app, after)
        print_undo(taking_back)
        if after.declared_by is not None:
            note = f"it is declared by {after.declared_by}; the next reconciliation sets it back"
            print_line(("note: ", "bold yellow"), note)


def _changes(
    app: App,
    before: Schedule,
    given: tuple[EditOptions, RuleOptions, ArgumentOptions, PolicyOptions],
) -> dict[str, Any]:
    options, rule, arguments, policies = given
    changes: dict[str, Any] = {
        "preset": policies.preset,
        "misfire": policies.misfire_over(before.misfire),
        "jitter": policies.jitter,
        "overlap": policies.overlap,
        "serialize_by": policies.serialize_by,
        "queue": policies.queue,
        "priority": policies.priority,
        "owner": policies.owner,
        "name": options.rename,
    }
    if rule.is_given:
        seed = options.rename or before.name
        changes["timetable"] = edited_rule(before.timetable, rule, seed, app.status().now)
    if options.task is not None or arguments.is_given:
        if not arguments.is_given:
            arguments = ArgumentOptions(arguments=json.dumps(before.arguments))
        call = read_call(app, options.task or before.task, arguments)
        # The queue and the priority are the schedule's own, unless they are given too.
        changes["call"] = call
        changes["queue"] = policies.queue or before.queue
        changes["priority"] = before.priority if policies.priority is None else policies.priority
    return {key: value for key, value in changes.items() if value is not None}


def _moved(before: Schedule, after: Schedule) -> str:
    """Say what the edit does to the next run."""
    if after.next_due is None:
        return f"It is {after.status}, so nothing runs."
    new = local_text(after, after.next_due)
    if before.next_due is None:
        return f"The next run is at {new}."
    if before.next_due == after.next_due:
        return f"The next run stays at {new}."
    return f"The next run moves from {local_text(before, before.next_due)} to {new}."


def _undo(before: Schedule, after: Schedule) -> str:
    """Return the command that brings back what an edit has changed, or says where it stands."""
    words = ["edit", after.name]
    if before.name != after.name:
        words += ["--rename", before.name]
    if before.timetable.to_json() != after.timetable.to_json():
        rule = spoken_parts(before.timetable, after.name)
        if rule is None:
            return f"none by one command; {undo('history', after.name)} shows what it was"
        for key, value in rule.items():
            words += [f"--{key}", value]
    return undo(*words, *_undo_call(before, after), *_undo_policies(before, after))


def _undo_call(before: Schedule, after: Schedule) -> list[str]:
    if (before.task, before.arguments) == (after.task, after.arguments):
        return []
    return ["--task", before.task, "--arguments", json.dumps(before.arguments)]


def _undo_policies(before: Schedule, after: Schedule) -> list[str]:
    words: list[str] = []
    misfire, overlap = after.misfire, after.overlap
    if before.preset != after.preset:
        words += ["--preset", before.preset or NO_PRESET]
        preset = PRESETS.get(before.preset or "")
        if preset is not None:
            # What the preset brings back by itself need not be said.
            misfire, overlap = preset.misfire, preset.overlap
    old, new = before.misfire.to_json(), misfire.to_json()
    for key, option in _MISFIRE_OPTIONS.items():
        if old[key] != new[key]:
            words += [option, NO_BOUND if old[key] is None else str(old[key])]
    if before.overlap != overlap:
        words += ["--overlap", before.overlap]
    if before.serialize_by not in (None, after.serialize_by):
        words += ["--serialize-by", before.serialize_by]
    if before.jitter != after.jitter:
        words += ["--jitter", duration_text(before.jitter // MICROSECOND)]
    for key in ("queue", "priority", "owner"):
        if getattr(before, key) not in (None, getattr(after, key)):
            words += [f"--{key}", str(getattr(before, key))]
    return words


_MISFIRE_OPTIONS = {
    "policy": "--misfire",
    "grace": "--grace",
    "at_most": "--at-most",
    "not_older": "--not-older",
}


def _iso(schedule: Schedule) -> Any:  # noqa: ANN401 - JSON values
    return schedule.to_json()["next_due"]
