"""Orders about schedules: creating one, and applying a decided change.

Of two that create the same at once, the unique index lets one through; the other looks again and
finds what is there. A change locks the schedule's state first, as a fire does, so that nothing
happens between what is read and what is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import errors

from duly.store import records
from duly.store.changing import Changing, Statements
from duly.store.postgres import rows
from duly.store.postgres.confirming import confirm_schedule
from duly.store.postgres.quotas import PostgresCounting
from duly.store.postgres.savepoints import unless_overtaken
from duly.store.postgres.session import as_values, first, uid
from duly.store.postgres.settlements import Settlements
from duly.store.rulings import name_taken

if TYPE_CHECKING:
    from duly.domain.ids import ScheduleId
    from duly.domain.schedules import CatchUpRange, Definition, ScheduleRecord
    from duly.store.ports.schedules import ChangeSchedule, CreatedSchedule, CreateSchedule, Stale
    from duly.store.postgres.session import Session
    from duly.store.postgres.work import Work

BY_ID = f"{rows.SCHEDULE} WHERE s.id = $1::uuid AND ($2::text IS NULL OR s.tenant = $2)"
BY_NAME = f"{rows.SCHEDULE} WHERE s.tenant = $1 AND s.name = $2 AND s.status <> 'deleted'"
LOCK_STATE = "SELECT 1 FROM duly.schedule_state WHERE schedule_id = $1::uuid FOR UPDATE"
INSERT_SCHEDULE = """
INSERT INTO duly.schedules (id, tenant, name, owner, declared_by, status, created_at, updated_at,
    updated_by)
VALUES ($1::uuid, $2, $3, $4, $5, 'active', $6::int8, $7::int8, $8)"""
INSERT_STATE = """
INSERT INTO duly.schedule_state (schedule_id, version, definition_number, shard, next_for, next_due,
    load_at, fires, tenant, task, queue, priority, overlap, gate, name, arguments)
SELECT s.id, 1, 1, $2::int4, $3::int8, $4::int8, $4::int8, 0, $5, $6, $7, $8::int4,
    nullif($9::text, 'allow'), $10, s.name, duly.short_arguments(d.definition)
FROM duly.schedules s JOIN duly.schedule_definitions d ON d.schedule_id = s.id AND d.number = 1
WHERE s.id = $1::uuid"""
INSERT_DEFINITION = """
INSERT INTO duly.schedule_definitions (schedule_id, number, definition, made_at, made_by)
VALUES ($1::uuid, $2::int4, $3, $4::int8, $5)"""
READ_DEFINITION = """
SELECT definition FROM duly.schedule_definitions
WHERE schedule_id = $1::uuid AND number = $2::int4"""
UPDATE_SCHEDULE = """
UPDATE duly.schedules
SET name = $1, owner = $2, declared_by = $3, status = $4, reason = $5, resume_at = $6::int8,
    resume_missed = $7, status_before = $8, updated_at = $9::int8, updated_by = $10
WHERE id = $11::uuid"""
_ACTIVE = f"coalesce(nullif({{}}::text, '')::uuid, {rows.NOBODY})"
UPDATE_STATE = f"""
UPDATE duly.schedule_state
SET version = $1::int4, definition_number = $2::int4, next_for = $3::int8, next_due = $4::int8,
    load_at = $4::int8, held_for = $5::int8, last_for = $6::int8, last_run = $7::uuid,
    last_fired_at = $8::int8, fires = $9::int8, task = $10, queue = $11, priority = $12::int4,
    overlap = nullif($13::text, 'allow'), gate = $14, active_run = {_ACTIVE.format("$15")},
    overlap_count = nullif($16::int8, 0), (name, arguments) = (
        SELECT s.name, duly.short_arguments(d.definition)
        FROM duly.schedules s JOIN duly.schedule_definitions d ON d.schedule_id = s.id
        WHERE s.id = $17::uuid AND d.number = $2::int4)
