"""Pace: how often a worker talks to the store about a few runs.

A call costs the store about as much for one run as for fifty. So while runs come and go all the
time, a worker waits for a few of them; after a quiet moment it says and asks everything at once.
Ends wait for longer than claims: told with the next claim, they cost next to nothing.
"""

from __future__ import annotations

AT_ONCE_MAX = 10
"""How many calls are made without a pause, after a quiet moment."""
ENDS_ALONE = 4
"""For how many calls one counts that only tells of ends."""
CROWD = 200
"""So many runs are worth a call of their own at any time."""


class Pace:
    """A bucket of calls, which fills up again by one each time."""

    def __init__(self, every_us: int) -> None:
        self._every_us = every_us
        self._full_at = 0
        """When the bucket is full again, on the monotonic clock."""

    @property
    def claim_at(self) -> int:
        """When the next claim is fit, on the monotonic clock."""
        return self._full_at - (AT_ONCE_MAX - 1) * self._every_us

    @property
    def end_at(self) -> int:
        """When ends may be told without a claim."""
        return self._full_at - (AT_ONCE_MAX - ENDS_ALONE) * self._every_us

    def note(self, monotonic: int, count: int, *, is_more: bool, is_claim: bool) -> None:
        """Count a call about so many runs; one that was worth it, or before more of them, is free.

        Whoever has few slots, and short runs to do, is not to wait between them.
        """
        if count < CROWD and not is_more:
            calls = 1 if is_claim else ENDS_ALONE
            self._full_at = max(self._full_at, monotonic) + calls * self._every_us
