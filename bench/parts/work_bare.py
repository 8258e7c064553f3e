"""The least that claiming and finishing take, and what the stores make of it, without a worker.

Both begin with a queue that is full. The bare loops move a batch from the queue to the claims and
from there to the outcomes, durably, and decide nothing: no fence, no lease, no order of queues.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import apsw
import psycopg

from bench.stores.places import CLOCK, DAY_US, SECOND_US, new_app
from duly.domain.attempts import TaskPolicy
from duly.domain.concluding import Attempted, Succeeded, conclude
from duly.store.dispatch import Join, MemberKind
from duly.store.execution import ClaimRuns, Finish

if TYPE_CHECKING:
    from duly.store.execution import Claimed, ClaimedRun

CLAIM = """
WITH gone AS (
    DELETE FROM duly.ready y USING (
        SELECT queue, priority, rank, run_id FROM duly.ready
        WHERE queue = 'default' ORDER BY priority, rank, run_id LIMIT %s
        FOR UPDATE SKIP LOCKED) p
    WHERE (y.queue, y.priority, y.rank, y.run_id) = (p.queue, p.priority, p.rank, p.run_id)
    RETURNING y.run_id),
claimed AS (
    INSERT INTO duly.claims (run_id, worker, claimed_at, begun_at, fence, attempt, charged)
    SELECT run_id, 0, duly.now_us(), duly.now_us(), 1, 1, 0 FROM gone)
SELECT r.id, r.task, r.arguments FROM gone JOIN duly.runs r ON r.id = gone.run_id"""
FINISH = """
WITH done AS (DELETE FROM duly.claims WHERE run_id = ANY(%s) RETURNING *)
INSERT INTO duly.outcomes (run_id, finished_at, state, worker, claimed_at, started_at, begun_at,
    fence, attempt, charged)
SELECT run_id, duly.now_us(), 'succeeded', worker, claimed_at, claimed_at, begun_at, fence, attempt,
    charged FROM done"""

READ_QUEUED = """
SELECT y.priority, y.rank, y.run_id, r.task, r.arguments
FROM duly_ready y JOIN duly_runs r ON r.id = y.run_id
WHERE y.queue = 'default' ORDER BY y.priority, y.rank, y.run_id LIMIT ?"""
TAKE = """
DELETE FROM duly_ready WHERE queue = 'default' AND priority = ? AND rank = ? AND run_id = ?"""
INSERT_CLAIM = """
INSERT INTO duly_claims (run_id, worker, fence, attempt, charged, begun_at, claimed_at)
VALUES (?, 0, 1, 1, 0, ?, ?)"""
END_CLAIM = "DELETE FROM duly_claims WHERE run_id = ?"
INSERT_OUTCOME = """
INSERT INTO duly_outcomes (run_id, state, finished_at, fence, attempt, charged, begun_at, worker,
    claimed_at, started_at)
VALUES (?, 'succeeded', ?, 1, 1, 1, ?, 0, ?, ?)"""


def bare_postgres(url: str, count: int, batch: int) -> float:
    """Claim and finish so many by plain statements; return how many a second."""
    with psycopg.connect(url, autocommit=True, prepare_threshold=1) as connection:
        connection.execute("SET jit = off")
        done, began = 0, CLOCK.monotonic_us()
        while done < count:
            found = connection.execute(CLAIM, (min(batch, count - done),)).fetchall()
            connection.execute(FINISH, ([row[0] for row in found],))
            assert found, "the queue is full enough"
            done += len(found)
        took = CLOCK.monotonic_us() - began
    return done / took * SECOND_US


def bare_sqlite(url: str, count: int, batch: int) -> float:
    """Claim and finish so many in a bare loop; return how many a second."""
    connection = apsw.Connection(url.removeprefix("sqlite:///"))
    connection.pragma("synchronous", "full")
    connection.pragma("cache_size", -65_536)
    connection.pragma("wal_autocheckpoint", 10_000)
    done, began = 0, CLOCK.monotonic_us()
    while done < count:
        now = CLOCK.now_us()
        connection.execute("BEGIN IMMEDIATE")
        found = connection.execute(READ_QUEUED, (min(batch, count - done),)).fetchall()
        connection.executemany(TAKE, [row[:3] for row in found])
        connection.executemany(INSERT_CLAIM, [(row[2], now, now) for row in found])
        connection.execute("COMMIT")
        assert found, "the queue is full enough"
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(END_CLAIM, [(row[2],) for row in found])
        connection.executemany(INSERT_OUTCOME, [(row[2], now, now, now, now) for row in found])
        connection.execute("COMMIT")
        done += len(found)
    took = CLOCK.monotonic_us() - began
    connection.close()
    return done / took * SECOND_US


def stored(url: str, count: int, batch: int) -> float:
    """Claim and finish so many through the store, without a worker; return how many a second."""
    order = Join(
        kind=MemberKind.WORKER, host="bench", process=os.getpid(), ttl_us=DAY_US, slots=batch
    )
    with new_app(url) as app:
        store = app.store
        member, _ = store.join(order)
        done, began = 0, CLOCK.monotonic_us()
        while done < count:
            limit = min(batch, count - done)
            claimed = store.claim_runs(ClaimRuns(worker=member, limit=limit))
            assert claimed.runs, "the queue is full enough"
            store.finish_runs(member, [_finish(claimed, one) for one in claimed.runs])
            done += len(claimed.runs)
        took = CLOCK.monotonic_us() - began
        store.leave(member)
    return done / took * SECOND_US


def _finish(claimed: Claimed, run: ClaimedRun) -> Finish:
    attempted = Attempted(
        run_id=run.record.id, policy=TaskPolicy(), tries=run.tries, now=claimed.now
    )
    return Finish(
        hold=run.hold, started_at=claimed.now, conclusion=conclude(Succeeded(), attempted)
    )
