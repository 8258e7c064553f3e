"""Backfills in the file: their rows, and what was done about each occurrence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.backfill import BackfillOccurrenceKind, classify, state_seen
from duly.domain.enums import Lane, Origin, RunState
from duly.domain.ids import RunId
from duly.domain.policies import GateEntryOutcome
from duly.domain.runs import AttemptCounts
from duly.store.backfill_rows import backfill_record, backfill_row, run_ids_from
from duly.store.backfill_rulings import root_of
from duly.store.backfill_work import BackfillWork
from duly.store.gathering import LANE_OFFSETS, RunBefore
from duly.store.ports.backfill import BackfillOccurrenceRecord
from duly.store.sqlite import rows
from duly.store.sqlite.gates import SqliteGates
from duly.store.sqlite.leases import held_shards
from duly.store.sqlite.planning import read_definition, read_schedule
from duly.store.sqlite.reading import SqliteReading
from duly.store.sqlite.settlements import SET_ROOT, Settlements, write_runs
from duly.store.sqlite.work import Look

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from duly.domain.audit import Actor, AuditSubject
    from duly.domain.backfill import Planned, Slot
    from duly.domain.ids import BackfillId, ScheduleId
    from duly.domain.schedules import Definition, ScheduleRecord
    from duly.store.gates import GateDecision
    from duly.store.ports.backfill import BackfillRecord
    from duly.store.ports.dispatch import Fence
    from duly.store.sqlite.work import Work

BACKFILL = """
SELECT b.id, b.tenant, b.schedule_id, s.name, b.definition_number, b.since, b.until, b.mode,
    b."order", b.classes, b.per_minute, b.concurrency, b.status, b.version, b.cursor, b.total,
    b.looked_at, b.made, (
        SELECT count(*) FROM duly_backfill_slots l
        WHERE l.backfill_id = b.id AND l.is_open
            AND NOT EXISTS (SELECT 1 FROM duly_outcomes o WHERE o.run_id = l.run_id)
            AND NOT EXISTS (SELECT 1 FROM duly_dead x WHERE x.run_id = l.run_id)),
    b.reason, b.created_at, b.created_by, b.updated_at
