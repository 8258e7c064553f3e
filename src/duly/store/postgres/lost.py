"""Claims whose worker is gone: finding them without a lock, and settling them under the lease.

Whoever settles holds the worker's row FOR UPDATE: he waits for a beat or a claim that is under way,
and then looks at the row as that left it. A beat that came first has renewed, and the worker keeps
what it holds; one that comes later finds its membership ended. Rows are locked in the order of
members, then claims.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.enums import Lane
from duly.store.auditing import declared_dead_subject, lost_subject
from duly.store.ports.execution import LostClaim, LostClaimReason, LostClaims
from duly.store.postgres.arrays import Int8s
from duly.store.postgres.ending import Endings, lock_claims, read_facts
from duly.store.postgres.leases import END_MEMBERS, IS_CURRENT, held_shards
from duly.store.postgres.session import one
from duly.store.records import lost_claim
from duly.store.rulings import is_current
from duly.store.work_rulings import WorkerLease

if TYPE_CHECKING:
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.execution import LostClaimDecision, SettleLost
    from duly.store.postgres.ending import Claim
    from duly.store.postgres.session import Session
    from duly.store.postgres.work import Work
    from duly.store.records import Row

# By member: all claims of one that is gone, and of the others the front of the index, where those
# are whose time has run out. Who holds claims is never pruned.
FIND_LOST = f"""
WITH n AS MATERIALIZED (SELECT duly.now_us() AS now),
g AS MATERIALIZED (
    SELECT m.id, {IS_CURRENT} AS is_current FROM duly.members m CROSS JOIN n),
f AS MATERIALIZED (
    SELECT g.is_current, c.* FROM g CROSS JOIN LATERAL (
        SELECT c.* FROM duly.claims c WHERE c.worker = g.id OFFSET 0) c
    WHERE NOT g.is_current
    UNION ALL
    SELECT g.is_current, c.* FROM g CROSS JOIN LATERAL (
        SELECT c.* FROM duly.claims c
        WHERE c.worker = g.id AND c.deadline_at <= (SELECT now FROM n) - $2::int8 OFFSET 0) c
    WHERE g.is_current)
SELECT (SELECT now FROM n), l.* FROM (SELECT 1) AS always LEFT JOIN (
    SELECT uuid_send(f.run_id), f.is_current, f.worker, f.fence, f.attempt, f.charged, f.begun_at,
        f.claimed_at, f.started_at, f.effects_at, f.is_unsafe, r.task, t.policy
    FROM (SELECT * FROM f ORDER BY claimed_at, run_id LIMIT $1::int4) f
    CROSS JOIN LATERAL (SELECT r.task FROM duly.runs r WHERE r.id = f.run_id OFFSET 0) r
    LEFT JOIN LATERAL (SELECT t.policy FROM duly.tasks t WHERE t.name = r.task OFFSET 0) t ON true
    ORDER BY f.claimed_at, f.run_id) l ON true"""  # noqa: S608 - a condition of ours
LOCK_HOLDERS = """
SELECT id, host, process, renewed_at, expires_at, ended_at FROM duly.members
WHERE id = ANY($1::int8[]) ORDER BY id FOR UPDATE"""
IS_SERVED = f"""
WITH n AS MATERIALIZED (SELECT duly.now_us() AS now)
SELECT EXISTS (
    SELECT 1 FROM duly.worker_tasks w JOIN duly.members m ON m.id = w.worker
    WHERE w.task = $1 AND m.kind = 'worker' AND m.standing IS NULL AND {IS_CURRENT}
        AND (m.queues = '{{}}' OR $2::text = ANY(m.queues))) FROM n"""  # noqa: S608 - a condition of ours


def is_served(session: Session, task: str, queue: str) -> bool:
    """Say whether any living worker knows a task and serves the queue."""
    return bool(one(session, IS_SERVED, (task, queue))[0])


def find_lost(session: Session, limit: int, overdue_us: int) -> LostClaims:
    """Read claims of dead workers, and those long overdue; the oldest first."""
    found = session.rows(FIND_LOST, (limit, overdue_us))
    lost = [row for row in found if row[1] is not None]
    return LostClaims(found[0][0], tuple(_read(row) for row in lost))


def _read(row: Row) -> LostClaim:
    _, run_id, is_alive, *rest = row
    kind = LostClaimReason.OVERDUE if is_alive else LostClaimReason.WORKER
    return lost_claim((run_id, *rest), kind)


def settle_lost(work: Work, command: SettleLost) -> list[bool] | None:
    """Take claims from workers that are gone; None when the maintenance lease is not ours."""
    shards, _ = held_shards(work, command.fence, Lane.BACKFILL)
    if 0 not in shards:
        return None
    return _Settling(work, command).settle()


class _Settling:
    """One order to settle claims, while it is carried out."""

    def __init__(self, work: Work, command: SettleLost) -> None:
        self._work = work
        self._command = command
        losses = command.losses
        workers = Int8s(sorted({loss.claim.worker for loss in losses}))
        self._members = {row[0]: row[1:] for row in work.session.rows(LOCK_HOLDERS, (workers,))}
        ids = [loss.claim.hold.run_id for loss in losses]
        self._claims = lock_claims(work, ids)
        work.look_at_the_clock()
        self._facts = read_facts(work, ids)
        self._endings = Endings(work, self._facts)
        self._declared: set[MemberId] = set()

    def settle(self) -> list[bool]:
        """Settle what may still be settled; say which."""
        settled = [self._settle(loss) for loss in self._command.losses]
        if self._declared:
            self._work.session.run(END_MEMBERS, (Int8s(sorted(self._declared)), self._work.now))
        self._endings.write()
        return settled

    def _settle(self, loss: LostClaimDecision) -> bool:
        lost = loss.claim
        claim = self._claims.get(lost.hold.run_id)
        if claim is None or (claim.worker, claim.fence) != (lost.worker, lost.hold.fence):
            return False
        if claim.effects_at != lost.effects_at:
            # It was permitted since: what was decided about it knows nothing of that.
            return False
        if not self._is_alive(lost.worker):
            self._declare_dead(lost.worker)
        elif not self._is_overdue(claim):
            return False
        # Once only, though it may have been named twice.
        del self._claims[lost.hold.run_id]
        tenant = self._facts[lost.hold.run_id].tenant
        member = self._members.get(lost.worker)
        lease = None if member is None else WorkerLease(*member[:-1])
        self._endings.record("attempt.lost", lost_subject(lost, tenant, lease))
        self._endings.end(claim, loss.conclusion)
        self._endings.follow(loss.follow_up)
        return True

    def _is_alive(self, worker: MemberId) -> bool:
        row = self._members.get(worker)
        if row is None or worker in self._declared:
            return False
        _, _, renewed_at, expires_at, ended_at = row
        return ended_at is None and is_current(renewed_at, expires_at, self._work.now)

    def _is_overdue(self, claim: Claim) -> bool:
        deadline_at = claim.deadline_at
        return deadline_at is not None and self._work.now >= deadline_at + self._command.overdue_us

    def _declare_dead(self, worker: MemberId) -> None:
        row = self._members.get(worker)
        if worker not in self._declared and row is not None and row[-1] is None:
            self._declared.add(worker)
            subject = declared_dead_subject(worker, self._command.fence.member)
            self._endings.record("member.declared-dead", subject)
