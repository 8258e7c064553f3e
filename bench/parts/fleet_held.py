"""The same figures while a transaction is held open elsewhere in the database, minute by minute.

Such a transaction keeps every row version that it might still see, so whatever is updated or
deleted leaves a corpse behind. A dispatcher process goes on firing a steady stream meanwhile.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from time import sleep
from typing import TYPE_CHECKING, NamedTuple

import psycopg

from bench.parts import processes
from bench.parts.driving import evenly, judged
from bench.parts.fleet_firing import LONG_AGO_US, Rates, path, rates
from bench.stores.database import Database, execute
from bench.stores.places import CLOCK, DAY_US, SECOND_US, YEAR_US, Promise
from bench.tables import spread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.parts.driving import Sustained
    from tests.postgres.server import Server

PERIOD_US = 5 * SECOND_US
CONTENDERS = 3

AT_ONE_INSTANT = """
UPDATE duly.schedule_state
SET next_for = {at}, next_due = {at}, load_at = {at}, last_for = NULL"""
SPREAD_EVENLY = """
UPDATE duly.schedule_state s SET next_for = d.at, next_due = d.at, load_at = d.at, last_for = NULL
FROM (
    SELECT schedule_id, {start} + (extract(epoch FROM
        (definition::jsonb -> 'timetable' ->> 'anchor')::timestamptz) * 1000000)::int8 % {period}
        AS at
    FROM duly.schedule_definitions) d
WHERE d.schedule_id = s.schedule_id"""
RELEASE_DELAYED = """
UPDATE duly.delayed SET due_at = {at}
WHERE id IN (SELECT id FROM duly.delayed WHERE due_at > {now} ORDER BY id LIMIT {count})"""
READ_WORK = """
SELECT CASE WHEN strpos(s.query, 'INSERT INTO duly.ready') > 0 THEN 'firing'
    WHEN strpos(s.query, 'ORDER BY s.load_at') > 0 THEN 'loading'
    WHEN strpos(s.query, 'pg_snapshot_xip') > 0 THEN 'feed' ELSE 'rest' END,
    sum(s.shared_blks_hit + s.shared_blks_read)::int8, sum(s.total_exec_time)::float8
FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid AND d.datname = current_database()
GROUP BY 1"""


@dataclass(frozen=True, kw_only=True)
class HeldSizes:
    """How much of everything."""

    rate: int = 5000
    settling: int = 12
    """Seconds from when a dispatcher is started to when its stream begins."""
    minutes: int = 5
    minute: int = 60
    """In seconds; less for a quick look."""
    rounds: int = 5
    batch: int = 5000
    timers: int = 150
    timer_seconds: int = 15
    near: int = 40


class Figures(NamedTuple):
    """What is measured twice: before, and while the transaction has been open for long."""

    second: Rates
    minute: Rates
    delayed: Rates
    counts: dict[str, float]
    """Of a fire of schedules by the path alone."""
    idle_us: list[int]
    near_us: list[int]


class Minute(NamedTuple):
    """What the dispatcher had to do in one minute of the hold."""

    fired: int
    buffers: dict[str, int]
    milliseconds: dict[str, float]
    stream: Sustained


class Held(NamedTuple):
    """Everything about it."""

    before: Figures
    after: Figures
    minutes: list[Minute]


def held(server: Server, sizes: HeldSizes) -> Held:
    """Measure, hold a transaction open for minutes under load, and measure again."""
    place = Database(server)
    place.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
    later_at = (CLOCK.now_us() + YEAR_US) // PERIOD_US * PERIOD_US
    count = sizes.rate * PERIOD_US // SECOND_US
    one_by_one = 2 * CONTENDERS * (sizes.rounds + 1) * sizes.batch
    place.fill(
        evenly(count, PERIOD_US, later_at), (Promise(due_at=later_at) for _ in range(one_by_one))
    )
    before = measured(place, sizes, LONG_AGO_US)
    with _open_transaction(place.url):
        minutes = list(stream(place, sizes))
        after = measured(place, sizes, LONG_AGO_US // 2)
    place.remove()
    return Held(before, after, minutes)


def measured(place: Database, sizes: HeldSizes, ago_us: int) -> Figures:
    """Take the figures; schedules fire from that long ago, where they have not fired before."""
    now = CLOCK.now_us()
    start_at = now - ago_us
    delayed = CONTENDERS * (sizes.rounds + 1) * sizes.batch
    place.execute(RELEASE_DELAYED.format(at=start_at, now=now, count=delayed))
    place.execute(AT_ONE_INSTANT.format(at=start_at))
    with path(place) as one:
        second = rates(one, SECOND_US, sizes.batch, sizes.rounds)
        place.execute(AT_ONE_INSTANT.format(at=start_at + DAY_US))
        minute = rates(one, 60 * SECOND_US, sizes.batch, sizes.rounds)
        chosen = one.schedules()[: sizes.batch]
        with place.counting() as counted:
            one.fire(1, chosen, 60 * SECOND_US)
            counts = {name: found / len(chosen) for name, found in counted.read().items()}
        by_delay = rates(one, 0, sizes.batch, sizes.rounds)
    place.execute(AT_ONE_INSTANT.format(at=now + YEAR_US))
    idle, _ = processes.idle_lateness(place, sizes.timers, sizes.timer_seconds)
    near = processes.near_lateness(place, sizes.near, 50)
    return Figures(second, minute, by_delay, counts, idle, near)


def stream(place: Database, sizes: HeldSizes) -> Iterator[Minute]:
    """Let a dispatcher fire a steady stream; tell minute by minute what it had to do."""
    minute_us = sizes.minute * SECOND_US
    start_at = (CLOCK.now_us() + sizes.settling * SECOND_US) // PERIOD_US * PERIOD_US + PERIOD_US
    place.execute(SPREAD_EVENLY.format(start=start_at, period=PERIOD_US))
    looks = []
    with processes.dispatcher(place.url) as process:
        for number in range(sizes.minutes + 1):
            sleep(max(0, start_at + number * minute_us - CLOCK.now_us()) / SECOND_US)
            looks.append(_look(place))
        sleep(1)
        process.send_signal(signal.SIGTERM)
        process.wait()
    ends = [start_at + number * minute_us for number in range(sizes.minutes + 1)]
    for number, (early, late) in enumerate(pairwise(looks)):
        found = judged(place, sizes.rate, ends[number], ends[number + 1])
        names = late.keys()
        none = (0, 0.0)
        buffers = {name: late[name][0] - early.get(name, none)[0] for name in names}
        times = {name: late[name][1] - early.get(name, none)[1] for name in names}
        yield Minute(found.fired, buffers, times, found)


def _look(place: Database) -> dict[str, tuple[int, float]]:
    return {name: (buffers, times) for name, buffers, times in place.rows(READ_WORK)}


@contextmanager
def _open_transaction(url: str) -> Iterator[None]:
    """Hold a transaction open that has read something, as a forgotten session or a report does."""
    with psycopg.connect(url) as connection:
        execute(connection, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        execute(connection, "SELECT count(*) FROM duly.members")
        yield
        connection.rollback()


def slowdown(before: Rates, after: Rates) -> list[tuple[str, float, float]]:
    """Return the medians of the contenders, before and after."""
    names = ("1 connection", "2 connections", "plain statement")
    pairs = zip(names, before, after, strict=True)
    return [(name, spread(one).median, spread(two).median) for name, one, two in pairs]
