"""The trace that attempts leave: every claim of a run, its steps of progress, its lines."""

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
from duly.store.postgres.arrays import Uuids
from duly.store.postgres.filtering import PostgresWhere
from duly.store.postgres.session import uid
from duly.store.records import progress_of
from duly.store.rulings import is_current
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
    from collections.abc import Sequence

    from duly.store.ports.queries import AttemptFilter
    from duly.store.postgres.work import Look

_TOLD = """{0}.claimed_at, {0}.started_at, {0}.cancel_asked_at, {0}.progress_done,
    {0}.progress_total, {0}.progress_note, {0}.progress_at, {0}.effects_at"""
_WHO = """coalesce(m.host, w.host), coalesce(m.process, w.process),
    coalesce(m.renewed_at, w.renewed_at)"""
_LEASES = """
LEFT JOIN duly.members m ON m.id = {0}.worker LEFT JOIN duly.workers w ON w.id = {0}.worker"""
_LATE = "{0}.late_state, {0}.late_at, {0}.late_error, {0}.late_result"
_ENDED = f"""a.fence, a.number, a.worker, {_TOLD.format("a")}, {_WHO}, a.state, a.reason,
    a.ended_at, a.error, {_LATE.format("a")}
FROM duly.attempts a{_LEASES.format("a")}"""
ENDED_ATTEMPTS = f"""
SELECT {_ENDED}
WHERE a.run_id = $1::uuid ORDER BY a.fence DESC LIMIT $2::int8"""
_ENDED_OF = f"SELECT uuid_send(a.run_id), {_ENDED}"
LAST_ENDED_OF = f"""
SELECT uuid_send(u.id), e.* FROM pg_catalog.unnest($1::uuid[]) u(id)
CROSS JOIN LATERAL (
    SELECT {_ENDED} WHERE a.run_id = u.id ORDER BY a.fence DESC LIMIT 1) e"""  # noqa: S608 - columns of ours
_CLOSING = f"""o.fence, o.attempt, o.worker, {_TOLD.format("o")}, {_WHO}, o.state, o.reason,
    o.finished_at, o.error, {_LATE.format("o")}
FROM duly.outcomes o{_LEASES.format("o")}
WHERE o.worker IS NOT NULL"""
CLOSING_ATTEMPT = f"SELECT {_CLOSING} AND o.run_id = $1::uuid"
CLOSING_OF = f"SELECT uuid_send(o.run_id), {_CLOSING} AND o.run_id = ANY($1::uuid[])"
_LIVE = f"""c.fence, c.attempt, c.worker, {_TOLD.format("c")}, m.host, m.process, m.renewed_at,
    m.expires_at, m.ended_at, t.policy
FROM duly.claims c LEFT JOIN duly.members m ON m.id = c.worker
LEFT JOIN duly.runs r ON r.id = c.run_id LEFT JOIN duly.tasks t ON t.name = r.task"""
LIVE_ATTEMPT = f"SELECT {_LIVE} WHERE c.run_id = $1::uuid"
LIVE_OF = f"SELECT uuid_send(c.run_id), {_LIVE} WHERE c.run_id = ANY($1::uuid[])"
LIST_STEPS = """
SELECT fence, at, done, total, note FROM duly.progress
WHERE run_id = $1::uuid ORDER BY number LIMIT $2::int8"""
LIST_LINES = """
SELECT number, fence, at, level, text FROM duly.lines
WHERE run_id = $1::uuid AND number > $2::int8 ORDER BY number LIMIT $3::int8"""

TOLD = 14
"""How many columns there are from the fence to the worker's last heartbeat."""


def list_attempts(look: Look, run_id: RunId, limit: int) -> list[AttemptRecord]:
    """Return the last claims of a run by their fence."""
    key = (uid(run_id),)
    ended = look.session.rows(ENDED_ATTEMPTS, (*key, limit))[::-1]
    ended += look.session.rows(CLOSING_ATTEMPT, key)
    live = look.session.rows(LIVE_ATTEMPT, key)
    found = [_ended(run_id, row) for row in ended] + [_live(look, run_id, row) for row in live]
    return newest(found, limit)


