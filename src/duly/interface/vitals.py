"""Vitals over the wire: triggers and completions side by side, and what is missing."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from duly.interface.schedules import BadEnding, Ending
from duly.interface.shapes import Asked, Identity, Instant, InstantText, Shown

Seconds = Annotated[float, Meta(description="A duration in seconds.")]


class TriggerVitals(Shown, frozen=True, kw_only=True):
    """Whether what is scheduled fires when it should; it says nothing about the work."""

    is_well: bool
    findings: list[str]
    schedules: int
    next_due_at: Instant | None
    last_fired_at: Instant | None
    last_run: Identity | None
    lateness: Seconds | None
    overdue: Seconds | None
    fires: int
    overlaps: int
    owed: int


class CompletionVitals(Shown, frozen=True, kw_only=True):
    """Whether the work gets done, and when it last was; it says nothing about triggers."""

    is_well: bool
    findings: list[str]
    last_finished_at: Instant | None
    last_success: Ending | None
    last_verified: Ending | None
    last_error: BadEnding | None
    last_useful: Ending | None
    useful_by: str
    """`verified` where the task has a check, `succeeded` where not; `either` of several tasks."""
    age: Seconds | None
    cadence: Seconds | None
    ratio: float | None
    """How many cadences old the last useful completion is."""
    behind: int
    unknown_through: Instant | None


class ActiveAttempt(Shown, frozen=True, kw_only=True):
    """An attempt that goes on."""

    run: Identity
    scheduled_for: Instant
    task: str
    attempt: int
    worker: int | None
    age: Seconds
    heartbeat_age: Seconds | None
    progress_done: int | None
    progress_total: int | None
    progress_age: Seconds | None


class WorkVitals(Shown, frozen=True, kw_only=True):
    """What goes on and what waits."""

    running: int
    attempts: list[ActiveAttempt]
    queued: int
    queue_delay: Seconds | None
    retrying: int
    dead: int
    ambiguous: int
    backfills: int
    backfill_left: int


class Lateness(Shown, frozen=True, kw_only=True):
    """How late runs were: half of them, 95 and 99 of 100 no later than this."""

    runs: int
    p50: Seconds | None
    p95: Seconds | None
    p99: Seconds | None


class FailureKind(Shown, frozen=True, kw_only=True):
    """One way in which runs went wrong."""

    state: str
    reason: str | None
    error: str | None
    runs: int


class WindowVitals(Shown, frozen=True, kw_only=True):
    """What the newest runs tell, and how far they reach."""

    runs: int
    since: Instant | None
    is_whole: bool
    """Whether those are all there are on record."""
    fired: Lateness
    started: Lateness
    useful_after: Lateness
    useful: int
    attempts: int
    retries: int
    useful_per_attempt: float | None
    failures: list[FailureKind]
    failures_more: int


class ScheduleVitals(Shown, frozen=True, kw_only=True):
    """One schedule on a line: its trigger and its completions, side by side."""

    id: Identity
    name: str
    task: str
    status: str
    as_of: Instant
    trigger: TriggerVitals
    completion: CompletionVitals


class VitalSigns(Shown, frozen=True, kw_only=True):
    """All that is known of how a schedule, a task or a tenant is doing."""

    of: str
    name: str
    as_of: Instant
    trigger: TriggerVitals
    completion: CompletionVitals
    work: WorkVitals
    window: WindowVitals
    not_well: list[ScheduleVitals]
    schedules_more: int


class VitalsAsked(Asked, frozen=True, kw_only=True):
    """Which schedules, in order of name; active ones unless another status is named."""

    status: str = "active"
    task: str | None = None
    name_prefix: str | None = None
    limit: int = 100
    cursor: str | None = None


class MissingAsked(Asked, frozen=True, kw_only=True):
    """From when on, up to when, and of which schedule; a hundred of them at a time."""

    since: InstantText
    until: InstantText | None = None
    schedule: str | None = None
    cursor: str | None = None


class MissingRun(Shown, frozen=True, kw_only=True):
    """An occurrence that the timetable asks for, and that has no run."""

    schedule: str
    schedule_id: Identity
    scheduled_for: Instant
    due_at: Instant
    label: str
    verdict: str
    """`missing`; or `owed` or `held`, which are on record and decided later."""
    cause: str | None
    says: str


class LookedFrom(Shown, frozen=True, kw_only=True):
    """A schedule that fires so often that not all was looked at, and from when on it was."""

    schedule: str
    since: Instant


class MissingFound(Shown, frozen=True, kw_only=True):
    """What was found in some schedules, and how to go on."""

    items: list[MissingRun]
    cut: list[LookedFrom]
    slots: int
    schedules: int
    next_cursor: str | None = None
