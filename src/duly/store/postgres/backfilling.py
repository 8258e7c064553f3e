"""Backfills: their rows, and what was done about each occurrence.

A step holds the fence, then the backfill, then the schedule as far as orders about it go: who
deletes or drains it waits, and who fires what is due does not. Should a fire have made the very
run that a step was about to make, the step looks again and finds it.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from duly.domain.backfill import BackfillOccurrenceKind, classify, state_seen
from duly.domain.enums import Lane, Origin, RunState
from duly.domain.ids import RunId
from duly.domain.policies import GateEntryOutcome
from duly.domain.runs import AttemptCounts
from duly.store.backfill_rows import backfill_record, backfill_row, run_ids_from
from duly.store.backfill_rulings import root_of
from duly.store.backfill_work import BackfillWork
from duly.store.gathering import LANE_OFFSETS, RunBefore, SettlementBatch
from duly.store.ports.backfill import BackfillOccurrenceRecord
from duly.store.postgres.arrays import Int8s, OptionalUuids, Texts, Uuids
from duly.store.postgres.gates import PostgresGates
from duly.store.postgres.leases import held_shards
from duly.store.postgres.planning import read_definition, read_schedule
from duly.store.postgres.reading import PostgresReading
from duly.store.postgres.savepoints import OvertakenError, unless_overtaken
from duly.store.postgres.session import as_values, first, uid
from duly.store.postgres.settlements import Settlements, write_runs
from duly.store.postgres.work import Look
from duly.store.run_columns import RUN_STATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.audit import Actor, AuditSubject
    from duly.domain.backfill import Planned, Slot
    from duly.domain.ids import BackfillId, ScheduleId
    from duly.domain.schedules import Definition, ScheduleRecord
    from duly.store.gates import GateDecision
    from duly.store.ports.backfill import (
        BackfillRecord,
        ChangeBackfill,
        CreateBackfill,
        StepBackfill,
        Stepped,
    )
    from duly.store.ports.dispatch import Fence
    from duly.store.postgres.session import Session
    from duly.store.postgres.work import Work
    from duly.store.records import Row

_BACKFILL = """
SELECT uuid_send(b.id), b.tenant, uuid_send(b.schedule_id), s.name, b.definition_number, b.since,
    b.until, b.mode, b."order", b.classes, b.per_minute, b.concurrency, b.status, b.version,
    b.cursor, b.total, b.looked_at, b.made, (
        SELECT count(*) FROM duly.backfill_slots l
        WHERE l.backfill_id = b.id AND l.is_open
            AND NOT EXISTS (SELECT 1 FROM duly.outcomes o WHERE o.run_id = l.run_id)
            AND NOT EXISTS (SELECT 1 FROM duly.dead x WHERE x.run_id = l.run_id)),
    b.reason, b.created_at, b.created_by, b.updated_at
FROM duly.backfills b JOIN duly.schedules s ON s.id = b.schedule_id"""
# Before it is read: who has waited for it reads what the other has left.
LOCK = "SELECT 1 FROM duly.backfills WHERE id = $1::uuid FOR UPDATE"
BY_ID = f"{_BACKFILL} WHERE b.id = $1::uuid AND ($2::text IS NULL OR b.tenant = $2)"
LIST_OF_TENANT = f"{_BACKFILL} WHERE b.tenant = $1 ORDER BY b.id DESC LIMIT $2::int8"
LIST_OF_SCHEDULE = f"""
{_BACKFILL} WHERE b.tenant = $1 AND b.schedule_id = $2::uuid ORDER BY b.id DESC LIMIT $3::int8"""
LIST_ACTIVE = f"{_BACKFILL} WHERE b.status = 'active' ORDER BY b.id LIMIT $1::int8"
INSERT = """
INSERT INTO duly.backfills (id, tenant, schedule_id, definition_number, since, until, mode, "order",
    classes, per_minute, concurrency, status, version, cursor, total, looked_at, made, reason,
    created_at, created_by, updated_at)
VALUES ($1::uuid, $2, $3::uuid, $4::int4, $5::int8, $6::int8, $7, $8, $9, $10::int4, $11::int4, $12,
    $13::int4, $14::int8, $15::int8, $16::int8, $17::int8, $18, $19::int8, $20, $21::int8)"""
UPDATE = """
UPDATE duly.backfills
SET per_minute = $2::int4, concurrency = $3::int4, status = $4, version = $5::int4,
    cursor = $6::int8, looked_at = $7::int8, made = $8::int8, reason = $9, updated_at = $10::int8
