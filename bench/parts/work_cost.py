"""What a run costs by count, from its schedule to its outcome: statements, log, pages.

A dispatcher and a worker are ticked in turn, in one thread and on a clock that is set by hand, and
tasks run in the tick that claims them: how runs fall into batches is the same each time, and so are
the counts. A new run's id is drawn, which moves a page or two.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, NamedTuple
from urllib.request import urlopen

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from bench.stores.places import CLOCK, SECOND_US, Promise, new_app, number
from duly.app import App
from duly.app.metrics import telling_metrics
from duly.app.services import WorkerOptions
from duly.cli.event_lines import LineTelemetry, Style
from duly.domain.enums import TaskKind
from duly.engine.loop import Loop
from duly.engine.worker import Worker, WorkerSettings
from duly.store.ports.dispatch import MemberKind
from duly.store.ports.execution import PipelinedClaims
from duly.telemetry import Telemetry
from duly.telemetry.listeners import PROCESS_METRICS, WORKER_METRICS, EventCounter
from duly.telemetry.otel import OtelTracing
from duly.telemetry.prometheus import MetricSamples
from duly.testing import InlineExecutor, SeededDraws

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from bench.stores.places import Counting, Place
    from duly.engine.executors.executor import AttemptWork
    from duly.engine.manual_clock import ManualClock

Observers = Callable[[App], AbstractContextManager[Telemetry | None]]
LEAD_US = 6 * SECOND_US
BESIDE = ("effects", "scopes", "scope_items", "verdicts", "ambiguous", "attempts", "dead")
WRITTEN = ("runs", "outcomes", "ready", "claims", "waiting", "lines", "progress", "checkpoints")
SCRAPE_SECONDS = 0.2
TICKS_MAX = 10_000
TICKS_AFTER = 5
"""So many follow the last run's end: by then it is written down."""
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


class CountingExecutor(InlineExecutor):
    """Runs each work at once, and counts."""

    def __init__(self) -> None:
        self.count = 0

    def start(self, work: AttemptWork) -> None:
        """Run it to its end."""
        self.count += 1
        super().start(work)


def cost(place: Place, runs: int, slots: int, *, is_observed: bool = False) -> Cost:
    """Run a burst to its end; return what a run took, everything around it included.

    Observed: with metrics, a log of JSON and traces, of which every one is kept.
    """
    first = CLOCK.now_us()
    place.fill(Promise(due_at=first) for _ in range(runs))
    place.shift(CLOCK.now_us() - first + LEAD_US)
    observers = _observers if is_observed else _nobody
    with (
        place.clock(CLOCK.now_us()) as clock,
        place.counting() as counted,
        new_app(store=place.store(clock), clock=clock, draws=SeededDraws()) as app,
        observers(app) as over,
    ):
        counts = _ticked(app, clock, over, runs, slots, counted)
    beside = sum(_count(place, table) for table in BESIDE)
    rows = beside + sum(_count(place, table) for table in WRITTEN)
    place.remove()
    log = counts["WAL bytes"] or counts["page writes"] * FRAME_BYTES
    pages = counts["buffers"] or counts["page hits"] + counts["page reads"]
    return Cost(counts["statements"] / runs, log / runs, pages / runs, beside, rows / runs)


def _ticked(  # noqa: PLR0913, PLR0917 - what takes part
    app: App, clock: ManualClock, over: Telemetry | None, runs: int, slots: int, counted: Counting
) -> Counter[str]:
    """Tick a dispatcher and a worker until all runs are over; return what was counted."""
    executor, store = CountingExecutor(), app.store
    dispatcher = app.dispatcher(None, over)
    worker = Worker(
        store,
        clock,
        app.catalogue(),
        dict.fromkeys(TaskKind, executor),
        WorkerSettings(slots=slots),
        telemetry=over,
        draws=SeededDraws(),
        begin_claim=store.begin_claim if isinstance(store, PipelinedClaims) else None,
        tracing=app.traces.tracing,
    )
    left = TICKS_AFTER
    for _ in range(TICKS_MAX):
        wanted_us = min(dispatcher.tick(), worker.tick())
        if executor.count >= runs:
            left -= 1
        if not left:
            break
        clock.advance(max(0, min(wanted_us - clock.monotonic_us(), SECOND_US)))
    counts = counted.read()
    worker.stop()
    dispatcher.stop()
    return counts


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
    counting, over, urls = EventCounter(log), threading.Event(), list[str]()

    def measured() -> MetricSamples:
        found = MetricSamples((*WORKER_METRICS, *PROCESS_METRICS))
        counting.note_attempts(found)
        counting.note_events(found)
        return found

    def scrape() -> None:
        while not over.wait(SCRAPE_SECONDS):
            urlopen(urls[0]).close()  # noqa: S310 - our own address

    scraping = threading.Thread(target=scrape)
    with telling_metrics(0, measured, lambda _text, facts: urls.append(str(facts["url"]))):
        scraping.start()
        try:
            yield counting
        finally:
            over.set()
            scraping.join()
    provider.shutdown()


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
