"""Lines of runs: what a run and its repairs have in common, the runs that follow, and gates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duly.domain.advice import Choice
from duly.domain.attempts import Reason
from duly.domain.backfilling import BackfillMode
from duly.domain.checking import check_name, check_of
from duly.domain.concluding import Failed, GaveUp, LostEnd, Succeeded
from duly.domain.effects import EffectState, Grant
from duly.domain.literals import Effects, Finding, Origin, Overlap, RunState
from duly.domain.scope import Scope, ScopeReport
from duly.errors import Conflict
from duly.store.dispatch import FireResult, PruneKind
from duly.store.effects import AddVerdict, EndEffect
from duly.store.execution import WORKER_TTL_US, Finish, Loss, Report, SettleLost
from duly.testing.conformance import backfills, steps
from duly.testing.conformance import work_steps as work
from duly.testing.conformance.doubts import rerun, settle
from duly.testing.conformance.effects import UNSAFE, begin, done, end_beyond, in_doubt, taken
from duly.testing.conformance.overlap_steps import fired, made, states
from duly.testing.conformance.retention import NOTHING_KEPT, prune
from duly.testing.factories import HOUR_US, finish
from duly.testing.snapshot import snapshot

if TYPE_CHECKING:
    from duly.domain.identity import RunId
    from duly.store.dispatch import MemberId
    from duly.store.execution import ClaimedRun
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock

ALL = ScopeReport(expected=3, names=("a", "b", "c"), done=("b", "a"))


def tell(store: Store, worker: MemberId, claimed: ClaimedRun, scope: ScopeReport) -> bool:
    """Report a scope."""
    (is_ours,) = store.report(worker, [Report(hold=claimed.hold, scope=scope)])
    return is_ours


def repaired(store: Store, worker: MemberId, run_id: RunId, text: str = "repair") -> ClaimedRun:
    """Rerun a run as a repair, and claim it."""
    rerun(store, run_id, text, is_repair=True)
    return work.take_one(store, worker)


class ScopeOfRuns:
    """What `report`, `finish_runs` and `get_scope` promise about scope."""

    def test_what_is_expected_and_done_is_counted(self, store: Store) -> None:
        """E6: told in reports, and with the end."""
        worker, claimed = work.queue_and_take(store)
        assert Scope() == store.get_scope(claimed.run_id)

        assert tell(store, worker, claimed, ALL)
        assert Scope(3, 2, 0, ("c",)) == store.get_scope(claimed.run_id)
        work.end(store, worker, claimed, Succeeded(), scope=ScopeReport(done=("c",)))

        scope = store.get_scope(claimed.run_id)
        assert Scope(3, 3, 0, ()) == scope
        assert Finding.PRESENT is scope.finding
        assert [] == store.check()

    def test_the_same_attempt_saying_it_twice_says_it_once(self, store: Store) -> None:
        """E6, INV-17: a lost answer is no second time; another attempt's word is."""
        worker, claimed = work.queue_and_take(store)
        for _ in range(2):
            tell(store, worker, claimed, ScopeReport(expected=2, done=("a", "a")))
        assert Scope(2, 1, 0, ()) == store.get_scope(claimed.run_id)
        work.end(store, worker, claimed, Succeeded())

        again = repaired(store, worker, claimed.run_id)
        tell(store, worker, again, ScopeReport(done=("a", "b")))

        assert Scope(2, 2, 1, ()) == store.get_scope(claimed.run_id)
        assert store.get_scope(claimed.run_id) == store.get_scope(again.run_id)

    def test_what_is_done_is_told_to_whoever_goes_on(self, store: Store) -> None:
        """E6: by any attempt of the line; expected and unheard of is not done."""
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
        """E6."""
        worker, claimed = work.queue_and_take(store)
        work.end(store, worker, claimed, Succeeded(), scope=ALL)

        anew = rerun(store, claimed.run_id)

        assert Scope() == store.get_scope(anew.id)

    def test_who_no_longer_holds_the_run_says_nothing_about_its_scope(
        self, store: Store, clock: ManualClock
    ) -> None:
        """E6, INV-5."""
        worker, claimed = work.queue_and_take(store)
        clock.advance(WORKER_TTL_US)
        work.settle(store, work.maintain(store), *work.lost_claims(store))

        assert not tell(store, worker, claimed, ALL)
        work.end(store, worker, claimed, Succeeded(), scope=ALL)

        assert Scope() == store.get_scope(claimed.run_id)


