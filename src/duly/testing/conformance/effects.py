"""Effects: the part of the contract about permission, the ledger, and runs that are in doubt."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from duly.domain.attempts import Reason, TaskPolicy
from duly.domain.concluding import CancelledEnd, Failed, GivenBack, LostEnd, Succeeded, TimedOut
from duly.domain.effects import LEAST_TIME_LEFT_US, EffectState, Grant
from duly.domain.literals import AttemptState, Effects, Overlap, RunState
from duly.domain.retrying import Retry
from duly.store.effects import BeginEffect, EndEffect
from duly.store.execution import WORKER_TTL_US, FinishResult, Hold
from duly.testing.conformance import steps
from duly.testing.conformance import work_steps as work
from duly.testing.conformance.overlap_steps import fired, states
from duly.testing.factories import HOUR_US, SECOND_US, cancel_run, order_runs
from duly.testing.snapshot import snapshot

if TYPE_CHECKING:
    from duly.domain.concluding import End
    from duly.store.dispatch import MemberId
    from duly.store.effects import Begun
    from duly.store.execution import ClaimedRun
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock

UNSAFE = TaskPolicy(effects=Effects.UNSAFE, retry=Retry(5, base="1s"), timeout_us=HOUR_US)
UNHEARD: tuple[End, ...] = (
    LostEnd(),
    Failed("boom"),
    TimedOut(Reason.TIMEOUT),
    CancelledEnd(),
    GivenBack(Reason.SHUTDOWN, is_started=True),
)


def taken(store: Store, text: str = "a", **parts: Any) -> tuple[MemberId, ClaimedRun]:
    """Return a worker and the run of an unsafe task that it holds."""
    store.register_policies({"remind": UNSAFE})
    return work.queue_and_take(store, text, **parts)


def begin(
    store: Store, worker: MemberId, claimed: ClaimedRun, key: str | None = "mail", **parts: Any
) -> Begun:
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
        """E2, R2: on the claim, the first time, and in the ledger as intended."""
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
        """E2."""
        worker, claimed = taken(store)

        assert Grant.GRANTED is begin(store, worker, claimed, None).grant

        assert [] == store.list_effects(claimed.run_id, 10)
        (attempt,) = store.list_attempts(claimed.run_id, 10)
        assert attempt.effects_at is not None

    @pytest.mark.parametrize("key", [None, "mail"])
    def test_who_no_longer_holds_the_run_gets_no_permission(
        self, store: Store, key: str | None
    ) -> None:
        """E2, INV-5: fenced, and nothing changes."""
        worker, claimed = taken(store)
        before = snapshot(store)
        stale = Hold(claimed.run_id, claimed.fence - 1)

        assert Grant.GONE is begin(store, worker, claimed, key, hold=stale).grant
        other = work.join(store)
        before = snapshot(store)
        assert Grant.GONE is begin(store, other, claimed, key).grant
        assert before == snapshot(store)

    def test_nothing_is_begun_once_somebody_asked_the_run_to_stop(self, store: Store) -> None:
        """E2."""
        worker, claimed = taken(store)
        store.cancel_run(cancel_run(claimed.run_id))

        assert Grant.STOPPING is begin(store, worker, claimed).grant
        assert [] == store.list_effects(claimed.run_id, 10)

    def test_nothing_is_begun_that_would_be_cut_short(
        self, store: Store, clock: ManualClock
    ) -> None:
        """E2: by the store's clock."""
        worker, claimed = taken(store)
        clock.advance(HOUR_US - LEAST_TIME_LEFT_US)
        assert Grant.GRANTED is begin(store, worker, claimed, "in time").grant
        clock.advance(1)

        assert Grant.TOO_LATE is begin(store, worker, claimed, "too late").grant

    def test_an_effect_that_is_done_keeps_its_result_and_is_not_done_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        """E3: not by this attempt, and not by the next."""
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
        """E3: however it ended, and to an unsafe task it is never permitted again."""
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
        """E3."""
        worker, claimed = taken(store)
        begin(store, worker, claimed)
        undone = EndEffect(worker=worker, hold=claimed.hold, key="mail", is_done=False)

        assert store.end_effect(undone)
        assert store.end_effect(undone)
        assert [] == store.list_effects(claimed.run_id, 10)
        assert Grant.GRANTED is begin(store, worker, claimed).grant

    def test_a_lost_answer_is_given_again(self, store: Store) -> None:
        """E2, E3: asking twice is asking once; so is saying that it is done."""
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
        """E3, INV-5."""
        worker, claimed = taken(store)
        begin(store, worker, claimed)
        clock.advance(WORKER_TTL_US)
        fence = work.maintain(store)
        work.settle(store, fence, *work.lost_claims(store))
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
        """E2, INV-11."""
        worker, claimed = taken(store)
        begin(store, worker, claimed, key)

        assert FinishResult.ACCEPTED == end_beyond(store, worker, claimed, end)

        record = work.look(store, claimed.run_id)
        assert RunState.AMBIGUOUS is record.state
        assert (1, 1, 1) == record.tries[:3]
        clock.advance(1000 * HOUR_US)
        assert () == steps.load(store, 1 << 60)
        assert [] == work.take(store, work.join(store))
        assert 1 == store.status().ambiguous
        (doubt,) = store.list_doubts(None, 10)
        assert (record, record.state_reason) == (doubt.run, doubt.reason)
        (entry,) = steps.audit(store, action="run.ambiguous")
        assert claimed.run_id == entry.subject_id
        assert [] == store.check()

    def test_a_worker_that_is_lost_beyond_the_boundary_leaves_doubt(
        self, store: Store, clock: ManualClock
    ) -> None:
        """E2, INV-11: whoever settles the claim sees that effects had begun."""
        worker, claimed = taken(store)
        at = begin(store, worker, claimed).now
        clock.advance(WORKER_TTL_US)
        fence = work.maintain(store)
        (lost,) = work.lost_claims(store)
        assert (at, UNSAFE) == (lost.effects_at, lost.policy)

        assert [True] == work.settle(store, fence, lost)

        assert RunState.AMBIGUOUS is work.look(store, claimed.run_id).state
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
        assert [True] == work.settle(store, work.maintain(store), lost)
        assert RunState.AMBIGUOUS is work.look(store, claimed.run_id).state

    def test_the_first_task_that_is_unsafe_shuts_older_programs_out(self, store: Store) -> None:
        """D5, A2: once, and on record; other tasks shut nobody out."""
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
        """E2, INV-11: what was decided without knowing of it is not carried out."""
        worker, claimed = taken(store)
        clock.advance(WORKER_TTL_US)
        fence = work.maintain(store)
        (lost,) = work.lost_claims(store)
        assert Grant.GRANTED is begin(store, worker, claimed, key).grant
        before = snapshot(store)

        assert [False] == work.settle(store, fence, lost)

        assert before == snapshot(store)
        assert [True] == work.settle(store, fence, *work.lost_claims(store))
        assert RunState.AMBIGUOUS is work.look(store, claimed.run_id).state

    def test_the_late_word_of_the_lost_worker_is_kept_beside_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        """E2, R4: evidence, and no more."""
        worker, claimed = taken(store)
        begin(store, worker, claimed)
        clock.advance(WORKER_TTL_US)
        fence = work.maintain(store)
        work.settle(store, fence, *work.lost_claims(store))

        said = end_beyond(store, worker, claimed, Succeeded('"all sent"'))

        assert FinishResult.REFUSED == said
        assert RunState.AMBIGUOUS is work.look(store, claimed.run_id).state
        (attempt,) = store.list_attempts(claimed.run_id, 10)
        assert attempt.late is not None
        assert (AttemptState.SUCCEEDED, '"all sent"') == (attempt.late.state, attempt.late.result)

    def test_its_gate_stays_held(self, store: Store, clock: ManualClock) -> None:
        """O1, E2: the next may not pass a maybe."""
        store.register_policies({"report": UNSAFE})
        record = fired(store, clock, Overlap.QUEUE_ALL, times=2)
        worker = work.join(store, ttl_us=10 * HOUR_US)
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
        """O1, E2: it is waited for and never replaced, also once it goes on."""
        store.register_policies({"report": UNSAFE})
        record = fired(store, clock, overlap)
        worker = work.join(store, ttl_us=100 * HOUR_US)
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
        """E5: it is settled, by a choice of its own."""
        claimed = in_doubt(store)
        before = snapshot(store)

        assert [False] == [one.is_done for one in store.retry_runs(order_runs(claimed.run_id))]
        assert [False] == [one.is_done for one in store.discard_runs(order_runs(claimed.run_id))]
        with pytest.raises(Exception, match="is in doubt"):
            store.cancel_run(cancel_run(claimed.run_id))
        assert before == snapshot(store)