WHERE id = $1::uuid"""
# As a reference to the schedule would: orders about it and its removal wait, its fires do not.
HOLD_SCHEDULE = """
SELECT 1 FROM duly.schedule_state WHERE schedule_id = $1::uuid FOR KEY SHARE"""
NOTE = """
INSERT INTO duly.backfill_slots (backfill_id, scheduled_for, kind, run_id, is_open)
SELECT $1::uuid, u.*, u.run_id IS NOT NULL
FROM unnest($2::int8[], $3::text[], $4::uuid[]) u(scheduled_for, kind, run_id)"""
# Those that were open and are over are not looked at again.
SETTLE = """
UPDATE duly.backfill_slots l SET is_open = false
WHERE l.backfill_id = $1::uuid AND l.is_open
    AND EXISTS (SELECT 1 FROM duly.outcomes o WHERE o.run_id = l.run_id)"""
LIST_SLOTS = """
SELECT scheduled_for, kind, uuid_send(run_id) FROM duly.backfill_slots
WHERE backfill_id = $1::uuid AND scheduled_for > $2::int8 ORDER BY scheduled_for LIMIT $3::int8"""
# Ids of runs begin with the millisecond that they are for.
RUNS_BETWEEN = f"""
SELECT uuid_send(r.id), r.scheduled_for, {RUN_STATE}, coalesce(o.fence, 0)
FROM duly.runs r
LEFT JOIN duly.outcomes o ON o.run_id = r.id
LEFT JOIN duly.claims c ON c.run_id = r.id
LEFT JOIN duly.waiting w ON w.run_id = r.id
LEFT JOIN duly.dead x ON x.run_id = r.id
LEFT JOIN duly.blocked b ON b.run_id = r.id
LEFT JOIN duly.ambiguous u ON u.run_id = r.id
WHERE r.schedule_id = $1::uuid AND r.id >= $2::uuid AND r.id < $3::uuid"""  # noqa: S608
SET_ROOTS = """
UPDATE duly.runs r SET root = u.root FROM unnest($1::uuid[], $2::uuid[]) u(id, root)
WHERE r.id = u.id"""
BEFORE_ALL = -(1 << 63)


class PostgresBackfills(BackfillWork):
    """Backfills in a transaction; what a step makes is gathered, and written together."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._gates = PostgresGates(work)
        self._runs: list[Row] = []
        self._arrivals: dict[bytes, GateDecision] = {}
        self._roots: list[tuple[RunId, RunId]] = []
        self._notes: list[BackfillOccurrenceRecord] = []

    @property
    def now(self) -> int:
        """Return the transaction's time."""
        return self._work.now

    def find(self, backfill_id: BackfillId) -> BackfillRecord | None:
        """Return a backfill, which nobody else changes from here on."""
        self._work.session.rows(LOCK, (uid(backfill_id),))
        self._work.look_at_the_clock()
        return _find(self._work.session, backfill_id)

    def write(self, record: BackfillRecord, *, is_new: bool) -> None:
        """Write a backfill, and what a step has done."""
        session = self._work.session
        if is_new:
            session.run(INSERT, as_values(backfill_row(record)))
            return
        self._write_runs()
        self._write_notes(record.id)
        changed = (record.per_minute, record.concurrency, record.status, record.version)
        done = (record.cursor, record.looked_at, record.made, record.reason, record.updated_at)
        session.run(UPDATE, (uid(record.id), *changed, *done))
        session.run(SETTLE, (uid(record.id),))

    def schedule(self, schedule_id: ScheduleId) -> ScheduleRecord | None:
        """Return a schedule, deleted or not, about which nobody gives orders from here on."""
        self._work.session.rows(HOLD_SCHEDULE, (uid(schedule_id),))
        return read_schedule(self._work.session, schedule_id)

    def definition(self, schedule_id: ScheduleId, number: int) -> Definition | None:
        """Return one version of a schedule's template."""
        return read_definition(self._work.session, schedule_id, number)

    def is_ours(self, fence: Fence, lane: Lane, shard: int) -> bool:
        """Say whether a lease is held."""
        return shard in held_shards(self._work, fence, lane)[0]

    def classify(self, schedule_id: ScheduleId, instants: Sequence[int]) -> list[Slot]:
        """Say what is known about occurrences."""
        return classify_slots(Look(self._work.session, self.now), schedule_id, instants)

    def existing(self, run_ids: Sequence[RunId]) -> set[RunId]:
        """Say which of some runs are there, whatever has become of them."""
        self._gates.foresee(run_ids, ())
        return super().existing(run_ids)

    def gates(self) -> PostgresGates:
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
        """Have a run made: queued, or waiting at its gate."""
        call = definition.call
        self._runs.append(
            (
                *(run_id, record.tenant, record.schedule_id, record.definition_number, None),
                *(call.task, None, call.queue, call.priority, Origin.BACKFILL, Lane.BACKFILL),
                *(planned.scheduled_for, planned.not_before, None, self.now, self.now),
            )
        )
        self._arrivals[run_id] = arrival
        if arrival.coming is GateEntryOutcome.WAITS:
            priority = call.priority + LANE_OFFSETS[Lane.BACKFILL]
            self._gates.stand(run_id, arrival, priority, AttemptCounts())
        elif arrival.gate is not None:
            self._gates.take(arrival.gate, run_id)
        root = root_of(record, planned, run_id)
        if root is not None:
            self._roots.append((run_id, root))

    def note(self, backfill_id: BackfillId, slot: BackfillOccurrenceRecord) -> None:
        """Have it written down what was done about an occurrence."""
        del backfill_id  # a transaction is about one
        self._notes.append(slot)

    def record(self, actor: Actor, action: str, subject: AuditSubject) -> None:
        """Write an audit entry."""
        self._work.record(actor, action, subject)

    def _write_runs(self) -> None:
        if not self._runs:
            return
        made = write_runs(self._work, self._with_windows(), self._arrivals)
        if len(made) < len(self._runs):
            raise OvertakenError
        if self._roots:
            ids, roots = zip(*self._roots, strict=True)
            self._work.session.run(SET_ROOTS, (Uuids(ids), Uuids(roots)))

    def _with_windows(self) -> list[Row]:
        """Return the runs, each with the occurrence that was run before it: also by this step."""
        place, instant = SettlementBatch.WINDOW, itemgetter(SettlementBatch.FOR)
        asked = [
            RunBefore(0, row[SettlementBatch.SCHEDULE], row[0], instant(row)) for row in self._runs
        ]
        rows: list[Row] = []
        for row, stored in zip(self._runs, Settlements(self._work).ran_before(asked), strict=True):
            earlier = [instant(one) for one in rows if instant(one) < instant(row)]
            window = max(earlier if stored is None else [stored, *earlier], default=None)
            rows.append((*row[:place], window, *row[place + 1 :]))
        return rows

    def _write_notes(self, backfill_id: BackfillId) -> None:
        if self._notes:
            instants, kinds, ids = zip(*self._notes, strict=True)
            values = (uid(backfill_id), Int8s(instants), Texts(kinds), OptionalUuids(ids))
            self._work.session.run(NOTE, values)


