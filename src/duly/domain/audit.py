"""The audit trail's words: who ordered or decided what, when, why, from where, before and after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Actor:
    """Whoever gives an order, and by which way it came in."""

    name: str
    """A person, a program, or `duly` when the system decides by itself."""
    source: str
    """Library, cli, dispatcher, declaration, …"""
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One order or decision, as it was recorded in the transaction that carried it out."""

    number: int
    """Grows with every entry; the order in which they were written."""
    at: int
    actor: Actor
    action: str
    """What was done: `schedule.paused`, `delayed.cancelled`, `lease.refused`."""
    tenant: str
    subject: str
    """What it was done to: a schedule's name, a delayed run's key or id, a member."""
    subject_id: bytes | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None
