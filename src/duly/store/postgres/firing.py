"""Firing: plain timers by one statement each kind, all others in a short transaction.

A plain fire makes one run on time and puts the schedule to its next instant; a delayed run becomes
a run; one that waited for another attempt is queued again. For these one statement locks the fence,
reads the clock, compares, advances, makes the runs and queues them: nothing is held while a network
is waited for. What such a statement leaves untouched, because it is late, ends its schedule, was
made before, may find an earlier run in its way or is locked by somebody, is looked at row by row in
a transaction, which takes what nobody holds and says BUSY for the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from psycopg import errors
from psycopg.types.numeric import Int8

from duly.store.ports.dispatch import (
    Fired,
    FireOnTime,
    FireResult,
    FireTimers,
    MemberKind,
    as_plain,
)
from duly.store.postgres import firing_others, leases
from duly.store.postgres.arrays import Int4s, Int8s, Uuids
from duly.store.postgres.fire_batch import Batch
from duly.store.postgres.rows import IS_GATED, LAG_US, RANKED, SHARE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duly.store.ports.dispatch import Timer
    from duly.store.postgres.connection import Connections
    from duly.store.records import Row

# The member's row is held first, and only then is the clock looked at: what is waited for here is
# waited for briefly, and not for ever. Who has lost one of its leases fires nothing by this.
_FENCE = """
WITH n AS MATERIALIZED (
    SELECT c.now FROM (
        SELECT f.*, duly.now_us() AS now FROM (
            SELECT m.renewed_at, m.expires_at FROM duly.members m
            WHERE m.id = $1::int8 AND m.ended_at IS NULL AND m.held @> $2::int8[]
                AND (SELECT set_config('lock_timeout', '100ms', true)) IS NOT NULL
            FOR KEY SHARE OF m) f) c
    WHERE c.now < c.expires_at AND c.renewed_at - c.now <= c.expires_at - c.renewed_at)"""

# What is told of a schedule stands at its place in each array: to unnest all of them, and put rows
# together from that, took a sixth of a fire.
_VERSION, _DUE, _FOR, _SHARD, LATE_AFTER, _RUN, _NEXT_FOR, _NEXT_DUE = (
    f"(${number}::{kind}[])[u.place]"
    for number, kind in enumerate(
        ("int4", "int8", "int8", "int4", "int8", "uuid", "int8", "int8"), 4
    )
)
# That the last one is over stays so, whenever it is looked for; if it may be open, others see.
# Not EXISTS: for that the server would rather read all outcomes, as long as they are few.
_WENT_AHEAD = "coalesce(s.active_run, s.last_run)"
_IS_ALONE = f"""({_WENT_AHEAD} IS NULL OR (
            SELECT o.run_id FROM duly.outcomes o WHERE o.run_id = {_WENT_AHEAD}) IS NOT NULL)"""  # noqa: S608
# A run that is there already, which is rare, is not looked for: its key refuses it, and all of the
# batch is looked at one by one.
FIRE_SCHEDULES = f"""{_FENCE},
fired AS (
    UPDATE duly.schedule_state s
    SET next_for = {_NEXT_FOR}, next_due = {_NEXT_DUE},
        load_at = CASE WHEN {_NEXT_DUE} - s.load_at BETWEEN 0 AND {LAG_US} THEN s.load_at
            ELSE {_NEXT_DUE} END,
        before_last = s.last_for, last_for = {_FOR}, last_run = {_RUN}, last_fired_at = n.now,
        fires = s.fires + 1, active_run = NULL
    FROM n CROSS JOIN pg_catalog.unnest($3::uuid[]) WITH ORDINALITY u(ref, place)
    WHERE s.schedule_id = u.ref AND s.version = {_VERSION} AND s.next_due = {_DUE}
        AND s.shard = {_SHARD} AND {_DUE} <= n.now AND n.now <= {LATE_AFTER}
        AND (s.last_for IS NULL OR s.last_for < {_FOR})
        AND (s.overlap IS NULL OR (s.overlap = 'skip' AND {_IS_ALONE}))
    RETURNING s.schedule_id, s.definition_number, s.priority, s.tenant, s.task, s.queue, s.name,
        s.arguments, s.before_last, {_RUN} AS run_id, {_FOR} AS scheduled_for, {_DUE} AS due,
        u.place, n.now),
made AS (
    INSERT INTO duly.runs (id, scheduled_for, not_before, window_from, created_at, fired_at,
        schedule_id, definition_number, priority, tenant, task, queue, origin, lane)
    SELECT run_id, scheduled_for, due, before_last, now, now, schedule_id, definition_number,
        priority, tenant, task, queue, 'schedule', 'live' FROM fired),
