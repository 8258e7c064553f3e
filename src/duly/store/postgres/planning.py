"""Orders about schedules: creating one, and applying a decided change.

Of two that create the same at once, the unique index lets one through; the other looks again and
finds what is there. A change locks the schedule's state first, as a fire does, so that nothing
happens between what is read and what is written.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from psycopg import errors

from duly.domain.identity import shard_of
from duly.domain.literals import ScheduleStatus
from duly.store import records
from duly.store.auditing import changed_subject, created_subject
from duly.store.gathering import ground_of
from duly.store.planning import ChangeSchedule, CreatedSchedule, CreateSchedule, Stale
from duly.store.postgres import rows
from duly.store.postgres.savepoints import unless_overtaken
from duly.store.postgres.session import first, uid
from duly.store.postgres.settlements import Settlements, write_skips
from duly.store.rulings import (
    changed_record,
    given_up,
    is_outdated,
    name_taken,
    refuse_another,
    unknown_schedule,
)

if TYPE_CHECKING:
    from duly.domain.identity import ScheduleId
    from duly.domain.schedules import Definition, ScheduleRecord
    from duly.store.postgres.session import Session
    from duly.store.postgres.work import Work

__all__ = [
    "change_schedule",
    "create_schedule",
    "ground_of",
    "read_definition",
    "read_schedule",
]

BY_ID = f"{rows.SCHEDULE} WHERE s.id = $1::uuid"
BY_NAME = f"{rows.SCHEDULE} WHERE s.tenant = $1 AND s.name = $2 AND s.status <> 'deleted'"
LOCK_STATE = "SELECT 1 FROM duly.schedule_state WHERE schedule_id = $1::uuid FOR UPDATE"
INSERT_SCHEDULE = """
INSERT INTO duly.schedules (id, tenant, name, owner, declared_by, status, created_at, updated_at,
    updated_by)
VALUES ($1::uuid, $2, $3, $4, $5, 'active', $6::int8, $6::int8, $7)"""
INSERT_STATE = """
INSERT INTO duly.schedule_state (schedule_id, version, definition_number, shard, next_for, next_due,
    load_at, fires, tenant, task, queue, priority)
VALUES ($1::uuid, 1, 1, $2::int4, $3::int8, $4::int8, $4::int8, 0, $5, $6, $7, $8::int4)"""
INSERT_DEFINITION = """
INSERT INTO duly.schedule_definitions (schedule_id, number, definition, made_at, made_by)
VALUES ($1::uuid, $2::int4, $3, $4::int8, $5)"""
READ_DEFINITION = """
SELECT definition FROM duly.schedule_definitions
WHERE schedule_id = $1::uuid AND number = $2::int4"""
UPDATE_SCHEDULE = """
UPDATE duly.schedules
SET name = $2, owner = $3, declared_by = $4, status = $5, reason = $6, resume_at = $7::int8,
    resume_missed = $8, status_before = $9, updated_at = $10::int8, updated_by = $11
WHERE id = $1::uuid"""
UPDATE_STATE = """
UPDATE duly.schedule_state
SET version = $2::int4, definition_number = $3::int4, next_for = $4::int8, next_due = $5::int8,
    load_at = $5::int8, held_for = $6::int8, last_for = $7::int8, last_run = $8::uuid,
    last_fired_at = $9::int8, fires = $10::int8, task = $11, queue = $12, priority = $13::int4
WHERE schedule_id = $1::uuid"""
DELETE_OWED_OF = f"""
DELETE FROM duly.owed o WHERE schedule_id = $1::uuid RETURNING {rows.OWED_COLUMNS}"""  # noqa: S608


def create_schedule(work: Work, command: CreateSchedule) -> CreatedSchedule:
    """Create a schedule, or recognise the one that is there."""

    def create() -> CreatedSchedule:
        known = _recognised(work, command)
        if known is not None:
            return CreatedSchedule(known, is_new=False)
        record = _insert(work, command)
        work.record(command.actor, "schedule.created", created_subject(record))
        return CreatedSchedule(record, is_new=True)

    return unless_overtaken(work.session, "duly_create", create)


def change_schedule(work: Work, command: ChangeSchedule) -> ScheduleRecord | Stale:
    """Apply a decided change, or say that it came too late."""
    change = command.change
    work.session.rows(LOCK_STATE, (uid(command.id),))
    old = read_schedule(work.session, command.id)
    now = work.look_at_the_clock()
    if old is None:
        raise unknown_schedule(command.id)
    if is_outdated(command, old, now):
        return Stale(old, now)
    changed = changed_record(old, command, now)
    _refuse_taken_name(work, changed)
    if change.definition is not None:
        _insert_definition(work, changed, change.definition)
    if change.drops_owed:
        _give_up_owed(work, old)
    changed = _settled(work, old, changed, command)
    _write(work, old, changed)
    if changed.pending is not None:
        work.announce("schedule", changed.id, changed.pending.due_at, changed.shard)
    work.record(command.actor, change.action, changed_subject(old, changed))
    return changed


def read_schedule(session: Session, schedule_id: ScheduleId) -> ScheduleRecord | None:
    """Return a schedule, deleted or not."""
    row = first(session, BY_ID, (uid(schedule_id),))
    return None if row is None else records.schedule_record(row)


def read_definition(session: Session, schedule_id: ScheduleId, number: int) -> Definition | None:
    """Return one version of a schedule's template."""
    row = first(session, READ_DEFINITION, (uid(schedule_id), number))
    return None if row is None else records.read_definition(row[0])