class FollowingUp:
    """What becomes of a run that is made of one that ends."""

    def test_the_check_of_a_result_is_queued_with_the_end(self, store: Store) -> None:
        """E6: in one transaction, and once, however often the end is told."""
        worker, claimed = work.queue_and_take(store)
        check = check_of(claimed.record, claimed.fence)

        for _ in range(2):
            work.end(store, worker, claimed, Succeeded(), follow_up=check)

        assert RunState.SUCCEEDED is work.look(store, claimed.run_id).state
        made = work.look(store, check.id)
        assert (Origin.VERIFY, RunState.QUEUED) == (made.origin, made.state)
        assert (claimed.run_id, check_name("remind")) == (made.root, made.call.task)
        assert check.id == work.take_one(store, worker).run_id
        assert [] == store.check()

    def test_a_refused_end_makes_none(self, store: Store, clock: ManualClock) -> None:
        """E6, INV-5."""
        worker, claimed = work.queue_and_take(store)
        clock.advance(WORKER_TTL_US)
        work.settle(store, work.maintain(store), *work.lost_claims(store))
        check = check_of(claimed.record, claimed.fence)

        work.end(store, worker, claimed, Succeeded(), follow_up=check)

        assert store.get_run(check.id) is None

    def test_whoever_settles_a_lost_run_may_have_it_checked(
        self, store: Store, clock: ManualClock
    ) -> None:
        """E6: what is left in doubt is looked at by its own task first."""
        worker, claimed = taken(store)
        begin(store, worker, claimed)
        clock.advance(WORKER_TTL_US)
        fence = work.maintain(store)
        (lost,) = work.lost_claims(store)
        decided = work.loss_of(store, lost, LostEnd())
        check = check_of(claimed.record, claimed.fence)
        loss = Loss(decided.claim, decided.conclusion, check)

        order = SettleLost(fence=fence, losses=(loss,), overdue_us=work.OVERDUE_US)
        assert [True] == store.settle_lost(order)

        assert RunState.AMBIGUOUS is work.look(store, claimed.run_id).state
        assert RunState.QUEUED is work.look(store, check.id).state

    def test_a_batch_of_plain_ends_and_others_ends_them_all(self, store: Store) -> None:
        """E6: some close their run and no more, some are followed, some have begun effects."""
        store.register_policies({"remind": UNSAFE})
        for text in "abcd":
            work.queue(store, text)
        worker = work.join(store)
        plain, followed, scoped, begun = work.take(store, worker)
        done(store, worker, begun)
        check = check_of(followed.record, followed.fence)
        ends: list[Finish] = [
            finish(plain, Succeeded()),
            finish(followed, Succeeded(), follow_up=check),
            finish(scoped, Succeeded(), scope=ALL),
            finish(begun, Succeeded()),
        ]

        store.finish_runs(worker, ends)

        for one in (plain, followed, scoped, begun):
            assert RunState.SUCCEEDED is work.look(store, one.run_id).state
        assert RunState.QUEUED is work.look(store, check.id).state
        assert 2 == store.get_scope(scoped.run_id).done
        (attempt,) = store.list_attempts(begun.run_id)
        assert attempt.effects_at is not None
        assert [] == store.check()


class ForgettingLines:
    """What `prune` promises about effects, scope and verdicts."""

    def test_what_runs_have_in_common_goes_with_the_last_of_them(
        self, store: Store, clock: ManualClock
    ) -> None:
        """D6, E3: a repair that is still there must know what was done."""
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
        """D6, E6."""
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
        """D6, E2."""
        claimed = in_doubt(store)
        before = work.look(store, claimed.run_id)
        clock.advance(1000 * HOUR_US)

        assert 0 == prune(store, NOTHING_KEPT).counts[PruneKind.OUTCOMES]

        assert before == work.look(store, claimed.run_id)
        assert [EffectState.UNKNOWN] == [one.state for one in store.list_effects(before.id, 10)]


class BackfilledLines:
    """What backfills promise about runs that have had effects."""

    @pytest.mark.parametrize("mode", BackfillMode)
    def test_what_failed_is_made_good_and_what_is_redone_begins_anew(
        self, store: Store, clock: ManualClock, mode: BackfillMode
    ) -> None:
        """M2, E3, E7: an effect that was done is done once more only by who redoes all of it."""
        record = backfills.past(store, clock)
        fence = steps.own(store)
        backfills.step(store, backfills.begun(store, record), fence=fence, count=1)
        worker = work.join(store)
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
        """M2, E2: a backfill leaves no more doubt behind than it may have runs open."""
        record = backfills.past(store, clock)
        backfill = backfills.begun(store, record, concurrency=1)
        fence = steps.own(store)
        backfills.step(store, backfill, fence=fence)
        worker = work.join(store)
        claimed = work.take_one(store, worker)
        begin(store, worker, claimed)
        end_beyond(store, worker, claimed, Failed("boom"))

        assert FireResult.BUSY is backfills.step(store, backfill, fence=fence).result
        settle(store, claimed.run_id, Choice.RECONCILE, is_done=True)
        assert 1 == backfills.step(store, backfill, fence=fence).made


