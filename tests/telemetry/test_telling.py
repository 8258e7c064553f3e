"""How spans are told: kept or not by the same decision everywhere, and never in anybody's way."""

from __future__ import annotations

import subprocess
import sys

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBasedTraceIdRatio, TraceIdRatioBased

import duly
from duly import UsageError
from duly.domain.ids import occurrence_run_id, schedule_id
from duly.telemetry.otel import OtelTracing, passed_on
from duly.telemetry.tracing import SPANS_AT_ONCE_MAX, SpanFacts, first_span_of, trace_id_of
from tests.telemetry.recorded import (
    Recorded,
    at_work,
    parent_of,
    place,
    span_id,
    trace_of,
    wait_state,
)

SCHEDULE = schedule_id(1_000_000, bytes(range(10)))
RUNS = [occurrence_run_id(SCHEDULE, number * 3_600_000_000) for number in range(2_000)]


def fire(run_id: bytes) -> SpanFacts:
    return SpanFacts(name="fire", of=run_id, is_first=True)


@pytest.mark.parametrize("sampler", [ParentBasedTraceIdRatio(0.25), TraceIdRatioBased(0.25)])
def test_all_processes_decide_alike_which_traces_are_kept(sampler):
    """By the trace's id alone, so that a kept trace is whole."""
    dispatcher, worker = Recorded(sampler=sampler), Recorded(sampler=sampler)
    for run_id in RUNS:
        dispatcher.tracing.tell([fire(run_id)], 1, 2)
        worker.tracing.begin_attempt(SpanFacts(name="attempt", of=run_id)).end({})

    kept = {trace_of(one) for one in dispatcher.spans}
    assert kept == {trace_of(one) for one in worker.spans}
    # A quarter of two thousand, and some more or less: ids of runs are spread over all traces.
    assert 420 <= len(kept) <= 580


def test_what_is_not_kept_is_passed_on_as_such():
    """Whoever is called does not keep it either."""
    attempt = Recorded(sampler=ALWAYS_OFF).tracing.begin_attempt(
        SpanFacts(name="attempt", of=RUNS[0])
    )

    assert attempt.carrier()["traceparent"].startswith(f"00-{trace_id_of(RUNS[0]):032x}-")
    assert attempt.carrier()["traceparent"].endswith("-00")


def test_the_first_span_of_a_trace_has_a_computed_id_and_others_have_not(recorded):
    recorded.tracing.tell([fire(RUNS[0])], 1_000, 3_000)
    recorded.tracing.begin_attempt(SpanFacts(name="attempt", of=RUNS[0])).end({})
    with recorded.provider.get_tracer("duly").start_as_current_span("other"):
        pass
    first, attempt, other = recorded.spans

    assert (trace_id_of(RUNS[0]), first_span_of(RUNS[0])) == place(first)
    assert (None, span_id(first)) == (parent_of(first), parent_of(attempt))
    assert (1_000_000, 3_000_000) == (first.start_time, first.end_time)
    assert 3 == len({span_id(one) for one in recorded.spans})
    assert trace_of(other) != trace_of(first)


def test_of_one_batch_a_bounded_number_is_told(recorded):
    """A burst does not hold a dispatcher up."""
    recorded.tracing.tell((fire(one) for one in RUNS), 1, 2)

    assert SPANS_AT_ONCE_MAX == len(recorded.spans)


class Broken(SpanProcessor):
    """Breaks down at whatever it is told."""

    def on_start(self, span, parent_context=None):
        raise RuntimeError("broken")

    def on_end(self, span):
        raise RuntimeError("broken")


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_broken_exporter_breaks_nothing_else(url, recorded):
    """Neither an order nor a fire nor a task."""
    recorded.provider.add_span_processor(Broken())
    with duly.App(url) as app:
        app.traces.tracing = recorded.tracing

        @app.task
        def work(run: duly.Run) -> None:
            run.checkpoint(1)

        with at_work(app):
            for run in (app.enqueue(work), app.enqueue(work, delay="100ms")):
                wait_state(app, run.id, "succeeded")


def test_a_provider_of_another_make_gets_spans_below_the_first():
    """One that can't be given ids still joins all of a run in one trace."""

    class Tracer(trace.NoOpTracer):
        def __init__(self):
            self.begun = []

        def start_span(self, name, context=None, *_, **__):
            self.begun.append(trace.get_current_span(context).get_span_context())
            return trace.INVALID_SPAN

    class Provider(trace.TracerProvider):
        tracer = Tracer()

        def get_tracer(self, *_, **__):
            return self.tracer

    provider = Provider()
    OtelTracing(provider).tell([fire(RUNS[0])], 1, 2)

    found = provider.tracer.begun[0]
    assert (trace_id_of(RUNS[0]), first_span_of(RUNS[0])) == (found.trace_id, found.span_id)
    assert found.trace_flags.sampled


@pytest.mark.parametrize("said", [{}, {"traceparent": "00-x-y-01"}, {"traceparent": "\r\nevil: 1"}])
def test_what_is_no_span_is_not_taken_for_one(said):
    assert passed_on(said) is None


def test_nobody_loads_opentelemetry_who_has_not_asked_for_it():
    """No cost where it is off."""
    code = (
        "import sys, duly; app = duly.App('memory:'); app.dispatcher(); app.worker()\n"
        "import duly.cli.services, duly.cli.services, duly.app.task_process\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]" == done.stdout.strip()


def test_traces_without_opentelemetry_are_refused_with_the_remedy(monkeypatch):
    """One clear error."""
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delitem(sys.modules, "duly.telemetry.otel")

    with pytest.raises(UsageError, match=r"pip install 'duly\[otel\]'"):
        duly.App("memory:", settings=duly.Settings(traces=True))


def test_a_program_that_asks_for_traces_tells_them_to_its_own_provider():
    app = duly.App("memory:", settings=duly.Settings(traces=True))

    assert isinstance(app.traces.tracing, OtelTracing)
    assert app.within(tenant="other", actor="a").traces is app.traces


def test_a_setting_that_is_no_choice_is_refused():
    with pytest.raises(UsageError, match="traces"):
        duly.Settings(traces="yes")  # type: ignore[arg-type]
