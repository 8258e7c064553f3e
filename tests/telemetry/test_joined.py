"""One trace joins what was promised, its fire and its attempts; nothing is stored for it."""

from __future__ import annotations

from typing import Any

import duly
from duly import Retry, every
from duly.telemetry.tracing import first_span_of, trace_id_of
from tests.telemetry.recorded import (
    at_work,
    linked,
    parent_of,
    place,
    said,
    span_id,
    trace_of,
    wait_state,
)
from tests.waiting import comes_true


def failing_once(app: duly.App) -> Any:
    @app.task(name="report", retry=Retry(attempts=3, base="100ms"))
    def report(run: duly.Run) -> str:
        if run.attempt == 1:
            raise ConnectionError("the other side is away")
        return "done"

    return report


def test_one_trace_joins_the_fire_of_a_schedule_and_its_attempts(url, recorded):
    """Fire, attempt 1 (failed) and attempt 2 (succeeded), with all three ids."""
    with duly.App(url) as app:
        app.traces.tracing = recorded.tracing
        schedule = app.schedules.create("tick", failing_once(app), every("1h"))
        with at_work(app):
            made = app.schedules.trigger("tick")
            wait_state(app, made.id, "succeeded")
        spans = recorded.of_run(made.id)

    first, failed, again, done = spans
    assert ["promise report", "attempt report", "fire", "attempt report"] == [s.name for s in spans]
    assert (None, first_span_of(made.id.bytes)) == (parent_of(first), span_id(first))
    assert {span_id(first)} == {parent_of(one) for one in spans[1:]}
    assert [1, 2] == [said(one, "duly.attempt.number") for one in (failed, done)]
    assert ("failed", "retrying") == _ended(failed)
    assert ("succeeded", "succeeded") == _ended(done)
    assert "ConnectionError: the other side is away" == failed.status.description
    assert "retry" == said(again, "duly.timer")
    for one in (failed, done):
        assert str(schedule.id) == said(one, "duly.schedule.id")
        assert "tick" == said(one, "duly.schedule.name")
        assert f"{made.id}.{said(one, 'duly.attempt.number')}" == said(one, "duly.attempt.id")
    assert said(done, "duly.fence") > said(failed, "duly.fence")


def test_a_promise_begins_with_its_order_and_not_behind_what_comes_of_it(url, recorded):
    """A worker may have begun before whoever has promised it tells so."""
    with duly.App(url) as app:
        app.traces.tracing = recorded.tracing
        run = app.enqueue(failing_once(app))
        (promise,) = recorded.of_run(run.id)
        (order,) = [one for one in recorded.named("promise") if one.name == "promise"]

    assert order.start_time == promise.start_time


def test_an_occurrence_is_told_by_the_dispatcher_that_fires_it(url, recorded):
    """The first span of its run, which leads back to the schedule's own trace."""
    with duly.App(url) as app:
        app.traces.tracing = recorded.tracing
        schedule = app.schedules.create("tick", failing_once(app), every("1s"), overlap="skip")
        with at_work(app):
            assert comes_true(lambda: app.runs.list(schedule="tick", state="succeeded"))
        run = app.runs.list(schedule="tick", state="succeeded")[0]
        created = recorded.named("schedule report")[0]
        spans = recorded.of_run(run.id)

    fired = spans[0]
    assert "fire report" == fired.name
    assert (trace_id_of(run.id.bytes), first_span_of(run.id.bytes)) == place(fired)
    assert str(schedule.id) == said(fired, "duly.schedule.id")
    assert said(fired, "duly.lateness_us") >= 0
    assert place(created) in linked(fired)
    attempts = [one for one in spans if one.name.startswith("attempt")]
    assert {span_id(fired)} == {parent_of(one) for one in attempts}
    assert [1, 2] == [said(one, "duly.attempt.number") for one in attempts]


def test_who_orders_within_a_span_and_the_run_know_of_each_other(url, recorded):
    """By links in both directions, of which the store knows nothing."""
    with duly.App(url) as app:
        app.traces.tracing = recorded.tracing
        task = failing_once(app)
        tracer = recorded.provider.get_tracer("a program")
        with tracer.start_as_current_span("checkout") as checkout:
            run = app.enqueue(task, delay="1s")
        with at_work(app):
            wait_state(app, run.id, "succeeded")
        spans = recorded.of_run(run.id)
        order = next(one for one in recorded.spans if one.name == "promise")

    assert checkout.get_span_context().trace_id == trace_of(order)
    assert checkout.get_span_context().span_id == parent_of(order)
    first = next(one for one in spans if one.name == "promise report")
    assert {place(first)} == linked(order)
    assert {place(order)} == linked(first)
    told = [one.name for one in spans if trace_of(one) == trace_of(first)]
    assert ["promise report", "fire", "attempt report", "fire", "attempt report"] == told
    assert "delayed" == said(next(one for one in spans if one.name == "fire"), "duly.timer")


def test_an_order_given_again_is_told_once(tmp_path, recorded):
    with duly.App(f"sqlite:///{tmp_path}/duly.db") as app:
        app.traces.tracing = recorded.tracing
        task = failing_once(app)
        app.enqueue(task, delay="1h", key="k")
        app.enqueue(task, delay="1h", key="k")

    assert 2 == len([one for one in recorded.spans if one.name == "promise"])
    assert 1 == len(recorded.named("promise report"))


def test_of_many_that_are_ordered_together_a_bounded_number_is_told(tmp_path, recorded):
    with duly.App(f"sqlite:///{tmp_path}/duly.db") as app:
        app.traces.tracing = recorded.tracing
        task = failing_once(app)
        app.enqueue_many([task.bind() for _ in range(500)], delay="1h")

    order = next(one for one in recorded.spans if one.name == "promise")
    assert 128 == len(recorded.named("promise report")) == len(order.links)
    assert 500 == said(order, "duly.promised")


def test_a_run_that_the_store_made_itself_is_told_by_who_executes_it(url, recorded):
    """The check of a result is a run of its own, whose first span leads to what it checks."""
    with duly.App(url) as app:
        app.traces.tracing = recorded.tracing
        task = failing_once(app)
        task.verify(lambda run: True)
        with at_work(app):
            run = app.enqueue(task)
            assert comes_true(lambda: recorded.named("attempt report:verify"))
        first, attempt = (
            recorded.named(f"{what} report:verify")[0] for what in ("fire", "attempt")
        )

    assert "verify" == said(first, "duly.origin")
    assert {(trace_id_of(run.id.bytes), first_span_of(run.id.bytes))} == linked(first)
    assert (trace_of(first), span_id(first)) == (trace_of(attempt), parent_of(attempt))


def _ended(span):
    return said(span, "duly.attempt.state"), said(span, "duly.run.then")
