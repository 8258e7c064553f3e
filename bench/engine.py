"""How the engine does on SQLite: fires a second, lateness, takeovers, memory, and cost by count.

    make bench                                        print the tables
    .venv/bin/python -m bench.engine --write          and put them into BENCHMARKS.md
    .venv/bin/python -m bench.engine --quick          small sizes, in about two minutes

Whatever is compared takes turns in the same run. Files have synchronous=FULL: a fire counts once it
is on disk. Give --only to run some parts: crowds, streams, lateness, takeover, footprint, cost.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from bench import engine_firing as firing
from bench import engine_processes as processes
from duly.store.dispatch import MEMBER_TTL_US

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = Path(__file__).resolve().parents[1] / "BENCHMARKS.md"
SECOND_US = 1_000_000


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
)
RECORDS: list[dict[str, object]] = []


def record(workload: str, **facts: object) -> None:
    RECORDS.append({"workload": workload, **facts})


def crowds(folder: Path, sizes: Sizes) -> list[str]:
    """A crowd at one instant, beside the least that durable writes take."""
    rows = [
        (
            "| due at one instant | schedules, fires/s | delayed runs, fires/s"
            " | bare loop, writes/s | schedules : bare loop |"
        ),
        "|---|---|---|---|---|",
    ]
    for count in sizes.crowds:
        found: dict[str, list[float]] = {"schedules": [], "delayed": [], "bare": []}
        for _ in range(sizes.rounds):
            found["schedules"].append(firing.crowd(folder, count, "schedules"))
            found["bare"].append(firing.bare(folder, count))
            found["delayed"].append(firing.crowd(folder, count, "delayed"))
        pairs = zip(found["schedules"], found["bare"], strict=True)
        ratio = firing.spread([ours / theirs for ours, theirs in pairs])
        told = [str(firing.spread(found[name])) for name in ("schedules", "delayed", "bare")]
        rows.append(f"| {count:,} | {' | '.join(told)} | {ratio.median:.2f} |")
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
    rows = [
        (
            "| schedules a second | seconds | expected | fired | missed | doubled"
            " | lateness p50 ms | p99 ms | max ms |"
        ),
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for rate in sizes.rates:
        one = firing.sustained(folder, rate, sizes.stream_seconds)
        rows.append(
            f"| {rate:,} | {sizes.stream_seconds} | {one.expected:,} | {one.fired:,}"
            f" | {one.missed:,} | {one.doubled:,} | {firing.milliseconds(one.lateness_us)} |"
        )
        late = one.lateness_us
        record("stream", **one._asdict() | {"lateness_us": late[:: max(1, len(late) // 1000)]})
    return [
        *rows,
        "",
        (
            "Every schedule has a period of five seconds. Missed: not fired half a second after the"
            " end. Lateness is from due to the store's clock in the firing transaction."
        ),
    ]


def lateness(folder: Path, sizes: Sizes) -> list[str]:
    """How late an idle dispatcher fires, beside the machine's own timers."""
    timers, floor = processes.idle_lateness(folder, sizes.timers, sizes.timer_seconds)
    near = processes.near_lateness(folder, sizes.near, 50)
    record("lateness", timers_us=timers, floor_us=floor, near_us=near)
    rows = ["| lateness | count | p50 ms | p99 ms | max ms |", "|---|---|---|---|---|"]
    for name, found in (
        ("timers at random instants, idle dispatcher", timers),
        ("floor: a bare wait for such instants, at the same time", floor),
        ("promised 50 ms ahead by another process (F6)", near),
    ):
        rows.append(f"| {name} | {len(found)} | {firing.milliseconds(found)} |")
    return rows


def takeover(folder: Path, sizes: Sizes) -> list[str]:
    """How soon somebody else fires what a dispatcher owned."""
    killed, stopped = [], []
    for _ in range(sizes.takeovers):
        killed.append(processes.takeover(folder, signal.SIGKILL))
        stopped.append(processes.takeover(folder, signal.SIGTERM))
    record("takeover", killed_seconds=killed, stopped_seconds=stopped)
    rows = [
        "| one of two dispatchers ends | times | first fire by the heir, median s | spread s |",
        "|---|---|---|---|",
    ]
    for name, found in (("kill -9", killed), ("SIGTERM", stopped)):
        one = firing.spread(found)
        rows.append(
            f"| {name} | {len(found)} | {one.median:.2f} | {one.lowest:.2f}-{one.highest:.2f} |"
        )
    return [*rows, "", f"A lease lasts {MEMBER_TTL_US / SECOND_US:.0f} s from its last renewal."]


def footprint(folder: Path, sizes: Sizes) -> list[str]:
    """What a dispatcher takes while nothing is due."""
    rows = [
        (
            "| pending | RSS MB | file MB | CPU s a minute | statements a minute"
            " | page reads a minute | VM steps a minute |"
        ),
        "|---|---|---|---|---|---|---|",
    ]
    for pending in sizes.pending:
        one = processes.footprint(folder, pending, sizes.idle_seconds)
        counts = (one.counts[name] for name in ("statements", "page reads", "VM steps"))
        rows.append(
            f"| {pending:,} | {one.rss_mb:.0f} | {one.file_mb:,.0f} | {one.cpu_seconds:.2f}"
            f" | {' | '.join(f'{count:,}' for count in counts)} |"
        )
        record("footprint", **one._asdict())
    return [
        *rows,
        "",
        "Half of what is pending are schedules, half delayed runs; none is due soon.",
    ]


def cost(folder: Path, sizes: Sizes) -> list[str]:
    """What a fire costs by count, with little and with much else pending."""
    few, many = sizes.cost_pending
    rows = [
        f"| per fire | kind | {few:,} pending | {many:,} pending | ratio |",
        "|---|---|---|---|---|",
    ]
    for kind in ("schedules", "delayed"):
        small = processes.cost_per_fire(folder, few, kind, sizes.cost_fires)
        large = processes.cost_per_fire(folder, many, kind, sizes.cost_fires)
        record("cost", kind=kind, pending=[few, many], small=small, large=large)
        for name in ("statements", "VM steps", "page hits", "page reads", "page writes"):
            ratio = large[name] / small[name] if small[name] else 0.0
            rows.append(
                f"| {name} | {kind} | {small[name]:.2f} | {large[name]:.2f} | {ratio:.2f} |"
            )
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


def write(text: str, page: Path) -> None:
    """Replace what stands between the page's two marks."""
    start, end = "<!-- engine: start -->", "<!-- engine: end -->"
    before, rest = page.read_text(encoding="utf-8").split(start)
    _, after = rest.split(end)
    page.write_text(f"{before}{start}\n{text}\n{end}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--folder", type=Path, help="where files are made; a disk, not memory")
    parser.add_argument("--write", action="store_true", help="put the tables into BENCHMARKS.md")
    parser.add_argument("--json", type=Path, help="write every figure as JSON lines")
    options = parser.parse_args()
    sizes = QUICK if options.quick else Sizes()
    told = settings(sizes)
    print(told, flush=True)
    text = [told, ""]
    with tempfile.TemporaryDirectory(prefix="duly-bench-", dir=options.folder) as folder:
        for name in options.only:
            title, part = PARTS[name]
            lines = [f"### {title}", "", *part(Path(folder), sizes), ""]
            print("\n".join(["", *lines]), flush=True)
            text += lines
    if options.json:
        lines = [json.dumps({"settings": told, **one}) + "\n" for one in RECORDS]
        options.json.write_text("".join(lines), encoding="utf-8")
    if options.write:
        write("\n".join(text), PAGE)


if __name__ == "__main__":
    main()
