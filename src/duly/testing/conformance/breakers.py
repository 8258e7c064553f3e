"""Breakers: the part of the contract about destinations that keep failing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from duly.domain.admission import Way
from duly.domain.breakers import FAILURES_MIN, PAUSE_FIRST_US, BreakerState
from duly.domain.concluding import Succeeded
from duly.domain.literals import RunState
from duly.errors import NotFound
from duly.store.execution import WORKER_TTL_US, FinishResult
from duly.testing import factories
from duly.testing.conformance import steps
from duly.testing.conformance import work_steps as work
from duly.testing.conformance.limit_steps import (
    API,
    ask,
    end_all,
    fail_often,
    join,
    known,
    limit,
    probing,
    queue_many,
    ways,
)
from duly.testing.factories import ADA

if TYPE_CHECKING:
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock


class Breakers:
    """A destination that keeps failing is left alone (B2)."""

    def test_it_opens_when_enough_has_failed(self, store: Store) -> None:
        """B2: what is due is put off, with no attempt used, and says why."""
        worker = fail_often(store)
        record = known(store)
        assert BreakerState.OPEN == record.breaker.state
        run_id = work.queue(store, "next")

        (verdict,) = ask(store, worker, work.take_one(store, worker), destination=API)

        assert (Way.LATER, f"breaker {API}") == (verdict.way, verdict.why)
        assert verdict.at is not None
        assert store.now() + PAUSE_FIRST_US <= verdict.at < store.now() + 2 * PAUSE_FIRST_US
        run = work.look(store, run_id)
        assert (RunState.RETRYING, verdict.why, verdict.at) == (
            run.state,
            run.state_reason,
            run.next_at,
        )
        assert (0, 0) == (run.tries.attempt, run.tries.charged)
        assert [] == store.check()

    def test_what_the_other_side_refuses_is_no_failure_of_its(self, store: Store) -> None:
        """B2: it has answered; and what tells nothing counts for nothing."""
        worker = join(store)
        for number in range(2 * FAILURES_MIN):
            work.queue(store, f"run {number}")
            claimed = work.take_one(store, worker)
            assert [Way.GOES] == ways(store, worker, claimed, destination=API)
            answered = True if number % 2 else None
            work.end(store, worker, claimed, work.FATAL, is_answered=answered)

        assert BreakerState.CLOSED == known(store).breaker.state
        assert (FAILURES_MIN, 0) == (known(store).breaker.succeeded, known(store).breaker.failed)

    def test_nothing_is_known_before_an_end_tells_something(self, store: Store) -> None:
        """B2: of one that is spoken to for the first time, or was left without a word."""
        worker = join(store)
        work.queue(store, "first")
        claimed = work.take_one(store, worker)
        assert [Way.GOES] == ways(store, worker, claimed, destination=API)
        assert [] == store.list_breakers()

        work.end(store, worker, claimed, work.FATAL, is_answered=None)

        assert [] == store.list_breakers()
        with pytest.raises(NotFound):
            store.reset_breaker(API, ADA)

    def test_ends_that_come_together_count_together(self, store: Store) -> None:
        """B2."""
        ids, worker = queue_many(store, FAILURES_MIN), join(store)
        claimed = work.take(store, worker)
        ways(store, worker, *claimed, destination=API)
        assert [("destination:" + API, len(ids), 0, None)] == store.list_places()

        ends = [factories.finish(one, work.FATAL, is_answered=False) for one in claimed]
        store.finish_runs(worker, ends)

        assert BreakerState.OPEN == known(store).breaker.state
        assert [] == store.list_places()
        assert [] == store.check()

    @pytest.mark.parametrize("is_repeated", [False, True])
    def test_a_batch_of_ends_is_judged_as_a_whole(self, store: Store, is_repeated: bool) -> None:  # noqa: FBT001
        """B2: whatever comes first in it, and though some of it is told twice or refused."""
        queue_many(store, 2 * FAILURES_MIN + 2)
        worker = join(store)
        *claimed, last = work.take(store, worker)
        ways(store, worker, *claimed, last, destination=API)
        ends = [
            factories.finish(one, work.FATAL, is_answered=number >= FAILURES_MIN)
            for number, one in enumerate(claimed)
        ]
        if is_repeated:
            stale = last.hold._replace(fence=last.fence + 1)
            ends.insert(FAILURES_MIN, ends[0])
            ends.insert(FAILURES_MIN + 1, replace(ends[0], hold=stale))
        results = store.finish_runs(worker, ends).results

        assert is_repeated == (FinishResult.REFUSED in results)
        breaker = known(store).breaker
        assert (BreakerState.CLOSED, FAILURES_MIN, FAILURES_MIN + 1) == (
            breaker.state,
            breaker.failed,
            breaker.succeeded,
        )
        work.end(store, worker, last, work.FATAL, is_answered=False)
        assert BreakerState.OPEN == known(store).breaker.state

    def test_one_probe_goes_and_the_others_wait_for_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        """B2: whoever asks, and together or not."""
        fail_often(store)
        ids = queue_many(store, 3)
        clock.advance(PAUSE_FIRST_US)
        one, other = join(store), join(store)
        first, second = work.take(store, one, 2)
        third = work.take_one(store, other)

        assert [Way.GOES, Way.LATER] == ways(store, one, first, second, destination=API)
        assert [Way.LATER] == ways(store, other, third, destination=API)
        assert [Way.GOES] == ways(store, one, first, destination=API)
        record = known(store)
        assert (BreakerState.HALF_OPEN, ids[0], 1) == (
            record.breaker.state,
            record.breaker.probe,
            record.running,
        )

    def test_a_probe_that_succeeds_closes_it(self, store: Store, clock: ManualClock) -> None:
        """B2: what was put off comes spread out, and goes."""
        worker, probe = probing(store, clock)

        end_all(store, worker, probe, is_answered=True)

        assert BreakerState.CLOSED == known(store).breaker.state
        work.queue(store, "next")
        assert [Way.GOES] == ways(store, worker, work.take_one(store, worker), destination=API)

    def test_a_probe_that_fails_doubles_the_pause(self, store: Store, clock: ManualClock) -> None:
        """B2, INV-23."""
        worker, probe = probing(store, clock)

        work.end(store, worker, probe, work.FATAL, is_answered=False)

        breaker = known(store).breaker
        assert (BreakerState.OPEN, 2 * PAUSE_FIRST_US) == (breaker.state, breaker.pause_us)
        assert store.now() + 2 * PAUSE_FIRST_US == breaker.retry_at

    def test_a_probe_that_is_lost_with_its_worker_is_followed_by_another(
        self, store: Store, clock: ManualClock
    ) -> None:
        """B2: it has told nothing."""
        lost, probe = probing(store, clock, is_lasting=False)
        clock.advance(WORKER_TTL_US)

        work.settle(store, work.maintain(store), *work.lost_claims(store))

        assert BreakerState.OPEN == known(store).breaker.state
        worker = join(store)
        work.queue(store, "next")
        claimed = work.take_one(store, worker)
        assert [Way.GOES] == ways(store, worker, claimed, destination=API)
        assert claimed.run_id == known(store).breaker.probe
        assert FinishResult.REFUSED == work.end(store, lost, probe, Succeeded(), is_answered=True)
        assert BreakerState.HALF_OPEN == known(store).breaker.state
        assert [] == store.check()

    def test_one_that_can_not_begin_is_no_probe(self, store: Store, clock: ManualClock) -> None:
        """B2, R8: who stands at a cap is not waited for."""
        limit(store, running=1)
        worker = fail_often(store)
        work.queue(store, "in the way")
        assert [Way.GOES] == ways(store, worker, work.take_one(store, worker))
        clock.advance(PAUSE_FIRST_US)
        work.queue(store, "next")

        assert [Way.STANDS] == ways(store, worker, work.take_one(store, worker), destination=API)
        assert BreakerState.OPEN == known(store).breaker.state

    def test_a_person_can_take_it_for_well(self, store: Store) -> None:
        """B2, A2: on record."""
        worker = fail_often(store)
        waits = work.queue(store, "put off")
        assert [Way.LATER] == ways(store, worker, work.take_one(store, worker), destination=API)

        reset = store.reset_breaker(API, ADA)

        assert BreakerState.CLOSED == reset.breaker.state == known(store).breaker.state
        assert store.now() == work.look(store, waits).next_at
        work.queue(store, "next")
        assert [Way.GOES] == ways(store, worker, work.take_one(store, worker), destination=API)
        (entry,) = [one for one in steps.audit(store) if one.action == "breaker.reset"]
        assert (API, ADA) == (entry.subject, entry.actor)
        with pytest.raises(NotFound, match="nobody"):
            store.reset_breaker("nobody", ADA)

    def test_other_destinations_are_left_in_peace(self, store: Store) -> None:
        """B2."""
        worker = fail_often(store)
        work.queue(store, "next")

        claimed = work.take_one(store, worker)

        assert [Way.GOES] == ways(store, worker, claimed, destination="other.example.com")
