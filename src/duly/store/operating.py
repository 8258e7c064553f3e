"""The operating port: orders of people about runs that are open, and about queues.

Each order is one transaction with its audit entry; each says what it found when it can't be done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from duly.domain.audit import Actor
    from duly.domain.identity import RunId
    from duly.domain.literals import RunState
    from duly.domain.runs import RunRecord

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