queued AS (
    INSERT INTO duly.ready (rank, fired_at, not_before, run_id, priority, era, queue, schedule_name,
        arguments, tenant)
    SELECT due, now, due, run_id, priority, (SELECT era FROM duly.cluster WHERE id = 1), queue,
        name, arguments, {SHARE}
    FROM fired)
SELECT (SELECT now FROM n), count(*),
    CASE WHEN count(*) <> pg_catalog.cardinality($3::uuid[]) THEN pg_catalog.array_agg(place) END
FROM fired"""  # noqa: S608 - a part of ours

# What is believed of a timer is found by the place of its run's id: the ids are in order. Who has
# waited for a row to be moved compares all of it once more, and does not fire it where it has gone.
PLACE = "pg_catalog.width_bucket({}, $3::uuid[])"
MADE_OF_DELAYED = f"""
fired AS (
    DELETE FROM duly.delayed d
    WHERE d.id = ANY($3::uuid[]) AND d.due_at <= (SELECT now FROM n)
        AND d.generation = ($4::int4[])[{PLACE.format("d.id")}]
        AND d.due_at = ($5::int8[])[{PLACE.format("d.id")}]
        AND d.shard = ($6::int4[])[{PLACE.format("d.id")}]
    RETURNING d.*),
made AS (
    INSERT INTO duly.runs (id, scheduled_for, not_before, created_at, fired_at, schedule_id,
        definition_number, priority, tenant, task, queue, origin, lane, key, arguments)
    SELECT id, due_at, due_at, created_at, (SELECT now FROM n), schedule_id, definition_number,
        priority, tenant, task, queue, origin, lane, key, arguments FROM fired),
counted AS (
    INSERT INTO duly.tally_changes (name, change)
    SELECT 'delayed', -count(*) FROM fired HAVING count(*) > 0)"""  # noqa: S608 - a part of ours
QUEUED_OF_DELAYED = f"""
queued AS (
    INSERT INTO duly.ready (rank, fired_at, not_before, run_id, priority, era, queue, tenant)
    SELECT due_at, (SELECT now FROM n), due_at, id, {RANKED},
        (SELECT era FROM duly.cluster WHERE id = 1), queue, {SHARE} FROM fired{{}})"""  # noqa: S608
FIRE_DELAYED = f"""{_FENCE},{MADE_OF_DELAYED},{QUEUED_OF_DELAYED.format("")}
SELECT (SELECT now FROM n), count(*),
    CASE WHEN count(*) <> pg_catalog.cardinality($3::uuid[]) THEN
        pg_catalog.array_agg(uuid_send(id)) END
FROM fired"""  # noqa: S608 - parts of ours

FIRE_RETRIES = f"""{_FENCE},
fired AS (
    DELETE FROM duly.waiting w
    WHERE w.run_id = ANY($3::uuid[])
        AND w.due_at <= (SELECT now FROM n)
        AND w.fence = ($4::int4[])[{PLACE.format("w.run_id")}]
        AND w.due_at = ($5::int8[])[{PLACE.format("w.run_id")}]
        AND w.shard = ($6::int4[])[{PLACE.format("w.run_id")}]
    RETURNING w.*),
queued AS (
    INSERT INTO duly.ready (rank, fired_at, not_before, run_id, priority, era, queue, fence,
        attempt, charged, begun_at, is_gated, tenant)
    SELECT f.due_at, (SELECT now FROM n), f.due_at, f.run_id, r.ranked,
        (SELECT era FROM duly.cluster WHERE id = 1), r.queue, f.fence, f.attempt, f.charged,
        f.begun_at, {IS_GATED.format("f.run_id")}, r.share
    FROM fired f CROSS JOIN LATERAL (
        SELECT queue, {RANKED} AS ranked, {SHARE} AS share FROM duly.runs
        WHERE id = f.run_id OFFSET 0) r)
SELECT (SELECT now FROM n), count(*),
    CASE WHEN count(*) <> pg_catalog.cardinality($3::uuid[]) THEN
        pg_catalog.array_agg(uuid_send(run_id)) END
