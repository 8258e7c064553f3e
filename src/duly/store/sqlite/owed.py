"""What is owed: ranges of occurrences, and draining them on the catch-up lane."""

from __future__ import annotations

from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

from duly.domain.enums import Lane
from duly.store import records
from duly.store.ports.dispatch import CatchUpRangeRecord, DrainOwed, FireResult
from duly.store.sqlite import rows
from duly.store.sqlite.leases import held_shards
from duly.store.sqlite.planning import SqliteChanging

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.store.sqlite.work import Look, Work

LOAD_OWED = """
SELECT o.schedule_id, o.first_for, o.last_for, o.definition_number, o.shard, o.created_at
FROM duly_owed o JOIN duly_schedules s ON s.id = o.schedule_id
WHERE o.shard = ? AND (o.created_at, o.schedule_id, o.first_for) > (?, ?, ?)
    AND s.status IN ('active', 'ended')
ORDER BY o.created_at, o.schedule_id, o.first_for"""
READ_OWED = f"{rows.OWED} WHERE schedule_id = ? AND first_for = ?"

BEFORE_ALL = (-(1 << 63), b"", 0)


def load_owed(
    look: Look, shards: Sequence[int], limit: int, after: CatchUpRangeRecord | None
) -> list[CatchUpRangeRecord]:
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
    key = (command.owed.schedule_id, command.owed.first_for)
    row = work.connection.execute(READ_OWED, key).fetchone()
    return SqliteChanging(work).drain(command, None if row is None else records.owed_record(row))