def _recognised(work: Work, command: CreateSchedule) -> ScheduleRecord | None:
    """Return the schedule that this request made before, or one that is the same."""
    known = read_schedule(work.session, command.id)
    if known is not None:
        return known
    row = first(work.session, BY_NAME, (command.tenant, command.name))
    if row is None:
        return None
    known = records.schedule_record(row)
    refuse_another(known, command)
    return known


def _insert(work: Work, command: CreateSchedule) -> ScheduleRecord:
    session, now, made_by = work.session, work.look_at_the_clock(), command.actor.name
    identity, call, pending = uid(command.id), command.definition.call, command.pending
    shard = shard_of(command.id, work.shards)
    names = (command.tenant, command.name, command.owner, command.declared_by)
    session.run(INSERT_SCHEDULE, (identity, *names, now, made_by))
    instants = (pending.scheduled_for, pending.due_at)
    copied = (command.tenant, call.task, call.queue, call.priority)
    session.run(INSERT_STATE, (identity, shard, *instants, *copied))
    text = records.definition_text(command.definition)
    session.run(INSERT_DEFINITION, (identity, 1, text, now, made_by))
    work.count_on(ScheduleStatus.ACTIVE, 1)
    work.announce("schedule", command.id, pending.due_at, shard)
    record = read_schedule(session, command.id)
    assert record is not None, "it was written a moment ago"
    return record


def _refuse_taken_name(work: Work, changed: ScheduleRecord) -> None:
    if changed.status is ScheduleStatus.DELETED:
        return
    row = first(work.session, BY_NAME, (changed.tenant, changed.name))
    if row is not None and row[0] != changed.id:
        raise name_taken(changed.name)


def _insert_definition(work: Work, changed: ScheduleRecord, definition: Definition) -> None:
    text = records.definition_text(definition)
    row = (uid(changed.id), changed.definition_number, text, work.now, changed.updated_by)
    work.session.run(INSERT_DEFINITION, row)


def _settled(
    work: Work, old: ScheduleRecord, changed: ScheduleRecord, command: ChangeSchedule
) -> ScheduleRecord:
    """Write what the change settles, which is always under the old definition."""
    ground = ground_of(old)
    settlements = Settlements(work)
    settlements.add(ground, command.change.settlement)
    settlements.write()
    return replace(
        changed,
        last_for=ground.last_for,
        last_run=ground.last_run,
        last_fired_at=ground.last_fired_at,
        fires=ground.fires,
    )


def _write(work: Work, old: ScheduleRecord, changed: ScheduleRecord) -> None:
    try:
        work.session.run(UPDATE_SCHEDULE, (uid(changed.id), *_described(changed)))
    except errors.UniqueViolation as error:
        # Somebody has taken the name since we looked.
        raise name_taken(changed.name) from error
    work.session.run(UPDATE_STATE, (uid(changed.id), *_stated(changed)))
    if old.status is not changed.status:
        work.count_on(old.status, -1)
        work.count_on(changed.status, 1)


def _described(changed: ScheduleRecord) -> tuple[object, ...]:
    return (
        changed.name,
        changed.owner,
        changed.declared_by,
        changed.status,
        changed.reason,
        changed.resume_at,
        changed.resume_missed,
        changed.status_before,
        changed.updated_at,
        changed.updated_by,
    )


def _stated(changed: ScheduleRecord) -> tuple[object, ...]:
    pending, call = changed.pending, changed.definition.call
    return (
        changed.version,
        changed.definition_number,
        None if pending is None else pending.scheduled_for,
        None if pending is None else pending.due_at,
        changed.held_for,
        changed.last_for,
        uid(changed.last_run),
        changed.last_fired_at,
        changed.fires,
        call.task,
        call.queue,
        call.priority,
    )


def _give_up_owed(work: Work, record: ScheduleRecord) -> None:
    """Turn what is owed into skips, so that no occurrence is without a verdict."""
    skips: list[records.Row] = []
    for row in work.session.rows(DELETE_OWED_OF, (uid(record.id),)):
        owed = records.owed_record(row).owed
        definition = read_definition(work.session, record.id, owed.definition_number)
        assert definition is not None, "a definition stays as long as something refers to it"
        skip = given_up(record.id, owed, definition)
        ends = (record.id, skip.first_for, skip.last_for)
        skips.append((*ends, skip.count, skip.reason, None, work.now))
    write_skips(work, skips)
