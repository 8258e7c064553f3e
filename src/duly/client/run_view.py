"""Runs as people and programs see them: aware datetimes, UUIDs, and a readable label."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.client.labels import run_label
from duly.domain.durations import duration_text
from duly.domain.instants import from_microseconds, iso_utc
from duly.domain.literals import Origin

if TYPE_CHECKING:
    from duly.domain.runs import DelayedRecord, RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run, as it was when it was looked at.

    A task that has a parameter annotated with this type receives its own run there.
    """

    id: UUID
    label: str
    schedule: str | None
    """The name of the schedule it came from, if it came from one."""
    schedule_id: UUID | None
    key: str | None
    scheduled_for: datetime
    window: tuple[datetime | None, datetime] | None
    """Of a schedule's run: (last occurrence that was run, this one]; None before the first."""
    attempt: int
    """0 while no worker has started it."""
    fence: int
    origin: str
    root: UUID
    """The run that a rerun repeats; its own id otherwise."""
    lane: str
    state: str
    reason: str | None
    task: str
    arguments: dict[str, Any]
    queue: str
    priority: int
    due_at: datetime
    """When it fell due: its nominal time and its jitter."""
    created_at: datetime
    fired_at: datetime | None
    """When it became visible to workers."""
    finished_at: datetime | None
    lateness: timedelta | None
    """How long after it fell due it became visible to workers."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        window = None
        if self.window is not None:
            window = [_iso(self.window[0]), iso_utc(self.window[1])]
        late = self.lateness
        return {
            "id": str(self.id),
            "label": self.label,
            "schedule": self.schedule,
            "schedule_id": None if self.schedule_id is None else str(self.schedule_id),
            "key": self.key,
            "scheduled_for": iso_utc(self.scheduled_for),
            "window": window,
            "attempt": self.attempt,
            "fence": self.fence,
            "origin": self.origin,
            "root": str(self.root),
            "lane": self.lane,
            "state": self.state,
            "reason": self.reason,
            "task": self.task,
            "arguments": self.arguments,
            "queue": self.queue,
            "priority": self.priority,
            "due_at": iso_utc(self.due_at),
            "created_at": iso_utc(self.created_at),
            "fired_at": _iso(self.fired_at),
            "finished_at": _iso(self.finished_at),
            "lateness": None if late is None else duration_text(late // timedelta(microseconds=1)),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueuedRun:
    """The answer to an order: the run that was promised, and whether this call made it."""

    id: UUID
    due_at: datetime
    is_new: bool
    key: str | None
    label: str

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "id": str(self.id),
            "due_at": iso_utc(self.due_at),
            "is_new": self.is_new,
            "key": self.key,
            "label": self.label,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedRun:
    """A delayed run that is still pending: it can be moved, cancelled or replaced."""

    id: UUID
    label: str
    key: str | None
    task: str
    arguments: dict[str, Any]
    queue: str
    priority: int
    due_at: datetime
    moves: int
    """How often it was moved."""
    created_at: datetime

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "id": str(self.id),
            "label": self.label,
            "key": self.key,
            "task": self.task,
            "arguments": self.arguments,
            "queue": self.queue,
            "priority": self.priority,
            "due_at": iso_utc(self.due_at),
            "moves": self.moves,
            "created_at": iso_utc(self.created_at),
        }


def run_view(record: RunRecord, tz: str | None) -> Run:
    """Show a run; `tz` is the zone of its schedule, which its label is written in."""
    name = record.schedule_name or record.key or record.call.task
    window = None
    if record.schedule_id is not None and record.origin is not Origin.MANUAL:
        since = None if record.window_from is None else from_microseconds(record.window_from)
        window = (since, from_microseconds(record.scheduled_for))
    late_us = None if record.fired_at is None else record.fired_at - record.not_before
    return Run(
        id=UUID(bytes=record.id),
        label=run_label(name, record.scheduled_for, tz),
        schedule=record.schedule_name,
        schedule_id=None if record.schedule_id is None else UUID(bytes=record.schedule_id),
        key=record.key,
        scheduled_for=from_microseconds(record.scheduled_for),
        window=window,
        attempt=0,
        fence=0,
        origin=str(record.origin),
        root=UUID(bytes=record.root),
        lane=str(record.lane),
        state=str(record.state),
        reason=record.state_reason,
        task=record.call.task,
        arguments=json.loads(record.call.arguments),
        queue=record.call.queue,
        priority=record.call.priority,
        due_at=from_microseconds(record.not_before),
        created_at=from_microseconds(record.created_at),
        fired_at=_moment(record.fired_at),
        finished_at=_moment(record.finished_at),
        lateness=None if late_us is None else timedelta(microseconds=late_us),
    )


def delayed_view(record: DelayedRecord) -> DelayedRun:
    """Show a delayed run that is pending."""
    return DelayedRun(
        id=UUID(bytes=record.id),
        label=run_label(record.key or record.call.task, record.due_at, None),
        key=record.key,
        task=record.call.task,
        arguments=json.loads(record.call.arguments),
        queue=record.call.queue,
        priority=record.call.priority,
        due_at=from_microseconds(record.due_at),
        moves=record.generation - 1,
        created_at=from_microseconds(record.created_at),
    )


def _moment(instant: int | None) -> datetime | None:
    return None if instant is None else from_microseconds(instant)


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else iso_utc(moment)
