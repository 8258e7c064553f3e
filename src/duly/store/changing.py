"""Making, changing and draining schedules: what every database does alike, once it has the row.

How a row is found, held and written is each database's own; which rows are written, and in which
order, is said here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from duly.domain.enums import ScheduleStatus
from duly.domain.ids import shard_of
from duly.domain.policies import gate_of
from duly.store.auditing import changed_subject, created_subject
from duly.store.gates import NOBODY
from duly.store.gathering import SettlementBatch, ground_of
from duly.store.ports.dispatch import CatchUpRangeRecord, DrainOwed, FireResult
from duly.store.ports.schedules import ChangeSchedule, CreatedSchedule, CreateSchedule, Stale
from duly.store.records import Row, definition_text
from duly.store.rulings import (
    DRAINABLE,
    changed_record,
    given_up,
    is_outdated,
    name_taken,
    refuse_another,
    refuse_others_id,
    unknown_schedule,
)

if TYPE_CHECKING:
    from duly.domain.audit import Actor, AuditSubject
    from duly.domain.ids import ScheduleId
    from duly.domain.schedules import CatchUpRange, Definition, ScheduleRecord
    from duly.store.gathering import ScheduleState
    from duly.store.ports.dispatch import TimerKind
    from duly.store.quotas import QuotaCounter


class Writing(Protocol):
    """A transaction in progress, whichever database it is of."""

    @property
    def now(self) -> int:
        """Return its time."""
        ...

    @property
    def shards(self) -> int:
        """Return how many shards there are."""
        ...

    def announce(self, kind: TimerKind, ref: bytes, due_at: int, shard: int) -> None:
        """Put a timer on the arrivals feed, if it falls due soon."""
        ...

    def count_on(self, name: str, by: int) -> None:
        """Keep a tally."""
        ...

    def record(self, actor: Actor, action: str, subject: AuditSubject) -> None:
        """Write an audit entry."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """The statements of a database; their values come in the order of the rows below."""

    insert_schedule: str
    insert_state: str
    insert_definition: str
    update_schedule: str
    update_state: str
    note_runs: str
    delete_owed: str


class Changing(ABC):
    """A transaction in which schedules are made, changed or drained."""

    statements: Statements

    def __init__(self, work: Writing) -> None:
        self._work = work

    @abstractmethod
    def run(self, statement: str, row: Row) -> None:
        """Run one of the statements."""

    @abstractmethod
    def read(self, schedule_id: ScheduleId) -> ScheduleRecord | None:
        """Return a schedule, deleted or not."""

    @abstractmethod
    def named(self, tenant: str, name: str) -> ScheduleRecord | None:
        """Return the schedule that has a name, if one has it that is not deleted."""

    @abstractmethod
    def definition(self, schedule_id: ScheduleId, number: int) -> Definition | None:
        """Return one version of a schedule's template."""

    @abstractmethod
    def take_owed(self, schedule_id: ScheduleId) -> list[CatchUpRange]:
        """Delete what a schedule owes, and return it."""

    @abstractmethod
    def counting(self) -> QuotaCounter:
        """Return what counts schedules in this transaction."""

    @abstractmethod
    def settlements(self) -> SettlementBatch:
        """Return what gathers and writes settlements in this transaction."""

    def create(self, command: CreateSchedule) -> CreatedSchedule:
        """Create a schedule, or recognise the one that is there."""
        known = self.read(command.id)
        if known is None:
            known = self.named(command.tenant, command.name)
            if known is not None:
                refuse_another(known, command)
        if known is not None:
            refuse_others_id(command.id, known.tenant, command.tenant)
            return CreatedSchedule(known, is_new=False)
        record = self._insert(command)
        self.counting().check_schedule(None, record, command.actor, self._work.now)
        self._work.record(command.actor, "schedule.created", created_subject(record))
        return CreatedSchedule(record, is_new=True)

    def change(self, command: ChangeSchedule) -> ScheduleRecord | Stale:
        """Apply a decided change to a schedule that is ours to write, or say that it is late."""
        change, now = command.change, self._work.now
        old = self.read(command.id)
        if old is None or command.tenant not in {None, old.tenant}:
            raise unknown_schedule(command.id)
        if is_outdated(command, old, now):
            return Stale(old, now)
        changed = changed_record(old, command, now)
        self._refuse_taken_name(changed)
        if change.definition is not None:
            self._define(changed, change.definition)
        if change.drops_owed:
            self._give_up_owed(old)
        changed = self._settled(old, changed, command)
        self._update(old, changed)
        self.counting().check_schedule(old, changed, command.actor, now)
        if changed.pending is not None:
            self._work.announce("schedule", changed.id, changed.pending.due_at, changed.shard)
        self._work.record(command.actor, change.action, changed_subject(old, changed))
        return changed

    def drain(self, command: DrainOwed, stored: CatchUpRangeRecord | None) -> FireResult:
        """Settle a part of a range that is ours to write, if it is still what it was."""
        owed, settlement = command.owed, command.settlement
        if stored is None or stored.owed != owed or stored.shard != command.shard:
            return FireResult.GONE
        schedule = self.read(owed.schedule_id)
        if schedule is None or schedule.status not in DRAINABLE:
            return FireResult.GONE
        if any(run.not_before > self._work.now for run in settlement.runs):
            return FireResult.EARLY
        ground = ground_of(schedule)
        ground.under(owed.definition_number, self._known_definition(owed))
        settlements = self.settlements()
        if not settlements.is_free(ground, settlement):
            return FireResult.BUSY
        self.run(self.statements.delete_owed, (owed.schedule_id, owed.first_for))
        settlements.add(ground, settlement._replace(owed=None))
        if settlements.write():
            self.run(self.statements.note_runs, noted_row(ground))
        rest = settlement.owed
        if rest is not None:
            ends = (rest.schedule_id, rest.first_for, rest.last_for)
            left = (*ends, rest.definition_number, stored.shard, stored.created_at)
            settlements.write_ranges([], [left])
        return FireResult.FIRED

    def update_schedule(self, changed: ScheduleRecord) -> None:
        """Write what a schedule is called, and how it stands."""
        self.run(self.statements.update_schedule, described_row(changed))

    def _insert(self, command: CreateSchedule) -> ScheduleRecord:
        now, made_by = self._work.now, command.actor.name
        shard, pending = shard_of(command.id, self._work.shards), command.pending
        call = command.definition.call
        names = (command.tenant, command.name, command.owner, command.declared_by)
        self.run(self.statements.insert_schedule, (command.id, *names, now, now, made_by))
        instants = (pending.scheduled_for, pending.due_at)
        copied = (command.tenant, call.task, call.queue, call.priority)
        definition = command.definition
        by = definition.serialize_by
        gate = gate_of(definition.overlap, command.tenant, command.id, by)
        text = definition_text(command.definition)
        self.run(self.statements.insert_definition, (command.id, 1, text, now, made_by))
        state = (command.id, shard, *instants, *copied, definition.overlap, gate)
        self.run(self.statements.insert_state, state)
        self._work.count_on(ScheduleStatus.ACTIVE, 1)
        self._work.announce("schedule", command.id, pending.due_at, shard)
        record = self.read(command.id)
        assert record is not None, "it was written a moment ago"
        return record

    def _refuse_taken_name(self, changed: ScheduleRecord) -> None:
        if changed.status is ScheduleStatus.DELETED:
            return
        other = self.named(changed.tenant, changed.name)
        if other is not None and other.id != changed.id:
            raise name_taken(changed.name)

    def _define(self, changed: ScheduleRecord, definition: Definition) -> None:
        text, now = definition_text(definition), self._work.now
        row = (changed.id, changed.definition_number, text, now, changed.updated_by)
        self.run(self.statements.insert_definition, row)

    def _give_up_owed(self, record: ScheduleRecord) -> None:
        """Turn what is owed into skips, so that no occurrence is without a verdict."""
        skips: list[Row] = []
        for owed in self.take_owed(record.id):
            skip = given_up(record.id, owed, self._known_definition(owed))
            ends = (record.id, skip.first_for, skip.last_for)
            skips.append((*ends, skip.count, skip.reason, None, self._work.now))
        self.settlements().write_ranges(skips, [])

    def _settled(
        self, old: ScheduleRecord, changed: ScheduleRecord, command: ChangeSchedule
    ) -> ScheduleRecord:
        """Write what the change settles, which is always under the old definition."""
        ground = ground_of(old)
        settlements = self.settlements()
        settlements.add(ground, command.change.settlement)
        settlements.write()
        return replace(
            changed,
            last_for=ground.last_for,
            last_run=ground.last_run,
            last_fired_at=ground.last_fired_at,
            fires=ground.fires,
            active_run=ground.active_run,
            overlaps=ground.overlaps,
        )

    def _update(self, old: ScheduleRecord, changed: ScheduleRecord) -> None:
        self.update_schedule(changed)
        self.run(self.statements.update_state, stated_row(changed))
        if old.status is not changed.status:
            self._work.count_on(old.status, -1)
            self._work.count_on(changed.status, 1)

    def _known_definition(self, owed: CatchUpRange) -> Definition:
        definition = self.definition(owed.schedule_id, owed.definition_number)
        assert definition is not None, "a definition stays as long as something refers to it"
        return definition


