"""Rulings: what every store decides alike about schedules and delayed runs, in the same words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from duly.domain.audit import instant_text
from duly.domain.enums import Origin, ScheduleStatus, SkipReason
from duly.domain.fire_planning import ScheduleVersion, Skip, count_between
from duly.domain.ids import identity_text, shard_of
from duly.domain.runs import DelayedRecord, OccurrenceStatus, OccurrenceStatusKind
from duly.errors import Conflict, NotFound, UsageError
from duly.store.ports.dispatch import Timer
from duly.store.ports.schedules import NEAR_US
from duly.timetable.instants import from_microseconds, iso_utc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.ids import RunId, ScheduleId
    from duly.domain.schedules import Call, CatchUpRange, Definition, ScheduleRecord
    from duly.store.ports.schedules import (
        AddedRun,
        AddRuns,
        CancelDelayed,
        ChangeSchedule,
        CreateSchedule,
        MoveDelayed,
        NewRun,
    )

DRAINABLE = frozenset((ScheduleStatus.ACTIVE, ScheduleStatus.ENDED))
"""Whose owed occurrences are made; others wait, or have been given up."""
OCCURRENCE_ORIGINS = frozenset((Origin.SCHEDULE, Origin.CATCH_UP, Origin.BACKFILL))
"""Where the runs of a schedule's own occurrences come from."""
ARRIVALS_KEPT_US = 10 * NEAR_US
"""How long announcements are kept, and members that have ended."""
WALK_MAX = 100
"""How many schedules are looked at in one go for runs beyond the newest few."""
LIBRARY = "library"
"""The way by which programs' own orders come in."""
IDS_MAX = 10
"""How many ids an audit entry names."""


class FiredOrClosed(Protocol):
    """A run, as far as an order about a delayed one looks at it."""

    @property
    def id(self) -> RunId:
        """Return the run's id."""
        ...

    @property
    def fired_at(self) -> int | None:
        """Return when it became visible to workers; None if it never did."""
        ...


class KnownRequest(Protocol):
    """What was asked for once, as far as the same request again looks at it."""

    @property
    def tenant(self) -> str:
        """Return whose it is."""
        ...

    @property
    def call(self) -> Call:
        """Return what is to be run."""
        ...


@dataclass(frozen=True, slots=True)
class AddedByHand:
    """An audit entry about runs that a person has added: its subject, and what was added."""

    tenant: str
    subject: str
    subject_id: RunId
    after: dict[str, Any]


def is_outdated(command: ChangeSchedule, record: ScheduleRecord, now: int) -> bool:
    """Say whether a decision came too late, or would be early: then nothing of it is written."""
    change = command.change
    expected = (command.expected_version, command.expected_pending)
    is_same = (record.version, record.pending) == expected
    is_late = change.before is not None and now >= change.before
    is_early = any(run.not_before > now for run in change.settlement.runs)
    return not is_same or is_late or is_early


def changed_record(old: ScheduleRecord, command: ChangeSchedule, now: int) -> ScheduleRecord:
    """Return a schedule as a change leaves it, before its settlement."""
    change, version = command.change, old.version + 1
    is_new = change.definition is not None
    return replace(
        old,
        name=old.name if change.name is None else change.name,
        owner=old.owner if change.owner is None else change.owner,
        declared_by=old.declared_by if change.declared_by is None else change.declared_by,
        status=change.status,
        version=version,
        definition_number=version if is_new else old.definition_number,
        definition=old.definition if change.definition is None else change.definition,
        pending=change.pending,
        held_for=change.held_for,
        reason=change.reason,
        resume_at=change.resume_at,
        resume_missed=change.resume_missed,
        status_before=change.status_before,
        updated_at=now,
        updated_by=command.actor.name,
    )


def triggered_facts(new: NewRun) -> dict[str, Any]:
    """Return what the trail says about a run that a person has asked of a schedule."""
    facts = {"run": identity_text(new.id)}
    return facts if new.overlap is None else facts | {"overlap": str(new.overlap)}


def given_up(schedule_id: ScheduleId, owed: CatchUpRange, definition: Definition) -> Skip:
    """Return the skip that a range becomes when its schedule is deleted."""
    template = ScheduleVersion(schedule_id, owed.definition_number, definition)
    count = count_between(template, owed.first_for, owed.last_for)
    return Skip(owed.first_for, owed.last_for, count, SkipReason.DELETED)


def refuse_another(known: ScheduleRecord, command: CreateSchedule) -> None:
    """Refuse a name that is taken by something else; the same thing again is no conflict."""
    same = known.definition.to_json() == command.definition.to_json()
    same = same and (known.owner, known.declared_by) == (command.owner, command.declared_by)
    if not same:
        remedy = "edit it, or choose another name"
        raise Conflict("schedule", command.name, "exists with another definition", remedy)


def name_taken(name: str) -> Conflict:
    """Return the error for a name that another schedule has."""
    remedy = "rename the other one, or choose another name"
    return Conflict("schedule", name, "is the name of another schedule", remedy)


def unknown_schedule(schedule_id: ScheduleId) -> NotFound:
    """Return the error for a schedule that is not there."""
    remedy = "list the schedules to see their ids"
    return NotFound("schedule", identity_text(schedule_id), remedy)


def refuse_deleted(name: str, status: str) -> None:
    """Refuse a run of a schedule that was deleted: it never fires, by nobody's hand."""
    if status == ScheduleStatus.DELETED:
        raise Conflict("schedule", name, "is deleted", "restore it first, then trigger it")


