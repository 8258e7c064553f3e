"""The dispatch path alone on PostgreSQL: batches prepared ahead and fired by the store, no more.

Beside it stands a plain statement that writes the same rows and decides nothing: it inserts a run
and a queue row and updates a state row, or deletes the delayed run.
"""

from __future__ import annotations

import os
import random
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, NamedTuple

from psycopg import RawCursor

from bench.stores.database import execute
from bench.stores.places import CLOCK, DAY_US, SECOND_US, Promise
from duly.domain.identity import RunId, ScheduleId, occurrence_run_id
from duly.domain.literals import Lane, Origin
from duly.domain.schedules import Pending
from duly.domain.settling import Plan, PlannedRun, Settlement
from duly.store.dispatch import (
    Fence,
    FireDelayed,
    FirePlanned,
    FireTimers,
    Join,
    LeaseKey,
    MemberKind,
    Timer,
)
from duly.store.postgres import PostgresSettings, PostgresStore, arrays
from duly.store.postgres.arrays import Int8s, Uuids
from duly.store.postgres.session import BoundedConnection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.stores.database import Database

BATCH = 1000
NEVER_LATE = 1 << 62
LONG_AGO_US = 3 * 365 * DAY_US
"""Before now: so every fire that is measured is due, however often a schedule has fired."""

BARE_SCHEDULES = """
WITH fired AS (
    UPDATE duly.schedule_state s
    SET next_for = u.next_due, next_due = u.next_due,
        load_at = CASE WHEN u.next_due - s.load_at <= 10000000 THEN s.load_at ELSE u.next_due END,
        before_last = s.last_for, last_for = u.due, last_run = u.run_id,
        last_fired_at = u.due, fires = s.fires + 1
    FROM unnest($1::uuid[], $2::int8[], $3::uuid[], $4::int8[]) u(ref, due, run_id, next_due)
    WHERE s.schedule_id = u.ref
    RETURNING s.*, u.due),
made AS (
    INSERT INTO duly.runs (id, scheduled_for, not_before, window_from, created_at, fired_at,
        schedule_id, definition_number, priority, tenant, task, queue, origin, lane)
    SELECT last_run, due, due, before_last, due, due, schedule_id, definition_number, priority,
        tenant, task, queue, 'schedule', 'live' FROM fired),
queued AS (
    INSERT INTO duly.ready (rank, fired_at, not_before, run_id, priority, era, queue)
    SELECT due, due, due, last_run, priority, 0, queue FROM fired)
SELECT count(*) FROM fired"""
BARE_DELAYED = """
WITH fired AS (DELETE FROM duly.delayed WHERE id = ANY($1::uuid[]) RETURNING *),
made AS (
    INSERT INTO duly.runs (id, scheduled_for, not_before, created_at, fired_at, schedule_id,
        definition_number, priority, tenant, task, queue, origin, lane, key, arguments)
    SELECT id, due_at, due_at, created_at, due_at, schedule_id, definition_number, priority,
        tenant, task, queue, origin, lane, key, arguments FROM fired),
queued AS (
    INSERT INTO duly.ready (rank, fired_at, not_before, run_id, priority, era, queue)
    SELECT due_at, due_at, due_at, id, priority, 0, queue FROM fired)
SELECT count(*) FROM fired"""


@dataclass(slots=True)
class Pinned:
    """A schedule or a delayed run as it is pending."""

    ref: bytes
    shard: int
    due_at: int


