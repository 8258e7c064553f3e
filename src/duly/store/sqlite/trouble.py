"""Runs that are out of the ordinary in the file, of all tenants: each look has a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.ids import RunId
from duly.store.alert_rulings import read_stalled, read_tried, stamp
from duly.store.ports.alerts import TRIED_MIN, NewlyDead, UnusualRuns
from duly.store.sqlite.rows import one

if TYPE_CHECKING:
    from duly.store.ports.alerts import FindTrouble
    from duly.store.sqlite.work import Look

# As many claims as workers have slots; only those of tasks that say how long they may stand still.
STALLABLE = """
SELECT held.run_id, r.tenant, r.task, r.queue, s.name, held.worker, held.attempt,
    coalesce(held.progress_at, held.started_at), k.policy
FROM duly_claims held CROSS JOIN duly_runs r ON r.id = held.run_id
CROSS JOIN duly_tasks k ON k.name = r.task
LEFT JOIN duly_schedules s ON s.id = r.schedule_id
WHERE held.started_at IS NOT NULL AND k.policy LIKE '%"stall"%'
    AND k.policy NOT LIKE '%"stall":null%'
LIMIT ?"""
TRIED = f"""
SELECT held.run_id, r.tenant, r.task, r.queue, s.name, held.worker, held.charged + 1,
    coalesce(held.begun_at, r.created_at)
FROM duly_claims held CROSS JOIN duly_runs r ON r.id = held.run_id
LEFT JOIN duly_schedules s ON s.id = r.schedule_id
WHERE held.charged >= {TRIED_MIN}
UNION ALL
SELECT again.run_id, r.tenant, r.task, r.queue, s.name, NULL, again.charged,
    coalesce(again.begun_at, r.created_at)
FROM (SELECT run_id, charged, begun_at FROM duly_waiting WHERE charged >= {TRIED_MIN}
    ORDER BY charged DESC LIMIT ?1) again
JOIN duly_runs r ON r.id = again.run_id
LEFT JOIN duly_schedules s ON s.id = r.schedule_id
LIMIT ?2"""  # noqa: S608 - a number of ours
NEWLY_DEAD = """
SELECT r.tenant, r.task, count(*), min(died.died_at), max(died.run_id)
FROM (SELECT run_id, died_at FROM duly_dead WHERE died_at > ? ORDER BY died_at DESC LIMIT ?) died
JOIN duly_runs r ON r.id = died.run_id
GROUP BY r.tenant, r.task ORDER BY r.tenant, r.task LIMIT ?"""
EARLY = "SELECT count(*), max(id) FROM duly_runs WHERE fired_at < not_before AND fired_at > ?"
# Ids begin with the time that they were made at, or are for: nothing older is looked at.
MADE = """
SELECT (SELECT count(*) FROM (SELECT 1 FROM duly_schedules WHERE id >= ?1 AND created_at > ?2
        LIMIT ?3))
    + (SELECT count(*) FROM (SELECT 1 FROM duly_delayed WHERE id >= ?1 AND created_at > ?2
        LIMIT ?3))
    + (SELECT count(*) FROM (
        SELECT created_at, origin FROM duly_runs WHERE id >= ?1 ORDER BY id LIMIT ?3) newest
        WHERE newest.created_at > ?2
            AND newest.origin NOT IN ('schedule', 'catch-up', 'backfill'))"""


def find_trouble(look: Look, command: FindTrouble) -> UnusualRuns:
    """Return runs that are out of the ordinary."""
    connection, now, limit = look.connection, look.now, command.limit
    most = command.count_max
    dead = connection.execute(NEWLY_DEAD, (now - command.died_us, most, limit))
    early, early_run = one(connection, EARLY, (now - command.early_us,))
    since = now - command.made_us
    (made,) = one(connection, MADE, (stamp(since), since, most))
    return UnusualRuns(
        now=now,
        stalled=read_stalled(connection.execute(STALLABLE, (most,)), now, limit),
        tried=read_tried(connection.execute(TRIED, (limit, most)), limit),
        dead=tuple(
            NewlyDead(tenant, task, died, first_at, RunId(last))
            for tenant, task, died, first_at, last in dead
        ),
        early=early,
        early_run=None if early_run is None else RunId(early_run),
        made=min(made, most),
    )
