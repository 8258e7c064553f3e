"""In a crowd the next claim is on its way while the runs of the last are begun, within one tick."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from duly.domain.audit import Actor
from duly.domain.enums import Lane, RunState
from duly.domain.limits import Limit
from duly.domain.outcomes import SUCCEEDED
from duly.domain.runs import TaskPolicy
from duly.domain.schedules import Call
from duly.domain.tasks import TaskLimits
from duly.engine.worker import Worker, WorkerSettings
from duly.engine.worker.claimer import SHARE
from duly.engine.worker.exchange import DirectCourier
from duly.errors import StoreUnavailable
from duly.store.ports.limits import SetLimit
from duly.telemetry import RunStarted, RunSucceeded
from duly.testing import SeededDraws
from duly_conformance.kit import DirectClaims
from tests.engine.rig import HOUR, SECOND, Known, Line, Scripted, Shop, Tasks

if TYPE_CHECKING:
    from collections.abc import Callable

ADA = Actor("ada", "test")
CROWD = 40
NEVER = HOUR
REMIND = Known("remind")
LIMITED = Known("remind", limits=TaskLimits(limit=Limit(running=CROWD)))
CALLING = Known("remind", limits=TaskLimits(destination="stripe"))
SHORT = Known("remind", TaskPolicy(timeout_us=SECOND))


class Asked:
    """An answer to an order that is carried out when somebody asks for it."""

    def __init__(self, order, *, is_there):
        self._order = order
        self._is_there = is_there

    def is_there(self):
        return self._is_there

    def __call__(self):
        return self._order()


class AskedCourier(DirectCourier):
    """Carries out an order when its answer is asked for, of which it says that it is there."""

    is_direct = False
    is_there = True

    def send(self, order):
        return Asked(order, is_there=self.is_there)


class LateCourier(AskedCourier):
    """The same, and it is there when somebody waits for it, and not before."""

    is_there = False


class Ahead:
    """Claims at once and keeps the answer; notes both among the calls of its line."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self.orders = 0
        self.fails_before: int | None = None
        """Which order never reaches the store;"""
        self.fails_after: int | None = None
        """which is carried out, though whoever gives it hears of a failure;"""
        self.unheard: int | None = None
        """and of which the answer is lost when it is asked for."""
        self.on_hear: Callable[[], None] = lambda: None
        """What happens while an answer is waited for."""

    def __call__(self, order):
        self.orders += 1
        self._line.calls.append("order")
        if self.orders == self.fails_before:
            raise away()
        answer, is_unheard = self.claim(order), self.orders == self.unheard
        if self.orders == self.fails_after:
            raise away()

        def hear():
            self._line.calls.append("hear")
            self.on_hear()
            if is_unheard:
                raise away()
            return answer()

        return hear

    def claim(self, order):
        return DirectClaims(self._line)(order)


class LateAhead(Ahead):
    """Claims when the answer is asked for: after whatever is done meanwhile."""

    def claim(self, order):
        return lambda: self._line.claim_runs(order)


def away() -> StoreUnavailable:
    return StoreUnavailable("memory", "is gone", "try again")


@pytest.fixture
def open_shop(rig):
    """Open workers of twenty slots, which claim two at a time and note when each run begins."""

    def open_one(known=REMIND, courier=None, ahead=Ahead, **settings):
        executor, line = Scripted(), Line(rig.store)
        usual = {"slots": 20, "claim_max": 2, "report_every_us": NEVER}
        worker = Worker(
            line,
            rig.store_clock,
            Tasks(known),
            {known.kind: executor},
            WorkerSettings(**usual | settings),
            telemetry=rig.recorder,
            draws=SeededDraws(),
            courier=courier,
            begin_claim=None if ahead is None else ahead(line),
        )
        shop = Shop(worker, executor, line)
        starting(shop, lambda work: work.began())
        return shop

    return open_one


def starting(shop, do):
    """Let a work that is handed over do something, and note it among the calls."""

    def start(work):
        shop.line.calls.append("begin")
        do(work)

    shop.executor.on_start = start


def ends_at_once(work):
    work.began()
    work.ended(SUCCEEDED)


def ahead_of(shop):
    return shop.worker._parts.begin_claim  # noqa: SLF001 - it was put in above


