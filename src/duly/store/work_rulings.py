"""Rulings about work: what every store decides alike about claims, attempts and their workers.

Pure, as the rulings about schedules and delayed runs are: a store asks, and writes the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.domain.admission import Sharing, begin_behind
from duly.domain.enums import AttemptState, Lane, RunState
from duly.domain.ids import identity_text
from duly.domain.outcomes import Close, DeadLetter, Requeue, RetryLater
from duly.domain.runs import AttemptCounts, Reason
from duly.errors import Conflict, LeaseLost, NotFound
from duly.store.gathering import LANE_OFFSETS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.ids import RunId
    from duly.domain.outcomes import Conclusion, Next
    from duly.domain.runs import AttemptRecord, LogLine
    from duly.store.ports.execution import ClaimRuns, FinishAttempt, Report
    from duly.store.ports.maintenance import Retention

WORKERS_KEPT_US = 90 * 24 * 3_600 * 1_000_000
"""How long workers are remembered at least, for the attempts of runs that are still open."""
CLOSED_BY_WORK = frozenset(
    (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.DISCARDED)
)
"""Outcomes of runs that a worker may have claimed."""


def sharing_of(command: ClaimRuns, queue: str) -> Sharing:
    """Return how a claim goes about a queue."""
    limit = max(0, command.limit)
    return Sharing(
        most=min(limit, max(0, command.queue_limits.get(queue, limit))),
        begin=begin_in(command, queue),
        first=first_priority(command),
        newest_first=command.newest_first,
    )


def begin_in(command: ClaimRuns, queue: str) -> str:
    """Return from where on tenants have their turn in a queue."""
    last = command.served.get(queue)
    return "" if last is None else begin_behind(last)


def first_priority(command: ClaimRuns) -> int | None:
    """Return the priority in the queue that a claim begins with; None for whatever is first."""
    lane = command.first_lane
    return None if lane is Lane.LIVE else LANE_OFFSETS[lane]


def claimed_tries(tries: AttemptCounts, now: int) -> AttemptCounts:
    """Return the tries of a run with a new claim counted in."""
    begun_at = now if tries.begun_at is None else tries.begun_at
    return AttemptCounts(tries.fence + 1, tries.attempt + 1, tries.charged, begun_at)


def ended_tries(tries: AttemptCounts, conclusion: Conclusion) -> AttemptCounts:
    """Return the tries of a run after a claim of it has ended: what was not started is free."""
    return tries._replace(
        attempt=tries.attempt if conclusion.is_started else tries.attempt - 1,
        charged=tries.charged + conclusion.is_charged,
    )


def put_off_tries(tries: AttemptCounts) -> AttemptCounts:
    """Return the tries of a run whose claim was ended before it began: nothing of it was used up.

    The fence stays grown, for it is never given out twice; what was never begun has not begun.
    """
    attempt = tries.attempt - 1
    return tries._replace(attempt=attempt, begun_at=tries.begun_at if attempt else None)


def retried_tries(tries: AttemptCounts) -> AttemptCounts:
    """Return the tries of a dead run that is queued again: its budget and its time begin anew."""
    return tries._replace(charged=0, begun_at=None)


@dataclass(frozen=True, slots=True)
class CancelledRun:
    """The run is closed as cancelled: somebody had asked for it while an attempt went on."""


CANCELLED = CancelledRun()


def next_place(
    conclusion: Conclusion, *, is_cancel_asked: bool, is_suspended: bool = False
) -> Next | CancelledRun:
    """Return where a run goes after an attempt.

    One that was to be cancelled is neither tried again nor left among the dead letters, where
    somebody would have to order anew what was ordered already; what its attempt says is kept. One
    whose task's retries are suspended is not tried again by itself: it waits for a person.
    """
    if is_cancel_asked and isinstance(conclusion.next, RetryLater | Requeue | DeadLetter):
        return CANCELLED
    if is_suspended and isinstance(conclusion.next, RetryLater) and conclusion.is_charged:
        return DeadLetter(Reason.SUSPENDED)
    return conclusion.next


def said_result(conclusion: Conclusion) -> str | None:
    """Return the result that an attempt came with."""
    return conclusion.next.result if isinstance(conclusion.next, Close) else None


def said_state(state: str) -> AttemptState:
    """Return what an attempt said that left its run in a state: to make way is to be cancelled."""
    return AttemptState.CANCELLED if state == RunState.REPLACED else AttemptState(state)


def new_lines(told: Report | FinishAttempt, stored: int) -> Sequence[LogLine]:
    """Return those lines of a report or an end that are not among the attempt's stored ones."""
    if told.lines_before is None:
        return told.lines
    return told.lines[max(stored - told.lines_before, 0) :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Breath:
    """What a live claim's state follows from."""

    is_fresh: bool
    """Whether its worker's membership holds, and its last heartbeat is not overdue."""
    started_at: int | None
    progress_at: int | None
    stall_us: int | None
    """Of its task."""


def is_heartbeat_fresh(renewed_at: int, expires_at: int, now: int) -> bool:
    """Say whether a worker's last heartbeat is younger than three fifths of its lease.

    By default a worker beats five times in a lease: one that has missed three is in trouble.
    """
    return now - renewed_at < (expires_at - renewed_at) * 3 // 5


def live_state(breath: Breath, now: int) -> AttemptState:
    """Return the state of a live claim."""
    if not breath.is_fresh:
        return AttemptState.HEARTBEAT_STALE
    if breath.started_at is None:
        return AttemptState.CLAIMED
    advanced_at = breath.started_at if breath.progress_at is None else breath.progress_at
    if breath.stall_us is not None and now - advanced_at > breath.stall_us:
        return AttemptState.STALLED
    return AttemptState.RUNNING


def newest(attempts: list[AttemptRecord], limit: int) -> list[AttemptRecord]:
    """Return the last few of a run's claims."""
    return attempts[max(len(attempts) - limit, 0) :]


@dataclass(frozen=True, slots=True)
class WorkerLease:
    """What is known of a worker's life: who it was, and how long it breathed."""

    host: str
    process: int
    renewed_at: int
    expires_at: int

    @property
    def name(self) -> str:
        """Return how people call it."""
        return worker_name(self.host, self.process)


def last_heartbeat(renewed_at: int | None, ended_at: int) -> int | None:
    """Return the last heartbeat of an attempt that has ended; None when later ones hide it."""
    return renewed_at if renewed_at is not None and renewed_at <= ended_at else None


def workers_kept_us(retention: Retention) -> int | None:
    """Return how long a worker is remembered after its end: as long as history speaks of it.

    None for ever: some outcome is kept for ever, too.
    """
    kept = retention.outcomes_us
    if not kept.keys() >= CLOSED_BY_WORK:
        return None
    return max(WORKERS_KEPT_US, *kept.values())


def worker_name(host: str, process: int) -> str:
    """Return how people call a worker."""
    return f"{host}:{process}"


def unknown_run(run_id: RunId) -> NotFound:
    """Return the error for a run that is not there."""
    return NotFound("run", identity_text(run_id), "list the runs to see their ids")


def not_cancellable(run_id: RunId, state: RunState) -> Conflict:
    """Return the error for a run that can't be cancelled any more."""
    name = identity_text(run_id)
    if state is RunState.DEAD:
        return Conflict("run", name, "is dead already", "discard it, or retry it")
    if state is RunState.AMBIGUOUS:
        return Conflict("run", name, "is in doubt", "settle it: reconcile, retry or skip it")
    return Conflict("run", name, f"is over already: {state}", "run it again if need be")


def not_in_doubt(run_id: RunId, state: RunState) -> Conflict:
    """Return the error for an order that only a run in doubt can follow."""
    remedy = "list those that are in doubt: somebody may have settled it"
    return Conflict("run", identity_text(run_id), f"is not in doubt but {state}", remedy)


def not_dead(run_id: RunId, state: RunState) -> Conflict:
    """Return the error for an order that only a dead run can follow."""
    remedy = "edit runs that are dead letters"
    return Conflict("run", identity_text(run_id), f"is not dead but {state}", remedy)


def taken_away(store: str) -> LeaseLost:
    """Return the error for an attempt that says something about a run that is not its own."""
    remedy = "stop: whatever this attempt still does counts no more"
    return LeaseLost(store, "the run was taken from this worker", remedy)


def lost_lease(store: str) -> LeaseLost:
    """Return the error for whoever settles claims without owning the maintenance lease."""
    return LeaseLost(store, "the maintenance lease is not ours", "join again and acquire it")
