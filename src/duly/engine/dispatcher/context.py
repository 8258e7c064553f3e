"""What every part gets: store, clock, settings, telemetry; statistics and their metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from duly.telemetry.prometheus import Metric
from duly.timetable.zones import ZoneDatabase, default_zones

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duly.clock import Clock
    from duly.engine.dispatcher.settings import DispatcherSettings
    from duly.store.ports import Store
    from duly.store.ports.dispatch import Fired, FireTimers
    from duly.telemetry import Telemetry
    from duly.telemetry.prometheus import MetricSamples
    from duly.telemetry.tracing import Tracing

    BeginFire = Callable[[FireTimers], Callable[[], Fired] | None]


RUNS = Metric(
    "duly_dispatcher_runs_total", "counter", "Runs that this dispatcher has made.", ("lane",)
)
LATENESS = Metric(
    "duly_dispatcher_lateness_seconds",
    "histogram",
    "How long after their due, by the store's clock, timers fired that were within their grace.",
)
_COUNTERS = {
    "fired": "Timers that this dispatcher has fired.",
    "early_answers": "How often it asked before the store's clock had come so far; nothing fired.",
    "late_planned": "Timers beyond their grace, planned by their misfire policies.",
    "gone": "Timers that somebody had changed or fired meanwhile.",
    "fenced": "Writes that the store refused, because their shards were somebody else's.",
    "busy": "Timers that had to wait for another transaction.",
    "set_aside": "Timers that could not be handled, and are tried again later.",
    "swept": "Overdue timers that only the sweep found.",
    "reaped": "Claims that were taken from workers that are gone.",
    "store_losses": "How often the store was lost.",
}
COUNTERS = {
    field: Metric(f"duly_dispatcher_{field}_total", "counter", meaning)
    for field, meaning in _COUNTERS.items()
}
DISPATCHER_METRICS = (*COUNTERS.values(), RUNS, LATENESS)
_SHORTEST_BITS = 10
"""What is below a millisecond is one bucket,"""
_LONGEST_BITS = 29
"""and so is what is above nine minutes."""


def note_dispatcher(measured: MetricSamples, statistics: Statistics) -> None:
    """Note what a dispatcher has done since it was made."""
    for counter, metric in COUNTERS.items():
        measured.note(metric, getattr(statistics, counter))
    lanes = {"live": "runs", "catch-up": "caught_up", "backfill": "backfilled"}
    for lane, counter in lanes.items():
        measured.note(RUNS, getattr(statistics, counter), lane)
    counts, total = list(statistics.lateness_counts), statistics.lateness_total_us
    # A bucket of so many bits holds what is below that power of two.
    spread = [((1 << _SHORTEST_BITS) / 1e6, sum(counts[: _SHORTEST_BITS + 1]))]
    middle = range(_SHORTEST_BITS + 1, _LONGEST_BITS + 1)
    spread += [((1 << bits) / 1e6, counts[bits]) for bits in middle]
    spread.append((float("inf"), sum(counts[_LONGEST_BITS + 1 :])))
    measured.note_spread(LATENESS, spread, total / 1e6)


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
    """How often we asked before the store's clock had reached a due. Nothing fired."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Where a dispatcher runs, where it can be woken, and by which time-zone rules it computes."""

    host: str = "local"
    process: int = 0
    wake_address: str = ""
    zones: ZoneDatabase = field(default_factory=default_zones)


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatcherContext:
    """What is given to each part, and nothing hidden beside it."""

    store: Store
    clock: Clock
    settings: DispatcherSettings
    telemetry: Telemetry
    node: Node
    begin_fire: BeginFire | None = None
    """How a crowd is fired while we go on, where the store can do that."""
    tracing: Tracing | None = None
    """Who is told of spans; None when nobody has asked for them."""
    statistics: Statistics = field(default_factory=Statistics)
