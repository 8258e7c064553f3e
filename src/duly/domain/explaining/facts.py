"""What is known about a run when somebody asks why, and what the answer looks like."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.attempts import AttemptRecord
    from duly.domain.runs import RunRecord


class Cause(StrEnum):
    """Why a run is where it is: one code for each explanation."""

    NOT_DUE = "not-due"
    NO_DISPATCHER = "no-dispatcher"
    DISPATCHER_HOLDING = "dispatcher-holding"
    DISPATCHER_BEHIND = "dispatcher-behind"
    QUEUE_PAUSED = "queue-paused"
    NO_WORKER = "no-worker"
    NO_WORKER_FOR_QUEUE = "no-worker-for-queue"
    NO_WORKER_FOR_TASK = "no-worker-for-task"
    SLOTS_BUSY = "slots-busy"
    BEHIND_OTHERS = "behind-others"
    CANCEL_ASKED = "cancel-asked"
    WORKER_SILENT = "worker-silent"
    STALLED = "stalled"
    CLAIMED = "claimed"
    RUNNING = "running"
    BACKING_OFF = "backing-off"
    SNOOZED = "snoozed"
    OVERLAP = "overlap"
    CAP = "cap"
    RATE = "rate"
    BREAKER = "breaker"
    DEAD = "dead"
    AMBIGUOUS = "ambiguous"
    RECONCILED = "reconciled"
    CANCELLED = "cancelled"
    DISCARDED = "discarded"
    FAILED = "failed"
    CAUGHT_UP = "caught-up"
    ORDERED_LATE = "ordered-late"
    TRIED_OFTEN = "tried-often"
    WAITED_IN_QUEUE = "waited-in-queue"
    TOOK_LONG = "took-long"
    ON_TIME = "on-time"
    OVER = "over"
    UNKNOWN = "unknown"
    """It was late, and the store does not know any more who was there then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """When a member of the fleet was there, and what it is there for."""

    name: str
    is_alive: bool
    started_at: int
    renewed_at: int
    is_holding: bool = False
    free: int = 0
    """Of a worker: slots that hold nothing."""
    slots: int = 0
    queues: tuple[str, ...] = ()
    """Of a worker: those it serves; empty for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What somebody ordered, when and why."""

    at: int
    who: str
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """How much of the limit is taken that a run waits for."""

    held: int
    waiting: int
    most: int | None = None
    rate: str | None = None


@dataclass(frozen=True, slots=True)
class Down:
    """What the breaker says that a run waits for."""

    state: str
    until: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What an explanation is drawn from, read from the store at one time."""

    now: int
    run: RunRecord
    attempts: Sequence[AttemptRecord] = ()
    dispatchers: Sequence[Life] = ()
    workers: Sequence[Life] = ()
    is_pending: bool = False
    """A delayed run that has not fired."""
    is_served: bool = True
    """Whether a living worker knows the task."""
    paused: Order | None = None
    """Of its queue, now."""
    was_paused: Sequence[tuple[Order, int]] = ()
    """Of its queue, in the past: who paused it, and when it was resumed."""
    queued: int = 1
    """How many runs wait in its queue, itself among them."""
    ended_by: Order | None = None
    """Who cancelled or discarded it, or asked for it."""
    taken: Taken | None = None
    """Of the limit that it waits for."""
    breaker: Down | None = None
    """Of the destination that it waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One sentence, what it rests on, and what to do, if anything."""

    cause: Cause
    sentence: str
    evidence: tuple[tuple[str, str], ...] = ()
    remedy: str | None = None
