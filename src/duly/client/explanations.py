"""Why a run is late, stuck, waiting or dead, from recorded facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.client.status import unplaced
from duly.domain.enums import Lane, Origin, RunState
from duly.domain.explain import Down, LimitUsage, MemberPresence, RecordedOrder, RunFacts, explain
from duly.domain.limits import LimitReason, why_of
from duly.domain.runs import RunRecord
from duly.errors import NotFound
from duly.store.ports.dispatch import MemberKind
from duly.store.ports.queries import AuditFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.client.caller import Caller
    from duly.domain.audit import AuditEntry
    from duly.domain.ids import RunId
    from duly.domain.runs import DelayedRecord
    from duly.store.ports import Store
    from duly.store.ports.dispatch import Member
    from duly.store.ports.operations import QueueRecord


ENTRIES_MAX = 200
_ENDINGS = (
    *("run.cancelled", "run.cancel-asked", "run.discarded", "run.settled"),
    "delayed.cancelled",
)


def read_run_facts(caller: Caller, run_id: RunId) -> RunFacts | None:
    """Read all that is known about a run, pending or made; None when there is none.

    To a tenant's caller processes have numbers and no places, and queues hold what is its own.
    """
    store = caller.store
    run = store.get_run(run_id, caller.tenant)
    pending = store.get_delayed(run_id, caller.tenant) if run is None else None
    if run is None and pending is None:
        return None
    record = run if run is not None else _promised(pending)
    if record.tenant != caller.tenant:
        return None
    status = store.status()
    members = unplaced(status.members) if caller.is_confined else status.members
    queue = _queue(store, record.call.queue)
    return RunFacts(
        now=status.now,
        run=record,
        attempts=store.list_attempts(run_id),
        dispatchers=_lives(members, MemberKind.DISPATCHER),
        workers=_lives(members, MemberKind.WORKER),
        is_pending=run is None,
        is_served=store.is_served(record.call.task, record.call.queue),
        paused=None if queue is None else _pause(queue),
        was_paused=_pauses(store, record.call.queue),
        queued=_queued(caller, queue),
        ended_by=_ended_by(store, record),
        **_waits_for(store, record),
    )


def _waits_for(store: Store, run: RunRecord) -> dict[str, Any]:
    """Read about the limit or the destination that a run waits for, if it does."""
    waits = why_of(run.state_reason)
    if waits is None:
        return {}
    why, which = waits
    if why is LimitReason.BREAKER:
        down = next((one for one in store.list_breakers() if one.destination == which), None)
        if down is None:
            return {}
        return {"breaker": Down(str(down.breaker.state), down.breaker.retry_at)}
    table = store.list_limits()
    place = next((one for one in store.list_places() if one.place == which), None)
    rate = table.of(which).rate if why is LimitReason.RATE else None
    taken = LimitUsage(
        held=0 if place is None else place.held,
        waiting=0 if place is None else place.waiting,
        most=table.of_place(which) if why is LimitReason.CAP else None,
        rate=None if rate is None else rate.text,
    )
    return {"taken": taken}


def _lives(members: Sequence[Member], kind: MemberKind) -> list[MemberPresence]:
    return [
        MemberPresence(
            name=f"{one.id} on {one.host}, process {one.process}" if one.host else str(one.id),
            is_alive=one.is_alive,
            started_at=one.started_at,
            renewed_at=one.renewed_at,
            is_holding=one.is_holding,
            free=max(one.slots - one.leaked - one.running, 0),
            slots=one.slots,
            queues=one.queues,
            id=one.id,
            standing=None if one.standing is None else str(one.standing),
        )
        for one in members
        if one.kind is kind
    ]


def _queue(store: Store, name: str) -> QueueRecord | None:
    return next((one for one in store.list_queues() if one.name == name), None)


def _queued(caller: Caller, queue: QueueRecord | None) -> int:
    if queue is None or not caller.is_confined:
        return 0 if queue is None else queue.queued
    own = caller.store.count_tenant(caller.tenant).queues.get(queue.name)
    return 0 if own is None else own.queued


def _pause(queue: QueueRecord) -> RecordedOrder | None:
    if queue.paused_at is None:
        return None
    return RecordedOrder(at=queue.paused_at, who=queue.paused_by or "somebody", why=queue.reason)


def _pauses(store: Store, queue: str) -> list[tuple[RecordedOrder, int]]:
    """Return past pauses of a queue, each with the moment at which it was resumed."""
    found: list[tuple[RecordedOrder, int]] = []
    paused: RecordedOrder | None = None
    entries = store.list_audit(AuditFilter(subject=queue, limit=ENTRIES_MAX))
    for entry in reversed(entries):
        if entry.action == "queue.paused" and paused is None:
            paused = _order(entry)
        elif entry.action == "queue.resumed" and paused is not None:
            found.append((paused, entry.at))
            paused = None
    return found


def _ended_by(store: Store, run: RunRecord) -> RecordedOrder | None:
    command = AuditFilter(tenant=run.tenant, subject_id=run.id, limit=ENTRIES_MAX)
    entries = store.list_audit(command)
    return next((_order(entry) for entry in entries if entry.action in _ENDINGS), None)


def _order(entry: AuditEntry) -> RecordedOrder:
    return RecordedOrder(at=entry.at, who=entry.actor.name, why=entry.actor.reason)


def _promised(pending: DelayedRecord | None) -> RunRecord:
    """Show a delayed run that has not fired as the run it will be."""
    assert pending is not None, "there is a run or a promise of one"
    return RunRecord(
        id=pending.id,
        tenant=pending.tenant,
        schedule_id=None,
        schedule_name=None,
        definition_number=None,
        key=pending.key,
        call=pending.call,
        origin=Origin.DELAY,
        lane=Lane.LIVE,
        root=pending.id,
        scheduled_for=pending.due_at,
        not_before=pending.due_at,
        window_from=None,
        created_at=pending.created_at,
        fired_at=None,
        state=RunState.QUEUED,
        state_reason=None,
        finished_at=None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunExplanation:
    """One sentence about a run, what it rests on, and what to do, if anything."""

    id: UUID
    state: str
    """As `Run.state`, or pending."""
    cause: str
    """A code for each kind of explanation, such as queue-paused."""
    sentence: str
    evidence: tuple[tuple[str, str], ...]
    """What it rests on: each fact by its name, in words."""
    remedy: str | None

    def __str__(self) -> str:
        return self.sentence

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "id": str(self.id),
            "state": self.state,
            "cause": self.cause,
            "sentence": self.sentence,
            "evidence": [{"fact": name, "is": fact} for name, fact in self.evidence],
            "remedy": self.remedy,
        }


def explain_run(caller: Caller, run_id: RunId) -> RunExplanation:
    """Explain a run, pending or made; NotFound when there is none."""
    facts = read_run_facts(caller, run_id)
    identity = UUID(bytes=run_id)
    if facts is None:
        raise NotFound("run", identity, "list them with app.runs.list()")
    found = explain(facts)
    return RunExplanation(
        id=identity,
        state="pending" if facts.is_pending else str(facts.run.state),
        cause=str(found.cause),
        sentence=found.sentence,
        evidence=found.evidence,
        remedy=found.remedy,
    )
