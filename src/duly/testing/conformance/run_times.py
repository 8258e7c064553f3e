"""Run times: the part of the contract about how long the runs of a schedule were open (O2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.concluding import Succeeded
from duly.domain.identity import ScheduleId
from duly.domain.run_times import RunSpan
from duly.domain.timetable.interval import every
from duly.testing.conformance import steps
from duly.testing.conformance import work_steps as work
from duly.testing.factories import SECOND_US, cancel_run

if TYPE_CHECKING:
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock


class ReadingRunTimes:
    """What `list_run_times` promises."""

    def test_runs_are_timed_from_their_fire_to_their_end(
        self, store: Store, clock: ManualClock
    ) -> None:
        """O2: the newest first; of one that is open, from when on it is."""
        record = steps.create(store, timetable=every("1m"))
        worker = work.join(store, ttl_us=1 << 50)
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
        """O2: nor does a schedule that has no run, or never was, have any times."""
        record = steps.create(store, timetable=every("1m"))
        idle = steps.create(store, "idle")
        record = steps.fire_due(store, clock, record)
        assert record.last_run is not None
        store.cancel_run(cancel_run(record.last_run))
        record = steps.fire_due(store, clock, record)
        worker = work.join(store)
        work.end(store, worker, work.take_one(store, worker), work.FATAL)

        assert {} == store.list_run_times([record.id, idle.id, ScheduleId(bytes(16))], 20)
        assert {} == store.list_run_times([], 20)