FROM duly_backfills b JOIN duly_schedules s ON s.id = b.schedule_id"""
BY_ID = f"{BACKFILL} WHERE b.id = ?1 AND (?2 IS NULL OR b.tenant = ?2)"
LIST_OF_TENANT = f"{BACKFILL} WHERE b.tenant = ? ORDER BY b.id DESC LIMIT ?"
LIST_OF_SCHEDULE = f"{BACKFILL} WHERE b.tenant = ? AND b.schedule_id = ? ORDER BY b.id DESC LIMIT ?"
LIST_ACTIVE = f"{BACKFILL} WHERE b.status = 'active' ORDER BY b.id LIMIT ?"
WRITE = """
INSERT OR REPLACE INTO duly_backfills (id, tenant, schedule_id, definition_number, since, until,
    mode, "order", classes, per_minute, concurrency, status, version, cursor, total, looked_at,
    made, reason, created_at, created_by, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
NOTE = """
INSERT INTO duly_backfill_slots (backfill_id, scheduled_for, kind, run_id, is_open)
VALUES (?, ?, ?, ?, ?)"""
# Those that were open and are over are not looked at again.
SETTLE = """
UPDATE duly_backfill_slots SET is_open = 0
WHERE backfill_id = ?1 AND is_open AND EXISTS (
    SELECT 1 FROM duly_outcomes o WHERE o.run_id = duly_backfill_slots.run_id)"""
LIST_SLOTS = """
SELECT scheduled_for, kind, run_id FROM duly_backfill_slots
WHERE backfill_id = ? AND scheduled_for > ? ORDER BY scheduled_for LIMIT ?"""
# Ids of runs begin with the millisecond that they are for.
RUNS_BETWEEN = f"""
{rows.RUN} WHERE r.schedule_id = ? AND r.id >= ? AND r.id < ?"""
BEFORE_ALL = -(1 << 63)


class SqliteBackfills(BackfillWork):
    """Backfills, while nobody else writes."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._gates = SqliteGates(work)

    @property
    def now(self) -> int:
        """Return the transaction's time."""
        return self._work.now

    def find(self, backfill_id: BackfillId) -> BackfillRecord | None:
        """Return a backfill."""
        return _find(self._work.connection, backfill_id)

    def write(self, record: BackfillRecord, *, is_new: bool) -> None:
        """Write a backfill."""
        connection = self._work.connection
        connection.execute(WRITE, backfill_row(record))
        if not is_new:
            connection.execute(SETTLE, (record.id,))

    def schedule(self, schedule_id: ScheduleId) -> ScheduleRecord | None:
        """Return a schedule, deleted or not."""
        return read_schedule(self._work.connection, schedule_id)

    def definition(self, schedule_id: ScheduleId, number: int) -> Definition | None:
        """Return one version of a schedule's template."""
        return read_definition(self._work.connection, schedule_id, number)

    def is_ours(self, fence: Fence, lane: Lane, shard: int) -> bool:
        """Say whether a lease is held."""
        return shard in held_shards(self._work, fence, lane)[0]

    def classify(self, schedule_id: ScheduleId, instants: Sequence[int]) -> list[Slot]:
        """Say what is known about occurrences."""
        return classify_slots(Look(self._work.connection, self.now), schedule_id, instants)

    def gates(self) -> SqliteGates:
        """Return the gates."""
        return self._gates

    def make(  # noqa: PLR0913, PLR0917 - all that a run is made of
        self,
        record: BackfillRecord,
        definition: Definition,
        planned: Planned,
        run_id: RunId,
        arrival: GateDecision,
    ) -> None:
        """Make a run; queue it, or let it wait at its gate."""
        call = definition.call
        before = RunBefore(0, record.schedule_id, run_id, planned.scheduled_for)
        (window_from,) = Settlements(self._work).ran_before([before])
        row = (
            *(run_id, record.tenant, record.schedule_id, record.definition_number, None),
            *(call.task, None, call.queue, call.priority, Origin.BACKFILL, Lane.BACKFILL),
            *(planned.scheduled_for, planned.not_before, window_from, self.now, self.now),
        )
        if arrival.coming is GateEntryOutcome.WAITS:
            priority = call.priority + LANE_OFFSETS[Lane.BACKFILL]
            self._gates.stand(run_id, arrival, priority, AttemptCounts())
        elif arrival.gate is not None:
            self._gates.take(arrival.gate, run_id)
        write_runs(self._work, [row], {run_id: arrival})
        root = root_of(record, planned, run_id)
        if root is not None:
            self._work.connection.execute(SET_ROOT, (root, run_id))

    def note(self, backfill_id: BackfillId, slot: BackfillOccurrenceRecord) -> None:
        """Write down what was done about an occurrence."""
        row = (backfill_id, slot.scheduled_for, slot.kind, slot.run_id, slot.run_id is not None)
        self._work.connection.execute(NOTE, row)

    def record(self, actor: Actor, action: str, subject: AuditSubject) -> None:
        """Write an audit entry."""
        self._work.record(actor, action, subject)


def get_backfill(look: Look, tenant: str, backfill_id: BackfillId) -> BackfillRecord | None:
    """Return a backfill."""
    return _find(look.connection, backfill_id, tenant)


def list_backfills(
    look: Look, tenant: str, schedule_id: ScheduleId | None, limit: int
) -> list[BackfillRecord]:
    """Return backfills, newest first."""
    if schedule_id is None:
        found = look.connection.execute(LIST_OF_TENANT, (tenant, limit))
    else:
        found = look.connection.execute(LIST_OF_SCHEDULE, (tenant, schedule_id, limit))
    return [backfill_record(row) for row in found]


def load_backfills(look: Look, limit: int) -> list[BackfillRecord]:
    """Return active backfills, oldest first."""
    return [backfill_record(row) for row in look.connection.execute(LIST_ACTIVE, (limit,))]


def list_slots(
    look: Look, backfill_id: BackfillId, after: int | None, limit: int
) -> list[BackfillOccurrenceRecord]:
    """Return what was done about occurrences, by their time."""
    since = BEFORE_ALL if after is None else after
    found = look.connection.execute(LIST_SLOTS, (backfill_id, since, limit))
    return [
        BackfillOccurrenceRecord(
            at, BackfillOccurrenceKind(kind), None if run_id is None else RunId(run_id)
        )
        for at, kind, run_id in found
    ]


def classify_slots(look: Look, schedule_id: ScheduleId, instants: Sequence[int]) -> list[Slot]:
    """Say what is known about occurrences."""
    if not instants:
        return []
    runs: dict[int, list[tuple[RunId, RunState]]] = {}
    bounds = (run_ids_from(min(instants)), run_ids_from(max(instants) + 1000))
    for row in look.connection.execute(RUNS_BETWEEN, (schedule_id, *bounds)):
        state = state_seen(RunState(row[19]), row[22])
        runs.setdefault(row[14], []).append((RunId(row[0]), state))
    verdicts = SqliteReading(look).judge(schedule_id, instants)
    return [classify(one, runs.get(one.scheduled_for, ())) for one in verdicts]


def _find(
    connection: apsw.Connection, backfill_id: BackfillId, tenant: str | None = None
) -> BackfillRecord | None:
    row = connection.execute(BY_ID, (backfill_id, tenant)).fetchone()
    return None if row is None else backfill_record(row)
