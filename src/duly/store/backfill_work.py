"""Backfills in a transaction: what every store does alike, once it has the row.

How a row is found, held and written is each store's own; what becomes of a step is said here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.audit import AuditSubject
from duly.domain.backfill import BackfillStatus
from duly.domain.enums import Lane, ScheduleStatus
from duly.domain.policies import GateEntryOutcome
from duly.store.auditing import SYSTEM
from duly.store.backfill_rulings import (
    SCHEDULE_GONE,
    action_of,
    backfill_facts,
    chosen_run,
    comer_in_backfill,
    created_backfill,
    recognised,
    refuse_stale,
    unknown_backfill,
)
from duly.store.ports.backfill import (
    MAINTENANCE_SHARD,
    BackfillOccurrenceRecord,
    BackfillRecord,
    Stepped,
)
from duly.store.ports.dispatch import FireResult
from duly.store.rulings import refuse_deleted, unknown_schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.audit import Actor
    from duly.domain.backfill import Planned, Slot
    from duly.domain.ids import BackfillId, RunId, ScheduleId
    from duly.domain.schedules import Definition, ScheduleRecord
    from duly.store.gates import GateDecision, Gates
    from duly.store.ports.backfill import ChangeBackfill, CreateBackfill, StepBackfill
    from duly.store.ports.dispatch import Fence


class BackfillWork(ABC):
    """A transaction in which backfills are made, changed or carried on."""

    @property
    @abstractmethod
    def now(self) -> int:
        """Return its time."""

    @abstractmethod
    def find(self, backfill_id: BackfillId) -> BackfillRecord | None:
        """Return a backfill, with how many of its runs are open; nobody else changes it."""

    @abstractmethod
    def write(self, record: BackfillRecord, *, is_new: bool) -> None:
        """Write a backfill."""

    @abstractmethod
    def schedule(self, schedule_id: ScheduleId) -> ScheduleRecord | None:
        """Return a schedule, deleted or not."""

    @abstractmethod
    def definition(self, schedule_id: ScheduleId, number: int) -> Definition | None:
        """Return one version of a schedule's template."""

    @abstractmethod
    def is_ours(self, fence: Fence, lane: Lane, shard: int) -> bool:
        """Say whether a lease is held."""

    @abstractmethod
    def classify(self, schedule_id: ScheduleId, instants: Sequence[int]) -> list[Slot]:
        """Say what is known about occurrences."""

    def existing(self, run_ids: Sequence[RunId]) -> set[RunId]:
        """Say which of some runs are there, whatever has become of them."""
        return {run_id for run_id in run_ids if self.gates().exists(run_id)}

    @abstractmethod
    def gates(self) -> Gates:
        """Return the gates of the store."""

    @abstractmethod
    def make(  # noqa: PLR0913, PLR0917 - all that a run is made of
        self,
        record: BackfillRecord,
        definition: Definition,
        planned: Planned,
        run_id: RunId,
        arrival: GateDecision,
    ) -> None:
        """Make a run for origin and lane backfill; queue it, or let it wait at its gate."""

    @abstractmethod
    def note(self, backfill_id: BackfillId, slot: BackfillOccurrenceRecord) -> None:
        """Write down what was done about an occurrence."""

    @abstractmethod
    def record(self, actor: Actor, action: str, subject: AuditSubject) -> None:
        """Write an audit entry."""

    def create(self, command: CreateBackfill) -> BackfillRecord:
        """Write a backfill down, or recognise the one that is there."""
        known = self.find(command.id)
        if known is not None:
            return recognised(known, command)
        schedule = self.schedule(command.schedule_id)
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
            created_at=self.now,
            created_by=command.actor.name,
            updated_at=self.now,
        )
        self.write(record, is_new=True)
        self.record(command.actor, "backfill.created", created_backfill(record, command.resumes))
        return record

    def change(self, command: ChangeBackfill) -> BackfillRecord:
        """Apply an order, if nobody was faster."""
        record = self.find(command.id)
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
            updated_at=self.now,
        )
        self.write(changed, is_new=False)
        self._tell(command.actor, action_of(record, changed), record, changed)
        return changed

    def step(self, command: StepBackfill) -> Stepped:
        """Do a part of a backfill."""
        if not self.is_ours(command.fence, Lane.BACKFILL, MAINTENANCE_SHARD):
            return Stepped(FireResult.FENCED, None)
        record = self.find(command.id)
        if record is None:
            return Stepped(FireResult.GONE, None)
        is_there = record.cursor == command.expected_cursor
        if record.status is not BackfillStatus.ACTIVE or not is_there:
            return Stepped(FireResult.GONE, record)
        schedule = self.schedule(record.schedule_id)
        definition = self.definition(record.schedule_id, record.definition_number)
        if schedule is None or definition is None or schedule.status is ScheduleStatus.DELETED:
            return Stepped(FireResult.GONE, self._call_off(record))
        room = min(command.runs_max, record.concurrency - record.open)
        if room <= 0:
            return Stepped(FireResult.BUSY, record)
        return self._step(command, record, (schedule, definition), room)

    def _step(
        self,
        command: StepBackfill,
        record: BackfillRecord,
        of: tuple[ScheduleRecord, Definition],
        room: int,
    ) -> Stepped:
        """Look at occurrences whose turn has come, until there is no more room for runs."""
        made = looked_at = 0
        cursor = command.cursor
        slots = self.classify(record.schedule_id, [one.scheduled_for for one in command.slots])
        looks = list(zip(command.slots, slots, strict=True))
        chosen = [chosen_run(record, slot, planned) for planned, slot in looks]
        existing = self.existing([run_id for run_id in chosen if run_id is not None])
        for (planned, slot), wanted in zip(looks, chosen, strict=True):
            if made >= room:
                cursor = planned.scheduled_for
                break
            run_id = None if wanted in existing else wanted
            if run_id is not None:
                self._make(record, of, planned, run_id)
            self.note(record.id, BackfillOccurrenceRecord(planned.scheduled_for, slot.kind, run_id))
            made += run_id is not None
            looked_at += 1
        changed = replace(
            record,
            cursor=cursor,
            made=record.made + made,
            open=record.open + made,
            looked_at=record.looked_at + looked_at,
            status=BackfillStatus.DONE if cursor is None else record.status,
            updated_at=self.now,
        )
        self.write(changed, is_new=False)
        if cursor is None:
            self._tell(SYSTEM, "backfill.done", record, changed)
        return Stepped(FireResult.FIRED, changed, made)

    def _make(
        self,
        record: BackfillRecord,
        of: tuple[ScheduleRecord, Definition],
        planned: Planned,
        run_id: RunId,
    ) -> None:
        assert planned.not_before <= self.now, "never early"
        schedule, definition = of
        gates = self.gates()
        arrival = gates.arrive(comer_in_backfill(schedule, definition, run_id))
        assert arrival.coming is not GateEntryOutcome.SKIPPED, "who comes again waits"
        self.make(record, definition, planned, run_id, arrival)

    def _call_off(self, record: BackfillRecord) -> BackfillRecord:
        """Cancel a backfill whose schedule is gone."""
        changed = replace(
            record,
            status=BackfillStatus.CANCELLED,
            version=record.version + 1,
            reason=SCHEDULE_GONE,
            updated_at=self.now,
        )
        self.write(changed, is_new=False)
        self._tell(SYSTEM, "backfill.cancelled", record, changed)
        return changed

    def _tell(
        self, actor: Actor, action: str, before: BackfillRecord | None, after: BackfillRecord
    ) -> None:
        facts = None if before is None else backfill_facts(before)
        subject = AuditSubject(
            name=after.schedule_name,
            tenant=after.tenant,
            id=after.id,
            before=facts,
            after=backfill_facts(after),
        )
        self.record(actor, action, subject)
