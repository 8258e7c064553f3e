"""Workers that are cut off, paused or killed: nothing is assumed, lost or accepted twice."""

from __future__ import annotations

from typing import Any, cast

import pytest

from duly.domain.enums import RunState
from duly.domain.outcomes import Failed, Succeeded
from duly.domain.policies import Retry
from duly.domain.runs import Progress, Reason, TaskPolicy
from duly.engine.dispatcher.context import DispatcherContext, Node
from duly.engine.dispatcher.reaper import Reaper
from duly.engine.dispatcher.settings import DispatcherSettings
from duly.errors import LeaseLost
from duly.store.ports.queries import AuditFilter
from duly.telemetry import (
    AttemptLost,
    CompletionFenced,
    CompletionRefused,
    DeclaredDead,
    ItemSkipped,
    RunDead,
    StoreLost,
    StoreRecovered,
)
from tests.engine.rig import SECOND, Known, Rig


def actions(rig):
    return [entry.action for entry in rig.store.list_audit(AuditFilter())]


def test_a_short_absence_of_the_store_stops_nothing(rig):
    """INV-26: code goes on, ends are kept, and the worker stays who it was."""
    first, second = rig.enqueue("first"), rig.enqueue("second")
    shop = rig.worker()
    rig.run("1s")
    before = shop.worker.member
    shop.line.is_cut = True
    shop.works[0].ended(Succeeded())
    rig.run("8s")
    shop.line.is_cut = False
    rig.run("2s")
    states = {rig.state(first), rig.state(second)}

    assert {"succeeded", "running"} == states
    assert (before, []) == (shop.worker.member, shop.executor.asked)
    assert (1, 1) == (len(rig.recorder.of(StoreLost)), len(rig.recorder.of(StoreRecovered)))


@pytest.mark.parametrize("seconds", [14, 20, 30])
def test_an_outage_longer_than_the_lease_costs_nothing(rig, seconds):
    """INV-21: nobody could renew, which proves nothing; all goes on, and nothing is charged."""
    rig.dispatcher()
    known = Known("remind", TaskPolicy(retry=Retry(1)))
    runs = [rig.enqueue(f"r{number}") for number in range(5)]
    shop = rig.worker(known)
    rig.run("1s")
    before = shop.worker.member
    shop.line.is_cut = rig.lines[0].is_cut = True
    rig.run(seconds * SECOND)
    shop.line.is_cut = rig.lines[0].is_cut = False
    rig.run("30s")

    assert (before, []) == (shop.worker.member, shop.executor.asked)
    assert [] == rig.recorder.of(AttemptLost) == rig.recorder.of(CompletionFenced)
    for work in shop.works:
        work.ended(Succeeded())
    rig.run("1s")
    assert {("succeeded", 1)} == {(rig.state(run), rig.look(run).tries.fence) for run in runs}


def test_a_dispatcher_that_has_just_come_lets_workers_renew_first(rig):
    """INV-21: a machine that slept, or a fleet that comes up after an outage."""
    run = rig.enqueue()
    shop = rig.worker()
    rig.run("1s")
    shop.line.is_cut = True
    rig.run("30s")
    rig.dispatcher()
    rig.run("4s")
    shop.line.is_cut = False
    rig.run("20s")

    assert ("running", []) == (rig.state(run), rig.recorder.of(AttemptLost))


def test_a_short_absence_does_not_cut_a_longer_wait_of_the_reaper_short(rig):
    """INV-21: workers may still need the longer one to renew their leases."""
    settings, nobody = DispatcherSettings(), cast("Any", None)
    around = DispatcherContext(
        store=rig.store,
        clock=rig.store_clock,
        settings=settings,
        telemetry=rig.recorder,
        node=Node(),
    )
    reaper = Reaper(around, nobody, nobody)
    reaper.wait()
    patience = reaper.next_at
    reaper.wait(1)

    assert rig.store_clock.monotonic_us() + settings.reap_patience_us == patience == reaper.next_at


def test_the_dead_are_settled_although_the_store_is_shaky(rig):
    """INV-21: after a short absence the reaper waits for as long as that was, and no longer."""
    rig.dispatcher()
    run = rig.enqueue()
    shop = rig.worker()
    rig.run("1s")
    rig.kill(shop.worker)
    for _ in range(10):
        rig.run("2s")
        rig.lines[0].is_cut = True
        rig.run("300ms")
        rig.lines[0].is_cut = False

    assert [("lost", "lost")] == rig.ended(run)


