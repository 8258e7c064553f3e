"""Firing a batch of timers: runs made, queued, timers advanced, in one transaction under a fence.

What is believed is read under the write lock, so that the comparison holds until the commit; then
everything is written in a few statements that are each run many times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.enums import Lane, ScheduleStatus
from duly.domain.ids import ScheduleId
from duly.store.auditing import SYSTEM, changed_subject
from duly.store.gates import NOBODY
from duly.store.gathering import LANE_OFFSETS, ScheduleState, ground_from, share_of
from duly.store.ports.dispatch import (
    Fired,
    FireOnTime,
    FireResult,
    FireRetry,
    FireSchedule,
    FireTimers,
    as_plain,
)
from duly.store.sqlite.firing_many import fire_delayed, fire_on_time
from duly.store.sqlite.leases import held_shards
from duly.store.sqlite.planning import read_schedule
from duly.store.sqlite.settlements import INSERT_READY_AGAIN, Settlements

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duly.domain.schedules import ScheduleRecord
    from duly.store.ports.dispatch import Timer
    from duly.store.sqlite.work import Work

# The first column is the place in the batch: what is missing from the answer is gone.
READ_BELIEVED = """
SELECT ?1, schedule_id, tenant, shard, definition_number, task, queue, priority, last_for, last_run,
    last_fired_at, fires, overlap, gate, nullif(coalesce(active_run, last_run), x''),
    overlaps
FROM duly_schedule_state
WHERE schedule_id = ?2 AND version = ?3 AND next_due = ?4 AND shard = ?5"""
IS_BELIEVED_DELAYED = """
SELECT 1 FROM duly_delayed WHERE id = ? AND generation = ? AND due_at = ? AND shard = ?"""
ADVANCE = """
UPDATE duly_schedule_state
SET next_for = ?, next_due = ?, last_for = ?, last_run = ?, last_fired_at = ?, fires = ?,
    active_run = ?, overlaps = ?
WHERE schedule_id = ?"""
END_STATE = "UPDATE duly_schedule_state SET version = version + 1 WHERE schedule_id = ?"
END_SCHEDULE = """
UPDATE duly_schedules SET status = 'ended', reason = ?, updated_at = ?, updated_by = ?
WHERE id = ?"""
READ_BELIEVED_RETRY = """
SELECT ?1, r.queue, r.priority, r.lane, r.tenant, w.fence, w.attempt, w.charged, w.begun_at
FROM duly_waiting w JOIN duly_runs r ON r.id = w.run_id
WHERE w.run_id = ?2 AND w.fence = ?3 AND w.due_at = ?4 AND w.shard = ?5"""
DELETE_FIRED_RETRY = "DELETE FROM duly_waiting WHERE run_id = ?"

Believed = tuple[int, bytes, int, int, int]
"""A timer's place in the batch, and what is to be compared: id, generation, due, shard."""


class Batch:
    """A batch to be fired, looked through before anybody waits for the lock."""

    def __init__(self, command: FireTimers) -> None:
        self.command = command
        self.on_time = [as_plain(fire) for fire in command.schedules]
        """Those that only make a run, on time."""
        if len({_ref(fire) for fire in command.schedules}) < len(command.schedules):
            # Two that speak of one schedule are compared with the same state of it.
            self.on_time = [None] * len(command.schedules)
        self.delayed: list[Timer] = [fire.timer for fire in command.delayed]
        self.is_delayed_once = len({timer.ref for timer in self.delayed}) == len(self.delayed)


def fire_timers(work: Work, batch: Batch, *, is_careful: bool = False) -> Fired:
    """Fire a batch; each timer has its own result.

    Raises `NotAsBelievedError` when it was told to go without care, and should not have been.
    """
    held, lost = held_shards(work, batch.command.fence, Lane.LIVE)
    results, made = _fire_schedules(work, batch, held, is_careful=is_careful)
    more, made_later = _fire_delayed(work, batch, held, is_careful=is_careful)
    again = _fire_retries(work, batch.command.retries, held)
    return Fired(work.now, (*results, *more, *again), made + made_later, tuple(lost))


def _fire_schedules(
    work: Work, batch: Batch, held: set[int], *, is_careful: bool
) -> tuple[list[FireResult], int]:
    """Fire together what is on time, and one by one what is then left."""
    fires = batch.command.schedules
    together = {
        place: plain
        for place, plain in enumerate(batch.on_time)
        if plain is not None and plain.shard in held
    }
    are_fired = fire_on_time(work, list(together.values()), is_careful=is_careful)
    left = _left(len(fires), together, are_fired)
    results, made = _fire_each(work, [fires[place] for place in left], held)
    return _answers(len(fires), left, results), sum(are_fired) + made


def _fire_delayed(
    work: Work, batch: Batch, held: set[int], *, is_careful: bool
) -> tuple[list[FireResult], int]:
    """Fire together what is as believed, and one by one what is then left."""
    timers = batch.delayed
    together: dict[int, Timer] = {}
    if batch.is_delayed_once:
        together = {place: timer for place, timer in enumerate(timers) if timer.shard in held}
    are_fired = fire_delayed(work, list(together.values()), is_careful=is_careful)
    left = _left(len(timers), together, are_fired)
    results, made = _fire_each_delayed(work, [timers[place] for place in left], held)
    return _answers(len(timers), left, results), sum(are_fired) + made


