"""Retention: removing history that is past its time, and remembering how far.

Pending promises and the audit trail are never touched. Each step is bounded. Rows of schedules are
locked in the order of their ids before anything of them is removed, so that an order which is under
way is waited for, and one that comes later finds what is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.enums import Lane, ScheduleStatus
from duly.store.ports.maintenance import Prune, Pruned, PruneKind
from duly.store.postgres.access import forget_access
from duly.store.postgres.alerting import forget_alerts
from duly.store.postgres.arrays import Int8s, Texts, Uuids
from duly.store.postgres.leases import held_shards
from duly.store.postgres.limiting import forget_limits
from duly.store.postgres.rotation import prune_arrivals
from duly.store.postgres.session import one, uid
from duly.store.rulings import ARRIVALS_KEPT_US, OCCURRENCE_ORIGINS, WALK_MAX
from duly.store.work_rulings import workers_kept_us

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly.store.postgres.work import Work

FOLD_MAX = 20_000
"""How many changes of tallies are folded into them in one go."""

OLD_OUTCOMES = """
SELECT uuid_send(o.run_id) FROM unnest($1::text[], $2::int8[]) AS u(state, until)
CROSS JOIN LATERAL (
    SELECT run_id FROM duly.outcomes WHERE state = u.state AND finished_at < u.until
    ORDER BY finished_at LIMIT $3::int8) o
LIMIT $3::int8"""
WALKED_AFTER = "SELECT uuid_send(pruned_after) FROM duly.cluster"
WALK_ON = "UPDATE duly.cluster SET pruned_after = $1::uuid"
NEXT_SCHEDULES = """
SELECT uuid_send(schedule_id) FROM duly.schedule_state
WHERE schedule_id > $1::uuid ORDER BY schedule_id LIMIT $2::int8"""
SURPLUS_RUNS = """
SELECT uuid_send(r.id) FROM pg_catalog.unnest($1::uuid[]) AS u(schedule_id)
CROSS JOIN LATERAL (
    SELECT r.id FROM duly.runs r JOIN duly.outcomes o ON o.run_id = r.id
    WHERE r.schedule_id = u.schedule_id ORDER BY r.id DESC LIMIT $3::int8 OFFSET $2::int8) r
LIMIT $3::int8"""
SCHEDULES_OF = "SELECT uuid_send(schedule_id) FROM duly.runs WHERE id = ANY($1::uuid[])"
LOCK_STATES = """
SELECT 1 FROM duly.schedule_state WHERE schedule_id = ANY($1::uuid[])
ORDER BY schedule_id FOR UPDATE"""
# An outcome goes with its run and nothing goes without one: an open run is never removed.
DELETE_RUNS = """
WITH closed AS (DELETE FROM duly.outcomes WHERE run_id = ANY($1::uuid[]))
DELETE FROM duly.runs WHERE id = ANY($1::uuid[])
RETURNING uuid_send(schedule_id), scheduled_for, origin, uuid_send(coalesce(root, id))"""
# What was told of a run goes with it.
DELETE_TRACE = (
    "DELETE FROM duly.attempts WHERE run_id = ANY($1::uuid[])",
    "DELETE FROM duly.progress WHERE run_id = ANY($1::uuid[])",
    "DELETE FROM duly.lines WHERE run_id = ANY($1::uuid[])",
    "DELETE FROM duly.checkpoints WHERE run_id = ANY($1::uuid[])",
    "DELETE FROM duly.turns WHERE run_id = ANY($1::uuid[])",
    "DELETE FROM duly.verdicts WHERE run_id = ANY($1::uuid[])",
)
# A repair goes on with the ledger of the first: that goes with the last of them.
_IS_NOBODYS = """{0}.root = ANY($1::uuid[])
    AND NOT EXISTS (SELECT 1 FROM duly.runs r WHERE r.id = {0}.root OFFSET 0)
    AND NOT EXISTS (
        SELECT 1 FROM duly.runs r
        WHERE r.root = {0}.root AND r.origin IN ('repair', 'backfill') OFFSET 0)"""
DELETE_LEDGERS = tuple(
    f"DELETE FROM {table} x WHERE {_IS_NOBODYS.format('x')}"  # noqa: S608 - a condition of ours
    for table in ("duly.effects", "duly.scopes", "duly.scope_items")
)
# One that was ordered long ago may speak of an occurrence that is still to come.
OLD_SKIPS = """
SELECT uuid_send(schedule_id), first_for, last_for FROM duly.skips
WHERE at < $1::int8 AND last_for < $1::int8 ORDER BY at LIMIT $2::int8"""
DELETE_SKIPS = """
DELETE FROM duly.skips k USING unnest($1::uuid[], $2::int8[], $3::int8[]) u(id,
    first_for, last_for)
