"""A task whose code is gone: its runs are put off, then dead, and its schedule is paused."""

from __future__ import annotations

from itertools import pairwise

import pytest

from duly.domain.enums import ScheduleStatus
from duly.domain.outcomes import Failed, Succeeded
from duly.domain.runs import TASK_GONE
from duly.domain.schedule_changes import decide_edit
from duly.domain.schedules import Call
from duly.store.ports.queries import AuditFilter
from duly.telemetry import ItemSkipped, RunDead, TaskMissing
from duly.timetable.interval import every
from duly_conformance.kit import definition, order_runs
from tests.engine.rig import SECOND, Known


@pytest.fixture
def rig(rig):
    rig.dispatcher()
    return rig


def test_a_run_of_an_unknown_task_is_put_off_for_longer_each_time(rig):
    """It costs nothing of its budget, and uses up no attempt."""
    run = rig.enqueue()
    rig.worker(Known("other"), unknown_grace_us=900 * SECOND)
    rig.run("6m")
    put_off = rig.attempts(run)
    delays = [
        round((after.claimed_at - before.claimed_at) / SECOND)
        for before, after in pairwise(put_off)
    ]

    assert {("given-back", "unknown-task", None)} == {
        (one.state, one.reason, one.number) for one in put_off
    }
    assert all(
        wanted <= delay <= wanted + 2
        for wanted, delay in zip([5, 10, 20, 40, 60, 60], delays, strict=False)
    )
    assert "retrying" == rig.state(run)


def test_a_worker_that_knows_the_task_gets_it_as_its_first_attempt(rig):
    """Whoever has the code takes it, soon after it has come."""
    run = rig.enqueue()
    rig.worker(Known("other"))
    rig.run("20s")
    shop = rig.worker(Known("remind"))
    shop.executor.does(Succeeded())
    rig.run("30s")

    assert "succeeded" == rig.state(run)
    assert 1 == shop.works[0].claimed.tries.attempt


def test_a_worker_without_the_code_does_not_stand_in_the_way_of_one_that_has_it(rig):
    """Each run is taken in vain once at most, and goes back at once."""
    lacks, knows = rig.worker(Known("other")), rig.worker(Known("remind"))
    knows.executor.does(Succeeded())
    rig.run("1s")
    runs = [rig.enqueue(f"r{number}") for number in range(300)]
    lacks.worker.wake()
    rig.run("2s")

    assert {"succeeded"} == {rig.state(run) for run in runs}
    assert 0 < lacks.worker.statistics.claimed <= 10
    assert {frozenset(), frozenset(["remind"])} == {
        order.without for order in lacks.line.asked["claim_runs"]
    }


def test_what_others_serve_is_asked_once_a_minute_and_learned_anew(rig):
    """While runs of the task are there all the time."""
    lacks, knows = rig.worker(Known("other")), rig.worker(Known("remind"), slots=1)
    rig.run("1s")
    for number in range(20):
        rig.enqueue(f"r{number}")
    rig.run("150s")

    assert 1 == knows.worker.running
    assert 3 == lacks.line.calls.count("is_served")
    assert lacks.worker.statistics.claimed <= 30


def test_what_is_behind_runs_of_unknown_tasks_is_found_at_once(rig):
    """A full hand of what others serve does not hide what is ours."""
    rig.worker(Known("remind"), slots=1)
    lacks = rig.worker(Known("other"), slots=10)
    rig.run("1s")
    for number in range(50):
        rig.enqueue(f"r{number}")
    ours = rig.enqueue("ours", call=Call(task="other", arguments="{}"))
    lacks.worker.wake()
    for _ in range(4):
        lacks.worker.tick()

    assert "running" == rig.state(ours)


def test_what_is_behind_runs_of_tasks_that_nobody_serves_is_found_soon(rig):
    """Those come back again and again, and fill the queue's limit each time."""
    urgent = Call(task="gone", arguments="{}", priority=0)
    for number in range(60):
        rig.enqueue(f"r{number}", call=urgent)
    ours = rig.enqueue("ours", call=Call(task="other", arguments="{}", priority=9))
    rig.worker(Known("other"), slots=4, queue_limits={"default": 1})
    rig.run("4s")

    assert "running" == rig.state(ours)