def _ref(fire: FireSchedule) -> bytes:
    return fire.ref if isinstance(fire, FireOnTime) else fire.timer.ref


def _left(count: int, together: Iterable[int], are_fired: list[bool]) -> list[int]:
    """Return the places of a batch that were not fired together with others."""
    fired = {place for place, is_fired in zip(together, are_fired, strict=True) if is_fired}
    return [place for place in range(count) if place not in fired] if len(fired) < count else []


def _answers(count: int, left: list[int], results: list[FireResult]) -> list[FireResult]:
    """Return the results of a batch: what was not left has fired."""
    answers = [FireResult.FIRED] * count
    for place, result in zip(left, results, strict=True):
        answers[place] = result
    return answers


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


def _fire_each(
    work: Work, fires: Sequence[FireSchedule], held: set[int]
) -> tuple[list[FireResult], int]:
    """Fire what does more than make a run, or is not as believed."""
    if not fires:
        return [], 0
    results, bindings = _believed([fire.timer for fire in fires], held)
    settlements = Settlements(work)
    fired: list[tuple[FireSchedule, ScheduleState]] = []
    for place, *state in work.connection.executemany(READ_BELIEVED, bindings):
        fire = fires[place]
        results[place] = _judge(fire, work.now)
        if results[place] is FireResult.FIRED:
            ground = ground_from(state)
            settlements.add(ground, fire.plan.settlement)
            fired.append((fire, ground))
    ending = [fire for fire, _ in fired if fire.plan.pending is None]
    before = [_read(work, fire) for fire in ending]
    made = settlements.write()
    work.connection.executemany(ADVANCE, [_advanced(fire, ground) for fire, ground in fired])
    for fire, record in zip(ending, before, strict=True):
        _end(work, fire, record)
    return results, made


def _judge(fire: FireSchedule, now: int) -> FireResult:
    if fire.timer.due_at > now:
        return FireResult.EARLY
    if fire.late_after is not None and now > fire.late_after:
        return FireResult.LATE
    for run in fire.plan.settlement.runs:
        if run.not_before > now:
            return FireResult.EARLY
    return FireResult.FIRED


def _advanced(fire: FireSchedule, ground: ScheduleState) -> tuple[object, ...]:
    pending = fire.plan.pending
    return (
        None if pending is None else pending.scheduled_for,
        None if pending is None else pending.due_at,
        ground.last_for,
        ground.last_run,
        ground.last_fired_at,
        ground.fires,
        ground.active_run or NOBODY,
        ground.overlaps,
        ground.schedule_id,
    )


def _read(work: Work, fire: FireSchedule) -> ScheduleRecord:
    record = read_schedule(work.connection, ScheduleId(fire.timer.ref))
    assert record is not None, "its state was read a moment ago"
    return record


def _end(work: Work, fire: FireSchedule, before: ScheduleRecord) -> None:
    """End a schedule that has no next instant; the reason stays with it."""
    row = (fire.plan.end_reason, work.now, SYSTEM.name, before.id)
    work.connection.execute(END_SCHEDULE, row)
    work.connection.execute(END_STATE, (before.id,))
    work.count_on(ScheduleStatus.ACTIVE, -1)
    work.count_on(ScheduleStatus.ENDED, 1)
    work.record(SYSTEM, "schedule.ended", changed_subject(before, _read(work, fire)))


def _fire_each_delayed(
    work: Work, timers: Sequence[Timer], held: set[int]
) -> tuple[list[FireResult], int]:
    results, bindings = _believed(timers, held)
    for place, *believed in bindings:
        if work.connection.execute(IS_BELIEVED_DELAYED, believed).fetchone() is not None:
            (is_due,) = fire_delayed(work, [timers[place]], is_careful=True)
            results[place] = FireResult.FIRED if is_due else FireResult.EARLY
    return results, results.count(FireResult.FIRED)


def _fire_retries(work: Work, fires: Sequence[FireRetry], held: set[int]) -> list[FireResult]:
    """Queue runs again whose next attempt is due, each with its tries."""
    timers = [fire.timer for fire in fires]
    results, bindings = _believed(timers, held)
    ready: list[tuple[object, ...]] = []
    for place, *row in work.connection.executemany(READ_BELIEVED_RETRY, bindings):
        timer = timers[place]
        results[place] = FireResult.EARLY if timer.due_at > work.now else FireResult.FIRED
        if results[place] is FireResult.FIRED:
            queue, priority, lane, tenant, *tries = row
            line = (queue, priority + LANE_OFFSETS[Lane(lane)], share_of(tenant))
            ready.append((*line, timer.due_at, timer.ref, work.now, timer.due_at, *tries))
    if ready:
        work.connection.executemany(INSERT_READY_AGAIN, ready)
        work.connection.executemany(DELETE_FIRED_RETRY, [(row[4],) for row in ready])
        work.count_on("retrying", -len(ready))
        work.has_orders = True
    return results
