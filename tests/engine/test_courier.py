"""Ends that are brought to the store while more is asked for: none is lost, and none is told twice."""

from __future__ import annotations

import threading

import pytest

from duly.domain.enums import RunState
from duly.domain.outcomes import Succeeded
from duly.engine.worker import Worker, WorkerSettings
from duly.engine.worker.exchange import DirectCourier, ThreadCourier
from duly.store.ports.execution import Finished
from tests.engine.rig import SECOND, Known, Line, Scripted, Tasks

LIMIT_SECONDS = 120.0


class LateReply:
    """An answer that is there when somebody waits for it, and not before."""

    def __init__(self, order):
        self._order = order

    def is_there(self):
        return False

    def __call__(self):
        return self._order()


class LateCourier(DirectCourier):
    """Carries out an order when its answer is asked for: after whatever is done meanwhile."""

    is_direct = False

    def send(self, order):
        return LateReply(order)


@pytest.fixture(params=[DirectCourier, LateCourier])
def shop(rig, request):
    """Make a worker of two slots, and return it with its executor and its line to the store."""
    executor, line, known = Scripted(), Line(rig.store), Known("remind")
    worker = Worker(
        line,
        rig.store_clock,
        Tasks(known),
        {known.kind: executor},
        WorkerSettings(slots=2, together_max=0),
        telemetry=rig.recorder,
        courier=request.param(),
    )
    return worker, executor, line


def states(rig, runs):
    return [rig.look(run).state for run in runs]


def test_ends_are_told_and_more_is_taken_in_one_tick(rig, shop):
    worker, executor, line = shop
    runs = [rig.enqueue(f"r{number}") for number in range(4)]
    worker.tick()
    for work in executor.works:
        work.ended(Succeeded())
    line.calls.clear()
    worker.tick()

    assert {"finish_runs", "claim_runs"} == set(line.calls)
    assert [RunState.RUNNING] * 2 + [RunState.SUCCEEDED] * 2 == sorted(states(rig, runs))


@pytest.mark.parametrize("shop", [DirectCourier], indirect=True)
def test_one_call_whose_answer_was_lost_loses_neither_an_end_nor_what_was_claimed(rig, shop):
    """The end is told again, and what was claimed unheard is given back by the next beat."""
    worker, executor, line = shop
    runs = [rig.enqueue(f"r{number}") for number in range(3)]
    worker.tick()
    executor.works[0].ended(Succeeded())
    line.loses.add("claim_runs")
    worker.tick()

    assert [RunState.RUNNING] * 2 + [RunState.SUCCEEDED] == sorted(states(rig, runs))
    assert 2 == len(executor.works), "nobody has heard of the third"
    for _ in range(3):
        rig.store_clock.advance(2 * SECOND)
        worker.tick()
        for work in executor.works:
            work.ended(Succeeded())

    assert 3 == len(executor.works)
    worker.tick()
    assert [RunState.SUCCEEDED] * 3 == states(rig, runs)
    assert (3, 0) == (worker.statistics.succeeded, worker.statistics.refused)


def test_who_may_hold_what_it_never_heard_of_does_not_leave_in_good_order(rig, shop):
    """INV-24: its lease runs out, and others settle what it held."""
    worker, executor, line = shop
    rig.enqueue()
    line.loses.add("claim_runs")
    worker.tick()
    line.refuses["beat"] = lambda _: True
    worker.stop()

    assert [] == executor.works
    assert "leave" not in line.calls


@pytest.mark.parametrize("shop", [LateCourier], indirect=True)
def test_an_end_whose_answer_was_lost_is_told_again_and_what_was_claimed_is_run(rig, shop):
    worker, executor, line = shop
    runs = [rig.enqueue(f"r{number}") for number in range(3)]
    worker.tick()
    executor.works[0].ended(Succeeded())
    line.loses.add("finish_runs")
    worker.tick()

    assert 3 == len(executor.works), "the claim was answered"
    for work in executor.works[1:]:
        work.ended(Succeeded())
    rig.store_clock.advance(2 * SECOND)
    worker.tick()

    assert [RunState.SUCCEEDED] * 3 == states(rig, runs)
    assert (3, 0) == (worker.statistics.succeeded, worker.statistics.refused)


@pytest.mark.parametrize("shop", [LateCourier], indirect=True)
def test_an_end_is_heard_of_though_the_claim_was_not_answered(rig, shop):
    worker, executor, line = shop
    runs = [rig.enqueue(f"r{number}") for number in range(3)]
    worker.tick()
    executor.works[0].ended(Succeeded())
    line.loses.add("claim_runs")
    worker.tick()

    assert 1 == states(rig, runs).count(RunState.SUCCEEDED)
    assert 1 == worker.statistics.succeeded
    assert 1 == line.calls.count("finish_runs")


def test_one_end_that_can_t_be_stored_does_not_stop_the_others(rig, shop):
    worker, executor, line = shop
    runs = [rig.enqueue(f"r{number}") for number in range(3)]
    worker.tick()
    bad = executor.works[0].claimed.run_id
    line.breaks["finish_runs"] = lambda finishes: any(
        one.hold.run_id == bad and one.conclusion.error is None for one in finishes
    )
    for work in executor.works:
        work.ended(Succeeded())
    worker.tick()

    assert 2 == states(rig, runs).count(RunState.SUCCEEDED)


def test_a_thread_brings_the_answer_or_what_was_raised():
    courier, begun, gate = ThreadCourier(), threading.Event(), threading.Event()
    done = Finished(7, ())

    def wait() -> Finished:
        begun.set()
        assert gate.wait(LIMIT_SECONDS)
        return done

    def fail() -> Finished:
        raise ValueError("no")

    answer = courier.send(wait)
    assert begun.wait(LIMIT_SECONDS), "it is carried out though nobody asks"
    gate.set()

    assert done is answer()
    refused = courier.send(fail)
    with pytest.raises(ValueError, match="no"):
        refused()
    assert done is courier.send(lambda: done)()
    courier.close()


def test_without_a_thread_it_is_done_at_once(monkeypatch):
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    done = Finished(7, ())

    assert done is ThreadCourier().send(lambda: done)()
