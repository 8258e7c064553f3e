"""What every store must do about effects and ambiguous runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from duly.domain.effects import LEAST_TIME_LEFT_US, Choice, EffectState, Grant
from duly.domain.enums import AttemptState, Effects, Finding, Origin, Overlap, RunState
from duly.domain.ids import ordered_run_id
from duly.domain.outcomes import (
    CancelledEnd,
    Failed,
    ReturnedToQueue,
    Snoozed,
    Succeeded,
    TimedOut,
    WorkerLost,
)
from duly.domain.policies import Retry
from duly.domain.runs import Reason, TaskPolicy
from duly.domain.schedules import TENANT_DEFAULT
from duly.domain.verification import ItemReport
from duly.errors import Conflict, NotFound
from duly.store.ports.effects import (
    AddVerdict,
    BeginEffect,
    EndEffect,
    OrderTask,
    Rerun,
    ResolveAmbiguousRun,
    TaskOrder,
)
from duly.store.ports.execution import (
    WORKER_TTL_US,
    ClaimRef,
    FinishResult,
    Report,
    SaveCheckpoint,
)
from duly.store.ports.operations import OrderRuns
from duly_conformance import steps
from duly_conformance import steps as work
from duly_conformance.kit import ADA, HOUR_US, SECOND_US, cancel, cancel_run, order_runs, snapshot
from duly_conformance.steps import fired, states

if TYPE_CHECKING:
    from duly.domain.ids import RunId
    from duly.domain.outcomes import End
    from duly.domain.runs import RunRecord
    from duly.engine.manual_clock import ManualClock
    from duly.store.ports import Store
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.effects import EffectGrant
    from duly.store.ports.execution import ClaimedRun


UNSAFE = TaskPolicy(effects=Effects.UNSAFE, retry=Retry(5, base="1s"), timeout_us=HOUR_US)
UNHEARD: tuple[End, ...] = (
    WorkerLost(),
    Failed("boom"),
    TimedOut(Reason.TIMEOUT),
    CancelledEnd(),
    ReturnedToQueue(Reason.SHUTDOWN, is_started=True),
)


def taken(store: Store, text: str = "a", **parts: Any) -> tuple[MemberId, ClaimedRun]:
    """Return a worker and the run of an unsafe task that it holds."""
    store.register_policies({"remind": UNSAFE})
    return work.queue_and_take(store, text, **parts)


def begin(
    store: Store, worker: MemberId, claimed: ClaimedRun, key: str | None = "mail", **parts: Any
) -> EffectGrant:
    """Ask for permission."""
    order = BeginEffect(worker=worker, hold=claimed.hold, effects=Effects.UNSAFE, key=key)
    return store.begin_effect(replace(order, **parts))


def done(store: Store, worker: MemberId, claimed: ClaimedRun, key: str = "mail") -> None:
    """Do an effect."""
    assert begin(store, worker, claimed, key).grant is Grant.GRANTED
    order = EndEffect(worker=worker, hold=claimed.hold, key=key, result='"sent"')
    assert store.end_effect(order)


def end_beyond(store: Store, worker: MemberId, claimed: ClaimedRun, how: End) -> FinishResult:
    """End an unsafe attempt that has begun its effects."""
    return work.end(store, worker, claimed, how, policy=UNSAFE, has_begun_effects=True)


def in_doubt(store: Store, text: str = "a", key: str | None = "mail", **parts: Any) -> ClaimedRun:
    """Return a run that is in doubt."""
    worker, claimed = taken(store, text, **parts)
    assert begin(store, worker, claimed, key).grant is Grant.GRANTED
    assert FinishResult.ACCEPTED == end_beyond(store, worker, claimed, Failed("boom"))
    store.leave(worker)
    return claimed


class PermittingEffects:
    """What `begin_effect` and the ledger promise."""

    def test_a_permission_is_on_record_before_it_is_used(
        self, store: Store, clock: ManualClock
    ) -> None:
        """On the claim, the first time, and in the ledger as intended."""
        worker, claimed = taken(store)
        at = clock.now_us()

        begun = begin(store, worker, claimed)
        clock.advance(SECOND_US)
        begin(store, worker, claimed, "other")

        assert Grant.GRANTED is begun.grant
        assert at == begun.now
        (attempt,) = store.list_attempts(claimed.run_id, 10)
        assert at == attempt.effects_at
        ledger = store.list_effects(claimed.run_id, 10)
        assert [("mail", EffectState.INTENDED), ("other", EffectState.INTENDED)] == [
            (one.key, one.state) for one in ledger
        ]
        assert (claimed.run_id, *claimed.hold, at) == (
            ledger[0].root,
            ledger[0].run_id,
            ledger[0].fence,
            ledger[0].begun_at,
        )
        assert [] == store.check()

    def test_all_effects_at_once_need_no_key_and_leave_no_entry(self, store: Store) -> None:
        worker, claimed = taken(store)

        assert Grant.GRANTED is begin(store, worker, claimed, None).grant

        assert [] == store.list_effects(claimed.run_id, 10)
        (attempt,) = store.list_attempts(claimed.run_id, 10)
        assert attempt.effects_at is not None

    @pytest.mark.parametrize("key", [None, "mail"])
    def test_who_no_longer_holds_the_run_gets_no_permission(
        self, store: Store, key: str | None
    ) -> None:
        """INV-5: fenced, and nothing changes."""
        worker, claimed = taken(store)
        before = snapshot(store)
        stale = ClaimRef(claimed.run_id, claimed.fence - 1)

        assert Grant.GONE is begin(store, worker, claimed, key, hold=stale).grant
        other = work.join_worker(store)
        before = snapshot(store)
        assert Grant.GONE is begin(store, other, claimed, key).grant
        assert before == snapshot(store)

    def test_nothing_is_begun_once_somebody_asked_the_run_to_stop(self, store: Store) -> None:
        worker, claimed = taken(store)
        store.cancel_run(cancel_run(claimed.run_id))

        assert Grant.STOPPING is begin(store, worker, claimed).grant
        assert [] == store.list_effects(claimed.run_id, 10)

    def test_nothing_is_begun_that_would_be_cut_short(
        self, store: Store, clock: ManualClock
    ) -> None:
        """By the store's clock."""
        worker, claimed = taken(store)
        clock.advance(HOUR_US - LEAST_TIME_LEFT_US)
        assert Grant.GRANTED is begin(store, worker, claimed, "in time").grant
        clock.advance(1)

        assert Grant.TOO_LATE is begin(store, worker, claimed, "too late").grant

    def test_an_effect_that_is_done_keeps_its_result_and_is_not_done_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Not by this attempt, and not by the next."""
        worker, claimed = taken(store)
        done(store, worker, claimed)

        assert Grant.DONE is begin(store, worker, claimed).grant
        work.end(store, worker, claimed, Failed("later"))
        work.fire_retries(store, clock)
        again = work.take_one(store, worker)
        begun = begin(store, worker, again)

        assert Grant.DONE is begun.grant
        assert begun.record is not None
        assert '"sent"' == begun.record.result
        assert [EffectState.DONE] == [one.state for one in store.list_effects(again.run_id, 10)]

    def test_what_an_attempt_left_open_is_unknown(self, store: Store, clock: ManualClock) -> None:
        """However it ended, and to an unsafe task it is never permitted again."""
        worker, claimed = taken(store)
        begin(store, worker, claimed)
        work.end(store, worker, claimed, Failed("not done", is_undone=True))
        (known,) = store.list_effects(claimed.run_id, 10)
        assert EffectState.UNKNOWN is known.state
        work.fire_retries(store, clock)
        again = work.take_one(store, worker)

        assert Grant.UNKNOWN is begin(store, worker, again).grant
        granted = begin(store, worker, again, effects=Effects.IDEMPOTENT)
        assert Grant.GRANTED is granted.grant
        assert granted.record is not None
        assert (2, EffectState.INTENDED) == (granted.record.tries, granted.record.state)

    def test_an_intention_is_taken_back_when_nothing_has_happened(
        self, store: Store, clock: ManualClock
    ) -> None:
        worker, claimed = taken(store)
        begin(store, worker, claimed)
        undone = EndEffect(worker=worker, hold=claimed.hold, key="mail", is_done=False)

        assert store.end_effect(undone)
        assert store.end_effect(undone)
        assert [] == store.list_effects(claimed.run_id, 10)
        assert Grant.GRANTED is begin(store, worker, claimed).grant

    def test_a_lost_answer_is_given_again(self, store: Store) -> None:
        """Asking twice is asking once; so is saying that it is done."""
        worker, claimed = taken(store)
        first = begin(store, worker, claimed)
        assert first == begin(store, worker, claimed)
        done(store, worker, claimed)
        order = EndEffect(worker=worker, hold=claimed.hold, key="mail", result='"other"')

        assert store.end_effect(order)
        (known,) = store.list_effects(claimed.run_id, 10)
        assert ('"sent"', 1) == (known.result, known.tries)

    def test_a_stale_worker_says_nothing_about_effects(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-5."""
        worker, claimed = taken(store)
        begin(store, worker, claimed)
        clock.advance(WORKER_TTL_US)
        fence = work.maintain(store)
        work.settle_lost(store, fence, *work.lost_claims(store))
        before = snapshot(store)

        for is_done in (True, False):
            order = EndEffect(worker=worker, hold=claimed.hold, key="mail", is_done=is_done)
            assert not store.end_effect(order)
        assert before == snapshot(store)


