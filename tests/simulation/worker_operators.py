"""Foremen: people who drain workers, put them into quarantine, and release them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.domain.audit import Actor
from duly.errors import Conflict, NotFound, StoreUnavailable
from duly.store.ports.dispatch import MemberKind, WorkerStatus
from duly.store.ports.operations import OrderWorker
from tests.simulation.recipe import SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.store.ports.dispatch import Member
    from tests.simulation.nodes import Node
    from tests.simulation.recipe import Recipe

TRIES_MAX = 4
ACTIONS = {"drain": 4, "set_apart": 5, "fence_off": 3, "close_host": 2, "release": 7, "replace": 3}
THINKING_US = (0, 1000, 300_000, 2 * SECOND)


class Foreman:
    """One who looks after workers."""

    def __init__(self, recipe: Recipe, workers: list[Node]) -> None:
        self._draws = recipe.stream("foreman")
        self._actor = Actor("foreman", "simulation", "to see to it")
        self._workers = workers

    def live(self, node: Node) -> None:
        """Give orders until the world is calm; from then on see that everybody is in service."""
        while True:
            is_calm = node.world.weather.is_calm
            node.wait(SECOND if is_calm else self._draws.randint(1000, 4 * SECOND))
            action = self._draws.choices(tuple(ACTIONS), tuple(ACTIONS.values()))[0]
            try:
                if node.world.weather.is_calm:
                    self._release_all(node)
                else:
                    getattr(self, f"_{action}")(node)
            except (Conflict, NotFound):
                node.world.counts["refused orders"] += 1
            except StoreUnavailable:
                node.world.counts["unknown orders"] += 1

    def _drain(self, node: Node) -> None:
        self._order_one(node, standing=WorkerStatus.DRAINING)

    def _set_apart(self, node: Node) -> None:
        self._order_one(node, standing=WorkerStatus.QUARANTINED)

    def _fence_off(self, node: Node) -> None:
        self._order_one(node, standing=WorkerStatus.QUARANTINED, is_fenced=True)

    def _close_host(self, node: Node) -> None:
        self._order_one(node, standing=WorkerStatus.QUARANTINED, is_whole_host=True)

    def _release(self, node: Node) -> None:
        is_whole_host = self._draws.random() < 0.3
        self._order_one(node, standing=None, is_whole_host=is_whole_host)

    def _replace(self, node: Node) -> None:
        """Start what has ended, as who has drained a machine does when it is back."""
        node.world.counts["workers replaced"] += sum(not one.is_alive for one in self._workers)
        for one in self._workers:
            one.start()

    def _order_one(self, node: Node, **parts: Any) -> None:
        found = self._find(node)
        if not found:
            return
        # Most go back to one they know, so that orders meet.
        chosen = found[-1] if self._draws.random() < 0.4 else self._draws.choice(found)
        node.wait(self._draws.choice(THINKING_US))
        order = OrderWorker(worker=chosen.id, actor=self._actor, **parts)
        self._persist(lambda: node.store.order_worker(order))

    def _release_all(self, node: Node) -> None:
        closed = {one.host for one in self._persist(node.store.list_quarantined_hosts)}
        for one in self._find(node):
            is_closed = one.host in closed
            if is_closed or one.standing is WorkerStatus.QUARANTINED:
                closed.discard(one.host)
                order = OrderWorker(
                    worker=one.id, standing=None, is_whole_host=is_closed, actor=self._actor
                )
                self._persist(lambda order=order: node.store.order_worker(order))  # type: ignore[misc]

    def _find(self, node: Node) -> list[Member]:
        status = self._persist(node.store.status)
        return [one for one in status.members if one.kind is MemberKind.WORKER and one.is_alive]

    def _persist(self, ask: Callable[[], Any]) -> Any:
        for _ in range(TRIES_MAX):
            try:
                return ask()
            except StoreUnavailable:
                continue
        raise StoreUnavailable("simulated", "does not answer", "give up")
