"""Fair shares: the part of the contract about tenants and lanes that wait for the same workers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from duly.domain.attempts import Reason
from duly.domain.concluding import Failed, GivenBack
from duly.domain.literals import Lane, RunState
from duly.domain.schedules import TENANT_DEFAULT
from duly.store.dispatch import FireDelayed, FireResult
from duly.store.execution import ClaimRuns
from duly.testing.conformance import steps
from duly.testing.conformance import work_steps as work
from duly.testing.factories import SECOND_US, cancel_run, order_runs

if TYPE_CHECKING:
    from duly.domain.identity import RunId
    from duly.store.dispatch import MemberId
    from duly.store.execution import ClaimedRun
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock

IN_A_CROWD = {"default": ""}
"""As one says who has seen a crowd before, and the default tenant served in it."""
THEIRS = "theirs"
ENDS = pytest.mark.parametrize("end", [{}, {"newest_first": True}], ids=["oldest", "newest"])
"""Which end of each line is taken."""


class FairShares:
    """What `claim_runs` promises to tenants of whom one has more than his share (R8, INV-22)."""

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
        """R8, INV-22: who has one run gets it with the next claim after one that came back full."""
        _queue_many(store, 30, flooding)
        worker = work.join(store)
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
        """R8."""
        for tenant in ("a", TENANT_DEFAULT, "b"):
            _queue_many(store, 9, tenant)

        taken = _take(store, work.join(store), limit, **end)

        assert shares == sorted(_by_tenant(taken).values())

    def test_what_one_leaves_goes_to_the_others(self, store: Store) -> None:
        """R8: no slot stays empty for the sake of fairness."""
        _queue_many(store, 1, "a")
        _queue_many(store, 20, "b")
        _queue_many(store, 3, "c")
        worker = work.join(store)

        assert {"a": 1, "b": 5, "c": 3} == _by_tenant(_take(store, worker, 9))
        assert {"b": 15} == _by_tenant(_take(store, worker, 100))

    @ENDS
    def test_the_order_within_a_tenant_stays(
        self, store: Store, clock: ManualClock, end: dict[str, Any]
    ) -> None:
        """R8: who has waited longest goes first, or who came last."""
        queued: dict[str, list[RunId]] = {"a": [], "b": []}
        for number in range(5):
            for tenant, own in queued.items():
                own.append(work.queue(store, f"{tenant} {number}", tenant=tenant))
            clock.advance(1)

        taken = _take(store, work.join(store), 6, **end)

        for tenant, own in queued.items():
            found = [one.run_id for one in taken if one.record.tenant == tenant]
            assert (own[:1:-1] if end else own[:3]) == found

    def test_priorities_come_before_tenants(self, store: Store) -> None:
        """R8: what is more urgent goes first, whosever it is; what is less waits."""
        _queue_many(store, 6, "a", priority=4)
        _queue_many(store, 2, "b", priority=3)
        _queue_many(store, 6, "c", priority=5)
        worker = work.join(store)

        assert {"a": 3, "b": 2} == _by_tenant(_take(store, worker, 5))
        assert {"a": 3, "c": 1} == _by_tenant(_take(store, worker, 4))

    def test_tenants_take_turns_when_there_is_one_slot(self, store: Store) -> None:
        """R8: each answer says who was served last, and the next claim begins behind him."""
        for tenant in ("a", TENANT_DEFAULT, "b"):
            _queue_many(store, 4, tenant)
        worker, served, turns = work.join(store), IN_A_CROWD, ""
        for _ in range(6):
            claimed = store.claim_runs(ClaimRuns(worker=worker, limit=1, served=served))
            turns += claimed.runs[0].record.tenant[0]
            served = dict(claimed.served)

        assert "abdabd" == turns

    def test_tenants_that_do_not_fit_into_a_claim_have_the_next(self, store: Store) -> None:
        """R8: twenty tenants, five slots, four claims."""
        for number in range(20):
            _queue_many(store, 3, f"tenant {number}")
        worker, served = work.join(store), IN_A_CROWD
        met: list[str] = []
        for _ in range(4):
            claimed = store.claim_runs(ClaimRuns(worker=worker, limit=5, served=served))
            met += [one.record.tenant for one in claimed.runs]
            served = dict(claimed.served)

        assert 20 == len(met) == len(set(met))

    def test_queues_keep_turns_of_their_own(self, store: Store) -> None:
        """R8: a tenant has his turn in each queue, whichever claim serves that."""
        for queue in ("first", "second"):
            for tenant in ("a", "b"):
                _queue_many(store, 4, tenant, queue, queue=queue)
        worker, served = work.join(store), {"first": "b", "second": "b"}
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
        """R8, S6: however many of them come first."""
        for tenant in "abcdef":
            _queue_many(store, 2, tenant, task="new")
        known = work.queue(store, "known", tenant="z")
        without = frozenset(("new",))

        taken = _take(store, work.join(store), 2, without=without, queues=queues, **end)

        assert [known] == [one.run_id for one in taken]

    @pytest.mark.parametrize(
        "way", ["at once", "delayed", "schedule", "given back", "retry", "dead and retried"]
    )
    def test_a_run_stands_in_its_tenants_line_however_it_got_there(
        self, store: Store, clock: ManualClock, way: str
    ) -> None:
        """R8."""
        one = _queued_as(store, clock, way)
        _queue_many(store, 9, TENANT_DEFAULT)
        clock.advance(1)
        _queue_many(store, 9, TENANT_DEFAULT, "more")

        taken = _take(store, work.join(store), 4)

        assert {TENANT_DEFAULT: 3, THEIRS: 1} == _by_tenant(taken)
        assert one in [claimed.run_id for claimed in taken]

    def test_a_queued_run_is_cancelled_whosever_it_is(self, store: Store) -> None:
        """R9: it is found in its line."""
        one = work.queue(store, "one", tenant=THEIRS)
        _queue_many(store, 2, THEIRS)

        store.cancel_run(cancel_run(one, tenant=THEIRS))

        assert RunState.CANCELLED is work.look(store, one).state
        assert 2 == steps.queued(store)
        assert 2 == len(work.take(store, work.join(store)))


class ReservedLanes:
    """What `claim_runs` promises to lanes behind the live one (M3)."""

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
        """M3: and goes on with the others, so that no slot stays empty."""
        for lane in Lane:
            for number in range(2):
                work.queue(store, f"{lane} {number}", lane=lane, priority=9 - number)
        worker = work.join(store)

        taken = [
            one.record
            for _ in range(3)
            for one in work.take(store, worker, 2, queues=queues, first_lane=first_lane)
        ]

        assert [lane for lane in lanes for _ in range(2)] == [record.lane for record in taken]
        assert [8, 9] * 3 == [record.call.priority for record in taken]

    def test_tenants_share_within_another_lane(self, store: Store) -> None:
        """M3, R8."""
        _queue_many(store, 4, "a", lane=Lane.CATCH_UP)
        _queue_many(store, 4, "b", lane=Lane.CATCH_UP)
        _queue_many(store, 4, "c")

        taken = _take(store, work.join(store), 4, first_lane=Lane.CATCH_UP)

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
            work.end(store, worker, claimed, GivenBack(Reason.SHUTDOWN, is_started=True))
        case "retry":
            worker, claimed = work.queue_and_take(store, "one", tenant=THEIRS)
            work.end(store, worker, claimed, Failed("again", after_us=SECOND_US))
            work.fire_retries(store, clock)
        case _:
            worker, claimed = work.queue_and_take(store, "one", tenant=THEIRS)
            work.end(store, worker, claimed, work.FATAL)
            store.retry_runs(order_runs(claimed.run_id, tenant=THEIRS))
    return claimed.run_id
