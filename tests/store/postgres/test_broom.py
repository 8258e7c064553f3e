"""The broom: what claims leave behind does not stay at the front of the queue."""

from __future__ import annotations

import psycopg
import pytest

from duly.store.postgres import broom
from duly.testing.conformance import work_steps as work
from tests.postgres.patience import comes_true

SWEPT = """
SELECT count(*) FROM pg_stat_user_tables
WHERE schemaname = 'duly' AND relname LIKE 'ready%' AND last_vacuum IS NOT NULL"""


@pytest.fixture
def eager(monkeypatch):
    """A broom that takes little for much."""
    monkeypatch.setattr(broom, "LOOK_AFTER", 1)
    monkeypatch.setattr(broom, "DEAD_MAX", 5)
    monkeypatch.setattr(broom, "APART_US", (10_000, 10_000))


def claim_some(store, worker, line):
    """Claim a few more; say whether anything was swept by now."""
    numbers = range(store.status().running, store.status().running + 10)
    for number in numbers:
        work.queue(store, f"{number}")
    work.take(store, worker)
    return line.execute(SWEPT).fetchone()[0] > 0


@pytest.mark.usefixtures("eager")
def test_who_claims_much_has_it_swept(url, open_store):
    """F3: a claim begins to read at the front of the queue."""
    store = open_store(url)
    worker = work.join(store)
    with psycopg.connect(url, autocommit=True) as line:
        assert comes_true(lambda: claim_some(store, worker, line))
