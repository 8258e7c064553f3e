"""Pending instants, as a dispatcher loads them into memory and hears of new ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, NewType

TimerKind = Literal["schedule", "delayed", "retry"]


class Timer(NamedTuple):
    """A pending instant as it is loaded: a hint, compared with the store when it fires."""

    kind: TimerKind
    ref: bytes
    """The schedule's id, the delayed run's, or that of the run that waits for another attempt."""
    shard: int
    due_at: int
    scheduled_for: int
    generation: int
    """The schedule's version, the delayed run's generation, or the fence of the last claim."""
    definition_number: int
    """Of a schedule; 0 for a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTimers:
    """Read what falls due in the shards that one owns."""

    shards: tuple[int, ...]
    after: int | None
    """Only what is due later than this; None for everything there is."""
    until: int
    limit: int
    is_whole: bool = True
    """Whether an instant is read as a whole, even past the limit; if not, the limit holds."""
    crowd_max: int = 50_000
    """More than this of one instant is not read at once: then a part of it is, and `through` lies
    before it."""


@dataclass(frozen=True, slots=True)
class LoadedTimers:
    """Timers in order of due; all up to `through` are there."""

    timers: tuple[Timer, ...]
    through: int
    """`until`, or less when the limit cut it short: the last instant that is complete."""
    now: int


ArrivalsCursor = NewType("ArrivalsCursor", str)
"""Where a reader of the arrivals feed stands; its meaning is the store's own."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Timers written since the cursor, each at least once whatever the order of commits."""

    timers: tuple[Timer, ...]
    cursor: ArrivalsCursor
    now: int
