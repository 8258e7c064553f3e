"""What every store must do about claims, fair shares, and workers out of service."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from duly.domain.enums import AttemptState, Lane, RunState
from duly.domain.outcomes import Failed, ReturnedToQueue, Snoozed, Succeeded, WorkerLost
from duly.domain.runs import AttemptCounts, Reason, TaskPolicy
from duly.domain.schedules import TENANT_DEFAULT
from duly.errors import Conflict, NotFound
from duly.store.ports.dispatch import FireDelayed, FireResult, MemberId, MemberKind, WorkerStatus
from duly.store.ports.execution import WORKER_TTL_US, ClaimRuns, FinishResult, Heartbeat
from duly.store.ports.operations import OrderWorker, QuarantinedHost
from duly_conformance import effects, steps
from duly_conformance import steps as work
from duly_conformance.kit import (
    ADA,
    HOUR_US,
    SECOND_US,
    cancel_run,
    definition,
    finish,
    order_runs,
    snapshot,
)
from duly_conformance.steps import AtPlaces

if TYPE_CHECKING:
    from duly.domain.ids import RunId
    from duly.engine.manual_clock import ManualClock
    from duly.store.ports import Store
    from duly.store.ports.dispatch import Member
    from duly.store.ports.execution import ClaimedRun


class Claiming:
    """What `claim_runs` promises about a run and its worker."""

    def test_a_claim_binds_a_queued_run_to_its_worker(
        self, store: Store, clock: ManualClock
    ) -> None:
        """It is out of the queue, and the record says who holds it since when."""
        run_id = work.queue(store, arguments='{"to":"ada"}')
        worker = work.join_worker(store)
        clock.advance(5)

        claimed = store.claim_runs(ClaimRuns(worker=worker, limit=10))

        (run,) = claimed.runs
        assert (True, clock.now_us()) == (claimed.is_alive, claimed.now)
        assert (run_id, 1, clock.now_us()) == (run.hold.run_id, run.hold.fence, run.claimed_at)
        assert AttemptCounts(1, 1, 0, clock.now_us()) == run.tries
        assert '{"to":"ada"}' == run.record.call.arguments
        record = work.get_run(store, run_id)
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
        """Those of the definition under which it fired, whatever has become of that since."""
        record = steps.create(store, arguments='{"to":"nobody"}')
        edited = steps.edit(store, record, definition(arguments=arguments))
        fired = steps.fire_due(store, clock, edited)
        steps.edit(store, fired, definition(arguments='{"to":"somebody"}'))

        claimed = work.take_one(store, work.join_worker(store))

        assert arguments == claimed.arguments == claimed.record.call.arguments
        assert "nightly" == claimed.record.schedule_name
        assert claimed.record == work.get_run(store, claimed.run_id)

    def test_no_run_is_given_to_two_workers(self, store: Store) -> None:
        """INV-4."""
        queued = {work.queue(store, f"{number}") for number in range(7)}
        workers = [work.join_worker(store) for _ in range(3)]

        taken = [run for worker in workers for run in work.take_ids(store, worker, 3)]

        assert queued == set(taken)
        assert len(queued) == len(taken)

    def test_nothing_is_claimed_beyond_the_limit(self, store: Store) -> None:
        """A worker claims for its free slots alone."""
        for number in range(3):
            work.queue(store, f"{number}")
        worker = work.join_worker(store)

        assert [] == work.take(store, worker, 0)
        assert 2 == len(work.take(store, worker, 2))
        assert 1 == steps.queued(store)

    @pytest.mark.parametrize("fate", ["left", "expired", "declared dead", "never joined"])
    def test_who_is_not_alive_gets_nothing(
        self, store: Store, clock: ManualClock, fate: str
    ) -> None:
        """INV-5: by the store's clock, at the very instant of the expiry."""
        worker = work.join_worker(store)
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
        """INV-5: a claim that is given back unstarted has used no attempt number up."""
        work.queue(store)
        worker = work.join_worker(store, ttl_us=HOUR_US)
        seen = []
        ends = (
            ReturnedToQueue(Reason.SHUTDOWN, is_started=False),
            Failed("oh", after_us=0),
            ReturnedToQueue(Reason.SHUTDOWN, is_started=True),
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
        """Later claims do not move it."""
        worker, first = work.queue_and_take(store)
        began_at = clock.now_us()
        work.end(store, worker, first, ReturnedToQueue(Reason.SHUTDOWN, is_started=True))
        clock.advance(SECOND_US)

        again = work.take_one(store, worker)

        assert (began_at, clock.now_us()) == (again.tries.begun_at, again.claimed_at)

    def test_a_deadline_is_set_by_the_time_out_that_held_at_the_claim(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A policy that is registered later is for later claims."""
        store.register_policies({"remind": TaskPolicy(timeout_us=SECOND_US)})
        worker = work.join_worker(store, ttl_us=HOUR_US)
        first = work.queue(store)
        work.take_one(store, worker)
        store.register_policies({"remind": TaskPolicy(timeout_us=None)})
        work.queue(store, "b")
        work.take_one(store, worker)
        clock.advance(SECOND_US + work.OVERDUE_US)

        assert [first] == [lost.hold.run_id for lost in work.lost_claims(store)]

    def test_a_registered_task_is_known_by_name(self, store: Store) -> None:
        store.register_policies({"remind": TaskPolicy(), "clean": TaskPolicy()})

        assert ["clean", "remind"] == store.list_tasks()


class Order:
    """What `claim_runs` promises about queues and the order within them."""

    def test_more_urgent_runs_come_first(self, store: Store) -> None:
        """The lower number is the more urgent one."""
        late, urgent, usual = (
            work.queue(store, f"{priority}", priority=priority) for priority in (9, 0, 4)
        )

        assert [urgent, usual, late] == work.take_ids(store, work.join_worker(store))

    def test_among_equals_the_one_that_fell_due_first_is_first(
        self, store: Store, clock: ManualClock
    ) -> None:
        """And those of one instant by their id."""
        first = work.queue(store, "z")
        clock.advance(1)
        same = sorted([work.queue(store, "b"), work.queue(store, "c")])

        assert [first, *same] == work.take_ids(store, work.join_worker(store))

    @pytest.mark.parametrize("queues", [None, ("default",)])
    @pytest.mark.parametrize("without", [frozenset(), frozenset({"unheard of"})])
    def test_the_newest_may_come_first_within_the_first_priority(
        self,
        store: Store,
        clock: ManualClock,
        queues: tuple[str, ...] | None,
        without: frozenset[str],
    ) -> None:
        """What is less urgent waits all the same, and nothing is passed over for ever."""
        crowd = [work.queue(store, f"crowd {number}", priority=4) for number in range(4)]
        less = work.queue(store, "less urgent", priority=5)
        clock.advance(1)
        newer, newest = sorted(work.queue(store, text, priority=4) for text in ("new", "newer"))
        worker = work.join_worker(store)
        ways: dict[str, Any] = {"queues": queues, "without": without}

        first = work.take_ids(store, worker, 3, newest_first=True, **ways)
        oldest = work.take_ids(store, worker, 1, **ways)
        rest = work.take_ids(store, worker, 9, newest_first=True, **ways)

        assert [newest, newer, max(crowd)] == first
        assert [min(crowd)] == oldest
        assert sorted(crowd)[2:0:-1] == rest
        assert [less] == work.take_ids(store, worker, newest_first=True, **ways)

    def test_what_is_caught_up_comes_after_what_is_live(self, store: Store) -> None:
        """Whatever their priorities."""
        past = work.queue(store, "past", lane=Lane.BACKFILL, priority=0)
        missed = work.queue(store, "missed", lane=Lane.CATCH_UP, priority=0)
        live = work.queue(store, "live", priority=9)

        assert [live, missed, past] == work.take_ids(store, work.join_worker(store))

    def test_a_run_tells_whether_it_is_live(self, store: Store) -> None:
        """Without its record, and as its record says."""
        for lane in Lane:
            work.queue(store, str(lane), lane=lane)

        taken = work.take(store, work.join_worker(store))

        assert [True, False, False] == [claimed.is_live for claimed in taken]
        assert list(Lane) == [claimed.record.lane for claimed in taken]

    def test_only_the_queues_that_are_asked_for_are_taken_from(self, store: Store) -> None:
        """In the order given, each emptied before the next."""
        for name in ("a", "b", "c"):
            for number in range(2):
                work.queue(store, f"{name}{number}", queue=name)
        worker = work.join_worker(store)

        taken = work.take(store, worker, 3, queues=("c", "a"))

        assert ["c", "c", "a"] == [claimed.record.call.queue for claimed in taken]
        assert [] == work.take(store, worker, queues=("d",))
        assert [] == work.take(store, worker, queues=())

    def test_without_a_choice_all_queues_are_taken_from_by_name(self, store: Store) -> None:
        for name in ("b", "c", "a"):
            work.queue(store, name, queue=name)

        taken = work.take(store, work.join_worker(store))

        assert ["a", "b", "c"] == [claimed.record.call.queue for claimed in taken]

    @pytest.mark.parametrize(
        ("rotation", "order"), [(0, "abc"), (1, "bca"), (2, "cab"), (4, "bca")]
    )
    @pytest.mark.parametrize("queues", [None, ("a", "b", "c")])
    def test_rotation_lets_another_queue_be_first(
        self, store: Store, rotation: int, order: str, queues: tuple[str, ...] | None
    ) -> None:
        """No queue starves behind another."""
        for name in ("a", "b", "c"):
            work.queue(store, name, queue=name)

        taken = work.take(store, work.join_worker(store), rotation=rotation, queues=queues)

        assert list(order) == [claimed.record.call.queue for claimed in taken]

    def test_a_queue_gives_no_more_than_its_limit(self, store: Store) -> None:
        """One that is not named has no limit of its own."""
        for name in ("a", "b"):
            for number in range(3):
                work.queue(store, f"{name}{number}", queue=name)

        taken = work.take(store, work.join_worker(store), 5, queue_limits={"a": 1})

        assert ["a", "b", "b", "b"] == [claimed.record.call.queue for claimed in taken]

    def test_a_queue_limit_of_nothing_gives_nothing(self, store: Store) -> None:
        work.queue(store)

        assert [] == work.take(store, work.join_worker(store), queue_limits={"default": 0})

    def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(self, store: Store) -> None:
        """Whether it is asked for or not; what runs goes on."""
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
        """They stay for those who know them, and others are claimed past them."""
        left = [
            work.queue(store, task, task=task, priority=number)
            for number, task in enumerate(("new", "newer"))
        ]
        known = [work.queue(store, text, priority=9) for text in ("a", "b", "c")]
        worker, other = work.join_worker(store), work.join_worker(store)
        without = frozenset(("new", "newer", "unheard of"))

        taken = work.take_ids(store, worker, 2, queues=queues, without=without)

        assert sorted(known)[:2] == sorted(taken)
        assert 1 == len(work.take(store, worker, queues=queues, without=without))
        assert [] == work.take(store, worker, queues=queues, without=without)
        assert left == work.take_ids(store, other, queues=queues)

    def test_what_is_given_back_goes_behind_those_that_are_due_already(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Behind its priority, and before the less urgent."""
        worker, back = work.queue_and_take(store)
        clock.advance(1)
        others = [work.queue(store, "b"), work.queue(store, "z", priority=9)]
        clock.advance(1)
        work.end(store, worker, back, ReturnedToQueue(Reason.SHUTDOWN, is_started=True))

        assert [others[0], back.record.id, others[1]] == work.take_ids(store, worker)


IN_A_CROWD = {"default": ""}
"""As one says who has seen a crowd before, and the default tenant served in it."""
THEIRS = "theirs"
ENDS = pytest.mark.parametrize("end", [{}, {"newest_first": True}], ids=["oldest", "newest"])
"""Which end of each line is taken."""


class FairShares:
    """What `claim_runs` promises to tenants of whom one has more than his share (INV-22)."""

    @pytest.mark.parametrize("queues", [None, ("default",), ("other", "default")])
    @ENDS
    @pytest.mark.parametrize(
        ("flooding", "other"),
        [("acme", THEIRS), (TENANT_DEFAULT, THEIRS), (THEIRS, TENANT_DEFAULT)],
    )
    def test_nobody_waits_behind_anothers_flood(  # noqa: PLR0913, PLR0917 - all that may matter
        self,
        store: Store,
        clock: ManualClock,
        queues: tuple[str, ...] | None,
        end: dict[str, Any],
        flooding: str,
        other: str,
    ) -> None:
        """INV-22: who has one run gets it with the next claim after one that came back full."""
        _queue_many(store, 30, flooding)
        worker = work.join_worker(store)
        full = store.claim_runs(ClaimRuns(worker=worker, limit=4, queues=queues))
        clock.advance(SECOND_US)
        one = work.queue(store, "one", tenant=other)
        _queue_many(store, 5, flooding, "more")

        order = ClaimRuns(worker=worker, limit=4, queues=queues, served=full.served, **end)
        taken = store.claim_runs(order).runs

        assert 4 == len(full.runs) == len(taken)
        assert one in [claimed.run_id for claimed in taken]

    @pytest.mark.parametrize(
        ("limit", "shares"), [(9, [3, 3, 3]), (10, [3, 3, 4]), (3, [1, 1, 1]), (2, [1, 1])]
    )
    @ENDS
    def test_tenants_have_even_shares_of_a_claim(
        self, store: Store, limit: int, shares: list[int], end: dict[str, Any]
    ) -> None:
        for tenant in ("a", TENANT_DEFAULT, "b"):
            _queue_many(store, 9, tenant)

        taken = _take(store, work.join_worker(store), limit, **end)

        assert shares == sorted(_by_tenant(taken).values())

    def test_what_one_leaves_goes_to_the_others(self, store: Store) -> None:
        """No slot stays empty for the sake of fairness."""
        _queue_many(store, 1, "a")
        _queue_many(store, 20, "b")
        _queue_many(store, 3, "c")
        worker = work.join_worker(store)

        assert {"a": 1, "b": 5, "c": 3} == _by_tenant(_take(store, worker, 9))
        assert {"b": 15} == _by_tenant(_take(store, worker, 100))

    @ENDS
    def test_the_order_within_a_tenant_stays(
        self, store: Store, clock: ManualClock, end: dict[str, Any]
    ) -> None:
        """Who has waited longest goes first, or who came last."""
        queued: dict[str, list[RunId]] = {"a": [], "b": []}
        for number in range(5):
            for tenant, own in queued.items():
                own.append(work.queue(store, f"{tenant} {number}", tenant=tenant))
            clock.advance(1)

        taken = _take(store, work.join_worker(store), 6, **end)

        for tenant, own in queued.items():
            found = [one.run_id for one in taken if one.record.tenant == tenant]
            assert (own[:1:-1] if end else own[:3]) == found

    def test_priorities_come_before_tenants(self, store: Store) -> None:
        """What is more urgent goes first, whosever it is; what is less waits."""
        _queue_many(store, 6, "a", priority=4)
        _queue_many(store, 2, "b", priority=3)
        _queue_many(store, 6, "c", priority=5)
        worker = work.join_worker(store)

        assert {"a": 3, "b": 2} == _by_tenant(_take(store, worker, 5))
        assert {"a": 3, "c": 1} == _by_tenant(_take(store, worker, 4))

    def test_tenants_take_turns_when_there_is_one_slot(self, store: Store) -> None:
        """Each answer says who was served last, and the next claim begins behind him."""
        for tenant in ("a", TENANT_DEFAULT, "b"):
            _queue_many(store, 4, tenant)
        worker, served, turns = work.join_worker(store), IN_A_CROWD, ""
        for _ in range(6):
            claimed = store.claim_runs(ClaimRuns(worker=worker, limit=1, served=served))
            turns += claimed.runs[0].record.tenant[0]
            served = dict(claimed.served)

        assert "abdabd" == turns

    def test_tenants_that_do_not_fit_into_a_claim_have_the_next(self, store: Store) -> None:
        """Twenty tenants, five slots, four claims."""
        for number in range(20):
            _queue_many(store, 3, f"tenant {number}")
        worker, served = work.join_worker(store), IN_A_CROWD
        met: list[str] = []
        for _ in range(4):
            claimed = store.claim_runs(ClaimRuns(worker=worker, limit=5, served=served))
            met += [one.record.tenant for one in claimed.runs]
            served = dict(claimed.served)

        assert 20 == len(met) == len(set(met))

    def test_queues_keep_turns_of_their_own(self, store: Store) -> None:
        """A tenant has his turn in each queue, whichever claim serves that."""
        for queue in ("first", "second"):
            for tenant in ("a", "b"):
                _queue_many(store, 4, tenant, queue, queue=queue)
        worker, served = work.join_worker(store), {"first": "b", "second": "b"}
        met: Counter[tuple[str, str]] = Counter()
        for rotation in range(8):
            order = ClaimRuns(worker=worker, limit=1, served=served, rotation=rotation)
            claimed = store.claim_runs(order)
            met.update((one.queue, one.record.tenant) for one in claimed.runs)
            served = {**served, **claimed.served}

        assert {2} == set(met.values())
        assert 4 == len(met)

    @pytest.mark.parametrize("queues", [None, ("default",)])
    @ENDS
    def test_tenants_whose_runs_are_passed_over_are_in_nobodys_way(
        self, store: Store, queues: tuple[str, ...] | None, end: dict[str, Any]
    ) -> None:
        """However many of them come first."""
        for tenant in "abcdef":
            _queue_many(store, 2, tenant, task="new")
        known = work.queue(store, "known", tenant="z")
        without = frozenset(("new",))

        taken = _take(store, work.join_worker(store), 2, without=without, queues=queues, **end)

        assert [known] == [one.run_id for one in taken]

    @pytest.mark.parametrize(
        "way", ["at once", "delayed", "schedule", "given back", "retry", "dead and retried"]
    )
    def test_a_run_stands_in_its_tenants_line_however_it_got_there(
        self, store: Store, clock: ManualClock, way: str
    ) -> None:
        one = _queued_as(store, clock, way)
        _queue_many(store, 9, TENANT_DEFAULT)
        clock.advance(1)
        _queue_many(store, 9, TENANT_DEFAULT, "more")

        taken = _take(store, work.join_worker(store), 4)

        assert {TENANT_DEFAULT: 3, THEIRS: 1} == _by_tenant(taken)
        assert one in [claimed.run_id for claimed in taken]

    def test_a_queued_run_is_cancelled_whosever_it_is(self, store: Store) -> None:
        """It is found in its line."""
        one = work.queue(store, "one", tenant=THEIRS)
        _queue_many(store, 2, THEIRS)

        store.cancel_run(cancel_run(one, tenant=THEIRS))

        assert RunState.CANCELLED is work.get_run(store, one).state
        assert 2 == steps.queued(store)
        assert 2 == len(work.take(store, work.join_worker(store)))


class ReservedLanes:
    """What `claim_runs` promises to lanes behind the live one."""

    @pytest.mark.parametrize("queues", [None, ("default",)])
    @pytest.mark.parametrize(
        ("first_lane", "lanes"),
        [
            (Lane.CATCH_UP, [Lane.CATCH_UP, Lane.BACKFILL, Lane.LIVE]),
            (Lane.BACKFILL, [Lane.BACKFILL, Lane.LIVE, Lane.CATCH_UP]),
            (Lane.LIVE, [Lane.LIVE, Lane.CATCH_UP, Lane.BACKFILL]),
        ],
    )
    def test_a_claim_may_begin_with_another_lane(
        self,
        store: Store,
        queues: tuple[str, ...] | None,
        first_lane: Lane,
        lanes: list[Lane],
    ) -> None:
        """And goes on with the others, so that no slot stays empty."""
        for lane in Lane:
            for number in range(2):
                work.queue(store, f"{lane} {number}", lane=lane, priority=9 - number)
        worker = work.join_worker(store)

        taken = [
            one.record
            for _ in range(3)
            for one in work.take(store, worker, 2, queues=queues, first_lane=first_lane)
        ]

        assert [lane for lane in lanes for _ in range(2)] == [record.lane for record in taken]
        assert [8, 9] * 3 == [record.call.priority for record in taken]

    def test_tenants_share_within_another_lane(self, store: Store) -> None:
        _queue_many(store, 4, "a", lane=Lane.CATCH_UP)
        _queue_many(store, 4, "b", lane=Lane.CATCH_UP)
        _queue_many(store, 4, "c")

        taken = _take(store, work.join_worker(store), 4, first_lane=Lane.CATCH_UP)

        assert {"a": 2, "b": 2} == _by_tenant(taken)


def _queue_many(
    store: Store, count: int, tenant: str, text: str = "flood", **parts: Any
) -> list[RunId]:
    texts = [f"{tenant} {text} {number}" for number in range(count)]
    return [work.queue(store, one, tenant=tenant, **parts) for one in texts]


def _take(store: Store, worker: MemberId, limit: int, **parts: Any) -> list[ClaimedRun]:
    """Claim as one who has seen a crowd."""
    return work.take(store, worker, limit, served=IN_A_CROWD, **parts)


def _by_tenant(taken: list[ClaimedRun]) -> Counter[str]:
    return Counter(one.record.tenant for one in taken)


def _queued_as(store: Store, clock: ManualClock, way: str) -> RunId:
    """Queue a run of another tenant in one of the ways there are."""
    match way:
        case "at once":
            return work.queue(store, "one", tenant=THEIRS)
        case "delayed":
            pending = steps.delay(store, clock.now_us() + SECOND_US, tenant=THEIRS)
            (timer,) = steps.load(store, pending.due_at + 1)
            clock.set(pending.due_at)
            fired = steps.fire(store, steps.own(store, (Lane.LIVE,)), FireDelayed(timer))
            assert (FireResult.FIRED,) == fired.results
            return pending.id
        case "schedule":
            record = steps.fire_due(store, clock, steps.create(store, tenant=THEIRS))
            assert record.last_run is not None
            return record.last_run
        case "given back":
            worker, claimed = work.queue_and_take(store, "one", tenant=THEIRS)
            work.end(store, worker, claimed, ReturnedToQueue(Reason.SHUTDOWN, is_started=True))
        case "retry":
            worker, claimed = work.queue_and_take(store, "one", tenant=THEIRS)
            work.end(store, worker, claimed, Failed("again", after_us=SECOND_US))
            work.fire_retries(store, clock)
        case _:
            worker, claimed = work.queue_and_take(store, "one", tenant=THEIRS)
            work.end(store, worker, claimed, work.FATAL)
            store.retry_runs(order_runs(claimed.run_id, tenant=THEIRS))
    return claimed.run_id


EITHER = pytest.mark.parametrize("standing", list(WorkerStatus))
BY = replace(ADA, reason="it smokes")


class TakingOutOfService(AtPlaces):
    """What `order_worker` promises."""

    @EITHER
    def test_it_claims_nothing_more_and_finishes_what_it_holds(
        self, store: Store, standing: WorkerStatus
    ) -> None:
        """From the commit on, whether it has heard of it or not; others go on."""
        worker, claimed = work.queue_and_take(store, "held")
        other, left = work.join_worker(store, process=2), work.queue(store, "left")

        assert standing is order(store, worker, standing).standing

        assert not store.claim_runs(ClaimRuns(worker=worker, limit=9)).is_alive
        assert [left] == work.take_ids(store, other)
        assert FinishResult.ACCEPTED == work.end(store, worker, claimed, Succeeded())
        assert [] == store.check()

    @EITHER
    def test_its_beat_tells_it(self, store: Store, standing: WorkerStatus) -> None:
        """It is alive all the same, and everybody can see it."""
        worker = work.join_worker(store)
        assert store.beat(Heartbeat(worker=worker)).standing is None

        order(store, worker, standing)

        beaten = store.beat(Heartbeat(worker=worker))
        assert (True, standing) == (beaten.is_alive, beaten.standing)
        assert [standing] == [member.standing for member in store.status().members]

    @EITHER
    def test_it_can_be_put_back(self, store: Store, standing: WorkerStatus) -> None:
        worker, queued = work.join_worker(store), work.queue(store)
        order(store, worker, standing)

        assert order(store, worker, None).standing is None

        assert store.beat(Heartbeat(worker=worker)).standing is None
        assert [queued] == work.take_ids(store, worker)

    def test_who_ordered_it_and_why_is_on_record(self, store: Store) -> None:
        """Once, though it is ordered twice."""
        worker = work.join_worker(store)

        order(store, worker, WorkerStatus.DRAINING)
        order(store, worker, WorkerStatus.DRAINING)
        order(store, worker, None)
        order(store, worker, WorkerStatus.QUARANTINED, is_fenced=True)

        entries = steps.audit(store)
        assert ["worker.quarantined", "worker.released", "worker.drained"] == [
            entry.action for entry in entries
        ]
        assert {BY} == {entry.actor for entry in entries}
        assert f"worker {worker}" == entries[0].subject
        assert entries[0].after is not None
        assert entries[0].after["fenced"]

    def test_fenced_off_it_loses_what_it_holds(self, store: Store) -> None:
        """INV-11: by the rules for any lost claim; what it still says is refused."""
        worker, safe = work.queue_and_take(store, "safe")
        store.register_policies({"remind": effects.UNSAFE})
        work.queue(store, "unsafe")
        unsafe = work.take_one(store, worker)
        effects.begin(store, worker, unsafe)

        order(store, worker, WorkerStatus.QUARANTINED, is_fenced=True)

        beaten = store.beat(Heartbeat(worker=worker))
        assert (False, None) == (beaten.is_alive, beaten.standing)
        lost = work.lost_claims(store)
        assert [True, True] == work.settle_lost(
            store, work.maintain(store), *lost, how=WorkerLost()
        )
        assert RunState.RETRYING is work.get_run(store, safe.run_id).state
        assert RunState.AMBIGUOUS is work.get_run(store, unsafe.run_id).state
        assert FinishResult.REFUSED == work.end(store, worker, safe, Succeeded())
        (attempt,) = store.list_attempts(safe.run_id, 10)
        assert AttemptState.LOST is attempt.state
        assert [] == store.check()

    def test_a_process_that_joins_anew_stays_in_quarantine(self, store: Store) -> None:
        """By host and process; one that is started in its place is not."""
        worker, queued = work.join_worker(store, process=7), work.queue(store)
        order(store, worker, WorkerStatus.QUARANTINED, is_fenced=True)

        again = work.join_worker(store, process=7)
        assert WorkerStatus.QUARANTINED is store.beat(Heartbeat(worker=again)).standing
        assert [] == work.take(store, again)
        order(store, again, None)
        assert [queued] == work.take_ids(store, again)
        assert store.beat(Heartbeat(worker=work.join_worker(store, process=7))).standing is None

    def test_a_process_in_its_place_is_in_service(self, store: Store) -> None:
        """What is wrong with a process ends with it."""
        order(store, work.join_worker(store, process=7), WorkerStatus.QUARANTINED)

        assert store.beat(Heartbeat(worker=work.join_worker(store, process=8))).standing is None

    def test_a_whole_host_can_be_in_quarantine(self, store: Store, clock: ManualClock) -> None:
        """Those that are there, and those that are started there; others are not."""
        here, there = (
            work.join_worker(store, host="here"),
            work.join_worker(store, host="there", process=2),
        )
        beside = work.join_worker(store, host="here", process=3)

        order(store, here, WorkerStatus.QUARANTINED, is_whole_host=True)

        later = work.join_worker(store, host="here", process=4)
        assert [WorkerStatus.QUARANTINED] * 3 + [None] == [
            store.beat(Heartbeat(worker=one)).standing for one in (here, beside, later, there)
        ]
        told = QuarantinedHost("here", clock.now_us(), BY.name, BY.reason)
        assert [told] == store.list_quarantined_hosts()
        order(store, later, None, is_whole_host=True)
        assert [] == store.list_quarantined_hosts()
        assert [None] * 3 == [
            store.beat(Heartbeat(worker=one)).standing for one in (here, beside, later)
        ]

    def test_a_worker_out_of_service_serves_no_task(self, store: Store) -> None:
        """Nobody leaves a run to it."""
        worker = work.join_worker(store, tasks=("remind",))
        assert store.is_served("remind", "default")

        order(store, worker, WorkerStatus.DRAINING)

        assert not store.is_served("remind", "default")

    def test_an_order_wakes_it(self, store: Store) -> None:
        """It hears of it at once, and not with its next beat by itself."""
        place = self.place(store, MemberKind.WORKER)
        try:
            worker = work.join_worker(store, wake_address=place.address)
            order(store, worker, WorkerStatus.DRAINING)

            assert place.wait(5_000_000)
        finally:
            place.close()

    def test_who_is_no_worker_or_none_any_more_is_refused(self, store: Store) -> None:
        """A1, INV: nothing is changed by it."""
        dispatcher, gone = steps.join(store), work.join_worker(store)
        store.leave(gone)
        quarantined = work.join_worker(store, process=5)
        order(store, quarantined, WorkerStatus.QUARANTINED)
        before = snapshot(store)

        for nobody in (dispatcher, MemberId(99)):
            with pytest.raises(NotFound):
                order(store, nobody, WorkerStatus.DRAINING)
        with pytest.raises(Conflict, match="is alive no more"):
            order(store, gone, WorkerStatus.QUARANTINED)
        with pytest.raises(Conflict, match="is in quarantine; release it first"):
            order(store, quarantined, WorkerStatus.DRAINING)

        assert before == snapshot(store)


def order(store: Store, worker: MemberId, standing: WorkerStatus | None, **parts: Any) -> Member:
    """Take a worker out of service, or back into it."""
    return store.order_worker(OrderWorker(worker=worker, standing=standing, actor=BY, **parts))
