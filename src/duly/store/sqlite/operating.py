"""Orders of people about runs that are open, and about queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.enums import RunState
from duly.domain.policies import GateEntryOutcome
from duly.domain.runs import Reason
from duly.store.auditing import edited_subject, ordered_subject, queue_subject
from duly.store.gates import FREE, comer_again
from duly.store.gathering import LANE_OFFSETS, share_of
from duly.store.ports.operations import Ordered, QueueRecord
from duly.store.ports.schedules import CancelDelayed
from duly.store.records import queue_records
from duly.store.sqlite.delayed import cancel_delayed, read_delayed, read_run
from duly.store.sqlite.gates import SqliteGates, go_ahead
from duly.store.sqlite.places import Tried, close, queue
from duly.store.sqlite.planning import read_definition, read_schedule
from duly.store.work_rulings import not_cancellable, not_dead, retried_tries, unknown_run

if TYPE_CHECKING:
    from duly.domain.audit import Actor
    from duly.domain.ids import RunId
    from duly.domain.runs import RunRecord
    from duly.store.gates import GateDecision
    from duly.store.ports.operations import CancelRun, EditRun, OrderRuns
    from duly.store.sqlite.work import Look, Work

# One that was never claimed lies where its run says, or where one did that knew of no tenants; any
# other is in the index of those.
TAKE_OUT_FIRST = """
DELETE FROM duly_ready
WHERE queue = ? AND priority = ? AND tenant IN ('', ?) AND rank = ? AND run_id = ?"""
TAKE_OUT_AGAIN = "DELETE FROM duly_ready WHERE run_id = ? AND fence > 0"
TAKE_OUT_GATED = "DELETE FROM duly_ready WHERE run_id = ? AND is_gated"
TAKE_OUT_BLOCKED = "DELETE FROM duly_blocked WHERE run_id = ?"
TAKE_OUT_WAITING = "DELETE FROM duly_waiting WHERE run_id = ?"
TAKE_OUT_DEAD = "DELETE FROM duly_dead WHERE run_id = ?"
ASK_TO_STOP = """
UPDATE duly_claims SET cancel_asked_at = ? WHERE run_id = ? AND cancel_asked_at IS NULL
RETURNING 1"""
EDIT_ARGUMENTS = "UPDATE duly_runs SET arguments = ? WHERE id = ?"
PAUSE_QUEUE = """
INSERT INTO duly_queues (name, paused_at, paused_by, reason) VALUES (?, ?, ?, ?)
ON CONFLICT DO NOTHING RETURNING 1"""
RESUME_QUEUE = "DELETE FROM duly_queues WHERE name = ? RETURNING 1"
COUNT_QUEUED = "SELECT queue, count(*), min(fired_at) FROM duly_ready GROUP BY queue"
COUNT_RUNNING = """
SELECT r.queue, count(*)
FROM duly_claims c CROSS JOIN duly_runs r ON r.id = c.run_id GROUP BY r.queue"""
LIST_PAUSED = "SELECT name, paused_at, paused_by, reason FROM duly_queues"

RETRIABLE = frozenset((RunState.DEAD, RunState.RETRYING))


def cancel_run(work: Work, command: CancelRun) -> RunRecord:
    """Cancel a run that nobody holds; ask for it where somebody does."""
    pending = read_delayed(work.connection, command.id, command.tenant)
    if pending is not None:
        order = CancelDelayed(tenant=command.tenant, key=None, id=command.id, actor=command.actor)
        return cancel_delayed(work, order)
    record = _run_in(work, command.id, command.tenant)
    if record is None:
        raise unknown_run(command.id)
    match record.state:
        case RunState.RUNNING:
            _ask_to_stop(work, record, command.actor)
        case RunState.QUEUED | RunState.RETRYING | RunState.BLOCKED:
            _tell(work, record, command.actor, "run.cancelled")
            _take_out(work, record)
            _close(work, record, RunState.CANCELLED)
        case RunState.CANCELLED:
            return record
        case _:
            raise not_cancellable(record.id, record.state)
    return _read(work, command.id)


def retry_runs(work: Work, command: OrderRuns) -> list[Ordered]:
    """Queue dead and waiting runs again, those that there are."""
    return [_retry(work, command, run_id) for run_id in command.ids]


def _retry(work: Work, command: OrderRuns, run_id: RunId) -> Ordered:
    record = _run_in(work, run_id, command.tenant)
    if record is None or record.state not in RETRIABLE:
        return Ordered(run_id, is_done=False, state=None if record is None else record.state)
    is_dead = record.state is RunState.DEAD
    tries = retried_tries(record.tries) if is_dead else record.tries
    arrival = _come_again(work, record) if is_dead else FREE
    if arrival.coming is GateEntryOutcome.SKIPPED:
        return Ordered(run_id, is_done=False, state=record.state)
    _take_out(work, record)
    if arrival.coming is GateEntryOutcome.WAITS:
        priority = record.call.priority + LANE_OFFSETS[record.lane]
        SqliteGates(work).stand(run_id, arrival, priority, tries)
    else:
        if arrival.gate is not None:
            SqliteGates(work).take(arrival.gate, run_id)
        queue(work, Tried(run_id, tries))
        if is_dead:
            go_ahead(work, run_id)
    _tell(work, record, command.actor, "run.retried")
    return Ordered(run_id, is_done=True, state=record.state)


def _come_again(work: Work, record: RunRecord) -> GateDecision:
    """Decide about a dead run that is to go on: it may have to wait for another."""
    if record.schedule_id is None or record.definition_number is None:
        return FREE
    schedule = read_schedule(work.connection, record.schedule_id)
    definition = read_definition(work.connection, record.schedule_id, record.definition_number)
    if schedule is None or definition is None:
        return FREE
    return SqliteGates(work).arrive(comer_again(schedule, definition, record.id))


def discard_runs(work: Work, command: OrderRuns) -> list[Ordered]:
    """Close dead runs, those that there are."""
    return [_discard(work, command, run_id) for run_id in command.ids]


def _discard(work: Work, command: OrderRuns, run_id: RunId) -> Ordered:
    record = _run_in(work, run_id, command.tenant)
    if record is None or record.state is not RunState.DEAD:
        return Ordered(run_id, is_done=False, state=None if record is None else record.state)
    _take_out(work, record)
    _close(work, record, RunState.DISCARDED)
    _tell(work, record, command.actor, "run.discarded")
    return Ordered(run_id, is_done=True, state=record.state)


def edit_run(work: Work, command: EditRun) -> RunRecord:
    """Replace the arguments of a dead run."""
    record = _run_in(work, command.id, command.tenant)
    if record is None:
        raise unknown_run(command.id)
    if record.state is not RunState.DEAD:
        raise not_dead(command.id, record.state)
    work.connection.execute(EDIT_ARGUMENTS, (command.arguments, command.id))
    before, after = record.call.arguments, command.arguments
    work.record(
        command.actor, "run.edited", edited_subject(command.id, record.tenant, before, after)
    )
    return _read(work, command.id)


def pause_queue(work: Work, name: str, actor: Actor) -> None:
    """Hand out nothing from a queue."""
    row = (name, work.now, actor.name, actor.reason)
    if work.connection.execute(PAUSE_QUEUE, row).fetchall():
        work.record(actor, "queue.paused", queue_subject(name, is_paused=True))


def resume_queue(work: Work, name: str, actor: Actor) -> None:
    """Hand out again."""
    if work.connection.execute(RESUME_QUEUE, (name,)).fetchall():
        work.record(actor, "queue.resumed", queue_subject(name, is_paused=False))
        work.has_orders = True


def list_queues(look: Look) -> list[QueueRecord]:
    """Return queues that hold something or are paused, by name."""
    connection = look.connection
    queued = {name: (count, oldest) for name, count, oldest in connection.execute(COUNT_QUEUED)}
    running = dict(connection.execute(COUNT_RUNNING))
    paused = {name: row for name, *row in connection.execute(LIST_PAUSED)}
    return queue_records(queued, running, paused)


def _read(work: Work, run_id: RunId) -> RunRecord:
    record = read_run(work.connection, run_id)
    assert record is not None, "it was there a moment ago"
    return record


def _run_in(work: Work, run_id: RunId, tenant: str) -> RunRecord | None:
    return read_run(work.connection, run_id, tenant)


def _tell(work: Work, record: RunRecord, actor: Actor, action: str) -> None:
    subject = ordered_subject(record.id, record.tenant, record.state, record.state_reason)
    work.record(actor, action, subject)


def _close(work: Work, record: RunRecord, state: RunState) -> None:
    close(work, Tried(record.id, record.tries), state, Reason.ORDERED)


def _ask_to_stop(work: Work, record: RunRecord, actor: Actor) -> None:
    """Mark a claim; asking again changes nothing."""
    if work.connection.execute(ASK_TO_STOP, (work.now, record.id)).fetchall():
        _tell(work, record, actor, "run.cancel-asked")
        work.has_orders = True


def _take_out(work: Work, record: RunRecord) -> None:
    """Take a run out of the place where it is without a worker."""
    connection = work.connection
    if record.state is RunState.RETRYING:
        work.count_on("retrying", -1)
        connection.execute(TAKE_OUT_WAITING, (record.id,))
    elif record.state is RunState.DEAD:
        work.count_on("dead", -1)
        connection.execute(TAKE_OUT_DEAD, (record.id,))
    elif record.state is RunState.BLOCKED:
        connection.execute(TAKE_OUT_BLOCKED, (record.id,))
    elif record.tries.fence:
        connection.execute(TAKE_OUT_AGAIN, (record.id,))
    elif SqliteGates(work).holds(record.id):
        connection.execute(TAKE_OUT_GATED, (record.id,))
    else:
        rank = record.call.priority + LANE_OFFSETS[record.lane]
        line = (record.call.queue, rank, share_of(record.tenant))
        place = (*line, record.not_before, record.id)
        connection.execute(TAKE_OUT_FIRST, place)
    assert connection.changes() == 1, "an open run is in one place"
