"""Time-outs, stalls, cancellations, leaked slots and graceful ends of a worker."""

from __future__ import annotations

import pytest

from duly.domain.enums import TaskKind
from duly.domain.outcomes import CancelledEnd, Failed, Snoozed, Succeeded
from duly.domain.policies import Retry
from duly.domain.runs import Progress, Reason, TaskPolicy
from duly.domain.schedules import Call
from duly.errors import Cancelled
from duly.store.ports.dispatch import MemberKind
from duly.telemetry import RunCancelled, SlotLeaked, WorkerDraining, WorkerRecycling
from duly_conformance.kit import ADA, cancel_run
from tests.engine.rig import SECOND, Known

BRIEF = TaskPolicy(timeout_us=5 * SECOND, retry=Retry(2, base="1s"))


def stops_when_asked(shop):
    shop.executor.on_ask = lambda work: work.ended(Failed("CancelledError"))


def cancel(rig, shop, run):
    rig.store.cancel_run(cancel_run(run))
    shop.worker.wake()


def test_an_attempt_past_its_time_out_is_asked_to_stop_and_timed_out(rig):
    """Whatever its code says about it."""
    run = rig.enqueue()
    shop = rig.worker(Known("remind", BRIEF))
    stops_when_asked(shop)
    rig.run("4900ms")

    assert [] == shop.executor.asked
    rig.run("200ms")
    assert [("timed-out", "timeout")] == rig.ended(run)
    assert "retrying" == rig.state(run)
    assert "CancelledError\nit took longer than 5s" == rig.look(run).error


def test_a_time_out_counts_from_the_start_of_the_code(rig):
    """Not from the claim."""
    run = rig.enqueue()
    shop = rig.worker(Known("remind", BRIEF, TaskKind.PROCESS))
    shop.executor.on_start = lambda work: None
    rig.run("3s")
    shop.works[0].began()
    rig.run("4s")

    assert ("running", []) == (rig.state(run), shop.executor.asked)


def test_what_is_done_after_its_time_out_and_before_it_knew_is_done(rig):
    """A time-out limits how long we wait; it is no reason to repeat what was done meanwhile."""
    run = rig.enqueue()
    shop = rig.worker(Known("remind", BRIEF))
    rig.run("6s")
    shop.end(Succeeded('"late"'))

    assert 1 == len(shop.executor.asked)
    assert ("succeeded", '"late"') == (rig.state(run), rig.look(run).result)


def test_a_snooze_after_the_time_out_is_kept(rig):
    """It says what is to be done next, at no cost of its budget."""
    run = rig.enqueue()
    shop = rig.worker(Known("remind", BRIEF))
    rig.run("6s")
    shop.end(Snoozed(60 * SECOND))

    assert ("retrying", 0) == (rig.state(run), rig.look(run).tries.charged)


def test_code_that_has_not_begun_when_it_is_given_back_never_begins(rig):
    """Else two attempts would have the same number, and the code would run twice at a time."""
    run = rig.enqueue()
    shop = rig.worker()
    shop.executor.on_start = lambda work: None
    rig.run("500ms")
    shop.worker.stop()

    with pytest.raises(Cancelled):
        shop.works[0].began()
    assert [("given-back", "shutdown")] == rig.ended(run)


def test_code_that_has_not_begun_when_it_is_asked_to_stop_never_begins(rig):
    """Nothing is begun that must be stopped at once."""
    run = rig.enqueue()
    shop = rig.worker()
    shop.executor.on_start = lambda work: None
    rig.run("1s")
    cancel(rig, shop, run)
    rig.run("1s")

    with pytest.raises(Cancelled):
        shop.works[0].began()


def test_what_has_not_begun_in_time_is_given_back_at_no_cost(rig):
    """INV-22: code that never ran has not used its budget."""
    run = rig.enqueue()
    shop = rig.worker(Known("remind", BRIEF, TaskKind.PROCESS), begin_within_us=20 * SECOND)
    shop.executor.on_start = lambda work: None
    shop.executor.on_ask = lambda work: work.ended(CancelledEnd())
    rig.run("19s")

    assert ("running", []) == (rig.state(run), shop.executor.asked)
    rig.run("2s")
    assert ("given-back", "not-started") == rig.ended(run)[0]
    assert (None, 0) == (rig.attempts(run)[0].number, rig.look(run).tries.charged)


