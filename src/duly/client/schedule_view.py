"""A schedule as people and programs see it: a frozen picture, with what comes next in words."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.domain.schedules import mixed_alphabets
from duly.timetable.instants import (
    duration_text,
    duration_words,
    from_microseconds,
    iso_or_none,
    iso_utc,
    moment_or_none,
)
from duly.timetable.preview import PreviewedOccurrence, preview

if TYPE_CHECKING:
    from duly.client.last_ends import Endings
    from duly.domain.policies import Misfire
    from duly.domain.schedules import ScheduleRecord
    from duly.domain.vitals import RunTimes
    from duly.timetable.timetable import Timetable

MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """One schedule, as it was when it was looked at."""

    id: UUID
    name: str
    status: str
    version: int
    """Give it back to an edit, and the edit is refused if somebody else was faster."""
    timetable: Timetable
    task: str
    arguments: dict[str, Any]
    queue: str
    priority: int
    misfire: Misfire
    jitter: timedelta
    overlap: str
    """What becomes of an occurrence while an earlier run is open."""
    serialize_by: str | None
    """Under `serialize`: whose runs go one after the other."""
    preset: str | None
    """The kind of work that its policies were filled in for; some may have been said otherwise."""
    owner: str | None
    declared_by: str | None
    """Where it is declared (`code:app`, `file:app:s.toml`); None when it was made by hand."""
    next_for: datetime | None
    """The nominal time of its next occurrence; None while nothing is pending."""
    next_due: datetime | None
    """When that falls due: its nominal time and its jitter."""
    last_for: datetime | None
    last_run: UUID | None
    fires: int
    overlaps: int
    """How many occurrences found an earlier run open."""
    reason: str | None
    """Why it is paused, has ended or is deleted."""
    resume_at: datetime | None
    created_at: datetime
    updated_at: datetime
    updated_by: str
    run_times: RunTimes | None = field(default=None, compare=False)
    """How long its runs take, beside how long they may: where somebody asked about it."""

    last_ends: Endings | None = field(default=None, compare=False)
    """How its newest runs ended: where somebody asked about it."""

    @property
    def last_success_at(self) -> datetime | None:
        """When a run of it last succeeded, as far as that is known."""
        found = None if self.last_ends is None else self.last_ends.success
        return None if found is None else found.at

    @property
    def last_verified_at(self) -> datetime | None:
        """When a check last found the work of a run in place: its last useful completion."""
        found = None if self.last_ends is None else self.last_ends.verified
        return None if found is None else found.at

    @property
    def last_error_at(self) -> datetime | None:
        """When a run of it last went wrong, also where that was made good since."""
        found = None if self.last_ends is None else self.last_ends.error
        return None if found is None else found.at

    @property
    def warning(self) -> str | None:
        """What an operator should look into: runs that overlap, or soon will; a misleading name."""
        found = None if self.run_times is None else self.run_times.warning
        mixed = mixed_alphabets(self.name)
        if found is None and mixed:
            return f"its name mixes {' and '.join(mixed)} letters, and can pass for another name"
        return found

    def describe(self) -> str:
        """Say in words when it runs what, and whether it does."""
        text = f"{self.task}: {self.timetable.describe()}"
        if self.jitter:
            text += f", spread over {duration_words(self.jitter // MICROSECOND)}"
        if self.status != "active":
            text += f" ({self.status}{f': {self.reason}' if self.reason else ''})"
        return text

    def upcoming(self, n: int = 3) -> tuple[PreviewedOccurrence, ...]:
        """Return its next occurrences in local time and UTC; none unless it is active."""
        if self.next_for is None:
            return ()
        after = self.next_for - MICROSECOND
        return preview(self.timetable, after, n).occurrences

    @property
    def next_after_pause(self) -> datetime | None:
        """The first occurrence once its pause ends by itself; None where it does not."""
        if self.status != "paused" or self.resume_at is None:
            return None
        return self.timetable.next(self.resume_at - timedelta(microseconds=1))

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "id": str(self.id),
            "name": self.name,
            "status": self.status,
            "version": self.version,
            "description": self.timetable.describe(),
            "timetable": self.timetable.to_json(),
            "task": self.task,
            "arguments": self.arguments,
            "queue": self.queue,
            "priority": self.priority,
            "misfire": {**self.misfire.to_json(), "per_minute": self.misfire.per_minute},
            "jitter": duration_text(self.jitter // MICROSECOND),
            "overlap": self.overlap,
            "serialize_by": self.serialize_by,
            "preset": self.preset,
            "owner": self.owner,
            "declared_by": self.declared_by,
            "next_for": iso_or_none(self.next_for),
            "next_due": iso_or_none(self.next_due),
            "last_for": iso_or_none(self.last_for),
            "last_run": None if self.last_run is None else str(self.last_run),
            "fires": self.fires,
            "overlaps": self.overlaps,
            "reason": self.reason,
            "resume_at": iso_or_none(self.resume_at),
            "created_at": iso_utc(self.created_at),
            "updated_at": iso_utc(self.updated_at),
            "updated_by": self.updated_by,
            "run_times": None if self.run_times is None else self.run_times.to_json(),
            "last_ends": None if self.last_ends is None else self.last_ends.to_json(),
            "warning": self.warning,
        }


def schedule_view(record: ScheduleRecord) -> Schedule:
    """Show a schedule."""
    definition, pending = record.definition, record.pending
    return Schedule(
        id=UUID(bytes=record.id),
        name=record.name,
        status=str(record.status),
        version=record.version,
        timetable=definition.timetable,
        task=definition.call.task,
        arguments=json.loads(definition.call.arguments),
        queue=definition.call.queue,
        priority=definition.call.priority,
        misfire=definition.misfire,
        jitter=timedelta(microseconds=definition.jitter_us),
        overlap=str(definition.overlap),
        serialize_by=definition.serialize_by,
        preset=definition.preset,
        owner=record.owner,
        declared_by=record.declared_by,
        next_for=None if pending is None else from_microseconds(pending.scheduled_for),
        next_due=None if pending is None else from_microseconds(pending.due_at),
        last_for=moment_or_none(record.last_for),
        last_run=None if record.last_run is None else UUID(bytes=record.last_run),
        fires=record.fires,
        overlaps=record.overlaps,
        reason=record.reason,
        resume_at=moment_or_none(record.resume_at),
        created_at=from_microseconds(record.created_at),
        updated_at=from_microseconds(record.updated_at),
        updated_by=record.updated_by,
    )
