"""Races about claims, held in the middle on purpose: two claimers, beats, ends, reaping, orders."""

from __future__ import annotations

from collections import Counter
from threading import Event

import pytest

from duly.domain.enums import AttemptState, Lane, RunState
from duly.domain.outcomes import Failed, ReturnedToQueue, Succeeded
from duly.domain.runs import Reason
from duly.errors import Conflict, StoreUnavailable
from duly.store.ports.dispatch import FireResult, FireRetry, FireTimers
from duly.store.ports.execution import WORKER_TTL_US, FinishResult, Heartbeat
from duly.timetable.interval import every
from duly_conformance import steps
from duly_conformance import steps as work
from duly_conformance.kit import SECOND_US, cancel_run, on_time, order_runs
from tests.postgres.proxy import Proxy
from tests.store.postgres.turnstile import LIMIT_S

ACCEPTED, REFUSED = FinishResult.ACCEPTED, FinishResult.REFUSED
RENEW_AS_A_BEAT_DOES = """
UPDATE duly.members SET renewed_at = duly.now_us(), expires_at = duly.now_us() + 15000000
WHERE id = %s"""
LOCK_WAITING = "SELECT 1 FROM duly.waiting WHERE run_id = %s FOR UPDATE"


pytestmark = pytest.mark.usefixtures("patient")


@pytest.fixture
def store(patient_store):
    return patient_store


def expire(clock):
    """Let the time of a worker run out that does not beat."""
    clock.advance(WORKER_TTL_US + 1)


def lost_one(store, clock):
    """Return a worker whose time has run out, its claim, and what is found about it."""
    worker, claimed = work.queue_and_take(store)
    expire(clock)
    (lost,) = work.lost_claims(store)
    return worker, claimed, lost


# Claiming


def test_who_claims_does_not_wait_for_another_who_does(store, watch):
    """No two get the same run; what the first one has locked, the second passes over."""
    ids = [work.queue(store, text) for text in "abcdef"]
    first, second = work.join_worker(store), work.join_worker(store)
    watch.put_turnstile("INSERT", "duly.claims")
    # The second one does not pass there: it writes to the same table, so it stands there, too.
    early = watch.start(lambda: work.take_ids(store, first, 2))
    assert watch.stands_at_the_turnstile()
    late = watch.start(lambda: work.take_ids(store, second, 2))
    assert watch.stand_at_the_turnstile(2)
    watch.open_turnstile()
    taken = early.result(LIMIT_S) + late.result(LIMIT_S)

    assert 4 == len(set(taken))
    assert set(taken) <= set(ids)
    assert [] == store.check()


def test_many_who_claim_and_finish_at_once_share_all_runs_out(store, watch):
    """Every run to exactly one worker, whatever the leaf of the queue that it is in."""
    ids = []
    for era in range(4):
        watch.line.execute("UPDATE duly.cluster SET era = %s", [era])
        ids += [work.queue(store, f"{era}/{number}") for number in range(60)]
    taken: Counter[bytes] = Counter()

    def toil():
        worker = work.join_worker(store)
        while claimed := work.take(store, worker, 7):
            taken.update(one.record.id for one in claimed)
            results = {work.end(store, worker, one, Succeeded()) for one in claimed}
            assert {ACCEPTED} == results

    watch.at_once(*[toil] * 4)

    assert dict.fromkeys(ids, 1) == taken
    assert (0, 0) == (store.status().queued, store.status().running)
    assert [] == store.check()


def test_who_claims_does_not_wait_for_an_open_fire(store, clock, watch):
    """What is fired is there with its commit, and nobody stands still for it."""
    record = steps.create(store, timetable=every("1m"))
    waiting = work.queue(store, "queued before")
    worker = work.join_worker(store, ttl_us=10**12)
    steps.fall_due(clock, record)
    fence = steps.own(store, (Lane.LIVE,))
    watch.put_turnstile("INSERT", "duly.runs")
    fired = watch.start(lambda: steps.fire(store, fence, on_time(record)))
    assert watch.stands_at_the_turnstile()

    assert [waiting] == work.take_ids(store, worker)
    watch.open_turnstile()
    assert (FireResult.FIRED,) == fired.result(LIMIT_S).results
    assert 1 == len(work.take_ids(store, worker))


