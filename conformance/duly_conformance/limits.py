"""What every store must do about concurrency limits and rates."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from duly.domain.admission import AdmissionRoute
from duly.domain.enums import Overlap, RunState
from duly.domain.limits import NO_LIMIT, Limit, LimitSource, place_text, why_of
from duly.domain.outcomes import CancelledEnd, Failed, ReturnedToQueue, Succeeded
from duly.domain.runs import Reason
from duly.domain.schedules import TENANT_DEFAULT, Call
from duly.store.gates import OPENED_MAX
from duly.store.ports.execution import WORKER_TTL_US, ClaimRef, Heartbeat
from duly_conformance import kit, steps
from duly_conformance import steps as work
from duly_conformance.kit import ADA, HOUR_US, SECOND_US, cancel_run, order_runs
from duly_conformance.steps import (
    API,
    TASK,
    ask,
    end_all,
    fire_due_retries,
    join_limited_worker,
    limit,
    queue_many,
    request,
    states_of,
    ways,
)

if TYPE_CHECKING:
    from duly.domain.outcomes import End
    from duly.engine.manual_clock import ManualClock
    from duly.store.ports import Store


class Caps:
    """How many run at once."""

    def test_no_more_begin_than_may_run_at_once(self, store: Store) -> None:
        """The others stand, in no queue and with no attempt used."""
        limit(store, running=2)
        ids, worker = queue_many(store, 5), join_limited_worker(store)
        claimed = work.take(store, worker)

        verdicts = ask(store, worker, *claimed)

        assert [AdmissionRoute.GOES] * 2 + [AdmissionRoute.STANDS] * 3 == [
            verdict.way for verdict in verdicts
        ]
        assert f"cap {TASK}" == verdicts[4].why
        assert [RunState.RUNNING] * 2 + [RunState.BLOCKED] * 3 == states_of(store, ids)
        last = work.get_run(store, ids[4])
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
        """A place is an attempt's, and not its run's."""
        limit(store, running=1)
        ids, worker = queue_many(store, 2), join_limited_worker(store)
        first, second = work.take(store, worker)
        assert [AdmissionRoute.GOES, AdmissionRoute.STANDS] == ways(store, worker, first, second)
        ends: dict[str, End] = {
            "succeeded": Succeeded(),
            "retried": Failed("again", after_us=HOUR_US),
            "dead": work.FATAL,
            "cancelled": CancelledEnd(),
            "given back": ReturnedToQueue(Reason.SHUTDOWN, is_started=False, after_us=HOUR_US),
        }

        work.end(store, worker, first, ends[how])

        assert RunState.QUEUED == work.get_run(store, ids[1]).state
        again = work.take_one(store, worker)
        assert [AdmissionRoute.GOES] == ways(store, worker, again)
        assert (2, 1) == (again.fence, again.tries.attempt)
        end_all(store, worker, again)
        assert [] == store.list_places()
        assert [] == store.check()

    def test_a_lost_worker_keeps_its_place_until_its_attempt_is_settled(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-8: it may still be at it; time alone gives nothing back."""
        limit(store, running=1)
        ids, lost, worker = (
            queue_many(store, 2),
            work.join_worker(store),
            join_limited_worker(store),
        )
        assert [AdmissionRoute.GOES] == ways(store, lost, *work.take(store, lost, 1))
        assert [AdmissionRoute.STANDS] == ways(store, worker, work.take_one(store, worker))
        clock.advance(WORKER_TTL_US)
        assert 0 == store.open_gates(10)

        assert [True] == work.settle_lost(store, work.maintain(store), *work.lost_claims(store))

        assert [RunState.RETRYING, RunState.QUEUED] == states_of(store, ids)
        assert [] == store.check()

    def test_the_first_to_come_goes_first_within_its_priority(self, store: Store) -> None:
        """And nobody who comes later passes those who stand."""
        limit(store, running=1)
        worker = join_limited_worker(store)
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
            assert [AdmissionRoute.GOES] == ways(store, worker, running)
            order.append(running.run_id)

        assert [urgent, calm[1], late] == order

    def test_who_comes_while_there_is_a_place_for_another_stands_behind_him(
        self, store: Store
    ) -> None:
        """The one who was let go has the place, also while nobody has claimed him."""
        limit(store, running=1)
        ids, worker = queue_many(store, 2), join_limited_worker(store)
        first, second = work.take(store, worker)
        ways(store, worker, first, second)
        end_all(store, worker, first)
        assert RunState.QUEUED == work.get_run(store, ids[1]).state
        work.queue(store, "late", priority=-5)

        late, let_go = work.take(store, worker)

        assert [AdmissionRoute.STANDS, AdmissionRoute.GOES] == ways(store, worker, late, let_go)
        assert [] == store.check()

    def test_all_of_its_places_or_none(self, store: Store) -> None:
        """Who stands at one limit takes nothing at the others."""
        limit(store, running=5)
        limit(store, f"tenant:{TENANT_DEFAULT}", running=1)
        worker = join_limited_worker(store)
        ids = queue_many(store, 3)

        verdicts = ask(store, worker, *work.take(store, worker))

        why = f"cap tenant:{TENANT_DEFAULT}"
        assert [None, why, why] == [verdict.why for verdict in verdicts]
        assert [(TASK, 1, 0, None), (f"tenant:{TENANT_DEFAULT}", 1, 2, None)] == store.list_places()
        assert RunState.BLOCKED == work.get_run(store, ids[2]).state

    def test_who_was_let_go_at_one_limit_may_have_to_stand_at_another(self, store: Store) -> None:
        """And gives back what he was let go with."""
        limit(store, running=1)
        limit(store, "task:other", running=1)
        limit(store, f"tenant:{TENANT_DEFAULT}", running=2)
        worker = join_limited_worker(store)
        remind = queue_many(store, 2)
        first, second = work.take(store, worker)
        ways(store, worker, first, second)
        work.queue(store, "other", task="other")
        other = work.take_one(store, worker)
        assert [AdmissionRoute.GOES] == ways(store, worker, other)
        limit(store, f"tenant:{TENANT_DEFAULT}", running=1)

        end_all(store, worker, first)
        assert [AdmissionRoute.STANDS] == ways(store, worker, work.take_one(store, worker))

        why = f"cap tenant:{TENANT_DEFAULT}"
        assert why == work.get_run(store, remind[1]).state_reason
        assert [f"tenant:{TENANT_DEFAULT}", "task:other"] == [
            place for place, held, *_ in reversed(store.list_places()) if held
        ]
        end_all(store, worker, other)
        assert [AdmissionRoute.GOES] == ways(store, worker, work.take_one(store, worker))
        assert [] == store.check()

    def test_of_two_who_were_let_go_and_need_the_same_place_one_goes(self, store: Store) -> None:
        """They do not make way for each other; and no more run at once than may."""
        limit(store, running=1)
        limit(store, f"tenant:{TENANT_DEFAULT}", running=1)
        worker = join_limited_worker(store)
        queue_many(store, 2)
        first, second = work.take(store, worker)
        assert [AdmissionRoute.GOES, AdmissionRoute.STANDS] == ways(store, worker, first, second)
        work.queue(store, "other", task="other")
        assert [AdmissionRoute.STANDS] == ways(store, worker, work.take_one(store, worker))
        end_all(store, worker, first)

        (going,) = work.take(store, worker, 1)
        assert going.run_id == second.run_id
        assert [AdmissionRoute.GOES] == ways(store, worker, going)
        assert [AdmissionRoute.STANDS] == ways(store, worker, work.take_one(store, worker))

        end_all(store, worker, going)
        assert [AdmissionRoute.GOES] == ways(store, worker, work.take_one(store, worker))
        assert [] == store.check()

    def test_a_limit_that_is_raised_lets_go_who_stands(self, store: Store) -> None:
        """At once; and one that is lowered lets nobody go until there is room."""
        limit(store, running=1)
        ids, worker = queue_many(store, 4), join_limited_worker(store)
        claimed = work.take(store, worker)
        ways(store, worker, *claimed)

        limit(store, running=3)
        more = work.take(store, worker)
        assert [AdmissionRoute.GOES] * 2 == ways(store, worker, *more)
        limit(store, running=1)
        end_all(store, worker, claimed[0], more[0])
        assert RunState.BLOCKED == work.get_run(store, ids[3]).state
        end_all(store, worker, more[1])

        assert RunState.QUEUED == work.get_run(store, ids[3]).state
        assert [] == store.check()

    def test_without_a_limit_nobody_stands_any_more(self, store: Store) -> None:
        limit(store, running=1)
        ids, worker = queue_many(store, 4), join_limited_worker(store)
        ways(store, worker, *work.take(store, worker))

        assert store.remove_limit(TASK, ADA)
        assert not store.remove_limit(TASK, ADA)

        assert [RunState.RUNNING] + [RunState.QUEUED] * 3 == states_of(store, ids)
        assert [AdmissionRoute.GOES] * 3 == ways(store, worker, *work.take(store, worker))
        assert [] == store.check()

    def test_what_runs_already_counts_when_a_limit_is_set(self, store: Store) -> None:
        """Whoever throttles an overloaded neighbour means those that run as well."""
        ids, worker = queue_many(store, 3), join_limited_worker(store)
        running = work.take(store, worker, 2)
        limit(store, running=2)

        assert [AdmissionRoute.STANDS] == ways(store, worker, work.take_one(store, worker))
        end_all(store, worker, running[0])

        assert RunState.QUEUED == work.get_run(store, ids[2]).state
        assert [] == store.check()

    def test_so_many_at_once_for_each_value_of_a_parameter(self, store: Store) -> None:
        """By key, within a tenant."""
        limit(store, running_by={"account": 1})
        ids, worker = queue_many(store, 3), join_limited_worker(store)
        one, two, three = work.take(store, worker)

        asked = [
            request(one, keys=(("account", "7"),)),
            request(two, keys=(("account", "7"),)),
            request(three, keys=(("account", "8"),)),
        ]
        verdicts = store.admit(worker, asked).verdicts

        assert [AdmissionRoute.GOES, AdmissionRoute.STANDS, AdmissionRoute.GOES] == [
            verdict.way for verdict in verdicts
        ]
        told = why_of(work.get_run(store, ids[1]).state_reason)
        assert told is not None
        assert f"{TASK} with account=7 in {TENANT_DEFAULT}" == place_text(told[1])
        end_all(store, worker, one)
        assert RunState.QUEUED == work.get_run(store, ids[1]).state
        assert [] == store.check()

    def test_each_tenant_has_a_limit_of_its_own(self, store: Store) -> None:
        """One that holds for each of them, and another for one of them."""
        limit(store, "tenant:*", running=1)
        limit(store, "tenant:large", running=2)
        worker = join_limited_worker(store)
        for tenant in ("small", "large", "other"):
            new = [
                kit.new_run(None, f"{tenant} {number}", call=Call(task="remind"), tenant=tenant)
                for number in range(3)
            ]
            store.add_runs(kit.add_runs(*new))
        claimed = work.take(store, worker)

        verdicts = ask(store, worker, *claimed)

        went = [
            one.record.tenant
            for one, verdict in zip(claimed, verdicts, strict=True)
            if verdict.way is AdmissionRoute.GOES
        ]
        assert ["large", "large", "other", "small"] == sorted(went)

    def test_the_answer_may_be_lost(self, store: Store) -> None:
        """Asked again, it is the same, and nothing is taken twice."""
        limit(store, running=2, rate="1/h burst 2")
        queue_many(store, 3)
        worker = join_limited_worker(store)
        first, second, third = work.take(store, worker)

        assert [AdmissionRoute.GOES] == ways(store, worker, first)
        assert [AdmissionRoute.GOES, AdmissionRoute.GOES, AdmissionRoute.STANDS] == ways(
            store, worker, first, second, third
        )
        assert [AdmissionRoute.GOES, AdmissionRoute.GOES, AdmissionRoute.GONE] == ways(
            store, worker, first, second, third
        )
        assert [(2, 1)] == [record[1:3] for record in store.list_places()]
        end_all(store, worker, first)
        assert [AdmissionRoute.LATER] == ways(store, worker, work.take_one(store, worker))
        assert [] == store.check()

    def test_what_is_not_ones_own_is_gone(self, store: Store) -> None:
        """Every write is fenced."""
        limit(store, running=1)
        worker, claimed = work.queue_and_take(store)
        other = join_limited_worker(store)

        asked = request(claimed)
        stale = asked._replace(hold=ClaimRef(claimed.run_id, claimed.fence + 1))
        assert [AdmissionRoute.GONE] == ways(store, other, claimed)
        assert AdmissionRoute.GONE == store.admit(worker, [stale]).verdicts[0].way
        assert RunState.RUNNING == work.get_run(store, claimed.run_id).state

    def test_one_that_is_to_be_cancelled_is_closed(self, store: Store) -> None:
        """Nobody begins what somebody has asked to stop."""
        limit(store, running=1)
        worker, claimed = work.queue_and_take(store)
        store.cancel_run(cancel_run(claimed.run_id))

        assert [AdmissionRoute.GONE] == ways(store, worker, claimed)
        assert RunState.CANCELLED == work.get_run(store, claimed.run_id).state
        assert [] == store.check()

    def test_one_that_has_begun_is_not_closed_by_a_request_that_comes_late(
        self, store: Store
    ) -> None:
        """Its code runs; it is asked to stop, and how it ends is told by its worker."""
        limit(store, running=1)
        (run_id,), worker = queue_many(store, 1), join_limited_worker(store)
        (claimed,) = work.take(store, worker)
        assert [AdmissionRoute.GOES] == ways(store, worker, claimed)
        store.cancel_run(cancel_run(run_id))

        assert [AdmissionRoute.GOES] == ways(store, worker, claimed)

        assert [RunState.RUNNING] == states_of(store, [run_id])
        end_all(store, worker, claimed)
        (attempt,) = store.list_attempts(run_id)
        assert 1 == attempt.number
        assert [] == store.check()

    @pytest.mark.parametrize("place", ["standing", "let go"])
    def test_who_stands_or_was_let_go_can_be_cancelled(self, store: Store, place: str) -> None:
        """The next goes in its place."""
        limit(store, running=1)
        ids, worker = queue_many(store, 3), join_limited_worker(store)
        claimed = work.take(store, worker)
        ways(store, worker, *claimed)
        if place == "let go":
            end_all(store, worker, claimed[0])

        store.cancel_run(cancel_run(ids[1]))

        if place == "standing":
            end_all(store, worker, claimed[0])
        assert [RunState.SUCCEEDED, RunState.CANCELLED, RunState.QUEUED] == states_of(store, ids)
        assert [] == store.check()

    def test_who_has_room_and_was_not_let_go_is_found(self, store: Store) -> None:
        """Whoever makes room lets some go, and who tends the store all others, by a look."""
        limit(store, running=1)
        new = [kit.new_run(None, f"run {number}") for number in range(OPENED_MAX + 6)]
        store.add_runs(kit.add_runs(*new))
        worker = join_limited_worker(store)
        claimed = work.take(store, worker, len(new))
        assert OPENED_MAX + 5 == ways(store, worker, *claimed).count(AdmissionRoute.STANDS)
        assert 0 == store.open_gates(10)

        store.remove_limit(TASK, ADA)

        assert [(TASK, OPENED_MAX + 1, 5, None)] == store.list_places()
        assert [5, 0] == [store.open_gates(10), store.open_gates(10)]
        assert [] == store.check()

    def test_who_stands_keeps_its_line(self, store: Store, clock: ManualClock) -> None:
        """The next of its schedule waits for it all the same."""
        limit(store, "task:report", running=1)
        record = steps.fired(store, clock, Overlap.QUEUE_ALL, times=2)
        task = record.definition.call.task
        limit(store, f"task:{task}", running=1)
        worker = join_limited_worker(store)
        other = work.queue(store, "in the way", task=task, priority=-9)
        claimed = work.take(store, worker)
        assert [other] == [claimed[0].run_id]
        assert [AdmissionRoute.GOES, AdmissionRoute.STANDS] == ways(store, worker, *claimed)
        assert ["blocked", "blocked"] == steps.states(store, record)
        assert [] == store.check()

        end_all(store, worker, claimed[0])

        assert ["queued", "blocked"] == steps.states(store, record)
        again = work.take_one(store, worker)
        assert [AdmissionRoute.GOES] == ways(store, worker, again)
        end_all(store, worker, again)
        assert ["succeeded", "queued"] == steps.states(store, record)
        assert [] == store.check()

    @pytest.mark.parametrize("policy", [Overlap.SKIP, Overlap.QUEUE_ALL, Overlap.COALESCE])
    def test_who_stands_is_in_the_way_of_the_next_of_its_schedule(
        self, store: Store, clock: ManualClock, policy: Overlap
    ) -> None:
        """It has gone ahead, and not begun."""
        record = steps.fired(store, clock, policy)
        task = record.definition.call.task
        limit(store, f"task:{task}", running=1)
        worker = join_limited_worker(store)
        work.queue(store, "in the way", task=task, priority=-9)
        assert [AdmissionRoute.GOES, AdmissionRoute.STANDS] == ways(
            store, worker, *work.take(store, worker)
        )

        record = steps.fire_due(store, clock, record)

        assert 1 == record.overlaps
        assert [] == work.take_ids(store, worker)
        assert [] == store.check()

    def test_who_stands_is_in_the_way_also_when_the_policy_has_changed(
        self, store: Store, clock: ManualClock
    ) -> None:
        """It went ahead when there was no gate."""
        record = steps.fired(store, clock, Overlap.SKIP)
        task = record.definition.call.task
        limit(store, f"task:{task}", running=1)
        worker = join_limited_worker(store)
        work.queue(store, "in the way", task=task, priority=-9)
        running, standing = work.take(store, worker)
        assert [AdmissionRoute.GOES, AdmissionRoute.STANDS] == ways(
            store, worker, running, standing
        )
        changed = replace(record.definition, overlap=Overlap.QUEUE_ALL)
        record = steps.edit(store, steps.look(store, record), changed)

        record = steps.fire_due(store, clock, record)

        assert ["blocked", "blocked"] == steps.states(store, record)
        assert 0 == store.open_gates(10)
        end_all(store, worker, running)
        assert ["queued", "blocked"] == steps.states(store, record)
        end_all(store, worker, work.take_one(store, worker))
        assert ["succeeded", "queued"] == steps.states(store, record)
        assert [] == store.check()

    def test_one_that_stands_is_replaced_like_any_that_has_not_begun(
        self, store: Store, clock: ManualClock
    ) -> None:
        record = steps.fired(store, clock, Overlap.REPLACE)
        task = record.definition.call.task
        limit(store, f"task:{task}", running=1)
        worker = join_limited_worker(store)
        work.queue(store, "in the way", task=task, priority=-9)
        assert [AdmissionRoute.GOES, AdmissionRoute.STANDS] == ways(
            store, worker, *work.take(store, worker)
        )

        record = steps.fire_due(store, clock, record)

        assert ["replaced", "queued"] == steps.states(store, record)
        assert [] == store.check()


