"""What every store must do about which timers fire, and what firing writes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from duly.domain.enums import Lane, Missed, Origin, RunState, ScheduleStatus, SkipReason
from duly.domain.fire_planning import NO_FURTHER, Plan, PlannedRun, Settlement, plan_late
from duly.domain.ids import RunId, occurrence_run_id
from duly.domain.policies import Misfire
from duly.domain.schedule_changes import decide_resume, decide_skip_next
from duly.store.ports.dispatch import FireResult
from duly.timetable.interval import every
from duly.timetable.once import at
from duly_conformance import steps
from duly_conformance.kit import (
    HOUR_US,
    cancel,
    definition,
    delayed_fire,
    id_in_shard,
    move,
    on_time,
    snapshot,
    staying,
    template_of,
    timer_of,
)

if TYPE_CHECKING:
    from duly.domain.runs import RunRecord
    from duly.domain.schedules import ScheduleRecord
    from duly.engine.manual_clock import ManualClock
    from duly.store.ports import Store
    from duly.store.ports.dispatch import FirePlanned, FireSchedule


class FiringSchedules:
    """What a schedule's fire leaves behind."""

    def test_firing_makes_the_run_of_the_occurrence(self, store: Store, clock: ManualClock) -> None:
        """With its deterministic id and where it came from."""
        record = steps.create(store, jitter_us=HOUR_US)
        fired = steps.fire_due(store, clock, record)

        assert record.pending is not None
        run = only_run(store)
        assert occurrence_run_id(record.id, record.pending.scheduled_for) == run.id
        assert (record.tenant, record.id, record.name, 1, None) == (
            run.tenant,
            run.schedule_id,
            run.schedule_name,
            run.definition_number,
            run.key,
        )
        assert (record.definition.call, Origin.SCHEDULE, Lane.LIVE, run.id) == (
            run.call,
            run.origin,
            run.lane,
            run.root,
        )
        assert (record.pending.scheduled_for, record.pending.due_at) == (
            run.scheduled_for,
            run.not_before,
        )
        assert (clock.now_us(), clock.now_us()) == (run.created_at, run.fired_at)
        assert (RunState.QUEUED, None) == (run.state, run.finished_at)
        assert run.id == fired.last_run

    def test_firing_queues_the_run(self, store: Store, clock: ManualClock) -> None:
        """Visible to workers in the same transaction."""
        steps.fire_due(store, clock, steps.create(store))

        assert (1, {"default": 1}) == (steps.queued(store), dict(store.status().queues))

    def test_firing_puts_the_timer_to_the_next_instant(
        self, store: Store, clock: ManualClock
    ) -> None:
        """One pending timer, made again by the fire itself."""
        record = steps.create(store)
        fired = steps.fire_due(store, clock, record)

        assert record.pending is not None
        assert fired.pending is not None
        assert record.pending.scheduled_for + HOUR_US == fired.pending.scheduled_for
        assert (timer_of(fired),) == steps.load(store, clock.now_us() + 100 * HOUR_US)

    def test_firing_is_on_the_record_of_the_schedule(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Counted together, and the version stays: a fire is no edit."""
        record = steps.create(store)
        fired = steps.fire_due(store, clock, record)

        assert record.pending is not None
        expected = replace(
            record,
            pending=fired.pending,
            last_for=record.pending.scheduled_for,
            last_run=only_run(store).id,
            last_fired_at=clock.now_us(),
            fires=1,
            active_run=only_run(store).id,
        )
        assert expected == fired

    def test_a_run_begins_its_window_where_the_last_one_ended(
        self, store: Store, clock: ManualClock
    ) -> None:
        """The first has no beginning."""
        record = steps.create(store)
        for _ in range(3):
            record = steps.fire_due(store, clock, record)

        third, second, first = snapshot(store).runs
        assert [None, first.scheduled_for, second.scheduled_for] == [
            run.window_from for run in (first, second, third)
        ]
        assert (3, third.scheduled_for) == (record.fires, record.last_for)

    def test_several_runs_of_one_fire_follow_each_other(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Each begins where the last ended, in the order of the plan."""
        record = steps.create(store)
        first, second, third, fourth = (
            template_of(record).pending(record.created_at + hours * HOUR_US)
            for hours in (1, 2, 3, 4)
        )
        clock.set(third.due_at)
        runs = tuple(
            steps.on_time_plan(replace(record, pending=pending)).settlement.runs[0]
            for pending in (first, second, third)
        )
        plan = Plan(Settlement(runs), fourth)

        fired = steps.fire(store, steps.own(store), on_time(record, plan=plan, late_after=None))

        assert ((FireResult.FIRED,), 3) == (fired.results, fired.runs_made)
        windows = [(run.window_from, run.scheduled_for) for run in snapshot(store).runs[::-1]]
        assert [
            (None, first.scheduled_for),
            (first.scheduled_for, second.scheduled_for),
            (second.scheduled_for, third.scheduled_for),
        ] == windows
        after = steps.look(store, record)
        assert (3, third.scheduled_for, fourth) == (after.fires, after.last_for, after.pending)

    def test_a_run_that_exists_is_not_queued_again(self, store: Store, clock: ManualClock) -> None:
        """INV-3: the timer goes on, the run stays what it is."""
        record = steps.create(store)
        fired = steps.fire_due(store, clock, record)
        again = steps.apply(store, fired, staying(fired, pending=record.pending))
        before = only_run(store)
        fence = steps.own(store)

        answer = steps.fire(store, fence, on_time(again))

        assert ((FireResult.FIRED,), 0) == (answer.results, answer.runs_made)
        assert before == only_run(store)
        assert 1 == steps.queued(store)
        after = steps.look(store, record)
        assert (1, fired.pending) == (after.fires, after.pending)

    def test_a_run_refers_to_the_definition_that_made_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-14: also after the next edit."""
        edited = steps.edit(store, steps.create(store), definition(task="second"))
        fired = steps.fire_due(store, clock, edited)
        steps.edit(store, fired, definition(task="third"))

        run = only_run(store)
        assert (2, "second") == (run.definition_number, run.call.task)

    def test_a_one_time_schedule_ends_when_it_has_fired(
        self, store: Store, clock: ManualClock
    ) -> None:
        """With the reason."""
        when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=clock.now_us() + HOUR_US)
        record = steps.create(store, timetable=at(when))
        ended = steps.fire_due(store, clock, record)

        assert (ScheduleStatus.ENDED, None, NO_FURTHER, 1) == (
            ended.status,
            ended.pending,
            ended.reason,
            ended.fires,
        )
        assert ended.version == record.version + 1
        assert () == steps.load(store, clock.now_us() + 100 * HOUR_US)
        assert "schedule.ended" == steps.audit(store, subject_id=record.id)[0].action
        assert 1 == steps.queued(store)

    def test_a_delayed_run_becomes_a_run(self, store: Store, clock: ManualClock) -> None:
        """Under the id and key it was asked for."""
        delayed = steps.delay(store, clock.now_us() + HOUR_US, key="class:42")
        clock.set(delayed.due_at + 7)
        steps.fire(store, steps.own(store), delayed_fire(delayed, store.status().shards))

        run = only_run(store)
        assert (delayed.id, "class:42", delayed.call, None) == (
            run.id,
            run.key,
            run.call,
            run.schedule_id,
        )
        assert (Origin.DELAY, Lane.LIVE, RunState.QUEUED) == (run.origin, run.lane, run.state)
        assert (delayed.due_at, delayed.due_at, clock.now_us(), delayed.created_at) == (
            run.scheduled_for,
            run.not_before,
            run.fired_at,
            run.created_at,
        )
        assert store.get_delayed(delayed.id) is None
        assert () == steps.load(store, clock.now_us())
        assert 1 == steps.queued(store)


class FiringLate:
    """What a fire by the misfire policy leaves behind."""

    def test_the_latest_stands_for_all_before_it(self, store: Store, clock: ManualClock) -> None:
        """INV-9: one run, and a record of what it stands for."""
        record = steps.create(store)
        clock.advance("5h30m")
        fired = fire_late(store, clock, record)

        run = only_run(store)
        (skip,) = store.list_skips(record.id, 10)
        start = record.created_at
        assert (start + 5 * HOUR_US, Origin.CATCH_UP) == (run.scheduled_for, run.origin)
        assert (start + HOUR_US, start + 4 * HOUR_US, 4) == (
            skip.first_for,
            skip.last_for,
            skip.count,
        )
        assert (SkipReason.COALESCED, run.id, clock.now_us()) == (skip.reason, skip.into, skip.at)
        assert fired.pending is not None
        assert start + 6 * HOUR_US == fired.pending.scheduled_for

    def test_what_is_skipped_is_on_record(self, store: Store, clock: ManualClock) -> None:
        """No run, and no hole."""
        record = steps.create(store, misfire=Misfire("skip"))
        clock.advance("5h30m")
        fired = fire_late(store, clock, record)

        (skip,) = store.list_skips(record.id, 10)
        assert (5, SkipReason.MISFIRE, None) == (skip.count, skip.reason, skip.into)
        assert () == snapshot(store).runs
        assert (0, None, None) == (fired.fires, fired.last_for, fired.last_fired_at)

    def test_what_is_owed_is_one_range(self, store: Store, clock: ManualClock) -> None:
        """The timer jumps, what was missed is drained apart."""
        record = steps.create(store, misfire=Misfire("all"))
        clock.advance("5h30m")
        fired = fire_late(store, clock, record)

        (owed,) = store.list_owed(record.id)
        start = record.created_at
        assert (start + HOUR_US, start + 5 * HOUR_US, 1) == (
            owed.first_for,
            owed.last_for,
            owed.definition_number,
        )
        assert fired.pending is not None
        assert start + 6 * HOUR_US == fired.pending.scheduled_for
        assert 0 == steps.queued(store)

    def test_what_a_person_skipped_and_an_edit_promised_anew_can_be_missed(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-14: two skips that begin alike are no obstacle, and leave no hole."""
        skip = Misfire("skip")
        record = steps.create(store, misfire=skip)
        record = steps.apply(store, record, decide_skip_next(record, None))
        record = steps.edit(store, record, definition(timetable=every("30m"), misfire=skip))
        record = steps.fire_due(store, clock, record)
        clock.advance("2h")

        fire_late(store, clock, record)

        instants = [record.created_at + hours * HOUR_US for hours in (1, 2)]
        assert ["skipped"] * 2 == [one.kind for one in store.judge(record.id, instants)]
        assert [] == store.check()

    def test_every_occurrence_of_an_outage_has_one_verdict(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Occurrences = runs + skips + owed + pending, with no holes."""
        misfire = Misfire("all", at_most=3, not_older="4h")
        record = steps.create(store, misfire=misfire)
        clock.advance("9h30m")
        fire_late(store, clock, record)

        instants = [record.created_at + hours * HOUR_US for hours in range(1, 11)]
        kinds = [(one.kind, one.reason) for one in store.judge(record.id, instants)]
        assert [("skipped", "too-old")] * 5 == kinds[:5]
        assert [("skipped", "too-many")] == kinds[5:6]
        assert [("owed", None)] * 3 == kinds[6:9]
        assert [("pending", None)] == kinds[9:]


def fire_late(store: Store, clock: ManualClock, record: ScheduleRecord) -> ScheduleRecord:
    """Fire a schedule by its misfire policy; return what it has become."""
    fence = steps.own(store)
    assert (FireResult.FIRED,) == steps.fire(store, fence, late(record, clock.now_us())).results
    store.leave(fence.member)
    return steps.look(store, record)


def late(record: ScheduleRecord, now: int) -> FireSchedule:
    """Return the fire of an occurrence that is past its grace."""
    assert record.pending is not None
    plan = plan_late(template_of(record), record.pending, now)
    return on_time(record, plan=plan, late_after=None)


def only_run(store: Store) -> RunRecord:
    """Return the one run there is."""
    (run,) = snapshot(store).runs
    return run


LIVE = (Lane.LIVE,)


class OnTimeAndLate:
    """Due, early and late, by the store's clock."""

    def test_a_timer_fires_at_its_due_instant(self, store: Store, clock: ManualClock) -> None:
        """At the instant itself."""
        record, fence = steps.due_and_owned(store, clock)

        fired = steps.fire(store, fence, on_time(record))

        assert (FireResult.FIRED,) == fired.results
        assert (1, clock.now_us(), ()) == (fired.runs_made, fired.now, fired.lost)

    def test_a_microsecond_before_is_early_and_changes_nothing(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-1: whatever the dispatcher believes."""
        record = steps.create(store)
        steps.fall_due(clock, record, late_us=-1)
        fence = steps.own(store)
        before = snapshot(store)

        fired = steps.fire(store, fence, on_time(record))

        assert ((FireResult.EARLY,), 0) == (fired.results, fired.runs_made)
        assert before == snapshot(store)
        assert 0 == store.status().early_fires

    def test_jitter_is_waited_for(self, store: Store, clock: ManualClock) -> None:
        """The nominal time alone is not enough."""
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
        """INV-9: at the edge it is on time."""
        record = steps.create(store)
        steps.fall_due(clock, record, late_us=Misfire().grace_us)
        fence = steps.own(store)

        assert (FireResult.FIRED,) == steps.fire(store, fence, on_time(record)).results

    def test_past_its_grace_it_is_late_and_changes_nothing(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-9: it has to be planned by its misfire policy."""
        record = steps.create(store)
        steps.fall_due(clock, record, late_us=Misfire().grace_us + 1)
        fence = steps.own(store)
        before = snapshot(store)

        assert (FireResult.LATE,) == steps.fire(store, fence, on_time(record)).results
        assert before == snapshot(store)

    def test_a_plan_without_an_end_is_never_late(self, store: Store, clock: ManualClock) -> None:
        """As one made by the misfire policy is."""
        record = steps.create(store)
        steps.fall_due(clock, record, late_us=100 * HOUR_US)
        fence = steps.own(store)
        fire = on_time(record, late_after=None)

        assert (FireResult.FIRED,) == steps.fire(store, fence, fire).results

    def test_a_planned_run_that_is_not_due_makes_the_whole_timer_early(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-1: the timer is due, one of the runs of its plan is not."""
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
        """INV-1."""
        delayed = steps.delay(store, clock.now_us() + HOUR_US)
        fence = steps.own(store, ttl_us=9 * HOUR_US)
        fire = delayed_fire(delayed, store.status().shards)

        clock.set(delayed.due_at - 1)
        assert (FireResult.EARLY,) == steps.fire(store, fence, fire).results
        assert store.get_delayed(delayed.id) == delayed
        clock.set(delayed.due_at)
        assert (FireResult.FIRED,) == steps.fire(store, fence, fire).results

    def test_a_delayed_run_fires_however_late(self, store: Store, clock: ManualClock) -> None:
        """INV-2: a promise to run once has no misfire policy."""
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
        """INV-3: sent again because an answer was lost."""
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
        """INV-12, INV-13, INV-14: an order that was acknowledged holds."""
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
        """Cleaning up after the old version must not remove the timer of the new one."""
        record = steps.create(store)
        edited = steps.edit(store, record, definition(task="other"))
        steps.fall_due(clock, record)
        steps.fire(store, steps.own(store), on_time(record))

        assert (timer_of(edited),) == steps.load(store, clock.now_us())

    @pytest.mark.parametrize("order", ["moved", "moved back", "cancelled", "fired"])
    def test_a_delayed_run_that_was_changed_is_gone(
        self, store: Store, clock: ManualClock, order: str
    ) -> None:
        """Also when it was moved away and back again."""
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
        """A dispatcher that believes in an earlier due can't fire by it."""
        record = steps.create(store)
        steps.fall_due(clock, record)
        fence = steps.own(store)
        believed = timer_of(record)._replace(due_at=timer_of(record).due_at - 1)

        fired = steps.fire(store, fence, on_time(record, timer=believed))

        assert (FireResult.GONE,) == fired.results

    def test_what_is_gone_is_not_early(self, store: Store, clock: ManualClock) -> None:
        """It would be waited for otherwise."""
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
        """Schedules first, then delayed runs."""
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
