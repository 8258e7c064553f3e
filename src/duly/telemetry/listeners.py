"""Receivers of events: nothing, logs, counters; JSON log lines.

`json_log_line` writes the first fields in the same order on every line: time, level, event, then
the ids that join a line with a schedule, a run, an attempt and a trace. Fields without a value are
left out.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from bisect import bisect_left
from collections import Counter
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from duly.errors import printable
from duly.telemetry.events import AttemptEnded, RunLogged
from duly.telemetry.prometheus import Metric

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.telemetry.events import Event
    from duly.telemetry.prometheus import MetricSamples


class Telemetry(Protocol):
    """Whoever listens."""

    def emit(self, event: Event) -> None:
        """Tell about an event. Never raises, never waits."""
        ...


def has_listener(telemetry: Telemetry, kind: type[Event]) -> bool:
    """Say whether anybody listens to events of a kind; who does not say listens to all.

    Asked where events are so many that making them for nobody would cost.
    """
    is_listening = getattr(telemetry, "is_listening", None)
    return is_listening is None or bool(is_listening(kind))


class NullTelemetry:
    """Tells nobody."""

    def is_listening(self, _kind: type[Event]) -> bool:
        """Say that nobody listens."""
        return False

    def emit(self, event: Event) -> None:
        """Let it go."""


class LogTelemetry:
    """Writes each event as one line of key=value to the logger `duly`."""

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger("duly")

    def is_listening(self, kind: type[Event]) -> bool:
        """Say whether an event of this kind would be written; what was logged once is not again."""
        return not issubclass(kind, RunLogged) and self._logger.isEnabledFor(kind.level)

    def emit(self, event: Event) -> None:
        """Write one line, at the event's own level."""
        if self.is_listening(type(event)):
            self._logger.log(event.level, "%s", event_line(event))


def event_line(event: Event) -> str:
    """Return an event as one line: its name, then key=value."""
    parts = (f"{one.name}={_shown(getattr(event, one.name))}" for one in fields(event))
    return " ".join((event.name, *parts))


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(str(one) for one in value) or "-"
    text = printable(str(value))
    # Quoted where a reader could not tell where the value ends.
    return f'"{text}"' if not text or any(mark in text for mark in ' "=') else text


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


class EventCounter:
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

    def is_listening(self, kind: type[Event]) -> bool:
        """Say that every event counts; but lines of runs are not made for that alone."""
        return not issubclass(kind, RunLogged) or has_listener(self._then, kind)

    def emit(self, event: Event) -> None:
        """Count an event, and tell whoever listens."""
        with self._lock:
            self._events[event.name] += 1
            if isinstance(event, AttemptEnded):
                self._count_attempt(event)
        if has_listener(self._then, type(event)):
            self._then.emit(event)

    def note_events(self, measured: MetricSamples) -> None:
        """Note how often each event happened."""
        with self._lock:
            counts = sorted(self._events.items())
        for name, count in counts:
            measured.note(EVENTS, count, name)

    def note_attempts(self, measured: MetricSamples) -> None:
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


IDS = ("schedule_id", "schedule", "run_id", "attempt_id", "trace_id", "span_id")
LOGGED = "log"
"""The event of a line that a program has logged by itself."""
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "task", *IDS}


def json_log_line(at: datetime, level: int, facts: Mapping[str, Any]) -> str:
    """Return one line, without its end.

    All that is not ASCII is escaped: a text can neither break its line nor move a terminal's
    cursor.
    """
    told = {"time": _written(at), "level": logging.getLevelName(level).lower()}
    first = {name: facts[name] for name in ("event", *IDS) if facts.get(name)}
    return json.dumps({**told, **first, **{k: v for k, v in facts.items() if k not in IDS}})


def current_trace() -> tuple[str, str]:
    """Return the ids of the current span and its trace; empty where there is none.

    A program that has not loaded OpenTelemetry has no span, and does not load it for this.
    """
    opentelemetry = sys.modules.get("opentelemetry.trace")
    if opentelemetry is None:
        return "", ""
    context = opentelemetry.get_current_span().get_span_context()
    if not context.is_valid:
        return "", ""
    return f"{context.trace_id:032x}", f"{context.span_id:016x}"


class JsonLogFormatter(logging.Formatter):
    """Writes each record as one JSON object: for handlers of a program's own.

    With `duly.RunLogFilter` on the same handler, a record of a task's code has the ids of its run.
    What was given as `extra` is written, too.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        facts: dict[str, Any] = {"event": LOGGED, "logger": record.name}
        facts |= {name: getattr(record, name, "") for name in ("task", *IDS)}
        if not facts["task"]:
            del facts["task"]
        facts["message"] = record.getMessage()
        if record.exc_info:
            facts["error"] = self.formatException(record.exc_info)
        more = {name: value for name, value in vars(record).items() if name not in _USUAL}
        facts |= {name: _plain(value) for name, value in more.items() if name not in facts}
        return json_log_line(datetime.fromtimestamp(record.created, UTC), record.levelno, facts)


def _written(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
