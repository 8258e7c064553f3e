"""Looking at work: the part of the contract about attempts, counts and runs in their places."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from duly.domain.attempts import AttemptRecord, LogLine, Progress, Reason, TaskPolicy
from duly.domain.concluding import Failed, GivenBack, Snoozed, Succeeded
from duly.domain.literals import AttemptState, RunState
from duly.domain.schedules import TENANT_DEFAULT
from duly.store.dispatch import Prune, PruneKind, Retention
from duly.store.execution import WORKER_TTL_US, Beat, Report, SaveCheckpoint
from duly.store.reading import RunFilter
from duly.testing.conformance import work_steps as work
from duly.testing.factories import ADA, DAY_US, HOUR_US, SECOND_US, cancel_run, order_runs, run_id

if TYPE_CHECKING:
    from collections.abc import Sized

    from duly.domain.identity import RunId
    from duly.store.dispatch import Pruned
    from duly.store.execution import ClaimedRun
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock

STALL_US = 10 * SECOND_US
NOTHING_KEPT = Retention(
    outcomes_us=dict.fromkeys(RunState, 0),
    runs_per_schedule=None,
    skips_us=None,
    deleted_schedules_us=None,
)
KEPT_FOR_LONG = replace(NOTHING_KEPT, outcomes_us=dict.fromkeys(RunState, 365 * DAY_US))


class ReadingAttempts:
    """What `list_attempts` promises."""

    def test_a_claim_is_claimed_until_its_start_is_known(
        self, store: Store, clock: ManualClock
    ) -> None:
        """R2, R3: then it is running, with the time of each fact."""
        work.queue(store)
        worker = work.join(store, host="mill", process=31)
        claimed = work.take_one(store, worker)
        clock.advance(1)
        store.beat(Beat(worker=worker, holds=(claimed.hold,)))
        expected = AttemptRecord(
            run_id=claimed.record.id,
            fence=1,
            number=1,
            worker=worker,
            worker_name="mill:31",
            state=AttemptState.CLAIMED,
            reason=None,
            claimed_at=claimed.claimed_at,
            started_at=None,
            heartbeat_at=clock.now_us(),
            progress=None,
            progress_at=None,
            cancel_asked_at=None,
            ended_at=None,
            error=None,
        )

        assert [expected] == store.list_attempts(claimed.record.id)
        store.report(worker, [Report(hold=claimed.hold, started_at=5)])
        running = replace(expected, state=AttemptState.RUNNING, started_at=5)
        assert [running] == store.list_attempts(claimed.record.id)

    @pytest.mark.parametrize("is_started", [True, False])
    def test_a_claim_whose_worker_is_silent_is_stale(
        self, store: Store, clock: ManualClock, *, is_started: bool
    ) -> None:
        """R3: from the instant its lease runs out; nobody has settled it yet."""
        worker, claimed = work.queue_and_take(store)
        if is_started:
            store.report(worker, [Report(hold=claimed.hold, started_at=5)])
        clock.advance(WORKER_TTL_US - 1)
        before = state_of(store, claimed)
        clock.advance(1)

        assert (AttemptState.RUNNING if is_started else AttemptState.CLAIMED) == before
        assert AttemptState.HEARTBEAT_STALE == state_of(store, claimed)

    def test_an_attempt_that_breathes_and_does_not_advance_is_stalled(
        self, store: Store, clock: ManualClock
    ) -> None:
        """R5: counted from its start, and then from its last progress."""
        store.register_policies({"remind": TaskPolicy(stall_us=STALL_US)})
        work.queue(store)
        worker = work.join(store, ttl_us=HOUR_US)
        claimed = work.take_one(store, worker)
        clock.advance(DAY_US // 48)
        assert AttemptState.CLAIMED == state_of(store, claimed)
        store.report(worker, [Report(hold=claimed.hold, started_at=clock.now_us())])
        seen = []
        for _ in range(2):
            clock.advance(STALL_US)
            seen.append(state_of(store, claimed))
            clock.advance(1)
            seen.append(state_of(store, claimed))
            store.report(worker, [Report(hold=claimed.hold, progress=Progress(1))])

        running, stalled = AttemptState.RUNNING, AttemptState.STALLED
        assert [running, stalled, running, stalled] == seen
        assert running == state_of(store, claimed)

    def test_a_task_that_need_not_report_never_stalls(
        self, store: Store, clock: ManualClock
    ) -> None:
        """R5."""
        work.queue(store)
        worker = work.join(store, ttl_us=2 * DAY_US)
        claimed = work.take_one(store, worker)
        store.report(worker, [Report(hold=claimed.hold, started_at=clock.now_us())])
        clock.advance(DAY_US)

        assert AttemptState.RUNNING == state_of(store, claimed)

    def test_every_claim_is_told_by_its_fence(self, store: Store, clock: ManualClock) -> None:
        """R1, R2: those that ended, and the one that closed the run, with all they reported."""
        work.queue(store)
        worker = work.join(store, ttl_us=HOUR_US)
        joined_at = clock.now_us()
        ends = (
            GivenBack(Reason.NOT_STARTED, is_started=False),
            Failed("oh", after_us=0),
            Succeeded("1"),
        )
        claimed_at = []
        target = run_id("nobody")
        for how in ends:
            clock.advance(1)
            claimed = work.take_one(store, worker)
            target = claimed.record.id
            claimed_at.append(clock.now_us())
            store.report(
                worker, [Report(hold=claimed.hold, progress=Progress(claimed.tries.fence))]
            )
            clock.advance(1)
            work.end(store, worker, claimed, how)
            work.fire_retries(store, clock)

        found = store.list_attempts(target)
        assert [1, 2, 3] == [one.fence for one in found]
        assert [None, 1, 2] == [one.number for one in found]
        assert [AttemptState.GIVEN_BACK, AttemptState.FAILED, AttemptState.SUCCEEDED] == [
            one.state for one in found
        ]
        assert [Progress(1), Progress(2), Progress(3)] == [one.progress for one in found]
        assert claimed_at == [one.claimed_at for one in found]
        assert claimed_at == [one.progress_at for one in found]
        assert [at + 1 for at in claimed_at] == [one.ended_at for one in found]
        assert [joined_at] * 3 == [one.heartbeat_at for one in found]
        assert [None, "oh", None] == [one.error for one in found]
        assert work.look(store, target).error is None

    @pytest.mark.parametrize("is_live", [False, True])
    def test_of_many_attempts_the_last_few_are_listed(
        self, store: Store, clock: ManualClock, *, is_live: bool
    ) -> None:
        """R1, R2: in order, whether the last one lives or has closed the run."""
        target = work.queue(store)
        worker = work.join(store, ttl_us=HOUR_US)
        for _ in range(3):
            work.end(store, worker, work.take_one(store, worker), Snoozed(0))
            work.fire_retries(store, clock)
        last = work.take_one(store, worker)
        if not is_live:
            work.end(store, worker, last, Succeeded())

        assert [[1, 2, 3, 4], [3, 4], [4], []] == [
            [attempt.fence for attempt in store.list_attempts(target, limit)]
            for limit in (4, 2, 1, 0)
        ]

    def test_a_run_that_was_never_claimed_has_no_attempts(self, store: Store) -> None:
        """R1: nor has one that a person cancelled, or nobody knows."""
        queued, cancelled = work.queue(store), work.queue(store, "b")
        store.cancel_run(cancel_run(cancelled))

        assert [[], [], []] == [
            store.list_attempts(one) for one in (queued, cancelled, run_id("nobody"))
        ]

    def test_an_order_that_closes_a_run_is_no_attempt(self, store: Store) -> None:
        """R1, B3."""
        target = work.make_dead(store)
        store.discard_runs(order_runs(target))

        (attempt,) = store.list_attempts(target)
        assert (1, AttemptState.FAILED) == (attempt.fence, attempt.state)

    def test_that_somebody_asked_to_cancel_is_told(self, store: Store, clock: ManualClock) -> None:
        """R2: of the live attempt, and afterwards."""
        worker, claimed = work.queue_and_take(store)
        store.cancel_run(cancel_run(claimed.record.id))
        asked_at = clock.now_us()
        live = store.list_attempts(claimed.record.id)
        clock.advance(1)
        work.end(store, worker, claimed, Succeeded())
        ended = store.list_attempts(claimed.record.id)

        assert [asked_at] * 2 == [one.cancel_asked_at for one in (*live, *ended)]
        assert asked_at == work.look(store, claimed.record.id).cancel_asked_at

    def test_the_error_of_the_last_attempt_stays_in_sight(
        self, store: Store, clock: ManualClock
    ) -> None:
        """B1: while the run waits, is queued and runs again."""
        target = work.make_waiting(store)
        seen = [work.look(store, target).error]
        work.fire_retries(store, clock)
        seen.append(work.look(store, target).error)
        worker = work.join(store)
        claimed = work.take_one(store, worker)
        seen.append(work.look(store, target).error)
        work.end(store, worker, claimed, Failed("worse"))
        seen.append(work.look(store, target).error)

        assert ["try again", "try again", "try again", "worse"] == seen


class CountingWork:
    """What `status` and `list_runs` promise about runs that are worked on."""

    def test_the_status_counts_runs_by_place(self, store: Store, clock: ManualClock) -> None:
        """V1: and retries are timers: due, or the next to fall due."""
        work.make_dead(store, "dead")
        work.make_waiting(store, "due", after_us=SECOND_US)
        due_at = clock.now_us() + SECOND_US
        work.make_waiting(store, "later", after_us=HOUR_US)
        later_at = clock.now_us() + HOUR_US
        work.queue_and_take(store, "running")
        work.queue(store, "queued", queue="mail")
        store.pause_queue("mail", ADA)
        clock.advance(SECOND_US)

        status = store.status()

        assert (1, 1, 2, 1) == (status.queued, status.running, status.retrying, status.dead)
        assert (1, due_at, later_at) == (status.overdue, status.oldest_due_at, status.next_due_at)
        assert ({"mail": 1}, ("mail",)) == (dict(status.queues), status.paused_queues)

    def test_runs_are_found_by_where_they_are(self, store: Store) -> None:
        """B3: and by why."""
        dead = work.make_dead(store, "dead")
        waiting = work.make_waiting(store, "waiting")
        _, running = work.queue_and_take(store, "running")
        over = work.queue(store, "over")
        worker = work.join(store)
        work.end(store, worker, work.take_one(store, worker), Succeeded())
        again = work.queue(store, "again")

        found = {
            state: listed(store, states=frozenset((state,)))
            for state in (
                RunState.DEAD,
                RunState.RETRYING,
                RunState.RUNNING,
                RunState.SUCCEEDED,
                RunState.QUEUED,
            )
        }

        assert {
            RunState.DEAD: [dead],
            RunState.RETRYING: [waiting],
            RunState.RUNNING: [running.record.id],
            RunState.SUCCEEDED: [over],
            RunState.QUEUED: [again],
        } == found
        both = frozenset((RunState.DEAD, RunState.QUEUED))
        assert {dead, again} == set(listed(store, states=both))
        assert [dead] == listed(store, reason="not-retryable")
        assert [waiting] == listed(store, reason="error")
        assert [] == listed(store, reason="budget")


class ForgettingWork:
    """What `prune` promises about what workers have left."""

    def test_all_that_a_pruned_run_has_left_goes_with_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        """D6: attempts, progress, lines and checkpoints; others' stay."""
        kept_for = trace(store, clock, "kept", None)
        gone = trace(store, clock, "gone", Succeeded())
        clock.advance(1)

        assert 1 == prune(store).counts[PruneKind.OUTCOMES]

        assert store.get_run(gone) is None
        assert ([], [], [], {}) == left(store, gone)
        assert [2, 1, 1, 1] == [len(one) for one in left(store, kept_for)]
        assert [] == store.check()

    @pytest.mark.parametrize("place", ["queued", "running", "retrying", "dead"])
    def test_an_open_run_is_never_pruned(
        self, store: Store, clock: ManualClock, place: str
    ) -> None:
        """D6, INV-7: wherever it is, dead letters included."""
        if place == "queued":
            target = work.queue(store)
        elif place == "running":
            target = work.queue_and_take(store)[1].record.id
        else:
            target = work.make_dead(store) if place == "dead" else work.make_waiting(store)
        before = work.look(store, target)
        attempts = len(store.list_attempts(target))
        clock.advance(90 * DAY_US)

        assert 0 == prune(store).counts[PruneKind.OUTCOMES]
        assert before == work.look(store, target)
        assert attempts == len(store.list_attempts(target))

    def test_a_dead_worker_that_still_holds_a_run_is_kept(
        self, store: Store, clock: ManualClock
    ) -> None:
        """R4, D6: until somebody has settled it."""
        work.queue_and_take(store)
        clock.advance(90 * DAY_US)

        assert 0 == prune(store).counts[PruneKind.MEMBERS]
        assert 1 == len(work.lost_claims(store))
        work.settle(store, work.maintain(store), *work.lost_claims(store))
        clock.advance(DAY_US)
        assert 0 < prune(store).counts[PruneKind.MEMBERS]

    def test_who_made_an_attempt_and_breathed_when_stays_readable(
        self, store: Store, clock: ManualClock
    ) -> None:
        """R2, D6: also when the worker is a member no more; of attempts lost and closing."""
        lost_by, lost = work.queue_and_take(store)
        breathed_at = clock.now_us()
        clock.advance(WORKER_TTL_US)
        work.settle(store, work.maintain(store), *work.lost_claims(store))
        work.fire_retries(store, clock)
        worker = work.join(store)
        again = work.take_one(store, worker)
        clock.advance(1)
        store.beat(Beat(worker=worker, holds=(again.hold,)))
        last_at = clock.now_us()
        clock.advance(1)
        work.end(store, worker, again, Succeeded())
        store.leave(worker)
        before = store.list_attempts(lost.record.id)
        clock.advance(HOUR_US)
        assert prune(store, KEPT_FOR_LONG).counts[PruneKind.MEMBERS] >= 2

        assert before == store.list_attempts(lost.record.id)
        assert [(lost_by, breathed_at), (worker, last_at)] == [
            (attempt.worker, attempt.heartbeat_at) for attempt in before
        ]
        assert ["there:2"] * 2 == [attempt.worker_name for attempt in before]

    def test_a_heartbeat_after_the_end_is_none_of_the_attempts(
        self, store: Store, clock: ManualClock
    ) -> None:
        """R2: of a worker that lives on, what was the last one before is not known."""
        worker, claimed = work.queue_and_take(store)
        work.end(store, worker, claimed, Succeeded())
        clock.advance(1)
        store.beat(Beat(worker=worker))

        (attempt,) = store.list_attempts(claimed.record.id)
        assert (None, "there:2") == (attempt.heartbeat_at, attempt.worker_name)

    def test_an_attempt_outlives_the_name_of_its_worker(
        self, store: Store, clock: ManualClock
    ) -> None:
        """R2, D6: workers are forgotten when nothing that they closed can be kept any more."""
        target = work.make_dead(store)
        names = []
        for _ in range(2):
            clock.advance(89 * DAY_US)
            prune(store)
            names.append(store.list_attempts(target)[0].worker_name)

        assert ["there:2", ""] == names


