"""Databases with as many promises as it takes to see what a statement costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg

from duly.domain.enums import Lane
from duly.domain.fire_planning import ScheduleVersion, plan_on_time
from duly.domain.ids import ScheduleId
from duly.domain.schedules import NextOccurrence
from duly.engine.manual_clock import START_US
from duly.store.ports.dispatch import FireDelayed, FirePlanned, FireTimers, LoadTimers
from duly.store.records import definition_text
from duly_conformance import steps
from duly_conformance.kit import MINUTE_US, definition

if TYPE_CHECKING:
    from duly.store.ports.dispatch import Fence, Fired, Timer
    from duly.store.postgres import PostgresStore

BATCH = 1000
"""How many schedules, and as many delayed runs, fall due in each minute."""

FILL = (
    """INSERT INTO duly.schedules (id, tenant, name, status, created_at, updated_at, updated_by)
    SELECT md5('s' || i)::uuid, 'default', 's' || i, 'active', %(start)s, %(start)s, 'x'
    FROM generate_series(1, %(count)s) i""",
    """INSERT INTO duly.schedule_definitions (schedule_id, number, definition, made_at, made_by)
    SELECT id, 1, %(definition)s, created_at, 'x' FROM duly.schedules""",
    """INSERT INTO duly.schedule_state (schedule_id, next_for, next_due, load_at, fires, version,
        definition_number, shard, priority, tenant, task, queue)
    SELECT md5('s' || i)::uuid, due, due, due, 0, 1, 1, i %% 32, 50, 'default', 'report', 'default'
    FROM generate_series(1, %(count)s) i
    CROSS JOIN LATERAL (SELECT %(start)s + (1 + (i - 1) / %(batch)s) * 60000000::int8 AS due) d""",
    """INSERT INTO duly.delayed (id, due_at, created_at, shard, generation, priority, tenant, task,
        arguments, queue, origin, lane, fingerprint, key)
    SELECT md5('d' || i)::uuid, %(start)s + (1 + (i - 1) / %(batch)s) * 60000000::int8, %(start)s, i %% 32,
        1, 50, 'default', 'remind', '{}', 'default', 'delay', 'live', 'x',
        CASE WHEN i %% 3 = 0 THEN 'k' || i END
    FROM generate_series(1, %(count)s) i""",
)
HISTORY = (
    """INSERT INTO duly.sessions (hash, id, tenant, name, role, created_at, expires_at)
    SELECT decode(md5(n::text), 'hex'), gen_random_uuid(), 'default', 'ada', 'viewer', n, n
    FROM generate_series(1, 5000) n""",
    """INSERT INTO duly.answers (principal, first_at, begun_at, expires_at, fence, tenant, key,
        request_hash)
    SELECT gen_random_uuid(), n, n, n, 1, 'default', n::text, '' FROM generate_series(1, 5000) n""",
    """INSERT INTO duly.frozen_sets (id, as_of, expires_at, tenant, made_by, chosen_by, ids)
    SELECT gen_random_uuid(), n, n, 'default', n::text, '', '' FROM generate_series(1, 5000) n""",
    """INSERT INTO duly.runs (id, scheduled_for, not_before, created_at, fired_at, schedule_id,
        definition_number, priority, tenant, task, queue, origin, lane, key)
    SELECT md5('r' || i)::uuid, %(start)s - i, %(start)s - i, %(start)s, %(start)s,
        md5('s' || 1 + i %% %(count)s)::uuid, 1, 50, 'default', 'report', 'default', 'schedule',
        'live', CASE WHEN i %% 5 = 0 THEN 'k' || i END
    FROM generate_series(1, 2 * %(count)s) i""",
    """INSERT INTO duly.outcomes (run_id, finished_at, state)
    SELECT md5('r' || i)::uuid, %(start)s + i, 'cancelled'
    FROM generate_series(1, %(count)s) i""",
    """INSERT INTO duly.ready (rank, fired_at, not_before, run_id, priority, era, queue, fence)
    SELECT i, %(start)s, %(start)s, md5('r' || i)::uuid, 50, i %% 4, 'default', (i %% 5) / 4
    FROM generate_series(1, %(count)s) i""",
    """INSERT INTO duly.members (started_at, renewed_at, expires_at, skew_us, process, is_holding,
        kind, host, tzdata, wake_address)
    SELECT %(start)s, %(start)s, %(start)s + 10^15::int8, 0, i, false, 'worker', 'here', '', ''
    FROM generate_series(1, 50) i""",
    """INSERT INTO duly.claims (run_id, worker, claimed_at, begun_at, deadline_at, fence, attempt,
        charged)
    SELECT md5('c' || i)::uuid, 1 + i %% 50, %(start)s, %(start)s, %(start)s + i * 1000000::int8, 1,
        1, 0
    FROM generate_series(1, %(count)s) i""",
    """INSERT INTO duly.waiting (run_id, due_at, shard, fence, attempt, charged)
    SELECT md5('w' || i)::uuid, %(start)s + (1 + (i - 1) / %(batch)s) * 60000000::int8, i %% 32, 1,
        1, 1
    FROM generate_series(1, %(count)s) i""",
    """INSERT INTO duly.dead (run_id, died_at, fence, attempt, charged, reason)
    SELECT md5('x' || i)::uuid, %(start)s, 1, 1, 1, 'budget'
    FROM generate_series(1, %(count)s) i""",
    """INSERT INTO duly.attempts (run_id, fence, worker, claimed_at, ended_at, state)
    SELECT md5('r' || i)::uuid, f, 1, %(start)s, %(start)s, 'failed'
    FROM generate_series(1, %(count)s) i CROSS JOIN generate_series(1, 3) f""",
    """INSERT INTO duly.progress (run_id, fence, at, done)
    SELECT md5('r' || i)::uuid, 1, %(start)s, d
    FROM generate_series(1, %(count)s) i CROSS JOIN generate_series(1, 3) d""",
    """INSERT INTO duly.lines (run_id, fence, at, level, text)
    SELECT md5('r' || i)::uuid, 1, %(start)s, 'info', 'x'
    FROM generate_series(1, %(count)s) i CROSS JOIN generate_series(1, 3) d""",
    """INSERT INTO duly.checkpoints (run_id, partition, fence, state, at)
    SELECT md5('r' || i)::uuid, '', 1, '{}', %(start)s
    FROM generate_series(1, %(count)s) i""",
    """INSERT INTO duly.backfills (id, schedule_id, since, until, cursor, total, looked_at, made,
        created_at, updated_at, definition_number, per_minute, concurrency, version, tenant, mode,
        "order", classes, status, created_by)
    SELECT md5('f' || i)::uuid, md5('s' || i)::uuid, 0, 9, 0, 9, 0, 0, %(start)s, %(start)s, 1, 1,
        1, 1, 't' || i %% 9, 'fill', 'oldest-first', '', CASE WHEN i %% 99 = 0 THEN 'active'
        ELSE 'done' END, 'x'
    FROM generate_series(1, %(count)s) i""",
    """INSERT INTO duly.backfill_slots (backfill_id, scheduled_for, run_id, is_open, kind)
    SELECT md5('f' || i)::uuid, t, md5('r' || i)::uuid, i %% 9 = 0, 'missing'
    FROM generate_series(1, %(count)s) i CROSS JOIN generate_series(1, 3) t""",
    """INSERT INTO duly.held_places (run_id, fence, place)
    SELECT md5('c' || i)::uuid, 1, 'task:' || i %% 999 FROM generate_series(1, %(count)s) i""",
    """INSERT INTO duly.turns (run_id, at)
    SELECT md5('w' || i)::uuid, %(start)s FROM generate_series(1, %(count)s) i""",
    """INSERT INTO duly.arrivals (at, ref, shard, era, is_schedule)
    SELECT %(start)s, md5('s' || i)::uuid, i %% 32, i %% 4, true
    FROM generate_series(1, %(count)s) i""",
    """INSERT INTO duly.skips (schedule_id, first_for, last_for, at, reason)
    SELECT md5('s' || 1 + i %% %(count)s)::uuid, i, i, %(start)s + i, 'missed'
    FROM generate_series(1, %(count)s) i""",
    """INSERT INTO duly.owed (schedule_id, first_for, last_for, created_at, definition_number, shard)
    SELECT md5('s' || 1 + i %% %(count)s)::uuid, i, i, %(start)s + i, 1, i %% 32
    FROM generate_series(1, %(count)s) i""",
    """INSERT INTO duly.audit (at, subject_id, actor, source, action, tenant, subject)
    SELECT %(start)s + i, md5('s' || i)::uuid, 'x', 'x', 'schedule.created', 'default', 's' || i
    FROM generate_series(1, %(count)s) i""",
    """INSERT INTO duly.seals (number, after, through, sealed_at, sealed_by, format, entries, hash)
    SELECT i, i - 1, i, %(start)s, 1, 1, '', '' FROM generate_series(1, %(count)s) i""",
    """INSERT INTO duly.gates (name) SELECT 'key:' || i FROM generate_series(1, %(count)s) i""",
    """INSERT INTO duly.held_gates (run_id, gate)
    SELECT md5('w' || i)::uuid, 'key:' || i FROM generate_series(1, %(count)s) i""",
    """INSERT INTO duly.blocked (run_id, since, priority, fence, attempt, charged, gate)
    SELECT md5('b' || i)::uuid, %(start)s, 50, 0, 0, 0, 'key:' || i
    FROM generate_series(1, %(count)s) i""",
    """INSERT INTO duly.ambiguous (run_id, since, fence, attempt, charged, reason)
    SELECT md5('u' || i)::uuid, %(start)s + i, 1, 1, 1, 'lost'
    FROM generate_series(1, %(count)s) i""",
    """INSERT INTO duly.effects (root, key, state, run_id, fence, begun_at)
    SELECT md5('r' || i)::uuid, k, 'unknown', md5('r' || i)::uuid, 1, %(start)s
    FROM generate_series(1, %(count)s) i CROSS JOIN unnest(ARRAY['a', 'b', 'c']) k""",
    """INSERT INTO duly.scopes (root, expected)
    SELECT md5('r' || i)::uuid, 3 FROM generate_series(1, %(count)s) i""",
    """INSERT INTO duly.scope_items (root, item, is_expected, times)
    SELECT md5('r' || i)::uuid, k, true, 0
    FROM generate_series(1, %(count)s) i CROSS JOIN unnest(ARRAY['a', 'b', 'c']) k""",
    """INSERT INTO duly.verdicts (run_id, number, at, finding, "by")
    SELECT md5('r' || i)::uuid, 1, %(start)s, 'present', 'x'
    FROM generate_series(1, %(count)s) i""",
    """UPDATE duly.schedules SET status = 'paused', resume_at = updated_at + 1000
    WHERE name LIKE '%%77'""",
    """UPDATE duly.schedules SET status = 'deleted', updated_at = updated_at - 1000
    WHERE name LIKE '%%78'""",
)
TOUCHED = """
SELECT coalesce(sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit, 0)
    + coalesce(idx_blks_read, 0)), 0)::int8
