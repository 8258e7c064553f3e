"""A receiver that wants no more (410): its run has failed, and its schedule is paused."""

from __future__ import annotations

import pytest

from duly.domain.enums import ScheduleStatus
from duly.domain.outcomes import Failed, GaveUp, Succeeded
from duly.domain.policies import Retry
from duly.domain.runs import RECEIVER_GONE, Reason, TaskPolicy
from duly.domain.schedule_changes import decide_edit
from duly.store.ports.queries import AuditFilter
from duly.telemetry import ItemSkipped
from duly.timetable.interval import every
from duly_conformance.kit import definition, edit_run, order_runs
from tests.engine.rig import SECOND, Known

GONE = GaveUp(Reason.GONE, "it answered 410 Gone: it wants no more of these")


@pytest.fixture
def rig(rig):
    rig.dispatcher()
    return rig


def test_a_schedule_whose_receiver_wants_no_more_is_paused_and_says_so(rig):
    """After one answer, with the reason and an audit entry; it doesn't fail for ever."""
    record = rig.schedule(timetable=every("5m"))
    rig.worker(Known("report")).executor.does(GONE)
    rig.run("6m")

    (run,) = rig.runs(record)
    found = rig.see(record)
    assert ("failed", "gone") == (run.state, run.state_reason)
    assert ScheduleStatus.PAUSED is found.status
    assert f"{RECEIVER_GONE}: task 'report' was answered 410 (Gone)" == found.reason
    entry = rig.store.list_audit(AuditFilter(action="schedule.paused"))[0]
    assert ("duly", "worker", found.reason) == (
        entry.actor.name,
        entry.actor.source,
        entry.actor.reason,
    )
    rig.run("30m")
    assert 1 == len(rig.runs(record))


def test_one_that_was_edited_since_may_call_somebody_else(rig):
    """It is left alone."""
    record = rig.schedule(timetable=every("5m"))
    shop = rig.worker(Known("report"))
    rig.run("5m1s")
    seen = rig.see(record)
    changed = definition(task="report", timetable=every("5m"), arguments='{"to":"elsewhere"}')
    rig.change(seen, decide_edit(seen, changed, rig.now, None))
    (work,) = shop.executor.works
    work.began()
    work.ended(GONE)
    rig.run("2s")

    assert ["failed"] == [one.state for one in rig.runs(record)][-1:]
    assert ScheduleStatus.ACTIVE is rig.see(record).status


def test_a_run_that_was_given_other_arguments_speaks_for_itself_alone(rig):
    """Somebody edited a dead run, and its receiver is not the schedule's."""
    record = rig.schedule(timetable=every("1h"))
    policy = TaskPolicy(retry=Retry(attempts=1))
    shop = rig.worker(Known("report", policy))
    shop.executor.does(Failed("boom"))
    rig.run("61m")
    (run,) = rig.runs(record)
    assert "dead" == run.state
    rig.store.edit_run(edit_run(run.id, '{"to":"elsewhere"}'))
    rig.store.retry_runs(order_runs(run.id))
    shop.executor.does(GONE)
    rig.run("1m")

    assert ("failed", "gone") == (rig.look(run.id).state, rig.look(run.id).state_reason)
    assert ScheduleStatus.ACTIVE is rig.see(record).status


def test_one_whose_times_alone_were_edited_still_calls_the_same(rig):
    """It would be refused at its next run."""
    record = rig.schedule(timetable=every("5m"))
    shop = rig.worker(Known("report"))
    rig.run("5m1s")
    seen = rig.see(record)
    changed = definition(task="report", timetable=every("7m"))
    rig.change(seen, decide_edit(seen, changed, rig.now, None))
    (work,) = shop.executor.works
    work.began()
    work.ended(GONE)
    rig.run("2s")

    assert ScheduleStatus.PAUSED is rig.see(record).status


def test_other_failures_pause_nothing(rig):
    """A task that gives up has its own reasons."""
    record = rig.schedule(timetable=every("5m"))
    shop = rig.worker(Known("report"))
    shop.executor.does(GaveUp(Reason.GAVE_UP, "enough"))
    rig.run("6m")

    assert "failed" == rig.runs(record)[0].state
    assert ScheduleStatus.ACTIVE is rig.see(record).status


def test_a_run_without_a_schedule_has_nothing_to_pause(rig):
    run = rig.enqueue()
    rig.worker(Known("remind")).executor.does(GONE)
    rig.run("1s")

    assert "failed" == rig.state(run)
    assert [] == rig.store.list_audit(AuditFilter(action="schedule.paused"))


def test_a_store_that_is_away_is_told_when_it_is_back(rig):
    """INV-26: the run is settled already, and the schedule is paused later."""
    record = rig.schedule(timetable=every("1h"))
    shop = rig.worker(Known("report"))
    shop.executor.does(GONE)
    shop.line.refuses["change_schedule"] = lambda _: True
    rig.run("61m")
    assert "failed" == rig.runs(record)[0].state
    assert ScheduleStatus.ACTIVE is rig.see(record).status
    shop.line.refuses.clear()
    rig.run("1m")

    assert ScheduleStatus.PAUSED is rig.see(record).status


def test_one_schedule_that_can_t_be_paused_stops_nobody(rig):
    """INV-26: somebody is told, and the worker goes on."""
    rig.schedule(timetable=every("5m"))
    shop = rig.worker(Known("report"), Known("remind"))
    shop.executor.does(GONE)
    shop.line.breaks["change_schedule"] = lambda _: True
    rig.run("6m")
    run = rig.enqueue()
    shop.executor.does(Succeeded())
    rig.run("2s")

    assert "succeeded" == rig.state(run)
    assert {"schedule"} == {one.what for one in rig.recorder.of(ItemSkipped)}


def test_many_schedules_never_keep_a_worker_from_beating(rig):
    """INV-21: however slow the store is."""
    records = [rig.schedule(f"s{number}", timetable=every("5m")) for number in range(60)]
    shop = rig.worker(Known("report"), slots=100)
    shop.executor.does(GONE)

    def take_long(_):
        rig.advance(SECOND // 5)
        return False

    shop.line.refuses["change_schedule"] = take_long
    rig.run("9m")

    assert {ScheduleStatus.PAUSED} == {rig.see(one).status for one in records}
    assert {1} == {len(rig.runs(one)) for one in records}
