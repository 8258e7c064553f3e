"""What every store must do about overlap gates, orders about them, and lines of runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from duly.domain.backfill import BackfillMode
from duly.domain.effects import Choice, EffectState, Grant
from duly.domain.enums import AttemptState, Effects, Finding, Origin, Overlap, RunState, SkipReason
from duly.domain.fire_planning import settle
from duly.domain.ids import identity_text
from duly.domain.outcomes import CancelledEnd, Failed, GaveUp, Succeeded, WorkerLost
from duly.domain.policies import GATELESS, WAITING_MAX, Misfire
from duly.domain.runs import OccurrenceStatusKind, Reason
from duly.domain.verification import ItemReport, Scope, check_name, check_of
from duly.errors import Conflict
from duly.store.ports.dispatch import MEMBER_TTL_US, DrainOwed, FireResult
from duly.store.ports.effects import AddVerdict, EndEffect
from duly.store.ports.execution import (
    WORKER_TTL_US,
    FinishAttempt,
    FinishResult,
    Heartbeat,
    LostClaimDecision,
    Report,
    SettleLost,
    StopReason,
)
from duly.store.ports.maintenance import PruneKind
from duly.store.ports.queries import OccurrenceStatuses, RunFilter
from duly_conformance import backfills, steps
from duly_conformance import steps as work
from duly_conformance.effects import (
    UNSAFE,
    begin,
    done,
    end_beyond,
    in_doubt,
    rerun,
    settle_doubt,
    taken,
)
from duly_conformance.kit import (
    HOUR_US,
    SECOND_US,
    cancel_run,
    finish,
    on_time,
    order_runs,
    snapshot,
    template_of,
)
from duly_conformance.steps import (
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
from duly_conformance.vitals import NOTHING_KEPT, prune

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.ids import RunId
    from duly.domain.runs import RunRecord
    from duly.domain.schedules import ScheduleRecord
    from duly.engine.manual_clock import ManualClock
    from duly.store.ports import Store
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.execution import ClaimedRun


ALL = ItemReport(expected=3, names=("a", "b", "c"), done=("b", "a"))


def tell(store: Store, worker: MemberId, claimed: ClaimedRun, scope: ItemReport) -> bool:
    """Report a scope."""
    (is_ours,) = store.report(worker, [Report(hold=claimed.hold, scope=scope)])
    return is_ours


def verdicts(
    store: Store, record: ScheduleRecord, runs: Sequence[RunRecord]
) -> list[tuple[OccurrenceStatusKind, RunId | None, SkipReason | None]]:
    """Return what `judge` and `judge_many` alike say of the occurrences of runs."""
    instants = [run.scheduled_for for run in runs]
    found = store.judge(record.id, instants)
    assert [found] == store.judge_many([OccurrenceStatuses(record.id, instants)])
    return [(one.kind, one.run_id, one.reason) for one in found]


def repaired(store: Store, worker: MemberId, run_id: RunId, text: str = "repair") -> ClaimedRun:
    """Rerun a run as a repair, and claim it."""
    rerun(store, run_id, text, is_repair=True)
    return work.take_one(store, worker)


class ScopeOfRuns:
    """What `report`, `finish_runs` and `get_scope` promise about scope."""

    def test_what_is_expected_and_done_is_counted(self, store: Store) -> None:
        """Told in reports, and with the end."""
        worker, claimed = work.queue_and_take(store)
        assert Scope() == store.get_scope(claimed.run_id)

        assert tell(store, worker, claimed, ALL)
        assert Scope(3, 2, 0, ("c",)) == store.get_scope(claimed.run_id)
        work.end(store, worker, claimed, Succeeded(), scope=ItemReport(done=("c",)))

        scope = store.get_scope(claimed.run_id)
        assert Scope(3, 3, 0, ()) == scope
        assert Finding.PRESENT is scope.finding
        assert [] == store.check()

    def test_the_same_attempt_saying_it_twice_says_it_once(self, store: Store) -> None:
        """INV-17: a lost answer is no second time; another attempt's word is."""
        worker, claimed = work.queue_and_take(store)
        for _ in range(2):
            tell(store, worker, claimed, ItemReport(expected=2, done=("a", "a")))
        assert Scope(2, 1, 0, ()) == store.get_scope(claimed.run_id)
        work.end(store, worker, claimed, Succeeded())

        again = repaired(store, worker, claimed.run_id)
        tell(store, worker, again, ItemReport(done=("a", "b")))

        assert Scope(2, 2, 1, ()) == store.get_scope(claimed.run_id)
        assert store.get_scope(claimed.run_id) == store.get_scope(again.run_id)

    def test_an_item_that_one_attempt_repeats_is_counted_as_repeated(self, store: Store) -> None:
        """INV-17: also when the report that says so is sent again, and in the report of the end."""
        worker, claimed = work.queue_and_take(store)
        tell(store, worker, claimed, ItemReport(expected=3, done=("a", "b")))
        for _ in range(2):
            tell(store, worker, claimed, ItemReport(done=("c", "a"), repeated=("a",)))
        assert Scope(3, 3, 1, ()) == store.get_scope(claimed.run_id)

        work.end(
            store, worker, claimed, Succeeded(), scope=ItemReport(done=("b",), repeated=("b",))
        )

        scope = store.get_scope(claimed.run_id)
        assert (2, False) == (scope.repeated, scope.is_complete)
        assert [] == store.check()

    def test_what_is_done_is_told_to_whoever_goes_on(self, store: Store) -> None:
        """By any attempt of the line; expected and unheard of is not done."""
        worker, claimed = work.queue_and_take(store)
        assert frozenset() == store.list_done(claimed.run_id, ("a",))
        tell(store, worker, claimed, ALL)
        work.end(store, worker, claimed, Succeeded())
        again = repaired(store, worker, claimed.run_id)
        asked = ("c", "b", 'no "such" item', "a")

        for run_id in (claimed.run_id, again.run_id):
            assert frozenset("ab") == store.list_done(run_id, asked)
        assert frozenset() == store.list_done(claimed.run_id, ())
        assert frozenset() == store.list_done(rerun(store, claimed.run_id).id, asked)

    def test_a_rerun_that_is_no_repair_has_a_scope_of_its_own(self, store: Store) -> None:
        worker, claimed = work.queue_and_take(store)
        work.end(store, worker, claimed, Succeeded(), scope=ALL)

        anew = rerun(store, claimed.run_id)

        assert Scope() == store.get_scope(anew.id)

    def test_who_no_longer_holds_the_run_says_nothing_about_its_scope(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-5."""
        worker, claimed = work.queue_and_take(store)
        clock.advance(WORKER_TTL_US)
        work.settle_lost(store, work.maintain(store), *work.lost_claims(store))

        assert not tell(store, worker, claimed, ALL)
        work.end(store, worker, claimed, Succeeded(), scope=ALL)

        assert Scope() == store.get_scope(claimed.run_id)


class FollowingUp:
    """What becomes of a run that is made of one that ends."""

    def test_the_check_of_a_result_is_queued_with_the_end(self, store: Store) -> None:
        """In one transaction, and once, however often the end is told."""
        worker, claimed = work.queue_and_take(store)
        check = check_of(claimed.record, claimed.fence)

        for _ in range(2):
            work.end(store, worker, claimed, Succeeded(), follow_up=check)

        assert RunState.SUCCEEDED is work.get_run(store, claimed.run_id).state
        made = work.get_run(store, check.id)
        assert (Origin.VERIFY, RunState.QUEUED) == (made.origin, made.state)
        assert (claimed.run_id, check_name("remind")) == (made.root, made.call.task)
        assert check.id == work.take_one(store, worker).run_id
        assert [] == store.check()

    def test_a_refused_end_makes_none(self, store: Store, clock: ManualClock) -> None:
        """INV-5."""
        worker, claimed = work.queue_and_take(store)
        clock.advance(WORKER_TTL_US)
        work.settle_lost(store, work.maintain(store), *work.lost_claims(store))
        check = check_of(claimed.record, claimed.fence)

        work.end(store, worker, claimed, Succeeded(), follow_up=check)

        assert store.get_run(check.id) is None

    def test_whoever_settles_a_lost_run_may_have_it_checked(
        self, store: Store, clock: ManualClock
    ) -> None:
        """What is left in doubt is looked at by its own task first."""
        worker, claimed = taken(store)
        begin(store, worker, claimed)
        clock.advance(WORKER_TTL_US)
        fence = work.maintain(store)
        (lost,) = work.lost_claims(store)
        decided = work.loss_of(store, lost, WorkerLost())
        check = check_of(claimed.record, claimed.fence)
        loss = LostClaimDecision(decided.claim, decided.conclusion, check)

        order = SettleLost(fence=fence, losses=(loss,), overdue_us=work.OVERDUE_US)
        assert [True] == store.settle_lost(order)

        assert RunState.AMBIGUOUS is work.get_run(store, claimed.run_id).state
        assert RunState.QUEUED is work.get_run(store, check.id).state

    def test_a_batch_of_plain_ends_and_others_ends_them_all(self, store: Store) -> None:
        """Some close their run and no more, some are followed, some have begun effects."""
        store.register_policies({"remind": UNSAFE})
        for text in "abcd":
            work.queue(store, text)
        worker = work.join_worker(store)
        plain, followed, scoped, begun = work.take(store, worker)
        done(store, worker, begun)
        check = check_of(followed.record, followed.fence)
        ends: list[FinishAttempt] = [
            finish(plain, Succeeded()),
            finish(followed, Succeeded(), follow_up=check),
            finish(scoped, Succeeded(), scope=ALL),
            finish(begun, Succeeded()),
        ]

        store.finish_runs(worker, ends)

        for one in (plain, followed, scoped, begun):
            assert RunState.SUCCEEDED is work.get_run(store, one.run_id).state
        assert RunState.QUEUED is work.get_run(store, check.id).state
        assert 2 == store.get_scope(scoped.run_id).done
        (attempt,) = store.list_attempts(begun.run_id)
        assert attempt.effects_at is not None
        assert [] == store.check()


class ForgettingLines:
    """What `prune` promises about effects, scope and verdicts."""

    def test_what_runs_have_in_common_goes_with_the_last_of_them(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A repair that is still there must know what was done."""
        worker, claimed = taken(store)
        done(store, worker, claimed)
        tell(store, worker, claimed, ALL)
        work.end(store, worker, claimed, Succeeded())
        again = repaired(store, worker, claimed.run_id)
        clock.advance(1)

        assert 1 == prune(store, NOTHING_KEPT).counts[PruneKind.OUTCOMES]

        assert store.get_run(claimed.run_id) is None
        assert Grant.DONE is begin(store, worker, again).grant
        assert 2 == store.get_scope(again.run_id).done
        assert [] == store.check()
        end_beyond(store, worker, again, Succeeded())
        clock.advance(1)
        assert 1 == prune(store, NOTHING_KEPT).counts[PruneKind.OUTCOMES]
        assert ([], Scope()) == (
            store.list_effects(again.run_id, 10),
            store.get_scope(again.run_id),
        )
        assert [] == store.check()

    def test_verdicts_go_with_their_run(self, store: Store, clock: ManualClock) -> None:
        worker, claimed = work.queue_and_take(store)
        work.end(store, worker, claimed, Succeeded())
        found = AddVerdict(
            run_id=claimed.run_id, finding=Finding.PRESENT, evidence=None, by="check"
        )
        store.add_verdict(found)
        clock.advance(1)

        prune(store, NOTHING_KEPT)

        assert [] == list(store.list_verdicts(claimed.run_id))
        assert [] == store.check()

    def test_a_run_in_doubt_is_never_pruned(self, store: Store, clock: ManualClock) -> None:
        claimed = in_doubt(store)
        before = work.get_run(store, claimed.run_id)
        clock.advance(1000 * HOUR_US)

        assert 0 == prune(store, NOTHING_KEPT).counts[PruneKind.OUTCOMES]

        assert before == work.get_run(store, claimed.run_id)
        assert [EffectState.UNKNOWN] == [one.state for one in store.list_effects(before.id, 10)]


class BackfilledLines:
    """What backfills promise about runs that have had effects."""

    @pytest.mark.parametrize("mode", BackfillMode)
    def test_what_failed_is_made_good_and_what_is_redone_begins_anew(
        self, store: Store, clock: ManualClock, mode: BackfillMode
    ) -> None:
        """An effect that was done is done once more only by who redoes all of it."""
        record = backfills.past(store, clock)
        fence = steps.own(store)
        backfills.step(store, backfills.begun(store, record), fence=fence, count=1)
        worker = work.join_worker(store)
        first = work.take_one(store, worker)
        done(store, worker, first)
        end_beyond(store, worker, first, GaveUp(Reason.GAVE_UP, "the rest is not to be had"))

        second = backfills.begun(store, record, name="second", mode=mode)
        backfills.step(store, second, fence=fence, count=1)
        again = work.take_one(store, worker)

        is_shared = mode is BackfillMode.FILL
        assert (first.run_id if is_shared else again.run_id) == again.record.line
        grant = begin(store, worker, again).grant
        assert (Grant.DONE if is_shared else Grant.GRANTED) is grant
        assert [] == store.check()

    def test_one_that_is_in_doubt_counts_as_open(self, store: Store, clock: ManualClock) -> None:
        """A backfill leaves no more doubt behind than it may have runs open."""
        record = backfills.past(store, clock)
        backfill = backfills.begun(store, record, concurrency=1)
        fence = steps.own(store)
        backfills.step(store, backfill, fence=fence)
        worker = work.join_worker(store)
        claimed = work.take_one(store, worker)
        begin(store, worker, claimed)
        end_beyond(store, worker, claimed, Failed("boom"))

        assert FireResult.BUSY is backfills.step(store, backfill, fence=fence).result
        settle_doubt(store, claimed.run_id, Choice.RECONCILE, is_done=True)
        assert 1 == backfills.step(store, backfill, fence=fence).made


class RerunsAtGates:
    """What reruns and settled doubts mean for other runs of the same schedule, or line."""

    @pytest.mark.parametrize("policy", [Overlap.QUEUE_ALL, Overlap.SKIP])
    def test_the_next_occurrence_finds_a_rerun_in_its_way(
        self, store: Store, clock: ManualClock, policy: Overlap
    ) -> None:
        record = fired(store, clock, policy)
        worker = work.join_worker(store, ttl_us=10 * HOUR_US)
        claimed = work.take_one(store, worker)
        work.end(store, worker, claimed, Succeeded())
        again = rerun(store, claimed.run_id)

        steps.fire_due(store, clock, steps.look(store, record))

        waiting = ["blocked"] if policy is Overlap.QUEUE_ALL else []
        assert sorted(["succeeded", "queued", *waiting]) == sorted(states(store, record))
        assert again.id == work.take_one(store, worker).run_id
        assert [] == store.check()

    def test_a_rerun_waits_for_a_run_that_is_open(self, store: Store, clock: ManualClock) -> None:
        fired(store, clock, Overlap.QUEUE_ALL, times=2)
        worker = work.join_worker(store, ttl_us=10 * HOUR_US)
        first = work.take_one(store, worker)
        work.end(store, worker, first, Succeeded())

        again = rerun(store, first.run_id)

        assert RunState.BLOCKED is again.state
        work.end(store, worker, work.take_one(store, worker), Succeeded())
        assert again.id == work.take_one(store, worker).run_id
        assert [] == store.check()

    def test_a_rerun_that_may_neither_go_nor_wait_is_refused(
        self, store: Store, clock: ManualClock
    ) -> None:
        """And nothing is changed."""
        record = fired(store, clock, Overlap.SKIP)
        worker = work.join_worker(store, ttl_us=10 * HOUR_US)
        claimed = work.take_one(store, worker)
        work.end(store, worker, claimed, Succeeded())
        steps.fire_due(store, clock, steps.look(store, record))
        before = snapshot(store)

        with pytest.raises(Conflict, match="has a run that is still open"):
            rerun(store, claimed.run_id)

        assert before == snapshot(store)

    def test_what_is_serialized_with_a_doubt_waits_for_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Also the run of another schedule."""
        store.register_policies({"report": UNSAFE})
        first, second = (made(store, Overlap.SERIALIZE, name) for name in ("first", "second"))
        steps.fire_due(store, clock, first)
        worker = work.join_worker(store, ttl_us=10 * HOUR_US)
        claimed = work.take_one(store, worker)
        begin(store, worker, claimed)
        end_beyond(store, worker, claimed, Failed("boom"))

        steps.fire_due(store, clock, second)

        assert ["blocked"] == states(store, second)
        assert 0 == store.open_gates(10)
        settle_doubt(store, claimed.run_id, Choice.SKIP)
        assert ["queued"] == states(store, second)
        assert [] == store.check()

    def test_one_that_goes_on_keeps_its_gate(self, store: Store, clock: ManualClock) -> None:
        store.register_policies({"report": UNSAFE})
        record = fired(store, clock, Overlap.QUEUE_ALL, times=2)
        worker = work.join_worker(store, ttl_us=10 * HOUR_US)
        claimed = work.take_one(store, worker)
        begin(store, worker, claimed)
        end_beyond(store, worker, claimed, Failed("boom"))

        settle_doubt(store, claimed.run_id, Choice.RETRY)

        assert ["queued", "blocked"] == states(store, record)
        again = work.take_one(store, worker)
        assert claimed.run_id == again.run_id
        work.end(store, worker, again, Succeeded())
        assert ["succeeded", "queued"] == states(store, record)
        assert [] == store.check()

    def test_a_settled_doubt_leaves_alone_what_another_run_of_the_line_intends(
        self, store: Store
    ) -> None:
        """That run says itself what has become of it."""
        worker, first = taken(store)
        work.end(store, worker, first, work.FATAL)
        doubtful = repaired(store, worker, first.run_id)
        begin(store, worker, doubtful, "mail")
        end_beyond(store, worker, doubtful, Failed("boom"))
        assert [True] == [one.is_done for one in store.retry_runs(order_runs(first.run_id))]
        other = work.take_one(store, worker)
        assert Grant.GRANTED is begin(store, worker, other, "letter").grant

        settle_doubt(store, doubtful.run_id, Choice.RETRY)

        ledger = {one.key: one.state for one in store.list_effects(first.run_id, 10)}
        assert {"letter": EffectState.INTENDED} == ledger
        order = EndEffect(worker=worker, hold=other.hold, key="letter")
        assert store.end_effect(order)

    def test_an_effect_that_is_taken_back_may_be_intended_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        """What earlier attempts left stays unknown, and is granted to who may repeat it."""
        worker, claimed = taken(store)
        begin(store, worker, claimed)
        work.end(store, worker, claimed, Failed("later"))
        work.fire_retries(store, clock)
        again = work.take_one(store, worker)
        begin(store, worker, again, effects=Effects.IDEMPOTENT)
        undone = EndEffect(worker=worker, hold=again.hold, key="mail", is_done=False)
        assert store.end_effect(undone)
        assert EffectState.UNKNOWN is store.list_effects(again.run_id, 10)[0].state

        begun = begin(store, worker, again, effects=Effects.IDEMPOTENT)

        assert begun.record is not None
        assert (Grant.GRANTED, EffectState.INTENDED, 2) == (
            begun.grant,
            begun.record.state,
            begun.record.tries,
        )


class OverlapInCatchUp:
    """What draining promises about a schedule whose earlier run is still open."""

    @pytest.mark.parametrize("policy", ONE_AT_A_TIME)
    def test_what_is_owed_waits_where_it_is_until_nobody_is_in_the_way(
        self, store: Store, clock: ManualClock, policy: Overlap
    ) -> None:
        """There it can still be edited, paused and called off."""
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
        record = made(store, Overlap.ALLOW, misfire=Misfire("all"))
        fence = steps.own(store, ttl_us=100 * HOUR_US)
        owed = owing(store, clock, fence, record)

        assert FireResult.FIRED == drain(store, fence, record, owed, owed.first_for)
        (rest,) = store.list_owed(record.id)
        assert FireResult.FIRED == drain(store, fence, record, rest, rest.first_for)

    def test_what_is_owed_waits_behind_a_run_that_waits_at_a_gate_without_a_holder(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-8: the run in the way holds the gate that its schedule had before."""
        first = fired(store, clock, Overlap.COALESCE)
        work.take_one(store, work.join_worker(store, ttl_us=100 * HOUR_US))
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
        """Also those that the same transaction has made."""
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
        """INV-8."""
        record = made(store, policy)
        trigger(store, record)
        worker = work.join_worker(store, ttl_us=10 * HOUR_US)
        work.take_one(store, worker)

        record = steps.fire_due(store, clock, record)

        assert 1 == record.overlaps
        assert [] == work.take_ids(store, work.join_worker(store))

    def test_of_runs_that_are_ordered_at_once_the_last_is_in_the_way_afterwards(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-8: the first has made way for it in the same transaction, and is closed."""
        record = made(store, Overlap.REPLACE)
        trigger_many(store, record, 2)
        (last,) = work.take_ids(store, work.join_worker(store, ttl_us=10 * HOUR_US))

        with pytest.raises(Conflict, match=identity_text(last)):
            trigger(store, steps.look(store, record), Overlap.SKIP)
        assert [] == store.check()

    def test_a_run_by_hand_that_would_be_skipped_is_refused(
        self, store: Store, clock: ManualClock
    ) -> None:
        """With the run that is in the way, and how to do it on purpose."""
        record = fired(store, clock, Overlap.SKIP)
        open_run = only_run(store)

        with pytest.raises(Conflict, match="overlap='allow'"):
            trigger(store, record)
        assert open_run == only_run(store)

    def test_a_run_by_hand_waits_where_others_do(self, store: Store, clock: ManualClock) -> None:
        record = fired(store, clock, Overlap.QUEUE_ALL)
        by_hand = trigger(store, record)
        assert RunState.BLOCKED == work.get_run(store, by_hand).state

        assert 1 == work_off(store)

        assert [by_hand] == work.take_ids(store, work.join_worker(store))

    @pytest.mark.parametrize("policy", ONE_AT_A_TIME)
    def test_the_policy_can_be_overridden_for_one_run(
        self, store: Store, clock: ManualClock, policy: Overlap
    ) -> None:
        """On purpose, on record."""
        record = fired(store, clock, policy)
        by_hand = trigger(store, record, overlap=Overlap.ALLOW)

        assert 2 == len(work.take_ids(store, work.join_worker(store)))
        (entry,) = steps.audit(store, action="schedule.triggered")
        assert {"overlap": "allow"}.items() <= (entry.after or {}).items()
        assert RunState.RUNNING == work.get_run(store, by_hand).state
        assert [] == store.check()

    @pytest.mark.parametrize("policy", ONE_AT_A_TIME)
    def test_after_an_override_the_earlier_run_is_in_the_way_as_before(
        self, store: Store, clock: ManualClock, policy: Overlap
    ) -> None:
        """INV-8: the policy is overridden for one run, and for no other."""
        record = fired(store, clock, policy)
        worker = work.join_worker(store, ttl_us=10 * HOUR_US)
        work.take_one(store, worker)
        trigger(store, record, overlap=Overlap.ALLOW)
        work_off(store)

        record = steps.fire_due(store, clock, record)

        assert 1 == record.overlaps
        assert [] == work.take_ids(store, work.join_worker(store))

    def test_a_dead_run_that_is_brought_back_waits_for_one_that_is_open(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A person's order takes nobody's place."""
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
        """Also if nothing of its schedule has gone ahead since."""
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

        assert [dead.id] == work.take_ids(store, work.join_worker(store))
        assert [] == store.check()

    def test_a_dead_run_is_not_brought_back_beside_one_that_is_open(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-8: nobody waits under skip; it stays among the dead letters."""
        record = fired(store, clock, Overlap.SKIP)
        (dead,) = runs_of(store, record)
        end_somehow(store, "dead")
        steps.fire_due(store, clock, record)

        assert not store.retry_runs(order_runs(dead.id))[0].is_done
        assert RunState.DEAD == work.get_run(store, dead.id).state

    def test_who_is_in_the_way_of_a_more_urgent_run_is_hurried(
        self, store: Store, clock: ManualClock
    ) -> None:
        """It has the priority of the one that waits for it."""
        slow = made(store, Overlap.SERIALIZE, "slow", serialize_by="a", priority=9)
        urgent = made(store, Overlap.SERIALIZE, "urgent", serialize_by="a", priority=0)
        steps.fire_due(store, clock, slow)
        between = work.queue(store, "between", priority=5)
        steps.fire_due(store, clock, urgent)

        (first,) = runs_of(store, slow)
        assert [first.id, between] == work.take_ids(store, work.join_worker(store))


GATED = tuple(one for one in Overlap if one not in GATELESS)


class Overlapping:
    """What firing promises about a schedule whose earlier run is still open."""

    @pytest.mark.parametrize("policy", Overlap)
    def test_who_finds_nobody_goes(self, store: Store, clock: ManualClock, policy: Overlap) -> None:
        """Under every policy; and again when the earlier one has ended."""
        record = made(store, policy)
        for _ in range(3):
            record = steps.fire_due(store, clock, record)
            assert 1 == work_off(store)

        assert (3, 0) == (record.fires, record.overlaps)
        assert [] == store.check()

    def test_runs_may_overlap_when_that_is_allowed(self, store: Store, clock: ManualClock) -> None:
        """Allow."""
        record = fired(store, clock, Overlap.ALLOW, times=3)

        assert 3 == len(work.take_ids(store, work.join_worker(store)))
        assert (3, 0) == (record.fires, record.overlaps)

    def test_an_occurrence_is_skipped_while_an_earlier_run_is_open(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Skip; on record, with the run that was in the way; no run is made."""
        record = fired(store, clock, Overlap.SKIP, times=3)

        first = only_run(store)
        assert (1, 2) == (record.fires, record.overlaps)
        assert first.scheduled_for == record.last_for
        skips = store.list_skips(record.id, 10)
        expected = [(SkipReason.OVERLAP, first.id, 1)] * 2
        assert expected == [(skip.reason, skip.into, skip.count) for skip in skips]
        verdicts = store.judge(record.id, [skip.first_for for skip in skips])
        assert [OccurrenceStatusKind.SKIPPED] * 2 == [verdict.kind for verdict in verdicts]
        assert [] == store.check()

    @pytest.mark.parametrize("place", ["queued", "running", "retrying"])
    def test_an_open_run_is_in_the_way_wherever_it_is(
        self, store: Store, clock: ManualClock, place: str
    ) -> None:
        """INV-8."""
        record = fired(store, clock, Overlap.SKIP)
        if place != "queued":
            worker = work.join_worker(store, ttl_us=10 * HOUR_US)
            claimed = work.take_one(store, worker)
            if place == "retrying":
                work.end(store, worker, claimed, Failed("again", after_us=10 * HOUR_US))
        assert place == only_run(store).state

        assert 1 == steps.fire_due(store, clock, record).overlaps

    def test_a_lost_worker_leaves_its_run_in_the_way(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-8: across takeovers; time alone opens no gate."""
        record = fired(store, clock, Overlap.SKIP)
        work.take_one(store, work.join_worker(store))
        clock.advance(WORKER_TTL_US + MEMBER_TTL_US)

        record = steps.fire_due(store, clock, record)

        assert (1, 1) == (record.fires, record.overlaps)

    @pytest.mark.parametrize("how", ["closed", "dead", "cancelled"])
    def test_a_run_that_is_over_is_in_nobodys_way(
        self, store: Store, clock: ManualClock, how: str
    ) -> None:
        """Dead letters wait for a person, and nobody waits for them."""
        record = fired(store, clock, Overlap.SKIP)
        end_somehow(store, how)

        record = steps.fire_due(store, clock, record)

        assert (2, 0) == (record.fires, record.overlaps)

    def test_one_may_wait_and_no_more(self, store: Store, clock: ManualClock) -> None:
        """Queue-one."""
        record = fired(store, clock, Overlap.QUEUE_ONE, times=4)

        assert ["queued", "blocked"] == states(store, record)
        (skip, _) = store.list_skips(record.id, 10)
        assert SkipReason.OVERFLOW == skip.reason
        assert (2, 3) == (record.fires, record.overlaps)
        assert 1 == work_off(store)
        assert ["succeeded", "queued"] == states(store, record)
        assert [] == store.check()

    def test_all_wait_their_turn_and_go_in_order(self, store: Store, clock: ManualClock) -> None:
        """Queue-all."""
        record = fired(store, clock, Overlap.QUEUE_ALL, times=4)
        assert ["queued", "blocked", "blocked", "blocked"] == states(store, record)

        began = []
        for _ in range(4):
            worker = work.join_worker(store)
            claimed = work.take_one(store, worker)
            began.append(claimed.record.scheduled_for)
            work.end(store, worker, claimed, Succeeded())

        assert sorted(began) == began
        assert ["succeeded"] * 4 == states(store, record)
        assert [] == work.take_ids(store, work.join_worker(store))
        assert [] == store.check()

    def test_a_row_that_has_grown_too_long_is_not_fed(
        self, store: Store, clock: ManualClock
    ) -> None:
        """So many that something must be wrong."""
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
        """Coalesce; those before it say for whom they were closed, and its window is theirs."""
        record = fired(store, clock, Overlap.COALESCE, times=4)

        first, second, third, last = runs_of(store, record)
        assert ["queued", "coalesced", "coalesced", "blocked"] == states(store, record)
        assert (third.id, last.id) == (second.into, third.into)
        expected = [
            (OccurrenceStatusKind.RUN, first.id, None),
            (OccurrenceStatusKind.COALESCED, third.id, SkipReason.OVERLAP),
            (OccurrenceStatusKind.COALESCED, last.id, SkipReason.OVERLAP),
            (OccurrenceStatusKind.RUN, last.id, None),
        ]
        assert expected == verdicts(store, record, [first, second, third, last])
        assert first.scheduled_for == last.window_from
        assert 2 == work_off(store) + work_off(store)
        assert [] == store.check()

    def test_the_newest_takes_the_place_of_one_that_has_not_begun(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Replace; it goes at once, for nobody has to stop."""
        record = fired(store, clock, Overlap.REPLACE, times=3)

        first, second, last = runs_of(store, record)
        assert ["replaced", "replaced", "queued"] == states(store, record)
        assert (second.id, last.id) == (first.into, second.into)
        expected = [
            (OccurrenceStatusKind.REPLACED, second.id, SkipReason.OVERLAP),
            (OccurrenceStatusKind.REPLACED, last.id, SkipReason.OVERLAP),
            (OccurrenceStatusKind.RUN, last.id, None),
        ]
        assert expected == verdicts(store, record, [first, second, last])
        assert [last.id] == work.take_ids(store, work.join_worker(store))
        assert [] == store.check()

    def test_a_running_one_is_asked_to_stop_and_keeps_its_gate_until_it_has(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-8: replace."""
        record = fired(store, clock, Overlap.REPLACE)
        worker = work.join_worker(store, ttl_us=10 * HOUR_US)
        claimed = work.take_one(store, worker)
        record = steps.fire_due(store, clock, record)
        record = steps.fire_due(store, clock, record)

        assert ["running", "replaced", "blocked"] == states(store, record)
        (stop,) = store.beat(Heartbeat(worker=worker, holds=(claimed.hold,))).stops
        assert StopReason.CANCEL == stop.kind
        assert [] == work.take_ids(store, work.join_worker(store))
        assert FinishResult.ACCEPTED == work.end(store, worker, claimed, CancelledEnd())
        assert FinishResult.ACCEPTED == work.end(store, worker, claimed, CancelledEnd())
        assert ["replaced", "replaced", "queued"] == states(store, record)
        assert runs_of(store, record)[2].id == runs_of(store, record)[0].into
        assert [] == store.check()

    def test_an_attempt_that_made_way_was_cancelled(self, store: Store, clock: ManualClock) -> None:
        """Its run was replaced."""
        record = fired(store, clock, Overlap.REPLACE)
        worker = work.join_worker(store, ttl_us=10 * HOUR_US)
        claimed = work.take_one(store, worker)
        record = steps.fire_due(store, clock, record)
        work.end(store, worker, claimed, CancelledEnd())

        (attempt,) = store.list_attempts(claimed.record.id)

        assert ["replaced", "queued"] == states(store, record)
        assert AttemptState.CANCELLED == attempt.state

    def test_a_running_one_that_succeeds_all_the_same_has_succeeded(
        self, store: Store, clock: ManualClock
    ) -> None:
        """It was asked, and had done its work."""
        record = fired(store, clock, Overlap.REPLACE)
        worker = work.join_worker(store, ttl_us=10 * HOUR_US)
        claimed = work.take_one(store, worker)
        record = steps.fire_due(store, clock, record)

        work.end(store, worker, claimed, Succeeded())

        assert ["succeeded", "queued"] == states(store, record)

    def test_schedules_of_one_key_go_one_after_the_other(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Serialize."""
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
        one = made(store, Overlap.SERIALIZE, "one", serialize_by="account:7")
        two = made(store, Overlap.SERIALIZE, "two", serialize_by="account:7", tenant="another")
        for record in (one, two):
            steps.fire_due(store, clock, record)

        assert 2 == work_off(store)

    @pytest.mark.parametrize("how", ["closed", "dead", "cancelled", "cancelled in the queue"])
    def test_however_a_run_ends_the_next_goes(
        self, store: Store, clock: ManualClock, how: str
    ) -> None:
        """Every end gives the gate back."""
        record = fired(store, clock, Overlap.QUEUE_ALL, times=2)

        end_somehow(store, how)

        assert "queued" == states(store, record)[1]
        assert [] == store.check()

    def test_an_attempt_that_is_tried_again_keeps_the_gate(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Until its run is over."""
        record = fired(store, clock, Overlap.QUEUE_ALL, times=2)
        worker = work.join_worker(store)
        work.end(store, worker, work.take_one(store, worker), Failed("again", after_us=SECOND_US))

        assert 0 == store.open_gates(10)
        assert ["retrying", "blocked"] == states(store, record)

    def test_a_lost_attempt_keeps_the_gate_until_its_run_is_over(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-8: the lost worker may still be at it, and its run is tried again."""
        record = fired(store, clock, Overlap.QUEUE_ALL, times=2)
        work.take_one(store, work.join_worker(store))
        clock.advance(WORKER_TTL_US)

        assert [True] == work.settle_lost(store, work.maintain(store), *work.lost_claims(store))
        assert 0 == store.open_gates(10)
        assert ["retrying", "blocked"] == states(store, record)

    def test_a_waiting_run_can_be_cancelled(self, store: Store, clock: ManualClock) -> None:
        """The others close up."""
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
        """It went ahead when there was no gate; who comes now waits for it all the same."""
        record = fired(store, clock, Overlap.SKIP)
        worker = work.join_worker(store, ttl_us=10 * HOUR_US)
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
        """INV-8: who comes to the new gate finds the run that holds the old one."""
        record = fired(store, clock, Overlap.COALESCE)
        worker = work.join_worker(store, ttl_us=10 * HOUR_US)
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
        """And not beside one that came when there was no gate any more."""
        record = fired(store, clock, Overlap.QUEUE_ALL, times=2)
        changed = replace(record.definition, overlap=Overlap.SKIP)
        record = steps.edit(store, record, changed)
        record = steps.fire_due(store, clock, record)
        assert (["queued", "blocked"], 2) == (states(store, record), record.overlaps)

        assert 1 == work_off(store)

        assert ["succeeded", "queued"] == states(store, record)
        assert [] == store.check()

    def test_a_gate_that_nobody_opened_is_found(self, store: Store, clock: ManualClock) -> None:
        """Asking once more opens nothing, and nothing is let through twice."""
        record = fired(store, clock, Overlap.QUEUE_ALL, times=3)

        assert 0 == store.open_gates(10)
        assert 1 == work_off(store)
        assert 0 == store.open_gates(10)
        assert ["succeeded", "queued", "blocked"] == states(store, record)
