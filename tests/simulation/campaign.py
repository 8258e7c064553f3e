"""The campaign: many seeds on all cores; prints what happened, how to play a failure again,
and few seeds that show as much: those that the tests of dangers name.

python -m tests.simulation.campaign --first 0 --seeds 1000
python -m tests.simulation.campaign --seed 17
python -m tests.simulation.campaign --store postgres --seeds 100
python -m tests.simulation.campaign --worlds limits --seeds 1000
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
from collections import Counter
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.simulation.effecting import SOMETIMES as EFFECTS_SOMETIMES
from tests.simulation.handing import SOMETIMES as HANDS_SOMETIMES
from tests.simulation.limiting import SOMETIMES as LIMITS_SOMETIMES
from tests.simulation.recipe import (
    Recipe,
    changed,
    recipe_of,
    with_effects,
    with_limits,
    with_standing,
    with_watchers,
)
from tests.simulation.shrinking import shrink
from tests.simulation.simulation import HEALTHY, Mutant, Report, simulate
from tests.simulation.standing_checker import SOMETIMES as STANDING_SOMETIMES
from tests.simulation.watching import SOMETIMES as WATCH_SOMETIMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

OVERLAPPING = ("queue-one", "queue-all", "coalesce", "replace", "serialize")
FAILURES_SHOWN = 5
CHUNK = 5
SOMETIMES = (
    "takeovers",
    "renewals refused",
    "result: fenced",
    "result: late",
    "result: gone",
    "lost replies",
    "late plans",
    "catch-ups",
    "fold fires",
    "skew holds",
    "open transactions",
    "stale orders",
    "creations asked again",
    "delayed fires",
    "claims ahead",
    "claims ahead unheard",
    "runs claimed ahead",
    "ends told between claims",
    "claims taken over",
    "completions refused",
    "settlements refused",
    "ends told again",
    "strays",
    "beats refused",
    "stale reports",
    "stale checkpoints",
    "overlaps of execution",
    "retries fired",
    "runs dead",
    "dead runs retried",
    "given back",
    "given back unbegun",
    "ticks with runs ahead of slots",
    "cancellations asked",
    "workers killed by a task",
    "event: slot-leaked",
    "event: worker-draining",
    "event: task-missing",
    *(f"overlap: {policy}" for policy in OVERLAPPING),
    "skipped: overlap",
    "skipped: overflow",
    "waiting closed: coalesced",
    "waiting closed: replaced",
    "made way at once",
    "asked to make way",
    "let go",
    "lost openings",
    "overrides",
    "drain: busy",
    "backfills",
    "backfill: paused",
    "backfill: active",
    "backfill: cancelled",
    "backfills done",
    "filled",
    "filled again",
    "not filled",
    "backfill steps refused",
)
"""What must really have happened in a campaign: otherwise its zero proves nothing."""


WORLDS: dict[str, Callable[[Recipe], Recipe]] = {
    "plain": lambda recipe: recipe,
    "effects": with_effects,
    "limits": with_limits,
    "standing": with_standing,
    "watch": with_watchers,
}
DANGERS: dict[str, tuple[str, ...]] = {
    "plain": (*SOMETIMES, *HANDS_SOMETIMES),
    "effects": EFFECTS_SOMETIMES,
    "limits": LIMITS_SOMETIMES,
    "standing": STANDING_SOMETIMES,
    "watch": WATCH_SOMETIMES,
}
"""By sort of world: what the seeds of its test must show, and what a campaign looks out for."""


def tell(text: object) -> None:
    """Print a line at once, also when nobody sits at a terminal."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def play_seed(seed: int, worlds: str = "plain") -> Report:
    """Play the recipe of a seed, as a world of one sort."""
    return simulate(WORLDS[worlds](recipe_of(seed)))


