"""The broom: what claims leave behind does not stay at the front of the queue."""

from __future__ import annotations

import itertools

import psycopg
import pytest

from duly.store.postgres import broom, rotation
from duly.testing.conformance import work_steps as work
from tests.postgres.reused_databases import with_store
from tests.waiting import comes_true

NUMBERS = itertools.count()
"""Names of runs, of which each is new: claims end, so their count may be what it was before."""
ERA = "SELECT era FROM duly.cluster"
SWEPT = """
SELECT count(*) FROM pg_stat_user_tables
WHERE schemaname = 'duly' AND relname LIKE 'ready%' AND last_vacuum IS NOT NULL"""


@pytest.fixture
def url(new_database):
    """Make a new database: in no other test was anything swept there."""
    return new_database(with_store)


@pytest.fixture
def eager(monkeypatch):
    """A broom that takes little for much."""
    monkeypatch.setattr(broom, "LOOK_AFTER", 1)
    monkeypatch.setattr(broom, "DEAD_MAX", 5)
    monkeypatch.setattr(broom, "APART_US", (10_000, 10_000))


def claim_some(store, worker, line):
    """Claim a few more; say whether anything was swept by now."""
    for _ in range(10):
        work.queue(store, f"{next(NUMBERS)}")
    work.take(store, worker)
    return line.execute(SWEPT).fetchone()[0] > 0


@pytest.mark.usefixtures("eager")
def test_who_claims_much_has_it_swept(url, open_store):
    """F3: a claim begins to read at the front of the queue."""
    store = open_store(url)
    worker = work.join(store)
    with psycopg.connect(url, autocommit=True) as line:
        assert comes_true(lambda: claim_some(store, worker, line))


@pytest.mark.usefixtures("eager")
def test_what_cannot_be_swept_is_left_behind(url, open_store, monkeypatch):
    """F3: a transaction that somebody leaves open does not make claims slower and slower."""
    monkeypatch.setattr(rotation, "ERA_PRESSED_US", 0)
    store = open_store(url)
    worker = work.join(store)
    with psycopg.connect(url) as old, psycopg.connect(url, autocommit=True) as line:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM pg_class")
        began = line.execute(ERA).fetchone()

        def has_moved_on() -> bool:
            claim_some(store, worker, line)
            return line.execute(ERA).fetchone() != began

        assert comes_true(has_moved_on)
        assert began is not None
        (era,) = began
        size = f"SELECT pg_relation_size('duly.ready_{era}')"

        def is_emptied() -> bool:
            claim_some(store, worker, line)
            return line.execute(size).fetchone() == (0,)

        assert comes_true(is_emptied), "while the transaction is still open"
