"""Spans of orders about what was promised before, and the trace of who asks a server."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly import every
from duly.api.app import Api
from duly.telemetry.tracing import first_span_of, trace_id_of
from tests.api.api_fixtures import token_for
from tests.remote.live_server import listening
from tests.telemetry.recorded import (
    CLOCK,
    at_work,
    linked,
    parent_of,
    place,
    said,
    trace_of,
    wait_state,
)

if TYPE_CHECKING:
    from collections.abc import Callable

ORDERS: dict[str, Callable[[duly.App], Any]] = {
    "schedule.edited": lambda app: app.schedules.edit("tick", timetable=every("2h")),
    "schedule.paused": lambda app: app.schedules.pause("tick", reason="for the night"),
    "schedule.resumed": lambda app: app.schedules.resume("tick"),
    "schedule.skipped-next": lambda app: app.schedules.skip_next("tick"),
    "schedule.deleted": lambda app: app.schedules.delete("tick"),
}


def promised(app: duly.App) -> duly.Schedule:
    @app.task(name="report")
    def report() -> str:
        return "done"

    return app.schedules.create("tick", report, every("1h"))


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_every_order_about_a_schedule_is_told_in_its_trace(url, recorded):
    """Below the schedule's first span, and linked with the caller's own in both ways."""
    with duly.App(url) as app:
        app.traces.tracing = recorded.tracing
        schedule = promised(app)
        for name, give in ORDERS.items():
            give(app)
            (told,) = recorded.named(name)
            order = recorded.named("order")[-1]

            assert trace_id_of(schedule.id.bytes) == trace_of(told)
            assert first_span_of(schedule.id.bytes) == parent_of(told)
            assert ("tick", "report") == (
                said(told, "duly.schedule.name"),
                said(told, "duly.task"),
            )
            assert (place(order) in linked(told), place(told) in linked(order)) == (True, True)
            assert said(order, "duly.promised") is None


def test_an_order_that_changes_nothing_is_told_by_nobody_but_its_caller(tmp_path, recorded):
    with duly.App(f"sqlite:///{tmp_path}/duly.db") as app:
        app.traces.tracing = recorded.tracing
        promised(app)
        app.schedules.edit("tick", timetable=every("1h"))

    assert 1 == len(recorded.named("order"))
    assert [] == recorded.named("schedule.edited")


def test_backfills_and_runs_once_more_are_told(url, recorded):
    """A backfill in the trace of its schedule, a rerun in that of its run."""
    with duly.App(url) as app:
        app.traces.tracing = recorded.tracing
        schedule = promised(app)
        now = CLOCK.now()
        made = app.backfills.create(
            "tick", since=now - timedelta(hours=3), until=now - timedelta(hours=1), reason="once"
        )
        app.backfills.pause(made.id)
        with at_work(app):
            run = app.schedules.trigger("tick")
            wait_state(app, run.id, "succeeded")
            other = app.enqueue(app.call("report"))
            wait_state(app, other.id, "succeeded")
        again = app.inbox.rerun(run.id, reason="to be sure")
        chosen = app.selections.freeze(ids=[other.id])
        (one_of_many,) = app.selections.rerun(chosen.id, reason="to be sure", repair=True)

    created, changed = recorded.named("backfill.")
    assert ["backfill.created", "backfill.changed"] == [created.name, changed.name]
    assert {trace_id_of(schedule.id.bytes)} == {trace_of(created), trace_of(changed)}
    assert {str(made.id)} == {said(one, "duly.backfill.id") for one in (created, changed)}
    rerun, by_filter = recorded.named("run.rerun")
    assert str(one_of_many.made) == said(by_filter, "duly.rerun.id")
    assert (trace_id_of(run.id.bytes), first_span_of(run.id.bytes)) == (
        trace_of(rerun),
        parent_of(rerun),
    )
    assert str(again.id) == said(rerun, "duly.rerun.id")
    assert (trace_id_of(again.id.bytes), first_span_of(again.id.bytes)) in linked(rerun)


def test_a_server_is_told_in_which_span_it_is_asked(tmp_path, recorded):
    """What a program orders from afar is below its own span; outside of any it is alone."""
    with duly.App(f"sqlite:///{tmp_path}/duly.db") as app:
        app.traces.tracing = recorded.tracing
        promised(app)
        token = token_for(app)["Authorization"].removeprefix("Bearer ")
        tracer = recorded.provider.get_tracer("shop")
        with listening(Api(app)) as url, duly.connect(url, token=token) as remote:
            with tracer.start_as_current_span("checkout") as own:
                remote.enqueue("report")
            remote.enqueue("report")

    below, alone = (one for one in recorded.spans if one.name == "promise")
    where = own.get_span_context()
    assert (where.trace_id, where.span_id) == (trace_of(below), parent_of(below))
    assert parent_of(alone) is None
