"""How many runs a worker executes at once, and how many it claims ahead of free slots."""

from __future__ import annotations

from collections import Counter

import pytest

from duly.domain.enums import RunState, TaskKind
from duly.domain.limits import Limit
from duly.domain.outcomes import SUCCEEDED
from duly.domain.schedules import Call
from duly.domain.tasks import TaskLimits
from duly.errors import UsageError
from duly_conformance.kit import cancel_run
from tests.engine.rig import SECOND, Known

REMIND = Known("remind")
WAIT = Known("remind", kind=TaskKind.ASYNC)
REPORT = Known("report")
CROWD = 40


def enqueue(rig, count=CROWD, task="remind", priority=5):
    call = Call(task=task, arguments="{}", queue="default", priority=priority)
    return [rig.enqueue(f"{task}{number}", call=call) for number in range(count)]


def states(rig, runs):
    return Counter(str(rig.look(run).state) for run in runs)


def short_at_first(shop, count):
    """Let the first works end at once, and all that follow go on."""

    def start(work):
        work.began()
        if len(shop.works) <= count:
            work.ended(SUCCEEDED)

    shop.executor.on_start = start


def tick(shop, times=1):
    for _ in range(times):
        shop.worker.wake()
        shop.worker.tick()


def claimed_ahead(rig, shop, runs):
    """Return those that are claimed and have not begun."""
    begun = {work.claimed.run_id for work in shop.works}
    return [run for run in runs if str(rig.look(run).state) == "running" and run not in begun]


@pytest.fixture
def slow_after_short(rig):
    """A worker of two slots whose short runs made it claim ahead, and whose next runs are slow."""

    def make(*known, **parts):
        shop = rig.worker(*(known or (REMIND,)), slots=2, **parts)
        runs = enqueue(rig)
        short_at_first(shop, 6)
        tick(shop, 4)
        return shop, runs

    return make


