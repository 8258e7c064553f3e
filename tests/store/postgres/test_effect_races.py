"""Races about effects and doubt, held in the middle on purpose (INV-6, INV-11)."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from threading import Event

import pytest

from duly.domain.effects import Choice, EffectState, Grant
from duly.domain.enums import AttemptState, Finding, RunState
from duly.domain.outcomes import ReturnedToQueue, Succeeded
from duly.domain.runs import Reason
from duly.errors import Conflict, LeaseLost, StoreUnavailable
from duly.store.ports.effects import EndEffect
from duly.store.ports.execution import WORKER_TTL_US, FinishResult
from duly_conformance import steps
from duly_conformance import steps as work
from duly_conformance.effects import (
    UNSAFE,
    begin,
    end_beyond,
    in_doubt,
    rerun,
    settle_doubt,
    taken,
    verdict,
)
from duly_conformance.kit import HOUR_US, SECOND_US, finish, order_runs
from tests.postgres.proxy import Proxy
from tests.store.postgres.turnstile import LIMIT_S

KEYS = pytest.mark.parametrize("key", [None, "mail"])
LONG_US = 1000 * HOUR_US
LOCK_DOUBTS = "SELECT 1 FROM duly.ambiguous FOR UPDATE"


pytestmark = pytest.mark.usefixtures("patient")


@pytest.fixture
def store(patient_store):
    return patient_store


def lost_one(store, clock):
    """Return an unsafe task's worker whose time has run out, its claim, and who settles that."""
    worker, claimed = taken(store)
    clock.advance(WORKER_TTL_US + 1)
    fence = work.maintain(store)
    return worker, claimed, fence


def hold_at(watch, table, order="INSERT"):
    """Hold whoever writes a row of a table."""
    watch.put_turnstile(order, table, each="ROW")


def outcome_of(future):
    """Return what became of something, or how it was refused."""
    try:
        return future.result(LIMIT_S)
    except (Conflict, LeaseLost) as error:
        return type(error)


def ledger(store, run_id):
    """Return what is known of a run's effects."""
    return [(one.key, one.state) for one in store.list_effects(run_id, 10)]


# Permission, and who takes the claim away


@KEYS
def test_a_claim_that_was_permitted_meanwhile_is_not_settled_as_one_that_was_not(
    store, clock, watch, key
):
    """INV-11: who settles waits for the permission, and decides again."""
    worker, claimed, fence = lost_one(store, clock)
    (seen,) = work.lost_claims(store)
    hold_at(watch, "duly.claims", "UPDATE")
    asking = watch.start(lambda: begin(store, worker, claimed, key))
    assert watch.stands_at_the_turnstile()
    settling = watch.start(lambda: work.settle_lost(store, fence, seen))
    assert watch.is_blocked()
    watch.open_turnstile()

    assert Grant.GRANTED is asking.result(LIMIT_S).grant
    assert [False] == settling.result(LIMIT_S)
    assert RunState.RUNNING is work.get_run(store, claimed.run_id).state
    (now_seen,) = work.lost_claims(store)
    assert [True] == work.settle_lost(store, fence, now_seen)
    assert RunState.AMBIGUOUS is work.get_run(store, claimed.run_id).state
    assert [] == store.check()


@KEYS
def test_nothing_is_permitted_once_the_claim_is_settled(store, clock, watch, key):
    """INV-5: who asks waits for whoever settles, and is told that it is gone."""
    worker, claimed, fence = lost_one(store, clock)
    (seen,) = work.lost_claims(store)
    hold_at(watch, "duly.attempts")
    settling = watch.start(lambda: work.settle_lost(store, fence, seen))
    assert watch.stands_at_the_turnstile()
    asking = watch.start(lambda: begin(store, worker, claimed, key))
    assert watch.is_blocked()
    watch.open_turnstile()

    assert [True] == settling.result(LIMIT_S)
    assert Grant.GONE is asking.result(LIMIT_S).grant
    assert RunState.RETRYING is work.get_run(store, claimed.run_id).state
    assert [] == ledger(store, claimed.run_id)
    assert [] == store.check()


