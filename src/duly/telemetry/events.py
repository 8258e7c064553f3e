"""What every event has, and what dispatchers tell: members, leases, clocks, fires."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened in a process of the fleet."""

    name: ClassVar[str] = "event"
    level: ClassVar[int] = logging.INFO
    member: int
    """Which dispatcher or worker tells it; 0 before it has joined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined(Event):
    """A process has become a member, under an id that nobody had before."""

    name: ClassVar[str] = "joined"
    kind: str = "dispatcher"
    host: str
    process: int
    tzdata: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Left(Event):
    """A member has left the fleet and given up what it held."""

    name: ClassVar[str] = "left"
    kind: str = "dispatcher"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredDead(Event):
    """The store no longer knows this member; it starts anew under another id."""

    name: ClassVar[str] = "declared-dead"
    level: ClassVar[int] = logging.WARNING
    kind: str = "dispatcher"
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasesAcquired(Event):
    """Leases are ours; taken over from a dead owner, or free."""

    name: ClassVar[str] = "leases-acquired"
    leases: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasesReleased(Event):
    """Leases were given up on purpose."""

    name: ClassVar[str] = "leases-released"
    leases: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasesLost(Event):
    """Leases that we believed to hold are somebody else's."""

    name: ClassVar[str] = "leases-lost"
    level: ClassVar[int] = logging.WARNING
    leases: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFired(Event):
    """A batch of timers was sent to the store, and what became of them."""

    name: ClassVar[str] = "batch-fired"
    level: ClassVar[int] = logging.DEBUG
    fired: int
    runs: int
    lateness_max_us: int
    """Of those that fired: store's now less due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatePlanned(Event):
    """Occurrences were later than their grace, and were planned by their misfire policies."""

    name: ClassVar[str] = "late-planned"
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFenced(Event):
    """The store has refused what we wrote, because its shard is no longer ours."""

    name: ClassVar[str] = "write-fenced"
    level: ClassVar[int] = logging.WARNING
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SkewHoldBegun(Event):
    """Our clock and the store's disagree: this dispatcher has stopped firing."""

    name: ClassVar[str] = "skew-hold-begun"
    level: ClassVar[int] = logging.ERROR
    skew_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SkewHoldEnded(Event):
    """The clocks agree again; this dispatcher takes part again."""

    name: ClassVar[str] = "skew-hold-ended"
    skew_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStepped(Event):
    """The store's clock was set; firing waits a moment, late rather than early."""

    name: ClassVar[str] = "clock-stepped"
    level: ClassVar[int] = logging.WARNING
    step_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TzdataOutdated(Event):
    """Others compute by newer time-zone rules than we have; we own nothing until we have them."""

    name: ClassVar[str] = "tzdata-outdated"
    level: ClassVar[int] = logging.ERROR
    ours: str
    newest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerRetimed(Event):
    """A pending instant moved, because time-zone rules changed."""

    name: ClassVar[str] = "timer-retimed"
    schedule: str
    schedule_id: str
    before: int
    after: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TzdataRecomputed(Event):
    """Every pending instant was compared with newer time-zone rules."""

    name: ClassVar[str] = "tzdata-recomputed"
    before: str
    release: str
    looked_at: int
    moved: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleEnded(Event):
    """A schedule has no further instant, or it can't be computed."""

    name: ClassVar[str] = "schedule-ended"
    schedule_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleResumed(Event):
    """A pause has come to its end by itself."""

    name: ClassVar[str] = "schedule-resumed"
    schedule: str
    schedule_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside(Event):
    """One thing could not be handled; the others go on, and it is tried again later."""

    name: ClassVar[str] = "set-aside"
    level: ClassVar[int] = logging.ERROR
    what: str
    subject_id: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPruned(Event):
    """History past its retention was removed."""

    name: ClassVar[str] = "history-pruned"
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLost(Event):
    """The store can't be reached; we go on trying."""

    name: ClassVar[str] = "store-lost"
    level: ClassVar[int] = logging.WARNING
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRecovered(Event):
    """The store answers again."""

    name: ClassVar[str] = "store-recovered"
    lost_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TickFailed(Event):
    """A service met an error that nobody foresaw; it goes on after a moment."""

    name: ClassVar[str] = "tick-failed"
    level: ClassVar[int] = logging.ERROR
    problem: str
    where: str
    """File and line at which it was raised."""
