"""Rows as records: for each, the columns that are read, and what they become."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.domain.schedules import TENANT_DEFAULT
from duly.store.run_columns import RUN_BECAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from duly.store.records import Row

SHARE = f"coalesce(nullif({{}}.tenant, '{TENANT_DEFAULT}'), '')"
"""Under which name a tenant's runs stand in the queue, as `gathering.share_of` has it."""

SCHEDULE = """
SELECT s.id, s.tenant, s.name, s.owner, s.declared_by, s.status, t.version, t.definition_number,
    d.definition, t.shard, t.next_for, t.next_due, t.held_for, t.last_for, t.last_run,
    t.last_fired_at, t.fires, s.reason, s.resume_at, s.resume_missed, s.status_before,
    t.pruned_through, s.created_at, s.updated_at, s.updated_by,
    nullif(coalesce(t.active_run, t.last_run), x''), t.overlaps
FROM duly_schedules s
JOIN duly_schedule_state t ON t.schedule_id = s.id
JOIN duly_schedule_definitions d ON d.schedule_id = s.id AND d.number = t.definition_number"""

RUN_ITSELF = """r.id, r.tenant, r.schedule_id, s.name, r.definition_number, r.key, r.task,
    r.arguments, d.definition, r.queue, r.priority, r.origin, r.lane, r.root, r.scheduled_for,
    r.not_before, r.window_from, r.created_at, r.fired_at"""
"""What a run is, whatever has become of it."""

RUN_TEMPLATE = """
LEFT JOIN duly_schedules s ON s.id = r.schedule_id
LEFT JOIN duly_schedule_definitions d
    ON d.schedule_id = r.schedule_id AND d.number = r.definition_number AND r.arguments IS NULL"""

LAST_ERROR = """(SELECT a.error FROM duly_attempts a WHERE a.run_id = r.id
        ORDER BY a.fence DESC LIMIT 1)"""

# Of one that is queued only those are looked for that were claimed before: others have no tries.
RUN = f"""
SELECT {RUN_ITSELF}, {RUN_BECAME},
    CASE WHEN o.worker IS NULL THEN {LAST_ERROR} ELSE o.error END, o.result, o.into_run
FROM duly_runs r
LEFT JOIN duly_outcomes o ON o.run_id = r.id
LEFT JOIN duly_claims c ON c.run_id = r.id
LEFT JOIN duly_waiting w ON w.run_id = r.id
LEFT JOIN duly_dead x ON x.run_id = r.id
LEFT JOIN duly_blocked b ON b.run_id = r.id
LEFT JOIN duly_ambiguous u ON u.run_id = r.id
LEFT JOIN duly_ready y ON y.run_id = r.id AND y.fence > 0{RUN_TEMPLATE}"""  # noqa: S608 - all ours

DELAYED = """
SELECT id, tenant, key, task, arguments, queue, priority, due_at, generation, fingerprint,
    created_at
FROM duly_delayed"""

SKIP = "SELECT schedule_id, first_for, last_for, count, reason, into_run, at FROM duly_skips"

OWED = """
SELECT schedule_id, first_for, last_for, definition_number, shard, created_at FROM duly_owed"""

AUDIT_COLUMNS = """number, at, actor, source, reason, action, tenant, subject, subject_id, before,
    after, address, credential"""

AUDIT = f"SELECT {AUDIT_COLUMNS} FROM duly_audit"  # noqa: S608 - columns of ours

MEMBER = """
SELECT id, kind, host, process, ended_at, started_at, renewed_at, expires_at, skew_us, is_holding,
    tzdata, slots, leaked, queues, standing
FROM duly_members"""

# At ?1, judged from ?2 on: as `rulings.is_current` says it.
IS_ALIVE = """ended_at IS NULL
    AND (?1 < ?2 OR (?1 < expires_at AND renewed_at - ?1 <= expires_at - renewed_at))"""

LEASE = "SELECT shard, lane, epoch, owner, acquired_at FROM duly_leases"


def one(connection: apsw.Connection, statement: str, bindings: Sequence[Any] = ()) -> Row:
    """Return the row of a statement that always has one."""
    row: Row | None = connection.execute(statement, bindings).fetchone()
    assert row is not None, "there is always such a row"
    return row


def pairs(connection: apsw.Connection, statement: str) -> dict[str, Any]:
    """Return what a statement of two columns says, by the first."""
    return {row[0]: row[1] for row in _all(connection, statement)}


def _all(connection: apsw.Connection, statement: str) -> list[Row]:
    return connection.execute(statement).fetchall()
