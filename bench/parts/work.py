"""How work goes from due to done: one dispatcher process and one worker process, end to end.

    make bench                                      print the tables
    .venv/bin/python -m bench.parts.work --write          and put them into BENCHMARKS.md
    .venv/bin/python -m bench.parts.work --quick          small sizes, in about three minutes

Tasks do nothing, so that what is measured is ours. Whatever is compared takes turns in the same
run, on stores that are durable. Give --only to run some parts: crowds, cost; and --stores
for one store alone.
"""

from __future__ import annotations

import os
import platform
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import apsw
import psycopg

from bench import tables
from bench.parts.work_bare import bare_postgres, bare_sqlite, stored
from bench.parts.work_cost import cost
from bench.parts.work_processes import Cpu, Crew, crowd, fired_alone
from bench.stores.database import SETTINGS, Database, boot
from bench.stores.file import SqliteFile
from bench.tables import header, record, row, spread

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator

    from bench.parts.work_processes import Crowd
    from bench.stores.places import Place
    from tests.postgres.server import Server


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How much of everything."""

    rounds: int = 5
    crowd: int = 10_000
    coroutine_slots: int = 500
    thread_slots: int = 50
    cost_runs: int = 10_000


QUICK = Sizes(
    rounds=1,
    crowd=2000,
    cost_runs=2000,
)


class Site(NamedTuple):
    """Where stores of a kind are made, and what is done to them without Duly."""

    name: str
    make: Callable[[], Place]
    bare: Callable[[str, int, int], float]
    server: int | None
    """The database's own process, if it has one."""


class Rates(NamedTuple):
    """How many a second, round by round."""

    coroutines: list[float]
    functions: list[float]
    fired: list[float]
    stored: list[float]
    bare: list[float]


def crowds(sites: list[Site], sizes: Sizes) -> list[str]:
    """A crowd at one instant, beside what its parts do alone."""
    rates = {site.name: Rates([], [], [], [], []) for site in sites}
    crews = _crews(sizes)
    found: dict[tuple[str, str], list[Crowd]] = {}
    for _ in range(sizes.rounds):
        for site in sites:
            rate = rates[site.name]
            for kind, crew in crews.items():
                one = crowd(site.make(), sizes.crowd, crew, site.server)
                found.setdefault((site.name, kind), []).append(one)
                (rate.coroutines if kind == "async" else rate.functions).append(one.per_second)
            _alone(site, sizes, rate)
    rows = header(
        f"{sizes.crowd:,} due at one instant",
        *("async tasks, runs/s", "sync tasks, runs/s"),
        *("fired alone, fires/s", "claimed and finished by the store alone, runs/s"),
        *("bare loop, runs/s", "async : fired alone", "async : bare loop"),
    )
    for name, rate in rates.items():
        ratios = (tables.ratio(rate.coroutines, other) for other in (rate.fired, rate.bare))
        told = (f"{one:.2f}" for one in ratios)
        rows.append(row(name, *(spread(one) for one in rate), *told))
        record("crowd", store=name, count=sizes.crowd, per_second=rate._asdict())
    about = f"""Runs a second are counted from the instant at which all of them are due to the last
        outcome on disk. Slots: {sizes.coroutine_slots} for async tasks, {sizes.thread_slots} for
        sync ones (as many threads); every other setting is the default. {sizes.rounds} rounds in
        which all take turns. Fired alone: the same crowd without a worker. The store alone claims
        and finishes {sizes.coroutine_slots} at a time out of the queue that was left by that, and
        the bare loop moves as many from table to table by plain statements of psycopg or apsw and
        decides nothing: no fence, no lease, no order of queues."""
    return [*rows, "", " ".join(about.split()), "", *_cpu_table(found)]


def _crews(sizes: Sizes) -> dict[str, Crew]:
    return {
        "async": Crew("coroutines", sizes.coroutine_slots),
        "sync": Crew("functions", sizes.thread_slots),
    }


def _alone(site: Site, sizes: Sizes, rate: Rates) -> None:
    """Let the parts of the path do a crowd: firing all of it, then each half of its queue."""
    place, half = site.make(), sizes.crowd // 2
    rate.fired.append(fired_alone(place, sizes.crowd))
    rate.bare.append(site.bare(place.url, half, sizes.coroutine_slots))
    rate.stored.append(stored(place.url, half, sizes.coroutine_slots))
    place.remove()


