"""Fencing: a stale owner writes nothing, and is told so."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from duly.domain.literals import Lane
from duly.errors import LeaseLost
from duly.store.dispatch import (
    MEMBER_TTL_US,
    Fence,
    FireResult,
    Lease,
    LeaseKey,
    Prune,
    Renew,
)
from duly.testing.conformance import steps
from duly.testing.conformance import work_steps as work
from duly.testing.conformance.attempts import NOTHING_KEPT
from duly.testing.factories import HOUR_US, delayed_fire, id_in_shard, on_time, timer_of
from duly.testing.snapshot import snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock


def settle_nothing(store: Store, fence: Fence) -> None:
    """Settle, as whoever has no business to is told."""
    with suppress(LeaseLost):
        work.settle(store, fence)


ORDERS: dict[str, Callable[[Store, Fence], object]] = {
    "renew": lambda store, fence: store.renew(Renew(member=fence.member)),
    "lease": lambda store, fence: store.acquire_leases(fence.member, steps.every_key(store)),
    "fire": steps.fire,
    "settle": settle_nothing,
    "prune": lambda store, fence: store.prune(Prune(fence=fence, retention=NOTHING_KEPT, limit=1)),
}
"""What a dispatcher does under its membership."""


class Fencing:
    """A stale owner writes nothing (F4, INV-5)."""

    def test_an_owner_that_was_taken_over_is_fenced(self, store: Store, clock: ManualClock) -> None:
        """F4, INV-5: it was paused, comes back, and finds that its time is over."""
        record, stale = steps.due_and_owned(store, clock)
        clock.advance(MEMBER_TTL_US)
        steps.own(store)
        before = snapshot(store).without_audit()

        fired = steps.fire(store, stale, on_time(record))

        assert ((FireResult.FENCED,), 0) == (fired.results, fired.runs_made)
        assert {lease.key for lease in stale.leases} == set(fired.lost)
        assert before == snapshot(store).without_audit()

    def test_an_expired_owner_is_fenced_though_nobody_took_over(
        self, store: Store, clock: ManualClock
    ) -> None:
        """F4: by the store's clock, at the very instant of expiry."""
        record, stale = steps.due_and_owned(store, clock)
        clock.advance(MEMBER_TTL_US - 1)
        assert (FireResult.FIRED,) == steps.fire(store, stale, on_time(record)).results
        second, stale = steps.due_and_owned(store, clock, "second")
        clock.advance(MEMBER_TTL_US)

        fired = steps.fire(store, stale, on_time(second))

        assert (FireResult.FENCED,) == fired.results
        assert {lease.key for lease in stale.leases} == set(fired.lost)

    @pytest.mark.parametrize("order", ["renew", "lease", "fire", "settle", "prune"])
    def test_an_owner_that_was_found_expired_stays_so(
        self, store: Store, clock: ManualClock, order: str
    ) -> None:
        """F4, INV-4: nobody took over, and the clock is set back to when it was alive."""
        stale = steps.own(store)
        clock.advance(MEMBER_TTL_US)
        ORDERS[order](store, stale)
        clock.set(clock.now_us() - MEMBER_TTL_US)

        assert () == store.status().members
        assert not store.renew(Renew(member=stale.member)).is_alive
        heir = steps.own(store)
        assert {heir.member} == {lease.owner for lease in store.status().leases}

    def test_an_owner_that_has_left_is_fenced(self, store: Store, clock: ManualClock) -> None:
        """INV-24."""
        record, fence = steps.due_and_owned(store, clock)
        store.leave(fence.member)

        assert (FireResult.FENCED,) == steps.fire(store, fence, on_time(record)).results

    @pytest.mark.parametrize("difference", [-1, 1])
    def test_another_epoch_is_fenced(
        self, store: Store, clock: ManualClock, difference: int
    ) -> None:
        """R1: older or newer, it is not the one that the store gave."""
        record, fence = steps.due_and_owned(store, clock)
        leases = tuple(Lease(one.key, one.epoch + difference) for one in fence.leases)

        fired = steps.fire(store, Fence(fence.member, leases), on_time(record))

        assert (FireResult.FENCED,) == fired.results
        assert {lease.key for lease in leases} == set(fired.lost)

    def test_the_lease_of_another_member_is_no_lease(
        self, store: Store, clock: ManualClock
    ) -> None:
        """F4: a number that was guessed right is not ownership."""
        record, fence = steps.due_and_owned(store, clock)
        other = Fence(steps.join(store), fence.leases)

        assert (FireResult.FENCED,) == steps.fire(store, other, on_time(record)).results

    def test_the_lease_of_another_lane_is_not_enough(
        self, store: Store, clock: ManualClock
    ) -> None:
        """F8: timers are fired by the owner of the live lane."""
        record = steps.create(store)
        steps.fall_due(clock, record)
        fence = steps.own(store, (Lane.CATCH_UP, Lane.BACKFILL))

        fired = steps.fire(store, fence, on_time(record))

        assert ((FireResult.FENCED,), ()) == (fired.results, fired.lost)

    def test_delayed_runs_are_fenced_too(self, store: Store, clock: ManualClock) -> None:
        """F4, INV-5."""
        delayed = steps.delay(store, clock.now_us() + 1)
        stale = steps.own(store)
        clock.advance(MEMBER_TTL_US)
        steps.own(store)

        fired = steps.fire(store, stale, delayed_fire(delayed, store.status().shards))

        assert (FireResult.FENCED,) == fired.results
        assert delayed == store.get_delayed(delayed.id)
        assert store.get_run(delayed.id) is None

    def test_a_lost_lease_does_not_fence_the_others(self, store: Store, clock: ManualClock) -> None:
        """F5: shards move one by one."""
        shards = store.status().shards
        lost, kept = (
            steps.create(store, name, id=id_in_shard(clock.now_us(), name, shard, shards))
            for name, shard in (("lost", 0), ("kept", 1))
        )
        fence = steps.own(store, ttl_us=9 * HOUR_US)
        key = LeaseKey(0, Lane.LIVE)
        store.release_leases(Fence(fence.member, tuple(x for x in fence.leases if x.key == key)))
        steps.fall_due(clock, lost)

        fired = steps.fire(store, fence, on_time(lost), on_time(kept))

        assert (FireResult.FENCED, FireResult.FIRED) == fired.results
        assert ((key,), 1) == (fired.lost, fired.runs_made)
        assert (timer_of(lost),) == steps.load(store, clock.now_us())

    def test_a_refused_owner_is_on_record(self, store: Store, clock: ManualClock) -> None:
        """A2, INV-5, INV-19: one entry for a batch, not one for each timer."""
        record, stale = steps.due_and_owned(store, clock)
        delayed = steps.delay(store, clock.now_us(), is_late_ok=True, delay_us=1)
        clock.advance(MEMBER_TTL_US)
        steps.own(store)

        steps.fire(store, stale, on_time(record), delayed_fire(delayed, store.status().shards))

        assert 1 == len(steps.audit(store, action="lease.refused"))

    def test_an_owner_in_good_standing_is_not_on_record(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A2: a healthy run is its own record."""
        record, fence = steps.due_and_owned(store, clock)
        before = steps.audit(store)

        steps.fire(store, fence, on_time(record))

        assert before == steps.audit(store)

    def test_what_is_fenced_is_not_told_what_became_of_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        """F4: the fence comes first, whether the timer is gone or early."""
        gone, early = steps.create(store, "gone"), steps.create(store, "early")
        steps.pause(store, gone)
        fence = steps.own(store)
        store.leave(fence.member)

        fired = steps.fire(store, fence, on_time(gone), on_time(early))

        assert (FireResult.FENCED, FireResult.FENCED) == fired.results
