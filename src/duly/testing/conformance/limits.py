"""Limits: the part of the contract about attempts that may not begin just now."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from duly.domain.admission import Way
from duly.domain.attempts import Reason
from duly.domain.breakers import FAILURES_MIN, PAUSE_FIRST_US, BreakerState
from duly.domain.concluding import CancelledEnd, Failed, GivenBack, Succeeded
from duly.domain.limits import NO_LIMIT, Limit, LimitSource, place_text, read_limit, why_of
from duly.domain.literals import Lane, Overlap, RunState
from duly.domain.schedules import TENANT_DEFAULT, Call
from duly.errors import NotFound
from duly.store.admission import Request, SetLimit
from duly.store.dispatch import FireResult, FireRetry, FireTimers
from duly.store.execution import WORKER_TTL_US, Beat, FinishResult, Hold
from duly.testing import factories
from duly.testing.conformance import overlapping, steps
from duly.testing.conformance import work_steps as work
from duly.testing.factories import ADA, HOUR_US, SECOND_US, cancel_run, order_runs

if TYPE_CHECKING:
    from duly.domain.admission import Verdict
    from duly.domain.concluding import End
    from duly.domain.identity import RunId
    from duly.store.admission import BreakerRecord
    from duly.store.dispatch import MemberId
    from duly.store.execution import ClaimedRun
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock

TASK = "task:remind"
API = "api.example.com"


def limit(store: Store, scope: str = TASK, **parts: Any) -> None:
    """Limit something, as a person does."""
    told = {"running": None, "rate": None, "running_by": None} | parts
    store.set_limit(SetLimit(scope=scope, limit=read_limit(**told), actor=ADA))


def request(claimed: ClaimedRun, **parts: Any) -> Request:
    """Return what a worker asks about a claim."""
    asked = Request(claimed.hold, claimed.record.tenant, claimed.task)
    return asked._replace(**parts)


def ask(store: Store, worker: MemberId, *claimed: ClaimedRun, **parts: Any) -> list[Verdict]:
    """Ask about claims."""
    admitted = store.admit(worker, [request(one, **parts) for one in claimed])
    assert store.now() == admitted.now
    return list(admitted.verdicts)


def ways(store: Store, worker: MemberId, *claimed: ClaimedRun, **parts: Any) -> list[Way]:
    """Ask about claims; return only what becomes of them."""
    return [verdict.way for verdict in ask(store, worker, *claimed, **parts)]


def queue_many(store: Store, count: int, **parts: Any) -> list[RunId]:
    """Queue several runs at once; return them as they will be claimed."""
    return sorted(work.queue(store, f"run {number}", **parts) for number in range(count))


def join(store: Store) -> MemberId:
    """Join as a worker for as long as a test lasts."""
    return work.join(store, ttl_us=1000 * HOUR_US)


def states(store: Store, ids: list[RunId]) -> list[RunState]:
    """Return where runs are."""
    return [work.look(store, run_id).state for run_id in ids]


def end_all(store: Store, worker: MemberId, *claimed: ClaimedRun, **parts: Any) -> None:
    """End attempts well."""
    for one in claimed:
        assert FinishResult.ACCEPTED == work.end(store, worker, one, Succeeded(), **parts)


def fire_due(store: Store) -> int:
    """Fire the timers of runs that are due by now; return how many."""
    timers = [timer for timer in steps.load(store, store.now()) if timer.kind == "retry"]
    fence = steps.own(store, (Lane.LIVE,))
    fired = store.fire_timers(FireTimers(fence=fence, retries=tuple(map(FireRetry, timers))))
    assert {FireResult.FIRED} >= set(fired.results)
    store.leave(fence.member)
    return len(timers)


class Caps:
    """How many run at once (R8)."""

    def test_no_more_begin_than_may_run_at_once(self, store: Store) -> None:
        """R8: the others stand, in no queue and with no attempt used."""
        limit(store, running=2)
        ids, worker = queue_many(store, 5), join(store)
        claimed = work.take(store, worker)

        verdicts = ask(store, worker, *claimed)

        assert [Way.GOES] * 2 + [Way.STANDS] * 3 == [verdict.way for verdict in verdicts]
        assert f"cap {TASK}" == verdicts[4].why
        assert [RunState.RUNNING] * 2 + [RunState.BLOCKED] * 3 == states(store, ids)
        last = work.look(store, ids[4])
        assert (f"cap {TASK}", 0, None) == (
            last.state_reason,
            last.tries.attempt,
            last.tries.begun_at,
        )
        assert [] == store.list_attempts(ids[4])
        assert [] == work.take(store, worker)
        assert [(TASK, 2, 3, None)] == store.list_places()
        assert [] == store.check()

    @pytest.mark.parametrize("how", ["succeeded", "retried", "dead", "cancelled", "given back"])
    def test_however_an_attempt_ends_the_next_goes(self, store: Store, how: str) -> None:
        """R8: a place is an attempt's, and not its run's."""
        limit(store, running=1)
        ids, worker = queue_many(store, 2), join(store)
        first, second = work.take(store, worker)
        assert [Way.GOES, Way.STANDS] == ways(store, worker, first, second)
        ends: dict[str, End] = {
            "succeeded": Succeeded(),
            "retried": Failed("again", after_us=HOUR_US),
            "dead": work.FATAL,
            "cancelled": CancelledEnd(),
            "given back": GivenBack(Reason.SHUTDOWN, is_started=False, after_us=HOUR_US),
        }

        work.end(store, worker, first, ends[how])

        assert RunState.QUEUED == work.look(store, ids[1]).state
        again = work.take_one(store, worker)
        assert [Way.GOES] == ways(store, worker, again)
        assert (2, 1) == (again.fence, again.tries.attempt)
        end_all(store, worker, again)
        assert [] == store.list_places()
        assert [] == store.check()

    def test_a_lost_worker_keeps_its_place_until_its_attempt_is_settled(
        self, store: Store, clock: ManualClock
    ) -> None:
        """R8, INV-8: it may still be at it; time alone gives nothing back."""
        limit(store, running=1)
        ids, lost, worker = queue_many(store, 2), work.join(store), join(store)
        assert [Way.GOES] == ways(store, lost, *work.take(store, lost, 1))
        assert [Way.STANDS] == ways(store, worker, work.take_one(store, worker))
        clock.advance(WORKER_TTL_US)
        assert 0 == store.open_gates(10)

        assert [True] == work.settle(store, work.maintain(store), *work.lost_claims(store))

        assert [RunState.RETRYING, RunState.QUEUED] == states(store, ids)
        assert [] == store.check()

    def test_the_first_to_come_goes_first_within_its_priority(self, store: Store) -> None:
        """R8: and nobody who comes later passes those who stand."""
        limit(store, running=1)
        worker = join(store)
        calm = queue_many(store, 2)
        (running, _) = claimed = work.take(store, worker)
        ways(store, worker, *claimed)
        late = work.queue(store, "late")
        ways(store, worker, work.take_one(store, worker))
        urgent = work.queue(store, "urgent", priority=-5)
        ways(store, worker, work.take_one(store, worker))

        order = []
        for _ in range(3):
            end_all(store, worker, running)
            running = work.take_one(store, worker)
            assert [Way.GOES] == ways(store, worker, running)
            order.append(running.run_id)

        assert [urgent, calm[1], late] == order

    def test_who_comes_while_there_is_a_place_for_another_stands_behind_him(
        self, store: Store
    ) -> None:
        """R8: the one who was let go has the place, also while nobody has claimed him."""
        limit(store, running=1)
        ids, worker = queue_many(store, 2), join(store)
        first, second = work.take(store, worker)
        ways(store, worker, first, second)
        end_all(store, worker, first)
        assert RunState.QUEUED == work.look(store, ids[1]).state
        work.queue(store, "late", priority=-5)

        late, let_go = work.take(store, worker)

        assert [Way.STANDS, Way.GOES] == ways(store, worker, late, let_go)
        assert [] == store.check()

    def test_all_of_its_places_or_none(self, store: Store) -> None:
        """R8: who stands at one limit takes nothing at the others."""
        limit(store, running=5)
        limit(store, f"tenant:{TENANT_DEFAULT}", running=1)
        worker = join(store)
        ids = queue_many(store, 3)

        verdicts = ask(store, worker, *work.take(store, worker))

        why = f"cap tenant:{TENANT_DEFAULT}"
        assert [None, why, why] == [verdict.why for verdict in verdicts]
        assert [(TASK, 1, 0, None), (f"tenant:{TENANT_DEFAULT}", 1, 2, None)] == store.list_places()
        assert RunState.BLOCKED == work.look(store, ids[2]).state

    def test_who_was_let_go_at_one_limit_may_have_to_stand_at_another(self, store: Store) -> None:
        """R8: and gives back what he was let go with."""
        limit(store, running=1)
        limit(store, "task:other", running=1)
        limit(store, f"tenant:{TENANT_DEFAULT}", running=2)
        worker = join(store)
        remind = queue_many(store, 2)
        first, second = work.take(store, worker)
        ways(store, worker, first, second)
        work.queue(store, "other", task="other")
        other = work.take_one(store, worker)
        assert [Way.GOES] == ways(store, worker, other)
        limit(store, f"tenant:{TENANT_DEFAULT}", running=1)

        end_all(store, worker, first)
        assert [Way.STANDS] == ways(store, worker, work.take_one(store, worker))

        why = f"cap tenant:{TENANT_DEFAULT}"
        assert why == work.look(store, remind[1]).state_reason
        assert [f"tenant:{TENANT_DEFAULT}", "task:other"] == [
            place for place, held, *_ in reversed(store.list_places()) if held
        ]
        end_all(store, worker, other)
        assert [Way.GOES] == ways(store, worker, work.take_one(store, worker))
        assert [] == store.check()

    def test_a_limit_that_is_raised_lets_go_who_stands(self, store: Store) -> None:
        """R8: at once; and one that is lowered lets nobody go until there is room."""
        limit(store, running=1)
        ids, worker = queue_many(store, 4), join(store)
        claimed = work.take(store, worker)
        ways(store, worker, *claimed)

        limit(store, running=3)
        more = work.take(store, worker)
        assert [Way.GOES] * 2 == ways(store, worker, *more)
        limit(store, running=1)
        end_all(store, worker, claimed[0], more[0])
        assert RunState.BLOCKED == work.look(store, ids[3]).state
        end_all(store, worker, more[1])

        assert RunState.QUEUED == work.look(store, ids[3]).state
        assert [] == store.check()

    def test_without_a_limit_nobody_stands_any_more(self, store: Store) -> None:
        """R8."""
        limit(store, running=1)
        ids, worker = queue_many(store, 4), join(store)
        ways(store, worker, *work.take(store, worker))

        assert store.remove_limit(TASK, ADA)
        assert not store.remove_limit(TASK, ADA)

        assert [RunState.RUNNING] + [RunState.QUEUED] * 3 == states(store, ids)
        assert [Way.GOES] * 3 == ways(store, worker, *work.take(store, worker))
        assert [] == store.check()

    def test_what_runs_already_counts_when_a_limit_is_set(self, store: Store) -> None:
        """R8: whoever throttles an overloaded neighbour means those that run as well."""
        ids, worker = queue_many(store, 3), join(store)
        running = work.take(store, worker, 2)
        limit(store, running=2)

        assert [Way.STANDS] == ways(store, worker, work.take_one(store, worker))
        end_all(store, worker, running[0])

        assert RunState.QUEUED == work.look(store, ids[2]).state
        assert [] == store.check()

    def test_so_many_at_once_for_each_value_of_a_parameter(self, store: Store) -> None:
        """R8: by key, within a tenant."""
        limit(store, running_by={"account": 1})
        ids, worker = queue_many(store, 3), join(store)
        one, two, three = work.take(store, worker)

        asked = [
            request(one, keys=(("account", "7"),)),
            request(two, keys=(("account", "7"),)),
            request(three, keys=(("account", "8"),)),
        ]
        verdicts = store.admit(worker, asked).verdicts

        assert [Way.GOES, Way.STANDS, Way.GOES] == [verdict.way for verdict in verdicts]
        told = why_of(work.look(store, ids[1]).state_reason)
        assert told is not None
        assert f"{TASK} with account=7 in {TENANT_DEFAULT}" == place_text(told[1])
        end_all(store, worker, one)
        assert RunState.QUEUED == work.look(store, ids[1]).state
        assert [] == store.check()

    def test_each_tenant_has_a_limit_of_its_own(self, store: Store) -> None:
        """R8, L2: one that holds for each of them, and another for one of them."""
        limit(store, "tenant:*", running=1)
        limit(store, "tenant:large", running=2)
        worker = join(store)
        for tenant in ("small", "large", "other"):
            new = [
                factories.new_run(
                    None, f"{tenant} {number}", call=Call(task="remind"), tenant=tenant
                )
                for number in range(3)
            ]
            store.add_runs(factories.add_runs(*new))
        claimed = work.take(store, worker)

        verdicts = ask(store, worker, *claimed)

        went = [
            one.record.tenant
            for one, verdict in zip(claimed, verdicts, strict=True)
            if verdict.way is Way.GOES
        ]
        assert ["large", "large", "other", "small"] == sorted(went)

    def test_the_answer_may_be_lost(self, store: Store) -> None:
        """R4: asked again, it is the same, and nothing is taken twice."""
        limit(store, running=2, rate="1/h burst 2")
        queue_many(store, 3)
        worker = join(store)
        first, second, third = work.take(store, worker)

        assert [Way.GOES] == ways(store, worker, first)
        assert [Way.GOES, Way.GOES, Way.STANDS] == ways(store, worker, first, second, third)
        assert [Way.GOES, Way.GOES, Way.GONE] == ways(store, worker, first, second, third)
        assert [(2, 1)] == [record[1:3] for record in store.list_places()]
        end_all(store, worker, first)
        assert [Way.LATER] == ways(store, worker, work.take_one(store, worker))
        assert [] == store.check()

    def test_what_is_not_ones_own_is_gone(self, store: Store) -> None:
        """R4: every write is fenced."""
        limit(store, running=1)
        worker, claimed = work.queue_and_take(store)
        other = join(store)

        asked = request(claimed)
        stale = asked._replace(hold=Hold(claimed.run_id, claimed.fence + 1))
        assert [Way.GONE] == ways(store, other, claimed)
        assert Way.GONE == store.admit(worker, [stale]).verdicts[0].way
        assert RunState.RUNNING == work.look(store, claimed.run_id).state

    def test_one_that_is_to_be_cancelled_is_closed(self, store: Store) -> None:
        """A1: nobody begins what somebody has asked to stop."""
        limit(store, running=1)
        worker, claimed = work.queue_and_take(store)
        store.cancel_run(cancel_run(claimed.run_id))

        assert [Way.GONE] == ways(store, worker, claimed)
        assert RunState.CANCELLED == work.look(store, claimed.run_id).state
        assert [] == store.check()

    @pytest.mark.parametrize("place", ["standing", "let go"])
    def test_who_stands_or_was_let_go_can_be_cancelled(self, store: Store, place: str) -> None:
        """A1: the next goes in its place."""
        limit(store, running=1)
        ids, worker = queue_many(store, 3), join(store)
        claimed = work.take(store, worker)
        ways(store, worker, *claimed)
        if place == "let go":
            end_all(store, worker, claimed[0])

        store.cancel_run(cancel_run(ids[1]))

        if place == "standing":
            end_all(store, worker, claimed[0])
        assert [RunState.SUCCEEDED, RunState.CANCELLED, RunState.QUEUED] == states(store, ids)
        assert [] == store.check()

    def test_a_gate_that_nobody_opened_is_found(self, store: Store) -> None:
        """R8: by whoever tends the store, who looks at the state alone."""
        limit(store, running=1)
        ids, worker = queue_many(store, 2), join(store)
        ways(store, worker, *work.take(store, worker))

        assert 0 == store.open_gates(10)
        assert RunState.BLOCKED == work.look(store, ids[1]).state

    def test_who_stands_keeps_its_line(self, store: Store, clock: ManualClock) -> None:
        """O1, R8: the next of its schedule waits for it all the same."""
        limit(store, "task:report", running=1)
        record = overlapping.fired(store, clock, Overlap.QUEUE_ALL, times=2)
        task = record.definition.call.task
        limit(store, f"task:{task}", running=1)
        worker = join(store)
        other = work.queue(store, "in the way", task=task, priority=-9)
        claimed = work.take(store, worker)
        assert [other] == [claimed[0].run_id]
        assert [Way.GOES, Way.STANDS] == ways(store, worker, *claimed)
        assert ["blocked", "blocked"] == overlapping.states(store, record)
        assert [] == store.check()

        end_all(store, worker, claimed[0])

        assert ["queued", "blocked"] == overlapping.states(store, record)
        again = work.take_one(store, worker)
        assert [Way.GOES] == ways(store, worker, again)
        end_all(store, worker, again)
        assert ["succeeded", "queued"] == overlapping.states(store, record)
        assert [] == store.check()

    def test_one_that_stands_is_replaced_like_any_that_has_not_begun(
        self, store: Store, clock: ManualClock
    ) -> None:
        """O1, R8."""
        record = overlapping.fired(store, clock, Overlap.REPLACE)
        task = record.definition.call.task
        limit(store, f"task:{task}", running=1)
        worker = join(store)
        work.queue(store, "in the way", task=task, priority=-9)
        assert [Way.GOES, Way.STANDS] == ways(store, worker, *work.take(store, worker))

        record = steps.fire_due(store, clock, record)

        assert ["replaced", "queued"] == overlapping.states(store, record)
        assert [] == store.check()


class Rates:
    """How many begin in a while (B4)."""

    def test_after_its_burst_each_waits_for_its_turn(self, store: Store) -> None:
        """B4: as a timer, with no attempt used; a blocked head of the queue it is not."""
        limit(store, rate="1/s burst 2")
        ids, worker = queue_many(store, 5), join(store)

        verdicts = ask(store, worker, *work.take(store, worker))

        assert [Way.GOES] * 2 + [Way.LATER] * 3 == [verdict.way for verdict in verdicts]
        turns = [store.now() + number * SECOND_US for number in (1, 2, 3)]
        assert turns == [verdict.at for verdict in verdicts[2:]]
        last = work.look(store, ids[4])
        assert (RunState.RETRYING, f"rate {TASK}") == (last.state, last.state_reason)
        assert (turns[2], 1, 0, 0, None) == (last.next_at, *last.tries)
        assert [] == store.list_attempts(ids[4])
        assert [] == store.check()

    def test_at_its_turn_it_goes_and_is_not_charged_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        """B4."""
        limit(store, rate="1/s burst 1")
        ids, worker = queue_many(store, 4), join(store)
        ways(store, worker, *work.take(store, worker))

        for number in (1, 2, 3):
            clock.advance(SECOND_US)
            assert 1 == fire_due(store)
            again = work.take_one(store, worker)
            assert ids[number] == again.run_id
            assert [Way.GOES] == ways(store, worker, again)
            assert (2, 1) == (again.fence, again.tries.attempt)
        assert [] == store.check()

    def test_who_comes_later_stands_behind_the_turns_that_were_given(
        self, store: Store, clock: ManualClock
    ) -> None:
        """B4."""
        limit(store, rate="1/s burst 1")
        queue_many(store, 3)
        worker = join(store)
        ways(store, worker, *work.take(store, worker))
        clock.advance(SECOND_US // 2)
        work.queue(store, "late")

        (verdict,) = ask(store, worker, work.take_one(store, worker))

        assert store.now() + 5 * SECOND_US // 2 == verdict.at

    def test_many_that_come_late_do_not_all_begin_at_once(
        self, store: Store, clock: ManualClock
    ) -> None:
        """B4, INV-23: after an outage, no more than the rate allows."""
        limit(store, rate="1/m burst 1")
        queue_many(store, 10)
        worker = join(store)
        ways(store, worker, *work.take(store, worker))
        clock.advance(HOUR_US)
        assert 9 == fire_due(store)

        verdicts = ask(store, worker, *work.take(store, worker))

        assert [Way.GOES] + [Way.LATER] * 8 == [verdict.way for verdict in verdicts]
        gaps = {
            (verdict.at or 0) - (before.at or store.now()) for before, verdict in pairwise(verdicts)
        }
        assert max(gaps) <= 60 * SECOND_US
        assert [] == store.check()

    def test_who_is_hurried_before_its_turn_waits_for_it(self, store: Store) -> None:
        """B4, A1: a person's order does not change the rate."""
        limit(store, rate="1/h burst 1")
        ids, worker = queue_many(store, 2), join(store)
        _, later = ask(store, worker, *work.take(store, worker))
        store.retry_runs(order_runs(ids[1]))

        (verdict,) = ask(store, worker, work.take_one(store, worker))

        assert (Way.LATER, later.at) == (verdict.way, verdict.at)

    @pytest.mark.parametrize("rate", ["10/s burst 1", None])
    def test_who_waits_gets_another_turn_when_the_rate_has_changed(
        self, store: Store, clock: ManualClock, rate: str | None
    ) -> None:
        """B4: nobody waits a week because of what was said before."""
        limit(store, rate="1/d burst 1")
        ids, worker = queue_many(store, 4), join(store)
        ways(store, worker, *work.take(store, worker))

        if rate is None:
            store.remove_limit(TASK, ADA)
        else:
            limit(store, rate=rate)

        every_us = 0 if rate is None else SECOND_US // 10
        turns = [work.look(store, run_id).next_at for run_id in ids[1:]]
        assert [store.now() + number * every_us for number in range(3)] == turns
        clock.advance(2 * every_us)
        assert 3 == fire_due(store)
        assert [Way.GOES] * 3 == ways(store, worker, *work.take(store, worker))
        assert [] == store.check()

    def test_the_slowest_of_several_rates_counts(self, store: Store) -> None:
        """B4: per task, tenant and destination."""
        limit(store, rate="10/s burst 1")
        limit(store, f"tenant:{TENANT_DEFAULT}", rate="1/s burst 1")
        limit(store, f"destination:{API}", rate="1/m burst 1")
        queue_many(store, 2)
        worker = join(store)

        verdicts = ask(store, worker, *work.take(store, worker), destination=API)

        assert f"rate destination:{API}" == verdicts[1].why
        assert store.now() + 60 * SECOND_US == verdicts[1].at

    def test_who_stands_at_a_cap_uses_up_no_turn(self, store: Store) -> None:
        """R8, B4."""
        limit(store, running=1, rate="1/h burst 2")
        queue_many(store, 2)
        worker = join(store)
        first, second = work.take(store, worker)
        assert [Way.GOES, Way.STANDS] == ways(store, worker, first, second)
        end_all(store, worker, first)

        assert [Way.GOES] == ways(store, worker, work.take_one(store, worker))

    @pytest.mark.parametrize("how", ["cancelled", "succeeded"])
    def test_who_waits_for_its_turn_can_be_cancelled_or_go_without_a_limit(
        self, store: Store, clock: ManualClock, how: str
    ) -> None:
        """B4, A1."""
        limit(store, rate="1/s burst 1")
        ids, worker = queue_many(store, 2), join(store)
        ways(store, worker, *work.take(store, worker))

        if how == "cancelled":
            store.cancel_run(cancel_run(ids[1]))
        else:
            assert store.remove_limit(TASK, ADA)
            clock.advance(SECOND_US)
            fire_due(store)
            end_all(store, worker, work.take_one(store, worker))

        assert how == work.look(store, ids[1]).state
        assert [] == store.check()


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


