"""Loading what falls due, and the arrivals feed: hints, read without a lock.

SQLite has one writer at a time, so numbers of arrivals become visible in their order and a plain
high-water mark misses nothing.
"""

from __future__ import annotations

from heapq import merge
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from duly.store import records
from duly.store.ports.dispatch import Arrivals, ArrivalsCursor, LoadedTimers, LoadTimers, Timer
from duly.store.sqlite.batches import Batch, chunks
from duly.store.sqlite.rows import one
from duly.store.sqlite.shard_lists import shard_list

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from duly.domain.ids import ScheduleId
    from duly.domain.schedules import Definition
    from duly.store.sqlite.work import Look

# One shard at a time, each in the order of its index: what lies behind the limit is never read.
LOAD_SCHEDULES = """
SELECT next_due, schedule_id, shard, next_for, version, definition_number
FROM duly_schedule_state WHERE shard = ? AND next_due > ? AND next_due <= ?
ORDER BY next_due, schedule_id"""
LOAD_DELAYED = """
SELECT due_at, ref, shard, due_at, generation, 0 FROM duly_timers
WHERE shard = ? AND due_at > ? AND due_at <= ? ORDER BY due_at, ref"""
LOAD_RETRIES = """
SELECT due_at, run_id, shard, due_at, fence, -1 FROM duly_waiting
WHERE shard = ? AND due_at > ? AND due_at <= ? ORDER BY due_at, run_id"""
END_OF_ARRIVALS = """
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'duly_arrivals'), 0)"""
READ_SCHEDULE_ARRIVALS = """
SELECT DISTINCT t.next_due, t.schedule_id, t.shard, t.next_for, t.version, t.definition_number
FROM duly_arrivals a JOIN duly_schedule_state t ON t.schedule_id = a.ref
WHERE a.number > ? AND a.kind = 'schedule' AND a.shard IN (SELECT value FROM json_each(?))
    AND t.next_due IS NOT NULL"""
READ_DELAYED_ARRIVALS = """
SELECT DISTINCT d.due_at, d.id, d.shard, d.due_at, d.generation, 0
FROM duly_arrivals a JOIN duly_delayed d ON d.id = a.ref
WHERE a.number > ? AND a.kind = 'delayed' AND a.shard IN (SELECT value FROM json_each(?))"""
READ_RETRY_ARRIVALS = """
SELECT DISTINCT w.due_at, w.run_id, w.shard, w.due_at, w.fence, -1
FROM duly_arrivals a JOIN duly_waiting w ON w.run_id = a.ref
WHERE a.number > ? AND a.kind = 'delayed' AND a.shard IN (SELECT value FROM json_each(?))"""
READ_DEFINITIONS = Batch(
    """
SELECT d.schedule_id, d.number, d.definition
FROM asked a CROSS JOIN duly_schedule_definitions d
WHERE d.schedule_id = a.schedule_id AND d.number = a.number""",
    *("schedule_id", "number"),
)

BEFORE_ALL_TIME = -(1 << 63)


def load_timers(look: Look, command: LoadTimers) -> LoadedTimers:
    """Read timers in order of due."""
    found = _in_order(look, command)
    timers = list(islice(found, command.limit + 1))
    through = command.until
    if len(timers) > command.limit:
        cut = timers[-1][0]
        if not command.is_whole:
            through = cut - 1
            timers.pop()
        elif timers[0][0] < cut:
            # The instant at the cut is incomplete: leave it for the next page.
            through = cut - 1
            timers = [row for row in timers if row[0] < cut]
        else:
            # One instant alone is more than the limit; half of it would be of no use.
            through = cut
            most = max(command.crowd_max, command.limit)
            crowd = takewhile(lambda row: row[0] == cut, found)
            timers += islice(crowd, most + 1 - len(timers))
            if len(timers) > most:
                through = cut - 1
                del timers[command.crowd_max :]
    return LoadedTimers(tuple(map(_timer, timers)), through, look.now)


def _in_order(look: Look, command: LoadTimers) -> Iterator[records.Row]:
    """Merge the streams of all shards; rows begin with due and ref, and so compare by them."""
    after = BEFORE_ALL_TIME if command.after is None else command.after
    streams: list[Iterator[records.Row]] = []
    for shard in command.shards:
        span = (shard, after, command.until)
        streams.append(look.connection.execute(LOAD_SCHEDULES, span))
        streams.append(look.connection.execute(LOAD_DELAYED, span))
        streams.append(look.connection.execute(LOAD_RETRIES, span))
    return iter(merge(*streams))


def _timer(row: records.Row) -> Timer:
    """Return a timer; in place of a definition's number, less than none stands for a retry."""
    if row[5] >= 0:
        return records.timer(row)
    due_at, ref, shard, scheduled_for, generation, _ = row
    return Timer("retry", ref, shard, due_at, scheduled_for, generation, 0)


def start_of_arrivals(look: Look) -> ArrivalsCursor:
    """Return a cursor at the present end of the feed."""
    return ArrivalsCursor(str(one(look.connection, END_OF_ARRIVALS)[0]))


def read_arrivals(look: Look, cursor: ArrivalsCursor, shards: Sequence[int]) -> Arrivals:
    """Read what was announced since the cursor, as it is now."""
    end = start_of_arrivals(look)
    # A cursor beyond the end is of a file that has been restored since: begin anew.
    after = int(cursor) if int(cursor) <= int(end) else 0
    timers: list[Timer] = []
    if after < int(end):
        bindings = (after, shard_list(shards))
        for statement in (READ_SCHEDULE_ARRIVALS, READ_DELAYED_ARRIVALS, READ_RETRY_ARRIVALS):
            timers += map(_timer, look.connection.execute(statement, bindings))
    return Arrivals(tuple(timers), end, look.now)


def read_definitions(
    look: Look, keys: Sequence[tuple[ScheduleId, int]]
) -> Mapping[tuple[ScheduleId, int], Definition]:
    """Read definitions by schedule and number; those that are gone are left out."""
    return {
        (schedule_id, number): records.read_definition(text)
        for chunk in chunks(keys)
        for schedule_id, number, text in READ_DEFINITIONS.run(look.connection, chunk)
    }
