"""What every store must do about heartbeats, ends of attempts, and transactional tasks."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from duly.domain.enums import AttemptState, Origin, Overlap, RunState
from duly.domain.outcomes import (
    CancelledEnd,
    Failed,
    GaveUp,
    ReturnedToQueue,
    Snoozed,
    Succeeded,
    TimedOut,
)
from duly.domain.policies import Retry
from duly.domain.runs import (
    LINES_PER_ATTEMPT_MAX,
    AttemptCounts,
    LateReport,
    LogLine,
    Progress,
    ProgressRecord,
    Reason,
    TaskPolicy,
)
from duly.domain.verification import ItemReport, check_of
from duly.errors import LeaseLost, StoreUnavailable, UsageError
from duly.store.ports.dispatch import MemberId, MemberKind
from duly.store.ports.execution import (
    WORKER_TTL_US,
    ClaimRef,
    ClaimRuns,
    FinishResult,
    Heartbeat,
    Report,
    SaveCheckpoint,
    StopOrder,
    StopReason,
)
from duly_conformance import kit, steps
from duly_conformance import steps as work
from duly_conformance.kit import (
    ADA,
    HOUR_US,
    SECOND_US,
    add_runs,
    cancel_run,
    finish,
    new_run,
    run_id,
    snapshot,
)
from duly_conformance.steps import WAIT_MAX_US, AtPlaces, fired, states
from duly_conformance.storage import Interrupted

if TYPE_CHECKING:
    from duly.domain.outcomes import End
    from duly.domain.runs import RunRecord
    from duly.engine.manual_clock import ManualClock
    from duly.store.ports import Store
    from duly.store.ports.execution import ClaimedRun


class Breathing:
    """What `beat` promises."""

    def test_a_worker_that_beats_stays_alive(self, store: Store, clock: ManualClock) -> None:
        """INV-21: counted from each beat, for as long as the beat says."""
        worker = work.join_worker(store)
        for _ in range(3):
            clock.advance(WORKER_TTL_US - 1)
            beaten = store.beat(Heartbeat(worker=worker, slots=4, leaked=1, skew_us=-7))

            assert (True, clock.now_us(), (), ()) == (
                beaten.is_alive,
                beaten.now,
                beaten.stops,
                beaten.strays,
            )
        (member,) = store.status().members
        assert (clock.now_us(), clock.now_us() + WORKER_TTL_US) == (
            member.renewed_at,
            member.expires_at,
        )
        assert (4, 1, -7) == (member.slots, member.leaked, member.skew_us)

    def test_a_worker_whose_lease_ran_out_renews_it(self, store: Store, clock: ManualClock) -> None:
        """INV-21: nobody is dead because nobody could write; what it claimed is still its own."""
        worker, claimed = work.queue_and_take(store)
        clock.advance(2 * WORKER_TTL_US)
        lost = work.lost_claims(store)
        assert not store.claim_runs(ClaimRuns(worker=worker, limit=1)).is_alive

        beaten = store.beat(Heartbeat(worker=worker, holds=(claimed.hold,)))

        assert 1 == len(lost)
        assert (True, (), ()) == (beaten.is_alive, beaten.stops, beaten.strays)
        assert [False] == work.settle_lost(store, work.maintain(store), *lost)
        assert store.claim_runs(ClaimRuns(worker=worker, limit=1)).is_alive
        assert FinishResult.ACCEPTED == work.end(store, worker, claimed, Succeeded())

    def test_who_left_or_was_declared_dead_stays_so(self, store: Store, clock: ManualClock) -> None:
        """INV-4: also when the clock is set back."""
        left, declared = work.join_worker(store), work.join_worker(store)
        store.leave(left)
        work.declare_dead(store, clock, declared)
        everybody = (left, declared, MemberId(4711))

        assert not any(store.beat(Heartbeat(worker=one)).is_alive for one in everybody)
        clock.set(clock.now_us() - WORKER_TTL_US)
        assert not any(store.beat(Heartbeat(worker=one)).is_alive for one in everybody)

    def test_nothing_of_what_goes_well_must_stop(self, store: Store) -> None:
        worker, claimed = work.queue_and_take(store)

        beaten = store.beat(Heartbeat(worker=worker, holds=(claimed.hold,)))

        assert ((), ()) == (beaten.stops, beaten.strays)

    def test_a_run_that_somebody_cancels_must_stop_at_every_beat(self, store: Store) -> None:
        """A beat whose answer was lost is not the last one to say so."""
        worker, claimed = work.queue_and_take(store)
        store.cancel_run(cancel_run(claimed.record.id))
        order = Heartbeat(worker=worker, holds=(claimed.hold,))

        for _ in range(2):
            assert (StopOrder(claimed.hold, StopReason.CANCEL),) == store.beat(order).stops

    def test_what_is_no_longer_ours_is_gone(self, store: Store) -> None:
        """INV-5: of another worker, under another fence, over, or never heard of."""
        worker, mine = work.queue_and_take(store)
        other, theirs = work.queue_and_take(store, "theirs")
        over_worker, over = work.queue_and_take(store, "over")
        work.end(store, over_worker, over, Succeeded())
        stale = ClaimRef(mine.record.id, mine.tries.fence + 1)
        unknown = ClaimRef(kit.run_id("nobody"), 1)
        holds = (theirs.hold, mine.hold, stale, over.hold, unknown)

        beaten = store.beat(Heartbeat(worker=worker, holds=holds))

        gone = tuple(StopOrder(hold, StopReason.GONE) for hold in holds if hold != mine.hold)
        assert gone == beaten.stops
        assert other != worker

    def test_what_a_worker_holds_and_does_not_name_is_a_stray(self, store: Store) -> None:
        """INV-7: the answer to its claim was lost; nobody else would ever start it."""
        worker, named = work.queue_and_take(store)
        strays = [work.queue(store, "b"), work.queue(store, "c")]
        work.take(store, worker)
        work.queue_and_take(store, "theirs")

        beaten = store.beat(Heartbeat(worker=worker, holds=(named.hold,)))

        assert tuple(ClaimRef(run_id, 1) for run_id in sorted(strays)) == beaten.strays

    def test_a_claim_under_another_fence_is_a_stray_of_its_own(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-7: though the worker still names the claim of the same run that it lost."""
        worker, first = work.queue_and_take(store)
        work.end(store, worker, first, Failed("oh", after_us=0))
        work.fire_retries(store, clock)
        again = work.take_one(store, worker)

        beaten = store.beat(Heartbeat(worker=worker, holds=(first.hold,)))

        assert ((StopOrder(first.hold, StopReason.GONE),), (again.hold,)) == (
            beaten.stops,
            beaten.strays,
        )

    def test_the_dead_have_no_strays(self, store: Store) -> None:
        """What they held is somebody else's to settle."""
        worker, _ = work.queue_and_take(store)
        store.leave(worker)

        beaten = store.beat(Heartbeat(worker=worker))

        assert (False, ()) == (beaten.is_alive, beaten.strays)

    def test_a_worker_is_a_member_with_slots_queues_and_what_it_runs(self, store: Store) -> None:
        """On one screen."""
        worker = work.join_worker(store, slots=7, queues=("mail", "default"))
        work.queue(store)
        work.take_one(store, worker)

        (member,) = store.status().members

        assert (MemberKind.WORKER, 7, 0, 1, ("mail", "default")) == (
            member.kind,
            member.slots,
            member.leaked,
            member.running,
            member.queues,
        )

    def test_a_task_is_served_while_a_living_worker_knows_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A dispatcher that knows it serves nobody."""
        steps.join(store, tasks=("clean",), ttl_us=HOUR_US)
        leaving = work.join_worker(store, tasks=("remind", "report"))
        work.join_worker(store, tasks=("remind",), ttl_us=1)

        assert [True, True, False] == served(store, "remind", "report", "clean")
        store.leave(leaving)
        assert [True, False] == served(store, "remind", "report")
        clock.advance(1)
        assert [False] == served(store, "remind")

    def test_a_task_is_served_in_the_queues_of_those_who_know_it(self, store: Store) -> None:
        """One who knows it and takes from elsewhere helps nobody here."""
        work.join_worker(store, tasks=("remind",), queues=("mail", "news"))
        work.join_worker(store, tasks=("report",))

        assert [True, True, False] == [
            store.is_served("remind", queue) for queue in ("mail", "news", "default")
        ]
        assert store.is_served("report", "anywhere")


class Reporting:
    """What `report` and checkpoints promise."""

    def test_a_start_is_kept_the_first_time(self, store: Store, clock: ManualClock) -> None:
        """Apart from the claim."""
        worker, claimed = work.queue_and_take(store)
        began_at = clock.now_us() + 3
        clock.advance(10)

        reports = [Report(hold=claimed.hold, started_at=at) for at in (began_at, began_at + 5)]

        assert [True, True] == store.report(worker, reports)
        record = work.get_run(store, claimed.record.id)
        assert (began_at, claimed.claimed_at) == (record.started_at, record.claimed_at)

    def test_every_step_of_progress_is_kept(self, store: Store, clock: ManualClock) -> None:
        """The record shows the last; history has all, with their times."""
        worker, claimed = work.queue_and_take(store)
        steps_made = [Progress(1), Progress(2, 10), Progress(3, 10, "on it")]
        for step in steps_made:
            clock.advance(1)
            assert [True] == store.report(worker, [Report(hold=claimed.hold, progress=step)])

        run_id = claimed.record.id
        expected = [
            ProgressRecord(1, claimed.claimed_at + number, step)
            for number, step in enumerate(steps_made, start=1)
        ]
        assert expected == store.list_progress(run_id, 10)
        assert expected[:2] == store.list_progress(run_id, 2)
        assert steps_made[-1] == work.get_run(store, run_id).progress
        (attempt,) = store.list_attempts(run_id)
        assert (steps_made[-1], clock.now_us()) == (attempt.progress, attempt.progress_at)

    def test_an_empty_report_leaves_everything_as_it_is(self, store: Store) -> None:
        worker, claimed = work.queue_and_take(store)
        full = Report(hold=claimed.hold, started_at=5, progress=Progress(1))
        store.report(worker, [full])
        before = snapshot(store)

        assert [True] == store.report(worker, [Report(hold=claimed.hold)])
        assert before == snapshot(store)
        assert 1 == len(store.list_progress(claimed.record.id, 10))

    def test_lines_can_be_followed(self, store: Store, clock: ManualClock) -> None:
        """Numbers grow, over all attempts of the run."""
        worker, claimed = work.queue_and_take(store)
        said = [line(text) for text in ("one", "two", "three")]
        store.report(worker, [Report(hold=claimed.hold, lines=tuple(said[:2]))])
        work.end(store, worker, claimed, Failed("oh", after_us=0), lines=tuple(said[2:]))
        work.fire_retries(store, clock)
        again = work.take_one(store, worker)
        store.report(worker, [Report(hold=again.hold, lines=(line("four"),))])

        run_id = claimed.record.id
        found = store.list_lines(run_id, 0, 10)
        assert [*said, line("four")] == [one.line for one in found]
        assert [1, 1, 1, 2] == [one.fence for one in found]
        numbers = [one.number for one in found]
        assert sorted(set(numbers)) == numbers
        assert found[1:3] == store.list_lines(run_id, numbers[0], 2)
        assert [] == store.list_lines(run_id, numbers[-1], 10)

    def test_an_attempt_writes_only_so_many_lines(self, store: Store, clock: ManualClock) -> None:
        """The rest is dropped; another attempt has its own."""
        worker, claimed = work.queue_and_take(store)
        many = tuple(line(str(number)) for number in range(LINES_PER_ATTEMPT_MAX - 1))
        store.report(worker, [Report(hold=claimed.hold, lines=many)])
        store.report(worker, [Report(hold=claimed.hold, lines=(line("last"), line("lost")))])
        extra = (line("lost, too"),)
        work.end(store, worker, claimed, Failed("oh", after_us=0), lines=extra)
        work.fire_retries(store, clock)
        again = work.take_one(store, worker)
        store.report(worker, [Report(hold=again.hold, lines=(line("new"),))])

        texts = [
            one.line.text
            for one in store.list_lines(claimed.record.id, 0, LINES_PER_ATTEMPT_MAX + 10)
        ]

        assert LINES_PER_ATTEMPT_MAX + 1 == len(texts)
        assert ["last", "new"] == texts[-2:]

    def test_lines_whose_answer_was_lost_are_not_told_twice(self, store: Store) -> None:
        """By how many came before them; whether in a report or with the end."""
        worker, claimed = work.queue_and_take(store)
        said = tuple(line(text) for text in ("one", "two", "three", "four", "five"))
        batches = ((0, said[:2]), (0, said[:3]), (1, said[1:3]), (3, said[3:4]), (3, said[3:4]))
        for count, lines in batches:
            told = Report(hold=claimed.hold, lines=lines, lines_before=count)
            assert [True] == store.report(worker, [told])
        work.end(store, worker, claimed, Succeeded(), lines=said[3:], lines_before=3)

        found = store.list_lines(claimed.record.id, 0, 10)
        assert list(said) == [one.line for one in found]

    def test_the_same_progress_once_more_is_no_step(self, store: Store, clock: ManualClock) -> None:
        """An answer was lost; what comes after it is one, and so is going back."""
        worker, claimed = work.queue_and_take(store)
        told = [Progress(1), Progress(1), Progress(1, 2), Progress(1, 2, "on it"), Progress(1)]
        for step in told:
            clock.advance(1)
            store.report(worker, [Report(hold=claimed.hold, progress=step)])
        work.end(store, worker, claimed, Failed("oh", after_us=0), progress=told[-1])
        work.fire_retries(store, clock)
        again = work.take_one(store, worker)
        store.report(worker, [Report(hold=again.hold, progress=told[-1])])

        found = store.list_progress(claimed.record.id, 10)
        assert [*told[1:], told[-1]] == [step.progress for step in found]
        assert [1, 1, 1, 1, 2] == [step.fence for step in found]

    def test_a_report_that_is_refused_changes_nothing_and_stops_no_other(
        self, store: Store
    ) -> None:
        """INV-5: of another worker, or under a fence that no longer holds."""
        worker, mine = work.queue_and_take(store)
        _, theirs = work.queue_and_take(store, "theirs")
        stale = ClaimRef(mine.record.id, mine.tries.fence + 1)

        said = {"started_at": 5, "progress": Progress(1), "lines": (line("hello"),)}
        reports = [
            Report(hold=hold, **said)  # type: ignore[arg-type]
            for hold in (theirs.hold, stale, mine.hold)
        ]

        assert [False, False, True] == store.report(worker, reports)
        assert work.get_run(store, theirs.record.id).started_at is None
        assert ([], []) == traces(store, theirs)
        assert (1, 1) == tuple(map(len, traces(store, mine)))

    def test_a_checkpoint_replaces_the_one_before_and_outlives_the_attempt(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Whole or per partition; a later attempt goes on from it."""
        worker, claimed = work.queue_and_take(store)
        for partition, state in (("", "1"), ("a", '{"x":2}'), ("", "3")):
            assert store.save_checkpoint(checkpoint(worker, claimed.hold, partition, state))
        work.end(store, worker, claimed, Failed("oh", after_us=0))
        work.fire_retries(store, clock)
        work.take_one(store, worker)

        assert {"": "3", "a": '{"x":2}'} == store.get_checkpoints(claimed.record.id)
        assert {} == store.get_checkpoints(kit.run_id("nobody"))

    def test_a_checkpoint_of_somebody_else_is_refused(self, store: Store) -> None:
        """INV-5."""
        worker, claimed = work.queue_and_take(store)
        other = work.join_worker(store)
        stale = ClaimRef(claimed.record.id, claimed.tries.fence + 1)
        store.save_checkpoint(checkpoint(worker, claimed.hold, "", "1"))

        assert not store.save_checkpoint(checkpoint(other, claimed.hold, "", "2"))
        assert not store.save_checkpoint(checkpoint(worker, stale, "", "3"))
        work.end(store, worker, claimed, Succeeded())
        assert not store.save_checkpoint(checkpoint(worker, claimed.hold, "", "4"))
        assert {"": "1"} == store.get_checkpoints(claimed.record.id)


