"""Doubt settled: the part of the contract about what people and checks decide, and about reruns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from duly.domain.advice import Choice
from duly.domain.attempts import Reason
from duly.domain.concluding import Failed, Snoozed, Succeeded
from duly.domain.effects import EffectState, Grant
from duly.domain.identity import ordered_run_id
from duly.domain.literals import Finding, Origin, Overlap, RunState
from duly.domain.schedules import TENANT_DEFAULT
from duly.errors import Conflict, NotFound
from duly.store.effects import AddVerdict, OrderTask, Rerun, SettleDoubt, TaskOrder
from duly.store.execution import SaveCheckpoint
from duly.store.operating import OrderRuns
from duly.testing.conformance import steps
from duly.testing.conformance import work_steps as work
from duly.testing.conformance.effects import UNSAFE, begin, done, end_beyond, in_doubt, taken
from duly.testing.conformance.overlap_steps import fired, states
from duly.testing.factories import ADA, HOUR_US, cancel
from duly.testing.snapshot import snapshot

if TYPE_CHECKING:
    from duly.domain.identity import RunId
    from duly.domain.runs import RunRecord
    from duly.store.execution import ClaimedRun
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock


def settle(store: Store, run_id: RunId, choice: Choice, **parts: Any) -> RunRecord:
    """Settle a doubt."""
    order = SettleDoubt(tenant=TENANT_DEFAULT, id=run_id, choice=choice, actor=ADA)
    return store.settle_doubt(replace(order, **parts))


def verdict(claimed: ClaimedRun, finding: Finding, evidence: str | None = None) -> AddVerdict:
    """Return what a check has found that looked into the doubt which a claim has left."""
    return AddVerdict(
        run_id=claimed.run_id, finding=finding, evidence=evidence, by="check", doubt=claimed.fence
    )


def rerun(store: Store, run_id: RunId, text: str = "again", **parts: Any) -> RunRecord:
    """Run something once more."""
    new_id = ordered_run_id("rerun", 0, text.encode().ljust(10, b"."))
    order = Rerun(tenant=TENANT_DEFAULT, id=run_id, new_id=new_id, actor=ADA)
    return store.rerun_run(replace(order, **parts))


class SettlingDoubt:
    """What `settle_doubt` promises."""

    @pytest.mark.parametrize("choice", [Choice.RETRY, Choice.RESUME])
    def test_it_goes_on_as_the_same_run_with_a_fresh_budget(
        self, store: Store, choice: Choice
    ) -> None:
        """E5, R1: numbers go on; the reason and the choice are on record."""
        claimed = in_doubt(store)

        record = settle(store, claimed.run_id, choice, advised="reconcile")

        assert RunState.QUEUED is record.state
        assert (1, 1, 0) == record.tries[:3]
        (entry,) = steps.audit(store, action="run.settled")
        assert (ADA, claimed.run_id) == (entry.actor, entry.subject_id)
        assert entry.after is not None
        assert (choice, "reconcile") == (entry.after["choice"], entry.after["advised"])
        assert ([], 0) == (store.list_doubts(None, 10), store.status().ambiguous)
        assert (2, 2) == work.take_one(store, work.join(store)).tries[:2]
        assert [] == store.check()

    def test_what_nobody_knew_counts_as_the_person_says(self, store: Store) -> None:
        """E5: named as done, it is not done again; the others are not done, and may be."""
        worker, claimed = taken(store)
        done(store, worker, claimed, "first")
        for key in ("second", "third"):
            begin(store, worker, claimed, key)
        end_beyond(store, worker, claimed, Failed("boom"))

        settle(store, claimed.run_id, Choice.RETRY, effects={"second": True})

        again = work.take_one(store, worker)
        grants = [begin(store, worker, again, key).grant for key in ("first", "second", "third")]
        assert [Grant.DONE, Grant.DONE, Grant.GRANTED] == grants

    @pytest.mark.parametrize(("choice", "kept"), [(Choice.RETRY, {}), (Choice.RESUME, {"": "7"})])
    def test_resuming_keeps_checkpoints_and_retrying_begins_anew(
        self, store: Store, choice: Choice, kept: dict[str, str]
    ) -> None:
        """E5, R5."""
        worker, claimed = taken(store)
        saved = SaveCheckpoint(worker=worker, hold=claimed.hold, partition="", state="7")
        assert store.save_checkpoint(saved)
        begin(store, worker, claimed)
        end_beyond(store, worker, claimed, Failed("boom"))

        settle(store, claimed.run_id, choice)

        assert kept == store.get_checkpoints(claimed.run_id)

    @pytest.mark.parametrize(
        ("parts", "state", "reason"),
        [
            (
                {"choice": Choice.RECONCILE, "is_done": True},
                RunState.SUCCEEDED,
                Reason.RECONCILED,
            ),
            ({"choice": Choice.RECONCILE}, RunState.FAILED, Reason.RECONCILED),
            ({"choice": Choice.SKIP}, RunState.SKIPPED, Reason.ORDERED),
        ],
    )
    def test_a_person_closes_it(
        self, store: Store, parts: dict[str, Any], state: RunState, reason: str
    ) -> None:
        """E5, INV-6: one outcome, with what the person looked at."""
        claimed = in_doubt(store)

        record = settle(store, claimed.run_id, evidence="payout 77 is there", **parts)

        assert (state, reason) == (record.state, record.state_reason)
        assert record.finished_at == store.now()
        (entry,) = steps.audit(store, action="run.settled")
        assert entry.after is not None
        assert "payout 77 is there" == entry.after["evidence"]
        assert [] == store.check()

    def test_closing_it_gives_its_gate_back(self, store: Store, clock: ManualClock) -> None:
        """O1."""
        store.register_policies({"report": UNSAFE})
        schedule = fired(store, clock, Overlap.QUEUE_ALL, times=2)
        worker = work.join(store, ttl_us=10 * HOUR_US)
        claimed = work.take_one(store, worker)
        begin(store, worker, claimed)
        end_beyond(store, worker, claimed, Failed("boom"))

        settle(store, claimed.run_id, Choice.RECONCILE, is_done=True)

        store.open_gates(10)
        assert ["succeeded", "queued"] == states(store, schedule)

    def test_only_one_that_is_in_doubt_can_be_settled(self, store: Store) -> None:
        """E5, L2: and only within its tenant; nothing is half done."""
        claimed = in_doubt(store)
        other = work.queue(store, "b")
        before = snapshot(store)

        with pytest.raises(Conflict, match="is not in doubt but queued"):
            settle(store, other, Choice.RETRY)
        with pytest.raises(NotFound):
            settle(store, claimed.run_id, Choice.RETRY, tenant="elsewhere")
        with pytest.raises(Conflict, match="rerun it"):
            settle(store, claimed.run_id, Choice.REPAIR)
        assert before == snapshot(store)

    def test_two_people_settle_it_once(self, store: Store) -> None:
        """E5, INV-6."""
        claimed = in_doubt(store)
        settle(store, claimed.run_id, Choice.RECONCILE, is_done=True)

        with pytest.raises(Conflict, match="is not in doubt but succeeded"):
            settle(store, claimed.run_id, Choice.RETRY)

    def test_an_order_about_a_doubt_settles_no_later_one(self, store: Store) -> None:
        """E5, INV-11, INV-17: sent twice, or decided by what was seen before another has tried."""
        first = in_doubt(store)
        settle(store, first.run_id, Choice.RETRY, doubt=first.fence)
        worker = work.join(store)
        again = work.take_one(store, worker)
        begin(store, worker, again)
        end_beyond(store, worker, again, Failed("boom"))
        before = snapshot(store)

        with pytest.raises(Conflict, match="is in doubt anew; look at it again"):
            settle(store, first.run_id, Choice.RETRY, doubt=first.fence)

        assert before == snapshot(store)
        settle(store, first.run_id, Choice.SKIP, doubt=again.fence)
        assert RunState.SKIPPED is work.look(store, first.run_id).state


class Reruns:
    """What `rerun_run` and orders about tasks promise."""

    @pytest.mark.parametrize("is_repair", [True, False])
    def test_another_run_does_it_once_more(
        self, store: Store, clock: ManualClock, *, is_repair: bool
    ) -> None:
        """A3, R1: a run of its own, that says what it repeats and why."""
        worker, claimed = taken(store)
        work.end(store, worker, claimed, Succeeded())
        clock.advance(HOUR_US)

        record = rerun(store, claimed.run_id, is_repair=is_repair)

        old = work.look(store, claimed.run_id)
        origin = Origin.REPAIR if is_repair else Origin.RERUN
        assert (origin, old.id, RunState.QUEUED) == (record.origin, record.root, record.state)
        assert (old.call, old.scheduled_for) == (record.call, record.scheduled_for)
        assert RunState.SUCCEEDED is old.state
        assert record.id == work.take_one(store, work.join(store)).run_id
        assert record.id == rerun(store, claimed.run_id, is_repair=is_repair).id
        (entry,) = steps.audit(store, action="run.rerun")
        assert record.id == entry.subject_id
        assert [] == store.check()

    def test_a_repair_shares_the_ledger_and_a_rerun_begins_its_own(self, store: Store) -> None:
        """E3, E7: also the repair of a repair; who shares it shares the idempotency key."""
        worker, claimed = taken(store)
        done(store, worker, claimed)
        work.end(store, worker, claimed, Succeeded())

        repair = rerun(store, claimed.run_id, "repair", is_repair=True)
        first = work.take_one(store, worker)
        assert Grant.DONE is begin(store, worker, first).grant
        assert Grant.GRANTED is begin(store, worker, first, "more").grant
        end_beyond(store, worker, first, Succeeded())
        second = rerun(store, repair.id, "once more", is_repair=True)
        assert (claimed.run_id, claimed.run_id) == (second.root, second.line)
        anew = rerun(store, claimed.run_id, "rerun")
        assert (claimed.run_id, anew.id) == (anew.root, anew.line)
        taken_now = {one.run_id: one for one in work.take(store, worker)}

        assert Grant.DONE is begin(store, worker, taken_now[second.id]).grant
        assert Grant.GRANTED is begin(store, worker, taken_now[anew.id]).grant
        assert [EffectState.INTENDED] == [one.state for one in store.list_effects(anew.id, 10)]

    def test_a_run_in_doubt_is_closed_by_its_repair(self, store: Store) -> None:
        """E5: what it did stays in the ledger, unknown."""
        claimed = in_doubt(store)
        with pytest.raises(Conflict, match="settle it first, or rerun it as a repair"):
            rerun(store, claimed.run_id)

        repair = rerun(store, claimed.run_id, is_repair=True)

        old = work.look(store, claimed.run_id)
        assert (RunState.FAILED, Reason.RECONCILED) == (old.state, old.state_reason)
        assert [EffectState.UNKNOWN] == [one.state for one in store.list_effects(repair.id, 10)]

    def test_what_is_still_to_end_is_not_run_beside_itself(self, store: Store) -> None:
        """A1."""
        run_id = work.queue(store)

        with pytest.raises(Conflict, match="is still to end"):
            rerun(store, run_id)
        with pytest.raises(NotFound):
            rerun(store, run_id, tenant="elsewhere")

    def test_what_was_called_off_before_its_time_is_not_repeated_early(
        self, store: Store, clock: ManualClock
    ) -> None:
        """F1, A1."""
        pending = steps.delay(store, clock.now_us() + HOUR_US)
        store.cancel_delayed(cancel(pending.id))

        with pytest.raises(Conflict, match=r"was to fall due at .* enqueue another one for then"):
            rerun(store, pending.id)

        clock.advance(HOUR_US)
        assert RunState.QUEUED == rerun(store, pending.id).state

    def test_what_had_another_attempt_since_it_was_seen_is_left_alone(self, store: Store) -> None:
        """A1: a run that died once more is not the one that somebody looked at."""
        run_id = work.make_dead(store)
        seen = work.look(store, run_id).tries.fence
        store.retry_runs(OrderRuns(tenant=TENANT_DEFAULT, ids=(run_id,), actor=ADA))
        worker = work.join(store)
        work.end(store, worker, work.take_one(store, worker), work.FATAL)

        with pytest.raises(Conflict, match="has had another attempt since it was seen"):
            rerun(store, run_id, fence=seen)

        assert [] == steps.audit(store, action="run.rerun")
        assert RunState.QUEUED == rerun(store, run_id, fence=seen + 1).state

    def test_what_was_run_once_more_since_it_was_seen_is_left_alone(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A1: nor is another run of its line; but the same order given again is that order."""
        run_id = work.make_dead(store)
        clock.advance(HOUR_US)
        seen_at = store.now()
        first = rerun(store, run_id, "first", alone_since=seen_at)

        with pytest.raises(Conflict, match="has been run once more since it was seen"):
            rerun(store, run_id, "second", alone_since=seen_at)

        assert first.id == rerun(store, run_id, "first", alone_since=seen_at).id
        worker = work.join(store)
        work.end(store, worker, work.take_one(store, worker), work.FATAL)
        with pytest.raises(Conflict, match="has been run once more since it was seen"):
            rerun(store, first.id, "third", alone_since=seen_at)
        clock.advance(HOUR_US)
        rerun(store, run_id, "fourth", alone_since=store.now())
        assert 2 == len(steps.audit(store, action="run.rerun"))

    def test_reruns_of_a_task_can_be_blocked(self, store: Store) -> None:
        """A1: on record, and until they are allowed again."""
        worker, claimed = taken(store)
        work.end(store, worker, claimed, Succeeded())
        block = OrderTask(task="remind", actor=ADA, is_blocked=True)

        assert TaskOrder(is_blocked=True) == store.order_task(block)
        store.order_task(block)

        with pytest.raises(Conflict, match="has its reruns blocked"):
            rerun(store, claimed.run_id)
        assert {"remind": TaskOrder(is_blocked=True)} == dict(store.task_orders())
        assert 1 == len(steps.audit(store, action="task.ordered"))
        store.order_task(replace(block, is_blocked=False))
        assert {} == dict(store.task_orders())
        rerun(store, claimed.run_id)

    def test_retries_of_a_task_can_be_suspended(self, store: Store) -> None:
        """A1: what fails waits for a person; what only asks to be run later does."""
        worker, claimed = taken(store)
        store.order_task(OrderTask(task="remind", actor=ADA, is_suspended=True))

        work.end(store, worker, claimed, Failed("boom"))

        record = work.look(store, claimed.run_id)
        assert (RunState.DEAD, Reason.SUSPENDED) == (record.state, record.state_reason)
        snoozed = work.queue(store, "b")
        work.end(store, worker, work.take_one(store, worker), Snoozed(HOUR_US))
        assert RunState.RETRYING is work.look(store, snoozed).state


