"""Ends of attempts as their workers tell them: accepted once, and refused from who is too late.

A claim is deleted in the statement that reads it, under its fence: whoever comes second finds none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.literals import AttemptState
from duly.store.auditing import SYSTEM, refused_subject
from duly.store.execution import Finish, Finished, FinishResult
from duly.store.sqlite.places import CLAIM_COLUMNS, Claim, Moving, tenant_of
from duly.store.work_rulings import said_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.store.dispatch import MemberId
    from duly.store.sqlite.work import Work

# The first column is the place in the batch: what is missing from the answer is not ours.
TAKE_CLAIM = f"""
DELETE FROM duly_claims WHERE run_id = ?2 AND fence = ?3 AND worker = ?4
RETURNING ?1, {CLAIM_COLUMNS}"""  # noqa: S608 - columns of ours
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


def finish_runs(work: Work, worker: MemberId, finishes: Sequence[Finish]) -> Finished:
    """End attempts of a worker's; each has its own result."""
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
            moving.write()
            results.append(_answer(work, worker, finish))
    moving.write()
    return Finished(work.now, tuple(results))


def _answer(work: Work, worker: MemberId, finish: Finish) -> FinishResult:
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
        if AttemptState(state) is conclusion.attempt_state:
            return FinishResult.ACCEPTED
        if late_state is not None:
            return FinishResult.REFUSED
        word = (conclusion.attempt_state, work.now, conclusion.error, said_result(conclusion))
        connection.execute(keep, (*word, hold.run_id, hold.fence))
    subject = refused_subject(worker, finish, tenant_of(work, hold.run_id))
    work.record(SYSTEM, "attempt.refused", subject)
    return FinishResult.REFUSED
