"""Limiting: destinations that are down for a while, programs that order a lot, people who limit it.

What is seen at a destination does not depend on what anybody believes: whether it answers is drawn
from the seed, and every call to it is noted when it begins.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from duly.domain.audit import Actor
from duly.domain.enums import Lane, Origin
from duly.domain.ids import ordered_run_id
from duly.domain.limits import Limit, LimitSource, Rate
from duly.domain.schedules import Call
from duly.errors import NotFound, StoreUnavailable
from duly.store.ports.limits import SetLimit
from duly.store.ports.schedules import AddRuns, NewRun
from tests.simulation.recipe import SECOND
from tests.simulation.scripts import DESTINATIONS, LENGTHS_US, QUEUES, TASKS, WAITS_US, Script
from tests.simulation.users import REFUSED, TENANT, User

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.engine.executors.executor import AttemptWork
    from duly.store.ports.execution import ClaimedRun
    from tests.simulation.nodes import Node
    from tests.simulation.recipe import Recipe
    from tests.simulation.task_threads import Strand

DEEDS = (
    ("succeed", 88),
    ("fail", 5),
    ("again", 2),
    ("snooze", 2),
    ("long", 1),
    ("poison", 2),
)
"""As a rule a task that is answered does its part."""
SILENT_US = (1000, 1000, 50_000, 300_000, 2 * SECOND)
"""How long a destination that is down lets its caller wait."""
CALLS = (3, 6, 12, 20)
"""How many runs a program orders at once."""
THINKING_US = (2 * SECOND, 12 * SECOND)
TRIES_MAX = 8
SCOPES = (
    *(f"task:{name}" for name in TASKS),
    f"tenant:{TENANT}",
    *(f"destination:{name}" for name in DESTINATIONS),
)

SOMETIMES = (
    "admission: gone",
    "admissions asked again",
    "backoffs",
    "breakers opened",
    "calls to who was down",
    "claims ahead",
    "let go at a cap",
    "let go: probe",
    "places of the lost",
    "probes failed",
    "probes lost",
    "probes succeeded",
    "put off: breaker",
    "put off: rate",
    "runs claimed ahead",
    "runs dead",
    "stood for a place",
)
"""What must really have happened: otherwise the absence of violations proves nothing."""


class Unreachable(Exception):  # noqa: N818 - what a call raises
    """What a call to a destination raises that is down."""


def down_times(recipe: Recipe, destination: str) -> list[tuple[int, int]]:
    """Return when a destination is down, in true time; never when the world is calm."""
    draws, spans = recipe.stream(f"destination/{destination}"), []
    for _ in range(draws.choice((1, 1, 2))):
        begin_us = draws.randint(SECOND, recipe.seconds * SECOND // 2)
        length_us = draws.choice((8, 20, 30, 40)) * SECOND
        spans.append((recipe.start_at + begin_us, recipe.start_at + begin_us + length_us))
    return spans


def limited_script(recipe: Recipe, claimed: ClaimedRun) -> Script:
    """Draw what an attempt does besides its call."""
    draws = random.Random(f"{recipe.seed}/{claimed.record.id.hex()}/{claimed.tries.attempt}")
    names, weights = zip(*DEEDS, strict=True)
    deed = draws.choices(names, weights)[0]
    return Script(deed, draws.choice(LENGTHS_US), draws.choice(WAITS_US))


def call_out(strand: Strand, work: AttemptWork) -> None:
    """Call whom the task calls; raise if that one does not answer."""
    destination, world = work.runnable.limits.destination, strand.world
    if destination is None:
        return
    world.counts["calls to destinations"] += 1
    spans = down_times(world.recipe, destination)
    is_down = any(since <= world.true_at < until for since, until in spans)
    if is_down and not world.weather.is_calm:
        claimed = work.claimed
        name = f"{world.recipe.seed}/{claimed.record.id.hex()}/{claimed.fence}/call"
        strand.sleep(random.Random(name).choice(SILENT_US))
        world.counts["calls to who was down"] += 1
        raise Unreachable


class Caller(User):
    """A program that orders many runs at once."""

    def live(self, node: Node) -> None:
        """Order until the world is calm; then ask again what is open."""
        self._ask_again(node)
        while not node.world.weather.is_calm:
            node.wait(self._draws.randint(1000, 5 * SECOND))
            try:
                self._order_many(node)
            except REFUSED:
                node.world.counts["refused orders"] += 1
        self._ask_again(node)

    def _order_many(self, node: Node) -> None:
        draws, task = self._draws, self._draws.choice(TASKS[:2])
        runs = tuple(self._run(node, task) for _ in range(draws.choice(CALLS)))
        command = AddRuns(runs=runs, actor=self._actor)
        self._unanswered.append(command)
        self._ask(node, command)

    def _run(self, node: Node, task: str) -> NewRun:
        draws = self._draws
        delay_us = draws.choice((None, None, SECOND, 3 * SECOND))
        arguments = f'{{"n":{draws.randint(1, 3)}}}'
        return NewRun(
            id=ordered_run_id("once", node.clock.now_us(), draws.randbytes(16)),
            tenant=TENANT,
            call=Call(
                task=task,
                arguments=arguments,
                queue=draws.choice(QUEUES),
                priority=draws.choice((1, 5, 9)),
            ),
            origin=Origin.DELAY if delay_us else Origin.NOW,
            lane=Lane.LIVE,
            due_at=None,
            delay_us=delay_us,
        )


class Limiter:
    """A person who sets limits, takes them away, and takes destinations for well."""

    def __init__(self, recipe: Recipe) -> None:
        self._draws = recipe.stream("limiter")
        self._actor = Actor("limiter", "simulation", "to see to it")

    def live(self, node: Node) -> None:
        """Give orders until the world is calm; then take every limit away that a person set."""
        while not node.world.weather.is_calm:
            node.wait(self._draws.randint(*THINKING_US))
            try:
                self._order(node)
            except NotFound:
                node.world.counts["refused orders"] += 1
            except StoreUnavailable:
                node.world.counts["unknown orders"] += 1
        table = _persist(node.store.list_limits)
        for scope in table.said(LimitSource.PERSON):
            _persist(lambda scope=scope: node.store.remove_limit(scope, self._actor))  # type: ignore[misc]

    def _order(self, node: Node) -> None:
        draws = self._draws
        scope = draws.choice(SCOPES)
        match draws.choice(("set", "set", "set", "remove", "remove", "remove", "reset")):
            case "set":
                node.store.set_limit(
                    SetLimit(scope=scope, limit=_limit(scope, draws), actor=self._actor)
                )
            case "remove":
                node.store.remove_limit(scope, self._actor)
            case _:
                node.store.reset_breaker(draws.choice(DESTINATIONS), self._actor)


def _limit(scope: str, draws: random.Random) -> Limit:
    is_task = scope.startswith("task:")
    return Limit(
        running=draws.choice((None, 1, 2, 4)),
        rate=draws.choice((None, Rate(4, SECOND, 1), Rate(20, 60 * SECOND, 3))),
        running_by=draws.choice(((), (("n", 1),))) if is_task else (),
    )


def _persist(ask: Callable[[], Any]) -> Any:
    for _ in range(TRIES_MAX):
        try:
            return ask()
        except StoreUnavailable:
            continue
    raise StoreUnavailable("simulated", "does not answer", "give up")