class CheckingResults:
    """What `add_verdict` promises."""

    def test_a_verdict_is_kept_with_its_evidence_and_changes_no_outcome(self, store: Store) -> None:
        """E6: succeeded and verified are different facts."""
        worker, claimed = taken(store)
        work.end(store, worker, claimed, Succeeded())
        before = work.look(store, claimed.run_id)

        for finding in (Finding.PARTIAL, Finding.PRESENT):
            found = AddVerdict(
                run_id=claimed.run_id, finding=finding, evidence='{"rows": 3}', by="check"
            )
            store.add_verdict(found)

        verdicts = store.list_verdicts(claimed.run_id)
        assert [(1, Finding.PARTIAL), (2, Finding.PRESENT)] == [
            (one.number, one.finding) for one in verdicts
        ]
        assert ('{"rows": 3}', "check") == (verdicts[0].evidence, verdicts[0].by)
        assert before == work.look(store, claimed.run_id)
        assert 2 == len(steps.audit(store, action="run.verdict"))

    @pytest.mark.parametrize(
        ("finding", "state"),
        [
            (Finding.PRESENT, RunState.SUCCEEDED),
            (Finding.ABSENT, RunState.QUEUED),
            (Finding.PARTIAL, RunState.AMBIGUOUS),
            (Finding.UNKNOWN, RunState.AMBIGUOUS),
        ],
    )
    def test_a_check_settles_a_doubt_only_when_it_is_sure(
        self, store: Store, finding: Finding, state: RunState
    ) -> None:
        """E6, INV-11."""
        claimed = in_doubt(store)

        store.add_verdict(verdict(claimed, finding))

        assert state is work.look(store, claimed.run_id).state
        ledger = [one.state for one in store.list_effects(claimed.run_id, 10)]
        assert ([] if state is RunState.QUEUED else [EffectState.UNKNOWN]) == ledger
        assert [] == store.check()

    @pytest.mark.parametrize("finding", Finding)
    def test_what_was_looked_at_before_it_was_tried_again_settles_nothing(
        self, store: Store, finding: Finding
    ) -> None:
        """E6, INV-11: that it was absent then does not say that it is absent now."""
        first = in_doubt(store)
        settle(store, first.run_id, Choice.RETRY)
        worker = work.join(store)
        again = work.take_one(store, worker)
        store.add_verdict(verdict(first, finding))
        assert RunState.RUNNING is work.look(store, first.run_id).state
        begin(store, worker, again)
        end_beyond(store, worker, again, Failed("boom"))

        store.add_verdict(verdict(first, finding))

        assert RunState.AMBIGUOUS is work.look(store, first.run_id).state
        kept = [(one.finding, one.doubt) for one in store.list_verdicts(first.run_id)]
        assert [(finding, first.fence)] * 2 == kept

    def test_there_is_no_verdict_about_nothing(self, store: Store) -> None:
        """E6."""
        found = AddVerdict(run_id=_NO_RUN, finding=Finding.PRESENT, evidence=None, by="check")

        with pytest.raises(NotFound):
            store.add_verdict(found)


_NO_RUN = ordered_run_id("verify", 0, b"no such run")
