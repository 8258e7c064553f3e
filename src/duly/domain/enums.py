"""The words that are stored, shown and typed: one enumeration for each set of literals."""

from __future__ import annotations

from enum import StrEnum


class ScheduleStatus(StrEnum):
    """Whether a schedule owes runs."""

    ACTIVE = "active"
    PAUSED = "paused"
    ENDED = "ended"
    DELETED = "deleted"


class MisfirePolicy(StrEnum):
    """What becomes of occurrences that nobody could fire in time."""

    SKIP = "skip"
    LATEST = "latest"
    ALL = "all"


class Overlap(StrEnum):
    """What happens when an occurrence falls due while an earlier run of its schedule is open."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE_ONE = "queue-one"
    QUEUE_ALL = "queue-all"
    COALESCE = "coalesce"
    REPLACE = "replace"
    SERIALIZE = "serialize"


class Origin(StrEnum):
    """Where a run came from."""

    SCHEDULE = "schedule"
    DELAY = "delay"
    NOW = "now"
    MANUAL = "manual"
    CATCH_UP = "catch-up"
    BACKFILL = "backfill"
    RERUN = "rerun"
    REPAIR = "repair"
    VERIFY = "verify"


class Lane(StrEnum):
    """Which stream a run belongs to; each lane of a shard has its own lease."""

    LIVE = "live"
    CATCH_UP = "catch-up"
    BACKFILL = "backfill"


class RunState(StrEnum):
    """Where an open run is, or the outcome of a closed one."""

    BLOCKED = "blocked"
    QUEUED = "queued"
    RUNNING = "running"
    RETRYING = "retrying"
    AMBIGUOUS = "ambiguous"
    DEAD = "dead"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    COALESCED = "coalesced"
    REPLACED = "replaced"
    EXPIRED = "expired"
    DISCARDED = "discarded"
    HANDED_OVER = "handed-over"


class AttemptState(StrEnum):
    """Where a live attempt stands, or how a closed one ended."""

    CLAIMED = "claimed"
    RUNNING = "running"
    HEARTBEAT_STALE = "heartbeat-stale"
    """Derived: its worker has missed heartbeats."""
    STALLED = "stalled"
    """Derived: its worker is heard of, and it has not advanced within its limit."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed-out"
    LOST = "lost"
    CANCELLED = "cancelled"
    GIVEN_BACK = "given-back"


class TaskKind(StrEnum):
    """How a task's code is run."""

    ASYNC = "async"
    THREAD = "thread"
    PROCESS = "process"
    """Each attempt in a process of its own, which can be killed."""
    COMMAND = "command"
    WEBHOOK = "webhook"


class Effects(StrEnum):
    """What repeating a task does to the outside world."""

    PURE = "pure"
    IDEMPOTENT = "idempotent"
    TRANSACTIONAL = "transactional"
    UNSAFE = "unsafe"


class SkipReason(StrEnum):
    """Why an occurrence was not run."""

    MISFIRE = "misfire"
    """Later than its grace under `skip`."""
    COALESCED = "coalesced"
    """A later occurrence stands for it, under `latest`."""
    TOO_OLD = "too-old"
    """Older than the misfire policy's `not_older`."""
    TOO_MANY = "too-many"
    """More than the misfire policy's `at_most`."""
    PAUSED = "paused"
    """Fell into a pause that was resumed from now."""
    DELETED = "deleted"
    """Fell into the time between a deletion and a restoration, or was owed when deleted."""
    SKIPPED = "skipped"
    """A person skipped it."""
    OVERLAP = "overlap"
    """An earlier run of its schedule was still open."""
    OVERFLOW = "overflow"
    """As many as may wait for an earlier run were waiting already."""


class Missed(StrEnum):
    """What resuming does with the occurrences of the pause."""

    SKIP = "skip"
    """From now on only: each missed occurrence is recorded as skipped."""
    MISFIRE = "misfire"
    """As after an outage: by the schedule's misfire policy."""


class VerificationState(StrEnum):
    """Whether the result of a run was checked and found trustworthy."""

    VERIFIED = "verified"
    REFUTED = "refuted"
    UNKNOWN = "unknown"


class Finding(StrEnum):
    """How much a check found of what a run was to bring about."""

    PRESENT = "present"
    ABSENT = "absent"
    PARTIAL = "partial"
    UNKNOWN = "unknown"

    @property
    def verdict(self) -> VerificationState:
        """What it means for a run that says it has succeeded."""
        if self is Finding.UNKNOWN:
            return VerificationState.UNKNOWN
        return VerificationState.VERIFIED if self is Finding.PRESENT else VerificationState.REFUTED