WHERE k.schedule_id = u.id AND k.first_for = u.first_for AND k.last_for = u.last_for
RETURNING uuid_send(k.schedule_id), k.last_for"""
REMEMBER = """
UPDATE duly.schedule_state t SET pruned_through = u.through
FROM (SELECT id, max(through) AS through FROM unnest($1::uuid[], $2::int8[]) n(id,
    through)
    GROUP BY id) u
WHERE t.schedule_id = u.id AND (t.pruned_through IS NULL OR t.pruned_through < u.through)"""
_IS_OLD = """s.status = 'deleted' AND s.updated_at < $1::int8
    AND NOT EXISTS (SELECT 1 FROM duly.runs r WHERE r.schedule_id = s.id)"""
OLD_SCHEDULES = f"""
SELECT uuid_send(s.id) FROM duly.schedules s WHERE {_IS_OLD}
ORDER BY s.updated_at LIMIT $2::int8"""  # noqa: S608 - a condition of ours
DELETE_SCHEDULES = f"""
DELETE FROM duly.schedules s WHERE s.id = ANY($2::uuid[]) AND {_IS_OLD}
RETURNING uuid_send(s.id)"""  # noqa: S608 - a condition of ours
DELETE_PARTS = (
    "DELETE FROM duly.schedule_state WHERE schedule_id = ANY($1::uuid[])",
    "DELETE FROM duly.schedule_definitions WHERE schedule_id = ANY($1::uuid[])",
    "DELETE FROM duly.skips WHERE schedule_id = ANY($1::uuid[])",
    "DELETE FROM duly.owed WHERE schedule_id = ANY($1::uuid[])",
    """WITH gone AS (
        DELETE FROM duly.backfills WHERE schedule_id = ANY($1::uuid[]) RETURNING id)
    DELETE FROM duly.backfill_slots WHERE backfill_id IN (SELECT id FROM gone)""",
    # As `overlapping.schedule_gate` names it.
    """DELETE FROM duly.gates WHERE name = ANY(ARRAY(
        SELECT 'schedule:' || replace(u.id::text, '-', '')
        FROM pg_catalog.unnest($1::uuid[]) u(id)))""",
)
# Whom somebody holds is left for the next time: he would have to wait for us in turn.
DELETE_MEMBERS = """
DELETE FROM duly.members WHERE id IN (
    SELECT m.id FROM duly.members m
    WHERE m.expires_at < $1::int8
        AND NOT EXISTS (SELECT 1 FROM duly.leases l WHERE l.owner = m.id)
        AND NOT EXISTS (SELECT 1 FROM duly.claims c WHERE c.worker = m.id OFFSET 0)
    ORDER BY m.id LIMIT $2::int8 FOR UPDATE SKIP LOCKED)"""
# That of members that are pruned a trigger of the schema's has written.
FORGET_WORKERS = """
DELETE FROM duly.workers WHERE id IN (
    SELECT id FROM duly.workers WHERE expires_at < $1::int8
    ORDER BY expires_at, id LIMIT $2::int8 FOR UPDATE SKIP LOCKED)"""
# Of retry budgets, also of tasks that nobody runs any more.
FORGET_PASSED_SLOTS = """
DELETE FROM duly.retry_slots WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM duly.retry_slots WHERE last_at < $1::int8
    LIMIT $2::int8 FOR UPDATE SKIP LOCKED))"""
FOLD_TALLIES = """
WITH folded AS (
    DELETE FROM duly.tally_changes WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM duly.tally_changes LIMIT $1::int8 FOR UPDATE SKIP LOCKED))
    RETURNING name, change),
counted AS (
    UPDATE duly.tallies t SET count = t.count + f.change
    FROM (SELECT name, sum(change)::int8 AS change FROM folded GROUP BY name) f
    WHERE t.name = f.name)
