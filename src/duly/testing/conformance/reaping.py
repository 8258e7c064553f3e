"""Reaping: the part of the contract about claims whose worker is gone, and who may settle them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duly.domain.attempts import Reason, TaskPolicy
from duly.domain.audit import instant_text
from duly.domain.concluding import CancelledEnd, Failed, GivenBack, LostEnd, Succeeded, TimedOut
from duly.domain.literals import AttemptState, Lane, RunState
from duly.domain.retrying import Retry
from duly.errors import LeaseLost
from duly.store.dispatch import MEMBER_TTL_US, Fence, Renew
from duly.store.execution import WORKER_TTL_US, Beat, FinishResult, LossKind, Report
from duly.testing.conformance import steps
from duly.testing.conformance import work_steps as work
from duly.testing.factories import HOUR_US, SECOND_US, cancel_run
from duly.testing.snapshot import snapshot

if TYPE_CHECKING:
    from duly.domain.concluding import End
    from duly.store.dispatch import MemberId
    from duly.store.execution import ClaimedRun
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock

POLICY = TaskPolicy(retry=Retry(3, base="1s"), timeout_us=20 * SECOND_US)


class FindingLost:
    """What `find_lost` promises."""

    def test_a_claim_of_the_living_is_not_lost(self, store: Store, clock: ManualClock) -> None:
        """INV-21: up to the last microsecond of its worker's lease."""
        work.queue_and_take(store)
        clock.advance(WORKER_TTL_US - 1)

        assert ((), clock.now_us()) == (
            work.lost_claims(store),
            store.find_lost(10, work.OVERDUE_US).now,
        )

    @pytest.mark.parametrize("fate", ["expired", "left"])
    def test_a_claim_of_the_dead_is_lost(self, store: Store, clock: ManualClock, fate: str) -> None:
        """R4: with all that is needed to decide what becomes of its run."""
        store.register_policies({"remind": POLICY})
        worker, claimed = work.queue_and_take(store)
        store.report(worker, [Report(hold=claimed.hold, started_at=5)])
        if fate == "left":
            store.leave(worker)
        else:
            clock.advance(WORKER_TTL_US)

        (lost,) = work.lost_claims(store)

        assert (claimed.hold, LossKind.WORKER, worker, claimed.tries) == (
            lost.hold,
            lost.kind,
            lost.worker,
            lost.tries,
        )
        assert ("remind", POLICY, claimed.claimed_at, 5) == (
            lost.task,
            lost.policy,
            lost.claimed_at,
            lost.started_at,
        )

    def test_a_task_that_never_said_has_the_usual_policy(
        self, store: Store, clock: ManualClock
    ) -> None:
        """B1, R6."""
        work.queue_and_take(store)
        clock.advance(WORKER_TTL_US)

        (lost,) = work.lost_claims(store)

        assert (TaskPolicy(), None) == (lost.policy, lost.started_at)

    def test_a_claim_long_past_its_deadline_is_lost(self, store: Store, clock: ManualClock) -> None:
        """R6: though its worker breathes; not a microsecond before."""
        claimed = overdue_but_one(store, clock)

        assert () == work.lost_claims(store)
        clock.advance(1)
        (lost,) = work.lost_claims(store)
        assert (claimed.hold, LossKind.OVERDUE) == (lost.hold, lost.kind)

    def test_the_oldest_claim_comes_first(self, store: Store, clock: ManualClock) -> None:
        """R4: and no more than asked for."""
        worker = work.join(store)
        taken = []
        for text in ("z", "a", "m"):
            work.queue(store, text)
            taken.append(work.take_one(store, worker).hold)
            clock.advance(1)
        store.leave(worker)

        assert taken == [lost.hold for lost in work.lost_claims(store)]
        assert taken[:2] == [lost.hold for lost in work.lost_claims(store, 2)]


