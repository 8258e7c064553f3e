"""Selections over the wire: runs that a filter found, frozen, and orders about all of them (A1)."""

from __future__ import annotations

from typing import Any

from duly.wire.runs import Run
from duly.wire.shapes import Asked, Identity, Instant, InstantText, Reason, Shown


class Selection(Shown, frozen=True, kw_only=True):
    """The runs that a filter found: what an order about them touches, and nothing else."""

    id: Identity
    count: int
    sample: list[Run]
    """The newest of them, as they are now."""
    chosen_by: dict[str, Any]
    made_by: str
    as_of: Instant
    expires_at: Instant


class NewSelection(Asked, frozen=True, kw_only=True):
    """Which runs; dead ones unless told."""

    schedule: str | None = None
    key: str | None = None
    task: str | None = None
    queue: str | None = None
    state: list[str] | None = None
    reason: str | None = None
    """Why a run is dead, or ended as it did."""
    origin: str | None = None
    since: InstantText | None = None
    until: InstantText | None = None
    limit: int | None = None
    """Take the newest so many; without it more than one order takes are refused."""


class OrderSelection(Asked, frozen=True, kw_only=True):
    """An order about all runs of a selection."""

    reason: Reason | None = None
    confirm: int | None = None
    """How many they are, typed once more: needed for more than a hundred."""