def test_past_our_own_count_of_the_lease_nothing_is_claimed(rig):
    """What runs goes on, and is ours again with the first beat that is answered."""
    run = rig.enqueue()
    shop = rig.worker()
    rig.run("1s")
    before, work = shop.worker.member, shop.works[0]
    shop.line.refuses["beat"] = lambda _: True
    rig.run("20s")
    second = rig.enqueue("second")
    shop.line.calls.clear()
    shop.worker.wake()
    rig.run("5s")

    assert (0, "queued") == (shop.line.calls.count("claim_runs"), rig.state(second))
    assert (False, []) == (work.live.is_cancelled, shop.executor.asked)
    shop.line.refuses.clear()
    rig.run("3s")
    assert (before, "running") == (shop.worker.member, rig.state(second))
    work.live.save("", "{}")
    work.ended(Succeeded())
    rig.run("1s")
    assert ("succeeded", 1) == (rig.state(run), rig.look(run).tries.fence)


def test_a_claim_that_meets_a_lease_which_is_over_asks_by_a_beat(rig):
    """Whoever is not alive for a claim may still renew; only a beat says who is dead."""
    rig.enqueue()
    second = rig.enqueue("second")
    shop = rig.worker(slots=2)
    rig.run("1s")
    before = shop.worker.member
    # The store's clock says that the lease is over, and the worker does not know it yet.
    shop.line.pauses["finish_runs"] = lambda: rig.store_clock.set(rig.now + 16 * SECOND)
    third = rig.enqueue("third")
    shop.works[0].ended(Succeeded())
    shop.worker.tick()

    assert "queued" == rig.state(third)
    rig.run("1s")
    assert (before, "running") == (shop.worker.member, rig.state(third))
    assert ("running", []) == (rig.state(second), rig.recorder.of(CompletionFenced))


def test_a_worker_that_was_declared_dead_fences_everything_at_its_next_contact(rig):
    """Until then it can't know; from then on nothing of it counts, and another id joins."""
    rig.dispatcher()
    run = rig.enqueue()
    shop = rig.worker(Known("remind", TaskPolicy(retry=Retry(3, base="0s", cap="0s"))))
    rig.run("1s")
    before, work = shop.worker.member, shop.works[0]
    shop.line.is_cut = True
    rig.run("30s")

    assert (False, [("lost", "lost")]) == (work.live.is_cancelled, rig.ended(run))
    shop.line.is_cut = False
    rig.run("2s")
    assert (True, [work]) == (work.live.is_cancelled, shop.executor.asked)
    assert before != shop.worker.member
    assert 2 == shop.works[-1].claimed.tries.attempt
    with pytest.raises(LeaseLost, match="taken from this worker"):
        work.live.save("", "{}")


def test_what_dies_with_its_worker_is_tried_elsewhere(rig):
    """INV-7: the reaper declares it dead, after its lease and not before."""
    rig.dispatcher()
    run = rig.enqueue()
    dead = rig.worker(Known("remind", TaskPolicy(retry=Retry(3, base="1s", cap="1s"))))
    rig.run("1s")
    rig.kill(dead.worker)
    rig.run("12s")

    assert ("running", "heartbeat-stale") == (rig.state(run), rig.attempts(run)[0].state)
    rig.run("10s")
    assert [("lost", "lost")] == rig.ended(run)
    heir = rig.worker()
    rig.run("3s")
    assert 2 == heir.works[0].claimed.tries.attempt
    assert {"member.declared-dead", "attempt.lost"} <= {*actions(rig)}
    (event,) = rig.recorder.of(AttemptLost)
    assert (dead.works[0].claimed.hold.fence, "worker") == (1, event.cause)


def test_a_task_that_kills_its_worker_each_time_ends_among_the_dead(rig):
    """INV-10: a claim that is lost counts, so that poison does not go round for ever."""
    rig.dispatcher()
    known = Known("remind", TaskPolicy(retry=Retry(3, base="0s", cap="0s")))
    run = rig.enqueue()
    for _ in range(6):
        shop = rig.worker(known)
        rig.run("2s")
        rig.kill(shop.worker)
        rig.run("25s")

    assert ("dead", 3) == (rig.state(run), len(rig.attempts(run)))
    assert ["budget"] == [event.reason for event in rig.recorder.of(RunDead)]


