"""What a run costs by count, from its schedule to its outcome: statements, log, pages.

A dispatcher and a worker live in one process here, each in a thread of its own: what SQLite does is
counted on the connections of this process, and what PostgreSQL does wherever it is asked from.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, NamedTuple
from urllib.request import urlopen

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from bench.parts.processes import wait
from bench.stores.places import CLOCK, SECOND_US, Promise, new_app, number
from duly.app import App
from duly.app.metrics_port import telling_metrics
from duly.app.worker_options import WorkerOptions
from duly.cli.event_lines import LineTelemetry, Style
from duly.engine.loop import Loop
from duly.store.dispatch import MemberKind
from duly.telemetry import Telemetry
from duly.telemetry.counting import PROCESS_METRICS, WORKER_METRICS, CountingTelemetry
from duly.telemetry.exposition import Measured
from duly.telemetry.otel import OtelTracing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.stores.places import Place

Observers = Callable[[App], AbstractContextManager[Telemetry | None]]
LEAD_US = 6 * SECOND_US
FINISHED = "SELECT count(*) FROM duly.outcomes"
BESIDE = ("effects", "scopes", "scope_items", "verdicts", "ambiguous", "attempts", "dead")
WRITTEN = ("runs", "outcomes", "ready", "claims", "waiting", "lines", "progress", "checkpoints")
SCRAPE_SECONDS = 0.2
FRAME_BYTES = 4096 + 24
"""A page in SQLite's log, and its header."""


class Cost(NamedTuple):
    """What one run took."""

    statements: float
    log_bytes: float
    pages: float
    beside: int = 0
    """Rows of all runs in tables that only those with effects, items or failures need."""
    rows: float = 0
    """Rows that are there when a run is over, of all kinds that runs write."""


def cost(place: Place, runs: int, slots: int, *, is_observed: bool = False) -> Cost:
    """Run a crowd to its end; return what a run took, everything around it included.

    Observed: with metrics, a log of JSON and traces, of which every one is kept.
    """
    first = CLOCK.now_us()
    place.fill(Promise(due_at=first) for _ in range(runs))
    place.shift(CLOCK.now_us() - first + LEAD_US)
    observers = _observers if is_observed else _nobody
    with place.counting() as counted, at_work(place.url, slots, observers):
        wait(lambda: number(place, FINISHED) >= runs)
        counts = counted.read()
    beside = sum(_count(place, table) for table in BESIDE)
    rows = beside + sum(_count(place, table) for table in WRITTEN)
    place.remove()
    log = counts["WAL bytes"] or counts["page writes"] * FRAME_BYTES
    pages = counts["buffers"] or counts["page hits"] + counts["page reads"]
    return Cost(counts["statements"] / runs, log / runs, pages / runs, beside, rows / runs)


def _count(place: Place, table: str) -> int:
    return number(place, f"SELECT count(*) FROM duly.{table}")  # noqa: S608 - names of ours


@contextmanager
def _nobody(_app: App) -> Iterator[Telemetry | None]:
    yield None


@contextmanager
def _observers(app: App) -> Iterator[Telemetry | None]:
    """Lend somebody who counts, for a port that is asked all the time, and writes a log."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
    app.traces.tracing = OtelTracing(provider)
    log = LineTelemetry(CLOCK, level=logging.DEBUG, style=Style.LOG)
    log.has_traces = True
    counting, port, over = CountingTelemetry(log), _free_port(), threading.Event()

    def measured() -> Measured:
        found = Measured((*WORKER_METRICS, *PROCESS_METRICS))
        counting.note_attempts(found)
        counting.note_events(found)
        return found

    def scrape() -> None:
        while not over.wait(SCRAPE_SECONDS):
            urlopen(f"http://127.0.0.1:{port}/metrics").close()

    scraping = threading.Thread(target=scrape)
    with telling_metrics(port, measured):
        scraping.start()
        try:
            yield counting
        finally:
            over.set()
            scraping.join()
    provider.shutdown()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@contextmanager
def at_work(url: str, slots: int, observers: Observers = _nobody) -> Iterator[None]:
    """Have a dispatcher and a worker at work."""
    with (
        new_app(url) as one,
        new_app(url) as other,
        observers(one) as over_one,
        observers(other) as over_other,
    ):
        bells = one.store.wakeups(), other.store.wakeups(MemberKind.WORKER)
        options = WorkerOptions(slots=slots)
        loops = (
            Loop(one.dispatcher(None, over_one, wake_address=bells[0].address), bells[0], CLOCK),
            Loop(other.worker(options, over_other, wakeups=bells[1]), bells[1], CLOCK),
        )
        threads = [threading.Thread(target=loop.run) for loop in loops]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            for loop, thread in zip(loops, threads, strict=True):
                loop.stop()
                thread.join()
            for bell in bells:
                bell.close()
