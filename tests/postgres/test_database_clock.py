"""The database's clock: set by hand, and seen at once by everybody."""

from __future__ import annotations

import threading

import psycopg
import pytest

from duly.engine.manual_clock import START_US
from tests.postgres.database_clock import DatabaseClock, install_clock
from tests.waiting import comes_true

NOW = "SELECT duly.now_us()"
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


def with_clock(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA duly; CREATE TABLE locked AS SELECT 1 AS one")
        connection.execute(
            "CREATE FUNCTION duly.now_us() RETURNS int8 LANGUAGE sql STABLE AS 'SELECT 0::int8'"
        )
    install_clock(url)


@pytest.fixture
def place(new_database):
    return new_database(with_clock)


@pytest.fixture
def clock(place):
    with DatabaseClock(place) as made:
        yield made


def test_the_database_reads_the_time_that_was_set(place, clock):
    with psycopg.connect(place, autocommit=True) as connection:
        read = [connection.execute(NOW).fetchone()]
        clock.advance("1h")
        read.append(connection.execute(NOW).fetchone())
        clock.set(5)
        read.append(connection.execute(NOW).fetchone())

    assert [(START_US,), (START_US + 3_600_000_000,), (5,)] == read
    assert (5, 3_600_000_000) == (clock.now_us(), clock.monotonic_us())


def test_a_clock_that_is_installed_again_can_be_set(place, clock):
    install_clock(place)
    clock.set(8)
    with psycopg.connect(place) as connection:
        assert (8,) == connection.execute(NOW).fetchone()


@pytest.mark.parametrize("isolation", list(psycopg.IsolationLevel))
def test_time_passes_inside_an_open_transaction(place, clock, isolation):
    """As with clock_timestamp()."""
    with psycopg.connect(place) as connection:
        connection.isolation_level = isolation
        connection.execute(NOW)
        clock.advance(7)

        assert (START_US + 7,) == connection.execute(NOW).fetchone()
        connection.execute("INSERT INTO locked VALUES (2)")


def test_a_statement_that_waited_for_a_lock_reads_the_time_afterwards(place, clock):
    read: list[tuple[int, ...] | None] = []

    def wait() -> None:
        with psycopg.connect(place, autocommit=True) as connection:
            connection.execute("SET statement_timeout = '120s'")
            update = "UPDATE locked SET one = 2 RETURNING duly.now_us()"
            read.append(connection.execute(update).fetchone())

    with psycopg.connect(place, autocommit=True) as holder:
        with holder.transaction():
            holder.execute("UPDATE locked SET one = 3")
            thread = threading.Thread(target=wait)
            thread.start()

            assert comes_true(lambda: holder.execute(WAITING).fetchone() != (0,))
            clock.advance(9)
        thread.join(120)

    assert [(START_US + 9,)] == read


def test_a_clock_survives_lost_connections_and_a_crash(private_server):
    url = private_server.create_database()
    with_clock(url)
    with DatabaseClock(url) as clock:
        private_server.restart("immediate")
        with psycopg.connect(url) as connection:
            kept = connection.execute(NOW).fetchone()
        private_server.kill_backends()
        clock.advance(3)
        with psycopg.connect(url) as connection:
            moved = connection.execute(NOW).fetchone()

    assert ((START_US,), (START_US + 3,)) == (kept, moved)