def test_a_worker_that_renews_is_never_evicted(rig):
    """INV-21: however long its run takes, and however idle it looks."""
    rig.dispatcher()
    run = rig.enqueue()
    shop = rig.worker(Known("remind", TaskPolicy(timeout_us=None)))
    rig.run("10m")

    assert ("running", []) == (rig.state(run), rig.recorder.of(AttemptLost))
    shop.end()
    assert "succeeded" == rig.state(run)


def test_an_attempt_whose_worker_does_not_end_it_is_taken_away(rig):
    """Long after its time has run out, though its worker breathes."""
    rig.dispatcher(overdue_us=60 * SECOND)
    run = rig.enqueue()
    policy = TaskPolicy(timeout_us=10 * SECOND, retry=Retry(2, base="1h", cap="1h"))
    shop = rig.worker(Known("remind", policy), cancel_grace_us=600 * SECOND)
    rig.run("65s")

    assert "running" == rig.state(run)
    rig.run("12s")
    assert [("timed-out", "timeout")] == rig.ended(run)
    assert ["overdue"] == [event.cause for event in rig.recorder.of(AttemptLost)]
    rig.run("4s")
    assert shop.works[0].live.is_cancelled
    with pytest.raises(LeaseLost):
        shop.works[0].live.save("", "{}")


def test_a_worker_is_told_that_its_attempt_was_settled_by_somebody_else(rig):
    """It is fenced off once, asked to stop, and no end of it is sent."""
    rig.dispatcher(overdue_us=60 * SECOND)
    shop = rig.worker(Known("remind", TaskPolicy(timeout_us=None)))
    shop.worker.tick()
    # Another program says that its runs may take ten seconds; ours knows of no limit.
    rig.store.register_policies({"remind": TaskPolicy(timeout_us=10 * SECOND)})
    run = rig.enqueue()
    shop.worker.wake()
    rig.run("69s")

    assert [] == shop.executor.asked
    rig.run("20s")
    assert 1 == len(shop.executor.asked) == len(rig.recorder.of(CompletionFenced))
    shop.executor.asked[0].ended(Failed("CancelledError"))
    rig.run("1s")
    assert [] == rig.recorder.of(CompletionRefused)
    assert ("timed-out", "timeout") == rig.ended(run)[0]


def test_a_report_that_is_refused_fences_its_attempt_off(rig):
    """Nobody waits for the next beat to tell."""
    rig.dispatcher(overdue_us=57 * SECOND, reap_idle_us=1 * SECOND)
    shop = rig.worker(Known("remind", TaskPolicy(timeout_us=None)), beat_every_us=12 * SECOND)
    shop.worker.tick()
    rig.store.register_policies({"remind": TaskPolicy(timeout_us=10 * SECOND)})
    rig.enqueue()
    shop.worker.wake()
    for _ in range(80):
        rig.run("1s")
        shop.works[0].live.write("info", "still here")

    assert ["the store refused a report"] == [
        one.reason for one in rig.recorder.of(CompletionFenced)
    ]
    assert shop.works[0].live.is_cancelled


def test_an_end_that_waits_to_be_sent_is_not_taken_for_a_stray(rig):
    """Beats name what has ended here and is not finished there."""
    run = rig.enqueue()
    shop = rig.worker()
    rig.run("1s")
    shop.line.refuses["finish_runs"] = lambda _: True
    shop.works[0].ended(Succeeded())
    rig.run("9s")
    shop.line.refuses.clear()
    rig.run("2s")

    assert ("succeeded", 0) == (rig.state(run), shop.worker.statistics.refused)
    assert 1 == shop.worker.statistics.batches


def test_however_often_it_is_woken_a_worker_beats_seldom(rig):
    """A wake-up may be about a cancellation, and mostly is not."""
    rig.enqueue()
    shop = rig.worker(slots=1)
    rig.run("2s")
    shop.line.calls.clear()
    for _ in range(100):
        shop.worker.wake()
        rig.run("10ms")

    assert 3 <= shop.line.calls.count("beat") <= 5


