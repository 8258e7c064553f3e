"""How the engine does on SQLite: fires a second, lateness, takeovers, memory, and cost by count.

    make bench                                        print the tables
    .venv/bin/python -m bench.parts.engine --write          and put them into BENCHMARKS.md
    .venv/bin/python -m bench.parts.engine --quick          small sizes, in about two minutes

Whatever is compared takes turns in the same run. Files have synchronous=FULL: a fire counts once it
is on disk. Give --only to run some parts: crowds, streams, lateness, takeover, footprint, cost.
"""

from __future__ import annotations

import os
import platform
import signal
import tempfile
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from bench import tables
from bench.parts import driving, processes
from bench.parts.engine_firing import bare
from bench.parts.engine_processes import footprint as footprint_of
from bench.stores.file import SqliteFile
from bench.stores.places import SECOND_US
from bench.tables import header, record, row
from duly.store.dispatch import MEMBER_TTL_US

if TYPE_CHECKING:
    from collections.abc import Callable


WATCHED = driving.CostSizes(seconds=30, lead=10)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How much of everything."""

    rounds: int = 3
    crowds: tuple[int, ...] = (10_000, 100_000)
    rates: tuple[int, ...] = (1000, 5000, 10_000)
    stream_seconds: int = 15
    timers: int = 300
    timer_seconds: int = 30
    near: int = 200
    takeovers: int = 5
    pending: tuple[int, ...] = (0, 100_000, 1_000_000)
    idle_seconds: int = 60
    cost_pending: tuple[int, int] = (10_000, 1_000_000)
    cost_fires: int = 10_000
    cost: driving.CostSizes = WATCHED


QUICK = Sizes(
    rounds=1,
    crowds=(5000,),
    rates=(1000,),
    stream_seconds=5,
    timers=50,
    timer_seconds=5,
    near=20,
    takeovers=1,
    pending=(0, 20_000),
    idle_seconds=6,
    cost_pending=(10_000, 40_000),
    cost_fires=2000,
    cost=driving.CostSizes(seconds=8, lead=3),
)


def crowds(folder: Path, sizes: Sizes) -> list[str]:
    """A crowd at one instant, beside the least that durable writes take."""
    rows = header(
        "due at one instant",
        "schedules, fires/s",
        "delayed runs, fires/s",
        "bare loop, writes/s",
        "schedules : bare loop",
    )
    file = SqliteFile(folder / "crowd.db")
    for count in sizes.crowds:
        found: dict[str, list[float]] = {"schedules": [], "delayed": [], "bare": []}
        for _ in range(sizes.rounds):
            found["schedules"].append(driving.crowd(file, count, "schedules"))
            found["bare"].append(bare(folder, count))
            found["delayed"].append(driving.crowd(file, count, "delayed"))
        ratio = tables.ratio(found["schedules"], found["bare"])
        told = [tables.spread(found[name]) for name in ("schedules", "delayed", "bare")]
        rows.append(row(f"{count:,}", *told, f"{ratio:.2f}"))
        record("crowd", count=count, per_second=found)
    return [
        *rows,
        "",
        (
            "From the first fire to the last commit, by one dispatcher. The bare loop inserts a run"
            " and a queue row and updates a state row, a thousand of each to a commit, and decides"
            " nothing."
        ),
    ]


def streams(folder: Path, sizes: Sizes) -> list[str]:
    """A steady stream of schedules, spread evenly."""
    file = SqliteFile(folder / "stream.db")
    found = [driving.sustained(file, rate, sizes.stream_seconds) for rate in sizes.rates]
    return driving.stream_table(found, sizes.stream_seconds)


def lateness(folder: Path, sizes: Sizes) -> list[str]:
    """How late an idle dispatcher fires, beside the machine's own timers."""
    file = SqliteFile(folder / "idle.db")
    file.fill()
    timers, floor = processes.idle_lateness(file, sizes.timers, sizes.timer_seconds)
    near = processes.near_lateness(file, sizes.near, 50)
    file.remove()
    record("lateness", timers_us=timers, floor_us=floor, near_us=near)
    return tables.lateness_table(
        (
            ("timers at random instants, idle dispatcher", timers),
            ("floor: a bare wait for such instants, at the same time", floor),
            ("promised 50 ms ahead by another process (F6)", near),
        )
    )


