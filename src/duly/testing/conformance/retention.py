"""Removing history: the part of the contract about what is kept, and for how long (D6)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from duly.domain.literals import Lane, RunState
from duly.domain.planning import decide_skip_next
from duly.domain.timetable.interval import every
from duly.store.dispatch import MEMBER_TTL_US, Prune, Pruned, PruneKind, Retention
from duly.testing.conformance import steps
from duly.testing.conformance.owed import owing
from duly.testing.factories import DAY_US, HOUR_US, cancel
from duly.testing.snapshot import snapshot

if TYPE_CHECKING:
    from typing import Any

    from duly.domain.runs import DelayedRecord
    from duly.store.dispatch import Fence
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock

KEEP = Retention(outcomes_us={}, runs_per_schedule=None, skips_us=None, deleted_schedules_us=None)
"""Everything, for ever."""
NOTHING_KEPT = Retention(
    outcomes_us=dict.fromkeys(RunState, 0),
    runs_per_schedule=0,
    skips_us=0,
    deleted_schedules_us=0,
)
"""Nothing that may be removed at all."""


class Retaining:
    """What `prune` promises."""

    def test_a_closed_run_is_removed_when_its_time_is_over(
        self, store: Store, clock: ManualClock
    ) -> None:
        """D6: kept at the very edge, removed a microsecond later."""
        old = cancelled(store, clock)
        retention = replace(KEEP, outcomes_us={RunState.CANCELLED: DAY_US})

        clock.advance(DAY_US)
        assert 0 == prune(store, retention).counts[PruneKind.OUTCOMES]
        assert store.get_run(old.id) is not None
        clock.advance(1)
        assert 1 == prune(store, retention).counts[PruneKind.OUTCOMES]
        assert store.get_run(old.id) is None

    def test_each_state_has_its_own_time(self, store: Store, clock: ManualClock) -> None:
        """D6: a state that is not named is kept."""
        kept = cancelled(store, clock)
        old = steps.delay(store, clock.now_us() + HOUR_US, "old", key="k")
        steps.delay(store, clock.now_us() + 99 * DAY_US, "new", key="k", replaces=True)
        clock.advance("30d")

        prune(store, replace(KEEP, outcomes_us={RunState.REPLACED: DAY_US}))

        assert store.get_run(old.id) is None
        assert store.get_run(kept.id) is not None

    def test_a_run_that_is_open_is_never_removed(self, store: Store, clock: ManualClock) -> None:
        """D6, INV-2: however old."""
        steps.fire_due(store, clock, steps.create(store))
        clock.advance("90d")
        before = snapshot(store).runs

        pruned = prune(store, NOTHING_KEPT)

        assert 0 == pruned.counts[PruneKind.OUTCOMES]
        assert before == snapshot(store).runs
        assert 1 == steps.queued(store)

    def test_pending_promises_are_never_removed(self, store: Store, clock: ManualClock) -> None:
        """D6, INV-2: neither timers, nor what is owed, nor what is paused."""
        owing(store, clock)
        steps.pause(store, steps.create(store, "paused"))
        steps.create(store, "active")
        steps.delay(store, clock.now_us() + 999 * DAY_US, key="far")
        clock.advance("90d")
        before = snapshot(store)

        prune(store, NOTHING_KEPT)

        after = snapshot(store)
        assert (before.schedules, before.delayed, before.timers) == (
            after.schedules,
            after.delayed,
            after.timers,
        )
        assert (before.owed, before.drainable) == (after.owed, after.drainable)

    def test_the_audit_trail_is_never_removed(self, store: Store, clock: ManualClock) -> None:
        """D6, A2: it has its own retention."""
        cancelled(store, clock)
        steps.delete(store, steps.create(store))
        clock.advance("90d")
        before = steps.audit(store)

        prune(store, NOTHING_KEPT)

        assert before == steps.audit(store)

    def test_a_pruned_occurrence_is_unknown_and_not_missing(
        self, store: Store, clock: ManualClock
    ) -> None:
        """D6: how far it was pruned is remembered."""
        record = steps.create(store)
        skipped = steps.apply(store, record, decide_skip_next(record, None))
        skipped = steps.apply(store, skipped, decide_skip_next(skipped, None))
        clock.advance("3h")
        first = record.created_at + HOUR_US

        pruned = prune(store, replace(KEEP, skips_us=HOUR_US - 1))

        assert 2 == pruned.counts[PruneKind.SKIPS]
        assert [] == store.list_skips(record.id, 10)
        verdicts = store.judge(record.id, (first, first + HOUR_US, first + 2 * HOUR_US))
        assert ["unknown", "unknown", "pending"] == [verdict.kind for verdict in verdicts]
        after = steps.look(store, record)
        assert (first + HOUR_US, skipped.version) == (after.pruned_through, after.version)

    def test_a_skip_is_kept_up_to_the_end_of_its_time(
        self, store: Store, clock: ManualClock
    ) -> None:
        """D6."""
        record = steps.create(store)
        steps.apply(store, record, decide_skip_next(record, None))
        clock.advance("2h")

        assert 0 == prune(store, replace(KEEP, skips_us=HOUR_US)).counts[PruneKind.SKIPS]
        assert steps.look(store, record).pruned_through is None

    def test_a_skip_of_an_occurrence_to_come_is_never_removed(
        self, store: Store, clock: ManualClock
    ) -> None:
        """D6, INV-2: however long ago it was ordered, it still says what will not happen."""
        record = steps.create(store, timetable=every("30d"))
        steps.apply(store, record, decide_skip_next(record, None))
        assert record.pending is not None
        skipped_for = record.pending.scheduled_for
        clock.set(skipped_for)

        assert 0 == prune(store, NOTHING_KEPT).counts[PruneKind.SKIPS]
        assert 1 == len(store.list_skips(record.id, 10))
        assert steps.look(store, record).pruned_through is None
        clock.set(skipped_for + DAY_US)
        assert 0 == prune(store, replace(KEEP, skips_us=DAY_US)).counts[PruneKind.SKIPS]
        assert 1 == prune(store, replace(KEEP, skips_us=DAY_US - 1)).counts[PruneKind.SKIPS]

    def test_a_deleted_schedule_can_be_restored_until_its_time_is_over(
        self, store: Store, clock: ManualClock
    ) -> None:
        """S3, D6: then it is gone, with its definitions and skips."""
        record = steps.create(store)
        record = steps.apply(store, record, decide_skip_next(record, None))
        deleted = steps.delete(store, record)
        retention = replace(KEEP, deleted_schedules_us=DAY_US)

        clock.advance(DAY_US)
        prune(store, retention)
        assert deleted == steps.look(store, deleted)
        clock.advance(1)
        assert 1 == prune(store, retention).counts[PruneKind.SCHEDULES]
        assert store.get_schedule(record.id) is None
        assert store.get_definition(record.id, 1) is None
        assert [] == store.list_skips(record.id, 10)
        assert [] == store.check()

    def test_a_deleted_schedule_stays_while_runs_speak_of_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-7: a run's lineage stays whole."""
        steps.delete(store, steps.fire_due(store, clock, steps.create(store)))
        clock.advance("90d")
        before = snapshot(store)

        prune(store, NOTHING_KEPT)

        after = snapshot(store)
        assert (before.schedules, before.runs) == (after.schedules, after.runs)

    def test_only_so_much_is_removed_at_once(self, store: Store, clock: ManualClock) -> None:
        """D6: cheap, in steps; and whether there is more."""
        for number in range(5):
            cancelled(store, clock, f"{number}")
        clock.advance("90d")
        fence = maintenance(store)
        counts = []
        for _ in range(3):
            pruned = store.prune(Prune(fence=fence, retention=NOTHING_KEPT, limit=2))
            counts.append((pruned.counts[PruneKind.OUTCOMES], pruned.has_more))

        assert [(2, True), (2, True), (1, False)] == counts

    def test_dead_members_that_own_nothing_are_removed(
        self, store: Store, clock: ManualClock
    ) -> None:
        """D6: not those who own leases, nor the living."""
        store.leave(steps.join(store))
        steps.own(store, (Lane.CATCH_UP,))
        clock.advance("90d")

        pruned = prune(store, KEEP)

        assert 1 == pruned.counts[PruneKind.MEMBERS]

    def test_a_member_that_was_removed_is_never_alive_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        """R1: nor is its id."""
        first = steps.join(store)
        clock.advance("90d")
        prune(store, KEEP)
        second = steps.join(store)

        assert second > first

    def test_old_announcements_are_removed_and_young_ones_are_not(
        self, store: Store, clock: ManualClock
    ) -> None:
        """F6, D6."""
        cursor = store.start_of_arrivals()
        steps.delay(store, clock.now_us() + 1, "old")
        clock.advance("90d")
        young = steps.delay(store, clock.now_us() + 1, "young")

        assert 1 == prune(store, KEEP).counts[PruneKind.ARRIVALS]
        told = store.read_arrivals(cursor, range(store.status().shards))
        assert [young.id] == [timer.ref for timer in told.timers]

    @pytest.mark.parametrize("owner", ["another lane", "taken over", "expired"])
    def test_whoever_lacks_the_maintenance_lease_removes_nothing(
        self, store: Store, clock: ManualClock, owner: str
    ) -> None:
        """F4, INV-5: it is the backfill lease of shard 0."""
        cancelled(store, clock)
        steps.delete(store, steps.create(store))
        clock.advance("90d")
        lanes = (Lane.LIVE, Lane.CATCH_UP) if owner == "another lane" else tuple(Lane)
        fence = steps.own(store, lanes)
        if owner != "another lane":
            clock.advance(MEMBER_TTL_US)
        if owner == "taken over":
            steps.own(store)
        before = snapshot(store).without_audit()

        pruned = store.prune(Prune(fence=fence, retention=NOTHING_KEPT, limit=100))

        assert (0, False) == (sum(pruned.counts.values()), pruned.has_more)
        assert before == snapshot(store).without_audit()


def cancelled(store: Store, clock: ManualClock, text: str = "cancelled") -> DelayedRecord:
    """Return a delayed run that is closed: cancelled now."""
    delayed = steps.delay(store, clock.now_us() + HOUR_US, text)
    store.cancel_delayed(cancel(delayed.id))
    return delayed


def maintenance(store: Store, **parts: Any) -> Fence:
    """Join and take the maintenance lease."""
    return steps.own(store, (Lane.BACKFILL,), **parts)


def prune(store: Store, retention: Retention) -> Pruned:
    """Prune once, as a new owner of the maintenance lease."""
    fence = maintenance(store)
    pruned = store.prune(Prune(fence=fence, retention=retention, limit=100))
    store.leave(fence.member)
    return pruned
