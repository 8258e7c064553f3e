"""Quotas on the memory store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.quotas import GONE, Counted, DepartedOwner, does_count, gone_record
from duly.store.quotas import QuotaCounter, QuotaWriter, in_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.audit import Actor, AuditSubject
    from duly.domain.ids import ScheduleId
    from duly.domain.quotas import Bound, Quota, QuotaKey
    from duly.store.memory.tables import Journal


class MemoryCounting(QuotaCounter):
    """Counts by looking at all there is."""

    def __init__(self, journal: Journal) -> None:
        self._tables = journal.tables

    def quotas(self, keys: Sequence[QuotaKey]) -> list[Quota]:
        """Return what was set for any of them."""
        return [one for one in self._tables.quotas.values() if one.key in keys]

    def is_pending_bound(self) -> bool:
        """Say whether there is any quota of delayed runs."""
        return any(counted is Counted.PENDING for _, counted in self._tables.quotas)

    def wait_turn(self, bound: Bound) -> None:
        """Nobody else writes meanwhile."""

    def wait_for_word(self, key: QuotaKey) -> None:
        """Nobody else writes meanwhile."""

    def active(self, tenant: str, owner: str | None, limit: int) -> int:
        """Count active schedules."""
        found = [
            one
            for one in self._tables.schedules.values()
            if one.tenant == tenant and does_count(one)
            if owner is None or (one.owner == owner and one.declared_by is None)
        ]
        return min(len(found), limit)

    def made_since(self, tenant: str | None, since: int, limit: int) -> list[int]:
        """Return when schedules were made, newest first."""
        found = [
            one.created_at
            for one in self._tables.schedules.values()
            if one.created_at > since and tenant in (None, one.tenant)
        ]
        return sorted(found, reverse=True)[:limit]

    def pending(self, tenant: str, limit: int) -> int:
        """Count delayed runs."""
        found = [one for one in self._tables.delayed.values() if one.tenant == tenant]
        return min(len(found), limit)


class MemorySetting(QuotaWriter):
    """Sets quotas through the journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.now = journal.now

    def hold(self, key: QuotaKey) -> list[Quota]:
        """Return what was set for a scope."""
        return [one for one in self._journal.tables.quotas.values() if one.key == key]

    def write(self, quota: Quota) -> None:
        """Write a quota."""
        self._journal.put(self._journal.tables.quotas, (quota.key, quota.counted), quota)

    def remove(self, key: QuotaKey) -> None:
        """Remove what was set for a scope."""
        for one in self.hold(key):
            self._journal.remove(self._journal.tables.quotas, (one.key, one.counted))

    def record(self, actor: Actor, action: str, subject: AuditSubject) -> None:
        """Write an audit entry."""
        self._journal.record_about(actor, action, subject)


def list_quotas(journal: Journal) -> list[Quota]:
    """Return what was set, by scope."""
    return in_order(
        one for one in journal.tables.quotas.values() if not one.key.scope.startswith(GONE)
    )


def list_gone(journal: Journal, tenant: str, after: str, limit: int) -> list[DepartedOwner]:
    """Return who is gone, by name."""
    found = sorted(
        (one for one in journal.tables.quotas.values() if one.key.scope.startswith(GONE)),
        key=lambda one: one.key.scope.encode(),
    )
    gone = [gone_record(one) for one in found if one.key.tenant == tenant]
    return [
        replace(one, active=len(list_active_of(journal, tenant, one.owner)))
        for one in gone
        if one.owner.encode() > after.encode()
    ][:limit]


def list_active_of(
    journal: Journal, tenant: str, owner: str, limit: int | None = None
) -> list[ScheduleId]:
    """Return an owner's schedules that fire or will again by themselves."""
    return sorted(
        one.id
        for one in journal.tables.schedules.values()
        if (one.tenant, one.owner) == (tenant, owner) and does_count(one)
    )[:limit]
