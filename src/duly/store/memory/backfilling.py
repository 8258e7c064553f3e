"""Backfills on the memory store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.backfill import BackfillStatus, classify, state_seen
from duly.domain.enums import Lane, Origin
from duly.domain.policies import GateEntryOutcome
from duly.store.backfill_rulings import root_of
from duly.store.backfill_work import BackfillWork
from duly.store.memory.gates import MemoryGates, stand
from duly.store.memory.ownership import held_shards
from duly.store.memory.reading import judge, run_record
from duly.store.memory.tables import RunRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.audit import Actor, AuditSubject
    from duly.domain.backfill import Planned, Slot
    from duly.domain.enums import RunState
    from duly.domain.ids import BackfillId, RunId, ScheduleId
    from duly.domain.schedules import Definition, ScheduleRecord
    from duly.store.gates import GateDecision
    from duly.store.memory.tables import Journal
    from duly.store.ports.backfill import BackfillOccurrenceRecord, BackfillRecord
    from duly.store.ports.dispatch import Fence


class MemoryBackfills(BackfillWork):
    """Backfills, alone for as long as the journal is open."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._tables = journal.tables

    @property
    def now(self) -> int:
        """Return the journal's time."""
        return self._journal.now

    def find(self, backfill_id: BackfillId) -> BackfillRecord | None:
        """Return a backfill."""
        record = self._tables.backfills.get(backfill_id)
        return None if record is None else _shown(self._journal, record)

    def write(self, record: BackfillRecord, *, is_new: bool) -> None:
        """Write a backfill."""
        assert is_new != (record.id in self._tables.backfills), "it is new, or it is not"
        self._journal.put(self._tables.backfills, record.id, record)

    def schedule(self, schedule_id: ScheduleId) -> ScheduleRecord | None:
        """Return a schedule, deleted or not."""
        return self._tables.schedules.get(schedule_id)

    def definition(self, schedule_id: ScheduleId, number: int) -> Definition | None:
        """Return one version of a schedule's template."""
        return self._tables.definitions.get((schedule_id, number))

    def is_ours(self, fence: Fence, lane: Lane, shard: int) -> bool:
        """Say whether a lease is held."""
        return shard in held_shards(self._journal, fence, lane)[0]

    def classify(self, schedule_id: ScheduleId, instants: Sequence[int]) -> list[Slot]:
        """Say what is known about occurrences."""
        return classify_slots(self._journal, schedule_id, instants)

    def gates(self) -> MemoryGates:
        """Return the gates."""
        return MemoryGates(self._journal)

    def make(  # noqa: PLR0913, PLR0917 - all that a run is made of
        self,
        record: BackfillRecord,
        definition: Definition,
        planned: Planned,
        run_id: RunId,
        arrival: GateDecision,
    ) -> None:
        """Make a run; queue it, or let it wait at its gate."""
        schedule = self._tables.schedules[record.schedule_id]
        row = RunRow(
            id=run_id,
            tenant=record.tenant,
            schedule_id=record.schedule_id,
            definition_number=record.definition_number,
            key=None,
            call=None,
            origin=Origin.BACKFILL,
            lane=Lane.BACKFILL,
            root=root_of(record, planned, run_id),
            scheduled_for=planned.scheduled_for,
            not_before=planned.not_before,
            window_from=self._journal.ran_before(schedule, planned.scheduled_for),
            created_at=self.now,
            fired_at=self.now,
        )
        self._journal.insert(self._tables.runs, run_id, row)
        if arrival.coming is GateEntryOutcome.WAITS:
            stand(self._journal, run_id, arrival)
            return
        self._journal.queue(run_id, row.not_before)
        if arrival.gate is not None:
            self.gates().take(arrival.gate, run_id)

    def note(self, backfill_id: BackfillId, slot: BackfillOccurrenceRecord) -> None:
        """Write down what was done about an occurrence."""
        key = (backfill_id, slot.scheduled_for)
        self._journal.insert(self._tables.backfill_slots, key, slot)

    def record(self, actor: Actor, action: str, subject: AuditSubject) -> None:
        """Write an audit entry."""
        self._journal.record_about(actor, action, subject)


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
) -> list[BackfillOccurrenceRecord]:
    """Return what was done about occurrences, by their time."""
    found = [
        slot
        for (known, at), slot in journal.tables.backfill_slots.items()
        if known == backfill_id and (after is None or at > after)
    ]
    return sorted(found, key=lambda slot: slot.scheduled_for)[:limit]


def classify_slots(
    journal: Journal, schedule_id: ScheduleId, instants: Sequence[int]
) -> list[Slot]:
    """Say what is known about occurrences."""
    runs: dict[int, list[tuple[RunId, RunState]]] = {}
    wanted = set(instants)
    for row in journal.tables.runs.values():
        if row.schedule_id == schedule_id and row.scheduled_for in wanted:
            record = run_record(journal, row)
            seen = state_seen(record.state, record.tries.fence)
            runs.setdefault(row.scheduled_for, []).append((row.id, seen))
    verdicts = judge(journal, schedule_id, instants)
    return [classify(one, runs.get(one.scheduled_for, ())) for one in verdicts]


def load_backfills(journal: Journal, limit: int) -> list[BackfillRecord]:
    """Return active backfills, oldest first."""
    found = [
        _shown(journal, record)
        for record in journal.tables.backfills.values()
        if record.status is BackfillStatus.ACTIVE
    ]
    return sorted(found, key=lambda record: record.id)[:limit]


def _shown(journal: Journal, record: BackfillRecord) -> BackfillRecord:
    """Return a backfill with what changes without it: its schedule's name, its open runs."""
    name = journal.tables.schedules[record.schedule_id].name
    return replace(record, schedule_name=name, open=_open(journal, record.id))


def _open(journal: Journal, backfill_id: BackfillId) -> int:
    gates = MemoryGates(journal)
    slots = journal.tables.backfill_slots
    runs = [slot.run_id for (known, _), slot in slots.items() if known == backfill_id]
    return sum(run_id is not None and gates.is_open(run_id) for run_id in runs)
