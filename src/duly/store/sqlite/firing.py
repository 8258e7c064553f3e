"""Firing a batch of timers: runs made, queued, timers advanced, in one transaction under a fence.

What is believed is read under the write lock, so that the comparison holds until the commit; then
everything is written in a few statements that are each run many times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.identity import ScheduleId
from duly.domain.literals import Lane, ScheduleStatus
from duly.store.auditing import SYSTEM, changed_subject
from duly.store.dispatch import (
    Fired,
    FireDelayed,
    FireResult,
    FireRetry,
    FireSchedule,
    FireTimers,
)
from duly.store.gathering import LANE_OFFSETS, Ground
from duly.store.sqlite.firing_many import fire_delayed, fire_on_time
from duly.store.sqlite.leases import held_shards
from duly.store.sqlite.planning import read_schedule
from duly.store.sqlite.settlements import INSERT_READY_AGAIN, Settlements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.schedules import ScheduleRecord
    from duly.store.dispatch import Timer
    from duly.store.sqlite.work import Work

# The first column is the place in the batch: what is missing from the answer is gone.
READ_BELIEVED = """
SELECT ?1, schedule_id, tenant, shard, definition_number, task, queue, priority, last_for, last_run,
    last_fired_at, fires
FROM duly_schedule_state
WHERE schedule_id = ?2 AND version = ?3 AND next_due = ?4 AND shard = ?5"""
IS_BELIEVED_DELAYED = """
SELECT 1 FROM duly_delayed WHERE id = ? AND generation = ? AND due_at = ? AND shard = ?"""
ADVANCE = """
UPDATE duly_schedule_state
SET next_for = ?, next_due = ?, last_for = ?, last_run = ?, last_fired_at = ?, fires = ?
WHERE schedule_id = ?"""
END_STATE = "UPDATE duly_schedule_state SET version = version + 1 WHERE schedule_id = ?"
END_SCHEDULE = """
UPDATE duly_schedules SET status = 'ended', reason = ?, updated_at = ?, updated_by = ?
WHERE id = ?"""
READ_BELIEVED_RETRY = """
SELECT ?1, r.queue, r.priority, r.lane, w.fence, w.attempt, w.charged, w.begun_at
FROM duly_waiting w JOIN duly_runs r ON r.id = w.run_id
WHERE w.run_id = ?2 AND w.fence = ?3 AND w.due_at = ?4 AND w.shard = ?5"""
DELETE_FIRED_RETRY = "DELETE FROM duly_waiting WHERE run_id = ?"

Believed = tuple[int, bytes, int, int, int]
"""A timer's place in the batch, and what is to be compared: id, generation, due, shard."""


def fire_timers(work: Work, command: FireTimers) -> Fired:
    """Fire a batch; each timer has its own result."""
    held, lost = held_shards(work, command.fence, Lane.LIVE)
    results, made = _fire_schedules(work, command.schedules, held)
    more, made_later = _fire_delayed(work, command.delayed, held)
    again = _fire_retries(work, command.retries, held)
    return Fired(work.now, (*results, *more, *again), made + made_later, tuple(lost))


def _believed(timers: Sequence[Timer], held: set[int]) -> tuple[list[FireResult], list[Believed]]:
    """Return the results to begin with, and what is to be compared with the store."""
    results = [FireResult.GONE] * len(timers)
    bindings: list[Believed] = []
    seen: set[tuple[bytes, int, int]] = set()
    for place, timer in enumerate(timers):
        if timer.shard not in held:
            results[place] = FireResult.FENCED
        elif (timer.ref, timer.generation, timer.due_at) not in seen:
            # Told twice in one batch, a timer is gone the second time.
            seen.add((timer.ref, timer.generation, timer.due_at))
            bindings.append((place, timer.ref, timer.generation, timer.due_at, timer.shard))
    return results, bindings


def _fire_schedules(
    work: Work, fires: Sequence[FireSchedule], held: set[int]
) -> tuple[list[FireResult], int]:
    results, bindings = _believed([fire.timer for fire in fires], held)
    plain = [row[0] for row in bindings if _is_plain(fires[row[0]], work.now)]
    if len({fires[place].timer.ref for place in plain}) < len(plain):
        plain = []  # two that speak of one schedule are compared with the same state of it
    are_fired = fire_on_time(work, [fires[place] for place in plain])
    made = sum(are_fired)
    for place, is_fired in zip(plain, are_fired, strict=True):
        if is_fired:
            results[place] = FireResult.FIRED
    others = [row for row in bindings if results[row[0]] is not FireResult.FIRED]
    if others:
        made += _fire_others(work, fires, others, results)
    return results, made


def _is_plain(fire: FireSchedule, now: int) -> bool:
    """Say whether firing makes one run and no more, and the schedule goes on."""
    settlement = fire.plan.settlement
    return (
        len(settlement.runs) == 1
        and not settlement.skips
        and settlement.owed is None
        and fire.plan.pending is not None
        and _judge(fire, now) is FireResult.FIRED
    )


