"""The supervisor keeps processes going, says why they ended, and leaves none behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from duly.clock import SystemClock
from duly.engine.loop import Loop
from duly.engine.supervisor import DISMISSED_STATUS, RECYCLE_STATUS, Supervisor, SupervisorSettings
from duly.store.wakeups import LocalWakeups
from duly.telemetry import (
    Event,
    WorkerProcessCrashed,
    WorkerProcessEnded,
    WorkerProcessStarted,
)
from tests.engine.executors.attempt import LIMIT_SECONDS
from tests.forked_commands import bound, is_running
from tests.waiting import comes_true, read_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUICK = SupervisorSettings(backoff_min_us=10_000, kill_after_us=20_000_000)
"""A process that obeys has time to end on a busy machine."""
KILLED_SOON = SupervisorSettings(backoff_min_us=10_000, kill_after_us=200_000)
KILLED_AFTER_A_WHILE = SupervisorSettings(backoff_min_us=10_000, kill_after_us=5_000_000)
"""A process that lingers has time for one more step on a busy machine."""
OBEDIENT = """
import signal, sys, threading
asked = []
# An exit in the handler may be swallowed: a file that closes itself drops every exception.
signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
open({mark!r}, "a").write("x")
while not asked:
    threading.Event().wait(0.05)
sys.exit({status})
"""
STUBBORN = """
import signal, threading
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open({mark!r}, "a").write("x")
threading.Event().wait()
"""
CRASHING_ONCE = """
import os, threading, pathlib
mark = pathlib.Path({mark!r})
times = len(mark.read_text()) if mark.exists() else 0
mark.write_text("x" * (times + 1))
if times == 0:
    {crash}
threading.Event().wait()
"""


SAYING = (
    "from duly.engine.executors.process_lifetime import hold_lifeline; line = hold_lifeline(); line"
)
LINGERING = """
import signal, threading
from duly.engine.executors.process_lifetime import hold_lifeline
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open({mark!r}, "a").write("x")
hold_lifeline().say_over({status})
open({mark!r}, "a").write("x")
threading.Event().wait()
"""


class Heard:
    """Remembers events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def count(self, kind: type[Event]) -> int:
        return sum(isinstance(event, kind) for event in self.events)


@contextmanager
def supervised(
    program: str, settings: SupervisorSettings = QUICK
) -> Iterator[tuple[Supervisor, Heard, threading.Thread]]:
    """Keep a program going in a thread; whatever a failing test leaves is killed."""
    heard, wakeups, clock = Heard(), LocalWakeups(), SystemClock()
    argv = [sys.executable, "-c", program]
    supervisor = Supervisor(argv, clock, wakeups, settings, telemetry=heard)
    loop = Loop(supervisor, wakeups, clock)
    supervisor.on_over = loop.stop
    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        yield supervisor, heard, thread
    finally:
        loop.stop()
        thread.join(LIMIT_SECONDS)


def marks(path: Path) -> int:
    return len(path.read_text(encoding="utf-8")) if path.exists() else 0


def test_it_keeps_as_many_going_as_it_is_told_to(tmp_path: Path):
    mark = tmp_path / "mark"
    program = OBEDIENT.format(status=0, mark=str(mark))
    with supervised(program, SupervisorSettings(processes=3)) as (supervisor, _, thread):
        assert comes_true(lambda: (marks(mark), len(supervisor.processes)) == (3, 3))
        processes = supervisor.processes
        supervisor.drain()
        thread.join(LIMIT_SECONDS)

        assert (3, 0, True) == (len(set(processes)), supervisor.exit_status, supervisor.is_over)
    assert not any(is_running(process) for process in processes)


@pytest.mark.parametrize(
    ("crash", "how"),
    [
        ("os.abort()", "ended by SIGABRT"),
        ("os._exit(9)", "exit status 9"),
        ("os.kill(os.getpid(), 9)", "ended by SIGKILL"),
    ],
)
def test_one_that_crashes_is_started_again_and_it_is_told_why(tmp_path: Path, crash: str, how: str):
    """The crash of a worker is told, and another takes its place after a wait."""
    mark = tmp_path / "mark"
    with supervised(CRASHING_ONCE.format(mark=str(mark), crash=crash)) as (supervisor, heard, _):
        assert comes_true(
            lambda: (
                (marks(mark), heard.count(WorkerProcessStarted), len(supervisor.processes))
                == (2, 2, 1)
            )
        )
        crashed = [event for event in heard.events if isinstance(event, WorkerProcessCrashed)]

        assert [(how, 10_000)] == [(event.how, event.again_us) for event in crashed]
        assert 2 == heard.count(WorkerProcessStarted)
        assert 1 == len(supervisor.processes)


def test_the_wait_grows_with_every_crash(tmp_path: Path):
    settings = SupervisorSettings(backoff_min_us=10_000, backoff_max_us=40_000)
    with supervised("import os; os._exit(1)", settings) as (_, heard, _thread):
        assert comes_true(lambda: heard.count(WorkerProcessCrashed) >= 4)
        waits = [one.again_us for one in heard.events if isinstance(one, WorkerProcessCrashed)]

    assert [10_000, 20_000, 40_000, 40_000] == waits[:4]


def test_one_that_asks_to_be_replaced_is_replaced_at_once(tmp_path: Path):
    """A worker that has lost too many slots ends by itself; that is no crash."""
    mark = tmp_path / "mark"
    crash = f"{SAYING}.say_over({RECYCLE_STATUS}); os._exit({RECYCLE_STATUS})"
    program = CRASHING_ONCE.format(mark=str(mark), crash=crash)
    slow = SupervisorSettings(backoff_min_us=3_600_000_000, backoff_max_us=3_600_000_000)
    with supervised(program, slow) as (_, heard, _thread):
        assert comes_true(lambda: marks(mark) == 2)

        assert (1, 0) == (heard.count(WorkerProcessEnded), heard.count(WorkerProcessCrashed))


