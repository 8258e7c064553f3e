"""Connections: opened when needed, closed in doubt, never waited for without end."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg import pq

from duly.domain.enums import Lane
from duly.engine.manual_clock import ManualClock
from duly.errors import SchemaMismatch, StoreError, StoreUnavailable, UsageError
from duly.store.ports.dispatch import Join, LeaseKey, MemberId, MemberKind
from duly.store.ports.execution import ClaimRuns, Heartbeat, SaveCheckpoint
from duly.store.postgres import PostgresSettings
from duly.store.postgres.connection import PLANS_KEPT_US
from duly.store.postgres.prepared import PreparedSession
from duly.store.postgres.urls import read_url, safe_name
from duly.store.wakeups import SECOND_US
from duly_conformance import steps as work
from duly_conformance.kit import add_runs, new_run
from tests.postgres.proxy import Proxy
from tests.waiting import comes_true, wait_until

SHORT = PostgresSettings(limit_us=3 * SECOND_US, dispatch_limit_us=3 * SECOND_US)
FORKS = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
"""Newer Pythons warn of it, and rightly; people do it all the same."""
JOIN = Join(kind=MemberKind.DISPATCHER, host="here", process=1)


def test_nothing_is_opened_before_the_first_use(open_store):
    store = open_store("postgresql://127.0.0.1:1/nowhere")

    with pytest.raises(StoreUnavailable, match="can't be reached"):
        store.now()


@pytest.mark.parametrize("word", ["secret", "hunter2"])
def test_a_message_never_shows_the_password(open_store, word):
    store = open_store(f"postgresql://me:{word}@127.0.0.1:1/nowhere")

    with pytest.raises(StoreUnavailable) as caught:
        store.now()

    assert word not in str(caught.value)
    assert word not in store.name


def test_several_hosts_are_named_as_they_were_given():
    given = read_url("postgresql://me@a,b:5433,c/app?target_session_attrs=read-write")

    assert "postgresql://a,b:5433,c/app" == safe_name(given)
    assert "read-write" == given["target_session_attrs"]


def test_a_url_that_cannot_be_read_is_a_mistake_of_the_callers():
    with pytest.raises(UsageError, match="url"):
        read_url("postgresql://me@host/app?nonsense=1")


def test_the_dialect_of_sqlalchemy_is_understood():
    assert "app" == read_url("postgresql+psycopg://me@host/app")["dbname"]


def test_an_empty_database_gets_the_schema_once_by_many_at_once(database, open_store):
    """Of several that come at once, one makes it."""
    stores = [open_store(database) for _ in range(6)]
    problems = []

    def use(store):
        try:
            store.add_runs(add_runs(new_run(None, f"of {stores.index(store)}")))
        except Exception as error:  # noqa: BLE001 - told below
            problems.append(error)

    threads = [threading.Thread(target=use, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [] == problems
    assert len(stores) == stores[0].status().queued


def test_it_comes_back_after_every_backend_was_terminated(postgres_server, url, open_store):
    """The idle connections of the stock are noticed to be dead before anything is asked of them."""
    store = open_store(url)
    store.now()
    postgres_server.kill_backends(url)

    assert store.now() > 0
    assert store.status().now > 0


def test_it_comes_back_after_a_restart(private_server, open_store):
    store = open_store(private_server.create_database())
    member, _ = store.join(JOIN)
    private_server.stop("immediate")
    with pytest.raises(StoreUnavailable):
        store.now()
    private_server.start()

    assert store.acquire_leases(member, [LeaseKey(0, Lane.LIVE)])


def test_an_answer_that_is_swallowed_is_not_waited_for_for_ever(url, open_store):
    """The connection still stands; only a limit of our own can tell."""
    with Proxy(url) as proxy:
        store = open_store(proxy.url, settings=SHORT)
        wait_until("the store answers", lambda: answer_of(store))
        proxy.swallow()
        with pytest.raises(StoreUnavailable):
            store.now()
        proxy.heal()

        assert wait_until("the store answers again", lambda: answer_of(store))


def answer_of(store):
    """Return the store's time, or nothing where a busy machine took longer than the short limit."""
    with suppress(StoreUnavailable):
        return store.now()
    return None


