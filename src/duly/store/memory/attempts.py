"""Where a run is on the memory store, and the trace that its attempts leave there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.domain.enums import RunState
from duly.domain.runs import (
    LINES_PER_ATTEMPT_MAX,
    AttemptRecord,
    LineRecord,
    ProgressRecord,
    TaskPolicy,
)
from duly.store.gates import blocked_reason
from duly.store.memory.ownership import seems_alive
from duly.store.ports.dispatch import MemberId
from duly.store.work_rulings import (
    Breath,
    WorkerLease,
    is_heartbeat_fresh,
    last_heartbeat,
    live_state,
    new_lines,
    newest,
    said_state,
)

if TYPE_CHECKING:
    from duly.domain.ids import RunId
    from duly.domain.runs import Progress
    from duly.domain.schedules import Call
    from duly.store.memory.tables import Claim, Journal, Outcome, RunRow
    from duly.store.ports.execution import FinishAttempt, Report

_DEFAULT_POLICY = TaskPolicy()


def policy_of(journal: Journal, task: str) -> TaskPolicy:
    """Return what a task's code says about its runs, or what holds for those that say nothing."""
    return journal.tables.policies.get(task, _DEFAULT_POLICY)


def place_of(journal: Journal, run_id: RunId) -> dict[str, Any]:
    """Return the parts of a run's record that follow from where it is."""
    tables = journal.tables
    if run_id in tables.outcomes:
        return _closed(journal, run_id, tables.outcomes[run_id])
    open_parts = {"finished_at": None, "error": last_error(journal, run_id)}
    place: dict[str, Any]
    if run_id in tables.dead:
        dead = tables.dead[run_id]
        place = {"state": RunState.DEAD, "state_reason": dead.reason, "tries": dead.tries}
    elif run_id in tables.waiting:
        waiting = tables.waiting[run_id]
        place = {
            "state": RunState.RETRYING,
            "state_reason": waiting.reason,
            "tries": waiting.tries,
            "next_at": waiting.due_at,
        }
    elif run_id in tables.in_doubt:
        doubt = tables.in_doubt[run_id]
        place = {"state": RunState.AMBIGUOUS, "state_reason": doubt.reason, "tries": doubt.tries}
    elif run_id in tables.blocked:
        blocked = tables.blocked[run_id]
        reason = blocked_reason(blocked.gate)
        place = {"state": RunState.BLOCKED, "state_reason": reason, "tries": blocked.tries}
    elif run_id in tables.claims:
        claim = tables.claims[run_id]
        place = {"state": RunState.RUNNING, "state_reason": None, "tries": claim.tries}
        place |= _claim_parts(claim)
    else:
        tries = tables.ready[run_id].tries
        place = {"state": RunState.QUEUED, "state_reason": None, "tries": tries}
    return open_parts | place


def _closed(journal: Journal, run_id: RunId, outcome: Outcome) -> dict[str, Any]:
    claim = outcome.claim
    parts = {} if claim is None else _claim_parts(claim)
    return parts | {
        "state": outcome.state,
        "state_reason": outcome.reason,
        "finished_at": outcome.finished_at,
        "tries": outcome.tries,
        "error": last_error(journal, run_id) if claim is None else outcome.error,
        "result": outcome.result,
        "into": outcome.into,
    }


def _claim_parts(claim: Claim) -> dict[str, Any]:
    return {
        "worker": claim.worker,
        "claimed_at": claim.claimed_at,
        "started_at": claim.started_at,
        "progress": claim.progress,
        "cancel_asked_at": claim.cancel_asked_at,
    }


def last_error(journal: Journal, run_id: RunId) -> str | None:
    """Return the error of a run's last claim that has ended and did not close it."""
    attempts = journal.tables.attempts
    fences = [fence for known, fence in attempts if known == run_id]
    return attempts[run_id, max(fences)].error if fences else None


def list_attempts(journal: Journal, run_id: RunId, limit: int) -> list[AttemptRecord]:
    """Return the last claims of a run by their fence."""
    tables = journal.tables
    found = [
        AttemptRecord(
            **_record_parts(journal, run_id, ended.claim),
            number=ended.number,
            state=ended.state,
            reason=ended.reason,
            heartbeat_at=_heartbeat(journal, ended.claim, ended.ended_at),
            ended_at=ended.ended_at,
            error=ended.error,
            late=ended.late,
        )
        for (known, _), ended in tables.attempts.items()
        if known == run_id
    ]
    found.sort(key=lambda attempt: attempt.fence)
    outcome = tables.outcomes.get(run_id)
    if run_id in tables.claims:
        found.append(_live(journal, run_id, tables.claims[run_id]))
    elif outcome is not None and outcome.claim is not None:
        found.append(_closing(journal, run_id, outcome, outcome.claim))
    return newest(found, limit)


