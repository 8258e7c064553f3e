"""Looking at promises: single ones, lists with filters, verdicts, and the state of the store."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.enums import ScheduleStatus, SkipReason
from duly.domain.ids import RunId, ScheduleId, occurrence_run_id
from duly.domain.runs import OccurrenceStatus, OccurrenceStatusKind, status_of_run
from duly.domain.vitals import RunSpan
from duly.store import records
from duly.store.filters import audit_leads, audit_where, schedules_where
from duly.store.ports.audit import decided_page
from duly.store.ports.dispatch import WorkerStatus
from duly.store.ports.queries import (
    FIRST_DELAYED,
    PAGE_MAX,
    AuditFilter,
    DelayedPlace,
    RunFilter,
    ScheduleFilter,
    ScheduleSnapshot,
    StoreStatus,
)
from duly.store.rulings import unrecorded
from duly.store.sqlite import attempts, last_ends, rows, run_vitals
from duly.store.sqlite.delayed import find_delayed, read_delayed, read_run
from duly.store.sqlite.filtering import SqliteWhere
from duly.store.sqlite.planning import BY_NAME, read_definition, read_schedule
from duly.store.sqlite.searching import SqliteSearch
from duly.store.sqlite.shard_lists import shard_list
from duly.store.sqlite.work import counted
from duly.store.tenant_counts import count_tenant, count_tenants

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.audit import AuditEntry
    from duly.domain.runs import (
        AttemptRecord,
        DelayedRecord,
        LineRecord,
        ProgressRecord,
        RunRecord,
        SkipRecord,
    )
    from duly.domain.schedules import CatchUpRange, Definition, ScheduleRecord
    from duly.domain.vitals import DefinitionRecord, LastEnds, RunVital, VitalsFilter
    from duly.store.filters import Value
    from duly.store.ports.audit import AuditAfter, TrailPage
    from duly.store.ports.dispatch import Member
    from duly.store.ports.queries import (
        AttemptFilter,
        AttemptPage,
        AuditPage,
        OpenCounts,
        RunPage,
        TenantCounts,
    )
    from duly.store.sqlite.work import Look

LAST_DELETED_BY_NAME = f"""{rows.SCHEDULE} WHERE s.tenant = ? AND s.name = ?
ORDER BY s.updated_at DESC, s.id DESC LIMIT 1"""
LIST_DELAYED = f"""
{rows.DELAYED} WHERE tenant = ? AND (due_at, id) > (?, ?) ORDER BY due_at, id LIMIT ?"""
LIST_SKIPS = f"{rows.SKIP} WHERE schedule_id = ? ORDER BY first_for DESC LIMIT ?"
LIST_OWED = f"{rows.OWED} WHERE schedule_id = ? ORDER BY first_for LIMIT ?"
RUN_TIMES = """
SELECT r.fired_at, o.finished_at
FROM (SELECT id, fired_at FROM duly_runs WHERE schedule_id = ? ORDER BY id DESC LIMIT ?) r
LEFT JOIN duly_outcomes o ON o.run_id = r.id
LEFT JOIN duly_dead x ON x.run_id = r.id
WHERE x.run_id IS NULL AND (o.run_id IS NULL OR o.started_at IS NOT NULL)
ORDER BY r.id DESC"""
AUDIT_AFTER = f"{rows.AUDIT} WHERE number > ? ORDER BY number LIMIT ?"
LIST_TASKS = "SELECT name FROM duly_tasks ORDER BY name"
DUE_RESUMES = """
SELECT id FROM duly_schedules
WHERE resume_at IS NOT NULL AND resume_at <= ? AND status = 'paused'
ORDER BY resume_at, id LIMIT ?"""
OWN_RUN = """
SELECT o.state, o.into_run FROM duly_runs r
LEFT JOIN duly_outcomes o ON o.run_id = r.id WHERE r.id = ?"""
COVERING_SKIP = """
SELECT last_for, reason, into_run FROM duly_skips
WHERE schedule_id = ? AND first_for <= ? ORDER BY first_for DESC LIMIT 1"""
COVERING_OWED = """
SELECT last_for FROM duly_owed
WHERE schedule_id = ? AND first_for <= ? ORDER BY first_for DESC LIMIT 1"""
READ_TALLIES = "SELECT name, count FROM duly_tallies"
COUNT_QUEUES = "SELECT queue, count(*) FROM duly_ready GROUP BY queue"
COUNT_HELD = "SELECT worker, count(*) FROM duly_claims GROUP BY worker"
LIST_PAUSED = "SELECT name FROM duly_queues ORDER BY name"
# Each of them waits for a person: never many.
COUNT_AMBIGUOUS = "SELECT count(*) FROM duly_ambiguous"
COUNT_OWED = "SELECT count(*) FROM duly_owed"
COUNT_EARLY = "SELECT count(*) FROM duly_runs WHERE fired_at < not_before"
# What is due is at the front of each shard's index; what is pending behind it is not touched.
OVERDUE = """
SELECT count(*), min(due) FROM (
    SELECT next_due AS due FROM duly_schedule_state
    WHERE shard IN (SELECT value FROM json_each(?1)) AND next_due <= ?2
    UNION ALL
    SELECT due_at FROM duly_timers
    WHERE shard IN (SELECT value FROM json_each(?1)) AND due_at <= ?2
    UNION ALL
    SELECT due_at FROM duly_waiting
    WHERE shard IN (SELECT value FROM json_each(?1)) AND due_at <= ?2)"""
NEXT_SCHEDULE = "SELECT min(next_due) FROM duly_schedule_state WHERE shard = ? AND next_due > ?"
NEXT_DELAYED = "SELECT min(due_at) FROM duly_timers WHERE shard = ? AND due_at > ?"
NEXT_RETRY = "SELECT min(due_at) FROM duly_waiting WHERE shard = ? AND due_at > ?"
READ_STORE = "SELECT shards, tzdata, incarnation, judge_after FROM duly_cluster"
LIST_MEMBERS = f"""{rows.MEMBER}
WHERE {rows.IS_ALIVE} ORDER BY id"""
LIST_LEASES = f"{rows.LEASE} ORDER BY shard, lane"


class AuditWhere(SqliteWhere):
    """Conditions on the audit trail, of which one alone may choose the index: what narrows most."""

    def __init__(self, command: AuditFilter) -> None:
        super().__init__()
        self._lead = next((column for column, _ in audit_leads(command)[1]), None)

    def equal(self, column: str, value: Value | None) -> None:
        """Ask for a value, if one is given; a + keeps SQLite from going by this one."""
        super().equal(column if column == self._lead else f"+{column}", value)


class SqliteReading:
    """What anybody may look at, all of it in one snapshot."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._search = SqliteSearch(look)

    def now(self) -> int:
        """Return the store's clock."""
        return self._look.now

    def get_schedule(
        self, schedule_id: ScheduleId, tenant: str | None = None
    ) -> ScheduleSnapshot | None:
        """Return a schedule, deleted or not."""
        record = read_schedule(self._look.connection, schedule_id, tenant)
        return None if record is None else ScheduleSnapshot(record, self._look.now)

    def get_definition(self, schedule_id: ScheduleId, number: int) -> Definition | None:
        """Return one version of a schedule's template."""
        return read_definition(self._look.connection, schedule_id, number)

    def list_definitions(self, schedule_id: ScheduleId, limit: int) -> list[DefinitionRecord]:
        """Return the newest versions of a schedule's template, newest first."""
        return run_vitals.list_definitions(self._look, schedule_id, limit)

    def get_definitions(
        self, keys: Sequence[tuple[ScheduleId, int]]
    ) -> dict[tuple[ScheduleId, int], Definition]:
        """Return those versions of templates that there are."""
        found = {key: read_definition(self._look.connection, *key) for key in keys}
        return {key: one for key, one in found.items() if one is not None}

    def get_run(self, run_id: RunId, tenant: str | None = None) -> RunRecord | None:
        """Return a run."""
        return read_run(self._look.connection, run_id, tenant)

    def list_attempts(self, run_id: RunId, limit: int = PAGE_MAX) -> list[AttemptRecord]:
        """Return every claim of a run by its fence."""
        return attempts.list_attempts(self._look, run_id, limit)

    def list_progress(self, run_id: RunId, limit: int) -> list[ProgressRecord]:
        """Return the steps of a run's progress, oldest first."""
        return attempts.list_progress(self._look, run_id, limit)

    def list_lines(self, run_id: RunId, after: int, limit: int) -> list[LineRecord]:
        """Return lines that a run's attempts wrote, in order."""
        return attempts.list_lines(self._look, run_id, after, limit)

    def get_delayed(self, run_id: RunId, tenant: str | None = None) -> DelayedRecord | None:
        """Return a pending delayed run by its id."""
        return read_delayed(self._look.connection, run_id, tenant)

    def find_delayed(self, tenant: str, key: str) -> DelayedRecord | None:
        """Return the pending delayed run of a key."""
        return find_delayed(self._look.connection, tenant, key)

    def find_schedule(self, tenant: str, name: str) -> ScheduleSnapshot | None:
        """Return the schedule of a name; of deleted ones the last, if no other has it."""
        row = self._look.connection.execute(BY_NAME, (tenant, name)).fetchone()
        if row is None:
            row = self._look.connection.execute(LAST_DELETED_BY_NAME, (tenant, name)).fetchone()
        return (
            None if row is None else ScheduleSnapshot(records.schedule_record(row), self._look.now)
        )

    def list_schedules(self, command: ScheduleFilter) -> list[ScheduleRecord]:
        """Return schedules in order of tenant, name and id."""
        where = schedules_where(SqliteWhere(), command)
        sql = where.sql(rows.SCHEDULE, "ORDER BY s.tenant, s.name, s.id", command.limit)
        return [
            records.schedule_record(row)
            for row in self._look.connection.execute(sql, where.bound())
        ]

    def list_runs(self, command: RunFilter) -> list[RunRecord]:
        """Return runs, newest first by id."""
        return self._search.list_runs(command)

    def list_audit(self, command: AuditFilter) -> list[AuditEntry]:
        """Return audit entries, newest first."""
        where = audit_where(AuditWhere(command), command)
        sql = where.sql(rows.AUDIT, "ORDER BY number DESC", command.limit)
        return [
            records.audit_entry(row) for row in self._look.connection.execute(sql, where.bound())
        ]

    def search_runs(self, command: RunFilter) -> RunPage:
        """Return a page of runs, newest first by id."""
        return self._search.search_runs(command)

    def search_attempts(self, command: AttemptFilter) -> AttemptPage:
        """Return a page of attempts by run and fence, newest first."""
        return self._search.search_attempts(command)

    def search_audit(self, command: AuditFilter) -> AuditPage:
        """Return a page of audit entries, newest first by number."""
        return self._search.search_audit(command)

    def list_delayed(
        self, tenant: str, limit: int, after: DelayedPlace = FIRST_DELAYED
    ) -> list[DelayedRecord]:
        """Return pending delayed runs in order of due."""
        found = self._look.connection.execute(LIST_DELAYED, (tenant, *after, limit))
        return [records.delayed_record(row) for row in found]

    def list_skips(self, schedule_id: ScheduleId, limit: int) -> list[SkipRecord]:
        """Return what was skipped, newest first."""
        found = self._look.connection.execute(LIST_SKIPS, (schedule_id, limit))
        return [records.skip_record(row) for row in found]

    def list_run_times(
        self, schedule_ids: Sequence[ScheduleId], limit: int
    ) -> dict[ScheduleId, list[RunSpan]]:
        """Return from when to when the newest runs of each were open."""
        found: dict[ScheduleId, list[RunSpan]] = {}
        for one in schedule_ids:
            spans = self._look.connection.execute(RUN_TIMES, (one, limit))
            if listed := [RunSpan(*span) for span in spans]:
                found[one] = listed
        return found

    def list_last_ends(
        self, schedule_ids: Sequence[ScheduleId], limit: int, *, with_errors: bool = True
    ) -> dict[ScheduleId, LastEnds]:
        """Return how the newest runs of each ended."""
        return last_ends.list_last_ends(self._look, schedule_ids, limit, with_errors=with_errors)

    def list_run_vitals(self, command: VitalsFilter) -> list[RunVital]:
        """Return what is known of runs, newest first."""
        return run_vitals.list_run_vitals(self._look, command)

    def list_owed(self, schedule_id: ScheduleId, limit: int = PAGE_MAX) -> list[CatchUpRange]:
        """Return the ranges a schedule still owes, oldest first."""
        found = self._look.connection.execute(LIST_OWED, (schedule_id, limit))
        return [records.owed_record(row).owed for row in found]

    def list_tasks(self) -> list[str]:
        """Return the names of tasks that programs have registered, sorted."""
        return [name for (name,) in self._look.connection.execute(LIST_TASKS)]

    def judge(self, schedule_id: ScheduleId, instants: Sequence[int]) -> list[OccurrenceStatus]:
        """Say what is known about each occurrence."""
        record = read_schedule(self._look.connection, schedule_id)
        return [
            _recorded(self._look, schedule_id, instant) or unrecorded(record, instant)
            for instant in instants
        ]

    def status(self) -> StoreStatus:
        """Return the state of the store."""
        connection, now = self._look.connection, self._look.now
        shards, tzdata, incarnation, judge_after = rows.one(connection, READ_STORE)
        tallies = rows.pairs(connection, READ_TALLIES)
        overdue, oldest = rows.one(connection, OVERDUE, (shard_list(range(shards)), now))
        queues = rows.pairs(connection, COUNT_QUEUES)
        counts = {one: tallies[one] for one in ScheduleStatus if tallies[one]}
        members = connection.execute(LIST_MEMBERS, (now, counted(judge_after, now)))
        held = dict(connection.execute(COUNT_HELD))
        return StoreStatus(
            now=now,
            schedules=counts,
            delayed=tallies["delayed"],
            queued=sum(queues.values()),
            owed=rows.one(connection, COUNT_OWED)[0],
            overdue=overdue,
            oldest_due_at=oldest,
            next_due_at=_next_due(self._look, shards),
            early_fires=rows.one(connection, COUNT_EARLY)[0],
            members=tuple(
                member_of(row, is_alive=True, running=held.get(row[0], 0)) for row in members
            ),
            leases=tuple(map(records.lease_record, connection.execute(LIST_LEASES))),
            shards=shards,
            tzdata=tzdata,
            incarnation=incarnation,
            queues=queues,
            running=sum(held.values()),
            retrying=tallies["retrying"],
            dead=tallies["dead"],
            ambiguous=rows.one(connection, COUNT_AMBIGUOUS)[0],
            paused_queues=tuple(name for (name,) in connection.execute(LIST_PAUSED)),
        )

    def count_tenant(self, tenant: str) -> TenantCounts:
        """Count what is one tenant's."""
        return count_tenant(self._ask, tenant, self._look.now)

    def count_tenants(self) -> dict[str, OpenCounts]:
        """Count open runs by tenant."""
        return count_tenants(self._ask)

    def _ask(self, statement: str, values: Sequence[object]) -> list[records.Row]:
        return self._look.connection.execute(statement, values).fetchall()


