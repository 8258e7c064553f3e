"""Claiming, breathing, reporting and finishing on the memory store, each under the fence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.admission import Waiting, share_out
from duly.domain.enums import AttemptState, RunState
from duly.domain.runs import LateReport
from duly.store.auditing import SYSTEM, refused_subject
from duly.store.gathering import share_of
from duly.store.memory.attempts import call_of, policy_of, task_of, write_lines, write_progress
from duly.store.memory.ending import end_claim
from duly.store.memory.following import follow_up
from duly.store.memory.gates import queue_priority
from duly.store.memory.limiting import take_in
from duly.store.memory.ownership import may_claim
from duly.store.memory.reading import run_record
from duly.store.memory.scopes import write_scope
from duly.store.memory.tables import Claim
from duly.store.ports.dispatch import MemberId, MemberKind
from duly.store.ports.execution import (
    Claimed,
    ClaimedRun,
    ClaimRef,
    Finished,
    FinishResult,
    HeartbeatResult,
    StopOrder,
    StopReason,
)
from duly.store.work_rulings import claimed_tries, said_result, sharing_of, taken_away

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duly.domain.ids import RunId
    from duly.store.memory.tables import Journal
    from duly.store.ports.execution import (
        ClaimRuns,
        FinishAttempt,
        Heartbeat,
        Report,
        SaveCheckpoint,
    )


def claim_runs(journal: Journal, command: ClaimRuns) -> Claimed:
    """Take queued runs for a worker that is alive."""
    if not may_claim(journal, command.worker):
        return Claimed(journal.now, is_alive=False, runs=())
    taken: list[Waiting] = []
    served: dict[str, str] = {}
    for queue in _queues(journal, command):
        sharing = sharing_of(command, queue)
        room = max(0, command.limit - len(taken))
        found = share_out(_waiting(journal, queue, command.without), sharing)[:room]
        taken += found
        if found:
            served[queue] = found[-1].tenant
    runs = tuple(_claim(journal, one.run_id, command.worker) for one in taken)
    return Claimed(journal.now, is_alive=True, runs=runs, served=served)


def _queues(journal: Journal, command: ClaimRuns) -> list[str]:
    """Return the queues to take from, in order; the paused ones are left out."""
    tables = journal.tables
    paused = tables.paused_queues
    queues = command.queues
    if queues is None:
        there = {call_of(journal, tables.runs[run_id]).queue for run_id in tables.ready}
        queues = tuple(sorted(there - set(paused)))
    if not queues:
        return []
    first = command.rotation % len(queues)
    return [queue for queue in (*queues[first:], *queues[:first]) if queue not in paused]


def _waiting(journal: Journal, queue: str, without: frozenset[str]) -> Iterator[Waiting]:
    """Say what waits in a queue, and what of it is to be passed over."""
    tables = journal.tables
    for run_id, ready in tables.ready.items():
        row = tables.runs[run_id]
        if call_of(journal, row).queue == queue:
            place = (queue_priority(journal, run_id), share_of(row.tenant), ready.rank, run_id)
            yield Waiting(*place, is_passed=task_of(journal, run_id) in without)


def _claim(journal: Journal, run_id: RunId, worker: MemberId) -> ClaimedRun:
    tables, now = journal.tables, journal.now
    tries = claimed_tries(tables.ready[run_id].tries, now)
    timeout_us = policy_of(journal, call_of(journal, tables.runs[run_id]).task).timeout_us
    claim = Claim(
        worker=worker,
        tries=tries,
        claimed_at=now,
        deadline=None if timeout_us is None else now + timeout_us,
    )
    journal.remove(tables.ready, run_id)
    journal.insert(tables.claims, run_id, claim)
    return ClaimedRun.of(run_record(journal, tables.runs[run_id]), tries, now)


def held(journal: Journal, worker: MemberId, hold: ClaimRef) -> Claim | None:
    """Return a claim if it is this worker's, under that fence."""
    claim = journal.tables.claims.get(hold.run_id)
    if claim is None or (claim.worker, claim.tries.fence) != (worker, hold.fence):
        return None
    return claim


def beat(journal: Journal, command: Heartbeat) -> HeartbeatResult:
    """Renew a worker that nobody has declared dead; say what of its holds must stop."""
    tables, now = journal.tables, journal.now
    row = tables.members.get(command.worker)
    # One whose lease has run out has lost nothing until somebody declares it dead.
    alive = row is not None and row.is_alive
    if row is not None and alive:
        renewed = replace(
            row,
            renewed_at=now,
            expires_at=now + command.ttl_us,
            slots=command.slots,
            leaked=command.leaked,
            skew_us=command.skew_us,
        )
        journal.put(tables.members, command.worker, renewed)
    stops: list[StopOrder] = []
    for hold in command.holds:
        claim = held(journal, command.worker, hold)
        if claim is None:
            stops.append(StopOrder(hold, StopReason.GONE))
        elif claim.cancel_asked_at is not None:
            stops.append(StopOrder(hold, StopReason.CANCEL))
    strays = _strays(journal, command) if alive else ()
    version = tables.cluster["limits_version"]
    standing = row.standing if row is not None and alive else None
    return HeartbeatResult(now, alive, tuple(stops), strays, version, standing)


def _strays(journal: Journal, command: Heartbeat) -> tuple[ClaimRef, ...]:
    """Return what is the worker's own, and it did not name, by run id."""
    claims = journal.tables.claims
    own = [
        ClaimRef(run_id, claims[run_id].tries.fence)
        for run_id in sorted(claims)
        if claims[run_id].worker == command.worker
    ]
    return tuple(hold for hold in own if hold not in command.holds)