def test_who_is_declared_dead_has_claimed_before_or_never(store, clock, watch):
    """The reaper waits for a claim that is under way, and finds it next time."""
    worker, _, lost = lost_one(store, clock)
    work.queue(store, "second")
    fence = work.maintain(store)
    store.now()
    watch.line.execute(RENEW_AS_A_BEAT_DOES.encode(), [worker])
    watch.put_turnstile("INSERT", "duly.claims")
    claiming = watch.start(lambda: work.take_ids(store, worker))
    assert watch.stands_at_the_turnstile()
    watch.line.execute("UPDATE duly.members SET expires_at = 1 WHERE id = %s", [worker])
    settling = watch.start(lambda: work.settle_lost(store, fence, lost))

    assert watch.is_blocked()
    watch.open_turnstile()
    assert 1 == len(claiming.result(LIMIT_S))
    assert [True] == settling.result(LIMIT_S)
    assert [] == work.take_ids(store, worker)
    assert 1 == len(work.lost_claims(store))


# The reaper and the beat


def test_a_beat_that_came_first_keeps_what_the_worker_holds(store, clock, watch):
    """Never is anybody evicted who renews; who settles looks again with the row in his hand."""
    worker, claimed, lost = lost_one(store, clock)
    fence = work.maintain(store)
    with watch.holding(RENEW_AS_A_BEAT_DOES, [worker]) as beating:
        settling = watch.start(lambda: work.settle_lost(store, fence, lost))
        assert watch.is_blocked()
        beating.commit()

        assert [False] == settling.result(LIMIT_S)
    assert RunState.RUNNING is work.get_run(store, claimed.record.id).state
    assert store.beat(Heartbeat(worker=worker, holds=(claimed.hold,))).is_alive


def test_a_beat_that_comes_second_finds_the_worker_dead(store, clock, watch):
    """And it stays so."""
    worker, claimed, lost = lost_one(store, clock)
    fence = work.maintain(store)
    watch.put_turnstile("INSERT", "duly.attempts")
    settling = watch.start(lambda: work.settle_lost(store, fence, lost))
    assert watch.stands_at_the_turnstile()
    beating = watch.start(lambda: store.beat(Heartbeat(worker=worker, holds=(claimed.hold,))))

    assert watch.is_blocked()
    watch.open_turnstile()
    assert [True] == settling.result(LIMIT_S)
    assert not beating.result(LIMIT_S).is_alive
    (stop,) = store.beat(Heartbeat(worker=worker, holds=(claimed.hold,))).stops
    assert (claimed.hold, "gone") == (stop.hold, stop.kind)


# The end of an attempt, and the reaper


@pytest.mark.parametrize("end", [Succeeded("42"), Failed("no")])
def test_an_end_that_came_first_stands(store, clock, watch, end):
    """Whoever settles waits for it, and finds nothing to settle."""
    worker, claimed, lost = lost_one(store, clock)
    fence = work.maintain(store)
    is_success = isinstance(end, Succeeded)
    watch.put_turnstile("INSERT", "duly.outcomes" if is_success else "duly.waiting")
    ending = watch.start(lambda: work.end(store, worker, claimed, end))
    assert watch.stands_at_the_turnstile()
    settling = watch.start(lambda: work.settle_lost(store, fence, lost))

    assert watch.is_blocked()
    watch.open_turnstile()
    assert ACCEPTED is ending.result(LIMIT_S)
    assert [False] == settling.result(LIMIT_S)
    state = RunState.SUCCEEDED if is_success else RunState.RETRYING
    assert state is work.get_run(store, claimed.record.id).state
    assert [] == store.check()


