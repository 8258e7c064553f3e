"""Claiming queued runs: one statement, in which no worker waits for another.

The worker's own row is held first, so that nobody declares it dead while it claims. Then rows of
the queue are locked one by one in their order, those that somebody else has locked are passed over,
and exactly what was locked moves to the claims. Each leaf of the queue is deleted from by itself:
a row's place is told by its leaf and its position there, not by either alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.attempts import TIMEOUT_DEFAULT_US, Tries
from duly.domain.literals import RunState
from duly.store.execution import Claimed, ClaimedRun, ClaimRuns
from duly.store.postgres.arrays import Int4s, Texts
from duly.store.postgres.rotation import ERAS
from duly.store.postgres.rows import LAST_ERROR
from duly.store.records import run_record, stored_arguments

if TYPE_CHECKING:
    from duly.domain.runs import RunRecord
    from duly.store.dispatch import MemberId
    from duly.store.postgres.session import Session
    from duly.store.records import Row

INT4_MAX = (1 << 31) - 1
ITSELF = 19
"""How many columns say what a run is."""

# The member's row is held first, and only then is the clock looked at.
_WORKER = """
WITH RECURSIVE held AS MATERIALIZED (
    SELECT m.renewed_at, m.expires_at FROM duly.members m
    WHERE m.id = $1::int8 AND m.ended_at IS NULL FOR KEY SHARE OF m),
t AS MATERIALIZED (SELECT held.*, duly.now_us() AS at FROM held),
n AS MATERIALIZED (
    SELECT t.at AS now FROM t
    WHERE t.at < t.expires_at AND t.renewed_at - t.at <= t.expires_at - t.renewed_at)"""

_IS_OPEN = "NOT EXISTS (SELECT 1 FROM duly.queues p WHERE p.name = {} OFFSET 0)"

_NAMED = f"""
q AS MATERIALIZED (
    SELECT u.name, u.most
    FROM n CROSS JOIN unnest($2::text[], $3::int4[]) WITH ORDINALITY u(name, most, place)
    WHERE {_IS_OPEN.format("u.name")} ORDER BY u.place)"""  # noqa: S608 - a condition of ours

# From name to name along the index: what a queue holds is not counted.
_EVERY = f"""
found(name) AS (
    (SELECT r.queue FROM duly.ready r WHERE r.queue > '' ORDER BY r.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT r.queue FROM duly.ready r WHERE r.queue > f.name ORDER BY r.queue LIMIT 1)
    FROM found f WHERE f.name IS NOT NULL),
open AS MATERIALIZED (
    SELECT f.name, row_number() OVER (ORDER BY f.name) - 1 AS place, count(*) OVER () AS many
    FROM found f WHERE f.name IS NOT NULL AND {_IS_OPEN.format("f.name")}),
q AS MATERIALIZED (
    SELECT o.name, coalesce((SELECT u.most FROM unnest($2::text[], $3::int4[]) u(name, most)
        WHERE u.name = o.name LIMIT 1), $4::int4) AS most
    FROM n CROSS JOIN open o
    ORDER BY (o.place - $5::int8 % o.many + o.many) % o.many)"""  # noqa: S608 - a condition of ours

_TAKE_FROM_LEAVES = ",".join(
    f"""
gone_{era} AS (
    DELETE FROM duly.ready_{era} WHERE ctid = ANY(ARRAY(
        SELECT tid FROM picked WHERE era = {era})))"""  # noqa: S608 - numbers of ours
    for era in range(ERAS)
)

# Rows are locked as they are read, and reading ends with the last that is wanted.
_CLAIM = f"""
picked AS MATERIALIZED (
    SELECT p.* FROM q CROSS JOIN LATERAL (
        SELECT r.ctid AS tid, r.era, r.run_id, r.fence, r.attempt, r.charged, r.begun_at,
            r.schedule_name, r.arguments AS carried
        FROM duly.ready r WHERE r.queue = q.name{{}}{{}}
        LIMIT q.most FOR UPDATE OF r SKIP LOCKED) p
    LIMIT $4::int4),{_TAKE_FROM_LEAVES},
made AS MATERIALIZED (
    SELECT n.now, p.fence + 1 AS fence, p.attempt + 1 AS attempt, p.charged,
        coalesce(p.begun_at, n.now) AS begun_at, p.schedule_name, p.carried, r.*,
        n.now + CASE WHEN k.is_told THEN k.timeout_us ELSE {TIMEOUT_DEFAULT_US} END AS deadline_at
    FROM n CROSS JOIN picked p
    CROSS JOIN LATERAL (SELECT r.* FROM duly.runs r WHERE r.id = p.run_id OFFSET 0) r
    LEFT JOIN LATERAL (
        SELECT k.timeout_us, k.policy IS NOT NULL AS is_told FROM duly.tasks k
        WHERE k.name = r.task OFFSET 0) k ON true),
claimed AS (
    INSERT INTO duly.claims (run_id, worker, claimed_at, begun_at, deadline_at, fence, attempt,
        charged)
    SELECT id, $1::int8, now, begun_at, deadline_at, fence, attempt, charged FROM made)
