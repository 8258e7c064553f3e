"""Task logging: what a task's code logs while it runs becomes lines of its own run.

Whose code is logging is known by context, which threads and coroutines carry along. Handlers that a
program has set up itself go on as before.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.engine.work import Work

_RUNNING: ContextVar[Work | None] = ContextVar("duly_running", default=None)


def log_for(work: Work) -> None:
    """Let whatever is logged in this context, and in what it starts, be a line of this run.

    Until somebody else says so in it: whoever runs tasks gives each a context, or says it anew.
    """
    _RUNNING.set(work)


def running() -> Work | None:
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