def enqueue(rig, count=CROWD, **parts):
    return [rig.enqueue(f"r{number} {parts}", **parts) for number in range(count)]


def claims(shop):
    """Return how many runs each claim so far has asked for."""
    return [order.limit for order in shop.line.asked["claim_runs"]]


def begun(shop):
    return [work.claimed.run_id for work in shop.works]


def states(rig, runs):
    return Counter(rig.look(run).state for run in runs)


def tick_until_done(rig, shop, runs):
    """Let a worker work until all is done, a beat's time after each tick."""
    starting(shop, ends_at_once)
    for work in shop.works:
        work.ended(SUCCEEDED)
    for _ in range(20):
        rig.advance(3 * SECOND)
        shop.worker.tick()

    assert {RunState.SUCCEEDED: len(runs)} == states(rig, runs)


# A crowd


def test_the_next_claim_is_ordered_before_the_runs_of_the_last_are_begun(rig, open_shop):
    """And its answer is heard when they have begun."""
    runs = enqueue(rig, 6)
    shop = open_shop(claim_max=2)
    shop.worker.tick()
    seen = [call for call in shop.line.calls if call in {"order", "begin", "hear"}]

    once = ["order", "begin", "begin", "hear"]
    assert [*once, *once, *once] == seen
    assert sorted(runs) == sorted(begun(shop))
    assert [2, 2, 2, 2] == claims(shop)


@pytest.mark.parametrize("courier", [DirectCourier, AskedCourier, LateCourier])
@pytest.mark.parametrize("ahead", [Ahead, LateAhead])
def test_all_runs_of_a_crowd_are_run_once(rig, open_shop, courier, ahead):
    """Whichever of a claim and an end is carried out first."""
    runs = enqueue(rig)
    shop = open_shop(courier=courier(), ahead=ahead, slots=6, together_max=0)
    starting(shop, ends_at_once)
    for _ in range(6):
        shop.worker.tick()

    assert sorted(runs) == sorted(begun(shop))
    assert {RunState.SUCCEEDED: CROWD} == states(rig, runs)
    assert {1} == {rig.look(run).tries.fence for run in runs}


CLAIM, FINISH = "claim_runs", "finish_runs"


@pytest.mark.parametrize(
    ("courier", "order"),
    [
        (DirectCourier, [CLAIM, *[CLAIM, FINISH] * 5]),
        (AskedCourier, [CLAIM, CLAIM, *[CLAIM, FINISH] * 4, FINISH]),
        (LateCourier, [*[CLAIM] * 6, FINISH]),
    ],
)
def test_ends_are_told_between_claims_and_none_twice(rig, open_shop, courier, order):
    """Slots that get free within a tick are used in it; no claim waits for an answer."""
    enqueue(rig)
    shop = open_shop(courier=courier(), slots=4, claims_ahead_max=5, together_max=0)
    starting(shop, ends_at_once)
    shop.worker.tick()

    assert order == [call for call in shop.line.calls if call in {CLAIM, FINISH}]
    assert 12 == len(shop.works), "two by each of six claims, though there are four slots"
    assert 2 * order.count(FINISH) == shop.worker.statistics.succeeded, "two by each batch"
    shop.worker.tick()
    ids = [event.run_id for event in rig.recorder.of(RunSucceeded)]
    assert len(ids) == len(set(ids)) == shop.worker.statistics.succeeded
    assert 0 == shop.worker.statistics.refused


@pytest.mark.parametrize(("most", "made"), [(0, 1), (1, 2), (3, 4)])
def test_a_tick_makes_no_more_claims_than_it_may(rig, open_shop, most, made):
    """FAULT-14: beats and orders to stop are looked at between ticks."""
    enqueue(rig)
    shop = open_shop(slots=CROWD, claims_ahead_max=most)
    shop.worker.tick()

    assert [2] * made == claims(shop)
    shop.worker.tick()
    assert [2] * 2 * made == claims(shop)


def test_without_a_store_that_can_be_asked_so_each_tick_claims_once(rig, open_shop):
    enqueue(rig)
    shop = open_shop(ahead=None)
    shop.worker.tick()

    assert [2] == claims(shop)


