"""Commits that wait for a standby: acknowledged is what a standby has, and nothing else."""

from __future__ import annotations

import threading

import psycopg
import pytest

from duly.errors import StoreUnavailable
from duly.store.postgres import PostgresStore
from duly_conformance import steps
from duly_conformance.kit import add_runs, new_run, new_schedule
from tests.waiting import comes_true, wait_until

NOBODY = "ALTER SYSTEM SET synchronous_standby_names = 'nobody'"
ANYBODY = "ALTER SYSTEM SET synchronous_standby_names = ''"
WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
END_WAITING = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
COMMIT = "SELECT pg_logical_emit_message(true, 'a commit', '')"


@pytest.fixture
def url(private_server):
    return private_server.create_database()


@pytest.fixture
def store(url):
    made = PostgresStore(url)
    made.now()
    yield made
    made.close()


@pytest.fixture
def operator(url):
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection
        _choose(connection, ANYBODY)


def _choose(operator, standbys):
    operator.execute(standbys)
    operator.execute("SELECT pg_reload_conf()")
    if standbys == NOBODY:
        assert comes_true(lambda: _a_commit_waits(operator))


def _a_commit_waits(operator):
    """The server's checkpointer decides when commits begin to wait, later than SHOW tells."""
    with psycopg.connect(operator.info.dsn, autocommit=True) as connection:
        probe = Asked(lambda: connection.execute(COMMIT))
        wait_until(
            "the commit waits or is over",
            lambda: operator.execute(WAITING).fetchall() or not probe.is_alive(),
        )
        waited = operator.execute(END_WAITING).fetchall()
        probe.join(120)
    return waited


class Asked(threading.Thread):
    """An order that is given beside the test, and what came of it."""

    def __init__(self, order):
        super().__init__()
        self._order = order
        self.error = None
        self.start()

    def run(self):
        try:
            self._order()
        except StoreUnavailable as error:
            self.error = error


def _waiting(operator):
    found: list[tuple[int]] = []

    def is_waiting():
        found[:] = operator.execute(WAITING).fetchall()
        return found

    assert comes_true(is_waiting)
    return found[0][0]


def _orders(store):
    order = new_schedule(store.now())
    return {
        "a run": lambda: store.add_runs(add_runs(new_run(None))),
        "a delayed run": lambda: store.add_runs(add_runs(new_run(store.now() + 10**9))),
        "a schedule": lambda: store.create_schedule(order),
    }


@pytest.mark.parametrize("what", ["a run", "a delayed run", "a schedule"])
def test_what_no_standby_has_is_not_acknowledged_when_the_wait_is_cancelled(store, operator, what):
    """The server answers such a commit with success, and a warning that is easily missed."""
    order = _orders(store)[what]
    _choose(operator, NOBODY)
    asked = Asked(order)
    operator.execute("SELECT pg_cancel_backend(%s)", (_waiting(operator),))
    asked.join(120)

    assert asked.error is not None
    assert "standby" in str(asked.error)


@pytest.mark.parametrize("what", ["a run", "a delayed run", "a schedule"])
def test_what_is_there_already_is_acknowledged_only_with_a_standby(store, operator, what):
    """INV-17: the same order again waits, too, although it writes nothing new."""
    order = _orders(store)[what]
    order()
    _choose(operator, NOBODY)
    asked = Asked(order)
    _waiting(operator)
    assert asked.is_alive()
    _choose(operator, ANYBODY)
    asked.join(120)

    assert asked.error is None


def test_cancelling_what_is_cancelled_waits_for_a_standby_too(store, operator):
    from duly_conformance.kit import cancel

    delayed = steps.delay(store, store.now() + 10**9)
    store.cancel_delayed(cancel(delayed.id))
    _choose(operator, NOBODY)
    asked = Asked(lambda: store.cancel_delayed(cancel(delayed.id)))
    _waiting(operator)
    _choose(operator, ANYBODY)
    asked.join(120)

    assert asked.error is None