def _record_parts(journal: Journal, run_id: RunId, claim: Claim) -> dict[str, Any]:
    lease = lease_of(journal, claim.worker)
    return {
        "run_id": run_id,
        "fence": claim.tries.fence,
        "worker": claim.worker,
        "worker_name": "" if lease is None else lease.name,
        "claimed_at": claim.claimed_at,
        "started_at": claim.started_at,
        "progress": claim.progress,
        "progress_at": claim.progress_at,
        "cancel_asked_at": claim.cancel_asked_at,
        "effects_at": claim.effects_at,
    }


def lease_of(journal: Journal, worker: int) -> WorkerLease | None:
    """Return what is known of a worker's life, also when it is a member no more."""
    member = journal.tables.members.get(worker)
    if member is None:
        return journal.tables.workers.get(worker)
    return WorkerLease(member.host, member.process, member.renewed_at, member.expires_at)


def _heartbeat(journal: Journal, claim: Claim, ended_at: int) -> int | None:
    lease = lease_of(journal, claim.worker)
    return last_heartbeat(None if lease is None else lease.renewed_at, ended_at)


def _closing(journal: Journal, run_id: RunId, outcome: Outcome, claim: Claim) -> AttemptRecord:
    return AttemptRecord(
        **_record_parts(journal, run_id, claim),
        number=claim.tries.attempt,
        state=said_state(outcome.state),
        reason=outcome.reason,
        heartbeat_at=_heartbeat(journal, claim, outcome.finished_at),
        ended_at=outcome.finished_at,
        error=outcome.error,
        late=outcome.late,
    )


def _live(journal: Journal, run_id: RunId, claim: Claim) -> AttemptRecord:
    member = journal.tables.members.get(claim.worker)
    breath = Breath(
        is_fresh=member is not None
        and seems_alive(journal, MemberId(claim.worker))
        and is_heartbeat_fresh(member.renewed_at, member.expires_at, journal.now),
        started_at=claim.started_at,
        progress_at=claim.progress_at,
        stall_us=policy_of(journal, task_of(journal, run_id)).stall_us,
    )
    return AttemptRecord(
        **_record_parts(journal, run_id, claim),
        number=claim.tries.attempt,
        state=live_state(breath, journal.now),
        reason=None,
        heartbeat_at=None if member is None else member.renewed_at,
        ended_at=None,
        error=None,
    )


def call_of(journal: Journal, row: RunRow) -> Call:
    """Return what a run runs: its own call, or its definition's."""
    if row.call is not None:
        return row.call
    assert row.schedule_id is not None, "a run without a call has a schedule"
    assert row.definition_number is not None, "and the number of its definition"
    return journal.tables.definitions[row.schedule_id, row.definition_number].call


def task_of(journal: Journal, run_id: RunId) -> str:
    """Return the task of a run."""
    return call_of(journal, journal.tables.runs[run_id]).task


def write_progress(journal: Journal, run_id: RunId, fence: int, progress: Progress) -> None:
    """Remember a step of an attempt's progress; the same once more is none."""
    steps = journal.tables.progress
    known = steps.get(run_id, ())
    if known and (known[-1].fence, known[-1].progress) == (fence, progress):
        return
    journal.put(steps, run_id, (*known, ProgressRecord(fence, journal.now, progress)))


def write_lines(journal: Journal, told: Report | FinishAttempt) -> None:
    """Keep an attempt's lines, as many as it may have."""
    run_id, fence = told.hold.run_id, told.hold.fence
    known = journal.tables.lines.get(run_id, ())
    stored = sum(line.fence == fence for line in known)
    kept = new_lines(told, stored)[: max(LINES_PER_ATTEMPT_MAX - stored, 0)]
    new = tuple(
        LineRecord(number, fence, line) for number, line in enumerate(kept, start=len(known) + 1)
    )
    if new:
        journal.put(journal.tables.lines, run_id, (*known, *new))


def forget_work(journal: Journal, run_id: RunId) -> None:
    """Remove all that a run's attempts have left."""
    tables = journal.tables
    journal.remove(tables.progress, run_id)
    journal.remove(tables.lines, run_id)
    journal.remove(tables.unbegun, run_id)
    journal.remove(tables.turns, run_id)
    for attempt in [key for key in tables.attempts if key[0] == run_id]:
        journal.remove(tables.attempts, attempt)
    for checkpoint in [key for key in tables.checkpoints if key[0] == run_id]:
        journal.remove(tables.checkpoints, checkpoint)
    for verdict in [key for key in tables.verdicts if key[0] == run_id]:
        journal.remove(tables.verdicts, verdict)