class Rates:
    """How many begin in a while."""

    def test_after_its_burst_each_waits_for_its_turn(self, store: Store) -> None:
        """As a timer, with no attempt used; a blocked head of the queue it is not."""
        limit(store, rate="1/s burst 2")
        ids, worker = queue_many(store, 5), join_limited_worker(store)

        verdicts = ask(store, worker, *work.take(store, worker))

        assert [AdmissionRoute.GOES] * 2 + [AdmissionRoute.LATER] * 3 == [
            verdict.way for verdict in verdicts
        ]
        turns = [store.now() + number * SECOND_US for number in (1, 2, 3)]
        assert turns == [verdict.at for verdict in verdicts[2:]]
        last = work.get_run(store, ids[4])
        assert (RunState.RETRYING, f"rate {TASK}") == (last.state, last.state_reason)
        assert (turns[2], 1, 0, 0, None) == (last.next_at, *last.tries)
        assert [] == store.list_attempts(ids[4])
        assert [] == store.check()

    def test_at_its_turn_it_goes_and_is_not_charged_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        limit(store, rate="1/s burst 1")
        ids, worker = queue_many(store, 4), join_limited_worker(store)
        ways(store, worker, *work.take(store, worker))

        for number in (1, 2, 3):
            clock.advance(SECOND_US)
            assert 1 == fire_due_retries(store)
            again = work.take_one(store, worker)
            assert ids[number] == again.run_id
            assert [AdmissionRoute.GOES] == ways(store, worker, again)
            assert (2, 1) == (again.fence, again.tries.attempt)
        assert [] == store.check()

    def test_who_comes_later_stands_behind_the_turns_that_were_given(
        self, store: Store, clock: ManualClock
    ) -> None:
        limit(store, rate="1/s burst 1")
        queue_many(store, 3)
        worker = join_limited_worker(store)
        ways(store, worker, *work.take(store, worker))
        clock.advance(SECOND_US // 2)
        work.queue(store, "late")

        (verdict,) = ask(store, worker, work.take_one(store, worker))

        assert store.now() + 5 * SECOND_US // 2 == verdict.at

    def test_many_that_come_late_do_not_all_begin_at_once(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-23: after an outage, no more than the rate allows."""
        limit(store, rate="1/m burst 1")
        queue_many(store, 10)
        worker = join_limited_worker(store)
        ways(store, worker, *work.take(store, worker))
        clock.advance(HOUR_US)
        assert 9 == fire_due_retries(store)

        verdicts = ask(store, worker, *work.take(store, worker))

        assert [AdmissionRoute.GOES] + [AdmissionRoute.LATER] * 8 == [
            verdict.way for verdict in verdicts
        ]
        gaps = {
            (verdict.at or 0) - (before.at or store.now()) for before, verdict in pairwise(verdicts)
        }
        assert max(gaps) <= 60 * SECOND_US
        assert [] == store.check()

    @pytest.mark.parametrize(("times", "burst"), [(2, 1), (10, 3)])
    def test_of_many_that_come_late_a_burst_begins_and_the_rest_comes_evenly(
        self, store: Store, clock: ManualClock, times: int, burst: int
    ) -> None:
        """INV-23: also where a second holds several turns."""
        limit(store, rate=f"{times}/s burst {burst}")
        queue_many(store, burst + 8)
        worker = join_limited_worker(store)
        ways(store, worker, *work.take(store, worker))
        clock.advance(HOUR_US)
        assert 8 == fire_due_retries(store)

        verdicts = ask(store, worker, *work.take(store, worker))

        going = [AdmissionRoute.GOES] * burst
        assert going + [AdmissionRoute.LATER] * (8 - burst) == [one.way for one in verdicts]
        turns = [one.at for one in verdicts[burst:] if one.at is not None]
        assert {SECOND_US // times} == {after - before for before, after in pairwise(turns)}
        assert [] == store.check()

    def test_who_is_hurried_before_its_turn_waits_for_it(self, store: Store) -> None:
        """A person's order does not change the rate."""
        limit(store, rate="1/h burst 1")
        ids, worker = queue_many(store, 2), join_limited_worker(store)
        _, later = ask(store, worker, *work.take(store, worker))
        store.retry_runs(order_runs(ids[1]))

        (verdict,) = ask(store, worker, work.take_one(store, worker))

        assert (AdmissionRoute.LATER, later.at) == (verdict.way, verdict.at)

    @pytest.mark.parametrize("rate", ["10/s burst 1", None])
    def test_who_waits_gets_another_turn_when_the_rate_has_changed(
        self, store: Store, clock: ManualClock, rate: str | None
    ) -> None:
        """Nobody waits a week because of what was said before."""
        limit(store, rate="1/d burst 1")
        ids, worker = queue_many(store, 4), join_limited_worker(store)
        ways(store, worker, *work.take(store, worker))

        if rate is None:
            store.remove_limit(TASK, ADA)
        else:
            limit(store, rate=rate)

        every_us = 0 if rate is None else SECOND_US // 10
        turns = [work.get_run(store, run_id).next_at for run_id in ids[1:]]
        expected = [store.now() + number * every_us for number in range(3)]
        assert expected == turns
        begun = 0
        while begun < 3:
            fire_due_retries(store)
            begun += ways(store, worker, *work.take(store, worker)).count(AdmissionRoute.GOES)
            clock.advance(every_us)
        assert expected[-1] + every_us == store.now()
        assert [] == store.check()

    def test_the_slowest_of_several_rates_counts(self, store: Store) -> None:
        """Per task, tenant and destination."""
        limit(store, rate="10/s burst 1")
        limit(store, f"tenant:{TENANT_DEFAULT}", rate="1/s burst 1")
        limit(store, f"destination:{API}", rate="1/m burst 1")
        queue_many(store, 2)
        worker = join_limited_worker(store)

        verdicts = ask(store, worker, *work.take(store, worker), destination=API)

        assert f"rate destination:{API}" == verdicts[1].why
        assert store.now() + 60 * SECOND_US == verdicts[1].at

    def test_who_stands_at_a_cap_uses_up_no_turn(self, store: Store) -> None:
        limit(store, running=1, rate="1/h burst 2")
        queue_many(store, 2)
        worker = join_limited_worker(store)
        first, second = work.take(store, worker)
        assert [AdmissionRoute.GOES, AdmissionRoute.STANDS] == ways(store, worker, first, second)
        end_all(store, worker, first)

        assert [AdmissionRoute.GOES] == ways(store, worker, work.take_one(store, worker))

    @pytest.mark.parametrize("how", ["cancelled", "succeeded"])
    def test_who_waits_for_its_turn_can_be_cancelled_or_go_without_a_limit(
        self, store: Store, clock: ManualClock, how: str
    ) -> None:
        limit(store, rate="1/s burst 1")
        ids, worker = queue_many(store, 2), join_limited_worker(store)
        ways(store, worker, *work.take(store, worker))

        if how == "cancelled":
            store.cancel_run(cancel_run(ids[1]))
        else:
            assert store.remove_limit(TASK, ADA)
            clock.advance(SECOND_US)
            fire_due_retries(store)
            end_all(store, worker, work.take_one(store, worker))

        assert how == work.get_run(store, ids[1]).state
        assert [] == store.check()


class SayingLimits:
    """What code and people say about limits."""

    def test_a_person_is_believed_before_the_code_part_by_part(self, store: Store) -> None:
        """Until he takes it back."""
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

    def test_the_version_grows_with_every_order_that_changes_something(self, store: Store) -> None:
        """Workers look at limits anew when it has grown, and only then."""
        versions = [store.list_limits().version]
        store.declare_limits({"task:b": Limit(running=5), TASK: Limit(running=1)}, ADA)
        versions.append(store.list_limits().version)
        assert not store.remove_limit(TASK, ADA)
        versions.append(store.list_limits().version)
        limit(store, running=2)
        assert store.remove_limit(TASK, ADA)
        versions.append(store.list_limits().version)

        assert [0, 1, 1, 3] == [version - versions[0] for version in versions]
        actions = [entry.action for entry in steps.audit(store)]
        assert ["limit.removed", *["limit.set"] * 3] == actions

    def test_what_code_says_anew_changes_nothing(self, store: Store) -> None:
        """Every worker says it when it joins."""
        store.declare_limits({TASK: Limit(running=5), "task:other": None}, ADA)
        version = store.list_limits().version
        store.declare_limits({TASK: Limit(running=5), "task:other": None}, ADA)
        assert version == store.list_limits().version

        store.declare_limits({TASK: None}, ADA)

        assert NO_LIMIT == store.list_limits().of(TASK)
        assert version < store.list_limits().version

    def test_every_beat_tells_the_version(self, store: Store) -> None:
        """So that a change is known within a beat."""
        worker = join_limited_worker(store)
        before = store.beat(Heartbeat(worker=worker)).limits_version
        limit(store, running=1)

        after = store.beat(Heartbeat(worker=worker)).limits_version

        assert before < after == store.list_limits().version

    def test_every_change_is_on_record(self, store: Store) -> None:
        limit(store, running=1)
        limit(store, running=2)
        store.remove_limit(TASK, ADA)

        entries = [one for one in steps.audit(store) if one.action.startswith("limit.")][::-1]

        assert ["limit.set", "limit.set", "limit.removed"] == [one.action for one in entries]
        told = [(one.before or {}).get("running") for one in entries]
        assert [None, 1, 2] == told
        assert {(TASK, ADA)} == {(one.subject, one.actor) for one in entries}
