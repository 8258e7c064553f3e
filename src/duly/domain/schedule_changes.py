"""Schedule changes: what an order about a schedule changes, as pure decisions.

The store applies a `ScheduleChange` if the schedule has not changed meanwhile; otherwise the caller
reads it again and decides anew.

An order never loses an occurrence: what the old definition owed up to now stays owed under the old
definition, and the new one begins after now. A decision that relies on the pending occurrence still
being in the future says so (`before`), and the store's clock checks it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.domain.enums import Missed, ScheduleStatus, SkipReason
from duly.domain.fire_planning import (
    NO_FURTHER,
    NOTHING,
    ScheduleVersion,
    Settlement,
    Skip,
    owe,
    plan_late,
    skip_span,
)
from duly.errors import Conflict, UsageError
from duly.timetable.interval import FIRST_INSTANT

if TYPE_CHECKING:
    from collections.abc import Collection

    from duly.domain.ids import ScheduleId
    from duly.domain.schedules import Definition, NextOccurrence, ScheduleRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleChange:
    """What an order makes of a schedule: the whole of its new state, and what it settles."""

    action: str
    """The verb of the audit entry: `schedule.paused`."""
    status: ScheduleStatus
    pending: NextOccurrence | None
    held_for: int | None = None
    before: int | None = None
    """Apply only while the store's clock shows less than this."""
    definition: Definition | None = None
    """The new definition, or None to keep the one in force."""
    name: str | None = None
    owner: str | None = None
    declared_by: str | None = None
    settlement: Settlement = NOTHING
    drops_owed: bool = False
    """Whether what is owed from earlier is given up, and recorded as skipped."""
    reason: str | None = None
    resume_at: int | None = None
    resume_missed: Missed | None = None
    status_before: ScheduleStatus | None = None


def first_pending(schedule_id: ScheduleId, definition: Definition, now: int) -> NextOccurrence:
    """Return the first instant of a new schedule; refuse one that would never fire."""
    found = ScheduleVersion(schedule_id, 1, definition).next_after(now)
    if found is None:
        problem = "has no occurrence in the future"
        remedy = "give a timetable that has one; to run something at once, enqueue it"
        raise UsageError("timetable", definition.timetable.describe(), problem, remedy)
    return found


def decide_pause(
    record: ScheduleRecord, *, reason: str | None, until: int | None, missed: Missed
) -> ScheduleChange:
    """Pause: keep everything, hold the pending occurrence, fire nothing."""
    _refuse_deleted(record, "pause")
    if record.status is ScheduleStatus.ENDED:
        raise Conflict("schedule", record.name, "has ended", "edit its timetable to revive it")
    held = record.pending.scheduled_for if record.pending else record.held_for
    return ScheduleChange(
        action="schedule.paused",
        status=ScheduleStatus.PAUSED,
        pending=None,
        held_for=held,
        reason=reason,
        resume_at=until,
        resume_missed=missed if until is not None else None,
    )


def decide_resume(
    record: ScheduleRecord, now: int, missed: Missed, reason: str | None
) -> ScheduleChange:
    """Resume: from now on, or by the misfire policy for what fell into the pause."""
    _refuse_deleted(record, "resume")
    if record.status is not ScheduleStatus.PAUSED:
        raise Conflict("schedule", record.name, f"is {record.status}", "resume what is paused")
    template = _template(record)
    action = "schedule.resumed"
    held_for = _held_for(template, record)
    if missed is Missed.MISFIRE and held_for is not None:
        held = template.pending(held_for)
        if now - held.due_at <= record.definition.misfire.grace_us:
            return ScheduleChange(
                action=action, status=ScheduleStatus.ACTIVE, pending=held, reason=reason
            )
        plan = plan_late(template, held, now)
        return _going_on(action, plan.pending, plan.settlement, reason)
    skips = _skipped(template, held_for, now, SkipReason.PAUSED)
    following = _going_on_from(template, held_for, now)
    return _going_on(action, following, Settlement((), skips), reason)


def decide_delete(record: ScheduleRecord, reason: str | None) -> ScheduleChange:
    """Delete: stop at once, remember for a while, give up what is owed."""
    if record.status is ScheduleStatus.DELETED:
        raise Conflict("schedule", record.name, "is already deleted", "restore it to use it again")
    return ScheduleChange(
        action="schedule.deleted",
        status=ScheduleStatus.DELETED,
        pending=None,
        held_for=record.pending.scheduled_for if record.pending else record.held_for,
        drops_owed=True,
        reason=reason,
        resume_at=record.resume_at,
        resume_missed=record.resume_missed,
        status_before=record.status,
    )