def test_who_serves_another_queue_does_not_serve_this_one(rig):
    """A run that nobody will ever take ends among the dead, and says so."""
    run = rig.enqueue()
    rig.worker(Known("other"))
    rig.worker(Known("remind"), queues=("elsewhere",))
    rig.run("6m")

    assert ("dead", 1) == (rig.state(run), len(rig.recorder.of(TaskMissing)))


def test_a_task_that_was_served_a_moment_ago_has_its_grace(rig):
    """A fleet that is restarted one by one buries nothing, however often a run went back."""
    rig.worker(Known("other"))
    knows = rig.worker(Known("remind"), slots=1)
    rig.run("1s")
    runs = [rig.enqueue(f"r{number}") for number in range(30)]
    rig.run("10m")
    knows.worker.stop()
    rig.workers.remove(knows.worker)
    rig.run("90s")

    assert not {"dead"} & {rig.state(run) for run in runs}
    again = rig.worker(Known("remind"), slots=30)
    again.executor.does(Succeeded())
    rig.run("61s")
    assert {"succeeded"} == {rig.state(run) for run in runs}


def test_missing_tasks_never_keep_a_worker_from_beating(rig):
    """INV-21, FAULT-13: however slow the store and however many of them there are."""
    for number in range(500):
        rig.enqueue(f"r{number}", call=Call(task=f"gone-{number}", arguments="{}"))
    ours = rig.enqueue("ours", call=Call(task="other", arguments="{}"))
    shop = rig.worker(Known("other"), slots=600)

    def take_long(_):
        rig.advance(100_000)
        return False

    shop.line.refuses["is_served"] = take_long
    beaten, longest = rig.now, 0
    for _ in range(400):
        count = shop.line.calls.count("beat")
        shop.worker.tick()
        if shop.line.calls.count("beat") > count:
            longest, beaten = max(longest, rig.now - beaten), rig.now

    assert "running" == rig.state(ours)
    assert 500 == shop.line.calls.count("is_served")
    assert SECOND < longest <= 6 * SECOND


def test_what_is_left_of_them_when_a_worker_stops_goes_back(rig):
    """INV-24: it costs nothing."""
    runs = [
        rig.enqueue(f"r{number}", call=Call(task=f"gone-{number}", arguments="{}"))
        for number in range(50)
    ]
    shop = rig.worker(Known("other"), slots=60)
    shop.worker.tick()
    shop.worker.stop()

    assert 0 == rig.store.status().running
    assert {0} == {rig.look(run).tries.charged for run in runs}


def test_a_schedule_that_somebody_holds_for_long_keeps_nobody_waiting(rig):
    """INV-26: its run is put off once more, and all else goes on."""
    record = rig.schedule(timetable=every("5m"))
    shop = rig.worker(Known("other"))
    shop.executor.does(Succeeded())
    shop.line.refuses["change_schedule"] = lambda _: True
    rig.run("9m")
    ours = rig.enqueue("ours", call=Call(task="other", arguments="{}"))
    rig.run("3s")

    assert ("retrying", "succeeded") == (rig.runs(record)[0].state, rig.state(ours))
    shop.line.refuses.clear()
    rig.run("2m")
    assert "dead" == rig.runs(record)[0].state
    assert ScheduleStatus.PAUSED is rig.see(record).status


def test_a_schedule_that_can_not_be_paused_stops_nobody(rig):
    """INV-26: its run is buried all the same, and somebody is told."""
    record = rig.schedule(timetable=every("5m"))
    shop = rig.worker(Known("other"))
    shop.line.breaks["change_schedule"] = lambda _: True
    rig.run("9m")

    assert "dead" == rig.runs(record)[0].state
    assert "schedule" in {one.what for one in rig.recorder.of(ItemSkipped)}


