"""Lent transactions on SQLite: what the caller's statements may touch, and for how long."""
# ruff: noqa: PT012 - a lent transaction is a block, and it is the block that fails

from __future__ import annotations

import threading

import apsw
import pytest

from duly.engine.manual_clock import ManualClock
from duly.errors import Conflict, StoreUnavailable, UsageError
from duly.store.sqlite import SqliteStore
from duly.store.sqlite.reading import LIST_TASKS
from duly_conformance import steps
from duly_conformance.kit import SECOND_US, add_runs, new_run, new_schedule, snapshot
from tests.store.sqlite.conftest import AT_ONCE

MAKE_ORDERS = "CREATE TABLE orders (number INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT UNIQUE)"
COUNT_FOR_LONG = """
WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted)
SELECT max(n) FROM (SELECT n FROM counted LIMIT 1000000000)"""


@pytest.fixture
def orders(store):
    with store.transaction(SECOND_US) as lent:
        lent.execute(MAKE_ORDERS)
    return store


def test_the_callers_rows_and_ours_commit_together(orders, clock):
    """INV-18."""
    with orders.transaction(SECOND_US) as lent:
        lent.execute("INSERT INTO orders (what) VALUES (?)", ("tea",))
        orders.joined(lent).add_runs(add_runs(new_run(None)))

    with orders.transaction(SECOND_US) as lent:
        assert [(1, "tea")] == lent.execute("SELECT number, what FROM orders")
    assert 1 == orders.status().queued


def test_the_callers_rows_go_with_ours(orders):
    """INV-18: a refusal of ours that nobody catches undoes the caller's rows too."""
    steps.create(orders, "taken")

    with pytest.raises(Conflict), orders.transaction(SECOND_US) as lent:
        lent.execute("INSERT INTO orders (what) VALUES ('tea')")
        orders.joined(lent).create_schedule(
            new_schedule(orders.now() + 1000, "taken", task="other")
        )

    with orders.transaction(SECOND_US) as lent:
        assert [] == lent.execute("SELECT * FROM orders")


@pytest.mark.parametrize(
    "sql",
    [
        "COMMIT",
        "ROLLBACK",
        "BEGIN",
        "SAVEPOINT mine",
        "RELEASE duly_operation",
        "ATTACH 'other.db' AS other",
        "PRAGMA journal_mode = delete",
        "PRAGMA writable_schema = 1",
        "INSERT INTO duly_tasks VALUES ('x')",
        "UPDATE duly_schedule_state SET next_due = 0",
        "UPDATE DULY_schedule_state SET next_due = 0",
        "DELETE FROM duly_audit",
        "SELECT * FROM duly_audit",
        "SELECT number FROM orders UNION SELECT count(*) FROM duly_runs",
        "INSERT INTO orders (what) SELECT name FROM duly_schedules",
        "DROP TABLE duly_runs",
        "DROP VIEW duly_public_runs",
        "DROP INDEX duly_runs_schedule",
        "ALTER TABLE duly_runs ADD COLUMN mine TEXT",
        "CREATE TABLE duly_mine (x)",
        "CREATE VIEW duly_public_mine AS SELECT * FROM duly_audit",
        "WITH duly_public_mine AS (SELECT action FROM duly_audit) SELECT * FROM duly_public_mine",
        "WITH duly_public_runs AS (SELECT action FROM duly_audit) SELECT * FROM duly_public_runs",
        "WITH duly_public_runs AS (SELECT arguments FROM duly_runs) SELECT * FROM duly_public_runs",
        "WITH duly_public_results AS (SELECT key FROM duly_effects) SELECT * FROM duly_public_results",
        "WITH duly_public_mine AS (SELECT 1 FROM duly_audit) SELECT * FROM duly_public_mine",
        "CREATE INDEX mine ON duly_runs (task)",
        "CREATE TRIGGER mine AFTER INSERT ON duly_runs BEGIN SELECT 1; END",
        "UPDATE sqlite_sequence SET seq = 0",
        "DELETE FROM sqlite_sequence",
        "INSERT INTO orders (what) VALUES ('tea'); COMMIT",
    ],
)
def test_the_callers_statements_are_kept_from_what_is_ours(orders, sql):
    before = snapshot(orders)

    with pytest.raises(UsageError), orders.transaction(SECOND_US) as lent:
        lent.execute(sql)

    assert before == snapshot(orders)
    with orders.transaction(SECOND_US) as lent:
        assert [(0,)] == lent.execute("SELECT count(*) FROM orders")


