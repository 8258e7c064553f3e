"""Reconcilers: people and checks that look outside, and settle what is in doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.domain.audit import Actor
from duly.domain.effects import Choice
from duly.domain.enums import Finding, RunState
from duly.domain.ids import ordered_run_id
from duly.errors import Conflict, NotFound, StoreUnavailable
from duly.store.ports.effects import AddVerdict, Rerun, ResolveAmbiguousRun
from duly.store.ports.execution import ClaimRef
from duly.store.ports.queries import RunFilter
from tests.simulation.effecting import KEYS
from tests.simulation.recipe import SECOND
from tests.simulation.users import TENANT

if TYPE_CHECKING:
    from duly.domain.ids import RunId
    from tests.simulation.effecting import Outside
    from tests.simulation.nodes import Node
    from tests.simulation.recipe import Recipe

CHOICES = (Choice.RETRY, Choice.RETRY, Choice.RESUME, Choice.RECONCILE, Choice.SKIP)
TRIES_MAX = 4


REPEATED = frozenset(
    (RunState.SUCCEEDED, RunState.FAILED, RunState.DEAD, RunState.CANCELLED, RunState.AMBIGUOUS)
)


class Repeater:
    """One who has runs done once more, or what is left of them, while others settle the same."""

    def __init__(self, recipe: Recipe, outside: Outside) -> None:
        self._draws = recipe.stream("repeater")
        self._known = recipe.stream("what the repeater knows")
        self._outside = outside
        self._actor = Actor("repeater", "simulation")
        self._has_gates = recipe.has_policies

    def live(self, node: Node) -> None:
        """Repeat something now and then, until the world is calm."""
        while not node.world.weather.is_calm:
            node.wait(self._draws.randint(1000, 8 * SECOND))
            try:
                self._repeat(node)
            except (Conflict, NotFound):
                node.world.counts["refused reruns"] += 1
            except StoreUnavailable:
                node.world.counts["unknown reruns"] += 1

    def _repeat(self, node: Node) -> None:
        store: Any = node.store
        wanted = frozenset((RunState.AMBIGUOUS,)) if self._draws.random() < 0.3 else REPEATED
        found = store.list_runs(RunFilter(tenant=TENANT, states=wanted, limit=30))
        # What comes to a gate once more is played by others.
        free = [one for one in found if one.schedule_id is None or not self._has_gates]
        if not free:
            return
        chosen = self._draws.choice(free)
        node.wait(self._draws.choice((0, 1000, SECOND)))
        new_id = ordered_run_id("rerun", chosen.scheduled_for, self._draws.randbytes(16))
        is_repair = self._draws.random() < 0.6
        order = Rerun(
            tenant=TENANT,
            id=chosen.id,
            new_id=new_id,
            actor=self._actor,
            is_repair=is_repair,
            fence=chosen.tries.fence,
            effects=self._seen_of(chosen.id) if is_repair else {},
        )
        for _ in range(TRIES_MAX):
            try:
                store.rerun_run(order)
            except StoreUnavailable:
                continue
            return

    def _seen_of(self, run_id: RunId) -> dict[str, bool]:
        """Say of some effects whether they have happened."""
        if self._known.random() < 0.5:
            return {}
        return {key: self._outside.has_happened(run_id, key) for key in KEYS if key}


class Reconciler:
    """One who looks through the inbox now and then, and leaves some of it to others."""

    def __init__(self, recipe: Recipe, number: int, outside: Outside) -> None:
        self._draws = recipe.stream(f"reconciler{number}")
        self._actor = Actor("reconciler", "simulation")
        self._outside = outside

    def live(self, node: Node) -> None:
        """Settle doubts until the world is calm; what is left then stays in doubt."""
        while not node.world.weather.is_calm:
            node.wait(self._draws.randint(1000, 6 * SECOND))
            try:
                self._look(node)
            except (Conflict, NotFound):
                node.world.counts["refused settlements"] += 1
            except StoreUnavailable:
                node.world.counts["unknown settlements"] += 1

    def _look(self, node: Node) -> None:
        store: Any = node.store
        found = store.list_doubts(None, 20)
        if not found:
            return
        # Most begin with the oldest, so that two come to the same one.
        chosen = (found[0] if self._draws.random() < 0.6 else self._draws.choice(found)).run
        hold = ClaimRef(chosen.id, chosen.tries.fence)
        # By the time somebody has looked outside, another one may have decided.
        node.wait(self._draws.choice((0, 1000, SECOND, 3 * SECOND, 15 * SECOND)))
        order = self._verdict(hold) if self._draws.random() < 0.3 else self._choice(hold)
        for _ in range(TRIES_MAX):
            try:
                if isinstance(order, AddVerdict):
                    store.add_verdict(order)
                else:
                    store.settle_doubt(order)
            except StoreUnavailable:
                continue
            return

    def _choice(self, hold: ClaimRef) -> ResolveAmbiguousRun:
        run_id = hold.run_id
        seen = {key: self._outside.has_happened(run_id, key) for key in KEYS}
        return ResolveAmbiguousRun(
            tenant=TENANT,
            id=run_id,
            choice=self._draws.choice(CHOICES),
            actor=self._actor,
            doubt=hold.fence,
            is_done=any(seen.values()),
            effects={key: True for key, is_seen in seen.items() if key and is_seen},
        )

    def _verdict(self, hold: ClaimRef) -> AddVerdict:
        run_id = hold.run_id
        is_there = any(self._outside.has_happened(run_id, key) for key in KEYS)
        finding = self._draws.choice((Finding.UNKNOWN, Finding.PARTIAL, None))
        if finding is None or (finding is Finding.PARTIAL and not is_there):
            finding = Finding.PRESENT if is_there else Finding.ABSENT
        by = "simulation"
        return AddVerdict(run_id=run_id, finding=finding, evidence=None, by=by, doubt=hold.fence)
