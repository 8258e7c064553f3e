"""Races at limits, held in the middle on purpose: who asks, who ends, who is let go."""

from __future__ import annotations

from collections import Counter
from threading import Lock

import pytest

from duly.domain.admission import FAILURES_MIN, PAUSE_FIRST_US, AdmissionRoute, BreakerState
from duly.domain.enums import RunState
from duly.domain.outcomes import Succeeded
from duly.errors import Conflict
from duly.store.ports.execution import WORKER_TTL_US, FinishResult
from duly.store.postgres import gates
from duly_conformance import steps as kit
from duly_conformance import steps as work
from duly_conformance.kit import ADA, cancel_run
from duly_conformance.steps import API, TASK, ways
from tests.store.postgres.turnstile import LIMIT_S, patience, replaced

GOES, LATER, STANDS = AdmissionRoute.GOES, AdmissionRoute.LATER, AdmissionRoute.STANDS
CAP, CROWD = 3, 40


@pytest.fixture
def store(patient_store):
    return patient_store


@pytest.fixture
def patient():
    with patience(), replaced(gates, "WAIT_FOR_DECISIONS", "100ms", "60s"):
        yield


def claimed_each(store, count):
    """Queue so many runs, each in the hands of a worker of its own."""
    kit.queue_many(store, count)
    workers = [kit.join_limited_worker(store) for _ in range(count)]
    return [(worker, work.take(store, worker, 1)[0]) for worker in workers]


class Toil:
    """Workers that take runs, ask, and end what goes, until all of a crowd are done."""

    def __init__(self, store, crowd):
        self._store = store
        self._crowd = crowd
        self._lock = Lock()
        self._running = 0
        self.most = 0
        self.done: Counter[bytes] = Counter()

    def __call__(self):
        worker = kit.join_limited_worker(self._store)
        while sum(self.done.values()) < self._crowd:
            claimed = work.take(self._store, worker, 4)
            if not claimed:
                self._store.open_gates(10)  # as whoever tends the store
                continue
            verdicts = ways(self._store, worker, *claimed)
            going = [one for one, way in zip(claimed, verdicts, strict=True) if way is GOES]
            self._count(len(going))
            self._count(-len(going))
            for one in going:
                assert FinishResult.ACCEPTED is work.end(self._store, worker, one, Succeeded())
                self.done[one.run_id] += 1

    def _count(self, by):
        with self._lock:
            self._running += by
            self.most = max(self.most, self._running)


# Caps


def test_many_workers_at_one_cap_are_never_more_and_none_is_forgotten(store, watch):
    """Every run goes once, and at no time more than may."""
    kit.limit(store, running=CAP)
    ids = kit.queue_many(store, CROWD)
    toil = Toil(store, CROWD)

    watch.at_once(*[toil] * 4)

    assert dict.fromkeys(ids, 1) == toil.done
    assert 0 < toil.most <= CAP
    assert [] == store.list_places()
    assert [] == store.check()


def test_of_many_that_ask_at_once_as_many_go_as_may(store, watch):
    """Each by a worker of its own, about one limit."""
    kit.limit(store, running=CAP)
    asking = claimed_each(store, 8)

    found = watch.at_once(*[lambda one=one: ways(store, *one)[0] for one in asking])

    assert {GOES: CAP, STANDS: 5} == Counter(found)
    assert [(TASK, CAP, 5, None)] == store.list_places()
    assert [] == store.check()


