"""Runs that are in doubt in the file: what people decide, what checks find, and reruns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.effects import Choice, settled_by
from duly.domain.enums import Finding, Lane, RunState
from duly.domain.ids import RunId
from duly.domain.policies import GateEntryOutcome
from duly.domain.runs import AttemptCounts, Reason
from duly.store import records
from duly.store.auditing import SYSTEM
from duly.store.effect_rulings import (
    closed_as,
    doubt_to_settle,
    is_settled_by,
    refuse_open_line,
    repeated_meanwhile,
    rerun_subject,
    reruns_blocked,
    run_to_repeat,
    same_rerun,
    settled_subject,
    task_subject,
    verdict_subject,
)
from duly.store.gates import FREE, comer_again, in_the_way
from duly.store.gathering import LANE_OFFSETS
from duly.store.ports.effects import FREE_TASK, AmbiguousRun, TaskOrder, VerdictRecord
from duly.store.rulings import id_taken
from duly.store.sqlite import rows
from duly.store.sqlite.delayed import read_delayed, read_run
from duly.store.sqlite.effects import list_unknown, settle_effects
from duly.store.sqlite.gates import SqliteGates, go_ahead
from duly.store.sqlite.places import Tried, close, queue
from duly.store.sqlite.planning import read_definition, read_schedule
from duly.store.sqlite.scopes import read_scope
from duly.store.sqlite.settlements import SET_ROOT, write_runs
from duly.store.work_rulings import retried_tries, unknown_run

if TYPE_CHECKING:
    from duly.domain.runs import RunRecord
    from duly.store.gates import GateDecision
    from duly.store.ports.effects import AddVerdict, OrderTask, Rerun, ResolveAmbiguousRun
    from duly.store.records import Row
    from duly.store.sqlite.work import Look, Work

OLDEST_DOUBTS = "SELECT run_id, since, reason FROM duly_ambiguous ORDER BY since, run_id LIMIT ?"
# CROSS JOIN keeps to this order: those in doubt are few, and runs are not.
OLDEST_DOUBTS_OF = """
SELECT u.run_id, u.since, u.reason FROM duly_ambiguous u CROSS JOIN duly_runs r ON r.id = u.run_id
WHERE r.tenant = ? ORDER BY u.since, u.run_id LIMIT ?"""
TAKE_OUT_AMBIGUOUS = "DELETE FROM duly_ambiguous WHERE run_id = ?"
FORGET_CHECKPOINTS = "DELETE FROM duly_checkpoints WHERE run_id = ?"
READ_ORDER = "SELECT is_suspended, is_blocked FROM duly_task_orders WHERE task = ?"
LIST_ORDERS = "SELECT task, is_suspended, is_blocked FROM duly_task_orders ORDER BY task"
PUT_ORDER = """
INSERT OR REPLACE INTO duly_task_orders (task, is_suspended, is_blocked) VALUES (?, ?, ?)"""
DROP_ORDER = "DELETE FROM duly_task_orders WHERE task = ?"
IS_REPEATED = """
SELECT 1 FROM duly_runs WHERE root = ? AND origin IN ('rerun', 'repair') AND created_at >= ?
LIMIT 1"""
# Open is what is neither closed nor dead.
OPEN_IN_LINE = """
SELECT l.id FROM (
    SELECT id FROM duly_runs WHERE id = ?1
    UNION ALL SELECT id FROM duly_runs WHERE root = ?1 AND origin IN ('repair', 'backfill')) l
WHERE l.id <> ?2
    AND NOT EXISTS (SELECT 1 FROM duly_outcomes o WHERE o.run_id = l.id)
    AND NOT EXISTS (SELECT 1 FROM duly_dead x WHERE x.run_id = l.id)
LIMIT 1"""
NEXT_VERDICT = "SELECT coalesce(max(number), 0) + 1 FROM duly_verdicts WHERE run_id = ?"
INSERT_VERDICT = """
INSERT INTO duly_verdicts (run_id, number, at, finding, evidence, by, doubt)
VALUES (?, ?, ?, ?, ?, ?, ?)"""
LIST_VERDICTS = """
SELECT run_id, number, at, finding, evidence, by, doubt FROM duly_verdicts
WHERE run_id = ? ORDER BY number"""


def list_doubts(look: Look, tenant: str | None, limit: int) -> list[AmbiguousRun]:
    """Return runs that are in doubt, oldest first."""
    found: list[Row]
    if tenant is None:
        found = look.connection.execute(OLDEST_DOUBTS, (limit,)).fetchall()
    else:
        found = look.connection.execute(OLDEST_DOUBTS_OF, (tenant, limit)).fetchall()
    return [
        AmbiguousRun(_run(look, RunId(run_id)), since, reason) for run_id, since, reason in found
    ]


def settle_doubt(work: Work, command: ResolveAmbiguousRun) -> RunRecord:
    """Carry out what a person decided."""
    record = doubt_to_settle(read_run(work.connection, command.id), command)
    end = closed_as(command, read_scope(work.connection, record.id))
    unknown = list_unknown(work, record.id)
    settled = settled_by(command.choice, command.effects, unknown, is_done=command.is_done)
    work.record(command.actor, "run.settled", settled_subject(record, command, settled))
    settle_effects(work, record.id, settled)
    if end is None:
        _go_on(work, record, keeps_checkpoints=command.choice is Choice.RESUME)
    else:
        _close(work, record, *end)
    return _run(work, record.id)


def _go_on(work: Work, record: RunRecord, *, keeps_checkpoints: bool) -> None:
    """Queue a run again with a fresh budget; it still holds its gate."""
    if not keeps_checkpoints:
        work.connection.execute(FORGET_CHECKPOINTS, (record.id,))
    _take_out(work, record)
    queue(work, Tried(record.id, retried_tries(record.tries)))


def _close(work: Work, record: RunRecord, state: RunState, reason: Reason) -> None:
    _take_out(work, record)
    close(work, Tried(record.id, record.tries), state, reason)


def _take_out(work: Work, record: RunRecord) -> None:
    work.connection.execute(TAKE_OUT_AMBIGUOUS, (record.id,))
    assert work.connection.changes() == 1, "an open run is in one place"


def rerun_run(work: Work, command: Rerun) -> RunRecord:
    """Queue another run with a run's call."""
    there = read_run(work.connection, command.new_id)
    if there is not None:
        return same_rerun(there, command)
    if read_delayed(work.connection, command.new_id) is not None:
        raise id_taken(command.new_id)
    record = run_to_repeat(read_run(work.connection, command.id), command, work.now)
    if _order(work, record.call.task).is_blocked:
        raise reruns_blocked(record.call.task)
    since = command.alone_since
    if since is not None and work.connection.execute(IS_REPEATED, (record.root, since)).fetchone():
        raise repeated_meanwhile(record)
    if command.is_repair:
        other = work.connection.execute(OPEN_IN_LINE, (record.line, record.id)).fetchone()
        refuse_open_line(record, None if other is None else RunId(other[0]))
        settle_effects(work, record.id, command.effects)
    if record.state is RunState.AMBIGUOUS:
        _close(work, record, RunState.FAILED, Reason.RECONCILED)
    arrival = _come(work, record, command.new_id)
    write_runs(work, [_row_again(record, command, work.now)], {command.new_id: arrival})
    root = record.line if command.is_repair else record.root
    work.connection.execute(SET_ROOT, (root, command.new_id))
    if record.schedule_id is not None and arrival.coming is GateEntryOutcome.GOES:
        go_ahead(work, command.new_id)
    work.record(command.actor, "run.rerun", rerun_subject(record, command))
    return _run(work, command.new_id)


