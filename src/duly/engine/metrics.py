"""A dispatcher's statistics as metrics: what it has fired, how late, and what kept it from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.telemetry.exposition import Metric

if TYPE_CHECKING:
    from duly.engine.statistics import Statistics
    from duly.telemetry.exposition import Measured

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


def note_dispatcher(measured: Measured, statistics: Statistics) -> None:
    """Note what a dispatcher has done since it was made."""
    for field, metric in COUNTERS.items():
        measured.note(metric, getattr(statistics, field))
    lanes = {"live": "runs", "catch-up": "caught_up", "backfill": "backfilled"}
    for lane, field in lanes.items():
        measured.note(RUNS, getattr(statistics, field), lane)
    counts, total = list(statistics.lateness_counts), statistics.lateness_total_us
    # A bucket of so many bits holds what is below that power of two.
    spread = [((1 << _SHORTEST_BITS) / 1e6, sum(counts[: _SHORTEST_BITS + 1]))]
    middle = range(_SHORTEST_BITS + 1, _LONGEST_BITS + 1)
    spread += [((1 << bits) / 1e6, counts[bits]) for bits in middle]
    spread.append((float("inf"), sum(counts[_LONGEST_BITS + 1 :])))
    measured.note_spread(LATENESS, spread, total / 1e6)
