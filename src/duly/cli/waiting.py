"""Waiting for something to change: looks again and again, up to a limit, and can be interrupted."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event

from rich.status import Status

from duly.cli.output import console, neutral
from duly.clock import SystemClock
from duly.domain.durations import duration_microseconds
from duly.errors import UsageError

TIMED_OUT = 124
"""The exit code for "not over yet", as of timeout(1): it is no failure of what was waited for."""
PAUSE_FIRST_S = 0.05
PAUSE_MAX_S = 1.0
INTERVAL_MIN_US = 100_000
_SECOND_US = 1_000_000


def read_interval(text: str) -> float:
    """Read how often to look, in seconds."""
    interval_us = duration_microseconds(text, "interval")
    if interval_us < INTERVAL_MIN_US:
        raise UsageError("interval", text, "is too short", "give 100ms or more")
    return interval_us / _SECOND_US


class Patience:
    """Time between two looks, which grows; and a limit, after which nothing is waited for."""

    def __init__(self, limit: str | None) -> None:
        self._clock = SystemClock()
        self._pause_s = PAUSE_FIRST_S
        self._ends_us = None
        if limit is not None:
            limit_us = duration_microseconds(limit, "--timeout")
            self._ends_us = self._clock.monotonic_us() + limit_us

    def wait(self) -> bool:
        """Wait a while; False, at once, when the limit has passed."""
        pause_s = self._pause_s
        self._pause_s = min(2 * pause_s, PAUSE_MAX_S)
        if self._ends_us is not None:
            left_us = self._ends_us - self._clock.monotonic_us()
            if left_us <= 0:
                return False
            pause_s = min(pause_s, left_us / _SECOND_US)
        Event().wait(pause_s)
        return True

    def renew(self) -> None:
        """Look again soon: something has just happened."""
        self._pause_s = PAUSE_FIRST_S


class Ticker:
    """One line on a terminal's standard error that says how far it is; silent in a pipe."""

    def __init__(self, status: Status | None) -> None:
        self._status = status

    def tell(self, text: str) -> None:
        """Say what is being waited for now."""
        if self._status is not None:
            self._status.update(neutral(text))
            self._status.start()

    def counting(self, what: str) -> Callable[[int], None]:
        """Return what is told how many are done so far."""
        return lambda number: self.tell(f"{number:,} {what}")

    def wipe(self) -> None:
        """Take the line away until there is more to tell, so that something else can be printed."""
        if self._status is not None:
            self._status.stop()


@contextmanager
def ticker(*, is_wanted: bool = True) -> Iterator[Ticker]:
    """Lend a line of progress, which is wiped afterwards."""
    if not (is_wanted and sys.stderr.isatty()):
        yield Ticker(None)
        return
    with console(error=True).status("waiting") as status:
        yield Ticker(status)
