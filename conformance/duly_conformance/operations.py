"""Operating: the part of the contract about orders of people about open runs and queues."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from duly.domain.enums import RunState
from duly.domain.outcomes import Succeeded
from duly.domain.runs import AttemptCounts, Reason
from duly.errors import Conflict, NotFound
from duly.store.ports.dispatch import MemberKind
from duly.store.ports.operations import Ordered, QueueRecord
from duly_conformance import steps
from duly_conformance import steps as work
from duly_conformance.kit import ADA, HOUR_US, cancel_run, edit_run, order_runs, run_id, snapshot
from duly_conformance.steps import WAIT_MAX_US, AtPlaces

if TYPE_CHECKING:
    from duly.domain.ids import RunId
    from duly.engine.manual_clock import ManualClock
    from duly.store.ports import Store


class CancellingRuns:
    """What `cancel_run` promises."""

    @pytest.mark.parametrize("place", ["queued", "retrying"])
    def test_a_run_that_nobody_holds_is_cancelled_at_once(
        self, store: Store, clock: ManualClock, place: str
    ) -> None:
        """On record with its tries, and nobody starts it any more."""
        target = work.queue(store) if place == "queued" else work.make_waiting(store)
        before = work.get_run(store, target)
        clock.advance(1)

        cancelled = store.cancel_run(cancel_run(target))

        assert cancelled == work.get_run(store, target)
        expected = replace(
            before,
            state=RunState.CANCELLED,
            state_reason=Reason.ORDERED,
            finished_at=clock.now_us(),
            next_at=None,
        )
        assert expected == cancelled
        assert () == steps.load(store, 1 << 60)
        assert [] == work.take(store, work.join_worker(store))
        (entry,) = steps.audit(store, action="run.cancelled")
        assert (target, ADA, place) == (
            entry.subject_id,
            entry.actor,
            (entry.before or {})["state"],
        )
        assert [] == store.check()

    def test_a_run_that_somebody_holds_is_asked_to_stop(
        self, store: Store, clock: ManualClock
    ) -> None:
        """It stays in its worker's hands; asking again changes nothing."""
        _, claimed = work.queue_and_take(store)
        clock.advance(1)
        asked = store.cancel_run(cancel_run(claimed.record.id))
        asked_at = clock.now_us()
        clock.advance(1)
        again = store.cancel_run(cancel_run(claimed.record.id))

        assert replace(claimed.record, cancel_asked_at=asked_at) == asked
        assert asked == again
        (entry,) = steps.audit(store, action="run.cancel-asked")
        assert (claimed.record.id, ADA) == (entry.subject_id, entry.actor)

    def test_a_pending_run_is_cancelled_as_ever(self, store: Store) -> None:
        """Whichever order names it."""
        pending = steps.delay(store, store.now() + HOUR_US)

        cancelled = store.cancel_run(cancel_run(pending.id))

        assert (RunState.CANCELLED, None) == (cancelled.state, cancelled.fired_at)
        assert store.get_delayed(pending.id) is None
        assert 1 == len(steps.audit(store, action="delayed.cancelled"))

    def test_cancelling_again_returns_the_run(self, store: Store) -> None:
        """No second entry on the trail."""
        target = work.queue(store)
        cancelled = store.cancel_run(cancel_run(target))

        assert cancelled == store.cancel_run(cancel_run(target))
        assert 1 == len(steps.audit(store, action="run.cancelled"))

    @pytest.mark.parametrize("place", ["succeeded", "dead", "discarded"])
    def test_what_is_over_can_not_be_cancelled(self, store: Store, place: str) -> None:
        """An impossible change is refused, and changes nothing."""
        target = run_in(store, place)
        before = snapshot(store)

        with pytest.raises(Conflict):
            store.cancel_run(cancel_run(target))

        assert before == snapshot(store)

    @pytest.mark.parametrize("place", ["queued", "running", "retrying", "pending"])
    def test_a_run_of_another_tenant_is_not_found(self, store: Store, place: str) -> None:
        """Nor is one that never was."""
        target = run_in(store, place)
        before = snapshot(store)

        for wanted in (cancel_run(target, tenant="theirs"), cancel_run(run_id("nobody"))):
            with pytest.raises(NotFound):
                store.cancel_run(wanted)

        assert before == snapshot(store)


