"""Orders about single runs: at once or later, moving and cancelling what is pending."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.audit import delayed_facts
from duly.domain.enums import RunState
from duly.domain.ids import shard_of
from duly.domain.policies import GateEntryOutcome
from duly.domain.runs import AttemptCounts, DelayedRecord, RunRecord
from duly.store import records
from duly.store.adding import Adding, EarlierRequest, delayed_row, roots_of
from duly.store.auditing import delayed_subject
from duly.store.gates import comer_by_hand, in_the_way
from duly.store.gathering import LANE_OFFSETS, ordered_row
from duly.store.rulings import due_of, no_longer_pending, unknown_delayed
from duly.store.runs_alike import alike_later
from duly.store.sqlite import rows
from duly.store.sqlite.batches import Batch, chunks
from duly.store.sqlite.gates import SqliteGates, go_ahead
from duly.store.sqlite.planning import read_schedule
from duly.store.sqlite.quotas import SqliteCounting
from duly.store.sqlite.settlements import SET_ROOT, write_runs

if TYPE_CHECKING:
    import apsw

    from duly.domain.audit import Actor, AuditSubject
    from duly.domain.ids import RunId, ScheduleId
    from duly.store.gates import GateDecision
    from duly.store.ports.schedules import AddedRun, AddRuns, CancelDelayed, MoveDelayed, NewRun
    from duly.store.runs_alike import UniformRuns
    from duly.store.sqlite.work import Work

DELAYED_BY_ID = f"{rows.DELAYED} WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2)"
DELAYED_BY_KEY = f"{rows.DELAYED} WHERE tenant = ? AND key = ?"
RUN_BY_ID = f"{rows.RUN} WHERE r.id = ?1 AND (?2 IS NULL OR r.tenant = ?2)"
NEWEST_RUN_BY_KEY = f"""{rows.RUN} WHERE r.tenant = ? AND r.key = ?
ORDER BY r.created_at DESC, r.id DESC LIMIT 1"""
STATUS_OF_SCHEDULE = "SELECT tenant, name, status FROM duly_schedules WHERE id = ?"
INSERT_DELAYED = """
INSERT INTO duly_delayed (id, tenant, key, task, arguments, queue, priority, origin, lane,
    schedule_id, definition_number, shard, due_at, generation, fingerprint, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)"""
INSERT_TIMER = "INSERT INTO duly_timers (shard, due_at, ref, generation) VALUES (?, ?, ?, ?)"
DELETE_TIMER = """
DELETE FROM duly_timers WHERE shard = ? AND due_at = ? AND ref = ? AND generation = ?"""
MOVE_DELAYED = "UPDATE duly_delayed SET due_at = ?, generation = ? WHERE id = ? AND generation = ?"
DELETE_DELAYED = "DELETE FROM duly_delayed WHERE id = ?"
# A run that never became visible: it was ended while it was pending.
INSERT_CLOSED = """
INSERT INTO duly_runs (id, tenant, schedule_id, definition_number, key, task, arguments, queue,
    priority, origin, lane, scheduled_for, not_before, created_at)
SELECT id, tenant, schedule_id, definition_number, key, task, arguments, queue, priority, origin,
    lane, due_at, due_at, created_at
FROM duly_delayed WHERE id = ?"""
INSERT_OUTCOME = """
INSERT INTO duly_outcomes (run_id, state, reason, finished_at) VALUES (?, ?, ?, ?)"""


ARE_KNOWN = Batch(
    """
SELECT 1 FROM asked a
WHERE EXISTS (SELECT 1 FROM duly_delayed d WHERE d.id = a.id)
    OR EXISTS (SELECT 1 FROM duly_runs r WHERE r.id = a.id) LIMIT 1""",
    *("id", "arguments", "shard"),
    also=8,
)
KEEP_ALIKE = Batch(
    """
INSERT INTO duly_delayed (id, tenant, task, arguments, queue, priority, origin, lane, shard, due_at,
    generation, fingerprint, created_at)
SELECT id, ?1, ?2, arguments, ?3, ?4, ?5, ?6, shard, ?7, 1, '', ?8
FROM asked WHERE id IS NOT NULL""",
    *("id", "arguments", "shard"),
    also=8,
)
TIME_ALIKE = Batch(
    """
