"""What long-running commands tell: lines for people, or JSON for programs and for logs."""

from __future__ import annotations

import logging
import os
import sys
import threading
from contextlib import suppress
from dataclasses import fields
from datetime import timedelta
from enum import StrEnum
from typing import Any, TextIO

from duly import telemetry as events
from duly.cli.output import json_line, neutral
from duly.clock import Clock
from duly.domain.ids import read_identity
from duly.telemetry.listeners import json_log_line
from duly.telemetry.tracing import trace_text
from duly.timetable.instants import SECOND_US, from_microseconds, iso_utc, utc_text

SENTENCES = {
    "joined": "joined as {kind} {member} on {host}, process {process}, tzdata {tzdata}",
    "left": "{kind} {member} has left the fleet and given up what it held",
    "declared-dead": "the store has declared {kind} {member} dead: {reason}; joining anew",
    "leases-acquired": "took {leases}",
    "leases-released": "gave up {leases}",
    "leases-lost": "lost {leases}",
    "batch-fired": "fired {fired} timers, made {runs} runs, at most {lateness_max_us} after due",
    "late-planned": "{count} later than their grace, planned by their misfire policies",
    "write-fenced": "the store has refused {count} writes: their shards are somebody else's now",
    "skew-hold-begun": "holding: this clock is {skew_us} off the store's; nothing is fired here",
    "skew-hold-ended": "the clocks agree again; taking part again",
    "clock-stepped": "the store's clock was set by {step_us}",
    "tzdata-outdated": "holding: the fleet has tzdata {newest}, this is {ours}; update it here",
    "timer-retimed": "{schedule} moved from {before} to {after}: time-zone rules changed",
    "tzdata-recomputed": "tzdata {release}: {looked_at} schedules compared, {moved} moved",
    "schedule-ended": "schedule {schedule_id} has ended: {reason}",
    "schedule-resumed": "{schedule} has resumed by itself",
    "set-aside": "{what} {subject_id} set aside, to be tried again: {problem}",
    "history-pruned": "removed {rows} rows of history past their retention",
    "store-lost": "the store does not answer, trying on: {problem}",
    "store-recovered": "the store answers again after {lost_us}",
    "watch-taken": "watches for all, under epoch {epoch}",
    "watch-lost": "watches no more: another process has the watch",
    "alert-raised": "alert ({severity}): {summary}",
    "alert-resolved": "resolved: {kind} of {subject}",
    "observer-failed": "{observer} could not look, what is known of it stays: {problem}",
    "alert-delivery-failed": "channel {channel} has not taken an alert, try {tries}: {problem}",
    "tick-failed": "an error that nobody foresaw, going on: {problem}",
    "run-started": "{task} has started: {attempt_id}",
    "run-log": "{text}",
    "attempt-ended": "{task} {state} in {took_us}: {attempt_id}",
    "run-succeeded": "{task} succeeded in {took_us}: {attempt_id}",
    "run-failed": "{task} failed for good in {took_us} ({reason}), {attempt_id}: {error}",
    "run-cancelled": "{task} was cancelled after {took_us}: {attempt_id}",
    "attempt-failed": "{task} {state} in {took_us} ({reason}), now {then}, {attempt_id}: {error}",
    "attempt-given-back": "{task} was given back ({reason}), now {then}: {attempt_id}",
    "run-dead": "{task} is dead ({reason}); bring it back: duly run retry {run_id}",
    "run-ambiguous": "{task} is in doubt ({reason}), and not tried again: duly inbox {run_id}",
    "attempt-lost": "{task} was taken from worker {worker}, which {cause}: {attempt_id}",
    "completion-refused": "{task} {state}, but is no longer ours; refused and kept: {attempt_id}",
    "fenced-off": "{count} attempts are no longer ours, and are asked to stop: {reason}",
    "slot-leaked": "{task} can't be stopped and keeps its slot, {leaked} lost by now: {attempt_id}",
    "commands-left-out": "may not run commands, leaves {tasks} to others; see --allow-commands",
    "worker-draining": "takes no more runs; {running} go on",
    "worker-recycling": "lost {leaked} slots to code that can't be stopped; ends to be replaced",
    "task-missing": "nobody knows the task {task}: its run {run_id} is dead{schedule}",
    "worker-process-started": "started worker process {process}",
    "worker-process-ended": "worker process {process} has ended: {how}",
    "worker-process-crashed": "worker process {process} crashed: {how}; next in {again_us}",
}
"""What each event means, with its fields; test_dispatcher.py compares them with telemetry."""

_CAUSES = {"worker": "is gone", "overdue": "did not end it in time"}
"""Why an attempt is taken from a worker, by the code of it."""
_WRITING = threading.Lock()
_LINE_LEVELS = {
    name.lower(): number for name, number in logging.getLevelNamesMapping().items() if number
}
"""Levels of a run's lines, by the names that loggers and tasks give them."""
_LEVEL_WORDS = {logging.WARNING: "warning: ", logging.ERROR: "error: "}