def takeover(folder: Path, sizes: Sizes) -> list[str]:
    """How soon somebody else fires what a dispatcher owned."""
    killed, stopped = [], []
    file = SqliteFile(folder / "takeover.db")
    for _ in range(sizes.takeovers):
        killed.append(processes.takeover(file, signal.SIGKILL))
        stopped.append(processes.takeover(file, signal.SIGTERM))
    record("takeover", killed_seconds=killed, stopped_seconds=stopped)
    rows = tables.takeover_table((("kill -9", killed), ("SIGTERM", stopped)))
    return [*rows, "", f"A lease lasts {MEMBER_TTL_US / SECOND_US:.0f} s from its last renewal."]


def footprint(folder: Path, sizes: Sizes) -> list[str]:
    """What a dispatcher takes while nothing is due."""
    names = ("statements", "page reads", "VM steps")
    told = [f"{name} a minute" for name in names]
    rows = header("pending", "RSS MB", "file MB", "CPU s a minute", *told)
    for pending in sizes.pending:
        one = footprint_of(SqliteFile(folder / "pending.db"), pending, sizes.idle_seconds)
        sizes_of = (f"{one.rss_mb:.0f}", f"{one.file_mb:,.0f}", f"{one.cpu_seconds:.2f}")
        rows.append(row(f"{pending:,}", *sizes_of, *(f"{one.counts[name]:,}" for name in names)))
        record("footprint", **one._asdict())
    return [
        *rows,
        "",
        "Half of what is pending are schedules, half delayed runs; none is due soon.",
    ]


def cost(folder: Path, sizes: Sizes) -> list[str]:
    """What a fire costs by count, with little and with much else pending."""
    costs = []
    for pending in sizes.cost_pending:
        file = SqliteFile(folder / "cost.db")
        crowds = driving.fill_for_cost(file, pending, sizes.cost_fires)
        costs.append(
            {
                kind: driving.cost_per_fire(file, due_at, sizes.cost_fires, sizes.cost)
                for kind, due_at in crowds.items()
            }
        )
        file.remove()
    few, many = (f"{pending:,} pending" for pending in sizes.cost_pending)
    rows = header("per fire", "kind", few, many, "ratio")
    small, large = costs
    for kind in ("schedules", "delayed"):
        for name in ("statements", "VM steps", "page hits", "page reads", "page writes"):
            one, other = small[kind][name], large[kind][name]
            ratio = other / one if one else 0.0
            rows.append(row(name, kind, f"{one:.2f}", f"{other:.2f}", f"{ratio:.2f}"))
    record("cost", pending=sizes.cost_pending, small=small, large=large)
    return [
        *rows,
        "",
        (
            f"{sizes.cost_fires:,} fires in batches of a thousand, scattered over the file; counted"
            " by SQLite, so the mood of the machine has no part in it. A page read is one not in"
            " the cache of 64 MB; in a small file the rows of a batch share pages, in a large one"
            " each has its own."
        ),
    ]


PARTS: dict[str, tuple[str, Callable[[Path, Sizes], list[str]]]] = {
    "crowds": ("A crowd at one instant", crowds),
    "streams": ("A steady stream", streams),
    "lateness": ("Lateness when idle", lateness),
    "takeover": ("Takeover", takeover),
    "footprint": ("Memory and idle cost", footprint),
    "cost": ("Cost of a fire, by count", cost),
}


def settings(sizes: Sizes) -> str:
    load = os.getloadavg()[0]
    return (
        f"Python {platform.python_version()}, Duly {version('duly')}, apsw {apsw.apsw_version()}"
        f" with SQLite {apsw.sqlite_lib_version()}, {os.cpu_count()} cores; {sizes.rounds}"
        f" interleaved rounds; median (lowest-highest). Load before the run: {load:.1f}."
    )


def main() -> None:
    parser = tables.options_of(__doc__.splitlines()[0], list(PARTS))
    parser.add_argument("--folder", type=Path, help="where files are made; a disk, not memory")
    options = parser.parse_args()
    sizes = QUICK if options.quick else Sizes()
    with tempfile.TemporaryDirectory(prefix="duly-bench-", dir=options.folder) as folder:
        chosen = [PARTS[name] for name in options.only]
        parts = [(title, partial(part, Path(folder), sizes)) for title, part in chosen]
        text = tables.tell(settings(sizes), parts, options)
    if options.write:
        tables.write(text, "engine")


if __name__ == "__main__":
    main()
