"""The loop: ticks a service when it wants to be, wakes it, and stops in good order."""

from __future__ import annotations

import threading

import pytest

from duly.clock import SystemClock
from duly.domain.enums import RunState, TaskKind
from duly.domain.outcomes import Succeeded
from duly.engine.dispatcher.context import Node
from duly.engine.dispatcher.dispatcher import Dispatcher
from duly.engine.loop import Loop
from duly.engine.manual_clock import ManualClock
from duly.engine.worker import Worker
from duly.errors import SchemaMismatch
from duly.store.memory import MemoryStore
from duly.store.ports.dispatch import MemberKind
from duly.store.ports.queries import RunFilter
from duly.telemetry import TickFailed
from duly_conformance.kit import add_runs, new_run
from tests.engine.rig import SECOND, Known, Recorder, Scripted, Tasks
from tests.waiting import wait_until


class Waiting:
    """A place to wait at, on a manual clock."""

    address = "here"

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.waits: list[int] = []
        self.wakes = 0

    def wait(self, timeout_us: int) -> bool:
        self.waits.append(timeout_us)
        self.clock.advance(timeout_us)
        return len(self.waits) == 2

    def wake(self) -> None:
        self.wakes += 1

    def nudge(self) -> None:
        pass

    def close(self) -> None:
        pass


class Counting:
    """A service that wants to be called every second, and ends the loop at its fifth tick."""

    def __init__(
        self, clock: ManualClock, error: Exception | None = None, wait_us: int = SECOND
    ) -> None:
        self.clock = clock
        self.error = error
        self.wait_us = wait_us
        self.ticks = self.wakes = self.stops = 0
        self.loop: Loop | None = None

    def tick(self) -> int:
        self.ticks += 1
        if self.ticks == 5 and self.loop is not None:
            self.loop.stop()
        if self.error is not None and self.ticks == 2:
            raise self.error
        return self.clock.monotonic_us() + self.wait_us

    def wake(self) -> None:
        self.wakes += 1

    def stop(self) -> None:
        self.stops += 1


def run(
    error: Exception | None = None, wait_us: int = SECOND
) -> tuple[Counting, Waiting, Recorder]:
    clock = ManualClock()
    service, waiting, recorder = Counting(clock, error, wait_us), Waiting(clock), Recorder()
    service.loop = Loop(service, waiting, clock, recorder)
    service.loop.run()
    return service, waiting, recorder


def test_it_waits_as_long_as_the_service_wants_and_stops_in_good_order():
    service, waiting, _ = run()

    assert [SECOND] * 4 == waiting.waits
    assert (5, 1, 1) == (service.ticks, service.wakes, service.stops)


@pytest.mark.parametrize("wait_us", [0, -SECOND], ids=["now", "overdue"])
def test_who_is_busy_hears_the_bell_all_the_same(wait_us: int):
    """What it is rung for may be due before what it is busy with is over."""
    service, waiting, _ = run(wait_us=wait_us)

    assert [0] * 4 == waiting.waits
    assert (5, 1, 1) == (service.ticks, service.wakes, service.stops)


def test_an_error_that_nobody_foresaw_does_not_end_the_service():
    """It is told, and the service goes on after a moment."""
    service, _, recorder = run(ValueError("a defect"))

    assert (5, 1) == (service.ticks, service.stops)
    failures = recorder.of(TickFailed)

    assert ["ValueError('a defect')"] == [one.problem for one in failures]
    assert "test_loop.py:" in failures[0].where


def test_a_store_of_another_age_ends_it_in_good_order():
    """Trying again changes nothing."""
    clock = ManualClock()
    service = Counting(clock, SchemaMismatch("memory", "is older", "migrate it"))
    loop = Loop(service, Waiting(clock), clock)
    with pytest.raises(SchemaMismatch):
        loop.run()

    assert 1 == service.stops


def test_on_the_real_clock_a_wake_up_makes_a_near_run_punctual():
    """Written by another thread for the near future; and the end is an orderly one."""
    clock = SystemClock()
    store = MemoryStore(clock)
    wakeups = store.wakeups()
    dispatcher = Dispatcher(store, clock, node=Node(wake_address=wakeups.address))
    loop = Loop(dispatcher, wakeups, clock)
    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        due_at = clock.now_us() + 200_000
        store.add_runs(add_runs(new_run(due_at)))
        wanted = RunFilter(tenant="default")
        runs = wait_until("the run is fired", lambda: store.list_runs(wanted))
    finally:
        loop.stop()
        thread.join(120)

    assert not thread.is_alive()
    assert [True] == [run.fired_at is not None and run.fired_at >= due_at for run in runs]
    assert not any(member.is_alive for member in store.status().members)


def test_on_the_real_clock_an_end_from_another_thread_wakes_its_worker():
    """It is finished at once, and a drained worker ends its loop by itself."""
    clock = SystemClock()
    store = MemoryStore(clock)
    wakeups = store.wakeups(MemberKind.WORKER)
    executor = Scripted()
    worker = Worker(
        store,
        clock,
        Tasks(Known("remind")),
        {TaskKind.THREAD: executor},
        node=Node(wake_address=wakeups.address),
        wakeups=wakeups,
    )
    loop = Loop(worker, wakeups, clock)
    worker.on_over = loop.stop
    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        store.add_runs(add_runs(new_run(None)))
        works = wait_until("the run is begun", lambda: executor.works)
        works[0].ended(Succeeded())
        done = RunFilter(tenant="default", states=frozenset((RunState.SUCCEEDED,)))
        runs = wait_until("the run has succeeded", lambda: store.list_runs(done))
        worker.drain()
        thread.join(120)
    finally:
        loop.stop()
        thread.join(120)

    assert 1 == len(runs)
    assert (True, False) == (worker.is_over, thread.is_alive())
    assert not any(member.is_alive for member in store.status().members)
