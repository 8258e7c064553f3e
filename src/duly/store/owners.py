"""Owners in a store: who is gone, and which schedules fire for them all the same (S6).

That somebody is gone stands among quotas, where every order that makes a schedule active looks in
its own transaction anyway. Whoever makes one holds the word back until it commits, so that who has
said it finds all that is active.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from duly.domain.audit import instant_text
from duly.domain.owners import GoneRecord, gone_record
from duly.domain.quotas import GONE, Counted, Quota, gone_key
from duly.errors import NotFound
from duly.store.auditing import Subject

if TYPE_CHECKING:
    from duly.domain.audit import Actor
    from duly.domain.identity import ScheduleId
    from duly.store.quotas import Setting

GONE_END = GONE[:-1] + chr(ord(GONE[-1]) + 1)
"""For SQL: behind all scopes that begin as those do under which somebody is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkOwner:
    """Say something of an owner."""

    owner: str
    tenant: str
    actor: Actor


class OwnerStore(Protocol):
    """What is said about owners."""

    def mark_gone(self, command: MarkOwner) -> GoneRecord:
        """Remember that an owner is gone; audited as `owner.gone`.

        Said again, it stands as it was said first. When this returns, every schedule that was made
        active for them before can be found, and none is made active any more until they are back:
        an order that would gets Conflict, and changes nothing.
        """
        ...

    def mark_back(self, command: MarkOwner) -> GoneRecord:
        """Forget that an owner is gone, and return what stood there; audited as `owner.back`.

        NotFound when they are not gone. Their schedules stay as they are.
        """
        ...

    def list_gone(self, tenant: str, after: str, limit: int) -> list[GoneRecord]:
        """Return who is gone, by name, after a name; with how many schedules are still active."""
        ...

    def list_active_of(self, tenant: str, owner: str, limit: int) -> list[ScheduleId]:
        """Return an owner's schedules that fire or will again by themselves, the oldest first."""
        ...


def mark_gone(setting: Setting, command: MarkOwner) -> GoneRecord:
    """Remember that an owner is gone."""
    key = gone_key(command.tenant, command.owner)
    known = setting.hold(key)
    if known:
        return gone_record(known[0])
    said = Quota(
        key=key,
        counted=Counted.SCHEDULES,
        most=0,
        version=1,
        updated_at=setting.now,
        updated_by=command.actor.name,
    )
    setting.write(said)
    setting.record(command.actor, "owner.gone", _subject(command, after=gone_record(said)))
    return gone_record(said)


def mark_back(setting: Setting, command: MarkOwner) -> GoneRecord:
    """Forget that an owner is gone."""
    key = gone_key(command.tenant, command.owner)
    known = setting.hold(key)
    if not known:
        raise NotFound("gone owner", command.owner, "duly owner list shows who is gone")
    before = gone_record(known[0])
    setting.remove(key)
    setting.record(command.actor, "owner.back", _subject(command, before=before))
    return before


def _subject(
    command: MarkOwner, before: GoneRecord | None = None, after: GoneRecord | None = None
) -> Subject:
    return Subject(
        name=command.owner, tenant=command.tenant, before=_facts(before), after=_facts(after)
    )


def _facts(record: GoneRecord | None) -> dict[str, Any] | None:
    if record is None:
        return None
    return {"gone_at": instant_text(record.gone_at), "said_by": record.said_by}
