"""Finishing: the part of the contract about how attempts end, and completions that come late."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from duly.domain.attempts import (
    LateWord,
    LogLine,
    Progress,
    ProgressRecord,
    Reason,
    TaskPolicy,
    Tries,
)
from duly.domain.concluding import (
    CancelledEnd,
    Failed,
    GaveUp,
    GivenBack,
    Snoozed,
    Succeeded,
    TimedOut,
)
from duly.domain.literals import AttemptState, RunState
from duly.domain.retrying import Retry
from duly.store.execution import WORKER_TTL_US, ClaimRuns, FinishResult, Hold, Report
from duly.testing.conformance import steps
from duly.testing.conformance import work_steps as work
from duly.testing.factories import HOUR_US, SECOND_US, cancel_run, finish, run_id
from duly.testing.snapshot import snapshot

if TYPE_CHECKING:
    from duly.domain.concluding import End
    from duly.domain.runs import RunRecord
    from duly.store.dispatch import MemberId
    from duly.store.execution import ClaimedRun
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock

ACCEPTED, REFUSED = FinishResult.ACCEPTED, FinishResult.REFUSED
RETRYABLE = Failed("boom", after_us=30 * SECOND_US)
ENDS_OF_OPEN_RUNS: dict[str, End] = {
    "failed": RETRYABLE,
    "fatal": work.FATAL,
    "snoozed": Snoozed(HOUR_US),
    "given back": GivenBack(Reason.SHUTDOWN, is_started=True),
}
BUDGET_SPENT = TaskPolicy(retry=Retry(1))


class EndingAndTaking:
    """What `finish_and_claim` promises: the one, and then the other."""

    def test_what_is_ended_and_what_is_taken_are_both_done(self, store: Store) -> None:
        """R3: one answer for each end, and more runs with it."""
        worker, claimed = work.queue_and_take(store)
        following = work.queue(store, "b")
        finished, taken = store.finish_and_claim(
            [finish(claimed, Succeeded("1"))], ClaimRuns(worker=worker, limit=10)
        )

        assert ((ACCEPTED,), True) == (finished.results, taken.is_alive)
        assert [following] == [run.run_id for run in taken.runs]
        assert RunState.SUCCEEDED is work.look(store, claimed.run_id).state
        assert RunState.RUNNING is work.look(store, following).state

    def test_what_goes_back_to_the_queue_may_be_taken_again(self, store: Store) -> None:
        """R4: under the next fence."""
        worker, claimed = work.queue_and_take(store)
        back = finish(claimed, GivenBack(Reason.SHUTDOWN, is_started=True))
        _, taken = store.finish_and_claim([back], ClaimRuns(worker=worker, limit=10))

        assert [Hold(claimed.run_id, 2)] == [run.hold for run in taken.runs]

    def test_ends_of_every_kind_are_told_together(self, store: Store) -> None:
        """R3: plain ones and others, and one that is refused."""
        worker = work.join(store)
        for text in ("a", "b"):
            work.queue(store, text)
        plain, other = work.take(store, worker)
        unknown = replace(finish(plain, Succeeded()), hold=Hold(run_id("nobody"), 1))
        finished, taken = store.finish_and_claim(
            [finish(plain, Succeeded()), unknown, finish(other, RETRYABLE)],
            ClaimRuns(worker=worker, limit=10),
        )

        assert (ACCEPTED, REFUSED, ACCEPTED) == finished.results
        assert () == taken.runs
        assert RunState.RETRYING is work.look(store, other.run_id).state

    def test_a_worker_whose_lease_is_over_ends_and_takes_nothing(
        self, store: Store, clock: ManualClock
    ) -> None:
        """R4: what nobody has taken from it is still its own to end."""
        worker, claimed = work.queue_and_take(store)
        work.queue(store, "b")
        clock.advance(WORKER_TTL_US + 1)
        finished, taken = store.finish_and_claim(
            [finish(claimed, Succeeded())], ClaimRuns(worker=worker, limit=10)
        )

        assert ((ACCEPTED,), False, ()) == (finished.results, taken.is_alive, taken.runs)


class Ending:
    """What `finish_runs` promises about where a run goes."""

    def test_success_closes_the_run_with_its_result(self, store: Store, clock: ManualClock) -> None:
        """R2, R3, INV-7: one outcome, and each fact with its own time."""
        worker, claimed = work.queue_and_take(store)
        clock.advance(9)
        started_at = claimed.claimed_at + 2

        assert ACCEPTED == work.end(
            store, worker, claimed, Succeeded('{"sent":3}'), started_at=started_at
        )

        record = work.look(store, claimed.record.id)
        expected = replace(
            claimed.record,
            state=RunState.SUCCEEDED,
            finished_at=clock.now_us(),
            started_at=started_at,
            result='{"sent":3}',
            tries=Tries(1, 1, 1, claimed.claimed_at),
        )
        assert expected == record
        (attempt,) = store.list_attempts(record.id)
        assert (AttemptState.SUCCEEDED, 1, 1, clock.now_us()) == (
            attempt.state,
            attempt.number,
            attempt.fence,
            attempt.ended_at,
        )
        assert 0 == store.status().running

    def test_giving_up_closes_the_run_as_failed(self, store: Store) -> None:
        """B1: there is no point in trying again."""
        record = ended(store, GaveUp(Reason.GAVE_UP, "never"))

        assert (RunState.FAILED, Reason.GAVE_UP, "never") == told(record)

    def test_a_cancelled_attempt_closes_the_run(self, store: Store) -> None:
        """R9."""
        record = ended(store, CancelledEnd("stopped"))

        assert (RunState.CANCELLED, Reason.CANCELLED, "stopped") == told(record)

    @pytest.mark.parametrize(
        ("how", "state", "reason"),
        [
            (RETRYABLE, AttemptState.FAILED, Reason.ERROR),
            (TimedOut(Reason.TIMEOUT, "boom"), AttemptState.TIMED_OUT, Reason.TIMEOUT),
            (TimedOut(Reason.STALLED, "boom"), AttemptState.TIMED_OUT, Reason.STALLED),
        ],
        ids=["failed", "timed out", "stalled"],
    )
    def test_what_may_be_tried_again_waits(
        self, store: Store, how: End, state: AttemptState, reason: Reason
    ) -> None:
        """B1, R3: charged, with the reason of its attempt."""
        record = ended(store, how)

        assert (RunState.RETRYING, reason, "boom") == told(record)
        assert (1, 1, 1) == (record.tries.fence, record.tries.attempt, record.tries.charged)
        assert record.next_at is not None
        assert (None, None, None) == (record.worker, record.claimed_at, record.started_at)
        (attempt,) = store.list_attempts(record.id)
        assert (state, reason, 1, "boom") == (
            attempt.state,
            attempt.reason,
            attempt.number,
            attempt.error,
        )

    def test_a_run_waits_as_long_as_was_decided(self, store: Store, clock: ManualClock) -> None:
        """B1: from when the store has it, by the store's clock."""
        worker, claimed = work.queue_and_take(store)
        clock.advance(5 * SECOND_US)
        work.end(store, worker, claimed, RETRYABLE)

        assert clock.now_us() + 30 * SECOND_US == work.look(store, claimed.record.id).next_at

    def test_a_snoozed_run_waits_and_pays_nothing(self, store: Store, clock: ManualClock) -> None:
        """B1."""
        record = ended(store, Snoozed(HOUR_US))

        assert (RunState.RETRYING, Reason.SNOOZED, None) == told(record)
        assert (1, 0, clock.now_us() + HOUR_US) == (
            record.tries.attempt,
            record.tries.charged,
            record.next_at,
        )

    @pytest.mark.parametrize("is_started", [True, False])
    def test_what_is_given_back_is_queued_at_once(
        self, store: Store, clock: ManualClock, *, is_started: bool
    ) -> None:
        """R9, R1: nothing is lost, and nothing paid; unstarted it has no number."""
        clock.advance(1)
        how = GivenBack(Reason.SHUTDOWN, is_started=is_started)
        record = ended(store, how)

        assert (RunState.QUEUED, None, None) == told(record)
        number = 1 if is_started else None
        assert (1, number or 0, 0) == (
            record.tries.fence,
            record.tries.attempt,
            record.tries.charged,
        )
        (attempt,) = store.list_attempts(record.id)
        assert (AttemptState.GIVEN_BACK, Reason.SHUTDOWN, number) == (
            attempt.state,
            attempt.reason,
            attempt.number,
        )
        (waiting,) = store.list_queues()
        assert (1, clock.now_us()) == (waiting.queued, waiting.oldest_at)

    def test_what_can_not_be_repaired_by_trying_is_dead(self, store: Store) -> None:
        """B3: at once, a place with all its attempts."""
        record = ended(store, work.FATAL)

        assert (RunState.DEAD, Reason.NOT_RETRYABLE, "no use") == told(record)
        assert 1 == store.status().dead
        (entry,) = steps.audit(store, action="run.dead")
        assert (record.id, record.tenant) == (entry.subject_id, entry.tenant)
        assert {"reason": "not-retryable", "attempt": 1, "charged": 1} == entry.after

    def test_a_run_without_budget_is_dead(self, store: Store) -> None:
        """B1, B3."""
        record = ended(store, RETRYABLE, policy=BUDGET_SPENT)

        assert (RunState.DEAD, Reason.BUDGET, "boom") == told(record)

    def test_what_a_finish_brings_along_is_kept(self, store: Store, clock: ManualClock) -> None:
        """R2, R5: the last progress, as a step of its own, and the last lines."""
        worker, claimed = work.queue_and_take(store)
        clock.advance(1)
        progress, last = Progress(5, 5), LogLine(3, "INFO", "done")
        work.end(store, worker, claimed, Succeeded(), progress=progress, lines=(last,))

        the_run = claimed.record.id
        assert progress == work.look(store, the_run).progress
        assert [ProgressRecord(1, clock.now_us(), progress)] == store.list_progress(the_run, 9)
        assert [last] == [one.line for one in store.list_lines(the_run, 0, 9)]
        (attempt,) = store.list_attempts(the_run)
        assert (progress, clock.now_us()) == (attempt.progress, attempt.progress_at)

    def test_a_start_that_was_reported_is_not_moved_by_the_finish(self, store: Store) -> None:
        """R2: and without any, there was none."""
        worker, claimed = work.queue_and_take(store)
        store.report(worker, [Report(hold=claimed.hold, started_at=3)])
        work.end(store, worker, claimed, Succeeded(), started_at=8)
        other_worker, other = work.queue_and_take(store, "b")
        work.end(store, other_worker, other, CancelledEnd(), started_at=None)

        assert 3 == work.look(store, claimed.record.id).started_at
        assert work.look(store, other.record.id).started_at is None

    def test_a_batch_is_finished_in_the_order_given(self, store: Store) -> None:
        """R4: each has its own result, and one that is refused stops no other."""
        worker = work.join(store)
        for text in ("a", "b", "c", "d"):
            work.queue(store, text)
        first, dying, stale, last = work.take(store, worker)
        old = replace(finish(stale, Succeeded()), hold=Hold(stale.record.id, 7))
        ends = [finish(first, Succeeded()), finish(dying, work.FATAL), old]

        finished = store.finish_runs(worker, [*ends, finish(last, work.FATAL)])

        assert (ACCEPTED, ACCEPTED, REFUSED, ACCEPTED) == finished.results
        states = [work.look(store, one.record.id).state for one in (first, dying, stale, last)]
        assert [RunState.SUCCEEDED, RunState.DEAD, RunState.RUNNING, RunState.DEAD] == states
        actions = [entry.action for entry in steps.audit(store)]
        assert ["run.dead", "attempt.refused", "run.dead"] == actions

    @pytest.mark.parametrize("said", ["failed", "fatal", "snoozed", "given back"])
    def test_a_run_that_was_to_be_cancelled_is_not_tried_again(
        self, store: Store, said: str
    ) -> None:
        """R9: nor dead: whatever its attempt says, a person's word is not forgotten."""
        how = ENDS_OF_OPEN_RUNS[said]
        worker, claimed = work.queue_and_take(store)
        store.cancel_run(cancel_run(claimed.record.id))

        assert ACCEPTED == work.end(store, worker, claimed, how)

        record = work.look(store, claimed.record.id)
        assert (RunState.CANCELLED, Reason.CANCELLED) == (record.state, record.state_reason)
        (attempt,) = store.list_attempts(record.id)
        assert finish(claimed, how).conclusion.attempt_state == attempt.state
        assert attempt.cancel_asked_at is not None
        assert ACCEPTED == work.end(store, worker, claimed, how)
        assert [] == store.check()

    def test_a_run_that_made_it_before_the_cancellation_has_succeeded(self, store: Store) -> None:
        """R3: what is done is done."""
        worker, claimed = work.queue_and_take(store)
        store.cancel_run(cancel_run(claimed.record.id))
        work.end(store, worker, claimed, Succeeded())

        assert RunState.SUCCEEDED == work.look(store, claimed.record.id).state