@pytest.fixture
def handing_out(rig):
    """Have the store hand out fewer than it is asked for, and say whether it knows of more."""

    def hand_out(most, is_followed):
        claim = rig.store.claim_runs

        def claim_few(order):
            claimed = claim(replace(order, limit=min(order.limit, most))) if most else None
            found = claimed or replace(claim(replace(order, limit=0)), runs=())
            return replace(found, is_followed=is_followed(len(found.runs)))

        rig.store.claim_runs = claim_few

    return hand_out


def test_what_the_store_knows_of_is_asked_for_at_once(rig, open_shop, handing_out):
    """Though each claim brought less than there was room for; and always in the usual order."""
    runs = enqueue(rig, 6)
    handing_out(1, lambda got: got > 0)
    shop = open_shop(claim_max=4)
    shop.worker.tick()

    assert sorted(runs) == sorted(begun(shop))
    orders = shop.line.asked["claim_runs"]
    assert 7 == len(orders)
    assert {(False, Lane.LIVE)} == {(one.newest_first, one.first_lane) for one in orders}


def test_what_the_store_knows_nothing_of_is_not_asked_for(rig, open_shop, handing_out):
    enqueue(rig, 6)
    handing_out(1, lambda _: False)
    shop = open_shop(claim_max=4)
    shop.worker.tick()

    assert [4] == claims(shop)


def test_whoever_is_promised_more_and_gets_nothing_does_not_spin(rig, open_shop, handing_out):
    """FAULT-14: what was offered may be too much for the room there is."""
    handing_out(0, lambda _: True)
    shop = open_shop()
    rig.workers.append(shop.worker)
    rig.run("1s")

    asked = len(claims(shop))
    assert 50 <= asked <= 300, "every four milliseconds, and a few at once"


