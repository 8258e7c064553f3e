"""Counting what a process tells: how often each event happened, and how attempts ended (V2)."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING

from duly.telemetry.exposition import Metric
from duly.telemetry.listeners import is_heard
from duly.telemetry.work_events import AttemptEnded, RunLogged

if TYPE_CHECKING:
    from duly.telemetry.events import Event
    from duly.telemetry.exposition import Measured
    from duly.telemetry.listeners import Telemetry

EVENTS = Metric(
    "duly_events_total",
    "counter",
    "Events that this process has told, by name.",
    ("event",),
)
ATTEMPTS = Metric(
    "duly_worker_attempts_total",
    "counter",
    "Attempts that have ended in this process, by task and how.",
    ("task", "state"),
)
ATTEMPT_SECONDS = Metric(
    "duly_worker_attempt_seconds",
    "histogram",
    "How long attempts took that have ended in this process.",
)
PROCESS_METRICS = (EVENTS,)
WORKER_METRICS = (ATTEMPTS, ATTEMPT_SECONDS)
TASKS_MAX = 200
"""How many tasks are counted apart."""
OTHER_TASKS = "(other)"
"""Those beyond: names that callers make up fill neither a process nor a database of numbers."""
SECONDS = (0.005, 0.025, 0.1, 0.5, 1, 5, 30, 60, 300, 1800, 7200, float("inf"))


class CountingTelemetry:
    """Counts each event, then passes it on."""

    def __init__(self, then: Telemetry) -> None:
        self._then = then
        # Asked by a thread that answers whoever collects the numbers, while others count.
        self._lock = threading.Lock()
        self._events: Counter[str] = Counter()
        self._attempts: Counter[tuple[str, str]] = Counter()
        self._tasks: set[str] = set()
        self._spread = [0] * len(SECONDS)
        self._seconds = 0.0

    def hears(self, kind: type[Event]) -> bool:
        """Say that every event counts; but lines of runs are not made for that alone."""
        return not issubclass(kind, RunLogged) or is_heard(self._then, kind)

    def emit(self, event: Event) -> None:
        """Count an event, and tell whoever listens."""
        with self._lock:
            self._events[event.name] += 1
            if isinstance(event, AttemptEnded):
                self._count_attempt(event)
        if is_heard(self._then, type(event)):
            self._then.emit(event)

    def note_events(self, measured: Measured) -> None:
        """Note how often each event happened."""
        with self._lock:
            counts = sorted(self._events.items())
        for name, count in counts:
            measured.note(EVENTS, count, name)

    def note_attempts(self, measured: Measured) -> None:
        """Note how attempts ended."""
        with self._lock:
            counts, spread = sorted(self._attempts.items()), list(self._spread)
            seconds = self._seconds
        for (task, state), count in counts:
            measured.note(ATTEMPTS, count, task, state)
        measured.note_spread(ATTEMPT_SECONDS, list(zip(SECONDS, spread, strict=True)), seconds)

    def _count_attempt(self, event: AttemptEnded) -> None:
        if len(self._tasks) < TASKS_MAX:
            self._tasks.add(event.task)
        task = event.task if event.task in self._tasks else OTHER_TASKS
        self._attempts[task, event.state] += 1
        took = event.took_us / 1_000_000
        self._spread[bisect_left(SECONDS, took)] += 1
        self._seconds += took