def test_what_was_ordered_when_an_answer_was_lost_can_be_ordered_again(url, open_store):
    """INV-17: the same id is the same order, whether it arrived or not."""
    order = add_runs(new_run(None))
    with Proxy(url) as proxy:
        store = open_store(proxy.url)
        store.now()
        proxy.drop_reply(b"INSERT INTO duly.runs")
        with pytest.raises(StoreUnavailable):
            store.add_runs(order)
        (again,) = store.add_runs(order)

        assert not again.is_new
        assert 1 == store.status().queued


@FORKS
def test_a_child_process_opens_connections_of_its_own(url, open_store):
    """A connection that two processes use is of no use to either."""
    store = open_store(url)
    parent = _backend(store)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with os.fdopen(writer, "w") as told:
            told.write(str(_backend(store)))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as heard:
        said = heard.read()
    _, status = os.waitpid(child, 0)

    assert 0 == status
    assert said
    assert str(parent) != said
    assert parent == _backend(store)


def test_more_threads_than_connections_wait_their_turn(url, open_store):
    store = open_store(url, settings=PostgresSettings(connections_max=2))
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(store.now())) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 12 == len(seen)
    assert _client_backends(url) <= 2


def test_plans_do_not_get_old(url, open_store):
    """A generic plan of an empty table would be kept while it fills."""
    clock = ManualClock()
    store = open_store(url, clock)
    for _ in range(20):
        store.load_timers(_nothing_loaded())
    clock.advance(PLANS_KEPT_US + 1)
    store.load_timers(_nothing_loaded())

    with store._connections.borrowed() as connection:  # noqa: SLF001 - the plan is not seen else
        assert clock.monotonic_us() == connection.planned_at


def test_what_the_server_was_told_to_forget_is_prepared_again(url, open_store):
    """The driver does so after a rollback."""
    store = open_store(url)
    worker = work.join_worker(store)
    for _ in range(2):
        assert () == store.claim_runs(ClaimRuns(worker=worker, limit=1)).runs
        with store._connections.statement(for_dispatch=True) as session:  # noqa: SLF001
            session.connection.execute("DEALLOCATE ALL")


def test_a_number_that_is_too_large_is_an_error_of_the_store(url, open_store):
    """It is left to the driver, whose errors are known."""
    store = open_store(url)
    with pytest.raises(StoreError):
        store.beat(Heartbeat(worker=MemberId(1 << 70)))


def test_a_pooler_is_noticed_and_nothing_is_prepared(url, pgbouncer_url, open_store):
    direct, pooled = open_store(url), open_store(pgbouncer_url(url))

    assert (False, 3) == _manner(direct)
    assert (True, None) == _manner(pooled)


def test_a_newer_schema_is_refused_at_the_next_write(url, open_store):
    """Somebody migrates while an older program runs."""
    store = open_store(url)
    member, _ = store.join(JOIN)
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("UPDATE duly.cluster SET program_min = 99")
        other.execute("INSERT INTO duly.migrations VALUES (99, 'pre', 'later', '', 0)")

    with pytest.raises(SchemaMismatch, match="newer"):
        store.leave(member)


def test_a_transaction_that_stands_still_is_ended_by_the_server(url, open_store):
    """Whoever is stopped in the middle holds nothing for as long as a lease lasts."""
    store = open_store(url)

    def stand_still():
        with store._connections.write() as work:  # noqa: SLF001 - no order of ours stands still
            pid = work.session.rows("SELECT pg_backend_pid()")[0][0]
            assert comes_true(lambda: pid not in _backends(url))
            work.look_at_the_clock()

    with pytest.raises(StoreUnavailable):
        stand_still()


def _nothing_loaded():
    from duly.store.ports.dispatch import LoadTimers

    return LoadTimers(shards=(0, 1), after=None, until=0, limit=10)


def _backend(store):
    with store._connections.statement() as session:  # noqa: SLF001 - who answers is not said else
        return session.rows("SELECT pg_backend_pid()")[0][0]


def _manner(store):
    store.now()
    with store._connections.borrowed() as connection:  # noqa: SLF001 - as above
        return connection.is_pooled, connection.prepare_threshold


def _backends(url):
    with psycopg.connect(url, autocommit=True) as watcher:
        rows = watcher.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name = 'duly'"
        ).fetchall()
    return {pid for (pid,) in rows}


