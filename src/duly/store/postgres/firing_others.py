"""Firing whatever is not plain, timer by timer, in one short transaction.

Late plans, skips, what becomes owed, schedules that end, runs that exist already or that come to a
gate: all of it is decided here on rows that are locked. A row that somebody else holds is left to
him and called busy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.audit import AuditSubject, schedule_facts
from duly.domain.enums import Overlap, ScheduleStatus
from duly.domain.ids import ScheduleId
from duly.store.auditing import SYSTEM
from duly.store.gathering import ScheduleState, ground_from
from duly.store.ports.dispatch import FireResult
from duly.store.postgres import leases
from duly.store.postgres.arrays import Int4s, Int8s, OptionalInt8s, OptionalUuids, Uuids
from duly.store.postgres.gates import PostgresGates
from duly.store.postgres.planning import read_schedule
from duly.store.postgres.rows import IS_GATED, LAG_US, NOBODY, RANKED, SHARE, WENT_AHEAD
from duly.store.postgres.session import uid
from duly.store.postgres.settlements import Settlements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.ids import RunId
    from duly.domain.schedules import ScheduleRecord
    from duly.store.ports.dispatch import FireSchedule, Timer
    from duly.store.postgres.connection import Connections
    from duly.store.postgres.fire_batch import Batch
    from duly.store.postgres.work import Work

_BELIEVED = """
FROM unnest($1::uuid[], $2::int4[], $3::int8[], $4::int4[]) WITH ORDINALITY
    u(ref, version, due, shard, place)
JOIN duly.schedule_state s
    ON s.schedule_id = u.ref AND s.version = u.version AND s.next_due = u.due
    AND s.shard = u.shard"""
LOCK_BELIEVED = f"""
SELECT u.place, uuid_send(s.schedule_id), s.tenant, s.shard, s.definition_number, s.task, s.queue,
    s.priority, s.last_for, uuid_send(s.last_run), s.last_fired_at, s.fires,
    coalesce(s.overlap, 'allow'), s.gate, uuid_send({WENT_AHEAD.format("s.")}),
    coalesce(s.overlap_count, 0) {_BELIEVED}
ORDER BY s.schedule_id FOR UPDATE OF s SKIP LOCKED"""
STILL_BELIEVED = f"SELECT u.place {_BELIEVED}"
_BELIEVED_DELAYED = """
FROM unnest($1::uuid[], $2::int4[], $3::int8[], $4::int4[]) WITH ORDINALITY
    u(ref, generation, due, shard, place)
JOIN duly.delayed d
    ON d.id = u.ref AND d.generation = u.generation AND d.due_at = u.due AND d.shard = u.shard"""
LOCK_BELIEVED_DELAYED = (
    f"SELECT u.place {_BELIEVED_DELAYED} ORDER BY d.id FOR UPDATE OF d SKIP LOCKED"
)
STILL_BELIEVED_DELAYED = f"SELECT u.place {_BELIEVED_DELAYED}"
_BELIEVED_RETRIES = """
FROM unnest($1::uuid[], $2::int4[], $3::int8[], $4::int4[]) WITH ORDINALITY
    u(ref, fence, due, shard, place)
JOIN duly.waiting w
    ON w.run_id = u.ref AND w.fence = u.fence AND w.due_at = u.due AND w.shard = u.shard"""
LOCK_BELIEVED_RETRIES = (
    f"SELECT u.place {_BELIEVED_RETRIES} ORDER BY w.run_id FOR UPDATE OF w SKIP LOCKED"
)
STILL_BELIEVED_RETRIES = f"SELECT u.place {_BELIEVED_RETRIES}"
ADVANCE = f"""
UPDATE duly.schedule_state s
SET next_for = u.next_for, next_due = u.next_due,
    load_at = CASE WHEN u.next_due - s.load_at BETWEEN 0 AND {LAG_US} THEN s.load_at
        ELSE u.next_due END,
    last_for = u.last_for, last_run = u.last_run, last_fired_at = u.last_fired_at, fires = u.fires,
    active_run = coalesce(u.active_run, {NOBODY}), overlap_count = nullif(u.overlap_count, 0)
FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::int8[], $5::uuid[], $6::int8[],
    $7::int8[], $8::uuid[], $9::int8[])
    u(id, next_for, next_due, last_for, last_run, last_fired_at, fires, active_run, overlap_count)