@KEYS
def test_a_plain_success_beside_a_permission_keeps_when_effects_began(store, watch, key):
    """Another thread of the attempt still asks; what it intended is unknown."""
    worker, claimed = taken(store)
    hold_at(watch, "duly.claims", "UPDATE")
    asking = watch.start(lambda: begin(store, worker, claimed, key))
    assert watch.stands_at_the_turnstile()
    ending = watch.start(lambda: work.end(store, worker, claimed, Succeeded()))
    assert watch.is_blocked()
    watch.open_turnstile()

    begun = asking.result(LIMIT_S)
    assert (Grant.GRANTED, FinishResult.ACCEPTED) == (begun.grant, ending.result(LIMIT_S))
    (attempt,) = store.list_attempts(claimed.run_id, 10)
    assert (AttemptState.SUCCEEDED, begun.now) == (attempt.state, attempt.effects_at)
    assert [("mail", EffectState.UNKNOWN)] * bool(key) == ledger(store, claimed.run_id)
    assert [] == store.check()


def test_a_stop_that_comes_first_is_heard(store, watch):
    """Who was asked to stop begins nothing more, however closely it was asked before."""
    worker, claimed = taken(store)
    asked = "UPDATE duly.claims SET cancel_asked_at = 1 WHERE run_id = %s"
    with watch.holding(asked, [claimed.run_id.hex()]) as held:
        asking = watch.start(lambda: begin(store, worker, claimed))
        assert watch.is_blocked()
        held.commit()

        assert Grant.STOPPING is asking.result(LIMIT_S).grant
    assert [] == ledger(store, claimed.run_id)


def test_two_threads_that_ask_for_one_effect_are_permitted_one(store, watch):
    """The same attempt asks twice, and is told the same."""
    worker, claimed = taken(store)

    asks = [lambda: begin(store, worker, claimed)] * 4
    first, *others = watch.at_once(*asks)

    assert {Grant.GRANTED} == {first.grant, *(one.grant for one in others)}
    assert [1] == [one.tries for one in store.list_effects(claimed.run_id, 10)]


def test_two_runs_of_a_line_are_not_both_permitted_an_effect(store, watch):
    """What one of them intends at this moment, the other may not."""
    worker, claimed = taken(store)
    work.end(store, worker, claimed, work.FATAL)
    rerun(store, claimed.run_id, is_repair=True)
    assert [True] == [one.is_done for one in store.retry_runs(order_runs(claimed.run_id))]
    one, two = work.take(store, worker)
    hold_at(watch, "duly.effects")
    first = watch.start(lambda: begin(store, worker, one))
    assert watch.stands_at_the_turnstile()
    # Both stand there before they write; the first to write is permitted.
    second = watch.start(lambda: begin(store, worker, two))
    assert watch.stand_at_the_turnstile(2)
    watch.open_turnstile()

    grants = {first.result(LIMIT_S).grant, second.result(LIMIT_S).grant}
    assert {Grant.GRANTED, Grant.UNKNOWN} == grants
    assert [] == store.check()


@KEYS
def test_a_permission_whose_answer_was_lost_is_given_again(timed_url, open_store, key):
    """INV-17: asked again, it is the same one."""
    with Proxy(timed_url) as proxy:
        store = open_store(proxy.url)
        worker, claimed = taken(store)
        proxy.drop_reply(b"duly.effects" if key else b"SET effects_at")
        with pytest.raises(StoreUnavailable):
            begin(store, worker, claimed, key)
        assert proxy.wait_dropped()
        (attempt,) = store.list_attempts(claimed.run_id, 10)
        assert attempt.effects_at is not None

        again = begin(store, worker, claimed, key)

        assert Grant.GRANTED is again.grant
        (same,) = store.list_attempts(claimed.run_id, 10)
        assert attempt.effects_at == same.effects_at
        assert [1] * bool(key) == [one.tries for one in store.list_effects(claimed.run_id, 10)]


def test_an_effect_whose_end_was_not_heard_of_is_done(timed_url, open_store):
    """INV-17."""
    with Proxy(timed_url) as proxy:
        store = open_store(proxy.url)
        worker, claimed = taken(store)
        begin(store, worker, claimed)
        order = EndEffect(worker=worker, hold=claimed.hold, key="mail", result='"sent"')
        proxy.drop_reply(b"SET state = 'done'")
        with pytest.raises(StoreUnavailable):
            store.end_effect(order)
        assert proxy.wait_dropped()

        assert store.end_effect(order)
        assert [("mail", EffectState.DONE)] == ledger(store, claimed.run_id)