def test_a_paused_worker_comes_back_to_nothing(rig):
    """INV-5: its late success is refused and kept as evidence, and its run is another's."""
    rig.dispatcher()
    run = rig.enqueue()
    stale = rig.worker(Known("remind", TaskPolicy(retry=Retry(3, base="0s", cap="0s"))))
    rig.run("1s")
    rig.kill(stale.worker)
    rig.run("20s")
    heir = rig.worker()
    rig.run("3s")
    rig.workers.append(stale.worker)
    stale.works[0].ended(Succeeded('"mine"'))
    rig.run("2s")

    assert "running" == rig.state(run)
    assert 1 == len(rig.recorder.of(CompletionRefused))
    first = rig.attempts(run)[0]
    assert ("lost", "succeeded", '"mine"') == (first.state, first.late.state, first.late.result)
    heir.end(Succeeded('"ours"'))
    assert '"ours"' == rig.look(run).result


def test_a_paused_worker_learns_with_its_beat_that_all_is_lost(rig):
    """It stops what it runs, and begins anew under another id."""
    rig.dispatcher()
    rig.enqueue()
    stale = rig.worker()
    rig.run("1s")
    before = stale.worker.member
    rig.workers.remove(stale.worker)
    rig.run("20s")
    rig.workers.append(stale.worker)
    stale.executor.on_ask = lambda work: work.ended(Failed("CancelledError"))
    rig.run("3s")

    assert stale.works[0].live.is_cancelled
    assert before != stale.worker.member
    assert 1 == len(rig.recorder.of(DeclaredDead))
    assert 1 == len(rig.recorder.of(CompletionFenced))
    assert [] == rig.recorder.of(CompletionRefused)


def test_an_end_kept_through_an_outage_longer_than_the_lease_still_counts(rig):
    """As long as nobody has settled the claim, the truth is welcome."""
    run = rig.enqueue()
    shop = rig.worker()
    rig.run("1s")
    shop.line.is_cut = True
    shop.works[0].ended(Succeeded())
    rig.run("30s")
    shop.line.is_cut = False
    rig.run("2s")

    assert "succeeded" == rig.state(run)


@pytest.mark.parametrize("operation", ["join", "beat", "claim_runs", "report", "finish_runs"])
def test_a_lost_answer_loses_no_run_and_doubles_none(rig, operation):
    """INV-11: whatever answer is lost, the run is done once, by its first attempt."""
    rig.dispatcher()
    shop = rig.worker()
    shop.executor.on_start = lambda work: work.began()
    if operation != "join":
        rig.run("1s")
    shop.line.loses.add(operation)
    run = rig.enqueue()
    shop.worker.wake()
    rig.run("5s")
    shop.works[-1].live.write("info", "hello")
    rig.run("5s")
    shop.works[-1].ended(Succeeded())
    rig.run("10s")

    assert ("succeeded", set()) == (rig.state(run), shop.line.loses)
    assert [1] == [one.number for one in rig.attempts(run) if one.number is not None]
    assert 0 == rig.look(run).tries.charged - 1
    assert [] == rig.recorder.of(CompletionRefused)


def test_a_claim_whose_answer_was_lost_is_given_back_within_moments(rig):
    """The next beat tells of it; it was never started and costs nothing."""
    shop = rig.worker()
    rig.run("1s")
    run = rig.enqueue()
    shop.line.loses.add("claim_runs")
    shop.worker.wake()
    rig.run("1s")

    assert ("given-back", "not-started") == rig.ended(run)[0]
    assert ("running", 1) == (rig.state(run), shop.works[0].claimed.tries.attempt)
    assert (2, 0) == (shop.works[0].claimed.tries.fence, shop.works[0].claimed.tries.charged)


def test_a_report_that_fails_is_sent_again(rig):
    """Lines and progress wait for the store."""
    run = rig.enqueue()
    shop = rig.worker()
    rig.run("2s")
    shop.line.refuses["report"] = lambda _: True
    shop.works[0].live.write("info", "hello")
    shop.works[0].live.advance(Progress(4))
    rig.run("5s")
    shop.line.refuses.clear()
    rig.run("3s")

    assert ["hello"] == [one.line.text for one in rig.store.list_lines(run, 0, 9)]
    assert Progress(4) == rig.look(run).progress


