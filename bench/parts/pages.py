"""How soon the console answers in a system with a past, page by page, and how large its pages are.

    .venv/bin/python -m bench.parts.pages [--runs 1000000] [--schedules 10000]   print the table
    .venv/bin/python -m bench.parts.pages --runs 5000 --schedules 200 --times 3  in seconds
    .venv/bin/python -m bench.parts.pages --write                                into BENCHMARKS.md
    .venv/bin/python -m bench.parts.pages --write --store sqlite                 of one store alone

One store after the other: what is measured of the first is written before the second is filled.

A server answers in a process of its own, as `duly server` does; one visitor with a session asks on
loopback, page after page in turn. All is one tenant's, and its first schedules by name, which the
first pages show, have most runs and rules of every kind. The overview's parts are asked for as
pages of their own, and as a script does. The wait is until the first byte. The processor's time is
that of the server's process: it does not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import http.client
import os
import platform
import re
import statistics
import tempfile
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

import duly
from bench import tables
from bench.parts.scrape import NAMES, serving
from bench.stores.database import Database, boot
from bench.stores.file import SqliteFile
from bench.stores.history import fill_database, fill_file
from bench.stores.places import CLOCK, new_app
from duly.web.pages import PAGES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench.stores.places import Place

RUNS = 1_000_000
SCHEDULES = 10_000
TIMES = 50
WARM_UP = 2
GOAL_MS = 200
GOAL_KB = 150
RULED = 200
"""So many schedules, the first by name, get rules of every kind instead of a daily one."""
RULES = (
    duly.cron("0 9 * * 1-5", tz="Europe/Paris"),
    duly.every("1m"),
    duly.every("15m"),
    duly.cron("30 2 * * *", tz="America/New_York"),
    duly.cron("*/5 8-18 * * *", tz="Asia/Tokyo"),
    duly.every("1h"),
    duly.cron("0 0 1 * *"),
    duly.every("6h"),
)
BESIDE = {
    "overview": ("?span=2d", "?show=late"),
    "schedules": ("?search=s5",),
    "runs": ("?state=failed", "?state=queued", "?only=late", "?error=No+space+left"),
    "inbox": ("?kind=dead", "?kind=late"),
    "missing": ("?span=7d",),
    "audit": ("?actor=person+1",),
}
"""Pages by the table's names, asked with these besides."""
PARTS = "/overview/"
AS_PART = {"HX-Request": "true"}
"""What a script says that takes a part into a page."""


@dataclass
class Asked:
    """What one page came to."""

    first_ms: list[float] = field(default_factory=list)
    busy_ms: list[float] = field(default_factory=list)
    size: int = 0


def furnish(url: str) -> dict[str, str]:
    """Give the first schedules their rules; return something for each named part of a path."""
    with new_app(url) as app:
        page = app.schedules.page(limit=RULED)
        for number, one in enumerate(page.items):
            app.schedules.edit(one.id, timetable=RULES[number % len(RULES)])
        first = page.items[0]
        (run,) = app.runs.list(schedule=first.id, state="succeeded", limit=1)
        until = first.created_at - timedelta(days=1)
        backfill = app.backfills.create(first.id, since=until - timedelta(days=3), until=until)
        (doubt,) = app.runs.list(state="ambiguous", limit=1)
        return {
            "schedule": str(first.id),
            "run": str(run.id),
            "doubt": str(doubt.id),
            "backfill": str(backfill.id),
            "selection": "",  # chosen anew for each turn
            "rule": "queue-age",
        }


def freeze(url: str) -> str:
    """Choose some runs; that is kept for a quarter of an hour only."""
    with new_app(url) as app:
        return str(app.selections.freeze(state="dead", limit=100).id)


class Address(NamedTuple):
    """A page that is only looked at: what it is called, where it is, and what is said with it."""

    name: str
    path: str
    headers: Mapping[str, str] = MappingProxyType({})


def addresses(named: dict[str, str]) -> Iterator[Address]:
    """Return every page of the table that is only looked at."""
    for page in PAGES:
        if page.method != "GET" or "{alert}" in page.path:
            continue  # nobody watches here: there is no alert to be looked at
        parts = named | ({"run": named["doubt"]} if page.name == "inbox_item" else {})
        path = re.sub(r"{(\w+)}", lambda found: parts[found[1]], page.path)  # noqa: B023 - at once
        if page.name == "backfill_plan":
            path += f"?schedule={named['schedule']}"
        yield Address(page.path, path)
        if path.startswith(PARTS):
            yield Address(f"{page.path}, as a part", path, AS_PART)
        for query in BESIDE.get(page.name, ()):
            yield Address(page.path + query, path + query)


