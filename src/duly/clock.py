"""The clock: the only file that reads the time. Everything else is told what time it is."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Whoever can say what time it is; tests and the simulation bring their own."""

    def now(self) -> datetime:
        """Return the current instant, aware, in UTC."""
        ...

    def now_us(self) -> int:
        """Return the current instant in microseconds since 1970."""
        ...

    def monotonic_us(self) -> int:
        """Return microseconds of a clock that is never set: for distances, not for dates."""
        ...


class SystemClock:
    """The operating system's clock."""

    def now(self) -> datetime:
        """Return the current instant, aware, in UTC."""
        return datetime.now(UTC)

    def now_us(self) -> int:
        """Return the current instant in microseconds since 1970."""
        return time.time_ns() // 1000

    def monotonic_us(self) -> int:
        """Return microseconds of a clock that is never set: for distances, not for dates."""
        return time.monotonic_ns() // 1000