def report(journal: Journal, worker: MemberId, reports: Sequence[Report]) -> list[bool]:
    """Write what attempts have done that are still ours."""
    return [_report(journal, worker, one) for one in reports]


def _report(journal: Journal, worker: MemberId, one: Report) -> bool:
    claim = held(journal, worker, one.hold)
    if claim is None:
        return False
    run_id, fence = one.hold.run_id, one.hold.fence
    if claim.started_at is None:
        claim = replace(claim, started_at=one.started_at)
    if one.progress is not None:
        claim = replace(claim, progress=one.progress, progress_at=journal.now)
        write_progress(journal, run_id, fence, one.progress)
    write_lines(journal, one)
    write_scope(journal, one.hold, one.scope)
    journal.put(journal.tables.claims, run_id, claim)
    return True


def save_checkpoint(journal: Journal, command: SaveCheckpoint) -> bool:
    """Replace a partition's state, if the run is still ours."""
    if held(journal, command.worker, command.hold) is None:
        return False
    key = (command.hold.run_id, command.partition)
    journal.put(journal.tables.checkpoints, key, command.state)
    return True


def get_checkpoints(journal: Journal, run_id: RunId) -> dict[str, str]:
    """Return a run's last states by partition."""
    states = journal.tables.checkpoints.items()
    return {partition: state for (known, partition), state in states if known == run_id}


def finish_runs(journal: Journal, worker: MemberId, finishes: Sequence[FinishAttempt]) -> Finished:
    """End attempts, each with its own result."""
    results = tuple(_finish(journal, worker, one) for one in finishes)
    take_in(journal)
    return Finished(journal.now, results)


def finish_within(journal: Journal, store: str, worker: MemberId, finish: FinishAttempt) -> None:
    """End an attempt among other things; raise when it is not this worker's to end."""
    claim = held(journal, worker, finish.hold)
    if claim is None:
        raise taken_away(store)
    _end(journal, claim, finish)
    take_in(journal)


def _finish(journal: Journal, worker: MemberId, finish: FinishAttempt) -> FinishResult:
    claim = held(journal, worker, finish.hold)
    if claim is None:
        if _has_said(journal, worker, finish):
            return FinishResult.ACCEPTED
        _keep_late_word(journal, worker, finish)
        return FinishResult.REFUSED
    _end(journal, claim, finish)
    return FinishResult.ACCEPTED


def _end(journal: Journal, claim: Claim, finish: FinishAttempt) -> None:
    hold = finish.hold
    if claim.started_at is None:
        claim = replace(claim, started_at=finish.started_at)
    if finish.progress is not None:
        claim = replace(claim, progress=finish.progress, progress_at=journal.now)
        write_progress(journal, hold.run_id, hold.fence, finish.progress)
    write_lines(journal, finish)
    write_scope(journal, hold, finish.scope)
    end_claim(
        journal,
        hold.run_id,
        claim,
        finish.conclusion,
        is_answered=finish.is_answered,
        wait_us=finish.wait_us,
    )
    follow_up(journal, finish.follow_up)


def _has_said(journal: Journal, worker: MemberId, finish: FinishAttempt) -> bool:
    """Say whether this very claim has ended so: then only the answer was lost."""
    tables, hold = journal.tables, finish.hold
    ended = tables.attempts.get((hold.run_id, hold.fence))
    if ended is not None:
        return (ended.claim.worker, ended.state) == (worker, finish.conclusion.attempt_state)
    outcome = tables.outcomes.get(hold.run_id)
    if outcome is None or outcome.claim is None:
        return False
    state = outcome.state
    said = AttemptState.CANCELLED if state is RunState.REPLACED else AttemptState(state)
    closed_by = (outcome.claim.worker, outcome.claim.tries.fence, said)
    return closed_by == (worker, hold.fence, finish.conclusion.attempt_state)


def _keep_late_word(journal: Journal, worker: MemberId, finish: FinishAttempt) -> None:
    """Keep what somebody said who no longer held the run: once, and nothing else changes."""
    tables, hold, conclusion = journal.tables, finish.hold, finish.conclusion
    word = LateReport(
        state=conclusion.attempt_state,
        at=journal.now,
        error=conclusion.error,
        result=said_result(conclusion),
    )
    key = (hold.run_id, hold.fence)
    ended, outcome = tables.attempts.get(key), tables.outcomes.get(hold.run_id)
    if ended is not None and ended.claim.worker == worker:
        if ended.late is not None:
            return
        journal.put(tables.attempts, key, replace(ended, late=word))
    elif outcome is not None and outcome.claim is not None:
        closed_by = (outcome.claim.worker, outcome.claim.tries.fence)
        if closed_by == (worker, hold.fence):
            if outcome.late is not None:
                return
            journal.put(tables.outcomes, hold.run_id, replace(outcome, late=word))
    run = tables.runs.get(hold.run_id)
    subject = refused_subject(worker, finish, "" if run is None else run.tenant)
    journal.record_about(SYSTEM, "attempt.refused", subject)


def is_served(journal: Journal, task: str, queue: str) -> bool:
    """Say whether any living worker knows a task and serves the queue."""
    tables = journal.tables
    return any(
        task in tables.member_tasks[member.id] and queue in (member.queues or (queue,))
        for member in tables.members.values()
        if member.kind is MemberKind.WORKER and may_claim(journal, member.id)
    )
