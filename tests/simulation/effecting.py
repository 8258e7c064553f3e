"""Effecting: what tasks of a world do outside, by the shipped code for it, and what was seen there.

The outside is what no store can look at: whether money went. It is written down when an effect
takes place, whoever knows of it, and whatever becomes of the code that did it.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.client import run_context as client_effects
from duly.domain.enums import Effects, Finding, RunState
from duly.domain.ids import RunId, identity_text
from duly.domain.verification import CHECKED
from duly.errors import EffectNotDone
from duly.store.ports.effects import AddVerdict
from tests.simulation.recipe import SECOND

if TYPE_CHECKING:
    from duly.engine.executors.executor import AttemptWork
    from tests.simulation.task_threads import Strand
    from tests.simulation.world import World

WHOLE = ""
"""How the outside calls an effect that was begun without a key."""
KEYS = (WHOLE, "a", "b", "c")
LENGTHS_US = (0, 0, 1000, 300_000, 2 * SECOND)
OPEN_US = (0, 1000, 300_000, 2 * SECOND, 7 * SECOND)
LIMIT_US = 30 * SECOND
"""Long enough for a run to be taken away while its code has a transaction open."""
LABEL = "simulated"
SOMETIMES = (
    "effects",
    "effects unknown",
    "effects withdrawn",
    "runs in doubt",
    "words about effects refused",
    "permission: done",
    "permission: gone",
    "permission: stopping",
    "permission: too-late",
    "permission: unknown",
    "settled: retry",
    "settled: resume",
    "settled: reconcile",
    "settled: skip",
    "found: present",
    "refused settlements",
    "found out too late",
    "checks",
    "repairs",
    "reruns",
    "refused reruns",
    "reruns asked again",
    "commits with rows",
    "commits refused",
    "claims ahead",
    "claims ahead unheard",
    "runs claimed ahead",
    "ends told between claims",
)
"""What must really have happened: otherwise the absence of violations proves nothing."""


class Broken(Exception):  # noqa: N818 - what an effect of a world raises
    """What an effect raises of which nobody knows then whether it took place."""


class Outside:
    """What was seen outside: who began an effect, and which have taken place.

    Of tasks that commit with their run: a table of their own, beside the store's.
    """

    def __init__(self, world: World) -> None:
        self.asked: set[tuple[RunId, int]] = set()
        """Claims whose code has asked for a permission, whether or not it heard of one."""
        self.entered: set[tuple[RunId, int]] = set()
        """Claims whose code has begun an effect."""
        self.took_place: defaultdict[tuple[RunId, str], Counter[int]] = defaultdict(Counter)
        """By run and key: how often, under which fence."""
        self.lines: dict[RunId, RunId] = {}
        """Written by the checker: whose effects a run goes on with, if not its own."""
        self.permitted: set[tuple[RunId, int, str]] = set()
        """Written by the checker: what the store has permitted."""
        self.rows: Counter[RunId] = Counter()
        """By run: how many rows its code has written and committed."""
        self.written: dict[object, RunId] = {}
        """By transaction that is open: whose row was written in it."""
        self._world = world

    def enter(self, run: RunId, fence: int, key: str) -> None:
        """Note that code begins an effect; by then the store must have permitted it."""
        self.entered.add((run, fence))
        if (run, fence, key) not in self.permitted:
            self._world.broken = "E2: an effect began before it was permitted"

    def happen(self, run: RunId, fence: int, key: str) -> None:
        """Note that an effect takes place."""
        self._world.counts["effects"] += 1
        self.took_place[run, key][fence] += 1
        if self.took_place[run, key][fence] > 1:
            self._world.broken = "E2: an effect took place twice under one permission"

    def has_happened(self, run: RunId, key: str) -> bool:
        """Say what a person finds who looks: by the key that all runs of a line hand on."""
        line = self.lines.get(run, run)
        return any(
            self.lines.get(one, one) == line and seen
            for (one, name), seen in self.took_place.items()
            if name == key
        )


def take_effect(strand: Strand, work: AttemptWork, outside: Outside) -> None:
    """Do what an attempt is to do outside: a few effects by their keys, or all of it as one."""
    claimed, recipe = work.claimed, strand.world.recipe
    run, fence = claimed.record.id, claimed.fence
    is_calm = strand.world.weather.is_calm
    whole_run = random.Random(f"{recipe.seed}/{run.hex()}/effects")
    draws = random.Random(f"{recipe.seed}/{run.hex()}/{claimed.tries.attempt}/effects")

    if work.runnable.policy.effects is Effects.TRANSACTIONAL:
        _commit_row(strand, work, outside, draws)
        return

    def length_us() -> int:
        return 0 if is_calm else draws.choice(LENGTHS_US)

    def one(key: str) -> None:
        outside.enter(run, fence, key)
        strand.sleep(length_us())
        if not is_calm and draws.random() < 0.1:
            raise EffectNotDone("refused")
        outside.happen(run, fence, key)
        strand.sleep(length_us())
        if not is_calm and draws.random() < 0.1:
            raise Broken

    if whole_run.random() < 0.3:
        outside.asked.add((run, fence))
        client_effects.begin_all(work.live, LABEL)
        one(WHOLE)
        return
    for key in whole_run.choice((("a",), ("a", "b"), ("a", "b", "c"))):
        outside.asked.add((run, fence))
        try:
            client_effects.once(work.live, LABEL, key, lambda key=key: one(key))  # type: ignore[misc]
        except Broken:
            # Careless code goes on as if nothing were wrong; the effect stays open.
            if draws.random() < 0.5:
                raise


def check_outside(strand: Strand, work: AttemptWork, outside: Outside) -> None:
    """Look at what a run has brought about, as its task's own check does, and record it."""
    claimed, recipe = work.claimed, strand.world.recipe
    draws = random.Random(f"{recipe.seed}/{claimed.run_id.hex()}/{claimed.tries.attempt}/check")
    store: Any = strand.node.store
    of = RunId(UUID(json.loads(claimed.arguments)[CHECKED]).bytes)
    run = store.get_run(of)
    is_there = any(outside.has_happened(of, key) for key in KEYS)
    # Meanwhile a person may decide, and the run be tried again.
    length_us = draws.choice(LENGTHS_US)
    strand.sleep(0 if strand.world.weather.is_calm else length_us)
    finding = Finding.PRESENT if is_there else Finding.ABSENT
    if draws.random() < 0.3:
        finding = Finding.UNKNOWN
    doubt = run.tries.fence if run.state is RunState.AMBIGUOUS else None
    by = identity_text(claimed.run_id)
    store.add_verdict(AddVerdict(run_id=of, finding=finding, evidence=None, by=by, doubt=doubt))


def _commit_row(strand: Strand, work: AttemptWork, outside: Outside, draws: random.Random) -> None:
    """Write a row that is committed with the run's success, or not at all."""
    is_calm = strand.world.weather.is_calm
    with work.live.transact(LIMIT_US) as lent:
        outside.written[lent.transaction] = work.claimed.record.id
        strand.sleep(0 if is_calm else draws.choice(OPEN_US))
        if not is_calm and draws.random() < 0.1:
            raise Broken