FROM pg_statio_user_tables WHERE schemaname = 'duly'"""
REPORT_NOW = "SELECT pg_stat_force_next_flush()"
"""Pages that a connection has touched are counted when it reports them: with the end of the statement that
asks for it, else after it is closed, and then they may be counted as another's."""


def fill(url: str, count: int, *, has_history: bool = False) -> None:
    """Put schedules and as many delayed runs into a database, all of them pending."""
    values = {
        "count": count,
        "start": START_US,
        "batch": BATCH,
        "definition": definition_text(definition()),
    }
    with psycopg.connect(url, autocommit=True) as line:
        for statement in (*FILL, *(HISTORY if has_history else ())):
            line.execute(statement.encode(), values)
        line.execute(REPORT_NOW)


def tidy(url: str) -> None:
    """Let the planner know how much there is, as autovacuum would."""
    with psycopg.connect(url, autocommit=True) as line:
        line.execute("VACUUM ANALYZE")
        line.execute(REPORT_NOW)


class SilentBell:
    """Wakes nobody: so the store gets by with one connection, and all is counted there."""

    def ring(self, kind: object = None) -> None:
        """Wake nobody."""

    def takers(self) -> tuple[()]:
        """Know nobody to whom anything could be offered."""
        return ()

    def close(self) -> None:
        """Let go of nothing."""


