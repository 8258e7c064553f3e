"""Operators' orders on open runs, queues, workers, quotas and owners.

Each order is one transaction with its audit entry. An order that cannot be carried out reports the
state that it found.

A draining worker claims nothing more, and ends when its claims are done. A worker in quarantine
claims nothing more and stays, until it is released; its claims are finished or, if it is fenced
off, taken from it as from a dead worker. The store's claim refuses both by the member's row, which
it reads anyway. The worker itself learns of the order with its next heartbeat.

A quarantine belongs to a process, and still applies when that process joins again. It does not
apply to a process started in its place, unless the whole host is in quarantine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from duly.domain.audit import AuditSubject
from duly.errors import Conflict, NotFound
from duly.store.ports.dispatch import MemberKind, WorkerStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.domain.audit import Actor
    from duly.domain.enums import RunState
    from duly.domain.ids import RunId, ScheduleId
    from duly.domain.quotas import Counted, DepartedOwner, Quota, QuotaKey
    from duly.domain.runs import RunRecord
    from duly.store.ports.dispatch import Member, MemberId


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkOwner:
    """Say something of an owner."""

    owner: str
    tenant: str
    actor: Actor


class OwnerStore(Protocol):
    """What is said about owners."""

    def mark_gone(self, command: MarkOwner) -> DepartedOwner:
        """Remember that an owner is gone; audited as `owner.gone`.

        Said again, it stands as it was said first. When this returns, every schedule that was made
        active for them before can be found, and none is made active any more until they are back:
        an order that would gets Conflict, and changes nothing.
        """
        ...

    def mark_back(self, command: MarkOwner) -> DepartedOwner:
        """Forget that an owner is gone, and return what stood there; audited as `owner.back`.

        NotFound when they are not gone. Their schedules stay as they are.
        """
        ...

    def list_gone(self, tenant: str, after: str, limit: int) -> list[DepartedOwner]:
        """Return who is gone, by name, after a name; with how many schedules are still active."""
        ...

    def list_active_of(self, tenant: str, owner: str, limit: int) -> list[ScheduleId]:
        """Return an owner's schedules that fire or will again by themselves, the oldest first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SetQuotas:
    """Set quotas of one scope; what is not named stays as it is."""

    key: QuotaKey
    most: Mapping[Counted, int | None]
    """None for no bound."""
    actor: Actor


class QuotaStore(Protocol):
    """What operators order about quotas."""

    def set_quotas(self, command: SetQuotas) -> list[Quota]:
        """Write quotas; each one's version grows. Audited as `quota.set`, with before and after.

        In force for every order that begins after this returns. What there is already stays, even
        if it is more than the quota. Return all of the scope.
        """
        ...

    def remove_quotas(self, key: QuotaKey, actor: Actor) -> None:
        """Take back all that was set for a scope; NotFound if nothing was. Audited."""
        ...

    def list_quotas(self) -> list[Quota]:
        """Return what was set, by scope; who is gone `list_gone` tells."""
        ...


ORDERED_RUNS_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRun:
    """Stop a run: at once where nobody runs it, by asking where somebody does."""

    tenant: str
    id: RunId
    actor: Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRuns:
    """One order about several runs, which were chosen beforehand."""

    tenant: str
    ids: tuple[RunId, ...]
    actor: Actor


@dataclass(frozen=True, slots=True)
class Ordered:
    """What an order has done to one run: whether it was carried out, and where the run was."""

    id: RunId
    is_done: bool
    state: RunState | None
    """What the run was before; None when there is no such run in the tenant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRun:
    """Give a dead run other arguments, so that it can be tried with them."""

    tenant: str
    id: RunId
    arguments: str
    """As canonical JSON, checked before."""
    actor: Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRecord:
    """A queue on one line."""

    name: str
    queued: int
    running: int
    oldest_at: int | None
    """When the one that waits longest was queued."""
    paused_at: int | None
    paused_by: str | None
    reason: str | None


class OperatingStore(Protocol):
    """What people order about runs and queues."""

    def cancel_run(self, command: CancelRun) -> RunRecord:
        """Cancel a run that is queued or waits for another attempt; ask one that is running.

        A pending delayed run is cancelled as by `cancel_delayed`. A running one is marked, and its
        worker is woken; asking again changes nothing. NotFound when there is none in the tenant;
        one that is cancelled already is returned; Conflict for any other that is over, and for a
        dead one (discard it). Audited as `run.cancelled`, or `run.cancel-asked`.
        """
        ...

    def retry_runs(self, command: OrderRuns) -> list[Ordered]:
        """Queue dead runs again with a fresh budget (charged 0), and waiting ones at once.

        Fence and attempt numbers go on. All that can be done is done, in one transaction; the
        others are told. Audited as `run.retried`, one entry for each run.
        """
        ...

    def discard_runs(self, command: OrderRuns) -> list[Ordered]:
        """Close dead runs with outcome discarded; as above. Audited as `run.discarded`."""
        ...

    def edit_run(self, command: EditRun) -> RunRecord:
        """Replace the arguments of a dead run; audited as `run.edited` with before and after.

        NotFound, or Conflict when it is not dead.
        """
        ...

    def pause_queue(self, name: str, actor: Actor) -> None:
        """Hand out nothing from a queue; what runs goes on. Audited as `queue.paused`."""
        ...

    def resume_queue(self, name: str, actor: Actor) -> None:
        """Hand out again, and wake workers. Audited as `queue.resumed`; no error if not paused."""
        ...

    def list_queues(self) -> list[QueueRecord]:
        """Return queues that hold something or are paused, by name."""
        ...


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
    standing: WorkerStatus | None
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
        is_drain = self.standing is WorkerStatus.DRAINING
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
    is_drain = command.standing is WorkerStatus.DRAINING
    if is_drain and found.standing is WorkerStatus.QUARANTINED:
        remedy = f"release it first: duly worker release {command.worker}"
        raise Conflict("worker", str(command.worker), "is in quarantine", remedy)
    return found


def is_known(found: Member, command: OrderWorker) -> bool:
    """Say whether an order was carried out before."""
    is_more = command.is_fenced or command.is_whole_host
    return found.standing is command.standing and not is_more


def ordered_worker_subject(found: Member, command: OrderWorker) -> AuditSubject:
    """Return what is told of a worker that was taken out of service, or put back."""
    after: dict[str, Any] = {"standing": _text(command.standing), "host": found.host}
    after["process"] = found.process
    if command.is_fenced:
        after["fenced"] = True
    if command.is_whole_host:
        after["whole_host"] = True
    before = {"standing": _text(found.standing)}
    return AuditSubject(name=f"worker {found.id}", before=before, after=after)


def _text(standing: WorkerStatus | None) -> str | None:
    return None if standing is None else str(standing)
