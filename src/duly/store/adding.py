"""Adding runs: what every database decides alike about each that somebody asks for.

What it takes to look something up or to write it is each database's own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.domain.audit import AuditSubject
from duly.domain.enums import Origin
from duly.domain.ids import identity_text
from duly.store.ports.schedules import AddedRun
from duly.store.rulings import (
    added_by_hand,
    due_of,
    key_taken,
    refuse_another_request,
    refuse_deleted,
    triggered_facts,
    unknown_schedule,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.audit import Actor
    from duly.domain.ids import RunId, ScheduleId
    from duly.domain.runs import DelayedRecord
    from duly.store.ports.schedules import AddRuns, NewRun
    from duly.store.records import Row
    from duly.store.rulings import KnownRequest


@dataclass(frozen=True, slots=True)
class EarlierRequest:
    """A request that was made before, and what has become of it."""

    requested: KnownRequest
    due_at: int
    fingerprint: str = ""
    """While it is pending."""


class Adding(ABC):
    """One command that adds runs, all or none."""

    def __init__(self, actor: Actor, now: int) -> None:
        self.actor = actor
        self.now = now

    @abstractmethod
    def known(self, new: NewRun) -> EarlierRequest | None:
        """Return what a request of that id has become, if there was one."""

    @abstractmethod
    def schedule(self, schedule_id: ScheduleId) -> tuple[str, str, str] | None:
        """Return the tenant, the name and the status of a schedule."""

    @abstractmethod
    def pending(self, tenant: str, key: str) -> DelayedRecord | None:
        """Return what is pending under a key."""

    @abstractmethod
    def replace(self, pending: DelayedRecord) -> None:
        """End what is pending, because something else takes its key."""

    @abstractmethod
    def run_at_once(self, new: NewRun, instant: int) -> None:
        """Make the run and queue it."""

    @abstractmethod
    def keep(self, new: NewRun, due_at: int) -> None:
        """Make it pending until it is due."""

    @abstractmethod
    def record(self, action: str, subject: AuditSubject) -> None:
        """Write an audit entry."""

    def add_all(self, command: AddRuns) -> list[AddedRun]:
        """Decide about each in order, and write what is decided."""
        added = [self._add(new) for new in command.runs]
        entry = added_by_hand(command, added)
        if entry is not None:
            subject = AuditSubject(
                name=entry.subject, tenant=entry.tenant, id=entry.subject_id, after=entry.after
            )
            self.record("runs.added", subject)
        return added

    def _add(self, new: NewRun) -> AddedRun:
        known = self.known(new)
        if known is not None:
            refuse_another_request(new, known.requested, known.fingerprint)
            return AddedRun(new.id, known.due_at, is_new=False)
        if new.schedule_id is not None:
            found = self.schedule(new.schedule_id)
            if found is None or found[0] != new.tenant:
                raise unknown_schedule(new.schedule_id)
            refuse_deleted(*found[1:])
        if new.key is not None:
            pending = self.pending(new.tenant, new.key)
            if pending is not None:
                if pending.fingerprint == new.fingerprint and not new.replaces:
                    return AddedRun(pending.id, pending.due_at, is_new=False)
                if not new.replaces:
                    raise key_taken(new.key)
                self.replace(pending)
        return self._write(new)

    def _write(self, new: NewRun) -> AddedRun:
        due_at = due_of(new, self.now)
        if due_at is not None and due_at > self.now:
            self.keep(new, due_at)
            return AddedRun(new.id, due_at, is_new=True)
        instant = self.now if due_at is None else due_at
        self.run_at_once(new, instant)
        if new.origin is Origin.MANUAL:
            name = identity_text(new.id)
            facts = triggered_facts(new)
            subject = AuditSubject(name=name, tenant=new.tenant, id=new.schedule_id, after=facts)
            self.record("schedule.triggered", subject)
        return AddedRun(new.id, instant, is_new=True)


def roots_of(command: AddRuns, added: Sequence[AddedRun]) -> list[tuple[RunId, RunId]]:
    """Return which of the runs that were made are about which others; most are about none."""
    pairs = zip(command.runs, added, strict=True)
    return [(one.id, new.root) for new, one in pairs if new.root is not None and one.is_new]


def delayed_row(new: NewRun, due_at: int, now: int, shard: int) -> Row:
    """Return the row of a delayed run."""
    call = new.call
    return (
        new.id,
        new.tenant,
        new.key,
        call.task,
        call.arguments,
        call.queue,
        call.priority,
        new.origin,
        new.lane,
        new.schedule_id,
        new.definition_number,
        shard,
        due_at,
        new.fingerprint,
        now,
    )
