"""Where a run goes when a claim of it has ended: one place is left, and one is entered.

Runs that are over are gathered and written together, because that is what nearly all of a batch
becomes; whatever waits, dies or goes back is written at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, assert_never

from duly.domain.admission import EndAtDestination
from duly.domain.enums import Lane, RunState
from duly.domain.ids import RunId, shard_of
from duly.domain.outcomes import Close, DeadLetter, MarkAmbiguous, Requeue, RetryLater
from duly.domain.runs import AttemptCounts, Reason
from duly.store.auditing import SYSTEM, dead_subject, doubt_subject
from duly.store.gates import closed_state
from duly.store.gathering import LANE_OFFSETS, share_of
from duly.store.ports.execution import ClaimRef
from duly.store.retry_slots import reserve_retry_time
from duly.store.sqlite.effects import forget_intentions
from duly.store.sqlite.following import follow_up
from duly.store.sqlite.gates import give_back
from duly.store.sqlite.limiting import EndsAtLimits, leave_limits
from duly.store.sqlite.rows import one
from duly.store.sqlite.scopes import write_scope
from duly.store.sqlite.settlements import INSERT_READY_AGAIN
from duly.store.sqlite.slots import SqliteSlots
from duly.store.sqlite.telling import add_lines, add_step
from duly.store.work_rulings import CancelledRun, ended_tries, next_place

if TYPE_CHECKING:
    from duly.domain.outcomes import Conclusion
    from duly.store.ports.execution import FinishAttempt
    from duly.store.records import Row
    from duly.store.sqlite.work import Work

CLAIM_COLUMNS = """run_id, worker, fence, attempt, charged, begun_at, claimed_at, started_at,
    cancel_asked_at, progress_done, progress_total, progress_note, progress_at, lines,
    replaced_by, is_gated, effects_at"""
OUTCOME_COLUMNS = """run_id, state, reason, finished_at, fence, attempt, charged, begun_at, worker,
    claimed_at, started_at, cancel_asked_at, progress_done, progress_total, progress_note,
    progress_at, error, result"""
INSERT_OUTCOME = f"""
INSERT INTO duly_outcomes ({OUTCOME_COLUMNS}, into_run, effects_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""  # noqa: S608 - columns of ours
# Of a run that no claim has closed.
INSERT_ORDERED_OUTCOME = """
INSERT INTO duly_outcomes (run_id, state, reason, finished_at, fence, attempt, charged, begun_at,
    into_run)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
INSERT_ATTEMPT = """
INSERT INTO duly_attempts (run_id, fence, number, worker, state, reason, claimed_at, started_at,
    cancel_asked_at, ended_at, progress_done, progress_total, progress_note, progress_at, error,
    effects_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
INSERT_WAITING = """
INSERT INTO duly_waiting (run_id, shard, due_at, fence, attempt, charged, begun_at, reason)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
INSERT_DEAD = """
INSERT INTO duly_dead (run_id, fence, attempt, charged, begun_at, reason, died_at)
VALUES (?, ?, ?, ?, ?, ?, ?)"""
INSERT_AMBIGUOUS = """
INSERT INTO duly_ambiguous (run_id, fence, attempt, charged, begun_at, reason, since)
VALUES (?, ?, ?, ?, ?, ?, ?)"""
IS_SUSPENDED = """
SELECT 1 FROM duly_runs r JOIN duly_task_orders k ON k.task = r.task
WHERE r.id = ? AND k.is_suspended"""
READ_CALL = "SELECT tenant, task, queue, priority, lane FROM duly_runs WHERE id = ?"


class Claim(NamedTuple):
    """A claim as the file has it: CLAIM_COLUMNS."""

    run_id: RunId
    worker: int
    fence: int
    attempt: int
    charged: int
    begun_at: int
    claimed_at: int
    started_at: int | None
    cancel_asked_at: int | None
    progress_done: int | None
    progress_total: int | None
    progress_note: str | None
    progress_at: int | None
    lines: int
    replaced_by: RunId | None
    is_gated: int
    effects_at: int | None

    @property
    def tries(self) -> AttemptCounts:
        """Return the tries of its run, with this claim counted in."""
        return AttemptCounts(self.fence, self.attempt, self.charged, self.begun_at)


@dataclass(frozen=True, slots=True)
class Tried:
    """A run on its way between places, with the tries that it carries."""

    id: RunId
    tries: AttemptCounts

    @property
    def row(self) -> tuple[int, int, int, int | None]:
        """Return the columns that every place has for them."""
        return (self.tries.fence, self.tries.attempt, self.tries.charged, self.tries.begun_at)


class Moving:
    """The runs of claims that have ended in one transaction, on the way to their next place."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._outcomes: list[Row] = []
        self._ends = EndsAtLimits(work)

    def end(self, claim: Claim, finish: FinishAttempt) -> None:
        """Record how a claim ended that is no longer there, and put its run where it belongs."""
        hold = ClaimRef(claim.run_id, claim.fence)
        if finish.lines:
            add_lines(self._work, finish, claim.lines)
        progress: Row = claim[9:13]
        if finish.progress is not None:
            step = finish.progress
            progress = (step.done, step.total, step.note, self._work.now)
            add_step(self._work, hold, step)
        if finish.scope is not None:
            write_scope(self._work, hold, finish.scope)
        if claim.effects_at is not None:
            forget_intentions(self._work, hold)
        started_at = finish.started_at if claim.started_at is None else claim.started_at
        after = next_place(
            finish.conclusion,
            is_cancel_asked=claim.cancel_asked_at is not None,
            is_suspended=self._is_suspended(claim.run_id, finish.conclusion),
        )
        told: Row = (claim.claimed_at, started_at, claim.cancel_asked_at)
        if claim.is_gated:
            self._ends.add(EndAtDestination(claim.run_id, finish.is_answered, finish.wait_us))
        if not isinstance(after, RetryLater | Requeue | MarkAmbiguous):
            give_back(self._work, claim.run_id)
        if isinstance(after, Close):
            self._close(claim, finish, after, (*told, *progress))
        else:
            self._record(claim, finish, (*told, self._work.now, *progress))
            self._move(claim, finish, after)
        if finish.follow_up is not None:
            follow_up(self._work, finish.follow_up)

    def write_outcomes(self) -> None:
        """Write the outcomes that were gathered, for who reads them before all is told."""
        self._work.connection.executemany(INSERT_OUTCOME, self._outcomes)
        self._outcomes.clear()

    def write(self) -> None:
        """Write what was gathered."""
        self.write_outcomes()
        self._ends.write()

    def _close(self, claim: Claim, finish: FinishAttempt, close: Close, told: Row) -> None:
        charged = claim.charged + finish.conclusion.is_charged
        state, into = closed_state(close.state, claim.replaced_by)
        row = (claim.run_id, state, close.reason, self._work.now, claim.fence, claim.attempt)
        by = (charged, claim.begun_at, claim.worker)
        said = (finish.conclusion.error, close.result, into, claim.effects_at)
        self._outcomes.append((*row, *by, *told, *said))

    def _is_suspended(self, run_id: RunId, conclusion: Conclusion) -> bool:
        """Say whether a run may not be tried again by itself; nobody asks about any other."""
        if not (isinstance(conclusion.next, RetryLater) and conclusion.is_charged):
            return False
        found = self._work.connection.execute(IS_SUSPENDED, (run_id,)).fetchone()
        return found is not None

    def _record(self, claim: Claim, finish: FinishAttempt, told: Row) -> None:
        conclusion = finish.conclusion
        number = claim.attempt if conclusion.is_started else None
        row = (claim.run_id, claim.fence, number, claim.worker, conclusion.attempt_state)
        row_end = (conclusion.reason, *told, conclusion.error, claim.effects_at)
        self._work.connection.execute(INSERT_ATTEMPT, (*row, *row_end))

    def _move(
        self,
        claim: Claim,
        finish: FinishAttempt,
        after: RetryLater | Requeue | DeadLetter | MarkAmbiguous | CancelledRun,
    ) -> None:
        run = Tried(claim.run_id, ended_tries(claim.tries, finish.conclusion))
        match after:
            case RetryLater():
                _wait(self._work, run, after, finish.conclusion.reason)
            case Requeue():
                queue(self._work, run)
            case DeadLetter():
                _die(self._work, run, after.reason)
            case MarkAmbiguous():
                _be_in_doubt(self._work, run, after.reason)
            case CancelledRun():
                state, into = closed_state(RunState.CANCELLED, claim.replaced_by)
                close(self._work, run, state, Reason.CANCELLED, into)
            case _:
                assert_never(after)


def queue(work: Work, run: Tried) -> None:
    """Queue a run now, behind others of its priority."""
    tenant, _, name, priority, lane = one(work.connection, READ_CALL, (run.id,))
    line = (name, priority + LANE_OFFSETS[Lane(lane)], share_of(tenant))
    row = (*line, work.now, run.id, work.now, work.now, *run.row)
    work.connection.execute(INSERT_READY_AGAIN, row)
    work.has_orders = True


def close(  # noqa: PLR0913, PLR0917 - what is known of it
    work: Work, run: Tried, state: RunState, reason: Reason, into: RunId | None = None
) -> None:
    """Close a run that nobody holds."""
    give_back(work, run.id)
    leave_limits(work, run.id)
    row = (run.id, state, reason, work.now, *run.row, into)
    work.connection.execute(INSERT_ORDERED_OUTCOME, row)


def tenant_of(work: Work, run_id: RunId) -> str:
    """Return whose run it is; nobody's when it is unknown."""
    row = work.connection.execute(READ_CALL, (run_id,)).fetchone()
    return "" if row is None else row[0]


def _wait(work: Work, run: Tried, order: RetryLater, reason: Reason | None) -> None:
    """Let a run wait for its next attempt, within its task's retry budget."""
    due_at = work.now + order.delay_us
    if order.spacing_us:
        _, task, *_ = one(work.connection, READ_CALL, (run.id,))
        due_at = reserve_retry_time(SqliteSlots(work, task), due_at, order.spacing_us)
    shard = shard_of(run.id, work.shards)
    work.connection.execute(INSERT_WAITING, (run.id, shard, due_at, *run.row, reason))
    work.count_on("retrying", 1)
    work.announce("retry", run.id, due_at, shard)


def _die(work: Work, run: Tried, reason: Reason) -> None:
    """Put a run among the dead letters, on record."""
    work.connection.execute(INSERT_DEAD, (run.id, *run.row, reason, work.now))
    work.count_on("dead", 1)
    subject = dead_subject(run.id, tenant_of(work, run.id), reason, run.tries)
    work.record(SYSTEM, "run.dead", subject)


def _be_in_doubt(work: Work, run: Tried, reason: Reason) -> None:
    """Put a run where a person looks at it, on record; it keeps its gate."""
    work.connection.execute(INSERT_AMBIGUOUS, (run.id, *run.row, reason, work.now))
    subject = doubt_subject(run.id, tenant_of(work, run.id), reason, run.tries)
    work.record(SYSTEM, "run.ambiguous", subject)
