"""The loop: runs a service until told to stop. The only place in the engine that waits."""

from __future__ import annotations

from traceback import extract_tb
from typing import TYPE_CHECKING, Protocol

from duly.errors import SchemaMismatch
from duly.telemetry import NullTelemetry, TickFailed

if TYPE_CHECKING:
    from duly.clock import Clock
    from duly.store.ports.dispatch import Wakeups
    from duly.telemetry import Telemetry

FAILED_WAIT_US = 1_000_000
"""After an error that nobody foresaw; often enough to recover, seldom enough not to spin."""


class Service(Protocol):
    """A background duty: bounded ticks, and an orderly end."""

    def tick(self) -> int:
        """Do a bounded amount of work; return when to be called next, on the monotonic clock."""
        ...

    def wake(self) -> None:
        """Know that somebody has written something near."""
        ...

    def stop(self) -> None:
        """End in good order."""
        ...


class Loop:
    """Ticks a service, and waits between ticks where it can be woken."""

    def __init__(
        self,
        service: Service,
        wakeups: Wakeups,
        clock: Clock,
        telemetry: Telemetry | None = None,
    ) -> None:
        self._service = service
        self._wakeups = wakeups
        self._clock = clock
        self._telemetry = telemetry or NullTelemetry()
        self._is_stopping = False

    def run(self) -> None:
        """Run until `stop`; then let the service end in good order."""
        try:
            while not self._is_stopping:
                wait_us = self._tick() - self._clock.monotonic_us()
                # Who has no time to wait listens all the same: what it is rung for may be due
                # before what it has to do.
                if not self._is_stopping and self._wakeups.wait(max(wait_us, 0)):
                    self._service.wake()
        finally:
            self._service.stop()

    def stop(self) -> None:
        """Ask the loop to end; from any thread or signal handler."""
        self._is_stopping = True
        self._wakeups.wake()

    def _tick(self) -> int:
        try:
            return self._service.tick()
        except SchemaMismatch:
            raise  # an operator must act; trying again changes nothing
        except Exception as error:  # noqa: BLE001 - a fleet must outlive a defect in one tick
            event = TickFailed(member=0, problem=repr(error), where=_raised_at(error))
            self._telemetry.emit(event)
            return self._clock.monotonic_us() + FAILED_WAIT_US


def _raised_at(error: Exception) -> str:
    frames = extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "unknown"
