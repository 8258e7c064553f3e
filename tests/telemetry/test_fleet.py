"""Spans of what a fleet does by itself: losses, catch-up, backfills; and of who asks over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime

import duly
from duly import every
from duly.api.app import Api
from duly.domain.outcomes import SUCCEEDED
from duly.domain.policies import Misfire
from duly.telemetry.tracing import first_span_of, trace_id_of
from tests.api.api_client import Asker
from tests.api.api_fixtures import token_for
from tests.engine.rig import SECOND, Rig
from tests.telemetry.recorded import Recorded, at_work, parent_of, place, said, span_id, trace_of
from tests.waiting import comes_true


def observed_rig(recorded: Recorded) -> Rig:
    rig = Rig()
    rig.tracing = recorded.tracing
    return rig


def test_an_attempt_whose_worker_is_dead_is_told_by_who_settles_it(recorded):
    """The span that its worker had begun is told by nobody."""
    rig = observed_rig(recorded)
    rig.dispatcher()
    shop = rig.worker()
    run_id = rig.delay(0)
    rig.run("2s")
    assert [run_id] == [work.claimed.run_id for work in shop.works]
    rig.kill(shop.worker)
    rig.run("60s")

    (lost,) = recorded.named("lost")
    assert not recorded.named("attempt")
    assert (trace_id_of(run_id), first_span_of(run_id)) == (trace_of(lost), parent_of(lost))
    assert ("lost", "retrying") == (said(lost, "duly.attempt.state"), said(lost, "duly.run.then"))
    assert str(said(lost, "duly.attempt.id")).endswith(".1")


def test_an_attempt_that_was_taken_from_its_worker_says_so(recorded):
    """A worker that was only paused tells what it knows, and others the rest."""
    rig = observed_rig(recorded)
    rig.dispatcher()
    shop = rig.worker()
    rig.delay(0)
    rig.run("2s")
    rig.workers.remove(shop.worker)
    rig.run("60s")
    rig.workers.append(shop.worker)
    shop.executor.on_start = lambda work: None
    rig.run("60s")
    for work in shop.works[:1]:
        work.ended(SUCCEEDED)
    rig.run("5s")

    states = [said(one, "duly.attempt.state") for one in recorded.named("attempt")]
    assert "fenced-off" in states
    assert recorded.named("lost")


def test_what_is_caught_up_with_is_told_as_fires(recorded):
    rig = observed_rig(recorded)
    record = rig.schedule(timetable=every("1s"), misfire=Misfire("all", grace="5s"))
    rig.advance(60 * SECOND)
    rig.dispatcher()
    rig.run("10s")
    fired = {place(one): one for one in recorded.named("fire")}
    runs = rig.runs(record)

    assert len(runs) >= 60
    assert {(trace_id_of(run.id), first_span_of(run.id)) for run in runs} == set(fired)
    assert {"live", "catch-up"} == {said(one, "duly.lane") for one in fired.values()}


def test_a_run_of_a_backfill_has_a_first_span(url, recorded):
    """Which the worker tells that executes it first."""
    with duly.App(url) as app:
        app.traces.tracing = recorded.tracing

        @app.task
        def report() -> None: ...

        app.schedules.create("hourly", report, every("1h"))
        now = app.store.now() // 1_000_000
        since, until = (datetime.fromtimestamp(now - h * 3600, UTC) for h in (5, 2))
        with at_work(app):
            app.backfills.create("hourly", since=since, until=until)
            assert comes_true(lambda: recorded.named("attempt report"))

    attempt = recorded.named("attempt report")[0]
    first = next(one for one in recorded.named("fire report") if trace_of(one) == trace_of(attempt))
    assert span_id(first) == parent_of(attempt)
    assert "backfill" == said(first, "duly.lane")


def test_who_asks_over_http_is_gone_on_from(tmp_path, recorded):
    """The order is below the span that the request tells of."""
    with duly.App(f"sqlite:///{tmp_path}/duly.db") as app:
        app.traces.tracing = recorded.tracing

        @app.task
        def report() -> None: ...

        told = {"traceparent": f"00-{7:032x}-{9:016x}-01"}
        with Asker(Api(app), token_for(app)) as asker:
            answer = asker.post("/runs", json={"task": "report"}, headers=told)
            asker.post("/runs", json={"task": "report"})

        assert 201 == answer.status_code
    below, alone = (one for one in recorded.spans if one.name == "promise")
    assert (7, 9) == (trace_of(below), parent_of(below))
    assert parent_of(alone) is None
