"""Log records and secrets of task code: lines of its run, ids on records, redaction.

`Redactor` hides secrets before a caller shortens a text, because half a secret is no longer
recognised. `masked_output` has it hide them in the standard output and error of this process.

`TaskLogHandler` and `RunLogFilter` find the run that a record belongs to by context, which threads
and coroutines inherit. Handlers that a program has set up itself work as before.
"""

from __future__ import annotations

import base64
import json
import logging
import sys
import threading
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO, cast
from urllib.parse import quote, quote_plus, unquote

from duly.domain.ids import identity_text
from duly.domain.outcomes import (
    CancelledEnd,
    Failed,
    GaveUp,
    ReturnedToQueue,
    Succeeded,
    TimedOut,
)
from duly.domain.runs import attempt_name
from duly.domain.schedules import canonical_json
from duly.engine.executors.results import storable
from duly.telemetry.listeners import current_trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from duly.domain.outcomes import End
    from duly.engine.executors.executor import AttemptWork
    from duly.store.ports.execution import ClaimedRun


HIDDEN = "***"
CUT_MARK = "…"
_BASE_64_LENGTH_MIN = 8
_BEGINNING_LENGTH_MIN = 4
"""Shorter beginnings of a secret, where a text was cut or ends, are chance."""


OUTPUT_SECRETS_MAX = 1_000
"""How many secrets a worker's output is searched for: those that were read last."""
OUTPUT_SECRET_LENGTH_MIN = 4
"""Shorter secrets are words that occur anywhere in the output of all tasks of a worker."""


class Redactor:
    """Knows what must not be seen. Adding and using it is safe from any thread."""

    def __init__(self, *, length_min: int = 1, secrets_max: int | None = None) -> None:
        self._length_min = length_min
        self._secrets_max = secrets_max
        self._lock = threading.Lock()
        self._spelt: dict[str, tuple[str, ...]] = {}
        """Each secret with its spellings, the oldest first."""
        # Replaced as a whole and never changed, so that a reader needs no lock.
        self._texts: tuple[str, ...] = ()

    def add(self, text: str) -> None:
        """Hide a text from now on, however it is written: in JSON, quoted, in a URL, in base64."""
        with self._lock:
            if text in self._spelt or len(text) < self._length_min:
                return
            spelt = (one for one in _spellings(text) if len(one) >= self._length_min)
            self._spelt[text] = tuple(spelt)
            if self._secrets_max is not None and len(self._spelt) > self._secrets_max:
                del self._spelt[next(iter(self._spelt))]
            shapes = {one for each in self._spelt.values() for one in each}
            # The longest first: a secret may be a part of another.
            self._texts = tuple(sorted(shapes, key=lambda one: (-len(one), one)))

    @property
    def is_empty(self) -> bool:
        """Whether nothing has to be hidden."""
        return not self._texts

    def hold_back(self, text: str) -> tuple[str, str]:
        """Hide secrets in a text that goes on; divide it before what may begin another secret."""
        text = self.hide(text)
        at = len(text) - self._beginning_length(text)
        return text[:at], text[at:]

    def end(self, text: str) -> str:
        """Return what was held back, for nothing follows it: without the beginning of a secret."""
        return self._without_beginning(text, _BEGINNING_LENGTH_MIN)

    def hide(self, text: str, *, is_cut: bool = False) -> str:
        """Return a text without what must not be seen; of a cut one, without its beginning, too."""
        for one in self._texts:
            text = text.replace(one, HIDDEN)
        if is_cut:
            text = self._without_beginning(text, 1)
        if self._texts and CUT_MARK in text:
            # Somebody else has shortened it before it came here, an error's message for one.
            *parts, last = text.split(CUT_MARK)
            hidden = [self._without_beginning(one, _BEGINNING_LENGTH_MIN) for one in parts]
            text = CUT_MARK.join([*hidden, last])
        return text

    def _without_beginning(self, text: str, length_min: int) -> str:
        """Return a text that ends in the beginning of a secret without that end."""
        stem = text.rstrip("'\"") if length_min > 1 else text
        length = self._beginning_length(stem)
        return text if length < length_min else stem[:-length] + HIDDEN + text[len(stem) :]

    def _beginning_length(self, text: str) -> int:
        """Return how many characters at the end of a text are the beginning of a secret."""
        begins_at = len(text)
        for one in self._texts:
            at = text.find(one[0], max(0, len(text) - len(one) + 1), begins_at)
            while at >= 0 and not one.startswith(text[at:]):
                at = text.find(one[0], at + 1, begins_at)
            begins_at = at if at >= 0 else begins_at
        return len(text) - begins_at

    def hide_in_end(self, end: End) -> End:
        """Return an end whose error and result hold nothing that must not be seen."""
        if not self._texts:
            return end
        match end:
            case Succeeded(result=str(result)):
                return Succeeded(self._hide_in_json(result))
            case Failed() | GaveUp():
                return replace(end, error=self.hide(end.error))
            case (
                TimedOut(error=str(error))
                | CancelledEnd(error=str(error))
                | ReturnedToQueue(error=str(error))
            ):
                return replace(end, error=self.hide(error))
            case _:
                return end

    def _hide_in_json(self, text: str) -> str | None:
        try:
            return canonical_json(self._hide_in(json.loads(text)))
        except (ValueError, RecursionError):
            return None  # not to be kept rather than seen

    def _hide_in(self, value: Any) -> Any:  # noqa: ANN401 - whatever JSON can hold
        match value:
            case str():
                return self.hide(value)
            case list():
                return [self._hide_in(one) for one in value]
            case dict():
                return {self.hide(key): self._hide_in(one) for key, one in value.items()}
            case _:
                shown = json.dumps(value)
                hidden = self.hide(shown)
                return value if hidden == shown else hidden


