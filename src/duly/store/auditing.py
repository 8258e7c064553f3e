"""What an audit entry says, whichever database keeps it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly.domain.audit import Actor, schedule_facts
from duly.domain.identity import identity_text

if TYPE_CHECKING:
    from duly.domain.runs import DelayedRecord
    from duly.domain.schedules import ScheduleRecord

SYSTEM = Actor("duly", "store")
"""Who has decided what no person did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What an audit entry is about."""

    name: str
    tenant: str = ""
    id: bytes | None = None
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


def entry_row(now: int, actor: Actor, action: str, subject: Subject) -> tuple[Any, ...]:
    """Return the columns of an entry, from its time to what it says, as every database has them."""
    return (
        now,
        actor.name,
        actor.source,
        actor.reason,
        action,
        subject.tenant,
        subject.name,
        subject.id,
        facts_text(subject.before),
        facts_text(subject.after),
    )


def facts_text(facts: dict[str, Any] | None) -> str | None:
    """Write facts as they are stored."""
    return None if facts is None else json.dumps(facts, ensure_ascii=False, separators=(",", ":"))


def created_subject(record: ScheduleRecord) -> Subject:
    """Return what is told of a schedule that was made."""
    return Subject(
        name=record.name, tenant=record.tenant, id=record.id, after=schedule_facts(record)
    )


def changed_subject(old: ScheduleRecord, changed: ScheduleRecord) -> Subject:
    """Return what is told of a schedule that was changed."""
    return Subject(
        name=changed.name,
        tenant=changed.tenant,
        id=changed.id,
        before=schedule_facts(old),
        after=schedule_facts(changed),
    )


def delayed_subject(
    delayed: DelayedRecord, before: dict[str, object], after: dict[str, object] | None
) -> Subject:
    """Return what is told of a delayed run."""
    name = delayed.key or identity_text(delayed.id)
    return Subject(name=name, tenant=delayed.tenant, id=delayed.id, before=before, after=after)
