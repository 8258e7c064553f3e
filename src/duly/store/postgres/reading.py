"""Looking at promises: single ones, lists with filters, verdicts, and the state of the store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from duly.domain.enums import ScheduleStatus, SkipReason
from duly.domain.ids import RunId, ScheduleId, occurrence_run_id
from duly.domain.runs import OccurrenceStatus, OccurrenceStatusKind, status_of_run
from duly.domain.vitals import RunSpan
from duly.store import records, tenant_counts
from duly.store.filters import audit_where, schedules_where
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
from duly.store.postgres import last_ends, rows, run_vitals, trace
from duly.store.postgres.arrays import Int4s, Int8s, Uuids
from duly.store.postgres.delayed import find_delayed, read_delayed, read_run
from duly.store.postgres.filtering import PostgresWhere
from duly.store.postgres.planning import BY_NAME, read_definition, read_schedule
from duly.store.postgres.searching import PostgresSearch
from duly.store.postgres.session import first, one, pairs, uid
from duly.store.rulings import unrecorded
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
    from duly.store.ports.dispatch import Member
    from duly.store.ports.queries import (
        AttemptFilter,
        AttemptPage,
        AuditPage,
        OpenCounts,
        RunPage,
        TenantCounts,
    )
    from duly.store.postgres.work import Look

LAST_DELETED_BY_NAME = f"""{rows.SCHEDULE} WHERE s.tenant = $1 AND s.name = $2
ORDER BY s.updated_at DESC, s.id DESC LIMIT 1"""
READ_DEFINITIONS = """
SELECT uuid_send(d.schedule_id), d.number, d.definition
FROM unnest($1::uuid[], $2::int4[]) u(id, number)
CROSS JOIN LATERAL (
    SELECT n.* FROM duly.schedule_definitions n
    WHERE n.schedule_id = u.id AND n.number = u.number OFFSET 0) d"""
LIST_DELAYED = f"""
{rows.DELAYED} WHERE tenant = $1 AND (due_at, id) > ($3::int8, $4::uuid)
ORDER BY due_at, id LIMIT $2::int8"""
LIST_SKIPS = f"{rows.SKIP} WHERE schedule_id = $1::uuid ORDER BY first_for DESC LIMIT $2::int8"
LIST_OWED = f"{rows.OWED} WHERE schedule_id = $1::uuid ORDER BY first_for LIMIT $2::int8"
RUN_TIMES = """
SELECT uuid_send(u.id), r.fired_at, o.finished_at
FROM pg_catalog.unnest($1::uuid[]) WITH ORDINALITY u(id, place)
CROSS JOIN LATERAL (
    SELECT n.id, n.fired_at FROM duly.runs n WHERE n.schedule_id = u.id
    ORDER BY n.id DESC LIMIT $2::int8) r
LEFT JOIN duly.outcomes o ON o.run_id = r.id
LEFT JOIN duly.dead x ON x.run_id = r.id
WHERE x.run_id IS NULL AND (o.run_id IS NULL OR o.started_at IS NOT NULL)
ORDER BY u.place, r.id DESC"""
LIST_TASKS = "SELECT name FROM duly.tasks ORDER BY name"
DUE_RESUMES = """
SELECT uuid_send(id) FROM duly.schedules
WHERE resume_at IS NOT NULL AND resume_at <= $1::int8 AND status = 'paused'
ORDER BY resume_at, id LIMIT $2::int8"""
JUDGE = """
SELECT r.is_made, r.state, r.into_run, k.last_for, k.reason, uuid_send(k.into_run), o.last_for
FROM unnest($2::int8[], $3::uuid[]) WITH ORDINALITY u(instant, run_id, place)
LEFT JOIN LATERAL (
    SELECT true AS is_made, e.state, uuid_send(e.into_run) AS into_run
    FROM duly.runs r LEFT JOIN duly.outcomes e ON e.run_id = r.id
    WHERE r.id = u.run_id) r ON true
LEFT JOIN LATERAL (
    SELECT last_for, reason, into_run FROM duly.skips
    WHERE schedule_id = $1::uuid AND first_for <= u.instant
    ORDER BY first_for DESC LIMIT 1) k ON true
LEFT JOIN LATERAL (
    SELECT last_for FROM duly.owed
    WHERE schedule_id = $1::uuid AND first_for <= u.instant
    ORDER BY first_for DESC LIMIT 1) o ON true
