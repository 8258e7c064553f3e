"""What was so then: told where what is stored can tell it, and never guessed."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

import duly
from duly import NotFound, UsageError, every
from duly.cli.runs import RunFilterOptions, find_runs_then
from duly.cli.schedules import find_entry
from duly.client.schedule_history import WAITING
from duly.domain.outcomes import Succeeded
from duly.timetable.instants import from_microseconds
from duly_conformance import steps as work

MINUTE_US = 60_000_000
ANY = RunFilterOptions()


@pytest.fixture
def app(kept):
    store, clock = kept
    app = duly.App(store=store, clock=clock, actor="ada")
    app.task(name="remind")(lambda: None)
    store.register_tasks(["remind"])
    return app


def states(app: duly.App, at: int, **options: Any) -> dict[str, str]:
    """Return the state of each run at an instant, by its id."""
    found, is_all = find_runs_then(
        app, RunFilterOptions(**options), (50, ()), from_microseconds(at)
    )
    assert is_all
    return {str(one.run.id): one.state for one in found}


def test_a_run_is_told_as_it_was_at_each_instant(app, kept):
    """Made, waiting, running, waiting, running, over; and what is not kept is not guessed."""
    store, clock = kept
    moments = [store.now()]

    def pass_time() -> None:
        clock.advance(MINUTE_US)
        moments.append(store.now())
        clock.advance(MINUTE_US)

    clock.advance(MINUTE_US)
    run = str(UUID(bytes=work.queue(store, "a")))
    pass_time()
    worker = work.join_worker(store, ttl_us=100 * MINUTE_US)
    first = work.take_one(store, worker)
    pass_time()
    work.end(store, worker, first, work.FATAL)
    pass_time()
    app.runs.retry([UUID(run)])
    pass_time()
    second = work.take_one(store, worker)
    pass_time()
    work.end(store, worker, second, Succeeded())
    pass_time()

    told = [states(app, at).get(run) for at in moments]

    # It was dead after its first attempt; that it was brought back since hides since when.
    assert [None, WAITING, "running", WAITING, WAITING, "running", "succeeded"] == told


def test_a_dead_run_that_nobody_has_brought_back_was_dead_then(app, kept):
    """Also one that was discarded since, as nothing but a dead run can be."""
    store, clock = kept
    run = str(UUID(bytes=work.make_dead(store, "a")))
    clock.advance(MINUTE_US)
    then = store.now()
    clock.advance(MINUTE_US)
    app.runs.discard([UUID(run)])

    assert {run: "dead"} == states(app, then)
    other = str(UUID(bytes=work.make_dead(store, "b")))
    clock.advance(MINUTE_US)
    assert {run: "discarded", other: "dead"} == states(app, store.now())
    assert {} == states(app, store.now(), queue="elsewhere")


def test_what_says_how_runs_are_now_is_refused(app):
    """A list that mixes then and now would be wrong."""
    for options in (
        RunFilterOptions(cause="lost"),
        RunFilterOptions(worker=1),
        RunFilterOptions(until="now"),
    ):
        with pytest.raises(UsageError, match="leave it out with --as-of"):
            find_runs_then(app, options, (5, ()), from_microseconds(app.store.now()))


def test_a_schedule_is_told_as_its_last_order_had_left_it(app, kept):
    """Its rule, its policies and its state; before it was made there is nothing."""
    store, clock = kept
    before = store.now()
    clock.advance(MINUTE_US)
    app.schedules.create("close", app.call("remind"), every("1h"))
    clock.advance(MINUTE_US)
    at_first = store.now()
    clock.advance(MINUTE_US)
    app.schedules.pause("close", reason="moving")
    app.schedules.trigger("close")
    clock.advance(MINUTE_US)
    paused = store.now()
    clock.advance(MINUTE_US)
    edited = app.schedules.edit("close", timetable=every("2h"), name="close-books")

    told: list[Any] = [
        find_entry(app, edited, from_microseconds(at)).after for at in (at_first, paused)
    ]

    assert [("active", "close", None), ("paused", "close", "moving")] == [
        (one["status"], one["name"], one["reason"]) for one in told
    ]
    assert told[0]["definition"]["timetable"] == every("1h").to_json()
    with pytest.raises(NotFound, match="it was made at"):
        find_entry(app, edited, from_microseconds(before))