def due_of(order: NewRun | MoveDelayed, now: int) -> int | None:
    """Return the instant that was asked for; None for at once. Refuse one that has passed."""
    due_at = now + order.delay_us if order.delay_us is not None else order.due_at
    if due_at is not None and due_at < now and not order.is_late_ok:
        moment = iso_utc(from_microseconds(due_at))
        remedy = 'give a later time, or past="run" to run it at once'
        raise UsageError("at", moment, "is in the past", remedy)
    return due_at


def is_current(renewed_at: int, expires_at: int, now: int) -> bool:
    """Say whether a membership holds at an instant: until it expires, and no longer than it lasts.

    One that was renewed further ahead than it lasts comes from a clock that ran ahead and was put
    right since: its owner may be long gone, and nobody waits for that clock's time to come.
    """
    ttl_us = expires_at - renewed_at
    return now < expires_at and renewed_at - now <= ttl_us


def refuse_another_request(new: NewRun, known: KnownRequest, fingerprint: str = "") -> None:
    """Refuse an id under which something else was asked for; the same again is no conflict."""
    is_same = (known.tenant, known.call) == (new.tenant, new.call)
    if fingerprint and new.fingerprint:
        is_same = is_same and fingerprint == new.fingerprint
    elif isinstance(known, DelayedRecord) and known.generation == 1 and new.due_at is not None:
        # Nobody has moved it: it is due when it was asked for.
        is_same = is_same and known.due_at == new.due_at
    if not is_same:
        raise id_taken(new.id)


def refuse_others_id(identity: bytes, known: str, tenant: str) -> None:
    """Refuse an id under which another tenant has asked for something; nothing of that is told."""
    if known != tenant:
        raise id_taken(identity)


def id_taken(identity: bytes) -> Conflict:
    """Return the error for an id under which something else was asked for."""
    remedy = "give every request an id of its own"
    return Conflict("id", identity_text(identity), "is that of another request", remedy)


def added_by_hand(command: AddRuns, added: Sequence[AddedRun]) -> AddedByHand | None:
    """Return what the audit trail tells about runs that a person has added.

    None for a program's own, whose record they are themselves, for what was there already, and for
    triggers, which are on the trail as such.
    """
    if command.actor.source == LIBRARY:
        return None
    made = [
        (new, one)
        for new, one in zip(command.runs, added, strict=True)
        if one.is_new and new.origin is not Origin.MANUAL
    ]
    if not made:
        return None
    ids = [identity_text(new.id) for new, _ in made]
    first = made[0][0]
    after = {
        "count": len(made),
        "ids": ids[:IDS_MAX],
        "tasks": sorted({new.call.task for new, _ in made})[:IDS_MAX],
        "first_due_at": instant_text(min(one.due_at for _, one in made)),
    }
    return AddedByHand(first.tenant, first.key or ids[0], first.id, after)


def key_taken(key: str) -> Conflict:
    """Return the error for a key under which something else is pending."""
    remedy = "move or cancel it, or give replace=True"
    return Conflict("key", key, "is pending with another request", remedy)


def unknown_delayed(order: MoveDelayed | CancelDelayed) -> NotFound:
    """Return the error for an order about something that was never there."""
    if order.id is not None:
        return NotFound("run", identity_text(order.id), "list what is pending to see its id")
    return NotFound("key", order.key, "list what is pending to see its keys")


def no_longer_pending(order: MoveDelayed | CancelDelayed, run: FiredOrClosed) -> Conflict:
    """Return the error for an order about a delayed run that has fired or ended."""
    what, name = ("key", order.key) if order.key else ("run", identity_text(run.id))
    if run.fired_at is None:
        return Conflict(what, name, "is no longer pending", "enqueue it again")
    moment = iso_utc(from_microseconds(run.fired_at))
    return Conflict(what, name, f"has fired already, at {moment}", "it can't be moved or cancelled")


def unrecorded(record: ScheduleRecord | None, instant: int) -> OccurrenceStatus:
    """Say what is known about an occurrence that left no trace."""
    if record is None:
        return OccurrenceStatus(instant, OccurrenceStatusKind.UNKNOWN)
    coming = record.pending.scheduled_for if record.pending else record.held_for
    if coming is not None and instant >= coming:
        return OccurrenceStatus(instant, OccurrenceStatusKind.PENDING)
    if record.pruned_through is not None and instant <= record.pruned_through:
        return OccurrenceStatus(instant, OccurrenceStatusKind.UNKNOWN)
    return OccurrenceStatus(instant, OccurrenceStatusKind.MISSING)


def schedule_timer(record: ScheduleRecord) -> Timer | None:
    """Return the one timer of a schedule."""
    if record.pending is None:
        return None
    return Timer(
        kind="schedule",
        ref=record.id,
        shard=record.shard,
        due_at=record.pending.due_at,
        scheduled_for=record.pending.scheduled_for,
        generation=record.version,
        definition_number=record.definition_number,
    )


def delayed_timer(record: DelayedRecord, shards: int) -> Timer:
    """Return the timer of a delayed run."""
    return Timer(
        kind="delayed",
        ref=record.id,
        shard=shard_of(record.id, shards),
        due_at=record.due_at,
        scheduled_for=record.due_at,
        generation=record.generation,
        definition_number=0,
    )


def retry_timer(run_id: RunId, due_at: int, fence: int, shards: int) -> Timer:
    """Return the timer of a run that waits for another attempt."""
    return Timer(
        kind="retry",
        ref=run_id,
        shard=shard_of(run_id, shards),
        due_at=due_at,
        scheduled_for=due_at,
        generation=fence,
        definition_number=0,
    )
