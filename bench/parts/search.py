"""How long a page of a search takes among a million runs, on PostgreSQL and on SQLite.

    .venv/bin/python -m bench.parts.search [--runs 1000000] [--store postgres]   print the table
    .venv/bin/python -m bench.parts.search --write                               into BENCHMARKS.md

Each search is asked with many values: other tenants, schedules, keys, days. A page has 100 rows.
The tenth is asked for with the ninth's cursor; where a search has fewer, it is the last one.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import tables
from bench.stores.database import Database, boot
from bench.stores.file import SqliteFile
from bench.stores.history import (
    KEYS_PER,
    SCHEDULES,
    SPAN_US,
    TENANTS,
    WORKERS,
    fill_database,
    fill_file,
    tenant_of,
)
from bench.stores.places import CLOCK, DAY_US, new_app
from duly.timetable.instants import from_microseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bench.stores.places import Place
    from duly.client.paging import Page

RUNS = 1_000_000
TIMES = 40
PAGES = 10
WARM_UP = 2
"""How often each is asked before it is timed, as in a program that has been running."""
HOUR_US = DAY_US // 24


@dataclass
class Waits:
    """How long pages took, and how full they were."""

    first_us: list[int] = field(default_factory=list)
    tenth_us: list[int] = field(default_factory=list)
    all_us: list[int] = field(default_factory=list)
    found: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Searches:
    """What is looked for, by a number that all values follow from."""

    runs: int

    def terms(self) -> Mapping[str, tuple[str, Callable[[int], dict[str, Any]]]]:
        """Return by name: what is searched, and its filters."""
        return {
            "runs of a tenant": ("runs", lambda _: {}),
            "… of a schedule": ("runs", lambda at: {"schedule": self._schedule(at)}),
            "… of a schedule, failed": (
                "runs",
                lambda at: {"schedule": self._schedule(at), "state": "failed"},
            ),
            "… succeeded": ("runs", lambda _: {"state": "succeeded"}),
            "… failed": ("runs", lambda _: {"state": "failed"}),
            "… dead": ("runs", lambda _: {"state": "dead"}),
            "… queued": ("runs", lambda _: {"state": "queued"}),
            "… running or retrying": ("runs", lambda _: {"state": ["running", "retrying"]}),
            "… cancelled or discarded": ("runs", lambda _: {"state": ["cancelled", "discarded"]}),
            "… of an hour": ("runs", lambda at: self._span(at, HOUR_US)),
            "… of a day, dead or failed": (
                "runs",
                lambda at: {"state": ["dead", "failed"], **self._span(at, DAY_US)},
            ),
            "… with a key": ("runs", lambda at: {"key": f"order:{self._key(at)}"}),
            "… with an error that is common": ("runs", lambda _: {"error": "Connection refused"}),
            "… with an error that is rare": ("runs", lambda _: {"error": "No space left"}),
            "… with an error that nobody has": ("runs", lambda _: {"error": "Segmentation"}),
            "… dead, of a task, with an error": (
                "runs",
                lambda at: {"state": "dead", "task": f"task_{at % 50}", "error": "TimeoutError"},
            ),
            "… of a task that is rare": ("runs", lambda _: {"task": "task_49"}),
            "… that repeat another": ("runs", lambda _: {"origin": "rerun"}),
            "attempts of a worker": ("attempts", lambda at: {"worker": 1 + at % WORKERS}),
            "… that failed": ("attempts", lambda _: {"state": "failed"}),
            "… with an error": ("attempts", lambda _: {"error": "No space left"}),
            "audit entries of a tenant": ("audit", lambda _: {}),
            "… by a person": ("audit", lambda at: {"actor": f"person {at % 100}"}),
            "… about a schedule": ("audit", lambda at: {"subject": f"s{at * 7 % SCHEDULES}"}),
            "… of a day, of one action": (
                "audit",
                lambda at: {"action": "queue.paused", **self._span(at, DAY_US)},
            ),
        }

    def _schedule(self, at: int) -> str:
        """Return the name of a schedule of the tenant whose turn it is."""
        tenant = at % TENANTS
        each = SCHEDULES // TENANTS
        number = tenant * each + at // TENANTS % each
        return f"s{_by_name(number)}"

    def _key(self, at: int) -> int:
        return at * 7919 % (self.runs // KEYS_PER)

    def _span(self, at: int, length_us: int) -> dict[str, Any]:
        since = CLOCK.now_us() - SPAN_US + at * 7919 * HOUR_US % (SPAN_US - length_us)
        return {"since": from_microseconds(since), "until": from_microseconds(since + length_us)}


def _by_name(number: int) -> int:
    """Return which schedule is so many-th by its name."""
    return sorted(range(1, SCHEDULES + 1), key=str)[number]


def measure(place: Place, runs: int, times: int) -> Iterator[tuple[str, Waits]]:
    """Ask for everything, with every tenant in turn."""
    with new_app(place.url) as app:
        apps = [
            app.__class__(store=app.store, name="bench", tenant=tenant_of(number))
            for number in range(0, SCHEDULES, SCHEDULES // TENANTS)
        ]
        for name, (what, terms) in Searches(runs).terms().items():
            waits = Waits()
            for at in range(WARM_UP):
                _ask(getattr(apps[at], what).page, terms(at), Waits())
            for at in range(times):
                _ask(getattr(apps[at % TENANTS], what).page, terms(at), waits)
            yield name, waits


def _ask(page: Callable[..., Page[Any]], terms: dict[str, Any], waits: Waits) -> None:
    cursor = None
    for number in range(1, PAGES + 1):
        began_at = CLOCK.monotonic_us()
        found = page(cursor=cursor, **terms)
        took = CLOCK.monotonic_us() - began_at
        waits.all_us.append(took)
        if number == 1:
            waits.first_us.append(took)
            waits.found.append(len(found.items))
        if number == PAGES or found.next_cursor is None:
            waits.tenth_us.append(took)
            return
        cursor = found.next_cursor


def table(place: Place, runs: int, times: int) -> tuple[list[str], float]:
    """Return the figures of one store, and the highest p99 among them."""
    columns = ("search", "rows on the first page", "first page: p50 ms", "p99")
    rows = tables.header(*columns, "tenth: p50 ms", "p99", "all ten: pages", "p99 ms", "max")
    worst = 0.0
    for name, waits in measure(place, runs, times):
        first, tenth, whole = map(_cuts, (waits.first_us, waits.tenth_us, waits.all_us))
        worst = max(worst, whole[1])
        cells = [f"{one:.1f}" for one in (*first[:2], *tenth[:2])]
        count = f"{statistics.median(waits.found):.0f}"
        pages = f"{len(waits.all_us):,}"
        rows.append(tables.row(name, count, *cells, pages, *(f"{one:.1f}" for one in whole[1:])))
        # Somebody may stop it on the way.
        print(rows[-1], file=sys.stderr, flush=True)
    return rows, worst


def _cuts(taken_us: list[int]) -> tuple[float, float, float]:
    """Return the median, the 99th percentile and the highest, in milliseconds."""
    cuts = statistics.quantiles(taken_us, n=100, method="inclusive")
    return cuts[49] / 1000, cuts[98] / 1000, max(taken_us) / 1000


def report(runs: int, times: int, stores: list[str]) -> list[str]:
    """Fill each store, and search it."""
    lines: list[str] = []
    with tempfile.TemporaryDirectory(prefix="duly-bench-") as folder, boot() as server:
        for store in stores:
            began_at = CLOCK.monotonic_us()
            place: Place
            if store == "postgres":
                place = Database(server)
                fill_database(place, runs)
            else:
                place = SqliteFile(Path(folder) / "search.db")
                fill_file(place, runs)
            filled_s = (CLOCK.monotonic_us() - began_at) / 1_000_000
            rows, worst = table(place, runs, times)
            name = {"postgres": "PostgreSQL", "sqlite": "SQLite"}[store]
            told = f"{name}, {runs:,} runs, filled in {filled_s:.0f} s: highest p99 {worst:.1f} ms."
            lines += [told, "", *rows, ""]
    return lines[:-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--times", type=int, default=TIMES)
    parser.add_argument("--store", action="append", choices=["postgres", "sqlite"])
    parser.add_argument("--write", action="store_true", help="put it into BENCHMARKS.md")
    options = parser.parse_args()
    settings = (
        f"Python {platform.python_version()}, Duly {version('duly')}, {os.cpu_count()} cores;"
        f" each search with {options.times} values over {TENANTS} tenants;"
        f" load before the run: {os.getloadavg()[0]:.1f}."
    )
    stores = options.store or ["postgres", "sqlite"]
    text = "\n".join([settings, "", *report(options.runs, options.times, stores)])
    print(text)
    if options.write:
        tables.write(text, "search")


if __name__ == "__main__":
    main()
