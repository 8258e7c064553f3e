"""Quotas in a store: setting them, and keeping orders within them.

An order is written first and counted afterwards, in its own transaction, by one at a time for each
quota: so two that come at once can't both take what is left, and one that goes over is undone as a
whole. Where no quota applies nothing is counted, and nobody waits for anybody.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from duly.domain.audit import AuditSubject
from duly.domain.quotas import (
    MOST_MAX,
    WINDOW_US,
    Counted,
    Quota,
    QuotaKey,
    bound_on_pending,
    bounds_on_schedule,
    free_again_us,
    gone_key,
    is_taken_on,
    keys_of_pending,
    keys_of_schedule,
    may_be_bound,
    over_quota,
    refuse_gone,
)
from duly.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duly.domain.audit import Actor
    from duly.domain.quotas import Bound
    from duly.domain.schedules import ScheduleRecord
    from duly.store.ports.operations import SetQuotas
    from duly.store.ports.schedules import AddedRun, AddRuns


COUNTED_FROM_US = 2 * WINDOW_US
"""How far back ids are looked at for schedules of the last minute: an id is made before its row."""


class QuotaCounter(ABC):
    """Counts what orders have made, in their own transaction."""

    @abstractmethod
    def quotas(self, keys: Sequence[QuotaKey]) -> list[Quota]:
        """Return what was set for any of them."""

    @abstractmethod
    def is_pending_bound(self) -> bool:
        """Say whether there is any quota of delayed runs at all: asked for every order of some."""

    @abstractmethod
    def wait_turn(self, bound: Bound) -> None:
        """Wait for others that count against a quota, until they have committed."""

    @abstractmethod
    def wait_for_word(self, key: QuotaKey) -> None:
        """Wait for who says something of a scope, and have others wait to say it until we commit.

        Those who only wait do not wait for each other.
        """

    @abstractmethod
    def active(self, tenant: str, owner: str | None, limit: int) -> int:
        """Count schedules of a tenant, or of an end user of it, that count as active."""

    @abstractmethod
    def made_since(self, tenant: str | None, since: int, limit: int) -> list[int]:
        """Return when schedules were made after an instant, newest first."""

    @abstractmethod
    def pending(self, tenant: str, limit: int) -> int:
        """Count delayed runs that are pending."""

    def check_schedule(
        self, old: ScheduleRecord | None, new: ScheduleRecord, actor: Actor, now: int
    ) -> None:
        """Refuse an order about a schedule that has gone over a quota; it is written already.

        Or that leaves it to an owner who is gone.
        """
        is_taken, is_bound = is_taken_on(old, new), may_be_bound(old, new)
        if not (is_taken or is_bound):
            return
        if is_taken and new.owner is not None:
            # Who says that an owner is gone looks for what is active after all who are before us.
            self.wait_for_word(gone_key(new.tenant, new.owner))
        found = self.quotas(keys_of_schedule(new.tenant, new.owner))
        if is_taken:
            refuse_gone(new, found)
        if is_bound:
            is_operator = actor.is_operator
            bounds = bounds_on_schedule(old, new, found, is_operator=is_operator)
            self._check_bounds(bounds, new, now)

    def _check_bounds(self, bounds: Sequence[Bound], new: ScheduleRecord, now: int) -> None:
        for bound in bounds:
            self.wait_turn(bound)
            if bound.counted is Counted.CREATIONS:
                self._check_creations(bound, now)
            elif self.active(new.tenant, bound.owner, bound.most + 1) > bound.most:
                there = self.active(new.tenant, bound.owner, 2 * MOST_MAX) - 1
                raise over_quota(bound, there)

    def check_pending(self, command: AddRuns, added: Sequence[AddedRun], now: int) -> None:
        """Refuse an order of delayed runs that has gone over a quota; they are written already."""
        if not self.is_pending_bound():
            return
        kept = [
            new.tenant
            for new, one in zip(command.runs, added, strict=True)
            if one.is_new and one.due_at > now
        ]
        for tenant in sorted(set(kept)):
            bound = bound_on_pending(tenant, self.quotas(keys_of_pending(tenant)))
            if bound is None:
                continue
            self.wait_turn(bound)
            if self.pending(tenant, bound.most + 1) > bound.most:
                asked = kept.count(tenant)
                raise over_quota(bound, self.pending(tenant, 2 * MOST_MAX) - asked, asked=asked)

    def _check_creations(self, bound: Bound, now: int) -> None:
        made = self.made_since(bound.tenant, now - WINDOW_US, bound.most + 1)
        if len(made) > bound.most:
            earlier = made[1:]
            wait_us = free_again_us(bound, earlier, now)
            raise over_quota(bound, len(earlier), wait_us=wait_us)


class QuotaWriter(ABC):
    """A transaction in which quotas are set."""

    now: int

    @abstractmethod
    def hold(self, key: QuotaKey) -> list[Quota]:
        """Return what was set for a scope, and let nobody change it until the commit."""

    @abstractmethod
    def write(self, quota: Quota) -> None:
        """Write a quota, new or changed."""

    @abstractmethod
    def remove(self, key: QuotaKey) -> None:
        """Remove what was set for a scope."""

    @abstractmethod
    def record(self, actor: Actor, action: str, subject: AuditSubject) -> None:
        """Write an audit entry."""

    def set(self, command: SetQuotas) -> list[Quota]:
        """Set quotas of a scope."""
        key, actor = command.key, command.actor
        before = {one.counted: one for one in self.hold(key)}
        after = dict(before)
        for counted, most in command.most.items():
            old = before.get(counted)
            if old is None or old.most != most:
                after[counted] = Quota(
                    key=key,
                    counted=counted,
                    most=most,
                    version=1 if old is None else old.version + 1,
                    updated_at=self.now,
                    updated_by=actor.name,
                )
                self.write(after[counted])
        if after != before:
            facts = _facts(before.values()), _facts(after.values())
            self.record(actor, "quota.set", _subject(key, *facts))
        return in_order(after.values())

    def take_back(self, key: QuotaKey, actor: Actor) -> None:
        """Remove what was set for a scope."""
        before = self.hold(key)
        if not before:
            raise NotFound("quota", key.scope, "duly quota list shows what was set")
        self.remove(key)
        self.record(actor, "quota.removed", _subject(key, _facts(before), None))


def in_order(quotas: Iterable[Quota]) -> list[Quota]:
    """Return quotas by scope, tenant, and what they bound."""
    return sorted(quotas, key=lambda one: (one.key, one.counted))


def quota_record(row: Sequence[Any]) -> Quota:
    """Return a quota from its row."""
    return Quota(
        key=QuotaKey(row[0], row[1]),
        counted=Counted(row[2]),
        most=row[3],
        version=row[4],
        updated_at=row[5],
        updated_by=row[6],
    )


def _facts(quotas: Iterable[Quota]) -> dict[str, Any] | None:
    return {str(one.counted): one.most for one in in_order(quotas)} or None


def _subject(
    key: QuotaKey, before: dict[str, Any] | None, after: dict[str, Any] | None
) -> AuditSubject:
    return AuditSubject(name=key.scope, tenant=key.tenant, before=before, after=after)
