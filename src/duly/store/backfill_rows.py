"""Rows of backfills, as both databases write and read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.backfill import BackfillMode, BackfillOccurrenceKind, BackfillOrder, BackfillStatus
from duly.domain.ids import BackfillId, ScheduleId
from duly.store.ports.backfill import BackfillRecord

if TYPE_CHECKING:
    from duly.store.records import Row


def run_ids_from(instant: int) -> bytes:
    """Return the first id that a run of an instant can have."""
    return (instant // 1000).to_bytes(6, signed=False) + bytes(10)


def backfill_record(row: Row) -> BackfillRecord:
    """Return a backfill."""
    return BackfillRecord(
        id=BackfillId(row[0]),
        tenant=row[1],
        schedule_id=ScheduleId(row[2]),
        schedule_name=row[3],
        definition_number=row[4],
        since=row[5],
        until=row[6],
        mode=BackfillMode(row[7]),
        order=BackfillOrder(row[8]),
        classes=frozenset(BackfillOccurrenceKind(one) for one in row[9].split()),
        per_minute=row[10],
        concurrency=row[11],
        status=BackfillStatus(row[12]),
        version=row[13],
        cursor=row[14],
        total=row[15],
        looked_at=row[16],
        made=row[17],
        open=row[18],
        reason=row[19],
        created_at=row[20],
        created_by=row[21],
        updated_at=row[22],
    )


def backfill_row(record: BackfillRecord) -> Row:
    """Return the columns of a backfill."""
    return (
        record.id,
        record.tenant,
        record.schedule_id,
        record.definition_number,
        record.since,
        record.until,
        record.mode,
        record.order,
        " ".join(sorted(record.classes)),
        record.per_minute,
        record.concurrency,
        record.status,
        record.version,
        record.cursor,
        record.total,
        record.looked_at,
        record.made,
        record.reason,
        record.created_at,
        record.created_by,
        record.updated_at,
    )
