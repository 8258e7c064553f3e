"""How the newest runs of schedules ended, read from the newest on until all is known (V1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.identity import RunId
from duly.domain.last_ends import LastEnd, LastEnds, LastError, unknown_through
from duly.domain.literals import Finding, RunState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.identity import ScheduleId
    from duly.store.sqlite.work import Look

PRUNED_THROUGH = "SELECT pruned_through FROM duly_schedule_state WHERE schedule_id = ?"
BEYOND = """
SELECT not_before FROM duly_runs WHERE schedule_id = ? ORDER BY id DESC LIMIT 1 OFFSET ?"""
# The states are those of `last_ends.ERRORS`.
ENDS = """
SELECT r.id, r.scheduled_for, o.state, o.finished_at, o.reason, o.error,
    a.ended_at, a.reason, a.error, v.finding, v.at
FROM duly_runs r
LEFT JOIN duly_outcomes o ON o.run_id = r.id
LEFT JOIN duly_attempts a ON a.run_id = r.id AND a.fence =
    (SELECT max(b.fence) FROM duly_attempts b
    WHERE b.run_id = r.id AND b.state IN ('failed', 'timed-out', 'lost'))
LEFT JOIN duly_verdicts v ON v.run_id = r.id AND v.number =
    (SELECT max(w.number) FROM duly_verdicts w WHERE w.run_id = r.id)
WHERE r.schedule_id = ? ORDER BY r.id DESC LIMIT ?"""


def list_last_ends(
    look: Look, schedule_ids: Sequence[ScheduleId], limit: int
) -> dict[ScheduleId, LastEnds]:
    """Return how the newest runs of each ended."""
    found: dict[ScheduleId, LastEnds] = {}
    for one in schedule_ids:
        known = look.connection.execute(PRUNED_THROUGH, (one,)).fetchone()
        if known is not None:
            beyond = look.connection.execute(BEYOND, (one, limit)).fetchone()
            through = unknown_through(known[0], None if beyond is None else beyond[0])
            found[one] = _last_ends(look, one, limit, through)
    return found


def _last_ends(look: Look, schedule_id: ScheduleId, limit: int, through: int | None) -> LastEnds:
    success: LastEnd | None = None
    verified: LastEnd | None = None
    error: LastError | None = None
    for row in look.connection.execute(ENDS, (schedule_id, limit)):
        run_id, scheduled_for, state, finished_at, reason, text = row[:6]
        failed_at, why, said, finding, found_at = row[6:]
        of = RunId(run_id), scheduled_for
        if state == RunState.SUCCEEDED:
            success = success or LastEnd(*of, finished_at)
            if finding == Finding.PRESENT:
                verified = verified or LastEnd(*of, found_at)
        if state == RunState.FAILED:
            error = error or LastError(*of, finished_at, reason, said if text is None else text)
        elif failed_at is not None:
            error = error or LastError(*of, failed_at, why, said)
        if success and verified and error:
            break
    return LastEnds(success=success, verified=verified, error=error, unknown_through=through)
