"""Backfills and plans of them, as they are shown."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.timetable.instants import from_microseconds, iso_utc

if TYPE_CHECKING:
    from datetime import datetime

    from duly.store.ports.backfill import BackfillRecord


@dataclass(frozen=True, slots=True)
class PlannedSlot:
    """One occurrence of a plan, and what is known about it."""

    scheduled_for: datetime
    kind: str
    """missing, failed, succeeded, ambiguous, in-flight or unknown."""
    run_id: UUID | None
    reason: str | None
    is_chosen: bool
    """Whether a run would be made of it now; it is looked at once more when its turn has come."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "scheduled_for": iso_utc(self.scheduled_for),
            "kind": self.kind,
            "run_id": None if self.run_id is None else str(self.run_id),
            "reason": self.reason,
            "is_chosen": self.is_chosen,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPlan:
    """The exact occurrences of a span, before anything is made."""

    schedule: str
    since: datetime
    until: datetime
    slots: tuple[PlannedSlot, ...]

    @property
    def runs(self) -> int:
        """How many runs would be made."""
        return sum(slot.is_chosen for slot in self.slots)

    @property
    def counts(self) -> dict[str, int]:
        """How many occurrences there are of each kind."""
        return dict(Counter(slot.kind for slot in self.slots))

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "schedule": self.schedule,
            "since": iso_utc(self.since),
            "until": iso_utc(self.until),
            "runs": self.runs,
            "counts": self.counts,
            "slots": [slot.to_json() for slot in self.slots],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """A backfill, as it was when it was looked at."""

    id: UUID
    schedule: str
    status: str
    version: int
    since: datetime
    until: datetime
    mode: str
    order: str
    classes: tuple[str, ...]
    per_minute: int
    concurrency: int
    total: int
    """How many occurrences its span has."""
    looked_at: int
    made: int
    open: int
    """How many of its runs are not over."""
    reason: str | None
    created_at: datetime
    created_by: str
    updated_at: datetime
    resumes: UUID | None = None
    """The one that was called off, and what was left of which this one does; told of one alone."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "id": str(self.id),
            "schedule": self.schedule,
            "status": self.status,
            "version": self.version,
            "since": iso_utc(self.since),
            "until": iso_utc(self.until),
            "mode": self.mode,
            "order": self.order,
            "classes": list(self.classes),
            "per_minute": self.per_minute,
            "concurrency": self.concurrency,
            "total": self.total,
            "looked_at": self.looked_at,
            "made": self.made,
            "open": self.open,
            "reason": self.reason,
            "created_at": iso_utc(self.created_at),
            "created_by": self.created_by,
            "updated_at": iso_utc(self.updated_at),
            "resumes": None if self.resumes is None else str(self.resumes),
        }


def backfill_view(record: BackfillRecord) -> Backfill:
    """Return a backfill as it is shown."""
    return Backfill(
        id=UUID(bytes=record.id),
        schedule=record.schedule_name,
        status=str(record.status),
        version=record.version,
        since=from_microseconds(record.since),
        until=from_microseconds(record.until),
        mode=str(record.mode),
        order=str(record.order),
        classes=tuple(sorted(str(one) for one in record.classes)),
        per_minute=record.per_minute,
        concurrency=record.concurrency,
        total=record.total,
        looked_at=record.looked_at,
        made=record.made,
        open=record.open,
        reason=record.reason,
        created_at=from_microseconds(record.created_at),
        created_by=record.created_by,
        updated_at=from_microseconds(record.updated_at),
    )