@KEYS
def test_no_unsafe_effect_happens_twice_while_workers_die_and_others_reap(store, watch, key):
    """INV-11: each run did it once; those whose worker said nothing afterwards are in doubt."""
    store.register_policies({"remind": UNSAFE})
    ids = [work.queue(store, str(number)) for number in range(40)]
    fence = steps.own(store, ttl_us=LONG_US)
    is_over = Event()
    world: list[bytes] = []
    """Whom the world outside has seen act."""

    def toil():
        deaths = 5
        while not is_over.is_set():
            worker = work.join_worker(store, ttl_us=LONG_US)
            claimed = work.take(store, worker, 3)
            is_dying = bool(claimed) and deaths > 0
            deaths -= is_dying
            if is_dying:
                store.leave(worker)
            for one in claimed:
                # Somebody may reap it at this very moment.
                if begin(store, worker, one, key).grant is Grant.GRANTED:
                    world.append(one.run_id)
                    # About the first nothing is said, and about the others perhaps too late.
                    if not is_dying or one is not claimed[0]:
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

    assert sorted(ids) == sorted(world)
    states = Counter(work.get_run(store, one).state for one in ids)
    assert {RunState.SUCCEEDED, RunState.AMBIGUOUS} == states.keys()
    assert states[RunState.AMBIGUOUS] == len(store.list_doubts(None, 100))
    assert [] == store.check()


# What people and checks decide


def test_of_two_who_settle_a_doubt_at_once_one_does(store, watch):
    """INV-6."""
    claimed = in_doubt(store)
    with watch.holding(LOCK_DOUBTS, []) as held:
        ends = [
            watch.start(
                lambda: settle_doubt(store, claimed.run_id, Choice.RECONCILE, is_done=True)
            ),
            watch.start(lambda: settle_doubt(store, claimed.run_id, Choice.SKIP)),
            watch.start(lambda: settle_doubt(store, claimed.run_id, Choice.RETRY)),
        ]
        assert watch.is_blocked()
        held.commit()
        outcomes = [outcome_of(one) for one in ends]

    assert 2 == outcomes.count(Conflict)
    (settled,) = [one for one in outcomes if one is not Conflict]
    assert settled.state is work.get_run(store, claimed.run_id).state
    assert 1 == len(steps.audit(store, action="run.settled"))
    assert [] == store.check()


def test_who_settles_what_a_check_has_settled_is_told(store, watch):
    """He waits for the verdict."""
    claimed = in_doubt(store)
    hold_at(watch, "duly.verdicts")
    found = verdict(claimed, Finding.PRESENT)
    checking = watch.start(lambda: store.add_verdict(found))
    assert watch.stands_at_the_turnstile()
    settling = watch.start(lambda: settle_doubt(store, claimed.run_id, Choice.RETRY))
    assert watch.is_blocked()
    watch.open_turnstile()

    assert 1 == checking.result(LIMIT_S).number
    assert Conflict is outcome_of(settling)
    record = work.get_run(store, claimed.run_id)
    assert (RunState.SUCCEEDED, Reason.VERIFIED) == (record.state, record.state_reason)
    assert [] == store.check()


@pytest.mark.parametrize("finding", [Finding.PRESENT, Finding.ABSENT])
def test_a_verdict_about_what_a_person_has_settled_changes_nothing_more(store, watch, finding):
    """INV-6: it is kept."""
    claimed = in_doubt(store)
    hold_at(watch, "duly.outcomes")
    settling = watch.start(lambda: settle_doubt(store, claimed.run_id, Choice.SKIP))
    assert watch.stands_at_the_turnstile()
    found = verdict(claimed, finding)
    checking = watch.start(lambda: store.add_verdict(found))
    assert watch.is_blocked()
    watch.open_turnstile()

    assert RunState.SKIPPED is settling.result(LIMIT_S).state
    assert 1 == checking.result(LIMIT_S).number
    assert RunState.SKIPPED is work.get_run(store, claimed.run_id).state
    assert [finding] == [one.finding for one in store.list_verdicts(claimed.run_id)]
    assert [] == store.check()


def test_verdicts_that_come_at_once_are_numbered_one_after_the_other(store, watch):
    worker, claimed = taken(store)
    work.end(store, worker, claimed, Succeeded())
    found = verdict(claimed, Finding.PARTIAL)

    numbers = watch.at_once(*[lambda: store.add_verdict(found).number] * 4)

    assert [1, 2, 3, 4] == sorted(numbers)