def test_a_time_out_is_kept_however_late_the_code_begins(rig):
    """It counts from the beginning, also of code that took longer than that to begin."""
    run = rig.enqueue()
    shop = rig.worker(Known("remind", BRIEF, TaskKind.PROCESS))
    shop.executor.on_start = lambda work: None
    stops_when_asked(shop)
    rig.run("7s")
    shop.works[0].began()
    rig.run("4900ms")

    assert "running" == rig.state(run)
    rig.run("5s")
    assert [("timed-out", "timeout")] == rig.ended(run)


def test_code_that_saw_its_time_out_and_returned_has_timed_out(rig):
    """Returning early is stopping, and not being done."""
    run = rig.enqueue()
    shop = rig.worker(Known("remind", BRIEF))
    rig.run("6s")

    assert shop.works[0].live.is_cancelled
    shop.end(Succeeded())
    assert [("timed-out", "timeout")] == rig.ended(run)


def test_what_was_said_is_told_at_once_though_its_process_is_still_there(rig):
    """Whatever happens to the process or to the worker now, what was done is not done again."""
    runs = {rig.enqueue("first"), rig.enqueue("second")}
    shop = rig.worker(Known("remind", BRIEF), slots=1)
    rig.run("1s")
    run = shop.works[0].claimed.record.id
    (other,) = runs - {run}
    shop.works[0].ended(Succeeded(), is_gone=False)
    rig.run("6s")

    assert "succeeded" == rig.state(run)
    assert ([], "queued") == (shop.executor.asked, rig.state(other))
    shop.works[0].ended(Failed("killed"))
    rig.run("1s")
    assert ("succeeded", "running") == (rig.state(run), rig.state(other))


def test_a_draining_worker_lets_a_process_tidy_up(rig):
    """What it does on its way out belongs to its work."""
    rig.enqueue()
    shop = rig.worker()
    rig.run("1s")
    shop.worker.drain()
    shop.works[0].ended(Succeeded(), is_gone=False)
    rig.run("1s")

    assert not shop.worker.is_over
    shop.works[0].ended(Succeeded())
    rig.run("1s")
    assert shop.worker.is_over


def test_an_end_that_can_t_be_told_is_an_end(rig):
    """An end that nobody tells would keep its slot for ever."""
    run = rig.enqueue()
    shop = rig.worker()
    rig.run("1s")
    shop.end(Failed(None))  # type: ignore[arg-type]

    assert [("failed", "error")] == rig.ended(run)


def test_a_run_that_takes_too_long_with_all_its_retries_is_dead(rig):
    """The run's own limit counts from its first claim, waits included."""
    rig.dispatcher()
    policy = TaskPolicy(run_timeout_us=30 * SECOND, retry=Retry(5, base="0s", cap="0s"))
    run = rig.enqueue()
    shop = rig.worker(Known("remind", policy))
    stops_when_asked(shop)
    rig.run("20s")
    shop.end(Failed("first"))
    rig.run("9s")

    assert ("running", 2) == (rig.state(run), len(shop.works))
    rig.run("2s")
    assert ("dead", "run-timeout") == (rig.state(run), rig.look(run).state_reason)
    assert [("failed", "error"), ("timed-out", "run-timeout")] == rig.ended(run)


def test_a_run_whose_time_is_up_when_it_is_claimed_is_not_begun(rig):
    """Nothing is started that must be stopped at once."""
    rig.dispatcher()
    policy = TaskPolicy(run_timeout_us=30 * SECOND, retry=Retry(5, base="0s", cap="0s"))
    run = rig.enqueue()
    shop = rig.worker(Known("remind", policy))
    rig.run("20s")
    rig.store.pause_queue("default", ADA)
    shop.end(Failed("first"))
    rig.run("20s")
    rig.store.resume_queue("default", ADA)
    rig.run("5s")

    assert 1 == len(shop.works)
    assert ("dead", "run-timeout") == (rig.state(run), rig.look(run).state_reason)


def test_an_attempt_that_breathes_but_does_not_advance_is_stalled(rig):
    """Saying the same again is no progress."""
    run = rig.enqueue()
    shop = rig.worker(Known("remind", TaskPolicy(stall_us=10 * SECOND)))
    stops_when_asked(shop)
    for done in (1, 2, 3, 3, 3):
        rig.run("6s")
        if shop.executor.asked:
            break
        shop.works[0].live.advance(Progress(done))
    rig.run("1s")

    assert [("timed-out", "stalled")] == rig.ended(run)
    assert Progress(3) == rig.attempts(run)[0].progress
    assert rig.look(run).error.endswith("\nit has not advanced for 10s")


