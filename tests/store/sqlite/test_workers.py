"""Workers on one file: several processes, and processes that die at any moment."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys

import pytest

from duly.domain.enums import RunState
from duly.domain.outcomes import ReturnedToQueue
from duly.domain.policies import Retry
from duly.domain.runs import Reason, TaskPolicy
from duly.engine.manual_clock import ManualClock
from duly.store.ports.execution import WORKER_TTL_US, ClaimRuns
from duly.store.sqlite import SqliteStore
from duly_conformance import steps as work
from duly_conformance.kit import add_runs, cancel_run, finish, new_run
from tests.store.sqlite.dying import BY_NAME

RUNS = 600

CLAIM_ALL = """
import sys
from duly.store.ports.execution import ClaimRuns
from duly.store.sqlite import SqliteStore
from duly_conformance import steps as work_steps
from duly.engine.manual_clock import ManualClock

store = SqliteStore(sys.argv[1], ManualClock())
worker = work_steps.join(store)
got = []
for word in ("ready", "begun"):
    sys.stdout.write(f"{word}\\n")
    sys.stdout.flush()
    sys.stdin.readline()
    more = store.claim_runs(ClaimRuns(worker=worker, limit=7)).runs
    got += more
while more:
    more = store.claim_runs(ClaimRuns(worker=worker, limit=7)).runs
    got += more
sys.stdout.writelines(f"{one.record.id.hex()}\\n" for one in got)
store.close()
"""


@pytest.fixture
def claimants(path):
    """Processes that are ready to claim all there is, as soon as they are told."""
    command = [sys.executable, "-c", CLAIM_ALL, str(path)]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    yield running
    for process in running:
        process.kill()
        process.communicate()


def test_processes_that_claim_from_one_file_never_get_the_same_run(path, clock, claimants):
    """No two workers hold one run, and none is left over."""
    store = SqliteStore(path, clock)
    store.add_runs(add_runs(*(new_run(None, f"run {place}") for place in range(RUNS))))
    # Nobody takes all while the other does not come to run: each has begun before both go on.
    for word in ("ready", "begun"):
        for process in claimants:
            assert f"{word}\n" == process.stdout.readline()
        for process in claimants:
            process.stdin.write("go\n")
            process.stdin.flush()
    got = [process.communicate()[0].split() for process in claimants]

    assert RUNS == len(set(got[0]) | set(got[1])) == len(got[0]) + len(got[1])
    assert all(got)
    assert (RUNS, 0) == (store.status().running, store.status().queued)
    assert [] == store.check()
    store.close()


@pytest.mark.parametrize("operation", BY_NAME)
def test_a_process_that_dies_between_statements_leaves_nothing_half_done(tmp_path, operation):
    """INV-2: killed before every statement of every operation that moves runs."""
    command = [sys.executable, "-m", "tests.store.sqlite.dying", str(tmp_path), operation]
    done = subprocess.run(command, check=True, capture_output=True, text=True)

    kills, found = json.loads(done.stdout)

    assert [] == found
    assert kills >= 3


def test_a_run_that_was_given_back_can_be_cancelled_in_the_queue(store, clock):
    """It lies elsewhere than one that was never claimed."""
    worker, claimed = work.queue_and_take(store)
    clock.advance(5)
    back = finish(claimed, ReturnedToQueue(Reason.SHUTDOWN, is_started=True))
    store.finish_runs(worker, [back])

    cancelled = store.cancel_run(cancel_run(claimed.record.id))

    assert (RunState.CANCELLED, 1) == (cancelled.state, cancelled.tries.fence)
    assert () == store.claim_runs(ClaimRuns(worker=worker, limit=5)).runs
    assert [] == store.check()


def test_the_views_show_a_run_by_its_place(store):
    """What others may read."""
    dead = work.make_dead(store, "dead")
    waiting = work.make_waiting(store, "waiting")
    _, running = work.queue_and_take(store, "running")
    queued = work.queue(store, "queued")

    with store.transaction(1_000_000) as lent:
        shown = lent.execute("SELECT id, state, state_reason FROM duly_public_runs")

    assert {
        dead: ("dead", "not-retryable"),
        waiting: ("retrying", "error"),
        running.record.id: ("running", None),
        queued: ("queued", None),
    } == {row[0]: row[1:] for row in shown}


NEWER_POLICY = (
    '{"retry":{"attempts":3,"per_hour":9},"effects":"reversible","stall":"1m","memory":1}'
)


@pytest.mark.parametrize("text", [NEWER_POLICY, "{", "7"])
def test_a_policy_that_can_not_be_read_stops_nobody(path, text):
    """INV-25: of a task of a newer program's; claims are found, listed and settled."""
    clock = ManualClock()
    store = SqliteStore(path, clock)
    store.register_policies({"remind": TaskPolicy(), "report": TaskPolicy(retry=Retry(2))})
    _, claimed = work.queue_and_take(store)
    work.queue_and_take(store, "b", task="report")
    with sqlite3.connect(path) as line:
        line.execute("UPDATE duly_tasks SET policy = ? WHERE name = 'remind'", (text,))
    line.close()
    clock.advance(WORKER_TTL_US)

    lost = work.lost_claims(store)

    assert 2 == len(lost)
    assert 1 == len(store.list_attempts(claimed.record.id))
    assert [True, True] == work.settle_lost(store, work.maintain(store), *lost)
    store.close()
