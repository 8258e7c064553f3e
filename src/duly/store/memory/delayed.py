"""Orders about single runs, at once or later, on the memory store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.audit import delayed_facts
from duly.domain.enums import Lane, Origin, RunState
from duly.domain.ids import RunId, identity_text
from duly.domain.policies import GateEntryOutcome
from duly.domain.runs import DelayedRecord
from duly.store.gates import FREE, comer_by_hand, in_the_way
from duly.store.memory.gates import MemoryGates, begin_earlier, go_ahead, stand
from duly.store.memory.quotas import MemoryCounting
from duly.store.memory.reading import get_run
from duly.store.memory.tables import Journal, Outcome, RunRow
from duly.store.ports.schedules import AddedRun, AddRuns, CancelDelayed, MoveDelayed, NewRun
from duly.store.rulings import (
    added_by_hand,
    due_of,
    key_taken,
    no_longer_pending,
    refuse_another_request,
    refuse_deleted,
    triggered_facts,
    unknown_delayed,
    unknown_schedule,
)

if TYPE_CHECKING:
    from duly.domain.audit import Actor
    from duly.store.gates import GateDecision


def add_runs(journal: Journal, command: AddRuns, as_of: int) -> list[AddedRun]:
    """Make runs, all or none; instants are meant as of when the caller asked."""
    added = [_add_run(journal, run, command.actor, as_of) for run in command.runs]
    MemoryCounting(journal).check_pending(command, added, as_of)
    entry = added_by_hand(command, added)
    if entry is not None:
        journal.record(
            command.actor,
            "runs.added",
            entry.tenant,
            subject=entry.subject,
            subject_id=entry.subject_id,
            after=entry.after,
        )
    return added


def _add_run(journal: Journal, new: NewRun, actor: Actor, as_of: int) -> AddedRun:
    known = _known(journal, new)
    if known is not None:
        return known
    if new.schedule_id is not None:
        schedule = journal.tables.schedules.get(new.schedule_id)
        if schedule is None or schedule.tenant != new.tenant:
            raise unknown_schedule(new.schedule_id)
        refuse_deleted(schedule.name, schedule.status)
    if new.key is not None and (new.tenant, new.key) in journal.tables.keys:
        pending = journal.tables.delayed[journal.tables.keys[new.tenant, new.key]]
        if pending.fingerprint == new.fingerprint and not new.replaces:
            return AddedRun(pending.id, pending.due_at, is_new=False)
        if not new.replaces:
            raise key_taken(new.key)
        _close(journal, pending, RunState.REPLACED, actor)
    due_at = due_of(new, as_of)
    if due_at is None or due_at <= as_of:
        return _run_at_once(journal, new, due_at, actor)
    delayed = DelayedRecord(
        id=new.id,
        tenant=new.tenant,
        key=new.key,
        call=new.call,
        due_at=due_at,
        generation=1,
        fingerprint=new.fingerprint,
        created_at=journal.now,
    )
    _insert_delayed(journal, delayed)
    return AddedRun(new.id, due_at, is_new=True)


def _known(journal: Journal, new: NewRun) -> AddedRun | None:
    """Return what a request that was made before has become."""
    pending = journal.tables.delayed.get(new.id)
    if pending is not None:
        refuse_another_request(new, pending, pending.fingerprint)
        return AddedRun(new.id, pending.due_at, is_new=False)
    run = get_run(journal, new.id)
    if run is None:
        return None
    refuse_another_request(new, run)
    return AddedRun(new.id, run.not_before, is_new=False)


def _insert_delayed(journal: Journal, delayed: DelayedRecord) -> None:
    tables = journal.tables
    journal.insert(tables.delayed, delayed.id, delayed)
    if delayed.key is not None:
        journal.insert(tables.keys, (delayed.tenant, delayed.key), delayed.id)
    journal.announce("delayed", delayed.id, delayed.due_at)


def _run_at_once(journal: Journal, new: NewRun, due_at: int | None, actor: Actor) -> AddedRun:
    now = journal.now
    instant = now if due_at is None else due_at
    row = RunRow(
        id=new.id,
        tenant=new.tenant,
        schedule_id=new.schedule_id,
        definition_number=new.definition_number,
        key=new.key,
        call=new.call,
        origin=new.origin,
        lane=new.lane,
        root=new.root,
        scheduled_for=instant,
        not_before=instant,
        window_from=None,
        created_at=now,
        fired_at=now,
    )
    arrival = _arrive(journal, new)
    journal.insert(journal.tables.runs, row.id, row)
    if arrival.coming is GateEntryOutcome.WAITS:
        begin_earlier(journal, row.id, arrival)
        stand(journal, row.id, arrival)
    else:
        journal.queue(row.id, row.not_before)
        if arrival.gate is not None:
            MemoryGates(journal).take(arrival.gate, row.id)
        go_ahead(journal, row.id)
    if new.origin is Origin.MANUAL:
        journal.record(
            actor,
            "schedule.triggered",
            new.tenant,
            subject=identity_text(new.id),
            subject_id=new.schedule_id,
            after=triggered_facts(new),
        )
    return AddedRun(new.id, instant, is_new=True)


def _arrive(journal: Journal, new: NewRun) -> GateDecision:
    """Let a run that a person asks of a schedule come to its gate; refuse one that can't go."""
    if new.schedule_id is None:
        return FREE
    schedule = journal.tables.schedules[new.schedule_id]
    arrival = MemoryGates(journal).arrive(comer_by_hand(schedule, new))
    if arrival.coming is GateEntryOutcome.SKIPPED:
        raise in_the_way(schedule.name, arrival)
    return arrival