def test_a_trigger_of_the_callers_does_not_reach_our_tables(orders):
    trigger = """CREATE TRIGGER sneaky AFTER INSERT ON orders
    BEGIN DELETE FROM duly_tasks; END"""
    orders.register_tasks(["report"])

    with pytest.raises(UsageError), orders.transaction(SECOND_US) as lent:
        lent.execute(trigger)
        lent.execute("INSERT INTO orders (what) VALUES ('tea')")

    assert ["report"] == orders.list_tasks()


def test_a_statement_of_ours_is_refused_to_the_caller_word_by_word(orders):
    """One that is prepared already must not slip through."""
    with orders.transaction(SECOND_US) as lent:
        with lent.operation(orders._connections) as work:  # noqa: SLF001 - as our operations do
            assert [] == work.connection.execute(LIST_TASKS).fetchall()
        with pytest.raises(UsageError):
            lent.execute(LIST_TASKS)


def test_the_views_may_be_read(orders, clock):
    """Tables are private; the views are the contract."""
    record = steps.create(orders)
    steps.fire_due(orders, clock, record)
    with orders.transaction(SECOND_US) as lent:
        schedules = lent.execute("SELECT name, status, fires FROM duly_public_schedules")
        runs = lent.execute("SELECT task, state FROM duly_public_runs")

    assert [("nightly", "active", 1)] == schedules
    assert [("report", "queued")] == runs


def test_the_whole_of_every_view_may_be_read(orders, path):
    """What the authorizer lets through is what the views show."""
    other = apsw.Connection(str(path))
    listed = other.execute("SELECT name FROM sqlite_schema WHERE type = 'view'").fetchall()
    other.close()
    with orders.transaction(SECOND_US) as lent:
        for (name,) in listed:
            assert [] == lent.execute(f"SELECT * FROM {name}")  # noqa: S608 - a name of ours
            assert [(0,)] == lent.execute(f"SELECT count(*) FROM {name}")  # noqa: S608
            assert [] == lent.execute(f"SELECT task FROM {str(name).upper()}")  # noqa: S608

    assert {"duly_public_schedules", "duly_public_runs", "duly_public_results"} == {
        name for (name,) in listed
    }


def test_parameters_may_be_given_by_name(orders):
    with orders.transaction(SECOND_US) as lent:
        lent.execute("INSERT INTO orders (what) VALUES (:what)", {"what": "tea"})

        assert [("tea",)] == lent.execute("SELECT what FROM orders WHERE what = $w", {"w": "tea"})


@pytest.mark.parametrize("parameters", ["tea", b"tea"])
def test_one_text_is_no_list_of_parameters(orders, parameters):
    """It would be taken apart into its letters."""
    with (
        orders.transaction(SECOND_US) as lent,
        pytest.raises(UsageError, match=r"parameters: .* no list of values; give a tuple"),
    ):
        lent.execute("SELECT ?, ?, ?", parameters)


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT 'a\0b'", ()),
        ("SELECT '\ud800'", ()),
        ("SELECT ?", ("\ud800",)),
        ("SELECT ?", (2**63,)),
        ("SELECT ?", 7),
        ("SELECT :what", {"other": 1}),
        ("SELECT zeroblob(3000000000)", ()),
        ("SELECT nonsense", ()),
        ("SELEKT 1", ()),
        ("SELECT ?", ()),
        ("SELECT ?", (object(),)),
    ],
)
def test_a_statement_that_can_not_run_is_the_callers_mistake(orders, sql, parameters):
    with orders.transaction(SECOND_US) as lent, pytest.raises(UsageError, match="can't be run"):
        lent.execute(sql, parameters)


