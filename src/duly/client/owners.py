"""Owners in a program's hands: who is gone, and that nothing fires for them (S6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.client.frozen_sets import ONE_BY_ONE_MAX
from duly.client.reading import read_limit, read_looked_for, read_owner, require_reason
from duly.client.schedule_orders import Order, apply_order
from duly.domain.instants import from_microseconds, iso_utc
from duly.domain.owners import decide_gone, gone_reason
from duly.errors import Conflict, NotFound, UsageError
from duly.store.owners import MarkOwner
from duly.store.reading import PAGE_MAX

if TYPE_CHECKING:
    from datetime import datetime

    from duly.client.caller import Caller
    from duly.domain.identity import ScheduleId
    from duly.domain.owners import GoneRecord
    from duly.domain.planning import Change
    from duly.domain.schedules import ScheduleRecord

PAGE_DEFAULT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneOwner:
    """An owner who is gone, and how far their schedules are paused."""

    owner: str
    tenant: str
    gone_at: datetime
    """When it was said first."""
    said_by: str
    paused: int = 0
    """How many schedules the order has paused that this answers."""
    active: int = 0
    """How many fire all the same, or will again by themselves: give the order again."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "owner": self.owner,
            "tenant": self.tenant,
            "gone_at": iso_utc(self.gone_at),
            "said_by": self.said_by,
            "paused": self.paused,
            "active": self.active,
        }


# A class that has a method `list` can't name the type below it.
ListedOwners = list[GoneOwner]


class OwnerPage(NamedTuple):
    """A part of those who are gone, and after whom the next part begins."""

    items: ListedOwners
    after: str | None


class Owners:
    """The owners of a tenant's schedules."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def gone(self, owner: str, *, reason: str) -> GoneOwner:
        """Say that an owner is gone: what fires for them is paused, and nothing new is made.

        Each schedule is paused by itself, a thousand by one order. Given again, the order goes on
        with what is left: until `active` is 0, or after a process died in the middle.
        """
        name = _read_name(owner)
        require_reason(reason)
        store, tenant = self._caller.store, self._caller.tenant
        marked = store.mark_gone(self._command(name, reason))
        found = store.list_active_of(tenant, name, ONE_BY_ONE_MAX)
        paused = sum(self._pause(one, name, reason) for one in found)
        left = store.list_active_of(tenant, name, PAGE_MAX)
        return _view(marked, paused=paused, active=len(left))

    def back(self, owner: str, *, reason: str | None = None) -> GoneOwner:
        """Say that an owner is back: schedules can be made and resumed for them again.

        What was paused stays paused until somebody resumes it. Return what was on record.
        """
        name = _read_name(owner)
        store, tenant = self._caller.store, self._caller.tenant
        was = store.mark_back(self._command(name, reason))
        return _view(was, active=len(store.list_active_of(tenant, name, PAGE_MAX)))

    def list(self, *, limit: int = PAGE_DEFAULT, after: str | None = None) -> ListedOwners:
        """Return who is gone, by name; `after` goes on behind a name."""
        return self.page(limit=limit, after=after).items

    def page(self, *, limit: int = PAGE_DEFAULT, after: str | None = None) -> OwnerPage:
        """Return a part of those who are gone, and after whom the next part begins."""
        most = read_limit(limit, PAGE_MAX)
        last = read_looked_for("after", after) or ""
        found = self._caller.store.list_gone(self._caller.tenant, last, most)
        views = [_view(one, active=one.active) for one in found]
        return OwnerPage(views, views[-1].owner if len(views) == most else None)

    def _command(self, owner: str, reason: str | None) -> MarkOwner:
        actor = self._caller.ordering(reason)
        return MarkOwner(owner=owner, tenant=self._caller.tenant, actor=actor)

    def _pause(self, schedule: ScheduleId, owner: str, reason: str) -> bool:
        """Pause one, if it is still theirs and active; say whether it was."""
        seen = self._caller.store.get_schedule(schedule, self._caller.tenant)
        if seen is None:
            return False
        why = gone_reason(owner, reason)
        is_paused = False

        def decide(record: ScheduleRecord, _now: int) -> Change | None:
            nonlocal is_paused
            change = decide_gone(record, owner, why)
            is_paused = change is not None
            return change

        try:
            apply_order(self._caller, seen, decide, Order(reason=reason))
        except (Conflict, NotFound):
            return False  # it kept changing, and is told among what is left; or it is no more
        return is_paused


def _read_name(owner: object) -> str:
    name = read_owner(owner)
    if name is None:
        raise UsageError("owner", owner, "is missing", "name the owner, as schedules do")
    return name


def _view(record: GoneRecord, *, paused: int = 0, active: int = 0) -> GoneOwner:
    return GoneOwner(
        owner=record.owner,
        tenant=record.tenant,
        gone_at=from_microseconds(record.gone_at),
        said_by=record.said_by,
        paused=paused,
        active=active,
    )