@pytest.mark.parametrize("ahead", [Ahead, LateAhead])
def test_no_claim_is_under_way_at_a_beat_or_between_ticks(rig, open_shop, ahead):
    """INV-2: what a beat does not name is a stray, and would be given back."""
    runs = enqueue(rig)
    shop = open_shop(ahead=ahead, slots=6, beat_every_us=SECOND)

    def take_long(work):
        rig.advance(SECOND // 5)
        ends_at_once(work)

    starting(shop, take_long)
    for _ in range(30):
        shop.worker.tick()
        shop.line.calls.append("tick")
    seen = [call for call in shop.line.calls if call in {"order", "hear", "beat", "tick"}]
    under_way = {"beat": 0, "tick": 0}
    for number, call in enumerate(seen):
        if call in under_way:
            before = seen[:number]
            under_way[call] += before.count("order") - before.count("hear")

    assert {"beat": 0, "tick": 0} == under_way
    assert min(seen.count("beat"), seen.count("order")) >= 5, "or it proves nothing"
    assert {RunState.SUCCEEDED: CROWD} == states(rig, runs)
    assert {1} == {rig.look(run).tries.fence for run in runs}


@pytest.mark.parametrize("ahead", [Ahead, LateAhead])
def test_no_more_is_taken_than_there_are_slots(rig, open_shop, ahead):
    """What was taken and has not begun has its slot, too."""
    enqueue(rig)
    shop = open_shop(ahead=ahead, slots=5, claim_max=2)
    shop.worker.tick()

    assert [2, 2, 1] == claims(shop)
    assert 5 == shop.worker.running
    shop.worker.tick()
    assert [2, 2, 1] == claims(shop)


def test_nothing_is_ordered_for_slots_that_the_last_claim_takes(rig, open_shop):
    enqueue(rig)
    shop = open_shop(slots=2, claim_max=2)
    shop.worker.tick()

    assert ([2], 2) == (claims(shop), shop.worker.running)
    assert "order" not in shop.line.calls


def test_a_slot_that_gets_free_while_an_answer_is_waited_for_is_used(rig, open_shop):
    """Nobody waits for the next tick; another one is claimed ahead, for the slot after that."""
    enqueue(rig)
    shop = open_shop(slots=4, claim_max=2)
    ahead_of(shop).on_hear = lambda: shop.works[0].ended(SUCCEEDED)
    shop.worker.tick()

    assert [2, 2, 2] == claims(shop)


# Where nothing follows


@pytest.mark.parametrize(("count", "made"), [(1, 1), (2, 2), (5, 3)])
def test_nothing_follows_a_claim_that_brought_less_than_was_asked_for(rig, open_shop, count, made):
    """Whoever has seen the end of the queue does not look again at once."""
    enqueue(rig, count)
    shop = open_shop()
    shop.worker.tick()

    assert ([2] * made, count) == (claims(shop), len(shop.works))


def test_nothing_follows_a_claim_with_a_task_that_is_unknown(rig, open_shop):
    """Who can't run them is not to take more of them before they are settled."""
    enqueue(rig, 3)
    enqueue(rig, 1, call=Call(task="unheard of", priority=0))
    enqueue(rig)
    shop = open_shop()
    shop.worker.tick()

    assert [2] == claims(shop)


@pytest.mark.parametrize("known", [LIMITED, CALLING])
def test_nothing_follows_a_claim_with_a_task_that_is_limited(rig, open_shop, known):
    """What may not begin leaves our hands first."""
    enqueue(rig)
    shop = open_shop(known)
    shop.worker.tick()

    assert ([2], 2) == (claims(shop), len(shop.works))


def test_nothing_follows_where_a_tenant_is_limited(rig, open_shop):
    rig.store.set_limit(SetLimit(scope="tenant:acme", limit=Limit(running=1), actor=ADA))
    enqueue(rig)
    shop = open_shop()
    shop.worker.tick()

    assert [2] == claims(shop)


def test_nothing_follows_where_queues_have_limits(rig, open_shop):
    """A queue's share is counted by what has begun."""
    enqueue(rig, call=Call(task="remind", queue="mail"))
    shop = open_shop(queue_limits={"mail": 3})
    shop.worker.tick()

    assert ([2], 2) == (claims(shop), len(shop.works))
    for _ in range(3):
        shop.worker.tick()
    assert 3 == len(shop.works)


def test_a_claim_for_another_lane_is_followed_by_others(rig, open_shop):
    """Each lane gets its turns, and no more than an eighth of the slots."""
    enqueue(rig, 2 * CROWD)
    enqueue(rig, lane=Lane.CATCH_UP)
    enqueue(rig, lane=Lane.BACKFILL)
    shop = open_shop(slots=CROWD, claim_max=2, claims_ahead_max=30)
    shop.worker.tick()
    lanes = [order.first_lane for order in shop.line.asked["claim_runs"]]
    others = [work for work in shop.works if not work.claimed.is_live]

    assert [*[Lane.LIVE] * 8, Lane.CATCH_UP, *[Lane.LIVE] * 7, Lane.BACKFILL] == lanes[:17]
    assert CROWD == len(shop.works)
    assert 4 == len(others) <= CROWD // SHARE


@pytest.mark.parametrize("courier", [AskedCourier, LateCourier])
def test_nobody_stands_still_for_ends_while_a_claim_is_on_its_way(rig, open_shop, courier):
    """What is too much for one batch goes with the next, and none is sent in between."""
    runs = enqueue(rig)
    shop = open_shop(courier=courier(), slots=CROWD, claim_max=6, finish_max=2)
    starting(shop, ends_at_once)
    shop.worker.tick()
    at_once = [*shop.line.calls]
    tick_until_done(rig, shop, runs)

    for number, call in enumerate(at_once):
        if call == "finish_runs":
            assert "finish_runs" not in at_once[number + 1 : number + 3]


@pytest.mark.parametrize("tell", [Worker.drain, Worker.stop_now], ids=["drain", "stop"])
def test_nothing_follows_once_the_worker_was_told_to_end(rig, open_shop, tell):
    """What is on its way by then is begun, or given back, and no more is taken."""
    runs = enqueue(rig)
    shop = open_shop()

    def end(work):
        work.began()
        tell(shop.worker)

    starting(shop, end)
    shop.worker.tick()

    assert ([2, 2], 4) == (claims(shop), len(shop.works))
    for work in shop.works:
        work.ended(SUCCEEDED)
    shop.worker.tick()
    assert shop.worker.is_over
    assert {RunState.SUCCEEDED: 4, RunState.QUEUED: CROWD - 4} == states(rig, runs)


@pytest.mark.parametrize(
    ("known", "settings"),
    [
        (REMIND, {"beat_every_us": SECOND}),
        (REMIND, {"report_every_us": SECOND}),
        (SHORT, {}),
    ],
    ids=["beat", "report", "time-out"],
)
def test_nothing_follows_once_something_else_is_due(rig, open_shop, known, settings):
    """A crowd keeps a worker from nothing that it has to do in time."""
    enqueue(rig)
    shop = open_shop(known, **settings)

    def take_long(work):
        work.began()
        rig.advance(SECOND // 4)

    starting(shop, take_long)
    shop.worker.tick()

    assert [2, 2, 2] == claims(shop), "a second is over when four have begun"
    assert 6 == len(shop.works)


def test_nothing_follows_for_a_worker_that_is_no_longer_alive(rig, open_shop):
    """Whether others know it, the next beat tells; what was taken before has begun."""
    enqueue(rig)
    shop = open_shop()
    # The lease is over by the store's clock, and the worker does not know it yet.
    shop.line.pauses["claim_runs"] = lambda: rig.store_clock.set(rig.now + 16 * SECOND)
    shop.worker.tick()

    assert ([2, 2], 2) == (claims(shop), len(shop.works))
    before = shop.worker.member
    shop.line.calls.clear()
    shop.worker.tick()
    assert "beat" == shop.line.calls[0]
    assert before == shop.worker.member, "nobody has declared it dead"
    assert shop.worker.running > 2


# Where the store does not answer


def test_what_was_taken_is_begun_though_the_next_can_t_be_ordered(rig, open_shop):
    """INV-2: and the worker beats next, for it may hold what it has not heard of."""
    runs = enqueue(rig)
    shop = open_shop()
    ahead_of(shop).fails_before = 2
    shop.worker.tick()

    assert ([2, 2], 4) == (claims(shop), len(shop.works))
    assert 1 == shop.worker.statistics.store_losses
    assert "beat" == first_talk(rig, shop)
    tick_until_done(rig, shop, runs)
    assert sorted(runs) == sorted(begun(shop))
    assert {1} == {rig.look(run).tries.fence for run in runs}


@pytest.mark.parametrize("fault", ["fails_after", "unheard"])
def test_what_was_taken_unheard_comes_back_and_is_given_back(rig, open_shop, fault):
    """INV-2: what was taken before is begun all the same."""
    runs = enqueue(rig)
    shop = open_shop()
    setattr(ahead_of(shop), fault, 2)
    shop.worker.tick()

    assert ([2, 2, 2], 4) == (claims(shop), len(shop.works))
    assert {RunState.RUNNING: 6, RunState.QUEUED: CROWD - 6} == states(rig, runs)
    strays = [run for run in runs if rig.state(run) == "running" and run not in begun(shop)]
    assert "beat" == first_talk(rig, shop)
    given_back = [rig.ended(run)[:1] for run in strays]
    assert [[("given-back", "not-started")]] * 2 == given_back
    tick_until_done(rig, shop, runs)
    assert sorted(runs) == sorted(begun(shop)), "nobody has begun what came back"
    fences = [rig.look(run).tries.fence for run in runs]
    assert {1: CROWD - 2, 2: 2} == Counter(fences)


def first_talk(rig, shop):
    """Let a worker talk to the store again, long before a beat is due; return what it says."""
    shop.line.calls.clear()
    rig.advance(SECOND // 10)
    shop.worker.tick()
    return shop.line.calls[0]


@pytest.mark.parametrize("courier", [DirectCourier, AskedCourier])
@pytest.mark.parametrize("ahead", [Ahead, LateAhead])
@pytest.mark.parametrize("is_done", [False, True], ids=["not told", "not answered"])
def test_what_is_on_its_way_is_begun_though_ends_can_t_be_told(
    rig, open_shop, courier, ahead, is_done
):
    """INV-2: the ends are told again, and the claim is heard, whatever became of them."""
    runs = enqueue(rig)
    shop = open_shop(courier=courier(), ahead=ahead, together_max=0)
    starting(shop, ends_at_once)
    if is_done:
        shop.line.loses.add("finish_runs")
    else:
        shop.line.refuses["finish_runs"] = lambda _: True
    shop.worker.tick()

    assert [2, 2, 2] == claims(shop)
    assert 6 == len(shop.works), "two had ended, two were begun, and two were on their way"
    assert shop.line.calls.count("order") == shop.line.calls.count("hear")
    shop.line.refuses.clear()
    assert "beat" == first_talk(rig, shop)
    tick_until_done(rig, shop, runs)
    assert sorted(runs) == sorted(begun(shop))
    assert {1} == {rig.look(run).tries.fence for run in runs}
    statistics = shop.worker.statistics
    assert (CROWD, 0) == (statistics.succeeded, statistics.refused)


@pytest.mark.parametrize("is_done", [False, True], ids=["not told", "not answered"])
def test_who_hears_of_ends_last_has_begun_all_that_it_took(rig, open_shop, is_done):
    """INV-2: what was not answered is told again, and nothing that was taken is in doubt."""
    runs = enqueue(rig)
    shop = open_shop(courier=LateCourier(), claims_ahead_max=3, together_max=0)
    starting(shop, ends_at_once)
    if is_done:
        shop.line.loses.add("finish_runs")
    else:
        shop.line.refuses["finish_runs"] = lambda _: True
    shop.worker.tick()

    assert ([2] * 4, 8) == (claims(shop), len(shop.works))
    assert 1 == shop.worker.statistics.store_losses
    shop.line.refuses.clear()
    assert "beat" != first_talk(rig, shop), "nothing is in doubt"
    tick_until_done(rig, shop, runs)
    assert sorted(runs) == sorted(begun(shop))
    statistics = shop.worker.statistics
    assert (CROWD, 0) == (statistics.succeeded, statistics.refused)


def test_ends_that_can_t_be_told_do_not_hide_a_claim_that_can_t_be_heard(rig, open_shop):
    """INV-2: what nobody has heard of comes back with the next beat."""
    runs = enqueue(rig)
    shop = open_shop(courier=AskedCourier(), together_max=0)
    starting(shop, ends_at_once)
    shop.line.refuses["finish_runs"] = lambda _: True
    ahead_of(shop).unheard = 2
    shop.worker.tick()

    assert ([2, 2, 2], 4) == (claims(shop), len(shop.works))
    shop.line.refuses.clear()
    assert "beat" == first_talk(rig, shop)
    tick_until_done(rig, shop, runs)
    assert sorted(runs) == sorted(begun(shop))


def test_what_is_on_its_way_is_heard_though_the_last_can_t_be_begun(rig, open_shop):
    """What is ordered is heard once, or its connection is never given back."""
    enqueue(rig)
    shop = open_shop()
    emit = rig.recorder.emit

    def fail_once(event):
        if isinstance(event, RunStarted):
            rig.recorder.emit = emit
            raise BrokenPipeError
        emit(event)

    rig.recorder.emit = fail_once
    with pytest.raises(BrokenPipeError):
        shop.worker.tick()

    assert shop.line.calls.count("order") == shop.line.calls.count("hear")


@pytest.mark.parametrize("tell", [Worker.drain, Worker.stop_now], ids=["drain", "stop"])
def test_nothing_follows_once_told_while_an_answer_is_waited_for(rig, open_shop, tell):
    """In a crowd most signals come while somebody waits for an answer."""
    enqueue(rig)
    shop = open_shop()
    ahead_of(shop).on_hear = lambda: tell(shop.worker)
    shop.worker.tick()

    assert [2, 2] == claims(shop)


def test_nothing_follows_when_a_beat_falls_due_while_an_answer_is_waited_for(rig, open_shop):
    """A lease is not to run out because there is so much to do."""
    enqueue(rig)
    shop = open_shop()
    ahead_of(shop).on_hear = lambda: rig.advance(4 * SECOND)
    shop.worker.tick()

    assert [2, 2] == claims(shop)


def test_what_is_begun_though_ends_can_t_be_told_is_counted(rig, open_shop):
    """And noted, such as for the lanes that have their share."""
    enqueue(rig)
    shop = open_shop(courier=AskedCourier(), together_max=0)
    starting(shop, ends_at_once)
    shop.line.refuses["finish_runs"] = lambda _: True
    shop.worker.tick()

    assert len(shop.works) == shop.worker.statistics.claimed
