"""Orders in a transaction of the caller's, on his own connection of psycopg's."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path

import psycopg
import pytest
from psycopg import ClientCursor, IsolationLevel
from psycopg.adapt import PyFormat
from psycopg.rows import dict_row, tuple_row

import duly
from duly import Conflict, StoreUnavailable, UsageError, every
from duly.store.ports.queries import AuditFilter
from duly.store.postgres import PostgresStore, joining
from duly.store.postgres.arrays import Int8s
from tests.client.conftest import fire

PAGE = Path(__file__).resolve().parents[4] / "docs" / "how-to" / "join-your-transaction.md"


def insert(connection, order):
    connection.execute("INSERT INTO orders VALUES (%s)", (order,))


def test_the_callers_row_and_the_promise_commit_together(shop):
    with psycopg.connect(shop.url) as connection:
        insert(connection, 7)
        shop.promise(7, connection)

        assert ([], []) == shop.kept

    assert ([7], [7]) == shop.kept


def test_neither_is_there_when_the_caller_rolls_back(shop):
    with psycopg.connect(shop.url) as connection:
        insert(connection, 7)
        shop.promise(7, connection)
        connection.rollback()

    assert ([], []) == shop.kept
    assert [] == shop.app.store.list_audit(AuditFilter())


def test_an_order_may_be_the_first_statement_of_the_transaction(shop):
    with psycopg.connect(shop.url) as connection:
        shop.promise(7, connection)
        insert(connection, 7)
        connection.rollback()
        shop.promise(8, connection)

    assert ([], [8]) == shop.kept


def test_schedules_and_many_runs_join_as_well(shop):
    with psycopg.connect(shop.url) as connection:
        shop.app.schedules.create("hourly", shop.ship.bind(1), every("1h"), connection=connection)
        shop.app.enqueue_many([shop.ship.bind(one) for one in range(3)], connection=connection)

        assert ([], []) == (shop.app.schedules.list(), shop.app.runs.list())

    assert (1, 3) == (len(shop.app.schedules.list()), len(shop.app.runs.list()))


def test_rolling_back_to_the_callers_savepoint_undoes_what_came_after_it(shop):
    with psycopg.connect(shop.url) as connection:
        shop.promise(1, connection)
        with connection.transaction(force_rollback=True):
            shop.promise(2, connection)
        shop.promise(3, connection)

    assert ([], [1, 3]) == shop.kept


def test_a_connection_in_autocommit_joins_inside_of_a_transaction_block(shop):
    with (
        psycopg.connect(shop.url, autocommit=True) as connection,
        connection.transaction(),
    ):
        insert(connection, 7)
        shop.promise(7, connection)

    assert ([7], [7]) == shop.kept


def test_a_refused_order_leaves_nothing_and_the_transaction_goes_on(shop):
    shop.promise(7, None)
    with psycopg.connect(shop.url) as connection:
        insert(connection, 7)
        with pytest.raises(Conflict):
            shop.app.enqueue(shop.ship.bind(8), delay="1h", key="order:7", connection=connection)
        with pytest.raises(UsageError, match="is in the past"):
            shop.app.enqueue(shop.ship.bind(1), at="2000-01-01T00:00Z", connection=connection)
        insert(connection, 9)
        shop.promise(9, connection)

    assert ([7, 9], [7, 9]) == shop.kept


def test_an_error_of_the_server_leaves_nothing_and_the_transaction_goes_on(shop):
    """A lock that somebody else holds for longer than the caller is willing to wait."""
    with psycopg.connect(shop.url) as other, psycopg.connect(shop.url) as connection:
        shop.promise(7, other)
        connection.execute("SET LOCAL lock_timeout = '50ms'")
        insert(connection, 7)
        with pytest.raises(StoreUnavailable, match="is busy"):
            shop.promise(7, connection)
        insert(connection, 8)

    assert ([7, 8], [7]) == shop.kept


@pytest.mark.parametrize("level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
def test_any_isolation_will_do(shop, level):
    with psycopg.connect(shop.url) as connection:
        connection.isolation_level = level
        insert(connection, 7)
        shop.promise(7, connection)
        shop.app.schedules.create("hourly", shop.ship.bind(1), every("1h"), connection=connection)

    assert ([7], [7]) == shop.kept


def test_the_callers_connection_stays_as_it_is(shop):
    with psycopg.connect(
        shop.url, row_factory=dict_row, cursor_factory=ClientCursor, prepare_threshold=None
    ) as connection:
        connection.execute("SET search_path = pg_temp")
        settings = connection.execute("SELECT name, setting FROM pg_settings").fetchall()
        for order in range(8):
            shop.promise(order, connection)

        assert settings == connection.execute("SELECT name, setting FROM pg_settings").fetchall()
        assert dict_row is connection.row_factory
        assert ClientCursor is connection.cursor_factory
        assert (None, False) == (connection.prepare_threshold, connection.autocommit)
        assert [] == connection.execute("SELECT * FROM pg_prepared_statements").fetchall()
        with pytest.raises(psycopg.ProgrammingError):
            connection.adapters.get_dumper(Int8s, PyFormat.AUTO)

    assert 8 == len(shop.kept[1])


def failed(connection):
    with pytest.raises(psycopg.errors.DivisionByZero):
        connection.execute("SELECT 1/0")


def in_autocommit(connection):
    connection.autocommit = True


def reading(connection):
    connection.read_only = True


def in_latin(connection):
    connection.execute("SET client_encoding TO latin1")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (in_autocommit, "is in no transaction; begin one: `with connection.transaction"),
        (failed, "is in a transaction that has failed; roll it back"),
        (reading, "is in a transaction that may only read"),
        (in_latin, "speaks iso8859-1; SET client_encoding TO 'UTF8'"),
        (psycopg.Connection.close, "is closed; give one that is open"),
    ],
)
def test_a_connection_that_could_not_keep_its_word_is_refused(shop, spoil, says):
    with psycopg.connect(shop.url) as connection:
        spoil(connection)
        with pytest.raises(UsageError, match=says):
            shop.promise(7, connection)

    assert ([], []) == shop.kept


def test_a_pipeline_is_refused(shop):
    with (
        psycopg.connect(shop.url) as connection,
        connection.pipeline(),
        pytest.raises(UsageError, match="is in pipeline mode; leave the pipeline first"),
    ):
        shop.promise(7, connection)


def test_a_connection_in_the_middle_of_a_copy_is_refused(shop, monkeypatch):
    monkeypatch.setattr(joining, "REST_LIMIT_S", 0.05)
    with psycopg.connect(shop.url) as connection:
        with connection.cursor().copy("COPY (SELECT generate_series(1, 9)) TO STDOUT") as rows:
            with pytest.raises(UsageError, match="is in the middle of a statement"):
                shop.promise(7, connection)
            list(rows)
        shop.promise(8, connection)

    assert ([], [8]) == shop.kept


def test_a_connection_that_was_lost_is_told_from_one_that_was_closed(shop, postgres_server):
    with psycopg.connect(shop.url) as connection:
        connection.execute("SELECT 1")
        postgres_server.kill_backends(shop.url)
        with pytest.raises(StoreUnavailable, match="can't be reached"):
            shop.promise(7, connection)
        with pytest.raises(StoreUnavailable, match="connection to the server was lost"):
            shop.promise(7, connection)
        connection.close()

    assert ([], []) == shop.kept


def test_a_connection_to_another_database_is_refused(shop, new_database):
    bare = new_database()
    other = new_database()
    store = PostgresStore(other)
    store.now()
    store.close()
    for url in (bare, other):
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE orders (id int)")
            with pytest.raises(UsageError, match=r"<psycopg.* is a connection to another database"):
                shop.promise(7, connection)
            insert(connection, 7)

        with psycopg.connect(url) as connection:
            assert [(7,)] == connection.execute("SELECT id FROM orders").fetchall()


def test_a_store_that_nobody_has_used_yet_is_made_first(database):
    with (
        psycopg.connect(database) as connection,
        duly.App(store=PostgresStore(database)) as app,
    ):
        ship = app.task(name="ship")(lambda: None)
        app.enqueue(ship, delay="1h", connection=connection)
        connection.rollback()
        promised = app.enqueue(ship, delay="1h", connection=connection)
        connection.commit()

        assert [promised.id] == [one.id for one in app.delayed.list()]


class OthersConnection:
    """A connection of a driver that can't be joined."""


