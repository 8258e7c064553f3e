"""Orders about schedules: creating one, and applying a decided change."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.identity import shard_of
from duly.domain.literals import ScheduleStatus
from duly.store import records
from duly.store.auditing import changed_subject, created_subject
from duly.store.gathering import ground_of
from duly.store.planning import ChangeSchedule, CreatedSchedule, CreateSchedule, Stale
from duly.store.rulings import (
    changed_record,
    given_up,
    is_outdated,
    name_taken,
    refuse_another,
    unknown_schedule,
)
from duly.store.sqlite import rows
from duly.store.sqlite.settlements import INSERT_SKIP, Settlements

if TYPE_CHECKING:
    import apsw

    from duly.domain.identity import ScheduleId
    from duly.domain.schedules import Definition, ScheduleRecord
    from duly.store.sqlite.work import Work

BY_ID = f"{rows.SCHEDULE} WHERE s.id = ?"
BY_NAME = f"{rows.SCHEDULE} WHERE s.tenant = ? AND s.name = ? AND s.status <> 'deleted'"
INSERT_SCHEDULE = """
INSERT INTO duly_schedules (id, tenant, name, owner, declared_by, status, created_at, updated_at,
    updated_by)
VALUES (?, ?, ?, ?, ?, 'active', ?, ?, ?)"""
INSERT_STATE = """
INSERT INTO duly_schedule_state (schedule_id, version, definition_number, shard, next_for, next_due,
    fires, tenant, task, queue, priority)
VALUES (?, 1, 1, ?, ?, ?, 0, ?, ?, ?, ?)"""
INSERT_DEFINITION = "INSERT INTO duly_schedule_definitions VALUES (?, ?, ?, ?, ?)"
READ_DEFINITION = """
SELECT definition FROM duly_schedule_definitions WHERE schedule_id = ? AND number = ?"""
UPDATE_SCHEDULE = """
UPDATE duly_schedules
SET name = ?, owner = ?, declared_by = ?, status = ?, reason = ?, resume_at = ?, resume_missed = ?,
    status_before = ?, updated_at = ?, updated_by = ?
WHERE id = ?"""
UPDATE_STATE = """
UPDATE duly_schedule_state
SET version = ?, definition_number = ?, next_for = ?, next_due = ?, held_for = ?, last_for = ?,
    last_run = ?, last_fired_at = ?, fires = ?, task = ?, queue = ?, priority = ?
WHERE schedule_id = ?"""
DELETE_OWED_OF = """
DELETE FROM duly_owed WHERE schedule_id = ?
RETURNING schedule_id, first_for, last_for, definition_number, shard, created_at"""


def create_schedule(work: Work, command: CreateSchedule) -> CreatedSchedule:
    """Create a schedule, or recognise the one that is there."""
    known = read_schedule(work.connection, command.id)
    if known is None:
        row = work.connection.execute(BY_NAME, (command.tenant, command.name)).fetchone()
        if row is not None:
            known = records.schedule_record(row)
            refuse_another(known, command)
    if known is not None:
        return CreatedSchedule(known, is_new=False)
    record = _insert(work, command)
    work.record(command.actor, "schedule.created", created_subject(record))
    return CreatedSchedule(record, is_new=True)


def change_schedule(work: Work, command: ChangeSchedule) -> ScheduleRecord | Stale:
    """Apply a decided change, or say that it came too late."""
    change, now = command.change, work.now
    old = read_schedule(work.connection, command.id)
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


def read_schedule(connection: apsw.Connection, schedule_id: ScheduleId) -> ScheduleRecord | None:
    """Return a schedule, deleted or not."""
    row = connection.execute(BY_ID, (schedule_id,)).fetchone()
    return None if row is None else records.schedule_record(row)


def read_definition(
    connection: apsw.Connection, schedule_id: ScheduleId, number: int
) -> Definition | None:
    """Return one version of a schedule's template."""
    row = connection.execute(READ_DEFINITION, (schedule_id, number)).fetchone()
    return None if row is None else records.read_definition(row[0])


def _insert(work: Work, command: CreateSchedule) -> ScheduleRecord:
    connection, now, made_by = work.connection, work.now, command.actor.name
    shard, pending = shard_of(command.id, work.shards), command.pending
    call = command.definition.call
    connection.execute(
        INSERT_SCHEDULE,
        (
            command.id,
            command.tenant,
            command.name,
            command.owner,
            command.declared_by,
            now,
            now,
            made_by,
        ),
    )
    instants = (pending.scheduled_for, pending.due_at)
    copied = (command.tenant, call.task, call.queue, call.priority)
    connection.execute(INSERT_STATE, (command.id, shard, *instants, *copied))
    text = records.definition_text(command.definition)
    connection.execute(INSERT_DEFINITION, (command.id, 1, text, now, made_by))
    work.count_on(ScheduleStatus.ACTIVE, 1)
    work.announce("schedule", command.id, pending.due_at, shard)
    record = read_schedule(connection, command.id)
    assert record is not None, "it was written a moment ago"
    return record


def _refuse_taken_name(work: Work, changed: ScheduleRecord) -> None:
    if changed.status is ScheduleStatus.DELETED:
        return
    row = work.connection.execute(BY_NAME, (changed.tenant, changed.name)).fetchone()
    if row is not None and row[0] != changed.id:
        raise name_taken(changed.name)


def _insert_definition(work: Work, changed: ScheduleRecord, definition: Definition) -> None:
    text = records.definition_text(definition)
    row = (changed.id, changed.definition_number, text, work.now, changed.updated_by)
    work.connection.execute(INSERT_DEFINITION, row)


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
    work.connection.execute(
        UPDATE_SCHEDULE,
        (
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
            changed.id,
        ),
    )
    pending, call = changed.pending, changed.definition.call
    work.connection.execute(
        UPDATE_STATE,
        (
            changed.version,
            changed.definition_number,
            None if pending is None else pending.scheduled_for,
            None if pending is None else pending.due_at,
            changed.held_for,
            changed.last_for,
            changed.last_run,
            changed.last_fired_at,
            changed.fires,
            call.task,
            call.queue,
            call.priority,
            changed.id,
        ),
    )
    if old.status is not changed.status:
        work.count_on(old.status, -1)
        work.count_on(changed.status, 1)


def _give_up_owed(work: Work, record: ScheduleRecord) -> None:
    """Turn what is owed into skips, so that no occurrence is without a verdict."""
    for row in work.connection.execute(DELETE_OWED_OF, (record.id,)).fetchall():
        owed = records.owed_record(row).owed
        definition = read_definition(work.connection, record.id, owed.definition_number)
        assert definition is not None, "a definition stays as long as something refers to it"
        skip = given_up(record.id, owed, definition)
        ends = (record.id, skip.first_for, skip.last_for)
        work.connection.execute(INSERT_SKIP, (*ends, skip.count, skip.reason, None, work.now))
