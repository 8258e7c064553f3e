"""The checker of standing: who is out of service takes nothing, and is not cut off in its work.

A worker that drains finishes what it has, and ends. One in quarantine does so and stays, also when
it joins anew; fenced off, it is as one that has died.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from duly.domain.enums import AttemptState
from duly.domain.runs import Reason
from duly.store.ports.dispatch import MemberKind, WorkerStatus
from duly.store.ports.queries import AuditFilter
from tests.simulation.recipe import SECOND
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from duly.store.ports.dispatch import Join, MemberId
    from duly.store.ports.execution import FinishAttempt, HeartbeatResult
    from duly.store.ports.operations import OrderWorker
    from tests.simulation.ledger import Ledger
    from tests.simulation.work_checker import WorkChecker
    from tests.simulation.world import Executed, World

DRAIN_OLD_US = 40 * SECOND
"""Whoever drains when everybody behaves has ended by then."""
PAGE = 1000
ORDERS = ("worker.drained", "worker.quarantined", "worker.released")
SOMETIMES = (
    "claims ahead",
    "claims refused: draining",
    "claims refused: quarantined",
    "finished out of service: draining",
    "finished out of service: quarantined",
    "fenced off with runs",
    "joined in quarantine",
    "orders known",
    "runs claimed ahead",
    "worker.drained",
    "worker.quarantined",
    "worker.released",
    "workers drained to the end",
    "workers replaced",
)
"""What must really have happened: otherwise the absence of violations proves nothing."""


class StandingChecker:
    """Knows who is out of service, by the orders that were carried out."""

    def __init__(self, ledger: Ledger, work: WorkChecker, world: World) -> None:
        self._ledger = ledger
        self._work = work
        self._world = world
        self._counts = world.counts
        self._joined: dict[MemberId, Join] = {}
        self._standing: dict[MemberId, WorkerStatus | None] = {}
        self._ordered_at: dict[MemberId, int] = {}
        self._hosts: set[str] = set()
        self._entries: Counter[str] = Counter()

    def joined(self, member: MemberId, command: Join) -> None:
        """A quarantine stays with its process, or with its host."""
        if command.kind is not MemberKind.WORKER:
            return
        own = (command.host, command.process)
        is_kept = any(
            (one.host, one.process) == own and self._standing[known] is WorkerStatus.QUARANTINED
            for known, one in self._joined.items()
        )
        is_apart = is_kept or command.host in self._hosts
        self._joined[member] = command
        self._standing[member] = WorkerStatus.QUARANTINED if is_apart else None
        self._counts["joined in quarantine"] += is_apart

    def order_worker(self, executed: Executed) -> None:
        """An order holds for whom it names, and is on record once."""
        command: OrderWorker = executed.call.arguments[0]
        worker, standing = command.worker, command.standing
        is_more = command.is_fenced or command.is_whole_host
        if self._standing[worker] is standing and not is_more:
            self._counts["orders known"] += 1
            return
        own = self._joined[worker]
        for member, one in self._joined.items():
            is_meant = member == worker
            if command.is_whole_host:
                is_meant = one.host == own.host
            elif standing is None:
                is_meant = (one.host, one.process) == (own.host, own.process)
            if is_meant and (standing is None or self._ledger.members[member].is_alive):
                self._standing[member] = standing
                self._ordered_at[member] = executed.at
        if command.is_whole_host:
            (self._hosts.discard if standing is None else self._hosts.add)(own.host)
        if command.is_fenced:
            self._counts["fenced off with runs"] += self._work.holds_any(worker)
            self._ledger.members[worker].is_alive = False
        self._entries[command.action] += 1
        self._counts[command.action] += 1
        if executed.result.standing is not self._standing[worker]:
            raise Violation("A1: an order left a worker otherwise than it said")

    def list_quarantined_hosts(self, executed: Executed) -> None:
        """Hosts are those that orders name."""
        if {one.host for one in executed.result} != self._hosts:
            raise Violation("A1: other hosts are in quarantine than was ordered")

    def may_claim(self, worker: MemberId) -> bool:
        """Say whether nobody has taken a worker out of service."""
        standing = self._standing.get(worker)
        if standing is not None:
            self._counts[f"claims refused: {standing}"] += 1
        return standing is None

    def is_in_service(self, worker: MemberId) -> bool:
        """Say the same, of one that does not ask for it."""
        return self._standing.get(worker) is None

    def beaten(self, worker: MemberId, beaten: HeartbeatResult) -> None:
        """A worker is told how it stands, while it is one."""
        expected = self._standing.get(worker) if beaten.is_alive else None
        if beaten.standing is not expected:
            raise Violation("A1: a worker was told another standing than was ordered")

    def finish(self, executed: Executed, worker: MemberId, finish: FinishAttempt) -> None:
        """Who is out of service is not cut off: what it has begun is finished."""
        standing, conclusion = self._standing.get(worker), finish.conclusion
        if standing is None or not conclusion.is_started:
            return
        self._counts[f"finished out of service: {standing}"] += 1
        is_cut = conclusion.attempt_state is AttemptState.GIVEN_BACK
        node: Any = executed.call.node
        if is_cut and conclusion.reason is Reason.SHUTDOWN and not node.is_ending:
            raise Violation(f"A1: a worker that is {standing} was cut off in its work")

    def left(self, worker: MemberId) -> None:
        """Count those who were drained, and have ended by themselves."""
        is_drained = self._standing.get(worker) is WorkerStatus.DRAINING
        self._counts["workers drained to the end"] += is_drained

    def reckon(self) -> None:
        """When all is quiet nobody drains any more, and every order is on record."""
        now = self._world.clock.now_us()
        for member, standing in self._standing.items():
            is_old = self._ordered_at.get(member, 0) < now - DRAIN_OLD_US
            is_there = self._ledger.is_alive(member, now)
            if standing is WorkerStatus.DRAINING and is_old and is_there:
                raise Violation("INV-26: a worker still drains after the quiet")
        found: Counter[str] = Counter()
        for action in ORDERS:
            entries = self._world.store.list_audit(AuditFilter(action=action, limit=PAGE))
            found[action] = len(entries)
        if +found != +self._entries:
            raise Violation("L4: the trail tells of workers otherwise than was ordered")
        for one in self._world.store.status().members:
            is_living = one.id in self._standing and self._ledger.is_alive(one.id, now)
            if is_living and one.standing is not self._standing[one.id]:
                raise Violation("A1: a worker stands otherwise than was ordered")
