"""Loading on PostgreSQL: exact although schedules are found by a lower bound, and never too much."""

from __future__ import annotations

import psycopg
import pytest

from duly.domain.timetable.interval import every
from duly.store.dispatch import LoadTimers
from duly.store.postgres.rows import LAG_US
from duly.testing.conformance import steps
from duly.testing.factories import HOUR_US, SECOND_US, on_time, timer_of

SPREAD = 40


def _load(store, until, limit, **order):
    shards = tuple(range(store.status().shards))
    command = LoadTimers(shards=shards, until=until, limit=limit, **{"after": None, **order})
    return store.load_timers(command)


@pytest.fixture
def fired(store, clock):
    """Schedules of all kinds of short periods, fired until their places lie behind."""
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
    return [steps.look(store, record) for record in records]


def _expected(records, after, until):
    timers = [timer_of(record) for record in records]
    found = [one for one in timers if after < one.due_at <= until]
    return sorted(found, key=lambda timer: (timer.due_at, timer.ref))


def test_some_places_lie_behind(fired, timed_url):
    """Otherwise the tests below would show nothing."""
    with psycopg.connect(timed_url) as other:
        found = other.execute(
            "SELECT count(*) FILTER (WHERE load_at < next_due), max(next_due - load_at)"
            " FROM duly.schedule_state"
        )
        ((behind, most),) = found.fetchall()

    assert behind > 0
    assert most <= LAG_US


@pytest.mark.parametrize("seconds", [0, 1, 2, 5, 12])
@pytest.mark.parametrize("begins", [-20, 0, 1, 3])
def test_a_window_is_read_by_what_is_due_in_it(fired, store, clock, begins, seconds):
    """F3, F4: `load_at` finds them, `next_due` decides."""
    after = clock.now_us() + begins * SECOND_US
    until = after + seconds * SECOND_US

    loaded = _load(store, until, 1000, after=after)

    assert _expected(fired, after, until) == list(loaded.timers)
    assert until == loaded.through


@pytest.mark.parametrize("limit", [1, 2, 3, 7, SPREAD - 1])
def test_pages_follow_each_other_without_a_gap(fired, store, clock, limit):
    """F4: whatever the limit, all are read once, in order."""
    until = clock.now_us() + HOUR_US
    after, seen = clock.now_us() - HOUR_US, []
    for _ in range(10 * SPREAD):
        loaded = _load(store, until, limit, after=after)
        assert loaded.through > after
        seen += loaded.timers
        after = loaded.through
        if after == until:
            break

    assert _expected(fired, clock.now_us() - HOUR_US, until) == seen


@pytest.mark.parametrize("limit", [1, 5, 300])
def test_a_crowd_is_read_in_parts_when_it_may_be_cut(store, clock, limit):
    """F8: a page of a crowd costs what is in the page."""
    for number in range(200):
        steps.create(store, f"of {number}")
    until = clock.now_us() + 2 * HOUR_US

    loaded = _load(store, until, limit, is_whole=False)

    assert min(limit, 200) == len(loaded.timers)
    assert len(loaded.timers) == len({timer.ref for timer in loaded.timers})


def test_a_crowd_is_read_as_a_whole_when_it_may_not(store, clock):
    for number in range(200):
        steps.create(store, f"of {number}")
    until = clock.now_us() + 2 * HOUR_US

    loaded = _load(store, until, 5)

    assert 200 == len(loaded.timers)
    assert loaded.timers[0].due_at == loaded.through
