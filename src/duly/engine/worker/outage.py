"""Outage: how long to leave a store alone that does not answer, and telling about it once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.telemetry import StoreLost, StoreRecovered

if TYPE_CHECKING:
    from duly.engine.worker.parts import WorkerParts
    from duly.errors import StoreUnavailable


class Outage:
    """Waits a little longer each time, but never long: a lease may hang on it."""

    def __init__(self, parts: WorkerParts) -> None:
        self._parts = parts
        self._since: int | None = None
        self._backoff_us = parts.settings.backoff_min_us
        self.retry_at = 0
        """The store is not asked before this, on the monotonic clock."""

    @property
    def is_on(self) -> bool:
        """Whether the store did not answer when it was asked last."""
        return self._since is not None

    def begin(self, member: int, error: StoreUnavailable) -> None:
        """Note that the store did not answer."""
        monotonic = self._parts.clock.monotonic_us()
        if self._since is None:
            self._since = monotonic
            self._parts.statistics.store_losses += 1
            self._parts.emit(StoreLost(member=member, problem=str(error)))
        self.retry_at = monotonic + self._backoff_us
        self._backoff_us = min(2 * self._backoff_us, self._parts.settings.backoff_max_us)

    def end(self, member: int) -> bool:
        """Note that the store answers; say whether it did not before."""
        if self._since is None:
            return False
        lost_us = self._parts.clock.monotonic_us() - self._since
        self._since = None
        self._backoff_us = self._parts.settings.backoff_min_us
        self._parts.emit(StoreRecovered(member=member, lost_us=lost_us))
        return True