@pytest.mark.parametrize("end", [Succeeded("42"), Failed("no")])
def test_an_end_that_comes_second_is_refused_and_kept(store, clock, watch, end):
    """INV-6: nothing changes, and what was said is evidence."""
    worker, claimed, lost = lost_one(store, clock)
    fence = work.maintain(store)
    watch.put_turnstile("INSERT", "duly.attempts")
    settling = watch.start(lambda: work.settle_lost(store, fence, lost))
    assert watch.stands_at_the_turnstile()
    ending = watch.start(lambda: work.end(store, worker, claimed, end))

    assert watch.is_blocked()
    watch.open_turnstile()
    assert [True] == settling.result(LIMIT_S)
    assert REFUSED is ending.result(LIMIT_S)
    assert RunState.RETRYING is work.get_run(store, claimed.record.id).state
    (attempt,) = store.list_attempts(claimed.record.id)
    assert (AttemptState.LOST, True) == (attempt.state, attempt.late is not None)
    assert 1 == len(steps.audit(store, action="attempt.refused"))
    assert [] == store.check()


# People's orders


def test_a_cancellation_that_comes_second_finds_the_run_over(store, watch):
    worker, claimed = work.queue_and_take(store)
    watch.put_turnstile("INSERT", "duly.outcomes")
    ending = watch.start(lambda: work.end(store, worker, claimed, Succeeded()))
    assert watch.stands_at_the_turnstile()
    cancelling = watch.start(lambda: store.cancel_run(cancel_run(claimed.record.id)))

    assert watch.is_blocked()
    watch.open_turnstile()
    assert ACCEPTED is ending.result(LIMIT_S)
    with pytest.raises(Conflict, match="is over already: succeeded"):
        cancelling.result(LIMIT_S)


@pytest.mark.parametrize(
    ("end", "state"), [(Succeeded(), RunState.SUCCEEDED), (Failed("no"), RunState.CANCELLED)]
)
def test_a_cancellation_that_came_first_is_seen_by_the_end(store, watch, end, state):
    """The row has changed since the end's statement began: it goes by what is there now."""
    worker, claimed = work.queue_and_take(store)
    watch.put_turnstile("INSERT", "duly.audit")
    cancelling = watch.start(lambda: store.cancel_run(cancel_run(claimed.record.id)))
    assert watch.stands_at_the_turnstile()
    ending = watch.start(lambda: work.end(store, worker, claimed, end))

    assert watch.is_blocked()
    watch.open_turnstile()
    assert RunState.RUNNING is cancelling.result(LIMIT_S).state
    assert ACCEPTED is ending.result(LIMIT_S)
    assert state is work.get_run(store, claimed.record.id).state
    (attempt,) = store.list_attempts(claimed.record.id)
    assert attempt.cancel_asked_at is not None
    assert [] == store.check()


def test_who_cancels_a_run_that_is_being_claimed_asks_its_worker(store, watch):
    run_id = work.queue(store)
    worker = work.join_worker(store)
    watch.put_turnstile("INSERT", "duly.claims")
    claiming = watch.start(lambda: work.take_one(store, worker))
    assert watch.stands_at_the_turnstile()
    cancelling = watch.start(lambda: store.cancel_run(cancel_run(run_id)))

    assert watch.is_blocked()
    watch.open_turnstile()
    hold = claiming.result(LIMIT_S).hold
    assert RunState.RUNNING is cancelling.result(LIMIT_S).state
    (stop,) = store.beat(Heartbeat(worker=worker, holds=(hold,))).stops
    assert (hold, "cancel") == (stop.hold, stop.kind)


def test_a_run_that_is_being_claimed_is_not_cancelled_as_well(store, watch):
    """A cancellation that came first leaves nothing to claim, and nobody waits for it."""
    run_id = work.queue(store)
    worker = work.join_worker(store)
    watch.put_turnstile("INSERT", "duly.outcomes")
    cancelling = watch.start(lambda: store.cancel_run(cancel_run(run_id)))
    assert watch.stands_at_the_turnstile()

    assert [] == work.take_ids(store, worker)
    watch.open_turnstile()
    assert RunState.CANCELLED is cancelling.result(LIMIT_S).state


