"""Orders of people about open runs and queues.

A run is taken out of the place it is in by deleting its row there: whoever comes second finds no
row, looks where the run is now, and decides again. The claim of a run that is being worked on is
only marked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import errors

from duly.domain.enums import RunState
from duly.domain.policies import GateEntryOutcome
from duly.domain.runs import AttemptCounts, Reason
from duly.store import records
from duly.store.auditing import edited_subject, ordered_subject, queue_subject
from duly.store.gathering import LANE_OFFSETS
from duly.store.ports.operations import Ordered, QueueRecord
from duly.store.ports.schedules import CancelDelayed
from duly.store.postgres import rows
from duly.store.postgres.arrays import Uuids
from duly.store.postgres.by_hand import ByHand
from duly.store.postgres.confirming import confirm_runs
from duly.store.postgres.delayed import LOCK_BY_ID, cancel_delayed
from duly.store.postgres.ending import closed, columns_of, queue_again, write_outcomes
from duly.store.postgres.gates import (
    LEAVE,
    LOCK_STATES,
    TAKE_READY,
    TAKE_WAITING,
    PostgresGates,
    give_back,
)
from duly.store.postgres.limiting import leave_limits
from duly.store.postgres.pending import read_run
from duly.store.postgres.session import first, uid
from duly.store.postgres.trail import record_all
from duly.store.work_rulings import not_cancellable, not_dead, retried_tries, unknown_run

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duly.domain.audit import Actor
    from duly.domain.ids import RunId
    from duly.domain.runs import RunRecord
    from duly.store.ports.operations import CancelRun, EditRun, OrderRuns
    from duly.store.postgres.session import Session
    from duly.store.postgres.work import Work
    from duly.store.records import Row

# The rank of one that was never claimed is when it fell due, and what programs of schema 2 queue
# stands under no tenant's name. Any other has an index of its own.
TAKE_QUEUED = f"""
DELETE FROM duly.ready y USING (
    SELECT id, queue, {rows.RANKED} AS ranked, {rows.SHARE} AS share, not_before FROM duly.runs
    WHERE id = $1::uuid OFFSET 0) r
WHERE y.queue = r.queue AND y.priority = r.ranked AND y.tenant = ANY(ARRAY['', r.share])
    AND y.rank = r.not_before AND y.run_id = r.id AND y.fence = 0
RETURNING y.fence, y.attempt, y.charged, y.begun_at"""  # noqa: S608 - an expression of ours
AT_GATE = "SELECT gate FROM duly.blocked WHERE run_id = $1::uuid"
SCHEDULES_OF = """
SELECT DISTINCT uuid_send(schedule_id) FROM duly.runs
WHERE id = ANY($1::uuid[]) AND schedule_id IS NOT NULL"""
ASK_TO_STOP = """
UPDATE duly.claims SET cancel_asked_at = $2::int8
WHERE run_id = $1::uuid AND cancel_asked_at IS NULL RETURNING 1"""
HOLD_CLAIM = "SELECT 1 FROM duly.claims WHERE run_id = $1::uuid FOR KEY SHARE"
RUNS_BY_IDS = f"{rows.RUN} WHERE r.id = ANY($1::uuid[])"
LOCK_WAITING = """
SELECT uuid_send(run_id) FROM duly.waiting WHERE run_id = ANY($1::uuid[])
ORDER BY run_id FOR UPDATE"""
LOCK_DEAD = """
SELECT uuid_send(run_id) FROM duly.dead WHERE run_id = ANY($1::uuid[])
ORDER BY run_id FOR UPDATE"""
DELETE_WAITING = "DELETE FROM duly.waiting WHERE run_id = ANY($1::uuid[])"
DELETE_DEAD = "DELETE FROM duly.dead WHERE run_id = ANY($1::uuid[])"
EDIT_ARGUMENTS = "UPDATE duly.runs SET arguments = $2 WHERE id = $1::uuid"
PAUSE_QUEUE = """
INSERT INTO duly.queues (name, paused_at, paused_by, reason) VALUES ($1, $2::int8, $3, $4)
ON CONFLICT (name) DO NOTHING RETURNING 1"""
RESUME_QUEUE = "DELETE FROM duly.queues WHERE name = $1 RETURNING 1"
LIST_QUEUED = "SELECT queue, count(*), min(fired_at) FROM duly.ready GROUP BY queue"
COUNT_CLAIMED = """
SELECT r.queue, count(*)
FROM duly.claims c CROSS JOIN LATERAL (
    SELECT r.queue FROM duly.runs r WHERE r.id = c.run_id OFFSET 0) r
