"""Code in virtual time: it rests, goes on and stops as it would by the clock on the wall."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from duly.app import App
from duly.app.stores import open_scratch
from duly.client.run_view import Run  # noqa: TC001 - a task's annotations are read at run time
from duly.demo.app import rest
from duly.demo.history import PastSimulation
from duly.domain.policies import Retry
from duly.engine.manual_clock import START_US, ManualClock
from duly.store.sqlite import SqliteStore
from duly.timetable.instants import SECOND_US
from duly.timetable.interval import every

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OFF, FULL = 0, 2
"""As SQLite counts them."""
app = App("memory:")


@app.task(retry=Retry(attempts=2, base="1s"))
def work(run: Run, seconds: int, steps: int = 1) -> None:
    for step in range(1, steps + 1):
        rest(run, seconds / steps)
        run.log(f"step {step}")


@app.task(effects="unsafe")
def pay(run: Run) -> None:
    with run.effect("pay"):
        rest(run, 60)


@pytest.fixture
def past(tmp_path: Path) -> Iterator[PastSimulation]:
    clock = ManualClock()
    store = open_scratch(tmp_path / "promises.db", clock)
    made = PastSimulation(app, store, clock)
    with app.standing_in(store, clock, lambda rest_us: made.live(rest_us / SECOND_US)):
        made.open()
        yield made
        made.close()
        store.close()


def test_runs_go_on_beside_each_other_and_take_their_time(past: PastSimulation):
    long = app.enqueue(work.bind(seconds=600, steps=3)).id
    short = app.enqueue(work.bind(seconds=30)).id
    past.live(60)
    states = app.runs.get(long).state, app.runs.get(short).state
    past.live(600)
    ended, begun = app.runs.get(long).finished_at, app.runs.get(long).started_at
    lines = [line.at for line in app.runs.lines(long)]

    assert ("running", "succeeded") == states
    assert ended is not None
    assert begun is not None
    assert 600 == (ended - begun).total_seconds()
    assert [200, 400, 600] == [(at - begun).total_seconds() for at in lines]


def test_a_run_that_is_cancelled_stops_where_it_rests(past: PastSimulation):
    run = app.enqueue(work.bind(seconds=36_000)).id
    past.live(10)
    app.runs.cancel(run, reason="enough")
    past.live(3 * 3600)

    assert "cancelled" == app.runs.get(run).state


def test_a_worker_that_is_lost_leaves_doubt_about_what_may_not_be_done_twice(past: PastSimulation):
    """The reaper settles it when the lease has run out, as it does anywhere."""
    run = app.enqueue(pay).id
    past.lose_worker(10)
    found = app.runs.get(run)
    [attempt] = app.runs.attempts(run)

    assert ("ambiguous", "lost") == (found.state, found.reason)
    assert attempt.ended_at is not None
    assert (attempt.ended_at - attempt.claimed_at).total_seconds() < 60
    assert [] == app.check()


def test_what_falls_due_while_nobody_dispatches_is_settled_by_its_policy(past: PastSimulation):
    app.schedules.create("skipped", work.bind(seconds=1), every("10m"), misfire="skip")
    app.schedules.create("made-up", work.bind(seconds=1), every("10m"), misfire="all")
    past.be_away_until(START_US + 3300 * SECOND_US)
    past.watch(30)

    assert [] == app.runs.list(schedule="skipped")
    assert {"catch-up"} == {run.origin for run in app.runs.list(schedule="made-up")}


def test_no_thread_outlives_its_past(past: PastSimulation):
    app.enqueue(work.bind(seconds=3600))
    past.live(10)
    past.close()

    assert [] == [one for one in threading.enumerate() if one.name == "duly-past"]


def test_only_the_past_does_not_wait_for_the_disk(tmp_path: Path):
    """The fleet opens the same file anew, and durably."""
    scratch = open_scratch(tmp_path / "promises.db", ManualClock())
    assert isinstance(scratch, SqliteStore)
    store = SqliteStore(tmp_path / "promises.db")
    ways = [_synchronous(one) for one in (scratch, store)]
    scratch.close()
    store.close()

    assert [OFF, FULL] == ways


def _synchronous(store: SqliteStore) -> object:
    with store._connections.raw() as connection:  # noqa: SLF001 - nobody else can say it
        return connection.pragma("synchronous")
