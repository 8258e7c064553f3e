"""A schedule's template out of what callers give: a call, a timetable and policies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from duly.client.reading import (
    read_jitter,
    read_overlap,
    read_priority,
    read_queue,
)
from duly.client.tasks import read_call
from duly.domain.literals import Overlap
from duly.domain.misfire import read_misfire
from duly.domain.presets import with_preset
from duly.domain.schedules import Definition
from duly.domain.timetable.combined import spread
from duly.domain.timetable.timetable import Timetable
from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

POLICIES = ("preset", "misfire", "jitter", "overlap", "serialize_by", "queue", "priority")
EDITABLE = ("call", "timetable", *POLICIES, "name", "owner")


def read_definition(
    call: object, timetable: object, policies: Mapping[str, Any], name: str
) -> Definition:
    """Read the template of a new schedule; refuse what is not known.

    An `H` of cron that was left open is spread by the schedule's name (T4).
    """
    unknown = [name for name in policies if name not in POLICIES]
    if unknown:
        remedy = f"use {', '.join(POLICIES)}"
        raise UsageError(unknown[0], policies[unknown[0]], "is not a policy", remedy)
    policies = with_preset(policies)
    misfire = policies.get("misfire")
    overlap, serialize_by = read_overlap(policies.get("overlap"), policies.get("serialize_by"))
    return Definition(
        call=read_call(call, policies.get("queue"), policies.get("priority")),
        timetable=spread(read_timetable(timetable), name),
        misfire=read_misfire("latest" if misfire is None else misfire),
        jitter_us=read_jitter(policies.get("jitter")),
        overlap=overlap,
        serialize_by=serialize_by,
        preset=policies.get("preset"),
    )


def edited_definition(old: Definition, changes: Mapping[str, Any], name: str) -> Definition:
    """Return a template with some of its parts changed; `name` is the schedule's from then on."""
    changes = with_preset(changes)
    new = old
    if "preset" in changes:
        new = replace(new, preset=changes["preset"])
    if "call" in changes:
        called = read_call(changes["call"])
        new = replace(new, call=called)
    if "queue" in changes:
        new = replace(new, call=replace(new.call, queue=read_queue(changes["queue"])))
    if "priority" in changes:
        new = replace(new, call=replace(new.call, priority=read_priority(changes["priority"])))
    if "timetable" in changes:
        new = replace(new, timetable=spread(read_timetable(changes["timetable"]), name))
    if "misfire" in changes:
        new = replace(new, misfire=read_misfire(changes["misfire"]))
    if "jitter" in changes:
        new = replace(new, jitter_us=read_jitter(changes["jitter"]))
    if "overlap" in changes or "serialize_by" in changes:
        new = _with_overlap(new, changes)
    return new


def _with_overlap(old: Definition, changes: Mapping[str, Any]) -> Definition:
    """Change the overlap policy; the key stays as long as there is a use for it."""
    policy, key = changes.get("overlap"), changes.get("serialize_by")
    if policy is None:
        policy = Overlap.SERIALIZE
    elif key is None and policy == Overlap.SERIALIZE:
        key = old.serialize_by
    overlap, serialize_by = read_overlap(policy, key)
    return replace(old, overlap=overlap, serialize_by=serialize_by)


def read_timetable(value: object) -> Timetable:
    """Read a timetable; a text is not one, because it would leave its zone to chance."""
    if isinstance(value, Timetable):
        return value
    remedy = "give cron(…), every(…), monthly(…) or duly.recognise(text, tz=…)"
    raise UsageError("timetable", value, "is not a timetable", remedy)
