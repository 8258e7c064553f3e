"""Operators: people who cancel, retry and discard runs, and pause queues, while all goes wrong."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from duly.domain.audit import Actor
from duly.domain.enums import AttemptState, RunState
from duly.domain.outcomes import Close, Conclusion
from duly.errors import Conflict, NotFound, StoreUnavailable
from duly.store.ports.dispatch import MemberId
from duly.store.ports.execution import ClaimRef, FinishAttempt
from duly.store.ports.operations import CancelRun, EditRun, OrderRuns
from duly.store.ports.queries import RunFilter
from tests.simulation.recipe import SECOND
from tests.simulation.scripts import QUEUES
from tests.simulation.users import TENANT

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.domain.ids import RunId
    from tests.simulation.nodes import Node
    from tests.simulation.recipe import Recipe

TRIES_MAX = 4
THINKING_US = (0, 1000, 300_000, 2 * SECOND)
ACTIONS = (
    ("cancel", 8),
    ("retry", 5),
    ("discard", 2),
    ("edit", 1),
    ("pause", 2),
    ("resume", 4),
    ("meddle", 2),
)
SUCCESS = Conclusion(
    attempt_state=AttemptState.SUCCEEDED,
    reason=None,
    error=None,
    is_started=True,
    is_charged=True,
    next=Close(RunState.SUCCEEDED),
)
OPEN = frozenset((RunState.BLOCKED, RunState.QUEUED, RunState.RUNNING, RunState.RETRYING))
RUNNING = frozenset((RunState.RUNNING,))
RETRIABLE = frozenset((RunState.DEAD, RunState.RETRYING))
DEAD = frozenset((RunState.DEAD,))


class Operator:
    """One who looks at runs and gives orders about them."""

    def __init__(self, recipe: Recipe) -> None:
        self._draws = recipe.stream("operator")
        self._actor = Actor("operator", "simulation")
        self._paused: set[str] = set()

    def live(self, node: Node) -> None:
        """Give orders until the world is calm; then let every queue go on."""
        while not node.world.weather.is_calm:
            node.wait(self._draws.randint(1000, 4 * SECOND))
            names, weights = zip(*ACTIONS, strict=True)
            action = self._draws.choices(names, weights)[0]
            try:
                getattr(self, f"_{action}")(node)
            except (Conflict, NotFound):
                node.world.counts["refused orders"] += 1
            except StoreUnavailable:
                node.world.counts["unknown orders"] += 1
        for queue in sorted(self._paused):
            self._persist(partial(node.store.resume_queue, queue, self._actor))

    def _cancel(self, node: Node) -> None:
        # Most of what is running ends before the order arrives; so it is often aimed at.
        states = RUNNING if self._draws.random() < 0.6 else OPEN
        for chosen in self._choose(node, states, 1):
            order = CancelRun(tenant=TENANT, id=chosen, actor=self._actor)
            self._persist(lambda order=order: node.store.cancel_run(order))  # type: ignore[misc]

    def _retry(self, node: Node) -> None:
        chosen = self._choose(node, RETRIABLE, 3)
        order = OrderRuns(tenant=TENANT, ids=chosen, actor=self._actor)
        self._persist(lambda: node.store.retry_runs(order))

    def _discard(self, node: Node) -> None:
        chosen = self._choose(node, DEAD, 2)
        order = OrderRuns(tenant=TENANT, ids=chosen, actor=self._actor)
        self._persist(lambda: node.store.discard_runs(order))

    def _edit(self, node: Node) -> None:
        for chosen in self._choose(node, DEAD, 1):
            order = EditRun(tenant=TENANT, id=chosen, arguments='{"n":0}', actor=self._actor)
            node.store.edit_run(order)

    def _pause(self, node: Node) -> None:
        queue = self._draws.choice(QUEUES)
        self._paused.add(queue)
        node.store.pause_queue(queue, self._actor)

    def _resume(self, node: Node) -> None:
        for queue in sorted(self._paused):
            self._persist(partial(node.store.resume_queue, queue, self._actor))
            self._paused.discard(queue)

    def _meddle(self, node: Node) -> None:
        """Speak for a worker that one is not, about a run that it holds."""
        found = self._persist(
            lambda: node.store.list_runs(RunFilter(tenant=TENANT, states=RUNNING))
        )
        for run in found[:3]:
            other, hold = MemberId(run.worker + 1), ClaimRef(run.id, run.tries.fence)
            finish = FinishAttempt(hold=hold, started_at=None, conclusion=SUCCESS)
            self._persist(lambda: node.store.finish_runs(other, [finish]))  # noqa: B023 - called at once

    def _choose(self, node: Node, states: frozenset[RunState], most: int) -> tuple[RunId, ...]:
        wanted = RunFilter(tenant=TENANT, states=states, limit=30)
        found = self._persist(lambda: node.store.list_runs(wanted))
        # A person thinks before acting; what was seen may have moved on by then.
        node.wait(self._draws.choice(THINKING_US))
        ids = [run.id for run in found]
        return tuple(self._draws.sample(ids, min(most, len(ids))))

    def _persist(self, ask: Callable[[], Any]) -> Any:
        for _ in range(TRIES_MAX):
            try:
                return ask()
            except StoreUnavailable:
                continue
        raise StoreUnavailable("simulated", "does not answer", "give up")
