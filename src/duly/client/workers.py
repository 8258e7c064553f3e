"""Workers in a program's hands: who executes runs, and who is taken out of service (A1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from duly.client.status_view import member_status, read_status
from duly.domain.instants import from_microseconds, iso_utc
from duly.errors import UsageError
from duly.store.dispatch import MemberId, MemberKind
from duly.store.leases import Standing
from duly.store.standing import OrderWorker

if TYPE_CHECKING:
    from datetime import datetime

    from duly.client.caller import Caller
    from duly.client.status_view import MemberStatus

ID_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedHost:
    """A host of which no worker claims anything."""

    host: str
    since: datetime
    by: str
    reason: str | None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "host": self.host,
            "since": iso_utc(self.since),
            "by": self.by,
            "reason": self.reason,
        }


# A class that has a method `list` can't name the type below it.
ListedWorkers = list["MemberStatus"]
ListedHosts = list[QuarantinedHost]


class Workers:
    """The workers of a fleet."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def list(self) -> ListedWorkers:
        """Return workers that are alive, by id."""
        members = read_status(self._caller).members
        return [member_status(one) for one in members if one.kind is MemberKind.WORKER]

    def quarantined_hosts(self) -> ListedHosts:
        """Return hosts of which no worker claims anything, by name."""
        self._caller.require_operator("look at hosts")
        return [
            QuarantinedHost(
                host=one.host, since=from_microseconds(one.since), by=one.by, reason=one.reason
            )
            for one in self._caller.store.list_quarantined_hosts()
        ]

    def drain(self, worker: int, *, reason: str | None = None) -> MemberStatus:
        """Let a worker claim nothing more, and end when what it holds is done.

        Its supervisor does not replace it. What runs may take its time; a signal to the process
        sets the grace.
        """
        return self._order(self._ordered(worker, Standing.DRAINING, reason))

    def quarantine(
        self, worker: int, *, fence: bool = False, host: bool = False, reason: str | None = None
    ) -> MemberStatus:
        """Let a worker claim nothing more until it is released; it stays, to be looked at.

        What it holds it finishes; with `fence` it is taken from it, as from one that has died. With
        `host` it holds for all workers of its host, and for those that are started there.
        """
        order = self._ordered(worker, Standing.QUARANTINED, reason)
        return self._order(replace(order, is_fenced=fence, is_whole_host=host))

    def release(
        self, worker: int, *, host: bool = False, reason: str | None = None
    ) -> MemberStatus:
        """Let a worker claim again, or with `host` all of its host."""
        order = self._ordered(worker, None, reason)
        return self._order(replace(order, is_whole_host=host))

    def _order(self, order: OrderWorker) -> MemberStatus:
        done = self._caller.store.order_worker(order)
        seen = [one for one in self.list() if one.id == done.id]  # with how much it holds
        return seen[0] if seen else member_status(done)

    def _ordered(self, worker: int, standing: Standing | None, reason: str | None) -> OrderWorker:
        self._caller.require_operator("take workers out of service")
        if type(worker) is not int or not 0 < worker <= ID_MAX:
            remedy = "give the number of a worker: duly worker list"
            raise UsageError("worker", worker, "is not the id of a worker", remedy)
        actor = self._caller.ordering(reason)
        return OrderWorker(worker=MemberId(worker), standing=standing, actor=actor)
