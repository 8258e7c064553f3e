"""The bell: dispatchers are woken by what others commit, off the write path and not too often."""

from __future__ import annotations

import psycopg

from duly.store.planning import NEAR_US
from duly.store.wakeups import SECOND_US
from duly.testing.factories import HOUR_US, add_runs, new_run
from tests.postgres.patience import comes_true

LONG_US = 10 * SECOND_US


def test_what_is_promised_near_wakes_who_waits_in_another_process(url, open_store):
    """F6: through the database, so on any host."""
    waiting, ordering = open_store(url), open_store(url)
    place = waiting.wakeups()
    try:
        assert place.wait(LONG_US), "it wakes once when it begins to hear"
        ordering.add_runs(add_runs(new_run(ordering.now() + SECOND_US)))

        assert place.wait(LONG_US)
    finally:
        place.close()


def test_what_is_far_away_rings_no_bell(url, open_store):
    store = open_store(url)
    with psycopg.connect(url, autocommit=True) as listener:
        listener.execute("LISTEN duly")
        store.add_runs(add_runs(new_run(store.now() + HOUR_US)))
        store.close()

        assert [] == [*listener.notifies(timeout=0.5)]


def test_closing_rings_for_what_was_just_promised(url, open_store):
    """A short-lived program promises something and ends."""
    store = open_store(url)
    with psycopg.connect(url, autocommit=True) as listener:
        listener.execute("LISTEN duly")
        store.add_runs(add_runs(new_run(store.now() + SECOND_US)))
        store.close()

        assert 1 == len([*listener.notifies(timeout=10, stop_after=1)])


def test_many_promises_ring_a_few_times(url, open_store):
    """NOTIFY takes a lock of the whole database: one is for all that was written meanwhile."""
    store = open_store(url)
    count = 300
    with psycopg.connect(url, autocommit=True) as listener:
        listener.execute("LISTEN duly")
        for number in range(count):
            store.add_runs(add_runs(new_run(store.now() + NEAR_US // 2, f"number {number}")))
        store.close()
        heard = [*listener.notifies(timeout=2)]

    assert 1 <= len(heard) < count / 2


def test_nothing_is_rung_before_the_commit(url, open_store):
    """It would wake for what nobody can see yet, and hold the database's lock while doing so."""
    store = open_store(url)
    with psycopg.connect(url, autocommit=True) as listener:
        listener.execute("LISTEN duly")
        with store.transaction(LONG_US) as lent:
            store.add_runs(add_runs(new_run(store.now() + SECOND_US)), within=lent)
            assert [] == [*listener.notifies(timeout=0.3)]

        assert 1 == len([*listener.notifies(timeout=10, stop_after=1)])


def test_who_listens_hears_again_after_the_connection_was_lost(postgres_server, url, open_store):
    waiting, ordering = open_store(url), open_store(url)
    place = waiting.wakeups()
    try:
        assert place.wait(LONG_US)
        postgres_server.kill_backends(url)
        assert comes_true(lambda: place.wait(SECOND_US)), "it begins to hear again, and says so"
        ordering.add_runs(add_runs(new_run(ordering.now() + SECOND_US)))

        assert place.wait(LONG_US)
    finally:
        place.close()