SELECT coalesce((SELECT now FROM n), duly.now_us()), EXISTS (SELECT 1 FROM n),
    uuid_send(r.id), r.tenant, uuid_send(r.schedule_id),
    coalesce(r.schedule_name, (SELECT s.name FROM duly.schedules s WHERE s.id = r.schedule_id)),
    r.definition_number, r.key, r.task, coalesce(r.arguments, r.carried),
    CASE WHEN coalesce(r.arguments, r.carried) IS NULL THEN (
        SELECT d.definition FROM duly.schedule_definitions d
        WHERE d.schedule_id = r.schedule_id AND d.number = r.definition_number) END,
    r.queue, r.priority, r.origin, r.lane,
    uuid_send(r.root), r.scheduled_for, r.not_before, r.window_from, r.created_at, r.fired_at,
    r.fence, r.attempt, r.charged, r.begun_at, CASE WHEN r.fence > 1 THEN {LAST_ERROR} END
FROM (SELECT 1) AS always LEFT JOIN made r ON true"""  # noqa: S608 - parts of ours

# Runs of tasks that the worker is to do without are passed over before they are locked.
_IS_KNOWN = """
            AND (SELECT k.task FROM duly.runs k WHERE k.id = r.run_id) <> ALL({}::text[])"""

_OLDEST = """
        ORDER BY r.priority, r.rank, r.run_id"""
_NEWEST = """
            AND r.priority = (
                SELECT f.priority FROM duly.ready f WHERE f.queue = q.name
                ORDER BY f.priority LIMIT 1)
        ORDER BY r.rank DESC, r.run_id DESC"""


def _claim(queues: str, known: str, order: str) -> str:
    return f"{_WORKER},{queues},{_CLAIM.format(known, order)}"


CLAIM_NAMED, CLAIM_NAMED_NEWEST = (_claim(_NAMED, "", order) for order in (_OLDEST, _NEWEST))
CLAIM_ANY, CLAIM_ANY_NEWEST = (_claim(_EVERY, "", order) for order in (_OLDEST, _NEWEST))
CLAIM_NAMED_WITHOUT, CLAIM_NAMED_WITHOUT_NEWEST = (
    _claim(_NAMED, _IS_KNOWN.format("$5"), order) for order in (_OLDEST, _NEWEST)
)
CLAIM_ANY_WITHOUT, CLAIM_ANY_WITHOUT_NEWEST = (
    _claim(_EVERY, _IS_KNOWN.format("$6"), order) for order in (_OLDEST, _NEWEST)
)
NEWEST = {
    CLAIM_NAMED: CLAIM_NAMED_NEWEST,
    CLAIM_ANY: CLAIM_ANY_NEWEST,
    CLAIM_NAMED_WITHOUT: CLAIM_NAMED_WITHOUT_NEWEST,
    CLAIM_ANY_WITHOUT: CLAIM_ANY_WITHOUT_NEWEST,
}
"""For each statement the one that takes the newest first."""


def claim_runs(session: Session, command: ClaimRuns) -> Claimed:
    """Take queued runs for a worker that is alive."""
    statement, values = _statement(command)
    found = session.rows(NEWEST[statement] if command.newest_first else statement, values)
    now, is_alive, first, *_ = found[0]
    if first is None:
        return Claimed(now, is_alive, ())
    reader = _Reader(command.worker)
    runs = [
        ClaimedRun(
            row[2],
            row[21],
            now,
            row[8],
            stored_arguments(row[10]) if row[9] is None else row[9],
            row[11],
            row,
            reader,
        )
        for row in found
    ]
    return Claimed(now, is_alive, tuple(runs))


def _statement(command: ClaimRuns) -> tuple[str, tuple[object, ...]]:
    limits = command.queue_limits
    most = min(max(command.limit, 0), INT4_MAX)
    without = (Texts(sorted(command.without)),) if command.without else ()
    if command.queues is None:
        bounds = Int4s([_bounded(limit, most) for limit in limits.values()])
        values = (command.worker, Texts([*limits]), bounds, most, command.rotation)
        return CLAIM_ANY_WITHOUT if without else CLAIM_ANY, (*values, *without)
    names = command.queues
    first = command.rotation % len(names) if names else 0
    names = names[first:] + names[:first]
    bounds = Int4s([_bounded(limits.get(name, most), most) for name in names])
    values_named = (command.worker, Texts(names), bounds, most)
    return CLAIM_NAMED_WITHOUT if without else CLAIM_NAMED, (*values_named, *without)


def _bounded(limit: int, most: int) -> int:
    return min(max(limit, 0), most)


class _Reader:
    """Reads what few ask for from a row that a worker has claimed."""

    def __init__(self, worker: MemberId) -> None:
        self._worker = worker

    def tries(self, row: Row) -> Tries:
        return Tries._make(row[21:25])

    def record(self, row: Row, tries: Tries) -> RunRecord:
        now, _, *rest = row
        nothing_yet = (None,) * 6
        claim = (*tries, self._worker, now, *nothing_yet, rest[-1], None)
        return run_record((*rest[:ITSELF], RunState.RUNNING, None, None, *claim))
