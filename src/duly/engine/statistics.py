"""Statistics of a dispatcher: counters that status pages and benchmarks read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_BUCKETS = 48
"""Powers of two of a microsecond; the last holds more than four years."""


@dataclass(slots=True)
class Statistics:
    """What a dispatcher has done since it was made."""

    fired: int = 0
    """Timers that fired."""
    runs: int = 0
    """Runs made on the live lane."""
    early_answers: int = 0
    """How often we asked before the store's clock had reached a due. Nothing fired (F1)."""
    late_planned: int = 0
    gone: int = 0
    fenced: int = 0
    busy: int = 0
    set_aside: int = 0
    caught_up: int = 0
    """Runs made on the catch-up lane."""
    backfilled: int = 0
    """Runs made for backfills."""
    batches: int = 0
    arrivals: int = 0
    swept: int = 0
    """Overdue timers that only the sweep found."""
    reaped: int = 0
    """Claims that were taken from workers that are gone."""
    store_losses: int = 0
    lateness_max_us: int = 0
    lateness_total_us: int = 0
    lateness_counts: list[int] = field(default_factory=lambda: [0] * _BUCKETS)

    def note_lateness(self, lateness_us: Sequence[int]) -> None:
        """Count how long after their due some timers fired."""
        if not lateness_us:
            return
        assert min(lateness_us) >= 0, "never early"
        counts, last = self.lateness_counts, _BUCKETS - 1
        for bits, count in Counter(map(int.bit_length, lateness_us)).items():
            counts[min(bits, last)] += count
        self.lateness_total_us += sum(lateness_us)
        self.lateness_max_us = max(self.lateness_max_us, *lateness_us)

    def lateness_us(self, share: float) -> int:
        """Return a lateness that this share of fires did not exceed; a power of two."""
        wanted, seen = share * sum(self.lateness_counts), 0
        for bits, count in enumerate(self.lateness_counts):
            seen += count
            if count and seen >= wanted:
                return min(1 << bits, self.lateness_max_us)
        return 0
