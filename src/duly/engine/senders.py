"""Senders: threads in which alerts leave, so that who waits for a slow receiver holds up nobody."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from duly.telemetry import NullTelemetry, TickFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.telemetry import Telemetry


class Senders:
    """Runs each piece of work in a thread of its own; how many at once is up to who starts them."""

    def __init__(self, telemetry: Telemetry | None = None) -> None:
        self._telemetry = telemetry or NullTelemetry()
        self._changed = threading.Condition()
        self._under_way = 0

    def start(self, work: Callable[[], None]) -> None:
        """Begin, and return at once; on a machine that starts no more threads, when it is done."""
        with self._changed:
            self._under_way += 1
        # They end with the process, whatever they wait for: what is pending is in the store.
        thread = threading.Thread(target=self._run, args=(work,), name="duly-sender", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self._run(work)

    def wait(self, seconds: float) -> bool:
        """Wait until nothing is under way; say whether it came to that in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._under_way, seconds)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - nobody else would hear of it
            self._telemetry.emit(TickFailed(member=0, problem=repr(error), where="duly-sender"))
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()
