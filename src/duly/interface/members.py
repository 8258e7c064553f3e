"""Members over the wire: the dispatchers and workers of a fleet."""

from __future__ import annotations

from duly.interface.shapes import Asked, Duration, Instant, Reason, Shown


class Member(Shown, frozen=True, kw_only=True):
    """A process of the fleet."""

    id: int
    kind: str
    host: str
    process: int
    is_alive: bool
    is_holding: bool
    started_at: Instant
    renewed_at: Instant
    expires_at: Instant
    skew: Duration
    tzdata: str
    leases: int
    slots: int
    leaked: int
    running: int
    queues: list[str]
    standing: str | None
    """Of a worker that is out of service: draining or quarantined."""


class QuarantinedHost(Shown, frozen=True, kw_only=True):
    """A host of which no worker claims anything."""

    host: str
    since: Instant
    by: str
    reason: str | None


class QuarantineWorker(Asked, frozen=True, kw_only=True):
    """Let a worker claim nothing more until it is released."""

    reason: Reason
    fence: bool = False
    """Take from it what it holds, as from one that has died."""
    host: bool = False
    """All workers of its host, and those that are started there."""


class ReleaseWorker(Asked, frozen=True, kw_only=True):
    """Let a worker claim again."""

    reason: Reason | None = None
    host: bool = False
    """All workers of its host."""
