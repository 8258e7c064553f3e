"""Spans in a test's hands: kept in memory by the real SDK, and found by what they say."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from duly.app.services import WorkerOptions
from duly.clock import SystemClock
from duly.engine.loop import Loop
from duly.store.ports.dispatch import MemberKind
from duly.telemetry.otel import OtelTracing
from duly.telemetry.tracing import trace_id_of
from tests.waiting import comes_true

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from opentelemetry.sdk.trace import ReadableSpan

    import duly
    from duly.engine.loop import Service

CLOCK = SystemClock()


class Recorded:
    """A provider of the SDK that keeps what it is told."""

    def __init__(self, **options: Any) -> None:
        self._kept = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False, **options)
        self.provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.tracing = OtelTracing(self.provider)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._kept.get_finished_spans())

    def named(self, beginning: str) -> list[ReadableSpan]:
        return [one for one in self.spans if one.name.startswith(beginning)]

    def of_run(self, run_id: UUID) -> list[ReadableSpan]:
        """Return the spans of a run's trace that name it, in the order in which they began."""
        named = [one for one in self.spans if said(one, "duly.run.id") == str(run_id)]
        found = [one for one in named if trace_of(one) == trace_id_of(run_id.bytes)]
        return sorted(found, key=lambda one: one.start_time or 0)


def said(span: ReadableSpan, attribute: str) -> Any:
    return (span.attributes or {}).get(attribute)


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None, "it was told"
    return int(span.context.trace_id)


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def span_id(span: ReadableSpan) -> int:
    assert span.context is not None, "it was told"
    return int(span.context.span_id)


def linked(span: ReadableSpan) -> set[tuple[int, int]]:
    return {(one.context.trace_id, one.context.span_id) for one in span.links}


def place(span: ReadableSpan) -> tuple[int, int]:
    return trace_of(span), span_id(span)


@contextmanager
def at_work(app: duly.App, options: WorkerOptions | None = None, **told: Any) -> Iterator[None]:
    """Have a dispatcher and a worker of an application at work, each in a thread."""
    bells = app.store.wakeups(), app.store.wakeups(MemberKind.WORKER)
    services: tuple[Service, Service] = (
        app.dispatcher(wake_address=bells[0].address),
        app.worker(options or WorkerOptions(slots=4), wakeups=bells[1], **told),
    )
    loops = [Loop(one, bell, CLOCK) for one, bell in zip(services, bells, strict=True)]
    threads = [threading.Thread(target=loop.run) for loop in loops]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for loop, thread in zip(loops, threads, strict=True):
            loop.stop()
            thread.join()
        for bell in bells:
            bell.close()


def wait_state(app: duly.App, run_id: UUID, state: str) -> None:
    """Wait until a run is in a state; one that is still delayed is in none."""
    assert comes_true(lambda: any(one.id == run_id for one in app.runs.list(state=state)))
