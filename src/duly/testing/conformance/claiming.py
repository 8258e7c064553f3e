"""Claiming: the part of the contract about who gets which run, when, and under which fence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from duly.domain.attempts import Reason, TaskPolicy, Tries
from duly.domain.concluding import Failed, GivenBack, Snoozed
from duly.domain.literals import Lane, RunState
from duly.store.dispatch import MemberId
from duly.store.execution import WORKER_TTL_US, ClaimRuns
from duly.testing.conformance import steps
from duly.testing.conformance import work_steps as work
from duly.testing.factories import ADA, HOUR_US, SECOND_US, definition, finish
from duly.testing.snapshot import snapshot

if TYPE_CHECKING:
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock


class Claiming:
    """What `claim_runs` promises about a run and its worker."""

    def test_a_claim_binds_a_queued_run_to_its_worker(
        self, store: Store, clock: ManualClock
    ) -> None:
        """R2, R4: it is out of the queue, and the record says who holds it since when."""
        run_id = work.queue(store, arguments='{"to":"ada"}')
        worker = work.join(store)
        clock.advance(5)

        claimed = store.claim_runs(ClaimRuns(worker=worker, limit=10))

        (run,) = claimed.runs
        assert (True, clock.now_us()) == (claimed.is_alive, claimed.now)
        assert (run_id, 1, clock.now_us()) == (run.hold.run_id, run.hold.fence, run.claimed_at)
        assert Tries(1, 1, 0, clock.now_us()) == run.tries
        assert '{"to":"ada"}' == run.record.call.arguments
        record = work.look(store, run_id)
        assert record == run.record
        assert (RunState.RUNNING, worker, clock.now_us(), run.tries) == (
            record.state,
            record.worker,
            record.claimed_at,
            record.tries,
        )
        assert record.started_at is None
        assert 0 == steps.queued(store)

    @pytest.mark.parametrize(
        "arguments",
        [
            "{}",
            '{"to":"ada"}',
            '{"to":"ad\u00e4"}',
            '{"zero":"\\u0000"}',
            f'{{"text":"{"long " * 500}"}}',
        ],
        ids=["none", "some", "not English", "the character 0", "long"],
    )
    def test_a_run_of_a_schedule_comes_with_its_arguments(
        self, store: Store, clock: ManualClock, arguments: str
    ) -> None:
        """T1: those of the definition under which it fired, whatever has become of that since."""
        record = steps.create(store, arguments='{"to":"nobody"}')
        edited = steps.edit(store, record, definition(arguments=arguments))
        fired = steps.fire_due(store, clock, edited)
        steps.edit(store, fired, definition(arguments='{"to":"somebody"}'))

        claimed = work.take_one(store, work.join(store))

        assert arguments == claimed.arguments == claimed.record.call.arguments
        assert "nightly" == claimed.record.schedule_name
        assert claimed.record == work.look(store, claimed.run_id)

    def test_no_run_is_given_to_two_workers(self, store: Store) -> None:
        """R4, INV-4."""
        queued = {work.queue(store, f"{number}") for number in range(7)}
        workers = [work.join(store) for _ in range(3)]

        taken = [run for worker in workers for run in work.take_ids(store, worker, 3)]

        assert queued == set(taken)
        assert len(queued) == len(taken)

    def test_nothing_is_claimed_beyond_the_limit(self, store: Store) -> None:
        """R4: a worker claims for its free slots alone."""
        for number in range(3):
            work.queue(store, f"{number}")
        worker = work.join(store)

        assert [] == work.take(store, worker, 0)
        assert 2 == len(work.take(store, worker, 2))
        assert 1 == steps.queued(store)

    @pytest.mark.parametrize("fate", ["left", "expired", "declared dead", "never joined"])
    def test_who_is_not_alive_gets_nothing(
        self, store: Store, clock: ManualClock, fate: str
    ) -> None:
        """R4, INV-5: by the store's clock, at the very instant of the expiry."""
        worker = work.join(store)
        if fate == "left":
            store.leave(worker)
        elif fate == "never joined":
            worker = MemberId(4711)
        elif fate == "declared dead":
            work.declare_dead(store, clock, worker)
            clock.set(clock.now_us() - WORKER_TTL_US)
        else:
            clock.advance(WORKER_TTL_US)
        work.queue(store)
        before = snapshot(store)

        claimed = store.claim_runs(ClaimRuns(worker=worker, limit=10))

        assert (False, ()) == (claimed.is_alive, claimed.runs)
        assert before == snapshot(store)

    def test_fences_grow_with_every_claim_and_attempts_with_every_start(
        self, store: Store, clock: ManualClock
    ) -> None:
        """R1, INV-5: a claim that is given back unstarted has used no attempt number up."""
        work.queue(store)
        worker = work.join(store, ttl_us=HOUR_US)
        seen = []
        ends = (
            GivenBack(Reason.SHUTDOWN, is_started=False),
            Failed("oh", after_us=0),
            GivenBack(Reason.SHUTDOWN, is_started=True),
            Snoozed(0),
        )
        for how in ends:
            claimed = work.take_one(store, worker)
            seen.append((claimed.tries.fence, claimed.tries.attempt, claimed.tries.charged))
            work.end(store, worker, claimed, how)
            work.fire_retries(store, clock)
        last = work.take_one(store, worker).tries

        assert [(1, 1, 0), (2, 1, 0), (3, 2, 1), (4, 3, 1)] == seen
        assert (5, 4, 1) == (last.fence, last.attempt, last.charged)

    def test_a_run_has_begun_when_it_was_claimed_first(
        self, store: Store, clock: ManualClock
    ) -> None:
        """R2, R6: later claims do not move it."""
        worker, first = work.queue_and_take(store)
        began_at = clock.now_us()
        work.end(store, worker, first, GivenBack(Reason.SHUTDOWN, is_started=True))
        clock.advance(SECOND_US)

        again = work.take_one(store, worker)

        assert (began_at, clock.now_us()) == (again.tries.begun_at, again.claimed_at)

    def test_a_deadline_is_set_by_the_time_out_that_held_at_the_claim(
        self, store: Store, clock: ManualClock
    ) -> None:
        """R6: a policy that is registered later is for later claims."""
        store.register_policies({"remind": TaskPolicy(timeout_us=SECOND_US)})
        worker = work.join(store, ttl_us=HOUR_US)
        first = work.queue(store)
        work.take_one(store, worker)
        store.register_policies({"remind": TaskPolicy(timeout_us=None)})
        work.queue(store, "b")
        work.take_one(store, worker)
        clock.advance(SECOND_US + work.OVERDUE_US)

        assert [first] == [lost.hold.run_id for lost in work.lost_claims(store)]

    def test_a_registered_task_is_known_by_name(self, store: Store) -> None:
        """S6."""
        store.register_policies({"remind": TaskPolicy(), "clean": TaskPolicy()})

        assert ["clean", "remind"] == store.list_tasks()


