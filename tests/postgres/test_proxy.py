"""What the proxy does to connections, in this process and as one of its own."""

from __future__ import annotations

import socket
import threading

import psycopg
import pytest

from duly.clock import SystemClock
from tests.postgres.proxy import Proxy, ProxyProcess
from tests.waiting import comes_true

COUNT = "SELECT count(*) FROM kept"
INSERT = "INSERT INTO kept VALUES (1)"


def with_table(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept (one int)")


@pytest.fixture
def place(lend_database):
    return lend_database(with_table)


@pytest.fixture(params=[Proxy, ProxyProcess])
def proxy(place, request):
    with request.param(place) as made:
        yield made


def connect(url: str) -> psycopg.Connection:
    return psycopg.connect(url, autocommit=True, connect_timeout=120)


def count(place: str) -> int:
    with connect(place) as connection:
        row = connection.execute(COUNT).fetchone()
    return row[0] if row else -1


def test_without_a_fault_everything_passes(place, proxy):
    with connect(proxy.url) as connection, connection.cursor() as cursor:
        with cursor.copy("COPY kept FROM STDIN") as copy:
            for number in range(50_000):
                copy.write_row([number])
        with connection.pipeline():
            cursor.execute(INSERT)
            cursor.execute(COUNT)

        assert (50_001,) == cursor.fetchone()
        cursor.execute("SELECT repeat('x', 1000000)")

        assert 1_000_000 == len((cursor.fetchone() or [""])[0])
        assert 1 == proxy.connections
    assert comes_true(lambda: 0 == proxy.connections)


@pytest.mark.parametrize("fault", ["cut", "reset"])
def test_a_cut_ends_every_connection_and_new_ones_pass(place, proxy, fault):
    with connect(proxy.url) as first, connect(proxy.url) as second:
        getattr(proxy, fault)()
        for connection in (first, second):
            with pytest.raises(psycopg.OperationalError):
                connection.execute(COUNT)

    assert 0 == count(proxy.url)


def test_a_cut_is_told_in_good_order_and_a_reset_is_not(proxy):
    with raw_connection(proxy) as client:
        proxy.cut()

        assert b"" == client.recv(1)
    with raw_connection(proxy) as client:
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def raw_connection(proxy: Proxy | ProxyProcess) -> socket.socket:
    """Return a connection that says nothing, once it is carried."""
    client = socket.create_connection(("127.0.0.1", proxy.port), 20)

    assert comes_true(lambda: 1 == proxy.connections)
    return client


def test_new_connections_are_refused_while_old_ones_stay(place, proxy):
    with connect(proxy.url) as old:
        proxy.refuse()
        with pytest.raises(psycopg.OperationalError):
            connect(proxy.url)

        assert (0,) == old.execute(COUNT).fetchone()
    proxy.accept()

    assert 0 == count(proxy.url)


@pytest.mark.parametrize("delays", [(150, 0), (0, 150), (75, 75)])
def test_what_is_said_arrives_later(proxy, delays):
    clock = SystemClock()
    with connect(proxy.url) as connection:
        proxy.delay(*delays)
        asked_at = clock.monotonic_us()
        connection.execute("SELECT 1")

        assert clock.monotonic_us() - asked_at >= 150_000


def test_a_swallowed_connection_stays_and_is_silent(place, proxy):
    with connect(proxy.url) as connection:
        proxy.swallow()
        thread, problems = in_background(connection, INSERT)
        # A second connection hangs in its greeting.
        with pytest.raises(psycopg.OperationalError, match="timeout"):
            psycopg.connect(proxy.url, connect_timeout=2)

        assert thread.is_alive()
        assert 0 == count(place)
        proxy.heal()
        thread.join(120)

    assert [psycopg.OperationalError] == problems
    assert 0 == count(proxy.url)


def test_what_was_held_arrives_late(place, proxy):
    with connect(proxy.url) as connection:
        proxy.hold()
        thread, problems = in_background(connection, INSERT)

        assert 0 == count(place)
        proxy.heal()
        thread.join(120)

    assert [] == problems
    assert 1 == count(place)


def in_background(
    connection: psycopg.Connection, statement: str
) -> tuple[threading.Thread, list[type[Exception]]]:
    """Run a statement in a thread, and note how it fails if it does."""
    problems: list[type[Exception]] = []

    def run() -> None:
        try:
            connection.execute(statement.encode())
        except psycopg.Error as error:
            problems.append(type(error))

    thread = threading.Thread(target=run)
    thread.start()
    return thread, problems


@pytest.mark.parametrize("then", ["cut", "reset"])
def test_the_reply_of_a_commit_is_lost_and_the_commit_is_not(place, proxy, then):
    with connect(proxy.url) as connection:
        proxy.drop_reply(b"INSERT INTO kept", then)

        assert (0,) == connection.execute(COUNT).fetchone()
        with pytest.raises(psycopg.OperationalError):
            connection.execute(INSERT)
    assert proxy.wait_dropped()
    assert 1 == proxy.dropped
    assert 1 == count(place)


def test_the_reply_of_a_transaction_s_end_is_lost(place, proxy):
    with psycopg.connect(proxy.url) as connection:
        connection.execute(INSERT)
        proxy.drop_reply(b"COMMIT")
        with pytest.raises(psycopg.OperationalError):
            connection.commit()

    assert 1 == count(place)


def test_a_prepared_statement_is_recognised(place, proxy):
    with connect(proxy.url) as connection:
        connection.execute(INSERT, prepare=True)
        proxy.drop_reply(b"INSERT INTO kept")
        with pytest.raises(psycopg.OperationalError):
            connection.execute(INSERT, prepare=True)

    assert proxy.wait_dropped()
    assert 2 == count(place)


def test_answers_before_the_lost_one_arrive(place, proxy):
    """Of statements that are sent together, each in its own transaction."""
    with connect(proxy.url) as connection:
        proxy.drop_reply(b"INSERT")
        cursors = [connection.cursor() for _ in range(2)]
        with pytest.raises(psycopg.OperationalError):
            in_one_go(connection, cursors)
        first = cursors[0].fetchone()

    assert (0,) == first
    assert 1 == count(place)


def in_one_go(connection: psycopg.Connection, cursors: list[psycopg.Cursor]) -> None:
    """Ask and insert without waiting in between."""
    with connection.pipeline() as pipeline:
        cursors[0].execute(COUNT)
        pipeline.sync()
        cursors[1].execute(INSERT)


def test_after_a_lost_reply_the_connection_may_hang(place, proxy):
    with connect(proxy.url) as connection:
        proxy.drop_reply(b"INSERT", "hang")
        thread, problems = in_background(connection, INSERT)

        assert proxy.wait_dropped()
        assert thread.is_alive()
        assert 1 == count(place)
        proxy.cut()
        thread.join(120)

    assert [psycopg.OperationalError] == problems


def test_a_lost_request_never_happened(place, proxy):
    with connect(proxy.url) as connection:
        proxy.drop_request(b"INSERT")
        with pytest.raises(psycopg.OperationalError):
            connection.execute(INSERT)

    assert proxy.wait_dropped()
    assert 0 == count(place)


def test_only_one_reply_is_lost(place, proxy):
    proxy.drop_reply()
    with connect(proxy.url) as connection, pytest.raises(psycopg.OperationalError):
        connection.execute(INSERT)

    assert 1 == count(proxy.url)
    assert 1 == proxy.dropped


def test_a_server_that_is_down_is_a_reset_connection(private_server):
    with Proxy(private_server.url("postgres")) as proxy:
        private_server.stop()
        with pytest.raises(psycopg.OperationalError):
            connect(proxy.url)
        private_server.start()
        with connect(proxy.url) as connection:
            assert (1,) == connection.execute("SELECT 1").fetchone()