def test_a_retry_that_somebody_holds_is_busy_and_the_others_go_on(store, clock, watch):
    """One row that is locked holds nobody up."""
    held, free = work.make_waiting(store, "held"), work.make_waiting(store, "free")
    clock.advance(8 * SECOND_US)
    fence = steps.own(store, (Lane.LIVE,))
    timers = {timer.ref: timer for timer in steps.load(store, store.now())}
    with watch.holding(LOCK_WAITING, [held.hex()]):
        command = FireTimers(
            fence=fence, retries=tuple(FireRetry(timers[one]) for one in (held, free))
        )
        # Otherwise the statement for all would wait as long as a race may take.
        store._connections.held_up.note([(held, FireResult.BUSY)])  # noqa: SLF001
        fired = store.fire_timers(command)

        assert (FireResult.BUSY, FireResult.FIRED) == fired.results


def test_an_order_to_retry_and_its_timer_never_both_queue_a_run(store, clock, watch):
    run_id = work.make_waiting(store)
    clock.advance(8 * SECOND_US)
    fence = steps.own(store, (Lane.LIVE,))
    (timer,) = steps.load(store, store.now())
    command = FireTimers(fence=fence, retries=(FireRetry(timer),))
    watch.put_turnstile("INSERT", "duly.ready_0")
    retrying = watch.start(lambda: store.retry_runs(order_runs(run_id)))
    fired = watch.start(lambda: store.fire_timers(command))
    watch.open_turnstile()
    (ordered,) = retrying.result(LIMIT_S)
    (result,) = fired.result(LIMIT_S).results

    assert ordered.is_done is (result is not FireResult.FIRED)
    assert 1 == store.status().queued
    assert [] == store.check()


# Lost answers


@pytest.mark.parametrize("end", [Succeeded("42"), Failed("no")])
def test_an_end_whose_answer_was_lost_is_accepted_when_it_is_told_again(timed_url, open_store, end):
    """It is the same claim's end, and nothing happens twice."""
    with Proxy(timed_url) as proxy:
        store = open_store(proxy.url)
        worker, claimed = work.queue_and_take(store)
        statement = b"DELETE FROM duly.claims" if isinstance(end, Succeeded) else b"COMMIT"
        proxy.drop_reply(statement)
        with pytest.raises(StoreUnavailable):
            work.end(store, worker, claimed, end)
        assert proxy.wait_dropped()

        assert ACCEPTED is work.end(store, worker, claimed, end)
        assert 1 == len(store.list_attempts(claimed.record.id))
        assert [] == steps.audit(store, action="attempt.refused")
        assert [] == store.check()


def test_a_claim_whose_answer_was_lost_is_found_again_by_the_beat(timed_url, open_store):
    with Proxy(timed_url) as proxy:
        store = open_store(proxy.url)
        run_id = work.queue(store)
        worker = work.join_worker(store)
        proxy.drop_reply(b"INSERT INTO duly.claims")
        with pytest.raises(StoreUnavailable):
            work.take(store, worker)
        assert proxy.wait_dropped()
        beaten = store.beat(Heartbeat(worker=worker))

        assert [run_id] == [stray.run_id for stray in beaten.strays]


def test_workers_that_die_and_a_reaper_at_once_lose_no_run(store, watch):
    """INV-4, INV-5: every run ends once, whatever is taken from whom in between."""
    ids = [work.queue(store, str(number)) for number in range(40)]
    fence = steps.own(store, ttl_us=10**13)
    is_over = Event()

    def toil():
        deaths = 10
        while not is_over.is_set():
            worker = work.join_worker(store, ttl_us=10**13)
            claimed = work.take(store, worker, 3)
            is_dying = bool(claimed) and deaths > 0
            deaths -= is_dying
            if is_dying:
                store.leave(worker)
            # The first is left lying; about the others it still speaks, and perhaps too late.
            for one in claimed[is_dying:]:
                work.end(store, worker, one, Succeeded())

    def reap():
        try:
            while store.list_queues():
                lost = work.lost_claims(store)
                work.settle_lost(
                    store, fence, *lost, how=ReturnedToQueue(Reason.LOST, is_started=False)
                )
        finally:
            is_over.set()

    watch.at_once(toil, toil, reap)

    assert {RunState.SUCCEEDED} == {work.get_run(store, one).state for one in ids}
    assert [] == store.check()