class WakingWorkers(AtPlaces):
    """What `wakeups` promises to workers."""

    def test_a_run_that_is_queued_wakes_a_worker(self, store: Store) -> None:
        """So that nobody has to poll."""
        place = self.place(store, MemberKind.WORKER)
        work.join_worker(store, wake_address=place.address)
        work.queue(store)

        assert place.wait(WAIT_MAX_US)
        place.close()

    def test_a_queue_that_is_resumed_wakes_a_worker(self, store: Store) -> None:
        store.pause_queue("default", ADA)
        place = self.place(store, MemberKind.WORKER)
        work.join_worker(store, wake_address=place.address)
        store.resume_queue("default", ADA)

        assert place.wait(WAIT_MAX_US)
        place.close()

    def test_asking_to_cancel_wakes_a_worker(self, store: Store) -> None:
        work.queue(store)
        place = self.place(store, MemberKind.WORKER)
        worker = work.join_worker(store, wake_address=place.address)
        claimed = work.take_one(store, worker)
        store.cancel_run(cancel_run(claimed.record.id))

        assert place.wait(WAIT_MAX_US)
        place.close()


def served(store: Store, *tasks: str) -> list[bool]:
    """Say which tasks a living worker serves in the usual queue."""
    return [store.is_served(task, "default") for task in tasks]


