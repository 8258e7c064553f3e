"""A program that dies between any two statements of an operation, again and again.

A file is prepared, copied, and the operation that is named carried out by a child that is killed
before its n-th statement, for every n until it gets through. Prints, as JSON, how often it was
killed, and what was found afterwards that is neither as before nor as after.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import apsw

from duly.domain.effects import Choice
from duly.domain.enums import Finding, Lane
from duly.domain.outcomes import Failed, ReturnedToQueue, Succeeded
from duly.domain.runs import Reason
from duly.domain.verification import ItemReport, check_of
from duly.engine.manual_clock import ManualClock
from duly.store.ports.dispatch import FireRetry, FireTimers
from duly.store.ports.effects import EndEffect
from duly.store.ports.execution import ClaimRuns, SettleLost
from duly.store.sqlite import SqliteStore
from duly_conformance import steps
from duly_conformance import steps as work
from duly_conformance.effects import UNSAFE, begin, done, in_doubt, rerun, taken, verdict
from duly_conformance.effects import settle_doubt as decide
from duly_conformance.kit import HOUR_US, SECOND_US, cancel_run, finish, order_runs

TIMES_MAX = 200


def claim(store, clock):
    for place in range(3):
        work.queue(store, f"run {place}")
    worker = work.join_worker(store)
    return lambda again: again.claim_runs(ClaimRuns(worker=worker, limit=2))


def end(store, clock):
    for place in range(4):
        work.queue(store, f"run {place}")
    worker = work.join_worker(store)
    first, second, third, fourth = work.take(store, worker)
    ends = [
        finish(first, Succeeded("1")),
        finish(second, Failed("again", after_us=SECOND_US)),
        finish(third, work.FATAL),
        finish(fourth, ReturnedToQueue(Reason.SHUTDOWN, is_started=True)),
    ]
    return lambda again: again.finish_runs(worker, ends)


def end_and_claim(store, clock):
    for place in range(3):
        work.queue(store, f"run {place}")
    worker = work.join_worker(store)
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


def permit(store, clock):
    worker, claimed = taken(store)
    return lambda again: begin(again, worker, claimed)


def end_effect(store, clock):
    worker, claimed = taken(store)
    begin(store, worker, claimed)
    order = EndEffect(worker=worker, hold=claimed.hold, key="mail", result='"sent"')
    return lambda again: again.end_effect(order)


def fall_into_doubt(store, clock):
    worker, claimed = taken(store)
    for key in ("mail", "letter"):
        begin(store, worker, claimed, key)
    said: dict[str, Any] = {"scope": ItemReport(expected=2, names=("a", "b"), done=("a",))}
    said["follow_up"] = check_of(claimed.record, claimed.fence)
    return lambda again: work.end(
        again, worker, claimed, Failed("boom"), policy=UNSAFE, has_begun_effects=True, **said
    )


def settle_doubt(store, clock):
    doubtful = in_doubt(store).run_id
    return lambda again: decide(again, doubtful, Choice.RETRY)


def reconcile(store, clock):
    doubtful = in_doubt(store).run_id
    return lambda again: decide(again, doubtful, Choice.RECONCILE, effects={"mail": True})


def repair(store, clock):
    doubtful = in_doubt(store).run_id
    return lambda again: rerun(again, doubtful, is_repair=True)


def check_result(store, clock):
    found = verdict(in_doubt(store), Finding.PRESENT, evidence="1")
    return lambda again: again.add_verdict(found)


def end_within(store, clock):
    worker, claimed = taken(store)
    done(store, worker, claimed)

    def carry(again):
        with again.transaction(SECOND_US) as lent:
            lent.execute("CREATE TABLE duties (number INTEGER)")
            lent.execute("INSERT INTO duties VALUES (1)")
            again.finish_within(lent, worker, finish(claimed, Succeeded("1")))

    return carry


OPERATIONS = (
    *(claim, end, end_and_claim, settle, fire_retry, cancel, retry),
    *(permit, end_effect, fall_into_doubt, settle_doubt, reconcile, repair, check_result),
    end_within,
)
BY_NAME = {one.__name__: one for one in OPERATIONS}


def dump(path):
    """Return every row of every table."""
    connection = apsw.Connection(str(path))
    names = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'du%' ORDER BY name"
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

        connections = store._connections  # noqa: SLF001 - how the file is used is private
        connections._open_writer().exec_trace = count_down  # noqa: SLF001
        open_another = connections._open  # noqa: SLF001

        def open_counted():
            connection = open_another()
            connection.exec_trace = count_down
            return connection

        connections._open = open_counted  # type: ignore[method-assign] # noqa: SLF001 - one that is lent is opened for it
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
    sys.stdout.write(json.dumps(torment(Path(sys.argv[1]), BY_NAME[sys.argv[2]])))
