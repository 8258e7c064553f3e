"""What every store must do about last ends, run times, missing occurrences and retention."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from duly.domain.effects import Choice
from duly.domain.enums import Finding, Lane, Missed, Origin, RunState, SkipReason
from duly.domain.ids import ScheduleId
from duly.domain.missing_occurrences import ExpectedOccurrenceKind, MissingCause
from duly.domain.outcomes import Failed, Succeeded
from duly.domain.runs import Progress
from duly.domain.schedule_changes import decide_restore, decide_resume, decide_skip_next
from duly.domain.verification import ItemReport, Scope
from duly.domain.vitals import (
    ERROR_END_MAX,
    Fault,
    LastEnd,
    LastEnds,
    LastError,
    RunSpan,
    VitalsFilter,
)
from duly.store.derived_queries import MissingFilter, MissingRounds, find_missing, read_signs
from duly.store.ports.dispatch import MEMBER_TTL_US, Renew
from duly.store.ports.effects import AddVerdict
from duly.store.ports.execution import Report
from duly.store.ports.maintenance import Prune, Pruned, PruneKind, Retention
from duly.timetable.cron import cron
from duly.timetable.instants import to_microseconds
from duly.timetable.interval import every
from duly_conformance import kit, steps
from duly_conformance import steps as work
from duly_conformance.effects import begin, end_beyond, settle_doubt
from duly_conformance.kit import DAY_US, HOUR_US, SECOND_US, cancel, cancel_run, run_id, snapshot
from duly_conformance.misfires import owing

if TYPE_CHECKING:
    from typing import Any

    from duly.domain.missing_occurrences import ExpectedOccurrence
    from duly.domain.outcomes import End
    from duly.domain.runs import DelayedRecord, RunRecord
    from duly.domain.schedules import ScheduleRecord
    from duly.domain.vitals import RunVital
    from duly.engine.manual_clock import ManualClock
    from duly.store.ports import Store
    from duly.store.ports.dispatch import Fence


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
        """Kept at the very edge, removed a microsecond later."""
        old = cancelled(store, clock)
        retention = replace(KEEP, outcomes_us={RunState.CANCELLED: DAY_US})

        clock.advance(DAY_US)
        assert 0 == prune(store, retention).counts[PruneKind.OUTCOMES]
        assert store.get_run(old.id) is not None
        clock.advance(1)
        assert 1 == prune(store, retention).counts[PruneKind.OUTCOMES]
        assert store.get_run(old.id) is None

    def test_each_state_has_its_own_time(self, store: Store, clock: ManualClock) -> None:
        """A state that is not named is kept."""
        kept = cancelled(store, clock)
        old = steps.delay(store, clock.now_us() + HOUR_US, "old", key="k")
        steps.delay(store, clock.now_us() + 99 * DAY_US, "new", key="k", replaces=True)
        clock.advance("30d")

        prune(store, replace(KEEP, outcomes_us={RunState.REPLACED: DAY_US}))

        assert store.get_run(old.id) is None
        assert store.get_run(kept.id) is not None

    def test_a_run_that_is_open_is_never_removed(self, store: Store, clock: ManualClock) -> None:
        """INV-2: however old."""
        steps.fire_due(store, clock, steps.create(store))
        clock.advance("90d")
        before = snapshot(store).runs

        pruned = prune(store, NOTHING_KEPT)

        assert 0 == pruned.counts[PruneKind.OUTCOMES]
        assert before == snapshot(store).runs
        assert 1 == steps.queued(store)

    def test_pending_promises_are_never_removed(self, store: Store, clock: ManualClock) -> None:
        """INV-2: neither timers, nor what is owed, nor what is paused."""
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
        """It has its own retention."""
        cancelled(store, clock)
        steps.delete(store, steps.create(store))
        clock.advance("90d")
        before = steps.audit(store)

        prune(store, NOTHING_KEPT)

        assert before == steps.audit(store)

    def test_a_pruned_occurrence_is_unknown_and_not_missing(
        self, store: Store, clock: ManualClock
    ) -> None:
        """How far it was pruned is remembered."""
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
        record = steps.create(store)
        steps.apply(store, record, decide_skip_next(record, None))
        clock.advance("2h")

        assert 0 == prune(store, replace(KEEP, skips_us=HOUR_US)).counts[PruneKind.SKIPS]
        assert steps.look(store, record).pruned_through is None

    def test_a_skip_of_an_occurrence_to_come_is_never_removed(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-2: however long ago it was ordered, it still says what will not happen."""
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
        """Then it is gone, with its definitions and skips."""
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
        """Cheap, in steps; and whether there is more."""
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
        """Not those who own leases, nor the living."""
        store.leave(steps.join(store))
        steps.own(store, (Lane.CATCH_UP,))
        clock.advance("90d")

        pruned = prune(store, KEEP)

        assert 1 == pruned.counts[PruneKind.MEMBERS]

    def test_a_member_that_was_removed_is_never_alive_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Nor is its id."""
        first = steps.join(store)
        clock.advance("90d")
        prune(store, KEEP)
        second = steps.join(store)

        assert second > first

    def test_old_announcements_are_removed_and_young_ones_are_not(
        self, store: Store, clock: ManualClock
    ) -> None:
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
        """INV-5: it is the backfill lease of shard 0."""
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


LATER_US = 1 << 50
FAILS = Failed("it broke", after_us=LATER_US)


def ended(
    store: Store, clock: ManualClock, record: ScheduleRecord, how: End
) -> tuple[ScheduleRecord, RunRecord]:
    """Fire a schedule, and end the run's attempt a second later."""
    record = steps.fire_due(store, clock, record)
    worker = work.join_worker(store, ttl_us=LATER_US)
    claimed = work.take_one(store, worker)
    clock.advance(SECOND_US)
    work.end(store, worker, claimed, how)
    store.leave(worker)
    return record, work.get_run(store, claimed.run_id)