class Doubt:
    """What becomes of a run whose unsafe attempt ended unheard."""

    @pytest.mark.parametrize("end", UNHEARD)
    @pytest.mark.parametrize("key", [None, "mail"])
    def test_it_is_in_doubt_and_nobody_tries_it_again(
        self, store: Store, clock: ManualClock, end: End, key: str | None
    ) -> None:
        """INV-11."""
        worker, claimed = taken(store)
        begin(store, worker, claimed, key)

        assert FinishResult.ACCEPTED == end_beyond(store, worker, claimed, end)

        record = work.get_run(store, claimed.run_id)
        assert RunState.AMBIGUOUS is record.state
        assert (1, 1, 1) == record.tries[:3]
        clock.advance(1000 * HOUR_US)
        assert () == steps.load(store, 1 << 60)
        assert [] == work.take(store, work.join_worker(store))
        assert 1 == store.status().ambiguous
        (doubt,) = store.list_doubts(None, 10)
        assert (record, record.state_reason) == (doubt.run, doubt.reason)
        (entry,) = steps.audit(store, action="run.ambiguous")
        assert claimed.run_id == entry.subject_id
        assert [] == store.check()

    def test_a_worker_that_is_lost_beyond_the_boundary_leaves_doubt(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-11: whoever settles the claim sees that effects had begun."""
        worker, claimed = taken(store)
        at = begin(store, worker, claimed).now
        clock.advance(WORKER_TTL_US)
        fence = work.maintain(store)
        (lost,) = work.lost_claims(store)
        assert (at, UNSAFE) == (lost.effects_at, lost.policy)

        assert [True] == work.settle_lost(store, fence, lost)

        assert RunState.AMBIGUOUS is work.get_run(store, claimed.run_id).state
        assert [EffectState.UNKNOWN] == [
            one.state for one in store.list_effects(claimed.run_id, 10)
        ]
        (attempt,) = store.list_attempts(claimed.run_id, 10)
        assert (AttemptState.LOST, at) == (attempt.state, attempt.effects_at)

    @pytest.mark.parametrize("policies", [{"remind": TaskPolicy()}, {}])
    def test_what_is_declared_of_its_task_elsewhere_makes_nothing_repeatable(
        self, store: Store, clock: ManualClock, policies: dict[str, TaskPolicy]
    ) -> None:
        """INV-11, INV-25: the class under which effects were begun stays with the claim."""
        worker, claimed = work.queue_and_take(store)
        begin(store, worker, claimed)
        store.register_policies(policies)
        clock.advance(WORKER_TTL_US)

        (lost,) = work.lost_claims(store)

        assert Effects.UNSAFE is lost.policy.effects
        assert [True] == work.settle_lost(store, work.maintain(store), lost)
        assert RunState.AMBIGUOUS is work.get_run(store, claimed.run_id).state

    def test_the_first_task_that_is_unsafe_shuts_older_programs_out(self, store: Store) -> None:
        """Once, and on record; other tasks shut nobody out."""
        store.register_policies({"clean": TaskPolicy(effects=Effects.PURE)})
        assert [] == steps.audit(store, action="store.restricted")

        for _ in range(2):
            store.register_policies({"remind": UNSAFE, "report": UNSAFE})

        (entry,) = steps.audit(store, action="store.restricted")
        assert {"schema_min": 4, "because_of": ["remind", "report"]} == entry.after

    @pytest.mark.parametrize("key", [None, "mail"])
    def test_a_permission_that_came_after_it_was_found_lost_is_not_overlooked(
        self, store: Store, clock: ManualClock, key: str | None
    ) -> None:
        """INV-11: what was decided without knowing of it is not carried out."""
        worker, claimed = taken(store)
        clock.advance(WORKER_TTL_US)
        fence = work.maintain(store)
        (lost,) = work.lost_claims(store)
        assert Grant.GRANTED is begin(store, worker, claimed, key).grant
        before = snapshot(store)

        assert [False] == work.settle_lost(store, fence, lost)

        assert before == snapshot(store)
        assert [True] == work.settle_lost(store, fence, *work.lost_claims(store))
        assert RunState.AMBIGUOUS is work.get_run(store, claimed.run_id).state

    def test_the_late_word_of_the_lost_worker_is_kept_beside_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Evidence, and no more."""
        worker, claimed = taken(store)
        begin(store, worker, claimed)
        clock.advance(WORKER_TTL_US)
        fence = work.maintain(store)
        work.settle_lost(store, fence, *work.lost_claims(store))

        said = end_beyond(store, worker, claimed, Succeeded('"all sent"'))

        assert FinishResult.REFUSED == said
        assert RunState.AMBIGUOUS is work.get_run(store, claimed.run_id).state
        (attempt,) = store.list_attempts(claimed.run_id, 10)
        assert attempt.late is not None
        assert (AttemptState.SUCCEEDED, '"all sent"') == (attempt.late.state, attempt.late.result)

    def test_its_gate_stays_held(self, store: Store, clock: ManualClock) -> None:
        """The next may not pass a maybe."""
        store.register_policies({"report": UNSAFE})
        record = fired(store, clock, Overlap.QUEUE_ALL, times=2)
        worker = work.join_worker(store, ttl_us=10 * HOUR_US)
        claimed = work.take_one(store, worker)
        begin(store, worker, claimed)
        end_beyond(store, worker, claimed, Failed("boom"))

        assert ["ambiguous", "blocked"] == states(store, record)
        assert 0 == store.open_gates(10)
        assert [] == work.take(store, worker)
        assert [] == store.check()

    @pytest.mark.parametrize("overlap", list(Overlap))
    def test_the_next_occurrence_takes_it_for_open(
        self, store: Store, clock: ManualClock, overlap: Overlap
    ) -> None:
        """It is waited for and never replaced, also once it goes on."""
        store.register_policies({"report": UNSAFE})
        record = fired(store, clock, overlap)
        worker = work.join_worker(store, ttl_us=100 * HOUR_US)
        claimed = work.take_one(store, worker)
        begin(store, worker, claimed)
        end_beyond(store, worker, claimed, Failed("boom"))

        record = steps.fire_due(store, clock, record)

        alone = {Overlap.ALLOW: ["queued"], Overlap.SKIP: []}
        assert ["ambiguous", *alone.get(overlap, ["blocked"])] == states(store, record)
        assert 0 == store.open_gates(10)
        assert [] == store.check()

    def test_cancelling_discarding_or_retrying_it_like_any_other_is_refused(
        self, store: Store
    ) -> None:
        """It is settled, by a choice of its own."""
        claimed = in_doubt(store)
        before = snapshot(store)

        assert [False] == [one.is_done for one in store.retry_runs(order_runs(claimed.run_id))]
        assert [False] == [one.is_done for one in store.discard_runs(order_runs(claimed.run_id))]
        with pytest.raises(Exception, match="is in doubt"):
            store.cancel_run(cancel_run(claimed.run_id))
        assert before == snapshot(store)


def settle_doubt(store: Store, run_id: RunId, choice: Choice, **parts: Any) -> RunRecord:
    """Settle a doubt."""
    order = ResolveAmbiguousRun(tenant=TENANT_DEFAULT, id=run_id, choice=choice, actor=ADA)
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
        """Numbers go on; the reason and the choice are on record."""
        claimed = in_doubt(store)

        record = settle_doubt(store, claimed.run_id, choice, advised="reconcile")

        assert RunState.QUEUED is record.state
        assert (1, 1, 0) == record.tries[:3]
        (entry,) = steps.audit(store, action="run.settled")
        assert (ADA, claimed.run_id) == (entry.actor, entry.subject_id)
        assert entry.after is not None
        assert (choice, "reconcile") == (entry.after["choice"], entry.after["advised"])
        assert ([], 0) == (store.list_doubts(None, 10), store.status().ambiguous)
        assert (2, 2) == work.take_one(store, work.join_worker(store)).tries[:2]
        assert [] == store.check()

    def test_what_nobody_knew_counts_as_the_person_says(self, store: Store) -> None:
        """Named as done, it is not done again; the others are not done, and may be."""
        worker, claimed = taken(store)
        done(store, worker, claimed, "first")
        for key in ("second", "third"):
            begin(store, worker, claimed, key)
        end_beyond(store, worker, claimed, Failed("boom"))

        settle_doubt(store, claimed.run_id, Choice.RETRY, effects={"second": True})

        again = work.take_one(store, worker)
        grants = [begin(store, worker, again, key).grant for key in ("first", "second", "third")]
        assert [Grant.DONE, Grant.DONE, Grant.GRANTED] == grants

    @pytest.mark.parametrize(
        ("parts", "grants"),
        [
            ({"is_done": True}, (Grant.DONE, Grant.DONE)),
            ({"is_done": True, "effects": {"third": False}}, (Grant.DONE, Grant.GRANTED)),
            ({"effects": {"second": True, "third": False}}, (Grant.DONE, Grant.GRANTED)),
            ({"effects": {"third": False}}, (Grant.UNKNOWN, Grant.GRANTED)),
            ({}, (Grant.UNKNOWN, Grant.UNKNOWN)),
        ],
    )
    def test_what_was_settled_when_it_was_closed_is_settled_for_its_repair(
        self, store: Store, parts: dict[str, Any], grants: tuple[Grant, Grant]
    ) -> None:
        """INV-11: what nobody has settled stays unknown, and is refused."""
        worker, claimed = taken(store)
        for key in ("second", "third"):
            begin(store, worker, claimed, key)
        end_beyond(store, worker, claimed, Failed("boom"))
        settle_doubt(store, claimed.run_id, Choice.RECONCILE, **parts)

        rerun(store, claimed.run_id, is_repair=True)

        again = work.take_one(store, worker)
        found = tuple(begin(store, worker, again, key).grant for key in ("second", "third"))
        assert grants == found
        assert [] == store.check()

    def test_what_is_recorded_as_done_has_its_effects_done(self, store: Store) -> None:
        """On record with the decision, key by key."""
        claimed = in_doubt(store)

        settle_doubt(store, claimed.run_id, Choice.RECONCILE, is_done=True)

        (effect,) = store.list_effects(claimed.run_id, 10)
        (entry,) = steps.audit(store, action="run.settled")
        assert (EffectState.DONE, entry.at) == (effect.state, effect.done_at)
        assert entry.after is not None
        assert {"mail": True} == entry.after["effects"]

    def test_what_is_closed_with_items_missing_is_closed_on_purpose(self, store: Store) -> None:
        """And never tells that it was complete."""
        worker, claimed = taken(store)
        begin(store, worker, claimed)
        told = ItemReport(expected=2, names=("a", "b"), done=("a",))
        store.report(worker, [Report(hold=claimed.hold, scope=told)])
        end_beyond(store, worker, claimed, Failed("boom"))
        before = snapshot(store)

        with pytest.raises(Conflict, match="has 1 of 2 items done"):
            settle_doubt(store, claimed.run_id, Choice.RECONCILE, is_done=True)

        assert before == snapshot(store)
        parts = {"is_done": True, "is_despite_missing": True}
        record = settle_doubt(store, claimed.run_id, Choice.RECONCILE, **parts)
        assert (RunState.SUCCEEDED, Reason.RECONCILED_INCOMPLETE) == (
            record.state,
            record.state_reason,
        )
        (entry,) = steps.audit(store, action="run.settled")
        assert entry.after is not None
        assert (True, {"mail": True}) == (entry.after["despite_missing"], entry.after["effects"])

    def test_with_all_items_done_nothing_is_missing(self, store: Store) -> None:
        """Nor of one that is recorded as failed."""
        for text, is_done, done in (("a", True, ("a", "b")), ("b", False, ("a",))):
            worker, claimed = taken(store, text)
            begin(store, worker, claimed)
            told = ItemReport(expected=2, names=("a", "b"), done=done)
            store.report(worker, [Report(hold=claimed.hold, scope=told)])
            end_beyond(store, worker, claimed, Failed("boom"))

            record = settle_doubt(store, claimed.run_id, Choice.RECONCILE, is_done=is_done)

            assert Reason.RECONCILED == record.state_reason
            store.leave(worker)

    @pytest.mark.parametrize(("choice", "kept"), [(Choice.RETRY, {}), (Choice.RESUME, {"": "7"})])
    def test_resuming_keeps_checkpoints_and_retrying_begins_anew(
        self, store: Store, choice: Choice, kept: dict[str, str]
    ) -> None:
        worker, claimed = taken(store)
        saved = SaveCheckpoint(worker=worker, hold=claimed.hold, partition="", state="7")
        assert store.save_checkpoint(saved)
        begin(store, worker, claimed)
        end_beyond(store, worker, claimed, Failed("boom"))

        settle_doubt(store, claimed.run_id, choice)

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
        """INV-6: one outcome, with what the person looked at."""
        claimed = in_doubt(store)

        record = settle_doubt(store, claimed.run_id, evidence="payout 77 is there", **parts)

        assert (state, reason) == (record.state, record.state_reason)
        assert record.finished_at == store.now()
        (entry,) = steps.audit(store, action="run.settled")
        assert entry.after is not None
        assert "payout 77 is there" == entry.after["evidence"]
        assert [] == store.check()

    def test_closing_it_gives_its_gate_back(self, store: Store, clock: ManualClock) -> None:
        store.register_policies({"report": UNSAFE})
        schedule = fired(store, clock, Overlap.QUEUE_ALL, times=2)
        worker = work.join_worker(store, ttl_us=10 * HOUR_US)
        claimed = work.take_one(store, worker)
        begin(store, worker, claimed)
        end_beyond(store, worker, claimed, Failed("boom"))

        settle_doubt(store, claimed.run_id, Choice.RECONCILE, is_done=True)

        store.open_gates(10)
        assert ["succeeded", "queued"] == states(store, schedule)

    def test_only_one_that_is_in_doubt_can_be_settled(self, store: Store) -> None:
        """And only within its tenant; nothing is half done."""
        claimed = in_doubt(store)
        other = work.queue(store, "b")
        before = snapshot(store)

        with pytest.raises(Conflict, match="is not in doubt but queued"):
            settle_doubt(store, other, Choice.RETRY)
        with pytest.raises(NotFound):
            settle_doubt(store, claimed.run_id, Choice.RETRY, tenant="elsewhere")
        with pytest.raises(Conflict, match="rerun it"):
            settle_doubt(store, claimed.run_id, Choice.REPAIR)
        assert before == snapshot(store)

    def test_two_people_settle_it_once(self, store: Store) -> None:
        """INV-6."""
        claimed = in_doubt(store)
        settle_doubt(store, claimed.run_id, Choice.RECONCILE, is_done=True)

        with pytest.raises(Conflict, match="is not in doubt but succeeded"):
            settle_doubt(store, claimed.run_id, Choice.RETRY)

    def test_an_order_about_a_doubt_settles_no_later_one(self, store: Store) -> None:
        """INV-11, INV-17: sent twice, or decided by what was seen before another has tried."""
        first = in_doubt(store)
        settle_doubt(store, first.run_id, Choice.RETRY, doubt=first.fence)
        worker = work.join_worker(store)
        again = work.take_one(store, worker)
        begin(store, worker, again)
        end_beyond(store, worker, again, Failed("boom"))
        before = snapshot(store)

        with pytest.raises(Conflict, match="is in doubt anew; look at it again"):
            settle_doubt(store, first.run_id, Choice.RETRY, doubt=first.fence)

        assert before == snapshot(store)
        settle_doubt(store, first.run_id, Choice.SKIP, doubt=again.fence)
        assert RunState.SKIPPED is work.get_run(store, first.run_id).state


class Reruns:
    """What `rerun_run` and orders about tasks promise."""

    @pytest.mark.parametrize("is_repair", [True, False])
    def test_another_run_does_it_once_more(
        self, store: Store, clock: ManualClock, *, is_repair: bool
    ) -> None:
        """A run of its own, that says what it repeats and why."""
        worker, claimed = taken(store)
        work.end(store, worker, claimed, Succeeded())
        clock.advance(HOUR_US)

        record = rerun(store, claimed.run_id, is_repair=is_repair)

        old = work.get_run(store, claimed.run_id)
        origin = Origin.REPAIR if is_repair else Origin.RERUN
        assert (origin, old.id, RunState.QUEUED) == (record.origin, record.root, record.state)
        assert (old.call, old.scheduled_for) == (record.call, record.scheduled_for)
        assert RunState.SUCCEEDED is old.state
        assert record.id == work.take_one(store, work.join_worker(store)).run_id
        assert record.id == rerun(store, claimed.run_id, is_repair=is_repair).id
        (entry,) = steps.audit(store, action="run.rerun")
        assert record.id == entry.subject_id
        assert [] == store.check()

    def test_a_repair_shares_the_ledger_and_a_rerun_begins_its_own(self, store: Store) -> None:
        """Also the repair of a repair; who shares it shares the idempotency key."""
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

    def test_a_repair_settles_the_effects_that_it_names(self, store: Store) -> None:
        """And no other; they are on record with the order."""
        worker, claimed = taken(store)
        for key in ("first", "second", "third"):
            begin(store, worker, claimed, key)
        end_beyond(store, worker, claimed, Failed("boom"))

        settled = {"first": True, "second": False}
        rerun(store, claimed.run_id, is_repair=True, effects=settled)

        again = work.take_one(store, worker)
        grants = [begin(store, worker, again, key).grant for key in ("first", "second", "third")]
        assert [Grant.DONE, Grant.GRANTED, Grant.UNKNOWN] == grants
        (entry,) = steps.audit(store, action="run.rerun")
        assert entry.after is not None
        assert settled == entry.after["effects"]

    def test_what_is_being_repaired_is_not_repaired_beside_that(self, store: Store) -> None:
        """Nor from the repair; the same order again is that order."""
        claimed = in_doubt(store)
        repair = rerun(store, claimed.run_id, "one", is_repair=True)
        before = snapshot(store)

        with pytest.raises(Conflict, match="shares its record of effects with a run that is open"):
            rerun(store, claimed.run_id, "two", is_repair=True)

        assert before == snapshot(store)
        assert repair.id == rerun(store, claimed.run_id, "one", is_repair=True).id
        rerun(store, claimed.run_id, "a rerun shares nothing")
        worker = work.join_worker(store)
        taken_now = {one.run_id: one for one in work.take(store, worker)}
        work.end(store, worker, taken_now[repair.id], Succeeded())
        later = rerun(store, claimed.run_id, "two", is_repair=True)
        with pytest.raises(Conflict, match="shares its record of effects with a run that is open"):
            rerun(store, repair.id, "three", is_repair=True)
        assert (Origin.REPAIR, claimed.run_id) == (later.origin, later.root)

    def test_of_a_long_ledger_no_unknown_effect_is_overlooked(self, store: Store) -> None:
        """Those that are done are left out first, and the order stays."""
        worker, claimed = taken(store)
        for number in range(4):
            done(store, worker, claimed, f"done {number}")
        begin(store, worker, claimed, "open")
        end_beyond(store, worker, claimed, Failed("boom"))

        listed = store.list_effects(claimed.run_id, 3)

        assert ["done 0", "done 1", "open"] == [one.key for one in listed]

    def test_a_run_in_doubt_is_closed_by_its_repair(self, store: Store) -> None:
        """What it did stays in the ledger, unknown, where the order does not say."""
        claimed = in_doubt(store)
        with pytest.raises(Conflict, match="settle it first, or rerun it as a repair"):
            rerun(store, claimed.run_id)

        repair = rerun(store, claimed.run_id, is_repair=True)

        old = work.get_run(store, claimed.run_id)
        assert (RunState.FAILED, Reason.RECONCILED) == (old.state, old.state_reason)
        assert [EffectState.UNKNOWN] == [one.state for one in store.list_effects(repair.id, 10)]

    def test_what_is_still_to_end_is_not_run_beside_itself(self, store: Store) -> None:
        run_id = work.queue(store)

        with pytest.raises(Conflict, match="is still to end"):
            rerun(store, run_id)
        with pytest.raises(NotFound):
            rerun(store, run_id, tenant="elsewhere")

    def test_what_was_called_off_before_its_time_is_not_repeated_early(
        self, store: Store, clock: ManualClock
    ) -> None:
        pending = steps.delay(store, clock.now_us() + HOUR_US)
        store.cancel_delayed(cancel(pending.id))

        with pytest.raises(Conflict, match=r"was to fall due at .* enqueue another one for then"):
            rerun(store, pending.id)

        clock.advance(HOUR_US)
        assert RunState.QUEUED == rerun(store, pending.id).state

    def test_what_had_another_attempt_since_it_was_seen_is_left_alone(self, store: Store) -> None:
        """A run that died once more is not the one that somebody looked at."""
        run_id = work.make_dead(store)
        seen = work.get_run(store, run_id).tries.fence
        store.retry_runs(OrderRuns(tenant=TENANT_DEFAULT, ids=(run_id,), actor=ADA))
        worker = work.join_worker(store)
        work.end(store, worker, work.take_one(store, worker), work.FATAL)

        with pytest.raises(Conflict, match="has had another attempt since it was seen"):
            rerun(store, run_id, fence=seen)

        assert [] == steps.audit(store, action="run.rerun")
        assert RunState.QUEUED == rerun(store, run_id, fence=seen + 1).state

    def test_what_was_run_once_more_since_it_was_seen_is_left_alone(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Nor is another run of its line; but the same order given again is that order."""
        run_id = work.make_dead(store)
        clock.advance(HOUR_US)
        seen_at = store.now()
        first = rerun(store, run_id, "first", alone_since=seen_at)

        with pytest.raises(Conflict, match="has been run once more since it was seen"):
            rerun(store, run_id, "second", alone_since=seen_at)

        assert first.id == rerun(store, run_id, "first", alone_since=seen_at).id
        worker = work.join_worker(store)
        work.end(store, worker, work.take_one(store, worker), work.FATAL)
        with pytest.raises(Conflict, match="has been run once more since it was seen"):
            rerun(store, first.id, "third", alone_since=seen_at)
        clock.advance(HOUR_US)
        rerun(store, run_id, "fourth", alone_since=store.now())
        assert 2 == len(steps.audit(store, action="run.rerun"))

    def test_reruns_of_a_task_can_be_blocked(self, store: Store) -> None:
        """On record, and until they are allowed again."""
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
        """What fails waits for a person; what only asks to be run later does."""
        worker, claimed = taken(store)
        store.order_task(OrderTask(task="remind", actor=ADA, is_suspended=True))

        work.end(store, worker, claimed, Failed("boom"))

        record = work.get_run(store, claimed.run_id)
        assert (RunState.DEAD, Reason.SUSPENDED) == (record.state, record.state_reason)
        snoozed = work.queue(store, "b")
        work.end(store, worker, work.take_one(store, worker), Snoozed(HOUR_US))
        assert RunState.RETRYING is work.get_run(store, snoozed).state


class CheckingResults:
    """What `add_verdict` promises."""

    def test_a_verdict_is_kept_with_its_evidence_and_changes_no_outcome(self, store: Store) -> None:
        """Succeeded and verified are different facts."""
        worker, claimed = taken(store)
        work.end(store, worker, claimed, Succeeded())
        before = work.get_run(store, claimed.run_id)

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
        assert before == work.get_run(store, claimed.run_id)
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
        """INV-11."""
        claimed = in_doubt(store)

        store.add_verdict(verdict(claimed, finding))

        assert state is work.get_run(store, claimed.run_id).state
        ledger = [one.state for one in store.list_effects(claimed.run_id, 10)]
        settled = {RunState.QUEUED: [], RunState.SUCCEEDED: [EffectState.DONE]}
        assert settled.get(state, [EffectState.UNKNOWN]) == ledger
        assert [] == store.check()

    @pytest.mark.parametrize("finding", Finding)
    def test_what_was_looked_at_before_it_was_tried_again_settles_nothing(
        self, store: Store, finding: Finding
    ) -> None:
        """INV-11: that it was absent then does not say that it is absent now."""
        first = in_doubt(store)
        settle_doubt(store, first.run_id, Choice.RETRY)
        worker = work.join_worker(store)
        again = work.take_one(store, worker)
        store.add_verdict(verdict(first, finding))
        assert RunState.RUNNING is work.get_run(store, first.run_id).state
        begin(store, worker, again)
        end_beyond(store, worker, again, Failed("boom"))

        store.add_verdict(verdict(first, finding))

        assert RunState.AMBIGUOUS is work.get_run(store, first.run_id).state
        kept = [(one.finding, one.doubt) for one in store.list_verdicts(first.run_id)]
        assert [(finding, first.fence)] * 2 == kept

    def test_there_is_no_verdict_about_nothing(self, store: Store) -> None:
        found = AddVerdict(run_id=_NO_RUN, finding=Finding.PRESENT, evidence=None, by="check")

        with pytest.raises(NotFound):
            store.add_verdict(found)


_NO_RUN = ordered_run_id("verify", 0, b"no such run")
