"""Breathing: a worker renews and asks about what it holds; an attempt tells how far it has come."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.ids import RunId
from duly.domain.runs import LINES_PER_ATTEMPT_MAX
from duly.store.ports.dispatch import WorkerStatus
from duly.store.ports.execution import ClaimRef, HeartbeatResult, StopOrder, StopReason
from duly.store.postgres.arrays import Int4s, Int8s, OptionalInt8s, Texts, Uuids
from duly.store.postgres.scopes import write_scopes
from duly.store.postgres.session import one, uid
from duly.store.work_rulings import new_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.runs import LogLine, Progress
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.execution import Heartbeat, Report, SaveCheckpoint
    from duly.store.postgres.session import Session
    from duly.store.postgres.work import Work

# As with a dispatcher's renewal, nobody waits for the disk. Unlike a dispatcher's, a lease that has
# run out is renewed as long as nobody has declared its worker dead, which ends the row.
BEAT = """
WITH c AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
n AS MATERIALIZED (SELECT duly.now_us() AS now FROM c),
r AS (
    UPDATE duly.members m
    SET renewed_at = n.now, expires_at = n.now + $2::int8, slots = $3::int4, leaked = $4::int4,
        skew_us = $7::int8
    FROM n WHERE m.id = $1::int8 AND m.ended_at IS NULL
    RETURNING true AS is_alive, m.standing),
h AS MATERIALIZED (
    SELECT pg_catalog.array_agg(u.place) FILTER (WHERE k.is_asked IS NULL) AS gone,
        pg_catalog.array_agg(u.place) FILTER (WHERE k.is_asked) AS asked
    FROM unnest($5::uuid[], $6::int4[]) WITH ORDINALITY u(run_id, fence, place)
    LEFT JOIN LATERAL (
        SELECT k.cancel_asked_at IS NOT NULL AS is_asked FROM duly.claims k
        WHERE k.run_id = u.run_id AND k.worker + 0 = $1::int8 AND k.fence = u.fence OFFSET 0) k
        ON true)
SELECT n.now, coalesce((SELECT is_alive FROM r), false), s.program_min, s.limits_version,
    h.gone, h.asked, (SELECT standing FROM r)
FROM n CROSS JOIN h CROSS JOIN duly.cluster s WHERE s.id = 1"""
STRAYS = """
SELECT uuid_send(k.run_id), k.fence FROM duly.claims k
WHERE k.worker = $1::int8 ORDER BY k.run_id"""

# What was told of a run is found by the place of its id, since the ids are in order: whatever the
# planner believes about the table, nothing is compared with everything. The least of all numbers
# stands for none.
NONE = -(1 << 63)
WRITE_REPORTS = f"""
UPDATE duly.claims c
SET (started_at, progress_at, progress_done, progress_total, progress_note, lines) = (
    SELECT coalesce(c.started_at, nullif(($5::int8[])[u.place], {NONE})),
        CASE WHEN t.is_told THEN $4::int8 ELSE c.progress_at END,
        CASE WHEN t.is_told THEN ($6::int8[])[u.place] ELSE c.progress_done END,
        CASE WHEN t.is_told THEN nullif(($7::int8[])[u.place], {NONE}) ELSE c.progress_total END,
        CASE WHEN t.is_told THEN ($8::text[])[u.place] ELSE c.progress_note END,
        c.lines + ($9::int4[])[u.place]
    FROM (SELECT pg_catalog.width_bucket(c.run_id, $2::uuid[]) AS place OFFSET 0) u
    CROSS JOIN LATERAL (SELECT ($6::int8[])[u.place] <> {NONE} AS is_told) t)
WHERE c.run_id = ANY($2::uuid[]) AND c.worker + 0 = $1::int8
    AND c.fence = ($3::int4[])[pg_catalog.width_bucket(c.run_id, $2::uuid[])]
