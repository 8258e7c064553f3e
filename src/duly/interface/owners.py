"""Owners over the wire: who is gone, and how far their schedules are paused."""

from __future__ import annotations

from duly.interface.shapes import Asked, Instant, Shown


class GoneOwner(Shown, frozen=True, kw_only=True):
    """An owner who is gone."""

    owner: str
    tenant: str
    gone_at: Instant
    said_by: str
    paused: int
    """How many schedules the order has paused that this answers; 0 in a list."""
    active: int
    """How many fire all the same: give the order again, and it goes on with these."""


class OwnersAsked(Asked, frozen=True, kw_only=True):
    """A page of those who are gone, by name."""

    limit: int = 100
    cursor: str | None = None