def described_row(changed: ScheduleRecord) -> Row:
    """Return what a person sees of a schedule, and its id."""
    return (
        changed.name,
        changed.owner,
        changed.declared_by,
        changed.status,
        changed.reason,
        changed.resume_at,
        changed.resume_missed,
        changed.status_before,
        changed.updated_at,
        changed.updated_by,
        changed.id,
    )


def stated_row(changed: ScheduleRecord) -> Row:
    """Return what a fire sees of a schedule, and its id."""
    pending, call = changed.pending, changed.definition.call
    definition = changed.definition
    gate = gate_of(definition.overlap, changed.tenant, changed.id, definition.serialize_by)
    return (
        changed.version,
        changed.definition_number,
        None if pending is None else pending.scheduled_for,
        None if pending is None else pending.due_at,
        changed.held_for,
        changed.last_for,
        changed.last_run,
        changed.last_fired_at,
        changed.fires,
        call.task,
        call.queue,
        call.priority,
        changed.definition.overlap,
        gate,
        changed.active_run or NOBODY,
        changed.overlaps,
        changed.id,
    )


def noted_row(ground: ScheduleState) -> Row:
    """Return what is noted of runs on their schedule, and its id."""
    runs = (ground.last_for, ground.last_run, ground.last_fired_at, ground.fires)
    return (*runs, ground.active_run or NOBODY, ground.overlaps, ground.schedule_id)
