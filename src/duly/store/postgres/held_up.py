"""Timers that somebody's open transaction holds: for a while they are not sent with the others.

A statement that meets a locked row waits for it briefly and then fails as a whole. One row that
stays locked would cost every batch that wait, again and again; so it goes the other way, by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.store.ports.dispatch import FireResult
from duly.store.wakeups import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly.clock import Clock

REMEMBERED_US = 5 * SECOND_US
REMEMBERED_MAX = 10_000


class HeldUp:
    """Which timers were found locked a short while ago."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[bytes, int] = {}

    def __bool__(self) -> bool:
        """Say whether there may be any."""
        return bool(self._until)

    def __contains__(self, ref: object) -> bool:
        until = self._until.get(ref) if isinstance(ref, bytes) else None
        return until is not None and self._clock.monotonic_us() < until

    def note(self, results: Iterable[tuple[bytes, FireResult]]) -> None:
        """Remember those that were busy, and forget those that are no longer."""
        now = self._clock.monotonic_us()
        until = now + REMEMBERED_US
        if len(self._until) >= REMEMBERED_MAX:
            self._until = {ref: end for ref, end in self._until.items() if now < end}
        for ref, result in results:
            if result is FireResult.BUSY and len(self._until) < REMEMBERED_MAX:
                self._until[ref] = until
            elif self._until:
                self._until.pop(ref, None)
