"""Breathing, reporting and checkpoints: the part of the contract about attempts that go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.attempts import LINES_PER_ATTEMPT_MAX, LogLine, Progress, ProgressRecord
from duly.domain.concluding import Failed, Succeeded
from duly.store.dispatch import MemberId, MemberKind
from duly.store.execution import (
    WORKER_TTL_US,
    Beat,
    ClaimRuns,
    FinishResult,
    Hold,
    Report,
    SaveCheckpoint,
    Stop,
    StopKind,
)
from duly.testing import factories
from duly.testing.conformance import steps
from duly.testing.conformance import work_steps as work
from duly.testing.conformance.places import WAIT_MAX_US, AtPlaces
from duly.testing.factories import ADA, HOUR_US, cancel_run
from duly.testing.snapshot import snapshot

if TYPE_CHECKING:
    from duly.store.execution import ClaimedRun
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock


class Breathing:
    """What `beat` promises."""

    def test_a_worker_that_beats_stays_alive(self, store: Store, clock: ManualClock) -> None:
        """INV-21: counted from each beat, for as long as the beat says."""
        worker = work.join(store)
        for _ in range(3):
            clock.advance(WORKER_TTL_US - 1)
            beaten = store.beat(Beat(worker=worker, slots=4, leaked=1))

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
        assert (4, 1) == (member.slots, member.leaked)

    def test_a_worker_whose_lease_ran_out_renews_it(self, store: Store, clock: ManualClock) -> None:
        """INV-21: nobody is dead because nobody could write; what it claimed is still its own."""
        worker, claimed = work.queue_and_take(store)
        clock.advance(2 * WORKER_TTL_US)
        lost = work.lost_claims(store)
        assert not store.claim_runs(ClaimRuns(worker=worker, limit=1)).is_alive

        beaten = store.beat(Beat(worker=worker, holds=(claimed.hold,)))

        assert 1 == len(lost)
        assert (True, (), ()) == (beaten.is_alive, beaten.stops, beaten.strays)
        assert [False] == work.settle(store, work.maintain(store), *lost)
        assert store.claim_runs(ClaimRuns(worker=worker, limit=1)).is_alive
        assert FinishResult.ACCEPTED == work.end(store, worker, claimed, Succeeded())

    def test_who_left_or_was_declared_dead_stays_so(self, store: Store, clock: ManualClock) -> None:
        """R4, INV-4: also when the clock is set back."""
        left, declared = work.join(store), work.join(store)
        store.leave(left)
        work.declare_dead(store, clock, declared)
        everybody = (left, declared, MemberId(4711))

        assert not any(store.beat(Beat(worker=one)).is_alive for one in everybody)
        clock.set(clock.now_us() - WORKER_TTL_US)
        assert not any(store.beat(Beat(worker=one)).is_alive for one in everybody)

    def test_nothing_of_what_goes_well_must_stop(self, store: Store) -> None:
        """R4."""
        worker, claimed = work.queue_and_take(store)

        beaten = store.beat(Beat(worker=worker, holds=(claimed.hold,)))

        assert ((), ()) == (beaten.stops, beaten.strays)

    def test_a_run_that_somebody_cancels_must_stop_at_every_beat(self, store: Store) -> None:
        """R4, R9: a beat whose answer was lost is not the last one to say so."""
        worker, claimed = work.queue_and_take(store)
        store.cancel_run(cancel_run(claimed.record.id))
        order = Beat(worker=worker, holds=(claimed.hold,))

        for _ in range(2):
            assert (Stop(claimed.hold, StopKind.CANCEL),) == store.beat(order).stops

    def test_what_is_no_longer_ours_is_gone(self, store: Store) -> None:
        """R4, INV-5: of another worker, under another fence, over, or never heard of."""
        worker, mine = work.queue_and_take(store)
        other, theirs = work.queue_and_take(store, "theirs")
        over_worker, over = work.queue_and_take(store, "over")
        work.end(store, over_worker, over, Succeeded())
        stale = Hold(mine.record.id, mine.tries.fence + 1)
        unknown = Hold(factories.run_id("nobody"), 1)
        holds = (theirs.hold, mine.hold, stale, over.hold, unknown)

        beaten = store.beat(Beat(worker=worker, holds=holds))

        gone = tuple(Stop(hold, StopKind.GONE) for hold in holds if hold != mine.hold)
        assert gone == beaten.stops
        assert other != worker

    def test_what_a_worker_holds_and_does_not_name_is_a_stray(self, store: Store) -> None:
        """R4, INV-7: the answer to its claim was lost; nobody else would ever start it."""
        worker, named = work.queue_and_take(store)
        strays = [work.queue(store, "b"), work.queue(store, "c")]
        work.take(store, worker)
        work.queue_and_take(store, "theirs")

        beaten = store.beat(Beat(worker=worker, holds=(named.hold,)))

        assert tuple(Hold(run_id, 1) for run_id in sorted(strays)) == beaten.strays

    def test_a_claim_under_another_fence_is_a_stray_of_its_own(
        self, store: Store, clock: ManualClock
    ) -> None:
        """R4, INV-7: though the worker still names the claim of the same run that it lost."""
        worker, first = work.queue_and_take(store)
        work.end(store, worker, first, Failed("oh", after_us=0))
        work.fire_retries(store, clock)
        again = work.take_one(store, worker)

        beaten = store.beat(Beat(worker=worker, holds=(first.hold,)))

        assert ((Stop(first.hold, StopKind.GONE),), (again.hold,)) == (beaten.stops, beaten.strays)

    def test_the_dead_have_no_strays(self, store: Store) -> None:
        """R4: what they held is somebody else's to settle."""
        worker, _ = work.queue_and_take(store)
        store.leave(worker)

        beaten = store.beat(Beat(worker=worker))

        assert (False, ()) == (beaten.is_alive, beaten.strays)

    def test_a_worker_is_a_member_with_slots_queues_and_what_it_runs(self, store: Store) -> None:
        """V1: on one screen."""
        worker = work.join(store, slots=7, queues=("mail", "default"))
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
        """S6: a dispatcher that knows it serves nobody."""
        steps.join(store, tasks=("clean",), ttl_us=HOUR_US)
        leaving = work.join(store, tasks=("remind", "report"))
        work.join(store, tasks=("remind",), ttl_us=1)

        assert [True, True, False] == served(store, "remind", "report", "clean")
        store.leave(leaving)
        assert [True, False] == served(store, "remind", "report")
        clock.advance(1)
        assert [False] == served(store, "remind")

    def test_a_task_is_served_in_the_queues_of_those_who_know_it(self, store: Store) -> None:
        """S6: one who knows it and takes from elsewhere helps nobody here."""
        work.join(store, tasks=("remind",), queues=("mail", "news"))
        work.join(store, tasks=("report",))

        assert [True, True, False] == [
            store.is_served("remind", queue) for queue in ("mail", "news", "default")
        ]
        assert store.is_served("report", "anywhere")


