"""Lent transactions on PostgreSQL: what the caller's statements may do, and for how long."""
# ruff: noqa: PT012 - a lent transaction is a block, and it is the block that fails

from __future__ import annotations

import psycopg
import pytest

from duly.errors import Conflict, StoreUnavailable, UsageError
from duly_conformance import steps
from duly_conformance.kit import MINUTE_US, SECOND_US, add_runs, new_run, new_schedule, snapshot
from tests.postgres.reused_databases import with_store_and_clock
from tests.waiting import comes_true

MAKE_ORDERS = "CREATE TABLE orders (number serial PRIMARY KEY, what text UNIQUE)"
ENDS_OR_OUTLIVES = (
    "COMMIT",
    "commit and chain",
    "END",
    "ROLLBACK",
    "rollback to duly_caller",
    "ABORT",
    "BEGIN",
    "START TRANSACTION",
    "SAVEPOINT mine",
    "RELEASE duly_operation",
    "PREPARE TRANSACTION 'mine'",
    "PREPARE mine AS SELECT 1",
    "SET TRANSACTION READ ONLY",
    "SET search_path = duly",
    "set session characteristics as transaction read only",
    "SET /* really */ TRANSACTION READ ONLY",
    "RESET ALL",
    "DISCARD ALL",
    "LISTEN duly",
    "COPY orders FROM STDIN",
    "  -- quietly\n COMMIT",
    "/* one /* in the other */ */ COMMIT",
    ";COMMIT",
)
COUNT_BACKENDS = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"


def with_orders(url):
    """Make a store, and a table of the caller's own."""
    with_store_and_clock(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(MAKE_ORDERS)


@pytest.fixture
def timed_url(lend_database):
    return lend_database(with_orders)


@pytest.fixture
def orders(store):
    return store


def in_orders(store):
    with store.transaction(MINUTE_US) as lent:
        return [what for (what,) in lent.execute("SELECT what FROM orders ORDER BY number")]


def test_the_callers_rows_and_ours_commit_together(orders):
    """INV-18."""
    with orders.transaction(MINUTE_US) as lent:
        lent.execute("INSERT INTO orders (what) VALUES (%s)", ("tea",))
        orders.joined(lent).add_runs(add_runs(new_run(None)))

    assert (["tea"], 1) == (in_orders(orders), orders.status().queued)


def test_the_callers_rows_go_with_ours(orders):
    """INV-18: a refusal of ours that nobody catches undoes the caller's rows too."""
    steps.create(orders, "taken")

    with pytest.raises(Conflict), orders.transaction(MINUTE_US) as lent:
        lent.execute("INSERT INTO orders (what) VALUES ('tea')")
        orders.joined(lent).create_schedule(
            new_schedule(orders.now() + 1000, "taken", task="other")
        )

    assert [] == in_orders(orders)


def test_the_callers_statements_neither_end_nor_outlive_the_transaction(orders):
    before = snapshot(orders)
    refusal = r"in a transaction that is lent; leave the transaction"
    for sql in ENDS_OR_OUTLIVES:
        with pytest.raises(UsageError) as caught, orders.transaction(MINUTE_US) as lent:
            lent.execute("INSERT INTO orders (what) VALUES ('tea')")
            orders.joined(lent).add_runs(add_runs(new_run(None)))
            lent.execute(sql)

        assert refusal in str(caught.value), sql
        assert (before, []) == (snapshot(orders), in_orders(orders)), sql


@pytest.mark.parametrize(
    "sql",
    ["INSERT INTO orders (what) VALUES ('tea'); COMMIT", "SELECT 1; SELECT 2"],
)
def test_several_statements_in_one_are_refused(orders, sql):
    with orders.transaction(MINUTE_US) as lent, pytest.raises(UsageError, match="can't be run"):
        lent.execute(sql)

    assert [] == in_orders(orders)


def test_a_procedure_of_the_callers_can_not_commit(orders):
    with orders.transaction(MINUTE_US) as lent:
        lent.execute(
            "CREATE PROCEDURE sneak() LANGUAGE plpgsql AS $$ BEGIN COMMIT; END $$",
        )
    with pytest.raises(UsageError, match="can't be run"), orders.transaction(MINUTE_US) as lent:
        lent.execute("INSERT INTO orders (what) VALUES ('tea')")
        lent.execute("CALL sneak()")

    assert [] == in_orders(orders)


@pytest.mark.parametrize(
    "sql",
    ["SET LOCAL work_mem = '8MB'", "SET CONSTRAINTS ALL DEFERRED", "SELECT '100%' LIKE '%'"],
)
def test_what_ends_with_the_transaction_is_the_callers_own_affair(orders, sql):
    with orders.transaction(MINUTE_US) as lent:
        lent.execute(sql)


def test_the_views_may_be_read(orders, clock):
    """Tables are private; the views are the contract."""
    steps.fire_due(orders, clock, steps.create(orders))
    with orders.transaction(MINUTE_US) as lent:
        schedules = lent.execute("SELECT name, status, fires FROM duly.public_schedules")
        runs = lent.execute("SELECT task, state FROM duly.public_runs")

    assert ([("nightly", "active", 1)], [("report", "queued")]) == (schedules, runs)


def test_parameters_may_be_given_by_name(orders):
    with orders.transaction(MINUTE_US) as lent:
        lent.execute("INSERT INTO orders (what) VALUES (%(what)s)", {"what": "tea"})

        assert [("tea",)] == lent.execute(
            "SELECT what FROM orders WHERE what LIKE %(w)s", {"w": "t%"}
        )


@pytest.mark.parametrize("parameters", ["tea", b"tea"])
def test_one_text_is_no_list_of_parameters(orders, parameters):
    """It would be taken apart into its letters."""
    with (
        orders.transaction(MINUTE_US) as lent,
        pytest.raises(UsageError, match=r"parameters: .* no list of values; give a tuple"),
    ):
        lent.execute("SELECT %s, %s, %s", parameters)


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT 'a\0b'", ()),
        ("SELECT '\ud800'", ()),
        ("SELECT %s", ("\ud800",)),
        ("SELECT %s", ("a\0b",)),
        ("SELECT %s", 7),
        ("SELECT %(what)s", {"other": 1}),
        ("SELECT nonsense", ()),
        ("SELEKT 1", ()),
        ("SELECT %s", ()),
        ("SELECT %s", (object(),)),
        ("SELECT 1 / 0", ()),
        ("DO $$ BEGIN RAISE 'no'; END $$", ()),
    ],
)
def test_a_statement_that_can_not_run_is_the_callers_mistake(orders, sql, parameters):
    with orders.transaction(MINUTE_US) as lent:
        lent.execute("INSERT INTO orders (what) VALUES ('before')")
        with pytest.raises(UsageError, match="can't be run"):
            lent.execute(sql, parameters)
        lent.execute("INSERT INTO orders (what) VALUES ('after')")

    assert ["before", "after"] == in_orders(orders)