INSERT INTO duly_timers (shard, due_at, ref, generation)
SELECT shard, ?7, id, 1 FROM asked WHERE id IS NOT NULL""",
    *("id", "arguments", "shard"),
    also=8,
)


def add_runs(work: Work, command: AddRuns) -> list[AddedRun]:
    """Make runs, all or none."""
    alike = alike_later(command)
    added = None if alike is None else _add_later(work, alike)
    added = added or _SqliteAdding(work, command).add_all(command)
    for run_id, root in roots_of(command, added):
        work.connection.execute(SET_ROOT, (root, run_id))
    SqliteCounting(work).check_pending(command, added, work.now)
    return added


def _add_later(work: Work, alike: UniformRuns) -> list[AddedRun] | None:
    """Make runs that are alike and to come; None if something is in their way."""
    due_at, connection = alike.due(work.now), work.connection
    ids = alike.ids
    if due_at <= work.now or len(set(ids)) < len(ids):
        return None
    told = (alike.tenant, alike.task, alike.queue, alike.priority, alike.origin, alike.lane)
    shards = [shard_of(run_id, work.shards) for run_id in ids]
    rows = [*zip(ids, alike.arguments, shards, strict=True)]
    bound = [*chunks(rows, (*told, due_at, work.now))]
    if any(ARE_KNOWN.run(connection, one).fetchone() for one in bound):
        return None
    for one in bound:
        KEEP_ALIKE.run(connection, one)
        TIME_ALIKE.run(connection, one)
    work.count_on("delayed", len(ids))
    for run_id, shard in zip(ids, shards, strict=True):
        work.announce("delayed", run_id, due_at, shard)
    return alike.added(due_at)


def move_delayed(work: Work, command: MoveDelayed) -> DelayedRecord:
    """Move a pending run to another instant."""
    old = _find(work.connection, command)
    if isinstance(old, RunRecord):
        raise no_longer_pending(command, old)
    due_at = due_of(command, work.now)
    assert due_at is not None, "a move says where to"
    new = replace(old, due_at=due_at, generation=old.generation + 1)
    shard = shard_of(old.id, work.shards)
    connection = work.connection
    connection.execute(MOVE_DELAYED, (due_at, new.generation, old.id, old.generation))
    connection.execute(DELETE_TIMER, (shard, old.due_at, old.id, old.generation))
    connection.execute(INSERT_TIMER, (shard, due_at, old.id, new.generation))
    work.announce("delayed", old.id, due_at, shard)
    before, after = delayed_facts(old), delayed_facts(new)
    work.record(command.actor, "delayed.moved", delayed_subject(old, before, after))
    return new


def cancel_delayed(work: Work, command: CancelDelayed) -> RunRecord:
    """Cancel a pending run; one that is already cancelled stays so."""
    old = _find(work.connection, command)
    if isinstance(old, DelayedRecord):
        _close(work, old, RunState.CANCELLED, command.actor)
        closed = read_run(work.connection, old.id)
        assert closed is not None, "a cancelled run keeps its record"
        return closed
    if old.state is RunState.CANCELLED:
        return old
    raise no_longer_pending(command, old)


def read_run(
    connection: apsw.Connection, run_id: RunId, tenant: str | None = None
) -> RunRecord | None:
    """Return a run, of a tenant if one is named."""
    row = connection.execute(RUN_BY_ID, (run_id, tenant)).fetchone()
    return None if row is None else records.run_record(row)


def read_delayed(
    connection: apsw.Connection, run_id: RunId, tenant: str | None = None
) -> DelayedRecord | None:
    """Return a pending delayed run by its id, of a tenant if one is named."""
    row = connection.execute(DELAYED_BY_ID, (run_id, tenant)).fetchone()
    return None if row is None else records.delayed_record(row)


def find_delayed(connection: apsw.Connection, tenant: str, key: str) -> DelayedRecord | None:
    """Return the pending delayed run of a key."""
    row = connection.execute(DELAYED_BY_KEY, (tenant, key)).fetchone()
    return None if row is None else records.delayed_record(row)


class _SqliteAdding(Adding):
    """Looks up what is asked for and writes at once: nobody else writes meanwhile."""

    def __init__(self, work: Work, command: AddRuns) -> None:
        super().__init__(command.actor, work.now)
        self._work = work

    def known(self, new: NewRun) -> EarlierRequest | None:
        pending = read_delayed(self._work.connection, new.id)
        if pending is not None:
            return EarlierRequest(pending, pending.due_at, pending.fingerprint)
        run = read_run(self._work.connection, new.id)
        return None if run is None else EarlierRequest(run, run.not_before)

    def schedule(self, schedule_id: ScheduleId) -> tuple[str, str, str] | None:
        row = self._work.connection.execute(STATUS_OF_SCHEDULE, (schedule_id,)).fetchone()
        return None if row is None else (row[0], row[1], row[2])

    def pending(self, tenant: str, key: str) -> DelayedRecord | None:
        return find_delayed(self._work.connection, tenant, key)

    def replace(self, pending: DelayedRecord) -> None:
        _close(self._work, pending, RunState.REPLACED, self.actor)

    def run_at_once(self, new: NewRun, instant: int) -> None:
        arrivals: dict[bytes, GateDecision] = {}
        if new.schedule_id is not None:
            arrivals[new.id] = self._arrive(new, new.schedule_id)
        write_runs(self._work, [ordered_row(new, instant, self.now)], arrivals)
        if new.schedule_id is not None and arrivals[new.id].coming is GateEntryOutcome.GOES:
            go_ahead(self._work, new.id)

    def _arrive(self, new: NewRun, schedule_id: ScheduleId) -> GateDecision:
        """Let a run that a person asks of a schedule come to its gate; refuse what can't go."""
        record = read_schedule(self._work.connection, schedule_id)
        assert record is not None, "it was looked at a moment ago"
        gates = SqliteGates(self._work)
        arrival = gates.arrive(comer_by_hand(record, new))
        if arrival.coming is GateEntryOutcome.SKIPPED:
            raise in_the_way(record.name, arrival)
        if arrival.coming is GateEntryOutcome.WAITS:
            priority = new.call.priority + LANE_OFFSETS[new.lane]
            gates.stand(new.id, arrival, priority, AttemptCounts())
        elif arrival.gate is not None:
            gates.take(arrival.gate, new.id)
        return arrival

    def keep(self, new: NewRun, due_at: int) -> None:
        shard = shard_of(new.id, self._work.shards)
        connection = self._work.connection
        connection.execute(INSERT_DELAYED, delayed_row(new, due_at, self.now, shard))
        connection.execute(INSERT_TIMER, (shard, due_at, new.id, 1))
        self._work.count_on("delayed", 1)
        self._work.announce("delayed", new.id, due_at, shard)

    def record(self, action: str, subject: AuditSubject) -> None:
        self._work.record(self.actor, action, subject)


