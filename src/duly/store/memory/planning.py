"""Orders about schedules, on the memory store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.audit import schedule_facts
from duly.domain.enums import ScheduleStatus
from duly.domain.fire_planning import Skip
from duly.domain.ids import ScheduleId, shard_of
from duly.domain.policies import GateEntryOutcome
from duly.domain.runs import SkipRecord
from duly.domain.schedules import ScheduleRecord
from duly.store.gates import comer_of
from duly.store.memory.gates import MemoryGates, begin_earlier, stand
from duly.store.memory.quotas import MemoryCounting
from duly.store.ports.dispatch import CatchUpRangeRecord
from duly.store.ports.schedules import ChangeSchedule, CreatedSchedule, CreateSchedule, Stale
from duly.store.rulings import (
    changed_record,
    given_up,
    is_outdated,
    name_taken,
    refuse_another,
    refuse_others_id,
    unknown_schedule,
)

if TYPE_CHECKING:
    from duly.domain.fire_planning import PlannedRun, Settlement
    from duly.store.memory.tables import Journal


def create_schedule(journal: Journal, command: CreateSchedule) -> CreatedSchedule:
    """Create a schedule, or recognise the one that is there."""
    tables = journal.tables
    known = tables.schedules.get(command.id)
    if known is None and (command.tenant, command.name) in tables.names:
        known = tables.schedules[tables.names[command.tenant, command.name]]
        refuse_another(known, command)
    if known is not None:
        refuse_others_id(command.id, known.tenant, command.tenant)
        return CreatedSchedule(known, is_new=False)
    record = _new_record(command, shard_of(command.id, tables.shards), journal.now)
    journal.insert(tables.schedules, record.id, record)
    journal.insert(tables.names, (record.tenant, record.name), record.id)
    journal.insert(tables.definitions, (record.id, 1), command.definition)
    journal.put(tables.definition_times, (record.id, 1), journal.now)
    MemoryCounting(journal).check_schedule(None, record, command.actor, journal.now)
    journal.announce("schedule", record.id, command.pending.due_at)
    journal.record(
        command.actor,
        "schedule.created",
        record.tenant,
        subject=record.name,
        subject_id=record.id,
        after=schedule_facts(record),
    )
    return CreatedSchedule(record, is_new=True)


def change_schedule(journal: Journal, command: ChangeSchedule) -> ScheduleRecord | Stale:
    """Apply a decided change, or say that it came too late."""
    tables, change, now = journal.tables, command.change, journal.now
    old = tables.schedules.get(command.id)
    if old is None or command.tenant not in {None, old.tenant}:
        raise unknown_schedule(command.id)
    if is_outdated(command, old, now):
        return Stale(old, now)
    changed = changed_record(old, command, now)
    _take_name(journal, old, changed)
    if change.definition is not None:
        journal.insert(tables.definitions, (old.id, changed.version), change.definition)
        journal.put(tables.definition_times, (old.id, changed.version), now)
    if change.drops_owed:
        _give_up_owed(journal, old)
    changed = write_settlement(journal, changed, change.settlement, old.definition_number)
    journal.put(tables.schedules, old.id, changed)
    MemoryCounting(journal).check_schedule(old, changed, command.actor, now)
    if changed.pending is not None:
        journal.announce("schedule", old.id, changed.pending.due_at)
    journal.record(
        command.actor,
        change.action,
        old.tenant,
        subject=changed.name,
        subject_id=old.id,
        before=schedule_facts(old),
        after=schedule_facts(changed),
    )
    return changed


def write_settlement(
    journal: Journal, record: ScheduleRecord, settlement: Settlement, number: int
) -> ScheduleRecord:
    """Write runs, skips and what is owed; return the schedule as that leaves it."""
    for planned in settlement.runs:
        if planned.run_id not in journal.tables.runs:
            record = _write_run(journal, record, number, planned)
    for skip in settlement.skips:
        write_skip(journal, record.id, skip)
    if settlement.owed is not None:
        owed = settlement.owed
        row = CatchUpRangeRecord(owed=owed, shard=record.shard, created_at=journal.now)
        journal.insert(journal.tables.owed, (owed.schedule_id, owed.first_for), row)
    return record


def _write_run(
    journal: Journal, record: ScheduleRecord, number: int, planned: PlannedRun
) -> ScheduleRecord:
    """Write what becomes of an occurrence when its run comes to its gate."""
    tables, run_id = journal.tables, planned.run_id
    definition = tables.definitions[record.id, number]
    arrival = MemoryGates(journal).arrive(comer_of(record, definition, run_id))
    if arrival.coming is not GateEntryOutcome.GOES:
        record = replace(record, overlaps=record.overlaps + 1)
    if arrival.coming is GateEntryOutcome.SKIPPED:
        assert arrival.reason is not None, "a skip has a reason"
        at = planned.scheduled_for
        write_skip(journal, record.id, Skip(at, at, 1, arrival.reason, arrival.in_the_way))
        return record
    is_going = arrival.coming is GateEntryOutcome.GOES
    journal.make_run(record, number, planned, is_going=is_going)
    begin_earlier(journal, run_id, arrival)
    if not is_going:
        stand(journal, run_id, arrival)
    elif arrival.gate is not None:
        MemoryGates(journal).take(arrival.gate, run_id)
    is_newest = record.last_for is None or record.last_for < planned.scheduled_for
    return replace(
        record,
        fires=record.fires + 1,
        last_for=planned.scheduled_for if is_newest else record.last_for,
        last_run=run_id if is_newest else record.last_run,
        last_fired_at=journal.now,
        active_run=run_id if is_going else record.active_run,
    )


def write_skip(journal: Journal, schedule_id: ScheduleId, skip: Skip) -> None:
    """Record a range of occurrences that are not run; of two that begin alike the longer holds."""
    key, skips = (schedule_id, skip.first_for), journal.tables.skips
    if key in skips:
        # A person skipped an occurrence to come, and an edit has promised it anew.
        if skips[key].last_for < skip.last_for:
            longer = replace(skips[key], last_for=skip.last_for, count=skip.count)
            journal.put(skips, key, longer)
        return
    row = SkipRecord(
        schedule_id=schedule_id,
        first_for=skip.first_for,
        last_for=skip.last_for,
        count=skip.count,
        reason=skip.reason,
        into=skip.into,
        at=journal.now,
    )
    journal.insert(skips, key, row)


def _new_record(command: CreateSchedule, shard: int, now: int) -> ScheduleRecord:
    return ScheduleRecord(
        id=command.id,
        tenant=command.tenant,
        name=command.name,
        owner=command.owner,
        declared_by=command.declared_by,
        status=ScheduleStatus.ACTIVE,
        version=1,
        definition_number=1,
        definition=command.definition,
        shard=shard,
        pending=command.pending,
        held_for=None,
        last_for=None,
        last_run=None,
        last_fired_at=None,
        fires=0,
        reason=None,
        resume_at=None,
        resume_missed=None,
        status_before=None,
        pruned_through=None,
        created_at=now,
        updated_at=now,
        updated_by=command.actor.name,
    )


def _take_name(journal: Journal, old: ScheduleRecord, new: ScheduleRecord) -> None:
    """Free the old name and take the new one; a deleted schedule holds none."""
    names = journal.tables.names
    if names.get((old.tenant, old.name)) == old.id:
        journal.remove(names, (old.tenant, old.name))
    if new.status is ScheduleStatus.DELETED:
        return
    if (new.tenant, new.name) in names:
        raise name_taken(new.name)
    journal.insert(names, (new.tenant, new.name), new.id)


def _give_up_owed(journal: Journal, record: ScheduleRecord) -> None:
    tables = journal.tables
    for key in [key for key in tables.owed if key[0] == record.id]:
        owed = tables.owed[key].owed
        definition = tables.definitions[record.id, owed.definition_number]
        skip = given_up(record.id, owed, definition)
        journal.remove(tables.owed, key)
        write_skip(journal, record.id, skip)
