"""Runs that are in doubt: what people decide, what checks find, and what is run once more.

A run leaves doubt by the one who deletes its row there, and that row is locked before anything is
decided: of two who settle it, the second finds it settled. Rows are locked in this order: the state
of the schedule, the run itself, its place in doubt, gates, the ledger.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from psycopg import errors

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
from duly.store.gates import in_the_way
from duly.store.gathering import LANE_OFFSETS
from duly.store.ports.effects import FREE_TASK, AmbiguousRun, TaskOrder, VerdictRecord
from duly.store.postgres import rows
from duly.store.postgres.adding import ARE_PENDING
from duly.store.postgres.arrays import Uuids
from duly.store.postgres.by_hand import ByHand
from duly.store.postgres.confirming import confirm_runs
from duly.store.postgres.effects import list_unknown, settle_effects
from duly.store.postgres.ending import closed, columns_of, queue_again, write_outcomes
from duly.store.postgres.following import Follower, make
from duly.store.postgres.gates import LOCK_STATES, give_back
from duly.store.postgres.limiting import leave_limits
from duly.store.postgres.pending import read_run
from duly.store.postgres.scopes import get_scope
from duly.store.postgres.session import first, one, uid
from duly.store.postgres.settlements import GATED, QUEUED, WAITING
from duly.store.records import verdict_record
from duly.store.rulings import id_taken
from duly.store.work_rulings import retried_tries, unknown_run

if TYPE_CHECKING:
    from duly.domain.runs import RunRecord
    from duly.store.ports.effects import AddVerdict, OrderTask, Rerun, ResolveAmbiguousRun
    from duly.store.postgres.session import Session
    from duly.store.postgres.work import Work

_OLDEST = "ORDER BY u.since, u.run_id LIMIT"
LIST_DOUBTS = f"{rows.RUN} WHERE u.run_id IS NOT NULL {_OLDEST} $1::int8"
LIST_DOUBTS_OF = f"{rows.RUN} WHERE u.run_id IS NOT NULL AND r.tenant = $1 {_OLDEST} $2::int8"
READ_SINCE = """
SELECT uuid_send(run_id), since, reason FROM duly.ambiguous WHERE run_id = ANY($1::uuid[])"""
LOCK_DOUBT = "SELECT 1 FROM duly.ambiguous WHERE run_id = $1::uuid FOR UPDATE"
LEAVE_DOUBT = "DELETE FROM duly.ambiguous WHERE run_id = $1::uuid"
FORGET_CHECKPOINTS = "DELETE FROM duly.checkpoints WHERE run_id = $1::uuid"
# Whoever numbers a verdict, repeats a run or forgets it comes after the other.
LOCK_RUN = "SELECT 1 FROM duly.runs WHERE id = $1::uuid FOR NO KEY UPDATE"
IS_BLOCKED = "SELECT 1 FROM duly.task_orders WHERE task = $1 AND is_blocked"
IS_REPEATED = """
SELECT 1 FROM duly.runs
WHERE root = $1::uuid AND origin IN ('rerun', 'repair') AND created_at >= $2::int8 LIMIT 1"""
# Open is what is neither closed nor dead.
OPEN_IN_LINE = """
SELECT uuid_send(l.id) FROM (
    SELECT id FROM duly.runs WHERE id = $1::uuid
    UNION ALL SELECT id FROM duly.runs
    WHERE root = $1::uuid AND origin IN ('repair', 'backfill')) l
WHERE l.id <> $2::uuid
    AND NOT EXISTS (SELECT 1 FROM duly.outcomes o WHERE o.run_id = l.id)
    AND NOT EXISTS (SELECT 1 FROM duly.dead x WHERE x.run_id = l.id)
