"""Firing many timers alike: those that do nothing but become a run each, as nearly all do.

What is believed of them is compared with the file a few dozen at a time, and so they are moved:
nothing of them is read. A few dozen among which one is not as believed are left to others, to be
looked at one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.store.gathering import LANE_OFFSETS
from duly.store.sqlite.batches import ROWS_MAX, Batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.store.dispatch import FireSchedule, Timer
    from duly.store.records import Row
    from duly.store.sqlite.work import Work

# An occurrence after all that were run before it, which never has been run itself.
COUNT_BELIEVED = Batch(
    """
SELECT count(*) FROM asked a CROSS JOIN duly_schedule_state t
WHERE t.schedule_id = a.ref AND t.version = a.version AND t.next_due = a.due_at
    AND t.shard = a.shard AND (t.last_for IS NULL OR t.last_for < a.scheduled_for)
    AND NOT EXISTS (SELECT 1 FROM duly_runs r WHERE r.id = a.run_id)""",
    *("ref", "version", "due_at", "shard", "scheduled_for", "run_id"),
)
# Whatever fails rolls the whole back (which it would be anyway): so no statement has to remember
# what it would have to undo.
MAKE_RUNS = Batch(
    """
INSERT OR ROLLBACK INTO duly_runs (id, tenant, schedule_id, definition_number, task, queue,
    priority, origin, lane, scheduled_for, not_before, window_from, created_at, fired_at)
SELECT a.run_id, t.tenant, t.schedule_id, t.definition_number, t.task, t.queue, t.priority,
    a.origin, a.lane, a.scheduled_for, a.not_before, t.last_for, ?1, ?1
FROM asked a CROSS JOIN duly_schedule_state t WHERE t.schedule_id = a.ref""",
    *("ref", "run_id", "scheduled_for", "not_before", "origin", "lane"),
    also=1,
)
QUEUE_RUNS = Batch(
    """
INSERT OR ROLLBACK INTO duly_ready (queue, priority, rank, run_id, fired_at, not_before)
SELECT t.queue, t.priority + a.behind, a.not_before, a.run_id, ?1, a.not_before
FROM asked a CROSS JOIN duly_schedule_state t WHERE t.schedule_id = a.ref""",
    *("ref", "run_id", "not_before", "behind"),
    also=1,
)
ADVANCE_TIMERS = Batch(
    """
UPDATE OR ROLLBACK duly_schedule_state AS t
SET next_for = a.next_for, next_due = a.next_due, last_for = a.scheduled_for, last_run = a.run_id,
    last_fired_at = ?1, fires = t.fires + 1
FROM asked a WHERE t.schedule_id = a.ref""",
    *("ref", "run_id", "scheduled_for", "next_for", "next_due"),
    also=1,
)
COUNT_BELIEVED_DELAYED = Batch(
    """
SELECT count(*) FROM asked a CROSS JOIN duly_delayed d
WHERE d.id = a.ref AND d.generation = a.generation AND d.due_at = a.due_at AND d.shard = a.shard""",
    *("ref", "generation", "due_at", "shard"),
)
MAKE_DELAYED_RUNS = Batch(
    """
INSERT OR ROLLBACK INTO duly_runs (id, tenant, schedule_id, definition_number, key, task, arguments,
    queue, priority, origin, lane, scheduled_for, not_before, created_at, fired_at)
SELECT d.id, d.tenant, d.schedule_id, d.definition_number, d.key, d.task, d.arguments, d.queue,
    d.priority, d.origin, d.lane, d.due_at, d.due_at, d.created_at, ?1
FROM asked a CROSS JOIN duly_delayed d WHERE d.id = a.ref""",
    "ref",
    also=1,
)
_BEHIND = " ".join(f"WHEN '{lane}' THEN {offset:d}" for lane, offset in LANE_OFFSETS.items())
QUEUE_DELAYED_RUNS = Batch(
    f"""
INSERT OR ROLLBACK INTO duly_ready (queue, priority, rank, run_id, fired_at, not_before)
SELECT d.queue, d.priority + CASE d.lane {_BEHIND} END, d.due_at, d.id, ?1, d.due_at
FROM asked a CROSS JOIN duly_delayed d WHERE d.id = a.ref""",  # noqa: S608 - numbers of ours
    "ref",
    also=1,
)
DELETE_TIMERS = Batch(
    """
DELETE FROM duly_timers WHERE (shard, due_at, ref) IN (SELECT shard, due_at, ref FROM asked)""",
    *("shard", "due_at", "ref"),
)
DELETE_DELAYED = Batch("DELETE FROM duly_delayed WHERE id IN (SELECT ref FROM asked)", "ref")


def fire_on_time(work: Work, fires: Sequence[FireSchedule]) -> list[bool]:
    """Fire schedules, each for one occurrence that is due; say which were as believed."""
    connection, now = work.connection, (work.now,)
    asked: list[Row] = []
    for fire in fires:
        timer, run = fire.timer, fire.plan.settlement.runs[0]
        believed = (timer.ref, timer.generation, timer.due_at, timer.shard)
        asked.append((*believed, run.scheduled_for, run.run_id))
    is_fired = _as_believed(work, COUNT_BELIEVED, asked)
    runs: list[Row] = []
    queued: list[Row] = []
    timers: list[Row] = []
    for fire, is_so in zip(fires, is_fired, strict=True):
        if is_so:
            plan, run = fire.plan, fire.plan.settlement.runs[0]
            assert plan.pending is not None, "what has no next instant is fired by itself"
            ids = (fire.timer.ref, run.run_id)
            runs.append((*ids, run.scheduled_for, run.not_before, run.origin, run.lane))
            queued.append((*ids, run.not_before, LANE_OFFSETS[run.lane]))
            timers.append(
                (*ids, run.scheduled_for, plan.pending.scheduled_for, plan.pending.due_at)
            )
    MAKE_RUNS.change(connection, runs, now)
    QUEUE_RUNS.change(connection, queued, now)
    ADVANCE_TIMERS.change(connection, timers, now)
    work.has_orders = work.has_orders or bool(runs)
    return is_fired


def fire_delayed(work: Work, timers: Sequence[Timer]) -> list[bool]:
    """Let delayed runs that are due become runs; say which were as believed."""
    connection, now = work.connection, (work.now,)
    asked = [(timer.ref, timer.generation, timer.due_at, timer.shard) for timer in timers]
    is_fired = _as_believed(work, COUNT_BELIEVED_DELAYED, asked)
    fired = [row for row, is_so in zip(asked, is_fired, strict=True) if is_so]
    refs = [row[:1] for row in fired]
    MAKE_DELAYED_RUNS.change(connection, refs, now)
    QUEUE_DELAYED_RUNS.change(connection, refs, now)
    DELETE_TIMERS.change(connection, [(shard, due_at, ref) for ref, _, due_at, shard in fired])
    DELETE_DELAYED.change(connection, refs)
    work.count_on("delayed", -len(fired))
    work.has_orders = work.has_orders or bool(fired)
    return is_fired


def _as_believed(work: Work, batch: Batch, asked: list[Row]) -> list[bool]:
    """Say for each whether it is among a few dozen that all are as believed."""
    found: list[bool] = []
    for (count,) in batch.find(work.connection, asked):
        size = min(ROWS_MAX, len(asked) - len(found))
        found += [count == size] * size
    return found
