"""Finding claims whose worker is gone, and settling them, on the memory store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.enums import Lane
from duly.domain.runs import policy_under
from duly.store.auditing import SYSTEM, declared_dead_subject, lost_subject
from duly.store.memory.attempts import lease_of, policy_of, task_of
from duly.store.memory.ending import end_claim
from duly.store.memory.execution import held
from duly.store.memory.following import follow_up
from duly.store.memory.limiting import take_in
from duly.store.memory.ownership import held_shards, seems_alive
from duly.store.ports.dispatch import MemberId
from duly.store.ports.execution import ClaimRef, LostClaim, LostClaimReason, LostClaims

if TYPE_CHECKING:
    from duly.domain.ids import RunId
    from duly.store.memory.tables import Claim, Journal
    from duly.store.ports.execution import LostClaimDecision, SettleLost


def find_lost(journal: Journal, limit: int, overdue_us: int) -> LostClaims:
    """Read claims of dead workers, and those long overdue; the oldest first."""
    found: list[LostClaim] = []
    for run_id, claim in journal.tables.claims.items():
        kind = _loss_of(journal, claim, overdue_us)
        if kind is not None:
            found.append(_lost(journal, run_id, claim, kind))
    found.sort(key=lambda lost: (lost.claimed_at, lost.hold.run_id))
    return LostClaims(journal.now, tuple(found[:limit]))


def _loss_of(journal: Journal, claim: Claim, overdue_us: int) -> LostClaimReason | None:
    """Say why a claim may be taken from its worker; None when it may not."""
    if not seems_alive(journal, MemberId(claim.worker)):
        return LostClaimReason.WORKER
    if claim.deadline is not None and journal.now >= claim.deadline + overdue_us:
        return LostClaimReason.OVERDUE
    return None


def _lost(journal: Journal, run_id: RunId, claim: Claim, kind: LostClaimReason) -> LostClaim:
    task = task_of(journal, run_id)
    return LostClaim(
        hold=ClaimRef(run_id, claim.tries.fence),
        kind=kind,
        worker=MemberId(claim.worker),
        tries=claim.tries,
        task=task,
        policy=policy_under(policy_of(journal, task), is_unsafe=claim.is_unsafe),
        claimed_at=claim.claimed_at,
        started_at=claim.started_at,
        effects_at=claim.effects_at,
    )


def settle_lost(journal: Journal, command: SettleLost) -> list[bool] | None:
    """Take claims from workers that are gone; None when the maintenance lease is not ours."""
    shards, _ = held_shards(journal, command.fence, Lane.BACKFILL)
    if 0 not in shards:
        return None
    settled = [_settle(journal, command, loss) for loss in command.losses]
    take_in(journal)
    return settled


def _settle(journal: Journal, command: SettleLost, loss: LostClaimDecision) -> bool:
    lost = loss.claim
    claim = held(journal, lost.worker, lost.hold)
    if claim is None or claim.effects_at != lost.effects_at:
        return False  # it was permitted since: what was decided about it knows nothing of that
    kind = _loss_of(journal, claim, command.overdue_us)
    if kind is None:
        return False
    lease = lease_of(journal, lost.worker)
    if kind is LostClaimReason.WORKER:
        _declare_dead(journal, lost.worker, command.fence.member)
    tenant = journal.tables.runs[lost.hold.run_id].tenant
    journal.record_about(SYSTEM, "attempt.lost", lost_subject(lost, tenant, lease))
    end_claim(journal, lost.hold.run_id, claim, loss.conclusion)
    follow_up(journal, loss.follow_up)
    return True


def _declare_dead(journal: Journal, worker: MemberId, heir: MemberId) -> None:
    row = journal.tables.members.get(worker)
    if row is None or not row.is_alive:
        return
    journal.put(journal.tables.members, worker, replace(row, is_alive=False))
    journal.record_about(SYSTEM, "member.declared-dead", declared_dead_subject(worker, heir))