class SettlingLost:
    """What `settle_lost` promises."""

    def test_a_lost_attempt_is_recorded_and_its_run_goes_on(
        self, store: Store, clock: ManualClock
    ) -> None:
        """R4, B1, INV-7: it counts as an attempt, and is charged."""
        worker, claimed = lose(store, clock)
        fence = work.maintain(store)

        assert [True] == work.settle(store, fence, *work.lost_claims(store))

        record = work.look(store, claimed.record.id)
        assert (RunState.RETRYING, Reason.LOST) == (record.state, record.state_reason)
        assert (1, 1, 1) == (record.tries.fence, record.tries.attempt, record.tries.charged)
        (attempt,) = store.list_attempts(record.id)
        assert (AttemptState.LOST, Reason.LOST, 1, worker, clock.now_us()) == (
            attempt.state,
            attempt.reason,
            attempt.number,
            attempt.worker,
            attempt.ended_at,
        )
        (entry,) = steps.audit(store, action="attempt.lost")
        assert (record.id, record.tenant) == (entry.subject_id, entry.tenant)
        told = {
            "worker": worker,
            "worker_name": "there:2",
            "heartbeat_at": instant_text(claimed.claimed_at),
            "lease_until": instant_text(claimed.claimed_at + WORKER_TTL_US),
            "fence": 1,
            "attempt": 1,
            "kind": "worker",
        }
        assert told == entry.after
        assert claimed.claimed_at == attempt.heartbeat_at
        assert () == work.lost_claims(store)
        assert [] == store.check()

    def test_who_is_settled_is_dead_for_ever(self, store: Store, clock: ManualClock) -> None:
        """R4, INV-4: declared once, with who did it; its clock may go back as it will."""
        worker, _ = lose(store, clock)
        work.queue(store, "b")
        fence = work.maintain(store)
        work.settle(store, fence, *work.lost_claims(store))
        clock.set(clock.now_us() - WORKER_TTL_US)

        assert not store.beat(Beat(worker=worker)).is_alive
        assert [] == work.take(store, worker)
        (entry,) = steps.audit(store, action="member.declared-dead")
        assert (f"member {worker}", {"taken_over_by": fence.member}) == (
            entry.subject,
            entry.after,
        )

    def test_a_worker_with_many_claims_is_declared_dead_once(
        self, store: Store, clock: ManualClock
    ) -> None:
        """R4: and one that left by itself needs no declaration."""
        worker, left = work.join(store), work.join(store)
        for text in ("a", "b"):
            work.queue(store, text)
        work.take(store, worker)
        work.queue(store, "c")
        work.take_one(store, left)
        store.leave(left)
        clock.advance(WORKER_TTL_US)

        settled = work.settle(store, work.maintain(store), *work.lost_claims(store))

        assert [True] * 3 == settled
        declared = steps.audit(store, action="member.declared-dead")
        assert [f"member {worker}"] == [entry.subject for entry in declared]
        assert 3 == len(steps.audit(store, action="attempt.lost"))

    def test_a_worker_that_has_renewed_keeps_what_it_holds(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-21: it was found dead by a clock that ran ahead, or beat just before."""
        worker, claimed = work.queue_and_take(store)
        began_at = clock.now_us()
        clock.advance(WORKER_TTL_US)
        lost = work.lost_claims(store)
        clock.set(began_at)
        assert store.beat(Beat(worker=worker)).is_alive
        fence = work.maintain(store)
        before = snapshot(store)

        assert 1 == len(lost)
        assert [False] == work.settle(store, fence, *lost)

        assert before == snapshot(store)
        assert FinishResult.ACCEPTED == work.end(store, worker, claimed, Succeeded())

    def test_an_overdue_attempt_is_settled_though_its_worker_lives(
        self, store: Store, clock: ManualClock
    ) -> None:
        """R6: the worker lives on; it is told at its next beat."""
        claimed = overdue_but_one(store, clock)
        clock.advance(1)
        (lost,) = work.lost_claims(store)
        how = TimedOut(Reason.TIMEOUT, "too long")

        assert [True] == work.settle(store, work.maintain(store), lost, how=how)

        record = work.look(store, claimed.record.id)
        assert (RunState.RETRYING, Reason.TIMEOUT) == (record.state, record.state_reason)
        beaten = store.beat(Beat(worker=lost.worker, holds=(claimed.hold,)))
        assert (True, ["gone"]) == (beaten.is_alive, [stop.kind for stop in beaten.stops])
        assert [] == steps.audit(store, action="member.declared-dead")

    def test_a_claim_that_is_no_longer_there_is_left_alone(
        self, store: Store, clock: ManualClock
    ) -> None:
        """R4, INV-5: settled by another, finished after all, or claimed again since."""
        workers = [work.join(store) for _ in range(3)]
        held = []
        for text, worker in zip("abc", workers, strict=True):
            work.queue(store, text)
            held.append((worker, work.take_one(store, worker)))
            clock.advance(1)
        clock.advance(WORKER_TTL_US)
        lost = work.lost_claims(store)
        fence = work.maintain(store)
        finisher, finished = held[0]
        work.end(store, finisher, finished, Succeeded())
        work.settle(store, fence, lost[1])
        giver, given = held[2]
        work.end(store, giver, given, GivenBack(Reason.SHUTDOWN, is_started=True))
        work.take_one(store, work.join(store))
        before = snapshot(store)

        assert [False] * 3 == work.settle(store, fence, *lost)
        assert before == snapshot(store)

    def test_results_come_in_the_order_given(self, store: Store, clock: ManualClock) -> None:
        """R4: what can be settled is."""
        finisher, finished = work.queue_and_take(store)
        lose(store, clock, "b")
        lost = sorted(work.lost_claims(store), key=lambda one: one.worker)
        work.end(store, finisher, finished, Succeeded())

        assert [False, True] == work.settle(store, work.maintain(store), *lost)

    def test_a_run_whose_budget_its_workers_have_eaten_is_dead(
        self, store: Store, clock: ManualClock
    ) -> None:
        """B1, B3: a task that kills its worker each time ends, too."""
        store.register_policies({"remind": POLICY})
        target = work.queue(store)
        for _ in range(3):
            work.fire_retries(store, clock)
            worker = work.join(store)
            work.take_one(store, worker)
            store.leave(worker)
            fence = work.maintain(store)
            work.settle(store, fence, *work.lost_claims(store))
            store.leave(fence.member)

        record = work.look(store, target)
        assert (RunState.DEAD, Reason.BUDGET, 3) == (
            record.state,
            record.state_reason,
            record.tries.charged,
        )
        numbers = [attempt.number for attempt in store.list_attempts(record.id)]
        assert [1, 2, 3] == numbers
        assert 1 == len(steps.audit(store, action="run.dead"))

    @pytest.mark.parametrize("how", [LostEnd(), CancelledEnd()], ids=["lost", "cancelled"])
    def test_a_lost_run_that_was_to_be_cancelled_is_cancelled(
        self, store: Store, clock: ManualClock, how: End
    ) -> None:
        """R9: nobody starts it again."""
        worker, claimed = work.queue_and_take(store)
        store.cancel_run(cancel_run(claimed.record.id))
        store.leave(worker)
        work.settle(store, work.maintain(store), *work.lost_claims(store), how=how)

        assert RunState.CANCELLED == work.look(store, claimed.record.id).state
        assert [] == store.check()

    @pytest.mark.parametrize("owner", ["another lane", "expired", "taken over", "gave it up"])
    def test_who_lacks_the_maintenance_lease_settles_nothing(
        self, store: Store, clock: ManualClock, owner: str
    ) -> None:
        """F4, INV-5: a reaper is fenced as any other owner is."""
        lose(store, clock)
        lost = work.lost_claims(store)
        fence = steps.own(store, (Lane.LIVE,) if owner == "another lane" else tuple(Lane))
        if owner == "gave it up":
            store.release_leases(fence)
        elif owner != "another lane":
            clock.advance(MEMBER_TTL_US)
        if owner == "taken over":
            steps.own(store)
        before = snapshot(store).without_audit()

        with pytest.raises(LeaseLost):
            work.settle(store, fence, *lost)

        assert before == snapshot(store).without_audit()

    def test_who_never_was_an_owner_settles_nothing(self, store: Store, clock: ManualClock) -> None:
        """F4: an owner of nothing has no fence."""
        lose(store, clock)
        member = steps.join(store)
        assert store.renew(Renew(member=member)).is_alive

        with pytest.raises(LeaseLost):
            work.settle(store, Fence(member, ()), *work.lost_claims(store))

        assert 1 == store.status().running

    def test_a_reaper_and_its_loser_agree_on_one_outcome(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-7, INV-10: whoever is first; the other is refused, and on record."""
        worker, claimed = lose(store, clock)
        lost = work.lost_claims(store)
        fence = work.maintain(store)
        assert [True] == work.settle(store, fence, *lost, how=Failed("x", is_retryable=False))

        assert FinishResult.REFUSED == work.end(store, worker, claimed, Succeeded())
        assert RunState.DEAD == work.look(store, claimed.record.id).state
        (attempt,) = store.list_attempts(claimed.record.id)
        assert attempt.late is not None
        assert AttemptState.SUCCEEDED == attempt.late.state


def lose(store: Store, clock: ManualClock, text: str = "a") -> tuple[MemberId, ClaimedRun]:
    """Return a worker that has expired, and what it still held."""
    worker, claimed = work.queue_and_take(store, text)
    clock.advance(WORKER_TTL_US)
    return worker, claimed


def overdue_but_one(store: Store, clock: ManualClock) -> ClaimedRun:
    """Return a claim of a living worker, a microsecond before it is overdue."""
    store.register_policies({"remind": POLICY})
    work.queue(store)
    claimed = work.take_one(store, work.join(store, ttl_us=HOUR_US))
    clock.advance(20 * SECOND_US + work.OVERDUE_US - 1)
    return claimed
