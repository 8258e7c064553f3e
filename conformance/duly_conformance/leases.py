"""What every store must do about members, leases, fences, and the loading of timers."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from duly.domain.enums import Lane, Missed
from duly.domain.schedule_changes import decide_resume
from duly.domain.schedules import NextOccurrence
from duly.errors import LeaseLost
from duly.store.ports.dispatch import (
    MEMBER_TTL_US,
    Fence,
    FireResult,
    Lease,
    LeaseKey,
    LoadTimers,
    MemberId,
    MemberKind,
    Renew,
)
from duly.store.ports.maintenance import Prune
from duly.store.ports.schedules import NEAR_US
from duly.timetable.interval import every
from duly_conformance import steps
from duly_conformance import steps as work
from duly_conformance.kit import (
    HOUR_US,
    SECOND_US,
    add_runs,
    cancel,
    definition,
    delayed_fire,
    dispatcher,
    id_in_shard,
    move,
    new_run,
    new_schedule,
    on_time,
    snapshot,
    staying,
    timer_of,
    timer_of_delayed,
)
from duly_conformance.reading import NOTHING_KEPT
from duly_conformance.steps import WAIT_MAX_US, AtPlaces

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.engine.manual_clock import ManualClock
    from duly.store.ports import Store
    from duly.store.ports.dispatch import ArrivalsCursor, LeaseRecord, Member, Timer


def settle_nothing(store: Store, fence: Fence) -> None:
    """Settle, as whoever has no business to is told."""
    with suppress(LeaseLost):
        work.settle_lost(store, fence)


ORDERS: dict[str, Callable[[Store, Fence], object]] = {
    "renew": lambda store, fence: store.renew(Renew(member=fence.member)),
    "lease": lambda store, fence: store.acquire_leases(fence.member, steps.every_key(store)),
    "fire": steps.fire,
    "settle": settle_nothing,
    "prune": lambda store, fence: store.prune(Prune(fence=fence, retention=NOTHING_KEPT, limit=1)),
}
"""What a dispatcher does under its membership."""


class Fencing:
    """A stale owner writes nothing (INV-5)."""

    def test_an_owner_that_was_taken_over_is_fenced(self, store: Store, clock: ManualClock) -> None:
        """INV-5: it was paused, comes back, and finds that its time is over."""
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
        """By the store's clock, at the very instant of expiry."""
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
        """INV-4: nobody took over, and the clock is set back to when it was alive."""
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
        """Older or newer, it is not the one that the store gave."""
        record, fence = steps.due_and_owned(store, clock)
        leases = tuple(Lease(one.key, one.epoch + difference) for one in fence.leases)

        fired = steps.fire(store, Fence(fence.member, leases), on_time(record))

        assert (FireResult.FENCED,) == fired.results
        assert {lease.key for lease in leases} == set(fired.lost)

    def test_the_lease_of_another_member_is_no_lease(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A number that was guessed right is not ownership."""
        record, fence = steps.due_and_owned(store, clock)
        other = Fence(steps.join(store), fence.leases)

        assert (FireResult.FENCED,) == steps.fire(store, other, on_time(record)).results

    def test_the_lease_of_another_lane_is_not_enough(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Timers are fired by the owner of the live lane."""
        record = steps.create(store)
        steps.fall_due(clock, record)
        fence = steps.own(store, (Lane.CATCH_UP, Lane.BACKFILL))

        fired = steps.fire(store, fence, on_time(record))

        assert ((FireResult.FENCED,), ()) == (fired.results, fired.lost)

    def test_delayed_runs_are_fenced_too(self, store: Store, clock: ManualClock) -> None:
        """INV-5."""
        delayed = steps.delay(store, clock.now_us() + 1)
        stale = steps.own(store)
        clock.advance(MEMBER_TTL_US)
        steps.own(store)

        fired = steps.fire(store, stale, delayed_fire(delayed, store.status().shards))

        assert (FireResult.FENCED,) == fired.results
        assert delayed == store.get_delayed(delayed.id)
        assert store.get_run(delayed.id) is None

    def test_a_lost_lease_does_not_fence_the_others(self, store: Store, clock: ManualClock) -> None:
        """Shards move one by one."""
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
        """INV-5, INV-19: one entry for a batch, not one for each timer."""
        record, stale = steps.due_and_owned(store, clock)
        delayed = steps.delay(store, clock.now_us(), is_late_ok=True, delay_us=1)
        clock.advance(MEMBER_TTL_US)
        steps.own(store)

        steps.fire(store, stale, on_time(record), delayed_fire(delayed, store.status().shards))

        assert 1 == len(steps.audit(store, action="lease.refused"))

    def test_an_owner_in_good_standing_is_not_on_record(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A healthy run is its own record."""
        record, fence = steps.due_and_owned(store, clock)
        before = steps.audit(store)

        steps.fire(store, fence, on_time(record))

        assert before == steps.audit(store)

    def test_what_is_fenced_is_not_told_what_became_of_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        """The fence comes first, whether the timer is gone or early."""
        gone, early = steps.create(store, "gone"), steps.create(store, "early")
        steps.pause(store, gone)
        fence = steps.own(store)
        store.leave(fence.member)

        fired = steps.fire(store, fence, on_time(gone), on_time(early))

        assert (FireResult.FENCED, FireResult.FENCED) == fired.results


class Loading:
    """What `load_timers` promises."""

    def test_both_kinds_of_timers_are_loaded_in_order_of_due(
        self, store: Store, clock: ManualClock
    ) -> None:
        shards = store.status().shards
        later = steps.create(store)
        latest = steps.delay(store, clock.now_us() + 2 * HOUR_US)
        first = steps.delay(store, clock.now_us() + 5, "soon")

        assert (
            timer_of_delayed(first, shards),
            timer_of(later),
            timer_of_delayed(latest, shards),
        ) == steps.load(store, latest.due_at)

    def test_a_timer_says_nominal_time_and_due_apart(self, store: Store) -> None:
        """Jitter moves the due, and nothing else."""
        record = steps.create(store, jitter_us=HOUR_US)

        assert record.pending is not None
        (timer,) = steps.load(store, record.pending.due_at)
        assert timer_of(record) == timer
        assert timer.due_at > timer.scheduled_for

    def test_the_window_excludes_its_beginning_and_includes_its_end(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Two windows side by side hold each timer once."""
        dues = [clock.now_us() + number for number in (10, 20, 30)]
        for due in dues:
            steps.delay(store, due)

        assert dues[1:] == [timer.due_at for timer in steps.load(store, dues[2], after=dues[0])]
        assert dues[:1] == [timer.due_at for timer in steps.load(store, dues[1] - 1)]

    def test_what_is_overdue_is_loaded_too(self, store: Store, clock: ManualClock) -> None:
        """A newcomer replays what the dead one had not fired."""
        record = steps.create(store)
        clock.advance("5h")

        assert (timer_of(record),) == steps.load(store, clock.now_us())

    def test_only_the_shards_asked_for_are_loaded(self, store: Store) -> None:
        record = steps.create(store)
        assert record.pending is not None
        shards = store.status().shards
        others = tuple(shard for shard in range(shards) if shard != record.shard)
        until = record.pending.due_at

        ours = store.load_timers(load_command((record.shard,), until))
        theirs = store.load_timers(load_command(others, until))

        assert ((timer_of(record),), ()) == (ours.timers, theirs.timers)

    def test_an_answer_that_is_whole_goes_through_to_the_end(
        self, store: Store, clock: ManualClock
    ) -> None:
        steps.create(store)
        until = clock.now_us() + 9 * HOUR_US
        loaded = store.load_timers(load_command(tuple(range(store.status().shards)), until))

        assert (until, clock.now_us()) == (loaded.through, loaded.now)

    def test_a_limit_cuts_only_between_instants(self, store: Store, clock: ManualClock) -> None:
        """All up to `through` are there, so loading on from it misses none."""
        now = clock.now_us()
        for number, due in enumerate((10, 20, 20, 20, 30, 40)):
            steps.delay(store, now + due, f"{number}")
        shards = tuple(range(store.status().shards))

        loaded = store.load_timers(load_command(shards, now + 100, limit=3))

        assert now + 10 <= loaded.through < now + 20
        assert [now + 10] == dues_through(loaded.timers, loaded.through)
        rest = steps.load(store, now + 100, after=loaded.through)
        assert [now + due for due in (20, 20, 20, 30, 40)] == [timer.due_at for timer in rest]

    @pytest.mark.parametrize("limit", [3, 4, 5])
    def test_page_after_page_holds_every_timer(
        self, store: Store, clock: ManualClock, limit: int
    ) -> None:
        """With instants that many share."""
        now = clock.now_us()
        for number in range(20):
            steps.delay(store, now + 10 + number // 3, f"{number}")
        shards, until = tuple(range(store.status().shards)), now + 100
        found: list[int] = []
        after = None
        while after is None or after < until:
            page = store.load_timers(
                LoadTimers(shards=shards, after=after, until=until, limit=limit)
            )
            found += dues_through(page.timers, page.through)
            assert after is None or page.through > after
            after = page.through

        assert [now + 10 + number // 3 for number in range(20)] == found

    def test_more_timers_at_one_instant_than_the_limit_still_come(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A limit below a crowd must not stop the dispatcher for ever."""
        for number in range(5):
            steps.delay(store, clock.now_us() + 10, f"{number}")
        shards = tuple(range(store.status().shards))

        loaded = store.load_timers(load_command(shards, clock.now_us() + 100, limit=2))

        assert len(loaded.timers) >= 2

    def test_of_a_crowd_a_part_is_loaded_and_the_rest_stays_to_be_loaded(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Nothing of it is taken for loaded, and what comes before it is."""
        now = clock.now_us()
        for number in range(40):
            steps.delay(store, now + 20, f"{number}")
        shards = tuple(range(store.status().shards))
        order = LoadTimers(shards=shards, after=now, until=now + 30, limit=3, crowd_max=10)

        loaded = store.load_timers(order)

        assert (10, now + 19) == (len({one.ref for one in loaded.timers}), loaded.through)
        assert {now + 20} == {timer.due_at for timer in loaded.timers}

    def test_definitions_that_are_gone_are_left_out(self, store: Store) -> None:
        record = steps.create(store)
        known, unknown = (record.id, 1), (record.id, 9)

        assert {known: record.definition} == store.read_definitions([known, unknown])


class ArrivalsFeed:
    """What `read_arrivals` promises: nothing near is missed."""

    has_open_transactions = True
    """Whether others can write while a lent transaction is open; a backend's tests may deny it."""

    def test_a_new_schedule_that_is_near_is_announced(self, store: Store) -> None:
        """Also when it is due at the very edge of near."""
        cursor = store.start_of_arrivals()
        record = steps.create(store, pending=at(store.now() + NEAR_US))

        assert [timer_of(record)] == heard(store, cursor)[0]

    def test_a_new_run_that_is_near_is_announced(self, store: Store, clock: ManualClock) -> None:
        """Something due in 50 ms."""
        cursor = store.start_of_arrivals()
        delayed = steps.delay(store, clock.now_us() + 50_000)

        assert [timer_of_delayed(delayed, store.status().shards)] == heard(store, cursor)[0]

    def test_an_announcement_is_heard_from_the_cursor_on(
        self, store: Store, clock: ManualClock
    ) -> None:
        """What was heard is not told again, and what was there before is loaded instead."""
        steps.delay(store, clock.now_us() + 10, "before")
        cursor = store.start_of_arrivals()
        first = steps.delay(store, clock.now_us() + 20, "first")
        timers, cursor = heard(store, cursor)
        second = steps.delay(store, clock.now_us() + 15, "second")

        assert [first.id] == [timer.ref for timer in timers]
        timers, cursor = heard(store, cursor)
        assert [second.id] == [timer.ref for timer in timers]
        assert [] == heard(store, cursor)[0]

    def test_an_edit_that_brings_a_timer_near_is_announced(self, store: Store) -> None:
        """With its new version and due."""
        record = steps.create(store)
        cursor = store.start_of_arrivals()
        edited = steps.apply(store, record, staying(record, pending=at(store.now() + SECOND_US)))

        assert [timer_of(edited)] == heard(store, cursor)[0]

    def test_an_edit_that_keeps_a_near_timer_is_announced(
        self, store: Store, clock: ManualClock
    ) -> None:
        """What is loaded carries the old version, and would be gone when it fires."""
        record = steps.create(store, pending=at(store.now() + SECOND_US))
        cursor = store.start_of_arrivals()
        edited = steps.edit(store, record, definition(task="other"))

        assert [timer_of(edited)] == heard(store, cursor)[0]

    def test_a_schedule_that_resumes_near_its_due_is_announced(
        self, store: Store, clock: ManualClock
    ) -> None:
        paused = steps.pause(store, steps.create(store, timetable=every("1m")))
        cursor = store.start_of_arrivals()
        resumed = steps.apply(
            store, paused, decide_resume(paused, clock.now_us(), Missed.SKIP, None)
        )

        assert [timer_of(resumed)] == heard(store, cursor)[0]

    def test_a_run_that_is_moved_near_is_announced(self, store: Store, clock: ManualClock) -> None:
        delayed = steps.delay(store, clock.now_us() + HOUR_US)
        cursor = store.start_of_arrivals()
        moved = store.move_delayed(move(delayed.id, clock.now_us() + 50_000))

        assert [timer_of_delayed(moved, store.status().shards)] == heard(store, cursor)[0]

    def test_what_is_announced_is_told_as_it_is_now(self, store: Store, clock: ManualClock) -> None:
        """What was moved again carries the last due, what was cancelled is not told."""
        cursor = store.start_of_arrivals()
        cancelled = steps.delay(store, clock.now_us() + 10, "cancelled")
        moved = steps.delay(store, clock.now_us() + 20, "moved")
        moved = store.move_delayed(move(moved.id, clock.now_us() + 30))
        store.cancel_delayed(cancel(cancelled.id))

        timers, _ = heard(store, cursor)

        assert {timer_of_delayed(moved, store.status().shards)} == set(timers)

    def test_only_the_shards_asked_for_are_heard(self, store: Store) -> None:
        shards = store.status().shards
        cursor = store.start_of_arrivals()
        for shard in range(shards):
            name = f"in {shard}"
            identity = id_in_shard(store.now(), name, shard, shards)
            steps.create(store, name, id=identity, pending=at(store.now() + SECOND_US))

        told = store.read_arrivals(cursor, (shards - 1,))

        assert [shards - 1] == [timer.shard for timer in told.timers]
        assert store.now() == told.now

    def test_what_a_lent_transaction_writes_is_heard_after_its_commit(
        self, store: Store, clock: ManualClock
    ) -> None:
        cursor = store.start_of_arrivals()
        asked = new_run(clock.now_us() + SECOND_US)
        with store.transaction(SECOND_US) as lent:
            store.joined(lent).add_runs(add_runs(asked))

        assert [asked.id] == [timer.ref for timer in heard(store, cursor)[0]]

    def test_a_commit_that_comes_late_is_not_missed(self, store: Store, clock: ManualClock) -> None:
        """Written first, committed last; a mark of the highest number seen would lose it."""
        if not self.has_open_transactions:
            pytest.skip("this store has one writer: nobody writes beside an open transaction")
        cursor = store.start_of_arrivals()
        slow, quick = new_run(clock.now_us() + SECOND_US, "slow"), clock.now_us() + 2 * SECOND_US
        with store.transaction(SECOND_US) as lent:
            store.joined(lent).add_runs(add_runs(slow))
            delayed = steps.delay(store, quick, "quick")
            timers, cursor = heard(store, cursor)
            assert [delayed.id] == [timer.ref for timer in timers]

        timers, cursor = heard(store, cursor)
        assert [slow.id] == [timer.ref for timer in timers]
        assert [] == heard(store, cursor)[0]


class Waking(AtPlaces):
    """What `wakeups` promises: a hint, and no more."""

    def test_nobody_is_woken_by_nothing(self, store: Store) -> None:
        place = self.place(store)

        assert not place.wait(0)
        place.close()

    def test_waking_wakes_once(self, store: Store) -> None:
        """A wake-up before the wait is not lost, and not heard twice."""
        place = self.place(store)
        place.wake()
        place.wake()

        assert place.wait(WAIT_MAX_US)
        assert not place.wait(0)
        place.close()

    def test_a_near_write_wakes_a_member(self, store: Store) -> None:
        """So that nobody has to poll."""
        place = self.place(store)
        steps.join(store, wake_address=place.address)
        store.create_schedule(new_schedule(store.now(), pending=at(store.now() + SECOND_US)))

        assert place.wait(WAIT_MAX_US)
        place.close()


def load_command(shards: tuple[int, ...], until: int, limit: int = 100) -> LoadTimers:
    """Return the order to load from the beginning."""
    return LoadTimers(shards=shards, after=None, until=until, limit=limit)


def dues_through(timers: tuple[Timer, ...], through: int) -> list[int]:
    """Return the dues up to the last instant that is complete."""
    return [timer.due_at for timer in timers if timer.due_at <= through]


def heard(store: Store, cursor: ArrivalsCursor) -> tuple[list[Timer], ArrivalsCursor]:
    """Return what is announced since a cursor, in all shards, and the cursor after it."""
    told = store.read_arrivals(cursor, range(store.status().shards))
    return list(told.timers), told.cursor


def at(instant: int) -> NextOccurrence:
    """Return an occurrence that falls due at its nominal time."""
    return NextOccurrence(instant, instant)


LIVE_0 = LeaseKey(0, Lane.LIVE)
LIVE_1 = LeaseKey(1, Lane.LIVE)


class Membership:
    """What `join`, `renew` and `leave` promise."""

    def test_joining_makes_a_member_that_others_can_see(
        self, store: Store, clock: ManualClock
    ) -> None:
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
        """INV-5: not after leaving, nor after expiry."""
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
        """At the instant itself it is over."""
        member = steps.join(store)
        clock.advance(MEMBER_TTL_US)

        assert not store.renew(Renew(member=member)).is_alive

    def test_a_renewal_says_how_long_from_now(self, store: Store, clock: ManualClock) -> None:
        """The time to live is that of the renewal, counted from now."""
        member = steps.join(store, ttl_us=1000)
        store.renew(Renew(member=member, ttl_us=50))
        clock.advance(50)

        assert not store.renew(Renew(member=member)).is_alive

    def test_whoever_is_declared_dead_stays_dead(self, store: Store, clock: ManualClock) -> None:
        """INV-4: also when the clock is set back afterwards."""
        loser = steps.own(store)
        clock.advance(MEMBER_TTL_US)
        steps.own(store)
        clock.set(clock.now_us() - MEMBER_TTL_US)

        assert not store.renew(Renew(member=loser.member)).is_alive
        assert [] == store.acquire_leases(loser.member, steps.every_key(store))

    def test_a_membership_from_a_clock_that_ran_ahead_is_over_once_it_is_put_right(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-21: nobody waits an hour for a dead owner because its clock was an hour ahead."""
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
        assert not store.renew(Renew(member=MemberId(4711))).is_alive
        assert [] == store.acquire_leases(MemberId(4711), [LIVE_0])

    def test_a_renewal_names_the_dispatchers_that_can_work(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Alive and not holding, in order; workers own no time."""
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
        """Whoever lost an answer learns what has become of the order."""
        member = steps.join(store)
        taken = store.acquire_leases(member, [LIVE_1, LIVE_0])
        other = steps.join(store)

        renewals = [store.renew(Renew(member=one)).leases for one in (member, other)]

        assert [tuple(sorted(taken, key=lambda lease: lease.key)), ()] == renewals

    def test_a_part_of_what_is_wanted_may_be_free(self, store: Store) -> None:
        store.acquire_leases(steps.join(store), [LIVE_0])

        taken = store.acquire_leases(steps.join(store), [LIVE_0, LIVE_1])

        assert [LIVE_1] == [lease.key for lease in taken]

    def test_lanes_of_a_shard_are_leased_apart(self, store: Store) -> None:
        """Catch-up may be somebody else's."""
        live, late = steps.join(store), steps.join(store)
        store.acquire_leases(live, [LIVE_0])
        store.acquire_leases(late, [LeaseKey(0, Lane.CATCH_UP)])

        assert live == lease_record(store, LIVE_0).owner
        assert late == lease_record(store, LeaseKey(0, Lane.CATCH_UP)).owner

    def test_an_expired_owner_loses_its_lease_to_a_higher_epoch(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-4."""
        (old,) = store.acquire_leases(steps.join(store), [LIVE_0])
        clock.advance(MEMBER_TTL_US)

        (new,) = store.acquire_leases(heir := steps.join(store), [LIVE_0])

        assert new.epoch > old.epoch
        assert heir == lease_record(store, LIVE_0).owner

    @pytest.mark.parametrize("how", ["release", "leave", "expire"])
    def test_epochs_only_grow(self, store: Store, clock: ManualClock, how: str) -> None:
        """INV-4: however a lease comes free, its next owner writes under a higher number."""
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
        """INV-19: however many leases it had."""
        steps.own(store, (Lane.LIVE,))
        steps.own(store, (Lane.CATCH_UP,))
        clock.advance(MEMBER_TTL_US)
        steps.own(store)

        entries = steps.audit(store, action="member.declared-dead")
        assert 2 == len(entries)
        assert {clock.now_us()} == {entry.at for entry in entries}

    def test_a_free_lease_is_taken_without_an_audit_entry(self, store: Store) -> None:
        """A healthy step is not a decision about anybody."""
        store.leave(steps.own(store).member)
        steps.own(store)

        assert [] == steps.audit(store)

    def test_the_dead_get_no_leases(self, store: Store, clock: ManualClock) -> None:
        member = steps.join(store)
        clock.advance(MEMBER_TTL_US)

        assert [] == store.acquire_leases(member, [LIVE_0])
        assert lease_record(store, LIVE_0).owner is None

    def test_a_released_lease_is_free_at_once(self, store: Store) -> None:
        """INV-24."""
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
        """INV-24."""
        fence = steps.own(store)
        store.leave(fence.member)

        assert {None} == {lease.owner for lease in store.status().leases}


def found_member(store: Store, member: MemberId) -> Member:
    """Return a living member as the status shows it."""
    return next(found for found in store.status().members if found.id == member)


def lease_record(store: Store, key: LeaseKey) -> LeaseRecord:
    """Return a lease as the status shows it."""
    return next(found for found in store.status().leases if found.key == key)