GROUP BY r.queue"""
# A role that is shown one tenant's rows has functions that count those of all.
_QUEUED_OF_ALL = "SELECT queue, queued, oldest_at FROM duly.queued_of_all()"
_CLAIMED_OF_ALL = "SELECT queue, claimed FROM duly.claimed_of_all()"
LIST_PAUSED = "SELECT name, paused_at, paused_by, reason FROM duly.queues"

LOOKS_MAX = 5
"""How often a run may move on while we look for it."""


def cancel_run(work: Work, command: CancelRun) -> RunRecord:
    """Cancel a run that nobody holds; ask for it where somebody does."""
    row = first(work.session, LOCK_BY_ID, (uid(command.id), command.tenant))
    if row is not None:
        order = CancelDelayed(tenant=command.tenant, key=None, id=command.id, actor=command.actor)
        return cancel_delayed(work, order)
    for _ in range(LOOKS_MAX):
        record = _run_in(work, command.id, command.tenant)
        if record.state is RunState.CANCELLED:
            confirm_runs(work, [record.id])
            return record
        if _is_cancelled(work, record, command.actor):
            return _run_in(work, command.id, command.tenant)
    raise errors.SerializationFailure("the run moves on again and again")


def _run_in(work: Work, run_id: RunId, tenant: str) -> RunRecord:
    record = read_run(work.session, run_id, tenant)
    if record is None:
        raise unknown_run(run_id)
    return record


def _is_cancelled(work: Work, record: RunRecord, actor: Actor) -> bool:
    """Cancel a run where it was seen; False if it is no longer there."""
    if record.state is RunState.RUNNING:
        return _is_asked(work, record, actor)
    taken = _take_out(work, record)
    if taken is None:
        return False
    work.look_at_the_clock()
    give_back(work, [record.id])
    leave_limits(work, record.id)
    write_outcomes(work, [closed(record.id, RunState.CANCELLED, Reason.ORDERED, taken)])
    _tell(work, actor, "run.cancelled", [record])
    return True


def _is_asked(work: Work, record: RunRecord, actor: Actor) -> bool:
    key = uid(record.id)
    if work.session.rows(ASK_TO_STOP, (key, work.now)):
        work.has_orders = True
        _tell(work, actor, "run.cancel-asked", [record])
        return True
    # It was asked before, or it is over.
    return bool(work.session.rows(HOLD_CLAIM, (key,)))


def _take_out(work: Work, record: RunRecord) -> AttemptCounts | None:
    """Take a run that nobody holds out of its place; None if it has left it."""
    key = (uid(record.id),)
    if record.state is RunState.RETRYING:
        row = first(work.session, TAKE_WAITING, key)
    elif record.state is RunState.QUEUED:
        # One that holds a gate may have been hurried, and is found like one that was claimed.
        row = None if record.tries.fence else first(work.session, TAKE_QUEUED, key)
        row = row or first(work.session, TAKE_READY, key)
    elif record.state is RunState.BLOCKED:
        row = _leave_gate(work, record.id)
    else:
        raise not_cancellable(record.id, record.state)
    return None if row is None else AttemptCounts(*row)


def _leave_gate(work: Work, run_id: RunId) -> Row | None:
    """Take a run away from the gate that it waits at; whoever lets one go there has locked it."""
    key = (uid(run_id),)
    at = first(work.session, AT_GATE, key)
    if at is None:
        return None
    PostgresGates(work).lock(at[0])
    return first(work.session, LEAVE, key)


def _tell(work: Work, actor: Actor, action: str, runs: Iterable[RunRecord]) -> None:
    subjects = [ordered_subject(one.id, one.tenant, one.state, one.state_reason) for one in runs]
    record_all(work, actor, [(action, subject) for subject in subjects])


def retry_runs(work: Work, command: OrderRuns) -> list[Ordered]:
    """Queue dead and waiting runs again, those that there are and that may go or wait."""
    found = work.session.rows(SCHEDULES_OF, (Uuids(sorted(set(command.ids))),))
    schedules = sorted(schedule_id for (schedule_id,) in found)
    work.session.rows(LOCK_STATES, (Uuids(schedules),))
    held = _hold(work, command.ids, (LOCK_WAITING, LOCK_DEAD))
    work.look_at_the_clock()
    runs = _runs_in(work, command)
    by_hand = ByHand(work)
    possible = [runs[one] for one in dict.fromkeys(command.ids) if one in held and one in runs]
    by_hand.expect_again([one for one in possible if one.state is RunState.DEAD])
    again: dict[RunId, AttemptCounts] = {}
    for record in possible:
        is_dead = record.state is RunState.DEAD
        tries = retried_tries(record.tries) if is_dead else record.tries
        priority = record.call.priority + LANE_OFFSETS[record.lane]
        if by_hand.come(record.id, priority, tries).coming is not GateEntryOutcome.SKIPPED:
            again[record.id] = tries
    work.session.run(DELETE_WAITING, (Uuids(sorted(again)),))
    work.session.run(DELETE_DEAD, (Uuids(sorted(again)),))
    ordered, done = _ordered(command.ids, runs, (set(again), RunState.QUEUED))
    queued = [one.id for one in done if not by_hand.is_waiting(one.id)]
    queue_again(work, [(run_id, *columns_of(again[run_id])) for run_id in queued])
    by_hand.write()
    _tell(work, command.actor, "run.retried", done)
    return ordered


def discard_runs(work: Work, command: OrderRuns) -> list[Ordered]:
    """Close dead runs, those that there are."""
    held = _hold(work, command.ids, (LOCK_DEAD,))
    work.look_at_the_clock()
    runs = _runs_in(work, command)
    possible = held.intersection(runs)
    ordered, done = _ordered(command.ids, runs, (possible, RunState.DISCARDED))
    work.session.run(DELETE_DEAD, (Uuids(sorted(one.id for one in done)),))
    outcomes = [closed(one.id, RunState.DISCARDED, Reason.ORDERED, one.tries) for one in done]
    write_outcomes(work, outcomes)
    _tell(work, command.actor, "run.discarded", done)
    return ordered


def _hold(work: Work, ids: Sequence[RunId], statements: Sequence[str]) -> set[RunId]:
    """Hold on to runs where nobody works on them; what is locked here stays until the commit."""
    asked = Uuids(sorted(set(ids)))
    return {row[0] for one in statements for row in work.session.rows(one, (asked,))}


def _runs_in(work: Work, command: OrderRuns) -> dict[RunId, RunRecord]:
    found = work.session.rows(RUNS_BY_IDS, (Uuids(sorted(set(command.ids))),))
    runs = [records.run_record(row) for row in found]
    return {run.id: run for run in runs if run.tenant == command.tenant}


def _ordered(
    ids: Sequence[RunId], runs: dict[RunId, RunRecord], what: tuple[set[RunId], RunState]
) -> tuple[list[Ordered], list[RunRecord]]:
    """Return what is told of each run, in order, and those to which it is done: each once.

    `what` says to which it can be done, and what they are afterwards.
    """
    possible, state_after = what
    ordered: list[Ordered] = []
    done: dict[RunId, RunRecord] = {}
    for run_id in ids:
        record = runs.get(run_id)
        state = None if record is None else record.state
        if run_id in done:
            ordered.append(Ordered(run_id, is_done=False, state=state_after))
            continue
        if record is not None and run_id in possible:
            done[run_id] = record
        ordered.append(Ordered(run_id, run_id in done, state))
    return ordered, [*done.values()]


def edit_run(work: Work, command: EditRun) -> RunRecord:
    """Replace the arguments of a dead run."""
    held = _hold(work, [command.id], (LOCK_DEAD,))
    record = _run_in(work, command.id, command.tenant)
    if command.id not in held:
        raise not_dead(command.id, record.state)
    work.session.run(EDIT_ARGUMENTS, (uid(command.id), command.arguments))
    before, after = record.call.arguments, command.arguments
    subject = edited_subject(command.id, record.tenant, before, after)
    work.record(command.actor, "run.edited", subject)
    return _run_in(work, command.id, command.tenant)


def pause_queue(work: Work, name: str, actor: Actor) -> None:
    """Hand out nothing from a queue."""
    if work.session.rows(PAUSE_QUEUE, (name, work.now, actor.name, actor.reason)):
        work.record(actor, "queue.paused", queue_subject(name, is_paused=True))


def resume_queue(work: Work, name: str, actor: Actor) -> None:
    """Hand out again."""
    if work.session.rows(RESUME_QUEUE, (name,)):
        work.has_orders = True
        work.record(actor, "queue.resumed", queue_subject(name, is_paused=False))


def list_queues(session: Session, *, is_held: bool) -> list[QueueRecord]:
    """Return queues that hold something or are paused, by name; of all tenants' runs."""
    asked = (_QUEUED_OF_ALL, _CLAIMED_OF_ALL) if is_held else (LIST_QUEUED, COUNT_CLAIMED)
    queued = {name: rest for name, *rest in session.rows(asked[0])}
    running: dict[str, int] = dict(session.rows(asked[1]))
    paused = {name: rest for name, *rest in session.rows(LIST_PAUSED)}
    return records.queue_records(queued, running, paused)
