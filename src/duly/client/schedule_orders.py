"""Carries out an order about a schedule: read, decide, apply if unchanged, else again.

The decisions are in `duly.domain.schedule_changes`. The store applies a decision by
compare-and-set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.client.enqueue import SCHEDULE, order_spans, schedule_spans, with_order_span
from duly.client.parameters import (
    LOOKED_FOR_LENGTH_MAX,
    read_jitter,
    read_overlap,
    read_priority,
    read_queue,
)
from duly.client.tasks import read_call
from duly.domain.enums import Overlap, ScheduleStatus, SkipReason
from duly.domain.ids import ScheduleId, schedule_id
from duly.domain.policies import read_misfire, with_preset
from duly.domain.schedule_changes import ScheduleChange, decide_edit, first_pending
from duly.domain.schedules import Definition
from duly.errors import Conflict, NotFound, Outdated, UsageError, read_text
from duly.store.ports.queries import ScheduleFilter, ScheduleSnapshot
from duly.store.ports.schedules import ChangeSchedule, CreateSchedule, Stale
from duly.timetable.combinators import spread
from duly.timetable.instants import from_microseconds, iso_utc
from duly.timetable.timetable import Timetable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duly.client.caller import Caller
    from duly.domain.schedules import ScheduleRecord
    from duly.store.ports.schedules import CreatedSchedule

    Decide = Callable[[ScheduleRecord, int], ScheduleChange | None]


Reference = UUID | str
SKIPS_MAX = 100
"""So many skips are looked at by an edit: more than anybody skips ahead by hand."""
_ID_BYTES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSchedule:
    """A schedule to be made, read and checked."""

    name: str
    definition: Definition
    owner: str | None = None
    declared_by: str | None = None


@dataclass(frozen=True, slots=True)
class ScheduleOrder:
    """What an order says besides what it wants: the version it was based on, and the reason."""

    version: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ScheduleSpec:
    """What an edit wants a schedule to be; None keeps what there is."""

    definition: Definition
    name: str | None = None
    owner: str | None = None
    declared_by: str | None = None
    reason: str | None = None


def decide_new(
    caller: Caller, record: ScheduleRecord, wanted: ScheduleSpec, now: int
) -> ScheduleChange | None:
    """Decide an edit of template, name, owner and origin; None when nothing would change."""
    labels: dict[str, Any] = {
        field: value
        for field in ("name", "owner", "declared_by")
        if (value := getattr(wanted, field)) not in (None, getattr(record, field))
    }
    is_same = wanted.definition.to_json() == record.definition.to_json()
    # What is deleted may be given to somebody else: its owner may be gone, and nothing is restored
    # for them.
    if is_same and (record.status is not ScheduleStatus.DELETED or labels.keys() == {"owner"}):
        return _relabelled(record, labels) if labels else None
    skips = caller.store.list_skips(record.id, SKIPS_MAX)
    skipped = {skip.first_for for skip in skips if skip.reason is SkipReason.SKIPPED}
    change = decide_edit(record, wanted.definition, now, wanted.reason, skipped=skipped)
    return replace(change, **labels)


def _relabelled(record: ScheduleRecord, labels: dict[str, Any]) -> ScheduleChange:
    """Keep the whole state of a schedule and change how it is called."""
    return ScheduleChange(
        action="schedule.edited",
        status=record.status,
        pending=record.pending,
        held_for=record.held_for,
        reason=record.reason,
        resume_at=record.resume_at,
        resume_missed=record.resume_missed,
        status_before=record.status_before,
        **labels,
    )


def create_schedule(caller: Caller, new: NewSchedule) -> CreatedSchedule:
    """Make a schedule with its first instant, by the store's clock."""
    now = caller.store.now()
    identity = schedule_id(now, caller.draws.draw(_ID_BYTES))
    command = CreateSchedule(
        id=identity,
        tenant=caller.tenant,
        name=new.name,
        definition=new.definition,
        pending=first_pending(identity, new.definition, now),
        owner=new.owner,
        declared_by=new.declared_by,
        actor=caller.ordering(),
    )
    if caller.tracing is None:
        return caller.store.create_schedule(command)
    with caller.tracing.order_span(SCHEDULE) as promising:
        created = caller.store.create_schedule(command)
        promising.tell(schedule_spans(created), 1)
        return created