def _cpu_table(found: dict[tuple[str, str], list[Crowd]]) -> list[str]:
    rows = header(
        "processor time per run",
        *("dispatcher µs", "worker µs", "database server µs", "all µs"),
        f"at most on {os.cpu_count()} cores, runs/s",
    )
    for (name, kind), crowds_run in found.items():
        cpu = Cpu(
            *(median(values) for values in zip(*(one.cpu for one in crowds_run), strict=True))
        )
        total = sum(cpu)
        told = (f"{one:.0f}" if one else "-" for one in cpu)
        most = (os.cpu_count() or 1) * 1_000_000 / total
        rows.append(row(f"{name}, {kind} tasks", *told, f"{total:.0f}", f"{most:,.0f}"))
        record("cpu", store=name, kind=kind, rounds=[one.cpu._asdict() for one in crowds_run])
    about = """Of the same crowds: user and system time of each process from half a second before
        the instant to the last outcome, divided by the runs; the median of the rounds."""
    return [*rows, "", " ".join(about.split())]


def by_count(sites: list[Site], sizes: Sizes) -> list[str]:
    """What a run costs by count, from its schedule to its outcome."""
    rows = header("per 1,000 runs", "statements", "log bytes", "pages looked at")
    for site in sites:
        found = cost(site.make(), sizes.cost_runs, sizes.coroutine_slots)
        told = (f"{1000 * one:,.0f}" for one in found)
        rows.append(row(site.name, *told))
        record("cost", store=site.name, runs=sizes.cost_runs, **found._asdict())
    about = f"""A crowd of {sizes.cost_runs:,} at one instant; counted is all that a dispatcher and
        a worker do, both in one process here, from before it is due until it is done: joining,
        loading, firing, claiming, beating, finishing. The log is PostgreSQL's WAL, or the frames
        of SQLite's; a page is one of 8 kB or 4 kB, looked at in memory or not."""
    return [*rows, "", " ".join(about.split())]


PARTS: dict[str, tuple[str, Callable[[list[Site], Sizes], list[str]]]] = {
    "crowds": ("A crowd at one instant, to its end", crowds),
    "cost": ("Cost of a run, by count", by_count),
}


def settings(server: Server | None) -> str:
    chosen = ", ".join(f"{name}={value}" for name, value in SETTINGS.items())
    postgres = ""
    if server is not None:
        postgres = (
            f" psycopg {version('psycopg')}, PostgreSQL {server.version} ({chosen}; durable),"
        )
    return (
        f"Python {platform.python_version()}, Duly {version('duly')},{postgres} apsw"
        f" {apsw.apsw_version()} with SQLite {apsw.sqlite_lib_version()} (synchronous=FULL); one"
        f" `duly dispatcher`, one `duly worker` and the database on the same {os.cpu_count()}"
        f" cores; median (lowest-highest). Load before the run: {os.getloadavg()[0]:.1f}."
    )


@contextmanager
def chosen_sites(options: Namespace) -> Iterator[tuple[list[Site], Server | None]]:
    """Have the stores that are to be measured."""
    with tempfile.TemporaryDirectory(prefix="duly-bench-", dir=options.folder) as folder:
        file = Site("SQLite", lambda: SqliteFile(Path(folder) / "work.db"), bare_sqlite, None)
        if "postgres" not in options.stores:
            yield [file], None
            return
        with boot() as server:
            note = server.premises.path / "data" / "postmaster.pid"
            process = int(note.read_text(encoding="utf-8").split("\n")[0])
            database = Site("PostgreSQL", partial(_database, server), bare_postgres, process)
            yield [database, *([file] if "sqlite" in options.stores else [])], server


def _database(server: Server) -> Database:
    """Make a database; a checkpoint is not to fall into the midst of what is measured."""
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute("CHECKPOINT")
    return Database(server)


def main() -> None:
    parser = tables.options_of(__doc__.splitlines()[0], list(PARTS))
    parser.add_argument("--folder", type=Path, help="where files are made; a disk, not memory")
    stores = ("postgres", "sqlite")
    parser.add_argument("--stores", nargs="+", choices=stores, default=list(stores))
    options = parser.parse_args()
    sizes = QUICK if options.quick else Sizes()
    with chosen_sites(options) as (sites, server):
        chosen = [PARTS[name] for name in options.only]
        parts = [(title, partial(part, sites, sizes)) for title, part in chosen]
        text = tables.tell(settings(server), parts, options)
    if options.write:
        tables.write(text, "work")


if __name__ == "__main__":
    main()