def move_delayed(journal: Journal, command: MoveDelayed) -> DelayedRecord:
    """Move a pending run to another instant."""
    old = find(journal, command)
    if not isinstance(old, DelayedRecord):
        raise no_longer_pending(command, old)
    due_at = due_of(command, journal.now)
    assert due_at is not None, "a move says where to"
    new = replace(old, due_at=due_at, generation=old.generation + 1)
    journal.put(journal.tables.delayed, old.id, new)
    journal.announce("delayed", new.id, due_at)
    journal.record(
        command.actor,
        "delayed.moved",
        old.tenant,
        subject=old.key or identity_text(old.id),
        subject_id=old.id,
        before=delayed_facts(old),
        after=delayed_facts(new),
    )
    return new


def cancel_delayed(journal: Journal, command: CancelDelayed) -> RunId:
    """Cancel a pending run; one that is already cancelled stays so."""
    old = find(journal, command)
    if isinstance(old, DelayedRecord):
        _close(journal, old, RunState.CANCELLED, command.actor)
        return old.id
    outcome = journal.tables.outcomes.get(old.id)
    if outcome is not None and outcome.state is RunState.CANCELLED:
        return old.id
    raise no_longer_pending(command, old)


def find(journal: Journal, command: MoveDelayed | CancelDelayed) -> DelayedRecord | RunRow:
    """Return the pending run that an order names, or the run that it has become."""
    tables = journal.tables
    if command.id is not None:
        found = tables.delayed.get(command.id) or tables.runs.get(command.id)
        if found is not None and found.tenant == command.tenant:
            return found
        raise unknown_delayed(command)
    assert command.key is not None, "an order names a key or an id"
    if (command.tenant, command.key) in tables.keys:
        return tables.delayed[tables.keys[command.tenant, command.key]]
    past = [
        row
        for row in tables.runs.values()
        if (row.tenant, row.key) == (command.tenant, command.key)
    ]
    if not past:
        raise unknown_delayed(command)
    return max(past, key=lambda row: (row.created_at, row.id))


def _close(journal: Journal, delayed: DelayedRecord, state: RunState, actor: Actor) -> None:
    """End a pending run before it fired, on record: the run exists, with its outcome."""
    tables = journal.tables
    _remove_delayed(journal, delayed)
    row = _run_of(delayed, None)
    journal.insert(tables.runs, row.id, row)
    journal.insert(tables.outcomes, row.id, Outcome(state, actor.reason, journal.now))
    journal.record(
        actor,
        f"delayed.{state}",
        delayed.tenant,
        subject=delayed.key or identity_text(delayed.id),
        subject_id=delayed.id,
        before=delayed_facts(delayed),
    )


def fire_delayed(journal: Journal, delayed: DelayedRecord) -> None:
    """Turn a pending row into a run in the queue."""
    tables = journal.tables
    _remove_delayed(journal, delayed)
    assert delayed.due_at <= journal.now, "never early"
    row = _run_of(delayed, journal.now)
    journal.insert(tables.runs, row.id, row)
    journal.queue(row.id, row.not_before)


def _remove_delayed(journal: Journal, delayed: DelayedRecord) -> None:
    journal.remove(journal.tables.delayed, delayed.id)
    if delayed.key is not None:
        journal.remove(journal.tables.keys, (delayed.tenant, delayed.key))


def _run_of(delayed: DelayedRecord, fired_at: int | None) -> RunRow:
    return RunRow(
        id=delayed.id,
        tenant=delayed.tenant,
        schedule_id=None,
        definition_number=None,
        key=delayed.key,
        call=delayed.call,
        origin=Origin.DELAY,
        lane=Lane.LIVE,
        scheduled_for=delayed.due_at,
        not_before=delayed.due_at,
        window_from=None,
        created_at=delayed.created_at,
        fired_at=fired_at,
    )