def test_when_nobody_knows_the_task_its_run_is_dead_and_its_schedule_paused(rig):
    """With the reason, an event and an audit entry; nothing fails for ever."""
    record = rig.schedule(timetable=every("5m"))
    rig.worker(Known("other"))
    rig.run("5m10s")

    assert ScheduleStatus.ACTIVE is rig.see(record).status
    rig.run("4m")
    (run,) = rig.runs(record)
    found = rig.see(record)
    assert ("dead", "unknown-task") == (run.state, run.state_reason)
    assert (ScheduleStatus.PAUSED, f"{TASK_GONE}: 'report'") == (found.status, found.reason)
    (event,) = rig.recorder.of(TaskMissing)
    assert ("report", record.name) == (event.task, event.schedule)
    assert 1 == len(rig.recorder.of(RunDead))
    entry = rig.store.list_audit(AuditFilter(action="schedule.paused"))[0]
    assert ("duly", "worker") == (entry.actor.name, entry.actor.source)
    rig.run("6m")
    assert 1 == len(rig.runs(record))


def test_it_is_not_dead_before_the_grace(rig):
    """A deployment takes a moment, during which nobody may know the task."""
    run = rig.enqueue()
    rig.worker(Known("other"))
    rig.run("110s")

    assert "retrying" == rig.state(run)
    rig.run("100s")
    assert "dead" == rig.state(run)


def test_a_task_that_was_known_before_has_its_grace_too(rig):
    """What counts is how long it was put off, and not how old the run is."""
    run = rig.enqueue()
    knew = rig.worker(Known("remind"))
    knew.executor.does(Failed("no luck", after_us=600 * SECOND))
    rig.run("1s")
    knew.worker.stop()
    rig.workers.clear()
    rig.worker(Known("other"))
    rig.run("11m")

    assert ("retrying", "unknown-task") == (rig.state(run), rig.attempts(run)[-1].reason)
    rig.run("3m")
    assert "dead" == rig.state(run)


def test_a_claim_that_waits_for_an_answer_about_its_task_is_no_stray(rig):
    """It is named in beats until it is settled."""
    run = rig.enqueue()
    shop = rig.worker(Known("other"))
    rig.run("2m")
    shop.line.refuses["is_served"] = lambda _: True
    rig.run("4m")
    shop.line.refuses.clear()
    rig.run("2m")

    assert "dead" == rig.state(run)
    assert "not-started" not in {one.reason for one in rig.attempts(run)}


def test_an_enqueued_run_of_an_unknown_task_has_no_schedule_to_pause(rig):
    """The run alone is dead."""
    run = rig.enqueue()
    rig.worker(Known("other"))
    rig.run("5m")

    assert "dead" == rig.state(run)
    assert [""] == [event.schedule for event in rig.recorder.of(TaskMissing)]
    assert [None] == [one.number for one in rig.attempts(run)][-1:]


def test_a_schedule_that_was_given_another_task_meanwhile_is_left_alone(rig):
    """Only what depends on the missing code is paused."""
    record = rig.schedule(timetable=every("5m"))
    rig.worker(Known("other"))
    rig.run("5m10s")
    seen = rig.see(record)
    changed = definition(task="other", timetable=every("5m"))
    rig.change(seen, decide_edit(seen, changed, rig.now, None))
    rig.run("4m")

    assert ScheduleStatus.ACTIVE is rig.see(record).status
    assert "dead" == rig.runs(record)[0].state


def test_a_dead_run_can_be_tried_again_when_the_code_is_back(rig):
    """As its first attempt."""
    run = rig.enqueue()
    rig.worker(Known("other"))
    rig.run("5m")
    shop = rig.worker(Known("remind"))
    shop.executor.does(Succeeded())
    rig.run("1s")
    rig.store.retry_runs(order_runs(run))
    rig.run("1m")

    assert "succeeded" == rig.state(run)


def test_nothing_of_it_is_lost_when_the_store_goes_away_in_between(rig):
    """INV-2: a claim of an unknown task is settled when the store is back."""
    run = rig.enqueue()
    shop = rig.worker(Known("other"))
    shop.line.refuses["finish_runs"] = lambda _: True
    rig.run("5s")

    assert "running" == rig.state(run)
    shop.line.refuses.clear()
    rig.run("2s")
    assert "retrying" == rig.state(run)
