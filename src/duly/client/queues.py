"""Queues in a program's hands: what waits in them, and whether anything is handed out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from duly.client.reading import read_queue
from duly.domain.instants import iso_or_none, moment_or_none
from duly.store.reading import OwnQueue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from duly.client.caller import Caller
    from duly.store.operating import QueueRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue on one line."""

    name: str
    queued: int
    running: int
    oldest_at: datetime | None
    """When the one that waits longest was queued."""
    paused_at: datetime | None
    paused_by: str | None
    reason: str | None

    @property
    def is_paused(self) -> bool:
        """Whether nothing is handed out from it."""
        return self.paused_at is not None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "name": self.name,
            "queued": self.queued,
            "running": self.running,
            "oldest_at": iso_or_none(self.oldest_at),
            "paused_at": iso_or_none(self.paused_at),
            "paused_by": self.paused_by,
            "reason": self.reason,
        }


# A class that has a method `list` can't name the type below it.
ListedQueues = list[Queue]


class Queues:
    """The queues of a store."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def list(self) -> ListedQueues:
        """Return queues that hold something or are paused, by name.

        To a tenant's caller they hold what is its own.
        """
        found = self._caller.store.list_queues()
        if self._caller.is_confined:
            found = _own(found, self._caller.store.count_tenant(self._caller.tenant).queues)
        return [_view(one) for one in found]

    def get(self, name: str) -> Queue:
        """Return a queue by its name; one that nobody has used holds nothing."""
        return self._get(read_queue(name))

    def pause(self, name: str, *, reason: str | None = None) -> Queue:
        """Hand out nothing from a queue, until it is resumed; what runs goes on."""
        self._caller.require_operator("pause queues")
        queue = read_queue(name)
        self._caller.store.pause_queue(queue, self._caller.ordering(reason))
        return self._get(queue)

    def resume(self, name: str, *, reason: str | None = None) -> Queue:
        """Hand out again; no error if it is not paused."""
        self._caller.require_operator("resume queues")
        queue = read_queue(name)
        self._caller.store.resume_queue(queue, self._caller.ordering(reason))
        return self._get(queue)

    def _get(self, name: str) -> Queue:
        for queue in self.list():
            if queue.name == name:
                return queue
        return Queue(
            name=name,
            queued=0,
            running=0,
            oldest_at=None,
            paused_at=None,
            paused_by=None,
            reason=None,
        )


def _own(found: Sequence[QueueRecord], own: Mapping[str, OwnQueue]) -> list[QueueRecord]:
    """Return queues as one tenant sees them: what it has there, and whether they are paused."""
    nothing = OwnQueue(0, None, 0)
    return [
        replace(one, queued=mine.queued, oldest_at=mine.oldest_at, running=mine.running)
        for one in found
        for mine in [own.get(one.name, nothing)]
        if one.paused_at is not None or mine != nothing
    ]


def _view(record: QueueRecord) -> Queue:
    return Queue(
        name=record.name,
        queued=record.queued,
        running=record.running,
        oldest_at=moment_or_none(record.oldest_at),
        paused_at=moment_or_none(record.paused_at),
        paused_by=record.paused_by,
        reason=record.reason,
    )