def decide_restore(record: ScheduleRecord, now: int, reason: str | None) -> ScheduleChange:
    """Restore what was deleted, to what it was before; what fell in between is skipped."""
    if record.status is not ScheduleStatus.DELETED:
        raise Conflict("schedule", record.name, "is not deleted", "there is nothing to restore")
    if record.status_before is ScheduleStatus.ENDED:
        return ScheduleChange(
            action="schedule.restored",
            status=ScheduleStatus.ENDED,
            pending=None,
            reason=NO_FURTHER,
        )
    template = _template(record)
    held_for = _held_for(template, record)
    skips = _skipped(template, held_for, now, SkipReason.DELETED)
    following = _going_on_from(template, held_for, now)
    if record.status_before is ScheduleStatus.PAUSED and following is not None:
        return ScheduleChange(
            action="schedule.restored",
            status=ScheduleStatus.PAUSED,
            pending=None,
            held_for=following.scheduled_for,
            settlement=Settlement((), skips),
            reason=reason,
            resume_at=record.resume_at,
            resume_missed=record.resume_missed,
        )
    return _going_on("schedule.restored", following, Settlement((), skips), reason)


def decide_skip_next(record: ScheduleRecord, reason: str | None) -> ScheduleChange:
    """Skip the one pending occurrence, on record, and go on with the one after it."""
    _refuse_deleted(record, "skip")
    if record.pending is None:
        raise Conflict("schedule", record.name, f"is {record.status}", "nothing is pending")
    skipped_for = record.pending.scheduled_for
    skip = Skip(skipped_for, skipped_for, 1, SkipReason.SKIPPED)
    following = _template(record).next_after(skipped_for)
    settlement = Settlement((), (skip,))
    return _going_on("schedule.skipped-next", following, settlement, reason)


def decide_edit(  # noqa: PLR0913 - what to change, when, why, and what stays as it is
    record: ScheduleRecord,
    definition: Definition,
    now: int,
    reason: str | None,
    *,
    skipped: Collection[int] = (),
) -> ScheduleChange:
    """Edit: the old definition keeps what it owed up to now, the new one begins after now.

    Occurrences to come that a person has skipped stay skipped, if the new timetable has them too.
    """
    _refuse_deleted(record, "edit")
    if _same_times(record.definition, definition) and record.status is not ScheduleStatus.ENDED:
        return _edit_keeping_times(record, definition, reason)
    template = ScheduleVersion(record.id, record.version + 1, definition)
    following = template.next_after(max(now, record.last_for or now))
    while following is not None and following.scheduled_for in skipped:
        following = template.next_after(following.scheduled_for)
    if following is None:
        problem = "has no occurrence in the future"
        remedy = "give a timetable that has one; to stop the schedule, pause or delete it"
        raise UsageError("timetable", definition.timetable.describe(), problem, remedy)
    old = _template(record)
    if record.status is ScheduleStatus.PAUSED:
        return ScheduleChange(
            action="schedule.edited",
            status=ScheduleStatus.PAUSED,
            pending=None,
            held_for=following.scheduled_for,
            before=_next_at(old, record.held_for, now),
            definition=definition,
            settlement=Settlement((), _skipped(old, record.held_for, now, SkipReason.PAUSED)),
            reason=record.reason,
            resume_at=record.resume_at,
            resume_missed=record.resume_missed,
        )
    # Should another fall due before this is applied, it belongs to the old definition: decide anew.
    settlement, before = NOTHING, None
    if record.pending is not None and record.pending.scheduled_for <= now:
        last = old.definition.timetable.last_until(now)
        first = record.pending.scheduled_for
        settlement = owe(old, first, first if last is None else max(first, last), now)
        before = _next_at(old, first, now)
    elif record.pending is not None:
        before = record.pending.scheduled_for
    return ScheduleChange(
        action="schedule.edited",
        status=ScheduleStatus.ACTIVE,
        pending=following,
        before=before,
        definition=definition,
        settlement=settlement,
        reason=reason,
    )


