"""Runs and delayed runs as the store knows them, and the verdict on an occurrence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from duly.domain.attempts import Tries
from duly.domain.literals import Origin

if TYPE_CHECKING:
    from duly.domain.attempts import Progress
    from duly.domain.identity import RunId, ScheduleId
    from duly.domain.literals import Lane, RunState, SkipReason
    from duly.domain.schedules import Call

KEY_LENGTH_MAX = 200
MAKING_GOOD = frozenset((Origin.REPAIR, Origin.BACKFILL))
"""Origins of runs that go on with what an earlier run has left undone, if there was one."""


def line_of(run_id: RunId, origin: Origin, root: RunId | None) -> RunId:
    """Return the first run of a run's line: all of it share effects, scope and idempotency key.

    A plain rerun is there to do everything again, so it begins a line of its own; whoever receives
    its calls must not take them for a repetition (E3, E7).
    """
    return root if root is not None and origin in MAKING_GOOD else run_id


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run: where it came from, when it was due, made and queued, and what became of it."""

    id: RunId
    tenant: str
    schedule_id: ScheduleId | None
    schedule_name: str | None
    definition_number: int | None
    key: str | None
    call: Call
    origin: Origin
    lane: Lane
    root: RunId
    """The run that a rerun repeats; a run's own id otherwise."""
    scheduled_for: int
    not_before: int
    """When it fell due: its nominal time plus jitter."""
    window_from: int | None
    """The occurrence before this one that was run; None for the first."""
    created_at: int
    fired_at: int | None
    """When it became visible to workers, by the store's clock; None if it never did."""
    state: RunState
    state_reason: str | None
    finished_at: int | None
    tries: Tries = Tries()  # noqa: RUF009 - an immutable value
    """How often it was claimed, started and charged so far."""
    worker: int | None = None
    """Who holds it, or who finished it."""
    claimed_at: int | None = None
    """Of the claim that holds it or finished it, as is the start."""
    started_at: int | None = None
    progress: Progress | None = None
    cancel_asked_at: int | None = None
    next_at: int | None = None
    """While retrying: when its next attempt falls due."""
    error: str | None = None
    """The last attempt's, once there is one."""
    result: str | None = None
    """What it returned, as JSON text."""

    @property
    def line(self) -> RunId:
        """The first run of its line; its id is the idempotency key of them all (E7)."""
        return line_of(self.id, self.origin, self.root)

    into: RunId | None = None
    """The run that stands for it, if it was coalesced or replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedRecord:
    """A delayed run that is still pending: it can be moved, cancelled or replaced by its key."""

    id: RunId
    tenant: str
    key: str | None
    call: Call
    due_at: int
    generation: int
    """Grows with every move; a timer of an earlier generation is void."""
    fingerprint: str
    """What was asked for, hashed: the same request made again is recognised by it."""
    created_at: int


class VerdictKind(StrEnum):
    """What is known about an occurrence (M1: every one has exactly one of these)."""

    RUN = "run"
    SKIPPED = "skipped"
    OWED = "owed"
    PENDING = "pending"
    UNKNOWN = "unknown"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class OccurrenceVerdict:
    """What became of one expected occurrence of a schedule."""

    scheduled_for: int
    kind: VerdictKind
    run_id: RunId | None = None
    reason: SkipReason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipRecord:
    """A recorded range of occurrences that were not run."""

    schedule_id: ScheduleId
    first_for: int
    last_for: int
    count: int | None
    reason: SkipReason
    into: RunId | None
    at: int
