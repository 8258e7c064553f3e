"""Hand-overs that come to nothing: no room, no answer, no connection, or nobody to be asked.

An offer is a hint. Whatever becomes of it, each timer is fired once, and by somebody.
"""

from __future__ import annotations

from typing import Any

import pytest

from duly.domain.enums import Lane
from duly.errors import StoreUnavailable
from duly.store.ports.dispatch import FireResult
from duly.store.postgres import firing, handed
from duly.store.postgres.handing import (
    KEPT_US,
    OFFERED_MIN,
    REFUSED_US,
    SILENT_US,
    SLOTS_SHARE,
    WAITED_US,
)
from duly_conformance import steps as work
from duly_conformance.kit import HOUR_US, MINUTE_US
from tests.store.postgres.turnstile import END_WHO_STANDS_AT_THE_TURNSTILE, LIMIT_S

FIRED, GONE = FireResult.FIRED, FireResult.GONE
ELSEWHERE = "udp:127.0.0.1:9:0011223344556677"
PLANNED = "SELECT statement FROM pg_prepared_statements WHERE generic_plans > 0"
NOT_PLAIN = {
    "newest_first": True,
    "without": frozenset({"other"}),
    "queue_limits": {"default": 1000},
    "served": {"default": ""},
    "first_lane": Lane.CATCH_UP,
    "queues": ("default", "mail"),
}


@pytest.fixture(autouse=True)
def _small_crowds(monkeypatch):
    monkeypatch.setattr(firing, "HANDED_MIN", 4)


@pytest.fixture
def worker(street):
    return street.move_in()


def refs(command):
    return sorted(fire.timer.ref for fire in command.delayed)


def ids(runs):
    return sorted(run.run_id for run in runs)


def outcome(fired):
    """Return how many runs were made, and which results there are."""
    return fired.runs_made, set(fired.results)


# No room


def test_what_there_is_no_room_for_is_left_alone_and_refused_after_a_while(street, worker):
    """It may become free at any moment; but nobody waits long for that."""
    answer = street.begin(street.crowd())
    claimed = [worker.claim(limit=3), worker.claim(limit=3)]
    worker.place.wait(0)

    assert [((), True)] * 2 == [(one.runs, one.is_followed) for one in claimed]
    assert 2 == worker.hear_all()
    street.clock.advance(KEPT_US - 1)
    worker.place.wait(0)
    assert 2 == worker.hear_all()
    street.clock.advance(1)
    worker.place.wait(0)
    assert 0 == worker.hear_all()
    assert (8, {FIRED}) == outcome(answer())
    assert [] == street.willing()
    assert (0, 8, 8, 0) == street.counts()


def test_what_becomes_free_in_time_is_filled(street, worker):
    answer = street.begin(street.crowd())
    assert () == worker.claim(limit=3).runs
    first, second = worker.claim(limit=4), worker.claim(limit=4)

    assert [4, 4] == [len(one.runs) for one in (first, second)]
    assert (8, {FIRED}) == outcome(answer())
    assert (0, 8, 0, 8) == street.counts()


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_a_claim_that_asks_for_something_particular_takes_no_offers(street, worker, name):
    """By the statement that fires for it, nobody could be given what he has asked for."""
    answer = street.begin(street.crowd())
    claimed = worker.claim(**{name: NOT_PLAIN[name]})

    assert ((), False) == (claimed.runs, claimed.is_followed)
    assert (8, 0, 0, 0) == street.counts()
    assert (8, {FIRED}) == outcome(answer())
    assert (0, 8, 8, 0) == street.counts()


def test_what_is_offered_just_after_all_was_refused_is_not_taken_either(street, worker):
    """As above, whenever it arrives."""
    answer = street.begin(street.crowd())
    worker.hear_all()
    offers = worker.offers
    kept, refuse_all = offers._offers.pop(), offers.refuse_all  # noqa: SLF001 - the second is late

    def refuse_all_but_the_last():
        refuse_all()
        offers._offers.append(kept)  # noqa: SLF001 - here it comes

    offers.refuse_all = refuse_all_but_the_last
    claimed = worker.claim(without=frozenset({"remind"}))
    del offers.refuse_all
    worker.refuse()
    answer()

    assert () == claimed.runs, "of a task that it lacks"


