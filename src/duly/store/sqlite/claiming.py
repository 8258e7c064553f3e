"""Claiming queued runs, and the heartbeat of whoever holds some.

The hot half of a worker's life: one transaction claims as many runs as there is room for, in the
order of the queue's own index, and nothing behind them is read.
"""

from __future__ import annotations

import json
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from duly.domain.admission import begin_behind
from duly.domain.enums import Lane, RunState
from duly.domain.runs import TIMEOUT_DEFAULT_US, AttemptCounts
from duly.store import records
from duly.store.auditing import SYSTEM
from duly.store.effect_rulings import EFFECTS_SCHEMA, restricted_subject, unsafe_among
from duly.store.ports.dispatch import WorkerStatus
from duly.store.ports.execution import (
    Claimed,
    ClaimedRun,
    ClaimRef,
    ClaimRuns,
    Heartbeat,
    HeartbeatResult,
    StopOrder,
    StopReason,
)
from duly.store.sqlite import rows
from duly.store.sqlite.leases import may_claim
from duly.store.sqlite.schema import RAISE_PROGRAM_MIN
from duly.store.sqlite.work import counted
from duly.store.work_rulings import claimed_tries, sharing_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from duly.domain.runs import RunRecord, TaskPolicy
    from duly.store.ports.dispatch import MemberId
    from duly.store.records import Row
    from duly.store.sqlite.work import Look, Work

_Name = TypeVar("_Name", int, str)

LIST_PAUSED = "SELECT name FROM duly_queues ORDER BY name"
NEXT_QUEUE = "SELECT min(queue) FROM duly_ready WHERE queue > ?"
NEXT_PRIORITY = """
SELECT min(priority) FROM duly_ready WHERE queue = ? AND priority >= ? AND priority < ?"""
NEXT_TENANT = """
SELECT min(tenant) FROM duly_ready
WHERE queue = ? AND priority = ? AND tenant >= ? AND tenant < ?"""
HAS_OTHERS = """
SELECT 1 FROM duly_ready WHERE queue = ?1 AND priority = ?2 AND tenant > ?3
UNION ALL
SELECT 1 FROM duly_ready WHERE queue = ?1 AND priority = ?2 AND tenant < ?3
LIMIT 1"""
_NO_PRIORITY = (-(1 << 62), 1 << 62)
_NO_TENANT = ("", chr(0x10FFFF))
"""What comes before all names, and what after."""
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
    CASE WHEN y.fence > 0 THEN {rows.LAST_ERROR} END, y.priority, y.tenant, y.rank
FROM duly_ready y CROSS JOIN duly_runs r ON r.id = y.run_id
WHERE y.queue = ?1"""  # noqa: S608 - ours
_IN_ORDER = " ORDER BY y.priority, y.tenant, y.rank, y.run_id LIMIT ?2"
_OF_ONE = " AND y.priority = ?3 AND y.tenant = ?4"
_OLDEST = " ORDER BY y.rank, y.run_id LIMIT ?2"
_NEWEST = " ORDER BY y.rank DESC, y.run_id DESC LIMIT ?2"
# Of those that are passed over nothing is read but the task.
_WITHOUT = " AND r.task NOT IN (SELECT value FROM json_each(?{}))"
# What was read is the front of the queue, up to the last of it, or one end of a tenant's line: no
# row is named.
_FRONT = " AND (y.priority, y.tenant, y.rank, y.run_id) <= (?2, ?3, ?4, ?5)"
_LINE = " AND y.priority = ?2 AND y.tenant = ?3 AND (y.rank, y.run_id) {} (?4, ?5)"
_CLAIM_QUEUED = f"""
INSERT OR ROLLBACK INTO duly_claims (run_id, worker, fence, attempt, charged, begun_at, claimed_at,
    is_gated, deadline_at)
SELECT y.run_id, ?6, y.fence + 1, y.attempt + 1, y.charged, coalesce(y.begun_at, ?7), ?7,
    y.is_gated, ?7 + CASE WHEN k.policy IS NULL THEN {TIMEOUT_DEFAULT_US:d} ELSE k.timeout_us END
FROM duly_ready y CROSS JOIN duly_runs r ON r.id = y.run_id
LEFT JOIN duly_tasks k ON k.name = r.task
WHERE y.queue = ?1"""  # noqa: S608 - ours
_TAKE_FROM_QUEUE = "DELETE FROM duly_ready AS y WHERE y.queue = ?1"
_IF_CLAIMED = " AND EXISTS (SELECT 1 FROM duly_claims c WHERE c.run_id = y.run_id)"
# One whose lease has run out has lost nothing until somebody declares it dead.
BEAT = """
UPDATE duly_members SET renewed_at = ?, expires_at = ?, slots = ?, leaked = ?, skew_us = ?
WHERE id = ? AND ended_at IS NULL RETURNING standing"""
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
WHERE t.task = ?3 AND m.kind = 'worker' AND m.standing IS NULL AND {rows.IS_ALIVE}
    AND (m.queues = '[]' OR EXISTS (SELECT 1 FROM json_each(m.queues) WHERE value = ?4))
LIMIT 1"""  # noqa: S608 - a condition of ours
READ_LIMITS_VERSION = "SELECT limits_version FROM duly_cluster"
READ_JUDGE_AFTER = "SELECT judge_after FROM duly_cluster"


