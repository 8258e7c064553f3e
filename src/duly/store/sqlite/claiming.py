"""Claiming queued runs, and the heartbeat of whoever holds some.

The hot half of a worker's life: one transaction claims as many runs as there is room for, in the
order of the queue's own index, and nothing behind them is read.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from duly.domain.attempts import TIMEOUT_DEFAULT_US, Tries
from duly.domain.literals import RunState
from duly.store import records
from duly.store.execution import (
    Beat,
    Beaten,
    Claimed,
    ClaimedRun,
    ClaimRuns,
    Hold,
    Stop,
    StopKind,
)
from duly.store.sqlite import rows
from duly.store.sqlite.leases import seems_alive
from duly.store.sqlite.work import counted
from duly.store.work_rulings import claimed_tries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly.domain.attempts import TaskPolicy
    from duly.domain.runs import RunRecord
    from duly.store.dispatch import MemberId
    from duly.store.records import Row
    from duly.store.sqlite.work import Look, Work

LIST_PAUSED = "SELECT name FROM duly_queues ORDER BY name"
NEXT_QUEUE = "SELECT min(queue) FROM duly_ready WHERE queue > ?"
# What a schedule says is nearly always in the queue's row; if not, it is looked up.
_READ_QUEUED = f"""
SELECT r.id, r.tenant, r.schedule_id,
    coalesce(y.schedule_name, (SELECT s.name FROM duly_schedules s WHERE s.id = r.schedule_id)),
    r.definition_number, r.key, r.task, coalesce(r.arguments, y.arguments),
    CASE WHEN coalesce(r.arguments, y.arguments) IS NULL THEN (
        SELECT d.definition FROM duly_schedule_definitions d
        WHERE d.schedule_id = r.schedule_id AND d.number = r.definition_number) END,
    r.queue, r.priority, r.origin, r.lane, r.root, r.scheduled_for, r.not_before, r.window_from,
    r.created_at, r.fired_at, y.fence, y.attempt, y.charged, y.begun_at,
    CASE WHEN y.fence > 0 THEN {rows.LAST_ERROR} END, y.priority, y.rank
FROM duly_ready y CROSS JOIN duly_runs r ON r.id = y.run_id
WHERE y.queue = ?1"""  # noqa: S608 - ours
_OLDEST = " ORDER BY y.priority, y.rank, y.run_id LIMIT ?2"
_FIRST = " AND y.priority = (SELECT min(f.priority) FROM duly_ready f WHERE f.queue = ?1)"
_NEWEST = " ORDER BY y.rank DESC, y.run_id DESC LIMIT ?2"
# Of those that are passed over nothing is read but the task.
_WITHOUT = " AND r.task NOT IN (SELECT value FROM json_each(?{}))"
# What was read is the front of the queue, up to the last of it, or the end of its first priority:
# no row is named.
_FRONT = " AND (y.priority, y.rank, y.run_id) <= (?2, ?3, ?4)"
_END = " AND y.priority = ?2 AND (y.rank, y.run_id) >= (?3, ?4)"
_CLAIM_QUEUED = f"""
INSERT OR ROLLBACK INTO duly_claims (run_id, worker, fence, attempt, charged, begun_at, claimed_at,
    is_gated, deadline_at)
SELECT y.run_id, ?5, y.fence + 1, y.attempt + 1, y.charged, coalesce(y.begun_at, ?6), ?6,
    y.is_gated, ?6 + CASE WHEN k.policy IS NULL THEN {TIMEOUT_DEFAULT_US:d} ELSE k.timeout_us END
FROM duly_ready y CROSS JOIN duly_runs r ON r.id = y.run_id
LEFT JOIN duly_tasks k ON k.name = r.task
WHERE y.queue = ?1"""  # noqa: S608 - ours
_TAKE_FROM_QUEUE = "DELETE FROM duly_ready AS y WHERE y.queue = ?1"
_IF_CLAIMED = " AND EXISTS (SELECT 1 FROM duly_claims c WHERE c.run_id = y.run_id)"
# One whose lease has run out has lost nothing until somebody declares it dead.
BEAT = """
UPDATE duly_members SET renewed_at = ?, expires_at = ?, slots = ?, leaked = ?
WHERE id = ? AND ended_at IS NULL RETURNING 1"""
# Over all claims: there are no more than workers have slots, and an index would cost every run.
LIST_HELD = """
SELECT c.run_id, c.fence, c.cancel_asked_at FROM duly_claims c WHERE c.worker = ?
ORDER BY c.run_id"""
REGISTER_POLICY = """
INSERT INTO duly_tasks (name, policy, timeout_us) VALUES (?1, ?2, ?3)
ON CONFLICT (name) DO UPDATE SET policy = ?2, timeout_us = ?3
WHERE policy IS NOT ?2 OR timeout_us IS NOT ?3"""
HAS_WORKER = f"""
SELECT 1 FROM duly_worker_tasks t JOIN duly_members m ON m.id = t.worker
WHERE t.task = ?3 AND m.kind = 'worker' AND {rows.IS_ALIVE}
    AND (m.queues = '[]' OR EXISTS (SELECT 1 FROM json_each(m.queues) WHERE value = ?4))
