"""The standing port: workers that people take out of service, for a while or for good (A1).

A worker that is **draining** claims nothing more, and ends when what it holds is done. One that is
in **quarantine** claims nothing more and stays, until it is released; what it holds is finished,
or, fenced off, taken from it as from one that has died. The store's claim refuses both by the row
of the member, which it looks at anyway; the worker itself learns it with its next beat.

A quarantine stays with its process: should that join anew, it is in quarantine there, too. A
process that is started in its place is not, unless the whole host is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from duly.errors import Conflict, NotFound
from duly.store.auditing import Subject
from duly.store.leases import MemberKind, Standing

if TYPE_CHECKING:
    from typing import Any

    from duly.domain.audit import Actor
    from duly.store.leases import Member, MemberId


class QuarantinedHost(NamedTuple):
    """A host of which no worker claims anything."""

    host: str
    since: int
    by: str
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderWorker:
    """Take a worker out of service, or back into it."""

    worker: MemberId
    standing: Standing | None
    """None puts it back."""
    is_fenced: bool = False
    """Of a quarantine: whether what it holds is taken from it."""
    is_whole_host: bool = False
    """Of a quarantine or its end: whether it holds for all workers of its host, and all to come."""
    actor: Actor

    @property
    def action(self) -> str:
        """Return what the audit trail calls it."""
        if self.standing is None:
            return "worker.released"
        is_drain = self.standing is Standing.DRAINING
        return "worker.drained" if is_drain else "worker.quarantined"


class StandingStore(Protocol):
    """What people order about workers."""

    def order_worker(self, command: OrderWorker) -> Member:
        """Change a worker's standing, and wake it; audited as `worker.drained` and so on.

        From the commit on it claims nothing, whether it has heard of it or not. Fenced off, its
        membership ends: who settles lost claims takes what it holds, by the rules for effects, and
        what it still says about it is refused. The same order again changes nothing. NotFound when
        there is no such worker; Conflict when it is alive no more, or is told to drain while in
        quarantine.
        """
        ...

    def list_quarantined_hosts(self) -> list[QuarantinedHost]:
        """Return hosts of which no worker claims anything, by name."""
        ...


def require_orderable(found: Member | None, command: OrderWorker) -> Member:
    """Refuse an order about who is no worker, or none any more."""
    if found is None or found.kind is not MemberKind.WORKER:
        remedy = "see who there is: duly worker list"
        raise NotFound("worker", str(command.worker), remedy)
    if not found.is_alive and not command.is_whole_host:
        remedy = "see who there is: duly worker list"
        raise Conflict("worker", str(command.worker), "is alive no more", remedy)
    is_drain = command.standing is Standing.DRAINING
    if is_drain and found.standing is Standing.QUARANTINED:
        remedy = f"release it first: duly worker release {command.worker}"
        raise Conflict("worker", str(command.worker), "is in quarantine", remedy)
    return found


def is_known(found: Member, command: OrderWorker) -> bool:
    """Say whether an order was carried out before."""
    is_more = command.is_fenced or command.is_whole_host
    return found.standing is command.standing and not is_more


def ordered_worker_subject(found: Member, command: OrderWorker) -> Subject:
    """Return what is told of a worker that was taken out of service, or put back."""
    after: dict[str, Any] = {"standing": _text(command.standing), "host": found.host}
    after["process"] = found.process
    if command.is_fenced:
        after["fenced"] = True
    if command.is_whole_host:
        after["whole_host"] = True
    before = {"standing": _text(found.standing)}
    return Subject(name=f"worker {found.id}", before=before, after=after)


def _text(standing: Standing | None) -> str | None:
    return None if standing is None else str(standing)
