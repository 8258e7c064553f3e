"""What is owed: ranges of occurrences, and draining them on the catch-up lane (F8)."""

from __future__ import annotations

from dataclasses import replace
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

from duly.domain.literals import Lane
from duly.store import records
from duly.store.dispatch import DrainOwed, FireResult, OwedRecord
from duly.store.gathering import ground_of
from duly.store.rulings import DRAINABLE
from duly.store.sqlite import rows
from duly.store.sqlite.leases import held_shards
from duly.store.sqlite.planning import read_definition, read_schedule
from duly.store.sqlite.settlements import INSERT_OWED, Settlements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.store.gathering import Ground
    from duly.store.sqlite.work import Look, Work

LOAD_OWED = """
SELECT o.schedule_id, o.first_for, o.last_for, o.definition_number, o.shard, o.created_at
FROM duly_owed o JOIN duly_schedules s ON s.id = o.schedule_id
WHERE o.shard = ? AND (o.created_at, o.schedule_id, o.first_for) > (?, ?, ?)
    AND s.status IN ('active', 'ended')
ORDER BY o.created_at, o.schedule_id, o.first_for"""
READ_OWED = f"{rows.OWED} WHERE schedule_id = ? AND first_for = ?"
DELETE_OWED = "DELETE FROM duly_owed WHERE schedule_id = ? AND first_for = ?"
NOTE_RUNS = """
UPDATE duly_schedule_state SET last_for = ?, last_run = ?, last_fired_at = ?, fires = ?
WHERE schedule_id = ?"""

BEFORE_ALL = (-(1 << 63), b"", 0)


def load_owed(
    look: Look, shards: Sequence[int], limit: int, after: OwedRecord | None
) -> list[OwedRecord]:
    """Read ranges of schedules that still run, oldest first."""
    place = BEFORE_ALL if after is None else after.place
    streams = [
        map(records.owed_record, look.connection.execute(LOAD_OWED, (shard, *place)))
        for shard in shards
    ]
    return list(islice(merge(*streams, key=lambda record: record.place), limit))


def drain_owed(work: Work, command: DrainOwed) -> FireResult:
    """Settle a part of a range, if it is still what it was."""
    held, _ = held_shards(work, command.fence, Lane.CATCH_UP)
    if command.shard not in held:
        return FireResult.FENCED
    owed, settlement = command.owed, command.settlement
    key = (owed.schedule_id, owed.first_for)
    row = work.connection.execute(READ_OWED, key).fetchone()
    record = None if row is None else records.owed_record(row)
    if record is None or record.owed != owed or record.shard != command.shard:
        return FireResult.GONE
    schedule = read_schedule(work.connection, owed.schedule_id)
    if schedule is None or schedule.status not in DRAINABLE:
        return FireResult.GONE
    if any(run.not_before > work.now for run in settlement.runs):
        return FireResult.EARLY
    ground = ground_of(schedule)
    definition = read_definition(work.connection, owed.schedule_id, owed.definition_number)
    assert definition is not None, "a definition stays as long as something refers to it"
    ground.under(owed.definition_number, definition.call)
    work.connection.execute(DELETE_OWED, key)
    settlements = Settlements(work)
    settlements.add(ground, replace(settlement, owed=None))
    if settlements.write():
        work.connection.execute(NOTE_RUNS, _noted(ground))
    rest = settlement.owed
    if rest is not None:
        ends = (rest.schedule_id, rest.first_for, rest.last_for)
        left = (*ends, rest.definition_number, record.shard, record.created_at)
        work.connection.execute(INSERT_OWED, left)
    return FireResult.FIRED


def _noted(ground: Ground) -> tuple[object, ...]:
    return (
        ground.last_for,
        ground.last_run,
        ground.last_fired_at,
        ground.fires,
        ground.schedule_id,
    )
