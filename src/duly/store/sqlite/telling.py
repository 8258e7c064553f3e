"""What attempts tell while they run: starts, progress, lines and checkpoints, under their fence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.runs import LINES_PER_ATTEMPT_MAX
from duly.store.sqlite.rows import one
from duly.store.sqlite.scopes import write_scope
from duly.store.work_rulings import new_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.ids import RunId
    from duly.domain.runs import Progress
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.execution import ClaimRef, FinishAttempt, Report, SaveCheckpoint
    from duly.store.sqlite.work import Look, Work

READ_CLAIM = "SELECT lines FROM duly_claims WHERE run_id = ? AND fence = ? AND worker = ?"
NOTE_START = "UPDATE duly_claims SET started_at = coalesce(started_at, ?) WHERE run_id = ?"
NOTE_PROGRESS = """
UPDATE duly_claims
SET progress_done = ?, progress_total = ?, progress_note = ?, progress_at = ? WHERE run_id = ?"""
NOTE_LINES = "UPDATE duly_claims SET lines = ? WHERE run_id = ?"
INSERT_STEP = """
INSERT INTO duly_progress (run_id, number, fence, at, done, total, note)
SELECT ?1, coalesce(max(number), 0) + 1, ?2, ?3, ?4, ?5, ?6 FROM duly_progress WHERE run_id = ?1"""
LAST_STEP = """
SELECT fence, done, total, note FROM duly_progress WHERE run_id = ?
ORDER BY number DESC LIMIT 1"""
LAST_LINE = "SELECT coalesce(max(number), 0) FROM duly_lines WHERE run_id = ?"
INSERT_LINE = """
INSERT INTO duly_lines (run_id, number, fence, at, level, text) VALUES (?, ?, ?, ?, ?, ?)"""
SAVE_CHECKPOINT = """
INSERT INTO duly_checkpoints (run_id, partition, fence, state, at)
SELECT run_id, ?4, fence, ?5, ?6 FROM duly_claims WHERE run_id = ?1 AND fence = ?2 AND worker = ?3
ON CONFLICT (run_id, partition) DO UPDATE
SET fence = excluded.fence, state = excluded.state, at = excluded.at
RETURNING 1"""
LIST_CHECKPOINTS = "SELECT partition, state FROM duly_checkpoints WHERE run_id = ?"


def report(work: Work, worker: MemberId, reports: Sequence[Report]) -> list[bool]:
    """Write what attempts have done that are still ours; say which were."""
    return [_report(work, worker, told) for told in reports]


def _report(work: Work, worker: MemberId, told: Report) -> bool:
    connection, hold = work.connection, told.hold
    row = connection.execute(READ_CLAIM, (hold.run_id, hold.fence, worker)).fetchone()
    if row is None:
        return False
    if told.started_at is not None:
        connection.execute(NOTE_START, (told.started_at, hold.run_id))
    if told.progress is not None:
        step = told.progress
        at_now = (step.done, step.total, step.note, work.now, hold.run_id)
        connection.execute(NOTE_PROGRESS, at_now)
        add_step(work, hold, step)
    if told.lines:
        written = add_lines(work, told, row[0])
        connection.execute(NOTE_LINES, (row[0] + written, hold.run_id))
    if told.scope is not None:
        write_scope(work, hold, told.scope)
    return True


def add_step(work: Work, hold: ClaimRef, step: Progress) -> None:
    """Remember a step of an attempt's progress; the same once more is none."""
    last = work.connection.execute(LAST_STEP, (hold.run_id,)).fetchone()
    if last == (hold.fence, step.done, step.total, step.note):
        return
    row = (hold.run_id, hold.fence, work.now, step.done, step.total, step.note)
    work.connection.execute(INSERT_STEP, row)


def add_lines(work: Work, told: Report | FinishAttempt, written: int) -> int:
    """Keep lines of an attempt that has written some; return how many are new and had room."""
    hold = told.hold
    kept = new_lines(told, written)[: max(LINES_PER_ATTEMPT_MAX - written, 0)]
    if kept:
        (last,) = one(work.connection, LAST_LINE, (hold.run_id,))
        numbered = [
            (hold.run_id, number, hold.fence, line.at, line.level, line.text)
            for number, line in enumerate(kept, last + 1)
        ]
        work.connection.executemany(INSERT_LINE, numbered)
    return len(kept)


def save_checkpoint(work: Work, command: SaveCheckpoint) -> bool:
    """Remember a state of a run that is ours, replacing the partition's last."""
    hold = command.hold
    row = (hold.run_id, hold.fence, command.worker, command.partition, command.state, work.now)
    return bool(work.connection.execute(SAVE_CHECKPOINT, row).fetchall())


def get_checkpoints(look: Look, run_id: RunId) -> dict[str, str]:
    """Return a run's last states by partition."""
    return dict(look.connection.execute(LIST_CHECKPOINTS, (run_id,)))