def play_seeds(
    seeds: Sequence[int], processes: int, play: Callable[[int], Report] = play_seed
) -> Iterator[Report]:
    """Play many seeds, in several processes when there are as many cores."""
    if processes == 1:
        yield from map(play, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(play, seeds, CHUNK)


def summary(counts: Counter[str], seeds: int) -> str:
    """Return what happened in a campaign, in one paragraph."""
    shown = ", ".join(f"{name} {counts[name]:,}" for name in sorted(counts))
    return f"{seeds:,} seeds; {shown}"


def run_campaign(first: int, seeds: int, processes: int, worlds: str = "plain") -> int:
    """Play seeds and tell; the answer is the exit code."""
    play = partial(play_seed, worlds=worlds)
    reports = play_seeds(range(first, first + seeds), processes, play)
    return tell_reports(reports, seeds, wanted=DANGERS[worlds])


def run_campaign_on_postgres(first: int, seeds: int, processes: int) -> int:
    """Play seeds on a server that is started for them, and tell."""
    from tests.postgres.server import shared_databases
    from tests.simulation.on_postgres import on_postgres, play_on_postgres

    with tempfile.TemporaryDirectory() as name:
        databases = shared_databases(Path(name))
        try:
            play = partial(play_on_postgres, Path(name))
            reports = play_seeds(range(first, first + seeds), processes, play)
            return tell_reports(reports, seeds, on_postgres(databases))
        finally:
            databases.close()


def tell_reports(
    reports: Iterator[Report],
    seeds: int,
    mutant: Mutant = HEALTHY,
    wanted: Sequence[str] = SOMETIMES,
) -> int:
    """Tell what became of all worlds; the answer is the exit code."""
    counts: Counter[str] = Counter()
    failures: list[Report] = []
    shown: dict[int, frozenset[str]] = {}
    for report in reports:
        counts.update(report.counts)
        shown[report.recipe.seed] = frozenset(name for name in wanted if report.counts[name])
        if report.violation is not None:
            failures.append(report)
            tell(f"seed {report.recipe.seed}: {report.violation}")
    tell(summary(counts, seeds))
    for report in sorted(failures, key=lambda one: one.recipe.seed)[:FAILURES_SHOWN]:
        tell_failure(report, mutant)
    never = [name for name in wanted if not counts[name]]
    if never:
        tell(f"never happened: {', '.join(never)}")
    tell(f"few seeds that show as much: {few_seeds(shown)}")
    tell(f"violations: {len(failures)}")
    return 1 if failures else 0


def few_seeds(shown: Mapping[int, frozenset[str]]) -> tuple[int, ...]:
    """Return few seeds that together show every danger that any seed shows."""
    chosen: list[int] = []
    missing = frozenset[str]().union(*shown.values())
    while missing:
        chosen.append(max(sorted(shown), key=lambda seed: len(shown[seed] & missing)))
        missing -= shown[chosen[-1]]
    return tuple(chosen)


def tell_failure(report: Report, mutant: Mutant) -> None:
    """Shrink a failure, and print how to see it again."""
    smallest = shrink(report, mutant)
    place = "" if mutant is HEALTHY else f" --store {mutant.name}"
    tell(f"\nseed {report.recipe.seed}: {report.violation}")
    tell(f"  shrunk to: {smallest.violation}")
    tell(f"  {smallest.recipe.command()}{place}")


def read_recipe(words: argparse.Namespace) -> Recipe:
    """Return the recipe of a seed, with what the command line changes."""
    parts: dict[str, Any] = {}
    for one in fields(Recipe):
        text = getattr(words, one.name, None)
        if text is None or one.name == "seed":
            continue
        match one.name:
            case "kinds":
                parts[one.name] = frozenset(text.split(",")) - {"none", ""}
            case "planned":
                parts[one.name] = frozenset(int(item) for item in text.split(",") if item != "none")
            case (
                "has_open_transactions"
                | "has_policies"
                | "has_effects"
                | "has_limits"
                | "has_standing"
            ):
                parts[one.name] = text == "True"
            case "start":
                parts[one.name] = text
            case _:
                parts[one.name] = int(text)
    return changed(recipe_of(words.seed), **parts)


def command_line() -> argparse.ArgumentParser:
    """Return what the command takes: a campaign, or one recipe part by part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=None, help="play one recipe and tell its trace")
    parser.add_argument("--store", choices=("memory", "postgres"), default="memory")
    parser.add_argument("--worlds", choices=tuple(WORLDS), default="plain")
    for one in fields(Recipe):
        if one.name != "seed":
            parser.add_argument(f"--{one.name.replace('_', '-')}", default=None)
    return parser


def read_command(text: str) -> Recipe:
    """Return the recipe that a printed command plays."""
    return read_recipe(command_line().parse_args(text.split()[3:]))


def play_one(recipe: Recipe, store: str) -> Report:
    """Play one recipe."""
    if store == "memory":
        return simulate(recipe)
    from tests.postgres.server import Server
    from tests.simulation.on_postgres import on_postgres

    with Server.boot() as server:
        return simulate(recipe, on_postgres(server))


def main() -> int:
    """Read the command line."""
    words = command_line().parse_args()
    if words.seed is None:
        if words.store == "memory":
            return run_campaign(words.first, words.seeds, words.processes, words.worlds)
        return run_campaign_on_postgres(words.first, words.seeds, words.processes)
    report = play_one(read_recipe(words), words.store)
    tell(report.recipe)
    tell(summary(report.counts, 1))
    tell(f"trace {report.trace}")
    tell(f"violation: {report.violation}")
    return 1 if report.violation else 0


if __name__ == "__main__":
    sys.exit(main())