WHERE schedule_id = $17::uuid"""  # noqa: S608 - an expression of ours
NOTE_RUNS = f"""
UPDATE duly.schedule_state
SET last_for = $1::int8, last_run = $2::uuid, last_fired_at = $3::int8, fires = $4::int8,
    active_run = {_ACTIVE.format("$5")}, overlap_count = nullif($6::int8, 0)
WHERE schedule_id = $7::uuid"""  # noqa: S608 - an expression of ours
DELETE_OWED = "DELETE FROM duly.owed WHERE schedule_id = $1::uuid AND first_for = $2::int8"
DELETE_OWED_OF = f"""
DELETE FROM duly.owed o WHERE schedule_id = $1::uuid RETURNING {rows.OWED_COLUMNS}"""  # noqa: S608


def create_schedule(work: Work, command: CreateSchedule) -> CreatedSchedule:
    """Create a schedule, or recognise the one that is there."""

    def create() -> CreatedSchedule:
        work.look_at_the_clock()
        created = PostgresChanging(work).create(command)
        if not created.is_new:
            confirm_schedule(work, created.record.id)
        return created

    return unless_overtaken(work.session, "duly_create", create, [command.id])


def change_schedule(work: Work, command: ChangeSchedule) -> ScheduleRecord | Stale:
    """Apply a decided change, or say that it came too late."""
    work.session.rows(LOCK_STATE, (uid(command.id),))
    work.look_at_the_clock()
    return PostgresChanging(work).change(command)


def read_schedule(
    session: Session, schedule_id: ScheduleId, tenant: str | None = None
) -> ScheduleRecord | None:
    """Return a schedule, deleted or not, of a tenant if one is named."""
    row = first(session, BY_ID, (uid(schedule_id), tenant))
    return None if row is None else records.schedule_record(row)


def read_definition(session: Session, schedule_id: ScheduleId, number: int) -> Definition | None:
    """Return one version of a schedule's template."""
    row = first(session, READ_DEFINITION, (uid(schedule_id), number))
    return None if row is None else records.read_definition(row[0])


class PostgresChanging(Changing):
    """Makes, changes and drains schedules; whoever changes one holds its row."""

    statements = Statements(
        insert_schedule=INSERT_SCHEDULE,
        insert_state=INSERT_STATE,
        insert_definition=INSERT_DEFINITION,
        update_schedule=UPDATE_SCHEDULE,
        update_state=UPDATE_STATE,
        note_runs=NOTE_RUNS,
        delete_owed=DELETE_OWED,
    )

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self._settling = work
        self._session = work.session

    def run(self, statement: str, row: records.Row) -> None:
        """Run one of the statements."""
        self._session.run(statement, as_values(row))

    def read(self, schedule_id: ScheduleId) -> ScheduleRecord | None:
        """Return a schedule, deleted or not."""
        return read_schedule(self._session, schedule_id)

    def named(self, tenant: str, name: str) -> ScheduleRecord | None:
        """Return the schedule that has a name, if one has it that is not deleted."""
        row = first(self._session, BY_NAME, (tenant, name))
        return None if row is None else records.schedule_record(row)

    def definition(self, schedule_id: ScheduleId, number: int) -> Definition | None:
        """Return one version of a schedule's template."""
        return read_definition(self._session, schedule_id, number)

    def take_owed(self, schedule_id: ScheduleId) -> list[CatchUpRange]:
        """Delete what a schedule owes, and return it."""
        found = self._session.rows(DELETE_OWED_OF, (uid(schedule_id),))
        return [records.owed_record(row).owed for row in found]

    def counting(self) -> PostgresCounting:
        """Return what counts schedules in this transaction."""
        return PostgresCounting(self._session)

    def settlements(self) -> Settlements:
        """Return what gathers and writes settlements in this transaction."""
        return Settlements(self._settling)

    def update_schedule(self, changed: ScheduleRecord) -> None:
        """Write what a schedule is called; somebody may have taken the name since we looked."""
        try:
            super().update_schedule(changed)
        except errors.UniqueViolation as error:
            raise name_taken(changed.name) from error
