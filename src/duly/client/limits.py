"""Limits in a program's hands: how many runs may go on, and how often, in the whole fleet (R8, B4).

Tasks declare limits in code; what a person sets here is heeded before that, until it is removed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from duly.domain.instants import from_microseconds, iso_or_none, iso_utc, moment_or_none
from duly.domain.limits import place_text, read_limit, read_scope, tenant_of
from duly.errors import UsageError
from duly.store.admission import SetLimit

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from duly.client.caller import Caller
    from duly.domain.limits import LimitRecord
    from duly.store.admission import PlaceRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What somebody has said about a task, a tenant or a destination, or of each of them."""

    name: str
    """Of what: task:send, tenant:acme, destination:stripe, tenant:*."""
    running: int | None
    """How many of its runs go on at a time."""
    rate: str | None
    """How many begin in a while."""
    running_by: Mapping[str, int] = field(default_factory=dict)
    """How many with the same value of a parameter."""
    source: str
    """person or code; a person's word counts before that of a task's code."""
    set_by: str
    set_at: datetime
    reason: str | None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "name": self.name,
            "running": self.running,
            "rate": self.rate,
            "running_by": dict(self.running_by),
            "source": self.source,
            "set_by": self.set_by,
            "set_at": iso_utc(self.set_at),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """How much of a limit is taken at this moment."""

    name: str
    """As the limit's; where it is counted by a parameter, with the value."""
    held: int
    """How many of its runs go on."""
    waiting: int
    """How many stand in line for a place."""
    next_at: datetime | None
    """Of a rate: when the next that comes may begin; None if at once."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "name": self.name,
            "held": self.held,
            "waiting": self.waiting,
            "next_at": iso_or_none(self.next_at),
        }


# A class that has a method `list` can't name the type below it.
ListedLimits = list[Limit]
ListedPlaces = list[Place]


class Limits:
    """The limits of a store."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def list(self) -> ListedLimits:
        """Return what people have set and what code declares, by name; of tenants, one's own."""
        found = self._caller.store.list_limits().records
        if self._caller.is_confined:
            seen = None, self._caller.tenant
            found = tuple(one for one in found if tenant_of(one.scope) in seen)
        return [_view(one) for one in found]

    def places(self) -> ListedPlaces:
        """Return where runs go on or wait under a limit now, by name.

        A tenant's caller is shown its own: at any other, others' runs are counted.
        """
        found = self._caller.store.list_places()
        if self._caller.is_confined:
            found = [one for one in found if tenant_of(one.place) == self._caller.tenant]
        return [_place_view(one) for one in found]

    def set(  # noqa: PLR0913 - each part of a limit is an argument
        self,
        name: str,
        *,
        running: int | None = None,
        rate: str | None = None,
        running_by: Mapping[str, int] | None = None,
        reason: str | None = None,
    ) -> Limit:
        """Limit a task, a tenant or a destination: `set("tenant:acme", running=20, rate="50/s")`.

        With `*` for the name, each of them by itself. It takes the place of what was set before,
        counts before what a task's code declares, and is heeded by all workers within a beat.
        """
        self._caller.require_operator("set limits")
        scope = read_scope(name)
        limit = read_limit(running, rate, running_by)
        if limit.is_empty:
            remedy = "give running, rate or running_by; to lift a limit, remove it"
            raise UsageError("limit", name, "would limit nothing", remedy)
        if limit.running_by and not scope.startswith("task:"):
            remedy = "limit a task by its parameters: 'task:send'"
            raise UsageError("running_by", name, "has no parameters", remedy)
        order = SetLimit(scope=scope, limit=limit, actor=self._caller.ordering(reason))
        return _view(self._caller.store.set_limit(order))

    def remove(self, name: str, *, reason: str | None = None) -> bool:
        """Lift what somebody has set; what code declares holds again. False if there was none."""
        self._caller.require_operator("lift limits")
        return self._caller.store.remove_limit(read_scope(name), self._caller.ordering(reason))


def _view(record: LimitRecord) -> Limit:
    limit = record.limit
    return Limit(
        name=record.scope,
        running=limit.running,
        rate=None if limit.rate is None else limit.rate.text,
        running_by=dict(limit.running_by),
        source=str(record.source),
        set_by=record.by,
        set_at=from_microseconds(record.at),
        reason=record.reason,
    )


def _place_view(record: PlaceRecord) -> Place:
    return Place(
        name=place_text(record.place),
        held=record.held,
        waiting=record.waiting,
        next_at=moment_or_none(record.next_at),
    )
