"""Overlap in catch-up and by hand: the part of the contract about what is owed, and people."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from duly.domain.identity import identity_text
from duly.domain.literals import Overlap, RunState
from duly.domain.misfire import Misfire
from duly.domain.settling import settle
from duly.errors import Conflict
from duly.store.dispatch import DrainOwed, FireResult
from duly.testing.conformance import steps
from duly.testing.conformance import work_steps as work
from duly.testing.conformance.overlap_steps import (
    ONE_AT_A_TIME,
    drain,
    end_somehow,
    fired,
    made,
    only_run,
    owing,
    runs_of,
    states,
    trigger,
    trigger_many,
    work_off,
)
from duly.testing.factories import (
    HOUR_US,
    order_runs,
    template_of,
)

if TYPE_CHECKING:
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock


class OverlapInCatchUp:
    """What draining promises about a schedule whose earlier run is still open."""

    @pytest.mark.parametrize("policy", ONE_AT_A_TIME)
    def test_what_is_owed_waits_where_it_is_until_nobody_is_in_the_way(
        self, store: Store, clock: ManualClock, policy: Overlap
    ) -> None:
        """F8, O1: there it can still be edited, paused and called off."""
        record = made(store, policy, misfire=Misfire("all"))
        fence = steps.own(store, ttl_us=100 * HOUR_US)
        owed = owing(store, clock, fence, record)
        first, second = owed.first_for, owed.first_for + HOUR_US

        assert FireResult.FIRED == drain(store, fence, record, owed, first)
        rest = store.list_owed(record.id)
        assert FireResult.BUSY == drain(store, fence, record, rest[0], second)
        assert rest == store.list_owed(record.id)
        assert 1 == work_off(store)
        assert FireResult.FIRED == drain(store, fence, record, rest[0], second)
        assert [first, second] == [run.scheduled_for for run in runs_of(store, record)]
        assert 0 == steps.look(store, record).overlaps
        assert [] == store.check()

    def test_what_is_owed_is_drained_at_once_where_runs_may_overlap(
        self, store: Store, clock: ManualClock
    ) -> None:
        """F8."""
        record = made(store, Overlap.ALLOW, misfire=Misfire("all"))
        fence = steps.own(store, ttl_us=100 * HOUR_US)
        owed = owing(store, clock, fence, record)

        assert FireResult.FIRED == drain(store, fence, record, owed, owed.first_for)
        (rest,) = store.list_owed(record.id)
        assert FireResult.FIRED == drain(store, fence, record, rest, rest.first_for)

    def test_what_is_owed_waits_behind_a_run_that_waits_at_a_gate_without_a_holder(
        self, store: Store, clock: ManualClock
    ) -> None:
        """O1, INV-8: the run in the way holds the gate that its schedule had before."""
        first = fired(store, clock, Overlap.COALESCE)
        work.take_one(store, work.join(store, ttl_us=100 * HOUR_US))
        changed = replace(first.definition, overlap=Overlap.SERIALIZE, serialize_by="account:1")
        first = steps.edit(store, steps.look(store, first), changed)
        first = steps.fire_due(store, clock, first)
        assert ["running", "blocked"] == states(store, first)
        record = made(store, Overlap.SERIALIZE, "owing", misfire=Misfire("all"))
        fence = steps.own(store, ttl_us=100 * HOUR_US)
        owed = owing(store, clock, fence, record)

        assert FireResult.BUSY == drain(store, fence, record, owed, owed.first_for)
        assert [owed] == store.list_owed(record.id)
        assert [] == runs_of(store, record)

    def test_of_several_that_are_made_at_once_the_last_replaces_the_others(
        self, store: Store, clock: ManualClock
    ) -> None:
        """O1: also those that the same transaction has made."""
        record = made(store, Overlap.REPLACE, misfire=Misfire("all"))
        fence = steps.own(store, ttl_us=100 * HOUR_US)
        owed = owing(store, clock, fence, record)
        settled = settle(template_of(record), owed.first_for, owed.last_for, store.now(), 3)
        order = DrainOwed(fence=fence, shard=record.shard, owed=owed, settlement=settled)

        assert FireResult.FIRED is store.drain_owed(order)

        assert ["replaced", "replaced", "queued"] == states(store, record)
        first, second, last = runs_of(store, record)
        assert (second.id, last.id) == (first.into, second.into)
        assert 1 == work_off(store)
        assert [] == store.check()


class OverlapByHand:
    """What orders of people promise about a schedule whose earlier run is still open."""

    @pytest.mark.parametrize("policy", ONE_AT_A_TIME)
    def test_a_run_by_hand_is_in_the_way_like_any_other(
        self, store: Store, clock: ManualClock, policy: Overlap
    ) -> None:
        """O1, INV-8."""
        record = made(store, policy)
        trigger(store, record)
        worker = work.join(store, ttl_us=10 * HOUR_US)
        work.take_one(store, worker)

        record = steps.fire_due(store, clock, record)

        assert 1 == record.overlaps
        assert [] == work.take_ids(store, work.join(store))

    def test_of_runs_that_are_ordered_at_once_the_last_is_in_the_way_afterwards(
        self, store: Store, clock: ManualClock
    ) -> None:
        """O1, INV-8: the first has made way for it in the same transaction, and is closed."""
        record = made(store, Overlap.REPLACE)
        trigger_many(store, record, 2)
        (last,) = work.take_ids(store, work.join(store, ttl_us=10 * HOUR_US))

        with pytest.raises(Conflict, match=identity_text(last)):
            trigger(store, steps.look(store, record), Overlap.SKIP)
        assert [] == store.check()

    def test_a_run_by_hand_that_would_be_skipped_is_refused(
        self, store: Store, clock: ManualClock
    ) -> None:
        """O1, L6: with the run that is in the way, and how to do it on purpose."""
        record = fired(store, clock, Overlap.SKIP)
        open_run = only_run(store)

        with pytest.raises(Conflict, match="overlap='allow'"):
            trigger(store, record)
        assert open_run == only_run(store)

    def test_a_run_by_hand_waits_where_others_do(self, store: Store, clock: ManualClock) -> None:
        """O1."""
        record = fired(store, clock, Overlap.QUEUE_ALL)
        by_hand = trigger(store, record)
        assert RunState.BLOCKED == work.look(store, by_hand).state

        assert 1 == work_off(store)

        assert [by_hand] == work.take_ids(store, work.join(store))

    @pytest.mark.parametrize("policy", ONE_AT_A_TIME)
    def test_the_policy_can_be_overridden_for_one_run(
        self, store: Store, clock: ManualClock, policy: Overlap
    ) -> None:
        """O3: on purpose, on record."""
        record = fired(store, clock, policy)
        by_hand = trigger(store, record, overlap=Overlap.ALLOW)

        assert 2 == len(work.take_ids(store, work.join(store)))
        (entry,) = steps.audit(store, action="schedule.triggered")
        assert {"overlap": "allow"}.items() <= (entry.after or {}).items()
        assert RunState.RUNNING == work.look(store, by_hand).state
        assert [] == store.check()

    @pytest.mark.parametrize("policy", ONE_AT_A_TIME)
    def test_after_an_override_the_earlier_run_is_in_the_way_as_before(
        self, store: Store, clock: ManualClock, policy: Overlap
    ) -> None:
        """O3, INV-8: the policy is overridden for one run, and for no other."""
        record = fired(store, clock, policy)
        worker = work.join(store, ttl_us=10 * HOUR_US)
        work.take_one(store, worker)
        trigger(store, record, overlap=Overlap.ALLOW)
        work_off(store)

        record = steps.fire_due(store, clock, record)

        assert 1 == record.overlaps
        assert [] == work.take_ids(store, work.join(store))

    def test_a_dead_run_that_is_brought_back_waits_for_one_that_is_open(
        self, store: Store, clock: ManualClock
    ) -> None:
        """O1, B3: a person's order takes nobody's place."""
        record = fired(store, clock, Overlap.COALESCE)
        (dead,) = runs_of(store, record)
        end_somehow(store, "dead")
        record = steps.fire_due(store, clock, record)

        assert store.retry_runs(order_runs(dead.id))[0].is_done

        assert ["blocked", "queued"] == states(store, record)
        assert 1 == work_off(store)
        assert ["queued", "succeeded"] == states(store, record)

    def test_a_dead_run_that_was_brought_back_goes_when_its_turn_has_come(
        self, store: Store, clock: ManualClock
    ) -> None:
        """O1, B3: also if nothing of its schedule has gone ahead since."""
        first = made(store, Overlap.SERIALIZE, "first", serialize_by="a")
        other = made(store, Overlap.SERIALIZE, "other", serialize_by="a")
        first = steps.fire_due(store, clock, first)
        (dead,) = runs_of(store, first)
        end_somehow(store, "dead")
        steps.fire_due(store, clock, other)
        assert store.retry_runs(order_runs(dead.id))[0].is_done
        first = steps.fire_due(store, clock, first)
        assert [] == store.check()

        assert 1 == work_off(store)

        assert [dead.id] == work.take_ids(store, work.join(store))
        assert [] == store.check()

    def test_a_dead_run_is_not_brought_back_beside_one_that_is_open(
        self, store: Store, clock: ManualClock
    ) -> None:
        """O1, INV-8: nobody waits under skip; it stays among the dead letters."""
        record = fired(store, clock, Overlap.SKIP)
        (dead,) = runs_of(store, record)
        end_somehow(store, "dead")
        steps.fire_due(store, clock, record)

        assert not store.retry_runs(order_runs(dead.id))[0].is_done
        assert RunState.DEAD == work.look(store, dead.id).state

    def test_who_is_in_the_way_of_a_more_urgent_run_is_hurried(
        self, store: Store, clock: ManualClock
    ) -> None:
        """M3: it has the priority of the one that waits for it."""
        slow = made(store, Overlap.SERIALIZE, "slow", serialize_by="a", priority=9)
        urgent = made(store, Overlap.SERIALIZE, "urgent", serialize_by="a", priority=0)
        steps.fire_due(store, clock, slow)
        between = work.queue(store, "between", priority=5)
        steps.fire_due(store, clock, urgent)

        (first,) = runs_of(store, slow)
        assert [first.id, between] == work.take_ids(store, work.join(store))
