"""From schema 1 to workers: what was promised is kept, and programs of schema 1 go on."""

from __future__ import annotations

import psycopg
import pytest

from duly.domain.enums import Overlap, RunState
from duly.domain.outcomes import Succeeded
from duly.domain.policies import Retry
from duly.domain.runs import TaskPolicy
from duly.errors import SchemaMismatch
from duly.store.ports.execution import WORKER_TTL_US, FinishResult
from duly.store.postgres import PostgresSettings
from duly.store.postgres.schema import known_migrations
from duly_conformance import steps
from duly_conformance import steps as work
from duly_conformance.kit import add_runs, finish, new_run

FIRST = PostgresSettings(migrations=known_migrations()[:1])
# As programs of schema 1 write and prune: none of them knows of the columns that came since.
JOIN_AS_BEFORE = """
INSERT INTO duly.members (kind, host, process, started_at, renewed_at, expires_at, skew_us,
    is_holding, tzdata, wake_address)
VALUES ('dispatcher', 'here', 1, 0, 0, 1, 0, false, '', '')"""
QUEUE_AS_BEFORE = """
WITH made AS (
    INSERT INTO duly.runs (id, scheduled_for, not_before, created_at, fired_at, priority, tenant,
        task, queue, origin, lane, arguments)
    SELECT gen_random_uuid(), now, now, now, now, 50, 'default', 'remind', 'default', 'now', 'live',
        '{}' FROM (SELECT duly.now_us() AS now) n RETURNING id, not_before)
INSERT INTO duly.ready (rank, fired_at, not_before, run_id, priority, era, queue)
SELECT not_before, not_before, not_before, id, 50, 0, 'default' FROM made"""
END_AS_BEFORE = """
WITH done AS (DELETE FROM duly.claims WHERE run_id = %(run)s RETURNING *)
INSERT INTO duly.outcomes (run_id, finished_at, state, worker, claimed_at, fence, attempt)
SELECT run_id, duly.now_us(), 'succeeded', worker, claimed_at, fence, attempt FROM done"""
PRUNE_AS_BEFORE = """
WITH closed AS (DELETE FROM duly.outcomes WHERE run_id = %(run)s)
DELETE FROM duly.runs WHERE id = %(run)s"""
DELAY_AS_BEFORE = """
WITH counted AS (INSERT INTO duly.tally_changes (name, change) VALUES ('delayed', 1))
INSERT INTO duly.delayed (id, due_at, created_at, shard, generation, priority, tenant, task,
    arguments, queue, origin, lane, fingerprint)
SELECT gen_random_uuid(), 1::int8 << 52, duly.now_us(), 0, 1, 50, 'default', 'remind', '{}',
    'default', 'delay', 'live', 'x'"""
NEWER_POLICY = (
    '{"retry":{"attempts":3,"per_hour":9},"effects":"reversible","stall":"1m","memory":1}'
)
PRUNE_MEMBERS_AS_BEFORE = """
DELETE FROM duly.members WHERE id IN (
    SELECT m.id FROM duly.members m
    WHERE m.expires_at < 1::int8 << 60
        AND NOT EXISTS (SELECT 1 FROM duly.leases l WHERE l.owner = m.id)
    ORDER BY m.id LIMIT 100 FOR UPDATE SKIP LOCKED)"""


@pytest.fixture
def old(database, open_store):
    """A store as a program of schema 1 has made it, with something in it."""
    store = open_store(database, settings=FIRST)
    store.now()
    with psycopg.connect(database, autocommit=True) as line:
        line.execute(QUEUE_AS_BEFORE)
        line.execute(DELAY_AS_BEFORE)
    return store