class SayingLimits:
    """What code and people say about limits."""

    def test_a_person_is_believed_before_the_code_part_by_part(self, store: Store) -> None:
        """R8, B4: until he takes it back."""
        declared = Limit(running=5, running_by=(("account", 1),))
        store.declare_limits({TASK: declared}, ADA)
        limit(store, rate="5/s", running=2)

        limits = store.list_limits()

        held = limits.of(TASK)
        assert (2, declared.running_by) == (held.running, held.running_by)
        assert held.rate is not None
        sources = [(record.scope, record.source) for record in limits.records]
        assert [(TASK, LimitSource.CODE), (TASK, LimitSource.PERSON)] == sources
        assert store.remove_limit(TASK, ADA)
        assert declared == store.list_limits().of(TASK)

    def test_what_code_says_anew_changes_nothing(self, store: Store) -> None:
        """R8: every worker says it when it joins."""
        store.declare_limits({TASK: Limit(running=5), "task:other": None}, ADA)
        version = store.list_limits().version
        store.declare_limits({TASK: Limit(running=5), "task:other": None}, ADA)
        assert version == store.list_limits().version

        store.declare_limits({TASK: None}, ADA)

        assert NO_LIMIT == store.list_limits().of(TASK)
        assert version < store.list_limits().version

    def test_every_beat_tells_the_version(self, store: Store) -> None:
        """R8: so that a change is known within a beat."""
        worker = join(store)
        before = store.beat(Beat(worker=worker)).limits_version
        limit(store, running=1)

        after = store.beat(Beat(worker=worker)).limits_version

        assert before < after == store.list_limits().version

    def test_every_change_is_on_record(self, store: Store) -> None:
        """A2."""
        limit(store, running=1)
        limit(store, running=2)
        store.remove_limit(TASK, ADA)

        entries = [one for one in steps.audit(store) if one.action.startswith("limit.")][::-1]

        assert ["limit.set", "limit.set", "limit.removed"] == [one.action for one in entries]
        told = [(one.before or {}).get("running") for one in entries]
        assert [None, 1, 2] == told
        assert {(TASK, ADA)} == {(one.subject, one.actor) for one in entries}


def fail_often(store: Store) -> MemberId:
    """Let a destination fail until it is left alone; return the worker that tried."""
    worker = join(store)
    for number in range(FAILURES_MIN):
        work.queue(store, f"failing {number}")
        claimed = work.take_one(store, worker)
        assert [Way.GOES] == ways(store, worker, claimed, destination=API)
        work.end(store, worker, claimed, work.FATAL, is_answered=False)
    return worker


def probing(
    store: Store, clock: ManualClock, *, is_lasting: bool = True
) -> tuple[MemberId, ClaimedRun]:
    """Return a probe that is under way, and its worker."""
    fail_often(store)
    clock.advance(PAUSE_FIRST_US)
    work.queue(store, "probe")
    worker = join(store) if is_lasting else work.join(store)
    probe = work.take_one(store, worker)
    assert [Way.GOES] == ways(store, worker, probe, destination=API)
    return worker, probe


def known(store: Store) -> BreakerRecord:
    """Return what is known of the destination."""
    (record,) = store.list_breakers()
    assert API == record.destination
    return record
