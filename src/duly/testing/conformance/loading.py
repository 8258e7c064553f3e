"""Loading timers and hearing of new ones: the part of the contract about what a wheel holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duly.domain.literals import Missed
from duly.domain.planning import decide_resume
from duly.domain.schedules import Pending
from duly.domain.timetable.interval import every
from duly.store.dispatch import LoadTimers
from duly.store.planning import NEAR_US
from duly.testing.conformance import steps
from duly.testing.conformance.places import WAIT_MAX_US, AtPlaces
from duly.testing.factories import (
    HOUR_US,
    SECOND_US,
    add_runs,
    cancel,
    definition,
    id_in_shard,
    move,
    new_run,
    new_schedule,
    staying,
    timer_of,
    timer_of_delayed,
)

if TYPE_CHECKING:
    from duly.store.dispatch import ArrivalsCursor, Timer
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock


class Loading:
    """What `load_timers` promises."""

    def test_both_kinds_of_timers_are_loaded_in_order_of_due(
        self, store: Store, clock: ManualClock
    ) -> None:
        """S1, F4."""
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
        """S8: jitter moves the due, and nothing else."""
        record = steps.create(store, jitter_us=HOUR_US)

        assert record.pending is not None
        (timer,) = steps.load(store, record.pending.due_at)
        assert timer_of(record) == timer
        assert timer.due_at > timer.scheduled_for

    def test_the_window_excludes_its_beginning_and_includes_its_end(
        self, store: Store, clock: ManualClock
    ) -> None:
        """F4: two windows side by side hold each timer once."""
        dues = [clock.now_us() + number for number in (10, 20, 30)]
        for due in dues:
            steps.delay(store, due)

        assert dues[1:] == [timer.due_at for timer in steps.load(store, dues[2], after=dues[0])]
        assert dues[:1] == [timer.due_at for timer in steps.load(store, dues[1] - 1)]

    def test_what_is_overdue_is_loaded_too(self, store: Store, clock: ManualClock) -> None:
        """F5: a newcomer replays what the dead one had not fired."""
        record = steps.create(store)
        clock.advance("5h")

        assert (timer_of(record),) == steps.load(store, clock.now_us())

    def test_only_the_shards_asked_for_are_loaded(self, store: Store) -> None:
        """F4."""
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
        """F4."""
        steps.create(store)
        until = clock.now_us() + 9 * HOUR_US
        loaded = store.load_timers(load_command(tuple(range(store.status().shards)), until))

        assert (until, clock.now_us()) == (loaded.through, loaded.now)

    def test_a_limit_cuts_only_between_instants(self, store: Store, clock: ManualClock) -> None:
        """F4: all up to `through` are there, so loading on from it misses none."""
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
        """F4: with instants that many share."""
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
        """F4: a limit below a crowd must not stop the dispatcher for ever."""
        for number in range(5):
            steps.delay(store, clock.now_us() + 10, f"{number}")
        shards = tuple(range(store.status().shards))

        loaded = store.load_timers(load_command(shards, clock.now_us() + 100, limit=2))

        assert len(loaded.timers) >= 2

    def test_of_a_crowd_a_part_is_loaded_and_the_rest_stays_to_be_loaded(
        self, store: Store, clock: ManualClock
    ) -> None:
        """F8: nothing of it is taken for loaded, and what comes before it is."""
        now = clock.now_us()
        for number in range(40):
            steps.delay(store, now + 20, f"{number}")
        shards = tuple(range(store.status().shards))
        order = LoadTimers(shards=shards, after=now, until=now + 30, limit=3, crowd_max=10)

        loaded = store.load_timers(order)

        assert (10, now + 19) == (len({one.ref for one in loaded.timers}), loaded.through)
        assert {now + 20} == {timer.due_at for timer in loaded.timers}

    def test_definitions_that_are_gone_are_left_out(self, store: Store) -> None:
        """F4."""
        record = steps.create(store)
        known, unknown = (record.id, 1), (record.id, 9)

        assert {known: record.definition} == store.read_definitions([known, unknown])


class ArrivalsFeed:
    """What `read_arrivals` promises: nothing near is missed (F6)."""

    has_open_transactions = True
    """Whether others can write while a lent transaction is open; a backend's tests may deny it."""

    def test_a_new_schedule_that_is_near_is_announced(self, store: Store) -> None:
        """F6: also when it is due at the very edge of near."""
        cursor = store.start_of_arrivals()
        record = steps.create(store, pending=at(store.now() + NEAR_US))

        assert [timer_of(record)] == heard(store, cursor)[0]

    def test_a_new_run_that_is_near_is_announced(self, store: Store, clock: ManualClock) -> None:
        """F6: something due in 50 ms."""
        cursor = store.start_of_arrivals()
        delayed = steps.delay(store, clock.now_us() + 50_000)

        assert [timer_of_delayed(delayed, store.status().shards)] == heard(store, cursor)[0]

    def test_an_announcement_is_heard_from_the_cursor_on(
        self, store: Store, clock: ManualClock
    ) -> None:
        """F6: what was heard is not told again, and what was there before is loaded instead."""
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
        """F6: with its new version and due."""
        record = steps.create(store)
        cursor = store.start_of_arrivals()
        edited = steps.apply(store, record, staying(record, pending=at(store.now() + SECOND_US)))

        assert [timer_of(edited)] == heard(store, cursor)[0]

    def test_an_edit_that_keeps_a_near_timer_is_announced(
        self, store: Store, clock: ManualClock
    ) -> None:
        """F6: what is loaded carries the old version, and would be gone when it fires."""
        record = steps.create(store, pending=at(store.now() + SECOND_US))
        cursor = store.start_of_arrivals()
        edited = steps.edit(store, record, definition(task="other"))

        assert [timer_of(edited)] == heard(store, cursor)[0]

    def test_a_schedule_that_resumes_near_its_due_is_announced(
        self, store: Store, clock: ManualClock
    ) -> None:
        """F6."""
        paused = steps.pause(store, steps.create(store, timetable=every("1m")))
        cursor = store.start_of_arrivals()
        resumed = steps.apply(
            store, paused, decide_resume(paused, clock.now_us(), Missed.SKIP, None)
        )

        assert [timer_of(resumed)] == heard(store, cursor)[0]

    def test_a_run_that_is_moved_near_is_announced(self, store: Store, clock: ManualClock) -> None:
        """F6, S2."""
        delayed = steps.delay(store, clock.now_us() + HOUR_US)
        cursor = store.start_of_arrivals()
        moved = store.move_delayed(move(delayed.id, clock.now_us() + 50_000))

        assert [timer_of_delayed(moved, store.status().shards)] == heard(store, cursor)[0]

    def test_what_is_announced_is_told_as_it_is_now(self, store: Store, clock: ManualClock) -> None:
        """F6: what was moved again carries the last due, what was cancelled is not told."""
        cursor = store.start_of_arrivals()
        cancelled = steps.delay(store, clock.now_us() + 10, "cancelled")
        moved = steps.delay(store, clock.now_us() + 20, "moved")
        moved = store.move_delayed(move(moved.id, clock.now_us() + 30))
        store.cancel_delayed(cancel(cancelled.id))

        timers, _ = heard(store, cursor)

        assert {timer_of_delayed(moved, store.status().shards)} == set(timers)

    def test_only_the_shards_asked_for_are_heard(self, store: Store) -> None:
        """F4."""
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
        """F6, D3."""
        cursor = store.start_of_arrivals()
        asked = new_run(clock.now_us() + SECOND_US)
        with store.transaction(SECOND_US) as lent:
            store.add_runs(add_runs(asked), within=lent)

        assert [asked.id] == [timer.ref for timer in heard(store, cursor)[0]]

    def test_a_commit_that_comes_late_is_not_missed(self, store: Store, clock: ManualClock) -> None:
        """F6: written first, committed last; a mark of the highest number seen would lose it."""
        if not self.has_open_transactions:
            pytest.skip("this store has one writer: nobody writes beside an open transaction")
        cursor = store.start_of_arrivals()
        slow, quick = new_run(clock.now_us() + SECOND_US, "slow"), clock.now_us() + 2 * SECOND_US
        with store.transaction(SECOND_US) as lent:
            store.add_runs(add_runs(slow), within=lent)
            delayed = steps.delay(store, quick, "quick")
            timers, cursor = heard(store, cursor)
            assert [delayed.id] == [timer.ref for timer in timers]

        timers, cursor = heard(store, cursor)
        assert [slow.id] == [timer.ref for timer in timers]
        assert [] == heard(store, cursor)[0]


class Waking(AtPlaces):
    """What `wakeups` promises: a hint, and no more."""

    def test_nobody_is_woken_by_nothing(self, store: Store) -> None:
        """P3."""
        place = self.place(store)

        assert not place.wait(0)
        place.close()

    def test_waking_wakes_once(self, store: Store) -> None:
        """P3: a wake-up before the wait is not lost, and not heard twice."""
        place = self.place(store)
        place.wake()
        place.wake()

        assert place.wait(WAIT_MAX_US)
        assert not place.wait(0)
        place.close()

    def test_a_near_write_wakes_a_member(self, store: Store) -> None:
        """F6, P3: so that nobody has to poll."""
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


def at(instant: int) -> Pending:
    """Return an occurrence that falls due at its nominal time."""
    return Pending(instant, instant)
