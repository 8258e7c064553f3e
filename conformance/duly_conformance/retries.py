"""What every store must do about retries and lost workers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from duly.domain.audit import instant_text
from duly.domain.enums import AttemptState, Lane, RunState
from duly.domain.ids import shard_of
from duly.domain.outcomes import (
    CancelledEnd,
    Failed,
    RetryLater,
    ReturnedToQueue,
    Snoozed,
    Succeeded,
    TimedOut,
    WorkerLost,
)
from duly.domain.policies import Retry
from duly.domain.runs import Reason, TaskPolicy
from duly.domain.schedules import TENANT_DEFAULT
from duly.errors import LeaseLost
from duly.store.ports.dispatch import (
    MEMBER_TTL_US,
    Fence,
    FireResult,
    FireRetry,
    FireTimers,
    LeaseKey,
    MemberKind,
    Renew,
    Timer,
)
from duly.store.ports.execution import (
    WORKER_TTL_US,
    FinishResult,
    Heartbeat,
    LostClaimReason,
    Report,
)
from duly.store.ports.queries import RunFilter
from duly.store.ports.schedules import NEAR_US
from duly_conformance import steps
from duly_conformance import steps as work
from duly_conformance.kit import (
    HOUR_US,
    MINUTE_US,
    SECOND_US,
    add_runs,
    cancel_run,
    delayed_fire,
    finish,
    new_run,
    order_runs,
    snapshot,
)
from duly_conformance.steps import WAIT_MAX_US, AtPlaces

if TYPE_CHECKING:
    from duly.domain.ids import RunId
    from duly.domain.outcomes import End
    from duly.domain.runs import RunRecord
    from duly.engine.manual_clock import ManualClock
    from duly.store.ports import Store
    from duly.store.ports.dispatch import Fired, MemberId
    from duly.store.ports.execution import ClaimedRun


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
        """With all that is needed to decide what becomes of its run."""
        store.register_policies({"remind": POLICY})
        worker, claimed = work.queue_and_take(store)
        store.report(worker, [Report(hold=claimed.hold, started_at=5)])
        if fate == "left":
            store.leave(worker)
        else:
            clock.advance(WORKER_TTL_US)

        (lost,) = work.lost_claims(store)

        assert (claimed.hold, LostClaimReason.WORKER, worker, claimed.tries) == (
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
        work.queue_and_take(store)
        clock.advance(WORKER_TTL_US)

        (lost,) = work.lost_claims(store)

        assert (TaskPolicy(), None) == (lost.policy, lost.started_at)

    def test_a_claim_long_past_its_deadline_is_lost(self, store: Store, clock: ManualClock) -> None:
        """Though its worker breathes; not a microsecond before."""
        claimed = overdue_but_one(store, clock)

        assert () == work.lost_claims(store)
        clock.advance(1)
        (lost,) = work.lost_claims(store)
        assert (claimed.hold, LostClaimReason.OVERDUE) == (lost.hold, lost.kind)

    def test_the_oldest_claim_comes_first(self, store: Store, clock: ManualClock) -> None:
        """And no more than asked for."""
        worker = work.join_worker(store)
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
        """INV-7: it counts as an attempt, and is charged."""
        worker, claimed = lose(store, clock)
        fence = work.maintain(store)

        assert [True] == work.settle_lost(store, fence, *work.lost_claims(store))

        record = work.get_run(store, claimed.record.id)
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
        """INV-4: declared once, with who did it; its clock may go back as it will."""
        worker, _ = lose(store, clock)
        work.queue(store, "b")
        fence = work.maintain(store)
        work.settle_lost(store, fence, *work.lost_claims(store))
        clock.set(clock.now_us() - WORKER_TTL_US)

        assert not store.beat(Heartbeat(worker=worker)).is_alive
        assert [] == work.take(store, worker)
        (entry,) = steps.audit(store, action="member.declared-dead")
        assert (f"member {worker}", {"taken_over_by": fence.member}) == (
            entry.subject,
            entry.after,
        )

    def test_a_worker_with_many_claims_is_declared_dead_once(
        self, store: Store, clock: ManualClock
    ) -> None:
        """And one that left by itself needs no declaration."""
        worker, left = work.join_worker(store), work.join_worker(store)
        for text in ("a", "b"):
            work.queue(store, text)
        work.take(store, worker)
        work.queue(store, "c")
        work.take_one(store, left)
        store.leave(left)
        clock.advance(WORKER_TTL_US)

        settled = work.settle_lost(store, work.maintain(store), *work.lost_claims(store))

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
        assert store.beat(Heartbeat(worker=worker)).is_alive
        fence = work.maintain(store)
        before = snapshot(store)

        assert 1 == len(lost)
        assert [False] == work.settle_lost(store, fence, *lost)

        assert before == snapshot(store)
        assert FinishResult.ACCEPTED == work.end(store, worker, claimed, Succeeded())

    def test_an_overdue_attempt_is_settled_though_its_worker_lives(
        self, store: Store, clock: ManualClock
    ) -> None:
        """The worker lives on; it is told at its next beat."""
        claimed = overdue_but_one(store, clock)
        clock.advance(1)
        (lost,) = work.lost_claims(store)
        how = TimedOut(Reason.TIMEOUT, "too long")

        assert [True] == work.settle_lost(store, work.maintain(store), lost, how=how)

        record = work.get_run(store, claimed.record.id)
        assert (RunState.RETRYING, Reason.TIMEOUT) == (record.state, record.state_reason)
        beaten = store.beat(Heartbeat(worker=lost.worker, holds=(claimed.hold,)))
        assert (True, ["gone"]) == (beaten.is_alive, [stop.kind for stop in beaten.stops])
        assert [] == steps.audit(store, action="member.declared-dead")

    def test_a_claim_that_is_no_longer_there_is_left_alone(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-5: settled by another, finished after all, or claimed again since."""
        workers = [work.join_worker(store) for _ in range(3)]
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
        work.settle_lost(store, fence, lost[1])
        giver, given = held[2]
        work.end(store, giver, given, ReturnedToQueue(Reason.SHUTDOWN, is_started=True))
        work.take_one(store, work.join_worker(store))
        before = snapshot(store)

        assert [False] * 3 == work.settle_lost(store, fence, *lost)
        assert before == snapshot(store)

    def test_results_come_in_the_order_given(self, store: Store, clock: ManualClock) -> None:
        """What can be settled is."""
        finisher, finished = work.queue_and_take(store)
        lose(store, clock, "b")
        lost = sorted(work.lost_claims(store), key=lambda one: one.worker)
        work.end(store, finisher, finished, Succeeded())

        assert [False, True] == work.settle_lost(store, work.maintain(store), *lost)

    def test_a_run_whose_budget_its_workers_have_eaten_is_dead(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A task that kills its worker each time ends, too."""
        store.register_policies({"remind": POLICY})
        target = work.queue(store)
        for _ in range(3):
            work.fire_retries(store, clock)
            worker = work.join_worker(store)
            work.take_one(store, worker)
            store.leave(worker)
            fence = work.maintain(store)
            work.settle_lost(store, fence, *work.lost_claims(store))
            store.leave(fence.member)

        record = work.get_run(store, target)
        assert (RunState.DEAD, Reason.BUDGET, 3) == (
            record.state,
            record.state_reason,
            record.tries.charged,
        )
        numbers = [attempt.number for attempt in store.list_attempts(record.id)]
        assert [1, 2, 3] == numbers
        assert 1 == len(steps.audit(store, action="run.dead"))

    @pytest.mark.parametrize("how", [WorkerLost(), CancelledEnd()], ids=["lost", "cancelled"])
    def test_a_lost_run_that_was_to_be_cancelled_is_cancelled(
        self, store: Store, clock: ManualClock, how: End
    ) -> None:
        """Nobody starts it again."""
        worker, claimed = work.queue_and_take(store)
        store.cancel_run(cancel_run(claimed.record.id))
        store.leave(worker)
        work.settle_lost(store, work.maintain(store), *work.lost_claims(store), how=how)

        assert RunState.CANCELLED == work.get_run(store, claimed.record.id).state
        assert [] == store.check()

    @pytest.mark.parametrize("owner", ["another lane", "expired", "taken over", "gave it up"])
    def test_who_lacks_the_maintenance_lease_settles_nothing(
        self, store: Store, clock: ManualClock, owner: str
    ) -> None:
        """INV-5: a reaper is fenced as any other owner is."""
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
            work.settle_lost(store, fence, *lost)

        assert before == snapshot(store).without_audit()

    def test_who_never_was_an_owner_settles_nothing(self, store: Store, clock: ManualClock) -> None:
        """An owner of nothing has no fence."""
        lose(store, clock)
        member = steps.join(store)
        assert store.renew(Renew(member=member)).is_alive

        with pytest.raises(LeaseLost):
            work.settle_lost(store, Fence(member, ()), *work.lost_claims(store))

        assert 1 == store.status().running

    def test_a_reaper_and_its_loser_agree_on_one_outcome(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-7, INV-10: whoever is first; the other is refused, and on record."""
        worker, claimed = lose(store, clock)
        lost = work.lost_claims(store)
        fence = work.maintain(store)
        assert [True] == work.settle_lost(store, fence, *lost, how=Failed("x", is_retryable=False))

        assert FinishResult.REFUSED == work.end(store, worker, claimed, Succeeded())
        assert RunState.DEAD == work.get_run(store, claimed.record.id).state
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
    claimed = work.take_one(store, work.join_worker(store, ttl_us=HOUR_US))
    clock.advance(20 * SECOND_US + work.OVERDUE_US - 1)
    return claimed


AFTER_US = 7 * SECOND_US


class RetryTimers(AtPlaces):
    """What loading, the arrivals feed and `fire_timers` promise about retries."""

    def test_a_waiting_run_is_a_timer(self, store: Store, clock: ManualClock) -> None:
        """Of its shard, under the fence of its last claim."""
        run_id = work.make_waiting(store, after_us=AFTER_US)
        due_at = clock.now_us() + AFTER_US

        expected = Timer(
            kind="retry",
            ref=run_id,
            shard=shard_of(run_id, store.status().shards),
            due_at=due_at,
            scheduled_for=due_at,
            generation=1,
            definition_number=0,
        )
        assert (expected,) == steps.load(store, due_at)
        assert () == steps.load(store, due_at - 1)
        assert () == steps.load(store, due_at + 1, after=due_at)

    def test_firing_a_retry_queues_the_run_with_its_tries(
        self, store: Store, clock: ManualClock
    ) -> None:
        """At the very instant it is due; no run is made."""
        run_id = work.make_waiting(store)
        before = work.get_run(store, run_id)

        fired = work.fire_retries(store, clock)

        after = work.get_run(store, run_id)
        assert ((FireResult.FIRED,), 0, before.next_at) == (
            fired.results,
            fired.runs_made,
            fired.now,
        )
        assert replace(before, state=RunState.QUEUED, state_reason=None, next_at=None) == after
        assert (1, 0) == (store.status().queued, store.status().retrying)
        assert () == steps.load(store, clock.now_us())
        assert [] == store.check()

    def test_a_retry_comes_before_what_fell_due_after_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Its place in the queue is that of its due."""
        again = work.make_waiting(store, after_us=AFTER_US)
        clock.advance(AFTER_US - 1)
        earlier = work.queue(store, "earlier")
        clock.advance(2)
        later = work.queue(store, "later")
        work.fire_retries(store, clock)

        assert [earlier, again, later] == work.take_ids(store, work.join_worker(store))

    def test_a_retry_never_comes_early(self, store: Store, clock: ManualClock) -> None:
        """INV-1: not by a microsecond; then nothing changes."""
        run_id = work.make_waiting(store, after_us=AFTER_US)
        fence = steps.own(store, (Lane.LIVE,), ttl_us=MINUTE_US)
        clock.advance(AFTER_US - 1)
        before = snapshot(store)

        assert (FireResult.EARLY,) == fire(store, fence, run_id).results
        assert before == snapshot(store)
        clock.advance(1)
        assert (FireResult.FIRED,) == fire(store, fence, run_id).results

    def test_a_retry_fires_once(self, store: Store, clock: ManualClock) -> None:
        """INV-2: a second fire finds it gone."""
        run_id = work.make_waiting(store)
        fire_once = retry_of(store, run_id)
        work.fire_retries(store, clock)
        fence = steps.own(store, (Lane.LIVE,))

        command = FireTimers(fence=fence, retries=(fire_once,))

        assert (FireResult.GONE,) == store.fire_timers(command).results
        assert 1 == steps.queued(store)

    @pytest.mark.parametrize("change", ["another attempt", "another due", "at once"])
    def test_a_timer_of_before_is_gone(self, store: Store, clock: ManualClock, change: str) -> None:
        """Compared with what is pending, fence and due."""
        run_id = work.make_waiting(store)
        believed = retry_of(store, run_id)
        if change == "another attempt":
            work.fire_retries(store, clock)
            worker = work.join_worker(store)
            claimed = work.take_one(store, worker)
            work.end(store, worker, claimed, Failed("again", after_us=0))
        elif change == "another due":
            believed = FireRetry(believed.timer._replace(due_at=believed.timer.due_at - 1))
        else:
            store.retry_runs(order_runs(run_id))
        clock.advance(MINUTE_US)
        fence = steps.own(store, (Lane.LIVE,))
        before = snapshot(store)

        command = FireTimers(fence=fence, retries=(believed,))

        assert (FireResult.GONE,) == store.fire_timers(command).results
        assert before == snapshot(store)

    @pytest.mark.parametrize("owner", ["expired", "another lane", "another shard"])
    def test_who_does_not_own_the_shard_fires_no_retry(
        self, store: Store, clock: ManualClock, owner: str
    ) -> None:
        """INV-5."""
        run_id = work.make_waiting(store)
        clock.advance(MINUTE_US)
        shard = retry_of(store, run_id).timer.shard
        member = steps.join(store)
        lane = Lane.CATCH_UP if owner == "another lane" else Lane.LIVE
        wanted = [key for key in steps.every_key(store, (lane,)) if key.shard == shard]
        if owner == "another shard":
            wanted = [LeaseKey((shard + 1) % store.status().shards, Lane.LIVE)]
        fence = Fence(member, tuple(store.acquire_leases(member, wanted)))
        if owner == "expired":
            clock.advance(MEMBER_TTL_US)

        assert (FireResult.FENCED,) == fire(store, fence, run_id).results
        assert RunState.RETRYING == work.get_run(store, run_id).state

    def test_results_come_in_order_schedules_then_delayed_then_retries(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Each with its own result."""
        run_id = work.make_waiting(store, after_us=2 * SECOND_US)
        gone = retry_of(store, run_id)
        gone = FireRetry(gone.timer._replace(generation=9))
        delayed = steps.delay(store, clock.now_us() + SECOND_US)
        clock.advance(2 * SECOND_US)
        command = FireTimers(
            fence=steps.own(store, (Lane.LIVE,)),
            delayed=(delayed_fire(delayed, store.status().shards),),
            retries=(gone, retry_of(store, run_id)),
        )

        fired = store.fire_timers(command)

        assert (FireResult.FIRED, FireResult.GONE, FireResult.FIRED) == fired.results
        assert 1 == fired.runs_made

    @pytest.mark.parametrize(("after_us", "is_told"), [(NEAR_US, True), (NEAR_US + 1, False)])
    def test_a_retry_that_is_near_is_announced(
        self, store: Store, after_us: int, *, is_told: bool
    ) -> None:
        """Whoever has loaded already hears of it; one that is far is loaded in time."""
        cursor = store.start_of_arrivals()
        run_id = work.make_waiting(store, after_us=after_us)

        told = store.read_arrivals(cursor, range(store.status().shards))

        expected = [retry_of(store, run_id).timer] if is_told else []
        assert expected == list(told.timers)
        assert () == store.read_arrivals(told.cursor, range(store.status().shards)).timers

    def test_a_retry_that_is_near_wakes_a_dispatcher(self, store: Store) -> None:
        worker, claimed = work.queue_and_take(store)
        place = self.place(store, MemberKind.DISPATCHER)
        steps.join(store, wake_address=place.address)
        work.end(store, worker, claimed, Failed("oh", after_us=0))

        assert place.wait(WAIT_MAX_US)
        place.close()

    def test_a_retry_that_fires_wakes_a_worker(self, store: Store, clock: ManualClock) -> None:
        work.make_waiting(store, after_us=0)
        place = self.place(store, MemberKind.WORKER)
        work.join_worker(store, wake_address=place.address)
        work.fire_retries(store, clock)

        assert place.wait(WAIT_MAX_US)
        place.close()


class RetryBudgets:
    """What `finish_runs` promises about the retry budget of a task."""

    def test_retries_of_a_task_lie_apart(self, store: Store, clock: ManualClock) -> None:
        """As far as its budget says, each in a slot of its own."""
        policy = TaskPolicy(retry=Retry(5, per_minute=6))
        dues = [fail(store, text, policy).next_at for text in ("a", "b", "c")]

        assert [clock.now_us() + after * SECOND_US for after in (10, 20, 30)] == dues

    def test_a_long_wait_holds_up_nobody_else(self, store: Store, clock: ManualClock) -> None:
        """One that was told to come back in a month takes a slot then, and none now."""
        policy = TaskPolicy(retry=Retry(5, per_minute=6))
        worker, claimed = work.queue_and_take(store, "a")
        month = Failed("later", after_us=30 * 24 * 60 * MINUTE_US)
        work.end(store, worker, claimed, month, policy=policy)
        store.leave(worker)

        assert clock.now_us() + 10 * SECOND_US == fail(store, "b", policy).next_at

    def test_a_retry_that_comes_late_enough_is_not_put_off(
        self, store: Store, clock: ManualClock
    ) -> None:
        policy = TaskPolicy(retry=Retry(5, per_minute=6))
        first = fail(store, "a", policy).next_at
        clock.advance(MINUTE_US)

        assert clock.now_us() + 10 * SECOND_US == fail(store, "b", policy).next_at
        assert clock.now_us() - 50 * SECOND_US == first

    def test_a_slot_between_others_is_taken(self, store: Store, clock: ManualClock) -> None:
        """Whoever comes later and is due earlier does not wait behind everybody."""
        policy = TaskPolicy(retry=Retry(5, per_minute=6))
        afters = (30, 10, 30, 11, 9, 50, 40, 1)
        dues = []
        for number, after in enumerate(afters):
            after_us = after * SECOND_US
            dues.append(fail(store, f"{number}", policy, after_us=after_us).next_at)

        expected = (30, 10, 40, 20, 50, 60, 70, 80)
        assert [clock.now_us() + after * SECOND_US for after in expected] == dues

    def test_retries_that_are_sent_to_one_instant_are_spread(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-23: a provider that says when to come back is not flooded then."""
        policy = TaskPolicy(retry=Retry(5, per_minute=60))
        worker = work.join_worker(store, ttl_us=HOUR_US)
        back_at = clock.now_us() + 30 * MINUTE_US
        store.add_runs(add_runs(*(new_run(None, f"{number}") for number in range(600))))
        for _ in range(6):
            claims = work.take(store, worker, 100)
            failed = Failed("come back", after_us=back_at - clock.now_us())
            store.finish_runs(worker, [finish(one, failed, policy=policy) for one in claims])
            clock.advance(SECOND_US)

        dues = sorted(run.next_at or 0 for run in store.list_runs(RunFilter(tenant=TENANT_DEFAULT)))
        assert [back_at + number * SECOND_US for number in range(600)] == dues

    def test_the_budget_of_one_task_is_not_that_of_another(
        self, store: Store, clock: ManualClock
    ) -> None:
        policy = TaskPolicy(retry=Retry(5, per_minute=6))
        dues = [fail(store, task, policy, task=task).next_at for task in ("this", "that")]

        assert [clock.now_us() + 10 * SECOND_US] * 2 == dues

    def test_what_needs_no_budget_takes_none(self, store: Store, clock: ManualClock) -> None:
        """A snooze, or a task without a rate, neither waits nor makes others wait."""
        policy = TaskPolicy(retry=Retry(5, per_minute=6))
        free = fail(store, "a", TaskPolicy())
        worker, claimed = work.queue_and_take(store, "b")
        work.end(store, worker, claimed, Snoozed(SECOND_US), policy=policy)
        limited = fail(store, "c", policy)
        snoozed = work.get_run(store, claimed.record.id)

        due_at = clock.now_us() + SECOND_US
        assert [due_at] * 2 == [free.next_at, snoozed.next_at]
        assert clock.now_us() + 10 * SECOND_US == limited.next_at

    def test_a_batch_shares_the_budget_too(self, store: Store, clock: ManualClock) -> None:
        """In the order given."""
        policy = TaskPolicy(retry=Retry(5, per_minute=6))
        worker = work.join_worker(store)
        for text in ("a", "b"):
            work.queue(store, text)
        claims = work.take(store, worker)
        failed = Failed("oh", after_us=SECOND_US)
        finishes = [finish(claimed, failed, policy=policy) for claimed in claims]
        assert all(isinstance(one.conclusion.next, RetryLater) for one in finishes)
        store.finish_runs(worker, finishes)

        dues = [work.get_run(store, claimed.record.id).next_at for claimed in claims]
        assert [clock.now_us() + after * SECOND_US for after in (10, 20)] == dues


def fail(store: Store, text: str, policy: TaskPolicy, **parts: Any) -> RunRecord:
    """Let a run fail, to be tried again in a second or later; return it."""
    after_us = parts.pop("after_us", SECOND_US)
    worker, claimed = work.queue_and_take(store, text, **parts)
    work.end(store, worker, claimed, Failed("oh", after_us=after_us), policy=policy)
    store.leave(worker)
    return work.get_run(store, claimed.record.id)


def retry_of(store: Store, run_id: RunId) -> FireRetry:
    """Return the fire of a waiting run."""
    (timer,) = [timer for timer in steps.load(store, 1 << 60) if timer.ref == run_id]
    return FireRetry(timer)


def fire(store: Store, fence: Fence, run_id: RunId) -> Fired:
    """Fire one retry."""
    return store.fire_timers(FireTimers(fence=fence, retries=(retry_of(store, run_id),)))