def verify(store: Store, run: RunRecord, finding: Finding) -> None:
    """Record what a check has found."""
    store.add_verdict(AddVerdict(run_id=run.id, finding=finding, evidence=None, by="check"))


class ReadingLastEnds:
    """What `list_last_ends` promises."""

    def test_succeeded_and_verified_and_wrong_are_told_apart(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Each with the newest run of that sort, and when that was."""
        record = steps.create(store, timetable=every("1m"))
        record, first = ended(store, clock, record, Succeeded())
        clock.advance(SECOND_US)
        verify(store, first, Finding.PRESENT)
        checked_at = clock.now_us()
        record, second = ended(store, clock, record, Succeeded())
        verify(store, second, Finding.PARTIAL)
        record, third = ended(store, clock, record, FAILS)
        failed_at = clock.now_us()
        record = steps.fire_due(store, clock, record)

        assert second.finished_at is not None
        expected = LastEnds(
            success=LastEnd(second.id, second.scheduled_for, second.finished_at),
            verified=LastEnd(first.id, first.scheduled_for, checked_at),
            error=LastError(third.id, third.scheduled_for, failed_at, "error", "it broke"),
        )
        assert {record.id: expected} == store.list_last_ends([record.id], 10)
        without = store.list_last_ends([record.id], 10, with_errors=False)
        assert {record.id: replace(expected, error=None)} == without

    def test_what_was_found_last_counts(self, store: Store, clock: ManualClock) -> None:
        """A result that was there, and then was not, is not verified."""
        record, run = ended(store, clock, steps.create(store), Succeeded())
        verify(store, run, Finding.PRESENT)
        verify(store, run, Finding.ABSENT)

        found = store.list_last_ends([record.id], 10)[record.id]

        assert (None, None) == (found.verified, found.error)
        assert found.success is not None

    def test_an_error_is_told_also_of_a_run_that_went_well_in_the_end(
        self, store: Store, clock: ManualClock
    ) -> None:
        """And of one that is dead."""
        record = steps.create(store, timetable=every("1m"))
        record, run = ended(store, clock, record, Failed("not yet", after_us=SECOND_US))
        failed_at = clock.now_us()
        work.fire_retries(store, clock)
        worker = work.join_worker(store)
        work.end(store, worker, work.take_one(store, worker), Succeeded())

        found = store.list_last_ends([record.id], 10)[record.id]

        assert LastError(run.id, run.scheduled_for, failed_at, "error", "not yet") == found.error
        assert found.success is not None
        assert run.id == found.success.run_id
        record, dead = ended(store, clock, record, work.FATAL)
        found = store.list_last_ends([record.id], 10)[record.id]
        assert found.error is not None
        assert (dead.id, "no use") == (found.error.run_id, found.error.error)

    def test_what_was_closed_with_items_missing_is_no_success(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Nor verified, though a check found something; what a person found complete is one."""
        record = steps.create(store, timetable=every("1m"))
        ends = []
        for scope in (Scope(1, 1), Scope(2, 1)):
            record = steps.fire_due(store, clock, record)
            worker = work.join_worker(store, ttl_us=LATER_US)
            claimed = work.take_one(store, worker)
            begin(store, worker, claimed)
            told = ItemReport(expected=scope.expected, done=("a",))
            store.report(worker, [Report(hold=claimed.hold, scope=told)])
            end_beyond(store, worker, claimed, Failed("unheard"))
            store.leave(worker)
            how = {"is_done": True, "is_despite_missing": scope.has_missing}
            run = settle_doubt(store, claimed.run_id, Choice.RECONCILE, **how)
            verify(store, run, Finding.PRESENT)
            ends.append(run.id)

        found = store.list_last_ends([record.id], 10)[record.id]

        assert found.success is not None
        assert found.verified is not None
        assert (ends[0], ends[0]) == (found.success.run_id, found.verified.run_id)

    def test_what_is_no_longer_kept_is_unknown_and_not_never(
        self, store: Store, clock: ManualClock
    ) -> None:
        """The same holds for what lies beyond the runs that are looked at."""
        record = steps.create(store, timetable=every("1m"))
        record, first = ended(store, clock, record, Succeeded())
        record, second = ended(store, clock, record, FAILS)

        assert store.list_last_ends([record.id], 2)[record.id].unknown_through is None
        beyond = store.list_last_ends([record.id], 1)[record.id]
        assert (None, first.not_before) == (beyond.success, beyond.unknown_through)
        clock.advance("30d")
        prune(store, replace(KEEP, outcomes_us={RunState.SUCCEEDED: 0}))
        pruned = store.list_last_ends([record.id], 10)[record.id]
        assert (None, first.scheduled_for) == (pruned.success, pruned.unknown_through)
        assert pruned.error is not None
        assert second.id == pruned.error.run_id

    def test_one_that_never_ran_has_none_and_an_unknown_one_is_left_out(self, store: Store) -> None:
        record = steps.create(store)

        found = store.list_last_ends([record.id, ScheduleId(bytes(16))], 10)

        assert {record.id: LastEnds()} == found
        assert {} == store.list_last_ends([], 10)


ALL = frozenset(ExpectedOccurrenceKind)


def slots_of(
    store: Store, record: ScheduleRecord, since: int | None = None
) -> list[ExpectedOccurrence]:
    """Return what became of each occurrence that was expected of a schedule."""
    begin = store.now() - 30 * DAY_US if since is None else since
    command = MissingFilter(since=begin, schedule_id=record.id, kinds=ALL)
    return [one.slot for one in find_missing(store, command).found]


def kinds_of(store: Store, record: ScheduleRecord) -> Counter[str]:
    """Count what became of them."""
    return Counter(str(one.kind) for one in slots_of(store, record))


class FindingMissing:
    """What `find_missing` finds, and what it does not."""

    def test_what_was_fired_skipped_or_is_to_come_is_not_missing(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Nothing is reported of a history that has no hole."""
        record = steps.create(store, timetable=every("1h"))
        assert [] == slots_of(store, record)
        for _ in range(3):
            record = steps.fire_due(store, clock, record)
        paused = steps.pause(store, record)
        clock.advance("2h")
        held = slots_of(store, paused)
        change = decide_resume(paused, store.now(), Missed.SKIP, None)
        record = steps.apply(store, paused, change)
        record = steps.fire_due(store, clock, record)

        assert [ExpectedOccurrenceKind.PRESENT] * 3 + [ExpectedOccurrenceKind.HELD] * 2 == [
            one.kind for one in held
        ]
        assert {"paused"} == {one.reason for one in held[3:]}
        assert {"present": 4, "skipped": 2} == kinds_of(store, record)
        skipped = [
            one for one in slots_of(store, record) if one.kind is ExpectedOccurrenceKind.SKIPPED
        ]
        assert {str(SkipReason.PAUSED)} == {one.reason for one in skipped}

    def test_what_nobody_has_fired_is_missing_while_nobody_keeps_time(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Each occurrence of it, and why; within the grace it is only due."""
        record = steps.create(store, timetable=every("1h"))
        steps.fall_due(clock, record)
        clock.advance("30s")
        due = slots_of(store, record)
        clock.advance("125m")
        missing = slots_of(store, record)
        holding = steps.join(store, ttl_us=DAY_US)
        store.renew(Renew(member=holding, skew_us=HOUR_US, is_holding=True))
        held = slots_of(store, record)
        steps.join(store, ttl_us=DAY_US)
        behind = slots_of(store, record)
        store.leave(holding)

        assert [ExpectedOccurrenceKind.DUE] == [one.kind for one in due]
        assert [MissingCause.NO_DISPATCHER] * 3 == [one.cause for one in missing]
        assert [False] * 3 == [one.was_kept for one in missing]
        assert {MissingCause.DISPATCHER_HOLDING} == {one.cause for one in held}
        assert {MissingCause.DISPATCHER_BEHIND} == {one.cause for one in behind}

    def test_what_was_pruned_is_unknown(self, store: Store, clock: ManualClock) -> None:
        """And not missing."""
        record = steps.create(store, timetable=every("1h"))
        record, _ = ended(store, clock, record, Succeeded())
        record, _ = ended(store, clock, record, Succeeded())
        record = steps.fire_due(store, clock, record)
        clock.advance("30m")
        prune(store, replace(KEEP, outcomes_us={RunState.SUCCEEDED: 0}))

        assert {"unknown": 2, "present": 1} == kinds_of(store, record)

    def test_an_edit_leaves_to_the_old_rule_what_was_before_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Each rule asks for its own time, and no occurrence is asked for twice."""
        record = steps.create(store, timetable=every("1h"))
        for _ in range(2):
            record = steps.fire_due(store, clock, record)
        clock.advance("10m")
        edited = steps.edit(store, record, kit.definition(timetable=every("20m")))
        for _ in range(3):
            edited = steps.fire_due(store, clock, edited)
        found = slots_of(store, edited)

        assert {ExpectedOccurrenceKind.PRESENT} == {one.kind for one in found}
        assert 5 == len(found)

    def test_an_edit_of_what_is_overdue_leaves_it_owed(
        self, store: Store, clock: ManualClock
    ) -> None:
        """By the old rule, up to the edit."""
        record = steps.create(store, timetable=every("1h"))
        steps.fall_due(clock, record)
        clock.advance("150m")
        edited = steps.edit(store, record, kit.definition(timetable=every("1d")))

        assert {"owed": 3} == kinds_of(store, edited)

    def test_a_deleted_schedule_misses_nothing(self, store: Store, clock: ManualClock) -> None:
        """What falls into the time that it was gone is skipped when it is restored."""
        record = steps.fire_due(store, clock, steps.create(store, timetable=every("1h")))
        deleted = steps.delete(store, record)
        clock.advance("3h")
        gone = slots_of(store, deleted)
        restored = steps.apply(store, deleted, decide_restore(deleted, store.now(), None))

        assert [ExpectedOccurrenceKind.PRESENT] + [ExpectedOccurrenceKind.HELD] * 3 == [
            one.kind for one in gone
        ]
        assert {"deleted"} == {one.reason for one in gone[1:]}
        assert {"present": 1, "skipped": 3} == kinds_of(store, restored)

    @pytest.mark.parametrize(
        ("noon", "hours"),
        [
            (datetime(2026, 3, 28, 12, tzinfo=UTC), [1, 0, 0]),
            (datetime(2026, 10, 24, 12, tzinfo=UTC), [0, 1, 1]),
        ],
        ids=["spring", "autumn"],
    )
    def test_on_a_night_of_a_clock_change_as_many_are_expected_as_there_are(
        self, store: Store, clock: ManualClock, noon: datetime, hours: list[int]
    ) -> None:
        """02:30 is once on each night, by the default policies; here its hour in UTC."""
        clock.set(to_microseconds(noon))
        nightly = cron("30 2 * * *", tz="Europe/Berlin")
        record = steps.create(store, timetable=nightly)
        for _ in hours:
            record = steps.fire_due(store, clock, record)
        clock.advance("1h")
        found = slots_of(store, record)

        assert [ExpectedOccurrenceKind.PRESENT] * 3 == [one.kind for one in found]
        assert hours == [one.scheduled_for % DAY_US // HOUR_US for one in found]

    def test_of_too_many_the_newest_are_looked_at_and_that_is_told(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A look has a bound, and says how far it went."""
        record = steps.create(store, timetable=every("1m"))
        clock.advance("3h")
        since = store.now() - 3 * HOUR_US
        command = MissingFilter(since=since, schedule_id=record.id, slots_max=100, kinds=ALL)
        page = find_missing(store, command)

        assert (100, 100) == (page.slots, len(page.found))
        ((cut),) = page.cut
        assert page.found[0].slot.scheduled_for == cut.since > since
        assert page.found[-1].slot.scheduled_for <= store.now()
        assert store.now() - page.found[-1].slot.scheduled_for < HOUR_US // 60

    def test_rounds_come_to_every_schedule_and_begin_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A look costs no more than its bounds, and none is left out for ever."""
        for number in range(5):
            steps.create(store, f"s{number}", timetable=every("1h"), tenant="ab"[number % 2])
        clock.advance("90m")
        rounds = MissingRounds(store, schedules_max=2)
        looks = [rounds.look() for _ in range(4)]
        names = [[one.record.name for one in page.found] for page in looks]

        assert [["s0", "s2"], ["s4", "s1"], ["s3"], ["s0", "s2"]] == names
        assert [2, 2, 1, 2] == [page.schedules for page in looks]


class ReadingRunTimes:
    """What `list_run_times` promises."""

    def test_runs_are_timed_from_their_fire_to_their_end(
        self, store: Store, clock: ManualClock
    ) -> None:
        """The newest first; of one that is open, from when on it is."""
        record = steps.create(store, timetable=every("1m"))
        worker = work.join_worker(store, ttl_us=1 << 50)
        fired_at: list[int] = []
        for _ in range(3):
            record = steps.fire_due(store, clock, record)
            fired_at.append(clock.now_us())
            claimed = work.take_one(store, worker)
            clock.advance(10 * len(fired_at) * SECOND_US)
            if len(fired_at) < 3:
                work.end(store, worker, claimed, Succeeded(None))

        expected = [
            RunSpan(fired_at[2], None),
            RunSpan(fired_at[1], fired_at[1] + 20 * SECOND_US),
            RunSpan(fired_at[0], fired_at[0] + 10 * SECOND_US),
        ]
        assert {record.id: expected} == store.list_run_times([record.id], 20)
        assert {record.id: expected[:2]} == store.list_run_times([record.id], 2)

    def test_what_never_ran_and_what_is_dead_is_in_nobodys_way(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Nor does a schedule that has no run, or never was, have any times."""
        record = steps.create(store, timetable=every("1m"))
        idle = steps.create(store, "idle")
        record = steps.fire_due(store, clock, record)
        assert record.last_run is not None
        store.cancel_run(cancel_run(record.last_run))
        record = steps.fire_due(store, clock, record)
        worker = work.join_worker(store)
        work.end(store, worker, work.take_one(store, worker), work.FATAL)

        assert {} == store.list_run_times([record.id, idle.id, ScheduleId(bytes(16))], 20)
        assert {} == store.list_run_times([], 20)


def newest_of(store: Store, record: ScheduleRecord, limit: int = 10) -> list[RunVital]:
    """Return what is known of a schedule's newest runs."""
    return store.list_run_vitals(VitalsFilter(schedule_ids=[record.id], limit=limit))


class ReadingRunVitals:
    """What `list_run_vitals` and `list_definitions` promise."""

    def test_a_run_that_is_over_tells_each_of_its_times(
        self, store: Store, clock: ManualClock
    ) -> None:
        """When it was due, fired, begun, over and checked; none stands for another."""
        record = steps.create(store, timetable=every("1m"))
        record, run = ended(store, clock, record, Succeeded())
        clock.advance(SECOND_US)
        verify(store, run, Finding.PRESENT)

        (found,) = newest_of(store, record)

        assert (run.id, record.id, run.call.task) == (found.run_id, found.schedule_id, found.task)
        assert (Origin.SCHEDULE, Lane.LIVE) == (found.origin, found.lane)
        assert (run.scheduled_for, run.not_before, run.fired_at) == (
            *(found.scheduled_for, found.due_at),
            found.fired_at,
        )
        assert (RunState.SUCCEEDED, None, 1) == (found.state, found.reason, found.attempt)
        assert (run.claimed_at, run.started_at) == (found.claimed_at, found.started_at)
        assert run.tries.begun_at == found.begun_at
        assert run.finished_at == found.finished_at == found.attempt_ended_at
        assert (Finding.PRESENT, clock.now_us()) == (found.finding, found.found_at)
        assert (None, None, None) == (found.fault, found.next_at, found.heartbeat_at)

    def test_an_attempt_that_lives_tells_its_heartbeat_and_how_far_it_is(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Breathing and advancing are two facts."""
        record = steps.fire_due(store, clock, steps.create(store, timetable=every("1m")))
        worker = work.join_worker(store, ttl_us=LATER_US)
        joined_at = clock.now_us()
        claimed = work.take_one(store, worker)
        clock.advance(SECOND_US)
        store.report(worker, [Report(hold=claimed.hold, progress=Progress(3, 40))])

        (found,) = newest_of(store, record)

        assert (RunState.RUNNING, worker) == (found.state, found.worker)
        assert joined_at == found.heartbeat_at
        assert (3, 40, clock.now_us()) == (
            *(found.progress_done, found.progress_total),
            found.progress_at,
        )
        assert (None, None) == (found.finished_at, found.attempt_ended_at)

    def test_a_fault_is_told_by_its_end_also_where_it_was_made_good(
        self, store: Store, clock: ManualClock
    ) -> None:
        """An attempt that went wrong counts, whatever became of its run."""
        record = steps.create(store, timetable=every("1m"))
        text = "x" * ERROR_END_MAX + "\nOSError: gone"
        record, _ = ended(store, clock, record, Failed(text, after_us=SECOND_US))
        failed_at = clock.now_us()
        (waiting,) = newest_of(store, record)
        work.fire_retries(store, clock)
        worker = work.join_worker(store)
        work.end(store, worker, work.take_one(store, worker), Succeeded())

        (found,) = newest_of(store, record)

        fault = Fault("failed", "error", text[-ERROR_END_MAX:], failed_at)
        assert (fault, fault) == (waiting.fault, found.fault)
        assert (RunState.RETRYING, failed_at) == (waiting.state, waiting.attempt_ended_at)
        assert waiting.next_at is not None
        assert (RunState.SUCCEEDED, 2) == (found.state, found.attempt)
        assert clock.now_us() == found.attempt_ended_at

    def test_the_newest_of_each_schedule_and_those_named_come_once(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Newest first, as many as are asked for, and no run of another."""
        record = steps.create(store, timetable=every("1m"))
        other = steps.create(store, "other", timetable=every("1h"))
        record, first = ended(store, clock, record, Succeeded())
        record, second = ended(store, clock, record, Failed("no", after_us=LATER_US))
        named = (first.id, second.id, run_id("nobody"))

        every_one = store.list_run_vitals(
            VitalsFilter(schedule_ids=[record.id, other.id], limit=1, run_ids=named)
        )

        assert [second.id, first.id] == [one.run_id for one in every_one]
        assert [second.id] == [one.run_id for one in newest_of(store, record, 1)]
        assert [] == newest_of(store, other)
        assert [] == store.list_run_vitals(VitalsFilter())

    def test_punctual_triggers_do_not_hide_that_nothing_useful_is_completed(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Two judgements of one schedule; and a check that is silent is no completion."""
        record = steps.create(store, timetable=every("15m"))
        record, run = ended(store, clock, record, Succeeded())
        (well,) = read_signs(store, [steps.look(store, record)])
        for _ in range(3):
            record = steps.fire_due(store, clock, record)
        clock.advance("1m")
        (found,) = read_signs(store, [record])

        assert (True, False) == (well.trigger.is_well, well.completion.is_stale)
        assert (True, True) == (found.trigger.is_well, found.completion.is_stale)
        assert (0, None) == (found.trigger.late_us, found.trigger.overdue_us)
        assert found.completion.useful is not None
        assert (run.id, 3) == (found.completion.useful.run_id, found.completion.behind)
        assert 15 * 60 * SECOND_US == found.completion.cadence_us
        assert run.finished_at is not None
        assert clock.now_us() - run.finished_at == found.completion.age_us
        assert [RunState.QUEUED] * 3 + [RunState.SUCCEEDED] == [one.state for one in found.runs]

    def test_each_version_of_a_template_tells_when_it_was_written(
        self, store: Store, clock: ManualClock
    ) -> None:
        """What was intended when is known, newest first."""
        record = steps.create(store, timetable=every("1m"))
        made_at = clock.now_us()
        clock.advance("10m")
        definition = kit.definition(timetable=every("1h"))
        edited = steps.edit(store, record, definition)

        found = store.list_definitions(record.id, 10)

        assert [(edited.version, clock.now_us()), (1, made_at)] == [one[:2] for one in found]
        assert [definition.to_json(), record.definition.to_json()] == [
            one.definition.to_json() for one in found
        ]
        assert found[:1] == store.list_definitions(record.id, 1)
        assert [] == store.list_definitions(ScheduleId(bytes(16)), 10)
