"""Imports and orders about workers under real races on PostgreSQL."""

from __future__ import annotations

import pytest

from duly.errors import Conflict
from duly.store.memory import MemoryStore
from duly.store.ports.dispatch import WorkerStatus
from duly.store.ports.execution import ClaimRuns
from duly_conformance import steps
from duly_conformance import steps as work
from duly_conformance.claiming import order
from duly_conformance.kit import snapshot
from duly_conformance.schedules import move

TAKE_NAME = """
INSERT INTO duly.schedules (id, tenant, name, status, created_at, updated_at, updated_by)
VALUES (%s, 'default', 'mine', 'ended', 0, 0, 'somebody')"""


@pytest.fixture
def store(patient_store):
    return patient_store


def test_an_import_that_is_overtaken_leaves_nothing_behind(store, clock, watch):
    """A name that somebody takes after it was looked for."""
    other = MemoryStore(clock)
    steps.create(other, "free")
    steps.create(other, "mine")
    before = snapshot(store)

    with watch.holding(TAKE_NAME, ["1" * 32]) as held:
        importing = watch.start(lambda: move(other, store))
        assert watch.is_blocked()
        held.commit()
        with pytest.raises(Conflict, match="was overtaken by another order; try again"):
            importing.result()

    watch.line.execute("DELETE FROM duly.schedules")
    assert before == snapshot(store)


def test_a_claim_that_is_under_way_comes_before_the_order(store, watch):
    """What it takes is held by the worker and finished; nothing is taken after the commit."""
    worker = work.join_worker(store)
    first = work.queue(store, "first")
    watch.put_turnstile("INSERT", "duly.claims")
    claiming = watch.start(lambda: work.take_ids(store, worker))
    assert watch.stand_at_the_turnstile(1)
    ordering = watch.start(lambda: order(store, worker, WorkerStatus.QUARANTINED, is_fenced=True))
    assert watch.is_blocked()
    watch.open_turnstile()

    assert [first] == claiming.result()
    ordering.result()
    assert [first] == [lost.hold.run_id for lost in work.lost_claims(store)]
    work.queue(store, "second")
    assert not store.claim_runs(ClaimRuns(worker=worker, limit=9)).is_alive