def find_schedule(caller: Caller, schedule: Reference) -> ScheduleSnapshot:
    """Return a schedule of this tenant by its id or name, with the store's now."""
    seen = None
    if isinstance(schedule, UUID):
        seen = caller.store.get_schedule(ScheduleId(schedule.bytes), caller.tenant)
    elif isinstance(schedule, str):
        name = read_text("schedule", schedule, LOOKED_FOR_LENGTH_MAX)
        # An id that came as text is the id first: nobody gets another's orders by a name.
        seen = _by_id_text(caller, schedule)
        if seen is None:
            seen = caller.store.find_schedule(caller.tenant, name)
        if seen is None and name != schedule:  # named before names were composed
            seen = caller.store.find_schedule(caller.tenant, schedule)
    else:
        remedy = "give its name (a text) or its id (a UUID)"
        raise UsageError("schedule", schedule, "names no schedule", remedy)
    if seen is None or seen.record.tenant != caller.tenant:
        raise NotFound("schedule", schedule, "list them with app.schedules.list()")
    return seen


def list_records(caller: Caller, command: ScheduleFilter) -> list[ScheduleRecord]:
    """Return all schedules that a filter lets through, page by page."""
    found: list[ScheduleRecord] = []
    most = caller.settings.listed_max
    while page := caller.store.list_schedules(command):
        found += page
        if len(found) > most:
            remedy = "ask for fewer: by status, task, owner or name_prefix"
            raise UsageError("list", f"more than {most:,}", "are too many for one list", remedy)
        if len(page) < command.limit:
            break
        last = page[-1]
        command = replace(command, after=(last.tenant, last.name, last.id))
    return found


def apply_order(
    caller: Caller, seen: ScheduleSnapshot, decide: Decide, order: ScheduleOrder
) -> ScheduleRecord:
    """Decide and apply; when the schedule moved meanwhile, look again and decide anew."""
    record, _ = with_order_span(
        caller.tracing,
        lambda: _apply(caller, seen, decide, order),
        lambda done: order_spans(*done),
    )
    return record


def _apply(
    caller: Caller, seen: ScheduleSnapshot, decide: Decide, order: ScheduleOrder
) -> tuple[ScheduleRecord, str | None]:
    """Return the schedule as it is then, and what was done to it."""
    actor = caller.ordering(order.reason)
    for _ in range(caller.settings.decisions_max):
        record = seen.record
        if order.version is not None:
            _require_version(record, order.version)
        change = decide(record, seen.now)
        if change is None:
            return record, None
        command = ChangeSchedule(
            id=record.id,
            expected_version=record.version,
            expected_pending=record.pending,
            change=change,
            actor=actor,
            tenant=caller.tenant,
        )
        answer = caller.store.change_schedule(command)
        if not isinstance(answer, Stale):
            return answer, change.action
        seen = ScheduleSnapshot(answer.record, answer.now)
    problem = "kept changing while this order was decided"
    raise Conflict("schedule", seen.record.name, problem, "look at it, then try again")


def _require_version(record: ScheduleRecord, version: int) -> None:
    if not isinstance(version, int) or isinstance(version, bool):
        remedy = "give the version that you saw, or leave it out"
        raise UsageError("version", version, "is not a version", remedy)
    if record.version == version:
        return
    when = iso_utc(from_microseconds(record.updated_at))
    problem = f"is at version {record.version}, changed by {record.updated_by} at {when}"
    remedy = f"look at it again: you saw version {version}"
    raise Outdated("schedule", record.name, problem, remedy)


def _by_id_text(caller: Caller, text: str) -> ScheduleSnapshot | None:
    try:
        identity = UUID(text)
    except ValueError:
        return None
    return caller.store.get_schedule(ScheduleId(identity.bytes), caller.tenant)


POLICIES = ("preset", "misfire", "jitter", "overlap", "serialize_by", "queue", "priority")
EDITABLE = ("call", "timetable", *POLICIES, "name", "owner")


def read_definition(
    call: object, timetable: object, policies: Mapping[str, Any], name: str
) -> Definition:
    """Read the template of a new schedule; refuse what is not known.

    An `H` of cron that was left open is spread by the schedule's name.
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
