"""Loading what falls due, and the arrivals feed: hints, each read by one statement without a lock.

A schedule is found by `load_at`, which lies at most LAG_US before the instant it is due: so a
window is read by the index from that much earlier, and what is due after it is left out.
"""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING

from duly.store.ports.dispatch import Arrivals, ArrivalsCursor, LoadedTimers, LoadTimers, Timer
from duly.store.postgres.arrays import Int4s, Uuids
from duly.store.postgres.rows import LAG_US
from duly.store.postgres.session import one
from duly.store.records import read_definition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from duly.domain.ids import ScheduleId
    from duly.domain.schedules import Definition
    from duly.store.ports.dispatch import TimerKind
    from duly.store.postgres.session import Session
    from duly.store.records import Row

BEFORE_ALL_TIME = -(1 << 63)

# One shard at a time, each in the order of its index: what lies behind the limit is never read. The
# row without a shard is the clock's; in the others the last columns are the place in the index, and
# which kind it is of. In place of a definition's number, less than none stands for a retry.
LOAD = """
SELECT duly.now_us(), '\\x'::bytea, -1, 0::int8, 0, 0, 0::int8, 0
UNION ALL
SELECT t.* FROM pg_catalog.unnest($1::int4[]) u(shard) CROSS JOIN LATERAL (
    SELECT s.next_due, uuid_send(s.schedule_id), s.shard, s.next_for, s.version,
        s.definition_number, s.load_at, 1
    FROM duly.schedule_state s
    WHERE s.shard = u.shard AND s.load_at > $2::int8 AND s.load_at <= $4::int8
        AND s.next_due > $3::int8 AND s.next_due <= $4::int8
    ORDER BY s.load_at LIMIT $5::int4) t
UNION ALL
SELECT t.* FROM pg_catalog.unnest($1::int4[]) u(shard) CROSS JOIN LATERAL (
    SELECT d.due_at, uuid_send(d.id), d.shard, d.due_at, d.generation, 0, d.due_at, 2
    FROM duly.delayed d
    WHERE d.shard = u.shard AND d.due_at > $3::int8 AND d.due_at <= $4::int8
    ORDER BY d.due_at LIMIT $5::int4) t
UNION ALL
SELECT t.* FROM pg_catalog.unnest($1::int4[]) u(shard) CROSS JOIN LATERAL (
    SELECT w.due_at, uuid_send(w.run_id), w.shard, w.due_at, w.fence, -1, w.due_at, 3
    FROM duly.waiting w
    WHERE w.shard = u.shard AND w.due_at > $3::int8 AND w.due_at <= $4::int8
    ORDER BY w.due_at LIMIT $5::int4) t"""
END_OF_ARRIVALS = "SELECT pg_current_snapshot()::text"
# Seen since the last look is what was written by transactions that were not there then, and by
# those that were open then. A cursor from the future is of a database that was restored since.
READ_ARRIVALS = """
WITH c AS MATERIALIZED (SELECT pg_current_snapshot() AS present),
p AS MATERIALIZED (
    SELECT CASE WHEN pg_snapshot_xmax($1::pg_snapshot) <= pg_snapshot_xmax(c.present)
        THEN $1::pg_snapshot ELSE '1:1:'::pg_snapshot END AS past FROM c),
a AS MATERIALIZED (
    SELECT ref, is_schedule FROM duly.arrivals
    WHERE arrived >= pg_snapshot_xmax((SELECT past FROM p))
        AND arrived < pg_snapshot_xmax((SELECT present FROM c)) AND shard = ANY($2::int4[])
    UNION
    SELECT ref, is_schedule FROM duly.arrivals
    WHERE arrived = ANY(ARRAY(SELECT pg_snapshot_xip((SELECT past FROM p))))
        AND shard = ANY($2::int4[]))
SELECT duly.now_us(), convert_to(c.present::text, 'UTF8'), -1, 0::int8, 0, 0 FROM c
UNION ALL
SELECT t.* FROM a CROSS JOIN LATERAL (
    SELECT s.next_due, uuid_send(s.schedule_id), s.shard, s.next_for, s.version, s.definition_number
    FROM duly.schedule_state s
    WHERE s.schedule_id = a.ref AND s.next_due IS NOT NULL OFFSET 0) t
WHERE a.is_schedule
UNION ALL
SELECT t.* FROM a CROSS JOIN LATERAL (
    SELECT d.due_at, uuid_send(d.id), d.shard, d.due_at, d.generation, 0
    FROM duly.delayed d WHERE d.id = a.ref OFFSET 0) t
WHERE NOT a.is_schedule
UNION ALL
SELECT t.* FROM a CROSS JOIN LATERAL (
    SELECT w.due_at, uuid_send(w.run_id), w.shard, w.due_at, w.fence, -1
    FROM duly.waiting w WHERE w.run_id = a.ref OFFSET 0) t
WHERE NOT a.is_schedule"""
READ_DEFINITIONS = """
SELECT uuid_send(u.id), u.number, t.definition
FROM unnest($1::uuid[], $2::int4[]) u(id, number) CROSS JOIN LATERAL (
    SELECT d.definition FROM duly.schedule_definitions d
    WHERE d.schedule_id = u.id AND d.number = u.number OFFSET 0) t"""


