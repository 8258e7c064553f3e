"""Errands: what one thread does beside everything else, whenever it is called to."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from duly.store.wakeups import SECOND_US, LocalWakeups

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.clock import Clock

LOOK_UP_US = SECOND_US
CLOSE_WITHIN_S = 2.0


class Errand:
    """Something that is done soon after it is called for; once for all calls until it begins."""

    def __init__(
        self, name: str, do: Callable[[], None], clock: Clock, apart_us: tuple[int, int]
    ) -> None:
        self._name = name
        self._do = do
        self._clock = clock
        self._least_us, self._most_us = apart_us
        """It rests for twice as long as it took, between these two: seldom when all are busy."""
        self._calls = LocalWakeups()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self.is_closed = False

    def call(self) -> None:
        """Have it done soon; returns at once and never fails."""
        if self.is_closed:
            return
        if self._thread is None or not self._thread.is_alive():
            self._start()
        self._calls.wake()

    def close(self) -> None:
        """Have done what was called for, and let go."""
        self.is_closed = True
        if self._thread is not None:
            self._calls.wake()
            self._thread.join(CLOSE_WITHIN_S)

    def _start(self) -> None:
        with self._starting:
            if not self.is_closed and (self._thread is None or not self._thread.is_alive()):
                # A thread does not survive a fork: the child's first call starts its own.
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            is_called = self._calls.wait(LOOK_UP_US)
            began_at = self._clock.monotonic_us()
            if is_called:
                self._do()
            if self.is_closed:
                return
            if is_called:
                took_us = self._clock.monotonic_us() - began_at
                rest_us = min(max(2 * took_us, self._least_us), self._most_us)
                threading.Event().wait(rest_us / SECOND_US)