def test_what_a_worker_was_offered_is_not_refused_by_others_who_wait(street, worker):
    """Such as a dispatcher that shares the store object with it."""
    other: Any = worker.store.wakeups()
    answer = street.begin(street.crowd())
    assert 2 == worker.hear_all()
    street.clock.advance(KEPT_US)
    other.wait(0)
    count = worker.hear_all()
    other.close()
    worker.claim_all()
    answer()

    assert 2 == count


def test_behind_a_pooler_offers_are_refused(street, pgbouncer_url):
    """Nothing is prepared there, and a statement that is not would cost more than it saves."""
    worker = street.move_in(url=pgbouncer_url(street.url))
    answer = street.begin(street.crowd())
    claimed = worker.claim()
    worker.place.wait(0)

    assert ((), False) == (claimed.runs, claimed.is_followed)
    assert (8, {FIRED}) == outcome(answer())
    assert 8 == len(worker.claim().runs)


def test_who_may_not_fire_refuses_and_takes_none_any_more(street, worker):
    """A role that may claim need not have the rights to fire; it claims as ever."""
    answer = street.begin(street.crowd())
    street.line.execute("ALTER TABLE duly.tally_changes RENAME TO elsewhere")
    claimed = worker.claim()
    street.line.execute("ALTER TABLE duly.elsewhere RENAME TO tally_changes")

    assert (True, (), False) == (claimed.is_alive, claimed.runs, claimed.is_followed)
    assert (8, {FIRED}) == outcome(answer())
    assert 0 == worker.offers.most
    assert 8 == len(worker.claim().runs)


# No answer


def test_when_nobody_answers_the_dispatcher_fires_by_itself(street, worker):
    """INV-2: whoever was silent is not asked for a while."""
    answer = street.begin(street.crowd())
    street.clock.advance(WAITED_US)
    fired = answer()

    assert (8, {FIRED}) == outcome(fired)
    assert (0, 8, 8, 0) == street.counts()
    assert [] == street.willing()
    assert None is street.store.begin_fire(street.crowd(text="again"))
    street.clock.advance(SILENT_US)
    assert 1 == len(street.willing())


def test_what_is_carried_out_afterwards_fires_nothing_and_looks_at_the_queue(street, worker):
    """INV-3: all of it is gone; and what was queued instead is claimed by the same order."""
    command = street.crowd()
    answer = street.begin(command)
    street.clock.advance(WAITED_US)
    assert (8, {FIRED}) == outcome(answer())
    assert 2 == worker.hear_all(), "only now"
    claimed = worker.claim_all()

    assert refs(command) == ids(claimed)
    assert 0 == worker.hear_all()
    assert (0, 8, 0, 8) == street.counts()
    assert {1} == {one.fence for one in claimed}
    assert [] == street.store.check()


