"""Nobody is judged dead right after a time in which nobody could write (DESIGN, one writer)."""

from __future__ import annotations

import apsw
import pytest

from duly.domain.enums import Lane
from duly.errors import StoreUnavailable
from duly.store.ports.dispatch import LeaseKey, Renew
from duly.store.sqlite import SqliteStore
from duly.store.sqlite.work import HEARTBEAT_US
from duly_conformance import steps
from duly_conformance.kit import SECOND_US
from tests.store.sqlite.conftest import AT_ONCE

KEY = LeaseKey(0, Lane.LIVE)
TTL_US = 5 * SECOND_US


@pytest.fixture
def other(path, clock):
    """Another process on the same file."""
    opened = SqliteStore(path, clock, settings=AT_ONCE)
    yield opened
    opened.close()


def hold_lock(store, clock, passed_us):
    """Let time pass while nobody can write."""
    with store.transaction(passed_us + 1):
        clock.advance(passed_us)


def test_an_owner_that_could_not_renew_keeps_its_lease(store, other, clock):
    """INV-21: a live owner that renews is never evicted."""
    owner, rival = steps.join(store), steps.join(other)
    store.acquire_leases(owner, [KEY])
    clock.advance(TTL_US - 1)
    other.renew(Renew(member=rival))
    hold_lock(other, clock, SECOND_US)

    assert [] == other.acquire_leases(rival, [KEY])
    assert store.renew(Renew(member=owner)).is_alive


def test_an_owner_that_does_not_come_back_loses_its_lease_after_a_heartbeat(store, other, clock):
    """INV-21: a dead owner's lease is retaken."""
    owner, rival = steps.join(store), steps.join(other)
    store.acquire_leases(owner, [KEY])
    clock.advance(TTL_US - 1)
    other.renew(Renew(member=rival))
    hold_lock(other, clock, SECOND_US)
    clock.advance(HEARTBEAT_US - 1)

    assert [] == other.acquire_leases(rival, [KEY])
    clock.advance(1)
    (lease,) = other.acquire_leases(rival, [KEY])
    assert 2 == lease.epoch
    assert not store.renew(Renew(member=owner)).is_alive


def test_a_short_wait_changes_nothing(store, other, clock):
    owner, rival = steps.join(store), steps.join(other)
    store.acquire_leases(owner, [KEY])
    clock.advance(TTL_US - 1)
    other.renew(Renew(member=rival))
    hold_lock(other, clock, SECOND_US // 2)

    assert 1 == len(other.acquire_leases(rival, [KEY]))


def test_a_write_that_found_the_file_locked_puts_judging_off(store, other, path, clock):
    """Another program held the lock, so others could not renew either."""
    owner, rival = steps.join(store), steps.join(other)
    store.acquire_leases(owner, [KEY])
    stranger = apsw.Connection(str(path))
    stranger.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable):
        other.renew(Renew(member=rival))
    clock.advance(TTL_US)
    stranger.execute("ROLLBACK")
    stranger.close()

    assert other.renew(Renew(member=rival)).is_alive
    assert [] == other.acquire_leases(rival, [KEY])
    assert store.renew(Renew(member=owner)).is_alive


def test_judging_that_a_clock_ahead_put_off_is_not_put_off_once_it_is_right(store, other, clock):
    """INV-21: nobody waits an hour because somebody's clock was an hour ahead."""
    began = clock.now_us()
    clock.set(began + 3600 * SECOND_US)
    hold_lock(other, clock, SECOND_US)
    clock.set(began)
    owner, rival = steps.join(store), steps.join(other)
    store.acquire_leases(owner, [KEY])
    clock.advance(TTL_US - 1)
    other.renew(Renew(member=rival))
    clock.advance(1)

    assert [rival] == [member.id for member in other.status().members]
    assert (rival,) == other.renew(Renew(member=rival)).dispatchers
    assert 1 == len(other.acquire_leases(rival, [KEY]))


def test_judging_is_put_off_again_after_a_clock_that_ran_ahead(store, other, clock):
    """INV-21: what that clock has written does not stand in the way."""
    began = clock.now_us()
    clock.set(began + 3600 * SECOND_US)
    hold_lock(other, clock, SECOND_US)
    clock.set(began)
    owner, rival = steps.join(store), steps.join(other)
    store.acquire_leases(owner, [KEY])
    clock.advance(TTL_US - 1)
    other.renew(Renew(member=rival))
    hold_lock(other, clock, SECOND_US)

    assert [] == other.acquire_leases(rival, [KEY])
    assert store.renew(Renew(member=owner)).is_alive


def test_who_was_found_dead_stays_dead_though_judging_is_put_off(store, other, clock):
    """INV-4: a verdict is for ever."""
    owner = steps.join(store)
    clock.advance(TTL_US)
    assert not store.renew(Renew(member=owner)).is_alive
    hold_lock(other, clock, SECOND_US)

    assert not store.renew(Renew(member=owner)).is_alive


def test_a_clock_that_goes_back_brings_nobody_back(store, clock):
    """INV-4."""
    owner, began = steps.join(store), clock.now_us()
    clock.advance(TTL_US)
    assert not store.renew(Renew(member=owner)).is_alive
    clock.set(began)

    assert not store.renew(Renew(member=owner)).is_alive
