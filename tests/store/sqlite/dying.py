"""A program that dies between any two statements of an operation, again and again.

For each operation: a file is prepared, copied, and the operation carried out by a child that is
killed before its n-th statement, for every n until it gets through. Prints, as JSON, how often it
was killed, and what was found afterwards that is neither as before nor as after.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import apsw

from duly.domain.attempts import Reason
from duly.domain.concluding import Failed, GivenBack, Succeeded
from duly.domain.literals import Lane
from duly.store.dispatch import FireRetry, FireTimers
from duly.store.execution import ClaimRuns, SettleLost
from duly.store.sqlite import SqliteStore
from duly.testing.conformance import steps
from duly.testing.conformance import work_steps as work
from duly.testing.factories import HOUR_US, SECOND_US, cancel_run, finish, order_runs
from duly.testing.manual_clock import ManualClock

TIMES_MAX = 200


def claim(store, clock):
    for place in range(3):
        work.queue(store, f"run {place}")
    worker = work.join(store)
    return lambda again: again.claim_runs(ClaimRuns(worker=worker, limit=2))


def end(store, clock):
    for place in range(4):
        work.queue(store, f"run {place}")
    worker = work.join(store)
    first, second, third, fourth = work.take(store, worker)
    ends = [
        finish(first, Succeeded("1")),
        finish(second, Failed("again", after_us=SECOND_US)),
        finish(third, work.FATAL),
        finish(fourth, GivenBack(Reason.SHUTDOWN, is_started=True)),
    ]
    return lambda again: again.finish_runs(worker, ends)


def end_and_claim(store, clock):
    for place in range(3):
        work.queue(store, f"run {place}")
    worker = work.join(store)
    first, _ = work.take(store, worker, 2)
    ends = [finish(first, Succeeded("1"))]
    return lambda again: again.finish_and_claim(ends, ClaimRuns(worker=worker, limit=2))


def settle(store, clock):
    work.queue_and_take(store)
    clock.advance(HOUR_US)
    fence = work.maintain(store)
    losses = tuple(work.loss_of(store, one, Failed("lost")) for one in work.lost_claims(store))
    command = SettleLost(fence=fence, losses=losses, overdue_us=0)
    return lambda again: again.settle_lost(command)


def fire_retry(store, clock):
    work.make_waiting(store, after_us=SECOND_US)
    (timer,) = steps.load(store, clock.now_us() + HOUR_US)
    clock.advance(SECOND_US)
    command = FireTimers(fence=steps.own(store, (Lane.LIVE,)), retries=(FireRetry(timer),))
    return lambda again: again.fire_timers(command)


def cancel(store, clock):
    waiting = work.make_waiting(store)
    return lambda again: again.cancel_run(cancel_run(waiting))


def retry(store, clock):
    dead = work.make_dead(store)
    return lambda again: again.retry_runs(order_runs(dead))


OPERATIONS = (claim, end, end_and_claim, settle, fire_retry, cancel, retry)


def dump(path):
    """Return every row of every table."""
    connection = apsw.Connection(str(path))
    names = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'duly%' ORDER BY name"
    ).fetchall()
    rows = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for (name,) in names}  # noqa: S608
    connection.close()
    return rows


def carry_out(path, clock, operation, dies_before):
    """Carry an operation out in a child that dies before its n-th statement; say if it did."""
    child = os.fork()
    if child == 0:
        store = SqliteStore(path, clock)
        left = dies_before

        def count_down(*_):
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return True

        store._connections._open_writer().exec_trace = count_down  # noqa: SLF001
        operation(store)
        store.close()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def torment(folder, prepare):
    """Return how often a child died, and what was wrong afterwards."""
    clock, prepared = ManualClock(), folder / f"{prepare.__name__}.db"
    store = SqliteStore(prepared, clock)
    operation = prepare(store, clock)
    store.close()
    before, copy, kills, found = dump(prepared), folder / "copy.db", 0, []
    after = {}
    dumps = []
    for number in range(1, TIMES_MAX):
        for name in folder.glob("copy.db*"):
            name.unlink()
        shutil.copy(prepared, copy)
        is_killed = carry_out(copy, clock, operation, number)
        seen = dump(copy)
        again = SqliteStore(copy, clock)
        found += [str(finding) for finding in again.check()]
        again.close()
        if not is_killed:
            after = seen
            break
        dumps.append(seen)
        kills += 1
    found += [f"half done before {place}" for place, seen in enumerate(dumps, 1) if seen != before]
    if after == before:
        found.append("nothing was done at all")
    return kills, found


if __name__ == "__main__":
    tormented = {one.__name__: torment(Path(sys.argv[1]), one) for one in OPERATIONS}
    sys.stdout.write(json.dumps(tormented))
