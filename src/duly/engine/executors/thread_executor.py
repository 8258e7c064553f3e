"""The thread executor: runs plain functions, each in a thread that cannot be stopped from outside.

A function that continues after it was asked to stop keeps its thread until it ends by itself. Such
a thread is abandoned: `ThreadExecutor` does not wait for it, and another thread takes its place.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING

from duly.domain.outcomes import Failed
from duly.engine.executors.executor import called
from duly.engine.executors.results import error_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.outcomes import End
    from duly.engine.executors.executor import AttemptWork

IDLE_SECONDS_MAX = 30.0
"""A thread that has had nothing to do for so long ends; the next burst starts it anew."""


class ThreadExecutor:
    """Runs functions in daemon threads, at most as many at a time as the worker has slots."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._changed = threading.Condition(threading.Lock())
        self._waiting: deque[AttemptWork] = deque()
        self._running: set[AttemptWork] = set()
        self._abandoned: set[AttemptWork] = set()
        self._threads = 0
        """Those that are not abandoned."""
        self._idle = 0
        self._is_called = False
        """Whether a thread is on its way to what waits; when it has come, it calls the next."""
        self._is_closed = False

    def start(self, work: AttemptWork) -> None:
        """Begin in a thread that is idle, or in a new one; wait in line if there are enough."""
        self.start_all((work,))

    def start_all(self, works: Sequence[AttemptWork]) -> None:
        """Begin all of them: one thread is called, and each that comes calls the next."""
        with self._changed:
            self._waiting.extend(works)
            try:
                if not self._is_called:
                    self._call_one()
            except RuntimeError:  # the system has no more threads for us
                if not self._threads:
                    for _ in works:  # or they would begin after they were given up
                        self._waiting.pop()
                    raise

    def ask(self, work: AttemptWork) -> None:
        """Leave it to the code, which sees `run.cancelled`."""

    def insist(self, work: AttemptWork) -> bool:
        """Abandon the thread if its code still runs: there is no way to end it."""
        with self._changed:
            if work in self._waiting:
                self._waiting.remove(work)
            if work not in self._running:
                return True
            if work not in self._abandoned:
                self._abandoned.add(work)
                self._threads -= 1
                self._serve_waiting()
        return False

    def close(self) -> None:
        """Let idle threads end; those at work are left behind with the process."""
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _serve_waiting(self) -> None:
        """See to it that somebody comes for what waits, if anybody can."""
        if self._waiting and not self._is_called:
            with suppress(RuntimeError):  # those that are there will come to it
                self._call_one()

    def _call_one(self) -> None:
        """Call a thread: an idle one, else a new one, unless there are enough."""
        if self._idle:
            self._changed.notify()
            self._is_called = True
        elif self._threads < self._slots:
            threading.Thread(target=self._serve, name="duly-task", daemon=True).start()
            self._threads += 1  # only now: it may have been refused
            self._is_called = True

    def _serve(self) -> None:
        with self._changed:
            self._is_called = False
        while (work := self._next()) is not None:
            # An empty context: what one task sets there is nothing to the next.
            end = Context().run(_end_of, work)
            with self._changed:
                self._running.remove(work)
                is_abandoned = work in self._abandoned
                self._abandoned.discard(work)
            work.ended(end)
            if is_abandoned:
                return  # another thread has taken its place

    def _next(self) -> AttemptWork | None:
        with self._changed:
            while not self._waiting or self._is_closed:
                if self._is_closed or not self._wait():
                    self._threads -= 1
                    return None
            work = self._waiting.popleft()
            self._running.add(work)
            self._serve_waiting()
            return work

    def _wait(self) -> bool:
        """Wait to be called; False if nobody has called for long, and nothing waits."""
        self._idle += 1
        is_called = self._changed.wait(IDLE_SECONDS_MAX)
        self._idle -= 1
        self._is_called = False
        return is_called or bool(self._waiting)


def _end_of(work: AttemptWork) -> End:
    try:
        return called(work)
    except BaseException as error:  # noqa: BLE001 - also a defect of our own is an end
        return Failed(error_text(error))
