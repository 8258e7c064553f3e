"""Runs that are out of the ordinary on PostgreSQL, of all tenants: each look has a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from duly.domain.ids import RunId
from duly.store.alert_rulings import read_stalled, read_tried, stamp
from duly.store.ports.alerts import TRIED_MIN, NewlyDead, UnusualRuns
from duly.store.postgres.session import one, uid

if TYPE_CHECKING:
    from duly.store.ports.alerts import FindTrouble
    from duly.store.postgres.work import Look

# As many claims as workers have slots; only those of tasks that say how long they may stand still.
STALLABLE = """
SELECT uuid_send(c.run_id), r.tenant, r.task, r.queue, s.name, c.worker, c.attempt,
    coalesce(c.progress_at, c.started_at), k.policy
FROM duly.claims c JOIN duly.runs r ON r.id = c.run_id JOIN duly.tasks k ON k.name = r.task
LEFT JOIN duly.schedules s ON s.id = r.schedule_id
WHERE c.started_at IS NOT NULL AND k.policy LIKE '%"stall"%' AND k.policy NOT LIKE '%"stall":null%'
LIMIT $1::int8"""
TRIED = f"""
SELECT uuid_send(c.run_id), r.tenant, r.task, r.queue, s.name, c.worker, c.charged + 1,
    coalesce(c.begun_at, r.created_at)
FROM duly.claims c JOIN duly.runs r ON r.id = c.run_id
LEFT JOIN duly.schedules s ON s.id = r.schedule_id
WHERE c.charged >= {TRIED_MIN}
UNION ALL
SELECT uuid_send(w.run_id), r.tenant, r.task, r.queue, s.name, NULL::int8, w.charged,
    coalesce(w.begun_at, r.created_at)
FROM (SELECT run_id, charged, begun_at FROM duly.waiting WHERE charged >= {TRIED_MIN}
    ORDER BY charged DESC LIMIT $1::int8) w
JOIN duly.runs r ON r.id = w.run_id
LEFT JOIN duly.schedules s ON s.id = r.schedule_id
LIMIT $2::int8"""  # noqa: S608 - a number of ours
NEWLY_DEAD = """
SELECT r.tenant, r.task, count(*), min(x.died_at), max(x.run_id::text)
FROM (SELECT run_id, died_at FROM duly.dead WHERE died_at > $1::int8
    ORDER BY died_at DESC LIMIT $2::int8) x
CROSS JOIN LATERAL (SELECT tenant, task FROM duly.runs WHERE id = x.run_id OFFSET 0) r
GROUP BY r.tenant, r.task ORDER BY r.tenant, r.task LIMIT $3::int8"""
EARLY = """
SELECT count(*), max(id::text) FROM duly.runs
WHERE fired_at < not_before AND fired_at > $1::int8"""
# Ids begin with the time that they were made at, or are for: nothing older is looked at.
MADE = """
SELECT (SELECT count(*) FROM (
        SELECT 1 FROM duly.schedules WHERE id >= $1::uuid AND created_at > $2::int8
        ORDER BY id LIMIT $3::int8) s)
    + (SELECT count(*) FROM (
        SELECT 1 FROM duly.delayed WHERE id >= $1::uuid AND created_at > $2::int8
        ORDER BY id LIMIT $3::int8) d)
    + (SELECT count(*) FROM (
        SELECT created_at, origin FROM duly.runs WHERE id >= $1::uuid ORDER BY id LIMIT $3::int8) r
        WHERE r.created_at > $2::int8 AND r.origin NOT IN ('schedule', 'catch-up', 'backfill'))"""


def find_trouble(look: Look, command: FindTrouble) -> UnusualRuns:
    """Return runs that are out of the ordinary."""
    session, now, limit = look.session, look.now, command.limit
    most = command.count_max
    dead = session.rows(NEWLY_DEAD, (now - command.died_us, most, limit))
    early, early_run = one(session, EARLY, (now - command.early_us,))
    since = now - command.made_us
    (made,) = one(session, MADE, (uid(stamp(since)), since, most))
    return UnusualRuns(
        now=now,
        stalled=read_stalled(session.rows(STALLABLE, (most,)), now, limit),
        tried=read_tried(session.rows(TRIED, (limit, most)), limit),
        dead=tuple(
            NewlyDead(tenant, task, died, first_at, RunId(UUID(last).bytes))
            for tenant, task, died, first_at, last in dead
        ),
        early=early,
        early_run=None if early_run is None else RunId(UUID(early_run).bytes),
        made=min(made, most),
    )
