"""Limits, quotas and breakers over the wire: how much may go on, be asked for, and be called."""

from __future__ import annotations

from duly.interface.shapes import Asked, Instant, Reason, Shown


class Limit(Shown, frozen=True, kw_only=True):
    """What somebody has said about a task, a tenant or a destination, or of each of them."""

    name: str
    running: int | None
    rate: str | None
    running_by: dict[str, int]
    source: str
    set_by: str
    set_at: Instant
    reason: str | None


class Place(Shown, frozen=True, kw_only=True):
    """How much of a limit is taken at this moment."""

    name: str
    held: int
    waiting: int
    next_at: Instant | None


class SetLimit(Asked, frozen=True, kw_only=True):
    """A limit in place of what was set before."""

    running: int | None = None
    rate: str | None = None
    running_by: dict[str, int] | None = None
    reason: Reason | None = None


class Removed(Shown, frozen=True, kw_only=True):
    """Whether there was something to remove."""

    is_removed: bool


class Breaker(Shown, frozen=True, kw_only=True):
    """What is known of a destination."""

    destination: str
    state: str
    succeeded: int
    failed: int
    running: int
    waiting: int
    """How many runs were put off because of it."""
    opened_at: Instant | None
    retry_at: Instant | None
    updated_at: Instant


class Quota(Shown, frozen=True, kw_only=True):
    """One quota on one line."""

    scope: str
    tenant: str | None
    counted: str
    most: int | None
    version: int
    is_default: bool
    updated_at: Instant | None
    updated_by: str | None


class SetQuotas(Asked, frozen=True, kw_only=True):
    """Quotas of a scope; what is not given stays, and "none" lifts one."""

    tenant: str | None = None
    schedules: int | str | None = None
    creations: int | str | None = None
    pending: int | str | None = None
    reason: Reason | None = None


class Removal(Asked, frozen=True, kw_only=True):
    """What is said of a removal."""

    reason: Reason | None = None


class QuotaRemoval(Asked, frozen=True, kw_only=True):
    """Whose quotas are removed, and why."""

    tenant: str | None = None
    reason: Reason | None = None
