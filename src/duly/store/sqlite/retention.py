"""Retention: removing history that is past its time, and remembering how far.

Pending promises and the audit trail are never touched. Each step is bounded, because every other
writer waits while one prunes.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from duly.domain.enums import Lane, ScheduleStatus
from duly.store.ports.maintenance import Prune, Pruned, PruneKind
from duly.store.rulings import ARRIVALS_KEPT_US, OCCURRENCE_ORIGINS, WALK_MAX
from duly.store.sqlite.access import forget_access
from duly.store.sqlite.alerting import forget_alerts
from duly.store.sqlite.leases import held_shards
from duly.store.sqlite.limiting import forget_limits
from duly.store.sqlite.rows import one
from duly.store.work_rulings import workers_kept_us

if TYPE_CHECKING:
    from duly.store.records import Row
    from duly.store.sqlite.work import Work

OLD_OUTCOMES = """
SELECT run_id FROM duly_outcomes WHERE state = ? AND finished_at < ?
ORDER BY finished_at LIMIT ?"""
WALKED_AFTER = "SELECT coalesce(pruned_after, x'') FROM duly_cluster"
WALK_ON = "UPDATE duly_cluster SET pruned_after = ?"
NEXT_SCHEDULES = """
SELECT schedule_id FROM duly_schedule_state WHERE schedule_id > ? ORDER BY schedule_id LIMIT ?"""
SURPLUS_RUNS = """
SELECT r.id FROM duly_runs r JOIN duly_outcomes o ON o.run_id = r.id
WHERE r.schedule_id = ? ORDER BY r.id DESC LIMIT ? OFFSET ?"""
# An outcome goes with its run and nothing goes without one: an open run is never removed. What was
# told of a run goes with it, by a trigger of the schema's.
DELETE_OUTCOME = "DELETE FROM duly_outcomes WHERE run_id = ?"
DELETE_RUN = "DELETE FROM duly_runs WHERE id = ? RETURNING schedule_id, scheduled_for, origin"
# One that was ordered long ago may speak of an occurrence that is still to come.
OLD_SKIPS = """
SELECT schedule_id, first_for, last_for FROM duly_skips
WHERE at < ?1 AND last_for < ?1 ORDER BY at LIMIT ?2"""
DELETE_SKIP = "DELETE FROM duly_skips WHERE schedule_id = ? AND first_for = ?"
REMEMBER = """
UPDATE duly_schedule_state SET pruned_through = ?2
WHERE schedule_id = ?1 AND (pruned_through IS NULL OR pruned_through < ?2)"""
OLD_SCHEDULES = """
SELECT id FROM duly_schedules s
WHERE status = 'deleted' AND updated_at < ?
    AND NOT EXISTS (SELECT 1 FROM duly_runs r WHERE r.schedule_id = s.id)
ORDER BY updated_at LIMIT ?"""
DELETE_SCHEDULE = (
    "DELETE FROM duly_schedules WHERE id = ?",
    "DELETE FROM duly_schedule_state WHERE schedule_id = ?",
    "DELETE FROM duly_schedule_definitions WHERE schedule_id = ?",
    "DELETE FROM duly_skips WHERE schedule_id = ?",
    "DELETE FROM duly_owed WHERE schedule_id = ?",
    """DELETE FROM duly_backfill_slots
    WHERE backfill_id IN (SELECT id FROM duly_backfills WHERE schedule_id = ?)""",
    "DELETE FROM duly_backfills WHERE schedule_id = ?",
)
DELETE_MEMBERS = """
DELETE FROM duly_members WHERE id IN (
    SELECT id FROM duly_members
    WHERE expires_at < ? AND id NOT IN (SELECT owner FROM duly_leases WHERE owner IS NOT NULL)
        AND id NOT IN (SELECT worker FROM duly_claims)
    ORDER BY id LIMIT ?)
