"""Overlap: the part of the contract about occurrences that come while an earlier run is open."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from duly.domain.concluding import CancelledEnd, Failed, Succeeded
from duly.domain.literals import AttemptState, Overlap, RunState, SkipReason
from duly.domain.overlapping import GATELESS, WAITING_MAX
from duly.domain.runs import VerdictKind
from duly.store.dispatch import MEMBER_TTL_US
from duly.store.execution import WORKER_TTL_US, Beat, FinishResult, StopKind
from duly.store.reading import RunFilter
from duly.testing.conformance import steps
from duly.testing.conformance import work_steps as work
from duly.testing.conformance.overlap_steps import (
    end_somehow,
    fired,
    made,
    only_run,
    runs_of,
    states,
    trigger_many,
    work_off,
)
from duly.testing.factories import (
    HOUR_US,
    SECOND_US,
    cancel_run,
    on_time,
)

if TYPE_CHECKING:
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock

GATED = tuple(one for one in Overlap if one not in GATELESS)


class Overlapping:
    """What firing promises about a schedule whose earlier run is still open."""

    @pytest.mark.parametrize("policy", Overlap)
    def test_who_finds_nobody_goes(self, store: Store, clock: ManualClock, policy: Overlap) -> None:
        """O1: under every policy; and again when the earlier one has ended."""
        record = made(store, policy)
        for _ in range(3):
            record = steps.fire_due(store, clock, record)
            assert 1 == work_off(store)

        assert (3, 0) == (record.fires, record.overlaps)
        assert [] == store.check()

    def test_runs_may_overlap_when_that_is_allowed(self, store: Store, clock: ManualClock) -> None:
        """O1: allow."""
        record = fired(store, clock, Overlap.ALLOW, times=3)

        assert 3 == len(work.take_ids(store, work.join(store)))
        assert (3, 0) == (record.fires, record.overlaps)

    def test_an_occurrence_is_skipped_while_an_earlier_run_is_open(
        self, store: Store, clock: ManualClock
    ) -> None:
        """O1, M1: skip; on record, with the run that was in the way; no run is made."""
        record = fired(store, clock, Overlap.SKIP, times=3)

        first = only_run(store)
        assert (1, 2) == (record.fires, record.overlaps)
        assert first.scheduled_for == record.last_for
        skips = store.list_skips(record.id, 10)
        expected = [(SkipReason.OVERLAP, first.id, 1)] * 2
        assert expected == [(skip.reason, skip.into, skip.count) for skip in skips]
        verdicts = store.judge(record.id, [skip.first_for for skip in skips])
        assert [VerdictKind.SKIPPED] * 2 == [verdict.kind for verdict in verdicts]
        assert [] == store.check()

    @pytest.mark.parametrize("place", ["queued", "running", "retrying"])
    def test_an_open_run_is_in_the_way_wherever_it_is(
        self, store: Store, clock: ManualClock, place: str
    ) -> None:
        """O1, INV-8."""
        record = fired(store, clock, Overlap.SKIP)
        if place != "queued":
            worker = work.join(store, ttl_us=10 * HOUR_US)
            claimed = work.take_one(store, worker)
            if place == "retrying":
                work.end(store, worker, claimed, Failed("again", after_us=10 * HOUR_US))
        assert place == only_run(store).state

        assert 1 == steps.fire_due(store, clock, record).overlaps

    def test_a_lost_worker_leaves_its_run_in_the_way(
        self, store: Store, clock: ManualClock
    ) -> None:
        """O1, INV-8: across takeovers; time alone opens no gate."""
        record = fired(store, clock, Overlap.SKIP)
        work.take_one(store, work.join(store))
        clock.advance(WORKER_TTL_US + MEMBER_TTL_US)

        record = steps.fire_due(store, clock, record)

        assert (1, 1) == (record.fires, record.overlaps)

    @pytest.mark.parametrize("how", ["closed", "dead", "cancelled"])
    def test_a_run_that_is_over_is_in_nobodys_way(
        self, store: Store, clock: ManualClock, how: str
    ) -> None:
        """O1: dead letters wait for a person, and nobody waits for them."""
        record = fired(store, clock, Overlap.SKIP)
        end_somehow(store, how)

        record = steps.fire_due(store, clock, record)

        assert (2, 0) == (record.fires, record.overlaps)

    def test_one_may_wait_and_no_more(self, store: Store, clock: ManualClock) -> None:
        """O1: queue-one."""
        record = fired(store, clock, Overlap.QUEUE_ONE, times=4)

        assert ["queued", "blocked"] == states(store, record)
        (skip, _) = store.list_skips(record.id, 10)
        assert SkipReason.OVERFLOW == skip.reason
        assert (2, 3) == (record.fires, record.overlaps)
        assert 1 == work_off(store)
        assert ["succeeded", "queued"] == states(store, record)
        assert [] == store.check()

    def test_all_wait_their_turn_and_go_in_order(self, store: Store, clock: ManualClock) -> None:
        """O1: queue-all."""
        record = fired(store, clock, Overlap.QUEUE_ALL, times=4)
        assert ["queued", "blocked", "blocked", "blocked"] == states(store, record)

        began = []
        for _ in range(4):
            worker = work.join(store)
            claimed = work.take_one(store, worker)
            began.append(claimed.record.scheduled_for)
            work.end(store, worker, claimed, Succeeded())

        assert sorted(began) == began
        assert ["succeeded"] * 4 == states(store, record)
        assert [] == work.take_ids(store, work.join(store))
        assert [] == store.check()

    def test_a_row_that_has_grown_too_long_is_not_fed(
        self, store: Store, clock: ManualClock
    ) -> None:
        """O1, L6: so many that something must be wrong."""
        record = made(store, Overlap.QUEUE_ALL)
        record = steps.fire_due(store, clock, record)
        trigger_many(store, record, WAITING_MAX - 1)
        record = steps.fire_due(store, clock, record)

        assert [] == store.list_skips(record.id, 10)
        steps.fall_due(clock, record)
        steps.fire(store, steps.own(store), on_time(record))
        blocked = RunFilter(tenant=record.tenant, states=frozenset((RunState.BLOCKED,)))
        last = steps.look(store, record)
        assert (record.fires, record.overlaps + 1) == (last.fires, last.overlaps)
        (skip,) = store.list_skips(record.id, 10)
        assert SkipReason.OVERFLOW == skip.reason
        assert WAITING_MAX == len(store.list_runs(blocked))

    def test_one_waits_for_the_latest(self, store: Store, clock: ManualClock) -> None:
        """O1: coalesce; those before it say for whom they were closed, and its window is theirs."""
        record = fired(store, clock, Overlap.COALESCE, times=4)

        first, second, third, last = runs_of(store, record)
        assert ["queued", "coalesced", "coalesced", "blocked"] == states(store, record)
        assert (third.id, last.id) == (second.into, third.into)
        assert first.scheduled_for == last.window_from
        assert 2 == work_off(store) + work_off(store)
        assert [] == store.check()

    def test_the_newest_takes_the_place_of_one_that_has_not_begun(
        self, store: Store, clock: ManualClock
    ) -> None:
        """O1: replace; it goes at once, for nobody has to stop."""
        record = fired(store, clock, Overlap.REPLACE, times=3)

        first, second, last = runs_of(store, record)
        assert ["replaced", "replaced", "queued"] == states(store, record)
        assert (second.id, last.id) == (first.into, second.into)
        assert [last.id] == work.take_ids(store, work.join(store))
        assert [] == store.check()

    def test_a_running_one_is_asked_to_stop_and_keeps_its_gate_until_it_has(
        self, store: Store, clock: ManualClock
    ) -> None:
        """O1, INV-8: replace."""
        record = fired(store, clock, Overlap.REPLACE)
        worker = work.join(store, ttl_us=10 * HOUR_US)
        claimed = work.take_one(store, worker)
        record = steps.fire_due(store, clock, record)
        record = steps.fire_due(store, clock, record)

        assert ["running", "replaced", "blocked"] == states(store, record)
        (stop,) = store.beat(Beat(worker=worker, holds=(claimed.hold,))).stops
        assert StopKind.CANCEL == stop.kind
        assert [] == work.take_ids(store, work.join(store))
        assert FinishResult.ACCEPTED == work.end(store, worker, claimed, CancelledEnd())
        assert FinishResult.ACCEPTED == work.end(store, worker, claimed, CancelledEnd())
        assert ["replaced", "replaced", "queued"] == states(store, record)
        assert runs_of(store, record)[2].id == runs_of(store, record)[0].into
        assert [] == store.check()

    def test_an_attempt_that_made_way_was_cancelled(self, store: Store, clock: ManualClock) -> None:
        """O1, R5: its run was replaced."""
        record = fired(store, clock, Overlap.REPLACE)
        worker = work.join(store, ttl_us=10 * HOUR_US)
        claimed = work.take_one(store, worker)
        record = steps.fire_due(store, clock, record)
        work.end(store, worker, claimed, CancelledEnd())

        (attempt,) = store.list_attempts(claimed.record.id)

        assert ["replaced", "queued"] == states(store, record)
        assert AttemptState.CANCELLED == attempt.state

    def test_a_running_one_that_succeeds_all_the_same_has_succeeded(
        self, store: Store, clock: ManualClock
    ) -> None:
        """O1, R3: it was asked, and had done its work."""
        record = fired(store, clock, Overlap.REPLACE)
        worker = work.join(store, ttl_us=10 * HOUR_US)
        claimed = work.take_one(store, worker)
        record = steps.fire_due(store, clock, record)

        work.end(store, worker, claimed, Succeeded())

        assert ["succeeded", "queued"] == states(store, record)

    def test_schedules_of_one_key_go_one_after_the_other(
        self, store: Store, clock: ManualClock
    ) -> None:
        """O1: serialize."""
        one = made(store, Overlap.SERIALIZE, "one", serialize_by="account:7")
        two = made(store, Overlap.SERIALIZE, "two", serialize_by="account:7")
        other = made(store, Overlap.SERIALIZE, "other", serialize_by="account:8")
        for record in (one, two, other):
            steps.fire_due(store, clock, record)

        assert [["queued"], ["blocked"], ["queued"]] == [
            states(store, record) for record in (one, two, other)
        ]
        assert 2 == work_off(store)
        assert ["queued"] == states(store, two)

    def test_a_key_belongs_to_its_tenant(self, store: Store, clock: ManualClock) -> None:
        """O1, L2."""
        one = made(store, Overlap.SERIALIZE, "one", serialize_by="account:7")
        two = made(store, Overlap.SERIALIZE, "two", serialize_by="account:7", tenant="another")
        for record in (one, two):
            steps.fire_due(store, clock, record)

        assert 2 == work_off(store)

    @pytest.mark.parametrize("how", ["closed", "dead", "cancelled", "cancelled in the queue"])
    def test_however_a_run_ends_the_next_goes(
        self, store: Store, clock: ManualClock, how: str
    ) -> None:
        """O1: every end gives the gate back."""
        record = fired(store, clock, Overlap.QUEUE_ALL, times=2)

        end_somehow(store, how)

        assert "queued" == states(store, record)[1]
        assert [] == store.check()

    def test_an_attempt_that_is_tried_again_keeps_the_gate(
        self, store: Store, clock: ManualClock
    ) -> None:
        """O1: until its run is over."""
        record = fired(store, clock, Overlap.QUEUE_ALL, times=2)
        worker = work.join(store)
        work.end(store, worker, work.take_one(store, worker), Failed("again", after_us=SECOND_US))

        assert 0 == store.open_gates(10)
        assert ["retrying", "blocked"] == states(store, record)

    def test_a_lost_attempt_keeps_the_gate_until_its_run_is_over(
        self, store: Store, clock: ManualClock
    ) -> None:
        """O1, INV-8: the lost worker may still be at it, and its run is tried again."""
        record = fired(store, clock, Overlap.QUEUE_ALL, times=2)
        work.take_one(store, work.join(store))
        clock.advance(WORKER_TTL_US)

        assert [True] == work.settle(store, work.maintain(store), *work.lost_claims(store))
        assert 0 == store.open_gates(10)
        assert ["retrying", "blocked"] == states(store, record)

    def test_a_waiting_run_can_be_cancelled(self, store: Store, clock: ManualClock) -> None:
        """A1: the others close up."""
        record = fired(store, clock, Overlap.QUEUE_ALL, times=3)
        store.cancel_run(cancel_run(runs_of(store, record)[1].id))
        assert ["queued", "cancelled", "blocked"] == states(store, record)

        assert 1 == work_off(store)

        assert ["succeeded", "cancelled", "queued"] == states(store, record)
        assert [] == store.check()

    @pytest.mark.parametrize("policy", GATED)
    def test_a_changed_policy_finds_the_run_that_is_open(
        self, store: Store, clock: ManualClock, policy: Overlap
    ) -> None:
        """O1, S4: it went ahead when there was no gate; who comes now waits for it all the same."""
        record = fired(store, clock, Overlap.SKIP)
        worker = work.join(store, ttl_us=10 * HOUR_US)
        claimed = work.take_one(store, worker)
        by = "account:7" if policy is Overlap.SERIALIZE else None
        changed = replace(record.definition, overlap=policy, serialize_by=by)
        record = steps.edit(store, steps.look(store, record), changed)

        record = steps.fire_due(store, clock, record)

        assert ["running", "blocked"] == states(store, record)
        work.end(store, worker, claimed, Succeeded())
        assert ["succeeded", "queued"] == states(store, record)
        assert [] == store.check()

    def test_a_run_at_another_gate_is_in_the_way_after_the_policy_was_changed(
        self, store: Store, clock: ManualClock
    ) -> None:
        """O1, S4, INV-8: who comes to the new gate finds the run that holds the old one."""
        record = fired(store, clock, Overlap.COALESCE)
        worker = work.join(store, ttl_us=10 * HOUR_US)
        claimed = work.take_one(store, worker)
        changed = replace(record.definition, overlap=Overlap.SERIALIZE, serialize_by="account:7")
        record = steps.edit(store, steps.look(store, record), changed)

        record = steps.fire_due(store, clock, record)

        assert ["running", "blocked"] == states(store, record)
        work.end(store, worker, claimed, Succeeded())
        store.open_gates(10)
        assert ["succeeded", "queued"] == states(store, record)
        assert [] == store.check()

    def test_who_waits_still_goes_after_the_policy_was_changed(
        self, store: Store, clock: ManualClock
    ) -> None:
        """O1, S4: and not beside one that came when there was no gate any more."""
        record = fired(store, clock, Overlap.QUEUE_ALL, times=2)
        changed = replace(record.definition, overlap=Overlap.SKIP)
        record = steps.edit(store, record, changed)
        record = steps.fire_due(store, clock, record)
        assert (["queued", "blocked"], 2) == (states(store, record), record.overlaps)

        assert 1 == work_off(store)

        assert ["succeeded", "queued"] == states(store, record)
        assert [] == store.check()

    def test_a_gate_that_nobody_opened_is_found(self, store: Store, clock: ManualClock) -> None:
        """O1: asking once more opens nothing, and nothing is let through twice."""
        record = fired(store, clock, Overlap.QUEUE_ALL, times=3)

        assert 0 == store.open_gates(10)
        assert 1 == work_off(store)
        assert 0 == store.open_gates(10)
        assert ["succeeded", "queued", "blocked"] == states(store, record)
