"""What is owed: ranges of occurrences, and draining them on the catch-up lane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.enums import Lane
from duly.store import records
from duly.store.ports.dispatch import CatchUpRangeRecord, DrainOwed, FireResult
from duly.store.postgres import rows
from duly.store.postgres.arrays import Int4s
from duly.store.postgres.leases import held_shards
from duly.store.postgres.planning import LOCK_STATE, PostgresChanging
from duly.store.postgres.session import first, uid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.store.postgres.work import Look, Work

# The oldest of each shard, and of those the oldest.
LOAD_OWED = """
SELECT uuid_send(o.schedule_id), o.first_for, o.last_for, o.definition_number, o.shard, o.created_at
FROM pg_catalog.unnest($1::int4[]) AS u(shard)
CROSS JOIN LATERAL (
    SELECT o.* FROM duly.owed o JOIN duly.schedules s ON s.id = o.schedule_id
    WHERE o.shard = u.shard
        AND (o.created_at, o.schedule_id, o.first_for) > ($2::int8, $3::uuid, $4::int8)
        AND s.status IN ('active', 'ended')
    ORDER BY o.created_at, o.schedule_id, o.first_for LIMIT $5::int8) o
ORDER BY o.created_at, o.schedule_id, o.first_for LIMIT $5::int8"""
LOCK_OWED = f"{rows.OWED} WHERE schedule_id = $1::uuid AND first_for = $2::int8 FOR UPDATE"

BEFORE_ALL = (-(1 << 63), bytes(16), 0)


def load_owed(
    look: Look, shards: Sequence[int], limit: int, after: CatchUpRangeRecord | None
) -> list[CatchUpRangeRecord]:
    """Read ranges of schedules that still run, oldest first."""
    created_at, schedule_id, first_for = BEFORE_ALL if after is None else after.place
    values = (Int4s(list(shards)), created_at, uid(schedule_id), first_for, limit)
    return [records.owed_record(row) for row in look.session.rows(LOAD_OWED, values)]


def drain_owed(work: Work, command: DrainOwed) -> FireResult:
    """Settle a part of a range, if it is still what it was."""
    held, _ = held_shards(work, command.fence, Lane.CATCH_UP)
    if command.shard not in held:
        return FireResult.FENCED
    schedule_id = uid(command.owed.schedule_id)
    work.session.rows(LOCK_STATE, (schedule_id,))
    row = first(work.session, LOCK_OWED, (schedule_id, command.owed.first_for))
    work.look_at_the_clock()
    return PostgresChanging(work).drain(command, None if row is None else records.owed_record(row))