def line(text: str) -> LogLine:
    """Return a line that an attempt wrote."""
    return LogLine(7, "INFO", text)


def traces(store: Store, claimed: ClaimedRun) -> tuple[list[object], list[object]]:
    """Return what a run's attempts have reported."""
    run_id = claimed.record.id
    return [*store.list_progress(run_id, 10)], [*store.list_lines(run_id, 0, 10)]


def checkpoint(worker: MemberId, hold: ClaimRef, partition: str, state: str) -> SaveCheckpoint:
    """Return the order to remember a state."""
    return SaveCheckpoint(worker=worker, hold=hold, partition=partition, state=state)


ACCEPTED, REFUSED = FinishResult.ACCEPTED, FinishResult.REFUSED
RETRYABLE = Failed("boom", after_us=30 * SECOND_US)
ENDS_OF_OPEN_RUNS: dict[str, End] = {
    "failed": RETRYABLE,
    "fatal": work.FATAL,
    "snoozed": Snoozed(HOUR_US),
    "given back": ReturnedToQueue(Reason.SHUTDOWN, is_started=True),
}
BUDGET_SPENT = TaskPolicy(retry=Retry(1))


class EndingAndTaking:
    """What `finish_and_claim` promises: the one, and then the other."""

    def test_what_is_ended_and_what_is_taken_are_both_done(self, store: Store) -> None:
        """One answer for each end, and more runs with it."""
        worker, claimed = work.queue_and_take(store)
        following = work.queue(store, "b")
        finished, taken = store.finish_and_claim(
            [finish(claimed, Succeeded("1"))], ClaimRuns(worker=worker, limit=10)
        )

        assert ((ACCEPTED,), True) == (finished.results, taken.is_alive)
        assert [following] == [run.run_id for run in taken.runs]
        assert RunState.SUCCEEDED is work.get_run(store, claimed.run_id).state
        assert RunState.RUNNING is work.get_run(store, following).state

    def test_what_goes_back_to_the_queue_may_be_taken_again(self, store: Store) -> None:
        """Under the next fence."""
        worker, claimed = work.queue_and_take(store)
        back = finish(claimed, ReturnedToQueue(Reason.SHUTDOWN, is_started=True))
        _, taken = store.finish_and_claim([back], ClaimRuns(worker=worker, limit=10))

        assert [ClaimRef(claimed.run_id, 2)] == [run.hold for run in taken.runs]

    def test_ends_of_every_kind_are_told_together(self, store: Store) -> None:
        """Plain ones and others, and one that is refused."""
        worker = work.join_worker(store)
        for text in ("a", "b"):
            work.queue(store, text)
        plain, other = work.take(store, worker)
        unknown = replace(finish(plain, Succeeded()), hold=ClaimRef(run_id("nobody"), 1))
        finished, taken = store.finish_and_claim(
            [finish(plain, Succeeded()), unknown, finish(other, RETRYABLE)],
            ClaimRuns(worker=worker, limit=10),
        )

        assert (ACCEPTED, REFUSED, ACCEPTED) == finished.results
        assert () == taken.runs
        assert RunState.RETRYING is work.get_run(store, other.run_id).state

    def test_a_worker_whose_lease_is_over_ends_and_takes_nothing(
        self, store: Store, clock: ManualClock
    ) -> None:
        """What nobody has taken from it is still its own to end."""
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
        """INV-7: one outcome, and each fact with its own time."""
        worker, claimed = work.queue_and_take(store)
        clock.advance(9)
        started_at = claimed.claimed_at + 2

        assert ACCEPTED == work.end(
            store, worker, claimed, Succeeded('{"sent":3}'), started_at=started_at
        )

        record = work.get_run(store, claimed.record.id)
        expected = replace(
            claimed.record,
            state=RunState.SUCCEEDED,
            finished_at=clock.now_us(),
            started_at=started_at,
            result='{"sent":3}',
            tries=AttemptCounts(1, 1, 1, claimed.claimed_at),
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
        """There is no point in trying again."""
        record = ended(store, GaveUp(Reason.GAVE_UP, "never"))

        assert (RunState.FAILED, Reason.GAVE_UP, "never") == told(record)

    def test_a_cancelled_attempt_closes_the_run(self, store: Store) -> None:
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
        """Charged, with the reason of its attempt."""
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
        """From when the store has it, by the store's clock."""
        worker, claimed = work.queue_and_take(store)
        clock.advance(5 * SECOND_US)
        work.end(store, worker, claimed, RETRYABLE)

        assert clock.now_us() + 30 * SECOND_US == work.get_run(store, claimed.record.id).next_at

    def test_a_snoozed_run_waits_and_pays_nothing(self, store: Store, clock: ManualClock) -> None:
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
        """Nothing is lost, and nothing paid; unstarted it has no number. An error is on record."""
        clock.advance(1)
        how = ReturnedToQueue(Reason.SHUTDOWN, is_started=is_started, error="no module")
        record = ended(store, how)

        assert (RunState.QUEUED, None, "no module") == told(record)
        number = 1 if is_started else None
        assert (1, number or 0, 0) == (
            record.tries.fence,
            record.tries.attempt,
            record.tries.charged,
        )
        (attempt,) = store.list_attempts(record.id)
        assert (AttemptState.GIVEN_BACK, Reason.SHUTDOWN, number, "no module") == (
            attempt.state,
            attempt.reason,
            attempt.number,
            attempt.error,
        )
        (waiting,) = store.list_queues()
        assert (1, clock.now_us()) == (waiting.queued, waiting.oldest_at)

    def test_what_can_not_be_repaired_by_trying_is_dead(self, store: Store) -> None:
        """At once, a place with all its attempts."""
        record = ended(store, work.FATAL)

        assert (RunState.DEAD, Reason.NOT_RETRYABLE, "no use") == told(record)
        assert 1 == store.status().dead
        (entry,) = steps.audit(store, action="run.dead")
        assert (record.id, record.tenant) == (entry.subject_id, entry.tenant)
        assert {"reason": "not-retryable", "attempt": 1, "charged": 1} == entry.after

    def test_a_run_without_budget_is_dead(self, store: Store) -> None:
        record = ended(store, RETRYABLE, policy=BUDGET_SPENT)

        assert (RunState.DEAD, Reason.BUDGET, "boom") == told(record)

    def test_what_a_finish_brings_along_is_kept(self, store: Store, clock: ManualClock) -> None:
        """The last progress, as a step of its own, and the last lines."""
        worker, claimed = work.queue_and_take(store)
        clock.advance(1)
        progress, last = Progress(5, 5), LogLine(3, "INFO", "done")
        work.end(store, worker, claimed, Succeeded(), progress=progress, lines=(last,))

        the_run = claimed.record.id
        assert progress == work.get_run(store, the_run).progress
        assert [ProgressRecord(1, clock.now_us(), progress)] == store.list_progress(the_run, 9)
        assert [last] == [one.line for one in store.list_lines(the_run, 0, 9)]
        (attempt,) = store.list_attempts(the_run)
        assert (progress, clock.now_us()) == (attempt.progress, attempt.progress_at)

    def test_a_start_that_was_reported_is_not_moved_by_the_finish(self, store: Store) -> None:
        """And without any, there was none."""
        worker, claimed = work.queue_and_take(store)
        store.report(worker, [Report(hold=claimed.hold, started_at=3)])
        work.end(store, worker, claimed, Succeeded(), started_at=8)
        other_worker, other = work.queue_and_take(store, "b")
        work.end(store, other_worker, other, CancelledEnd(), started_at=None)

        assert 3 == work.get_run(store, claimed.record.id).started_at
        assert work.get_run(store, other.record.id).started_at is None

    def test_a_batch_is_finished_in_the_order_given(self, store: Store) -> None:
        """Each has its own result, and one that is refused stops no other."""
        worker = work.join_worker(store)
        for text in ("a", "b", "c", "d"):
            work.queue(store, text)
        first, dying, stale, last = work.take(store, worker)
        old = replace(finish(stale, Succeeded()), hold=ClaimRef(stale.record.id, 7))
        ends = [finish(first, Succeeded()), finish(dying, work.FATAL), old]

        finished = store.finish_runs(worker, [*ends, finish(last, work.FATAL)])

        assert (ACCEPTED, ACCEPTED, REFUSED, ACCEPTED) == finished.results
        states = [work.get_run(store, one.record.id).state for one in (first, dying, stale, last)]
        assert [RunState.SUCCEEDED, RunState.DEAD, RunState.RUNNING, RunState.DEAD] == states
        actions = [entry.action for entry in steps.audit(store)]
        assert ["run.dead", "attempt.refused", "run.dead"] == actions

    @pytest.mark.parametrize("said", ["failed", "fatal", "snoozed", "given back"])
    def test_a_run_that_was_to_be_cancelled_is_not_tried_again(
        self, store: Store, said: str
    ) -> None:
        """Nor dead: whatever its attempt says, a person's word is not forgotten."""
        how = ENDS_OF_OPEN_RUNS[said]
        worker, claimed = work.queue_and_take(store)
        store.cancel_run(cancel_run(claimed.record.id))

        assert ACCEPTED == work.end(store, worker, claimed, how)

        record = work.get_run(store, claimed.record.id)
        assert (RunState.CANCELLED, Reason.CANCELLED) == (record.state, record.state_reason)
        (attempt,) = store.list_attempts(record.id)
        assert finish(claimed, how).conclusion.attempt_state == attempt.state
        assert attempt.cancel_asked_at is not None
        assert ACCEPTED == work.end(store, worker, claimed, how)
        assert [] == store.check()

    def test_a_run_that_made_it_before_the_cancellation_has_succeeded(self, store: Store) -> None:
        """What is done is done."""
        worker, claimed = work.queue_and_take(store)
        store.cancel_run(cancel_run(claimed.record.id))
        work.end(store, worker, claimed, Succeeded())

        assert RunState.SUCCEEDED == work.get_run(store, claimed.record.id).state


class LateCompletions:
    """What `finish_runs` promises about answers that were lost, and workers that were."""

    @pytest.mark.parametrize(
        "how",
        [
            Succeeded("1"),
            RETRYABLE,
            work.FATAL,
            GaveUp(Reason.GAVE_UP, "never"),
            ReturnedToQueue(Reason.SHUTDOWN, is_started=False),
        ],
        ids=["succeeded", "failed", "dead", "gave up", "given back"],
    )
    def test_finishing_twice_is_accepted_and_changes_nothing(
        self, store: Store, clock: ManualClock, how: End
    ) -> None:
        """INV-7: the first answer was lost."""
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
        """INV-5: the run has gone on since, and stays where it is."""
        worker, claimed = work.queue_and_take(store)
        work.end(store, worker, claimed, RETRYABLE)
        work.fire_retries(store, clock)
        other = work.join_worker(store)
        work.take_one(store, other)

        assert ACCEPTED == work.end(store, worker, claimed, RETRYABLE)
        record = work.get_run(store, claimed.record.id)
        assert (RunState.RUNNING, other) == (record.state, record.worker)

    def test_a_lost_owner_changes_nothing_and_its_word_is_kept(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-5, INV-10: also when it succeeded; the run goes on in other hands."""
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
        word = LateReport(state=AttemptState.SUCCEEDED, at=clock.now_us(), result='"sent"')
        assert (AttemptState.LOST, word) == (first.state, first.late)
        assert (None, heir) == (second.late, second.worker)
        (entry,) = steps.audit(store, action="attempt.refused")
        assert (the_run, {"worker": worker, "fence": 1, "state": "succeeded"}) == (
            entry.subject_id,
            entry.after,
        )

    def test_a_late_word_is_kept_once(self, store: Store, clock: ManualClock) -> None:
        """Whatever else is said after it, and however often."""
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
        """INV-7: a second, other end is refused; the outcome stays."""
        worker, claimed = work.queue_and_take(store)
        work.end(store, worker, claimed, Succeeded("1"))

        assert REFUSED == work.end(store, worker, claimed, Failed("after all"))

        record = work.get_run(store, claimed.record.id)
        assert (RunState.SUCCEEDED, "1", None) == (record.state, record.result, record.error)
        (attempt,) = store.list_attempts(record.id)
        assert attempt.late is not None
        assert (AttemptState.FAILED, "after all") == (attempt.late.state, attempt.late.error)

    def test_a_claim_of_somebody_else_can_not_be_finished(self, store: Store) -> None:
        """INV-5: the right fence in the wrong hands."""
        worker, claimed = work.queue_and_take(store)
        other = work.join_worker(store)

        assert REFUSED == work.end(store, other, claimed, Succeeded())
        assert RunState.RUNNING == work.get_run(store, claimed.record.id).state
        assert store.list_attempts(claimed.record.id)[0].late is None
        assert ACCEPTED == work.end(store, worker, claimed, Succeeded())
        assert REFUSED == work.end(store, other, claimed, Succeeded())

    def test_a_run_that_nobody_knows_can_not_be_finished(self, store: Store) -> None:
        """And the refusal is on the trail."""
        worker, claimed = work.queue_and_take(store)
        unknown = replace(finish(claimed, Succeeded()), hold=ClaimRef(run_id("nobody"), 1))

        assert (REFUSED,) == store.finish_runs(worker, [unknown]).results
        (entry,) = steps.audit(store, action="attempt.refused")
        assert ("", unknown.hold.run_id) == (entry.tenant, entry.subject_id)

    def test_an_expired_worker_may_still_finish_what_nobody_has_settled(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-7: work that was done is not thrown away."""
        worker, claimed = work.queue_and_take(store)
        clock.advance(2 * WORKER_TTL_US)

        assert ACCEPTED == work.end(store, worker, claimed, Succeeded())
        assert RunState.SUCCEEDED == work.get_run(store, claimed.record.id).state

    def test_nothing_to_finish_is_nothing_done(self, store: Store) -> None:
        assert () == store.finish_runs(work.join_worker(store), []).results


def ended(store: Store, how: End, **parts: object) -> RunRecord:
    """Queue a run, claim it, end its attempt so; return the run."""
    worker, claimed = work.queue_and_take(store)
    assert ACCEPTED == work.end(store, worker, claimed, how, **parts)
    assert [] == store.check()
    return work.get_run(store, claimed.record.id)


def told(record: RunRecord) -> tuple[RunState, str | None, str | None]:
    """Return what a run says about how it went."""
    return record.state, record.state_reason, record.error


def taken_over(store: Store, clock: ManualClock) -> tuple[MemberId, ClaimedRun, MemberId]:
    """Return a worker that has lost a run to another: its claim, and its heir."""
    worker, claimed = work.queue_and_take(store)
    clock.advance(WORKER_TTL_US)
    assert [True] == work.settle_lost(store, work.maintain(store), *work.lost_claims(store))
    work.fire_retries(store, clock)
    heir = work.join_worker(store)
    work.take_one(store, heir)
    return worker, claimed, heir


# ruff: noqa: PT012 - a lent transaction is a block, and it is the block that fails


DONE = Succeeded('"paid"')


def written(store: Store, worker: MemberId, claimed: ClaimedRun, text: str, **parts: Any) -> None:
    """Write something and end an attempt, together."""
    with store.transaction(SECOND_US) as lent:
        store.joined(lent).add_runs(add_runs(new_run(None, text)))
        store.finish_within(lent, worker, finish(claimed, DONE, **parts))


def lose(store: Store, clock: ManualClock) -> None:
    """Let all claims be taken from their workers."""
    clock.advance(WORKER_TTL_US)
    fence = work.maintain(store)
    assert all(work.settle_lost(store, fence, *work.lost_claims(store)))
    store.leave(fence.member)


class FinishingWithin:
    """What `finish_within` promises."""

    has_own_tables: bool
    placeholder: str

    @pytest.fixture
    def invoices(self, store: Store) -> str:
        """Return the statement that writes into a table of the caller's."""
        if not self.has_own_tables:
            pytest.skip("this store has no tables for the caller")
        with store.transaction(SECOND_US) as lent:
            lent.execute("CREATE TABLE invoice (number INTEGER)")
        return f"INSERT INTO invoice VALUES ({self.placeholder})"  # noqa: S608 - no value

    def test_own_rows_and_the_end_of_the_run_commit_together(
        self, store: Store, invoices: str
    ) -> None:
        """One business result."""
        worker, claimed = work.queue_and_take(store)

        with store.transaction(SECOND_US) as lent:
            lent.execute(invoices, (1,))
            store.finish_within(lent, worker, finish(claimed, DONE))

        record = work.get_run(store, claimed.run_id)
        assert (RunState.SUCCEEDED, '"paid"') == (record.state, record.result)
        with store.transaction(SECOND_US) as lent:
            assert [(1,)] == lent.execute("SELECT number FROM invoice")

    def test_own_rows_are_undone_when_the_run_is_somebody_elses(
        self, store: Store, clock: ManualClock, invoices: str
    ) -> None:
        """INV-4, INV-5: the one who has it now writes them."""
        worker, claimed = work.queue_and_take(store)
        lose(store, clock)
        work.fire_retries(store, clock)
        heir = work.join_worker(store)
        again = work.take_one(store, heir)

        with pytest.raises(LeaseLost), store.transaction(SECOND_US) as lent:
            lent.execute(invoices, (1,))
            store.finish_within(lent, worker, finish(claimed, DONE))
        with store.transaction(SECOND_US) as lent:
            lent.execute(invoices, (2,))
            store.finish_within(lent, heir, finish(again, DONE))

        with store.transaction(SECOND_US) as lent:
            assert [(2,)] == lent.execute("SELECT number FROM invoice")

    def test_an_end_within_is_like_any_other(self, store: Store) -> None:
        """With all that its attempt still had to tell."""
        worker, claimed = work.queue_and_take(store)
        check = check_of(claimed.record, claimed.fence)

        written(
            store,
            worker,
            claimed,
            "more",
            progress=Progress(3, 3, None),
            lines=(LogLine(store.now(), "info", "paid"),),
            scope=ItemReport(expected=3, done=("a", "b", "c")),
            follow_up=check,
        )

        (attempt,) = store.list_attempts(claimed.run_id)
        assert (1, Progress(3, 3, None)) == (attempt.number, attempt.progress)
        assert ["paid"] == [one.line.text for one in store.list_lines(claimed.run_id, 0, 10)]
        assert store.get_scope(claimed.run_id).is_complete
        checking = work.get_run(store, check.id)
        assert (Origin.VERIFY, claimed.run_id) == (checking.origin, checking.root)
        assert [] == store.check()

    def test_an_attempt_may_end_badly_within(self, store: Store) -> None:
        """What it has written stays, and it is tried again."""
        worker, claimed = work.queue_and_take(store)

        with store.transaction(SECOND_US) as lent:
            store.finish_within(lent, worker, finish(claimed, Failed("half of it")))

        assert RunState.RETRYING is work.get_run(store, claimed.run_id).state
        assert [] == store.check()

    def test_the_attempt_goes_on_when_the_caller_fails(self, store: Store) -> None:
        """INV-18: neither his rows nor the end."""
        worker, claimed = work.queue_and_take(store)
        before = snapshot(store)

        with pytest.raises(Interrupted), store.transaction(SECOND_US) as lent:
            store.finish_within(lent, worker, finish(claimed, DONE))
            raise Interrupted

        assert before == snapshot(store)
        assert FinishResult.ACCEPTED == work.end(store, worker, claimed, DONE)

    def test_the_attempt_goes_on_when_the_commit_comes_too_late(
        self, store: Store, clock: ManualClock
    ) -> None:
        worker, claimed = work.queue_and_take(store)

        with pytest.raises(StoreUnavailable), store.transaction(SECOND_US) as lent:
            store.finish_within(lent, worker, finish(claimed, DONE))
            clock.advance(SECOND_US + 1)

        assert RunState.RUNNING is work.get_run(store, claimed.run_id).state

    def test_who_lost_the_run_writes_nothing(self, store: Store, clock: ManualClock) -> None:
        """INV-5: not even who keeps the refusal to himself."""
        worker, claimed = work.queue_and_take(store)
        lose(store, clock)
        before = snapshot(store)

        with pytest.raises(LeaseLost, match="taken from this worker"):
            written(store, worker, claimed, "more")
        with pytest.raises(LeaseLost), store.transaction(SECOND_US) as lent:
            store.joined(lent).add_runs(add_runs(new_run(None, "more")))
            with suppress(LeaseLost):
                store.finish_within(lent, worker, finish(claimed, DONE))

        assert before == snapshot(store)

    def test_an_attempt_that_has_ended_does_not_end_again(self, store: Store) -> None:
        """INV-6: whatever it would write is written already."""
        worker, claimed = work.queue_and_take(store)
        written(store, worker, claimed, "first")
        before = snapshot(store)

        with pytest.raises(LeaseLost):
            written(store, worker, claimed, "second")

        assert before == snapshot(store)

    def test_who_did_not_hear_of_the_commit_may_say_the_end_again(self, store: Store) -> None:
        """INV-17: by itself, and nothing happens twice."""
        worker, claimed = work.queue_and_take(store)
        written(store, worker, claimed, "first")
        before = snapshot(store)

        assert FinishResult.ACCEPTED == work.end(store, worker, claimed, DONE)
        assert before == snapshot(store)

    def test_nothing_comes_after_the_last_word(self, store: Store) -> None:
        """What the run did is decided by then."""
        worker, claimed = work.queue_and_take(store)

        with store.transaction(SECOND_US) as lent:
            store.finish_within(lent, worker, finish(claimed, DONE))
            with pytest.raises(UsageError, match="takes nothing more"):
                store.joined(lent).add_runs(add_runs(new_run(None, "more")))

        assert 0 == steps.queued(store)
        assert RunState.SUCCEEDED is work.get_run(store, claimed.run_id).state

    def test_whoever_waits_for_the_run_is_let_through_afterwards(
        self, store: Store, clock: ManualClock
    ) -> None:
        """No gate is opened inside the caller's transaction."""
        record = fired(store, clock, Overlap.QUEUE_ALL, times=2)
        worker = work.join_worker(store, ttl_us=10 * HOUR_US)
        claimed = work.take_one(store, worker)

        with store.transaction(SECOND_US) as lent:
            store.finish_within(lent, worker, finish(claimed, DONE))

        assert ["succeeded", "blocked"] == states(store, record)
        assert 1 == store.open_gates(10)
        assert [] == store.check()

    def test_a_transaction_that_nobody_lent_is_refused(self, store: Store) -> None:
        worker, claimed = work.queue_and_take(store)

        for within in (None, object()):
            with pytest.raises(UsageError):
                store.finish_within(within, worker, finish(claimed, DONE))

        assert RunState.RUNNING is work.get_run(store, claimed.run_id).state
