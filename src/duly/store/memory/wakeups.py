"""Waking whoever waits in this process."""

from __future__ import annotations

import threading

SECOND_US = 1_000_000


class LocalWakeups:
    """A place to wait at, for threads of one process."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._event = threading.Event()

    def wait(self, timeout_us: int) -> bool:
        """Wait at most that long; True when woken."""
        woken = self._event.wait(max(0, timeout_us) / SECOND_US)
        self._event.clear()
        return woken

    def wake(self) -> None:
        """Wake whoever waits here."""
        self._event.set()

    def close(self) -> None:
        """Nothing is held."""