def _client_backends(url):
    return len(_backends(url))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:Hu/sh@127.0.0.1:5432/app",
        "postgresql://me:Hu@sh@127.0.0.1:5432/app",
        "postgresql://me:pw@127.0.0.1:543x/app",
    ],
)
def test_a_password_that_breaks_the_url_is_not_shown(url):
    """RELIABILITY's secrets: it is refused as a whole, with the remedy."""
    with pytest.raises(UsageError, match="percent-encoding") as caught:
        read_url(url)

    assert "Hu" not in str(caught.value)
    assert "sh@" not in str(caught.value)


def test_an_unknown_option_is_named():
    with pytest.raises(UsageError, match="sslmod"):
        read_url("postgresql://me:secret@host/app?sslmod=require")


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_texts_arrive_as_they_are_whatever_the_environment_says(
    url, open_store, monkeypatch, encoding
):
    """Arrays are encoded by us, so the connection's encoding is not left to others."""
    monkeypatch.setenv("PGCLIENTENCODING", encoding)
    store = open_store(url)
    store.add_runs(add_runs(new_run(store.now() + 10**9, key="schlüssel-日本")))

    found = store.find_delayed("default", "schlüssel-日本")

    assert found is not None
    assert "schlüssel-日本" == found.key


@FORKS
def test_a_child_takes_over_none_of_the_parents_locks(url, open_store):
    """Somebody is in the middle of a call when the process forks."""
    store = open_store(url, settings=PostgresSettings(connections_max=1))
    inside, over = threading.Event(), threading.Event()

    def hold():
        with store.transaction(30 * SECOND_US):
            inside.set()
            over.wait(120)

    thread = threading.Thread(target=hold)
    thread.start()
    assert inside.wait(120)
    child = os.fork()
    if child == 0:
        os._exit(0 if store.now() > 0 else 1)
    _, status = os.waitpid(child, 0)
    over.set()
    thread.join()

    assert 0 == status


def test_checkpoints_of_tasks_hold_up_no_heartbeat(url, open_store):
    """FAULT-14: however many of them a slow server keeps waiting."""
    store = open_store(url, settings=PostgresSettings(connections_max=1))
    worker, claimed = work.queue_and_take(store)
    order = SaveCheckpoint(worker=worker, hold=claimed.hold, partition="", state="1")
    with psycopg.connect(url) as line:
        line.execute("LOCK TABLE duly.checkpoints IN ACCESS EXCLUSIVE MODE")
        saving = threading.Thread(target=lambda: store.save_checkpoint(order))
        saving.start()
        assert comes_true(lambda: is_waited_for(line))
        beaten = store.beat(Heartbeat(worker=worker, holds=(claimed.hold,)))
        line.rollback()
    saving.join()

    assert (True, ()) == (beaten.is_alive, beaten.stops)
    assert {"": "1"} == store.get_checkpoints(claimed.record.id)


def is_waited_for(line):
    """Say whether somebody waits for what a connection has locked."""
    return line.execute("SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted)").fetchone()[0]


class Ended:
    """A connection whose server was told to end just behind its answer, as libpq tells it."""

    def __init__(self, pgconn: pq.abc.PGconn) -> None:
        self.pgconn = pgconn

    def wait(self, asking: object) -> list[pq.abc.PGresult]:
        kinds = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.FATAL_ERROR)
        return [self.pgconn.make_empty_result(one) for one in kinds]


def test_an_answer_behind_which_the_server_ends_is_not_believed(url):
    """Whether it was carried out is looked up, and never assumed."""
    with psycopg.connect(url) as connection:
        ended: Any = Ended(connection.pgconn)

        with pytest.raises(psycopg.DatabaseError):
            PreparedSession(ended)._answer()  # noqa: SLF001 - what libpq tells in this case only


def test_a_thread_gets_the_connection_that_it_has_had_before(store):
    """What it asks for is planned there; the one that came back last is another's."""
    connections = store._connections  # noqa: SLF001 - which one it is, is not told
    mine = connections.take(10.0, for_dispatch=False)
    others = connections.take(10.0, for_dispatch=False)
    connections.give_back(mine, None)
    thread = threading.Thread(target=connections.give_back, args=(others, None))
    thread.start()
    thread.join()
    again = connections.take(10.0, for_dispatch=False)
    connections.give_back(again, None)

    assert mine is not others
    assert mine is again
