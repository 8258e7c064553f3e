"""How a claim ends on the memory store: what is recorded of it, and where its run goes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.admission import EndAtDestination
from duly.domain.enums import RunState
from duly.domain.outcomes import Close, DeadLetter, MarkAmbiguous, Requeue, RetryLater
from duly.domain.runs import Reason
from duly.store.auditing import SYSTEM, dead_subject, doubt_subject
from duly.store.gates import closed_state
from duly.store.memory.attempts import task_of
from duly.store.memory.effects import forget_intentions
from duly.store.memory.gates import give_back
from duly.store.memory.limiting import end_at_limits, leave_limits
from duly.store.memory.slots import MemorySlots
from duly.store.memory.tables import Claim, Dead, Ended, InDoubt, Journal, Outcome, Waiting
from duly.store.ports.effects import FREE_TASK
from duly.store.retry_slots import reserve_retry_time
from duly.store.work_rulings import CancelledRun, ended_tries, next_place

if TYPE_CHECKING:
    from duly.domain.ids import RunId
    from duly.domain.outcomes import Conclusion
    from duly.domain.runs import AttemptCounts, RunRecord


def end_claim(  # noqa: PLR0913 - whose end, and what it tells
    journal: Journal,
    run_id: RunId,
    claim: Claim,
    conclusion: Conclusion,
    *,
    is_answered: bool | None = None,
    wait_us: int | None = None,
) -> None:
    """Record the end of a claim, and put its run where it was decided."""
    tables = journal.tables
    journal.remove(tables.claims, run_id)
    end_at_limits(journal, EndAtDestination(run_id, is_answered, wait_us))
    tries = ended_tries(claim.tries, conclusion)
    after = next_place(
        conclusion,
        is_cancel_asked=claim.cancel_asked_at is not None,
        is_suspended=tables.task_orders.get(task_of(journal, run_id), FREE_TASK).is_suspended,
    )
    forget_intentions(journal, run_id, claim.tries.fence)
    if not isinstance(after, RetryLater | Requeue | MarkAmbiguous):
        give_back(journal, run_id)
    if isinstance(after, Close):
        state, into = closed_state(after.state, claim.replaced_by)
        outcome = Outcome(
            state,
            after.reason,
            journal.now,
            tries,
            claim=claim,
            error=conclusion.error,
            result=after.result,
            into=into,
        )
        journal.insert(tables.outcomes, run_id, outcome)
        return
    ended = Ended(
        claim=claim,
        number=claim.tries.attempt if conclusion.is_started else None,
        state=conclusion.attempt_state,
        reason=conclusion.reason,
        error=conclusion.error,
        ended_at=journal.now,
    )
    journal.insert(tables.attempts, (run_id, claim.tries.fence), ended)
    match after:
        case RetryLater():
            _wait(journal, run_id, after, Waiting(journal.now, tries, conclusion.reason))
        case Requeue():
            journal.queue(run_id, journal.now, tries)
        case DeadLetter():
            _die(journal, run_id, after.reason, tries)
        case MarkAmbiguous():
            journal.insert(tables.in_doubt, run_id, InDoubt(after.reason, journal.now, tries))
            subject = doubt_subject(run_id, tables.runs[run_id].tenant, after.reason, tries)
            journal.record_about(SYSTEM, "run.ambiguous", subject)
        case CancelledRun():
            state, into = closed_state(RunState.CANCELLED, claim.replaced_by)
            outcome = Outcome(state, Reason.CANCELLED, journal.now, tries, into=into)
            journal.insert(tables.outcomes, run_id, outcome)


def _wait(journal: Journal, run_id: RunId, wait: RetryLater, row: Waiting) -> None:
    due_at = journal.now + wait.delay_us
    if wait.spacing_us:
        slots = MemorySlots(journal, task_of(journal, run_id))
        due_at = reserve_retry_time(slots, due_at, wait.spacing_us)
    journal.insert(journal.tables.waiting, run_id, replace(row, due_at=due_at))
    journal.announce("retry", run_id, due_at)


def _die(journal: Journal, run_id: RunId, reason: Reason, tries: AttemptCounts) -> None:
    tables = journal.tables
    journal.insert(tables.dead, run_id, Dead(reason, journal.now, tries))
    subject = dead_subject(run_id, tables.runs[run_id].tenant, reason, tries)
    journal.record_about(SYSTEM, "run.dead", subject)


def close_by_order(
    journal: Journal, record: RunRecord, state: RunState, reason: Reason = Reason.ORDERED
) -> None:
    """Close a run that nobody holds, by a person's order."""
    give_back(journal, record.id)
    leave_limits(journal, record.id)
    outcome = Outcome(state, reason, journal.now, record.tries)
    journal.insert(journal.tables.outcomes, record.id, outcome)