class Style(StrEnum):
    """How what happens is written."""

    SENTENCES = "sentences"
    """For people, on standard error."""
    DOCUMENTS = "documents"
    """A JSON document for each event, for programs, on standard output."""
    LOG = "log"
    """A JSON object on each line of a log, on standard error."""


class LineTelemetry:
    """Tells events as they happen."""

    def __init__(self, clock: Clock, *, level: int, style: Style) -> None:
        self._clock = clock
        self._level = level
        self._style = style
        self.has_traces = False
        """Whether runs have traces, which lines of a log then name."""

    def is_listening(self, kind: type[events.Event]) -> bool:
        """Say whether an event of this kind would be told."""
        if issubclass(kind, events.RunLogged):
            return self._style is Style.LOG
        return kind.level >= self._level

    def emit(self, event: events.Event) -> None:
        """Tell an event, if it matters enough. An output that takes nothing more is left alone."""
        if self.is_listening(type(event)):
            facts = {"event": event.name, **_facts(event)}
            level = event.level
            if isinstance(event, events.RunLogged):
                level = _LINE_LEVELS.get(event.line_level, level)
            self.tell(sentence(event), level=level, facts=facts)

    def tell(self, text: str, *, level: int = logging.INFO, facts: dict[str, Any]) -> None:
        """Tell a sentence to people, and its facts to programs."""
        if level < self._level:
            return
        stream = self._stream()
        # Lines of runs come from many threads.
        with suppress(OSError), _WRITING:
            stream.write(self._line(text, level, facts))
            stream.flush()

    def tell_between(self, text: str, facts: dict[str, Any]) -> None:
        """Tell a sentence out of a signal handler, which may have interrupted another one."""
        if self._level > logging.INFO:
            return
        line = self._line(text, logging.INFO, facts)
        with suppress(OSError):
            os.write(self._stream().fileno(), line.encode())

    def _stream(self) -> TextIO:
        return sys.stdout if self._style is Style.DOCUMENTS else sys.stderr

    def _line(self, text: str, level: int, facts: dict[str, Any]) -> str:
        if self._style is Style.LOG:
            run_id = facts.get("run_id")
            if run_id and self.has_traces:
                facts = {**facts, "trace_id": trace_text(read_identity(run_id, "run"))}
            return json_log_line(self._clock.now(), level, {**facts, "message": text}) + "\n"
        if self._style is Style.DOCUMENTS:
            return json_line({"at": iso_utc(self._clock.now()), **facts})
        word = _LEVEL_WORDS.get(level, "")
        return f"{utc_text(self._clock.now())} {word}{neutral(text)}\n"


def sentence(event: events.Event) -> str:
    """Say in words what happened; what nobody has put into words is its name and its facts."""
    words = SENTENCES.get(event.name)
    if words is None:
        return events.event_line(event)
    told = {name: _shown(name, value) for name, value in _facts(event).items()}
    if isinstance(event, events.TaskMissing):
        told["schedule"] = f", and schedule {event.schedule} is paused" if event.schedule else ""
    return words.format_map(told)


def _shown(name: str, value: Any) -> str:  # noqa: ANN401 - a field of an event
    if isinstance(value, list):
        leases = "1 lease" if len(value) == 1 else f"{len(value)} leases"
        return f"{leases}: {_by_lane(value)}"
    if name.endswith("_us"):
        return _span(value)
    if name == "error":
        return value or "no error is told"
    if name == "cause":
        return _CAUSES.get(value, f"lost it ({value})")
    if name in ("before", "after") and not isinstance(value, str):
        return "nothing" if value is None else iso_utc(from_microseconds(value))
    return f"{value:,}" if isinstance(value, int) and name != "process" else str(value)


def _span(span_us: int) -> str:
    if 0 < abs(span_us) < SECOND_US:
        return f"{span_us / 1000:.1f} ms"
    return f"{timedelta(microseconds=span_us).total_seconds():.1f} s"


def _by_lane(leases: list[str]) -> str:
    """Say which lanes of which shards: "live 0-7, catch-up 0 2 3"."""
    shards: dict[str, list[int]] = {}
    for lease in leases:
        shard, _, lane = lease.partition("/")
        shards.setdefault(lane, []).append(int(shard))
    return ", ".join(f"{lane} {_numbers(found)}" for lane, found in shards.items())


def _numbers(numbers: list[int]) -> str:
    first, last = min(numbers), max(numbers)
    if len(numbers) > 2 and len(numbers) == last - first + 1:
        return f"{first}-{last}"
    return " ".join(str(number) for number in sorted(numbers))


def _facts(event: events.Event) -> dict[str, Any]:
    facts = {one.name: getattr(event, one.name) for one in fields(event)}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in facts.items()}
