"""Claims that are ordered first and heard later: whose connection it is, and what breaks it."""

from __future__ import annotations

from contextlib import ExitStack

import psycopg
import pytest

from duly.domain.enums import RunState
from duly.domain.outcomes import Failed, Succeeded
from duly.errors import SchemaMismatch, StoreUnavailable
from duly.store.ports.execution import ClaimRuns, FinishResult, Heartbeat, PipelinedClaims
from duly.store.postgres import PostgresSettings
from duly_conformance import steps as work
from duly_conformance.kit import finish
from tests.store.postgres.turnstile import END_WHO_STANDS_AT_THE_TURNSTILE, LIMIT_S, Watch
from tests.waiting import comes_true

ONE = PostgresSettings(
    connections_max=1,
    limit_us=int(LIMIT_S) * 1_000_000,
    dispatch_limit_us=int(LIMIT_S) * 1_000_000,
)
"""Whoever keeps a connection leaves none to the next."""
TERMINATE = "SELECT pg_terminate_backend({}, 120000)"


@pytest.fixture
def store(patient_store):
    return patient_store


@pytest.fixture
def watch_at():
    """Look on at any database, beside its store."""
    with ExitStack() as stack:
        yield lambda url: stack.enter_context(Watch(url))


def order(worker, limit=10):
    return ClaimRuns(worker=worker, limit=limit)


def ids(claimed):
    return {run.run_id for run in claimed.runs}


def states(store, runs):
    return {work.get_run(store, run).state for run in runs}


def connection_of(store):
    """Return the connection that this thread gets, of those for dispatch."""
    with store._connections.statement(for_dispatch=True) as session:  # noqa: SLF001 - not told else
        return session.connection


def is_idle(store, connection):
    """Say whether a connection lies in the stock."""
    return any(one is connection for one in store._connections.idle[True])  # noqa: SLF001 - as above


def test_the_store_says_that_it_can_be_asked_so(store):
    assert isinstance(store, PipelinedClaims)


def test_what_was_ordered_is_carried_out_though_nobody_waits_for_it(store):
    """The server works while whoever has ordered does something else."""
    worker, runs = work.join_worker(store), {work.queue(store, text) for text in "abc"}
    answer = store.begin_claim(order(worker))

    assert comes_true(lambda: {RunState.RUNNING} == states(store, runs))
    assert runs == ids(answer())


def test_what_nobody_has_heard_of_is_a_stray(store):
    """INV-2: so nothing is lost by whoever never asks for the answer."""
    worker, run = work.join_worker(store), work.queue(store)
    answer = store.begin_claim(order(worker))
    assert comes_true(lambda: {RunState.RUNNING} == states(store, [run]))
    beaten = store.beat(Heartbeat(worker=worker))

    assert [run] == [hold.run_id for hold in beaten.strays]
    assert {run} == ids(answer())


def test_the_connection_is_given_back_with_the_answer(url, open_store):
    store = open_store(url, settings=ONE)
    worker = work.join_worker(store)
    own = connection_of(store)
    for text in "abc":
        run = work.queue(store, text)
        answer = store.begin_claim(order(worker))
        assert not is_idle(store, own)

        assert {run} == ids(answer())
        assert is_idle(store, own)
    assert own is connection_of(store)


def test_the_connection_is_given_back_though_nothing_could_be_ordered(url, open_store):
    store = open_store(url, settings=ONE)
    worker = work.join_worker(store)
    with psycopg.connect(url, autocommit=True) as line:
        line.execute("ALTER TABLE duly.ready RENAME TO unready")
        for _ in range(2):
            with pytest.raises(SchemaMismatch):
                store.begin_claim(order(worker))
        line.execute("ALTER TABLE duly.unready RENAME TO ready")

    assert () == store.begin_claim(order(worker))().runs