def test_limits_are_taken_in_order_whatever_the_order_of_requests(store, watch):
    """Two that ask for the same places in turn never wait for each other."""
    kit.limit(store, running=50)
    kit.limit(store, "tenant:*", running=50)
    kit.limit(store, running_by={"account": 20}, scope="task:other")
    ids = [work.queue(store, f"other {number}", task="other") for number in range(16)]
    ids += kit.queue_many(store, 16)
    workers = [kit.join_limited_worker(store) for _ in range(4)]
    held = [(worker, work.take(store, worker, 8)) for worker in workers]

    def asked(worker, claimed):
        keys = [(("account", str(number % 5)),) for number in range(len(claimed))]
        parts = zip(claimed, reversed(keys) if worker % 2 else keys, strict=True)
        return store.admit(worker, [kit.request(one, keys=key) for one, key in parts]).verdicts

    found = watch.at_once(*[lambda one=one: asked(*one) for one in held])

    assert {GOES: len(ids)} == Counter(verdict.way for verdicts in found for verdict in verdicts)
    assert [] == store.check()


def test_who_comes_to_stand_while_the_place_is_given_back_is_let_go(store, watch):
    """Whoever ended waits for who was deciding, and looks only then."""
    kit.limit(store, running=1)
    (one, first), (other, second) = claimed_each(store, 2)
    assert [GOES] == ways(store, one, first)
    watch.put_turnstile("INSERT", "duly.blocked")
    asking = watch.start(lambda: ways(store, other, second))
    assert watch.stands_at_the_turnstile()
    ending = watch.start(lambda: work.end(store, one, first, Succeeded()))
    assert watch.is_blocked()
    assert RunState.SUCCEEDED is work.get_run(store, first.run_id).state
    watch.open_turnstile()

    assert [STANDS] == asking.result(LIMIT_S)
    assert FinishResult.ACCEPTED is ending.result(LIMIT_S)
    assert RunState.QUEUED is work.get_run(store, second.run_id).state
    assert [] == store.check()


def test_many_who_open_the_same_gate_let_no_more_go_than_may(store, watch):
    """Those who end, and those who tend the store."""
    kit.limit(store, running=CAP)
    worker = kit.join_limited_worker(store)
    kit.queue_many(store, 12)
    claimed = work.take(store, worker)
    ways(store, worker, *claimed)

    ends = [lambda one=one: work.end(store, worker, one, Succeeded()) for one in claimed[:CAP]]
    watch.at_once(*ends, *[lambda: store.open_gates(100)] * 4)

    assert [(TASK, CAP, 12 - 2 * CAP, None)] == store.list_places()
    assert CAP == store.status().queued
    assert [] == store.check()


def test_a_limit_that_is_raised_while_somebody_comes_to_stand_lets_him_go(store, watch):
    """The order waits for the decision, and finds who stands."""
    kit.limit(store, running=1)
    (one, first), (other, second) = claimed_each(store, 2)
    assert [GOES] == ways(store, one, first)
    watch.put_turnstile("INSERT", "duly.blocked")
    asking = watch.start(lambda: ways(store, other, second))
    assert watch.stands_at_the_turnstile()
    raising = watch.start(lambda: kit.limit(store, running=2))
    assert watch.is_blocked()
    watch.open_turnstile()

    assert [STANDS] == asking.result(LIMIT_S)
    raising.result(LIMIT_S)
    assert RunState.QUEUED is work.get_run(store, second.run_id).state
    assert [] == store.check()


def test_a_limit_that_is_set_while_an_attempt_ends_counts_it_not(store, watch):
    """What runs is counted; what has ended by then leaves no place behind."""
    (worker, claimed), (other, second) = claimed_each(store, 2)
    watch.put_turnstile("INSERT", "duly.outcomes")
    ending = watch.start(lambda: work.end(store, worker, claimed, Succeeded()))
    assert watch.stands_at_the_turnstile()
    limiting = watch.start(lambda: kit.limit(store, running=5))
    assert watch.is_blocked()
    watch.open_turnstile()

    assert FinishResult.ACCEPTED is ending.result(LIMIT_S)
    limiting.result(LIMIT_S)
    assert [(TASK, 1, 0, None)] == store.list_places()
    assert [GOES] == ways(store, other, second)
    assert [] == store.check()


