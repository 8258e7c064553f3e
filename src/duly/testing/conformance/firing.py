"""Which timers fire and which are refused, at the exact edges: the heart of the contract."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from duly.domain.identity import RunId
from duly.domain.literals import Lane, Missed
from duly.domain.misfire import Misfire
from duly.domain.planning import decide_resume, decide_skip_next
from duly.domain.settling import PlannedRun, Settlement
from duly.store.dispatch import FireResult
from duly.testing.conformance import steps
from duly.testing.factories import (
    HOUR_US,
    cancel,
    definition,
    delayed_fire,
    id_in_shard,
    move,
    on_time,
    staying,
    timer_of,
)
from duly.testing.snapshot import snapshot

if TYPE_CHECKING:
    from duly.domain.schedules import ScheduleRecord
    from duly.store.dispatch import FirePlanned
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock

LIVE = (Lane.LIVE,)


class OnTimeAndLate:
    """Due, early and late, by the store's clock."""

    def test_a_timer_fires_at_its_due_instant(self, store: Store, clock: ManualClock) -> None:
        """F1: at the instant itself."""
        record, fence = steps.due_and_owned(store, clock)

        fired = steps.fire(store, fence, on_time(record))

        assert (FireResult.FIRED,) == fired.results
        assert (1, clock.now_us(), ()) == (fired.runs_made, fired.now, fired.lost)

    def test_a_microsecond_before_is_early_and_changes_nothing(
        self, store: Store, clock: ManualClock
    ) -> None:
        """F1, INV-1: whatever the dispatcher believes."""
        record = steps.create(store)
        steps.fall_due(clock, record, late_us=-1)
        fence = steps.own(store)
        before = snapshot(store)

        fired = steps.fire(store, fence, on_time(record))

        assert ((FireResult.EARLY,), 0) == (fired.results, fired.runs_made)
        assert before == snapshot(store)
        assert 0 == store.status().early_fires

    def test_jitter_is_waited_for(self, store: Store, clock: ManualClock) -> None:
        """S8, F1: the nominal time alone is not enough."""
        record = steps.create(store, jitter_us=HOUR_US)
        assert record.pending is not None
        assert record.pending.due_at > record.pending.scheduled_for
        fence = steps.own(store, ttl_us=9 * HOUR_US)

        clock.set(record.pending.due_at - 1)
        assert (FireResult.EARLY,) == steps.fire(store, fence, on_time(record)).results
        clock.set(record.pending.due_at)
        assert (FireResult.FIRED,) == steps.fire(store, fence, on_time(record)).results

    def test_a_timer_fires_as_planned_up_to_the_end_of_its_grace(
        self, store: Store, clock: ManualClock
    ) -> None:
        """M1, INV-9: at the edge it is on time."""
        record = steps.create(store)
        steps.fall_due(clock, record, late_us=Misfire().grace_us)
        fence = steps.own(store)

        assert (FireResult.FIRED,) == steps.fire(store, fence, on_time(record)).results

    def test_past_its_grace_it_is_late_and_changes_nothing(
        self, store: Store, clock: ManualClock
    ) -> None:
        """M1, INV-9: it has to be planned by its misfire policy."""
        record = steps.create(store)
        steps.fall_due(clock, record, late_us=Misfire().grace_us + 1)
        fence = steps.own(store)
        before = snapshot(store)

        assert (FireResult.LATE,) == steps.fire(store, fence, on_time(record)).results
        assert before == snapshot(store)

    def test_a_plan_without_an_end_is_never_late(self, store: Store, clock: ManualClock) -> None:
        """M1: as one made by the misfire policy is."""
        record = steps.create(store)
        steps.fall_due(clock, record, late_us=100 * HOUR_US)
        fence = steps.own(store)
        fire = on_time(record, late_after=None)

        assert (FireResult.FIRED,) == steps.fire(store, fence, fire).results

    def test_a_planned_run_that_is_not_due_makes_the_whole_timer_early(
        self, store: Store, clock: ManualClock
    ) -> None:
        """F1, INV-1: the timer is due, one of the runs of its plan is not."""
        record = steps.create(store)
        steps.fall_due(clock, record)
        fence = steps.own(store)
        fire = with_run_ahead(on_time(record), clock.now_us() + 1)
        before = snapshot(store)

        assert (FireResult.EARLY,) == steps.fire(store, fence, fire).results
        assert before == snapshot(store)

    def test_a_delayed_run_fires_at_its_due_instant_and_not_before(
        self, store: Store, clock: ManualClock
    ) -> None:
        """F1, INV-1."""
        delayed = steps.delay(store, clock.now_us() + HOUR_US)
        fence = steps.own(store, ttl_us=9 * HOUR_US)
        fire = delayed_fire(delayed, store.status().shards)

        clock.set(delayed.due_at - 1)
        assert (FireResult.EARLY,) == steps.fire(store, fence, fire).results
        assert store.get_delayed(delayed.id) == delayed
        clock.set(delayed.due_at)
        assert (FireResult.FIRED,) == steps.fire(store, fence, fire).results

    def test_a_delayed_run_fires_however_late(self, store: Store, clock: ManualClock) -> None:
        """S1, INV-2: a promise to run once has no misfire policy."""
        delayed = steps.delay(store, clock.now_us() + HOUR_US)
        clock.advance("90d")
        fence = steps.own(store)

        fired = steps.fire(store, fence, delayed_fire(delayed, store.status().shards))

        assert (FireResult.FIRED,) == fired.results

    def test_a_clock_that_is_set_back_over_a_fire_makes_no_second_one(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-3."""
        record = steps.create(store)
        fence = steps.own(store, ttl_us=99 * HOUR_US)
        steps.fall_due(clock, record)
        steps.fire(store, fence, on_time(record))
        clock.set(record.created_at)
        clock.set(timer_of(record).due_at)

        again = steps.fire(store, fence, on_time(record))

        assert ((FireResult.GONE,), 0) == (again.results, again.runs_made)
        assert 1 == steps.queued(store)


class NoLongerAsBelieved:
    """A timer that moved on is gone; nothing of the batch's belief is written."""

    def test_a_second_fire_finds_it_gone(self, store: Store, clock: ManualClock) -> None:
        """INV-3, F6: sent again because an answer was lost."""
        record = steps.create(store)
        steps.fall_due(clock, record)
        fence = steps.own(store)
        steps.fire(store, fence, on_time(record))
        before = snapshot(store)

        again = steps.fire(store, fence, on_time(record))

        assert ((FireResult.GONE,), 0) == (again.results, again.runs_made)
        assert before == snapshot(store)

    @pytest.mark.parametrize("order", ["edited", "paused", "deleted", "skipped", "resumed"])
    def test_a_schedule_that_was_changed_is_gone(
        self, store: Store, clock: ManualClock, order: str
    ) -> None:
        """F6, INV-12, INV-13, INV-14: an order that was acknowledged holds."""
        record = steps.create(store)
        self._order(store, record, order)
        steps.fall_due(clock, record)
        fence = steps.own(store)
        before = snapshot(store)

        fired = steps.fire(store, fence, on_time(record))

        assert ((FireResult.GONE,), 0) == (fired.results, fired.runs_made)
        assert before == snapshot(store)

    @staticmethod
    def _order(store: Store, record: ScheduleRecord, order: str) -> None:
        if order == "edited":
            steps.edit(store, record, definition(task="other"))
        elif order == "paused":
            steps.pause(store, record)
        elif order == "deleted":
            steps.delete(store, record)
        elif order == "skipped":
            steps.apply(store, record, decide_skip_next(record, None))
        else:
            paused = steps.pause(store, record)
            resumed = decide_resume(paused, store.now(), Missed.SKIP, None)
            steps.apply(store, paused, resumed)

    def test_a_change_that_keeps_the_due_still_voids_the_old_timer(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-14: the version counts; what fires is the new definition, by the new timer."""
        record = steps.create(store)
        edited = steps.edit(store, record, definition(task="other"))
        assert record.pending == edited.pending
        steps.fall_due(clock, record)
        fence = steps.own(store)

        stale = steps.fire(store, fence, on_time(record))
        fresh = steps.fire(store, fence, on_time(edited))

        assert (FireResult.GONE, FireResult.FIRED) == (*stale.results, *fresh.results)
        (run,) = snapshot(store).runs
        assert ("other", 2) == (run.call.task, run.definition_number)

    def test_a_stale_timer_takes_nothing_from_the_new_one(
        self, store: Store, clock: ManualClock
    ) -> None:
        """F6: cleaning up after the old version must not remove the timer of the new one."""
        record = steps.create(store)
        edited = steps.edit(store, record, definition(task="other"))
        steps.fall_due(clock, record)
        steps.fire(store, steps.own(store), on_time(record))

        assert (timer_of(edited),) == steps.load(store, clock.now_us())

    @pytest.mark.parametrize("order", ["moved", "moved back", "cancelled", "fired"])
    def test_a_delayed_run_that_was_changed_is_gone(
        self, store: Store, clock: ManualClock, order: str
    ) -> None:
        """S2, F6: also when it was moved away and back again."""
        delayed = steps.delay(store, clock.now_us() + HOUR_US)
        fire = delayed_fire(delayed, store.status().shards)
        if order == "cancelled":
            store.cancel_delayed(cancel(delayed.id))
        if order in {"moved", "moved back"}:
            store.move_delayed(move(delayed.id, delayed.due_at + HOUR_US))
        if order == "moved back":
            store.move_delayed(move(delayed.id, delayed.due_at))
        clock.set(delayed.due_at)
        fence = steps.own(store)
        if order == "fired":
            assert (FireResult.FIRED,) == steps.fire(store, fence, fire).results
        before = snapshot(store)

        fired = steps.fire(store, fence, fire)

        assert ((FireResult.GONE,), 0) == (fired.results, fired.runs_made)
        assert before == snapshot(store)

    def test_something_unknown_is_gone(self, store: Store, clock: ManualClock) -> None:
        """F6."""
        record = steps.create(store)
        steps.fall_due(clock, record)
        fence = steps.own(store)
        shards = store.status().shards
        unknown = timer_of(record)._replace(
            ref=id_in_shard(clock.now_us(), "unknown", record.shard, shards)
        )

        fired = steps.fire(store, fence, on_time(record, timer=unknown))

        assert (FireResult.GONE,) == fired.results

    def test_another_due_than_the_pending_one_is_gone(
        self, store: Store, clock: ManualClock
    ) -> None:
        """F6: a dispatcher that believes in an earlier due can't fire by it."""
        record = steps.create(store)
        steps.fall_due(clock, record)
        fence = steps.own(store)
        believed = timer_of(record)._replace(due_at=timer_of(record).due_at - 1)

        fired = steps.fire(store, fence, on_time(record, timer=believed))

        assert (FireResult.GONE,) == fired.results

    def test_what_is_gone_is_not_early(self, store: Store, clock: ManualClock) -> None:
        """F6: it would be waited for otherwise."""
        record = steps.create(store)
        steps.pause(store, record)
        fence = steps.own(store)

        assert (FireResult.GONE,) == steps.fire(store, fence, on_time(record)).results

    def test_many_threads_fire_a_timer_once(self, store: Store, clock: ManualClock) -> None:
        """INV-3: of all who try at the same moment, one succeeds."""
        record = steps.create(store)
        steps.fall_due(clock, record)
        fence = steps.own(store)

        with ThreadPoolExecutor(4) as threads:
            tries = [threads.submit(steps.fire, store, fence, on_time(record)) for _ in range(8)]
            results = sorted(one.result().results[0] for one in tries)

        assert ["fired", *["gone"] * 7] == results
        assert 1 == steps.queued(store)


class MixedBatches:
    """Each timer of a batch has its own result."""

    def test_each_timer_has_its_own_result_in_the_order_given(
        self, store: Store, clock: ManualClock
    ) -> None:
        """F2: schedules first, then delayed runs."""
        due, early, gone, late = (
            steps.create(store, name) for name in ("due", "early", "gone", "late")
        )
        early = steps.apply(store, early, staying(early, pending=moved_by(early, 1)))
        late = steps.apply(store, late, staying(late, pending=moved_by(late, -61_000_000)))
        steps.pause(store, gone)
        shards = store.status().shards
        soon = steps.delay(store, timer_of(due).due_at, "soon")
        later = steps.delay(store, timer_of(due).due_at + 1, "later")
        steps.fall_due(clock, due)
        fence = steps.own(store)

        fired = steps.fire(
            store,
            fence,
            on_time(late),
            on_time(gone),
            on_time(early),
            on_time(due),
            delayed_fire(later, shards),
            delayed_fire(soon, shards),
        )

        assert ["late", "gone", "early", "fired", "early", "fired"] == list(fired.results)
        assert (2, 2) == (fired.runs_made, steps.queued(store))
        assert {due.id, soon.id} == {run.schedule_id or run.id for run in snapshot(store).runs}

    def test_an_empty_batch_is_no_problem(self, store: Store, clock: ManualClock) -> None:
        """F2."""
        fired = steps.fire(store, steps.own(store))

        assert ((), 0, ()) == (fired.results, fired.runs_made, fired.lost)

    def test_one_timer_twice_in_a_batch_fires_once(self, store: Store, clock: ManualClock) -> None:
        """INV-3: loaded, and announced again."""
        record, fence = steps.due_and_owned(store, clock)
        delayed = steps.delay(store, clock.now_us() + 1)
        clock.advance(1)
        twice = [on_time(record)] * 2
        late = [delayed_fire(delayed, store.status().shards)] * 2

        fired = steps.fire(store, fence, *twice, *late)

        assert ["fired", "gone", "fired", "gone"] == list(fired.results)
        assert (2, 2) == (fired.runs_made, steps.queued(store))


def moved_by(record: ScheduleRecord, distance_us: int) -> object:
    """Return a schedule's pending occurrence, elsewhere in time."""
    assert record.pending is not None
    return record.pending._replace(
        scheduled_for=record.pending.scheduled_for + distance_us,
        due_at=record.pending.due_at + distance_us,
    )


def with_run_ahead(fire: FirePlanned, not_before: int) -> FirePlanned:
    """Return a fire whose plan also makes a run that may not exist before an instant."""
    (run,) = fire.plan.settlement.runs
    ahead: PlannedRun = run._replace(
        run_id=RunId(run.run_id[:-1] + b"\0"), scheduled_for=not_before, not_before=not_before
    )
    settlement = Settlement((run, ahead), fire.plan.settlement.skips)
    return fire._replace(plan=fire.plan._replace(settlement=settlement))