def test_a_broken_constraint_of_the_callers_is_a_conflict_that_it_may_catch(orders):
    with orders.transaction(SECOND_US) as lent:
        lent.execute("INSERT INTO orders (what) VALUES ('tea')")
        with pytest.raises(Conflict, match="refused by a constraint"):
            lent.execute("INSERT INTO orders (what) VALUES ('tea')")
        lent.execute("INSERT INTO orders (what) VALUES ('cake')")

    with orders.transaction(SECOND_US) as lent:
        assert [(2,)] == lent.execute("SELECT count(*) FROM orders")


def test_a_statement_that_runs_for_longer_than_the_limit_is_stopped(path):
    """Nobody holds the one writer's lock for long."""

    class Hurrying(ManualClock):
        def monotonic_us(self):
            self.advance(1000)
            return super().monotonic_us()

    store = SqliteStore(path, Hurrying(), settings=AT_ONCE)

    with (
        pytest.raises(StoreUnavailable, match="longer than its limit"),
        store.transaction(SECOND_US) as lent,
    ):
        lent.execute("CREATE TABLE mine (x)")
        lent.execute(COUNT_FOR_LONG)
    with store.transaction(SECOND_US) as lent:
        assert [] == lent.execute("SELECT 1 FROM sqlite_schema WHERE name = 'mine'")
    store.close()


def test_an_order_that_forgets_the_transaction_is_told_so(orders):
    """It would wait for itself."""
    with (
        orders.transaction(SECOND_US),
        pytest.raises(
            UsageError,
            match=r"connection is missing: this thread is in a transaction; pass connection=tx",
        ),
    ):
        steps.create(orders)


def test_a_transaction_inside_another_is_told_so(orders):
    """There is one writer: the inner would wait for the outer."""
    with (
        orders.transaction(SECOND_US),
        pytest.raises(UsageError, match=r"transaction: .* inside another one; go on with the one"),
        orders.transaction(SECOND_US),
    ):
        pass


def test_another_thread_waits_and_then_goes_on(path, clock):
    store = SqliteStore(path, clock)
    with store.transaction(SECOND_US) as lent:
        thread = threading.Thread(target=steps.create, args=(store, "other"))
        thread.start()
        store.joined(lent).create_schedule(new_schedule(store.now()))
    thread.join()

    assert {"nightly", "other"} == {record.name for record in snapshot(store).schedules}
    store.close()


def test_another_program_is_shut_out_while_it_is_open(orders, path):
    other = apsw.Connection(str(path))
    with orders.transaction(SECOND_US), pytest.raises(apsw.BusyError):
        other.execute("BEGIN IMMEDIATE")

    other.execute("BEGIN IMMEDIATE")
    other.close()


def test_a_transaction_that_is_over_is_refused(orders):
    with orders.transaction(SECOND_US) as lent:
        pass

    with pytest.raises(UsageError, match="is over"):
        lent.execute("SELECT 1")
    with pytest.raises(UsageError, match="is over"):
        orders.joined(lent).add_runs(add_runs(new_run(None)))


def test_a_transaction_of_another_store_is_refused(orders, tmp_path, clock):
    other = SqliteStore(tmp_path / "other.db", clock)
    with other.transaction(SECOND_US) as lent, pytest.raises(UsageError, match="another store"):
        orders.joined(lent).add_runs(add_runs(new_run(None)))
    with pytest.raises(UsageError, match="Duly lent"):
        orders.joined(object()).add_runs(add_runs(new_run(None)))
    other.close()