RETURNING id"""
# That of members that are pruned a trigger of the schema's has written.
FORGET_WORKERS = """
DELETE FROM duly_workers WHERE id IN (
    SELECT id FROM duly_workers WHERE expires_at < ? ORDER BY expires_at, id LIMIT ?)"""
# Of retry budgets, also of tasks that nobody runs any more.
FORGET_SLOTS = "DELETE FROM duly_retry_slots WHERE last_at < ?"
# Numbers grow with time: who walks by number can stop at the first that is young.
OLDEST_ARRIVALS = "SELECT number, at FROM duly_arrivals WHERE number > 0 ORDER BY number LIMIT ?"
DELETE_ARRIVAL = "DELETE FROM duly_arrivals WHERE number = ?"


def prune(work: Work, command: Prune) -> Pruned:
    """Remove what is past its retention, at most `limit` of each kind."""
    held, _ = held_shards(work, command.fence, Lane.BACKFILL)
    counts = dict.fromkeys(PruneKind, 0)
    if 0 not in held:
        return Pruned(counts, has_more=False)
    counts[PruneKind.OUTCOMES], has_more = _prune_runs(work, command)
    counts[PruneKind.SKIPS] = _prune_skips(work, command)
    counts[PruneKind.SCHEDULES] = _prune_schedules(work, command)
    counts[PruneKind.MEMBERS] = _prune_members(work, command)
    counts[PruneKind.ARRIVALS] = _prune_arrivals(work, command)
    counts[PruneKind.ACCESS] = forget_access(work, command.limit)
    counts[PruneKind.ALERTS] = forget_alerts(work, command.limit)
    work.connection.execute(FORGET_SLOTS, (work.now,))
    forget_limits(work)
    _forget_workers(work, command)
    has_more = has_more or any(count >= command.limit for count in counts.values())
    return Pruned(counts, has_more=has_more)


def _prune_runs(work: Work, command: Prune) -> tuple[int, bool]:
    doomed: dict[bytes, None] = {}
    for state, kept_us in command.retention.outcomes_us.items():
        bindings = (state, work.now - kept_us, command.limit - len(doomed))
        found = work.connection.execute(OLD_OUTCOMES, bindings)
        doomed.update((run_id, None) for (run_id,) in found)
    has_more = _find_surplus(work, command, doomed)
    keys = [(run_id,) for run_id in doomed]
    work.connection.executemany(DELETE_OUTCOME, keys)
    removed: list[Row] = work.connection.executemany(DELETE_RUN, keys).fetchall()
    occurrences = [
        (schedule_id, min(scheduled_for, work.now))
        for schedule_id, scheduled_for, origin in removed
        if schedule_id is not None and origin in OCCURRENCE_ORIGINS
    ]
    work.connection.executemany(REMEMBER, occurrences)
    return len(doomed), has_more


def _find_surplus(work: Work, command: Prune, doomed: dict[bytes, None]) -> bool:
    """Walk on over the schedules, adding runs beyond the newest few; say if the walk goes on."""
    kept = command.retention.runs_per_schedule
    if kept is None:
        return False
    (after,) = one(work.connection, WALKED_AFTER)
    walked = work.connection.execute(NEXT_SCHEDULES, (after, WALK_MAX)).fetchall()
    for (schedule_id,) in walked:
        room = command.limit - len(doomed)
        if room <= 0:
            return True
        found = work.connection.execute(SURPLUS_RUNS, (schedule_id, room, kept))
        doomed.update((run_id, None) for (run_id,) in found)
        after = schedule_id
    is_over = len(walked) < WALK_MAX
    work.connection.execute(WALK_ON, (None if is_over else after,))
    return not is_over


def _prune_skips(work: Work, command: Prune) -> int:
    kept_us = command.retention.skips_us
    if kept_us is None:
        return 0
    doomed = work.connection.execute(OLD_SKIPS, (work.now - kept_us, command.limit)).fetchall()
    work.connection.executemany(DELETE_SKIP, [(row[0], row[1]) for row in doomed])
    work.connection.executemany(REMEMBER, [(row[0], row[2]) for row in doomed])
    return len(doomed)


def _prune_schedules(work: Work, command: Prune) -> int:
    """Remove schedules that can no longer be restored, unless runs still speak of them."""
    kept_us = command.retention.deleted_schedules_us
    if kept_us is None:
        return 0
    bindings = (work.now - kept_us, command.limit)
    doomed = work.connection.execute(OLD_SCHEDULES, bindings).fetchall()
    for statement in DELETE_SCHEDULE:
        work.connection.executemany(statement, doomed)
    work.count_on(ScheduleStatus.DELETED, -len(doomed))
    return len(doomed)


def _prune_members(work: Work, command: Prune) -> int:
    bindings = (work.now - ARRIVALS_KEPT_US, command.limit)
    return len(work.connection.execute(DELETE_MEMBERS, bindings).fetchall())


def _forget_workers(work: Work, command: Prune) -> None:
    """Forget workers of whom no history speaks any more."""
    kept_us = workers_kept_us(command.retention)
    if kept_us is not None:
        work.connection.execute(FORGET_WORKERS, (work.now - kept_us, command.limit))


def _prune_arrivals(work: Work, command: Prune) -> int:
    young_from = work.now - ARRIVALS_KEPT_US
    oldest = work.connection.execute(OLDEST_ARRIVALS, (command.limit,))
    doomed = [(number,) for number, _ in takewhile(lambda row: row[1] < young_from, oldest)]
    oldest.close()
    work.connection.executemany(DELETE_ARRIVAL, doomed)
    return len(doomed)
