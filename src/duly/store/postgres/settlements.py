"""Writing settlements: runs with their places in the queue, skips, and what stays owed.

Each kind is one statement over arrays, however many there are of it, in the order of ids: two that
write the same wait for each other and never in a circle.
"""

from __future__ import annotations

from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING

from duly.domain.policies import GateEntryOutcome
from duly.store.gates import FREE
from duly.store.gathering import SettlementBatch
from duly.store.postgres.arrays import (
    Int4s,
    Int8s,
    OptionalInt4s,
    OptionalInt8s,
    OptionalUuids,
    Texts,
    Uuids,
)
from duly.store.postgres.gates import PostgresGates
from duly.store.postgres.rows import RANKED, SHARE
from duly.store.postgres.session import uid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly.store.gates import GateDecision
    from duly.store.gathering import RunBefore
    from duly.store.postgres.work import Work
    from duly.store.records import Row

RANGE = itemgetter(0, 1)
"""What ranges are told apart by: the schedule and where they begin."""


QUEUED, GATED, WAITING = range(3)
"""Where a run is put that is made: into the queue, holding a gate or none, or at a gate."""

# A run that exists is left alone: its id says that it is the same occurrence's. The ids are in
# order, so that where each is put is found by its place.
INSERT_RUNS = f"""
WITH made AS (
    INSERT INTO duly.runs (id, tenant, schedule_id, definition_number, key, task, arguments, queue,
        priority, origin, lane, scheduled_for, not_before, window_from, created_at, fired_at)
    SELECT u.id, u.tenant, u.schedule_id, u.number, u.key, u.task, u.arguments, u.queue, u.priority,
        u.origin, u.lane, u.scheduled_for, u.not_before, u.window_from, $1::int8, $1::int8
    FROM unnest($2::uuid[], $3::text[], $4::uuid[], $5::int4[], $6::text[],
        $7::text[], $8::text[],
        $9::text[], $10::int4[], $11::text[], $12::text[], $13::int8[], $14::int8[], $15::int8[])
        u(id, tenant, schedule_id, number, key, task, arguments, queue, priority, origin, lane,
        scheduled_for, not_before, window_from)
    ON CONFLICT (id) DO NOTHING
    RETURNING id, queue, priority, lane, tenant, not_before, fired_at),
queued AS (
    INSERT INTO duly.ready (queue, priority, rank, run_id, fired_at, not_before, era, is_gated,
        tenant)
    SELECT queue, {RANKED}, not_before, id, fired_at, not_before,
        (SELECT era FROM duly.cluster WHERE id = 1), CASE WHEN put = {GATED} THEN true END,
        {SHARE}
    FROM (
        SELECT m.*, ($16::int4[])[pg_catalog.width_bucket(m.id, $2::uuid[])] AS put
        FROM made m OFFSET 0) p
    WHERE put <> {WAITING})
SELECT uuid_send(id) FROM made"""  # noqa: S608 - an expression of ours
# One that stands for others begins where the first of them does.
BEGIN_EARLIER = """
UPDATE duly.runs SET window_from = (
    SELECT CASE WHEN count(*) = count(b.window_from) THEN min(b.window_from) END
    FROM duly.runs b WHERE b.id = ANY($2::uuid[]))
WHERE id = $1::uuid"""
# Ranges that begin alike are the same promise told twice: the longer one holds.
INSERT_SKIPS = """
INSERT INTO duly.skips (schedule_id, first_for, last_for, count, reason, into_run, at)
SELECT * FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::int8[], $5::text[],
    $6::uuid[],
    $7::int8[])
ON CONFLICT (schedule_id, first_for) DO UPDATE
SET last_for = excluded.last_for, count = excluded.count WHERE excluded.last_for > skips.last_for"""
INSERT_OWED = """
INSERT INTO duly.owed (schedule_id, first_for, last_for, definition_number, shard, created_at)
SELECT * FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::int4[], $5::int4[],
    $6::int8[])
ON CONFLICT (schedule_id, first_for) DO UPDATE
SET last_for = greatest(owed.last_for, excluded.last_for)"""
# Ids sort by the occurrence's time, so the one before is the neighbour in the index.
RAN_BEFORE = """
SELECT b.scheduled_for
FROM unnest($1::uuid[], $2::uuid[], $3::int8[]) WITH ORDINALITY
    u(schedule_id, run_id, scheduled_for, place)
LEFT JOIN LATERAL (
    SELECT r.scheduled_for FROM duly.runs r
    WHERE r.schedule_id = u.schedule_id AND r.id < u.run_id AND r.scheduled_for < u.scheduled_for
        AND r.origin IN ('schedule', 'catch-up', 'backfill')
    ORDER BY r.id DESC LIMIT 1) b ON true
ORDER BY u.place"""


