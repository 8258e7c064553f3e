"""Backfills over the wire: a plan of what is missing, its making, and how that goes."""

from __future__ import annotations

from duly.interface.shapes import Asked, Identity, Instant, InstantText, Reason, Shown


class PlannedSlot(Shown, frozen=True, kw_only=True):
    """One occurrence of a plan, and what is known about it."""

    scheduled_for: Instant
    kind: str
    run_id: Identity | None
    reason: str | None
    is_chosen: bool


class BackfillPlan(Shown, frozen=True, kw_only=True):
    """The exact occurrences of a span, before anything is made."""

    schedule: str
    since: Instant
    until: Instant
    runs: int
    counts: dict[str, int]
    slots: list[PlannedSlot]


class Backfill(Shown, frozen=True, kw_only=True):
    """A backfill, as it was when it was looked at."""

    id: Identity
    schedule: str
    status: str
    version: int
    since: Instant
    until: Instant
    mode: str
    order: str
    classes: list[str]
    per_minute: int
    concurrency: int
    total: int
    looked_at: int
    made: int
    open: int
    reason: str | None
    created_at: Instant
    created_by: str
    updated_at: Instant
    resumes: Identity | None = None
    """The one that was called off, and what was left of which this one does; told of one alone."""


class BackfillQuery(Asked, frozen=True, kw_only=True):
    """Whose backfills: of one schedule, by its name or id, or of all."""

    schedule: str | None = None


class PlanBackfill(Asked, frozen=True, kw_only=True):
    """A span of a schedule whose occurrences are looked at; nothing is made."""

    schedule: str
    since: InstantText
    until: InstantText
    classes: list[str] | None = None
    mode: str | None = None


class NewBackfill(Asked, frozen=True, kw_only=True):
    """A span of a schedule whose runs are made, at a rate, so many at a time."""

    schedule: str
    since: InstantText
    until: InstantText
    classes: list[str] | None = None
    mode: str | None = None
    order: str | None = None
    per_minute: int | None = None
    concurrency: int | None = None
    runs: int | None = None
    """Make them only if a plan still shows as many."""
    reason: Reason | None = None


class ThrottleBackfill(Asked, frozen=True, kw_only=True):
    """Let a backfill go faster or slower."""

    per_minute: int | None = None
    concurrency: int | None = None
    reason: Reason | None = None


class ResumeFrom(Asked, frozen=True, kw_only=True):
    """Have what a backfill that was called off has left undone done by another."""

    reason: Reason
    runs: int | None = None
    """Make them only if the plan of the rest still shows as many."""
    per_minute: int | None = None
    """Its own pace, unless given."""
    concurrency: int | None = None
