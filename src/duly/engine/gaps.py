"""Gaps: room for what can wait, between live work that was fired and what falls due next (M3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.clock import Clock

SHARE = 10
"""Where there is no gap, what can wait still gets a tenth of the time."""


class Gaps:
    """How long a step of what can wait takes, and whether one fits in before live work is due."""

    def __init__(self, clock: Clock, live_at: Callable[[int], int | None]) -> None:
        self.until = 0
        """Before this nothing fits in, on the monotonic clock."""
        self._clock = clock
        self._live_at = live_at
        self._cost_us = 0
        self._ended_at = 0

    def has_room(self) -> bool:
        """Say whether a step may begin now; if not, `until` says when to ask again."""
        monotonic = self._clock.monotonic_us()
        due_at = self._live_at(monotonic)
        if due_at is None or due_at > monotonic + self._cost_us:
            return True
        its_turn_at = self._ended_at + SHARE * self._cost_us
        self.until = min(due_at, its_turn_at)
        return monotonic >= its_turn_at

    def note(self, began_at: int) -> None:
        """Note how long a step took: one that was held up counts for a quarter."""
        self._ended_at = self._clock.monotonic_us()
        self._cost_us = (3 * self._cost_us + self._ended_at - began_at) // 4
