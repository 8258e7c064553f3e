"""Breakers in a program's hands: which destinations are left alone, and until when (B2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly.domain.instants import from_microseconds, iso_or_none, iso_utc, moment_or_none
from duly.domain.task_limits import read_destination
from duly.errors import NotFound, UsageError

if TYPE_CHECKING:
    from datetime import datetime

    from duly.client.caller import Caller
    from duly.store.admission import BreakerRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """What is known of a destination."""

    destination: str
    state: str
    """closed, open or half-open."""
    succeeded: int
    """While closed: how many attempts went well in the present window,"""
    failed: int
    """and how many failed for a reason of its own."""
    running: int
    """How many attempts are at it now; while half-open, probes among them."""
    opened_at: datetime | None
    """Since when it is left alone."""
    retry_at: datetime | None
    """While open: when it is tried again."""
    updated_at: datetime

    @property
    def is_closed(self) -> bool:
        """Whether attempts are made as they fall due."""
        return self.state == "closed"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "destination": self.destination,
            "state": self.state,
            "succeeded": self.succeeded,
            "failed": self.failed,
            "running": self.running,
            "opened_at": iso_or_none(self.opened_at),
            "retry_at": iso_or_none(self.retry_at),
            "updated_at": iso_utc(self.updated_at),
        }


# A class that has a method `list` can't name the type below it.
ListedBreakers = list[Breaker]


class Breakers:
    """The breakers of a store, one for each destination that was ever called."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def list(self) -> ListedBreakers:
        """Return all, by destination."""
        return [_view(one) for one in self._caller.store.list_breakers()]

    def get(self, destination: str) -> Breaker:
        """Return one; NotFound if nobody was ever called by that name."""
        name = _read(destination)
        for one in self.list():
            if one.destination == name:
                return one
        raise NotFound("destination", name, "list them with app.breakers.list()")

    def reset(self, destination: str, *, reason: str | None = None) -> Breaker:
        """Close one: whatever waits for it goes on at its time, and it is counted anew."""
        self._caller.require_operator("reset breakers")
        name = _read(destination)
        return _view(self._caller.store.reset_breaker(name, self._caller.ordering(reason)))


def _read(destination: object) -> str:
    name = read_destination(destination)
    if name is None:
        raise UsageError("destination", None, "is missing", "give its name, such as 'stripe'")
    return name


def _view(record: BreakerRecord) -> Breaker:
    breaker = record.breaker
    opened_at, retry_at = breaker.opened_at, breaker.retry_at
    return Breaker(
        destination=record.destination,
        state=str(breaker.state),
        succeeded=breaker.succeeded,
        failed=breaker.failed,
        running=record.running,
        opened_at=moment_or_none(opened_at),
        retry_at=moment_or_none(retry_at),
        updated_at=from_microseconds(record.updated_at),
    )