RETURNING uuid_send(c.run_id), c.lines"""  # noqa: S608 - a number of ours
# The last step once more is none.
INSERT_STEPS = """
INSERT INTO duly.progress (run_id, fence, at, done, total, note)
SELECT u.run_id, u.fence, $1::int8, u.done, u.total, u.note
FROM unnest($2::uuid[], $3::int4[], $4::int8[], $5::int8[], $6::text[]) WITH ORDINALITY
    u(run_id, fence, done, total, note, place)
LEFT JOIN LATERAL (
    SELECT p.fence, p.done, p.total, p.note FROM duly.progress p WHERE p.run_id = u.run_id
    ORDER BY p.number DESC LIMIT 1) p ON true
WHERE (p.fence, p.done, p.total, p.note) IS DISTINCT FROM (u.fence, u.done, u.total, u.note)
ORDER BY u.place"""
COUNT_LINES = """
SELECT uuid_send(run_id), lines FROM duly.claims
WHERE run_id = ANY($1::uuid[]) AND worker + 0 = $2::int8 ORDER BY run_id FOR NO KEY UPDATE"""
INSERT_LINES = """
INSERT INTO duly.lines (run_id, fence, at, level, text)
SELECT u.run_id, u.fence, u.at, u.level, u.text
FROM unnest($1::uuid[], $2::int4[], $3::int8[], $4::text[], $5::text[]) WITH ORDINALITY
    u(run_id, fence, at, level, text, place) ORDER BY u.place"""

# Nobody takes the claim away between the look and the write.
SAVE_CHECKPOINT = """
WITH ours AS MATERIALIZED (
    SELECT c.run_id FROM duly.claims c
    WHERE c.run_id = $1::uuid AND c.worker + 0 = $2::int8 AND c.fence = $3::int4
    FOR NO KEY UPDATE OF c)
INSERT INTO duly.checkpoints (run_id, partition, fence, state, at)
SELECT ours.run_id, $4, $3::int4, $5, duly.now_us() FROM ours
ON CONFLICT (run_id, partition) DO UPDATE
SET fence = excluded.fence, state = excluded.state, at = excluded.at
RETURNING 1"""
READ_CHECKPOINTS = "SELECT partition, state FROM duly.checkpoints WHERE run_id = $1::uuid"


def beat(session: Session, command: Heartbeat) -> tuple[HeartbeatResult, int]:
    """Renew a worker unless it was declared dead; say what must stop, and the schema's age."""
    holds = command.holds
    values = (
        command.worker,
        command.ttl_us,
        command.slots,
        command.leaked,
        Uuids([hold.run_id for hold in holds]),
        Int4s([hold.fence for hold in holds]),
        command.skew_us,
    )
    now, is_alive, program_min, version, gone, asked, told = one(session, BEAT, values)
    kinds = dict.fromkeys(gone or (), StopReason.GONE) | dict.fromkeys(
        asked or (), StopReason.CANCEL
    )
    stops = tuple(StopOrder(holds[place - 1], kind) for place, kind in sorted(kinds.items()))
    standing = None if told is None else WorkerStatus(told)
    return HeartbeatResult(
        now, is_alive, stops, limits_version=version, standing=standing
    ), program_min


def find_strays(session: Session, command: Heartbeat) -> tuple[ClaimRef, ...]:
    """Return what a worker holds and did not name."""
    named = frozenset(command.holds)
    found = [
        ClaimRef(RunId(run_id), fence) for run_id, fence in session.rows(STRAYS, (command.worker,))
    ]
    return tuple(hold for hold in found if hold not in named)


def report(work: Work, worker: MemberId, reports: Sequence[Report]) -> list[bool]:
    """Write what attempts have done that are still ours."""
    told = [False] * len(reports)
    left = list(range(len(reports)))
    reports = list(reports)
    while left:
        # One that is there twice is told of twice, one after the other.
        by_run = {reports[place].hold.run_id: place for place in reversed(left)}
        chosen = [by_run[run_id] for run_id in sorted(by_run)]
        for place, fresh in _without_known_lines(work, worker, reports, chosen):
            reports[place] = fresh
        counts = _write(work, worker, [reports[place] for place in chosen])
        for place in chosen:
            told[place] = reports[place].hold.run_id in counts
        _write_trace(work, [reports[place] for place in sorted(chosen) if told[place]], counts)
        left = sorted(set(left).difference(chosen))
    return told


