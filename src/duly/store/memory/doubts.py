"""Runs that are in doubt on the memory store: what people decide, and what checks find."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.effects import Choice, settled_by
from duly.domain.enums import Finding, Lane, RunState
from duly.domain.policies import GateEntryOutcome
from duly.domain.runs import Reason, lineage_root_of
from duly.store.auditing import SYSTEM
from duly.store.effect_rulings import (
    REPEATING,
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
from duly.store.memory.effects import list_unknown, settle_effects
from duly.store.memory.ending import close_by_order
from duly.store.memory.gates import MemoryGates, go_ahead, stand
from duly.store.memory.reading import get_run, run_record
from duly.store.memory.scopes import get_scope
from duly.store.memory.tables import RunRow
from duly.store.ports.effects import FREE_TASK, AmbiguousRun, VerdictRecord
from duly.store.rulings import id_taken
from duly.store.work_rulings import retried_tries, unknown_run

if TYPE_CHECKING:
    from duly.domain.ids import RunId
    from duly.domain.runs import RunRecord
    from duly.store.gates import GateDecision
    from duly.store.memory.tables import Journal
    from duly.store.ports.effects import (
        AddVerdict,
        OrderTask,
        Rerun,
        ResolveAmbiguousRun,
        TaskOrder,
    )


def list_doubts(journal: Journal, tenant: str | None, limit: int) -> list[AmbiguousRun]:
    """Return runs that are in doubt, oldest first."""
    tables = journal.tables
    found = [
        AmbiguousRun(run_record(journal, tables.runs[run_id]), doubt.at, doubt.reason)
        for run_id, doubt in tables.in_doubt.items()
        if tenant in (None, tables.runs[run_id].tenant)
    ]
    return sorted(found, key=lambda one: (one.since, one.run.id))[:limit]


def settle_doubt(journal: Journal, command: ResolveAmbiguousRun) -> RunRecord:
    """Carry out what a person decided."""
    record = doubt_to_settle(get_run(journal, command.id), command)
    end = closed_as(command, get_scope(journal, record.id))
    unknown = list_unknown(journal, record.id)
    settled = settled_by(command.choice, command.effects, unknown, is_done=command.is_done)
    journal.record_about(command.actor, "run.settled", settled_subject(record, command, settled))
    settle_effects(journal, record.id, settled)
    if end is None:
        _go_on(journal, record, keeps_checkpoints=command.choice is Choice.RESUME)
    else:
        _close(journal, record, *end)
    return run_record(journal, journal.tables.runs[record.id])


def _go_on(journal: Journal, record: RunRecord, *, keeps_checkpoints: bool) -> None:
    tables = journal.tables
    if not keeps_checkpoints:
        for place in [one for one in tables.checkpoints if one[0] == record.id]:
            journal.remove(tables.checkpoints, place)
    journal.remove(tables.in_doubt, record.id)
    journal.queue(record.id, journal.now, retried_tries(record.tries))


def _close(journal: Journal, record: RunRecord, state: RunState, reason: Reason) -> None:
    journal.remove(journal.tables.in_doubt, record.id)
    close_by_order(journal, record, state, reason)


def rerun_run(journal: Journal, command: Rerun) -> RunRecord:
    """Queue another run with a run's call."""
    tables = journal.tables
    there = tables.runs.get(command.new_id)
    if there is not None:
        return same_rerun(run_record(journal, there), command)
    if command.new_id in tables.delayed:
        raise id_taken(command.new_id)
    record = run_to_repeat(get_run(journal, command.id), command, journal.now)
    if tables.task_orders.get(record.call.task, FREE_TASK).is_blocked:
        raise reruns_blocked(record.call.task)
    if _is_repeated(journal, record, command.alone_since):
        raise repeated_meanwhile(record)
    if command.is_repair:
        refuse_open_line(record, _open_in_line(journal, record))
        settle_effects(journal, record.id, command.effects)
    if record.state is RunState.AMBIGUOUS:
        _close(journal, record, RunState.FAILED, Reason.RECONCILED)
    row = RunRow(
        id=command.new_id,
        tenant=record.tenant,
        schedule_id=record.schedule_id,
        definition_number=record.definition_number,
        key=None,
        call=record.call,
        origin=command.origin,
        lane=Lane.LIVE,
        root=record.line if command.is_repair else record.root,
        scheduled_for=record.scheduled_for,
        not_before=journal.now,
        window_from=record.window_from,
        created_at=journal.now,
        fired_at=journal.now,
    )
    arrival = _come(journal, record, row.id)
    journal.insert(tables.runs, row.id, row)
    if arrival.coming is GateEntryOutcome.WAITS:
        stand(journal, row.id, arrival)
    else:
        journal.queue(row.id, journal.now)
        if arrival.gate is not None:
            MemoryGates(journal).take(arrival.gate, row.id)
        go_ahead(journal, row.id)
    journal.record_about(command.actor, "run.rerun", rerun_subject(record, command))
    return run_record(journal, row)