def last_attempts(look: Look, ids: Sequence[RunId]) -> dict[RunId, AttemptRecord]:
    """Return the last claim of each run that has any."""
    ended = look.session.rows(LAST_ENDED_OF, (Uuids(ids),))
    ended += look.session.rows(CLOSING_OF, (Uuids(ids),))
    live = look.session.rows(LIVE_OF, (Uuids(ids),))
    found = [_ended(RunId(run_id), row) for run_id, *row in ended]
    found += [_live(look, RunId(run_id), row) for run_id, *row in live]
    return {one.run_id: one for one in sorted(found, key=lambda one: one.fence)}


def read_attempts(look: Look, ids: Sequence[RunId], command: AttemptFilter) -> list[AttemptRecord]:
    """Return attempts of runs: of those that did not close one, the newest that fit."""
    where = _fitting(ids, command)
    sql = where.sql(_ENDED_OF, "ORDER BY a.run_id DESC, a.fence DESC", command.limit + 1)
    ended = look.session.rows(sql, where.bound())
    ended += look.session.rows(CLOSING_OF, (Uuids(ids),))
    live = look.session.rows(LIVE_OF, (Uuids(ids),))
    return [_ended(RunId(run_id), row) for run_id, *row in ended] + [
        _live(look, RunId(run_id), row) for run_id, *row in live
    ]


def _fitting(ids: Sequence[RunId], command: AttemptFilter) -> PostgresWhere:
    where = PostgresWhere()
    where.values.append(Uuids(ids))
    where.take_up("a.run_id = ANY($1::uuid[])")
    where.equal("a.worker", command.worker)
    where.one_of("a.state", command.states)
    where.equal("a.reason", command.reason)
    if command.error is not None:
        where.holds("a.error", command.error)
    if command.before is not None:
        where.add("(a.run_id, a.fence) < (?, ?)", *command.before)
    return where


def _ended(run_id: RunId, row: Sequence[Any]) -> AttemptRecord:
    state, reason, ended_at, error, *late = row[TOLD:]
    return _attempt(
        run_id,
        row,
        state=said_state(state),
        reason=reason,
        heartbeat_at=last_heartbeat(row[TOLD - 1], ended_at),
        ended_at=ended_at,
        error=error,
        late=_late(late),
    )


def _late(row: list[Any]) -> LateReport | None:
    state, at, error, result = row
    if state is None:
        return None
    return LateReport(state=AttemptState(state), at=at, error=error, result=result)


def _live(look: Look, run_id: RunId, row: Sequence[Any]) -> AttemptRecord:
    expires_at, ended_at, policy = row[TOLD:]
    renewed_at = row[TOLD - 1]
    breath = Breath(
        is_fresh=renewed_at is not None
        and ended_at is None
        and is_current(renewed_at, expires_at, look.now)
        and is_heartbeat_fresh(renewed_at, expires_at, look.now),
        started_at=row[4],
        progress_at=row[9],
        stall_us=stored_policy(policy).stall_us,
    )
    return _attempt(
        run_id,
        row,
        state=live_state(breath, look.now),
        reason=None,
        heartbeat_at=renewed_at,
        ended_at=None,
        error=None,
    )


def _attempt(run_id: RunId, row: Sequence[Any], **parts: Any) -> AttemptRecord:  # noqa: ANN401 - its own
    fence, number, worker, claimed_at, started_at, asked_at, *rest = row[:TOLD]
    done, total, note, progress_at, effects_at, host, process, _ = rest
    return AttemptRecord(
        run_id=run_id,
        fence=fence,
        number=number,
        worker=worker,
        worker_name="" if host is None else worker_name(host, process),
        claimed_at=claimed_at,
        started_at=started_at,
        progress=progress_of(done, total, note),
        progress_at=progress_at,
        cancel_asked_at=asked_at,
        effects_at=effects_at,
        **parts,
    )


def list_progress(look: Look, run_id: RunId, limit: int) -> list[ProgressRecord]:
    """Return the steps of a run's progress, oldest first."""
    found = look.session.rows(LIST_STEPS, (uid(run_id), limit))
    return [ProgressRecord(fence, at, Progress(*step)) for fence, at, *step in found]


def list_lines(look: Look, run_id: RunId, after: int, limit: int) -> list[LineRecord]:
    """Return lines that a run's attempts wrote, in order."""
    found = look.session.rows(LIST_LINES, (uid(run_id), after, limit))
    return [LineRecord(number, fence, LogLine(*line)) for number, fence, *line in found]