def _fire_others(
    work: Work,
    fires: Sequence[FireSchedule],
    bindings: list[Believed],
    results: list[FireResult],
) -> int:
    """Fire one by one what is not plain, or not as believed; return how many runs were made."""
    settlements = Settlements(work)
    fired: list[tuple[FireSchedule, Ground]] = []
    for place, *state in work.connection.executemany(READ_BELIEVED, bindings):
        fire = fires[place]
        results[place] = _judge(fire, work.now)
        if results[place] is FireResult.FIRED:
            ground = Ground(state[0], state[1], *state[2:])
            settlements.add(ground, fire.plan.settlement)
            fired.append((fire, ground))
    ending = [fire for fire, _ in fired if fire.plan.pending is None]
    before = [_read(work, fire) for fire in ending]
    made = settlements.write()
    work.connection.executemany(ADVANCE, [_advanced(fire, ground) for fire, ground in fired])
    for fire, record in zip(ending, before, strict=True):
        _end(work, fire, record)
    return made


def _judge(fire: FireSchedule, now: int) -> FireResult:
    if fire.timer.due_at > now:
        return FireResult.EARLY
    if fire.late_after is not None and now > fire.late_after:
        return FireResult.LATE
    for run in fire.plan.settlement.runs:
        if run.not_before > now:
            return FireResult.EARLY
    return FireResult.FIRED


def _advanced(fire: FireSchedule, ground: Ground) -> tuple[object, ...]:
    pending = fire.plan.pending
    return (
        None if pending is None else pending.scheduled_for,
        None if pending is None else pending.due_at,
        ground.last_for,
        ground.last_run,
        ground.last_fired_at,
        ground.fires,
        ground.schedule_id,
    )


def _read(work: Work, fire: FireSchedule) -> ScheduleRecord:
    record = read_schedule(work.connection, ScheduleId(fire.timer.ref))
    assert record is not None, "its state was read a moment ago"
    return record


def _end(work: Work, fire: FireSchedule, before: ScheduleRecord) -> None:
    """End a schedule that has no next instant; the reason stays with it (T7)."""
    row = (fire.plan.end_reason, work.now, SYSTEM.name, before.id)
    work.connection.execute(END_SCHEDULE, row)
    work.connection.execute(END_STATE, (before.id,))
    work.count_on(ScheduleStatus.ACTIVE, -1)
    work.count_on(ScheduleStatus.ENDED, 1)
    work.record(SYSTEM, "schedule.ended", changed_subject(before, _read(work, fire)))


def _fire_delayed(
    work: Work, fires: Sequence[FireDelayed], held: set[int]
) -> tuple[list[FireResult], int]:
    timers = [fire.timer for fire in fires]
    results, bindings = _believed(timers, held)
    due = [row[0] for row in bindings if timers[row[0]].due_at <= work.now]
    if len({timers[place].ref for place in due}) == len(due):
        are_fired = fire_delayed(work, [timers[place] for place in due])
        for place, is_fired in zip(due, are_fired, strict=True):
            if is_fired:
                results[place] = FireResult.FIRED
    for place, *believed in bindings:
        if results[place] is not FireResult.FIRED:
            results[place] = _fire_one_delayed(work, timers[place], believed)
    return results, results.count(FireResult.FIRED)


def _fire_one_delayed(work: Work, timer: Timer, believed: list[object]) -> FireResult:
    if work.connection.execute(IS_BELIEVED_DELAYED, believed).fetchone() is None:
        return FireResult.GONE
    if timer.due_at > work.now:
        return FireResult.EARLY
    fire_delayed(work, [timer])
    return FireResult.FIRED


def _fire_retries(work: Work, fires: Sequence[FireRetry], held: set[int]) -> list[FireResult]:
    """Queue runs again whose next attempt is due, each with its tries."""
    timers = [fire.timer for fire in fires]
    results, bindings = _believed(timers, held)
    ready: list[tuple[object, ...]] = []
    for place, *row in work.connection.executemany(READ_BELIEVED_RETRY, bindings):
        timer = timers[place]
        results[place] = FireResult.EARLY if timer.due_at > work.now else FireResult.FIRED
        if results[place] is FireResult.FIRED:
            queue, priority, lane, *tries = row
            rank = priority + LANE_OFFSETS[Lane(lane)]
            place_in_queue = (queue, rank, timer.due_at, timer.ref)
            ready.append((*place_in_queue, work.now, timer.due_at, *tries))
    if ready:
        work.connection.executemany(INSERT_READY_AGAIN, ready)
        work.connection.executemany(DELETE_FIRED_RETRY, [(row[3],) for row in ready])
        work.count_on("retrying", -len(ready))
        work.has_orders = True
    return results
