"""Saving a form: make or edit, never over a change that somebody has not seen (S4)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from duly import UsageError
from duly_web.editing.form import (
    COMPARED,
    LABELS,
    RULE_FIELDS,
    ScheduleForm,
    compared,
    shown_value,
)
from duly_web.editing.rules import rule_fields

if TYPE_CHECKING:
    from duly import App, Schedule
    from duly_web.editing.checked import Checked


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One field that two people see differently, or that an edit changes."""

    label: str
    before: str
    """As it was when the editor was opened."""
    theirs: str
    """As it is now."""
    mine: str
    by: str = ""
    """Who has changed it since: `they`, `you` or `both`."""


def schedule_form(schedule: Schedule) -> ScheduleForm:
    """Return the form that says a schedule as it is."""
    misfire = schedule.misfire.to_json()
    form = ScheduleForm(
        name=schedule.name,
        task=schedule.task,
        arguments=json.dumps(schedule.arguments, indent=2, ensure_ascii=False),
        preset=schedule.preset or "",
        misfire=str(misfire["policy"]),
        grace=str(misfire["grace"]),
        not_older=str(misfire["not_older"] or "none"),
        at_most=str(misfire["at_most"] or ""),
        overlap=schedule.overlap,
        serialize_by=schedule.serialize_by or "",
        jitter=str(schedule.to_json()["jitter"]),
        queue=schedule.queue,
        priority=str(schedule.priority),
        owner=schedule.owner or "",
        version=schedule.version,
        draft=str(schedule.id),
    )
    form = msgspec.structs.replace(form, **rule_fields(schedule.timetable))
    return msgspec.structs.replace(form, seen=json.dumps(compared(form)))


def create(app: App, form: ScheduleForm, checked: Checked) -> Schedule:
    """Make the schedule."""
    assert checked.timetable is not None, "a form with problems is not saved"
    assert checked.call is not None, "as above"
    return app.schedules.create(
        form.name,
        checked.call,
        checked.timetable,
        owner=form.owner or None,
        **checked.policies,
    )


def edit(app: App, before: Schedule, form: ScheduleForm, checked: Checked) -> Schedule:
    """Change the schedule, if it still is as it was seen."""
    assert checked.timetable is not None, "a form with problems is not saved"
    assert checked.call is not None, "as above"
    if form.version is None:
        raise UsageError("version", None, "is missing", "open the editor again")
    policies = dict(checked.policies)
    # The queue and the priority are the schedule's own, unless they are given too.
    policies["queue"] = policies["queue"] or before.queue
    if policies["priority"] is None:
        policies["priority"] = before.priority
    return app.schedules.edit(
        before.id,
        version=form.version,
        call=checked.call,
        timetable=checked.timetable,
        name=form.name,
        owner=form.owner or None,
        reason=form.reason or None,
        **policies,
    )


def changed_fields(before: ScheduleForm, form: ScheduleForm) -> tuple[Difference, ...]:
    """Return what an edit would change."""
    return _differences(compared(before), compared(before), compared(form))


def stale_differences(form: ScheduleForm, now: ScheduleForm) -> tuple[Difference, ...]:
    """Return what somebody else has changed since, beside what is wanted here."""
    mine, theirs = compared(form), compared(now)
    return _differences(_seen(form.seen, theirs), theirs, mine)


def merged(form: ScheduleForm, now: ScheduleForm) -> ScheduleForm:
    """Return a form with what somebody else has changed taken over, where it was left alone here.

    A rule that is written in another way than it was is one thing, and stays as it was typed.
    """
    mine, theirs = compared(form), compared(now)
    seen = _seen(form.seen, theirs)
    is_one_way = seen.get("mode") == mine["mode"] == theirs["mode"]
    if not is_one_way and any(seen.get(name) != mine[name] for name in RULE_FIELDS):
        kept = {*RULE_FIELDS}
    else:
        kept = set[str]()
    left_alone = (name for name in COMPARED if name not in kept and seen.get(name) == mine[name])
    return msgspec.structs.replace(form, **{name: getattr(now, name) for name in left_alone})


def _by(seen: object, theirs: object, mine: object) -> str:
    if seen == mine:
        return "they"
    return "you" if seen == theirs else "both"


def _differences(
    before: dict[str, Any], theirs: dict[str, Any], mine: dict[str, Any]
) -> tuple[Difference, ...]:
    found = []
    for name, label in LABELS.items():
        seen, there, here = before.get(name), theirs[name], mine[name]
        if there == here:
            continue
        found.append(
            Difference(
                label=label,
                before=shown_value(seen),
                theirs=shown_value(there),
                mine=shown_value(here),
                by=_by(seen, there, here),
            )
        )
    return tuple(found)


def _seen(text: str, otherwise: dict[str, Any]) -> dict[str, Any]:
    """Read what the form was when it was opened; what is not ours is nothing."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return otherwise
    return found if isinstance(found, dict) else otherwise
