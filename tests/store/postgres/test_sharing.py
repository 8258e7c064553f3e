"""Shares between tenants cost what is claimed, and nothing where there is nothing to share."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest

from duly.engine.manual_clock import START_US
from duly.store.ports.execution import ClaimRuns
from duly.store.postgres import PostgresStore, claiming
from duly.store.postgres.claiming import ALONE_KEPT_US
from duly_conformance import steps as work
from tests.postgres.database_clock import DatabaseClock
from tests.postgres.reused_databases import with_store_and_clock
from tests.store.postgres.loaded import Meter, tidy

FILL = """
WITH made AS (
    INSERT INTO duly.runs (id, scheduled_for, not_before, created_at, fired_at, priority, tenant,
        task, queue, origin, lane, arguments)
    SELECT gen_random_uuid(), 1, 1, 1, 1, 4, 'tenant ' || (number % %(tenants)s), 'remind', 'default',
        'now', 'live', '{}'
    FROM generate_series(1, %(runs)s) number RETURNING id, tenant)
INSERT INTO duly.ready (rank, fired_at, not_before, run_id, priority, era, queue, tenant)
SELECT 1, 1, 1, id, 4, 0, 'default', tenant FROM made"""
LIMIT = 20
SHARING = "(SELECT FROM ring LIMIT 2)"
"""What is in no statement but those that share."""


@pytest.fixture
def asked(monkeypatch):
    """A list that grows with every look at all leaves: whether it was one for shares."""
    looks = []
    statement = claiming._statement  # noqa: SLF001 - it is told apart there

    def noted(*values, **rest):
        found = statement(*values, **rest)
        looks.append(SHARING in found[0])
        return found

    monkeypatch.setattr(claiming, "_statement", noted)
    return looks


def crowd(store, tenants, count=12):
    for number in range(count):
        for tenant in tenants:
            work.queue(store, f"{tenant} {number}", tenant=tenant)


def claim_again(store, worker, served):
    claimed = store.claim_runs(ClaimRuns(worker=worker, limit=2, served=served))
    assert 2 == len(claimed.runs)
    return dict(claimed.served)


def test_a_crowd_of_one_tenant_is_looked_through_seldom(store, clock, asked):
    """Who is alone does not pay for shares with every claim."""
    crowd(store, ["default"])
    worker = work.join_worker(store)
    served = claim_again(store, worker, {})
    for _ in range(3):
        served = claim_again(store, worker, served)
    clock.advance(ALONE_KEPT_US)
    claim_again(store, worker, served)

    assert [False, True, False, False, True] == asked


def test_a_crowd_of_several_is_shared_by_every_claim(store, asked):
    """Also by claims of one run, which see one tenant at a time."""
    crowd(store, ["default", "theirs"])
    worker, served = work.join_worker(store), dict[str, str]()
    for _ in range(4):
        claimed = store.claim_runs(ClaimRuns(worker=worker, limit=1, served=served))
        served = dict(claimed.served)

    assert [False, True, True, True] == asked


def test_a_share_is_never_read_from_one_leaf(store, asked):
    """The statement for one leaf knows of no turns."""
    crowd(store, ["default", "theirs"], 2)
    worker = work.join_worker(store)
    assert 4 == len(work.take(store, worker))
    crowd(store, ["a", "b"], 3)
    taken = store.claim_runs(ClaimRuns(worker=worker, limit=2, served={"default": "b"}))

    assert {"a", "b"} == {run.record.tenant for run in taken.runs}
    assert [False, True] == asked


@pytest.mark.timeout(600)
@pytest.mark.parametrize("is_newest", [False, True], ids=["oldest", "newest"])
def test_what_a_share_costs_does_not_grow_with_what_waits(new_database, is_newest):
    """Pages for a claim, among 40 tenants with 50 runs each and 1,000 with 40 each."""
    costs = []
    for tenants, runs in ((40, 2_000), (1_000, 40_000)):
        url = new_database(with_store_and_clock)
        with psycopg.connect(url, autocommit=True) as line:
            line.execute(FILL.replace("%(tenants)s", str(tenants)).replace("%(runs)s", str(runs)))
        tidy(url)
        clock = DatabaseClock(url, START_US)
        store = PostgresStore(url, clock)
        meter = Meter(store, url)
        worker, served = work.join_worker(store, ttl_us=10**15), {"default": ""}
        pages = []
        for _ in range(4):
            before = meter.pages()
            order = ClaimRuns(worker=worker, limit=LIMIT, served=served, newest_first=is_newest)
            claimed = store.claim_runs(order)
            pages.append(meter.pages() - before)
            served = dict(claimed.served)
            assert LIMIT == len({run.record.tenant for run in claimed.runs})
        costs.append(min(pages))
        for one in (meter, store, clock):
            one.close()
    few, many = costs

    assert many <= 1.5 * few + 50, costs


@pytest.mark.timeout(600)
def test_workers_that_share_at_once_get_each_run_once(new_database):
    """INV-4: whatever others have locked, nothing is claimed twice and nothing is left."""
    url = new_database(with_store_and_clock)
    with psycopg.connect(url, autocommit=True) as line:
        line.execute(FILL.replace("%(tenants)s", "5").replace("%(runs)s", "900"))

    def take_all(number):
        taken, served, is_newest = [], {"default": ""}, False
        with closing(PostgresStore(url)) as store:
            worker = work.join_worker(store, ttl_us=10**15)
            while True:
                order = ClaimRuns(
                    worker=worker, limit=number, served=served, newest_first=is_newest
                )
                claimed = store.claim_runs(order)
                taken += [run.run_id for run in claimed.runs]
                served, is_newest = {"default": "", **claimed.served}, not is_newest
                if not claimed.runs:
                    return taken

    with ThreadPoolExecutor(4) as pool:
        taken = [run for runs in pool.map(take_all, (1, 4, 7, 30)) for run in runs]

    assert 900 == len(taken) == len(set(taken))
