"""A dispatcher whose machine has a wrong clock; otherwise just as `duly dispatcher --json` runs one.

python -m tests.system.skewed_dispatcher URL MICROSECONDS
"""

from __future__ import annotations

import logging
import signal
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

import duly
from duly.cli.event_lines import LineTelemetry, Style
from duly.clock import SystemClock
from duly.engine.loop import Loop

if TYPE_CHECKING:
    from datetime import datetime


class SkewedClock(SystemClock):
    """The machine's clock, off by so much."""

    def __init__(self, skew_us: int) -> None:
        self._skew_us = skew_us

    def now(self) -> datetime:
        return super().now() + timedelta(microseconds=self._skew_us)

    def now_us(self) -> int:
        return super().now_us() + self._skew_us


def main(url: str, skew_us: int) -> None:
    """Dispatch until SIGTERM."""
    clock = SkewedClock(skew_us)
    telling = LineTelemetry(clock, level=logging.INFO, style=Style.DOCUMENTS)
    with duly.App(url, clock=clock) as app:
        wakeups = app.store.wakeups()
        loop = Loop(app.dispatcher(telemetry=telling), wakeups, clock, telling)
        signal.signal(signal.SIGTERM, lambda *_: loop.stop())
        loop.run()
        wakeups.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
