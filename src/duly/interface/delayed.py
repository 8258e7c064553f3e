"""Delayed runs over the wire, while they are pending: how one is shown and moved."""

from __future__ import annotations

from typing import Any

from duly.interface.shapes import Asked, Duration, Identity, Instant, InstantText, Reason, Shown


class DelayedRun(Shown, frozen=True, kw_only=True):
    """A delayed run that is still pending."""

    id: Identity
    label: str
    key: str | None
    task: str
    arguments: dict[str, Any]
    queue: str
    priority: int
    due_at: Instant
    moves: int
    created_at: Instant


class DelayedAsked(Asked, frozen=True, kw_only=True):
    """How many of them, in order of due."""

    limit: int = 100
    cursor: str | None = None


class Move(Asked, frozen=True, kw_only=True):
    """A pending run is to fall due at another time: `at` an instant, or after a `delay`."""

    at: InstantText | None = None
    delay: Duration | None = None
    past: str | None = None
    """What an instant in the past means; `run`: at once. Unless given it is refused."""
    reason: Reason | None = None
