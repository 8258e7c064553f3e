"""Runs over the wire: how one is shown, ordered, and what an order has done to it."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field

from duly.interface.shapes import Asked, Duration, Identity, Instant, InstantText, Reason, Shown


class Progress(Shown, frozen=True, kw_only=True):
    """How far a run says it is."""

    done: int
    total: int | None
    note: str | None


class Run(Shown, frozen=True, kw_only=True):
    """One run, as it was when it was looked at."""

    id: Identity
    label: str
    schedule: str | None
    schedule_id: Identity | None
    key: str | None
    scheduled_for: Instant
    window: tuple[Instant | None, Instant] | None
    attempt: int
    fence: int
    origin: str
    root: Identity
    lane: str
    state: str
    reason: str | None
    task: str
    arguments: dict[str, Any]
    queue: str
    priority: int
    due_at: Instant
    created_at: Instant
    fired_at: Instant | None
    finished_at: Instant | None
    lateness: Duration | None
    charged: int
    worker: int | None
    claimed_at: Instant | None
    started_at: Instant | None
    progress: Progress | None
    cancel_asked_at: Instant | None
    next_at: Instant | None
    error: str | None
    result: Any


class EnqueuedRun(Shown, frozen=True, kw_only=True):
    """The run that was promised, and whether this order made it."""

    id: Identity
    due_at: Instant
    is_new: bool
    key: str | None
    label: str


class OrderedRun(Shown, frozen=True, kw_only=True):
    """What an order has done to one run."""

    id: Identity
    is_done: bool
    state: str | None
    """What the run was before; null when there is no such run."""
    why: str | None = None
    """Why it was left alone, where there is more to say than its state."""
    made: Identity | None = None
    """The run that was made of it."""


class OrderedRuns(Shown, frozen=True, kw_only=True):
    """What an order has done to each of several runs."""

    done: int
    """How many it was carried out for."""
    runs: list[OrderedRun]


class Fact(Shown, frozen=True, kw_only=True):
    """Something that an explanation rests on."""

    fact: str
    words: str = field(name="is")


class Explanation(Shown, frozen=True, kw_only=True):
    """One sentence about a run, what it rests on, and what to do, if anything."""

    id: Identity
    state: str
    cause: str
    sentence: str
    evidence: list[Fact]
    remedy: str | None


class RunFilter(Asked, frozen=True, kw_only=True):
    """Which runs; those that fit all that is said."""

    schedule: str | None = None
    """Its name or id."""
    key: str | None = None
    task: str | None = None
    queue: str | None = None
    state: list[str] | None = None
    reason: str | None = None
    """Why a run is dead, or ended as it did."""
    error: str | None = None
    """A text that its last error holds."""
    origin: list[str] | None = None
    lane: str | None = None
    root: Identity | None = None
    worker: int | None = None
    since: InstantText | None = None
    """Scheduled for this instant or later,"""
    until: InstantText | None = None
    """and before this one."""


class RunQuery(RunFilter, frozen=True, kw_only=True):
    """Which runs, and which part of them; newest first."""

    limit: int | None = None
    cursor: str | None = None


class NewRun(Asked, frozen=True, kw_only=True):
    """A run to be promised: at once, at an instant, or after a delay."""

    task: str
    arguments: dict[str, Any] = field(default_factory=dict)
    at: InstantText | None = None
    delay: Duration | None = None
    key: str | None = None
    queue: str | None = None
    priority: int | None = None
    past: Literal["run"] | None = None
    """Of an instant in the past: run it at once instead of refusing it."""
    replace: bool = False
    """Whether it takes the place of a pending one with the same key."""
    id: Identity | None = None
    """The same id given again is the same order."""


class NewCall(Asked, frozen=True, kw_only=True):
    """What one of several runs is to do."""

    task: str
    arguments: dict[str, Any] = field(default_factory=dict)


class NewRuns(Asked, frozen=True, kw_only=True):
    """Runs to be promised together: all of them, or none."""

    calls: list[NewCall]
    at: InstantText | None = None
    delay: Duration | None = None
    queue: str | None = None
    priority: int | None = None
    past: Literal["run"] | None = None


class NoTerms(Asked, frozen=True, kw_only=True):
    """An order that says no more than its path."""


class ReasonBody(Asked, frozen=True, kw_only=True):
    """An order that needs no more than a reason, and not even that."""

    reason: Reason | None = None


class Justified(Asked, frozen=True, kw_only=True):
    """An order that nobody gives without a reason."""

    reason: Reason


class EditRun(Asked, frozen=True, kw_only=True):
    """Other arguments for a dead run: all of them."""

    arguments: dict[str, Any]
    reason: Reason | None = None


class RetryRun(Asked, frozen=True, kw_only=True):
    """Try a run again: a dead one, one that waits, or one that is ambiguous."""

    reason: Reason | None = None
    """Of an ambiguous run it is needed."""
    effects: dict[str, bool] | None = None
    """Of an ambiguous run: which of its unknown effects are done."""
    confirm: Identity | None = None
    """The run's id once more, for what may do something a second time. An order that says of each
    unknown effect whether it is done needs none."""


class ResumeRun(Asked, frozen=True, kw_only=True):
    """Try an ambiguous run again from its last checkpoint."""

    reason: Reason
    effects: dict[str, bool] | None = None
    confirm: Identity | None = None


class ReconcileRun(Asked, frozen=True, kw_only=True):
    """What was found outside: what an ambiguous run was to do is done, or it is not."""

    is_done: bool
    reason: Reason
    evidence: Any = None
    effects: dict[str, bool] | None = None
    """Which unknown effects are done. Of a run that is done, those not named are done, too."""
    despite_missing: bool = False
    """Record it as done although expected items are not on record as done."""


class RerunRun(Asked, frozen=True, kw_only=True):
    """Run once more, as another run, what a run was to do."""

    reason: Reason
    repair: bool = False
    """Share its record of effects: what is done is not done again."""
    effects: dict[str, bool] | None = None
    """Of a repair: which unknown effects are done."""
    confirm: Identity | None = None
