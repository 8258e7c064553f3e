"""Fires of timers and parts of what is owed: what is to be written, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from duly.domain.literals import Lane, Origin
from duly.domain.schedules import Pending
from duly.domain.settling import Plan, PlannedRun, Settlement
from duly.store.timers import Timer

if TYPE_CHECKING:
    from duly.domain.identity import RunId
    from duly.domain.schedules import Owed
    from duly.store.leases import Fence, LeaseKey


class FirePlanned(NamedTuple):
    """Fire a schedule's timer by a plan."""

    timer: Timer
    plan: Plan
    late_after: int | None
    """The plan holds up to this instant; after it the store answers LATE and fires nothing."""


class FireOnTime(NamedTuple):
    """Fire a schedule's timer as nearly always: one run, on time, and a next instant.

    The same as `FirePlanned` with such a plan, but flat: it is made for every fire.
    """

    ref: bytes
    generation: int
    due_at: int
    scheduled_for: int
    shard: int
    late_after: int
    run_id: RunId
    next_for: int
    next_due: int
    definition_number: int

    @property
    def timer(self) -> Timer:
        """Return the timer."""
        return Timer(
            "schedule",
            self.ref,
            self.shard,
            self.due_at,
            self.scheduled_for,
            self.generation,
            self.definition_number,
        )

    @property
    def plan(self) -> Plan:
        """Return the plan that it stands for."""
        run = PlannedRun(self.run_id, self.scheduled_for, self.due_at, Origin.SCHEDULE, Lane.LIVE)
        return Plan(Settlement((run,)), Pending(self.next_for, self.next_due))


FireSchedule: TypeAlias = FirePlanned | FireOnTime


class FireDelayed(NamedTuple):
    """Fire a delayed run's timer: the pending row becomes a run."""

    timer: Timer


class FireRetry(NamedTuple):
    """Queue a run whose next attempt is due."""

    timer: Timer


@dataclass(frozen=True, slots=True, kw_only=True)
class FireTimers:
    """Fire a batch under one fence, each timer in one transaction."""

    fence: Fence
    schedules: tuple[FireSchedule, ...] = ()
    delayed: tuple[FireDelayed, ...] = ()
    retries: tuple[FireRetry, ...] = ()


class FireResult(StrEnum):
    """What became of one timer of a batch."""

    FIRED = "fired"
    EARLY = "early"
    """Not due by the store's clock; it is still pending."""
    LATE = "late"
    """Past `late_after`; still pending, plan it again by the misfire policy."""
    GONE = "gone"
    """No longer as believed: edited, paused, deleted, moved, or fired before."""
    FENCED = "fenced"
    """Its shard is no longer ours."""
    BUSY = "busy"
    """Somebody's open transaction holds it; still pending, try again soon."""


@dataclass(frozen=True, slots=True)
class Fired:
    """What became of a batch, in the order it was given: schedules, delayed runs, retries."""

    now: int
    results: tuple[FireResult, ...]
    runs_made: int
    lost: tuple[LeaseKey, ...]
    """Leases in the fence that are not ours any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwedRecord:
    """A range of occurrences to be drained, with what is needed to settle it."""

    owed: Owed
    shard: int
    created_at: int

    @property
    def place(self) -> tuple[int, bytes, int]:
        """Return where it stands among the others: by age."""
        return (self.created_at, self.owed.schedule_id, self.owed.first_for)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainOwed:
    """Apply a settlement to a range, if it still begins where it did."""

    fence: Fence
    shard: int
    owed: Owed
    settlement: Settlement
    """Runs to make, skips to record, and what remains owed (None when the range is done)."""
