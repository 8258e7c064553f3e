"""Crowds: somebody who orders runs that fall due together, and then thinks better of some of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.audit import Actor
from duly.domain.enums import Lane, Origin
from duly.domain.ids import ordered_run_id
from duly.domain.schedules import Call
from duly.errors import Conflict, NotFound, StoreUnavailable
from duly.store.ports.schedules import AddRuns, CancelDelayed, MoveDelayed, NewRun
from tests.simulation.recipe import SECOND
from tests.simulation.scripts import QUEUES, TASKS
from tests.simulation.users import EDGES_US, TENANT

if TYPE_CHECKING:
    from duly.domain.ids import RunId
    from tests.simulation.nodes import Node
    from tests.simulation.recipe import Recipe

SIZES = (1, 2, 3, 6)
DELAYS_US = (100_000, SECOND, 3 * SECOND)
CHANGED_SHARE = 0.4


class Crowd:
    """One who orders several runs for one instant, and nothing else."""

    def __init__(self, recipe: Recipe) -> None:
        self._draws = recipe.stream("crowd")
        self._actor = Actor("crowd", "simulation")

    def live(self, node: Node) -> None:
        """Order until the world is calm; what can't be ordered is not asked for again."""
        while not node.world.weather.is_calm:
            node.wait(self._draws.randint(1000, 2 * SECOND))
            try:
                self._order(node)
            except (Conflict, NotFound):
                node.world.counts["refused orders"] += 1
            except StoreUnavailable:
                node.world.counts["unknown orders"] += 1

    def _order(self, node: Node) -> None:
        draws, now = self._draws, node.store.now()
        due_at = now + draws.choice(DELAYS_US)
        queue = draws.choice(QUEUES)
        runs = tuple(self._run(now, due_at, queue) for _ in range(draws.choice(SIZES)))
        added = node.store.add_runs(AddRuns(runs=runs, actor=self._actor))
        if draws.random() < CHANGED_SHARE:
            node.wait(max(0, due_at - now - draws.randint(0, 30_000)))
            node.aimed_at = due_at + draws.choice(EDGES_US)
            self._change(node, draws.choice(added).id)

    def _run(self, now: int, due_at: int, queue: str) -> NewRun:
        draws = self._draws
        other = draws.choice(QUEUES) if draws.random() < 0.2 else queue
        return NewRun(
            id=ordered_run_id("once", now, draws.randbytes(16)),
            tenant=TENANT,
            call=Call(task=draws.choice(TASKS), queue=other, priority=draws.choice((1, 5, 9))),
            origin=Origin.DELAY,
            lane=Lane.LIVE,
            due_at=due_at,
            is_late_ok=True,
        )

    def _change(self, node: Node, run_id: RunId) -> None:
        """Move or cancel a run, just when it falls due."""
        if self._draws.random() < 0.3:
            order = CancelDelayed(tenant=TENANT, key=None, id=run_id, actor=self._actor)
            node.store.cancel_delayed(order)
            return
        delay_us = self._draws.choice((1000, 50_000, SECOND))
        node.store.move_delayed(
            MoveDelayed(
                tenant=TENANT,
                key=None,
                id=run_id,
                due_at=None,
                delay_us=delay_us,
                is_late_ok=False,
                actor=self._actor,
            )
        )
