"""Retries: the part of the contract about runs that wait for another attempt."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from duly.domain.attempts import TaskPolicy
from duly.domain.concluding import Failed, Snoozed, Wait
from duly.domain.identity import shard_of
from duly.domain.literals import Lane, RunState
from duly.domain.retrying import Retry
from duly.domain.schedules import TENANT_DEFAULT
from duly.store.dispatch import (
    MEMBER_TTL_US,
    Fence,
    FireResult,
    FireRetry,
    FireTimers,
    LeaseKey,
    MemberKind,
    Timer,
)
from duly.store.planning import NEAR_US
from duly.store.reading import RunFilter
from duly.testing.conformance import steps
from duly.testing.conformance import work_steps as work
from duly.testing.conformance.places import WAIT_MAX_US, AtPlaces
from duly.testing.factories import (
    HOUR_US,
    MINUTE_US,
    SECOND_US,
    add_runs,
    delayed_fire,
    finish,
    new_run,
    order_runs,
)
from duly.testing.snapshot import snapshot

if TYPE_CHECKING:
    from duly.domain.identity import RunId
    from duly.domain.runs import RunRecord
    from duly.store.dispatch import Fired
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock

AFTER_US = 7 * SECOND_US


class RetryTimers(AtPlaces):
    """What loading, the arrivals feed and `fire_timers` promise about retries."""

    def test_a_waiting_run_is_a_timer(self, store: Store, clock: ManualClock) -> None:
        """B1, F6: of its shard, under the fence of its last claim."""
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
        """B1, F2: at the very instant it is due; no run is made."""
        run_id = work.make_waiting(store)
        before = work.look(store, run_id)

        fired = work.fire_retries(store, clock)

        after = work.look(store, run_id)
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
        """R8: its place in the queue is that of its due."""
        again = work.make_waiting(store, after_us=AFTER_US)
        clock.advance(AFTER_US - 1)
        earlier = work.queue(store, "earlier")
        clock.advance(2)
        later = work.queue(store, "later")
        work.fire_retries(store, clock)

        assert [earlier, again, later] == work.take_ids(store, work.join(store))

    def test_a_retry_never_comes_early(self, store: Store, clock: ManualClock) -> None:
        """F1, INV-1: not by a microsecond; then nothing changes."""
        run_id = work.make_waiting(store, after_us=AFTER_US)
        fence = steps.own(store, (Lane.LIVE,), ttl_us=MINUTE_US)
        clock.advance(AFTER_US - 1)
        before = snapshot(store)

        assert (FireResult.EARLY,) == fire(store, fence, run_id).results
        assert before == snapshot(store)
        clock.advance(1)
        assert (FireResult.FIRED,) == fire(store, fence, run_id).results

    def test_a_retry_fires_once(self, store: Store, clock: ManualClock) -> None:
        """F2, INV-2: a second fire finds it gone."""
        run_id = work.make_waiting(store)
        fire_once = retry_of(store, run_id)
        work.fire_retries(store, clock)
        fence = steps.own(store, (Lane.LIVE,))

        command = FireTimers(fence=fence, retries=(fire_once,))

        assert (FireResult.GONE,) == store.fire_timers(command).results
        assert 1 == steps.queued(store)

    @pytest.mark.parametrize("change", ["another attempt", "another due", "at once"])
    def test_a_timer_of_before_is_gone(self, store: Store, clock: ManualClock, change: str) -> None:
        """F6: compared with what is pending, fence and due."""
        run_id = work.make_waiting(store)
        believed = retry_of(store, run_id)
        if change == "another attempt":
            work.fire_retries(store, clock)
            worker = work.join(store)
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
        """F4, INV-5."""
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
        assert RunState.RETRYING == work.look(store, run_id).state

    def test_results_come_in_order_schedules_then_delayed_then_retries(
        self, store: Store, clock: ManualClock
    ) -> None:
        """F2: each with its own result."""
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
        """F6: whoever has loaded already hears of it; one that is far is loaded in time."""
        cursor = store.start_of_arrivals()
        run_id = work.make_waiting(store, after_us=after_us)

        told = store.read_arrivals(cursor, range(store.status().shards))

        expected = [retry_of(store, run_id).timer] if is_told else []
        assert expected == list(told.timers)
        assert () == store.read_arrivals(told.cursor, range(store.status().shards)).timers

    def test_a_retry_that_is_near_wakes_a_dispatcher(self, store: Store) -> None:
        """F6, P3."""
        worker, claimed = work.queue_and_take(store)
        place = self.place(store, MemberKind.DISPATCHER)
        steps.join(store, wake_address=place.address)
        work.end(store, worker, claimed, Failed("oh", after_us=0))

        assert place.wait(WAIT_MAX_US)
        place.close()

    def test_a_retry_that_fires_wakes_a_worker(self, store: Store, clock: ManualClock) -> None:
        """P3."""
        work.make_waiting(store, after_us=0)
        place = self.place(store, MemberKind.WORKER)
        work.join(store, wake_address=place.address)
        work.fire_retries(store, clock)

        assert place.wait(WAIT_MAX_US)
        place.close()


class RetryBudgets:
    """What `finish_runs` promises about the retry budget of a task."""

    def test_retries_of_a_task_lie_apart(self, store: Store, clock: ManualClock) -> None:
        """B1: as far as its budget says, each in a slot of its own."""
        policy = TaskPolicy(retry=Retry(5, per_minute=6))
        dues = [fail(store, text, policy).next_at for text in ("a", "b", "c")]

        assert [clock.now_us() + after * SECOND_US for after in (10, 20, 30)] == dues

    def test_a_long_wait_holds_up_nobody_else(self, store: Store, clock: ManualClock) -> None:
        """B1: one that was told to come back in a month takes a slot then, and none now."""
        policy = TaskPolicy(retry=Retry(5, per_minute=6))
        worker, claimed = work.queue_and_take(store, "a")
        month = Failed("later", after_us=30 * 24 * 60 * MINUTE_US)
        work.end(store, worker, claimed, month, policy=policy)
        store.leave(worker)

        assert clock.now_us() + 10 * SECOND_US == fail(store, "b", policy).next_at

    def test_a_retry_that_comes_late_enough_is_not_put_off(
        self, store: Store, clock: ManualClock
    ) -> None:
        """B1."""
        policy = TaskPolicy(retry=Retry(5, per_minute=6))
        first = fail(store, "a", policy).next_at
        clock.advance(MINUTE_US)

        assert clock.now_us() + 10 * SECOND_US == fail(store, "b", policy).next_at
        assert clock.now_us() - 50 * SECOND_US == first

    def test_a_slot_between_others_is_taken(self, store: Store, clock: ManualClock) -> None:
        """B1: whoever comes later and is due earlier does not wait behind everybody."""
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
        """B1, INV-23: a provider that says when to come back is not flooded then."""
        policy = TaskPolicy(retry=Retry(5, per_minute=60))
        worker = work.join(store, ttl_us=HOUR_US)
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
        """B1."""
        policy = TaskPolicy(retry=Retry(5, per_minute=6))
        dues = [fail(store, task, policy, task=task).next_at for task in ("this", "that")]

        assert [clock.now_us() + 10 * SECOND_US] * 2 == dues

    def test_what_needs_no_budget_takes_none(self, store: Store, clock: ManualClock) -> None:
        """B1: a snooze, or a task without a rate, neither waits nor makes others wait."""
        policy = TaskPolicy(retry=Retry(5, per_minute=6))
        free = fail(store, "a", TaskPolicy())
        worker, claimed = work.queue_and_take(store, "b")
        work.end(store, worker, claimed, Snoozed(SECOND_US), policy=policy)
        limited = fail(store, "c", policy)
        snoozed = work.look(store, claimed.record.id)

        due_at = clock.now_us() + SECOND_US
        assert [due_at] * 2 == [free.next_at, snoozed.next_at]
        assert clock.now_us() + 10 * SECOND_US == limited.next_at

    def test_a_batch_shares_the_budget_too(self, store: Store, clock: ManualClock) -> None:
        """B1: in the order given."""
        policy = TaskPolicy(retry=Retry(5, per_minute=6))
        worker = work.join(store)
        for text in ("a", "b"):
            work.queue(store, text)
        claims = work.take(store, worker)
        failed = Failed("oh", after_us=SECOND_US)
        finishes = [finish(claimed, failed, policy=policy) for claimed in claims]
        assert all(isinstance(one.conclusion.next, Wait) for one in finishes)
        store.finish_runs(worker, finishes)

        dues = [work.look(store, claimed.record.id).next_at for claimed in claims]
        assert [clock.now_us() + after * SECOND_US for after in (10, 20)] == dues


def fail(store: Store, text: str, policy: TaskPolicy, **parts: Any) -> RunRecord:
    """Let a run fail, to be tried again in a second or later; return it."""
    after_us = parts.pop("after_us", SECOND_US)
    worker, claimed = work.queue_and_take(store, text, **parts)
    work.end(store, worker, claimed, Failed("oh", after_us=after_us), policy=policy)
    store.leave(worker)
    return work.look(store, claimed.record.id)


def retry_of(store: Store, run_id: RunId) -> FireRetry:
    """Return the fire of a waiting run."""
    (timer,) = [timer for timer in steps.load(store, 1 << 60) if timer.ref == run_id]
    return FireRetry(timer)


def fire(store: Store, fence: Fence, run_id: RunId) -> Fired:
    """Fire one retry."""
    return store.fire_timers(FireTimers(fence=fence, retries=(retry_of(store, run_id),)))