def _open_in_line(journal: Journal, record: RunRecord) -> RunId | None:
    tables = journal.tables
    others = (
        row.id
        for row in tables.runs.values()
        if row.id != record.id and lineage_root_of(row.id, row.origin, row.root) == record.line
    )
    is_over = {*tables.outcomes, *tables.dead}
    return next((one for one in others if one not in is_over), None)


def _is_repeated(journal: Journal, record: RunRecord, since: int | None) -> bool:
    return since is not None and any(
        row.root == record.root and row.origin in REPEATING and row.created_at >= since
        for row in journal.tables.runs.values()
    )


def _come(journal: Journal, record: RunRecord, run_id: RunId) -> GateDecision:
    """Let the new run come to its schedule's gate; refuse what may neither go nor wait."""
    tables = journal.tables
    if record.schedule_id is None or record.definition_number is None:
        return FREE
    schedule = tables.schedules.get(record.schedule_id)
    definition = tables.definitions.get((record.schedule_id, record.definition_number))
    if schedule is None or definition is None:
        return FREE
    arrival = MemoryGates(journal).arrive(comer_again(schedule, definition, run_id))
    if arrival.coming is GateEntryOutcome.SKIPPED:
        raise in_the_way(schedule.name, arrival)
    return arrival


def order_task(journal: Journal, command: OrderTask) -> TaskOrder:
    """Suspend a task's retries, block its reruns, or allow them again."""
    orders, task = journal.tables.task_orders, command.task
    before = orders.get(task, FREE_TASK)
    after = command.applied(before)
    if after == before:
        return after
    if after == FREE_TASK:
        journal.remove(orders, task)
    else:
        journal.put(orders, task, after)
    journal.record_about(command.actor, "task.ordered", task_subject(task, before, after))
    return after


def add_verdict(journal: Journal, command: AddVerdict) -> VerdictRecord:
    """Record what was found; settle the doubt that it answers."""
    tables = journal.tables
    record = get_run(journal, command.run_id)
    if record is None:
        raise unknown_run(command.run_id)
    number = 1 + sum(run_id == command.run_id for run_id, _ in tables.verdicts)
    verdict = VerdictRecord(
        run_id=command.run_id,
        number=number,
        at=journal.now,
        finding=command.finding,
        evidence=command.evidence,
        by=command.by,
        doubt=command.doubt,
    )
    journal.insert(tables.verdicts, (command.run_id, number), verdict)
    journal.record_about(SYSTEM, "run.verdict", verdict_subject(record, command))
    if is_settled_by(command, record) and command.finding in (Finding.PRESENT, Finding.ABSENT):
        is_done = command.finding is Finding.PRESENT
        settle_effects(journal, record.id, dict.fromkeys(list_unknown(journal, record.id), is_done))
        if is_done:
            _close(journal, record, RunState.SUCCEEDED, Reason.VERIFIED)
        else:
            _go_on(journal, record, keeps_checkpoints=True)
    return verdict


def list_verdicts(journal: Journal, run_id: RunId) -> list[VerdictRecord]:
    """Return what was found about a run, oldest first."""
    found = [one for (known, _), one in journal.tables.verdicts.items() if known == run_id]
    return sorted(found, key=lambda one: one.number)
