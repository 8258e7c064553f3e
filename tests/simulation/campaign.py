"""The campaign: many seeds on all cores; prints what happened, and how to play a failure again.

python -m tests.simulation.campaign --first 0 --seeds 1000
python -m tests.simulation.campaign --seed 17
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections import Counter
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from tests.simulation.recipe import Recipe, changed, recipe_of
from tests.simulation.shrinking import shrink
from tests.simulation.simulation import Report, simulate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
)
"""What must really have happened in a campaign: otherwise its zero proves nothing."""


def tell(text: object) -> None:
    """Print a line at once, also when nobody sits at a terminal."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def play_seed(seed: int) -> Report:
    """Play the recipe of a seed."""
    return simulate(recipe_of(seed))


def play_seeds(seeds: Sequence[int], processes: int) -> Iterator[Report]:
    """Play many seeds, in several processes when there are as many cores."""
    if processes == 1:
        yield from map(play_seed, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(play_seed, seeds, CHUNK)


def summary(counts: Counter[str], seeds: int) -> str:
    """Return what happened in a campaign, in one paragraph."""
    shown = ", ".join(f"{name} {counts[name]:,}" for name in sorted(counts))
    return f"{seeds:,} seeds; {shown}"


def run_campaign(first: int, seeds: int, processes: int) -> int:
    """Play seeds and tell; the answer is the exit code."""
    counts: Counter[str] = Counter()
    failures: list[Report] = []
    for report in play_seeds(range(first, first + seeds), processes):
        counts.update(report.counts)
        if report.violation is not None:
            failures.append(report)
            tell(f"seed {report.recipe.seed}: {report.violation}")
    tell(summary(counts, seeds))
    for report in sorted(failures, key=lambda one: one.recipe.seed)[:FAILURES_SHOWN]:
        tell_failure(report)
    never = [name for name in SOMETIMES if not counts[name]]
    if never:
        tell(f"never happened: {', '.join(never)}")
    tell(f"violations: {len(failures)}")
    return 1 if failures else 0


def tell_failure(report: Report) -> None:
    """Shrink a failure, and print how to see it again."""
    smallest = shrink(report)
    tell(f"\nseed {report.recipe.seed}: {report.violation}")
    tell(f"  shrunk to: {smallest.violation}")
    tell(f"  {smallest.recipe.command()}")


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
            case "has_open_transactions":
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
    for one in fields(Recipe):
        if one.name != "seed":
            parser.add_argument(f"--{one.name.replace('_', '-')}", default=None)
    return parser


def read_command(text: str) -> Recipe:
    """Return the recipe that a printed command plays."""
    return read_recipe(command_line().parse_args(text.split()[3:]))


def main() -> int:
    """Read the command line."""
    words = command_line().parse_args()
    if words.seed is None:
        return run_campaign(words.first, words.seeds, words.processes)
    report = simulate(read_recipe(words))
    tell(report.recipe)
    tell(summary(report.counts, 1))
    tell(f"trace {report.trace}")
    tell(f"violation: {report.violation}")
    return 1 if report.violation else 0


if __name__ == "__main__":
    sys.exit(main())