FROM fired"""  # noqa: S608 - a part of ours

IN_THE_WAY = (errors.LockNotAvailable, errors.UniqueViolation, errors.DeadlockDetected)
"""Somebody holds a row for more than a moment, or has just made the same run: row by row, then."""


HANDED_MIN = 200
"""A crowd of so many delayed runs is offered to workers next door."""
PART_MIN = 128
"""Below this a second statement costs more than it saves: as much as firing twenty."""


def fire_timers(connections: Connections, command: FireTimers) -> Fired:
    """Fire a batch; each timer in one transaction, and with its own result."""
    begun = begin_fire(connections, command)
    if begun is not None:
        return begun()
    batch = Batch(command)
    _fire_plain_schedules(connections, batch)
    return _fire_rest(connections, batch)


def begin_fire(connections: Connections, command: FireTimers) -> Callable[[], Fired] | None:
    """Begin to fire a batch, if somebody else does a part of it; return what does the rest."""
    if len(command.delayed) < HANDED_MIN:
        return None
    batch = Batch(command)
    handed = _hand_over(connections, batch)
    if handed is None:
        return None
    _fire_plain_schedules(connections, batch)

    def heard() -> Fired:
        handed()
        return _fire_rest(connections, batch)

    return heard


def _fire_rest(connections: Connections, batch: Batch) -> Fired:
    """Fire what has no result yet, but for plain schedules, which had their chance."""
    command = batch.command
    for kind, is_there in ((DELAYED, command.delayed), (RETRIES, command.retries)):
        if is_there:
            _fire_runs(connections, batch, kind)
    if not batch.is_all_fired():
        is_left = batch.open_schedules() or batch.open_delayed() or batch.open_retries()
        if is_left:
            firing_others.fire(connections, batch)
    elif not batch.results:
        firing_others.fire(connections, batch)
    if batch.has_queued or batch.runs_made > batch.runs_taken:
        connections.bell.ring(MemberKind.WORKER)
    if batch.lost:
        _record_refused(connections, batch)
    fired = batch.fired()
    if connections.held_up or not batch.is_all_fired():
        refs = (timer.ref for timer in batch.timers)
        connections.held_up.note(zip(refs, fired.results, strict=True))
    return fired


def schedule_values(command: FireTimers, fires: Sequence[FireOnTime]) -> tuple[object, ...]:
    """Return the values of FIRE_SCHEDULES."""
    refs, versions, dues, nominal, shards, lates, runs, next_for, next_due, _ = zip(
        *fires, strict=True
    )
    return (
        *_fence_values(command),
        Uuids(refs),
        Int4s(versions),
        Int8s(dues),
        Int8s(nominal),
        Int4s(shards),
        Int8s(lates),
        Uuids(runs),
        Int8s(next_for),
        Int8s(next_due),
    )


def run_values(command: FireTimers, timers: Sequence[Timer]) -> tuple[object, ...]:
    """Return the values of FIRE_DELAYED and FIRE_RETRIES."""
    _, refs, shards, dues, _, generations, _ = zip(*timers, strict=True) if timers else [()] * 7
    return *_fence_values(command), Uuids(refs), Int4s(generations), Int8s(dues), Int4s(shards)


def _fence_values(command: FireTimers) -> tuple[object, ...]:
    fence = command.fence
    return Int8(fence.member), Int8s([leases.packed(lease) for lease in fence.leases])


def _fire_plain_schedules(connections: Connections, batch: Batch) -> None:
    held_up, shards = connections.held_up, batch.shards
    chosen = [(place, as_plain(fire)) for place, fire in batch.open_schedules()]
    plain = [(place, fire) for place, fire in chosen if fire is not None and fire.shard in shards]
    if held_up:
        plain = [(place, fire) for place, fire in plain if fire.ref not in held_up]
    for part, answer in _ask_each(connections, batch.command, plain):
        if answer is None:
            continue
        batch.now, count, numbers = answer
        batch.runs_made += count
        # Nothing is listed when all have fired, which is nearly always.
        fired = part if count == len(part) else [part[number - 1] for number in numbers or ()]
        for place, _ in fired:
            batch.results[place] = FireResult.FIRED
        left = [(place, fire.late_after) for place, fire in part if batch.results[place] is None]
        _look_again(connections, batch, left, firing_others.STILL_BELIEVED)


Chosen = list[tuple[int, FireOnTime]]


def _ask_each(
    connections: Connections, command: FireTimers, chosen: Chosen
) -> list[tuple[Chosen, Row | None]]:
    """Send a batch in as many statements as may run at once; no two of them share a shard."""
    at_once = connections.side_by_side.at_once
    if len(chosen) < PART_MIN * at_once:
        parts = [chosen] if chosen else []
    else:
        parts = [
            [one for one in chosen if one[1].shard % at_once == number] for number in range(at_once)
        ]
        parts = [part for part in parts if part]
    values = [schedule_values(command, [fire for _, fire in part]) for part in parts]
    calls = [partial(_ask, connections, FIRE_SCHEDULES, one) for one in values]
    answers = connections.side_by_side.run(calls) if calls else []
    return [*zip(parts, answers, strict=True)]


@dataclass(frozen=True, slots=True)
class RunTimers:
    """How timers of single runs are fired: delayed ones, or those that wait for another attempt."""

    fire: Callable[[], str]
    """The statement; looked up when it is used."""
    still_believed: str
    open: Callable[[Batch], list[tuple[int, Timer]]]
    makes_runs: bool


DELAYED = RunTimers(
    lambda: FIRE_DELAYED, firing_others.STILL_BELIEVED_DELAYED, Batch.open_delayed, makes_runs=True
)
RETRIES = RunTimers(
    lambda: FIRE_RETRIES, firing_others.STILL_BELIEVED_RETRIES, Batch.open_retries, makes_runs=False
)


def _fire_runs(connections: Connections, batch: Batch, kind: RunTimers) -> None:
    chosen = _chosen(connections, batch, kind)
    if not chosen:
        return
    at_once = connections.side_by_side.at_once
    size = len(chosen) if len(chosen) < PART_MIN * at_once else -(-len(chosen) // at_once)
    parts = [chosen[first : first + size] for first in range(0, len(chosen), size)]
    values = [run_values(batch.command, [timer for _, timer in part]) for part in parts]
    calls = [partial(_ask, connections, kind.fire(), one) for one in values]
    for part, answer in zip(parts, connections.side_by_side.run(calls), strict=True):
        if answer is not None:
            _hear_runs(connections, batch, kind, (part, answer))


def _hand_over(connections: Connections, batch: Batch) -> Callable[[], None] | None:
    """Offer a crowd of delayed runs to workers next door; return what notes those they have fired.

    None when nobody is there to take any.
    """
    takers = connections.offering.willing(connections.bell.takers())
    chosen = _chosen(connections, batch, DELAYED) if takers else []
    if len(chosen) < HANDED_MIN:
        return None
    parts_min = max(2, len(takers))
    size = min(*(one.most for one in takers), -(-len(chosen) // parts_min))
    parts = [chosen[first : first + size] for first in range(0, len(chosen), size)]
    offered = [(len(one), run_values(batch.command, [timer for _, timer in one])) for one in parts]
    heard = connections.offering.begin(takers, offered)

    def note() -> None:
        for part, answer in zip(parts, heard(), strict=True):
            if answer is not None:
                batch.hear_of_others(answer.now, _placed(part, answer.places))
                batch.has_queued = batch.has_queued or answer.is_queued

    return note


def _placed(part: list[tuple[int, Timer]], places: Sequence[int] | None) -> list[tuple[int, Timer]]:
    return part if places is None else [part[place - 1] for place in places]


def _hear_runs(
    connections: Connections,
    batch: Batch,
    kind: RunTimers,
    told: tuple[list[tuple[int, Timer]], Row],
) -> None:
    """Note what a statement has fired, and tell what is gone of the rest."""
    chosen, (batch.now, count, refs) = told
    batch.has_queued = batch.has_queued or count > 0
    batch.runs_made += count if kind.makes_runs else 0
    # Nothing is listed when all have fired, which is nearly always.
    fired = None if count == len(chosen) else set(refs or ())
    left: list[tuple[int, int | None]] = []
    for place, timer in chosen:
        if fired is None or timer.ref in fired:
            batch.results[place] = FireResult.FIRED
        else:
            left.append((place, None))
    _look_again(connections, batch, left, kind.still_believed)


def _chosen(connections: Connections, batch: Batch, kind: RunTimers) -> list[tuple[int, Timer]]:
    """Return the timers that one statement can fire, with their places, in the order of refs."""
    held_up, shards = connections.held_up, batch.shards
    opened = [one for one in kind.open(batch) if one[1].shard in shards]
    if held_up:
        opened = [one for one in opened if one[1].ref not in held_up]
    if not batch.is_distinct:
        # Of two timers of one run, the second is looked at by itself.
        opened = [*{timer.ref: (place, timer) for place, timer in reversed(opened)}.values()]
    opened.sort(key=_by_ref)
    return opened


def _by_ref(placed: tuple[int, Timer]) -> bytes:
    return placed[1].ref


def _look_again(
    connections: Connections,
    batch: Batch,
    left: Sequence[tuple[int, int | None]],
    statement: str,
) -> None:
    """Tell what is gone from what is early or late; what was in the way of the rest, others see."""
    if not left:
        return
    values = firing_others.believed_values([batch.timers[place] for place, _ in left])
    with connections.statement(for_dispatch=True) as session:
        there = {number - 1 for (number,) in session.rows(statement, values)}
    for number, (place, late_after) in enumerate(left):
        if number in there:
            batch.judge(place, late_after)
        else:
            batch.results[place] = FireResult.GONE


def _ask(connections: Connections, statement: str, values: tuple[object, ...]) -> Row | None:
    """Send a statement; None when something was in the way and nothing of it has happened."""
    with connections.statement(for_dispatch=True) as session:
        try:
            answer = session.rows(statement, values)[0]
        except IN_THE_WAY:
            return None
    is_fenced = answer[0] is None
    return None if is_fenced else answer


def _record_refused(connections: Connections, batch: Batch) -> None:
    """Put it on record; and end the membership if it is over, so that it stays so."""
    with connections.write(for_dispatch=True) as work:
        leases.lock_fence(work, batch.command.fence)
        leases.record_refused(work, batch.command.fence, [*batch.lost])
