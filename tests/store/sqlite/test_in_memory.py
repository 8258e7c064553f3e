"""A store in memory: one connection that behaves as the several of a file do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from duly.errors import StoreUnavailable
from duly.store.sqlite import SqliteStore
from duly_conformance import steps
from duly_conformance.kit import SECOND_US, add_runs, new_run
from tests.store.sqlite.conftest import AT_ONCE

THREADS = 4
RUNS_EACH = 25


@pytest.fixture
def store(clock):
    with closing(SqliteStore(":memory:", clock)) as opened:
        yield opened


def active(store):
    return store.status().schedules.get("active", 0)


def test_each_store_is_a_database_of_its_own(store, clock):
    steps.create(store)

    with closing(SqliteStore(":memory:", clock)) as other:
        assert (1, 0) == (active(store), active(other))


def test_its_schema_was_applied_when_it_was_opened(store, clock):
    clock.advance(SECOND_US)

    with closing(SqliteStore(":memory:", clock, shards=3)) as other:
        assert {clock.now_us()} == {one.applied_at for one in other.schema_status().applied}
        assert 3 == len({one.key.shard for one in other.status().leases if one.key.lane == "live"})
        assert [] == other.check()


def test_what_others_read_beside_a_lent_transaction_is_the_state_before_it(store):
    with ThreadPoolExecutor(1) as other, store.transaction(SECOND_US) as lent:
        store.joined(lent).add_runs(add_runs(new_run(None)))

        assert 0 == other.submit(store.status).result().queued
        assert 0 == store.status().queued
        assert [] == store.check()
    assert 1 == store.status().queued


def test_nothing_stays_of_a_transaction_that_fails(store):
    def fail() -> None:
        with store.transaction(SECOND_US) as lent:
            store.joined(lent).add_runs(add_runs(new_run(None)))
            raise KeyError

    with pytest.raises(KeyError):
        fail()

    assert 0 == store.status().queued


def test_temporary_tables_end_with_the_transaction_that_made_them(store):
    """As on a file, where the connection that was lent is closed."""
    for _ in range(2):
        with store.transaction(SECOND_US) as lent:
            lent.execute('CREATE TEMP TABLE "a ""b" (n INTEGER)')
            lent.execute('CREATE TEMP VIEW seen AS SELECT n FROM "a ""b"')


def test_an_export_stays_as_it_was_while_others_write(store):
    steps.create(store, "before")

    with store.export_promises(has_history=False) as exported:
        steps.create(store, "meanwhile")
        names = [row["name"] for one in exported.bundles for row in one.rows.get("schedules", ())]

    assert ["before"] == names
    assert 2 == active(store)


def test_threads_that_read_and_write_take_turns(store):
    def order(thread: int) -> None:
        for number in range(RUNS_EACH):
            store.add_runs(add_runs(new_run(None, f"{thread}.{number}")))
            assert store.status().queued

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(order, range(THREADS)))

    assert THREADS * RUNS_EACH == store.status().queued


def test_a_reader_of_a_program_that_ends_is_broken_off_and_a_writer_is_not(store):
    store.interrupt()

    with pytest.raises(StoreUnavailable, match="the program ends"):
        store.status()
    store.add_runs(add_runs(new_run(None)))


def test_a_closed_store_says_so(store):
    store.close()

    with pytest.raises(StoreUnavailable, match="has been closed"):
        steps.create(store)
    with pytest.raises(StoreUnavailable, match="has been closed"):
        store.status()


def test_a_transaction_that_is_open_when_the_store_is_closed_may_still_end(clock):
    store = SqliteStore(":memory:", clock, settings=AT_ONCE)

    with store.transaction(SECOND_US) as lent:
        store.joined(lent).add_runs(add_runs(new_run(None)))
        store.close()
        store.joined(lent).add_runs(add_runs(new_run(None, "another")))
    with pytest.raises(StoreUnavailable, match="has been closed"):
        store.status()
    store.close()