class Meter:
    """Counts what statements of one store touch: pages, and bytes of the log."""

    def __init__(self, store: PostgresStore, url: str) -> None:
        self._store = store
        store._connections.bell = SilentBell()  # type: ignore[assignment] # noqa: SLF001
        self._line = psycopg.connect(url, autocommit=True)

    def close(self) -> None:
        """Disconnect."""
        self._line.close()

    def pages(self) -> int:
        """Return how many pages of our tables and indexes were looked at so far."""
        connections = self._store._connections  # noqa: SLF001 - it is counted there
        for for_dispatch in (True, False):
            with connections.statement(for_dispatch=for_dispatch) as session:
                session.rows(REPORT_NOW)
        return self._number(TOUCHED)

    def log_bytes(self) -> int:
        """Return how long the server's log is; of the whole server, so let it be quiet."""
        return self._number("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")

    def _number(self, statement: str) -> int:
        row = self._line.execute(statement.encode()).fetchone()
        assert row is not None
        return int(row[0])


def due_timers(store: PostgresStore, fence: Fence, kind: str) -> list[Timer]:
    """Return what is due of a kind."""
    shards = tuple(lease.key.shard for lease in fence.leases if lease.key.lane is Lane.LIVE)
    command = LoadTimers(shards=shards, after=None, until=store.now(), limit=10 * BATCH)
    return [timer for timer in store.load_timers(command).timers if timer.kind == kind]


def fire_all(store: PostgresStore, fence: Fence, timers: list[Timer]) -> Fired:
    """Fire timers, as many as there are, on time."""
    template = definition()
    schedules: list[FirePlanned] = []
    for timer in timers:
        if timer.kind == "schedule":
            pending = NextOccurrence(timer.scheduled_for, timer.due_at)
            plan = plan_on_time(ScheduleVersion(ScheduleId(timer.ref), 1, template), pending)
            late_after = timer.due_at + 60 * MINUTE_US
            schedules.append(FirePlanned(timer=timer, plan=plan, late_after=late_after))
    delayed = tuple(FireDelayed(timer) for timer in timers if timer.kind == "delayed")
    command = FireTimers(fence=fence, schedules=tuple(schedules), delayed=delayed)
    return store.fire_timers(command)


def own_for_long(store: PostgresStore) -> Fence:
    """Own everything, for as long as a test lasts."""
    fence: Any = steps.own(store, ttl_us=10**15)
    return fence  # type: ignore[no-any-return]
