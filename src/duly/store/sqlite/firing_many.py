"""Firing many timers alike: those that do nothing but become a run each, as nearly all do.

What is believed of them is compared with the file as they are moved, a hundred at a time, and
nothing of them is read. Should one of them not be as believed, nothing of the transaction stays,
and another goes about it with care: a few dozen are compared before they are moved, and those among
which one is not as believed are left to others, to be looked at one by one.
"""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

import apsw

from duly.domain.enums import Lane, Origin
from duly.store.gathering import LANE_OFFSETS
from duly.store.ports.dispatch import FireOnTime, Timer
from duly.store.sqlite.batches import ROWS_MAX, Among, Batch, chunks
from duly.store.sqlite.rows import SHARE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.store.records import Row
    from duly.store.sqlite.batches import Chunk
    from duly.store.sqlite.work import Work

_ON_TIME = FireOnTime._fields
# An occurrence that is due, after all that were run before it, and whose run finds no gate and, if
# that is asked, no earlier one open.
_BELIEVED = """
FROM asked a CROSS JOIN duly_schedule_state t
WHERE a.due_at <= ?1 AND a.late_after >= ?1
    AND t.schedule_id = a.ref AND t.version = a.generation AND t.next_due = a.due_at
    AND t.shard = a.shard AND (t.last_for IS NULL OR t.last_for < a.scheduled_for)
    AND (t.overlap = 'allow' OR (t.overlap = 'skip'
        AND (coalesce(t.active_run, t.last_run) IS NULL OR EXISTS (
            SELECT 1 FROM duly_outcomes o WHERE o.run_id = coalesce(t.active_run, t.last_run)))))"""
# And that never has been run itself.
COUNT_BELIEVED = Batch(
    f"""
SELECT count(*){_BELIEVED}
    AND NOT EXISTS (SELECT 1 FROM duly_runs r WHERE r.id = a.run_id)""",  # noqa: S608 - ours
    *_ON_TIME,
    also=1,
)
# Whatever fails rolls the whole back (which it would be anyway): so no statement has to remember
# what it would have to undo.
MAKE_RUNS = Batch(
    f"""
INSERT OR ROLLBACK INTO duly_runs (id, tenant, schedule_id, definition_number, task, queue,
    priority, origin, lane, scheduled_for, not_before, window_from, created_at, fired_at)
SELECT a.run_id, t.tenant, t.schedule_id, t.definition_number, t.task, t.queue, t.priority,
    '{Origin.SCHEDULE}', '{Lane.LIVE}', a.scheduled_for, a.due_at, t.last_for, ?1, ?1
{_BELIEVED}""",
    *_ON_TIME,
    also=1,
)
QUEUE_RUNS = Batch(
    f"""
INSERT OR ROLLBACK INTO duly_ready (queue, priority, tenant, rank, run_id, fired_at, not_before,
    schedule_name, arguments)
SELECT t.queue, t.priority + {LANE_OFFSETS[Lane.LIVE]:d}, {SHARE.format("t")}, a.due_at,
    a.run_id, ?1, a.due_at, t.name, t.arguments
FROM asked a CROSS JOIN duly_schedule_state t WHERE t.schedule_id = a.ref""",  # noqa: S608 - ours
    *_ON_TIME,
    also=1,
)
ADVANCE_TIMERS = Batch(
    """
UPDATE OR ROLLBACK duly_schedule_state AS t
SET next_for = a.next_for, next_due = a.next_due, last_for = a.scheduled_for, last_run = a.run_id,
    last_fired_at = ?1, fires = t.fires + 1, active_run = NULL
FROM asked a WHERE t.schedule_id = a.ref""",
    *_ON_TIME,
    also=1,
)
_TIMER = Timer._fields
_BELIEVED_DELAYED = """
FROM asked a CROSS JOIN duly_delayed d
WHERE a.due_at <= ?1 AND d.id = a.ref AND d.generation = a.generation AND d.due_at = a.due_at
    AND d.shard = a.shard"""