class LateCompletions:
    """What `finish_runs` promises about answers that were lost, and workers that were."""

    @pytest.mark.parametrize(
        "how",
        [
            Succeeded("1"),
            RETRYABLE,
            work.FATAL,
            GaveUp(Reason.GAVE_UP, "never"),
            GivenBack(Reason.SHUTDOWN, is_started=False),
        ],
        ids=["succeeded", "failed", "dead", "gave up", "given back"],
    )
    def test_finishing_twice_is_accepted_and_changes_nothing(
        self, store: Store, clock: ManualClock, how: End
    ) -> None:
        """R4, INV-7: the first answer was lost."""
        worker, claimed = work.queue_and_take(store)
        work.end(store, worker, claimed, how)
        before = snapshot(store)
        attempts = store.list_attempts(claimed.record.id)

        assert ACCEPTED == work.end(store, worker, claimed, how, lines=(LogLine(1, "INFO", "x"),))

        assert before == snapshot(store)
        assert attempts == store.list_attempts(claimed.record.id)
        assert [] == store.list_lines(claimed.record.id, 0, 9)
        assert clock.now_us() == before.status.now

    def test_finishing_twice_is_accepted_while_another_holds_the_run(
        self, store: Store, clock: ManualClock
    ) -> None:
        """R4, INV-5: the run has gone on since, and stays where it is."""
        worker, claimed = work.queue_and_take(store)
        work.end(store, worker, claimed, RETRYABLE)
        work.fire_retries(store, clock)
        other = work.join(store)
        work.take_one(store, other)

        assert ACCEPTED == work.end(store, worker, claimed, RETRYABLE)
        record = work.look(store, claimed.record.id)
        assert (RunState.RUNNING, other) == (record.state, record.worker)

    def test_a_lost_owner_changes_nothing_and_its_word_is_kept(
        self, store: Store, clock: ManualClock
    ) -> None:
        """R4, INV-5, INV-10: also when it succeeded; the run goes on in other hands."""
        worker, claimed, heir = taken_over(store, clock)
        before = snapshot(store).without_audit()
        late = finish(
            claimed, Succeeded('"sent"'), progress=Progress(9), lines=(LogLine(1, "INFO", "x"),)
        )

        assert (REFUSED,) == store.finish_runs(worker, [late]).results

        the_run = claimed.record.id
        assert before == snapshot(store).without_audit()
        assert ([], []) == (store.list_progress(the_run, 9), store.list_lines(the_run, 0, 9))
        first, second = store.list_attempts(the_run)
        word = LateWord(state=AttemptState.SUCCEEDED, at=clock.now_us(), result='"sent"')
        assert (AttemptState.LOST, word) == (first.state, first.late)
        assert (None, heir) == (second.late, second.worker)
        (entry,) = steps.audit(store, action="attempt.refused")
        assert (the_run, {"worker": worker, "fence": 1, "state": "succeeded"}) == (
            entry.subject_id,
            entry.after,
        )

    def test_a_late_word_is_kept_once(self, store: Store, clock: ManualClock) -> None:
        """R4: whatever else is said after it, and however often."""
        worker, claimed, _ = taken_over(store, clock)
        assert REFUSED == work.end(store, worker, claimed, Succeeded("1"))
        clock.advance(1)
        again = work.end(store, worker, claimed, Failed("or not"))

        assert REFUSED == again
        late = store.list_attempts(claimed.record.id)[0].late
        assert late is not None
        assert (AttemptState.SUCCEEDED, clock.now_us() - 1) == (late.state, late.at)
        assert 1 == len(steps.audit(store, action="attempt.refused"))

    def test_a_late_word_about_a_run_that_the_claim_has_closed(self, store: Store) -> None:
        """R4, INV-7: a second, other end is refused; the outcome stays."""
        worker, claimed = work.queue_and_take(store)
        work.end(store, worker, claimed, Succeeded("1"))

        assert REFUSED == work.end(store, worker, claimed, Failed("after all"))

        record = work.look(store, claimed.record.id)
        assert (RunState.SUCCEEDED, "1", None) == (record.state, record.result, record.error)
        (attempt,) = store.list_attempts(record.id)
        assert attempt.late is not None
        assert (AttemptState.FAILED, "after all") == (attempt.late.state, attempt.late.error)

    def test_a_claim_of_somebody_else_can_not_be_finished(self, store: Store) -> None:
        """R4, INV-5: the right fence in the wrong hands."""
        worker, claimed = work.queue_and_take(store)
        other = work.join(store)

        assert REFUSED == work.end(store, other, claimed, Succeeded())
        assert RunState.RUNNING == work.look(store, claimed.record.id).state
        assert store.list_attempts(claimed.record.id)[0].late is None
        assert ACCEPTED == work.end(store, worker, claimed, Succeeded())
        assert REFUSED == work.end(store, other, claimed, Succeeded())

    def test_a_run_that_nobody_knows_can_not_be_finished(self, store: Store) -> None:
        """R4: and the refusal is on the trail."""
        worker, claimed = work.queue_and_take(store)
        unknown = replace(finish(claimed, Succeeded()), hold=Hold(run_id("nobody"), 1))

        assert (REFUSED,) == store.finish_runs(worker, [unknown]).results
        (entry,) = steps.audit(store, action="attempt.refused")
        assert ("", unknown.hold.run_id) == (entry.tenant, entry.subject_id)

    def test_an_expired_worker_may_still_finish_what_nobody_has_settled(
        self, store: Store, clock: ManualClock
    ) -> None:
        """R4, INV-7: work that was done is not thrown away."""
        worker, claimed = work.queue_and_take(store)
        clock.advance(2 * WORKER_TTL_US)

        assert ACCEPTED == work.end(store, worker, claimed, Succeeded())
        assert RunState.SUCCEEDED == work.look(store, claimed.record.id).state

    def test_nothing_to_finish_is_nothing_done(self, store: Store) -> None:
        """R4."""
        assert () == store.finish_runs(work.join(store), []).results


def ended(store: Store, how: End, **parts: object) -> RunRecord:
    """Queue a run, claim it, end its attempt so; return the run."""
    worker, claimed = work.queue_and_take(store)
    assert ACCEPTED == work.end(store, worker, claimed, how, **parts)
    assert [] == store.check()
    return work.look(store, claimed.record.id)


def told(record: RunRecord) -> tuple[RunState, str | None, str | None]:
    """Return what a run says about how it went."""
    return record.state, record.state_reason, record.error


def taken_over(store: Store, clock: ManualClock) -> tuple[MemberId, ClaimedRun, MemberId]:
    """Return a worker that has lost a run to another: its claim, and its heir."""
    worker, claimed = work.queue_and_take(store)
    clock.advance(WORKER_TTL_US)
    assert [True] == work.settle(store, work.maintain(store), *work.lost_claims(store))
    work.fire_retries(store, clock)
    heir = work.join(store)
    work.take_one(store, heir)
    return worker, claimed, heir
