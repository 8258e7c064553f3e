"""The bell: dispatchers are woken by what others commit, off the write path and not too often."""

from __future__ import annotations

from contextlib import closing

import psycopg
import pytest

from duly.engine.manual_clock import ManualClock
from duly.store.ports.dispatch import Join, MemberKind, Renew
from duly.store.ports.schedules import NEAR_US
from duly.store.postgres import bell as bell_module
from duly.store.postgres.neighbours import CALLS_MIN
from duly.store.wakeups import SECOND_US
from duly_conformance.kit import HOUR_US, add_runs, dispatcher, new_run
from tests.store.postgres.turnstile import PATIENT, Watch, record_rings, replaced
from tests.waiting import comes_true

LONG_US = 120 * SECOND_US
RING_HELD = "SELECT pg_advisory_xact_lock_shared(4711), pg_notify"


def heard_before_marker(url, listener, channel="duly"):
    """Return how many notifications were sent before this call; nothing need be waited for."""
    with psycopg.connect(url, autocommit=True) as marking:
        marking.execute(f"NOTIFY {channel}, 'marker'")
    for count, one in enumerate(listener.notifies(timeout=120)):
        if one.payload == "marker":
            return count
    raise AssertionError("the marker does not come")


def test_what_is_promised_near_wakes_who_waits_in_another_process(url, open_store):
    """Through the database, so on any host."""
    waiting, ordering = open_store(url), open_store(url)
    place = waiting.wakeups()
    try:
        assert place.wait(LONG_US), "it wakes once when it begins to hear"
        ordering.add_runs(add_runs(new_run(ordering.now() + SECOND_US)))

        assert place.wait(LONG_US)
    finally:
        place.close()


def test_what_is_far_away_rings_no_bell(url, open_store):
    store = open_store(url)
    with psycopg.connect(url, autocommit=True) as listener:
        listener.execute("LISTEN duly")
        store.add_runs(add_runs(new_run(store.now() + HOUR_US)))
        store.close()

        assert 0 == heard_before_marker(url, listener)


def test_closing_rings_for_what_was_just_promised(url, open_store):
    """A short-lived program promises something and ends."""
    store = open_store(url)
    with psycopg.connect(url, autocommit=True) as listener:
        listener.execute("LISTEN duly")
        store.add_runs(add_runs(new_run(store.now() + SECOND_US)))
        store.close()

        assert 1 <= len([*listener.notifies(timeout=120, stop_after=1)])


def test_all_promises_during_one_ring_have_the_next_in_common(url, open_store):
    """NOTIFY takes a lock of the whole database: one is for all that was written meanwhile."""
    store = open_store(url, settings=PATIENT)
    with (
        replaced(bell_module, "RING", "SELECT pg_notify", RING_HELD),
        closing(Watch(url)) as watch,
        psycopg.connect(url, autocommit=True) as listener,
    ):
        listener.execute("LISTEN duly")
        watch.line.execute("SELECT pg_advisory_lock(4711)")
        store.add_runs(add_runs(new_run(store.now() + NEAR_US // 2, "the first")))
        assert watch.is_blocked(), "the first ring is held"
        for number in range(100):
            store.add_runs(add_runs(new_run(store.now() + NEAR_US // 2, f"number {number}")))
        watch.open_turnstile()

        assert 2 == len([*listener.notifies(timeout=120, stop_after=2)])
        assert 0 == heard_before_marker(url, listener)


def test_nothing_is_rung_before_the_commit(url, open_store, monkeypatch):
    """It would wake for what nobody can see yet, and hold the database's lock while doing so."""
    store = open_store(url)
    rings = record_rings(store, monkeypatch)
    with psycopg.connect(url, autocommit=True) as listener:
        listener.execute("LISTEN duly")
        with store.transaction(LONG_US) as lent:
            store.joined(lent).add_runs(add_runs(new_run(store.now() + SECOND_US)))

            assert [] == rings

        assert 1 <= len([*listener.notifies(timeout=120, stop_after=1)])


def test_who_listens_hears_again_after_the_connection_was_lost(postgres_server, url, open_store):
    waiting, ordering = open_store(url), open_store(url)
    place = waiting.wakeups()
    try:
        assert place.wait(LONG_US)
        postgres_server.kill_backends(url)
        assert comes_true(lambda: place.wait(SECOND_US)), "it begins to hear again, and says so"
        ordering.add_runs(add_runs(new_run(ordering.now() + SECOND_US)))

        assert place.wait(LONG_US)
    finally:
        place.close()


def joined(store, address):
    return store.join(
        Join(kind=MemberKind.WORKER, host="here", process=1, ttl_us=HOUR_US, wake_address=address)
    )


def test_who_answers_on_this_host_is_rung_without_the_database(url, open_store):
    """NOTIFY costs more than many a run; a few are for whoever has come since."""
    clock = ManualClock()
    waiting, ringing = open_store(url), open_store(url, clock)
    place = waiting.wakeups(MemberKind.WORKER)
    bell = ringing._connections.bell  # noqa: SLF001
    neighbours = bell._neighbours[MemberKind.WORKER]  # noqa: SLF001
    try:
        joined(waiting, place.address)

        def is_found():
            clock.advance(SECOND_US)
            bell.ring(MemberKind.WORKER)
            place.wait(10_000)
            return neighbours.ring()

        assert comes_true(is_found)
        with psycopg.connect(url, autocommit=True) as listener:
            listener.execute("LISTEN duly_work")
            clock.advance(bell_module.NOTIFY_EVERY_US)
            bell.ring(MemberKind.WORKER)
            assert 1 <= len([*listener.notifies(timeout=120, stop_after=1)])
            for _ in range(100):
                bell.ring(MemberKind.WORKER)

                assert place.wait(LONG_US)
            ringing.close()

            # What was asked for while it was looked for, and one that closing rings.
            assert heard_before_marker(url, listener, "duly_work") <= 3
    finally:
        place.close()


@pytest.fixture
def neighbourly(url, open_store):
    """Have a worker that waits and a dispatcher beside it: what renews one, what rings the other."""
    waiting, ringing = open_store(url), open_store(url)
    place = waiting.wakeups(MemberKind.WORKER)
    neighbours = ringing._connections.bell._neighbours[MemberKind.WORKER]  # noqa: SLF001
    joined(waiting, place.address)
    member, _ = ringing.join(dispatcher())

    def is_rung():
        place.wait(10_000)
        return neighbours.ring()

    yield lambda: ringing.renew(Renew(member=member)), is_rung
    place.close()


def test_a_dispatcher_that_renews_knows_who_is_to_be_rung_before_anything_is(neighbourly):
    """The first of a crowd waits for nobody to be looked for."""
    renew, is_rung = neighbourly

    def is_found():
        renew()
        return is_rung()

    assert comes_true(is_found)


def test_one_who_has_answered_since_the_last_look_is_rung_at_once(neighbourly):
    """A crowd that comes after one look and before the next does not wait for a NOTIFY."""
    renew, is_rung = neighbourly
    renew()

    assert comes_true(is_rung)


def test_one_who_does_not_answer_is_rung_through_the_database(url, open_store):
    """Another host, or a container with a loopback of its own."""
    store = open_store(url)
    with psycopg.connect(url, autocommit=True) as listener:
        listener.execute("LISTEN duly_work")
        joined(store, "udp:127.0.0.1:9:0011223344556677")
        bell = store._connections.bell  # noqa: SLF001
        for _ in range(CALLS_MIN + 10):
            bell.ring(MemberKind.WORKER)

            assert 1 <= len([*listener.notifies(timeout=120, stop_after=1)])