def test_a_late_word_and_a_retry_do_not_disturb_each_other(store, clock, watch):
    """The word is kept with its attempt, and the run goes on as it was decided."""
    worker, claimed, fence = lost_one(store, clock)
    begin(store, worker, claimed)
    (seen,) = work.lost_claims(store)
    assert [True] == work.settle_lost(store, fence, seen)
    hold_at(watch, "duly.ready")
    settling = watch.start(lambda: settle_doubt(store, claimed.run_id, Choice.RETRY))
    assert watch.stands_at_the_turnstile()

    assert FinishResult.REFUSED == end_beyond(store, worker, claimed, Succeeded('"sent"'))
    watch.open_turnstile()

    assert RunState.QUEUED is settling.result(LIMIT_S).state
    assert FinishResult.REFUSED == end_beyond(store, worker, claimed, Succeeded('"sent"'))
    (attempt,) = store.list_attempts(claimed.run_id, 10)
    assert attempt.late is not None
    assert (AttemptState.SUCCEEDED, '"sent"') == (attempt.late.state, attempt.late.result)
    assert 2 == work.take_one(store, work.join_worker(store)).fence
    assert [] == store.check()


# Run once more


@pytest.mark.parametrize("is_in_doubt", [True, False])
def test_a_rerun_that_is_ordered_twice_is_made_once(store, watch, *, is_in_doubt):
    """INV-17: under one id, whatever it repeats."""
    if is_in_doubt:
        claimed = in_doubt(store)
    else:
        worker, claimed = taken(store)
        work.end(store, worker, claimed, Succeeded())
    hold_at(watch, "duly.runs")
    orders = [lambda: rerun(store, claimed.run_id, is_repair=True)] * 2
    first = watch.start(orders[0])
    assert watch.stands_at_the_turnstile()
    second = watch.start(orders[1])
    assert watch.is_blocked()
    watch.open_turnstile()

    assert first.result(LIMIT_S) == second.result(LIMIT_S)
    assert 1 == len(steps.audit(store, action="run.rerun"))
    assert 1 == steps.queued(store)
    assert [] == store.check()


def test_of_two_repairs_of_a_line_at_once_one_is_refused(store, watch):
    """Though each repairs another run of it: neither sees what the other has not committed."""
    worker, claimed = taken(store)
    work.end(store, worker, claimed, Succeeded())
    repaired = rerun(store, claimed.run_id, "zero", is_repair=True)
    work.end(store, worker, work.take_one(store, worker), Succeeded())
    hold_at(watch, "duly.runs")
    first = watch.start(lambda: rerun(store, claimed.run_id, "one", is_repair=True))
    assert watch.stands_at_the_turnstile()
    second = watch.start(lambda: rerun(store, repaired.id, "two", is_repair=True))
    assert watch.is_blocked()
    watch.open_turnstile()

    assert RunState.QUEUED is first.result(LIMIT_S).state
    assert Conflict is outcome_of(second)
    assert 1 == steps.queued(store)
    assert [] == store.check()


def test_a_repair_beside_a_person_who_settles(store, watch):
    """One of both, whoever was first."""
    claimed = in_doubt(store)
    hold_at(watch, "duly.runs")
    repairing = watch.start(lambda: rerun(store, claimed.run_id, is_repair=True))
    assert watch.stands_at_the_turnstile()
    settling = watch.start(lambda: settle_doubt(store, claimed.run_id, Choice.RETRY))
    assert watch.is_blocked()
    watch.open_turnstile()

    assert RunState.QUEUED is repairing.result(LIMIT_S).state
    assert Conflict is outcome_of(settling)
    assert RunState.FAILED is work.get_run(store, claimed.run_id).state
    assert 1 == steps.queued(store)
    assert [] == store.check()


# Transactional tasks


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_claim_that_ends_in_a_lent_transaction_is_not_settled_beside_it(
    store, clock, watch, *, is_committed
):
    """Whoever settles waits for the commit, and takes what was undone."""
    worker, claimed, fence = lost_one(store, clock)
    (seen,) = work.lost_claims(store)
    settling = None
    with suppress(LeaseLost), store.transaction(60 * SECOND_US) as lent:
        store.finish_within(lent, worker, finish(claimed, Succeeded(), policy=UNSAFE))
        settling = watch.start(lambda: work.settle_lost(store, fence, seen))
        assert watch.is_blocked()
        if not is_committed:
            raise LeaseLost("the test", "changes its mind", "begin anew")

    assert settling is not None
    assert [not is_committed] == settling.result(LIMIT_S)
    after = RunState.SUCCEEDED if is_committed else RunState.RETRYING
    assert after is work.get_run(store, claimed.run_id).state
    assert [] == store.check()