def test_an_attempt_that_advances_is_not_stalled_however_long_it_takes(rig):
    """Progress is what the limit watches."""
    run = rig.enqueue()
    shop = rig.worker(Known("remind", TaskPolicy(stall_us=10 * SECOND)))
    for done in range(20):
        rig.run("9s")
        shop.works[0].live.advance(Progress(done))

    assert ("running", []) == (rig.state(run), shop.executor.asked)


def test_a_cancellation_asks_the_code_and_ends_the_run(rig):
    """It is learnt by a beat soon after the wake-up."""
    run = rig.enqueue()
    shop = rig.worker()
    stops_when_asked(shop)
    rig.run("10s")
    cancel(rig, shop, run)
    rig.run("1s")

    assert shop.works[0].live.is_cancelled
    assert [("cancelled", "cancelled")] == rig.ended(run)
    assert 1 == len(rig.recorder.of(RunCancelled))


def test_without_a_wake_up_a_cancellation_comes_with_the_next_beat(rig):
    """Every 3 s."""
    run = rig.enqueue()
    shop = rig.worker()
    stops_when_asked(shop)
    rig.run("10s")
    rig.store.cancel_run(cancel_run(run))
    rig.run("3s")

    assert "cancelled" == rig.state(run)


def test_code_that_saw_the_cancellation_and_returned_is_cancelled(rig):
    """Returning early is stopping, and not being done."""
    run = rig.enqueue()
    shop = rig.worker()
    rig.run("1s")
    cancel(rig, shop, run)
    rig.run("1s")

    assert shop.works[0].live.is_cancelled
    shop.end(Succeeded())
    assert "cancelled" == rig.state(run)


def test_code_that_was_done_before_it_looked_has_succeeded(rig):
    """The record says what happened."""
    run = rig.enqueue()
    shop = rig.worker()
    rig.run("1s")
    cancel(rig, shop, run)
    rig.run("1s")
    shop.end(Succeeded())

    assert "succeeded" == rig.state(run)


def test_code_that_stops_though_nobody_asked_has_failed(rig):
    """Nothing is cancelled that nobody cancelled."""
    run = rig.enqueue()
    shop = rig.worker()
    rig.run("1s")
    shop.end(CancelledEnd())

    assert [("failed", "error")] == rig.ended(run)


def test_what_ignores_the_question_is_made_to_stop(rig):
    """A process that ignores its time-out is killed."""
    run = rig.enqueue()
    shop = rig.worker(Known("remind", BRIEF), cancel_grace_us=4 * SECOND)
    shop.executor.on_insist = lambda work: work.ended(Failed("killed", Reason.KILLED))
    rig.run("8900ms")

    assert (1, 0) == (len(shop.executor.asked), len(shop.executor.insisted))
    rig.run("200ms")
    assert [("timed-out", "timeout")] == rig.ended(run)
    assert ([], 0) == (rig.recorder.of(SlotLeaked), shop.worker.leaked)


def test_what_can_not_be_stopped_is_settled_and_its_slot_leaked(rig):
    """A thread that ignores everything is fenced off, and its run goes on elsewhere."""
    run = rig.enqueue()
    shop = rig.worker(Known("remind", BRIEF), slots=2)
    shop.executor.can_be_stopped = False
    rig.run("16s")

    assert "retrying" == rig.state(run)
    assert [1] == [event.leaked for event in rig.recorder.of(SlotLeaked)]
    rig.run("5s")
    worker = next(one for one in rig.store.status().members if one.kind is MemberKind.WORKER)
    assert (1, 1) == (worker.leaked, shop.worker.leaked)
    assert not shop.worker.is_draining


def test_a_leaked_slot_is_not_given_to_another_run(rig):
    """Its code still uses what a slot stands for."""
    rig.enqueue()
    shop = rig.worker(Known("remind", BRIEF), Known("report"), slots=2, leaked_max=2)
    shop.executor.can_be_stopped = False
    rig.run("16s")
    for number in range(3):
        rig.enqueue(f"r{number}", call=Call(task="report", arguments="{}"))
    rig.run("3s")

    assert (1, 1) == (shop.worker.leaked, shop.worker.running)