def test_one_that_was_drained_is_not_replaced(tmp_path: Path):
    """Once all were, the supervisor has nothing left to do."""
    mark = tmp_path / "mark"
    crash = f"{SAYING}.say_over({DISMISSED_STATUS}); os._exit(0)"
    with supervised(CRASHING_ONCE.format(mark=str(mark), crash=crash)) as (
        supervisor,
        heard,
        thread,
    ):
        thread.join(LIMIT_SECONDS)

        assert (0, True) == (supervisor.exit_status, supervisor.is_over)
        assert (1, 1) == (heard.count(WorkerProcessStarted), heard.count(WorkerProcessEnded))


def test_one_that_is_started_wrongly_is_not_started_again():
    with supervised("import sys; sys.exit(2)") as (supervisor, heard, thread):
        thread.join(LIMIT_SECONDS)

        assert (2, True) == (supervisor.exit_status, supervisor.is_over)
        assert 1 == heard.count(WorkerProcessStarted)


@pytest.mark.parametrize("status", [2, RECYCLE_STATUS, DISMISSED_STATUS])
def test_no_task_can_speak_for_its_worker_by_an_exit_status(tmp_path: Path, status: int):
    """Once it works, a status is any task's doing: a crash, and neither an order nor a wish."""
    mark = tmp_path / "mark"
    crash = f"{SAYING}.say_working(); os._exit({status})"
    with supervised(CRASHING_ONCE.format(mark=str(mark), crash=crash)) as (supervisor, heard, _):
        assert comes_true(lambda: marks(mark) == 2)

        assert (1, 0) == (heard.count(WorkerProcessCrashed), heard.count(WorkerProcessEnded))
        assert not supervisor.is_over


def test_one_that_is_over_and_lingers_is_ended_and_replaced(tmp_path: Path):
    """A process that has left the fleet does not stand in its successor's way."""
    mark = tmp_path / "mark"
    program = LINGERING.format(mark=str(mark), status=RECYCLE_STATUS)
    with supervised(program, KILLED_SOON) as (_, heard, _thread):
        assert comes_true(lambda: marks(mark) >= 3)

        assert 0 == heard.count(WorkerProcessCrashed)


def test_one_that_lingers_after_it_was_told_to_stop_ends_as_it_has_said(tmp_path: Path):
    """How its work ended is known; what keeps its process does not count."""
    mark = tmp_path / "mark"
    program = LINGERING.format(mark=str(mark), status=0)
    with supervised(program, KILLED_AFTER_A_WHILE) as (supervisor, heard, thread):
        assert comes_true(lambda: marks(mark) == 2)
        supervisor.drain()
        thread.join(LIMIT_SECONDS)

        assert (0, True) == (supervisor.exit_status, supervisor.is_over)
        assert 0 == heard.count(WorkerProcessCrashed)


def test_it_waits_for_those_it_has_told_to_stop_and_ends_as_the_worst_of_them(tmp_path: Path):
    mark = tmp_path / "mark"
    with supervised(OBEDIENT.format(status=1, mark=str(mark))) as (supervisor, heard, thread):
        assert comes_true(lambda: marks(mark) == 1)
        supervisor.drain()
        thread.join(LIMIT_SECONDS)
        ended = [event for event in heard.events if isinstance(event, WorkerProcessEnded)]

        assert (1, ["exit status 1"]) == (supervisor.exit_status, [event.how for event in ended])


def test_a_second_signal_ends_those_who_do_not_end(tmp_path: Path):
    """At once, also one that does not listen."""
    mark = tmp_path / "mark"
    with supervised(STUBBORN.format(mark=str(mark)), KILLED_SOON) as (supervisor, heard, thread):
        assert comes_true(lambda: marks(mark) == 1)
        supervisor.drain()
        supervisor.drain()
        thread.join(LIMIT_SECONDS)
        ended = [event for event in heard.events if isinstance(event, WorkerProcessEnded)]

        assert ["ended by SIGKILL"] == [event.how for event in ended]
        assert 1 == supervisor.exit_status


SUPERVISING = """
import sys, threading
from duly.clock import SystemClock
from duly.engine.supervisor import Supervisor
from duly.store.wakeups import LocalWakeups
child = '''{child}'''
supervisor = Supervisor([sys.executable, "-c", child], SystemClock(), LocalWakeups())
supervisor.tick()
print(supervisor.processes[0], flush=True)
threading.Event().wait()
"""
HOLDING = """
import os, threading
from duly.engine.executors.process_lifetime import hold_lifeline
{before}
assert hold_lifeline()
open({mark!r}, "a").write("x")
threading.Event().wait()
"""


@pytest.mark.parametrize(
    "before",
    ["", "import duly.engine.executors.process_lifetime as l; l.die_with = lambda parent: None"],
    ids=["by the kernel", "by the pipe"],
)
def test_a_worker_ends_when_its_supervisor_dies(tmp_path: Path, before: str):
    mark = tmp_path / "mark"
    program = SUPERVISING.format(child=HOLDING.format(mark=str(mark), before=before))
    argv = bound(sys.executable, "-c", program)
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as parent:
        child = int(read_line(parent))
        assert comes_true(lambda: marks(mark) == 1)
        was_there = is_running(child)
        os.kill(parent.pid, signal.SIGKILL)

    assert was_there
    assert comes_true(lambda: not is_running(child))
