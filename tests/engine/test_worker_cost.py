"""What a worker does not do once for every run: ring its own loop, or make events for nobody."""

from __future__ import annotations

from duly.domain.enums import RunState
from duly.domain.outcomes import Failed, Succeeded
from duly.domain.runs import TaskPolicy
from duly.engine.worker import Worker, WorkerSettings
from duly.store.wakeups import LocalWakeups
from duly.telemetry import RunFailed, RunStarted, RunSucceeded
from tests.engine.rig import SECOND, Known, Recorder, Scripted, Tasks


class Bell(LocalWakeups):
    """Counts how often it was rung."""

    def __init__(self):
        super().__init__()
        self.rung = 0

    def nudge(self):
        self.rung += 1


class Choosy(Recorder):
    """Listens to some kinds of event, and keeps whatever it is told."""

    def __init__(self, *kinds):
        super().__init__()
        self._kinds = kinds

    def is_listening(self, kind):
        return kind in self._kinds


def worker_of(rig, executor=None, policy=None, **parts):
    executor = executor or Scripted()
    known = Known("remind", policy or TaskPolicy())
    settings = WorkerSettings(slots=10)
    tasks, executors = Tasks(known), {known.kind: executor}
    made = Worker(rig.store, rig.store_clock, tasks, executors, settings, **parts)
    return made, executor


def test_ends_that_come_together_ring_once(rig):
    runs = [rig.enqueue(f"r{number}") for number in range(5)]
    bell = Bell()
    worker, executor = worker_of(rig, wakeups=bell)
    worker.tick()
    for work in executor.works:
        work.ended(Succeeded())

    assert 1 == bell.rung

    worker.tick()

    assert {RunState.SUCCEEDED} == {rig.look(run).state for run in runs}


def test_an_end_that_comes_after_the_others_were_seen_rings_again(rig):
    rig.enqueue("one")
    rig.enqueue("two")
    bell = Bell()
    worker, executor = worker_of(rig, wakeups=bell)
    worker.tick()
    executor.works[0].ended(Succeeded())
    worker.tick()
    executor.works[1].ended(Succeeded())

    assert 2 == bell.rung


def test_an_event_to_which_nobody_listens_is_not_made(rig):
    rig.enqueue()
    choosy = Choosy(RunStarted)
    worker, executor = worker_of(rig, telemetry=choosy)
    worker.tick()
    executor.works[0].ended(Succeeded())
    worker.tick()

    assert 1 == len(choosy.of(RunStarted))
    assert [] == choosy.of(RunSucceeded)
    assert 1 == worker.statistics.succeeded


def test_who_does_not_say_what_it_listens_to_is_told_everything(rig):
    rig.enqueue()
    recorder = Recorder()
    worker, executor = worker_of(rig, telemetry=recorder)
    worker.tick()
    executor.works[0].ended(Failed("no", is_retryable=False))
    worker.tick()

    assert 1 == len(recorder.of(RunStarted))
    assert [] == recorder.of(RunFailed), "it is dead, and can be brought back"
    assert {"run-started", "attempt-failed", "run-dead"} <= {one.name for one in recorder.events}


class Crowded(Scripted):
    """An executor that starts many in one go."""

    def __init__(self):
        super().__init__()
        self.crowds = []

    def start_all(self, works):
        self.crowds.append(len(works))
        for work in works:
            self.start(work)


class Broken(Scripted):
    """One that starts none."""

    def start_all(self, works):
        raise RuntimeError("can't start new thread")


def test_runs_that_are_claimed_together_are_handed_over_together(rig):
    for number in range(5):
        rig.enqueue(f"r{number}")
    executor = Crowded()
    worker, _ = worker_of(rig, executor)
    worker.tick()

    assert [5] == executor.crowds


def test_those_that_an_executor_could_not_start_have_failed(rig):
    runs = [rig.enqueue(f"r{number}") for number in range(3)]
    worker, _ = worker_of(rig, Broken())
    worker.tick()
    worker.tick()

    assert {RunState.RETRYING} == {rig.look(run).state for run in runs}


def test_limits_are_kept_of_each_of_those_that_are_handed_over_together(rig):
    """Whoever comes first in a crowd is not the only one whose time runs out."""
    runs = [rig.enqueue(f"r{number}") for number in range(3)]
    worker, executor = worker_of(rig, policy=TaskPolicy(timeout_us=SECOND))
    worker.tick()
    executor.works[0].ended(Succeeded())
    rig.store_clock.advance(2 * SECOND)
    worker.tick()

    ended = {executor.works[0].claimed.run_id}
    assert set(runs) - ended == {work.claimed.run_id for work in executor.asked}
