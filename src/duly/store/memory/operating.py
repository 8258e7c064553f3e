"""Orders of people about open runs and queues, on the memory store."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.enums import RunState
from duly.domain.policies import GateEntryOutcome
from duly.store.auditing import edited_subject, ordered_subject, queue_subject
from duly.store.gates import FREE, comer_again
from duly.store.memory.attempts import call_of
from duly.store.memory.delayed import cancel_delayed
from duly.store.memory.ending import close_by_order
from duly.store.memory.gates import MemoryGates, go_ahead, stand
from duly.store.memory.reading import get_run, run_record
from duly.store.memory.tables import PausedQueue
from duly.store.ports.dispatch import MemberKind
from duly.store.ports.operations import Ordered, QueueRecord
from duly.store.ports.schedules import CancelDelayed
from duly.store.work_rulings import not_cancellable, not_dead, retried_tries, unknown_run

if TYPE_CHECKING:
    from duly.domain.audit import Actor
    from duly.domain.ids import RunId
    from duly.domain.runs import RunRecord
    from duly.store.gates import GateDecision
    from duly.store.memory.tables import Journal
    from duly.store.ports.operations import CancelRun, EditRun, OrderRuns

WITHOUT_WORKER = frozenset((RunState.BLOCKED, RunState.QUEUED, RunState.RETRYING))


def cancel_run(journal: Journal, command: CancelRun) -> RunRecord:
    """Cancel a run that nobody holds; ask for it where somebody does."""
    tables = journal.tables
    pending = tables.delayed.get(command.id)
    if pending is not None and pending.tenant == command.tenant:
        order = CancelDelayed(tenant=command.tenant, key=None, id=command.id, actor=command.actor)
        cancel_delayed(journal, order)
    else:
        record = _run_in(journal, command.id, command.tenant)
        if record is None:
            raise unknown_run(command.id)
        if record.state is RunState.RUNNING:
            _ask(journal, record, command.actor)
        elif record.state in WITHOUT_WORKER:
            _tell(journal, record, command.actor, "run.cancelled")
            _take_out(journal, record.id)
            close_by_order(journal, record, RunState.CANCELLED)
        elif record.state is not RunState.CANCELLED:
            raise not_cancellable(record.id, record.state)
    return run_record(journal, tables.runs[command.id])


def _run_in(journal: Journal, run_id: RunId, tenant: str) -> RunRecord | None:
    record = get_run(journal, run_id)
    return record if record is not None and record.tenant == tenant else None


def _tell(journal: Journal, record: RunRecord, actor: Actor, action: str) -> None:
    subject = ordered_subject(record.id, record.tenant, record.state, record.state_reason)
    journal.record_about(actor, action, subject)


def _take_out(journal: Journal, run_id: RunId) -> None:
    """Take a run out of whichever place it is in without a worker."""
    journal.remove(journal.tables.blocked, run_id)
    journal.remove(journal.tables.ready, run_id)
    journal.remove(journal.tables.waiting, run_id)
    journal.remove(journal.tables.dead, run_id)


def _ask(journal: Journal, record: RunRecord, actor: Actor) -> None:
    claim = journal.tables.claims[record.id]
    if claim.cancel_asked_at is not None:
        return
    asked = replace(claim, cancel_asked_at=journal.now)
    journal.put(journal.tables.claims, record.id, asked)
    journal.wakes.add(MemberKind.WORKER)
    _tell(journal, record, actor, "run.cancel-asked")


def retry_runs(journal: Journal, command: OrderRuns) -> list[Ordered]:
    """Queue dead and waiting runs again, those that there are."""
    return [_retry(journal, command, run_id) for run_id in command.ids]


def _retry(journal: Journal, command: OrderRuns, run_id: RunId) -> Ordered:
    record = _run_in(journal, run_id, command.tenant)
    if record is None or record.state not in (RunState.DEAD, RunState.RETRYING):
        return Ordered(run_id, is_done=False, state=None if record is None else record.state)
    is_dead = record.state is RunState.DEAD
    tries = retried_tries(record.tries) if is_dead else record.tries
    arrival = _come_again(journal, record) if is_dead else FREE
    if arrival.coming is GateEntryOutcome.SKIPPED:
        return Ordered(run_id, is_done=False, state=record.state)
    _take_out(journal, run_id)
    if arrival.coming is GateEntryOutcome.WAITS:
        stand(journal, run_id, arrival, tries)
    else:
        journal.queue(run_id, journal.now, tries)
        if arrival.gate is not None:
            MemoryGates(journal).take(arrival.gate, run_id)
        if is_dead:
            go_ahead(journal, run_id)
    _tell(journal, record, command.actor, "run.retried")
    return Ordered(run_id, is_done=True, state=record.state)


def _come_again(journal: Journal, record: RunRecord) -> GateDecision:
    """Decide about a dead run that is to go on: it may have to wait for another."""
    if record.schedule_id is None or record.definition_number is None:
        return FREE
    tables = journal.tables
    schedule = tables.schedules.get(record.schedule_id)
    definition = tables.definitions.get((record.schedule_id, record.definition_number))
    if schedule is None or definition is None:
        return FREE
    return MemoryGates(journal).arrive(comer_again(schedule, definition, record.id))


def discard_runs(journal: Journal, command: OrderRuns) -> list[Ordered]:
    """Close dead runs, those that there are."""
    return [_discard(journal, command, run_id) for run_id in command.ids]


def _discard(journal: Journal, command: OrderRuns, run_id: RunId) -> Ordered:
    record = _run_in(journal, run_id, command.tenant)
    if record is None or record.state is not RunState.DEAD:
        return Ordered(run_id, is_done=False, state=None if record is None else record.state)
    _take_out(journal, run_id)
    close_by_order(journal, record, RunState.DISCARDED)
    _tell(journal, record, command.actor, "run.discarded")
    return Ordered(run_id, is_done=True, state=record.state)


def edit_run(journal: Journal, command: EditRun) -> RunRecord:
    """Replace the arguments of a dead run."""
    record = _run_in(journal, command.id, command.tenant)
    if record is None:
        raise unknown_run(command.id)
    if record.state is not RunState.DEAD:
        raise not_dead(command.id, record.state)
    call = replace(record.call, arguments=command.arguments)
    edited = replace(journal.tables.runs[command.id], call=call)
    journal.put(journal.tables.runs, command.id, edited)
    before, after = record.call.arguments, command.arguments
    subject = edited_subject(command.id, record.tenant, before, after)
    journal.record_about(command.actor, "run.edited", subject)
    return run_record(journal, edited)


def pause_queue(journal: Journal, name: str, actor: Actor) -> None:
    """Hand out nothing from a queue."""
    if name in journal.tables.paused_queues:
        return
    row = PausedQueue(journal.now, actor.name, actor.reason)
    journal.insert(journal.tables.paused_queues, name, row)
    journal.record_about(actor, "queue.paused", queue_subject(name, is_paused=True))


def resume_queue(journal: Journal, name: str, actor: Actor) -> None:
    """Hand out again."""
    if name not in journal.tables.paused_queues:
        return
    journal.remove(journal.tables.paused_queues, name)
    journal.wakes.add(MemberKind.WORKER)
    journal.record_about(actor, "queue.resumed", queue_subject(name, is_paused=False))


def list_queues(journal: Journal) -> list[QueueRecord]:
    """Return queues that hold something or are paused, by name."""
    tables = journal.tables
    running = Counter(call_of(journal, tables.runs[run_id]).queue for run_id in tables.claims)
    queued_at: dict[str, list[int]] = {}
    for run_id, row in tables.ready.items():
        queue = call_of(journal, tables.runs[run_id]).queue
        queued_at.setdefault(queue, []).append(row.fired_at)
    found: list[QueueRecord] = []
    for name in sorted({*running, *queued_at, *tables.paused_queues}):
        paused = tables.paused_queues.get(name)
        found.append(
            QueueRecord(
                name=name,
                queued=len(queued_at.get(name, ())),
                running=running[name],
                oldest_at=min(queued_at.get(name, ()), default=None),
                paused_at=None if paused is None else paused.at,
                paused_by=None if paused is None else paused.by,
                reason=None if paused is None else paused.reason,
            )
        )
    return found