@pytest.mark.parametrize("package", ["psycopg2", "asyncpg"])
def test_a_connection_of_another_driver_is_refused_with_the_one_to_use(shop, monkeypatch, package):
    monkeypatch.setattr(OthersConnection, "__module__", f"{package}.extensions")
    with pytest.raises(UsageError, match=f"is a connection of {package}; use psycopg 3"):
        shop.promise(7, OthersConnection())


@pytest.mark.parametrize("given", [object(), 7, "postgresql://localhost", psycopg])
def test_what_is_no_connection_is_refused(shop, given):
    with pytest.raises(UsageError, match="is not a connection that can be joined; give a conn"):
        shop.promise(7, given)


def test_neither_sqlalchemy_nor_django_is_imported_for_it():
    program = (
        "import sys, duly.store.postgres; "
        "sys.exit(any(name.partition('.')[0] in ('sqlalchemy', 'django') for name in sys.modules))"
    )

    assert 0 == subprocess.run([sys.executable, "-c", program], check=False).returncode


def test_the_rights_that_the_page_grants_are_enough(shop):
    (grants,) = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    with psycopg.connect(shop.url, autocommit=True) as owner:
        owner.execute("DROP ROLE IF EXISTS duly_test_shop")
        owner.execute("CREATE ROLE duly_test_shop")
        try:
            with psycopg.connect(shop.url) as connection:
                connection.execute("SET ROLE duly_test_shop")
                with pytest.raises(StoreUnavailable, match="refused this user"):
                    shop.promise(7, connection)
                connection.execute("RESET ROLE")
                connection.execute(grants.replace("shop", "duly_test_shop"))
                connection.execute("GRANT USAGE ON SCHEMA duly_testing TO duly_test_shop")
                connection.execute("GRANT SELECT ON duly_testing.clock TO duly_test_shop")
                connection.execute("SET LOCAL ROLE duly_test_shop")
                shop.promise(8, connection)
                shop.app.schedules.create(
                    "hourly", shop.ship.bind(1), every("1h"), connection=connection
                )
        finally:
            owner.execute("DROP OWNED BY duly_test_shop")
            owner.execute("DROP ROLE duly_test_shop")

    assert ([], [8]) == shop.kept


