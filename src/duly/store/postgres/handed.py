"""Firing and claiming by one statement: what a worker does with timers that were offered to it.

All that a fire compares is compared, under the fence of the dispatcher that has made the offer; and
all that a claim asks for, under the worker's own membership. It happens only where nothing is
queued and no queue is paused: then nobody would come first, and nobody goes without his share. What
the worker does not serve, and whatever is not live, is queued as it would have been.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from psycopg import errors

from duly.domain.enums import Lane
from duly.domain.runs import TIMEOUT_DEFAULT_US, AttemptCounts
from duly.store.ports.execution import Claimed, ClaimedRun
from duly.store.postgres.arrays import Texts
from duly.store.postgres.claiming import (
    asking,
    claim_runs,
    is_plain,
    read_more,
    running_record,
)
from duly.store.postgres.firing import IN_THE_WAY, MADE_OF_DELAYED, PLACE, QUEUED_OF_DELAYED
from duly.store.postgres.handing import Answer
from duly.store.postgres.prepared import PreparedSession

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.domain.runs import RunRecord
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.execution import ClaimRuns
    from duly.store.postgres.claiming import Aim
    from duly.store.postgres.handing import Offer, Offers
    from duly.store.postgres.session import ConnectionSession, Session
    from duly.store.records import Row

_IS_SERVED = """lane = 'live' AND (pg_catalog.cardinality($8::text[]) = 0
        OR queue = ANY($8::text[]))"""
# As in a fire, but that only those are queued which the worker does not serve.
_MADE = f"{MADE_OF_DELAYED},{QUEUED_OF_DELAYED.format(f' WHERE NOT ({_IS_SERVED})')}"
# Looked for by the index, name by name: others' queues may be long.
_IS_QUEUED = """CASE WHEN pg_catalog.cardinality($8::text[]) = 0 THEN (
            SELECT r.queue FROM duly.ready r WHERE r.queue >= ''
            ORDER BY r.queue LIMIT 1) IS NOT NULL
        ELSE EXISTS (
            SELECT 1 FROM pg_catalog.unnest($8::text[]) q(name) WHERE (
                SELECT r.queue FROM duly.ready r WHERE r.queue = q.name
                ORDER BY r.priority LIMIT 1) IS NOT NULL) END"""
_NOW = "(SELECT now FROM n)"
# Both members' rows are held first, in the order of their ids as everywhere, and only then is the
# clock looked at.
FIRE_HANDED = f"""
WITH n AS MATERIALIZED (
    SELECT c.now FROM (
        SELECT f.*, duly.now_us() AS now FROM (
            SELECT count(*) AS alive, min(h.expires_at) AS until,
                max(2 * h.renewed_at - h.expires_at) AS since
            FROM (
                SELECT m.renewed_at, m.expires_at FROM duly.members m
                WHERE m.id IN ($1::int8, $7::int8) AND m.ended_at IS NULL
                    AND CASE WHEN m.id = $1::int8 THEN m.held @> $2::int8[]
                        ELSE m.standing IS NULL END
                    AND (SELECT set_config('lock_timeout', '100ms', true)) IS NOT NULL
                ORDER BY m.id FOR KEY SHARE OF m) h) f) c
    WHERE c.alive = 2 AND c.since <= c.now AND c.now < c.until
        AND NOT EXISTS (SELECT 1 FROM duly.queues) AND NOT {_IS_QUEUED}),{_MADE},
limits AS MATERIALIZED (
    SELECT t.task, CASE WHEN k.is_told THEN k.timeout_us ELSE {TIMEOUT_DEFAULT_US} END AS timeout_us
    FROM (SELECT DISTINCT task FROM fired) t
    LEFT JOIN LATERAL (
        SELECT k.timeout_us, k.policy IS NOT NULL AS is_told FROM duly.tasks k
        WHERE k.name = t.task OFFSET 0) k ON true),
claimed AS (
    INSERT INTO duly.claims (run_id, worker, claimed_at, begun_at, deadline_at, fence, attempt,
        charged)
    SELECT id, $7::int8, {_NOW}, {_NOW}, {_NOW} + timeout_us, 1, 1, 0
    FROM fired JOIN limits USING (task) WHERE {_IS_SERVED} RETURNING fence),
