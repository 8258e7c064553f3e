"""Ends of attempts as their workers tell them: accepted once, and refused from who is too late.

A claim is deleted under its fence in the transaction that writes what became of its run: whoever
comes second finds none. Nearly all ends just close their run: those are moved from table to table
together, and nothing of them is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.outcomes import Close
from duly.store.auditing import SYSTEM, refused_subject
from duly.store.ports.execution import FinishAttempt, Finished, FinishResult
from duly.store.sqlite.batches import Among, Batch
from duly.store.sqlite.places import CLAIM_COLUMNS, OUTCOME_COLUMNS, Claim, Moving, tenant_of
from duly.store.work_rulings import said_result, said_state, taken_away

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.store.ports.dispatch import MemberId
    from duly.store.records import Row
    from duly.store.sqlite.work import Work

CLOSE_CLAIMED = Batch(
    f"""
INSERT OR ROLLBACK INTO duly_outcomes ({OUTCOME_COLUMNS})
SELECT c.run_id, a.state, a.reason, ?1, c.fence, c.attempt, c.charged + a.charge, c.begun_at,
    c.worker, c.claimed_at, coalesce(c.started_at, a.started_at), c.cancel_asked_at,
    c.progress_done, c.progress_total, c.progress_note, c.progress_at, a.error, a.result
FROM asked a CROSS JOIN duly_claims c
WHERE c.run_id = a.run_id AND c.fence = a.fence AND c.worker = ?2 AND NOT c.is_gated
    AND c.replaced_by IS NULL AND c.effects_at IS NULL""",  # noqa: S608 - ours
    *("run_id", "fence", "started_at", "state", "reason", "charge", "error", "result"),
    also=2,
)
DROP_CLOSED = Among("DELETE FROM duly_claims WHERE run_id")
# The first column is the place in the batch: what is missing from the answer is not ours.
TAKE_CLAIM = f"""
DELETE FROM duly_claims WHERE run_id = ?2 AND fence = ?3 AND worker = ?4
RETURNING ?1, {CLAIM_COLUMNS}"""  # noqa: S608 - columns of ours
# Of those that were not all closed together: what holds a gate, or has begun effects, is looked at
# by itself.
DROP_ONE_CLOSED = """
DELETE FROM duly_claims WHERE run_id = ?1 AND fence = ?2 AND worker = ?3
    AND NOT is_gated AND replaced_by IS NULL AND effects_at IS NULL
RETURNING run_id"""
READ_ENDED_ATTEMPT = """
SELECT state, late_state FROM duly_attempts WHERE run_id = ? AND fence = ? AND worker = ?"""
READ_CLOSING_ATTEMPT = """
SELECT state, late_state FROM duly_outcomes WHERE run_id = ? AND fence = ? AND worker = ?"""
KEEP_LATE_WORD = """
UPDATE duly_attempts SET late_state = ?, late_at = ?, late_error = ?, late_result = ?
WHERE run_id = ? AND fence = ?"""
KEEP_LATE_WORD_OF_CLOSING = """
UPDATE duly_outcomes SET late_state = ?, late_at = ?, late_error = ?, late_result = ?
WHERE run_id = ? AND fence = ?"""


class Ends:
    """Ends as they are told, made ready before anybody waits for the lock."""

    def __init__(self, finishes: Sequence[FinishAttempt]) -> None:
        self.finishes = finishes
        self.closing: list[Row] = []
        """Of those that only close their run, what CLOSE_CLAIMED asks for."""
        self.others: list[int] = []
        """Where the others stand."""
        for place, finish in enumerate(finishes):
            conclusion, hold = finish.conclusion, finish.hold
            after = conclusion.next
            is_plain = (
                finish.progress is None
                and not finish.lines
                and finish.is_answered is None
                and finish.scope is None
                and finish.follow_up is None
            )
            if isinstance(after, Close) and is_plain:
                said = (conclusion.is_charged, conclusion.error, after.result)
                row = (hold.run_id, hold.fence, finish.started_at, after.state, after.reason)
                self.closing.append((*row, *said))
            else:
                self.others.append(place)
        if len({row[0] for row in self.closing}) < len(self.closing):
            # One that is told twice is looked at in turn.
            self.closing, self.others = [], list(range(len(finishes)))


def finish_runs(work: Work, worker: MemberId, ends: Ends) -> Finished:
    """End attempts of a worker's; each has its own result."""
    results = [FinishResult.ACCEPTED] * len(ends.finishes)
    others = ends.others
    refused = _close(work, worker, ends.closing)
    if refused:
        asked = set(others)
        others = [
            place
            for place, finish in enumerate(ends.finishes)
            if place in asked or finish.hold.run_id in refused
        ]
    if others:
        told = [ends.finishes[place] for place in others]
        for place, result in zip(others, _finish_each(work, worker, told), strict=True):
            results[place] = result
    return Finished(work.now, tuple(results))


