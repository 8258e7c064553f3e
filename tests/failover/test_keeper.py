"""The keeper leaves nothing behind: neither orphans nor what was stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from tests.failover.keeper import descendants, tell
from tests.forked_commands import ROOT, bound, is_running
from tests.required_programs import required_program
from tests.waiting import wait_until

KEEPER = [sys.executable, "-m", "tests.failover.keeper"]
ORPHAN = ["sh", "-c", "setsid sleep 3600 & exit"]
"""Starts somebody in a session of his own, and leaves him alone."""


@contextmanager
def kept(command):
    """Run the keeper, until the input that we hold is closed."""
    with subprocess.Popen([*KEEPER, *command], stdin=subprocess.PIPE, cwd=ROOT) as keeper:
        assert keeper.stdin is not None
        try:
            yield keeper
        finally:
            keeper.stdin.close()
            keeper.wait()


def sleepers(keeper):
    return [pid for pid, name in descendants(keeper.pid).items() if name == "sleep"]


def test_an_orphan_is_kept_and_ends_with_its_keeper():
    with kept(ORPHAN) as keeper:
        wait_until("there is an orphan", lambda: ["sleep"] == [*descendants(keeper.pid).values()])
        orphan = sleepers(keeper)[0]

    assert not is_running(orphan)


def test_who_was_stopped_ends_too():
    with kept(ORPHAN) as keeper:
        wait_until("there is an orphan", lambda: sleepers(keeper))
        orphan = sleepers(keeper)[0]
        tell({orphan: "sleep"}, signal.SIGSTOP)

    assert not is_running(orphan)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_a_test_that_was_ended(number):
    program = [sys.executable, "-c", HOLDER, *KEEPER, *ORPHAN]
    with subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, text=True) as test:
        assert test.stdout is not None
        keeper = int(test.stdout.readline())
        wait_until("there is an orphan", lambda: "sleep" in descendants(keeper).values())
        (orphan,) = (pid for pid, name in descendants(keeper).items() if name == "sleep")
        test.send_signal(number)

    wait_until("the orphan has ended", lambda: not is_running(orphan))


def test_a_fresh_process_ends_with_the_test_that_started_it():
    required_program("setpriv")
    program = [sys.executable, "-c", HOLDER, *bound("sleep", "3600")]
    with subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, text=True) as test:
        assert test.stdout is not None
        started = int(test.stdout.readline())
        wait_until("it sleeps", lambda: "sleep" in descendants(test.pid).values())
        test.kill()

    wait_until("it has ended", lambda: not is_running(started))


HOLDER = """
import subprocess, sys
held = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)
print(held.pid, flush=True)
held.wait()
"""