COUNT_BELIEVED_DELAYED = Batch(f"SELECT count(*){_BELIEVED_DELAYED}", *_TIMER, also=1)
MAKE_DELAYED_RUNS = Batch(
    f"""
INSERT OR ROLLBACK INTO duly_runs (id, tenant, schedule_id, definition_number, key, task, arguments,
    queue, priority, origin, lane, scheduled_for, not_before, created_at, fired_at)
SELECT d.id, d.tenant, d.schedule_id, d.definition_number, d.key, d.task, d.arguments, d.queue,
    d.priority, d.origin, d.lane, d.due_at, d.due_at, d.created_at, ?1
{_BELIEVED_DELAYED}""",
    *_TIMER,
    also=1,
)
_BEHIND = " ".join(f"WHEN '{lane}' THEN {offset:d}" for lane, offset in LANE_OFFSETS.items())
QUEUE_DELAYED_RUNS = Batch(
    f"""
INSERT OR ROLLBACK INTO duly_ready (queue, priority, tenant, rank, run_id, fired_at, not_before)
SELECT d.queue, d.priority + CASE d.lane {_BEHIND} END, {SHARE.format("d")}, d.due_at, d.id,
    ?1, d.due_at
FROM asked a CROSS JOIN duly_delayed d WHERE d.id = a.ref""",  # noqa: S608 - numbers of ours
    *_TIMER,
    also=1,
)
DELETE_TIMERS = Among("DELETE FROM duly_timers WHERE (shard, due_at, ref)", columns=3)
DELETE_DELAYED = Among("DELETE FROM duly_delayed WHERE id")

TOGETHER = 32
"""So many are looked at one by one when one of them is not as believed."""


class _Moves(NamedTuple):
    """How timers of one kind are fired."""

    count_believed: Batch
    make: Batch
    """Makes runs of those that are as believed."""
    others: tuple[Batch, ...]


ON_TIME = _Moves(COUNT_BELIEVED, MAKE_RUNS, (QUEUE_RUNS, ADVANCE_TIMERS))
DELAYED = _Moves(COUNT_BELIEVED_DELAYED, MAKE_DELAYED_RUNS, (QUEUE_DELAYED_RUNS,))


class NotAsBelievedError(Exception):
    """One of a batch is not as believed: what was done with the others must not stay."""


def fire_on_time(work: Work, fires: Sequence[FireOnTime], *, is_careful: bool) -> list[bool]:
    """Fire schedules, each for one occurrence that is due; say which were as believed."""
    return _fire(work, fires, ON_TIME, is_careful=is_careful)


def fire_delayed(work: Work, timers: Sequence[Timer], *, is_careful: bool) -> list[bool]:
    """Let delayed runs that are due become runs; say which were as believed."""
    are_fired = _fire(work, timers, DELAYED, is_careful=is_careful)
    fired = [*compress(timers, are_fired)]
    DELETE_TIMERS.change(work.connection, [(one.shard, one.due_at, one.ref) for one in fired])
    DELETE_DELAYED.change(work.connection, [(one.ref,) for one in fired])
    work.count_on("delayed", -len(fired))
    return are_fired


def _fire(work: Work, asked: Sequence[Row], moves: _Moves, *, is_careful: bool) -> list[bool]:
    """Fire them all, or those of each chunk that is as believed and due, if asked for care."""
    connection = work.connection
    are_fired: list[bool] = []
    for chunk in chunks(asked, (work.now,), TOGETHER if is_careful else ROWS_MAX):
        if is_careful:
            found = moves.count_believed.run(connection, chunk).fetchone()
            if found != (chunk.filled,):
                are_fired += [False] * chunk.filled
                continue
        _make(connection, moves.make, chunk)
        for move in moves.others:
            move.run(connection, chunk)
        are_fired += [True] * chunk.filled
        work.has_orders = True
    return are_fired


def _make(connection: apsw.Connection, make: Batch, chunk: Chunk) -> None:
    try:
        make.run(connection, chunk)
    except apsw.ConstraintError as error:  # such a run exists
        raise NotAsBelievedError from error
    if connection.changes() != chunk.filled:
        raise NotAsBelievedError