def test_what_is_carried_out_when_all_is_over_changes_nothing(street, worker):
    """INV-3, INV-6: however late an offer is, no run comes back."""
    command = street.crowd()
    answer = street.begin(command)
    worker.hear_all()
    kept = list(worker.offers._offers)  # noqa: SLF001 - as they were heard
    taken = worker.claim_all()
    assert (8, {FIRED}) == outcome(answer())
    for one in taken:
        work.end(worker.store, worker.id, one, work.FATAL)
    before = street.look(command)
    street.clock.advance(HOUR_US // 2)
    monotonic = street.clock.monotonic_us()
    worker.offers._offers.extend(one._replace(heard_at=monotonic) for one in kept)  # noqa: SLF001

    assert [] == worker.claim_all()
    assert before == street.look(command)
    assert (0, 8, 0, 0) == street.counts()
    assert [] == street.store.check()


def test_an_offer_that_is_heard_twice_is_carried_out_once(street, worker):
    """INV-3: by whomever."""
    command = street.crowd()
    answer = street.begin(command)
    worker.hear_all()
    kept = worker.offers._offers  # noqa: SLF001 - as they were heard
    kept.extend([*kept])
    taken = worker.claim_all()

    assert refs(command) == ids(taken)
    assert (8, {FIRED}) == outcome(answer())
    assert (0, 8, 0, 8) == street.counts()
    assert [] == street.store.check()


def test_of_two_who_carry_out_the_same_offers_at_once_each_run_has_one(street, worker, watch):
    """INV-3: the row of the timer is the one that both need."""
    other = street.move_in(process=3)
    command = street.crowd(64)
    answer = street.begin(command)
    for one in (worker, other):
        one.hear_all()
    every = [*worker.offers._offers, *other.offers._offers]  # noqa: SLF001 - as they were heard
    for one in (worker, other):
        one.offers._offers.clear()  # noqa: SLF001
        one.offers._offers.extend(every)  # noqa: SLF001
    taken = watch.at_once(worker.claim_all, other.claim_all)
    answer()

    assert refs(command) == ids([*taken[0], *taken[1], *worker.claim_all()])
    assert (0, 64, 0, 64) == street.counts()
    assert [] == street.store.check()


def test_an_answer_that_is_lost_costs_nothing_but_time(street, worker):
    """INV-2, INV-3: what the worker has is gone, and nothing is there twice."""
    command = street.crowd()
    answer = street.begin(command)
    taken = worker.claim_all()
    assert 2 == street.lose_answers()
    street.clock.advance(WAITED_US)
    fired = answer()

    assert (0, {GONE}) == outcome(fired)
    assert refs(command) == ids(taken)
    assert (0, 8, 0, 8) == street.counts()
    assert [] == street.store.check()


def test_an_answer_that_comes_too_late_is_not_taken_for_another(street, worker):
    """Each offer has a number of its own."""
    answer = street.begin(street.crowd(text="first"))
    street.clock.advance(WAITED_US)
    assert (8, {FIRED}) == outcome(answer())
    assert 8 == len(worker.claim_all()), "and says that nothing has fired"
    street.clock.advance(SILENT_US)
    answer = street.begin(street.crowd(text="second"))
    taken = worker.claim_all()

    assert 8 == len(taken)
    assert (8, {FIRED}) == outcome(answer())
    assert (0, 16, 0, 16) == street.counts()


def test_one_whose_process_is_gone_is_not_waited_for(street, worker):
    """Its port is closed, which is heard; here the clock stands still, and ends no wait."""
    worker.place.close()
    answer = street.begin(street.crowd())

    assert (8, {FIRED}) == outcome(answer())
    assert [] == street.willing()
    assert (0, 8, 8, 0) == street.counts()


def test_one_whose_process_ends_with_what_it_was_offered_is_waited_for_in_vain(street, worker):
    """INV-2: nobody says that a datagram has arrived and was never looked at."""
    answer = street.begin(street.crowd())
    worker.place.close()
    street.clock.advance(WAITED_US)

    assert (8, {FIRED}) == outcome(answer())
    assert [] == street.willing()
    assert (0, 8, 8, 0) == street.counts()


def test_who_refuses_is_asked_again_soon(street, worker):
    """It may have room by then."""
    answer = street.begin(street.crowd(text="first"))
    worker.hear_all()
    worker.refuse()
    answer()

    assert [] == street.willing()
    street.clock.advance(REFUSED_US)
    assert 1 == len(street.willing())


# No connection


def test_a_connection_that_breaks_in_the_middle_leaves_nothing_half_done(street, worker, watch):
    """All of the statement, or nothing; and the dispatcher fires it."""
    command = street.crowd()
    answer = street.begin(command)
    watch.put_turnstile("INSERT", "duly.claims")
    claiming = watch.start(worker.claim)
    assert watch.stands_at_the_turnstile()
    assert watch.value(END_WHO_STANDS_AT_THE_TURNSTILE)
    with pytest.raises(StoreUnavailable, match="can't be reached"):
        claiming.result(LIMIT_S)
    watch.open_turnstile()
    assert (8, 0, 0, 0) == street.counts()
    rest = worker.claim_all()
    street.clock.advance(WAITED_US)
    fired = answer()

    assert 4 == len(rest)
    assert (0, 8, 4, 4) == street.counts()
    assert refs(command) == ids([*rest, *worker.claim_all()])
    assert 8 == fired.runs_made + fired.results.count(GONE)
    assert [] == street.store.check()


def test_a_dispatcher_that_fires_meanwhile_waits_for_the_worker(street, worker, watch):
    """INV-3: whoever is second finds the timers gone, or gets what was rolled back."""
    command = street.crowd()
    answer = street.begin(command)
    watch.put_turnstile("INSERT", "duly.claims")
    claiming = watch.start(worker.claim)
    assert watch.stands_at_the_turnstile()
    street.clock.advance(WAITED_US)
    firing_itself = watch.start(answer)
    assert watch.is_blocked_unless(firing_itself.done)
    watch.open_turnstile()
    taken, fired = claiming.result(LIMIT_S).runs, firing_itself.result(LIMIT_S)

    assert 4 == len(taken)
    assert 4 == fired.results.count(FIRED) == fired.runs_made
    assert (0, 8, 4, 4) == street.counts()
    assert refs(command) == ids([*taken, *worker.claim_all()])
    assert [] == street.store.check()


# Nobody to be asked


def test_a_few_runs_are_offered_to_nobody(street, worker):
    """There is more to an offer than that saves."""
    assert None is street.store.begin_fire(street.crowd(3))
    assert 0 == worker.hear_all()


@pytest.mark.parametrize("slots", [10, SLOTS_SHARE * OFFERED_MIN - 1])
def test_who_has_few_slots_takes_no_offers(street, slots):
    street.employ(slots=slots)
    for _ in range(3):
        assert () == street.meet()

    assert None is street.store.begin_fire(street.crowd())


def test_who_serves_several_queues_takes_no_offers(street):
    """Its claims begin with one of them in turn."""
    street.employ(queues=("default", "mail"))
    for _ in range(3):
        assert () == street.meet()

    assert None is street.store.begin_fire(street.crowd())


def test_who_has_many_slots_takes_as_many_as_fill_a_part_of_them(street):
    street.move_in(slots=SLOTS_SHARE * OFFERED_MIN)

    assert [OFFERED_MIN] == [one.most for one in street.takers()]


@pytest.mark.parametrize("address", ["", ELSEWHERE])
def test_where_somebody_is_who_does_not_answer_nobody_is_offered_anything(street, worker, address):
    """He is to have his share, too; and of what is queued he has it."""
    work.join_worker(street.store, slots=2000, wake_address=address, ttl_us=HOUR_US)
    for _ in range(3):
        street.meet()

    assert () == street.takers()
    assert None is street.store.begin_fire(street.crowd())
    assert 0 == worker.hear_all()


def test_where_somebody_is_who_has_few_slots_nobody_is_offered_anything(street, worker):
    """As above."""
    street.employ(slots=10)
    for _ in range(3):
        street.meet()

    assert () == street.takers()


def test_a_dispatcher_that_knows_nobody_fires_as_ever(street):
    command = street.crowd()

    assert None is street.store.begin_fire(command)
    assert (8, {FIRED}) == outcome(street.store.fire_timers(command))
    assert (0, 8, 8, 0) == street.counts()


def test_an_order_that_is_not_begun_ahead_is_offered_all_the_same(street, worker, watch):
    """Whoever fires waits for the answer, as with any store."""
    command = street.crowd()
    firing_it = watch.start(lambda: street.store.fire_timers(command))
    taken = []
    while not firing_it.done():
        taken += worker.claim_all()
        worker.place.wait(MINUTE_US // 600)

    assert (8, {FIRED}) == outcome(firing_it.result(LIMIT_S))
    assert refs(command) == ids(taken)


# Plans


def test_a_worker_with_many_slots_has_the_statement_planned_ahead(street):
    """Planning it takes as long as firing hundreds."""
    worker = street.employ()
    few = street.employ(slots=10)

    def planned(store):
        connections = store._connections.idle[True]  # noqa: SLF001 - they are seen nowhere else
        rows = [row for one in connections for row in one.execute(PLANNED).fetchall()]
        return [text for (text,) in rows].count(handed.FIRE_HANDED)

    assert (1, 0) == (planned(worker.store), planned(few.store))


def test_a_crowd_finds_the_statement_prepared(street, worker):
    """What is planned ahead is what is sent."""
    answer = street.begin(street.crowd())
    connections = worker.store._connections.idle[True]  # noqa: SLF001 - as above
    before = {id(one): one.prepared_count for one in connections}
    first = worker.claim()

    assert 4 == len(first.runs)
    assert before == {id(one): one.prepared_count for one in connections}
    worker.claim()
    answer()