def finish_within(work: Work, store: str, worker: MemberId, finish: FinishAttempt) -> None:
    """End an attempt among other things; raise when it is not this worker's to end."""
    asked = (None, *finish.hold, worker)
    taken = work.connection.execute(TAKE_CLAIM, asked).fetchone()
    if taken is None:
        raise taken_away(store)
    moving = Moving(work)
    moving.end(Claim(*taken[1:]), finish)
    moving.write()


def _close(work: Work, worker: MemberId, closing: list[Row]) -> set[bytes]:
    """Close the runs of claims; return those that are not the worker's to close."""
    connection = work.connection
    if CLOSE_CLAIMED.change(connection, closing, (work.now, worker)) == len(closing):
        DROP_CLOSED.change(connection, [row[:1] for row in closing])
        return set()
    holds = [(*row[:2], worker) for row in closing]
    dropped = {run_id for (run_id,) in connection.executemany(DROP_ONE_CLOSED, holds)}
    return {row[0] for row in closing} - dropped


def _finish_each(
    work: Work, worker: MemberId, finishes: Sequence[FinishAttempt]
) -> Sequence[FinishResult]:
    asked = [(place, one.hold.run_id, one.hold.fence, worker) for place, one in enumerate(finishes)]
    taken = {row[0]: row[1:] for row in work.connection.executemany(TAKE_CLAIM, asked)}
    moving = Moving(work)
    results: list[FinishResult] = []
    for place, finish in enumerate(finishes):
        row = taken.get(place)
        if row is not None:
            moving.end(Claim(*row), finish)
            results.append(FinishResult.ACCEPTED)
        else:
            # It may have been ended by this very batch.
            moving.write_outcomes()
            results.append(_answer(work, worker, finish))
    moving.write()
    return results


def _answer(work: Work, worker: MemberId, finish: FinishAttempt) -> FinishResult:
    """Answer somebody who does not hold the run: told before, or too late."""
    hold, connection = finish.hold, work.connection
    key = (hold.run_id, hold.fence, worker)
    keep = KEEP_LATE_WORD
    row = connection.execute(READ_ENDED_ATTEMPT, key).fetchone()
    if row is None:
        keep = KEEP_LATE_WORD_OF_CLOSING
        row = connection.execute(READ_CLOSING_ATTEMPT, key).fetchone()
    conclusion = finish.conclusion
    if row is not None:
        state, late_state = row
        if said_state(state) is conclusion.attempt_state:
            return FinishResult.ACCEPTED
        if late_state is not None:
            return FinishResult.REFUSED
        word = (conclusion.attempt_state, work.now, conclusion.error, said_result(conclusion))
        connection.execute(keep, (*word, hold.run_id, hold.fence))
    subject = refused_subject(worker, finish, tenant_of(work, hold.run_id))
    work.record(SYSTEM, "attempt.refused", subject)
    return FinishResult.REFUSED
