"""Draining what is owed: the part of the contract about the catch-up lane."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from duly.domain.enums import Lane, Origin, SkipReason
from duly.domain.fire_planning import NOTHING, Settlement, settle
from duly.domain.ids import occurrence_run_id
from duly.domain.policies import Misfire
from duly.domain.schedules import CatchUpRange
from duly.store.ports.dispatch import MEMBER_TTL_US, DrainOwed, FireResult
from duly_conformance import steps
from duly_conformance.firing import fire_late
from duly_conformance.kit import HOUR_US, definition, on_time, snapshot, staying, template_of

if TYPE_CHECKING:
    from duly.domain.schedules import ScheduleRecord
    from duly.engine.manual_clock import ManualClock
    from duly.store.ports import Store
    from duly.store.ports.dispatch import Fence

CATCH_UP = (Lane.CATCH_UP,)


class DrainingOwed:
    """What `load_owed` and `drain_owed` promise."""

    def test_what_is_owed_is_loaded_by_shard(self, store: Store, clock: ManualClock) -> None:
        record = owing(store, clock)
        (owed,) = store.list_owed(record.id)
        others = [shard for shard in range(store.status().shards) if shard != record.shard]

        (found,) = store.load_owed([record.shard], 10)

        assert (owed, record.shard, clock.now_us()) == (found.owed, found.shard, found.created_at)
        assert [] == store.load_owed(others, 10)

    def test_what_is_owed_longest_comes_first(self, store: Store, clock: ManualClock) -> None:
        """And no more than the limit."""
        records = []
        for name in ("first", "second", "third"):
            records.append(owing(store, clock, name))
            clock.advance("1h")
        every_shard = range(store.status().shards)

        found = store.load_owed(every_shard, 2)

        assert [record.id for record in records[:2]] == [one.owed.schedule_id for one in found]

    def test_the_ranges_of_a_schedule_are_listed_oldest_first_and_no_more_than_asked_for(
        self, store: Store, clock: ManualClock
    ) -> None:
        """However often it was late."""
        record = owing(store, clock)
        for _ in range(2):
            clock.advance("5h30m")
            record = fire_late(store, clock, record)
        every = store.list_owed(record.id)

        assert 3 == len({one.first_for for one in every})
        assert every == sorted(every, key=lambda one: one.first_for)
        assert every[:2] == store.list_owed(record.id, 2)

    def test_draining_makes_runs_and_leaves_the_rest(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Oldest first, at the rate that the dispatcher chose."""
        record = owing(store, clock)
        (owed,) = store.list_owed(record.id)

        result = drain(store, steps.own(store, CATCH_UP), record, runs_max=2)

        assert FireResult.FIRED == result
        second, first = snapshot(store).runs
        assert [owed.first_for, owed.first_for + HOUR_US] == [
            first.scheduled_for,
            second.scheduled_for,
        ]
        assert (Origin.CATCH_UP, Lane.CATCH_UP, 1) == (
            first.origin,
            first.lane,
            first.definition_number,
        )
        assert [replace(owed, first_for=owed.first_for + 2 * HOUR_US)] == store.list_owed(record.id)
        assert 2 == steps.queued(store)

    def test_a_range_that_is_done_is_gone(self, store: Store, clock: ManualClock) -> None:
        """Each occurrence was run once, and has its window."""
        record = owing(store, clock)
        fence = steps.own(store, CATCH_UP)
        instants = [record.created_at + hours * HOUR_US for hours in range(1, 6)]
        while store.list_owed(record.id):
            assert FireResult.FIRED == drain(store, fence, record, runs_max=2)

        runs = snapshot(store).runs[::-1]
        assert instants == [run.scheduled_for for run in runs]
        assert [None, *instants[:-1]] == [run.window_from for run in runs]
        assert ["run"] * 5 == [one.kind for one in store.judge(record.id, instants)]
        assert [] == store.load_owed([record.shard], 10)
        after = steps.look(store, record)
        assert (5, instants[-1]) == (after.fires, after.last_for)

    def test_draining_records_what_it_skips(self, store: Store, clock: ManualClock) -> None:
        """The policy is judged when an occurrence would run, not when it was missed."""
        record = owing(store, clock)
        (owed,) = store.list_owed(record.id)
        clock.advance("30h")

        assert FireResult.FIRED == drain(store, steps.own(store, CATCH_UP), record)

        (skip,) = store.list_skips(record.id, 10)
        assert (owed.first_for, owed.last_for, 5, SkipReason.TOO_OLD) == (
            skip.first_for,
            skip.last_for,
            skip.count,
            skip.reason,
        )
        assert [] == store.list_owed(record.id)

    def test_draining_does_not_touch_the_timer(self, store: Store, clock: ManualClock) -> None:
        """Neither version nor pending, so that what is loaded stays good."""
        record = owing(store, clock)
        drain(store, steps.own(store, CATCH_UP), record)

        after = steps.look(store, record)
        assert (record.version, record.pending) == (after.version, after.pending)

    def test_a_run_made_late_does_not_turn_back_the_last_one(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A live run was made meanwhile; windows follow the order of occurrences."""
        record = owing(store, clock)
        fired = steps.fire_due(store, clock, record)
        drain(store, steps.own(store, CATCH_UP), fired, runs_max=1)

        after = steps.look(store, record)
        live, drained = snapshot(store).runs
        assert (live.scheduled_for, live.id) == (after.last_for, after.last_run)
        assert (2, None) == (after.fires, drained.window_from)

    def test_draining_what_was_run_before_queues_nothing(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-3: drained twice, because an answer was lost and the range was owed again."""
        record = owing(store, clock)
        (owed,) = store.list_owed(record.id)
        fence = steps.own(store, CATCH_UP)
        drain(store, fence, record)
        steps.apply(store, record, staying(record, settlement=Settlement(owed=owed)))
        before = snapshot(store)

        assert FireResult.FIRED == drain(store, fence, record)

        assert before.runs == snapshot(store).runs
        assert (5, 5) == (steps.queued(store), steps.look(store, record).fires)

    def test_a_run_that_is_not_due_is_early(self, store: Store, clock: ManualClock) -> None:
        """INV-1: an occurrence may be owed between its nominal time and its jittered due."""
        record = steps.create(store, jitter_us=HOUR_US)
        assert record.pending is not None
        clock.set(record.pending.scheduled_for)
        owed = owe_pending(store, record)
        fence = steps.own(store, CATCH_UP, ttl_us=9 * HOUR_US)
        command = DrainOwed(
            fence=fence,
            shard=record.shard,
            owed=owed,
            settlement=steps.on_time_plan(record).settlement,
        )

        clock.set(record.pending.due_at - 1)
        before = snapshot(store)
        assert FireResult.EARLY == store.drain_owed(command)
        assert before == snapshot(store)
        clock.set(record.pending.due_at)
        assert FireResult.FIRED == store.drain_owed(command)

    @pytest.mark.parametrize("order", ["paused", "deleted"])
    def test_a_schedule_that_rests_drains_nothing(
        self, store: Store, clock: ManualClock, order: str
    ) -> None:
        """INV-12, INV-13."""
        record = owing(store, clock)
        (owed,) = store.list_owed(record.id)
        (steps.pause if order == "paused" else steps.delete)(store, record)
        fence = steps.own(store, CATCH_UP)
        command = drain_command(fence, record, owed, clock.now_us())
        before = snapshot(store)

        assert FireResult.GONE == store.drain_owed(command)
        assert before == snapshot(store)
        assert [] == store.load_owed([record.shard], 10)

    def test_a_pause_keeps_what_is_owed(self, store: Store, clock: ManualClock) -> None:
        """Pausing keeps everything."""
        record = owing(store, clock)
        owed = store.list_owed(record.id)
        steps.pause(store, record)

        assert owed == store.list_owed(record.id)

    def test_deleting_turns_what_is_owed_into_skips(self, store: Store, clock: ManualClock) -> None:
        """INV-2: given up, on record."""
        record = owing(store, clock)
        (owed,) = store.list_owed(record.id)
        steps.delete(store, record)

        (skip,) = store.list_skips(record.id, 10)
        assert [] == store.list_owed(record.id)
        assert (owed.first_for, owed.last_for, 5, SkipReason.DELETED, clock.now_us()) == (
            skip.first_for,
            skip.last_for,
            skip.count,
            skip.reason,
            skip.at,
        )

    def test_a_range_that_begins_elsewhere_is_gone(self, store: Store, clock: ManualClock) -> None:
        """INV-3: somebody else has drained a part of it."""
        record = owing(store, clock)
        (owed,) = store.list_owed(record.id)
        fence = steps.own(store, CATCH_UP)
        command = drain_command(fence, record, owed, clock.now_us())
        drain(store, fence, record, runs_max=1)
        before = snapshot(store)

        assert FireResult.GONE == store.drain_owed(command)
        assert before == snapshot(store)

    def test_draining_needs_the_catch_up_lease(self, store: Store, clock: ManualClock) -> None:
        """The live lease is not enough."""
        record = owing(store, clock)
        fence = steps.own(store, (Lane.LIVE, Lane.BACKFILL))
        before = snapshot(store)

        assert FireResult.FENCED == drain(store, fence, record)
        assert before == snapshot(store)

    def test_a_stale_owner_drains_nothing(self, store: Store, clock: ManualClock) -> None:
        """INV-5."""
        record = owing(store, clock)
        stale = steps.own(store, CATCH_UP)
        clock.advance(MEMBER_TTL_US)
        steps.own(store)
        before = snapshot(store).without_audit()

        assert FireResult.FENCED == drain(store, stale, record)
        assert before == snapshot(store).without_audit()

    def test_an_edit_leaves_what_the_old_definition_owed_to_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-14: drained later, under the definition that owed it."""
        record = owing(store, clock)
        edited = steps.edit(store, record, definition(task="other"))
        drain(store, steps.own(store, CATCH_UP), record, runs_max=1)

        (run,) = snapshot(store).runs
        assert (2, 1, "report") == (
            edited.definition_number,
            run.definition_number,
            run.call.task,
        )

    def test_a_schedule_that_has_ended_still_drains(self, store: Store, clock: ManualClock) -> None:
        """INV-2: what it owes is owed."""
        record = owing(store, clock)
        steps.fall_due(clock, record)
        fence = steps.own(store)
        plan = steps.on_time_plan(record)._replace(pending=None, end_reason="over")
        steps.fire(store, fence, on_time(record, plan=plan))
        ended = steps.look(store, record)

        assert "ended" == ended.status
        assert [record.id] == [one.owed.schedule_id for one in store.load_owed([record.shard], 10)]
        assert FireResult.FIRED == drain(store, fence, record)

    def test_draining_nothing_changes_the_range_alone(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A settlement may be only what remains."""
        record = owing(store, clock)
        (owed,) = store.list_owed(record.id)
        fence = steps.own(store, CATCH_UP)
        same = NOTHING._replace(owed=owed)
        command = DrainOwed(fence=fence, shard=record.shard, owed=owed, settlement=same)

        assert FireResult.FIRED == store.drain_owed(command)
        assert [owed] == store.list_owed(record.id)
        run_id = occurrence_run_id(record.id, owed.first_for)
        assert store.get_run(run_id) is None


def owing(store: Store, clock: ManualClock, name: str = "nightly") -> ScheduleRecord:
    """Return an hourly schedule that owes five occurrences."""
    record = steps.create(store, name, misfire=Misfire("all"))
    clock.advance("5h30m")
    return fire_late(store, clock, record)


def owe_pending(store: Store, record: ScheduleRecord) -> CatchUpRange:
    """Make a schedule's pending occurrence owed, and return the range."""
    assert record.pending is not None
    owed = CatchUpRange(
        schedule_id=record.id,
        first_for=record.pending.scheduled_for,
        last_for=record.pending.scheduled_for,
        definition_number=1,
    )
    following = template_of(record).next_after(record.pending.scheduled_for)
    change = staying(record, pending=following, settlement=Settlement(owed=owed))
    steps.apply(store, record, change)
    return owed


def drain_command(fence: Fence, record: ScheduleRecord, owed: CatchUpRange, now: int) -> DrainOwed:
    """Return the order to drain a range whole."""
    settlement = settle(template_of(record), owed.first_for, owed.last_for, now)
    return DrainOwed(fence=fence, shard=record.shard, owed=owed, settlement=settlement)


def drain(store: Store, fence: Fence, record: ScheduleRecord, runs_max: int = 100) -> FireResult:
    """Drain what a schedule owes, at most so many runs at once."""
    (owed,) = store.list_owed(record.id)
    first, last = owed.first_for, owed.last_for
    settlement = settle(template_of(record), first, last, store.now(), runs_max)
    command = DrainOwed(fence=fence, shard=record.shard, owed=owed, settlement=settlement)
    return store.drain_owed(command)