@pytest.mark.parametrize("is_last", [False, True])
def test_a_report_whose_answer_was_lost_is_not_told_twice(rig, is_last):
    """Neither its lines nor its step, whether the next word is a report or the end."""
    run = rig.enqueue()
    shop = rig.worker()
    rig.run("2s")
    live = shop.works[0].live
    live.write("info", "one")
    rig.run("2s")
    live.write("info", "two")
    live.advance(Progress(4))
    shop.line.loses.add("report")
    rig.run("1s")
    live.write("info", "three")
    if not is_last:
        rig.run("5s")
    shop.end()
    rig.run("1s")

    assert set() == shop.line.loses
    said = [one.line.text for one in rig.store.list_lines(run, 0, 9)]
    assert ["one", "two", "three"] == said
    steps = [one.progress for one in rig.store.list_progress(run, 9)]
    assert [Progress(4)] == steps


def test_reports_that_are_sent_singly_survive_an_outage(rig):
    """INV-26: one that can't be stored must not cost the others theirs."""
    runs = [rig.enqueue(f"r{number}") for number in range(4)]
    shop = rig.worker()
    rig.run("2s")
    for work in shop.works:
        work.live.write("info", "hello")
    shop.line.breaks["report"] = lambda reports: len(reports) > 1
    shop.line.refuses["report"] = lambda reports: len(reports) == 1
    rig.run("1s")
    shop.line.refuses.clear()
    shop.line.breaks.clear()
    rig.run("3s")

    assert {1} == {len(rig.store.list_lines(run, 0, 9)) for run in runs}


def test_the_first_failing_call_costs_nothing_whichever_it_is(rig):
    """FAULT-1: each call of a worker's life fails once, before or after it was carried out."""
    for is_done in (False, True):
        for number in range(1, 25):
            rig = Rig()
            rig.dispatcher()
            shop = rig.worker()
            shop.line.fails_at, shop.line.is_done = number, is_done
            run = rig.enqueue()
            rig.run("1500ms")
            for work in shop.works:
                work.live.advance(Progress(1))
            rig.run("4s")
            for work in shop.works:
                work.ended(Succeeded())
            rig.run("40s")

            assert "succeeded" == rig.state(run), (number, is_done)
            assert 1 == len(shop.works)


def test_a_reaper_without_the_lease_settles_nothing(rig):
    """It is itself fenced."""
    rig.dispatcher()
    run = rig.enqueue()
    shop = rig.worker()
    rig.run("1s")
    rig.kill(shop.worker)
    rig.lines[0].breaks["settle_lost"] = lambda _: True
    rig.lines[0].breaks_with = LeaseLost("memory", "the lease is another's", "look again")
    rig.run("30s")

    assert "running" == rig.state(run)
    rig.lines[0].breaks.clear()
    rig.run("10s")
    assert [("lost", "lost")] == rig.ended(run)


def test_one_claim_that_can_not_be_settled_does_not_stop_the_others(rig):
    """INV-26: one bad row is told, and looked at again."""
    rig.dispatcher()
    bad, good = rig.enqueue("bad"), rig.enqueue("good")
    shop = rig.worker()
    rig.run("1s")
    rig.kill(shop.worker)
    rig.lines[0].breaks["settle_lost"] = lambda order: any(
        one.claim.hold.run_id == bad for one in order.losses
    )
    rig.run("30s")

    assert ("running", [("lost", "lost")]) == (rig.state(bad), rig.ended(good))
    assert rig.recorder.of(ItemSkipped)


def test_more_losses_than_fit_a_page_are_settled_at_once(rig):
    """INV-2: a worker with many runs is settled page after page."""
    rig.dispatcher(reap_page=2)
    runs = [rig.enqueue(f"r{number}") for number in range(7)]
    shop = rig.worker(Known("remind", TaskPolicy(retry=Retry(1))))
    rig.run("1s")
    rig.kill(shop.worker)
    rig.run("16s")

    assert {RunState.DEAD} == {rig.look(run).state for run in runs}
    assert Reason.BUDGET == rig.look(runs[0]).state_reason
