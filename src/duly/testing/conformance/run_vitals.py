"""Run vitals: the part of the contract about what vitals and the search for the missing rest on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.attempts import Progress
from duly.domain.concluding import Failed, Succeeded
from duly.domain.identity import ScheduleId
from duly.domain.literals import Finding, Lane, Origin, RunState
from duly.domain.run_vitals import ERROR_END_MAX, Fault, VitalsFilter
from duly.domain.timetable.interval import every
from duly.store.execution import Report
from duly.store.signs import read_signs
from duly.testing import factories
from duly.testing.conformance import steps
from duly.testing.conformance import work_steps as work
from duly.testing.conformance.last_ends import LATER_US, ended, verify
from duly.testing.factories import SECOND_US, run_id

if TYPE_CHECKING:
    from duly.domain.run_vitals import RunVital
    from duly.domain.schedules import ScheduleRecord
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock


def newest_of(store: Store, record: ScheduleRecord, limit: int = 10) -> list[RunVital]:
    """Return what is known of a schedule's newest runs."""
    return store.list_run_vitals(VitalsFilter(schedule_ids=[record.id], limit=limit))


class ReadingRunVitals:
    """What `list_run_vitals` and `list_definitions` promise."""

    def test_a_run_that_is_over_tells_each_of_its_times(
        self, store: Store, clock: ManualClock
    ) -> None:
        """V1, R2: when it was due, fired, begun, over and checked; none stands for another."""
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
        """V1: breathing and advancing are two facts."""
        record = steps.fire_due(store, clock, steps.create(store, timetable=every("1m")))
        worker = work.join(store, ttl_us=LATER_US)
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
        """V1: an attempt that went wrong counts, whatever became of its run."""
        record = steps.create(store, timetable=every("1m"))
        text = "x" * ERROR_END_MAX + "\nOSError: gone"
        record, _ = ended(store, clock, record, Failed(text, after_us=SECOND_US))
        failed_at = clock.now_us()
        (waiting,) = newest_of(store, record)
        work.fire_retries(store, clock)
        worker = work.join(store)
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
        """V1: newest first, as many as are asked for, and no run of another."""
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
        """V1, V4: two judgements of one schedule; and a check that is silent is no completion."""
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
        """T1, S4: what was intended when is known, newest first."""
        record = steps.create(store, timetable=every("1m"))
        made_at = clock.now_us()
        clock.advance("10m")
        definition = factories.definition(timetable=every("1h"))
        edited = steps.edit(store, record, definition)

        found = store.list_definitions(record.id, 10)

        assert [(edited.version, clock.now_us()), (1, made_at)] == [one[:2] for one in found]
        assert [definition.to_json(), record.definition.to_json()] == [
            one.definition.to_json() for one in found
        ]
        assert found[:1] == store.list_definitions(record.id, 1)
        assert [] == store.list_definitions(ScheduleId(bytes(16)), 10)
