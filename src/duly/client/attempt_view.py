"""What is known about a run's attempts: each claim, each step of progress, each line it wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.client.run_view import progress_json
from duly.domain.enums import AttemptState, RunState
from duly.domain.runs import DECIDED, Progress, attempt_name
from duly.timetable.instants import from_microseconds, iso_or_none, iso_utc, moment_or_none

if TYPE_CHECKING:
    from datetime import datetime

    from duly.client.run_view import Run
    from duly.domain.runs import AttemptRecord, LateReport, LineRecord, ProgressRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """What a lost worker still said after its run was taken from it: evidence, no more."""

    state: str
    at: datetime
    error: str | None
    result: str | None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "state": self.state,
            "at": iso_utc(self.at),
            "error": self.error,
            "result": self.result,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One claim of a run and what became of it."""

    id: str | None
    """The run's id and which try; None for a claim that was given back before it was started."""
    run: UUID
    number: int | None
    fence: int
    worker: int
    worker_name: str
    state: str
    reason: str | None
    claimed_at: datetime
    started_at: datetime | None
    heartbeat_at: datetime | None
    progress: Progress | None
    progress_at: datetime | None
    cancel_asked_at: datetime | None
    ended_at: datetime | None
    error: str | None
    late: Late | None
    effects_at: datetime | None = None
    """When it was first permitted to do what can't be taken back."""

    @property
    def worked_until(self) -> datetime | None:
        """Its end; of a lost one the last that was heard of it. None while it goes on.

        That a worker is lost is noticed later than it is: what lies between was nobody's work.
        """
        if self.ended_at is None or self.state != AttemptState.LOST:
            return self.ended_at
        signs = (self.claimed_at, self.started_at, self.heartbeat_at, self.progress_at)
        return max(one for one in (*signs, self.effects_at) if one is not None)

    def is_apart_from(self, run: Run) -> bool:
        """Whether it has ended, and its run not with it: that is in doubt, say, dead, or settled.

        Of the last attempt of a run.
        """
        if self.ended_at is None:
            return False
        return run.finished_at is None or run.finished_at > self.ended_at

    def is_settled_by_order(self, run: Run) -> bool:
        """Whether its run ended by what a person decided, after it had ended itself."""
        is_decided = run.reason in DECIDED or run.state == RunState.SKIPPED
        return is_decided and self.is_apart_from(run)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "id": self.id,
            "run": str(self.run),
            "number": self.number,
            "fence": self.fence,
            "worker": self.worker,
            "worker_name": self.worker_name,
            "state": self.state,
            "reason": self.reason,
            "claimed_at": iso_utc(self.claimed_at),
            "started_at": iso_or_none(self.started_at),
            "heartbeat_at": iso_or_none(self.heartbeat_at),
            "progress": progress_json(self.progress),
            "progress_at": iso_or_none(self.progress_at),
            "cancel_asked_at": iso_or_none(self.cancel_asked_at),
            "ended_at": iso_or_none(self.ended_at),
            "error": self.error,
            "late": None if self.late is None else self.late.to_json(),
            "effects_at": iso_or_none(self.effects_at),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a run's progress."""

    fence: int
    at: datetime
    done: int
    total: int | None
    note: str | None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "fence": self.fence,
            "at": iso_utc(self.at),
            "done": self.done,
            "total": self.total,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line that an attempt wrote; numbers grow, so that a reader can follow."""

    number: int
    fence: int
    at: datetime
    level: str
    text: str

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "number": self.number,
            "fence": self.fence,
            "at": iso_utc(self.at),
            "level": self.level,
            "text": self.text,
        }


def attempt_view(record: AttemptRecord) -> Attempt:
    """Show an attempt."""
    run = UUID(bytes=record.run_id)
    return Attempt(
        id=None if record.number is None else attempt_name(str(run), record.number),
        run=run,
        number=record.number,
        fence=record.fence,
        worker=record.worker,
        worker_name=record.worker_name,
        state=str(record.state),
        reason=None if record.reason is None else str(record.reason),
        claimed_at=from_microseconds(record.claimed_at),
        started_at=moment_or_none(record.started_at),
        heartbeat_at=moment_or_none(record.heartbeat_at),
        progress=record.progress,
        progress_at=moment_or_none(record.progress_at),
        cancel_asked_at=moment_or_none(record.cancel_asked_at),
        ended_at=moment_or_none(record.ended_at),
        error=record.error,
        late=None if record.late is None else _late(record.late),
        effects_at=moment_or_none(record.effects_at),
    )


def step_view(record: ProgressRecord) -> Step:
    """Show a step of progress."""
    made = record.progress
    at = from_microseconds(record.at)
    return Step(fence=record.fence, at=at, done=made.done, total=made.total, note=made.note)


def line_view(record: LineRecord) -> Line:
    """Show a line."""
    return Line(
        number=record.number,
        fence=record.fence,
        at=from_microseconds(record.line.at),
        level=record.line.level,
        text=record.line.text,
    )


def _late(word: LateReport) -> Late:
    return Late(
        state=str(word.state),
        at=from_microseconds(word.at),
        error=word.error,
        result=word.result,
    )