ORDER BY u.place"""
READ_TALLIES = """
SELECT t.name, t.count + coalesce(c.change, 0)
FROM duly.tallies t
LEFT JOIN (SELECT name, sum(change)::int8 AS change FROM duly.tally_changes GROUP BY name) c
    ON c.name = t.name"""
COUNT_QUEUES = "SELECT queue, count(*) FROM duly.ready GROUP BY queue"
COUNT_HELD = "SELECT worker, count(*) FROM duly.claims GROUP BY worker"
_HELD_OF_ALL = "SELECT worker, held FROM duly.held_of_all()"
COUNT_WAITING = "SELECT count(*) FROM duly.waiting"
COUNT_DEAD = "SELECT count(*) FROM duly.dead"
COUNT_AMBIGUOUS = "SELECT count(*) FROM duly.ambiguous"
LIST_PAUSED = "SELECT name FROM duly.queues ORDER BY name"
COUNT_OWED = "SELECT count(*) FROM duly.owed"
COUNT_EARLY = "SELECT count(*) FROM duly.runs WHERE fired_at < not_before"
# What is due is at the front of each shard's index; what is pending behind it is not touched.
OVERDUE = """
SELECT count(*), min(due) FROM (
    SELECT next_due AS due FROM duly.schedule_state
    WHERE shard = ANY($1::int4[]) AND load_at <= $2::int8 AND next_due <= $2::int8
    UNION ALL
    SELECT due_at FROM duly.delayed
    WHERE shard = ANY($1::int4[]) AND due_at <= $2::int8
    UNION ALL
    SELECT due_at FROM duly.waiting
    WHERE shard = ANY($1::int4[]) AND due_at <= $2::int8) AS overdue"""
# The index knows only a lower bound, at most ten seconds before the instant. The first by that
# bound is due no later than ten seconds after the very first one.
NEXT_AT_MOST = f"""
SELECT min(n.due) FROM pg_catalog.unnest($1::int4[]) AS u(shard)
CROSS JOIN LATERAL (
    SELECT t.next_due AS due FROM duly.schedule_state t
    WHERE t.shard = u.shard AND t.load_at > $2::int8 - {rows.LAG_US} AND t.next_due > $2::int8
    ORDER BY t.load_at LIMIT 1) n"""  # noqa: S608 - a number of ours
# Any that is due before that has its bound before that, too.
NEXT_SCHEDULE = f"""
SELECT min(next_due) FROM duly.schedule_state
WHERE shard = ANY($1::int4[]) AND load_at > $2::int8 - {rows.LAG_US} AND load_at <= $3::int8
    AND next_due > $2::int8"""  # noqa: S608 - a number of ours
NEXT_DELAYED = """
SELECT min(n.due_at) FROM pg_catalog.unnest($1::int4[]) AS u(shard)
CROSS JOIN LATERAL (
    SELECT d.due_at FROM duly.delayed d WHERE d.shard = u.shard AND d.due_at > $2::int8
    ORDER BY d.due_at LIMIT 1) n"""
NEXT_RETRY = """
SELECT min(n.due_at) FROM pg_catalog.unnest($1::int4[]) AS u(shard)
CROSS JOIN LATERAL (
    SELECT w.due_at FROM duly.waiting w WHERE w.shard = u.shard AND w.due_at > $2::int8
    ORDER BY w.due_at LIMIT 1) n"""
# Here these rows know their tenant themselves.
OWN_COUNTS = {
    tenant_counts.DEAD: "SELECT count(*) FROM duly_dead WHERE tenant = ?1",
    tenant_counts.AMBIGUOUS: "SELECT count(*) FROM duly_ambiguous WHERE tenant = ?1",
}
READ_STORE = "SELECT shards, tzdata, incarnation FROM duly.cluster"
LIST_MEMBERS = f"{rows.MEMBER} WHERE {rows.IS_ALIVE} ORDER BY id"
LIST_LEASES = f"{rows.LEASE} ORDER BY shard, lane"


class PostgresReading:
    """What anybody may look at, all of it in one snapshot."""

    def __init__(self, look: Look, *, is_held: bool = False) -> None:
        self._look = look
        self._is_held = is_held
        """Whether the database shows us one tenant's rows only."""
        self._search = PostgresSearch(look)

    def now(self) -> int:
        """Return the store's clock."""
        return self._look.now

    def get_schedule(
        self, schedule_id: ScheduleId, tenant: str | None = None
    ) -> ScheduleSnapshot | None:
        """Return a schedule, deleted or not."""
        record = read_schedule(self._look.session, schedule_id, tenant)
        return None if record is None else ScheduleSnapshot(record, self._look.now)

    def get_definition(self, schedule_id: ScheduleId, number: int) -> Definition | None:
        """Return one version of a schedule's template."""
        return read_definition(self._look.session, schedule_id, number)

    def list_definitions(self, schedule_id: ScheduleId, limit: int) -> list[DefinitionRecord]:
        """Return the newest versions of a schedule's template, newest first."""
        return run_vitals.list_definitions(self._look, schedule_id, limit)

    def get_definitions(
        self, keys: Sequence[tuple[ScheduleId, int]]
    ) -> dict[tuple[ScheduleId, int], Definition]:
        """Return those versions of templates that there are."""
        asked = Uuids([one for one, _ in keys]), Int4s([number for _, number in keys])
        return {
            (ScheduleId(one), number): records.read_definition(text)
            for one, number, text in self._look.session.rows(READ_DEFINITIONS, asked)
        }

    def get_run(self, run_id: RunId, tenant: str | None = None) -> RunRecord | None:
        """Return a run."""
        return read_run(self._look.session, run_id, tenant)

    def list_attempts(self, run_id: RunId, limit: int = PAGE_MAX) -> list[AttemptRecord]:
        """Return every claim of a run by its fence."""
        return trace.list_attempts(self._look, run_id, limit)

    def list_progress(self, run_id: RunId, limit: int) -> list[ProgressRecord]:
        """Return the steps of a run's progress, oldest first."""
        return trace.list_progress(self._look, run_id, limit)

    def list_lines(self, run_id: RunId, after: int, limit: int) -> list[LineRecord]:
        """Return lines that a run's attempts wrote, in order."""
        return trace.list_lines(self._look, run_id, after, limit)

    def get_delayed(self, run_id: RunId, tenant: str | None = None) -> DelayedRecord | None:
        """Return a pending delayed run by its id."""
        return read_delayed(self._look.session, run_id, tenant)

    def find_delayed(self, tenant: str, key: str) -> DelayedRecord | None:
        """Return the pending delayed run of a key."""
        return find_delayed(self._look.session, tenant, key)

    def find_schedule(self, tenant: str, name: str) -> ScheduleSnapshot | None:
        """Return the schedule of a name; of deleted ones the last, if no other has it."""
        named = (tenant, name)
        row = first(self._look.session, BY_NAME, named) or first(
            self._look.session, LAST_DELETED_BY_NAME, named
        )
        return (
            None if row is None else ScheduleSnapshot(records.schedule_record(row), self._look.now)
        )

    def list_schedules(self, command: ScheduleFilter) -> list[ScheduleRecord]:
        """Return schedules in order of tenant, name and id."""
        where = schedules_where(PostgresWhere(), command)
        sql = where.sql(rows.SCHEDULE, "ORDER BY s.tenant, s.name, s.id", command.limit)
        return [records.schedule_record(row) for row in self._look.session.rows(sql, where.bound())]

    def list_runs(self, command: RunFilter) -> list[RunRecord]:
        """Return runs, newest first by id."""
        return self._search.list_runs(command)

    def list_audit(self, command: AuditFilter) -> list[AuditEntry]:
        """Return audit entries, newest first."""
        where = audit_where(PostgresWhere(), command)
        sql = where.sql(rows.AUDIT, "ORDER BY number DESC", command.limit)
        return [records.audit_entry(row) for row in self._look.session.rows(sql, where.bound())]

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
        due_at, last = after
        found = self._look.session.rows(LIST_DELAYED, (tenant, limit, due_at, uid(last)))
        return [records.delayed_record(row) for row in found]

    def list_skips(self, schedule_id: ScheduleId, limit: int) -> list[SkipRecord]:
        """Return what was skipped, newest first."""
        found = self._look.session.rows(LIST_SKIPS, (uid(schedule_id), limit))
        return [records.skip_record(row) for row in found]

    def list_run_times(
        self, schedule_ids: Sequence[ScheduleId], limit: int
    ) -> dict[ScheduleId, list[RunSpan]]:
        """Return from when to when the newest runs of each were open."""
        found: dict[ScheduleId, list[RunSpan]] = {}
        for identity, *span in self._look.session.rows(RUN_TIMES, (Uuids(schedule_ids), limit)):
            found.setdefault(ScheduleId(identity), []).append(RunSpan(*span))
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
        found = self._look.session.rows(LIST_OWED, (uid(schedule_id), limit))
        return [records.owed_record(row).owed for row in found]

    def list_tasks(self) -> list[str]:
        """Return the names of tasks that programs have registered, sorted."""
        return [name for (name,) in self._look.session.rows(LIST_TASKS)]

    def judge(self, schedule_id: ScheduleId, instants: Sequence[int]) -> list[OccurrenceStatus]:
        """Say what is known about each occurrence."""
        record = read_schedule(self._look.session, schedule_id)
        ids = [occurrence_run_id(schedule_id, instant) for instant in instants]
        found = self._look.session.rows(JUDGE, (uid(schedule_id), Int8s(instants), Uuids(ids)))
        return [
            recorded(instant, run_id, row) or unrecorded(record, instant)
            for instant, run_id, row in zip(instants, ids, found, strict=True)
        ]

    def status(self) -> StoreStatus:
        """Return the state of the store."""
        session, now = self._look.session, self._look.now
        shards, tzdata, incarnation = one(session, READ_STORE)
        tallies = pairs(session, READ_TALLIES)
        queues = pairs(session, COUNT_QUEUES)
        every_shard = Int4s(range(shards))
        overdue, oldest = one(session, OVERDUE, (every_shard, now))
        held: dict[int, int] = dict(session.rows(_HELD_OF_ALL if self._is_held else COUNT_HELD))
        members = session.rows(LIST_MEMBERS, (now,))
        return StoreStatus(
            now=now,
            schedules={name: tallies[name] for name in ScheduleStatus if tallies[name]},
            delayed=tallies["delayed"],
            queued=sum(queues.values()),
            owed=one(session, COUNT_OWED)[0],
            overdue=overdue,
            oldest_due_at=oldest,
            next_due_at=_next_due(self._look, every_shard),
            early_fires=one(session, COUNT_EARLY)[0],
            members=tuple(
                member_of(row, is_alive=True, running=held.get(row[0], 0)) for row in members
            ),
            leases=tuple(map(records.lease_record, session.rows(LIST_LEASES))),
            shards=shards,
            tzdata=tzdata,
            incarnation=incarnation,
            queues=queues,
            running=sum(held.values()),
            retrying=one(session, COUNT_WAITING)[0],
            dead=one(session, COUNT_DEAD)[0],
            ambiguous=one(session, COUNT_AMBIGUOUS)[0],
            paused_queues=tuple(name for (name,) in session.rows(LIST_PAUSED)),
        )

    def count_tenant(self, tenant: str) -> TenantCounts:
        """Count what is one tenant's."""
        return count_tenant(self._ask, tenant, self._look.now)

    def count_tenants(self) -> dict[str, OpenCounts]:
        """Count open runs by tenant."""
        return count_tenants(self._ask)

    def _ask(self, statement: str, values: Sequence[object]) -> list[records.Row]:
        told = OWN_COUNTS.get(statement, statement)
        ours = told.replace("duly_", "duly.").replace("?2", "$2::int8")
        return self._look.session.rows(ours.replace("?", "$"), values)


