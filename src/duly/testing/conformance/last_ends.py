"""Last ends: the part of the contract about how the newest runs of a schedule ended (V1)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.concluding import Failed, Succeeded
from duly.domain.identity import ScheduleId
from duly.domain.last_ends import LastEnd, LastEnds, LastError
from duly.domain.literals import Finding, RunState
from duly.domain.timetable.interval import every
from duly.store.effects import AddVerdict
from duly.testing.conformance import steps
from duly.testing.conformance import work_steps as work
from duly.testing.conformance.retention import KEEP, prune
from duly.testing.factories import SECOND_US

if TYPE_CHECKING:
    from duly.domain.concluding import End
    from duly.domain.runs import RunRecord
    from duly.domain.schedules import ScheduleRecord
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock

LATER_US = 1 << 50
FAILS = Failed("it broke", after_us=LATER_US)


def ended(
    store: Store, clock: ManualClock, record: ScheduleRecord, how: End
) -> tuple[ScheduleRecord, RunRecord]:
    """Fire a schedule, and end the run's attempt a second later."""
    record = steps.fire_due(store, clock, record)
    worker = work.join(store, ttl_us=LATER_US)
    claimed = work.take_one(store, worker)
    clock.advance(SECOND_US)
    work.end(store, worker, claimed, how)
    store.leave(worker)
    return record, work.look(store, claimed.run_id)


def verify(store: Store, run: RunRecord, finding: Finding) -> None:
    """Record what a check has found."""
    store.add_verdict(AddVerdict(run_id=run.id, finding=finding, evidence=None, by="check"))


class ReadingLastEnds:
    """What `list_last_ends` promises."""

    def test_succeeded_and_verified_and_wrong_are_told_apart(
        self, store: Store, clock: ManualClock
    ) -> None:
        """V1, E6: each with the newest run of that sort, and when that was."""
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
        """V1, E6: a result that was there, and then was not, is not verified."""
        record, run = ended(store, clock, steps.create(store), Succeeded())
        verify(store, run, Finding.PRESENT)
        verify(store, run, Finding.ABSENT)

        found = store.list_last_ends([record.id], 10)[record.id]

        assert (None, None) == (found.verified, found.error)
        assert found.success is not None

    def test_an_error_is_told_also_of_a_run_that_went_well_in_the_end(
        self, store: Store, clock: ManualClock
    ) -> None:
        """V1: and of one that is dead."""
        record = steps.create(store, timetable=every("1m"))
        record, run = ended(store, clock, record, Failed("not yet", after_us=SECOND_US))
        failed_at = clock.now_us()
        work.fire_retries(store, clock)
        worker = work.join(store)
        work.end(store, worker, work.take_one(store, worker), Succeeded())

        found = store.list_last_ends([record.id], 10)[record.id]

        assert LastError(run.id, run.scheduled_for, failed_at, "error", "not yet") == found.error
        assert found.success is not None
        assert run.id == found.success.run_id
        record, dead = ended(store, clock, record, work.FATAL)
        found = store.list_last_ends([record.id], 10)[record.id]
        assert found.error is not None
        assert (dead.id, "no use") == (found.error.run_id, found.error.error)

    def test_what_is_no_longer_kept_is_unknown_and_not_never(
        self, store: Store, clock: ManualClock
    ) -> None:
        """V1, D6: the same holds for what lies beyond the runs that are looked at."""
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
        """V1."""
        record = steps.create(store)

        found = store.list_last_ends([record.id, ScheduleId(bytes(16))], 10)

        assert {record.id: LastEnds()} == found
        assert {} == store.list_last_ends([], 10)