LIMIT 1"""
# Locked whether it was there or not: who comes second reads what the first has written.
LOCK_ORDER = """
INSERT INTO duly.task_orders (task, is_suspended, is_blocked) VALUES ($1, false, false)
ON CONFLICT (task) DO UPDATE SET task = excluded.task RETURNING is_suspended, is_blocked"""
WRITE_ORDER = """
UPDATE duly.task_orders SET is_suspended = $2::bool, is_blocked = $3::bool WHERE task = $1"""
DROP_ORDER = "DELETE FROM duly.task_orders WHERE task = $1"
LIST_ORDERS = "SELECT task, is_suspended, is_blocked FROM duly.task_orders ORDER BY task"
INSERT_VERDICT = """
INSERT INTO duly.verdicts (run_id, number, at, finding, evidence, "by", doubt)
SELECT $1::uuid, 1 + coalesce(max(number), 0), $2::int8, $3, $4, $5, $6::int4
FROM duly.verdicts WHERE run_id = $1::uuid
RETURNING number"""
LIST_VERDICTS = """
SELECT uuid_send(run_id), number, at, finding, evidence, "by", doubt FROM duly.verdicts
WHERE run_id = $1::uuid ORDER BY number"""

LOOKS_MAX = 5
"""How often a run may come into doubt or leave it while we look at it."""


def list_doubts(session: Session, tenant: str | None, limit: int) -> list[AmbiguousRun]:
    """Return runs that are in doubt, oldest first."""
    if tenant is None:
        found = session.rows(LIST_DOUBTS, (limit,))
    else:
        found = session.rows(LIST_DOUBTS_OF, (tenant, limit))
    runs = [records.run_record(row) for row in found]
    since = {
        run_id: rest
        for run_id, *rest in session.rows(READ_SINCE, (Uuids([run.id for run in runs]),))
    }
    return [AmbiguousRun(run, *since[run.id]) for run in runs]


def settle_doubt(work: Work, command: ResolveAmbiguousRun) -> RunRecord:
    """Carry out what a person decided."""
    record = doubt_to_settle(_hold_on(work, command.id), command)
    end = closed_as(command, get_scope(work.session, record.id))
    unknown = list_unknown(work, record.id)
    settled = settled_by(command.choice, command.effects, unknown, is_done=command.is_done)
    work.record(command.actor, "run.settled", settled_subject(record, command, settled))
    if end is None:
        _go_on(work, record, keeps_checkpoints=command.choice is Choice.RESUME)
    else:
        _close(work, record, *end)
    settle_effects(work, record.id, settled)
    return _there(work, record.id)


def _hold_on(work: Work, run_id: RunId) -> RunRecord | None:
    """Read a run; where it is in doubt, so that nobody else settles it until the end."""
    key = (uid(run_id),)
    for _ in range(LOOKS_MAX):
        is_held = bool(work.session.rows(LOCK_DOUBT, key))
        work.look_at_the_clock()
        record = read_run(work.session, run_id)
        if is_held or record is None or record.state is not RunState.AMBIGUOUS:
            return record
    raise errors.SerializationFailure("the run moves on again and again")


def _there(work: Work, run_id: RunId) -> RunRecord:
    record = read_run(work.session, run_id)
    assert record is not None, "who is held is there"
    return record


def _go_on(work: Work, record: RunRecord, *, keeps_checkpoints: bool) -> None:
    """Queue a run that is in doubt; it kept its gate."""
    key = (uid(record.id),)
    work.session.run(LEAVE_DOUBT, key)
    if not keeps_checkpoints:
        work.session.run(FORGET_CHECKPOINTS, key)
    queue_again(work, [(record.id, *columns_of(retried_tries(record.tries)))])


def _close(work: Work, record: RunRecord, state: RunState, reason: Reason) -> None:
    work.session.run(LEAVE_DOUBT, (uid(record.id),))
    give_back(work, [record.id])
    leave_limits(work, record.id)
    write_outcomes(work, [closed(record.id, state, reason, record.tries)])


def rerun_run(work: Work, command: Rerun) -> RunRecord:
    """Queue another run with a run's call."""
    record = read_run(work.session, command.id)
    if record is not None and record.schedule_id is not None:
        work.session.rows(LOCK_STATES, (Uuids([record.schedule_id]),))
    if record is not None and (command.is_repair or command.alone_since is not None):
        # Of two who repeat runs of one line, the second finds what the first has made.
        work.session.rows(LOCK_RUN, (uid(record.root),))
    work.session.rows(LOCK_RUN, (uid(command.id),))
    # Only now: whoever repeats the same run at this moment has been waited for.
    there = read_run(work.session, command.new_id)
    if there is not None:
        confirm_runs(work, [there.id])
        return same_rerun(there, command)
    record = run_to_repeat(_hold_on(work, command.id), command, work.now)
    if work.session.rows(IS_BLOCKED, (record.call.task,)):
        raise reruns_blocked(record.call.task)
    since = command.alone_since
    if since is not None and work.session.rows(IS_REPEATED, (uid(record.root), since)):
        raise repeated_meanwhile(record)
    if command.is_repair:
        other = first(work.session, OPEN_IN_LINE, (uid(record.line), uid(record.id)))
        refuse_open_line(record, None if other is None else RunId(other[0]))
    if record.state is RunState.AMBIGUOUS:
        _close(work, record, RunState.FAILED, Reason.RECONCILED)
    new = _follower(record, command)
    is_made = make(work, [new], _arrive(work, record, new))
    if not is_made or one(work.session, ARE_PENDING, (Uuids([new.id]),))[0]:
        raise id_taken(new.id)
    work.record(command.actor, "run.rerun", rerun_subject(record, command))
    settle_effects(work, record.id, command.effects)
    return _there(work, new.id)


