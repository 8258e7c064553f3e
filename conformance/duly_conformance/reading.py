"""What every store must do about filters, pages and lists."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from duly.domain.effects import Choice
from duly.domain.enums import (
    AttemptState,
    Finding,
    Lane,
    Missed,
    Origin,
    Overlap,
    RunState,
    ScheduleStatus,
    SkipReason,
)
from duly.domain.ids import RunId, ScheduleId, occurrence_run_id
from duly.domain.outcomes import Failed, ReturnedToQueue, Snoozed, Succeeded
from duly.domain.policies import Misfire
from duly.domain.runs import AttemptRecord, LogLine, Progress, Reason, TaskPolicy
from duly.domain.schedule_changes import decide_resume, decide_skip_next
from duly.domain.schedules import TENANT_DEFAULT
from duly.domain.verification import ItemReport, Scope
from duly.store.ports.execution import (
    WORKER_TTL_US,
    FinishResult,
    Heartbeat,
    Report,
    SaveCheckpoint,
)
from duly.store.ports.maintenance import Prune, PruneKind, Retention
from duly.store.ports.queries import (
    EFFECTS_MAX,
    AttemptFilter,
    AuditFilter,
    Evidence,
    Findings,
    OccurrenceStatuses,
    RunFilter,
    ScheduleFilter,
)
from duly.timetable.interval import every
from duly_conformance import kit, steps
from duly_conformance import steps as work
from duly_conformance.effects import begin, done, in_doubt, rerun, settle_doubt, taken
from duly_conformance.firing import fire_late
from duly_conformance.kit import (
    ADA,
    DAY_US,
    HOUR_US,
    SECOND_US,
    add_runs,
    cancel,
    cancel_run,
    move,
    new_run,
    order_runs,
    run_id,
    staying,
    template_of,
)
from duly_conformance.overlap import ALL, repaired, tell
from duly_conformance.steps import fired, runs_of
from duly_conformance.vitals import FAILS, ended, verify

if TYPE_CHECKING:
    from collections.abc import Iterator, Sized

    from duly.domain.audit import AuditEntry
    from duly.domain.runs import RunRecord
    from duly.domain.schedules import ScheduleRecord
    from duly.engine.manual_clock import ManualClock
    from duly.store.ports import Store
    from duly.store.ports.execution import ClaimedRun
    from duly.store.ports.maintenance import Pruned
    from duly.store.ports.queries import SearchStore


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
        """Then it is running, with the time of each fact."""
        work.queue(store)
        worker = work.join_worker(store, host="mill", process=31)
        claimed = work.take_one(store, worker)
        clock.advance(1)
        store.beat(Heartbeat(worker=worker, holds=(claimed.hold,)))
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
        """Once three of its five heartbeats are missing; its lease goes on, and it can renew it."""
        worker, claimed = work.queue_and_take(store)
        if is_started:
            store.report(worker, [Report(hold=claimed.hold, started_at=5)])
        fresh = AttemptState.RUNNING if is_started else AttemptState.CLAIMED
        clock.advance(WORKER_TTL_US * 3 // 5 - 1)
        assert fresh == state_of(store, claimed)
        clock.advance(1)
        assert AttemptState.HEARTBEAT_STALE == state_of(store, claimed)
        stale = AttemptFilter(
            tenant=TENANT_DEFAULT, states=frozenset((AttemptState.HEARTBEAT_STALE,))
        )
        assert [claimed.run_id] == [one.run_id for one in store.search_attempts(stale).records]
        store.beat(Heartbeat(worker=worker, holds=(claimed.hold,)))
        assert fresh == state_of(store, claimed)
        assert [] == store.search_attempts(stale).records
        clock.advance(WORKER_TTL_US)
        assert AttemptState.HEARTBEAT_STALE == state_of(store, claimed)

    def test_an_attempt_that_breathes_and_does_not_advance_is_stalled(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Counted from its start, and then from its last progress."""
        store.register_policies({"remind": TaskPolicy(stall_us=STALL_US)})
        work.queue(store)
        worker = work.join_worker(store, ttl_us=HOUR_US)
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
        work.queue(store)
        worker = work.join_worker(store, ttl_us=2 * DAY_US)
        claimed = work.take_one(store, worker)
        store.report(worker, [Report(hold=claimed.hold, started_at=clock.now_us())])
        clock.advance(DAY_US)

        assert AttemptState.RUNNING == state_of(store, claimed)

    def test_every_claim_is_told_by_its_fence(self, store: Store, clock: ManualClock) -> None:
        """Those that ended, and the one that closed the run, with all they reported."""
        work.queue(store)
        worker = work.join_worker(store, ttl_us=HOUR_US)
        joined_at = clock.now_us()
        ends = (
            ReturnedToQueue(Reason.NOT_STARTED, is_started=False),
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
        assert work.get_run(store, target).error is None

    @pytest.mark.parametrize("is_live", [False, True])
    def test_of_many_attempts_the_last_few_are_listed(
        self, store: Store, clock: ManualClock, *, is_live: bool
    ) -> None:
        """In order, whether the last one lives or has closed the run."""
        target = work.queue(store)
        worker = work.join_worker(store, ttl_us=HOUR_US)
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
        """Nor has one that a person cancelled, or nobody knows."""
        queued, cancelled = work.queue(store), work.queue(store, "b")
        store.cancel_run(cancel_run(cancelled))

        assert [[], [], []] == [
            store.list_attempts(one) for one in (queued, cancelled, run_id("nobody"))
        ]

    def test_an_order_that_closes_a_run_is_no_attempt(self, store: Store) -> None:
        target = work.make_dead(store)
        store.discard_runs(order_runs(target))

        (attempt,) = store.list_attempts(target)
        assert (1, AttemptState.FAILED) == (attempt.fence, attempt.state)

    def test_that_somebody_asked_to_cancel_is_told(self, store: Store, clock: ManualClock) -> None:
        """Of the live attempt, and afterwards."""
        worker, claimed = work.queue_and_take(store)
        store.cancel_run(cancel_run(claimed.record.id))
        asked_at = clock.now_us()
        live = store.list_attempts(claimed.record.id)
        clock.advance(1)
        work.end(store, worker, claimed, Succeeded())
        ended = store.list_attempts(claimed.record.id)

        assert [asked_at] * 2 == [one.cancel_asked_at for one in (*live, *ended)]
        assert asked_at == work.get_run(store, claimed.record.id).cancel_asked_at

    def test_the_error_of_the_last_attempt_stays_in_sight(
        self, store: Store, clock: ManualClock
    ) -> None:
        """While the run waits, is queued and runs again."""
        target = work.make_waiting(store)
        seen = [work.get_run(store, target).error]
        work.fire_retries(store, clock)
        seen.append(work.get_run(store, target).error)
        worker = work.join_worker(store)
        claimed = work.take_one(store, worker)
        seen.append(work.get_run(store, target).error)
        work.end(store, worker, claimed, Failed("worse"))
        seen.append(work.get_run(store, target).error)

        assert ["try again", "try again", "try again", "worse"] == seen


class CountingWork:
    """What `status` and `list_runs` promise about runs that are worked on."""

    def test_the_status_counts_runs_by_place(self, store: Store, clock: ManualClock) -> None:
        """And retries are timers: due, or the next to fall due."""
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
        """And by why."""
        dead = work.make_dead(store, "dead")
        waiting = work.make_waiting(store, "waiting")
        _, running = work.queue_and_take(store, "running")
        over = work.queue(store, "over")
        worker = work.join_worker(store)
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
        """Attempts, progress, lines and checkpoints; others' stay."""
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
        """INV-7: wherever it is, dead letters included."""
        if place == "queued":
            target = work.queue(store)
        elif place == "running":
            target = work.queue_and_take(store)[1].record.id
        else:
            target = work.make_dead(store) if place == "dead" else work.make_waiting(store)
        before = work.get_run(store, target)
        attempts = len(store.list_attempts(target))
        clock.advance(90 * DAY_US)

        assert 0 == prune(store).counts[PruneKind.OUTCOMES]
        assert before == work.get_run(store, target)
        assert attempts == len(store.list_attempts(target))

    def test_a_dead_worker_that_still_holds_a_run_is_kept(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Until somebody has settled it."""
        work.queue_and_take(store)
        clock.advance(90 * DAY_US)

        assert 0 == prune(store).counts[PruneKind.MEMBERS]
        assert 1 == len(work.lost_claims(store))
        work.settle_lost(store, work.maintain(store), *work.lost_claims(store))
        clock.advance(DAY_US)
        assert 0 < prune(store).counts[PruneKind.MEMBERS]

    def test_who_made_an_attempt_and_breathed_when_stays_readable(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Also when the worker is a member no more; of attempts lost and closing."""
        lost_by, lost = work.queue_and_take(store)
        breathed_at = clock.now_us()
        clock.advance(WORKER_TTL_US)
        work.settle_lost(store, work.maintain(store), *work.lost_claims(store))
        work.fire_retries(store, clock)
        worker = work.join_worker(store)
        again = work.take_one(store, worker)
        clock.advance(1)
        store.beat(Heartbeat(worker=worker, holds=(again.hold,)))
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
        """Of a worker that lives on, what was the last one before is not known."""
        worker, claimed = work.queue_and_take(store)
        work.end(store, worker, claimed, Succeeded())
        clock.advance(1)
        store.beat(Heartbeat(worker=worker))

        (attempt,) = store.list_attempts(claimed.record.id)
        assert (None, "there:2") == (attempt.heartbeat_at, attempt.worker_name)

    def test_an_attempt_outlives_the_name_of_its_worker(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Workers are forgotten when nothing that they closed can be kept any more."""
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


class ReadingSchedules:
    """What lists and searches of schedules promise."""

    def test_the_store_tells_its_time(self, store: Store, clock: ManualClock) -> None:
        """One clock rules."""
        clock.advance(12_345)

        assert clock.now_us() == store.now()
        assert clock.now_us() == store.status().now

    def test_what_is_not_there_is_none(self, store: Store) -> None:
        nobody = run_id("nobody")

        assert store.get_schedule(nobody) is None  # type: ignore[arg-type]
        assert store.find_schedule(TENANT_DEFAULT, "nobody") is None
        assert store.get_definition(nobody, 1) is None  # type: ignore[arg-type]
        assert store.get_run(nobody) is None
        assert store.get_delayed(nobody) is None
        assert store.find_delayed(TENANT_DEFAULT, "nobody") is None

    def test_schedules_come_in_order_of_name(self, store: Store) -> None:
        """As bytes sort, so that every store pages alike."""
        for name in ("b", "a", "é", "B", "a-2", "a1"):
            steps.create(store, name)

        assert ["B", "a", "a-2", "a1", "b", "é"] == names(store)

    def test_pages_follow_each_other(self, store: Store) -> None:
        """With no schedule twice and none left out."""
        made = [steps.create(store, f"s{number}", tenant="ab"[number % 2]) for number in range(7)]
        found: list[ScheduleRecord] = []
        after = None
        while page := store.list_schedules(ScheduleFilter(tenant=None, after=after, limit=2)):
            assert len(page) <= 2
            found += page
            after = (page[-1].tenant, page[-1].name, page[-1].id)

        assert sorted(made, key=lambda one: (one.tenant, one.name)) == found

    def test_deleted_schedules_are_shown_only_when_asked_for(self, store: Store) -> None:
        steps.create(store, "kept")
        steps.delete(store, steps.create(store, "deleted"))

        assert ["kept"] == names(store)
        assert ["deleted"] == names(store, statuses=frozenset({ScheduleStatus.DELETED}))

    @pytest.mark.parametrize(
        ("wanted", "found"),
        [
            ({"statuses": frozenset({ScheduleStatus.PAUSED})}, ["paused"]),
            ({"task": "other"}, ["task"]),
            ({"owner": "bob"}, ["owner"]),
            ({"declared_by": "code:app"}, ["declared"]),
            ({"name_prefix": "pa"}, ["paused"]),
            ({"name_prefix": "%"}, ["%"]),
            ({"name_prefix": "_"}, []),
            ({"tenant": "theirs"}, ["theirs"]),
            ({"limit": 2}, ["%", "declared"]),
        ],
        ids=str,
    )
    def test_a_filter_finds_what_it_names(
        self, store: Store, wanted: dict[str, Any], found: list[str]
    ) -> None:
        """And nothing else."""
        steps.pause(store, steps.create(store, "paused"))
        steps.create(store, "task", task="other")
        steps.create(store, "owner", owner="bob")
        steps.create(store, "declared", declared_by="code:app")
        steps.create(store, "%")
        steps.create(store, "theirs", tenant="theirs")

        assert found == names(store, **wanted)

    def test_several_names_find_exactly_those(self, store: Store) -> None:
        """Of one tenant, deleted ones only when asked for; no name finds nothing."""
        for name in ("%", "first", "second", "others"):
            steps.create(store, name)
        steps.create(store, "first", tenant="theirs")
        steps.delete(store, steps.create(store, "deleted"))
        wanted = frozenset({"second", "%", "first", "deleted", "nobody's"})

        assert ["%", "first", "second"] == names(store, names=wanted)
        assert [] == names(store, names=frozenset())

    def test_a_name_finds_the_living_one(self, store: Store, clock: ManualClock) -> None:
        """However many of that name were deleted."""
        steps.delete(store, steps.create(store))
        clock.advance(1000)
        living = steps.create(store)

        found = store.find_schedule(TENANT_DEFAULT, "nightly")

        assert found is not None
        assert (living, clock.now_us()) == (found.record, found.now)

    def test_a_name_finds_the_last_deleted_one_if_no_other_has_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        """So that it can be restored by name."""
        first = steps.create(store)
        steps.delete(store, first)
        clock.advance(1000)
        second = steps.delete(store, steps.create(store))

        found = store.find_schedule(TENANT_DEFAULT, "nightly")

        assert found is not None
        assert second == found.record

    def test_paused_schedules_whose_time_has_come_are_named(
        self, store: Store, clock: ManualClock
    ) -> None:
        """At the instant itself, by the store's clock, the earliest first."""
        until = clock.now_us() + HOUR_US
        second = steps.pause(store, steps.create(store, "second"), until)
        first = steps.pause(store, steps.create(store, "first"), until - 5)
        steps.pause(store, steps.create(store, "third"), until + 1)
        steps.pause(store, steps.create(store, "for good"))

        clock.set(until - 6)
        assert [] == store.due_resumes(10)
        clock.set(until)
        assert [first.id, second.id] == store.due_resumes(10)
        assert [first.id] == store.due_resumes(1)


class ReadingRuns:
    """What lists of runs, delayed runs and audit entries promise."""

    def test_runs_come_newest_first_in_pages(self, store: Store, clock: ManualClock) -> None:
        """By id, and so by time."""
        record = steps.create(store)
        for _ in range(5):
            record = steps.fire_due(store, clock, record)
        found: list[RunRecord] = []
        before = None
        while page := store.list_runs(RunFilter(tenant=TENANT_DEFAULT, before_id=before, limit=2)):
            found += page
            before = page[-1].id

        instants = [record.created_at + hours * HOUR_US for hours in (5, 4, 3, 2, 1)]
        assert instants == [run.scheduled_for for run in found]
        assert [occurrence_run_id(record.id, instant) for instant in instants] == [
            run.id for run in found
        ]

    @pytest.mark.parametrize(
        ("wanted", "found"),
        [
            ({}, ["cancelled", "queued", "task"]),
            ({"key": "k"}, ["queued"]),
            ({"task": "other"}, ["task"]),
            ({"states": frozenset({RunState.CANCELLED})}, ["cancelled"]),
            ({"states": frozenset({RunState.QUEUED})}, ["queued", "task"]),
            ({"origins": frozenset({Origin.DELAY})}, ["cancelled"]),
            ({"queue": "default"}, ["cancelled", "queued", "task"]),
            ({"queue": "mail"}, []),
            ({"tenant": "theirs"}, ["theirs"]),
        ],
        ids=str,
    )
    def test_a_filter_finds_the_runs_it_names(
        self, store: Store, clock: ManualClock, wanted: dict[str, Any], found: list[str]
    ) -> None:
        """And no other."""
        other = template_of(steps.create(store, task="other")).definition.call
        store.add_runs(
            add_runs(
                new_run(None, "queued", key="k"),
                new_run(None, "task", call=other),
                new_run(None, "theirs", tenant="theirs"),
                new_run(clock.now_us() + HOUR_US, "cancelled"),
            )
        )
        store.cancel_delayed(cancel(run_id("cancelled", clock.now_us() + HOUR_US)))
        known = {run_id(text): text for text in ("queued", "task", "theirs")}

        runs = store.list_runs(replace(RunFilter(tenant=TENANT_DEFAULT), **wanted))

        assert found == sorted(known.get(run.id, "cancelled") for run in runs)

    def test_runs_are_found_by_schedule_and_by_a_span_of_time(
        self, store: Store, clock: ManualClock
    ) -> None:
        """The beginning is in it, the end is not."""
        record, other = steps.create(store), steps.create(store, "other")
        for _ in range(4):
            record = steps.fire_due(store, clock, record)
        first = record.created_at + HOUR_US
        wanted = RunFilter(
            tenant=TENANT_DEFAULT,
            schedule_id=record.id,
            since=first + HOUR_US,
            until=first + 3 * HOUR_US,
        )

        assert [first + 2 * HOUR_US, first + HOUR_US] == [
            run.scheduled_for for run in store.list_runs(wanted)
        ]
        assert [] == store.list_runs(RunFilter(tenant=TENANT_DEFAULT, schedule_id=other.id))

    def test_delayed_runs_come_in_order_of_due(self, store: Store, clock: ManualClock) -> None:
        now = clock.now_us()
        third, first, second = (steps.delay(store, now + due, f"{due}") for due in (30, 10, 20))
        steps.delay(store, now + 5, "theirs", tenant="theirs")

        assert [first, second, third] == store.list_delayed(TENANT_DEFAULT, 10)
        assert [first, second] == store.list_delayed(TENANT_DEFAULT, 2)

    def test_delayed_runs_are_listed_from_a_place_on(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Pages leave none out and show none twice, also of those that are due together."""
        now = clock.now_us()
        for key in range(5):
            steps.delay(store, now + 10 + key // 2, f"{key}")
        whole = store.list_delayed(TENANT_DEFAULT, 10)
        pages = [store.list_delayed(TENANT_DEFAULT, 2)]
        while len(pages[-1]) == 2:
            last = pages[-1][-1]
            pages.append(store.list_delayed(TENANT_DEFAULT, 2, (last.due_at, last.id)))

        assert whole == [one for page in pages for one in page]

    def test_skips_come_newest_first(self, store: Store, clock: ManualClock) -> None:
        record = steps.create(store)
        for _ in range(3):
            record = steps.apply(store, record, decide_skip_next(record, None))

        found = store.list_skips(record.id, 2)

        hours = (3, 2)
        assert [record.created_at + hour * HOUR_US for hour in hours] == [
            skip.first_for for skip in found
        ]

    def test_audit_entries_come_newest_first_in_pages(
        self, store: Store, clock: ManualClock
    ) -> None:
        """None twice, none left out, numbered as they were written."""
        for number in range(5):
            steps.create(store, f"{number}")
        found: list[AuditEntry] = []
        before = None
        while page := steps.audit(store, before_number=before, limit=2):
            found += page
            before = page[-1].number

        assert ["4", "3", "2", "1", "0"] == [entry.subject for entry in found]
        numbers = [entry.number for entry in found]
        assert sorted(set(numbers), reverse=True) == numbers

    @pytest.mark.parametrize(
        ("wanted", "count"),
        [
            ({"subject": "nightly"}, 2),
            ({"action": "schedule.paused"}, 1),
            ({"actor": "ada"}, 3),
            ({"actor": "bob"}, 0),
            ({"tenant": "theirs"}, 1),
        ],
        ids=str,
    )
    def test_the_audit_trail_can_be_searched(
        self, store: Store, wanted: dict[str, Any], count: int
    ) -> None:
        steps.pause(store, steps.create(store))
        steps.create(store, "other", tenant="theirs")

        assert count == len(steps.audit(store, **wanted))

    def test_registered_tasks_are_listed_in_order_and_once(self, store: Store) -> None:
        store.register_tasks(["remind", "bill"])
        store.register_tasks(["bill", "close"])

        assert ["bill", "close", "remind"] == store.list_tasks()


class Verdicts:
    """What `judge` promises: one verdict for each expected occurrence."""

    def test_an_occurrence_is_run_or_pending(self, store: Store, clock: ManualClock) -> None:
        """In the order asked for, with the run's id."""
        record = steps.fire_due(store, clock, steps.create(store))
        first = record.created_at + HOUR_US

        pending, run = store.judge(record.id, (first + HOUR_US, first))

        assert ("pending", first + HOUR_US, None) == (
            pending.kind,
            pending.scheduled_for,
            pending.run_id,
        )
        assert ("run", first, occurrence_run_id(record.id, first)) == (
            run.kind,
            run.scheduled_for,
            run.run_id,
        )

    def test_a_skipped_occurrence_says_why(self, store: Store) -> None:
        record = steps.create(store)
        steps.apply(store, record, decide_skip_next(record, None))

        (verdict,) = store.judge(record.id, (record.created_at + HOUR_US,))

        assert ("skipped", SkipReason.SKIPPED) == (verdict.kind, verdict.reason)

    def test_a_coalesced_occurrence_names_the_run_that_stands_for_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        record = steps.create(store)
        clock.advance("3h30m")
        fired = fire_late(store, clock, record)
        first = record.created_at + HOUR_US

        verdicts = store.judge(record.id, (first, first + HOUR_US, first + 2 * HOUR_US))

        assert ["skipped", "skipped", "run"] == [verdict.kind for verdict in verdicts]
        assert {fired.last_run} == {verdict.run_id for verdict in verdicts}

    def test_both_ends_of_a_range_are_in_it(self, store: Store, clock: ManualClock) -> None:
        record = steps.create(store, misfire=Misfire("all"))
        clock.advance("3h30m")
        fire_late(store, clock, record)
        first = record.created_at + HOUR_US

        verdicts = store.judge(record.id, [first + hours * HOUR_US for hours in range(4)])

        assert ["owed", "owed", "owed", "pending"] == [verdict.kind for verdict in verdicts]

    def test_while_it_rests_what_is_held_is_pending(self, store: Store) -> None:
        """Resuming decides."""
        record = steps.pause(store, steps.create(store))

        (verdict,) = store.judge(record.id, (record.created_at + HOUR_US,))

        assert "pending" == verdict.kind

    def test_a_hole_is_called_missing(self, store: Store) -> None:
        """INV-2: nothing of ours makes one; if something did, it would show."""
        record = steps.create(store)
        jumped = template_of(record).pending(record.created_at + 3 * HOUR_US)
        steps.apply(store, record, staying(record, pending=jumped))

        instants = [record.created_at + hours * HOUR_US for hours in (1, 2, 3)]
        verdicts = store.judge(record.id, instants)

        assert ["missing", "missing", "pending"] == [verdict.kind for verdict in verdicts]


class StatusOnOneScreen:
    """What `status` promises."""

    def test_an_empty_store_shows_zeros(self, store: Store) -> None:
        status = store.status()

        assert (0, 0, 0, 0, 0) == (
            status.delayed,
            status.queued,
            status.owed,
            status.overdue,
            status.early_fires,
        )
        assert (0, None, None) == (
            sum(status.schedules.values()),
            status.oldest_due_at,
            status.next_due_at,
        )
        assert ((), {}) == (status.members, dict(status.queues))
        assert {None} == {lease.owner for lease in status.leases}

    def test_what_is_there_is_counted(self, store: Store, clock: ManualClock) -> None:
        steps.create(store, "active")
        steps.pause(store, steps.create(store, "paused"))
        steps.delete(store, steps.create(store, "deleted"))
        steps.delay(store, clock.now_us() + 1)
        store.add_runs(add_runs(new_run(None, "now")))
        status = store.status()

        assert {"active": 1, "paused": 1, "deleted": 1} == {
            str(one): count for one, count in status.schedules.items() if count
        }
        assert (1, 1, {"default": 1}) == (status.delayed, status.queued, dict(status.queues))

    def test_what_is_overdue_is_told_from_what_comes(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Due at this very instant is overdue."""
        now = clock.now_us()
        for due in (10, 20, 30):
            steps.delay(store, now + due, f"{due}")
        record = steps.create(store)
        assert record.pending is not None
        clock.set(now + 20)
        status = store.status()

        assert (2, now + 10, now + 30) == (
            status.overdue,
            status.oldest_due_at,
            status.next_due_at,
        )


def names(store: Store, **wanted: Any) -> list[str]:
    """Return the names of the schedules that a filter finds."""
    command = replace(ScheduleFilter(tenant=TENANT_DEFAULT), **wanted)
    return [record.name for record in store.list_schedules(command)]


PAGE = 4
THEIRS = "theirs"


class SearchingRuns:
    """What `search_runs` promises."""

    def test_every_filter_finds_exactly_the_runs_that_fit(
        self, store: Store, clock: ManualClock
    ) -> None:
        """By schedule, state, time, tenant, key, error and all others, alone and together.

        Whatever the pages are cut into, each run comes once, and newest first.
        """
        everything = settle_a_town(store, clock)
        wrong = {
            str(wanted): (names, expected)
            for wanted in wanted_runs(clock, everything)
            if (names := [run.id.hex() for run in runs_by_pages(store, wanted)])
            != (expected := [run.id.hex() for run in everything if run_fits(run, wanted)])
        }

        assert {} == wrong

    def test_a_list_has_what_the_pages_have(self, store: Store) -> None:
        """However long it is."""
        for text in "abcdef":
            work.make_dead(store, text)
        dead = RunFilter(tenant=TENANT_DEFAULT, states=frozenset({RunState.DEAD}))

        assert 6 == len(runs_by_pages(store, dead))
        assert runs_by_pages(store, dead) == store.list_runs(dead)
        assert runs_by_pages(store, dead)[:1] == store.list_runs(replace(dead, limit=1))

    def test_a_run_that_goes_elsewhere_is_found_there(self, store: Store) -> None:
        """And no longer where it was."""
        target = work.make_dead(store, "a")
        dead = RunFilter(tenant=TENANT_DEFAULT, states=frozenset({RunState.DEAD}))
        failing = RunFilter(tenant=TENANT_DEFAULT, error="no use")
        before = [ids_of(store, one) for one in (dead, failing)]
        store.retry_runs(order_runs(target))
        worker = work.join_worker(store)
        assert FinishResult.ACCEPTED == work.end(
            store, worker, work.take_one(store, worker), Succeeded()
        )

        assert [[target], [target]] == before
        assert [[], []] == [ids_of(store, one) for one in (dead, failing)]


class SearchingAttempts:
    """What `search_attempts` promises."""

    def test_every_filter_finds_exactly_the_attempts_that_fit(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Alive and ended, by worker, state, reason and error."""
        runs = settle_a_town(store, clock)
        everything = [
            attempt
            for run in runs
            if run.tenant == TENANT_DEFAULT
            for attempt in reversed(store.list_attempts(run.id))
        ]
        wrong = {
            str(wanted): (found, expected)
            for wanted in wanted_attempts(everything)
            if (found := [place(one) for one in attempts_by_pages(store, wanted)])
            != (expected := [place(one) for one in everything if attempt_fits(one, wanted)])
        }

        assert {} == wrong

    def test_a_run_of_many_attempts_is_paged_within(self, store: Store, clock: ManualClock) -> None:
        """By fence, the last first."""
        target = work.queue(store)
        worker = work.join_worker(store, ttl_us=100 * HOUR_US)
        for number in range(5):
            claimed = work.take_one(store, worker)
            work.end(store, worker, claimed, Failed(f"error {number}", after_us=1_000_000))
            work.fire_retries(store, clock)
        wanted = AttemptFilter(tenant=TENANT_DEFAULT)

        assert [(target, fence) for fence in (5, 4, 3, 2, 1)] == [
            (one.run_id, one.fence) for one in attempts_by_pages(store, wanted)
        ]


class SearchingAudit:
    """What `search_audit` promises."""

    def test_every_filter_finds_exactly_the_entries_that_fit(
        self, store: Store, clock: ManualClock
    ) -> None:
        """By tenant, subject, action, actor and time."""
        settle_a_town(store, clock)
        everything = store.list_audit(AuditFilter())
        wrong = {
            str(wanted): (found, expected)
            for wanted in wanted_entries(everything)
            if (found := [one.number for one in entries_by_pages(store, wanted)])
            != (expected := [one.number for one in everything if entry_fits(one, wanted)])
        }

        assert {} == wrong


def settle_a_town(store: Store, clock: ManualClock) -> list[RunRecord]:
    """Make runs of every sort, in every place; return them all, newest first."""
    worker = work.join_worker(store, ttl_us=1000 * HOUR_US)
    known = [work.queue(store, text) for text in ("held", "well")]
    held, well = sorted(work.take(store, worker), key=lambda one: known.index(one.run_id))
    assert FinishResult.ACCEPTED == work.end(store, worker, well, Succeeded("7"))
    known += [
        _tried_twice(store, clock),
        work.make_waiting(store, "waiting"),
        work.make_dead(store, "dead"),
        work.make_dead(store, "gone"),
        work.make_dead(store, "their dead", tenant=THEIRS),
        in_doubt(store, "doubtful").run_id,
    ]
    store.discard_runs(order_runs(known[5]))
    reconciled = in_doubt(store, "reconciled").run_id
    settle_doubt(store, reconciled, Choice.RECONCILE, is_done=True, evidence="seen")
    known += [reconciled, rerun(store, known[1]).id, *_by_schedule(store, clock)]
    known += _delayed(store, clock)
    known.append(work.queue(store, "queued"))
    known.append(work.queue(store, "own lane", lane=Lane.CATCH_UP, queue="mail", task="send"))
    known.append(work.queue(store, "their queued", tenant=THEIRS))
    known.append(_keyed(store, "keyed"))
    cancelled = work.queue(store, "cancelled")
    store.cancel_run(cancel_run(cancelled))
    known.append(cancelled)
    assert [held.run_id, well.run_id] == known[:2]
    assert len(known) == len(set(known))
    return sorted((work.get_run(store, one) for one in known), key=lambda run: run.id, reverse=True)


def wanted_runs(clock: ManualClock, everything: list[RunRecord]) -> Iterator[RunFilter]:
    """Return every filter by itself, and some together."""
    schedule = next(run.schedule_id for run in everything if run.schedule_id is not None)
    now = clock.now_us()
    alone: list[dict[str, Any]] = [
        {},
        {"key": "k"},
        {"schedule_id": schedule},
        {"task": "send"},
        {"queue": "mail"},
        {"lane": Lane.CATCH_UP},
        {"error": "no use"},
        {"error": "No Use"},
        {"error": "try"},
        {"error": ""},
        {"error": "100%_'?"},
        *({"states": frozenset({state})} for state in RunState),
        {"states": frozenset(RunState)},
        {"states": frozenset({RunState.QUEUED, RunState.DEAD, RunState.DISCARDED})},
        *({"origins": frozenset({origin})} for origin in Origin),
        *({"reason": reason} for reason in {run.state_reason for run in everything} if reason),
        *({"root": run.root} for run in everything if run.root != run.id),
        {"root": everything[0].id},
        *({"worker": worker} for worker in {run.worker for run in everything} if worker),
    ]
    spans: list[dict[str, Any]] = [
        {},
        {"since": everything[len(everything) // 2].scheduled_for},
        {"until": everything[len(everything) // 2].scheduled_for},
        {"since": now - 3 * HOUR_US, "until": now + 1},
        {"since": now + 1},
        {"until": -1},
    ]
    for terms in alone:
        yield replace(RunFilter(tenant=TENANT_DEFAULT), **terms)
    for terms in alone[:20:2]:
        yield replace(RunFilter(tenant=THEIRS), **terms)
    for span in spans:
        for terms in (
            {},
            {"schedule_id": schedule},
            {"states": frozenset({RunState.DEAD, RunState.QUEUED, RunState.CANCELLED})},
            {"error": "no use"},
            {"key": "k"},
        ):
            yield replace(RunFilter(tenant=TENANT_DEFAULT), **terms, **span)
    together: dict[str, Any] = {
        "states": frozenset({RunState.DEAD}),
        "reason": Reason.NOT_RETRYABLE,
    }
    yield replace(RunFilter(tenant=TENANT_DEFAULT), **together, error="use", task="remind")
    yield RunFilter(tenant="nobody's")


def run_fits(run: RunRecord, wanted: RunFilter) -> bool:
    """Say whether a run is one of those that are looked for."""
    return (
        run.tenant == wanted.tenant
        and wanted.schedule_id in (None, run.schedule_id)
        and wanted.key in (None, run.key)
        and wanted.task in (None, run.call.task)
        and wanted.queue in (None, run.call.queue)
        and wanted.reason in (None, run.state_reason)
        and wanted.lane in (None, run.lane)
        and wanted.root in (None, run.root)
        and wanted.worker in (None, run.worker)
        and (wanted.error is None or (run.error is not None and wanted.error in run.error))
        and (wanted.states is None or run.state in wanted.states)
        and (wanted.origins is None or run.origin in wanted.origins)
        and (wanted.since is None or wanted.since <= run.scheduled_for)
        and (wanted.until is None or run.scheduled_for < wanted.until)
    )


def runs_by_pages(store: SearchStore, wanted: RunFilter) -> list[RunRecord]:
    """Return all that is found, page by page."""
    found: list[RunRecord] = []
    wanted = replace(wanted, limit=PAGE)
    while True:
        page = store.search_runs(wanted)
        assert len(page.records) <= PAGE
        found += page.records
        if page.next is None:
            return found
        assert wanted.before_id is None or page.next < wanted.before_id
        wanted = replace(wanted, before_id=page.next)


def ids_of(store: Store, wanted: RunFilter) -> list[RunId]:
    """Return the ids of what is found."""
    return [run.id for run in runs_by_pages(store, wanted)]


def wanted_attempts(everything: list[AttemptRecord]) -> Iterator[AttemptFilter]:
    """Return every filter by itself, and some together."""
    plain = AttemptFilter(tenant=TENANT_DEFAULT)
    yield plain
    for state in AttemptState:
        yield replace(plain, states=frozenset({state}))
        yield replace(plain, states=frozenset({state}), error="")
    for worker in {one.worker for one in everything}:
        yield replace(plain, worker=worker)
        yield replace(plain, worker=worker, states=frozenset({AttemptState.FAILED}))
    for reason in {one.reason for one in everything if one.reason is not None}:
        yield replace(plain, reason=reason)
    for error in ("no use", "try", "", "nowhere"):
        yield replace(plain, error=error)
    yield replace(plain, worker=1 << 60)
    yield replace(plain, tenant="nobody's")


def attempt_fits(attempt: AttemptRecord, wanted: AttemptFilter) -> bool:
    """Say whether an attempt of the default tenant is one of those that are looked for."""
    return (
        wanted.tenant == TENANT_DEFAULT
        and wanted.worker in (None, attempt.worker)
        and wanted.reason in (None, attempt.reason)
        and (wanted.states is None or attempt.state in wanted.states)
        and (wanted.error is None or (attempt.error is not None and wanted.error in attempt.error))
    )


def attempts_by_pages(store: SearchStore, wanted: AttemptFilter) -> list[AttemptRecord]:
    """Return all that is found, page by page."""
    found: list[AttemptRecord] = []
    wanted = replace(wanted, limit=PAGE)
    while True:
        page = store.search_attempts(wanted)
        assert len(page.records) <= PAGE
        found += page.records
        if page.next is None:
            return found
        assert wanted.before is None or page.next < wanted.before
        wanted = replace(wanted, before=page.next)


def place(attempt: AttemptRecord) -> tuple[str, int, str]:
    """Return which attempt it is, and its state."""
    return attempt.run_id.hex(), attempt.fence, str(attempt.state)


def wanted_entries(everything: list[AuditEntry]) -> Iterator[AuditFilter]:
    """Return every filter by itself, and some together."""
    yield AuditFilter()
    for entry in everything[::5]:
        yield AuditFilter(subject_id=entry.subject_id, action=entry.action)
        yield AuditFilter(subject=entry.subject, tenant=entry.tenant)
    for name in {entry.action for entry in everything}:
        yield AuditFilter(action=name)
        yield AuditFilter(action=name, actor=ADA.name)
    for name in {entry.actor.name for entry in everything}:
        yield AuditFilter(actor=name)
        yield AuditFilter(actor=name, tenant=THEIRS)
    for at in sorted({entry.at for entry in everything}):
        yield AuditFilter(since=at)
        yield AuditFilter(until=at)
        yield AuditFilter(since=at, until=at + 1, tenant=TENANT_DEFAULT)
    yield AuditFilter(tenant="nobody's")


def entry_fits(entry: AuditEntry, wanted: AuditFilter) -> bool:
    """Say whether an entry is one of those that are looked for."""
    return (
        wanted.tenant in (None, entry.tenant)
        and wanted.subject_id in (None, entry.subject_id)
        and wanted.subject in (None, entry.subject)
        and wanted.action in (None, entry.action)
        and wanted.actor in (None, entry.actor.name)
        and (wanted.since is None or wanted.since <= entry.at)
        and (wanted.until is None or entry.at < wanted.until)
    )


def entries_by_pages(store: SearchStore, wanted: AuditFilter) -> list[AuditEntry]:
    """Return all that is found, page by page."""
    found: list[AuditEntry] = []
    wanted = replace(wanted, limit=PAGE)
    while True:
        page = store.search_audit(wanted)
        assert len(page.entries) <= PAGE
        found += page.entries
        if page.next is None:
            return found
        wanted = replace(wanted, before_number=page.next)


def _tried_twice(store: Store, clock: ManualClock) -> RunId:
    """Return a run whose second attempt went well: its error is no more."""
    target = work.make_waiting(store, "later well", after_us=1_000_000)
    work.fire_retries(store, clock)
    worker = work.join_worker(store)
    claimed = work.take_one(store, worker)
    assert FinishResult.ACCEPTED == work.end(store, worker, claimed, Succeeded())
    store.leave(worker)
    return target


def _keyed(store: Store, text: str) -> RunId:
    (added,) = store.add_runs(add_runs(new_run(None, text, key="k")))
    return added.id


def _by_schedule(store: Store, clock: ManualClock) -> list[RunId]:
    """Return an occurrence that is queued, and one that waits for it."""
    record = fired(store, clock, Overlap.QUEUE_ALL, times=2)
    return [run.id for run in runs_of(store, record)]


def _delayed(store: Store, clock: ManualClock) -> list[RunId]:
    """Return one that was cancelled, one that was moved far away, and one of another tenant."""
    now = clock.now_us()
    cancelled = steps.delay(store, now + HOUR_US, "cancelled late").id
    store.cancel_delayed(cancel(cancelled))
    moved = steps.delay(store, now + 100 * HOUR_US, "moved").id
    store.move_delayed(move(moved, now + 1))
    theirs = steps.delay(store, now + 2, "their delayed", tenant=THEIRS).id
    for one in (moved, theirs):
        steps.fire_delayed(store, clock, one)
    return [cancelled, moved, theirs]


NOBODY = ScheduleId(bytes(16))
NO_RUN = RunId(bytes(16))


class Surveying:
    """What reading about many at once promises."""

    def test_occurrences_of_many_are_judged_as_those_of_each(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Run, skipped, pending and unknown ones, each in its place, asked in any order."""
        first = steps.create(store, "first", timetable=every("1h"))
        begun_at = clock.now_us()
        first = steps.fire_due(store, clock, first)
        first = steps.pause(store, first)
        clock.advance("3h")
        first = steps.apply(store, first, decide_resume(first, store.now(), Missed.SKIP, None))
        second = steps.create(store, "second", timetable=every("1h"))
        hours = [begun_at + number * HOUR_US for number in range(-1, 7)]
        assert first.last_for is not None
        asked = [
            OccurrenceStatuses(second.id, hours[::-1]),
            OccurrenceStatuses(NOBODY, hours[:2]),
            OccurrenceStatuses(first.id, [first.last_for, *hours]),
            OccurrenceStatuses(second.id, []),
        ]

        found = store.judge_many(asked)

        assert [store.judge(*one) for one in asked] == found
        kinds = {str(one.kind) for verdicts in found for one in verdicts}
        assert {"run", "skipped", "pending", "unknown"} <= kinds
        assert [] == store.judge_many([])

    def test_schedules_and_their_templates_are_found_by_id(self, store: Store) -> None:
        """The newest versions first, and of each as many as are asked for; deleted too."""
        first = steps.create(store, "first")
        for hours in ("2h", "3h"):
            definition = kit.definition(timetable=every(hours))
            first = steps.edit(store, first, definition)
        second = steps.delete(store, steps.create(store, "second"))
        ids = [second.id, NOBODY, first.id]

        assert {first.id: first, second.id: second} == store.get_schedules(ids)
        assert {} == store.get_schedules([])
        assert {
            first.id: store.list_definitions(first.id, 2),
            second.id: store.list_definitions(second.id, 2),
        } == store.list_many_definitions(ids, 2)
        assert [3, 2] == [one.number for one in store.list_many_definitions(ids, 2)[first.id]]
        assert {} == store.list_many_definitions([], 2)

    def test_the_newest_runs_of_each_are_found(self, store: Store, clock: ManualClock) -> None:
        """Whatever has become of them, and of nobody else's."""
        first = steps.create(store, "first", timetable=every("1m"))
        second = steps.create(store, "second", timetable=every("1m"))
        none = steps.create(store, "none", timetable=every("1m"))
        runs = []
        for how in (Succeeded(), FAILS, work.FATAL):
            first, run = ended(store, clock, first, how)
            runs.append(run)
        second, other = ended(store, clock, second, Succeeded())
        work.queue(store)

        found = store.list_newest_runs([second.id, NOBODY, none.id, first.id], 2)

        assert {first.id: runs[:0:-1], second.id: [other]} == found
        ids = [other.id, NO_RUN, runs[0].id]
        assert {other.id: other, runs[0].id: runs[0]} == store.get_runs(ids)
        assert {} == store.get_runs([])
        assert {} == store.list_newest_runs([], 2)

    def test_what_is_on_record_about_runs_is_read_together(self, store: Store) -> None:
        """Attempts, effects, checks and checkpoints are of the run that they are told of."""
        worker, claimed = taken(store)
        done(store, worker, claimed, "first")
        begin(store, worker, claimed, "second")
        store.save_checkpoint(
            SaveCheckpoint(worker=worker, hold=claimed.hold, partition="", state="1")
        )
        doubted = in_doubt(store, "other")
        verify(store, work.get_run(store, doubted.run_id), Finding.PARTIAL)
        untouched = work.queue(store, "untouched")
        ids = [untouched, claimed.run_id, NO_RUN, doubted.run_id]

        found = store.read_evidence(ids)

        assert {
            one: Evidence(
                attempt=next(iter(store.list_attempts(one)[-1:]), None),
                effects=tuple(store.list_effects(one, EFFECTS_MAX)),
                verdicts=tuple(store.list_verdicts(one)),
                has_checkpoint=bool(store.get_checkpoints(one)),
            )
            for one in ids
        } == found
        assert ["first", "second"] == [one.key for one in found[claimed.run_id].effects]
        assert found[claimed.run_id].has_checkpoint
        assert not found[doubted.run_id].has_checkpoint
        assert [Finding.PARTIAL] == [one.finding for one in found[doubted.run_id].verdicts]
        assert found[doubted.run_id].attempt is not None
        assert Evidence() == found[NO_RUN] == found[untouched]
        assert {} == store.read_evidence([])

    def test_what_runs_brought_about_is_read_together(self, store: Store) -> None:
        """Checks are of the run that was checked, and a repair shares the scope of its line."""
        worker, claimed = work.queue_and_take(store)
        tell(store, worker, claimed, ALL)
        work.end(store, worker, claimed, Succeeded())
        again = repaired(store, worker, claimed.run_id)
        tell(store, worker, again, ItemReport(done=("a",)))
        doubted = in_doubt(store, "other")
        verify(store, work.get_run(store, doubted.run_id), Finding.PARTIAL)
        untouched = work.queue(store, "untouched")
        ids = [untouched, again.run_id, NO_RUN, doubted.run_id, claimed.run_id]

        found = store.read_findings(ids)

        assert {
            one: Findings(tuple(store.list_verdicts(one)), store.get_scope(one)) for one in ids
        } == found
        assert Scope(3, 2, 1, ("c",)) == found[again.run_id].scope == found[claimed.run_id].scope
        assert [Finding.PARTIAL] == [one.finding for one in found[doubted.run_id].verdicts]
        assert Findings() == found[NO_RUN] == found[untouched]
        assert {} == store.read_findings([])