class Taking(NamedTuple):
    """The statements that move the front of a queue, or one end of a line, to a worker."""

    read: str
    claim: str
    take: str

    def without(self, place: int) -> Taking:
        """Return them for one who is to do without some tasks, bound there in the first."""
        front, order = self.read.rsplit(" ORDER BY", 1)
        return Taking(
            read=f"{front}{_WITHOUT.format(place)} ORDER BY{order}",
            claim=self.claim + _WITHOUT.format(8),
            take=self.take + _IF_CLAIMED,
        )


def _taking(some: str, span: str) -> Taking:
    return Taking(_READ_QUEUED + some, _CLAIM_QUEUED + span, _TAKE_FROM_QUEUE + span)


TAKE_FRONT = _taking(_IN_ORDER, _FRONT)
TAKE_FRONT_WITHOUT = TAKE_FRONT.without(3)
TAKE_OLDEST = _taking(_OF_ONE + _OLDEST, _LINE.format("<="))
TAKE_OLDEST_WITHOUT = TAKE_OLDEST.without(5)
TAKE_NEWEST = _taking(_OF_ONE + _NEWEST, _LINE.format(">="))
TAKE_NEWEST_WITHOUT = TAKE_NEWEST.without(5)
_LANE = 12
_TRIES = slice(19, 23)
_ERROR = 23
_PLACE = slice(24, 27)
"""Where READ_QUEUED has them, behind the run itself."""
_TENANT = 25


def register_policies(work: Work, policies: Mapping[str, TaskPolicy]) -> None:
    """Remember what tasks' code says; write only what is new."""
    unsafe = unsafe_among(policies)
    if unsafe and work.program_min < EFFECTS_SCHEMA:
        work.connection.execute(RAISE_PROGRAM_MIN, (EFFECTS_SCHEMA,))
        work.record(SYSTEM, "store.restricted", restricted_subject(unsafe))
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


class Take(NamedTuple):
    """What a claim has taken, and who was served last in queues where there was not enough room."""

    found: list[Row]
    served: dict[str, str]


def claim_runs(work: Work, command: ClaimRuns) -> Take | None:
    """Take queued runs; None for a worker that is not alive. What they are is read afterwards."""
    if not may_claim(work, command.worker):
        return None
    taken = Take([], {})
    for queue in _open_queues(work, command):
        room = command.limit - len(taken.found)
        if room <= 0:
            break
        claiming = _Claiming(work, command, queue, room)
        found = claiming.front()
        if found is None:
            found = claiming.shares()
            if found:
                taken.served[queue] = found[-1][_TENANT]
        taken.found.extend(found)
    return taken