def decide_retime(
    record: ScheduleRecord, now: int, reason: str, settled_through: int | None = None
) -> ScheduleChange | None:
    """Recompute the pending instant from intent, under newer time-zone rules; None if same.

    The pending occurrence keeps its place: it becomes the one that is nearest to it under the new
    rules, even if that has just passed (its misfire policy decides then). So a slot that has run is
    not run again at its new instant, and one that moved before now is not lost. Nothing is promised
    again that was settled: run, or skipped up to `settled_through`. What is due already stays due.
    """
    pending = record.pending
    if record.status is not ScheduleStatus.ACTIVE or pending is None:
        return None
    if pending.scheduled_for <= now:
        return None
    floor = max(record.last_for or FIRST_INSTANT, settled_through or FIRST_INSTANT)
    following = _nearest(_template(record), pending.scheduled_for, floor)
    if following == pending:
        return None
    status = ScheduleStatus.ACTIVE if following else ScheduleStatus.ENDED
    return ScheduleChange(
        action="schedule.retimed",
        status=status,
        pending=following,
        before=pending.scheduled_for,
        reason=reason if following else NO_FURTHER,
    )


def _nearest(template: ScheduleVersion, instant: int, floor: int) -> NextOccurrence | None:
    """Return the occurrence nearest to an instant among those later than a floor."""
    timetable = template.definition.timetable
    earlier, later = timetable.last_until(instant), timetable.first_from(instant)
    candidates = [one for one in (later, earlier) if one is not None and one > floor]
    if not candidates:
        return template.next_after(max(floor, instant))
    return template.pending(min(candidates, key=lambda one: abs(one - instant)))


def _edit_keeping_times(
    record: ScheduleRecord, definition: Definition, reason: str | None
) -> ScheduleChange:
    """Change what is run and how, and keep the pending occurrence; a new jitter moves its due."""
    template = ScheduleVersion(record.id, record.version + 1, definition)
    is_paused = record.status is ScheduleStatus.PAUSED
    return ScheduleChange(
        action="schedule.edited",
        status=record.status,
        pending=template.pending(record.pending.scheduled_for) if record.pending else None,
        held_for=record.held_for,
        definition=definition,
        reason=record.reason if is_paused else reason,
        resume_at=record.resume_at,
        resume_missed=record.resume_missed,
    )


def _same_times(old: Definition, new: Definition) -> bool:
    return old.timetable.to_json() == new.timetable.to_json()


def _going_on(
    action: str, following: NextOccurrence | None, settlement: Settlement, reason: str | None
) -> ScheduleChange:
    """Return to active with a next instant, or end for want of one."""
    status = ScheduleStatus.ACTIVE if following else ScheduleStatus.ENDED
    return ScheduleChange(
        action=action,
        status=status,
        pending=following,
        settlement=settlement,
        reason=reason if following else NO_FURTHER,
    )


def _held_for(template: ScheduleVersion, record: ScheduleRecord) -> int | None:
    """Return what is held, where it is by the time-zone rules in force now."""
    if record.held_for is None:
        return None
    nearest = _nearest(template, record.held_for, record.last_for or FIRST_INSTANT)
    return None if nearest is None else nearest.scheduled_for


def _next_at(template: ScheduleVersion, held_for: int | None, now: int) -> int | None:
    """Return the first occurrence after now that belongs to what was pending or held."""
    if held_for is None:
        return None
    try:
        found = template.next_after(max(now, held_for - 1))
    except UsageError:
        return None
    return None if found is None else found.scheduled_for


def _going_on_from(
    template: ScheduleVersion, held_for: int | None, now: int
) -> NextOccurrence | None:
    """Return the first occurrence after now, and never one before what was held.

    What lies between is settled: a person skipped it, or it was run before a clock went back.
    """
    return template.next_after(now if held_for is None else max(now, held_for - 1))


def _skipped(
    template: ScheduleVersion, held_for: int | None, now: int, reason: SkipReason
) -> tuple[Skip, ...]:
    return () if held_for is None else skip_span(template, held_for, now, reason)


def _template(record: ScheduleRecord) -> ScheduleVersion:
    return ScheduleVersion(record.id, record.definition_number, record.definition)


def _refuse_deleted(record: ScheduleRecord, verb: str) -> None:
    if record.status is ScheduleStatus.DELETED:
        raise Conflict("schedule", record.name, "is deleted", f"restore it first, then {verb} it")