def _spellings(text: str) -> Iterator[str]:
    """Return a text as others may write it."""
    yield from (text, storable(text), json.dumps(text)[1:-1], repr(text)[1:-1])
    whole = text.encode("utf-8", "replace")
    yield from (quote(whole), quote(whole, safe=""), quote_plus(whole), unquote(text))
    for encoded in (base64.b64encode(whole), base64.urlsafe_b64encode(whole)):
        yield encoded.decode().rstrip("=")
        # Before more, as in name:password, its last characters are others.
        begun = encoded.decode()[: len(whole) // 3 * 4]
        if len(begun) >= _BASE_64_LENGTH_MIN:
            yield begun


_RUNNING: ContextVar[AttemptWork | None] = ContextVar("duly_running", default=None)


def log_for(work: AttemptWork) -> None:
    """Let whatever is logged in this context, and in what it starts, be a line of this run.

    Until somebody else says so in it: whoever runs tasks gives each a context, or says it anew.
    """
    _RUNNING.set(work)


def running() -> AttemptWork | None:
    """Return the attempt whose code is running in this context."""
    return _RUNNING.get()


class TaskLogHandler(logging.Handler):
    """Writes a record to the log of the run whose code has made it; others it lets pass."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record. A record that can't be written out is no failure of the task."""
        work = _RUNNING.get()
        if work is None:
            self._leave_to_python(record)
            return
        # Whatever writing a line logs itself belongs to nobody, or it would never end.
        outside = _RUNNING.set(None)
        try:
            with suppress(Exception):
                work.live.write(record.levelname.lower(), self.format(record))
        finally:
            _RUNNING.reset(outside)

    def _leave_to_python(self, record: logging.LogRecord) -> None:
        """Do what Python does where nobody listens: print warnings. With us, somebody does."""
        last = logging.lastResort
        if logging.getLogger().handlers == [self] and last and record.levelno >= last.level:
            last.handle(record)


@contextmanager
def task_logging() -> Iterator[None]:
    """Route what tasks log to their runs, for as long as a worker is at work.

    Where the program has set up no logging of its own, INFO is heard too: Python's own choice,
    warnings and above, is made for terminals.
    """
    root, handler = logging.getLogger(), TaskLogHandler()
    level = root.level
    if not root.handlers and level == logging.WARNING:
        root.setLevel(logging.INFO)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        if root.level == logging.INFO:
            root.setLevel(level)


def output_redactor() -> Redactor:
    """Return what hides the secrets that a worker has read last."""
    return Redactor(length_min=OUTPUT_SECRET_LENGTH_MIN, secrets_max=OUTPUT_SECRETS_MAX)


class MaskedOutput:
    """Stands in for standard output or standard error, and hides secrets in what is written.

    What may be the beginning of a secret is kept back until the next write shows whether it is one,
    so that a secret that is written in parts is recognised. Threads of this process share it, so
    that also a thread that a task has started can show none.
    """

    def __init__(self, stream: TextIO, secrets: Redactor) -> None:
        self.stream = stream
        self._secrets = secrets
        self._lock = threading.RLock()  # a signal handler may write, too
        self._kept_back = ""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the stream has
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write a text without secrets; return its length, as the stream would."""
        if self._secrets.is_empty:
            return self.stream.write(text)
        with self._lock:
            shown, self._kept_back = self._secrets.hold_back(self._kept_back + text)
            self.stream.write(shown)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write all of some texts."""
        for line in lines:
            self.write(line)

    def end(self) -> None:
        """Write what was kept back; nothing follows it."""
        with self._lock, suppress(OSError, ValueError):  # the stream may be closed
            kept, self._kept_back = self._kept_back, ""
            if kept:
                self.stream.write(self._secrets.end(kept))


@contextmanager
def masked_output(secrets: Redactor) -> Iterator[None]:
    """Hide secrets in standard output and error, and in what loggers write there.

    This is for a process of a worker. It does not reach what bypasses `sys.stdout` and
    `sys.stderr`: file descriptors, their `buffer`, and other processes.
    """
    masks: list[tuple[str, MaskedOutput]] = []
    changed: list[tuple[logging.StreamHandler[TextIO], TextIO]] = []
    for name in ("stdout", "stderr"):
        stream: TextIO | None = getattr(sys, name)
        if stream is not None:  # there is none without a console
            masked = MaskedOutput(stream, secrets)
            handlers = [one for one in _stream_handlers() if one.stream is stream]
            for handler in handlers:
                handler.setStream(cast("TextIO", masked))
            changed += [(handler, stream) for handler in handlers]
            masks.append((name, masked))
            setattr(sys, name, masked)
    try:
        yield
    finally:
        for handler, stream in changed:
            handler.setStream(stream)
        for name, masked in masks:
            masked.end()
            if getattr(sys, name) is masked:
                setattr(sys, name, masked.stream)


def _stream_handlers() -> list[logging.StreamHandler[TextIO]]:
    """Return the handlers of all loggers that write to a stream."""
    root = logging.getLogger()
    found = [one for one in root.manager.loggerDict.values() if isinstance(one, logging.Logger)]
    handlers = {handler for logger in (root, *found) for handler in logger.handlers}
    return [one for one in handlers if isinstance(one, logging.StreamHandler)]


def ids_of(claimed: ClaimedRun) -> dict[str, str]:
    """Return them by their names in every event and every line."""
    record, run = claimed.record, identity_text(claimed.run_id)
    schedule = record.schedule_id
    return {
        "task": claimed.task,
        "run_id": run,
        "attempt_id": attempt_name(run, claimed.tries.attempt),
        "schedule_id": "" if schedule is None else identity_text(schedule),
        "schedule": record.schedule_name or "",
    }


NONE = {"task": "", "run_id": "", "attempt_id": "", "schedule_id": "", "schedule": ""}


class RunLogFilter(logging.Filter):
    """Lets every record pass, and gives it the ids of its run; empty texts outside of one.

    The ids are `task`, `run_id`, `attempt_id`, `schedule_id`, `schedule`, `trace_id` and `span_id`;
    a format may use them: `%(run_id)s`. It goes on handlers: those of a logger hear only what is
    logged to that very logger.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Note the ids of the run whose code has made a record, unless it has its own."""
        work = running()
        facts = NONE if work is None else ids_of(work.claimed)
        trace_id, span_id = current_trace()
        for name, value in {**facts, "trace_id": trace_id, "span_id": span_id}.items():
            if not hasattr(record, name):
                setattr(record, name, value)
        return True
