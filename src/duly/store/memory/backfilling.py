"""Backfills on the memory store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.backfilling import (
    BackfillStatus,
    Slot,
    classify,
)
from duly.domain.literals import Lane, Origin, ScheduleStatus
from duly.domain.overlapping import Coming
from duly.store.auditing import SYSTEM
from duly.store.backfill_rulings import (
    SCHEDULE_GONE,
    action_of,
    backfill_facts,
    chosen_run,
    comer_in_backfill,
    refuse_stale,
    unknown_backfill,
)
from duly.store.backfilling import MAINTENANCE_SHARD, BackfillRecord, SlotState, Stepped
from duly.store.dispatch import FireResult
from duly.store.memory.gates import MemoryGates, stand
from duly.store.memory.ownership import held_shards
from duly.store.memory.reading import judge, run_record
from duly.store.memory.tables import RunRow
from duly.store.rulings import refuse_deleted, unknown_schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.audit import Actor
    from duly.domain.backfill_steps import Planned
    from duly.domain.identity import BackfillId, RunId, ScheduleId
    from duly.domain.literals import RunState
    from duly.store.backfilling import ChangeBackfill, CreateBackfill, StepBackfill
    from duly.store.memory.tables import Journal


def create_backfill(journal: Journal, command: CreateBackfill) -> BackfillRecord:
    """Write a backfill down, or recognise the one that is there."""
    tables = journal.tables
    known = tables.backfills.get(command.id)
    if known is not None:
        return _shown(journal, known)
    schedule = tables.schedules.get(command.schedule_id)
    if schedule is None or schedule.tenant != command.tenant:
        raise unknown_schedule(command.schedule_id)
    refuse_deleted(schedule.name, schedule.status)
    record = BackfillRecord(
        id=command.id,
        tenant=command.tenant,
        schedule_id=schedule.id,
        schedule_name=schedule.name,
        definition_number=command.definition_number,
        since=command.since,
        until=command.until,
        mode=command.mode,
        order=command.order,
        classes=command.classes,
        per_minute=command.per_minute,
        concurrency=command.concurrency,
        status=BackfillStatus.ACTIVE,
        version=1,
        cursor=command.cursor,
        total=command.total,
        looked_at=0,
        made=0,
        open=0,
        reason=command.actor.reason,
        created_at=journal.now,
        created_by=command.actor.name,
        updated_at=journal.now,
    )
    journal.insert(tables.backfills, record.id, record)
    _tell(journal, command.actor, "backfill.created", None, record)
    return record


def get_backfill(journal: Journal, tenant: str, backfill_id: BackfillId) -> BackfillRecord | None:
    """Return a backfill."""
    record = journal.tables.backfills.get(backfill_id)
    return _shown(journal, record) if record is not None and record.tenant == tenant else None


def list_backfills(
    journal: Journal, tenant: str, schedule_id: ScheduleId | None, limit: int
) -> list[BackfillRecord]:
    """Return backfills, newest first."""
    found = [
        _shown(journal, record)
        for record in journal.tables.backfills.values()
        if record.tenant == tenant and schedule_id in (None, record.schedule_id)
    ]
    return sorted(found, key=lambda record: record.id, reverse=True)[:limit]


def list_slots(
    journal: Journal, backfill_id: BackfillId, after: int | None, limit: int
) -> list[SlotState]:
    """Return what was done about occurrences, by their time."""
    found = [
        slot
        for (known, at), slot in journal.tables.backfill_slots.items()
        if known == backfill_id and (after is None or at > after)
    ]
    return sorted(found)[:limit]


def classify_slots(
    journal: Journal, schedule_id: ScheduleId, instants: Sequence[int]
) -> list[Slot]:
    """Say what is known about occurrences."""
    runs: dict[int, list[tuple[RunId, RunState]]] = {}
    wanted = set(instants)
    for row in journal.tables.runs.values():
        if row.schedule_id == schedule_id and row.scheduled_for in wanted:
            state = run_record(journal, row).state
            runs.setdefault(row.scheduled_for, []).append((row.id, state))
    verdicts = judge(journal, schedule_id, instants)
    return [classify(one, runs.get(one.scheduled_for, ())) for one in verdicts]


def change_backfill(journal: Journal, command: ChangeBackfill) -> BackfillRecord:
    """Apply an order, if nobody was faster."""
    record = journal.tables.backfills.get(command.id)
    if record is None or record.tenant != command.tenant:
        raise unknown_backfill(command.id)
    refuse_stale(record, command)
    changed = replace(
        record,
        status=command.status,
        per_minute=command.per_minute,
        concurrency=command.concurrency,
        version=record.version + 1,
        reason=command.actor.reason or record.reason,
        updated_at=journal.now,
    )
    journal.put(journal.tables.backfills, record.id, changed)
    _tell(journal, command.actor, action_of(record, changed), record, changed)
    return _shown(journal, changed)


def load_backfills(journal: Journal, limit: int) -> list[BackfillRecord]:
    """Return active backfills, oldest first."""
    found = [
        _shown(journal, record)
        for record in journal.tables.backfills.values()
        if record.status is BackfillStatus.ACTIVE
    ]
    return sorted(found, key=lambda record: record.id)[:limit]


def step_backfill(journal: Journal, command: StepBackfill) -> Stepped:
    """Do a part of a backfill."""
    tables = journal.tables
    record = tables.backfills.get(command.id)
    if record is None:
        return Stepped(FireResult.GONE, None)
    held, _ = held_shards(journal, command.fence, Lane.BACKFILL)
    if MAINTENANCE_SHARD not in held:
        return Stepped(FireResult.FENCED, _shown(journal, record))
    is_there = record.cursor == command.expected_cursor
    if record.status is not BackfillStatus.ACTIVE or not is_there:
        return Stepped(FireResult.GONE, _shown(journal, record))
    if tables.schedules[record.schedule_id].status is ScheduleStatus.DELETED:
        return Stepped(FireResult.GONE, _call_off(journal, record))
    return _step(journal, command, record)


def _step(journal: Journal, command: StepBackfill, record: BackfillRecord) -> Stepped:
    room = min(command.runs_max, record.concurrency - _open(journal, record.id))
    if room <= 0:
        return Stepped(FireResult.BUSY, _shown(journal, record))
    made = looked_at = 0
    cursor = command.cursor
    for planned in command.slots:
        if made >= room:
            cursor = planned.scheduled_for
            break
        made += _look(journal, record, planned)
        looked_at += 1
    changed = replace(
        record,
        cursor=cursor,
        made=record.made + made,
        looked_at=record.looked_at + looked_at,
        status=BackfillStatus.DONE if cursor is None else record.status,
        updated_at=journal.now,
    )
    journal.put(journal.tables.backfills, record.id, changed)
    if cursor is None:
        _tell(journal, SYSTEM, "backfill.done", record, changed)
    return Stepped(FireResult.FIRED, _shown(journal, changed), made)


def _look(journal: Journal, record: BackfillRecord, planned: Planned) -> bool:
    """Look at an occurrence whose turn has come; make its run if it is to be made."""
    (slot,) = classify_slots(journal, record.schedule_id, [planned.scheduled_for])
    run_id = chosen_run(record, slot, planned)
    if run_id is not None and run_id in journal.tables.runs:
        run_id = None
    if run_id is not None:
        assert planned.not_before <= journal.now, "never early"
        _make(journal, record, planned, run_id)
    key = (record.id, planned.scheduled_for)
    state = SlotState(planned.scheduled_for, slot.kind, run_id)
    journal.insert(journal.tables.backfill_slots, key, state)
    return run_id is not None


def _make(journal: Journal, record: BackfillRecord, planned: Planned, run_id: RunId) -> None:
    tables = journal.tables
    schedule = tables.schedules[record.schedule_id]
    definition = tables.definitions[record.schedule_id, record.definition_number]
    arrival = MemoryGates(journal).arrive(comer_in_backfill(schedule, definition, run_id))
    row = RunRow(
        id=run_id,
        tenant=record.tenant,
        schedule_id=record.schedule_id,
        definition_number=record.definition_number,
        key=None,
        call=None,
        origin=Origin.BACKFILL,
        lane=Lane.BACKFILL,
        root=None if run_id == planned.fills else planned.fills,
        scheduled_for=planned.scheduled_for,
        not_before=planned.not_before,
        window_from=journal.ran_before(schedule, planned.scheduled_for),
        created_at=journal.now,
        fired_at=journal.now,
    )
    journal.insert(tables.runs, run_id, row)
    if arrival.coming is Coming.WAITS:
        stand(journal, run_id, arrival)
        return
    journal.queue(run_id, row.not_before)
    if arrival.gate is not None:
        MemoryGates(journal).take(arrival.gate, run_id)


def _call_off(journal: Journal, record: BackfillRecord) -> BackfillRecord:
    """Cancel a backfill whose schedule is gone."""
    changed = replace(
        record,
        status=BackfillStatus.CANCELLED,
        version=record.version + 1,
        reason=SCHEDULE_GONE,
        updated_at=journal.now,
    )
    journal.put(journal.tables.backfills, record.id, changed)
    _tell(journal, SYSTEM, "backfill.cancelled", record, changed)
    return _shown(journal, changed)


def _shown(journal: Journal, record: BackfillRecord) -> BackfillRecord:
    """Return a backfill with what changes without it: its schedule's name, its open runs."""
    name = journal.tables.schedules[record.schedule_id].name
    return replace(record, schedule_name=name, open=_open(journal, record.id))


def _open(journal: Journal, backfill_id: BackfillId) -> int:
    gates = MemoryGates(journal)
    slots = journal.tables.backfill_slots
    runs = [slot.run_id for (known, _), slot in slots.items() if known == backfill_id]
    return sum(run_id is not None and gates.is_open(run_id) for run_id in runs)


def _tell(  # noqa: PLR0913, PLR0917 - the parts of an audit entry
    journal: Journal,
    actor: Actor,
    action: str,
    before: BackfillRecord | None,
    after: BackfillRecord,
) -> None:
    journal.record(
        actor,
        action,
        after.tenant,
        subject=after.schedule_name,
        subject_id=after.id,
        before=None if before is None else backfill_facts(before),
        after=backfill_facts(after),
    )