class _Claiming:
    """Taking from one queue, for one claim."""

    def __init__(self, work: Work, command: ClaimRuns, queue: str, room: int) -> None:
        self._work = work
        self._command = command
        self._queue = queue
        self._sharing = sharing_of(command, queue)
        self._room = min(room, self._sharing.most)

    def front(self) -> list[Row] | None:
        """Take what comes first; None, and nothing, if that is not all and others have a share."""
        command, queue = self._command, self._queue
        is_plain = not command.newest_first and command.first_lane is Lane.LIVE
        if not is_plain or queue in command.served:
            return None
        taking = TAKE_FRONT_WITHOUT if command.without else TAKE_FRONT
        found = self._read(taking, ())
        if found and len(found) == self._room:
            priority, tenant, _ = found[-1][_PLACE]
            others = self._work.connection.execute(HAS_OTHERS, (queue, priority, tenant))
            if others.fetchone() is not None:
                return None
        self._move(taking, found)
        return found

    def shares(self) -> list[Row]:
        """Take from each tenant's line in turn, as `domain/admission.py` says."""
        found: list[Row] = []
        for priority in _ring(self._priority_from, self._sharing.first, _NO_PRIORITY):
            found += self._shares_of(priority)
            if self._sharing.newest_first or not self._room:
                break
        return found

    def _shares_of(self, priority: int) -> list[Row]:
        tenants = _ring(partial(self._tenant_from, priority), self._sharing.begin, _NO_TENANT)
        named = [*islice(tenants, self._sharing.most)]
        share = self._sharing.most // max(1, len(named))
        found: list[Row] = []
        rests: list[str] = []
        for tenant in named:
            own = self._take(priority, tenant, share)
            found += own
            if len(own) == share:
                rests.append(tenant)
        for tenant in chain(rests, tenants):
            if not self._room:
                break
            found += self._take(priority, tenant, self._room)
        return found

    def _take(self, priority: int, tenant: str, most: int) -> list[Row]:
        newest, without = self._sharing.newest_first, self._command.without
        if newest:
            taking = TAKE_NEWEST_WITHOUT if without else TAKE_NEWEST
        else:
            taking = TAKE_OLDEST_WITHOUT if without else TAKE_OLDEST
        found = self._read(taking, (priority, tenant), most)
        self._move(taking, found)
        return found

    def _read(self, taking: Taking, line: Row, most: int | None = None) -> list[Row]:
        room = self._room if most is None else min(most, self._room)
        if room <= 0:
            return []
        bindings = (self._queue, room, *line, *self._without())
        return self._work.connection.execute(taking.read, bindings).fetchall()

    def _move(self, taking: Taking, found: list[Row]) -> None:
        """Move what was read to the worker, but for tasks that it is to do without."""
        if not found:
            return
        connection, last = self._work.connection, found[-1]
        span = (self._queue, *last[_PLACE], last[0])
        claim = (*span, self._command.worker, self._work.now, *self._without())
        connection.execute(taking.claim, claim)
        assert connection.changes() == len(found), "nobody else writes meanwhile"
        connection.execute(taking.take, span)
        self._room -= len(found)

    def _without(self) -> Row:
        without = self._command.without
        return (json.dumps(sorted(without)),) if without else ()

    def _priority_from(self, low: int, high: int) -> tuple[int, int] | None:
        row = rows.one(self._work.connection, NEXT_PRIORITY, (self._queue, low, high))
        return None if row[0] is None else (row[0], row[0] + 1)

    def _tenant_from(self, priority: int, low: str, high: str) -> tuple[str, str] | None:
        bindings = (self._queue, priority, low, high)
        (tenant,) = rows.one(self._work.connection, NEXT_TENANT, bindings)
        return None if tenant is None else (tenant, begin_behind(tenant))


def _ring(
    find: Callable[[_Name, _Name], tuple[_Name, _Name] | None],
    begin: _Name | None,
    ends: tuple[_Name, _Name],
) -> Iterator[_Name]:
    """Go from name to name and round: one search for each, and none before it is wanted."""
    lowest, highest = ends
    middle = lowest if begin is None else begin
    for first, high in ((middle, highest), (lowest, middle)):
        low = first
        while low < high and (step := find(low, high)) is not None:
            found, low = step
            yield found


def read_claimed(now: int, worker: MemberId, taken: Take | None) -> Claimed:
    """Return what a worker got."""
    if taken is None:
        return Claimed(now, is_alive=False, runs=())
    reader = _Reader(worker, now)
    runs: list[ClaimedRun] = []
    for row in taken.found:
        arguments = records.stored_arguments(row[8]) if row[7] is None else row[7]
        fence = row[_TRIES.start] + 1
        runs.append(ClaimedRun(row[0], fence, now, row[6], arguments, row[9], row, reader))
    return Claimed(now, is_alive=True, runs=tuple(runs), served=taken.served)


class _Reader:
    """Reads what few ask for from a row that a worker has claimed."""

    def __init__(self, worker: MemberId, now: int) -> None:
        self._worker = worker
        self._now = now

    def tries(self, row: Row) -> AttemptCounts:
        return claimed_tries(AttemptCounts(*row[_TRIES]), self._now)

    def is_live(self, row: Row) -> bool:
        return bool(row[_LANE] == Lane.LIVE)

    def record(self, row: Row, tries: AttemptCounts) -> RunRecord:
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


def beat(work: Work, command: Heartbeat) -> HeartbeatResult:
    """Renew a worker that nobody has declared dead; say what must stop, and what it forgot."""
    now, worker = work.now, command.worker
    row = (now, now + command.ttl_us, command.slots, command.leaked, command.skew_us, worker)
    renewed = work.connection.execute(BEAT, row).fetchall()
    alive = bool(renewed)
    held = {
        ClaimRef(run_id, fence): asked_at
        for run_id, fence, asked_at in work.connection.execute(LIST_HELD, (worker,))
    }
    stops: list[StopOrder] = []
    for hold in command.holds:
        if hold not in held:
            stops.append(StopOrder(hold, StopReason.GONE))
        elif held[hold] is not None:
            stops.append(StopOrder(hold, StopReason.CANCEL))
    named = set(command.holds)
    strays = tuple(hold for hold in held if hold not in named) if alive else ()
    (version,) = rows.one(work.connection, READ_LIMITS_VERSION)
    told = renewed[0][0] if alive else None
    standing = None if told is None else WorkerStatus(str(told))
    return HeartbeatResult(now, alive, tuple(stops), strays, version, standing)