told AS (
    SELECT CASE WHEN count(*) <> pg_catalog.cardinality($3::uuid[]) THEN
        coalesce(pg_catalog.array_agg({PLACE.format("id")}), '{{}}') END AS places FROM fired)
SELECT {_NOW}, (SELECT places FROM told), (SELECT count(*) FROM claimed) >= 0, uuid_send(r.id),
    r.task, r.arguments, r.queue, r.tenant, uuid_send(r.schedule_id), r.definition_number, r.key,
    r.priority, r.origin, r.due_at, r.created_at
FROM (SELECT 1) AS always LEFT JOIN fired r ON {_IS_SERVED}"""  # noqa: S608 - parts of ours
_FIRST = AttemptCounts(1, 1, 0, 0)
"""Of a run that was never claimed before: its fence, its attempt, and no charges."""
_SCHEDULE = 8
"""Where the answer names the schedule of a run, which hardly ever has one."""


def begin(
    session: ConnectionSession, command: ClaimRuns, aim: Aim, offers: Offers
) -> Callable[[], Claimed]:
    """Begin to take runs, first of all those that were offered; return what waits for them."""
    if not isinstance(session, PreparedSession):
        offers.stop()
    offer = None
    if is_plain(command):
        offer = offers.take(command.limit)
    else:
        offers.refuse_all()
    if offer is None:
        asked = asking(command, aim)
        told = session.begin(asked.statement, asked.values)
        return lambda: _followed(asked.hear(session, told()), offers)
    values = (*offer.values, command.worker, Texts(command.queues or ()))
    try:
        answer = session.begin(FIRE_HANDED, values)
    except BaseException:
        offers.refuse(offer)
        raise

    def heard() -> Claimed:
        runs = _claimed(session, command.worker, _found(answer, offer, offers))
        if not runs:
            return _followed(claim_runs(session, command, aim), offers)
        return _followed(Claimed(runs[0].claimed_at, is_alive=True, runs=runs), offers)

    return heard


def _found(answer: Callable[[], list[Row]], offer: Offer, offers: Offers) -> list[Row]:
    """Hear what has become of an offer, and tell it; return what was claimed by it."""
    try:
        found = answer()
    except IN_THE_WAY:
        found = []
    except (errors.DataError, errors.ProgrammingError):
        # Not ours to carry out: a role that may claim need not have the rights to fire.
        offers.stop()
        found = []
    if not found or found[0][0] is None:
        offers.refuse(offer)
        return []
    now, places, _, first, *_ = found[0]
    fired = offer.size if places is None else len(places)
    claimed = [] if first is None else found
    offers.answer(offer, Answer(now, places, is_queued=fired > len(claimed)))
    return claimed


def _claimed(session: Session, worker: MemberId, found: list[Row]) -> tuple[ClaimedRun, ...]:
    read_more(session, found, [at for at, row in enumerate(found) if row[_SCHEDULE] is not None])
    reader = _Reader(worker)
    runs = [ClaimedRun(row[3], 1, row[0], row[4], row[5], row[6], row, reader) for row in found]
    return tuple(runs)


class _Reader:
    """Reads what few ask for from a row that was handed over."""

    def __init__(self, worker: MemberId) -> None:
        self._worker = worker

    def tries(self, row: Row) -> AttemptCounts:
        return _FIRST._replace(begun_at=row[0])

    def is_live(self, row: Row) -> bool:
        return row[3] is not None  # whatever is not is queued

    def record(self, row: Row, tries: AttemptCounts) -> RunRecord:
        now, _, _, run_id, task, arguments, queue, tenant, schedule_id, number, key, *rest = row
        priority, origin, due_at, created_at, *more = rest
        name = more[0] if more else None
        itself = (run_id, tenant, schedule_id, name, number, key, task, arguments, None, queue)
        rest = [priority, origin, Lane.LIVE, None, due_at, due_at, None, created_at, now]
        return running_record((*itself, *rest), (*tries, self._worker, now), None)


def _followed(claimed: Claimed, offers: Offers) -> Claimed:
    return replace(claimed, is_followed=True) if offers.is_any() else claimed
