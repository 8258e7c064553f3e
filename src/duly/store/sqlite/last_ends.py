"""How the newest runs of schedules ended, each read from the newest on until it is known."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from duly.domain.ids import RunId
from duly.domain.vitals import LastEnd, LastEnds, LastError, unknown_through

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.ids import ScheduleId
    from duly.store.sqlite.work import Look

PRUNED_THROUGH = "SELECT pruned_through FROM duly_schedule_state WHERE schedule_id = ?"
BEYOND = """
SELECT id, not_before FROM duly_runs
WHERE schedule_id = ? ORDER BY id DESC LIMIT 1 OFFSET ?"""
# Each is read from the newest run on and no further than the first that is found, and of the runs
# on the way no more than it takes to pass them: CROSS JOIN keeps to this order. What an operator
# closed with items missing is no success.
SUCCESS = """
SELECT r.id, r.scheduled_for, o.finished_at FROM duly_runs r
CROSS JOIN duly_outcomes o ON o.run_id = r.id
WHERE r.schedule_id = ? AND r.id > ? AND o.state = 'succeeded'
    AND o.reason IS NOT 'reconciled-incomplete'
ORDER BY r.id DESC LIMIT 1"""
VERIFIED = """
SELECT r.id, r.scheduled_for, v.at FROM duly_runs r
CROSS JOIN duly_verdicts v ON v.run_id = r.id AND v.number =
    (SELECT max(w.number) FROM duly_verdicts w WHERE w.run_id = r.id)
CROSS JOIN duly_outcomes o ON o.run_id = r.id
WHERE r.schedule_id = ? AND r.id > ? AND v.finding = 'present' AND o.state = 'succeeded'
    AND o.reason IS NOT 'reconciled-incomplete'
ORDER BY r.id DESC LIMIT 1"""
# The states are those of `last_ends.ERRORS`.
ERROR = """
SELECT r.id, r.scheduled_for, o.finished_at, o.reason, o.error, a.ended_at, a.reason, a.error
FROM duly_runs r
LEFT JOIN duly_outcomes o ON o.run_id = r.id AND o.state = 'failed'
LEFT JOIN duly_attempts a ON a.run_id = r.id AND a.fence =
    (SELECT max(b.fence) FROM duly_attempts b
    WHERE b.run_id = r.id AND b.state IN ('failed', 'timed-out', 'lost'))
WHERE r.schedule_id = ? AND r.id > ? AND (o.run_id IS NOT NULL OR a.ended_at IS NOT NULL)
ORDER BY r.id DESC LIMIT 1"""
ALL = b""
"""Comes before every id."""


def list_last_ends(
    look: Look, schedule_ids: Sequence[ScheduleId], limit: int, *, with_errors: bool
) -> dict[ScheduleId, LastEnds]:
    """Return how the newest runs of each ended."""
    found: dict[ScheduleId, LastEnds] = {}
    for one in schedule_ids:
        known = look.connection.execute(PRUNED_THROUGH, (one,)).fetchone()
        if known is not None:
            beyond = look.connection.execute(BEYOND, (one, limit)).fetchone()
            after, since = (ALL, None) if beyond is None else beyond
            ends = _last_ends(look, (one, after), with_errors=with_errors)
            found[one] = replace(ends, unknown_through=unknown_through(known[0], since))
    return found


def _last_ends(look: Look, among: tuple[ScheduleId, bytes], *, with_errors: bool) -> LastEnds:
    success = look.connection.execute(SUCCESS, among).fetchone()
    verified = look.connection.execute(VERIFIED, among).fetchone()
    error = look.connection.execute(ERROR, among).fetchone() if with_errors else None
    return LastEnds(
        success=None if success is None else _end(success),
        verified=None if verified is None else _end(verified),
        error=None if error is None else _error(error),
    )


def _end(row: tuple[Any, ...]) -> LastEnd:
    return LastEnd(RunId(row[0]), *row[1:])


def _error(row: tuple[Any, ...]) -> LastError:
    """Return how a run failed, or else how its last attempt that went wrong did."""
    run_id, scheduled_for, finished_at, reason, text, failed_at, why, said = row
    of = RunId(run_id), scheduled_for
    if finished_at is None:
        return LastError(*of, failed_at, why, said)
    return LastError(*of, finished_at, reason, said if text is None else text)