class DeadLetters(AtPlaces):
    """What retrying, discarding and editing promise."""

    def test_a_dead_run_is_queued_again_with_a_fresh_budget(
        self, store: Store, clock: ManualClock
    ) -> None:
        """The same run; its fence and attempt numbers go on."""
        target = work.make_dead(store)
        clock.advance(HOUR_US)

        assert [Ordered(target, is_done=True, state=RunState.DEAD)] == store.retry_runs(
            order_runs(target)
        )

        record = work.get_run(store, target)
        assert (RunState.QUEUED, AttemptCounts(1, 1, 0, None)) == (record.state, record.tries)
        assert clock.now_us() == store.list_queues()[0].oldest_at
        claimed = work.take_one(store, work.join_worker(store))
        assert AttemptCounts(2, 2, 0, clock.now_us()) == claimed.tries
        (entry,) = steps.audit(store, action="run.retried")
        told = {"state": "dead", "reason": "not-retryable"}
        assert (target, ADA, told) == (entry.subject_id, entry.actor, entry.before)
        assert [] == store.check()

    def test_a_waiting_run_is_tried_at_once(self, store: Store) -> None:
        """What it has paid stays paid."""
        target = work.make_waiting(store)
        tries = work.get_run(store, target).tries

        assert [Ordered(target, is_done=True, state=RunState.RETRYING)] == store.retry_runs(
            order_runs(target)
        )
        record = work.get_run(store, target)
        assert (RunState.QUEUED, tries) == (record.state, record.tries)
        assert () == steps.load(store, 1 << 60)

    def test_retrying_wakes_a_worker(self, store: Store) -> None:
        target = work.make_dead(store)
        place = self.place(store, MemberKind.WORKER)
        work.join_worker(store, wake_address=place.address)
        store.retry_runs(order_runs(target))

        assert place.wait(WAIT_MAX_US)
        place.close()

    @pytest.mark.parametrize("place", ["queued", "running", "succeeded", "discarded"])
    def test_what_can_not_be_retried_is_told(self, store: Store, place: str) -> None:
        """And is left as it is."""
        target = run_in(store, place)
        before = snapshot(store)

        (ordered,) = store.retry_runs(order_runs(target))

        assert Ordered(target, is_done=False, state=RunState(place)) == ordered
        assert before == snapshot(store)

    def test_a_discarded_run_is_over(self, store: Store, clock: ManualClock) -> None:
        """With all its attempts and its error on record."""
        target = work.make_dead(store)
        before = work.get_run(store, target)
        clock.advance(1)

        assert [Ordered(target, is_done=True, state=RunState.DEAD)] == store.discard_runs(
            order_runs(target)
        )

        expected = replace(
            before,
            state=RunState.DISCARDED,
            state_reason=Reason.ORDERED,
            finished_at=clock.now_us(),
        )
        assert expected == work.get_run(store, target)
        assert 1 == len(store.list_attempts(target))
        (entry,) = steps.audit(store, action="run.discarded")
        assert (target, ADA) == (entry.subject_id, entry.actor)
        assert (0, []) == (store.status().dead, store.check())

    @pytest.mark.parametrize("place", ["queued", "running", "retrying", "succeeded"])
    def test_only_the_dead_can_be_discarded(self, store: Store, place: str) -> None:
        target = run_in(store, place)
        before = snapshot(store)

        (ordered,) = store.discard_runs(order_runs(target))

        assert Ordered(target, is_done=False, state=RunState(place)) == ordered
        assert before == snapshot(store)

    @pytest.mark.parametrize("order", ["retry_runs", "discard_runs"])
    def test_all_that_can_be_done_is_done_in_the_order_given(
        self, store: Store, order: str
    ) -> None:
        """The others are told; one named twice is done once."""
        dead, other = work.make_dead(store, "a"), work.make_dead(store, "b")
        nobody = run_id("nobody")

        done = getattr(store, order)(order_runs(dead, nobody, other, dead))

        assert [True, False, True, False] == [one.is_done for one in done]
        assert [dead, nobody, other, dead] == [one.id for one in done]
        assert done[1].state is None
        assert 0 == store.status().dead

    def test_dead_runs_of_another_tenant_are_nobodys(self, store: Store) -> None:
        target = work.make_dead(store)
        theirs = order_runs(target, tenant="theirs")
        before = snapshot(store)

        expected = [Ordered(target, is_done=False, state=None)]
        assert expected == store.retry_runs(theirs)
        assert expected == store.discard_runs(theirs)
        assert before == snapshot(store)

    def test_a_dead_run_can_be_given_other_arguments(self, store: Store) -> None:
        """It is tried with them; the trail has both."""
        target = work.make_dead(store, arguments='{"to":"bob"}')
        before = work.get_run(store, target)

        edited = store.edit_run(edit_run(target, '{"to":"ada"}'))

        expected = replace(before, call=replace(before.call, arguments='{"to":"ada"}'))
        assert (expected, expected) == (edited, work.get_run(store, target))
        (entry,) = steps.audit(store, action="run.edited")
        assert ({"arguments": {"to": "bob"}}, {"arguments": {"to": "ada"}}) == (
            entry.before,
            entry.after,
        )
        store.retry_runs(order_runs(target))
        claimed = work.take_one(store, work.join_worker(store))
        assert '{"to":"ada"}' == claimed.record.call.arguments

    def test_the_run_of_a_schedule_can_be_edited_alone(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-7: its schedule's other runs keep theirs."""
        record = steps.fire_due(store, clock, steps.create(store))
        worker = work.join_worker(store)
        claimed = work.take_one(store, worker)
        work.end(store, worker, claimed, work.FATAL)
        store.edit_run(edit_run(claimed.record.id, '{"x":1}'))
        steps.fire_due(store, clock, record)

        runs = {one.id: one.call.arguments for one in snapshot(store).runs}
        assert '{"x":1}' == runs.pop(claimed.record.id)
        assert ["{}"] == list(runs.values())

    @pytest.mark.parametrize("place", ["queued", "running", "retrying", "succeeded"])
    def test_only_the_dead_can_be_edited(self, store: Store, place: str) -> None:
        target = run_in(store, place)
        before = snapshot(store)

        with pytest.raises(Conflict):
            store.edit_run(edit_run(target, "{}"))
        with pytest.raises(NotFound):
            store.edit_run(edit_run(run_id("nobody"), "{}"))
        with pytest.raises(NotFound):
            store.edit_run(edit_run(target, "{}", tenant="theirs"))

        assert before == snapshot(store)


class Queues:
    """What orders about queues promise."""

    def test_queues_are_listed_with_what_they_hold(self, store: Store, clock: ManualClock) -> None:
        """By name; those that hold nothing and are not paused are left out."""
        began_at = clock.now_us()
        for text in ("a", "b"):
            work.queue(store, text, queue="mail")
            clock.advance(1)
        work.take(store, work.join_worker(store), 1)
        work.queue(store, "c", queue="alone")
        clock.advance(1)
        store.pause_queue("paused", ADA)

        idle = QueueRecord(
            name="",
            queued=0,
            running=0,
            oldest_at=None,
            paused_at=None,
            paused_by=None,
            reason=None,
        )
        assert [
            replace(idle, name="alone", queued=1, oldest_at=began_at + 2),
            replace(idle, name="mail", queued=1, running=1, oldest_at=began_at + 1),
            replace(idle, name="paused", paused_at=began_at + 3, paused_by="ada", reason="because"),
        ] == store.list_queues()
        assert ("paused",) == store.status().paused_queues

    def test_a_queue_is_paused_and_resumed_on_record(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Twice is once; the first to pause it stays named."""
        store.pause_queue("mail", ADA)
        clock.advance(1)
        store.pause_queue("mail", replace(ADA, name="bob"))
        (paused,) = store.list_queues()
        store.resume_queue("mail", ADA)
        store.resume_queue("mail", ADA)
        store.resume_queue("unknown", ADA)

        assert ("ada", clock.now_us() - 1) == (paused.paused_by, paused.paused_at)
        assert ([], ()) == (store.list_queues(), store.status().paused_queues)
        actions = [(entry.action, entry.subject, entry.actor) for entry in steps.audit(store)]
        assert [("queue.resumed", "mail", ADA), ("queue.paused", "mail", ADA)] == actions
        told = [(entry.before, entry.after) for entry in steps.audit(store)]
        before, after = {"status": "open"}, {"status": "paused"}
        assert [(after, before), (before, after)] == told


def run_in(store: Store, place: str) -> RunId:
    """Return a run that is in a place."""
    if place == "queued":
        return work.queue(store)
    if place == "retrying":
        return work.make_waiting(store)
    if place == "pending":
        return steps.delay(store, store.now() + HOUR_US).id
    if place in ("dead", "discarded"):
        target = work.make_dead(store)
        if place == "discarded":
            store.discard_runs(order_runs(target))
        return target
    worker, claimed = work.queue_and_take(store)
    if place == "succeeded":
        work.end(store, worker, claimed, Succeeded())
    return claimed.record.id
