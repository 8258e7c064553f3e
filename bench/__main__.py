"""Measure Duly and its peers: one harness, one definition of each workload.

    make bench                                  Duly and the best peer of each workload
    make bench-full                             everybody, everything, and the parts of Duly alone
    .venv/bin/python -m bench --only W1 W3 --contenders Duly PgQueuer --rounds 3
    .venv/bin/python -m bench --only W4 --sizes 100000 --append
                                                one size, and keep what was measured before
    .venv/bin/python -m bench --full --only W2 --turns "aligned': True" --seconds 60
                                                turns whose title has a text; see what is printed
    .venv/bin/python -m bench --small           small sizes: does everything work?
    .venv/bin/python -m bench --report          BENCHMARKS.md out of what was measured before

Every turn leaves a line of JSON in bench/results (--results), and BENCHMARKS.md is made of them.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.contenders import CONTENDERS, ROOT
from bench.grounds import Grounds
from bench.harness import take_turns
from bench.report import RESULTS, read, text_of, write_report
from bench.workloads import backlog, burst, creation, footprint, growth, punctuality, timers
from bench.workloads.punctuality import Offered

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.contenders import Contender
    from bench.harness import Turn

BEST = {
    "W1": ("PgQueuer on PostgreSQL", "APScheduler on SQLite"),
    "W2": ("PgQueuer on PostgreSQL",),
    "W3": ("PgQueuer on PostgreSQL",),
    "W6": ("PgQueuer on PostgreSQL",),
}
"""Whom `make bench` has beside Duly: the fastest when everybody had 1,000 due at one instant."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How much of everything."""

    rounds: int = 5
    rounds_of_streams: int = 1
    crowds: tuple[int, ...] = (1000, 10_000)
    our_crowds: tuple[int, ...] = (100_000,)
    offers: tuple[Offered, ...] = (Offered(1000, 30),)
    our_offers: tuple[Offered, ...] = (
        Offered(1, 60),
        Offered(1000, 30, is_aligned=True),
        Offered(11_600, 600),
        Offered(20_000, 60),
    )
    searched_seconds: int = 15
    """How long each rate is offered in the search for the highest; 0 for no search."""
    created: int = 10_000
    created_singly: int = 10_000
    timers: int = 200
    pulse: tuple[int, int] = (1000, 50_000)
    pendings: tuple[int, ...] = (0, 10_000, 1_000_000, 10_000_000)
    weighed: tuple[int, ...] = (100_000, 1_000_000)
    weighed_seconds: int = 60
    crowd_of_many: int = 50_000
    histories: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)
    held: tuple[int, int, int, int] = (5000, 5, 60, 30)


FULL = Sizes()
SHORT = Sizes(
    crowds=(10_000,),
    our_crowds=(),
    offers=(Offered(1000, 20),),
    our_offers=(Offered(11_600, 20),),
    searched_seconds=0,
    created_singly=2000,
    timers=50,
)
SMALL = Sizes(
    rounds=1,
    crowds=(500,),
    our_crowds=(2000,),
    offers=(Offered(100, 5),),
    our_offers=(Offered(1, 5), Offered(100, 5, is_aligned=True), Offered(500, 5)),
    searched_seconds=0,
    created=500,
    created_singly=100,
    timers=30,
    pulse=(100, 2000),
    pendings=(0, 10_000),
    weighed=(10_000,),
    weighed_seconds=5,
    crowd_of_many=2000,
    histories=(2000, 10_000),
    held=(200, 2, 5, 5),
)


@dataclass(frozen=True)
class Plan:
    """Turns that belong together."""

    turns: list[Turn]
    rounds: int


def plans(sizes: Sizes, everybody: list[Contender]) -> dict[str, Callable[[], Plan]]:
    """Return how each workload is measured."""
    ours = [one for one in everybody if one.is_ours]
    rounds, once, seconds = sizes.rounds, sizes.rounds_of_streams, sizes.searched_seconds
    return {
        "W1": lambda: Plan(
            burst.turns(everybody, sizes.crowds) + burst.turns(ours, sizes.our_crowds), rounds
        ),
        "W2": lambda: Plan(
            punctuality.turns(everybody, sizes.offers)
            + punctuality.turns(ours, sizes.our_offers)
            + (punctuality.limit_turns(ours, seconds) if seconds else []),
            once,
        ),
        "W3": lambda: Plan(creation.turns(everybody, sizes.created, sizes.created_singly), rounds),
        "W4": lambda: Plan(backlog.turns(ours, sizes.pendings), 1),
        "W5": lambda: Plan(footprint.turns(ours, sizes.weighed, sizes.weighed_seconds), 1),
        "W6": lambda: Plan(
            timers.single_turns(everybody, sizes.timers) + timers.pulse_turns(ours, *sizes.pulse),
            once,
        ),
        "W7": lambda: Plan(
            growth.process_turns(ours, sizes.crowd_of_many)
            + growth.history_turns(ours, sizes.histories)
            + growth.held_turns(ours, sizes.held),
            1,
        ),
    }