def _find(
    connection: apsw.Connection, order: MoveDelayed | CancelDelayed
) -> DelayedRecord | RunRecord:
    """Return the pending run that an order names, or the run that it has become."""
    if order.id is not None:
        pending = read_delayed(connection, order.id, order.tenant)
        found = pending or read_run(connection, order.id, order.tenant)
        if found is not None:
            return found
        raise unknown_delayed(order)
    assert order.key is not None, "an order names a key or an id"
    pending = find_delayed(connection, order.tenant, order.key)
    if pending is not None:
        return pending
    row = connection.execute(NEWEST_RUN_BY_KEY, (order.tenant, order.key)).fetchone()
    if row is None:
        raise unknown_delayed(order)
    return records.run_record(row)


def _close(work: Work, pending: DelayedRecord, state: RunState, actor: Actor) -> None:
    """End a pending run before it fired, on record: the run exists, with its outcome."""
    connection, shard = work.connection, shard_of(pending.id, work.shards)
    connection.execute(INSERT_CLOSED, (pending.id,))
    connection.execute(INSERT_OUTCOME, (pending.id, state, actor.reason, work.now))
    connection.execute(DELETE_TIMER, (shard, pending.due_at, pending.id, pending.generation))
    connection.execute(DELETE_DELAYED, (pending.id,))
    work.count_on("delayed", -1)
    work.record(actor, f"delayed.{state}", delayed_subject(pending, delayed_facts(pending), None))
