"""Whatever runs a task's code, it runs below its attempt's span, and passes that on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from aiohttp import web

import duly
from duly.app.loading import load_app
from duly.app.services import WorkerOptions
from tests.engine.webhooks.rig import KEY, Receiver
from tests.telemetry.recorded import (
    Recorded,
    at_work,
    parent_of,
    said,
    span_id,
    trace_of,
    wait_state,
)

PLACE = f"{Path(__file__).with_name('traced_tasks.py')}:app"


@pytest.fixture
def app(tmp_path, monkeypatch, recorded):
    monkeypatch.setenv("DULY_URL", f"sqlite:///{tmp_path}/duly.db")
    loaded = load_app(PLACE)
    loaded.traces.tracing = recorded.tracing
    yield loaded
    loaded.close()
    for name, module in list(sys.modules.items()):  # or the next test had this one's store
        if getattr(module, "__file__", None) == PLACE.rpartition(":")[0]:
            del sys.modules[name]


def result_of(app: duly.App, recorded: Recorded, task: str):
    """Run a task to its end; return what it gave, and the span of its attempt."""
    with at_work(app, WorkerOptions(slots=2, allow_commands=True)):
        run = app.enqueue(app.call(task))
        wait_state(app, run.id, "succeeded")
    attempt = recorded.named(f"attempt {task}")[0]
    return app.runs.get(run.id).result, attempt


def traceparent(span) -> str:
    return f"00-{trace_of(span):032x}-{span_id(span):016x}-01"


@pytest.fixture
def receiver():
    """A server that agrees to whatever it is sent."""

    async def agree(_request):
        return web.Response(status=204)

    started = Receiver(agree)
    yield started
    started.close()


@pytest.mark.parametrize(
    "task", ["in_thread", "awaited", "in_process", "awaited_in_process", "shows"]
)
def test_a_task_runs_below_its_attempts_span(app, recorded, task):
    """In threads, on the loop, in processes of its own; a command has it in its environment."""
    result, attempt = result_of(app, recorded, task)

    assert {traceparent(attempt)} == {*([result] if isinstance(result, str) else result)}


@pytest.mark.parametrize("task", ["in_thread", "in_process"])
def test_a_checkpoint_is_a_span_below_its_attempt(app, recorded, task):
    _, attempt = result_of(app, recorded, task)
    saved = recorded.named("checkpoint")[0]

    assert (trace_of(attempt), span_id(attempt)) == (trace_of(saved), parent_of(saved))


@pytest.mark.parametrize("task", ["charge", "charge_awaited"])
def test_what_is_done_in_an_effect_is_below_the_effects_span(app, recorded, task):
    """And after it the attempt's span is the current one again."""
    result, attempt = result_of(app, recorded, task)
    effects = recorded.named("effect")

    assert [traceparent(effects[0]), traceparent(attempt)] == result[:2]
    assert [traceparent(one) for one in effects[1:]] == result[2:]
    assert {span_id(attempt)} == {parent_of(one) for one in effects}
    assert {"done"} == {said(one, "duly.effect.state") for one in effects}
    assert "charge:1" == said(effects[0], "duly.effect.key")


def test_an_effect_that_nobody_ended_is_told_as_open(app, recorded):
    """Nobody knows whether it took place, and the trace says so."""
    with at_work(app):
        run = app.enqueue(app.call("charge_in_doubt"))
        wait_state(app, run.id, "ambiguous")

    assert ["open"] == [said(one, "duly.effect.state") for one in recorded.named("effect")]
    assert "ambiguous" == said(recorded.named("attempt")[0], "duly.run.then")


def test_what_a_task_orders_is_below_its_attempt(app, recorded):
    result_of(app, recorded, "orders")
    attempt, order = recorded.named("attempt orders")[0], recorded.spans
    promised = [one for one in order if one.name == "promise" and one.parent]

    assert {span_id(attempt)} == {parent_of(one) for one in promised}


def test_a_webhook_carries_its_attempts_span(tmp_path, monkeypatch, recorded, receiver):
    """Whoever receives it can go on with the trace; a header of another span gives way."""
    monkeypatch.setenv("HOOK", KEY)
    with duly.App(f"sqlite:///{tmp_path}/hooks.db") as app:
        app.traces.tracing = recorded.tracing
        hook = app.webhook(
            "hook",
            f"{receiver.url}/in",
            secret=duly.secret("env:HOOK"),
            headers={"Traceparent": "00-1-1-01"},
        )
        with at_work(app, WorkerOptions(allow_addresses=[receiver.place])):
            run = app.enqueue(hook)
            wait_state(app, run.id, "succeeded")

    attempt = recorded.named("attempt hook")[0]
    assert traceparent(attempt) == receiver.seen[0].headers["traceparent"]
    assert str(run.id) == receiver.seen[0].headers["webhook-id"]


def test_without_traces_nothing_is_passed_on(app, recorded):
    """And what the worker's own surroundings say is nothing of a command's."""
    app.traces.tracing = None
    with at_work(app, WorkerOptions(slots=2, allow_commands=True)):
        runs = [app.enqueue(app.call(task)) for task in ("shows", "in_thread")]
        for run in runs:
            wait_state(app, run.id, "succeeded")

    found = [app.runs.get(run.id).result for run in runs]
    assert [None, [f"00-{0:032x}-{0:016x}-00"]] == found
    assert not recorded.spans