def test_an_attempt_that_ends_while_a_limit_is_set_gives_its_place_back(store, watch):
    """Its end waits for the count, and is no plain one any more."""
    ((worker, claimed),) = claimed_each(store, 1)
    watch.put_turnstile("INSERT", "duly.held_places")
    limiting = watch.start(lambda: kit.limit(store, running=5))
    assert watch.stands_at_the_turnstile()
    ending = watch.start(lambda: work.end(store, worker, claimed, Succeeded()))
    assert watch.is_blocked()
    watch.open_turnstile()

    limiting.result(LIMIT_S)
    assert FinishResult.ACCEPTED is ending.result(LIMIT_S)
    assert [] == store.list_places()
    assert [] == store.check()


@pytest.mark.parametrize("time", range(3))
def test_one_that_is_cancelled_while_it_is_let_go_holds_nothing(store, watch, time):
    """Whoever comes first, the place is there for the next."""
    kit.limit(store, running=1)
    worker = kit.join_limited_worker(store)
    ids = kit.queue_many(store, 3)
    claimed = work.take(store, worker)
    ways(store, worker, *claimed)

    def cancel():
        try:
            store.cancel_run(cancel_run(ids[1]))
        except Conflict:  # it was on its way from one place to another, five times
            store.cancel_run(cancel_run(ids[1]))

    watch.at_once(cancel, lambda: work.end(store, worker, claimed[0], Succeeded()))
    store.open_gates(10)

    assert RunState.CANCELLED is work.get_run(store, ids[1]).state
    assert RunState.QUEUED is work.get_run(store, ids[2]).state
    assert [(TASK, 1, 0, None)] == store.list_places()
    assert [] == store.check()


# Workers that are lost


def lost_one(store, clock):
    """Return a worker whose time has run out, its claim, what is found, and who settles it."""
    worker, claimed = work.queue_and_take(store)
    clock.advance(WORKER_TTL_US + 1)
    (lost,) = work.lost_claims(store)
    return worker, claimed, lost, work.maintain(store)


def test_one_that_is_admitted_before_it_is_settled_gives_its_place_back(store, clock, watch):
    """Whoever settles waits for the answer, and takes all of it away."""
    kit.limit(store, running=1)
    worker, claimed, lost, fence = lost_one(store, clock)
    watch.put_turnstile("INSERT", "duly.held_places")
    asking = watch.start(lambda: ways(store, worker, claimed))
    assert watch.stands_at_the_turnstile()
    settling = watch.start(lambda: work.settle_lost(store, fence, lost))
    assert watch.is_blocked()
    watch.open_turnstile()

    assert [GOES] == asking.result(LIMIT_S)
    assert [True] == settling.result(LIMIT_S)
    assert [] == store.list_places()
    assert RunState.RETRYING is work.get_run(store, claimed.run_id).state
    assert [] == store.check()


def test_one_that_is_settled_before_it_is_admitted_is_gone(store, clock, watch):
    """Killed between the claim and the question, or slow."""
    kit.limit(store, running=1)
    worker, claimed, lost, fence = lost_one(store, clock)
    watch.put_turnstile("INSERT", "duly.attempts")
    settling = watch.start(lambda: work.settle_lost(store, fence, lost))
    assert watch.stands_at_the_turnstile()
    asking = watch.start(lambda: ways(store, worker, claimed))
    assert watch.is_blocked()
    watch.open_turnstile()

    assert [True] == settling.result(LIMIT_S)
    assert [AdmissionRoute.GONE] == asking.result(LIMIT_S)
    assert [] == store.list_places()
    assert [] == store.check()