def member_of(row: records.Row, *, is_alive: bool, running: int = 0) -> Member:
    """Return a member of the fleet, from the columns of `rows.MEMBER`."""
    slots, leaked, queues, told = row[11:]
    member = records.member(row, is_alive=is_alive)
    parts: dict[str, Any] = {"slots": slots, "leaked": leaked, "queues": tuple(queues)}
    standing = None if told is None else WorkerStatus(told)
    return replace(member, **parts, running=running, standing=standing)


def due_resumes(look: Look, limit: int) -> list[ScheduleId]:
    """Read paused schedules whose time to resume has come."""
    found = look.session.rows(DUE_RESUMES, (look.now, limit))
    return [ScheduleId(schedule_id) for (schedule_id,) in found]


def recorded(instant: int, run_id: RunId, row: records.Row) -> OccurrenceStatus | None:
    """Return what a row of `JUDGE` says of an occurrence; None if nothing is recorded of it."""
    is_made, state, run_into, skipped_to, reason, into, owed_to = row
    if is_made:
        return status_of_run(instant, run_id, state, run_into)
    if skipped_to is not None and instant <= skipped_to:
        return OccurrenceStatus(instant, OccurrenceStatusKind.SKIPPED, into, SkipReason(reason))
    if owed_to is not None and instant <= owed_to:
        return OccurrenceStatus(instant, OccurrenceStatusKind.OWED)
    return None


def _next_due(look: Look, every_shard: Int4s) -> int | None:
    session, key = look.session, (every_shard, look.now)
    found: list[int | None] = [
        one(session, statement, key)[0] for statement in (NEXT_DELAYED, NEXT_RETRY)
    ]
    (at_most,) = one(session, NEXT_AT_MOST, key)
    if at_most is not None:
        found.append(one(session, NEXT_SCHEDULE, (*key, at_most))[0])
    return min((due for due in found if due is not None), default=None)