def create_backfill(work: Work, command: CreateBackfill) -> BackfillRecord:
    """Write a backfill down, or recognise the one that is there."""
    return unless_overtaken(
        work.session, "duly_backfill", lambda: PostgresBackfills(work).create(command), [command.id]
    )


def change_backfill(work: Work, command: ChangeBackfill) -> BackfillRecord:
    """Apply an order, if nobody was faster."""
    return PostgresBackfills(work).change(command)


def step_backfill(work: Work, command: StepBackfill) -> Stepped:
    """Do a part of a backfill; again, if somebody has meanwhile made one of its runs."""
    return unless_overtaken(
        work.session, "duly_backfill", lambda: PostgresBackfills(work).step(command)
    )


def get_backfill(look: Look, tenant: str, backfill_id: BackfillId) -> BackfillRecord | None:
    """Return a backfill."""
    return _find(look.session, backfill_id, tenant)


def list_backfills(
    look: Look, tenant: str, schedule_id: ScheduleId | None, limit: int
) -> list[BackfillRecord]:
    """Return backfills, newest first."""
    if schedule_id is None:
        found = look.session.rows(LIST_OF_TENANT, (tenant, limit))
    else:
        found = look.session.rows(LIST_OF_SCHEDULE, (tenant, uid(schedule_id), limit))
    return [backfill_record(row) for row in found]


def load_backfills(look: Look, limit: int) -> list[BackfillRecord]:
    """Return active backfills, oldest first."""
    return [backfill_record(row) for row in look.session.rows(LIST_ACTIVE, (limit,))]


def list_slots(
    look: Look, backfill_id: BackfillId, after: int | None, limit: int
) -> list[BackfillOccurrenceRecord]:
    """Return what was done about occurrences, by their time."""
    since = BEFORE_ALL if after is None else after
    found = look.session.rows(LIST_SLOTS, (uid(backfill_id), since, limit))
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
    # Verdicts first: a run that is made meanwhile is found by the second look.
    verdicts = PostgresReading(look).judge(schedule_id, instants)
    bounds = (run_ids_from(min(instants)), run_ids_from(max(instants) + 1000))
    values = (uid(schedule_id), *map(uid, bounds))
    runs: dict[int, list[tuple[RunId, RunState]]] = {}
    for run_id, at, state, fence in look.session.rows(RUNS_BETWEEN, values):
        seen = state_seen(RunState(state), fence)
        runs.setdefault(at, []).append((RunId(run_id), seen))
    return [classify(one, runs.get(one.scheduled_for, ())) for one in verdicts]


def _find(
    session: Session, backfill_id: BackfillId, tenant: str | None = None
) -> BackfillRecord | None:
    row = first(session, BY_ID, (uid(backfill_id), tenant))
    return None if row is None else backfill_record(row)
