"""Standing: the part of the contract about workers that people take out of service (A1)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from duly.domain.concluding import LostEnd, Succeeded
from duly.domain.literals import AttemptState, RunState
from duly.errors import Conflict, NotFound
from duly.store.dispatch import MemberId, MemberKind
from duly.store.execution import Beat, ClaimRuns, FinishResult
from duly.store.leases import Standing
from duly.store.standing import OrderWorker, QuarantinedHost
from duly.testing.conformance import effects, steps
from duly.testing.conformance import work_steps as work
from duly.testing.conformance.places import AtPlaces
from duly.testing.factories import ADA
from duly.testing.snapshot import snapshot

if TYPE_CHECKING:
    from duly.store.dispatch import Member
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock

EITHER = pytest.mark.parametrize("standing", list(Standing))
BY = replace(ADA, reason="it smokes")


class TakingOutOfService(AtPlaces):
    """What `order_worker` promises."""

    @EITHER
    def test_it_claims_nothing_more_and_finishes_what_it_holds(
        self, store: Store, standing: Standing
    ) -> None:
        """A1: from the commit on, whether it has heard of it or not; others go on."""
        worker, claimed = work.queue_and_take(store, "held")
        other, left = work.join(store, process=2), work.queue(store, "left")

        assert standing is order(store, worker, standing).standing

        assert not store.claim_runs(ClaimRuns(worker=worker, limit=9)).is_alive
        assert [left] == work.take_ids(store, other)
        assert FinishResult.ACCEPTED == work.end(store, worker, claimed, Succeeded())
        assert [] == store.check()

    @EITHER
    def test_its_beat_tells_it(self, store: Store, standing: Standing) -> None:
        """A1: it is alive all the same, and everybody can see it."""
        worker = work.join(store)
        assert store.beat(Beat(worker=worker)).standing is None

        order(store, worker, standing)

        beaten = store.beat(Beat(worker=worker))
        assert (True, standing) == (beaten.is_alive, beaten.standing)
        assert [standing] == [member.standing for member in store.status().members]

    @EITHER
    def test_it_can_be_put_back(self, store: Store, standing: Standing) -> None:
        """A1."""
        worker, queued = work.join(store), work.queue(store)
        order(store, worker, standing)

        assert order(store, worker, None).standing is None

        assert store.beat(Beat(worker=worker)).standing is None
        assert [queued] == work.take_ids(store, worker)

    def test_who_ordered_it_and_why_is_on_record(self, store: Store) -> None:
        """A2: once, though it is ordered twice."""
        worker = work.join(store)

        order(store, worker, Standing.DRAINING)
        order(store, worker, Standing.DRAINING)
        order(store, worker, None)
        order(store, worker, Standing.QUARANTINED, is_fenced=True)

        entries = steps.audit(store)
        assert ["worker.quarantined", "worker.released", "worker.drained"] == [
            entry.action for entry in entries
        ]
        assert {BY} == {entry.actor for entry in entries}
        assert f"worker {worker}" == entries[0].subject
        assert entries[0].after is not None
        assert entries[0].after["fenced"]

    def test_fenced_off_it_loses_what_it_holds(self, store: Store) -> None:
        """A1, E2, INV-11: by the rules for any lost claim; what it still says is refused."""
        worker, safe = work.queue_and_take(store, "safe")
        store.register_policies({"remind": effects.UNSAFE})
        work.queue(store, "unsafe")
        unsafe = work.take_one(store, worker)
        effects.begin(store, worker, unsafe)

        order(store, worker, Standing.QUARANTINED, is_fenced=True)

        beaten = store.beat(Beat(worker=worker))
        assert (False, None) == (beaten.is_alive, beaten.standing)
        lost = work.lost_claims(store)
        assert [True, True] == work.settle(store, work.maintain(store), *lost, how=LostEnd())
        assert RunState.RETRYING is work.look(store, safe.run_id).state
        assert RunState.AMBIGUOUS is work.look(store, unsafe.run_id).state
        assert FinishResult.REFUSED == work.end(store, worker, safe, Succeeded())
        (attempt,) = store.list_attempts(safe.run_id, 10)
        assert AttemptState.LOST is attempt.state
        assert [] == store.check()

    def test_a_process_that_joins_anew_stays_in_quarantine(self, store: Store) -> None:
        """A1: by host and process; one that is started in its place is not."""
        worker, queued = work.join(store, process=7), work.queue(store)
        order(store, worker, Standing.QUARANTINED, is_fenced=True)

        again = work.join(store, process=7)
        assert Standing.QUARANTINED is store.beat(Beat(worker=again)).standing
        assert [] == work.take(store, again)
        order(store, again, None)
        assert [queued] == work.take_ids(store, again)
        assert store.beat(Beat(worker=work.join(store, process=7))).standing is None

    def test_a_process_in_its_place_is_in_service(self, store: Store) -> None:
        """A1: what is wrong with a process ends with it."""
        order(store, work.join(store, process=7), Standing.QUARANTINED)

        assert store.beat(Beat(worker=work.join(store, process=8))).standing is None

    def test_a_whole_host_can_be_in_quarantine(self, store: Store, clock: ManualClock) -> None:
        """A1: those that are there, and those that are started there; others are not."""
        here, there = work.join(store, host="here"), work.join(store, host="there", process=2)
        beside = work.join(store, host="here", process=3)

        order(store, here, Standing.QUARANTINED, is_whole_host=True)

        later = work.join(store, host="here", process=4)
        assert [Standing.QUARANTINED] * 3 + [None] == [
            store.beat(Beat(worker=one)).standing for one in (here, beside, later, there)
        ]
        told = QuarantinedHost("here", clock.now_us(), BY.name, BY.reason)
        assert [told] == store.list_quarantined_hosts()
        order(store, later, None, is_whole_host=True)
        assert [] == store.list_quarantined_hosts()
        assert [None] * 3 == [
            store.beat(Beat(worker=one)).standing for one in (here, beside, later)
        ]

    def test_a_worker_out_of_service_serves_no_task(self, store: Store) -> None:
        """R9: nobody leaves a run to it."""
        worker = work.join(store, tasks=("remind",))
        assert store.is_served("remind", "default")

        order(store, worker, Standing.DRAINING)

        assert not store.is_served("remind", "default")

    def test_an_order_wakes_it(self, store: Store) -> None:
        """A1: it hears of it at once, and not with its next beat by itself."""
        place = self.place(store, MemberKind.WORKER)
        try:
            worker = work.join(store, wake_address=place.address)
            order(store, worker, Standing.DRAINING)

            assert place.wait(5_000_000)
        finally:
            place.close()

    def test_who_is_no_worker_or_none_any_more_is_refused(self, store: Store) -> None:
        """A1, INV: nothing is changed by it."""
        dispatcher, gone = steps.join(store), work.join(store)
        store.leave(gone)
        quarantined = work.join(store, process=5)
        order(store, quarantined, Standing.QUARANTINED)
        before = snapshot(store)

        for nobody in (dispatcher, MemberId(99)):
            with pytest.raises(NotFound):
                order(store, nobody, Standing.DRAINING)
        with pytest.raises(Conflict, match="is alive no more"):
            order(store, gone, Standing.QUARANTINED)
        with pytest.raises(Conflict, match="is in quarantine; release it first"):
            order(store, quarantined, Standing.DRAINING)

        assert before == snapshot(store)


def order(store: Store, worker: MemberId, standing: Standing | None, **parts: Any) -> Member:
    """Take a worker out of service, or back into it."""
    return store.order_worker(OrderWorker(worker=worker, standing=standing, actor=BY, **parts))
