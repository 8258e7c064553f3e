"""What is owed: ranges of occurrences, and draining them on the catch-up lane (F8)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.literals import Lane
from duly.store import records
from duly.store.dispatch import DrainOwed, FireResult, OwedRecord
from duly.store.gathering import ground_of
from duly.store.postgres import rows
from duly.store.postgres.arrays import Int4s
from duly.store.postgres.leases import held_shards
from duly.store.postgres.planning import LOCK_STATE, read_definition, read_schedule
from duly.store.postgres.session import first, uid
from duly.store.postgres.settlements import Settlements, write_owed
from duly.store.rulings import DRAINABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.store.gathering import Ground
    from duly.store.postgres.work import Look, Work

# The oldest of each shard, and of those the oldest.
LOAD_OWED = """
SELECT uuid_send(o.schedule_id), o.first_for, o.last_for, o.definition_number, o.shard, o.created_at
FROM unnest($1::int4[]) AS u(shard)
CROSS JOIN LATERAL (
    SELECT o.* FROM duly.owed o JOIN duly.schedules s ON s.id = o.schedule_id
    WHERE o.shard = u.shard
        AND (o.created_at, o.schedule_id, o.first_for) > ($2::int8, $3::uuid, $4::int8)
        AND s.status IN ('active', 'ended')
    ORDER BY o.created_at, o.schedule_id, o.first_for LIMIT $5::int8) o
ORDER BY o.created_at, o.schedule_id, o.first_for LIMIT $5::int8"""
LOCK_OWED = f"{rows.OWED} WHERE schedule_id = $1::uuid AND first_for = $2::int8 FOR UPDATE"
DELETE_OWED = "DELETE FROM duly.owed WHERE schedule_id = $1::uuid AND first_for = $2::int8"
NOTE_RUNS = """
UPDATE duly.schedule_state
SET last_for = $2::int8, last_run = $3::uuid, last_fired_at = $4::int8, fires = $5::int8
WHERE schedule_id = $1::uuid"""

BEFORE_ALL = (-(1 << 63), bytes(16), 0)


def load_owed(
    look: Look, shards: Sequence[int], limit: int, after: OwedRecord | None
) -> list[OwedRecord]:
    """Read ranges of schedules that still run, oldest first."""
    created_at, schedule_id, first_for = BEFORE_ALL if after is None else after.place
    values = (Int4s(list(shards)), created_at, uid(schedule_id), first_for, limit)
    return [records.owed_record(row) for row in look.session.rows(LOAD_OWED, values)]


def drain_owed(work: Work, command: DrainOwed) -> FireResult:
    """Settle a part of a range, if it is still what it was."""
    held, _ = held_shards(work, command.fence, Lane.CATCH_UP)
    if command.shard not in held:
        return FireResult.FENCED
    owed, settlement = command.owed, command.settlement
    work.session.rows(LOCK_STATE, (uid(owed.schedule_id),))
    key = (uid(owed.schedule_id), owed.first_for)
    row = first(work.session, LOCK_OWED, key)
    record = None if row is None else records.owed_record(row)
    if record is None or record.owed != owed or record.shard != command.shard:
        return FireResult.GONE
    schedule = read_schedule(work.session, owed.schedule_id)
    if schedule is None or schedule.status not in DRAINABLE:
        return FireResult.GONE
    now = work.look_at_the_clock()
    if any(run.not_before > now for run in settlement.runs):
        return FireResult.EARLY
    ground = ground_of(schedule)
    definition = read_definition(work.session, owed.schedule_id, owed.definition_number)
    assert definition is not None, "a definition stays as long as something refers to it"
    ground.under(owed.definition_number, definition.call)
    work.session.run(DELETE_OWED, key)
    settlements = Settlements(work)
    settlements.add(ground, replace(settlement, owed=None))
    if settlements.write():
        _note(work, ground)
    rest = settlement.owed
    if rest is not None:
        ends = (rest.schedule_id, rest.first_for, rest.last_for)
        write_owed(work, [(*ends, rest.definition_number, record.shard, record.created_at)])
    return FireResult.FIRED


def _note(work: Work, ground: Ground) -> None:
    runs = (ground.last_for, uid(ground.last_run), ground.last_fired_at, ground.fires)
    work.session.run(NOTE_RUNS, (uid(ground.schedule_id), *runs))
