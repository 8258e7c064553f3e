"""Log records and secrets of task code: lines of its run, ids on records, redaction.

`Redactor` hides secrets before a caller shortens a text, because half a secret is no longer
recognised.

`TaskLogHandler` and `RunLogFilter` find the run that a record belongs to by context, which threads
and coroutines inherit. Handlers that a program has set up itself work as before.
"""

from __future__ import annotations

import base64
import json
import logging
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus, unquote

from duly.domain.ids import identity_text
from duly.domain.outcomes import CancelledEnd, Failed, GaveUp, Succeeded, TimedOut
from duly.domain.runs import attempt_name
from duly.domain.schedules import canonical_json
from duly.engine.executors.results import storable
from duly.telemetry.listeners import current_trace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.domain.outcomes import End
    from duly.engine.executors.executor import AttemptWork
    from duly.store.ports.execution import ClaimedRun


HIDDEN = "***"
CUT_MARK = "…"
_BASE_64_LENGTH_MIN = 8
_BEGINNING_LENGTH_MIN = 4
"""Shorter beginnings of a secret, before a mark that something is left out, are chance."""


class Redactor:
    """Knows what must not be seen. Adding and using it is safe from any thread."""

    def __init__(self) -> None:
        # Replaced as a whole and never changed, so that a reader needs no lock.
        self._texts: tuple[str, ...] = ()

    def add(self, text: str) -> None:
        """Hide a text from now on, however it is written: in JSON, quoted, in a URL, in base64."""
        if text:
            shapes = {*_spellings(text), *self._texts}
            # The longest first: a secret may be a part of another.
            self._texts = tuple(sorted(shapes, key=lambda one: (-len(one), one)))

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
        longest = 0
        for one in self._texts:
            for length in range(min(len(one) - 1, len(stem)), max(longest, length_min - 1), -1):
                if stem.endswith(one[:length]):
                    longest = length
                    break
        return text if not longest else stem[:-longest] + HIDDEN + text[len(stem) :]

    def hide_in_end(self, end: End) -> End:
        """Return an end whose error and result hold nothing that must not be seen."""
        if not self._texts:
            return end
        match end:
            case Succeeded(result=str(result)):
                return Succeeded(self._hide_in_json(result))
            case Failed() | GaveUp():
                return replace(end, error=self.hide(end.error))
            case TimedOut(error=str(error)) | CancelledEnd(error=str(error)):
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
