"""Orders about schedules: creating one, and applying a decided change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.store import records
from duly.store.changing import Changing, Statements
from duly.store.sqlite import rows
from duly.store.sqlite.quotas import SqliteCounting
from duly.store.sqlite.settlements import Settlements

if TYPE_CHECKING:
    import apsw

    from duly.domain.ids import ScheduleId
    from duly.domain.schedules import CatchUpRange, Definition, ScheduleRecord
    from duly.store.ports.schedules import ChangeSchedule, CreatedSchedule, CreateSchedule, Stale
    from duly.store.sqlite.work import Work

BY_ID = f"{rows.SCHEDULE} WHERE s.id = ?1 AND (?2 IS NULL OR s.tenant = ?2)"
BY_NAME = f"{rows.SCHEDULE} WHERE s.tenant = ? AND s.name = ? AND s.status <> 'deleted'"
INSERT_SCHEDULE = """
INSERT INTO duly_schedules (id, tenant, name, owner, declared_by, status, created_at, updated_at,
    updated_by)
VALUES (?, ?, ?, ?, ?, 'active', ?, ?, ?)"""
ARGUMENTS_MAX = 200
"""Longer ones are not copied to where they are at hand."""
_COPIED = f"""
    s.name, CASE WHEN length(d.definition -> '$.arguments') <= {ARGUMENTS_MAX:d}
        THEN d.definition -> '$.arguments' END"""
INSERT_STATE = f"""
INSERT INTO duly_schedule_state (schedule_id, version, definition_number, shard, next_for, next_due,
    fires, tenant, task, queue, priority, overlap, gate, name, arguments)
SELECT ?1, 1, 1, ?2, ?3, ?4, 0, ?5, ?6, ?7, ?8, ?9, ?10,{_COPIED}
FROM duly_schedules s JOIN duly_schedule_definitions d ON d.schedule_id = s.id AND d.number = 1
WHERE s.id = ?1"""  # noqa: S608 - columns of ours
INSERT_DEFINITION = "INSERT INTO duly_schedule_definitions VALUES (?, ?, ?, ?, ?)"
READ_DEFINITION = """
SELECT definition FROM duly_schedule_definitions WHERE schedule_id = ? AND number = ?"""
UPDATE_SCHEDULE = """
UPDATE duly_schedules
SET name = ?, owner = ?, declared_by = ?, status = ?, reason = ?, resume_at = ?, resume_missed = ?,
    status_before = ?, updated_at = ?, updated_by = ?
WHERE id = ?"""
UPDATE_STATE = f"""
UPDATE duly_schedule_state
SET version = ?1, definition_number = ?2, next_for = ?3, next_due = ?4, held_for = ?5,
    last_for = ?6, last_run = ?7, last_fired_at = ?8, fires = ?9, task = ?10, queue = ?11,
    priority = ?12, overlap = ?13, gate = ?14, active_run = ?15, overlaps = ?16,
    (name, arguments) = (
        SELECT{_COPIED}
        FROM duly_schedules s JOIN duly_schedule_definitions d ON d.schedule_id = s.id
        WHERE s.id = ?17 AND d.number = ?2)
WHERE schedule_id = ?17"""  # noqa: S608 - columns of ours
DELETE_OWED_OF = """
DELETE FROM duly_owed WHERE schedule_id = ?
RETURNING schedule_id, first_for, last_for, definition_number, shard, created_at"""
DELETE_OWED = "DELETE FROM duly_owed WHERE schedule_id = ? AND first_for = ?"
NOTE_RUNS = """
UPDATE duly_schedule_state
SET last_for = ?, last_run = ?, last_fired_at = ?, fires = ?, active_run = ?, overlaps = ?
WHERE schedule_id = ?"""


def create_schedule(work: Work, command: CreateSchedule) -> CreatedSchedule:
    """Create a schedule, or recognise the one that is there."""
    return SqliteChanging(work).create(command)


def change_schedule(work: Work, command: ChangeSchedule) -> ScheduleRecord | Stale:
    """Apply a decided change, or say that it came too late."""
    return SqliteChanging(work).change(command)


def read_schedule(
    connection: apsw.Connection, schedule_id: ScheduleId, tenant: str | None = None
) -> ScheduleRecord | None:
    """Return a schedule, deleted or not, of a tenant if one is named."""
    row = connection.execute(BY_ID, (schedule_id, tenant)).fetchone()
    return None if row is None else records.schedule_record(row)


def read_definition(
    connection: apsw.Connection, schedule_id: ScheduleId, number: int
) -> Definition | None:
    """Return one version of a schedule's template."""
    row = connection.execute(READ_DEFINITION, (schedule_id, number)).fetchone()
    return None if row is None else records.read_definition(row[0])


class SqliteChanging(Changing):
    """Makes, changes and drains schedules, while nobody else writes."""

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

    def run(self, statement: str, row: records.Row) -> None:
        """Run one of the statements."""
        self._settling.connection.execute(statement, row)

    def read(self, schedule_id: ScheduleId) -> ScheduleRecord | None:
        """Return a schedule, deleted or not."""
        return read_schedule(self._settling.connection, schedule_id)

    def named(self, tenant: str, name: str) -> ScheduleRecord | None:
        """Return the schedule that has a name, if one has it that is not deleted."""
        row = self._settling.connection.execute(BY_NAME, (tenant, name)).fetchone()
        return None if row is None else records.schedule_record(row)

    def definition(self, schedule_id: ScheduleId, number: int) -> Definition | None:
        """Return one version of a schedule's template."""
        return read_definition(self._settling.connection, schedule_id, number)

    def take_owed(self, schedule_id: ScheduleId) -> list[CatchUpRange]:
        """Delete what a schedule owes, and return it."""
        found = self._settling.connection.execute(DELETE_OWED_OF, (schedule_id,)).fetchall()
        return [records.owed_record(row).owed for row in found]

    def counting(self) -> SqliteCounting:
        """Return what counts schedules in this transaction."""
        return SqliteCounting(self._settling)

    def settlements(self) -> Settlements:
        """Return what gathers and writes settlements in this transaction."""
        return Settlements(self._settling)