class Order:
    """What `claim_runs` promises about queues and the order within them (R8)."""

    def test_more_urgent_runs_come_first(self, store: Store) -> None:
        """R8: the lower number is the more urgent one."""
        late, urgent, usual = (
            work.queue(store, f"{priority}", priority=priority) for priority in (9, 0, 4)
        )

        assert [urgent, usual, late] == work.take_ids(store, work.join(store))

    def test_among_equals_the_one_that_fell_due_first_is_first(
        self, store: Store, clock: ManualClock
    ) -> None:
        """R8: and those of one instant by their id."""
        first = work.queue(store, "z")
        clock.advance(1)
        same = sorted([work.queue(store, "b"), work.queue(store, "c")])

        assert [first, *same] == work.take_ids(store, work.join(store))

    @pytest.mark.parametrize("queues", [None, ("default",)])
    @pytest.mark.parametrize("without", [frozenset(), frozenset({"unheard of"})])
    def test_the_newest_may_come_first_within_the_first_priority(
        self,
        store: Store,
        clock: ManualClock,
        queues: tuple[str, ...] | None,
        without: frozenset[str],
    ) -> None:
        """R8: what is less urgent waits all the same, and nothing is passed over for ever."""
        crowd = [work.queue(store, f"crowd {number}", priority=4) for number in range(4)]
        less = work.queue(store, "less urgent", priority=5)
        clock.advance(1)
        newer, newest = sorted(work.queue(store, text, priority=4) for text in ("new", "newer"))
        worker = work.join(store)
        ways: dict[str, Any] = {"queues": queues, "without": without}

        first = work.take_ids(store, worker, 3, newest_first=True, **ways)
        oldest = work.take_ids(store, worker, 1, **ways)
        rest = work.take_ids(store, worker, 9, newest_first=True, **ways)

        assert [newest, newer, max(crowd)] == first
        assert [min(crowd)] == oldest
        assert sorted(crowd)[2:0:-1] == rest
        assert [less] == work.take_ids(store, worker, newest_first=True, **ways)

    def test_what_is_caught_up_comes_after_what_is_live(self, store: Store) -> None:
        """M3, R8: whatever their priorities."""
        past = work.queue(store, "past", lane=Lane.BACKFILL, priority=0)
        missed = work.queue(store, "missed", lane=Lane.CATCH_UP, priority=0)
        live = work.queue(store, "live", priority=9)

        assert [live, missed, past] == work.take_ids(store, work.join(store))

    def test_a_run_tells_whether_it_is_live(self, store: Store) -> None:
        """M3: without its record, and as its record says."""
        for lane in Lane:
            work.queue(store, str(lane), lane=lane)

        taken = work.take(store, work.join(store))

        assert [True, False, False] == [claimed.is_live for claimed in taken]
        assert list(Lane) == [claimed.record.lane for claimed in taken]

    def test_only_the_queues_that_are_asked_for_are_taken_from(self, store: Store) -> None:
        """R8: in the order given, each emptied before the next."""
        for name in ("a", "b", "c"):
            for number in range(2):
                work.queue(store, f"{name}{number}", queue=name)
        worker = work.join(store)

        taken = work.take(store, worker, 3, queues=("c", "a"))

        assert ["c", "c", "a"] == [claimed.record.call.queue for claimed in taken]
        assert [] == work.take(store, worker, queues=("d",))
        assert [] == work.take(store, worker, queues=())

    def test_without_a_choice_all_queues_are_taken_from_by_name(self, store: Store) -> None:
        """R8."""
        for name in ("b", "c", "a"):
            work.queue(store, name, queue=name)

        taken = work.take(store, work.join(store))

        assert ["a", "b", "c"] == [claimed.record.call.queue for claimed in taken]

    @pytest.mark.parametrize(
        ("rotation", "order"), [(0, "abc"), (1, "bca"), (2, "cab"), (4, "bca")]
    )
    @pytest.mark.parametrize("queues", [None, ("a", "b", "c")])
    def test_rotation_lets_another_queue_be_first(
        self, store: Store, rotation: int, order: str, queues: tuple[str, ...] | None
    ) -> None:
        """R8: no queue starves behind another."""
        for name in ("a", "b", "c"):
            work.queue(store, name, queue=name)

        taken = work.take(store, work.join(store), rotation=rotation, queues=queues)

        assert list(order) == [claimed.record.call.queue for claimed in taken]

    def test_a_queue_gives_no_more_than_its_limit(self, store: Store) -> None:
        """R8: one that is not named has no limit of its own."""
        for name in ("a", "b"):
            for number in range(3):
                work.queue(store, f"{name}{number}", queue=name)

        taken = work.take(store, work.join(store), 5, queue_limits={"a": 1})

        assert ["a", "b", "b", "b"] == [claimed.record.call.queue for claimed in taken]

    def test_a_queue_limit_of_nothing_gives_nothing(self, store: Store) -> None:
        """R8."""
        work.queue(store)

        assert [] == work.take(store, work.join(store), queue_limits={"default": 0})

    def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(self, store: Store) -> None:
        """R8: whether it is asked for or not; what runs goes on."""
        worker, running = work.queue_and_take(store)
        waits = work.queue(store, "b")
        store.pause_queue("default", ADA)

        assert [] == work.take(store, worker)
        assert [] == work.take(store, worker, queues=("default",))
        assert (
            "accepted" == store.finish_runs(worker, [finish(running, Snoozed(HOUR_US))]).results[0]
        )
        store.resume_queue("default", ADA)
        assert [waits] == work.take_ids(store, worker)

    @pytest.mark.parametrize("queues", [None, ("default",)])
    def test_runs_that_a_worker_is_to_do_without_take_no_place(
        self, store: Store, queues: tuple[str, ...] | None
    ) -> None:
        """R8, S6: they stay for those who know them, and others are claimed past them."""
        left = [
            work.queue(store, task, task=task, priority=number)
            for number, task in enumerate(("new", "newer"))
        ]
        known = [work.queue(store, text, priority=9) for text in ("a", "b", "c")]
        worker, other = work.join(store), work.join(store)
        without = frozenset(("new", "newer", "unheard of"))

        taken = work.take_ids(store, worker, 2, queues=queues, without=without)

        assert sorted(known)[:2] == sorted(taken)
        assert 1 == len(work.take(store, worker, queues=queues, without=without))
        assert [] == work.take(store, worker, queues=queues, without=without)
        assert left == work.take_ids(store, other, queues=queues)

    def test_what_is_given_back_goes_behind_those_that_are_due_already(
        self, store: Store, clock: ManualClock
    ) -> None:
        """R9: behind its priority, and before the less urgent."""
        worker, back = work.queue_and_take(store)
        clock.advance(1)
        others = [work.queue(store, "b"), work.queue(store, "z", priority=9)]
        clock.advance(1)
        work.end(store, worker, back, GivenBack(Reason.SHUTDOWN, is_started=True))

        assert [others[0], back.record.id, others[1]] == work.take_ids(store, worker)