def load_timers(session: Session, command: LoadTimers) -> LoadedTimers:
    """Read timers in order of due."""
    # Ids are spread evenly: a little over its share is more than a shard is likely to have.
    share = 3 * command.limit // max(2 * len(command.shards), 1) + 32
    rows: list[Row] = []
    for at_most in (min(share, command.limit + 1), command.limit + 1):
        now, rows, complete = _load(session, command, command.until, at_most)
        if not command.is_whole:
            return _cut_anywhere(command, now, rows, complete)
        loaded = _cut_between(command, now, rows, complete)
        if loaded is not None:
            return loaded
        if command.crowd_max <= command.limit:
            part = [row for row in rows if row[0] == rows[0][0]]
            return LoadedTimers(_timers(part[: command.crowd_max]), part[0][0] - 1, now)
    # One instant alone, in one shard, is more than the limit; half of it would be of no use.
    instant = min(row[0] for row in rows)
    at_most = 2 * command.crowd_max // len(command.shards) + 32
    now, rows, complete = _load(session, command, instant, at_most)
    if complete < instant or len(rows) > command.crowd_max:
        return LoadedTimers(_timers(rows[: command.crowd_max]), instant - 1, now)
    return LoadedTimers(_timers(rows), instant, now)


def _load(
    session: Session, command: LoadTimers, until: int, at_most: int
) -> tuple[int, list[Row], int]:
    """Return the time, the rows in order of due and ref, and up to when they are complete."""
    after = BEFORE_ALL_TIME if command.after is None else command.after
    earliest = max(after - LAG_US, BEFORE_ALL_TIME)
    values = (Int4s(command.shards), earliest, after, until, at_most)
    clock, rows = _without_clock(session.rows(LOAD, values))
    streams = Counter(map(_stream, rows))
    full = {stream for stream, count in streams.items() if count >= at_most}
    reached: dict[tuple[int, int], int] = {}
    for row in rows if full else ():
        stream = _stream(row)
        if stream in full:
            reached[stream] = max(row[6], reached.get(stream, row[6]))
    rows.sort()
    return clock[0], rows, min((one - 1 for one in reached.values()), default=until)


_stream = itemgetter(2, 7)
"""The shard and the kind that a row is of."""


def _without_clock(rows: list[Row]) -> tuple[Row, list[Row]]:
    """Return the row of the clock, and the others."""
    place = next(place for place, row in enumerate(rows) if row[2] < 0)
    clock = rows.pop(place)
    return clock, rows


def _cut_anywhere(command: LoadTimers, now: int, rows: list[Row], complete: int) -> LoadedTimers:
    """Keep to the limit, wherever that cuts."""
    through = complete
    if len(rows) > command.limit:
        through = min(through, rows[command.limit][0] - 1)
    return LoadedTimers(_timers(rows[: command.limit]), through, now)


def _cut_between(
    command: LoadTimers, now: int, rows: list[Row], complete: int
) -> LoadedTimers | None:
    """Keep every instant whole; None when not even the first is known to be complete."""
    whole = [row for row in rows if row[0] <= complete]
    if len(whole) <= command.limit:
        is_all = complete == command.until
        return LoadedTimers(_timers(whole), complete, now) if whole or is_all else None
    cut = whole[command.limit][0]
    if whole[0][0] < cut:
        # The instant at the cut is incomplete: leave it for the next page.
        return LoadedTimers(_timers(row for row in whole if row[0] < cut), cut - 1, now)
    crowd = [row for row in whole if row[0] == cut]
    through = cut if len(crowd) <= command.crowd_max else cut - 1
    return LoadedTimers(_timers(crowd[: command.crowd_max]), through, now)


def _timers(rows: Iterable[Row]) -> tuple[Timer, ...]:
    return tuple(map(_timer, rows))


def _timer(row: Row) -> Timer:
    due_at, ref, shard, scheduled_for, generation, number = row[:6]
    if number > 0:
        return Timer("schedule", ref, shard, due_at, scheduled_for, generation, number)
    kind: TimerKind = "retry" if number < 0 else "delayed"
    return Timer(kind, ref, shard, due_at, scheduled_for, generation, 0)


def start_of_arrivals(session: Session) -> ArrivalsCursor:
    """Return a cursor at the present end of the feed."""
    return ArrivalsCursor(one(session, END_OF_ARRIVALS)[0])


def read_arrivals(session: Session, cursor: ArrivalsCursor, shards: Sequence[int]) -> Arrivals:
    """Read what was announced since the cursor, as it is now."""
    clock, rows = _without_clock(session.rows(READ_ARRIVALS, (cursor, Int4s(shards))))
    return Arrivals(tuple(map(_timer, rows)), ArrivalsCursor(clock[1].decode()), clock[0])


def read_definitions(
    session: Session, keys: Sequence[tuple[ScheduleId, int]]
) -> Mapping[tuple[ScheduleId, int], Definition]:
    """Read definitions by schedule and number; those that are gone are left out."""
    if not keys:
        return {}
    ids, numbers = zip(*keys, strict=True)
    found = session.rows(READ_DEFINITIONS, (Uuids(ids), Int4s(numbers)))
    return {(row[0], row[1]): read_definition(row[2]) for row in found}
