"""How long a scrape of /metrics takes in a system with a past, on PostgreSQL and on SQLite.

    .venv/bin/python -m bench.parts.scrape [--runs 1000000] [--schedules 10000]   print the table
    .venv/bin/python -m bench.parts.scrape --write                                into BENCHMARKS.md

A server answers in a process of its own, as `duly server` does; whoever asks waits on loopback, one
scrape after the other, over one connection. The goal is below.
"""

from __future__ import annotations

import argparse
import http.client
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from bench import tables
from bench.parts.processes import wait
from bench.stores.database import Database, boot
from bench.stores.file import SqliteFile
from bench.stores.history import fill_database, fill_file
from bench.stores.places import CLOCK, new_app, number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.stores.places import Place

RUNS = 1_000_000
SCHEDULES = 10_000
TIMES = 50
WARM_UP = 2
GOAL_MS = 200
STOP_SECONDS = 20
NAMES = {"postgres": "PostgreSQL", "sqlite": "SQLite"}


@contextmanager
def serving(url: str) -> Iterator[tuple[int, int]]:
    """Serve a store; lend the port, and the process that answers there."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    words = ("server", f"--port={port}", f"--url={url}")
    process = subprocess.Popen((sys.executable, "-m", "duly", *words), stderr=subprocess.DEVNULL)  # noqa: S603
    try:
        wait(lambda: _is_up(port))
        yield port, process.pid
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            print("the server did not stop when it was told to", file=sys.stderr, flush=True)
            process.kill()
            process.wait()


def _is_up(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def scrapes(place: Place, times: int) -> tuple[list[float], int]:
    """Scrape so often; return how long each took, in milliseconds, and how long the last was."""
    with new_app(place.url) as app:
        secret = app.tokens.create("prometheus", role="viewer", tenant="*").text
    taken: list[float] = []
    size = 0
    with serving(place.url) as (port, _):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        for _ in range(WARM_UP + times):
            began_at = CLOCK.monotonic_us()
            connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {secret}"})
            answer = connection.getresponse()
            body = answer.read()
            taken.append((CLOCK.monotonic_us() - began_at) / 1000)
            assert answer.status == 200, body
            size = len(body)
        connection.close()
    return taken[WARM_UP:], size


def report(runs: int, schedules: int, times: int, stores: list[str]) -> list[str]:
    """Fill each store, and scrape it."""
    rows = tables.header("store", "schedules", "runs", "p50 ms", "p99 ms", "max ms", "kB")
    with tempfile.TemporaryDirectory(prefix="duly-bench-") as folder, boot() as server:
        for store in stores:
            place: Place
            if store == "postgres":
                place = Database(server)
                fill_database(place, runs, schedules)
            else:
                place = SqliteFile(Path(folder) / "scrape.db")
                fill_file(place, runs, schedules)
            counts = (
                number(place, f"SELECT count(*) FROM duly.{table}")  # noqa: S608 - names of ours
                for table in ("schedules", "runs")
            )
            told = [f"{count:,}" for count in counts]
            taken, size = scrapes(place, times)
            cuts = statistics.quantiles(taken, n=100, method="inclusive")
            figures = [f"{one:.1f}" for one in (cuts[49], cuts[98], max(taken))]
            rows.append(tables.row(NAMES[store], *told, *figures, f"{size / 1000:.0f}"))
            # Somebody may stop it on the way.
            print(rows[-1], file=sys.stderr, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--schedules", type=int, default=SCHEDULES)
    parser.add_argument("--times", type=int, default=TIMES)
    parser.add_argument("--store", action="append", choices=["postgres", "sqlite"])
    parser.add_argument("--write", action="store_true", help="put it into BENCHMARKS.md")
    options = parser.parse_args()
    settings = (
        f"Python {platform.python_version()}, Duly {version('duly')}, {os.cpu_count()} cores;"
        f" {options.times} scrapes of each; the goal is a p99 below {GOAL_MS} ms;"
        f" load before the run: {os.getloadavg()[0]:.1f}."
    )
    stores = options.store or ["postgres", "sqlite"]
    rows = report(options.runs, options.schedules, options.times, stores)
    text = "\n".join([settings, "", *rows])
    print(text)
    if options.write:
        tables.write(text, "scrape")


if __name__ == "__main__":
    main()
