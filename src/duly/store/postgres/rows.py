"""Rows to be read: for each record the columns that `duly.store.records` reads, ids as bytes."""

from __future__ import annotations

from duly.domain.schedules import TENANT_DEFAULT
from duly.store.run_columns import RUN_BECAME

LAG_US = 10_000_000
"""How far `load_at` may lie behind the instant it stands for: `check` looks for it."""

RANKED = "priority + CASE lane WHEN 'live' THEN 0 WHEN 'catch-up' THEN 100 ELSE 200 END"
"""The place in the queue by priority and lane, as `gathering.LANE_OFFSETS` has it."""
SHARE = f"CASE tenant WHEN '{TENANT_DEFAULT}' THEN '' ELSE tenant END"
"""Under which name a tenant's runs stand in the queue, as `gathering.share_of` has it."""

NOBODY = "'00000000-0000-0000-0000-000000000000'::uuid"
"""What is written of a schedule of which no run has gone ahead: NULL would be the last made."""

WENT_AHEAD = f"nullif(coalesce({{0}}active_run, {{0}}last_run), {NOBODY})"
"""The last run of a schedule that went ahead, by its state."""

IS_GATED = "(SELECT true FROM duly.held_gates h WHERE h.run_id = {})"
"""Whether a run holds a gate, as the queue keeps it: NULL if not."""

SCHEDULE = f"""
SELECT uuid_send(s.id), s.tenant, s.name, s.owner, s.declared_by, s.status, t.version,
    t.definition_number, d.definition, t.shard, t.next_for, t.next_due, t.held_for, t.last_for,
    uuid_send(t.last_run), t.last_fired_at, t.fires, s.reason, s.resume_at, s.resume_missed,
    s.status_before, t.pruned_through, s.created_at, s.updated_at, s.updated_by,
    uuid_send({WENT_AHEAD.format("t.")}), coalesce(t.overlap_count, 0)
FROM duly.schedules s
JOIN duly.schedule_state t ON t.schedule_id = s.id
JOIN duly.schedule_definitions d
    ON d.schedule_id = s.id AND d.number = t.definition_number"""  # noqa: S608 - a part of ours

RUN_ITSELF = """uuid_send(r.id), r.tenant, uuid_send(r.schedule_id), s.name, r.definition_number,
    r.key, r.task, r.arguments, d.definition, r.queue, r.priority, r.origin, r.lane,
    uuid_send(r.root), r.scheduled_for, r.not_before, r.window_from, r.created_at, r.fired_at"""
"""What a run is, whatever has become of it."""

LAST_ERROR = """(SELECT a.error FROM duly.attempts a WHERE a.run_id = r.id
        ORDER BY a.fence DESC LIMIT 1)"""

# Of one that is queued only those are looked for that were claimed before: others have no tries.
RUN = f"""
SELECT {RUN_ITSELF}, {RUN_BECAME},
    CASE WHEN o.worker IS NULL THEN {LAST_ERROR} ELSE o.error END, o.result,
    uuid_send(o.into_run)
FROM duly.runs r
LEFT JOIN duly.outcomes o ON o.run_id = r.id
LEFT JOIN duly.claims c ON c.run_id = r.id
LEFT JOIN duly.waiting w ON w.run_id = r.id
LEFT JOIN duly.dead x ON x.run_id = r.id
LEFT JOIN duly.blocked b ON b.run_id = r.id
LEFT JOIN duly.ambiguous u ON u.run_id = r.id
LEFT JOIN duly.ready y ON y.run_id = r.id AND y.fence > 0
LEFT JOIN duly.schedules s ON s.id = r.schedule_id
LEFT JOIN duly.schedule_definitions d
    ON d.schedule_id = r.schedule_id AND d.number = r.definition_number
    AND r.arguments IS NULL"""  # noqa: S608 - parts of ours

DELAYED = """
SELECT uuid_send(id), tenant, key, task, arguments, queue, priority, due_at, generation,
    fingerprint, created_at
FROM duly.delayed"""

SKIP = """
SELECT uuid_send(schedule_id), first_for, last_for, count, reason, uuid_send(into_run), at
FROM duly.skips"""

OWED_COLUMNS = """uuid_send(o.schedule_id), o.first_for, o.last_for, o.definition_number, o.shard,
    o.created_at"""

OWED = f"SELECT {OWED_COLUMNS} FROM duly.owed o"  # noqa: S608 - columns of ours

AUDIT_COLUMNS = """number, at, actor, source, reason, action, tenant, subject,
    uuid_send(subject_id), before, after, address, credential"""

AUDIT = f"SELECT {AUDIT_COLUMNS} FROM duly.audit"  # noqa: S608 - columns of ours

MEMBER = """
SELECT id, kind, host, process, ended_at, started_at, renewed_at, expires_at, skew_us, is_holding,
    tzdata, slots, leaked, queues, standing
FROM duly.members"""

# At $1: as `rulings.is_current` says it.
IS_ALIVE = """ended_at IS NULL
    AND $1::int8 < expires_at AND renewed_at - $1::int8 <= expires_at - renewed_at"""

LEASE = "SELECT shard, lane, epoch, owner, acquired_at FROM duly.leases"
