"""A file of schema 1, and programs of it that still run: both go on beside workers.

The statements are those of the first release, as it will run them for ever.
"""

from __future__ import annotations

import apsw
import pytest

from duly.domain.enums import RunState
from duly.domain.outcomes import Succeeded
from duly.domain.runs import AttemptCounts
from duly.errors import SchemaMismatch
from duly.store.ports.maintenance import PruneKind
from duly.store.ports.queries import RunFilter
from duly.store.sqlite import SqliteSettings, SqliteStore
from duly.store.sqlite.schema import known_migrations
from duly_conformance import steps
from duly_conformance import steps as work
from duly_conformance.kit import SECOND_US, cancel_run, run_id
from duly_conformance.vitals import NOTHING_KEPT, prune

FIRST = SqliteSettings(migrations=known_migrations()[:1])

INSERT_RUN = """
INSERT INTO duly_runs (id, tenant, schedule_id, definition_number, key, task, arguments, queue,
    priority, origin, lane, scheduled_for, not_before, window_from, created_at, fired_at)
VALUES (?1, 'default', NULL, NULL, NULL, 'remind', '{}', 'default', 5, 'now', 'live', ?2, ?2, NULL,
    ?2, ?2)
ON CONFLICT (id) DO NOTHING RETURNING id"""
INSERT_READY = """
INSERT INTO duly_ready (queue, priority, rank, run_id, fired_at, not_before)
VALUES (?, ?, ?, ?, ?, ?)"""
INSERT_OUTCOME = """
INSERT INTO duly_outcomes (run_id, state, reason, finished_at) VALUES (?, ?, ?, ?)"""
INSERT_MEMBER = """
INSERT INTO duly_members (kind, host, process, started_at, renewed_at, expires_at, skew_us,
    is_holding, tzdata, wake_address)
VALUES (?, ?, ?, ?, ?, ?, 0, 0, ?, ?) RETURNING id"""
INSERT_ARRIVAL = "INSERT INTO duly_arrivals (shard, kind, ref, at) VALUES (?, ?, ?, ?)"
INSERT_TASK = "INSERT INTO duly_tasks (name) VALUES (?) ON CONFLICT DO NOTHING"
READ_DELAYED_ARRIVALS = """
SELECT DISTINCT d.due_at, d.id, d.shard, d.due_at, d.generation, 0
FROM duly_arrivals a JOIN duly_delayed d ON d.id = a.ref
WHERE a.number > ? AND a.kind = 'delayed' AND a.shard IN (SELECT value FROM json_each(?))"""
PRUNE = (
    "DELETE FROM duly_outcomes WHERE run_id = ?",
    "DELETE FROM duly_runs WHERE id = ? RETURNING schedule_id, scheduled_for, origin",
)


@pytest.fixture
def old(path, clock):
    """A file as the first release has made it, and its connection."""
    SqliteStore(path, clock, settings=FIRST).close()
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    yield connection
    connection.close()


def fire(connection, text, now):
    """Make a run and queue it, as the first release fires."""
    identity = run_id(text)
    with connection:
        assert [(identity,)] == connection.execute(INSERT_RUN, (identity, now)).fetchall()
        connection.execute(INSERT_READY, ("default", 5, now, identity, now, now))
    return identity


def migrated(path, clock):
    store = SqliteStore(path, clock)
    store.migrate()
    return store


def test_what_was_queued_before_is_claimed_and_finished_after(old, path, clock):
    """Promises of the old schema are kept under the new one."""
    queued = fire(old, "queued", clock.now_us())
    closed = fire(old, "closed", clock.now_us())
    old.execute("DELETE FROM duly_ready WHERE run_id = ?", (closed,))
    old.execute(INSERT_OUTCOME, (closed, "cancelled", None, clock.now_us()))
    store = SqliteStore(path, clock)

    with pytest.raises(SchemaMismatch, match="an older schema"):
        store.status()
    numbers = [migration.number for migration in store.migrate()]
    assert list(range(2, len(numbers) + 2)) == numbers
    assert [] == store.check()
    assert (RunState.CANCELLED, AttemptCounts()) == (
        work.get_run(store, closed).state,
        work.get_run(store, closed).tries,
    )
    worker = work.join_worker(store)
    claimed = work.take_one(store, worker)
    assert (queued, 1, 1) == (claimed.record.id, claimed.tries.fence, claimed.tries.attempt)
    work.end(store, worker, claimed, Succeeded())
    assert RunState.SUCCEEDED == work.get_run(store, queued).state
    assert [] == store.check()
    store.close()


def test_a_program_of_the_first_schema_goes_on_firing(old, path, clock):
    """What it queues is claimed by workers that it knows nothing of."""
    store = migrated(path, clock)
    worker = work.join_worker(store)

    fired = fire(old, "from the old program", clock.now_us())
    old.execute(INSERT_TASK, ("remind",))
    old.execute(INSERT_ARRIVAL, (0, "schedule", b"", clock.now_us()))

    assert [fired] == work.take_ids(store, worker)
    assert [] == store.check()
    store.close()


def test_a_program_of_the_first_schema_passes_the_check_of_ages(path, clock):
    """INV-25."""
    migrated(path, clock).close()
    older = SqliteStore(path, clock, settings=FIRST)

    assert older.schema_status().is_usable
    assert steps.create(older).version == 1
    older.close()


def test_a_dispatcher_of_the_first_schema_joins(old, path, clock):
    store = migrated(path, clock)
    now = clock.now_us()
    row = ("dispatcher", "old", 1, now, now, now + SECOND_US, "", "")

    ((member,),) = old.execute(INSERT_MEMBER, row).fetchall()

    (seen,) = store.status().members
    assert (member, 0, ()) == (seen.id, seen.slots, seen.queues)
    store.close()


def test_a_dispatcher_of_the_first_schema_does_not_take_a_retry_for_its_own(old, path, clock):
    """It reads the feed, and finds nothing pending there."""
    store = migrated(path, clock)
    work.make_waiting(store, after_us=SECOND_US)
    every_shard = "[0,1,2,3,4,5,6,7]"

    assert 1 == old.execute("SELECT count(*) FROM duly_arrivals").get
    assert [] == old.execute(READ_DELAYED_ARRIVALS, (0, every_shard)).fetchall()
    store.close()


def test_a_program_of_the_first_schema_prunes_what_attempts_left(old, path, clock):
    """It does not know of them, and they go with their run."""
    store = migrated(path, clock)
    waiting = work.make_waiting(store)
    store.cancel_run(cancel_run(waiting))

    for statement in PRUNE:
        old.execute(statement, (waiting,)).fetchall()

    assert [] == store.list_attempts(waiting)
    assert [] == store.check()
    store.close()


def test_what_the_first_schema_closed_is_pruned(old, path, clock):
    closed = fire(old, "closed", clock.now_us() - 1)
    old.execute("DELETE FROM duly_ready")
    old.execute(INSERT_OUTCOME, (closed, "succeeded", None, clock.now_us() - 1))
    store = migrated(path, clock)

    assert 1 == prune(store, NOTHING_KEPT).counts[PruneKind.OUTCOMES]
    assert [] == store.list_runs(RunFilter(tenant="default"))
    store.close()