def enter(url: str, connection: http.client.HTTPConnection) -> dict[str, str]:
    """Begin a session; return the headers of whoever has it."""
    with new_app(url) as app:
        secret = app.tokens.create("anna", role="admin", tenant="*").text
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    connection.request("POST", "/enter", urlencode({"secret": secret}), kind)
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 303, answer.status
    return {"Cookie": (answer.getheader("Set-Cookie") or "").partition(";")[0]}


def busy_ms(process: int) -> float:
    """Return for how long a process has kept processors busy, all its threads together."""
    tasks = Path(f"/proc/{process}/task").glob("*/schedstat")
    return sum(int(one.read_text().split()[0]) for one in tasks) / 1_000_000


def measure(place: Place, times: int) -> dict[str, Asked]:
    """Ask for every page in turn, so many times."""
    named = furnish(place.url)
    found: dict[str, Asked] = {}
    with serving(place.url) as (port, process):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        headers = enter(place.url, connection)
        for turn in range(WARM_UP + times):
            named["selection"] = freeze(place.url)
            for name, path, said in addresses(named):
                before, began_at = busy_ms(process), CLOCK.monotonic_us()
                connection.request("GET", path, headers={**headers, **said})
                answer = connection.getresponse()
                first_ms = (CLOCK.monotonic_us() - began_at) / 1000
                body = answer.read()
                assert answer.status == 200, (path, answer.status, body[:2000])
                asked = found.setdefault(name, Asked())
                asked.size = max(asked.size, len(body))
                if turn >= WARM_UP:
                    asked.first_ms.append(first_ms)
                    asked.busy_ms.append(busy_ms(process) - before)
        connection.close()
    return found


def table(found: dict[str, Asked]) -> list[str]:
    """Return the figures of one store, and what misses a goal."""
    columns = ("page", "kB", "first byte: p50 ms", "p99", "max", "processor: p50 ms", "p99")
    rows = tables.header(*columns)
    slow, large = list[str](), list[str]()
    for name, asked in found.items():
        waits, busy = _cuts(asked.first_ms), _cuts(asked.busy_ms)
        cells = (f"{one:.0f}" for one in (*waits, *busy[:2]))
        rows.append(tables.row(f"`{name}`", f"{asked.size / 1000:.0f}", *cells))
        if waits[1] >= GOAL_MS:
            slow.append(f"`{name}` (processor: {busy[1]:.0f} ms)")
        if asked.size >= GOAL_KB * 1000:
            large.append(f"`{name}`")
    rows += ["", f"p99 of {GOAL_MS} ms or more: {', '.join(slow) or 'none'}."]
    rows += [f"{GOAL_KB} kB or more: {', '.join(large) or 'none'}."]
    return rows


def _cuts(values: list[float]) -> tuple[float, float, float]:
    """Return the median, the 99th percentile and the highest."""
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return cuts[49], cuts[98], max(values)


def report(options: argparse.Namespace) -> None:
    """Fill each store, look at every page of it, and write what was found before the next."""
    runs, schedules = options.runs, options.schedules
    with tempfile.TemporaryDirectory(prefix="duly-bench-") as folder, boot() as server:
        for store in options.store or ["postgres", "sqlite"]:
            place: Place
            if store == "postgres":
                place = Database(server)
                fill_database(place, runs, schedules, 1)
            else:
                place = SqliteFile(Path(folder) / "pages.db")
                fill_file(place, runs, schedules, 1)
            load = os.getloadavg()[0]
            rows = table(measure(place, options.times))
            told = f"{NAMES[store]}, {schedules:,} schedules, {runs:,} runs;"
            told += f" load before and after: {load:.1f}, {os.getloadavg()[0]:.1f}."
            text = "\n".join([settings(options.times), "", told, "", *rows])
            print(text, flush=True)
            if options.write:
                tables.write(text, f"pages-{store}")


def settings(times: int) -> str:
    """Say what it was measured with."""
    return (
        f"Python {platform.python_version()}, Duly {version('duly')}, {os.cpu_count()} cores;"
        f" each page {times} times; the goals are a p99 below {GOAL_MS} ms, and less than"
        f" {GOAL_KB} kB."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--schedules", type=int, default=SCHEDULES)
    parser.add_argument("--times", type=int, default=TIMES)
    parser.add_argument("--store", action="append", choices=["postgres", "sqlite"])
    parser.add_argument("--write", action="store_true", help="put it into BENCHMARKS.md")
    report(parser.parse_args())


if __name__ == "__main__":
    main()
