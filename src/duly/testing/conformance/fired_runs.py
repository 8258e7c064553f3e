"""What firing writes, in one transaction: run, queue, next instant, and the schedule's record."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from duly.domain.identity import occurrence_run_id
from duly.domain.literals import Lane, Origin, RunState, ScheduleStatus, SkipReason
from duly.domain.misfire import Misfire
from duly.domain.planning import decide_skip_next
from duly.domain.settling import NO_FURTHER, Plan, Settlement, plan_late
from duly.domain.timetable.interval import every
from duly.domain.timetable.once import at
from duly.store.dispatch import FireResult
from duly.testing.conformance import steps
from duly.testing.factories import (
    HOUR_US,
    definition,
    delayed_fire,
    on_time,
    staying,
    template_of,
    timer_of,
)
from duly.testing.snapshot import snapshot

if TYPE_CHECKING:
    from duly.domain.runs import RunRecord
    from duly.domain.schedules import ScheduleRecord
    from duly.store.dispatch import FireSchedule
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock


class FiringSchedules:
    """What a schedule's fire leaves behind (F2)."""

    def test_firing_makes_the_run_of_the_occurrence(self, store: Store, clock: ManualClock) -> None:
        """S1, R1, R2: with its deterministic id and where it came from."""
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
        """F2: visible to workers in the same transaction."""
        steps.fire_due(store, clock, steps.create(store))

        assert (1, {"default": 1}) == (steps.queued(store), dict(store.status().queues))

    def test_firing_puts_the_timer_to_the_next_instant(
        self, store: Store, clock: ManualClock
    ) -> None:
        """D2: one pending timer, made again by the fire itself."""
        record = steps.create(store)
        fired = steps.fire_due(store, clock, record)

        assert record.pending is not None
        assert fired.pending is not None
        assert record.pending.scheduled_for + HOUR_US == fired.pending.scheduled_for
        assert (timer_of(fired),) == steps.load(store, clock.now_us() + 100 * HOUR_US)

    def test_firing_is_on_the_record_of_the_schedule(
        self, store: Store, clock: ManualClock
    ) -> None:
        """C4: counted together, and the version stays: a fire is no edit."""
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
        """C4: the first has no beginning."""
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
        """M1: each begins where the last ended, in the order of the plan."""
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
        """S5, T7: with the reason."""
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
        """S1, S2: under the id and key it was asked for."""
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
    """What a fire by the misfire policy leaves behind (M1, F8)."""

    def test_the_latest_stands_for_all_before_it(self, store: Store, clock: ManualClock) -> None:
        """M1, INV-9: one run, and a record of what it stands for."""
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
        """M1: no run, and no hole."""
        record = steps.create(store, misfire=Misfire("skip"))
        clock.advance("5h30m")
        fired = fire_late(store, clock, record)

        (skip,) = store.list_skips(record.id, 10)
        assert (5, SkipReason.MISFIRE, None) == (skip.count, skip.reason, skip.into)
        assert () == snapshot(store).runs
        assert (0, None, None) == (fired.fires, fired.last_for, fired.last_fired_at)

    def test_what_is_owed_is_one_range(self, store: Store, clock: ManualClock) -> None:
        """F8: the timer jumps, what was missed is drained apart."""
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
        """M1, INV-14: two skips that begin alike are no obstacle, and leave no hole."""
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
        """M1: occurrences = runs + skips + owed + pending, with no holes."""
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
