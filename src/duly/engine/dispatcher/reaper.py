"""The reaper: settles claims that no worker will finish, under the maintenance lease.

The reaper looks for claims whose worker is dead, and for attempts that are far past their time
limit and that their worker did not end. What it reads is a hint: in the transaction that takes the
claim, the store checks again that the worker has not renewed. The task's policy decides the
outcome, as if the worker had reported the end.

While the store was away no worker could renew, so an expired lease proves nothing. After the store
is back, workers get as long as it was away to renew, at most two heartbeats, before the reaper
settles any claim. After the dispatcher has joined, they get two heartbeats.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from duly.domain.enums import Lane
from duly.domain.ids import identity_text
from duly.domain.outcomes import (
    AttemptFacts,
    DeadLetter,
    MarkAmbiguous,
    TimedOut,
    WorkerLost,
    conclude,
    is_to_be_checked,
)
from duly.domain.runs import Reason, attempt_name
from duly.domain.verification import check_of
from duly.engine.dispatcher.leases import MAINTENANCE
from duly.engine.spans import lost_span
from duly.errors import STORE_AWAY, LeaseLost
from duly.store.ports.execution import LostClaimDecision, LostClaimReason, SettleLost
from duly.telemetry import AttemptLost, RunAmbiguous, RunDead

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.outcomes import End
    from duly.engine.dispatcher.context import DispatcherContext
    from duly.engine.dispatcher.leases import Membership, Ownership
    from duly.store.ports.execution import LostClaim

NOT_ENDED = "its time ran out, and its worker did not end it"


class Reaper:
    """Takes claims from workers that are gone."""

    def __init__(
        self, around: DispatcherContext, membership: Membership, ownership: Ownership
    ) -> None:
        self._around = around
        self._membership = membership
        self._ownership = ownership
        self.next_at = 0
        """When to look again, on the monotonic clock."""
        self._seen_done = -1
        self._busy_until = 0

    def wait(self, lost_us: int | None = None) -> None:
        """Judge nobody for a while: for as long as the store was away, but not for ever.

        None when we can't say for how long: we have just joined.
        """
        patience_us = self._around.settings.reap_patience_us
        wait_us = patience_us if lost_us is None else min(lost_us, patience_us)
        self.next_at = max(self.next_at, self._around.clock.monotonic_us() + wait_us)

    def reap(self, monotonic: int) -> None:
        """Settle a page of lost claims, if it is time to look."""
        if monotonic < self.next_at:
            return
        settings = self._around.settings
        self.next_at = monotonic + self._pause_us(monotonic)
        found = self._around.store.find_lost(settings.reap_page, settings.overdue_us)
        losses = [self._decision(claim, found.now) for claim in found.claims]
        if losses and self._settle(losses) and len(losses) == settings.reap_page:
            self.next_at = monotonic

    def _decision(self, claim: LostClaim, now: int) -> LostClaimDecision:
        loss = _without_check(claim, now)
        if not (claim.policy.is_checked and is_to_be_checked(loss.conclusion)):
            return loss
        record = self._around.store.get_run(claim.hold.run_id)
        return (
            loss if record is None else replace(loss, follow_up=check_of(record, claim.hold.fence))
        )

    def _pause_us(self, monotonic: int) -> int:
        """Return how long to wait: where nothing is fired there is little to be lost."""
        settings, statistics = self._around.settings, self._around.statistics
        done = statistics.fired + statistics.caught_up + statistics.reaped
        if done != self._seen_done:
            self._seen_done = done
            self._busy_until = monotonic + settings.reap_busy_for_us
        is_busy = monotonic < self._busy_until
        return settings.reap_every_us if is_busy else settings.reap_idle_us

    def _settle(self, losses: Sequence[LostClaimDecision]) -> bool:
        """Settle claims; one that fails for a reason of its own must not stop the others."""
        try:
            settled = self._send(losses)
        except LeaseLost:
            self._ownership.lose([MAINTENANCE])
            return False
        except STORE_AWAY:
            raise
        except Exception as error:  # noqa: BLE001 - one bad row must not stop the others
            if len(losses) == 1:
                problem = f"its claim can't be settled: {error!r}"
                self._membership.tell_set_aside("run", losses[0].claim.hold.run_id, problem)
                return False
            return all([self._settle([one]) for one in losses])  # noqa: C419 - each is tried
        for loss, is_settled in zip(losses, settled, strict=True):
            if is_settled:
                self._tell(loss)
        return True

    def _send(self, losses: Sequence[LostClaimDecision]) -> list[bool]:
        order = SettleLost(
            # One dispatcher maintains the store: the owner of this shard of the backfill lane.
            fence=self._ownership.fence(Lane.BACKFILL, [MAINTENANCE.shard]),
            losses=tuple(losses),
            overdue_us=self._around.settings.overdue_us,
        )
        return self._around.store.settle_lost(order)

    def _tell(self, loss: LostClaimDecision) -> None:
        claim, conclusion = loss.claim, loss.conclusion
        run = identity_text(claim.hold.run_id)
        member, emit = self._membership.number(), self._around.telemetry.emit
        attempt = attempt_name(run, claim.tries.attempt)
        ids = {"task": claim.task, "run_id": run, "attempt_id": attempt}
        lost = AttemptLost(member=member, worker=claim.worker, cause=str(claim.kind), **ids)
        self._around.statistics.reaped += 1
        emit(lost)
        if self._around.tracing is not None:
            ended_at = self._around.clock.now_us()
            spans = [lost_span(claim, conclusion)]
            self._around.tracing.tell(spans, min(claim.claimed_at, ended_at), ended_at)
        if isinstance(conclusion.next, DeadLetter):
            reason = str(conclusion.next.reason)
            emit(RunDead(member=member, reason=reason, **ids))
        elif isinstance(conclusion.next, MarkAmbiguous):
            reason = str(conclusion.next.reason)
            emit(RunAmbiguous(member=member, reason=reason, **ids))


def _without_check(claim: LostClaim, now: int) -> LostClaimDecision:
    attempted = AttemptFacts(
        run_id=claim.hold.run_id,
        policy=claim.policy,
        tries=claim.tries,
        now=now,
        has_begun_effects=claim.effects_at is not None,
    )
    return LostClaimDecision(claim, conclude(_end_of(claim), attempted))


def _end_of(claim: LostClaim) -> End:
    match claim.kind:
        case LostClaimReason.WORKER:
            return WorkerLost()
        case LostClaimReason.OVERDUE:
            return TimedOut(Reason.TIMEOUT, NOT_ENDED)
        case _:
            assert_never(claim.kind)