def test_one_that_is_put_off_before_it_is_settled_waits_and_was_not_lost(store, clock, watch):
    """No attempt is charged for one that never began."""
    kit.limit(store, running=1)
    other = kit.join_limited_worker(store)
    work.queue(store, "in the way")
    assert [GOES] == ways(store, other, work.take_one(store, other))
    worker, claimed, lost, fence = lost_one(store, clock)
    watch.put_turnstile("INSERT", "duly.blocked")
    asking = watch.start(lambda: ways(store, worker, claimed))
    assert watch.stands_at_the_turnstile()
    settling = watch.start(lambda: work.settle_lost(store, fence, lost))
    assert watch.is_blocked()
    watch.open_turnstile()

    assert [STANDS] == asking.result(LIMIT_S)
    assert [False] == settling.result(LIMIT_S)
    found = work.get_run(store, claimed.run_id)
    assert (RunState.BLOCKED, 0, 0) == (found.state, found.tries.attempt, found.tries.charged)
    assert [] == store.check()


# Rates


def test_turns_that_are_given_at_once_are_all_different(store, watch):
    """Each of many workers gets the next, and none gets one twice."""
    kit.limit(store, rate="1/s burst 2")
    asking = claimed_each(store, 8)

    found = watch.at_once(*[lambda one=one: kit.ask(store, *one)[0] for one in asking])

    assert {GOES: 2, LATER: 6} == Counter(verdict.way for verdict in found)
    turns = sorted(verdict.at for verdict in found if verdict.way is LATER)
    assert [store.now() + number * 1_000_000 for number in range(1, 7)] == turns
    assert [] == store.check()


# Destinations


def test_of_two_that_would_probe_at_once_one_goes(store, clock, watch):
    """Held with the probe decided and not yet written."""
    kit.fail_often(store)
    clock.advance(PAUSE_FIRST_US)
    (one, first), (other, second) = claimed_each(store, 2)
    watch.put_turnstile("UPDATE", "duly.breakers")
    early = watch.start(lambda: ways(store, one, first, destination=API))
    assert watch.stands_at_the_turnstile()
    late = watch.start(lambda: ways(store, other, second, destination=API))
    assert watch.is_blocked()
    watch.open_turnstile()

    assert ([GOES], [LATER]) == (early.result(LIMIT_S), late.result(LIMIT_S))
    breaker = kit.known(store).breaker
    assert (BreakerState.HALF_OPEN, first.run_id) == (breaker.state, breaker.probe)
    assert [] == store.check()


def test_of_many_that_would_probe_at_once_one_goes(store, clock, watch):
    kit.fail_often(store)
    clock.advance(PAUSE_FIRST_US)
    asking = claimed_each(store, 6)

    found = watch.at_once(
        *[lambda one=one: ways(store, *one, destination=API)[0] for one in asking]
    )

    assert {GOES: 1, LATER: 5} == Counter(found)
    assert [] == store.check()


def test_ends_of_many_workers_are_all_counted(store, watch):
    """The first ever, too; none is lost because two have read the same."""
    asking = claimed_each(store, FAILURES_MIN - 1)
    for one in asking:
        assert [GOES] == ways(store, *one, destination=API)

    def fail(worker, claimed):
        return work.end(store, worker, claimed, work.FATAL, is_answered=False)

    watch.at_once(*[lambda one=one: fail(*one) for one in asking])

    assert (0, FAILURES_MIN - 1) == (
        kit.known(store).breaker.succeeded,
        kit.known(store).breaker.failed,
    )
    assert [] == store.check()


def test_who_is_put_off_while_a_person_takes_the_destination_for_well_is_called_back(
    store, clock, watch
):
    """The order waits for the decision, and finds who was put off."""
    kit.fail_often(store)
    ((worker, claimed),) = claimed_each(store, 1)
    watch.put_turnstile("INSERT", "duly.waiting")
    asking = watch.start(lambda: kit.ask(store, worker, claimed, destination=API))
    assert watch.stands_at_the_turnstile()
    resetting = watch.start(lambda: store.reset_breaker(API, ADA))
    assert watch.is_blocked()
    watch.open_turnstile()

    (verdict,) = asking.result(LIMIT_S)
    assert LATER is verdict.way
    assert BreakerState.CLOSED is resetting.result(LIMIT_S).breaker.state
    assert store.now() == work.get_run(store, claimed.run_id).next_at
    assert [] == store.check()