def state_of(store: Store, claimed: ClaimedRun) -> AttemptState:
    """Return the state of a run's last attempt."""
    return store.list_attempts(claimed.record.id)[-1].state


def listed(store: Store, **parts: object) -> list[RunId]:
    """Return the runs of a filter."""
    command = RunFilter(tenant=TENANT_DEFAULT)
    return [run.id for run in store.list_runs(replace(command, **parts))]  # type: ignore[arg-type]


def trace(store: Store, clock: ManualClock, text: str, how: Succeeded | None) -> RunId:
    """Let a run leave all that one can leave; end its second attempt if told how."""
    worker, claimed = work.queue_and_take(store, text)
    said = Report(hold=claimed.hold, progress=Progress(1), lines=(LogLine(1, "INFO", text),))
    store.report(worker, [said])
    state = SaveCheckpoint(worker=worker, hold=claimed.hold, partition="", state="1")
    assert store.save_checkpoint(state)
    work.end(store, worker, claimed, Failed("oh", after_us=0))
    work.fire_retries(store, clock)
    again = work.take_one(store, worker)
    if how is not None:
        work.end(store, worker, again, how)
    return claimed.record.id


def left(store: Store, run: RunId) -> tuple[Sized, ...]:
    """Return what is left of a run's work."""
    return (
        [*store.list_attempts(run)],
        [*store.list_progress(run, 9)],
        [*store.list_lines(run, 0, 9)],
        store.get_checkpoints(run),
    )


def prune(store: Store, retention: Retention = NOTHING_KEPT) -> Pruned:
    """Prune once, as a new owner of the maintenance lease."""
    fence = work.maintain(store)
    pruned = store.prune(Prune(fence=fence, retention=retention, limit=100))
    store.leave(fence.member)
    return pruned