SELECT count(*) FROM folded"""

BEFORE_ALL = bytes(16)


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
    counts[PruneKind.ARRIVALS] = prune_arrivals(work, command.limit)
    counts[PruneKind.ACCESS] = forget_access(work, command.limit)
    counts[PruneKind.ALERTS] = forget_alerts(work, command.limit)
    work.session.run(FORGET_PASSED_SLOTS, (work.now, command.limit))
    forget_limits(work, command.limit)
    _forget_workers(work, command)
    (folded,) = one(work.session, FOLD_TALLIES, (FOLD_MAX,))
    is_full = any(count >= command.limit for count in counts.values())
    has_more = has_more or is_full or folded >= FOLD_MAX
    return Pruned(counts, has_more=has_more)


def _prune_runs(work: Work, command: Prune) -> tuple[int, bool]:
    kept = command.retention.outcomes_us
    until = Int8s([work.now - kept_us for kept_us in kept.values()])
    values = (Texts(list(kept)), until, command.limit)
    doomed = {run_id for (run_id,) in work.session.rows(OLD_OUTCOMES, values)}
    has_more = _find_surplus(work, command, doomed)
    ids = Uuids(sorted(doomed))
    of = {row[0] for row in work.session.rows(SCHEDULES_OF, (ids,)) if row[0] is not None}
    _lock(work, of)
    removed = work.session.rows(DELETE_RUNS, (ids,))
    for statement in DELETE_TRACE if removed else ():
        work.session.run(statement, (ids,))
    lines = Uuids(sorted({*doomed, *(root for *_, root in removed)}))
    for statement in DELETE_LEDGERS if removed else ():
        work.session.run(statement, (lines,))
    _remember(
        work,
        [
            (schedule_id, min(scheduled_for, work.now))
            for schedule_id, scheduled_for, origin, _ in removed
            if schedule_id is not None and origin in OCCURRENCE_ORIGINS
        ],
    )
    return len(removed), has_more


def _find_surplus(work: Work, command: Prune, doomed: set[bytes]) -> bool:
    """Walk on over the schedules, adding runs beyond the newest few; say if the walk goes on."""
    kept = command.retention.runs_per_schedule
    if kept is None:
        return False
    (after,) = one(work.session, WALKED_AFTER)
    found = work.session.rows(NEXT_SCHEDULES, (uid(after or BEFORE_ALL), WALK_MAX))
    walked = [schedule_id for (schedule_id,) in found]
    room = command.limit - len(doomed)
    if walked and room <= 0:
        return True
    surplus = work.session.rows(SURPLUS_RUNS, (Uuids(walked), kept, room)) if walked else []
    doomed.update(run_id for (run_id,) in surplus)
    if surplus and len(surplus) >= room:
        return True
    is_over = len(walked) < WALK_MAX
    work.session.run(WALK_ON, (None if is_over else uid(walked[-1]),))
    return not is_over


def _prune_skips(work: Work, command: Prune) -> int:
    kept_us = command.retention.skips_us
    if kept_us is None:
        return 0
    doomed = work.session.rows(OLD_SKIPS, (work.now - kept_us, command.limit))
    if not doomed:
        return 0
    ids, firsts, lasts = zip(*doomed, strict=True)
    _lock(work, ids)
    removed = work.session.rows(DELETE_SKIPS, (Uuids(ids), Int8s(firsts), Int8s(lasts)))
    _remember(work, [(row[0], row[1]) for row in removed])
    return len(removed)


def _prune_schedules(work: Work, command: Prune) -> int:
    """Remove schedules that can no longer be restored, unless runs still speak of them."""
    kept_us = command.retention.deleted_schedules_us
    if kept_us is None:
        return 0
    until = work.now - kept_us
    doomed = [row[0] for row in work.session.rows(OLD_SCHEDULES, (until, command.limit))]
    _lock(work, doomed)
    # Somebody may have restored one before we had its row.
    removed = [row[0] for row in work.session.rows(DELETE_SCHEDULES, (until, Uuids(doomed)))]
    for statement in DELETE_PARTS:
        work.session.run(statement, (Uuids(removed),))
    work.count_on(ScheduleStatus.DELETED, -len(removed))
    return len(removed)


def _prune_members(work: Work, command: Prune) -> int:
    return work.session.run(DELETE_MEMBERS, (work.now - ARRIVALS_KEPT_US, command.limit))


def _forget_workers(work: Work, command: Prune) -> None:
    """Forget workers of whom no history speaks any more."""
    kept_us = workers_kept_us(command.retention)
    if kept_us is not None:
        work.session.run(FORGET_WORKERS, (work.now - kept_us, command.limit))


def _lock(work: Work, schedules: Iterable[bytes]) -> None:
    work.session.rows(LOCK_STATES, (Uuids(sorted(set(schedules))),))


def _remember(work: Work, occurrences: list[tuple[bytes, int]]) -> None:
    """Note up to where the history of schedules has gone."""
    if occurrences:
        ids, instants = zip(*occurrences, strict=True)
        work.session.run(REMEMBER, (Uuids(ids), Int8s(instants)))