def test_a_broken_constraint_of_the_callers_is_a_conflict_that_it_may_catch(orders):
    with orders.transaction(MINUTE_US) as lent:
        lent.execute("INSERT INTO orders (what) VALUES ('tea')")
        with pytest.raises(Conflict, match="refused by a constraint"):
            lent.execute("INSERT INTO orders (what) VALUES ('tea')")
        lent.execute("INSERT INTO orders (what) VALUES ('cake')")

    assert ["tea", "cake"] == in_orders(orders)


def test_the_callers_tables_may_change_between_two_statements(orders):
    with orders.transaction(MINUTE_US) as lent:
        for number in range(6):
            assert [] == lent.execute("SELECT * FROM orders")
            lent.execute(f"ALTER TABLE orders ADD COLUMN more_{number} integer")


def test_a_statement_that_runs_for_longer_than_the_limit_is_stopped(orders):
    with (
        pytest.raises(StoreUnavailable, match="longer than its limit"),
        orders.transaction(5 * SECOND_US) as lent,
    ):
        lent.execute("INSERT INTO orders (what) VALUES ('tea')")
        lent.execute("SELECT pg_sleep(600)")

    assert [] == in_orders(orders)


def test_a_transaction_that_stands_still_is_ended_by_the_server(orders, timed_url):
    """Also when this process can't, because it stands still, too."""
    with (
        psycopg.connect(timed_url, autocommit=True) as watching,
        pytest.raises(StoreUnavailable),
        orders.transaction(3 * SECOND_US) as lent,
    ):
        lent.execute("INSERT INTO orders (what) VALUES ('tea')")
        ((process,),) = lent.execute("SELECT pg_backend_pid()")
        assert comes_true(lambda: watching.execute(COUNT_BACKENDS, [process]).fetchone() == (0,))
        lent.execute("SELECT 1")

    assert [] == in_orders(orders)


def test_a_lost_connection_undoes_all_and_the_store_goes_on(orders, timed_url, postgres_server):
    with pytest.raises(StoreUnavailable), orders.transaction(MINUTE_US) as lent:
        lent.execute("INSERT INTO orders (what) VALUES ('tea')")
        orders.joined(lent).add_runs(add_runs(new_run(None)))
        postgres_server.kill_backends(timed_url)
        lent.execute("SELECT 1")

    assert ([], 0) == (in_orders(orders), orders.status().queued)


def test_an_order_has_the_time_of_its_own_moment(orders, clock):
    """However long ago the transaction began."""
    with orders.transaction(MINUTE_US) as lent:
        clock.advance(SECOND_US)
        (added,) = orders.joined(lent).add_runs(add_runs(new_run(None)))

    assert clock.now_us() == added.due_at


def test_an_order_inside_of_it_does_not_fail_over_one_outside(orders, clock):
    """Unlike on SQLite, both go on: neither waits for the other."""
    with orders.transaction(MINUTE_US) as lent:
        orders.joined(lent).create_schedule(new_schedule(clock.now_us(), "inside"))
        steps.create(orders, "outside")

    assert {"inside", "outside"} == {record.name for record in snapshot(orders).schedules}


def test_what_was_announced_in_it_wakes_dispatchers_once_it_is_committed(orders, clock):
    place = orders.wakeups()
    place.wait(10 * SECOND_US)
    with orders.transaction(MINUTE_US) as lent:
        orders.joined(lent).add_runs(add_runs(new_run(clock.now_us() + SECOND_US)))

    assert place.wait(30 * SECOND_US)
    place.close()


def test_a_transaction_that_is_over_is_refused(orders):
    with orders.transaction(MINUTE_US) as lent:
        pass

    with pytest.raises(UsageError, match="is over"):
        lent.execute("SELECT 1")
    with pytest.raises(UsageError, match="is over"):
        orders.joined(lent).add_runs(add_runs(new_run(None)))


def test_a_transaction_of_another_store_is_refused(orders, timed_url, open_store):
    other = open_store(timed_url)
    with other.transaction(MINUTE_US) as lent, pytest.raises(UsageError, match="another store"):
        orders.joined(lent).add_runs(add_runs(new_run(None)))
    with pytest.raises(UsageError):
        orders.joined(object()).add_runs(add_runs(new_run(None)))
