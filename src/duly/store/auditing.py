"""What an audit entry says, whichever database keeps it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from duly.domain.audit import Actor, AuditSubject, instant_text, schedule_facts
from duly.domain.ids import identity_text

if TYPE_CHECKING:
    from duly.domain.ids import RunId
    from duly.domain.runs import AttemptCounts, DelayedRecord
    from duly.domain.schedules import ScheduleRecord
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.execution import FinishAttempt, LostClaim
    from duly.store.work_rulings import WorkerLease


SYSTEM = Actor("duly", "store")
"""Who has decided what no person did."""


def entry_row(now: int, actor: Actor, action: str, subject: AuditSubject) -> tuple[Any, ...]:
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
        actor.address,
        actor.credential,
    )


def facts_text(facts: dict[str, Any] | None) -> str | None:
    """Write facts as they are stored."""
    return None if facts is None else json.dumps(facts, ensure_ascii=False, separators=(",", ":"))


def created_subject(record: ScheduleRecord) -> AuditSubject:
    """Return what is told of a schedule that was made."""
    return AuditSubject(
        name=record.name, tenant=record.tenant, id=record.id, after=schedule_facts(record)
    )


def queue_subject(name: str, *, is_paused: bool) -> AuditSubject:
    """Return what is told of a queue that was paused or resumed; the entry has the reason."""
    states = {"status": "open"}, {"status": "paused"}
    before, after = states if is_paused else states[::-1]
    return AuditSubject(name=name, before=dict(before), after=dict(after))


def changed_subject(old: ScheduleRecord, changed: ScheduleRecord) -> AuditSubject:
    """Return what is told of a schedule that was changed."""
    return AuditSubject(
        name=changed.name,
        tenant=changed.tenant,
        id=changed.id,
        before=schedule_facts(old),
        after=schedule_facts(changed),
    )


def delayed_subject(
    delayed: DelayedRecord, before: dict[str, object], after: dict[str, object] | None
) -> AuditSubject:
    """Return what is told of a delayed run."""
    name = delayed.key or identity_text(delayed.id)
    return AuditSubject(name=name, tenant=delayed.tenant, id=delayed.id, before=before, after=after)


def run_subject(
    run_id: RunId,
    tenant: str,
    *,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> AuditSubject:
    """Return what is told of a run."""
    return AuditSubject(
        name=identity_text(run_id), tenant=tenant, id=run_id, before=before, after=after
    )


def refused_subject(worker: MemberId, finish: FinishAttempt, tenant: str) -> AuditSubject:
    """Return what is told of a completion by somebody who no longer held the run."""
    said = str(finish.conclusion.attempt_state)
    after = {"worker": worker, "fence": finish.hold.fence, "state": said}
    return run_subject(finish.hold.run_id, tenant, after=after)


def lost_subject(claim: LostClaim, tenant: str, lease: WorkerLease | None) -> AuditSubject:
    """Return what is told of a claim that was taken from its worker, and of that one's lease."""
    after = {
        "worker": claim.worker,
        "worker_name": None if lease is None else lease.name,
        "heartbeat_at": None if lease is None else instant_text(lease.renewed_at),
        "lease_until": None if lease is None else instant_text(lease.expires_at),
        "fence": claim.hold.fence,
        "attempt": claim.tries.attempt,
        "kind": str(claim.kind),
    }
    return run_subject(claim.hold.run_id, tenant, after=after)


def dead_subject(run_id: RunId, tenant: str, reason: str, tries: AttemptCounts) -> AuditSubject:
    """Return what is told of a run that went to the dead letters; its tries as that left them."""
    after = {"reason": reason, "attempt": tries.attempt, "charged": tries.charged}
    return run_subject(run_id, tenant, after=after)


def doubt_subject(run_id: RunId, tenant: str, reason: str, tries: AttemptCounts) -> AuditSubject:
    """Return what is told of a run of which nobody knows what it did."""
    after = {"reason": reason, "attempt": tries.attempt, "fence": tries.fence}
    return run_subject(run_id, tenant, after=after)


def declared_dead_subject(member: MemberId, heir: MemberId) -> AuditSubject:
    """Return what is told of a worker whose claims were taken."""
    return AuditSubject(name=f"member {member}", after={"taken_over_by": heir})


def edited_subject(run_id: RunId, tenant: str, before: str, after: str) -> AuditSubject:
    """Return what is told of a run whose arguments were replaced."""
    return run_subject(
        run_id,
        tenant,
        before={"arguments": json.loads(before)},
        after={"arguments": json.loads(after)},
    )


def ordered_subject(
    run_id: RunId, tenant: str, state: str, reason: str | None = None
) -> AuditSubject:
    """Return what is told of a run that a person gave an order about: where it was, and why."""
    return run_subject(run_id, tenant, before={"state": str(state), "reason": reason})
