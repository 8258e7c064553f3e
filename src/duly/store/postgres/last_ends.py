"""How the newest runs of schedules ended, in one statement for all that are asked about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.ids import RunId, ScheduleId
from duly.domain.vitals import ERRORS, LastEnd, LastEnds, LastError, unknown_through
from duly.store.postgres.arrays import Texts, Uuids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.store.postgres.work import Look

# Each is read from the newest run on and no further than the first that is found.
_NEWEST = """SELECT n.id, n.scheduled_for FROM duly.runs n WHERE n.schedule_id = u.id
        ORDER BY n.id DESC LIMIT $2::int8"""
# One by one, and not by its state: there may be as many of a state as there were ever runs.
_OUTCOME = """SELECT p.run_id, p.state, p.finished_at, p.reason, p.error FROM duly.outcomes p
        WHERE p.run_id = r.id OFFSET 0"""
# What an operator closed with items missing is no success.
_IS_SUCCESS = """o.state = 'succeeded'
        AND o.reason IS DISTINCT FROM 'reconciled-incomplete'"""
_FROM = f"""
FROM pg_catalog.unnest($1::uuid[]) u(id)
JOIN duly.schedule_state t ON t.schedule_id = u.id
LEFT JOIN LATERAL (
    SELECT n.not_before FROM duly.runs n WHERE n.schedule_id = u.id
    ORDER BY n.id DESC LIMIT 1 OFFSET $2::int8) w ON true
LEFT JOIN LATERAL (
    SELECT r.id, r.scheduled_for, o.finished_at FROM ({_NEWEST}) r
    CROSS JOIN LATERAL ({_OUTCOME}) o
    WHERE {_IS_SUCCESS} ORDER BY r.id DESC LIMIT 1) s ON true
LEFT JOIN LATERAL (
    SELECT r.id, r.scheduled_for, c.at FROM ({_NEWEST}) r
    CROSS JOIN LATERAL (
        SELECT d.finding, d.at FROM duly.verdicts d WHERE d.run_id = r.id
        ORDER BY d.number DESC LIMIT 1) c
    CROSS JOIN LATERAL ({_OUTCOME}) o
    WHERE c.finding = 'present' AND {_IS_SUCCESS}
    ORDER BY r.id DESC LIMIT 1) v ON true"""  # noqa: S608 - a part of ours
_ENDS = """
SELECT uuid_send(u.id), t.pruned_through, w.not_before,
    uuid_send(s.id), s.scheduled_for, s.finished_at, uuid_send(v.id), v.scheduled_for, v.at"""
LAST_GOOD_ENDS = f"{_ENDS}, NULL::bytea{_FROM}"
LAST_ENDS = f"""{_ENDS},
    uuid_send(e.id), e.scheduled_for, e.at, e.reason, e.error{_FROM}
LEFT JOIN LATERAL (
    SELECT r.id, r.scheduled_for, coalesce(o.finished_at, a.ended_at) AS at,
        CASE WHEN o.run_id IS NULL THEN a.reason ELSE o.reason END AS reason,
        coalesce(o.error, a.error) AS error
    FROM ({_NEWEST}) r
    LEFT JOIN LATERAL ({_OUTCOME}) o ON o.state = 'failed'
    LEFT JOIN LATERAL (
        SELECT b.run_id, b.ended_at, b.reason, b.error FROM duly.attempts b
        WHERE b.run_id = r.id AND b.state = ANY($3::text[])
        ORDER BY b.fence DESC LIMIT 1) a ON true
    WHERE o.run_id IS NOT NULL OR a.run_id IS NOT NULL
    ORDER BY r.id DESC LIMIT 1) e ON true"""  # noqa: S608 - a part of ours


def list_last_ends(
    look: Look, schedule_ids: Sequence[ScheduleId], limit: int, *, with_errors: bool
) -> dict[ScheduleId, LastEnds]:
    """Return how the newest runs of each ended."""
    values: tuple[object, ...] = (Uuids(schedule_ids), limit)
    if with_errors:
        statement, values = LAST_ENDS, (*values, Texts(sorted(ERRORS)))
    else:
        statement = LAST_GOOD_ENDS
    found: dict[ScheduleId, LastEnds] = {}
    for row in look.session.rows(statement, values):
        identity, pruned_through, beyond = row[:3]
        success, verified, error = row[3:6], row[6:9], row[9:]
        found[ScheduleId(identity)] = LastEnds(
            success=None if success[0] is None else LastEnd(RunId(success[0]), *success[1:]),
            verified=None if verified[0] is None else LastEnd(RunId(verified[0]), *verified[1:]),
            error=None if error[0] is None else LastError(RunId(error[0]), *error[1:]),
            unknown_through=unknown_through(pruned_through, beyond),
        )
    return found
