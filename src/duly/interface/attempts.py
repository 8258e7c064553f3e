"""Attempts over the wire: each claim of a run, each step of its progress, each line it wrote."""

from __future__ import annotations

from duly.interface.runs import Progress
from duly.interface.shapes import Asked, Identity, Instant, Shown


class LateWord(Shown, frozen=True, kw_only=True):
    """What a lost worker still said after its run was taken from it."""

    state: str
    at: Instant
    error: str | None
    result: str | None


class Attempt(Shown, frozen=True, kw_only=True):
    """One claim of a run and what became of it."""

    id: str | None
    run: Identity
    number: int | None
    fence: int
    worker: int
    worker_name: str
    state: str
    reason: str | None
    claimed_at: Instant
    started_at: Instant | None
    heartbeat_at: Instant | None
    progress: Progress | None
    progress_at: Instant | None
    cancel_asked_at: Instant | None
    ended_at: Instant | None
    error: str | None
    late: LateWord | None
    effects_at: Instant | None


class Step(Shown, frozen=True, kw_only=True):
    """One step of a run's progress."""

    fence: int
    at: Instant
    done: int
    total: int | None
    note: str | None


class Line(Shown, frozen=True, kw_only=True):
    """A line that an attempt wrote; numbers grow, so that a reader can follow."""

    number: int
    fence: int
    at: Instant
    level: str
    text: str


class AttemptQuery(Asked, frozen=True, kw_only=True):
    """Which attempts, and which part of them: those of the newest runs first."""

    worker: int | None = None
    state: list[str] | None = None
    reason: str | None = None
    """The code why they ended so."""
    error: str | None = None
    """A text that their error holds."""
    limit: int | None = None
    cursor: str | None = None


class LineQuery(Asked, frozen=True, kw_only=True):
    """Which lines of a run: those with a number above `after`."""

    after: int = 0
    limit: int | None = None
    cursor: str | None = None


class StepQuery(Asked, frozen=True, kw_only=True):
    """How many steps of a run's progress, from the first."""

    limit: int | None = None
