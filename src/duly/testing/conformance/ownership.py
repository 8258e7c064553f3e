"""Members and leases: the part of the contract about who may write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duly.domain.literals import Lane
from duly.store.dispatch import (
    MEMBER_TTL_US,
    Fence,
    Lease,
    LeaseKey,
    MemberId,
    MemberKind,
    Renew,
)
from duly.testing.conformance import steps
from duly.testing.factories import HOUR_US, SECOND_US, dispatcher

if TYPE_CHECKING:
    from duly.store.dispatch import LeaseRecord, Member
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock

LIVE_0 = LeaseKey(0, Lane.LIVE)
LIVE_1 = LeaseKey(1, Lane.LIVE)


class Membership:
    """What `join`, `renew` and `leave` promise."""

    def test_joining_makes_a_member_that_others_can_see(
        self, store: Store, clock: ManualClock
    ) -> None:
        """F5."""
        member, now = store.join(dispatcher(host="here", process=7, tzdata="2026a"))

        (found,) = store.status().members
        assert clock.now_us() == now
        assert (member, MemberKind.DISPATCHER, "here", 7, "2026a") == (
            found.id,
            found.kind,
            found.host,
            found.process,
            found.tzdata,
        )
        assert (True, now, now, now + MEMBER_TTL_US) == (
            found.is_alive,
            found.started_at,
            found.renewed_at,
            found.expires_at,
        )

    def test_an_id_is_never_used_again(self, store: Store, clock: ManualClock) -> None:
        """R1, INV-5: not after leaving, nor after expiry."""
        first = steps.join(store)
        store.leave(first)
        second = steps.join(store)
        clock.advance(2 * MEMBER_TTL_US)
        third = steps.join(store)

        assert first < second < third

    def test_renewing_extends_the_membership(self, store: Store, clock: ManualClock) -> None:
        """INV-21: whoever renews in time is never evicted."""
        member = steps.join(store)
        for _ in range(3):
            clock.advance(MEMBER_TTL_US - 1)

            renewal = store.renew(Renew(member=member))

            assert (True, clock.now_us()) == (renewal.is_alive, renewal.now)
        assert clock.now_us() + MEMBER_TTL_US == found_member(store, member).expires_at

    def test_a_membership_ends_at_its_expiry_by_the_clock_of_the_store(
        self, store: Store, clock: ManualClock
    ) -> None:
        """F4: at the instant itself it is over."""
        member = steps.join(store)
        clock.advance(MEMBER_TTL_US)

        assert not store.renew(Renew(member=member)).is_alive

    def test_a_renewal_says_how_long_from_now(self, store: Store, clock: ManualClock) -> None:
        """F4: the time to live is that of the renewal, counted from now."""
        member = steps.join(store, ttl_us=1000)
        store.renew(Renew(member=member, ttl_us=50))
        clock.advance(50)

        assert not store.renew(Renew(member=member)).is_alive

    def test_whoever_is_declared_dead_stays_dead(self, store: Store, clock: ManualClock) -> None:
        """F4, INV-4: also when the clock is set back afterwards."""
        loser = steps.own(store)
        clock.advance(MEMBER_TTL_US)
        steps.own(store)
        clock.set(clock.now_us() - MEMBER_TTL_US)

        assert not store.renew(Renew(member=loser.member)).is_alive
        assert [] == store.acquire_leases(loser.member, steps.every_key(store))

    def test_a_membership_from_a_clock_that_ran_ahead_is_over_once_it_is_put_right(
        self, store: Store, clock: ManualClock
    ) -> None:
        """F5, INV-21: nobody waits an hour for a dead owner because its clock was an hour ahead."""
        began = clock.now_us()
        clock.set(began + HOUR_US)
        owner = steps.own(store)
        clock.set(began)
        heir = steps.join(store)

        assert (heir,) == store.renew(Renew(member=heir)).dispatchers
        assert [heir] == [member.id for member in store.status().members]
        assert len(owner.leases) == len(store.acquire_leases(heir, steps.every_key(store)))
        assert not store.renew(Renew(member=owner.member)).is_alive

    @pytest.mark.parametrize("back_us", [2 * SECOND_US, MEMBER_TTL_US])
    def test_a_small_step_back_of_the_clock_leaves_the_living_alive(
        self, store: Store, clock: ManualClock, back_us: int
    ) -> None:
        """INV-4, INV-21: up to the time that a membership lasts."""
        owner = steps.own(store)
        clock.set(clock.now_us() - back_us)
        rival = steps.join(store)

        assert (owner.member, rival) == store.renew(Renew(member=rival)).dispatchers
        assert [owner.member, rival] == [member.id for member in store.status().members]
        assert [] == store.acquire_leases(rival, steps.every_key(store))
        assert store.renew(Renew(member=owner.member)).is_alive

    def test_whoever_has_left_is_no_member(self, store: Store) -> None:
        """INV-24."""
        member = steps.join(store)
        store.leave(member)

        assert not store.renew(Renew(member=member)).is_alive
        assert () == store.status().members

    def test_somebody_unknown_is_no_member(self, store: Store) -> None:
        """F4."""
        assert not store.renew(Renew(member=MemberId(4711))).is_alive
        assert [] == store.acquire_leases(MemberId(4711), [LIVE_0])

    def test_a_renewal_names_the_dispatchers_that_can_work(
        self, store: Store, clock: ManualClock
    ) -> None:
        """F5, F7: alive and not holding, in order; workers own no time."""
        steps.join(store, ttl_us=1)
        first = steps.join(store)
        steps.join(store, kind=MemberKind.WORKER)
        holding, last, gone = steps.join(store), steps.join(store), steps.join(store)
        store.renew(Renew(member=holding, is_holding=True, skew_us=200_000))
        store.leave(gone)
        clock.advance(1)

        renewal = store.renew(Renew(member=last))

        assert (first, last) == renewal.dispatchers
        assert store.status().shards == renewal.shards
        found = found_member(store, holding)
        assert (True, 200_000) == (found.is_holding, found.skew_us)


class Leases:
    """What `acquire_leases` and `release_leases` promise."""

    def test_a_free_lease_is_taken(self, store: Store, clock: ManualClock) -> None:
        """F4."""
        member = steps.join(store)
        (lease,) = store.acquire_leases(member, [LIVE_0])

        record = lease_record(store, LIVE_0)
        assert (LIVE_0, lease.epoch, member, clock.now_us()) == (
            record.key,
            record.epoch,
            record.owner,
            record.acquired_at,
        )

    def test_the_living_keep_what_they_own(self, store: Store, clock: ManualClock) -> None:
        """INV-4, INV-21: up to the last microsecond of their membership."""
        fence = steps.own(store)
        clock.advance(MEMBER_TTL_US - 1)
        other = steps.join(store)

        assert [] == store.acquire_leases(other, steps.every_key(store))
        assert fence.member == lease_record(store, LIVE_0).owner

    def test_what_is_ours_is_not_taken_twice(self, store: Store) -> None:
        """INV-4: asking again gives nothing new, and keeps the epoch."""
        member = steps.join(store)
        (lease,) = store.acquire_leases(member, [LIVE_0])

        assert [] == store.acquire_leases(member, [LIVE_0])
        assert lease.epoch == lease_record(store, LIVE_0).epoch

    def test_a_renewal_says_what_is_ours(self, store: Store) -> None:
        """F4: whoever lost an answer learns what has become of the order."""
        member = steps.join(store)
        taken = store.acquire_leases(member, [LIVE_1, LIVE_0])
        other = steps.join(store)

        renewals = [store.renew(Renew(member=one)).leases for one in (member, other)]

        assert [tuple(sorted(taken, key=lambda lease: lease.key)), ()] == renewals

    def test_a_part_of_what_is_wanted_may_be_free(self, store: Store) -> None:
        """F5."""
        store.acquire_leases(steps.join(store), [LIVE_0])

        taken = store.acquire_leases(steps.join(store), [LIVE_0, LIVE_1])

        assert [LIVE_1] == [lease.key for lease in taken]

    def test_lanes_of_a_shard_are_leased_apart(self, store: Store) -> None:
        """F8: catch-up may be somebody else's."""
        live, late = steps.join(store), steps.join(store)
        store.acquire_leases(live, [LIVE_0])
        store.acquire_leases(late, [LeaseKey(0, Lane.CATCH_UP)])

        assert live == lease_record(store, LIVE_0).owner
        assert late == lease_record(store, LeaseKey(0, Lane.CATCH_UP)).owner

    def test_an_expired_owner_loses_its_lease_to_a_higher_epoch(
        self, store: Store, clock: ManualClock
    ) -> None:
        """F5, INV-4."""
        (old,) = store.acquire_leases(steps.join(store), [LIVE_0])
        clock.advance(MEMBER_TTL_US)

        (new,) = store.acquire_leases(heir := steps.join(store), [LIVE_0])

        assert new.epoch > old.epoch
        assert heir == lease_record(store, LIVE_0).owner

    @pytest.mark.parametrize("how", ["release", "leave", "expire"])
    def test_epochs_only_grow(self, store: Store, clock: ManualClock, how: str) -> None:
        """R1, INV-4: however a lease comes free, its next owner writes under a higher number."""
        epochs = []
        for _ in range(4):
            member = steps.join(store)
            (lease,) = store.acquire_leases(member, [LIVE_0])
            epochs.append(lease.epoch)
            if how == "release":
                store.release_leases(Fence(member, (lease,)))
            elif how == "leave":
                store.leave(member)
            else:
                clock.advance(MEMBER_TTL_US)

        assert sorted(set(epochs)) == epochs

    def test_a_takeover_is_audited_once_for_each_that_died(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A2, INV-19: however many leases it had."""
        steps.own(store, (Lane.LIVE,))
        steps.own(store, (Lane.CATCH_UP,))
        clock.advance(MEMBER_TTL_US)
        steps.own(store)

        entries = steps.audit(store, action="member.declared-dead")
        assert 2 == len(entries)
        assert {clock.now_us()} == {entry.at for entry in entries}

    def test_a_free_lease_is_taken_without_an_audit_entry(self, store: Store) -> None:
        """A2: a healthy step is not a decision about anybody."""
        store.leave(steps.own(store).member)
        steps.own(store)

        assert [] == steps.audit(store)

    def test_the_dead_get_no_leases(self, store: Store, clock: ManualClock) -> None:
        """F4."""
        member = steps.join(store)
        clock.advance(MEMBER_TTL_US)

        assert [] == store.acquire_leases(member, [LIVE_0])
        assert lease_record(store, LIVE_0).owner is None

    def test_a_released_lease_is_free_at_once(self, store: Store) -> None:
        """F5, INV-24."""
        fence = steps.own(store)
        store.release_leases(fence)

        assert {None} == {lease.owner for lease in store.status().leases}
        assert len(fence.leases) == len(steps.own(store).leases)

    def test_only_what_is_still_ours_is_released(self, store: Store, clock: ManualClock) -> None:
        """INV-5: a stale owner can't free what another has taken."""
        stale = steps.own(store)
        clock.advance(MEMBER_TTL_US)
        heir = steps.own(store)

        store.release_leases(stale)

        assert {heir.member} == {lease.owner for lease in store.status().leases}

    def test_another_epoch_of_ours_is_not_released(self, store: Store) -> None:
        """INV-5: a release that was delayed says which epoch it means."""
        member = steps.join(store)
        (old,) = store.acquire_leases(member, [LIVE_0])
        store.release_leases(Fence(member, (old,)))
        (new,) = store.acquire_leases(member, [LIVE_0])

        store.release_leases(Fence(member, (old,)))

        assert Lease(LIVE_0, new.epoch) == new
        assert member == lease_record(store, LIVE_0).owner

    def test_leaving_frees_every_lease(self, store: Store) -> None:
        """F5, INV-24."""
        fence = steps.own(store)
        store.leave(fence.member)

        assert {None} == {lease.owner for lease in store.status().leases}


def found_member(store: Store, member: MemberId) -> Member:
    """Return a living member as the status shows it."""
    return next(found for found in store.status().members if found.id == member)


def lease_record(store: Store, key: LeaseKey) -> LeaseRecord:
    """Return a lease as the status shows it."""
    return next(found for found in store.status().leases if found.key == key)
