"""Claims that their workers have lost: found without a lock, settled under the maintenance lease.

Whether a worker is dead is judged once more in the transaction that takes its claims: whoever has
renewed meanwhile keeps them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.enums import Lane
from duly.store.auditing import SYSTEM, declared_dead_subject, lost_subject
from duly.store.ports.execution import FinishAttempt, LostClaim, LostClaimReason, LostClaims
from duly.store.records import lost_claim
from duly.store.sqlite import rows
from duly.store.sqlite.finishing import TAKE_CLAIM
from duly.store.sqlite.leases import held_shards, is_alive
from duly.store.sqlite.places import Claim, Moving, tenant_of
from duly.store.sqlite.work import counted
from duly.store.work_rulings import WorkerLease

if TYPE_CHECKING:
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.execution import LostClaimDecision, SettleLost
    from duly.store.records import Row
    from duly.store.sqlite.work import Look, Work

# As many claims as there are slots, walked first (CROSS says so); those of the living are passed
# over.
FIND_LOST = f"""
SELECT c.run_id, c.worker, c.fence, c.attempt, c.charged, c.begun_at, c.claimed_at, c.started_at,
    c.effects_at, c.is_unsafe, r.task, k.policy, m.id IS NULL
FROM duly_claims c CROSS JOIN duly_runs r ON r.id = c.run_id
LEFT JOIN duly_tasks k ON k.name = r.task
LEFT JOIN duly_members m ON m.id = c.worker AND {rows.IS_ALIVE}
WHERE m.id IS NULL OR c.deadline_at + ?3 <= ?1
ORDER BY c.claimed_at, c.run_id LIMIT ?4"""  # noqa: S608 - a condition of ours
READ_JUDGE_AFTER = "SELECT judge_after FROM duly_cluster"
READ_DEADLINE = """
SELECT worker, deadline_at, effects_at FROM duly_claims WHERE run_id = ? AND fence = ?"""
READ_LEASE = "SELECT host, process, renewed_at, expires_at FROM duly_members WHERE id = ?"
IS_NOT_ENDED = "SELECT 1 FROM duly_members WHERE id = ? AND ended_at IS NULL"


def find_lost(look: Look, limit: int, overdue_us: int) -> LostClaims:
    """Read claims of the dead, and those that are long overdue, oldest first."""
    (judge_after,) = rows.one(look.connection, READ_JUDGE_AFTER)
    bindings = (look.now, counted(judge_after, look.now), overdue_us, limit)
    found = look.connection.execute(FIND_LOST, bindings)
    return LostClaims(look.now, tuple(_read(row) for row in found))


def _read(row: Row) -> LostClaim:
    *claim, is_dead = row
    return lost_claim(tuple(claim), LostClaimReason.WORKER if is_dead else LostClaimReason.OVERDUE)


def settle_lost(work: Work, command: SettleLost) -> list[bool] | None:
    """Take claims from the dead and the overdue; None when the maintenance lease is not ours."""
    held, _ = held_shards(work, command.fence, Lane.BACKFILL)
    if 0 not in held:
        return None
    moving = Moving(work)
    settled = [_settle(work, moving, command, loss) for loss in command.losses]
    moving.write()
    return settled


def _settle(work: Work, moving: Moving, command: SettleLost, loss: LostClaimDecision) -> bool:
    hold = loss.claim.hold
    row = work.connection.execute(READ_DEADLINE, (hold.run_id, hold.fence)).fetchone()
    if row is None:
        return False
    worker, deadline_at, effects_at = row
    if effects_at != loss.claim.effects_at:
        return False  # it was permitted since: what was decided about it knows nothing of that
    is_overdue = deadline_at is not None and work.now >= deadline_at + command.overdue_us
    if not _declare_dead(work, worker, command.fence.member) and not is_overdue:
        return False
    key = (None, hold.run_id, hold.fence, worker)
    taken = rows.one(work.connection, TAKE_CLAIM, key)
    row = work.connection.execute(READ_LEASE, (worker,)).fetchone()
    lease = None if row is None else WorkerLease(*row)
    subject = lost_subject(loss.claim, tenant_of(work, hold.run_id), lease)
    work.record(SYSTEM, "attempt.lost", subject)
    finish = FinishAttempt(
        hold=hold, started_at=None, conclusion=loss.conclusion, follow_up=loss.follow_up
    )
    moving.end(Claim(*taken[1:]), finish)
    return True


def _declare_dead(work: Work, worker: MemberId, heir: MemberId) -> bool:
    """Say whether a worker is dead; if nobody has noticed yet, it is so from now on."""
    is_new = work.connection.execute(IS_NOT_ENDED, (worker,)).fetchone() is not None
    if is_alive(work, worker):
        return False
    if is_new:
        work.record(SYSTEM, "member.declared-dead", declared_dead_subject(worker, heir))
    return True