class Reporting:
    """What `report` and checkpoints promise."""

    def test_a_start_is_kept_the_first_time(self, store: Store, clock: ManualClock) -> None:
        """R2: apart from the claim."""
        worker, claimed = work.queue_and_take(store)
        began_at = clock.now_us() + 3
        clock.advance(10)

        reports = [Report(hold=claimed.hold, started_at=at) for at in (began_at, began_at + 5)]

        assert [True, True] == store.report(worker, reports)
        record = work.look(store, claimed.record.id)
        assert (began_at, claimed.claimed_at) == (record.started_at, record.claimed_at)

    def test_every_step_of_progress_is_kept(self, store: Store, clock: ManualClock) -> None:
        """R2, R5: the record shows the last; history has all, with their times."""
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
        assert steps_made[-1] == work.look(store, run_id).progress
        (attempt,) = store.list_attempts(run_id)
        assert (steps_made[-1], clock.now_us()) == (attempt.progress, attempt.progress_at)

    def test_an_empty_report_leaves_everything_as_it_is(self, store: Store) -> None:
        """R2."""
        worker, claimed = work.queue_and_take(store)
        full = Report(hold=claimed.hold, started_at=5, progress=Progress(1))
        store.report(worker, [full])
        before = snapshot(store)

        assert [True] == store.report(worker, [Report(hold=claimed.hold)])
        assert before == snapshot(store)
        assert 1 == len(store.list_progress(claimed.record.id, 10))

    def test_lines_can_be_followed(self, store: Store, clock: ManualClock) -> None:
        """R2: numbers grow, over all attempts of the run."""
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
        """R5: the rest is dropped; another attempt has its own."""
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
        """R5: by how many came before them; whether in a report or with the end."""
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
        """R2: an answer was lost; what comes after it is one, and so is going back."""
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
        """R4, INV-5: of another worker, or under a fence that no longer holds."""
        worker, mine = work.queue_and_take(store)
        _, theirs = work.queue_and_take(store, "theirs")
        stale = Hold(mine.record.id, mine.tries.fence + 1)

        said = {"started_at": 5, "progress": Progress(1), "lines": (line("hello"),)}
        reports = [
            Report(hold=hold, **said)  # type: ignore[arg-type]
            for hold in (theirs.hold, stale, mine.hold)
        ]

        assert [False, False, True] == store.report(worker, reports)
        assert work.look(store, theirs.record.id).started_at is None
        assert ([], []) == traces(store, theirs)
        assert (1, 1) == tuple(map(len, traces(store, mine)))

    def test_a_checkpoint_replaces_the_one_before_and_outlives_the_attempt(
        self, store: Store, clock: ManualClock
    ) -> None:
        """R5: whole or per partition; a later attempt goes on from it."""
        worker, claimed = work.queue_and_take(store)
        for partition, state in (("", "1"), ("a", '{"x":2}'), ("", "3")):
            assert store.save_checkpoint(checkpoint(worker, claimed.hold, partition, state))
        work.end(store, worker, claimed, Failed("oh", after_us=0))
        work.fire_retries(store, clock)
        work.take_one(store, worker)

        assert {"": "3", "a": '{"x":2}'} == store.get_checkpoints(claimed.record.id)
        assert {} == store.get_checkpoints(factories.run_id("nobody"))

    def test_a_checkpoint_of_somebody_else_is_refused(self, store: Store) -> None:
        """R4, R5, INV-5."""
        worker, claimed = work.queue_and_take(store)
        other = work.join(store)
        stale = Hold(claimed.record.id, claimed.tries.fence + 1)
        store.save_checkpoint(checkpoint(worker, claimed.hold, "", "1"))

        assert not store.save_checkpoint(checkpoint(other, claimed.hold, "", "2"))
        assert not store.save_checkpoint(checkpoint(worker, stale, "", "3"))
        work.end(store, worker, claimed, Succeeded())
        assert not store.save_checkpoint(checkpoint(worker, claimed.hold, "", "4"))
        assert {"": "1"} == store.get_checkpoints(claimed.record.id)


class WakingWorkers(AtPlaces):
    """What `wakeups` promises to workers."""

    def test_a_run_that_is_queued_wakes_a_worker(self, store: Store) -> None:
        """P3: so that nobody has to poll."""
        place = self.place(store, MemberKind.WORKER)
        work.join(store, wake_address=place.address)
        work.queue(store)

        assert place.wait(WAIT_MAX_US)
        place.close()

    def test_a_queue_that_is_resumed_wakes_a_worker(self, store: Store) -> None:
        """P3, R8."""
        store.pause_queue("default", ADA)
        place = self.place(store, MemberKind.WORKER)
        work.join(store, wake_address=place.address)
        store.resume_queue("default", ADA)

        assert place.wait(WAIT_MAX_US)
        place.close()

    def test_asking_to_cancel_wakes_a_worker(self, store: Store) -> None:
        """P3, R9."""
        work.queue(store)
        place = self.place(store, MemberKind.WORKER)
        worker = work.join(store, wake_address=place.address)
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


def checkpoint(worker: MemberId, hold: Hold, partition: str, state: str) -> SaveCheckpoint:
    """Return the order to remember a state."""
    return SaveCheckpoint(worker=worker, hold=hold, partition=partition, state=state)