class Settlements(SettlementBatch):
    """What is gathered in one transaction, to be written together."""

    def __init__(self, work: Work, gates: PostgresGates | None = None) -> None:
        super().__init__(work.now)
        self.work = work
        self._gates = gates

    def ran_before(self, questions: Sequence[RunBefore]) -> list[int | None]:
        """Say which occurrence the store knows as the last that was run before each."""
        values = (
            Uuids([one.schedule_id for one in questions]),
            Uuids([one.run_id for one in questions]),
            Int8s([one.scheduled_for for one in questions]),
        )
        return [instant for (instant,) in self.work.session.rows(RAN_BEFORE, values)]

    def gates(self) -> PostgresGates:
        """Return the gates, within the transaction."""
        if self._gates is None:
            self._gates = PostgresGates(self.work)
        return self._gates

    def write_runs(self, rows: list[Row], arrivals: Mapping[bytes, GateDecision]) -> set[bytes]:
        """Insert runs and queue those that are new and do not wait at a gate; return their ids."""
        return write_runs(self.work, rows, arrivals)

    def write_ranges(self, skips: list[Row], owed: list[Row]) -> None:
        """Insert skips and what is owed."""
        write_skips(self.work, skips)
        write_owed(self.work, owed)


def write_runs(
    work: Work, rows: list[Row], arrivals: Mapping[bytes, GateDecision] = MappingProxyType({})
) -> set[bytes]:
    """Insert runs and queue those that are new and do not wait at a gate; return their ids."""
    if not rows:
        return set()
    columns = list(zip(*sorted(rows, key=itemgetter(SettlementBatch.ID)), strict=True))
    values = (
        work.now,
        Uuids(columns[SettlementBatch.ID]),
        Texts(columns[SettlementBatch.TENANT]),
        OptionalUuids(columns[SettlementBatch.SCHEDULE]),
        OptionalInt4s(columns[SettlementBatch.NUMBER]),
        Texts(columns[SettlementBatch.KEY]),
        Texts(columns[SettlementBatch.TASK]),
        Texts(columns[SettlementBatch.ARGUMENTS]),
        Texts(columns[SettlementBatch.QUEUE]),
        Int4s(columns[SettlementBatch.PRIORITY]),
        Texts(columns[SettlementBatch.ORIGIN]),
        Texts(columns[SettlementBatch.LANE]),
        Int8s(columns[SettlementBatch.FOR]),
        Int8s(columns[SettlementBatch.NOT_BEFORE]),
        OptionalInt8s(columns[SettlementBatch.WINDOW]),
        Int4s([_put(arrivals.get(run_id, FREE)) for run_id in columns[SettlementBatch.ID]]),
    )
    made = {run_id for (run_id,) in work.session.rows(INSERT_RUNS, values)}
    for run_id, arrival in arrivals.items():
        if arrival.stands_for:
            stood = Uuids([run_id, *arrival.stands_for])
            work.session.run(BEGIN_EARLIER, (uid(run_id), stood))
    work.has_orders = work.has_orders or bool(made)
    return made


def _put(arrival: GateDecision) -> int:
    if arrival.coming is GateEntryOutcome.WAITS:
        return WAITING
    return QUEUED if arrival.gate is None else GATED


def write_skips(work: Work, rows: list[Row]) -> None:
    """Insert ranges that were not run."""
    if not rows:
        return
    ids, firsts, lasts, counts, reasons, runs, moments = zip(*sorted(rows, key=RANGE), strict=True)
    values = (
        Uuids(ids),
        Int8s(firsts),
        Int8s(lasts),
        OptionalInt8s(counts),
        Texts(reasons),
        OptionalUuids(runs),
        Int8s(moments),
    )
    work.session.run(INSERT_SKIPS, values)


def write_owed(work: Work, rows: list[Row]) -> None:
    """Insert ranges that are still to be settled."""
    if not rows:
        return
    ids, firsts, lasts, numbers, shards, moments = zip(*sorted(rows, key=RANGE), strict=True)
    values = (
        Uuids(ids),
        Int8s(firsts),
        Int8s(lasts),
        Int4s(numbers),
        Int4s(shards),
        Int8s(moments),
    )
    work.session.run(INSERT_OWED, values)
