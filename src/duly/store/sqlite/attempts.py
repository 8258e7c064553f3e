"""Looking at attempts: every claim of a run, the steps of its progress, and its lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.domain.enums import AttemptState
from duly.domain.ids import RunId
from duly.domain.runs import (
    AttemptRecord,
    LateReport,
    LineRecord,
    LogLine,
    Progress,
    ProgressRecord,
    stored_policy,
)
from duly.store.records import progress_of
from duly.store.sqlite import rows
from duly.store.sqlite.work import counted
from duly.store.work_rulings import (
    Breath,
    is_heartbeat_fresh,
    last_heartbeat,
    live_state,
    newest,
    said_state,
    worker_name,
)

if TYPE_CHECKING:
    from duly.store.records import Row
    from duly.store.sqlite.work import Look

_TOLD = """a.claimed_at, a.started_at, a.cancel_asked_at, a.progress_done, a.progress_total,
    a.progress_note, a.progress_at, a.effects_at"""
_WHO = """coalesce(m.host, w.host), coalesce(m.process, w.process),
    coalesce(m.renewed_at, w.renewed_at)"""
_LEASES = """
LEFT JOIN duly_members m ON m.id = a.worker LEFT JOIN duly_workers w ON w.id = a.worker"""
_LATE = "a.late_state, a.late_at, a.late_error, a.late_result"
LIST_ENDED = f"""
SELECT a.run_id, a.fence, a.number, a.worker, {_WHO}, {_TOLD}, a.state, a.reason,
    a.ended_at, a.error, {_LATE}
FROM duly_attempts a{_LEASES}
WHERE a.run_id = ? ORDER BY a.fence DESC LIMIT ?"""  # noqa: S608 - columns of ours
READ_CLOSING = f"""
SELECT a.run_id, a.fence, a.attempt, a.worker, {_WHO}, {_TOLD}, a.state, a.reason,
    a.finished_at, a.error, {_LATE}
FROM duly_outcomes a{_LEASES}
WHERE a.run_id = ? AND a.worker IS NOT NULL"""  # noqa: S608 - columns of ours
READ_LIVE = f"""
SELECT a.run_id, a.fence, a.attempt, a.worker, m.host, m.process, m.renewed_at, {_TOLD}, k.policy,
    coalesce({rows.IS_ALIVE}, 0), m.expires_at
FROM duly_claims a JOIN duly_runs r ON r.id = a.run_id
LEFT JOIN duly_tasks k ON k.name = r.task
LEFT JOIN duly_members m ON m.id = a.worker
WHERE a.run_id = ?3"""  # noqa: S608 - columns of ours
READ_JUDGE_AFTER = "SELECT judge_after FROM duly_cluster"
LIST_PROGRESS = """
SELECT fence, at, done, total, note FROM duly_progress WHERE run_id = ? ORDER BY number LIMIT ?"""
LIST_LINES = """
SELECT number, fence, at, level, text FROM duly_lines
WHERE run_id = ? AND number > ? ORDER BY number LIMIT ?"""

_COMMON = 15
"""How many columns every claim has, alive or not."""
_RENEWED_AT = 6


def list_attempts(look: Look, run_id: RunId, limit: int) -> list[AttemptRecord]:
    """Return the last claims of a run by their fence: those that ended, and the one that lives."""
    connection = look.connection
    found = [_ended(row) for row in connection.execute(LIST_ENDED, (run_id, limit))][::-1]
    found += [_ended(row) for row in connection.execute(READ_CLOSING, (run_id,))]
    (judge_after,) = rows.one(connection, READ_JUDGE_AFTER)
    bindings = (look.now, counted(judge_after, look.now), run_id)
    found += [_live(row, look.now) for row in connection.execute(READ_LIVE, bindings)]
    return newest(found, limit)


def list_progress(look: Look, run_id: RunId, limit: int) -> list[ProgressRecord]:
    """Return the steps of a run's progress, oldest first."""
    found = look.connection.execute(LIST_PROGRESS, (run_id, limit))
    return [ProgressRecord(row[0], row[1], Progress(*row[2:])) for row in found]


def list_lines(look: Look, run_id: RunId, after: int, limit: int) -> list[LineRecord]:
    """Return lines of a run's attempts, in order."""
    found = look.connection.execute(LIST_LINES, (run_id, after, limit))
    return [LineRecord(row[0], row[1], LogLine(*row[2:])) for row in found]


def _ended(row: Row) -> AttemptRecord:
    state, reason, ended_at, error, late_state, late_at, late_error, late_result = row[_COMMON:]
    late = None
    if late_state is not None:
        said = AttemptState(late_state)
        late = LateReport(state=said, at=late_at, error=late_error, result=late_result)
    return AttemptRecord(
        **_common(row),
        state=said_state(state),
        reason=reason,
        heartbeat_at=last_heartbeat(row[_RENEWED_AT], ended_at),
        ended_at=ended_at,
        error=error,
        late=late,
    )


def _live(row: Row, now: int) -> AttemptRecord:
    policy, is_alive, expires_at = row[_COMMON:]
    common = _common(row)
    breath = Breath(
        is_fresh=bool(is_alive) and is_heartbeat_fresh(row[_RENEWED_AT], expires_at, now),
        started_at=common["started_at"],
        progress_at=common["progress_at"],
        stall_us=stored_policy(policy).stall_us,
    )
    return AttemptRecord(
        **common,
        state=live_state(breath, now),
        reason=None,
        heartbeat_at=row[_RENEWED_AT],
        ended_at=None,
        error=None,
    )


def _common(row: Row) -> dict[str, Any]:
    run_id, fence, number, worker, host, process, _, *told = row[:_COMMON]
    claimed_at, started_at, asked_at, done, total, note, progress_at, effects_at = told
    return {
        "run_id": RunId(run_id),
        "fence": fence,
        "number": number,
        "worker": worker,
        "worker_name": "" if host is None else worker_name(host, process),
        "claimed_at": claimed_at,
        "started_at": started_at,
        "progress": progress_of(done, total, note),
        "progress_at": progress_at,
        "cancel_asked_at": asked_at,
        "effects_at": effects_at,
    }
