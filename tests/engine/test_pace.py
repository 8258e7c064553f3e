"""How often a worker talks to the store: at once in a quiet hour, together when there is much."""

from __future__ import annotations

import pytest

from duly.domain.enums import RunState
from duly.domain.outcomes import Succeeded
from duly.engine.worker import WorkerSettings
from duly.engine.worker.claimer import AT_ONCE_MAX, CROWD, ENDS_ALONE, CallBudget
from duly.store.wakeups import LocalWakeups, UdpWakeups
from tests.engine.rig import SECOND

MILLISECOND = 1000
EVERY = WorkerSettings().talk_every_us
TALKS = {"claim_runs", "finish_runs"}


class Bell(LocalWakeups):
    """Counts how often it was rung by those that have ended."""

    def __init__(self):
        super().__init__()
        self.rung = 0

    def nudge(self):
        self.rung += 1


def talks(shop):
    return [call for call in shop.line.calls if call in TALKS]


def test_a_run_in_a_quiet_hour_is_taken_and_ended_at_once(rig):
    """Nobody waits for others that do not come."""
    shop = rig.worker()
    shop.executor.does(Succeeded())
    rig.run("5s")
    run = rig.enqueue()
    shop.worker.wake()
    shop.worker.tick()
    shop.worker.tick()

    assert RunState.SUCCEEDED is rig.look(run).state


def test_many_that_come_one_by_one_are_taken_and_ended_together(rig):
    """A thousand a second are one call for each pace, and none waits longer than a moment."""
    shop = rig.worker(slots=100)
    shop.executor.does(Succeeded())
    rig.run("5s")
    shop.line.calls.clear()
    runs, wake_at = [], 0
    for number in range(1000):
        runs.append(rig.enqueue(f"r{number}"))
        shop.worker.wake()
        wake_at = shop.worker.tick()
        while wake_at <= rig.store_clock.monotonic_us():
            wake_at = shop.worker.tick()
        rig.advance(MILLISECOND)

    claims = talks(shop).count("claim_runs")
    paces = 1000 * MILLISECOND // EVERY
    assert 0.95 * paces <= claims <= paces + AT_ONCE_MAX
    assert talks(shop).count("finish_runs") <= claims + AT_ONCE_MAX
    ended = [rig.look(run).state is RunState.SUCCEEDED for run in runs]
    assert all(ended[: -2 * EVERY // MILLISECOND])
    rig.run(ENDS_ALONE * EVERY)
    assert {RunState.SUCCEEDED} == {rig.look(run).state for run in runs}


def test_who_has_few_slots_and_much_to_do_does_not_wait(rig):
    """What is known to be there is taken as soon as there is room."""
    shop = rig.worker(slots=1)
    shop.executor.does(Succeeded())
    runs = [rig.enqueue(f"r{number}") for number in range(50)]
    before = rig.now
    while rig.look(runs[-1]).state is RunState.QUEUED:
        assert shop.worker.tick() <= rig.store_clock.monotonic_us()

    assert before == rig.now


def test_what_is_to_end_does_not_wait(rig):
    """A worker that drains tells what it has to tell."""
    shop = rig.worker(slots=100)
    runs = [rig.enqueue(f"r{number}") for number in range(3 * AT_ONCE_MAX)]
    shop.worker.tick()
    shop.worker.drain()
    for work in shop.works:
        work.ended(Succeeded())
        shop.worker.tick()

    assert {RunState.SUCCEEDED} == {rig.look(run).state for run in runs}
    assert shop.worker.is_over


def test_after_some_calls_the_next_has_to_wait_and_the_bucket_fills_again():
    pace = CallBudget(EVERY)
    for number in range(AT_ONCE_MAX):
        assert pace.claim_at <= SECOND, number
        pace.note(SECOND, 1, is_more=False, is_claim=True)

    assert SECOND + EVERY == pace.claim_at
    pace.note(SECOND + EVERY, 1, is_more=False, is_claim=True)
    assert SECOND + 2 * EVERY == pace.claim_at
    pace.note(2 * SECOND, 1, is_more=False, is_claim=True)
    assert pace.claim_at < 2 * SECOND


@pytest.mark.parametrize(("count", "is_more"), [(CROWD, False), (0, True), (1, True)])
def test_calls_that_are_worth_it_are_not_counted(count, is_more):
    pace = CallBudget(EVERY)
    for _ in range(1000):
        pace.note(SECOND, count, is_more=is_more, is_claim=True)

    assert pace.claim_at <= SECOND


@pytest.mark.parametrize("place", [UdpWakeups, LocalWakeups])
def test_who_is_nudged_goes_on_and_knows_that_nothing_was_written(place):
    here = place()
    here.nudge()
    assert here.wait(40 * SECOND) is False
    here.nudge()
    here.wake()
    here.nudge()
    assert here.wait(40 * SECOND) is True
    assert here.wait(0) is False
    here.close()


def test_ends_alone_leave_room_for_claims():
    pace = CallBudget(EVERY)
    while pace.end_at <= SECOND:
        pace.note(SECOND, 1, is_more=False, is_claim=False)

    assert pace.claim_at <= SECOND
    assert pace.end_at <= SECOND + ENDS_ALONE * EVERY


def busy(rig, shop):
    """Let a worker take and end runs until it has to wait for the next call."""
    number = 0
    while shop.worker.tick() <= rig.store_clock.monotonic_us() or number < 4 * AT_ONCE_MAX:
        rig.enqueue(f"b{number}")
        number += 1
        shop.worker.wake()
        rig.advance(MILLISECOND)


def test_what_has_ended_does_not_ring_before_it_can_be_told(rig):
    """The worker looks by itself when the time has come."""
    bell = Bell()
    shop = rig.worker(slots=100, wakeups=bell)
    shop.executor.on_start = lambda work: work.began()
    busy(rig, shop)
    begun = list(shop.works)
    bell.rung = 0
    for work in begun:
        work.ended(Succeeded())

    assert 0 == bell.rung
    rig.run(ENDS_ALONE * EVERY)
    assert {RunState.SUCCEEDED} == {rig.look(work.claimed.run_id).state for work in begun}


def test_an_end_that_makes_room_rings_at_once(rig):
    """Behind it there is more, which waits."""
    bell = Bell()
    shop = rig.worker(slots=3, wakeups=bell)
    shop.executor.on_start = lambda work: work.began()
    busy(rig, shop)
    bell.rung = 0
    shop.works[0].ended(Succeeded())

    assert 1 == bell.rung


def test_an_end_that_makes_room_in_its_queue_is_followed_by_the_next_at_once(rig):
    """Though there was room for runs of other queues all the time."""
    shop = rig.worker(slots=10, queue_limits={"default": 1})
    for number in range(3):
        rig.enqueue(f"r{number}")
    shop.worker.tick()
    for number in range(2):
        shop.works[number].ended(Succeeded())
        shop.worker.tick()

    assert 3 == len(shop.works)


def test_an_end_is_no_reason_to_ask_for_more(rig):
    """Nothing was queued by it."""
    shop = rig.worker()
    rig.enqueue()
    shop.worker.tick()
    shop.line.calls.clear()
    shop.works[0].ended(Succeeded())
    shop.worker.tick()

    assert ["finish_runs"] == talks(shop)
