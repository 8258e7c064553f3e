"""Owners in a store: who is gone, and which schedules fire for them all the same.

That somebody is gone stands among quotas, where every order that makes a schedule active looks in
its own transaction anyway. Whoever makes one holds the word back until it commits, so that who has
said it finds all that is active.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.domain.audit import AuditSubject, instant_text
from duly.domain.quotas import GONE, Counted, DepartedOwner, Quota, gone_key, gone_record
from duly.errors import NotFound

if TYPE_CHECKING:
    from duly.store.ports.operations import MarkOwner
    from duly.store.quotas import QuotaWriter


GONE_END = GONE[:-1] + chr(ord(GONE[-1]) + 1)
"""For SQL: behind all scopes that begin as those do under which somebody is gone."""


def mark_gone(setting: QuotaWriter, command: MarkOwner) -> DepartedOwner:
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


def mark_back(setting: QuotaWriter, command: MarkOwner) -> DepartedOwner:
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
    command: MarkOwner, before: DepartedOwner | None = None, after: DepartedOwner | None = None
) -> AuditSubject:
    return AuditSubject(
        name=command.owner, tenant=command.tenant, before=_facts(before), after=_facts(after)
    )


def _facts(record: DepartedOwner | None) -> dict[str, Any] | None:
    if record is None:
        return None
    return {"gone_at": instant_text(record.gone_at), "said_by": record.said_by}
