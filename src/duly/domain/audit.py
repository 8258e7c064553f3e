"""The audit trail's words: who ordered or decided what, when, why, from where, before and after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly.domain.instants import from_microseconds, iso_utc

if TYPE_CHECKING:
    from duly.domain.runs import DelayedRecord
    from duly.domain.schedules import ScheduleRecord


@dataclass(frozen=True, slots=True)
class Actor:
    """Whoever gives an order, and by which way it came in."""

    name: str
    """A person, a program, or `duly` when the system decides by itself."""
    source: str
    """Library, cli, dispatcher, declaration, …"""
    reason: str | None = None
    address: str | None = None
    """From which address of the network; None for whoever did not come over one."""
    credential: str | None = None
    """By which token or session he was known: `token:` or `session:` and its id, never a secret."""


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


def schedule_facts(record: ScheduleRecord) -> dict[str, Any]:
    """Return what an audit entry tells about a schedule before and after a change."""
    pending = record.pending
    return {
        "name": record.name,
        "owner": record.owner,
        "status": str(record.status),
        "version": record.version,
        "reason": record.reason,
        "next_for": instant_text(pending.scheduled_for if pending else None),
        "next_due": instant_text(pending.due_at if pending else None),
        "held_for": instant_text(record.held_for),
        "resume_at": instant_text(record.resume_at),
        "definition": record.definition.to_json(),
    }


def delayed_facts(record: DelayedRecord) -> dict[str, Any]:
    """Return what an audit entry tells about a delayed run before and after a change."""
    return {
        "key": record.key,
        "task": record.call.task,
        "due_at": instant_text(record.due_at),
        "generation": record.generation,
    }


def instant_text(instant: int | None) -> str | None:
    """Return an instant as audit entries tell it."""
    return None if instant is None else iso_utc(from_microseconds(instant))