def test_a_leaked_slot_is_back_when_its_code_ends_after_all(rig):
    """What it says is dropped, since its attempt was settled."""
    run = rig.enqueue()
    shop = rig.worker(Known("remind", BRIEF), slots=2)
    shop.executor.can_be_stopped = False
    rig.run("16s")
    shop.end(Succeeded())

    assert 0 == shop.worker.leaked
    assert [("timed-out", "timeout")] == rig.ended(run)


def test_a_killed_work_that_never_says_so_does_not_keep_its_slot_busy_for_ever(rig):
    """An executor's word is not waited for without end."""
    run = rig.enqueue()
    rig.worker(Known("remind", BRIEF))
    rig.run("30s")

    assert "retrying" == rig.state(run)


def test_a_worker_that_has_lost_too_many_slots_drains_and_ends(rig):
    """Another takes its place, what can finish does so first."""
    good = rig.enqueue("good", call=Call(task="report", arguments="{}"))
    bad = rig.enqueue("bad")
    shop = rig.worker(Known("remind", BRIEF), Known("report"), slots=3, leaked_max=1)
    shop.executor.can_be_stopped = False
    over = []
    shop.worker.on_over = lambda: over.append(True)
    rig.run("16s")

    assert (True, False) == (shop.worker.needs_recycling, shop.worker.is_over)
    assert [1] == [event.leaked for event in rig.recorder.of(WorkerRecycling)]
    work = next(one for one in shop.works if one.claimed.record.id == good)
    work.ended(Succeeded())
    rig.run("1s")
    assert ("succeeded", "retrying") == (rig.state(good), rig.state(bad))
    assert (True, [True], True) == (shop.worker.is_over, over, shop.executor.is_closed)


def test_a_worker_whose_every_slot_is_lost_ends_whatever_its_limit(rig):
    """One without slots is of no use."""
    rig.enqueue()
    shop = rig.worker(Known("remind", BRIEF), slots=1, leaked_max=3)
    shop.executor.can_be_stopped = False
    rig.run("16s")

    assert (True, True) == (shop.worker.needs_recycling, shop.worker.is_over)


def test_a_draining_worker_that_lost_its_lease_does_not_join_again(rig):
    """It has nothing to join for; what it still has to say it says under its old id."""
    run = rig.enqueue()
    shop = rig.worker()
    rig.run("1s")
    shop.worker.drain()
    shop.line.is_cut = True
    shop.works[0].ended(Succeeded())
    rig.run("20s")
    shop.line.is_cut = False
    rig.run("2s")

    assert ("succeeded", True) == (rig.state(run), shop.worker.is_over)
    assert 1 == shop.line.calls.count("join")


def test_a_draining_worker_ends_although_the_store_is_away(rig):
    """What it has to tell waits for the grace; then others may find out for themselves."""
    rig.enqueue()
    shop = rig.worker(grace_us=30 * SECOND)
    rig.run("1s")
    shop.worker.drain()
    shop.line.is_cut = True
    rig.run("20s")
    shop.works[0].ended(Succeeded())
    rig.run("8s")

    assert not shop.worker.is_over
    rig.run("3s")
    assert shop.worker.is_over


def test_a_draining_worker_without_a_lease_waits_quietly_for_its_code(rig):
    """It was declared dead, and has nothing to tell and nothing to ask for."""
    rig.dispatcher()
    rig.enqueue()
    shop = rig.worker(grace_us=60 * SECOND, cancel_grace_us=60 * SECOND)
    rig.run("1s")
    shop.worker.drain()
    shop.line.is_cut = True
    rig.run("30s")
    shop.line.is_cut = False
    rig.run("2s")

    assert (1, None) == (shop.worker.running, shop.worker.member)
    assert shop.worker.tick() > rig.store_clock.monotonic_us()


def test_a_claim_whose_answer_was_lost_is_given_back_by_whoever_stops_at_once(rig):
    """INV-24: a stop costs nothing, also of what the worker never heard that it has."""
    run = rig.enqueue()
    shop = rig.worker()
    shop.line.loses.add("claim_runs")
    shop.worker.tick()

    assert "running" == rig.state(run)
    shop.worker.stop_now()
    shop.worker.tick()
    assert ("queued", 0) == (rig.state(run), rig.store.get_run(run).tries.charged)
    assert 0 == rig.store.status().running


