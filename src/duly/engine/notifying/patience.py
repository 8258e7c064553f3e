"""Patience with the other side: a try has so long and no longer, whatever it waits for.

A time limit of a socket is one for each read, and a server that sends a byte now and then never
meets it; a look-up of a name knows no limit at all. So a try has a thread of its own, somebody
waits for it, and cuts it off when its time is up.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

from duly.domain.durations import duration_text
from duly.domain.instants import SECOND_US
from duly.engine.notifying.delivery import DeliveryResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.engine.notifying.delivery import Wait

LEFT_MAX = 4
"""How many tries of one channel may hang where nothing can cut them off, in a look-up."""
CUT_S_MAX = 0.2
"""How long a try that was cut off may take to notice it."""


class Tether:
    """What ties a try to whoever waits for it: once it is cut, nothing more is sent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._is_cut = False

    def hold(self, connection: socket.socket) -> None:
        """Tie a connection to it; TimeoutError when it is cut already."""
        # A copy: when TLS begins, the first object for a connection gives it up to another.
        copy = connection.dup()
        with self._lock:
            self._release()
            self._connection = copy
        self.check()

    def check(self) -> None:
        """Go on only while somebody waits; else TimeoutError."""
        with self._lock:
            if self._is_cut:
                raise TimeoutError("its time is up")

    def cut(self) -> None:
        """End the connection, whatever is being read from it or written to it."""
        with self._lock:
            self._is_cut = True
            if self._connection is not None:
                with contextlib.suppress(OSError):
                    self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of the connection."""
        with self._lock:
            self._release()

    def _release(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Patience:
    """Gives each try of a channel the same time, and counts those that do not end."""

    def __init__(self, who: str, limit_us: int, wait: Wait = threading.Event.wait) -> None:
        self._who = who
        self._limit_us = limit_us
        self._wait = wait
        self._lock = threading.Lock()
        self._begun = 0

    def wait_for(self, attempt: Callable[[Tether], DeliveryResult]) -> DeliveryResult:
        """Try, and return how it went, or that it took too long."""
        with self._lock:
            if self._begun >= LEFT_MAX:
                left = f"{self._begun} tries of {self._who} have not ended yet"
                return DeliveryResult(is_done=False, detail=left)
            self._begun += 1
        waiting = _Waiting(attempt, self._wait)
        try:
            threading.Thread(
                target=self._run, args=(waiting,), name="duly-delivery", daemon=True
            ).start()
        except RuntimeError:
            self._end()
            return DeliveryResult(is_done=False, detail="this machine can start no more threads")
        return waiting.result(self._limit_us / SECOND_US) or DeliveryResult(
            is_done=False,
            detail=f"{self._who} was not done with it within {duration_text(self._limit_us)}",
        )

    def _run(self, waiting: _Waiting) -> None:
        try:
            waiting.run()
        finally:
            self._end()

    def _end(self) -> None:
        with self._lock:
            self._begun -= 1


class _Waiting:
    """One try between the thread that makes it and the one that waits for it."""

    def __init__(self, attempt: Callable[[Tether], DeliveryResult], wait: Wait) -> None:
        self._attempt = attempt
        self._wait = wait
        self._tether = Tether()
        self._is_over = threading.Event()
        self._result: DeliveryResult | None = None

    def run(self) -> None:
        try:
            self._result = self._attempt(self._tether)
        except BaseException as error:  # noqa: BLE001 - nobody else would hear of it
            # Its text may hold anything, a secret too; its kind says where to look.
            detail = f"sending failed with {type(error).__name__}"
            self._result = DeliveryResult(is_done=False, detail=detail)
        finally:
            self._tether.close()
            self._is_over.set()

    def result(self, limit_s: float) -> DeliveryResult | None:
        """Return how it went; None if it took too long, unless it was done in the last moment."""
        if self._wait(self._is_over, limit_s):
            return self._result
        self._tether.cut()
        self._is_over.wait(CUT_S_MAX)
        result = self._result
        return result if result is not None and result.is_done else None