def test_what_was_promised_before_workers_is_worked_on(database, old, open_store):
    """Refused until it is migrated; then every row is as it was, and has no tries."""
    store = open_store(database)
    with pytest.raises(SchemaMismatch, match="run `duly db migrate`"):
        store.status()

    numbers = [one.number for one in store.migrate()]
    assert list(range(2, len(numbers) + 2)) == numbers
    worker = work.join_worker(store)
    claimed = work.take_one(store, worker)
    assert (1, 1, 0) == (claimed.tries.fence, claimed.tries.attempt, claimed.tries.charged)
    result = store.finish_runs(worker, [finish(claimed, Succeeded())]).results
    assert (FinishResult.ACCEPTED,) == result
    assert RunState.SUCCEEDED is work.get_run(store, claimed.record.id).state
    assert 1 == store.status().delayed
    assert [] == store.check()


def test_a_program_of_schema_1_goes_on_queueing(database, old, open_store):
    """What it queues begins with no tries."""
    store = open_store(database)
    store.migrate()
    with psycopg.connect(database, autocommit=True) as line:
        line.execute(JOIN_AS_BEFORE)
        line.execute(QUEUE_AS_BEFORE)
    assert [one.number for one in known_migrations()[:1]] == [
        one.number for one in old.schema_status().applied
    ]
    assert old.schema_status().is_usable
    old.add_runs(add_runs(new_run(None, "by an old program")))

    assert 3 == len(work.take(store, work.join_worker(store)))
    assert [] == store.check()


def test_a_program_of_schema_1_prunes_nobody_who_holds_claims(database, old, open_store):
    """By its member's row a lost claim is found and settled."""
    store = open_store(database)
    store.migrate()
    worker = work.join_worker(store)
    idle = work.join_worker(store, tasks=("remind",))
    claimed = work.take_one(store, worker)
    store.leave(worker)
    with psycopg.connect(database, autocommit=True) as line:
        line.execute(PRUNE_MEMBERS_AS_BEFORE)
        kept = line.execute("SELECT id FROM duly.members").fetchall()

    assert [(worker,)] == kept
    assert not store.is_served("remind", "default"), f"{idle} is gone with what it knew"
    (lost,) = work.lost_claims(store)
    assert [True] == work.settle_lost(store, work.maintain(store), lost)
    assert claimed.hold == lost.hold
    assert steps.audit(store, action="attempt.lost")


@pytest.mark.parametrize("is_pruned", [False, True])
def test_a_run_that_a_program_without_gates_has_ended_holds_nothing(
    timed_url, clock, store, is_pruned
):
    """The next that comes to the gate, or whoever tends the store, sees that it is over."""
    record = steps.create(store, overlap=Overlap.QUEUE_ALL)
    for _ in range(2):
        record = steps.fire_due(store, clock, record)
    claimed = work.take_one(store, work.join_worker(store))
    with psycopg.connect(timed_url, autocommit=True) as line:
        line.execute(END_AS_BEFORE, {"run": claimed.record.id.hex()})
        if is_pruned:
            line.execute(PRUNE_AS_BEFORE, {"run": claimed.record.id.hex()})

    assert 1 == store.open_gates(10)
    assert 1 == store.status().queued
    assert [] == store.check()


@pytest.mark.parametrize("text", [NEWER_POLICY, "{", "7"])
def test_a_policy_that_can_not_be_read_stops_nobody(timed_url, clock, store, text):
    """INV-25: of a task of a newer program's; claims are found, listed and settled."""
    store.register_policies({"remind": TaskPolicy(), "report": TaskPolicy(retry=Retry(2))})
    _, claimed = work.queue_and_take(store)
    work.queue_and_take(store, "b", task="report")
    with psycopg.connect(timed_url, autocommit=True) as line:
        line.execute("UPDATE duly.tasks SET policy = %s WHERE name = 'remind'", (text,))
    clock.advance(WORKER_TTL_US)

    lost = work.lost_claims(store)

    assert 2 == len(lost)
    assert 1 == len(store.list_attempts(claimed.record.id))
    assert [True, True] == work.settle_lost(store, work.maintain(store), *lost)