def _row_again(record: RunRecord, command: Rerun, now: int) -> Row:
    call = record.call
    of = (command.new_id, record.tenant, record.schedule_id, record.definition_number, None)
    what = (call.task, call.arguments, call.queue, call.priority, command.origin, Lane.LIVE)
    return (*of, *what, record.scheduled_for, now, record.window_from, now, now)


def _come(work: Work, record: RunRecord, new_id: RunId) -> GateDecision:
    """Let the new run come to its schedule's gate; refuse what may neither go nor wait."""
    if record.schedule_id is None or record.definition_number is None:
        return FREE
    schedule = read_schedule(work.connection, record.schedule_id)
    definition = read_definition(work.connection, record.schedule_id, record.definition_number)
    if schedule is None or definition is None:
        return FREE
    gates = SqliteGates(work)
    arrival = gates.arrive(comer_again(schedule, definition, new_id))
    if arrival.coming is GateEntryOutcome.SKIPPED:
        raise in_the_way(schedule.name, arrival)
    if arrival.coming is GateEntryOutcome.WAITS:
        gates.stand(
            new_id, arrival, record.call.priority + LANE_OFFSETS[Lane.LIVE], AttemptCounts()
        )
    elif arrival.gate is not None:
        gates.take(arrival.gate, new_id)
    return arrival


def order_task(work: Work, command: OrderTask) -> TaskOrder:
    """Suspend a task's retries, block its reruns, or allow them again."""
    before = _order(work, command.task)
    after = command.applied(before)
    if after == before:
        return after
    if after == FREE_TASK:
        work.connection.execute(DROP_ORDER, (command.task,))
    else:
        work.connection.execute(PUT_ORDER, (command.task, *after))
    work.record(command.actor, "task.ordered", task_subject(command.task, before, after))
    return after


def _order(work: Work, task: str) -> TaskOrder:
    row = work.connection.execute(READ_ORDER, (task,)).fetchone()
    return FREE_TASK if row is None else TaskOrder(bool(row[0]), bool(row[1]))


def task_orders(look: Look) -> dict[str, TaskOrder]:
    """Return the orders that are in force, by task."""
    found = look.connection.execute(LIST_ORDERS)
    return {task: TaskOrder(bool(suspended), bool(blocked)) for task, suspended, blocked in found}


def add_verdict(work: Work, command: AddVerdict) -> VerdictRecord:
    """Record what was found; settle the doubt that it answers."""
    connection = work.connection
    record = read_run(connection, command.run_id)
    if record is None:
        raise unknown_run(command.run_id)
    (number,) = rows.one(connection, NEXT_VERDICT, (command.run_id,))
    said = (command.finding, command.evidence, command.by, command.doubt)
    row = (command.run_id, number, work.now, *said)
    connection.execute(INSERT_VERDICT, row)
    work.record(SYSTEM, "run.verdict", verdict_subject(record, command))
    if is_settled_by(command, record) and command.finding in (Finding.PRESENT, Finding.ABSENT):
        is_done = command.finding is Finding.PRESENT
        settle_effects(work, record.id, dict.fromkeys(list_unknown(work, record.id), is_done))
        if is_done:
            _close(work, record, RunState.SUCCEEDED, Reason.VERIFIED)
        else:
            _go_on(work, record, keeps_checkpoints=True)
    return records.verdict_record(row)


def list_verdicts(look: Look, run_id: RunId) -> list[VerdictRecord]:
    """Return what was found about a run, oldest first."""
    return [
        records.verdict_record(row) for row in look.connection.execute(LIST_VERDICTS, (run_id,))
    ]


def _run(seen: Look | Work, run_id: RunId) -> RunRecord:
    record = read_run(seen.connection, run_id)
    assert record is not None, "who is in doubt, or was written, is a run"
    return record