LIMIT 1"""  # noqa: S608 - a condition of ours
READ_LIMITS_VERSION = "SELECT limits_version FROM duly_cluster"
READ_JUDGE_AFTER = "SELECT judge_after FROM duly_cluster"


class Taking(NamedTuple):
    """The statements that move one end of a queue to a worker."""

    read: str
    claim: str
    take: str


def _taking(*, newest_first: bool, is_without: bool) -> Taking:
    some = (_FIRST, _NEWEST) if newest_first else ("", _OLDEST)
    span = _END if newest_first else _FRONT
    return Taking(
        read=_READ_QUEUED + some[0] + (_WITHOUT.format(3) if is_without else "") + some[1],
        claim=_CLAIM_QUEUED + span + (_WITHOUT.format(7) if is_without else ""),
        take=_TAKE_FROM_QUEUE + span + (_IF_CLAIMED if is_without else ""),
    )


TAKINGS = {
    (newest_first, is_without): _taking(newest_first=newest_first, is_without=is_without)
    for newest_first in (False, True)
    for is_without in (False, True)
}
_TRIES = slice(19, 23)
_ERROR = 23
_RANK = slice(24, 26)
"""Where READ_QUEUED has them, behind the run itself."""


def register_policies(work: Work, policies: Mapping[str, TaskPolicy]) -> None:
    """Remember what tasks' code says; write only what is new."""
    told = [
        (name, json.dumps(policy.to_json()), policy.timeout_us)
        for name, policy in sorted(policies.items())
    ]
    work.connection.executemany(REGISTER_POLICY, told)


def is_served(look: Look, task: str, queue: str) -> bool:
    """Say whether any living worker knows a task and serves the queue."""
    (judge_after,) = rows.one(look.connection, READ_JUDGE_AFTER)
    bindings = (look.now, counted(judge_after, look.now), task, queue)
    return look.connection.execute(HAS_WORKER, bindings).fetchone() is not None


def claim_runs(work: Work, command: ClaimRuns) -> list[Row] | None:
    """Take queued runs; None for a worker that is not alive. What they are is read afterwards."""
    if not seems_alive(work, command.worker):
        return None
    claimed: list[Row] = []
    for queue in _open_queues(work, command):
        room = command.limit - len(claimed)
        if room <= 0:
            break
        most = min(room, command.queue_limits.get(queue, room))
        if most > 0:
            claimed += _claim(work, command, queue, most)
    return claimed


def _claim(work: Work, command: ClaimRuns, queue: str, most: int) -> list[Row]:
    """Move one end of a queue to a worker, but for tasks that it is to do without."""
    connection = work.connection
    read, claim, take = TAKINGS[command.newest_first, bool(command.without)]
    without: Row = (json.dumps(sorted(command.without)),) if command.without else ()
    found: list[Row] = connection.execute(read, (queue, most, *without)).fetchall()
    if found:
        last = found[-1]
        span = (queue, *last[_RANK], last[0])
        connection.execute(claim, (*span, command.worker, work.now, *without))
        assert connection.changes() == len(found), "nobody else writes meanwhile"
        connection.execute(take, span)
    return found


def read_claimed(now: int, worker: MemberId, found: list[Row] | None) -> Claimed:
    """Return what a worker got."""
    if found is None:
        return Claimed(now, is_alive=False, runs=())
    reader = _Reader(worker, now)
    runs: list[ClaimedRun] = []
    for row in found:
        arguments = records.stored_arguments(row[8]) if row[7] is None else row[7]
        fence = row[_TRIES.start] + 1
        runs.append(ClaimedRun(row[0], fence, now, row[6], arguments, row[9], row, reader))
    return Claimed(now, is_alive=True, runs=tuple(runs))


class _Reader:
    """Reads what few ask for from a row that a worker has claimed."""

    def __init__(self, worker: MemberId, now: int) -> None:
        self._worker = worker
        self._now = now

    def tries(self, row: Row) -> Tries:
        return claimed_tries(Tries(*row[_TRIES]), self._now)

    def record(self, row: Row, tries: Tries) -> RunRecord:
        held = (self._worker, self._now, None, None, None, None, None, None, row[_ERROR], None)
        became = (RunState.RUNNING, None, None, *tries, *held)
        return records.run_record((*row[: _TRIES.start], *became))


def _open_queues(work: Work, command: ClaimRuns) -> Sequence[str]:
    """Return the queues to be asked, in the order of the question; none that is paused."""
    paused = {name for (name,) in work.connection.execute(LIST_PAUSED)}
    if command.queues is None:
        return _rotated([name for name in _every_queue(work) if name not in paused], command)
    return [name for name in _rotated(command.queues, command) if name not in paused]


def _rotated(queues: Sequence[str], command: ClaimRuns) -> Sequence[str]:
    first = command.rotation % len(queues) if queues else 0
    return (*queues[first:], *queues[:first])


def _every_queue(work: Work) -> Sequence[str]:
    """Return the queues that hold something: one search for each, however much they hold."""
    found: list[str] = []
    (queue,) = rows.one(work.connection, NEXT_QUEUE, ("",))
    while queue is not None:
        found.append(queue)
        (queue,) = rows.one(work.connection, NEXT_QUEUE, (queue,))
    return found


def beat(work: Work, command: Beat) -> Beaten:
    """Renew a worker that nobody has declared dead; say what must stop, and what it forgot."""
    now, worker = work.now, command.worker
    row = (now, now + command.ttl_us, command.slots, command.leaked, worker)
    alive = bool(work.connection.execute(BEAT, row).fetchall())
    held = {
        Hold(run_id, fence): asked_at
        for run_id, fence, asked_at in work.connection.execute(LIST_HELD, (worker,))
    }
    stops: list[Stop] = []
    for hold in command.holds:
        if hold not in held:
            stops.append(Stop(hold, StopKind.GONE))
        elif held[hold] is not None:
            stops.append(Stop(hold, StopKind.CANCEL))
    named = set(command.holds)
    strays = tuple(hold for hold in held if hold not in named) if alive else ()
    (version,) = rows.one(work.connection, READ_LIMITS_VERSION)
    return Beaten(now, is_alive=alive, stops=tuple(stops), strays=strays, limits_version=version)
