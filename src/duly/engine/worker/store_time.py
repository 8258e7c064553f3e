"""Store time: what the store's clock shows, as well as a worker knows it; read from any thread.

After Cristian: an answer that carries the store's now was written between two readings of our
monotonic clock, so half their distance bounds the error. The best recent sample is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duly.clock import Clock

DRIFT_PPM = 100
"""How fast a good quartz may drift; a sample is trusted less the older it is."""
_MILLION = 1_000_000


class StoreTime:
    """An estimate of the store's clock, kept up by every dated answer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # One value that is replaced as a whole: other threads read it without a lock.
        self._sample = (clock.now_us() - clock.monotonic_us(), -1, 0)

    def hear(self, before: int, store_now: int) -> None:
        """Learn that the store's clock showed `store_now` at some time since `before`."""
        after = self._clock.monotonic_us()
        error = (after - before + 1) // 2
        offset = store_now - (before + after) // 2
        old, old_error, at = self._sample
        widened = old_error + (after - at) * DRIFT_PPM // _MILLION
        is_first = old_error < 0
        if is_first or error <= widened or abs(offset - old) > error + widened:
            self._sample = (offset, error, after)

    def now(self) -> int:
        """Return the store's clock; before anything was heard, our own."""
        return self.at(self._clock.monotonic_us())

    def at(self, monotonic: int) -> int:
        """Return what the store's clock showed at an instant of our monotonic clock."""
        return monotonic + self._sample[0]