def _follower(record: RunRecord, command: Rerun) -> Follower:
    return Follower(
        id=command.new_id,
        tenant=record.tenant,
        schedule_id=record.schedule_id,
        definition_number=record.definition_number,
        call=record.call,
        origin=command.origin,
        lane=Lane.LIVE,
        root=record.line if command.is_repair else record.root,
        scheduled_for=record.scheduled_for,
        window_from=record.window_from,
    )


def _arrive(work: Work, record: RunRecord, new: Follower) -> int:
    """Let a run that is made of another come to its gate; say where it is put.

    What may neither go nor wait is refused.
    """
    by_hand = ByHand(work)
    by_hand.expect_again([replace(record, id=new.id)])
    priority = new.call.priority + LANE_OFFSETS[new.lane]
    arrival = by_hand.come(new.id, priority, AttemptCounts())
    if arrival.coming is GateEntryOutcome.SKIPPED:
        assert new.schedule_id is not None, "only a schedule's runs come to a gate"
        raise in_the_way(by_hand.schedules[new.schedule_id].name, arrival)
    by_hand.write()
    if arrival.coming is GateEntryOutcome.WAITS:
        return WAITING
    return QUEUED if arrival.gate is None else GATED


def order_task(work: Work, command: OrderTask) -> TaskOrder:
    """Suspend a task's retries, block its reruns, or allow them again."""
    before = TaskOrder(*one(work.session, LOCK_ORDER, (command.task,)))
    after = command.applied(before)
    if after == FREE_TASK:
        work.session.run(DROP_ORDER, (command.task,))
    elif after != before:
        work.session.run(WRITE_ORDER, (command.task, *after))
    if after != before:
        work.look_at_the_clock()
        subject = task_subject(command.task, before, after)
        work.record(command.actor, "task.ordered", subject)
    return after


def task_orders(session: Session) -> dict[str, TaskOrder]:
    """Return the orders that are in force, by task."""
    return {task: TaskOrder(*order) for task, *order in session.rows(LIST_ORDERS)}


def add_verdict(work: Work, command: AddVerdict) -> VerdictRecord:
    """Record what was found; settle the doubt that it answers."""
    key = uid(command.run_id)
    record = _hold_on(work, command.run_id) if first(work.session, LOCK_RUN, (key,)) else None
    if record is None:
        raise unknown_run(command.run_id)
    said = (work.now, command.finding, command.evidence, command.by, command.doubt)
    (number,) = one(work.session, INSERT_VERDICT, (key, *said))
    work.record(SYSTEM, "run.verdict", verdict_subject(record, command))
    if is_settled_by(command, record) and command.finding in (Finding.PRESENT, Finding.ABSENT):
        is_done = command.finding is Finding.PRESENT
        if is_done:
            _close(work, record, RunState.SUCCEEDED, Reason.VERIFIED)
        else:
            _go_on(work, record, keeps_checkpoints=True)
        settle_effects(work, record.id, dict.fromkeys(list_unknown(work, record.id), is_done))
    return verdict_record((command.run_id, number, *said))


def list_verdicts(session: Session, run_id: RunId) -> list[VerdictRecord]:
    """Return what was found about a run, oldest first."""
    return [verdict_record(row) for row in session.rows(LIST_VERDICTS, (uid(run_id),))]