SHORT_ONES = ("W1", "W2", "W3", "W6")
EVERY_ONE = ("W1", "W2", "W3", "W4", "W5", "W6", "W7")


def sliced(sizes: Sizes, workload: str, options: argparse.Namespace) -> Sizes:
    """Return the sizes that were asked for instead of the usual ones."""
    if options.seconds:
        changed = tuple(one._replace(seconds=options.seconds) for one in sizes.our_offers)
        both = tuple(one._replace(seconds=options.seconds) for one in sizes.offers)
        weighed = options.seconds
        sizes = replace(sizes, offers=both, our_offers=changed, weighed_seconds=weighed)
    if not options.sizes:
        return sizes
    asked = tuple(options.sizes)
    seconds = sizes.offers[0].seconds
    instead: dict[str, dict[str, Any]] = {
        "W1": {"crowds": asked, "our_crowds": ()},
        "W2": {
            "offers": (),
            "our_offers": tuple(Offered(rate, seconds) for rate in asked),
            "searched_seconds": 0,
        },
        "W3": {"created": asked[0]},
        "W4": {"pendings": asked},
        "W5": {"weighed": asked},
        "W6": {"pulse": (sizes.pulse[0], asked[0])},
        "W7": {"histories": asked},
    }
    return replace(sizes, **instead[workload])


def chosen(options: argparse.Namespace, workload: str) -> list[Contender]:
    """Return who takes part in a workload."""
    names = options.contenders
    if names is None and not options.full and not options.small:
        names = ["Duly", *BEST.get(workload, ())]
    return [
        one
        for one in CONTENDERS
        if names is None or one.name in names or f"{one.name} on {one.store}" in names
    ]


def main() -> None:
    about = __doc__ or ""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="everybody and everything")
    parser.add_argument("--small", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--only", nargs="+", choices=EVERY_ONE)
    parser.add_argument("--contenders", nargs="+", help="such as Duly, or 'DBOS on SQLite'")
    parser.add_argument("--rounds", type=int)
    parser.add_argument(
        "--sizes",
        nargs="+",
        type=int,
        help="instead of the usual: crowds (W1), rates of ours (W2), created (W3), pending (W4,"
        " W5), the pulse (W6), histories (W7)",
    )
    parser.add_argument("--seconds", type=int, help="how long streams last, and idling")
    parser.add_argument("--turns", help="only those whose title has this text")
    parser.add_argument("--append", action="store_true", help="keep what was measured before")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where lines of JSON go")
    parser.add_argument("--folder", type=Path, help="where files are made; a disk, not memory")
    parser.add_argument(
        "--report", action="store_true", help="write BENCHMARKS.md, measure nothing"
    )
    options = parser.parse_args()
    if not options.report:
        measure(options)
    if options.results == RESULTS:
        write_report()
        print(f"Written to {ROOT / 'BENCHMARKS.md'}")
    else:
        print(text_of(read(options.results)))


def measure(options: argparse.Namespace) -> None:
    """Let everybody who is chosen take turns."""
    sizes = SMALL if options.small else FULL if options.full else SHORT
    default = EVERY_ONE if options.full or options.small else SHORT_ONES
    options.results.mkdir(parents=True, exist_ok=True)
    with Grounds(options.folder) as grounds:
        for workload in options.only or default:
            asked = sliced(sizes, workload, options)
            plan = plans(asked, chosen(options, workload))[workload]()
            turns = [one for one in plan.turns if (options.turns or "") in one.title]
            path = options.results / f"{workload}.jsonl"
            if not options.append:
                path.unlink(missing_ok=True)
            rounds = options.rounds or plan.rounds
            take_turns(turns, grounds, path, range(1, rounds + 1))


if __name__ == "__main__":
    main()
