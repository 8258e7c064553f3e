"""Rates: the part of the contract about attempts whose turn is later."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from duly.domain.admission import Way
from duly.domain.limits import NO_LIMIT, Limit, LimitSource
from duly.domain.literals import RunState
from duly.domain.schedules import TENANT_DEFAULT
from duly.store.execution import Beat
from duly.testing.conformance import steps
from duly.testing.conformance import work_steps as work
from duly.testing.conformance.limit_steps import (
    API,
    TASK,
    ask,
    end_all,
    fire_due,
    join,
    limit,
    queue_many,
    ways,
)
from duly.testing.factories import ADA, HOUR_US, SECOND_US, cancel_run, order_runs

if TYPE_CHECKING:
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock


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

    def test_the_version_grows_with_every_order_that_changes_something(self, store: Store) -> None:
        """R8: workers look at limits anew when it has grown, and only then."""
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
