"""Loading on PostgreSQL: exact although schedules are found by a lower bound, and never too much."""

from __future__ import annotations

from contextlib import ExitStack, closing

import psycopg
import pytest

from duly.store.ports.dispatch import LoadTimers
from duly.store.postgres import PostgresStore
from duly.store.postgres.rows import LAG_US
from duly.timetable.interval import every
from duly_conformance import steps
from duly_conformance.kit import HOUR_US, SECOND_US, on_time, timer_of
from tests.postgres.database_clock import DatabaseClock
from tests.postgres.reused_databases import with_store_and_clock

SPREAD = 40
CROWD = 200


def _load(store, until, limit, **order):
    shards = tuple(range(store.status().shards))
    command = LoadTimers(shards=shards, until=until, limit=limit, **{"after": None, **order})
    return store.load_timers(command)


@pytest.fixture(scope="module")
def opened(postgres_server):
    """Open stores on databases of their own, for all tests here: they only read."""
    with ExitStack() as stack:

        def open_one():
            template = postgres_server.prepared(with_store_and_clock)
            url = postgres_server.create_database(template)
            stack.callback(postgres_server.drop_database, url)
            clock = stack.enter_context(DatabaseClock(url))
            return stack.enter_context(closing(PostgresStore(url, clock))), clock, url

        yield open_one


@pytest.fixture(scope="module")
def fired(opened):
    """Schedules of all kinds of short periods, fired until their places lie behind."""
    store, clock, url = opened()
    periods = ["1s", "2s", "3s", "7s", "11s"]
    records = [
        steps.create(store, f"of {number}", timetable=every(periods[number % len(periods)]))
        for number in range(SPREAD)
    ]
    fence = steps.own(store, ttl_us=HOUR_US)
    for _ in range(15):
        clock.advance(SECOND_US)
        now = clock.now_us()
        records = [steps.look(store, record) for record in records]
        due = [on_time(one) for one in records if timer_of(one).due_at <= now]
        assert {"fired"} >= {str(one) for one in steps.fire(store, fence, *due).results}
    return store, clock, url, [steps.look(store, record) for record in records]


@pytest.fixture(scope="module")
def crowd(opened):
    """Schedules that are all due at one instant."""
    store, clock, _ = opened()
    for number in range(CROWD):
        steps.create(store, f"of {number}")
    return store, clock.now_us() + 2 * HOUR_US


def _expected(records, after, until):
    timers = [timer_of(record) for record in records]
    found = [one for one in timers if after < one.due_at <= until]
    return sorted(found, key=lambda timer: (timer.due_at, timer.ref))


def test_some_places_lie_behind(fired):
    """Otherwise the tests below would show nothing."""
    with psycopg.connect(fired[2]) as other:
        found = other.execute(
            "SELECT count(*) FILTER (WHERE load_at < next_due), max(next_due - load_at)"
            " FROM duly.schedule_state"
        )
        ((behind, most),) = found.fetchall()

    assert behind > 0
    assert most <= LAG_US


@pytest.mark.parametrize("seconds", [0, 1, 2, 5, 12])
@pytest.mark.parametrize("begins", [-20, 0, 1, 3])
def test_a_window_is_read_by_what_is_due_in_it(fired, begins, seconds):
    """`load_at` finds them, `next_due` decides."""
    store, clock, _, records = fired
    after = clock.now_us() + begins * SECOND_US
    until = after + seconds * SECOND_US

    loaded = _load(store, until, 1000, after=after)

    assert _expected(records, after, until) == list(loaded.timers)
    assert until == loaded.through


@pytest.mark.parametrize("limit", [1, 2, 3, 7, SPREAD - 1])
def test_pages_follow_each_other_without_a_gap(fired, limit):
    """Whatever the limit, all are read once, in order."""
    store, clock, _, records = fired
    until = clock.now_us() + HOUR_US
    after, seen = clock.now_us() - HOUR_US, []
    for _ in range(10 * SPREAD):
        loaded = _load(store, until, limit, after=after)
        assert loaded.through > after
        seen += loaded.timers
        after = loaded.through
        if after == until:
            break

    assert _expected(records, clock.now_us() - HOUR_US, until) == seen


@pytest.mark.parametrize("limit", [1, 5, 300])
def test_a_crowd_is_read_in_parts_when_it_may_be_cut(crowd, limit):
    """A page of a crowd costs what is in the page."""
    store, until = crowd
    loaded = _load(store, until, limit, is_whole=False)

    assert min(limit, CROWD) == len(loaded.timers)
    assert len(loaded.timers) == len({timer.ref for timer in loaded.timers})


def test_a_crowd_is_read_as_a_whole_when_it_may_not(crowd):
    store, until = crowd
    loaded = _load(store, until, 5)

    assert CROWD == len(loaded.timers)
    assert loaded.timers[0].due_at == loaded.through