def test_a_pooler_may_stand_between(shop, pgbouncer_url):
    through = pgbouncer_url(shop.url)
    for order in range(3):
        with psycopg.connect(through, prepare_threshold=None) as connection:
            insert(connection, order)
            shop.promise(order, connection)

    assert ([0, 1, 2], [0, 1, 2]) == shop.kept


def test_threads_may_share_a_connection(shop):
    """An order that is refused undoes none of what another thread orders at the same time."""
    shop.promise(100, None)
    start = threading.Barrier(4)
    failures = []

    def order(first, connection):
        start.wait()
        for number in range(first, first + 10):
            shop.promise(number, connection)
            try:
                shop.app.enqueue(
                    shop.ship.bind(0), delay="5h", key="order:100", connection=connection
                )
            except Conflict as error:
                failures.append(error)

    with psycopg.connect(shop.url) as connection:
        threads = [threading.Thread(target=order, args=(10 * one, connection)) for one in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert 40 == len(failures)
    assert ([], [*range(40), 100]) == shop.kept


def test_threads_with_connections_of_their_own_do_not_wait_for_each_other(shop):
    with psycopg.connect(shop.url) as one, psycopg.connect(shop.url) as another:
        shop.promise(1, one)
        thread = threading.Thread(target=shop.promise, args=(2, another))
        thread.start()
        thread.join(120)

        assert not thread.is_alive()


def test_the_same_key_in_two_transactions_is_one_promise(shop):
    """The second waits for the first, and then sees it."""
    found = []

    def order():
        with psycopg.connect(shop.url) as another:
            found.append(shop.promise(1, another))

    with psycopg.connect(shop.url, row_factory=tuple_row) as one:
        first = shop.promise(1, one)
        thread = threading.Thread(target=order)
        thread.start()
    thread.join(120)

    assert [(first.id, False)] == [(second.id, second.is_new) for second in found]


def test_a_dispatcher_fires_what_was_committed_long_after_its_due(shop, clock):
    with psycopg.connect(shop.url) as connection:
        promised = shop.promise(1, connection)
        fire(shop.app, clock)
        clock.advance("10s")
        fire(shop.app, clock)

        assert [] == shop.app.runs.list()

    fire(shop.app, clock)

    assert [promised.id] == [run.id for run in shop.app.runs.list()]