@pytest.mark.parametrize(("slots", "running"), [(None, (40, 10)), (3, (3, 0))])
def test_async_tasks_have_slots_of_their_own_unless_a_number_is_given(rig, slots, running):
    shop = rig.worker(WAIT, REPORT, slots=slots)
    runs = enqueue(rig, 40) + enqueue(rig, 12, "report", priority=9)

    for _ in range(8):
        rig.advance(SECOND // 5)
        tick(shop)

    kinds = Counter(work.runnable.kind for work in shop.works)
    assert running == (kinds[TaskKind.ASYNC], kinds[TaskKind.THREAD])
    assert sum(running) == states(rig, runs)[RunState.RUNNING] - len(claimed_ahead(rig, shop, runs))


def test_what_a_member_says_of_its_slots_is_what_its_tasks_can_use(rig):
    for known in ((WAIT,), (REPORT,), (WAIT, REPORT)):
        tick(rig.worker(*known))

    slots = [member.slots for member in rig.store.status().members]
    assert [512, 10, 522] == slots


def test_while_runs_are_short_more_are_claimed_than_there_are_slots(rig):
    shop = rig.worker(REMIND, slots=2)
    runs = enqueue(rig)
    shop.executor.does(SUCCEEDED)
    tick(shop, 8)

    limits = [claim.limit for claim in shop.line.asked["claim_runs"]]
    assert max(limits) > 2
    rig.run(SECOND)
    assert {RunState.SUCCEEDED: CROWD} == states(rig, runs)
    assert {1} == {rig.look(run).tries.fence for run in runs}


def test_no_more_run_at_once_than_there_are_slots(rig, slow_after_short):
    shop, runs = slow_after_short()

    assert claimed_ahead(rig, shop, runs)
    assert 2 == shop.worker.running


def test_slow_runs_do_not_keep_what_was_claimed_ahead(rig, slow_after_short):
    """Within a second another worker has them, at no cost."""
    shop, runs = slow_after_short()
    waiting = claimed_ahead(rig, shop, runs)
    assert waiting

    rig.run(SECOND)

    assert [] == claimed_ahead(rig, shop, runs)
    other = rig.worker(REMIND, slots=CROWD)
    tick(other, 2)
    assert {*waiting} <= {work.claimed.run_id for work in other.works}
    assert {1} == {rig.look(run).tries.attempt for run in waiting}


def test_a_worker_whose_slots_stay_taken_claims_nothing(rig, slow_after_short):
    shop, runs = slow_after_short()
    rig.run(SECOND)
    claims = len(shop.line.asked["claim_runs"])

    for _ in range(5):
        rig.advance(SECOND)
        tick(shop)

    assert claims == len(shop.line.asked["claim_runs"])
    assert CROWD - 8 == states(rig, runs)[RunState.QUEUED]


@pytest.mark.parametrize("how", ["drain", "stop", "quarantine"])
def test_what_was_claimed_ahead_goes_back_when_a_worker_is_to_take_no_more(
    rig, slow_after_short, how
):
    shop, runs = slow_after_short()
    waiting = claimed_ahead(rig, shop, runs)
    match how:
        case "drain":
            shop.worker.drain()
        case "stop":
            shop.worker.stop_now()
        case _:
            shop.worker._claiming.is_barred = True  # noqa: SLF001 - as a beat says

    tick(shop, 2)

    assert {RunState.QUEUED: len(waiting)} == states(rig, waiting)
    assert {0} == {rig.look(run).tries.charged for run in waiting}


def test_after_a_pause_of_its_process_a_worker_begins_nothing_that_it_had_claimed_ahead(
    rig, slow_after_short
):
    shop, runs = slow_after_short()
    waiting = claimed_ahead(rig, shop, runs)
    rig.advance(60 * SECOND)
    for work in shop.works[6:]:
        work.ended(SUCCEEDED)
    begun = len(shop.works)

    shop.worker.tick()

    fresh = [work for work in shop.works[begun:] if work.claimed.run_id in waiting]
    assert all(work.claimed.fence > 1 for work in fresh)


def test_one_that_was_claimed_ahead_is_cancelled_without_having_begun(rig, slow_after_short):
    shop, runs = slow_after_short()
    run = claimed_ahead(rig, shop, runs)[0]
    rig.store.cancel_run(cancel_run(run))
    shop.worker._membership.beat_now()  # noqa: SLF001 - or it would be given back before that

    tick(shop, 2)

    assert RunState.CANCELLED == rig.look(run).state
    assert run not in {work.claimed.run_id for work in shop.works}


def test_a_limited_run_takes_no_place_before_it_has_a_slot(rig, slow_after_short):
    limited = Known("remind", limits=TaskLimits(limit=Limit(running=CROWD)))
    shop, runs = slow_after_short(limited)
    waiting = claimed_ahead(rig, shop, runs)

    assert waiting
    (place,) = rig.store.list_places()
    assert 2 == place.held


def test_a_pool_that_is_full_keeps_no_other_waiting(rig):
    """Runs of async tasks go past those that wait for a thread."""
    shop = rig.worker(WAIT, REPORT, async_slots=5, other_slots=2)
    reports = enqueue(rig, 9, "report", 1)
    reminders = enqueue(rig, 4, priority=9)

    rig.run(2 * SECOND)

    assert {RunState.RUNNING: 4} == states(rig, reminders)
    assert {RunState.RUNNING: 2, RunState.QUEUED: 7} == states(rig, reports)
    assert 6 == shop.worker.running


def test_runs_whose_event_loop_is_blocked_are_given_back(rig):
    """Within a second, and none of them begins when the loop comes round after all."""
    shop = rig.worker(WAIT, slots=5)
    shop.executor.on_start = lambda work: None
    runs = enqueue(rig, 5)
    tick(shop)
    shop.works[0].began()
    other = rig.worker(WAIT, slots=5)

    rig.run(SECOND)

    tick(other, 2)
    assert len(other.works) == 3
    assert {work.claimed.run_id for work in other.works} < {*runs[1:]}
    for work in shop.works[1:5]:
        with pytest.raises(Exception, match="must stop"):
            work.began()


def test_fewer_are_claimed_after_some_did_not_begin(rig):
    """So that a blocked worker does not keep many to itself."""
    shop = rig.worker(WAIT, slots=20)
    shop.executor.on_start = lambda work: None
    enqueue(rig)

    rig.run(SECOND)
    tick(shop)

    limits = [claim.limit for claim in shop.line.asked["claim_runs"]]
    assert 20 == limits[0]
    assert limits[-1] < 20


def test_slots_are_a_number_or_left_out(rig):
    with pytest.raises(UsageError, match="slots"):
        rig.worker(REMIND, slots=0)