def test_another_statement_of_the_same_thread_goes_over_another_connection(store, watch):
    """Ends are told while a claim is under way, and none waits for the other."""
    worker = work.join_worker(store)
    for text in "ab":
        work.queue(store, text)
    one, other = store.claim_runs(order(worker)).runs
    queued = work.queue(store, "c")
    own = connection_of(store)
    watch.put_turnstile("INSERT", "duly.claims")
    answer = store.begin_claim(order(worker))
    assert watch.stands_at_the_turnstile()
    assert own is not connection_of(store)
    ends = [finish(one, Succeeded()), finish(other, Failed("again"))]
    finished = store.finish_runs(worker, ends)
    beaten = store.beat(Heartbeat(worker=worker))
    watch.open_turnstile()

    assert (FinishResult.ACCEPTED,) * 2 == finished.results
    assert (True, ()) == (beaten.is_alive, beaten.strays)
    assert {queued} == ids(answer())


def test_a_connection_that_breaks_before_the_answer_is_not_used_again(store, watch):
    """Whether it was carried out is not known; here it was not, and is done anew."""
    worker, run = work.join_worker(store), work.queue(store)
    own = connection_of(store)
    watch.put_turnstile("INSERT", "duly.claims")
    answer = store.begin_claim(order(worker))
    assert watch.stands_at_the_turnstile()
    assert watch.value(END_WHO_STANDS_AT_THE_TURNSTILE)
    watch.open_turnstile()

    with pytest.raises(StoreUnavailable, match="can't be reached"):
        answer()
    assert not is_idle(store, own)
    assert own is not connection_of(store)
    assert {RunState.QUEUED} == states(store, [run])
    assert {run} == ids(store.begin_claim(order(worker))())


def test_a_place_is_free_again_after_a_connection_has_broken(url, open_store, watch_at):
    """FAULT-14: however often that happens, others find a connection."""
    store, watch = open_store(url, settings=ONE), watch_at(url)
    worker = work.join_worker(store)
    watch.put_turnstile("INSERT", "duly.claims")
    for _ in range(2):
        answer = store.begin_claim(order(worker))
        assert watch.stands_at_the_turnstile()
        assert watch.value(END_WHO_STANDS_AT_THE_TURNSTILE)
        with pytest.raises(StoreUnavailable, match="can't be reached"):
            answer()
    watch.open_turnstile()

    assert () == store.begin_claim(order(worker))().runs


def test_an_answer_that_has_arrived_counts_though_its_server_has_ended(store, watch):
    """What was committed is told, and the connection is of no use to the next."""
    worker, run = work.join_worker(store), work.queue(store)
    own = connection_of(store)
    pid = own.info.backend_pid
    answer = store.begin_claim(order(worker))
    assert comes_true(lambda: {RunState.RUNNING} == states(store, [run]))
    assert watch.value(TERMINATE.format(pid))

    assert {run} == ids(answer())
    assert own is not connection_of(store)


@pytest.mark.parametrize("statement", ["DEALLOCATE ALL", "DISCARD ALL"])
def test_what_the_server_was_told_to_forget_is_prepared_again(store, statement):
    """The driver does the one after a rollback, and people do the other; nothing is taken twice."""
    worker = work.join_worker(store)
    runs = [work.queue(store, text) for text in "abcd"]
    taken, prepared = [], []
    for _ in runs:
        taken += ids(store.begin_claim(order(worker, 1))())
        with store._connections.statement(for_dispatch=True) as session:  # noqa: SLF001
            prepared.append(session.connection.prepared_count)
            session.connection.execute(statement)

    assert sorted(runs) == sorted(taken)
    assert len(runs) == len(set(prepared)), "each was prepared anew, or it proves nothing"
    assert {1} == {work.get_run(store, run).tries.fence for run in runs}


def test_behind_a_pooler_a_claim_is_carried_out_at_once(url, pgbouncer_url, open_store):
    """Whose connections are handed out anew for every transaction; nothing is prepared there."""
    store = open_store(pgbouncer_url(url))
    worker, run = work.join_worker(store), work.queue(store)
    answer = store.begin_claim(order(worker))

    assert {RunState.RUNNING} == states(store, [run])
    assert {run} == ids(answer())