WHERE s.schedule_id = u.id"""  # noqa: S608 - a number of ours
END_STATE = "UPDATE duly.schedule_state SET version = version + 1 WHERE schedule_id = $1::uuid"
END_SCHEDULE = """
UPDATE duly.schedules SET status = 'ended', reason = $2, updated_at = $3::int8, updated_by = $4
WHERE id = $1::uuid"""
# A run that exists is left alone, here as everywhere: one that can't be made must not be in the way
# of all others.
MAKE_RUNS_OF_DELAYED = f"""
WITH fired AS (DELETE FROM duly.delayed WHERE id = ANY($1::uuid[]) RETURNING *),
made AS (
    INSERT INTO duly.runs (id, scheduled_for, not_before, created_at, fired_at, schedule_id,
        definition_number, priority, tenant, task, queue, origin, lane, key, arguments)
    SELECT id, due_at, due_at, created_at, $2::int8, schedule_id, definition_number, priority,
        tenant, task, queue, origin, lane, key, arguments FROM fired
    ON CONFLICT (id) DO NOTHING RETURNING id),
queued AS (
    INSERT INTO duly.ready (rank, fired_at, not_before, run_id, priority, era, queue, tenant)
    SELECT due_at, $2::int8, due_at, id, {RANKED},
        (SELECT era FROM duly.cluster WHERE id = 1), queue, {SHARE}
    FROM fired WHERE id IN (SELECT id FROM made))
SELECT count(*) FROM made"""  # noqa: S608 - an expression of ours

QUEUE_RETRIES = f"""
WITH fired AS (DELETE FROM duly.waiting WHERE run_id = ANY($1::uuid[]) RETURNING *)
INSERT INTO duly.ready (rank, fired_at, not_before, run_id, priority, era, queue, fence, attempt,
    charged, begun_at, is_gated, tenant)
SELECT f.due_at, $2::int8, f.due_at, f.run_id, r.ranked,
    (SELECT era FROM duly.cluster WHERE id = 1), r.queue, f.fence, f.attempt, f.charged, f.begun_at,
    {IS_GATED.format("f.run_id")}, r.share
