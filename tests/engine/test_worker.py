"""The worker: claims, runs, finishes, reports; one tick at a time, on virtual time."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from duly.domain.enums import Lane, RunState, TaskKind
from duly.domain.outcomes import Failed, GaveUp, Snoozed, Succeeded
from duly.domain.policies import Retry
from duly.domain.runs import LogLine, Progress, Reason, TaskPolicy
from duly.domain.schedules import Call
from duly.engine.worker import WorkerSettings
from duly.errors import UsageError
from duly.store.ports.dispatch import MemberKind
from duly.telemetry import (
    AttemptFailed,
    AttemptGivenBack,
    ItemSkipped,
    MemberJoined,
    MemberLeft,
    RunDead,
    RunFailed,
    RunStarted,
    RunSucceeded,
)
from duly.timetable.interval import every
from tests.engine.rig import SECOND, Known


def called(queue="default", **parts):
    return {"call": Call(task="remind", arguments="{}", queue=queue, **parts)}


def test_a_queued_run_is_claimed_run_and_finished(rig):
    """Claim, start and end are facts of their own, each with its time."""
    run = rig.enqueue()
    shop = rig.worker()
    shop.worker.tick()
    claimed_at = rig.now
    rig.run("200ms")
    shop.end(Succeeded('{"sent":1}'))
    found = rig.look(run)

    assert (RunState.SUCCEEDED, '{"sent":1}') == (found.state, found.result)
    assert claimed_at == found.claimed_at == found.started_at
    assert claimed_at + SECOND // 5 == found.finished_at
    assert [1] == [one.number for one in rig.attempts(run)]


def test_what_a_worker_does_is_told_with_its_ids(rig):
    """Each event names task, run, schedule and attempt."""
    record = rig.schedule(timetable=every("1m"))
    rig.dispatcher()
    shop = rig.worker()
    shop.executor.does(Succeeded())
    rig.run("61s")
    started, ended = rig.recorder.of(RunStarted)[0], rig.recorder.of(RunSucceeded)[0]

    assert (record.name, "report") == (started.schedule, started.task)
    assert started.attempt_id == ended.attempt_id == f"{ended.run_id}.1"
    assert ("succeeded", "succeeded", 1) == (ended.state, ended.then, ended.number)


def test_a_worker_claims_only_for_free_slots(rig):
    """The pool is bounded; what does not fit stays queued for others."""
    runs = [rig.enqueue(f"r{number}") for number in range(5)]
    shop = rig.worker(slots=2)
    rig.run("1s")
    states = [rig.state(run) for run in runs]

    assert 2 == len(shop.works)
    assert (2, 3) == (states.count("running"), states.count("queued"))


def test_a_crowd_is_claimed_in_parts_that_begin_while_the_next_is_claimed(rig):
    """A worker of many slots does not stand still until all of them are taken."""
    for number in range(9):
        rig.enqueue(f"r{number}")
    shop = rig.worker(slots=10, claim_max=4)
    begun = []
    for _ in range(3):
        shop.worker.tick()
        begun.append(len(shop.works))

    assert [4, 8, 9] == begun


@pytest.mark.parametrize(
    ("slots", "most"), [(1, 500), (500, 500), (1000, 500), (1401, 701), (2000, 1000), (9000, 1000)]
)
def test_who_has_many_slots_claims_for_half_of_them_at_most(slots, most):
    """The others begin meanwhile, and the database has something to do while they do."""
    assert most == WorkerSettings(slots=slots).claim_most
    assert 3 == WorkerSettings(slots=slots, claim_max=3).claim_most


def test_in_a_crowd_every_second_claim_begins_with_the_newest(rig):
    """Nobody waits for all of it, and who has waited longest gets half."""
    crowd = [rig.enqueue(f"r{number}") for number in range(4)]
    rig.run("1s")
    late = [rig.enqueue(f"late{number}") for number in range(2)]
    shop = rig.worker(slots=1)
    for _ in range(6):
        rig.advance(LATELY_US)
        shop.worker.tick()
        shop.works[-1].ended(Succeeded())
    begun = [UUID(work.run_id).bytes for work in shop.works]
    oldest, newest = begun[::2], begun[1::2]

    assert sorted(crowd)[:3] == oldest
    assert [*sorted(late, reverse=True), max(crowd)] == newest


LATELY_US = SECOND // 5
"""After so long nothing has ended lately, and nothing is claimed ahead of free slots."""


def begin_one_by_one(rig, shop, count):
    """Let one run after the other go through a worker with one slot; return them in order."""
    for _ in range(count):
        rig.advance(LATELY_US)
        shop.worker.tick()
        shop.works[-1].ended(Succeeded())
    return [UUID(work.run_id).bytes for work in shop.works]


@pytest.mark.parametrize("by", ["tenant", "queue"])
def test_in_a_crowd_tenants_and_queues_take_turns_at_both_ends(rig, by):
    """INV-22: nobody has always the oldest, or always the newest."""
    crowds = {}
    for name in "ab":
        parts = {"tenant": name} if by == "tenant" else called(name)
        crowds[name] = sorted(rig.enqueue(f"{name}{number}", **parts) for number in range(9))
    begun = begin_one_by_one(rig, rig.worker(slots=1), 8)

    for crowd in crowds.values():
        own = [run for run in begun if run in crowd]
        assert [*crowd[:2], *crowd[-2:]] == sorted(own)


def test_one_run_of_a_tenant_is_not_kept_waiting_by_anothers_flood(rig):
    """INV-22: it begins with the next claim."""
    for number in range(40):
        rig.enqueue(f"flood{number}", tenant="acme")
    shop = rig.worker(slots=2)
    shop.worker.tick()
    one = rig.enqueue("one", tenant="theirs")
    for work in shop.works[:2]:
        work.ended(Succeeded())
    rig.advance(LATELY_US)
    shop.worker.tick()

    assert one in [UUID(work.run_id).bytes for work in shop.works[2:4]]


def test_in_a_crowd_other_lanes_have_their_turn(rig):
    """What is caught up and filled in is not starved by what is live."""
    behind = [
        rig.enqueue(lane, lane=lane, **called(priority=9))
        for lane in (Lane.CATCH_UP, Lane.BACKFILL)
    ]
    for number in range(40):
        rig.enqueue(f"live{number}", **called(priority=0))
    begun = begin_one_by_one(rig, rig.worker(slots=1), 20)

    assert [*sorted(behind)] == sorted(run for run in begun if run in behind)


def test_other_lanes_take_no_more_than_their_part_of_the_slots(rig):
    """What is caught up and takes long does not fill a worker up while others wait."""
    behind = [rig.enqueue(f"long{number}", lane=Lane.CATCH_UP) for number in range(40)]
    for number in range(4_000):
        rig.enqueue(f"live{number}")
    shop = rig.worker(slots=16)
    for _ in range(100):  # a turn of each lane's comes with every sixteenth
        shop.worker.tick()
        for work in tuple(shop.works):
            if UUID(work.run_id).bytes not in behind:
                work.ended(Succeeded())

    assert 2 == len([work for work in shop.works if UUID(work.run_id).bytes in behind])


def test_a_slot_that_is_free_again_is_used_at_once(rig):
    """An end, its finish and the next claim happen in one tick."""
    for number in range(3):
        rig.enqueue(f"r{number}")
    shop = rig.worker(slots=1)
    shop.worker.tick()
    shop.works[0].ended(Succeeded())
    shop.worker.tick()

    assert 2 == len(shop.works)
    assert 1 == shop.worker.statistics.succeeded


def test_ends_that_accumulate_are_finished_in_one_statement(rig):
    """Batches by what is in flight, not by a timer."""
    for number in range(8):
        rig.enqueue(f"r{number}")
    shop = rig.worker(slots=8)
    shop.worker.tick()
    for work in shop.works[:5]:
        work.ended(Succeeded())
    shop.line.calls.clear()
    shop.worker.tick()

    assert 1 == shop.line.calls.count("finish_runs")
    assert (5, 1) == (shop.worker.statistics.succeeded, shop.worker.statistics.batches)


def test_the_first_word_about_an_end_counts(rig):
    """An attempt ends once."""
    run = rig.enqueue()
    shop = rig.worker()
    shop.worker.tick()
    shop.works[0].ended(Failed("first", is_retryable=False))
    shop.works[0].ended(Succeeded())
    shop.worker.tick()
    shop.worker.tick()

    assert "dead" == rig.state(run)
    assert 1 == shop.worker.statistics.failed


def test_a_queue_has_no_more_slots_than_its_limit(rig):
    """Queues by name, each with its share."""
    for number in range(4):
        rig.enqueue(f"m{number}", **called("mail"))
        rig.enqueue(f"d{number}", **called("default"))
    shop = rig.worker(slots=6, queue_limits={"mail": 1})
    rig.run("5s")
    queues = [work.claimed.record.call.queue for work in shop.works]

    assert (1, 4) == (queues.count("mail"), queues.count("default"))

    mail = next(w for w in shop.works if w.claimed.record.call.queue == "mail")
    mail.ended(Succeeded())
    rig.run("5s")

    assert 2 == [work.claimed.record.call.queue for work in shop.works].count("mail")


def test_no_queue_is_always_first(rig):
    """The order in which queues are served goes round."""
    for number in range(4):
        rig.enqueue(f"a{number}", **called("a"))
        rig.enqueue(f"b{number}", **called("b"))
    shop = rig.worker(slots=1, queues=("a", "b"))
    shop.executor.does(Succeeded())
    rig.run("1s")
    first = [work.claimed.record.call.queue for work in shop.works][:4]

    assert {"a", "b"} == {*first}


def test_a_queue_that_is_not_served_is_left_alone(rig):
    """`queues` names those that a worker serves."""
    run = rig.enqueue(**called("mail"))
    rig.worker(queues=("default",))
    rig.run("5s")

    assert "queued" == rig.state(run)


def test_a_wake_up_makes_an_idle_worker_look_at_once(rig):
    """The poll is a backstop."""
    shop = rig.worker()
    rig.run("10s")
    run = rig.enqueue()
    shop.worker.wake()
    shop.worker.tick()

    assert "running" == rig.state(run)


def test_a_worker_that_is_rung_in_vain_asks_less_and_less_eagerly(rig):
    """All workers hear of all queues, and one that is idle costs little."""
    shop = rig.worker()
    rig.run("5s")
    shop.line.calls.clear()
    for _ in range(1000):
        shop.worker.wake()
        rig.run("2ms")

    assert 5 <= shop.line.calls.count("claim_runs") <= 20
    rig.run("3s")
    run = rig.enqueue()
    shop.worker.wake()
    shop.worker.tick()
    assert "running" == rig.state(run)


def test_a_worker_that_is_rung_for_good_is_as_quick_as_ever(rig):
    """One claim that brought nothing, as after every end, puts the next one off by nothing."""
    shop = rig.worker()
    shop.executor.does(Succeeded())
    rig.run("5s")
    for number in range(10):
        run = rig.enqueue(f"r{number}")
        shop.worker.wake()
        shop.worker.tick()
        shop.worker.tick()

        assert "succeeded" == rig.state(run)
        shop.worker.wake()
        shop.worker.tick()
        rig.advance(30_000)


def test_without_a_wake_up_a_run_waits_for_the_backstop_at_most(rig):
    """2 s at the longest, and less the busier a worker was."""
    shop = rig.worker()
    rig.run("30s")
    shop.line.calls.clear()
    rig.run("30s")

    assert 15 <= shop.line.calls.count("claim_runs") <= 30
    run = rig.enqueue()
    rig.run("2s")
    assert "running" == rig.state(run)


def test_a_worker_joins_with_all_that_others_need_to_know(rig):
    """Slots, queues, tasks and their policies, in the store."""
    policy = TaskPolicy(timeout_us=7 * SECOND)
    shop = rig.worker(Known("remind", policy), slots=3, queues=("default", "mail"))
    shop.worker.tick()
    (member,) = rig.store.status().members

    assert (MemberKind.WORKER, 3, ("default", "mail")) == (
        member.kind,
        member.slots,
        member.queues,
    )
    assert rig.store.is_served("remind", "default")
    assert 1 == len(rig.recorder.of(MemberJoined))
    assert [{"remind": policy}] == shop.line.asked["register_policies"]


def test_an_attempt_that_fails_is_tried_again_after_its_backoff(rig):
    """The run waits in the store, as a timer, and its next attempt is a new claim."""
    rig.dispatcher()
    run = rig.enqueue()
    shop = rig.worker()
    shop.executor.does(Failed("no luck"))
    rig.run("1s")
    waiting = rig.look(run)

    assert (RunState.RETRYING, "no luck") == (waiting.state, waiting.error)
    shop.executor.does(Succeeded())
    rig.run_until(waiting.next_at + 3 * SECOND)
    first, second = rig.attempts(run)
    assert "succeeded" == rig.state(run)
    assert [1, 2] == [first.number, second.number]
    assert second.claimed_at >= waiting.next_at
    event = rig.recorder.of(AttemptFailed)[0]
    assert ("error", "retrying", "no luck") == (event.reason, event.then, event.error)


def test_a_run_without_attempts_left_goes_to_the_dead_letters(rig):
    """With all its attempts on record."""
    rig.dispatcher()
    run = rig.enqueue()
    shop = rig.worker(Known("remind", TaskPolicy(retry=Retry(3, base="1s"))))
    shop.executor.does(Failed("no luck"))
    rig.run("1m")

    assert ("dead", "budget") == (rig.state(run), rig.look(run).state_reason)
    assert [1, 2, 3] == [one.number for one in rig.attempts(run)]
    assert ["budget"] == [event.reason for event in rig.recorder.of(RunDead)]


def test_a_task_can_ask_for_its_own_delay_or_give_up(rig):
    """Snoozing costs nothing of the budget; giving up ends the run."""
    rig.dispatcher()
    run = rig.enqueue()
    shop = rig.worker(Known("remind", TaskPolicy(retry=Retry(1))))
    shop.executor.does(Snoozed(20 * SECOND))
    rig.run("1s")
    snoozed_until = rig.look(run).next_at
    shop.executor.does(GaveUp(Reason.GAVE_UP, "no such class"))
    rig.run("30s")
    first, last = rig.attempts(run)

    assert first.claimed_at + 20 * SECOND == snoozed_until
    assert ("given-back", "snoozed") == (first.state, first.reason)
    assert ("failed", "gave-up") == (rig.state(run), last.reason)
    assert 1 == len(rig.recorder.of(RunFailed))
    assert 1 == len(rig.recorder.of(AttemptGivenBack))


def test_a_retry_is_never_early_and_hardly_late(rig):
    """A waiting run goes through the wheel as every timer does."""
    rig.dispatcher()
    shop = rig.worker(Known("remind", TaskPolicy(retry=Retry(20, base="30s", cap="30s"))))
    shop.executor.does(Failed("no luck"))
    run = rig.enqueue()
    for _ in range(10):
        shop.worker.wake()
        shop.worker.tick()
        shop.worker.tick()
        due = rig.look(run).next_at
        rig.run_until(due - 1)

        assert due == rig.look(run).next_at
        rig.run("2ms")
        shop.worker.wake()
        assert rig.look(run).next_at != due
    assert 10 <= len(rig.attempts(run))


def test_an_attempt_that_lasts_reports_its_start_progress_and_lines(rig):
    """Within a second, in one statement; a short one reports nothing."""
    run, other = rig.enqueue("long"), rig.enqueue("short")
    shop = rig.worker()
    shop.worker.tick()
    shop.works[1].ended(Succeeded())
    shop.works[0].live.advance(Progress(3, 10, "third"))
    shop.works[0].live.write("info", "hello")
    rig.run("1200ms")
    found = rig.look(run)

    assert (Progress(3, 10, "third"), "running") == (found.progress, rig.attempts(run)[0].state)
    assert ["hello"] == [one.line.text for one in rig.store.list_lines(run, 0, 9)]
    assert 1 == shop.line.calls.count("report")
    assert "succeeded" == rig.state(other)


def test_the_last_progress_and_lines_come_with_the_end(rig):
    """Nothing that was said is lost because the attempt was quick."""
    run = rig.enqueue()
    shop = rig.worker()
    shop.worker.tick()
    shop.works[0].live.advance(Progress(1))
    shop.works[0].live.write("warning", "odd")
    said_at = rig.now
    shop.worker.tick()
    shop.end()

    assert [Progress(1)] == [one.progress for one in rig.store.list_progress(run, 9)]
    assert [LogLine(said_at, "warning", "odd")] == [
        one.line for one in rig.store.list_lines(run, 0, 9)
    ]
    assert 0 == shop.line.calls.count("report")


def test_an_attempt_that_is_done_within_a_second_reports_nothing(rig):
    """Short attempts cost a claim and a finish, wherever a second begins."""
    shop = rig.worker()
    shop.executor.on_start = lambda work: (work.began(), work.live.write("info", "quick"))
    for number in range(5):
        rig.enqueue(f"r{number}")
        shop.worker.wake()
        rig.run("700ms")
        shop.end()

    assert (5, 0) == (shop.worker.statistics.succeeded, shop.line.calls.count("report"))


def test_a_day_long_run_leaves_a_few_hundred_steps(rig):
    """Steps widen with age."""
    run = rig.enqueue()
    slowly = dict.fromkeys(
        ("report_every_us", "beat_every_us", "poll_min_us", "poll_max_us"), 60 * SECOND
    )
    shop = rig.worker(Known("remind", TaskPolicy(timeout_us=None)), ttl_us=300 * SECOND, **slowly)
    shop.worker.tick()
    for done in range(1, 24 * 60):
        shop.works[0].live.advance(Progress(done))
        rig.run("1m")
    steps = rig.store.list_progress(run, 10_000)

    assert 100 <= len(steps) <= 400
    assert steps == sorted(steps, key=lambda step: step.at)


def test_lines_are_not_held_back_however_old_an_attempt_is(rig):
    """Whoever follows a log sees it grow."""
    run = rig.enqueue()
    shop = rig.worker(Known("remind", TaskPolicy(timeout_us=None)))
    rig.run("30m")
    shop.works[0].live.write("info", "still here")
    rig.run("2s")

    assert ["still here"] == [one.line.text for one in rig.store.list_lines(run, 0, 9)]


def test_an_executor_that_breaks_fails_one_run_and_no_more(rig):
    """A defect elsewhere never ends the worker."""
    run = rig.enqueue()
    shop = rig.worker()

    def broken(_):
        raise RuntimeError("no more threads")

    shop.executor.on_start = broken
    rig.run("1s")

    assert "retrying" == rig.state(run)
    assert "no more threads" in rig.look(run).error


def test_an_end_that_can_not_be_stored_does_not_hold_up_the_others(rig):
    """INV-26: it is told without what the store chokes on."""
    bad, good = rig.enqueue("bad"), rig.enqueue("good")
    shop = rig.worker()
    shop.worker.tick()

    def is_poisoned(finishes):
        return any(one.conclusion.error == "poison" for one in finishes)

    shop.line.breaks["finish_runs"] = is_poisoned
    for work in shop.works:
        is_bad = work.claimed.record.id == bad
        work.ended(Failed("poison", is_retryable=False) if is_bad else Succeeded())
    shop.worker.tick()

    assert ("dead", "succeeded") == (rig.state(bad), rig.state(good))
    assert rig.look(bad).error.startswith("what it said can't be stored")
    assert [] == rig.recorder.of(ItemSkipped)


def test_a_kind_that_a_worker_does_not_run_counts_as_unknown(rig):
    """A command is off unless it was enabled."""
    run = rig.enqueue()
    shop = rig.worker(Known("remind", kind=TaskKind.COMMAND), kinds=(TaskKind.THREAD,))
    rig.run("1s")

    assert [("given-back", "unknown-task")] == rig.ended(run)
    assert [] == shop.works
    assert not rig.store.is_served("remind", "default")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("slots", 0),
        ("slots", True),
        ("slots", 10_001),
        ("ttl_us", 4 * SECOND),
        ("queues", ()),
        ("queues", ("a", "a")),
        ("queues", "mail"),
        ("queue_limits", {"mail": 0}),
        ("queue_limits", 3),
        ("grace_us", -1),
        ("beat_every_us", "3s"),
    ],
)
def test_settings_of_a_worker_that_can_not_work_are_refused(name, value):
    """One clear error that names the field."""
    with pytest.raises(UsageError, match=name):
        WorkerSettings(**{name: value})


def test_no_grace_at_all_is_a_setting_that_works():
    """Whoever wants a worker to end at once may."""
    settings = replace(WorkerSettings(), grace_us=0, cancel_grace_us=0)

    assert (0, 0) == (settings.grace_us, settings.cancel_grace_us)


def test_a_worker_s_events_name_it_as_one(rig):
    """Whoever reads the log of a fleet knows who speaks."""
    shop = rig.worker()
    rig.run("1s")
    shop.worker.stop()
    told = rig.recorder.of(MemberJoined) + rig.recorder.of(MemberLeft)

    assert ["worker", "worker"] == [event.kind for event in told]
