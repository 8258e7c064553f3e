"""Vitals as people and programs see them: triggers and completions side by side."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from duly.timetable.instants import from_microseconds, iso_or_none, iso_utc

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from duly.client.last_ends import BadEnding, Ending
    from duly.client.status import Finding
    from duly.domain.vitals import FailureKind, Lateness, VitalsWindow

VERIFIED = "verified"
SUCCEEDED = "succeeded"
EITHER = "either"
"""Of several tasks: verified for those that have a check, succeeded for the others."""
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerVitals:
    """Whether what is scheduled fires when it should."""

    schedules: int
    """How many active ones were looked at."""
    next_due_at: datetime | None
    last_fired_at: datetime | None
    """When a run was last created by a schedule."""
    last_run: UUID | None
    lateness: timedelta | None
    """How long after its due that was."""
    overdue: timedelta | None
    """How long the oldest occurrence that has not fired is due; None if none is."""
    fires: int
    overlaps: int
    """How many occurrences found an earlier run open."""
    owed: int
    """Ranges of occurrences that are to be caught up with."""
    findings: tuple[Finding, ...]

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong with the trigger; it says nothing about the work."""
        return not self.findings

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values; durations in seconds."""
        return {
            "is_well": self.is_well,
            "findings": [str(one) for one in self.findings],
            "schedules": self.schedules,
            "next_due_at": iso_or_none(self.next_due_at),
            "last_fired_at": iso_or_none(self.last_fired_at),
            "last_run": None if self.last_run is None else str(self.last_run),
            "lateness": _seconds(self.lateness),
            "overdue": _seconds(self.overdue),
            "fires": self.fires,
            "overlaps": self.overlaps,
            "owed": self.owed,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionVitals:
    """Whether the work gets done, and when it last was."""

    last_finished_at: datetime | None
    """When an attempt was last over, however it ended."""
    last_success: Ending | None
    last_verified: Ending | None
    last_error: BadEnding | None
    last_useful: Ending | None
    useful_by: str
    """What counts as useful: `verified` where the task has a check, `succeeded` where not."""
    age: timedelta | None
    """How old the last useful completion is."""
    cadence: timedelta | None
    """How far apart occurrences are around now."""
    behind: int
    """How many occurrences have fallen due since the last useful one; a thousand at the most."""
    unknown_through: datetime | None
    """What fell due up to then was not looked at, or is not kept: None above is not never."""
    findings: tuple[Finding, ...]

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong with the work; it says nothing about the trigger."""
        return not self.findings

    @property
    def ratio(self) -> float | None:
        """How many cadences old the last useful completion is."""
        return None if self.age is None or not self.cadence else self.age / self.cadence

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values; durations in seconds."""
        ratio = self.ratio
        return {
            "is_well": self.is_well,
            "findings": [str(one) for one in self.findings],
            "last_finished_at": iso_or_none(self.last_finished_at),
            "last_success": _shown(self.last_success),
            "last_verified": _shown(self.last_verified),
            "last_error": _shown(self.last_error),
            "last_useful": _shown(self.last_useful),
            "useful_by": self.useful_by,
            "age": _seconds(self.age),
            "cadence": _seconds(self.cadence),
            "ratio": None if ratio is None else round(ratio, 3),
            "behind": self.behind,
            "unknown_through": iso_or_none(self.unknown_through),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveAttempt:
    """An attempt that goes on."""

    run: UUID
    scheduled_for: datetime
    task: str
    attempt: int
    worker: int | None
    age: timedelta
    """Since it was claimed."""
    heartbeat_age: timedelta | None
    """Since its worker was last heard of; None if nothing is known of that one."""
    progress_done: int | None
    progress_total: int | None
    progress_age: timedelta | None
    """Since it last said that it had advanced."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values; durations in seconds."""
        return {
            "run": str(self.run),
            "scheduled_for": iso_utc(self.scheduled_for),
            "task": self.task,
            "attempt": self.attempt,
            "worker": self.worker,
            "age": _seconds(self.age),
            "heartbeat_age": _seconds(self.heartbeat_age),
            "progress_done": self.progress_done,
            "progress_total": self.progress_total,
            "progress_age": _seconds(self.progress_age),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkVitals:
    """What goes on and what waits."""

    running: int
    attempts: tuple[ActiveAttempt, ...]
    """Those that go on, the oldest first; a few of them at the most."""
    queued: int
    queue_delay: timedelta | None
    """How long the one that waits longest in a queue has waited; None if none does."""
    retrying: int
    dead: int
    ambiguous: int
    backfills: int
    """How many go on."""
    backfill_left: int
    """Occurrences that those have not looked at yet."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values; durations in seconds."""
        return {
            "running": self.running,
            "attempts": [one.to_json() for one in self.attempts],
            "queued": self.queued,
            "queue_delay": _seconds(self.queue_delay),
            "retrying": self.retrying,
            "dead": self.dead,
            "ambiguous": self.ambiguous,
            "backfills": self.backfills,
            "backfill_left": self.backfill_left,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowVitals:
    """What the newest runs tell, and how far they reach."""

    window: VitalsWindow
    is_whole: bool
    """Whether those are all there are on record."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values; durations in seconds."""
        seen = self.window
        rate = seen.useful_per_attempt
        return {
            "runs": seen.runs,
            "since": None if seen.since is None else iso_utc(from_microseconds(seen.since)),
            "is_whole": self.is_whole,
            "fired": _lateness(seen.fired),
            "started": _lateness(seen.started),
            "useful_after": _lateness(seen.useful_after),
            "useful": seen.useful,
            "attempts": seen.attempts,
            "retries": seen.retries,
            "useful_per_attempt": None if rate is None else round(rate, 4),
            "failures": [_failure(one) for one in seen.failures],
            "failures_more": seen.failures_more,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleVitals:
    """One schedule on a line: its trigger and its completions, side by side."""

    id: UUID
    name: str
    task: str
    status: str
    as_of: datetime
    trigger: TriggerVitals
    completion: CompletionVitals

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "id": str(self.id),
            "name": self.name,
            "task": self.task,
            "status": self.status,
            "as_of": iso_utc(self.as_of),
            "trigger": self.trigger.to_json(),
            "completion": self.completion.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class VitalSigns:
    """All that is known of how a schedule, a task or a tenant is doing."""

    of: str
    """`schedule`, `task` or `tenant`."""
    name: str
    as_of: datetime
    trigger: TriggerVitals
    completion: CompletionVitals
    work: WorkVitals
    window: WindowVitals
    not_well: tuple[ScheduleVitals, ...]
    """Of a task or a tenant: schedules of which something is wrong, the worst first."""
    schedules_more: int
    """How many active schedules there are at least that were not looked at."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "of": self.of,
            "name": self.name,
            "as_of": iso_utc(self.as_of),
            "trigger": self.trigger.to_json(),
            "completion": self.completion.to_json(),
            "work": self.work.to_json(),
            "window": self.window.to_json(),
            "not_well": [one.to_json() for one in self.not_well],
            "schedules_more": self.schedules_more,
        }


def span(microseconds: int | None) -> timedelta | None:
    """Return microseconds as a duration."""
    return None if microseconds is None else microseconds * _MICROSECOND


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()


def _shown(ending: Ending | None) -> dict[str, Any] | None:
    return None if ending is None else ending.to_json()


def _lateness(seen: Lateness) -> dict[str, Any]:
    parts = {"p50": seen.p50, "p95": seen.p95, "p99": seen.p99}
    return {"runs": seen.runs} | {name: _seconds(span(part)) for name, part in parts.items()}


def _failure(kind: FailureKind) -> dict[str, Any]:
    return dict(kind._asdict())