def _without_known_lines(
    work: Work, worker: MemberId, reports: Sequence[Report], chosen: Sequence[int]
) -> list[tuple[int, Report]]:
    """Return those reports, by their place, of whose lines some may be stored: without these."""
    counted = [place for place in chosen if reports[place].lines and _is_counted(reports[place])]
    if not counted:
        return []
    ids = Uuids([reports[place].hold.run_id for place in counted])
    stored: dict[RunId, int] = dict(work.session.rows(COUNT_LINES, (ids, worker)))
    fresh: list[tuple[int, Report]] = []
    for place in counted:
        one = reports[place]
        lines = new_lines(one, stored.get(one.hold.run_id, 0))
        fresh.append((place, replace(one, lines=tuple(lines), lines_before=None)))
    return fresh


def _is_counted(one: Report) -> bool:
    return one.lines_before is not None


def _write(work: Work, worker: MemberId, reports: Sequence[Report]) -> dict[RunId, int]:
    """Write reports, in the order of their runs; return how many lines each of ours had before."""
    steps = [one.progress for one in reports]
    values = (
        worker,
        Uuids([one.hold.run_id for one in reports]),
        Int4s([one.hold.fence for one in reports]),
        work.now,
        Int8s([NONE if one.started_at is None else one.started_at for one in reports]),
        Int8s([NONE if step is None else step.done for step in steps]),
        Int8s([NONE if step is None or step.total is None else step.total for step in steps]),
        Texts([None if step is None else step.note for step in steps]),
        Int4s([len(one.lines) for one in reports]),
    )
    written: dict[RunId, int] = dict(work.session.rows(WRITE_REPORTS, values))
    return {
        one.hold.run_id: written[one.hold.run_id] - len(one.lines)
        for one in reports
        if one.hold.run_id in written
    }


def _write_trace(work: Work, reports: Sequence[Report], counts: dict[RunId, int]) -> None:
    write_steps(work, [(one.hold, one.progress) for one in reports if one.progress is not None])
    write_lines(work, [(one.hold, counts[one.hold.run_id], one.lines) for one in reports])
    write_scopes(work, [(one.hold, one.scope) for one in reports])


def write_steps(work: Work, steps: Sequence[tuple[ClaimRef, Progress]]) -> None:
    """Remember steps of progress."""
    if steps:
        values = (
            work.now,
            Uuids([hold.run_id for hold, _ in steps]),
            Int4s([hold.fence for hold, _ in steps]),
            Int8s([step.done for _, step in steps]),
            OptionalInt8s([step.total for _, step in steps]),
            Texts([step.note for _, step in steps]),
        )
        work.session.run(INSERT_STEPS, values)


def write_lines(work: Work, told: Sequence[tuple[ClaimRef, int, Sequence[LogLine]]]) -> None:
    """Keep lines of attempts, as many as each may have beside those that it has."""
    lines = [
        (hold, line)
        for hold, count, new in told
        for line in new[: max(LINES_PER_ATTEMPT_MAX - count, 0)]
    ]
    if lines:
        values = (
            Uuids([hold.run_id for hold, _ in lines]),
            Int4s([hold.fence for hold, _ in lines]),
            Int8s([line.at for _, line in lines]),
            Texts([line.level for _, line in lines]),
            Texts([line.text for _, line in lines]),
        )
        work.session.run(INSERT_LINES, values)


def save_checkpoint(session: Session, command: SaveCheckpoint) -> bool:
    """Replace a partition's state, if the run is still ours."""
    hold = command.hold
    key = (uid(hold.run_id), command.worker, hold.fence)
    return bool(session.rows(SAVE_CHECKPOINT, (*key, command.partition, command.state)))


def get_checkpoints(session: Session, run_id: RunId) -> dict[str, str]:
    """Return a run's last states by partition."""
    return dict(session.rows(READ_CHECKPOINTS, (uid(run_id),)))
