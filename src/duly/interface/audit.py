"""The audit trail over the wire: which entries are asked for."""

from __future__ import annotations

from duly.interface.shapes import Asked, InstantText


class AuditAsked(Asked, frozen=True, kw_only=True):
    """Which entries, newest first."""

    subject: str | None = None
    """What was ordered about: a schedule's name, a delayed run's key."""
    subject_id: str | None = None
    action: str | None = None
    """Such as `schedule.paused`."""
    actor: str | None = None
    since: InstantText | None = None
    until: InstantText | None = None
    all_tenants: bool = False
    """Of every tenant, and of none; for a token that may name any."""
    limit: int = 100
    cursor: str | None = None


class EventsAsked(Asked, frozen=True, kw_only=True):
    """From where on events are to be told."""

    after: int | None = None
    """The number of the last one that was seen; from now on unless given."""
    all_tenants: bool = False
    """Of every tenant, and of none; for a token that may name any."""
