"""A clock that is set by hand: tests, the simulation and the demo's past decide what time it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from duly.timetable.instants import duration_microseconds

START_US = 1_804_492_800_000_000
"""Where a clock starts unless told: 2027-03-08 08:00 UTC, a Monday."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now_us: int = START_US) -> None:
        self._wall_us = now_us
        self._monotonic_us = 0

    def now(self) -> datetime:
        """Return the current instant, aware, in UTC."""
        return _EPOCH + timedelta(microseconds=self._wall_us)

    def now_us(self) -> int:
        """Return the current instant in microseconds since 1970."""
        return self._wall_us

    def monotonic_us(self) -> int:
        """Return microseconds since the clock was made; setting the clock does not move it."""
        return self._monotonic_us

    def advance(self, duration: int | str | timedelta) -> None:
        """Let time pass on both clocks: microseconds, a timedelta, or a text such as "15m"."""
        passed_us = _microseconds(duration)
        assert passed_us >= 0, "time passes forwards; to step the wall clock back, set it"
        self._wall_us += passed_us
        self._monotonic_us += passed_us

    def set(self, now_us: int) -> None:
        """Step the wall clock, forwards or back; no time passes by it."""
        self._wall_us = now_us


def _microseconds(duration: int | str | timedelta) -> int:
    if isinstance(duration, int):
        return duration
    return duration_microseconds(duration, "duration")
