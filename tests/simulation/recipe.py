"""Recipes: everything that decides how a world goes, drawn from a seed or written by a person."""

from __future__ import annotations

import random
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime

SECOND = 1_000_000
MINUTE = 60 * SECOND

KINDS = (
    "lost-request",
    "lost-reply",
    "slow-request",
    "slow-reply",
    "edge",
    "lost-wakeup",
    "crash",
    "stop",
    "pause",
    "cut",
    "outage",
    "blackout",
    "skew",
    "store-step",
)
"""What can go wrong: with one call, with one process, with the store, with a clock."""

POLICIES_SHARE = 0.5
"""Of the worlds with workers, those in which runs may not overlap."""

STARTS = {
    "plain": "2027-03-08T08:00:20",
    "midnight": "2027-06-30T23:58:40",
    "new-year": "2027-12-31T23:58:40",
    "berlin-spring": "2027-03-28T00:58:50",
    "berlin-autumn": "2027-10-31T00:58:50",
    "new-york-spring": "2027-03-14T06:58:50",
    "new-york-autumn": "2027-11-07T05:58:50",
    "lord-howe-autumn": "2027-04-03T14:58:50",
    "lord-howe-spring": "2027-10-02T15:28:50",
}
"""Where worlds begin, in UTC: a minute before midnight, or before clocks change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A world in a few words; the same recipe always goes the same way."""

    seed: int
    start: str = "plain"
    seconds: int = 180
    """How long faults and users go on; a quiet minute and a half follows."""
    dispatchers: int = 3
    users: int = 3
    schedules: int = 12
    shards: int = 4
    kinds: frozenset[str] = frozenset(KINDS)
    planned: frozenset[int] | None = None
    """Which of the planned faults happen; None for all."""
    has_open_transactions: bool = True
    workers: int = 0
    """How many processes execute runs; without any, what is queued stays so."""
    has_policies: bool = False
    """Whether runs may not overlap, and people fill in what is missing; only with workers."""
    has_effects: bool = False
    """Whether tasks do what can't be taken back, and people settle what is in doubt; the same."""
    has_limits: bool = False
    """Whether tasks are limited, and call destinations that are down for a while; the same."""
    watchers: int = 0
    """How many processes look for trouble and deliver alerts."""
    has_standing: bool = False
    """Whether people take workers out of service, and put them back; only with workers."""

    @property
    def start_at(self) -> int:
        """Return the true time at which the world begins."""
        start = datetime.fromisoformat(STARTS[self.start]).replace(tzinfo=UTC)
        return int(start.timestamp()) * SECOND

    def stream(self, purpose: str) -> random.Random:
        """Return draws for one purpose: dropping one thing leaves the draws of others as is."""
        return random.Random(f"{self.seed}/{purpose}")

    def has(self, kind: str) -> bool:
        """Say whether a kind of fault can happen in this world."""
        return kind in self.kinds

    def command(self) -> str:
        """Return the command that plays this recipe."""
        plain = recipe_of(self.seed)
        words = [f".venv/bin/python -m tests.simulation.campaign --seed {self.seed}"]
        for one in fields(self):
            value = getattr(self, one.name)
            if value == getattr(plain, one.name):
                continue
            if isinstance(value, frozenset):
                value = ",".join(str(item) for item in sorted(value)) or "none"
            words.append(f"--{one.name.replace('_', '-')} {value}")
        return " ".join(words)


def recipe_of(seed: int) -> Recipe:
    """Draw a recipe: how large, when, and what goes wrong."""
    draws = random.Random(f"{seed}/recipe")
    kinds = frozenset(kind for kind in KINDS if draws.random() < 0.55)
    if draws.random() < 0.05:
        kinds = frozenset()
    return Recipe(
        seed=seed,
        start=draws.choice(tuple(STARTS)),
        seconds=draws.choice((40, 60, 90, 150)),
        dispatchers=draws.choice((1, 2, 2, 3, 3)),
        users=draws.choice((2, 3, 3, 4)),
        schedules=draws.choice((5, 10, 15, 25)),
        shards=draws.choice((1, 2, 4, 8)),
        kinds=kinds,
        workers=(workers := random.Random(f"{seed}/workers").choice((0, 0, 0, 1, 2, 3))),
        has_policies=workers > 0 and random.Random(f"{seed}/policies").random() < POLICIES_SHARE,
    )


def with_effects(recipe: Recipe) -> Recipe:
    """Return the world of a recipe with workers whose tasks have effects."""
    return replace(recipe, workers=max(1, recipe.workers), has_effects=True)


def with_limits(recipe: Recipe) -> Recipe:
    """Return the world of a recipe with workers whose tasks are limited.

    It is short, so that no breaker pauses for longer than the quiet, and its store's clock is never
    set: how many begin in a while is counted by it.
    """
    return replace(
        recipe,
        seconds=min(recipe.seconds, 60),
        dispatchers=min(recipe.dispatchers, 2),
        users=1,
        schedules=3,
        workers=max(2, recipe.workers),
        kinds=recipe.kinds - {"store-step"},
        has_policies=False,
        has_limits=True,
    )


def with_watchers(recipe: Recipe) -> Recipe:
    """Return the world of a recipe in which somebody watches, and people say what is an alert.

    It is short, so that a delivery that went wrong all the time is tried again within the quiet.
    """
    draws = recipe.stream("watchers")
    return replace(
        recipe,
        seconds=40,
        dispatchers=min(recipe.dispatchers, 2),
        users=1,
        schedules=3,
        workers=min(recipe.workers, 1),
        has_policies=False,
        has_open_transactions=False,
        watchers=draws.choice((1, 2, 2, 3)),
    )


def with_standing(recipe: Recipe) -> Recipe:
    """Return the world of a recipe whose workers are drained, quarantined and released."""
    return replace(
        recipe,
        seconds=min(recipe.seconds, 60),
        dispatchers=min(recipe.dispatchers, 2),
        users=min(recipe.users, 2),
        schedules=min(recipe.schedules, 10),
        workers=max(2, recipe.workers),
        has_policies=False,
        has_standing=True,
    )


def changed(recipe: Recipe, **parts: object) -> Recipe:
    """Return a recipe with some parts changed."""
    return replace(recipe, **parts)  # type: ignore[arg-type]