class Path:
    """A database, its stores with one and with two connections to fire on, and a plain one."""

    def __init__(self, place: Database) -> None:
        self.place = place
        self.stores = {
            count: PostgresStore(place.url, settings=PostgresSettings(fire_connections=count))
            for count in (1, 2)
        }
        self._bare = BoundedConnection.connect(place.url, autocommit=True, prepare_threshold=3)
        arrays.register(self._bare)
        execute(self._bare, "SET jit = off")
        order = Join(kind=MemberKind.DISPATCHER, host="bench", process=os.getpid(), ttl_us=DAY_US)
        member, _ = self.stores[1].join(order)
        ((shards,),) = place.rows("SELECT shards FROM duly.cluster")
        wanted = [LeaseKey(shard, Lane.LIVE) for shard in range(shards)]
        self._fence = Fence(member, tuple(self.stores[1].acquire_leases(member, wanted)))
        assert len(self._fence.leases) == shards, "all of it is ours"

    def close(self) -> None:
        self.stores[1].leave(self._fence.member)
        for store in self.stores.values():
            store.close()
        self._bare.close()

    def schedules(self) -> list[Pinned]:
        """Return schedules whose time has come, in no order."""
        return self._shuffled("""
            SELECT uuid_send(schedule_id), shard, next_due FROM duly.schedule_state
            WHERE next_due < duly.now_us() ORDER BY schedule_id""")

    def delayed(self) -> list[Pinned]:
        """Return delayed runs whose time has come, in no order."""
        return self._shuffled("""
            SELECT uuid_send(id), shard, due_at FROM duly.delayed
            WHERE due_at < duly.now_us() ORDER BY id""")

    def _shuffled(self, sql: str) -> list[Pinned]:
        found = [Pinned(*one) for one in self.place.rows(sql)]
        random.Random(len(found)).shuffle(found)
        return found

    def fire(self, connections: int, chosen: Sequence[Pinned], period_us: int = 0) -> float:
        """Fire schedules (or delayed runs, without a period); return fires a second."""
        parts = [
            self.order(chosen[start : start + BATCH], period_us)
            for start in range(0, len(chosen), BATCH)
        ]
        store = self.stores[connections]
        began = CLOCK.monotonic_us()
        made = sum(store.fire_timers(part).runs_made for part in parts)
        took = CLOCK.monotonic_us() - began
        assert made == len(chosen), f"{made} of {len(chosen)} fired"
        return made / took * SECOND_US

    def bare(self, chosen: Sequence[Pinned], period_us: int = 0) -> float:
        """Write the same rows by a plain statement; return how many a second."""
        statement = BARE_SCHEDULES if period_us else BARE_DELAYED
        parts = [
            _bare_values(chosen[start : start + BATCH], period_us)
            for start in range(0, len(chosen), BATCH)
        ]
        made = 0
        began = CLOCK.monotonic_us()
        for part in parts:
            cursor = RawCursor(self._bare)
            ((count,),) = cursor.execute(statement, part, binary=True).fetchall()
            made += count
        took = CLOCK.monotonic_us() - began
        assert made == len(chosen), f"{made} of {len(chosen)} written"
        return made / took * SECOND_US

    def order(self, chosen: Sequence[Pinned], period_us: int) -> FireTimers:
        """Return a batch that is ready to be fired; what is told has its next instant."""
        if not period_us:
            delayed = tuple(
                FireDelayed(Timer("delayed", one.ref, one.shard, one.due_at, one.due_at, 1, 0))
                for one in chosen
            )
            return FireTimers(fence=self._fence, delayed=delayed)
        schedules = tuple(_planned(one, period_us) for one in chosen)
        return FireTimers(fence=self._fence, schedules=schedules)


@contextmanager
def path(place: Database) -> Iterator[Path]:
    """Have everything that firing alone takes."""
    one = Path(place)
    try:
        yield one
    finally:
        one.close()


def long_ago(count: int) -> Iterator[Promise]:
    """Return promises whose time has come, again and again."""
    due_at = (CLOCK.now_us() - LONG_AGO_US) // DAY_US * DAY_US
    for _ in range(count):
        yield Promise(due_at=due_at)


def _planned(one: Pinned, period_us: int) -> FirePlanned:
    due_at, one.due_at = one.due_at, one.due_at + period_us
    run_id = occurrence_run_id(ScheduleId(one.ref), due_at)
    run = PlannedRun(run_id, due_at, due_at, Origin.SCHEDULE, Lane.LIVE)
    plan = Plan(Settlement((run,)), Pending(one.due_at, one.due_at))
    timer = Timer("schedule", one.ref, one.shard, due_at, due_at, 1, 1)
    return FirePlanned(timer=timer, plan=plan, late_after=NEVER_LATE)


def _bare_values(chosen: Sequence[Pinned], period_us: int) -> tuple[object, ...]:
    refs = Uuids([one.ref for one in chosen])
    if not period_us:
        return (refs,)
    planned = [_planned(one, period_us) for one in chosen]
    runs: list[RunId] = [one.plan.settlement.runs[0].run_id for one in planned]
    dues = Int8s([one.timer.due_at for one in planned])
    return (refs, dues, Uuids(runs), Int8s([one.due_at for one in chosen]))


class Rates(NamedTuple):
    """Fires a second, round by round."""

    one_connection: list[float]
    two_connections: list[float]
    plain: list[float]


def rates(one: Path, period_us: int, size: int, rounds: int) -> Rates:
    """Let the contenders take turns, each on the same rows or on as many."""
    found = Rates([], [], [])
    due = one.schedules() if period_us else one.delayed()
    chosen = cycle(due[start : start + size] for start in range(0, len(due), size))
    for number in range(-1, rounds):
        # A delayed run is there once, a schedule again and again.
        parts = [next(chosen)] * 3 if period_us else [next(chosen) for _ in range(3)]
        measured = (
            one.fire(1, parts[0], period_us),
            one.fire(2, parts[1], period_us),
            one.bare(parts[2], period_us),
        )
        # What is done for the first time takes longer.
        if number >= 0:
            for values, value in zip(found, measured, strict=True):
                values.append(value)
    return found