FROM fired f CROSS JOIN LATERAL (
    SELECT queue, {RANKED} AS ranked, {SHARE} AS share FROM duly.runs
    WHERE id = f.run_id OFFSET 0) r"""  # noqa: S608 - expressions of ours


def fire(connections: Connections, batch: Batch) -> None:
    """Settle everything in a batch that has no result yet."""
    with connections.write(for_dispatch=True) as work:
        held, _ = leases.lock_fence(work, batch.command.fence)
        schedules = batch.open_schedules()
        delayed, retries = batch.open_delayed(), batch.open_retries()
        # Whoever waited for a row would hold up all the others: locked ones are passed over.
        grounds = _locked(work, [one.timer for _, one in schedules])
        gates = _locked_gates(work, schedules, grounds)
        unlocked = _locked_runs(work, delayed, LOCK_BELIEVED_DELAYED)
        unlocked_retries = _locked_runs(work, retries, LOCK_BELIEVED_RETRIES)
        now = work.look_at_the_clock()
        ours = [lease for lease in batch.command.fence.leases if lease.key in held]
        batch.hear(now, [leases.packed(lease) for lease in ours])
        _fire_schedules(batch, schedules, grounds, Settlements(work, gates))
        _fire_delayed(work, batch, delayed, unlocked)
        _fire_retries(work, batch, retries, unlocked_retries)


def _locked_gates(
    work: Work, schedules: Sequence[tuple[int, FireSchedule]], grounds: dict[int, ScheduleState]
) -> PostgresGates:
    """Lock the gates that runs will come to; forget the grounds of those that somebody holds."""
    gates = PostgresGates(work)
    coming: list[RunId] = []
    for number, ground in grounds.items():
        if ground.overlap is not Overlap.ALLOW:
            runs = schedules[number][1].plan.settlement.runs
            coming += [run.run_id for run in runs]
    if not coming:
        return gates
    locked = gates.lock_all({one.gate for one in grounds.values() if one.gate}, only_free=True)
    for number, ground in [*grounds.items()]:
        if ground.gate is not None and ground.gate not in locked:
            del grounds[number]
    gates.foresee(coming, [ground.active_run for ground in grounds.values()])
    return gates


def _fire_schedules(
    batch: Batch,
    schedules: Sequence[tuple[int, FireSchedule]],
    grounds: dict[int, ScheduleState],
    settlements: Settlements,
) -> None:
    work = settlements.work
    fired: list[tuple[FireSchedule, ScheduleState]] = []
    missing: list[int] = []
    for number, (place, one) in enumerate(schedules):
        if batch.results[place] is FireResult.FENCED:
            continue
        ground = grounds.get(number)
        if ground is None:
            missing.append(place)
            continue
        batch.judge(place, one.late_after)
        if batch.results[place] is not None:
            continue
        if any(run.not_before > work.now for run in one.plan.settlement.runs):
            batch.results[place] = FireResult.EARLY
            continue
        batch.results[place] = FireResult.FIRED
        settlements.add(ground, one.plan.settlement)
        fired.append((one, ground))
    ending = [one for one, _ in fired if one.plan.pending is None]
    before = [_read(work, one) for one in ending]
    batch.runs_made += settlements.write()
    _advance(work, fired)
    for one, record in zip(ending, before, strict=True):
        _end(work, one, record)
    _tell_busy(work, batch, missing, STILL_BELIEVED)


def _fire_delayed(
    work: Work, batch: Batch, delayed: Sequence[tuple[int, Timer]], unlocked: set[int]
) -> None:
    refs, missing = _due(batch, delayed, unlocked)
    if refs:
        ((made,),) = work.session.rows(MAKE_RUNS_OF_DELAYED, (Uuids(refs), work.now))
        work.count_on("delayed", -len(refs))
        batch.runs_made += made
    _tell_busy(work, batch, missing, STILL_BELIEVED_DELAYED)


def _fire_retries(
    work: Work, batch: Batch, retries: Sequence[tuple[int, Timer]], unlocked: set[int]
) -> None:
    refs, missing = _due(batch, retries, unlocked)
    if refs:
        work.session.run(QUEUE_RETRIES, (Uuids(refs), work.now))
        batch.has_queued = True
    _tell_busy(work, batch, missing, STILL_BELIEVED_RETRIES)


def _due(
    batch: Batch, timers: Sequence[tuple[int, Timer]], unlocked: set[int]
) -> tuple[list[bytes], list[int]]:
    """Judge timers of single runs; return what fires, and the places of what is not ours."""
    refs: list[bytes] = []
    missing: list[int] = []
    for number, (place, timer) in enumerate(timers):
        if batch.results[place] is FireResult.FENCED:
            continue
        if number not in unlocked:
            missing.append(place)
            continue
        batch.judge(place, None)
        if batch.results[place] is None:
            batch.results[place] = FireResult.FIRED
            refs.append(timer.ref)
    return refs, missing


def _locked(work: Work, timers: Sequence[Timer]) -> dict[int, ScheduleState]:
    """Lock what is as believed and nobody else holds; by the place in the list."""
    if not timers:
        return {}
    rows = work.session.rows(LOCK_BELIEVED, believed_values(timers))
    return {place - 1: ground_from(state) for place, *state in rows}


def _locked_runs(work: Work, timers: Sequence[tuple[int, Timer]], statement: str) -> set[int]:
    if not timers:
        return set()
    rows = work.session.rows(statement, believed_values([timer for _, timer in timers]))
    return {place - 1 for (place,) in rows}


def _tell_busy(work: Work, batch: Batch, missing: Sequence[int], statement: str) -> None:
    """Tell those that somebody holds from those that are gone: a held one is still there."""
    if not missing:
        return
    rows = work.session.rows(statement, believed_values([batch.timers[one] for one in missing]))
    there = {number - 1 for (number,) in rows}
    for number, place in enumerate(missing):
        batch.results[place] = FireResult.BUSY if number in there else FireResult.GONE


def believed_values(timers: Sequence[Timer]) -> tuple[object, ...]:
    """Return what is believed about timers, as the statements take it."""
    return (
        Uuids([timer.ref for timer in timers]),
        Int4s([timer.generation for timer in timers]),
        Int8s([timer.due_at for timer in timers]),
        Int4s([timer.shard for timer in timers]),
    )


def _advance(work: Work, fired: Sequence[tuple[FireSchedule, ScheduleState]]) -> None:
    if not fired:
        return
    following = [one.plan.pending for one, _ in fired]
    grounds = [ground for _, ground in fired]
    values = (
        Uuids([ground.schedule_id for ground in grounds]),
        OptionalInt8s([None if one is None else one.scheduled_for for one in following]),
        OptionalInt8s([None if one is None else one.due_at for one in following]),
        OptionalInt8s([ground.last_for for ground in grounds]),
        OptionalUuids([ground.last_run for ground in grounds]),
        OptionalInt8s([ground.last_fired_at for ground in grounds]),
        Int8s([ground.fires for ground in grounds]),
        OptionalUuids([ground.active_run for ground in grounds]),
        Int8s([ground.overlaps for ground in grounds]),
    )
    work.session.run(ADVANCE, values)


def _read(work: Work, fire: FireSchedule) -> ScheduleRecord:
    record = read_schedule(work.session, ScheduleId(fire.timer.ref))
    assert record is not None, "its state was read a moment ago"
    return record


def _end(work: Work, fire: FireSchedule, before: ScheduleRecord) -> None:
    """End a schedule that has no next instant; the reason stays with it."""
    values = (uid(before.id), fire.plan.end_reason, work.now, SYSTEM.name)
    work.session.run(END_SCHEDULE, values)
    work.session.run(END_STATE, (uid(before.id),))
    work.count_on(ScheduleStatus.ACTIVE, -1)
    work.count_on(ScheduleStatus.ENDED, 1)
    subject = AuditSubject(
        name=before.name,
        tenant=before.tenant,
        id=before.id,
        before=schedule_facts(before),
        after=schedule_facts(_read(work, fire)),
    )
    work.record(SYSTEM, "schedule.ended", subject)