def member_of(row: records.Row, *, is_alive: bool, running: int = 0) -> Member:
    """Return a member of the fleet, from the columns of `rows.MEMBER`."""
    slots, leaked, queues, standing = row[11:]
    return replace(
        records.member(row, is_alive=is_alive),
        slots=slots,
        leaked=leaked,
        queues=tuple(json.loads(queues)),
        running=running,
        standing=None if standing is None else WorkerStatus(standing),
    )


def follow_audit(look: Look, command: AuditAfter) -> TrailPage:
    """Return audit entries after a number, oldest first."""
    after, limit = command.after, command.limit
    if after is None:
        ((newest,),) = look.connection.execute("SELECT coalesce(max(number), 0) FROM duly_audit")
        after, limit = newest - 1, 1
    found = look.connection.execute(AUDIT_AFTER, (after, limit))
    return decided_page(command, [records.audit_entry(row) for row in found], lambda _: False)


def due_resumes(look: Look, limit: int) -> list[ScheduleId]:
    """Read paused schedules whose time to resume has come."""
    found = look.connection.execute(DUE_RESUMES, (look.now, limit))
    return [ScheduleId(schedule_id) for (schedule_id,) in found]


def _recorded(look: Look, schedule_id: ScheduleId, instant: int) -> OccurrenceStatus | None:
    connection, key = look.connection, (schedule_id, instant)
    run_id = occurrence_run_id(schedule_id, instant)
    run = connection.execute(OWN_RUN, (run_id,)).fetchone()
    if run is not None:
        return status_of_run(instant, run_id, *run)
    skip = connection.execute(COVERING_SKIP, key).fetchone()
    if skip is not None and instant <= skip[0]:
        return OccurrenceStatus(instant, OccurrenceStatusKind.SKIPPED, skip[2], SkipReason(skip[1]))
    owed = connection.execute(COVERING_OWED, key).fetchone()
    if owed is not None and instant <= owed[0]:
        return OccurrenceStatus(instant, OccurrenceStatusKind.OWED)
    return None


def _next_due(look: Look, shards: int) -> int | None:
    found: list[int] = []
    for shard in range(shards):
        for statement in (NEXT_SCHEDULE, NEXT_DELAYED, NEXT_RETRY):
            (due,) = rows.one(look.connection, statement, (shard, look.now))
            if due is not None:
                found.append(due)
    return min(found, default=None)
