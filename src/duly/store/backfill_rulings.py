"""Rulings about backfills: what every store decides alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.domain.audit import AuditSubject
from duly.domain.backfill import NEVER, BackfillMode, BackfillOccurrenceKind, BackfillStatus
from duly.domain.enums import Overlap
from duly.domain.ids import identity_text
from duly.errors import Conflict, NotFound
from duly.store.gates import IncomingRun, comer_again
from duly.store.rulings import id_taken
from duly.timetable.instants import from_microseconds, iso_utc

if TYPE_CHECKING:
    from duly.domain.backfill import Planned, Slot
    from duly.domain.ids import BackfillId, RunId
    from duly.domain.schedules import Definition, ScheduleRecord
    from duly.store.ports.backfill import BackfillRecord, ChangeBackfill, CreateBackfill

SCHEDULE_GONE = "its schedule was deleted"
RESUMES = "resumes"
"""By which the trail names the backfill that another one goes on from."""
OVER = frozenset((BackfillStatus.DONE, BackfillStatus.CANCELLED))


def chosen_run(record: BackfillRecord, slot: Slot, planned: Planned) -> RunId | None:
    """Return the run to be made of an occurrence as it is now; None if none is."""
    if slot.kind in NEVER or slot.kind not in record.classes:
        return None
    if slot.run_id is None:
        return planned.fills
    if record.mode is BackfillMode.FILL and slot.kind is BackfillOccurrenceKind.SUCCEEDED:
        return None
    return planned.redoes


def root_of(record: BackfillRecord, planned: Planned, run_id: RunId) -> RunId | None:
    """Return the run whose line a backfill's run goes on with; None for one that begins a line.

    What failed is made good: effects that were done are not done again. What is redone is redone.
    """
    is_first = run_id == planned.fills
    return None if is_first or record.mode is BackfillMode.REDO else planned.fills


def comer_in_backfill(record: ScheduleRecord, definition: Definition, run_id: RunId) -> IncomingRun:
    """Return a run of a backfill as one that comes to a gate: only to that of a business key.

    A backfill has a concurrency of its own, and is in nobody's way: a schedule's own gate is for
    what its timetable brings.
    """
    if definition.overlap is Overlap.SERIALIZE:
        return comer_again(record, definition, run_id)
    return IncomingRun(run_id, Overlap.ALLOW, None, None)


def recognised(known: BackfillRecord, command: CreateBackfill) -> BackfillRecord:
    """Return a backfill that was asked for before under the same id; refuse another one."""
    if (known.tenant, known.schedule_id) != (command.tenant, command.schedule_id):
        raise id_taken(command.id)
    return known


def refuse_stale(record: BackfillRecord, command: ChangeBackfill) -> None:
    """Refuse an order about a backfill that is over, or that somebody else has changed."""
    name = identity_text(record.id)
    if record.status in OVER:
        problem, remedy = f"is {record.status} already", "make another one if need be"
        raise Conflict("backfill", name, problem, remedy)
    if record.version != command.expected_version:
        problem = f"is at version {record.version}, not {command.expected_version}"
        raise Conflict("backfill", name, problem, "look at it again, and decide anew")


def action_of(before: BackfillRecord, after: BackfillRecord) -> str:
    """Return how the trail calls an order about a backfill."""
    if before.status is after.status:
        return "backfill.throttled"
    match after.status:
        case BackfillStatus.PAUSED:
            return "backfill.paused"
        case BackfillStatus.ACTIVE:
            return "backfill.resumed"
        case _:
            return "backfill.cancelled"


def backfill_facts(record: BackfillRecord) -> dict[str, Any]:
    """Return what the trail says about a backfill."""
    return {
        "backfill": identity_text(record.id),
        "status": str(record.status),
        "since": iso_utc(from_microseconds(record.since)),
        "until": iso_utc(from_microseconds(record.until)),
        "mode": str(record.mode),
        "classes": sorted(str(one) for one in record.classes),
        "per_minute": record.per_minute,
        "concurrency": record.concurrency,
        "total": record.total,
        "made": record.made,
    }


def created_backfill(record: BackfillRecord, resumes: BackfillId | None) -> AuditSubject:
    """Return what is told of a new backfill, and of the one that it goes on from."""
    link = {} if resumes is None else {RESUMES: identity_text(resumes)}
    return AuditSubject(
        name=record.schedule_name,
        tenant=record.tenant,
        id=record.id,
        after=backfill_facts(record) | link,
    )


def unknown_backfill(backfill_id: BackfillId) -> NotFound:
    """Return the error for a backfill that is not there."""
    remedy = "list the backfills to see their ids"
    return NotFound("backfill", identity_text(backfill_id), remedy)