def test_a_draining_worker_takes_nothing_and_lets_work_finish(rig):
    """Then it leaves."""
    first = rig.enqueue("first")
    shop = rig.worker()
    rig.run("1s")
    shop.worker.drain()
    rig.run("1s")
    second = rig.enqueue("second")
    shop.worker.wake()
    rig.run("10s")

    assert ("running", "queued") == (rig.state(first), rig.state(second))
    shop.works[0].ended(Succeeded())
    rig.run("1s")
    assert ("succeeded", True) == (rig.state(first), shop.worker.is_over)
    assert [] == [one for one in rig.store.status().members if one.is_alive]
    assert [1] == [event.running for event in rig.recorder.of(WorkerDraining)]


def test_after_the_grace_what_still_runs_is_asked_and_given_back(rig):
    """It costs nothing of the budget, and the next attempt has the next number."""
    run = rig.enqueue()
    shop = rig.worker(grace_us=20 * SECOND)
    stops_when_asked(shop)
    rig.run("1s")
    shop.worker.drain()
    rig.run("19s")

    assert "running" == rig.state(run)
    rig.run("2s")
    assert [("given-back", "shutdown")] == rig.ended(run)
    assert ("queued", 0) == (rig.state(run), rig.look(run).tries.charged)
    other = rig.worker()
    rig.run("1s")
    assert 2 == other.works[0].claimed.tries.attempt


def test_what_can_not_be_stopped_is_given_back_when_the_worker_ends(rig):
    """A thread ends with its process."""
    run = rig.enqueue()
    shop = rig.worker(grace_us=5 * SECOND, cancel_grace_us=5 * SECOND)
    shop.executor.can_be_stopped = False
    rig.run("1s")
    shop.worker.drain()
    rig.run("12s")

    assert ("queued", True) == (rig.state(run), shop.worker.is_over)


def test_a_cancellation_outweighs_a_shutdown(rig):
    """The attempt is recorded as what somebody asked for."""
    run = rig.enqueue()
    shop = rig.worker(grace_us=1 * SECOND)
    rig.run("1s")
    shop.worker.drain()
    rig.run("2s")
    rig.store.cancel_run(cancel_run(run))
    rig.run("4s")
    shop.end(Failed("CancelledError"))

    assert [("cancelled", "cancelled")] == rig.ended(run)


def test_success_within_the_last_grace_counts(rig):
    """Code that finishes although it was asked to stop is done."""
    run = rig.enqueue()
    shop = rig.worker(grace_us=5 * SECOND)
    rig.run("1s")
    shop.worker.drain()
    rig.run("7s")
    shop.works[0].ended(Succeeded())
    rig.run("1s")

    assert ("succeeded", True) == (rig.state(run), shop.worker.is_over)


def test_a_second_signal_gives_back_everything_at_once(rig):
    """Nothing is lost."""
    runs = [rig.enqueue(f"r{number}") for number in range(3)]
    shop = rig.worker()
    rig.run("1s")
    shop.works[0].ended(Succeeded())
    shop.worker.drain()
    shop.worker.stop_now()
    shop.worker.tick()

    assert ["queued", "queued", "succeeded"] == sorted(rig.state(run) for run in runs)
    assert (True, True) == (shop.worker.is_over, shop.executor.is_closed)
    assert 0 == rig.store.status().running


def test_a_claim_that_was_never_started_does_not_use_up_its_number(rig):
    """Given back before its code began."""
    run = rig.enqueue()
    shop = rig.worker()
    shop.executor.on_start = lambda work: None
    rig.run("1s")
    shop.worker.stop()

    assert [None] == [one.number for one in rig.attempts(run)]
    other = rig.worker()
    rig.run("1s")
    assert (1, 2) == (other.works[0].claimed.tries.attempt, other.works[0].claimed.tries.fence)


def test_stopping_a_worker_twice_is_the_same_as_once(rig):
    """The loop stops it in the end, whatever happened before."""
    shop = rig.worker()
    over = []
    shop.worker.on_over = lambda: over.append(True)
    rig.run("1s")
    shop.worker.stop()
    shop.worker.stop()

    assert [True] == over
    assert shop.worker.tick() > rig.store_clock.monotonic_us()


def test_a_time_out_is_kept_while_the_store_is_away(rig):
    """Limits need nobody's answer."""
    run = rig.enqueue()
    shop = rig.worker(Known("remind", BRIEF))
    stops_when_asked(shop)
    rig.run("1s")
    shop.line.is_cut = True
    rig.run("6s")

    assert 1 == len(shop.executor.asked)
    shop.line.is_cut = False
    rig.run("2s")
    assert [("timed-out", "timeout")] == rig.ended(run)
