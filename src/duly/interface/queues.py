"""Queues over the wire: what waits in them, and whether anything is handed out."""

from __future__ import annotations

from duly.interface.shapes import Instant, Shown


class Queue(Shown, frozen=True, kw_only=True):
    """A queue on one line."""

    name: str
    queued: int
    running: int
    oldest_at: Instant | None
    paused_at: Instant | None
    paused_by: str | None
    reason: str | None
