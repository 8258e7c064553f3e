"""Threads in which requests are carried out: so many at once, also when some never come back.

Whoever waited too long is told so, and the thread goes on: nothing can stop it in the middle. Such
threads are counted. When there are as many of them as may work, something behind us hangs, and one
more would only wait with the others: it is refused at once. What nobody waits for any more, and has
not begun, is not begun.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

import anyio
import anyio.to_thread

from duly.api.problems import refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.api.settings import ApiSettings

T = TypeVar("T")


class Threads:
    """All threads of one server."""

    def __init__(self, settings: ApiSettings) -> None:
        self._settings = settings
        self._limiter = anyio.CapacityLimiter(settings.threads_max)
        self._lock = threading.Lock()
        self._stuck = 0
        """How many go on though nobody waits for them."""

    @property
    def is_at_work(self) -> bool:
        """Whether some go on though nobody waits for them."""
        return self._stuck > 0

    async def run(self, function: Callable[[], T]) -> T:
        """Carry something out that may block; refuse it when it takes too long, or can't begin."""
        if self._stuck >= self._settings.threads_max:
            problem = "all that was asked before is still being carried out"
            raise refuse(503, "too-busy", problem, "try again later", Retry_After="5")
        errand = _Errand(self, function)
        try:
            with anyio.move_on_after(self._settings.answer_seconds_max):
                return await anyio.to_thread.run_sync(
                    errand.run, abandon_on_cancel=True, limiter=self._limiter
                )
        finally:
            errand.give_up()
        problem = "it took too long, and it is not known whether it was carried out"
        raise refuse(504, "no-answer", problem, "give it again under the same Idempotency-Key")

    def count_stuck(self, change: int) -> None:
        """Count one more that goes on alone, or one fewer."""
        with self._lock:
            self._stuck += change


class _Errand(Generic[T]):
    """One call, and whether somebody waits for it."""

    def __init__(self, threads: Threads, function: Callable[[], T]) -> None:
        self._threads = threads
        self._function = function
        self._lock = threading.Lock()
        self._is_running = False
        self._is_given_up = False

    def run(self) -> T:
        """Carry it out, in its thread."""
        with self._lock:
            if self._is_given_up:
                raise TimeoutError("nobody waits for it")
            self._is_running = True
        try:
            return self._function()
        finally:
            with self._lock:
                self._is_running = False
                if self._is_given_up:
                    self._threads.count_stuck(-1)

    def give_up(self) -> None:
        """Wait for it no longer, in the event loop; after its end this says nothing."""
        with self._lock:
            self._is_given_up = True
            if self._is_running:
                self._threads.count_stuck(1)