class RerunsAtGates:
    """What reruns and settled doubts mean for other runs of the same schedule, or line."""

    @pytest.mark.parametrize("policy", [Overlap.QUEUE_ALL, Overlap.SKIP])
    def test_the_next_occurrence_finds_a_rerun_in_its_way(
        self, store: Store, clock: ManualClock, policy: Overlap
    ) -> None:
        """O1, A3."""
        record = fired(store, clock, policy)
        worker = work.join(store, ttl_us=10 * HOUR_US)
        claimed = work.take_one(store, worker)
        work.end(store, worker, claimed, Succeeded())
        again = rerun(store, claimed.run_id)

        steps.fire_due(store, clock, steps.look(store, record))

        waiting = ["blocked"] if policy is Overlap.QUEUE_ALL else []
        assert sorted(["succeeded", "queued", *waiting]) == sorted(states(store, record))
        assert again.id == work.take_one(store, worker).run_id
        assert [] == store.check()

    def test_a_rerun_waits_for_a_run_that_is_open(self, store: Store, clock: ManualClock) -> None:
        """O1, A3."""
        fired(store, clock, Overlap.QUEUE_ALL, times=2)
        worker = work.join(store, ttl_us=10 * HOUR_US)
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
        """O1, A3: and nothing is changed."""
        record = fired(store, clock, Overlap.SKIP)
        worker = work.join(store, ttl_us=10 * HOUR_US)
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
        """O1, E2: also the run of another schedule."""
        store.register_policies({"report": UNSAFE})
        first, second = (made(store, Overlap.SERIALIZE, name) for name in ("first", "second"))
        steps.fire_due(store, clock, first)
        worker = work.join(store, ttl_us=10 * HOUR_US)
        claimed = work.take_one(store, worker)
        begin(store, worker, claimed)
        end_beyond(store, worker, claimed, Failed("boom"))

        steps.fire_due(store, clock, second)

        assert ["blocked"] == states(store, second)
        assert 0 == store.open_gates(10)
        settle(store, claimed.run_id, Choice.SKIP)
        assert ["queued"] == states(store, second)
        assert [] == store.check()

    def test_one_that_goes_on_keeps_its_gate(self, store: Store, clock: ManualClock) -> None:
        """O1, E5."""
        store.register_policies({"report": UNSAFE})
        record = fired(store, clock, Overlap.QUEUE_ALL, times=2)
        worker = work.join(store, ttl_us=10 * HOUR_US)
        claimed = work.take_one(store, worker)
        begin(store, worker, claimed)
        end_beyond(store, worker, claimed, Failed("boom"))

        settle(store, claimed.run_id, Choice.RETRY)

        assert ["queued", "blocked"] == states(store, record)
        again = work.take_one(store, worker)
        assert claimed.run_id == again.run_id
        work.end(store, worker, again, Succeeded())
        assert ["succeeded", "queued"] == states(store, record)
        assert [] == store.check()

    def test_a_settled_doubt_leaves_alone_what_another_run_of_the_line_intends(
        self, store: Store
    ) -> None:
        """E3, E5: that run says itself what has become of it."""
        worker, first = taken(store)
        work.end(store, worker, first, Succeeded())
        doubtful = repaired(store, worker, first.run_id, "one")
        begin(store, worker, doubtful, "mail")
        end_beyond(store, worker, doubtful, Failed("boom"))
        rerun(store, first.run_id, "two", is_repair=True)
        other = work.take_one(store, worker)
        assert Grant.GRANTED is begin(store, worker, other, "letter").grant

        settle(store, doubtful.run_id, Choice.RETRY)

        ledger = {one.key: one.state for one in store.list_effects(first.run_id, 10)}
        assert {"letter": EffectState.INTENDED} == ledger
        order = EndEffect(worker=worker, hold=other.hold, key="letter")
        assert store.end_effect(order)

    def test_an_effect_that_is_taken_back_may_be_intended_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        """E3: what earlier attempts left stays unknown, and is granted to who may repeat it."""
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
