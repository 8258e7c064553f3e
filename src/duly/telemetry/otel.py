"""Traces through OpenTelemetry, to the program's provider or to one that was passed in.

`OtelTracing` decides in every process anew whether a run's trace is kept, by the sampler and the
trace's id alone. Samplers that are configured alike decide alike, so the decision is not stored.
`OtelTracing` suppresses errors of exporters, because they are no fault of a task.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from duly.telemetry.tracing import (
    EFFECTS_OPEN_MAX,
    SPANS_AT_ONCE_MAX,
    SpanFacts,
    first_span_of,
    trace_id_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from opentelemetry.trace import Span, Tracer, TracerProvider

    from duly.telemetry.tracing import Attributes

SCOPE = "duly"
DESCRIPTION_LENGTH_MAX = 200
EFFECT, CHECKPOINT = "effect", "checkpoint"
_KINDS = {
    "internal": SpanKind.INTERNAL,
    "producer": SpanKind.PRODUCER,
    "consumer": SpanKind.CONSUMER,
}
_WORDS = TraceContextTextMapPropagator()
_NANOSECONDS = 1000


class OtelTracing:
    """Tells spans to a provider: the one that is given, or the program's, whenever it is set."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._given = provider
        self._known: tuple[object, Tracer] | None = None

    def tell(self, spans: Iterable[SpanFacts], began_us: int, ended_us: int) -> None:
        """Tell spans that are over."""
        told = 0
        with suppress(Exception):
            for facts in spans:
                if not self._is_kept(trace_id_of(facts.of)):
                    continue
                span = self._begin(facts, began_us * _NANOSECONDS)
                told += span.is_recording()
                span.end(ended_us * _NANOSECONDS)
                if told == SPANS_AT_ONCE_MAX:
                    return

    def begin_attempt(self, facts: SpanFacts) -> OtelAttempt:
        """Begin the span of an attempt."""
        try:
            return OtelAttempt(self._begin(facts), self._tracer())
        except Exception:  # noqa: BLE001 - no attempt fails because nobody can be told of it
            return OtelAttempt(trace.INVALID_SPAN, trace.NoOpTracer())

    @contextmanager
    def order_span(self, name: str) -> Iterator[_Promised]:
        """Have a span in the caller's own trace while an order is given."""
        span: Span = trace.INVALID_SPAN
        with suppress(Exception):
            span = self._tracer().start_span(name, kind=SpanKind.PRODUCER)
        with trace.use_span(span, end_on_exit=True):
            yield _Promised(self, span)

    def _begin(
        self, facts: SpanFacts, start: int | None = None, links: Sequence[Link] = ()
    ) -> Span:
        tracer, trace_id = self._tracer(), trace_id_of(facts.of)
        first, ids = first_span_of(facts.of), getattr(tracer, "id_generator", None)
        links = [*links, *(Link(self._first(one)) for one in facts.links)]
        told: dict[str, Any] = {
            "kind": _KINDS[facts.kind],
            "attributes": facts.attributes,
            "links": links,
            "start_time": start,
        }
        if facts.is_first and isinstance(ids, _Ids):
            with ids.given(trace_id, first):
                return tracer.start_span(facts.name, Context(), **told)
        above = trace.set_span_in_context(NonRecordingSpan(self._first(facts.of)), Context())
        return tracer.start_span(facts.name, above, **told)

    def _first(self, identity: bytes) -> SpanContext:
        """Return the first span of a trace as others see it, and whether it is kept."""
        trace_id = trace_id_of(identity)
        flags = TraceFlags.SAMPLED if self._is_kept(trace_id) else TraceFlags.DEFAULT
        return SpanContext(trace_id, first_span_of(identity), True, TraceFlags(flags))  # noqa: FBT003 - as the library has it

    def _is_kept(self, trace_id: int) -> bool:
        """Say what whoever tells the first span of a trace decides about it."""
        sampler = getattr(self._tracer(), "sampler", None)
        if sampler is None:
            return True
        return bool(sampler.should_sample(Context(), trace_id, SCOPE).decision.is_sampled())

    def _tracer(self) -> Tracer:
        provider = self._given or trace.get_tracer_provider()
        if self._known is None or self._known[0] is not provider:
            tracer = provider.get_tracer(SCOPE, version(SCOPE))
            usual = getattr(tracer, "id_generator", None)
            if usual is not None and not isinstance(usual, _Ids):
                # Of our own scope alone; a provider that has none gets spans below ours.
                tracer.id_generator = _Ids(usual)  # type: ignore[attr-defined]
            self._known = provider, tracer
        return self._known[1]


class OtelAttempt:
    """The span of one attempt, and those of its effects."""

    def __init__(self, span: Span, tracer: Tracer) -> None:
        self._span = span
        self._tracer = tracer
        self._above = trace.set_span_in_context(span, Context())
        self._effects: dict[str, Span] = {}
        self._lock = threading.Lock()
        self._is_over = False

    def current(self) -> AbstractContextManager[object]:
        """Make it the current span of whatever is called within."""
        return _used(self._span)

    def carrier(self) -> dict[str, str]:
        """Return how others are told of it."""
        words: dict[str, str] = {}
        with suppress(Exception):
            _WORDS.inject(words, self._above)
        return words

    def began(self) -> None:
        """Note that the code has begun."""
        with suppress(Exception):
            self._span.add_event("began")

    def begin_effect(self, key: str) -> None:
        """Begin the span of an effect."""
        with suppress(Exception):
            span = self._tracer.start_span(EFFECT, self._above, attributes={"duly.effect.key": key})
            with self._lock:
                if not self._is_over and len(self._effects) < EFFECTS_OPEN_MAX:
                    self._effects[key] = span

    def in_effect(self, key: str) -> AbstractContextManager[object]:
        """Make an effect's span the current one of whatever is called within."""
        with self._lock:
            span = self._effects.get(key)
        return nullcontext() if span is None else _used(span)

    def end_effect(self, key: str, *, is_done: bool) -> None:
        """End an effect's span."""
        with self._lock:
            span = self._effects.pop(key, None)
        if span is not None:
            _end(span, {"duly.effect.state": "done" if is_done else "not-done"})

    @contextmanager
    def checkpoint(self, partition: str) -> Iterator[None]:
        """Have a span for as long as a checkpoint is being stored."""
        with ExitStack() as stack:
            with suppress(Exception):
                attributes = {"duly.checkpoint.partition": partition}
                span = self._tracer.start_span(CHECKPOINT, self._above, attributes=attributes)
                stack.callback(_end, span, {})
            yield

    def end(self, attributes: Attributes, error: str | None = None) -> None:
        """End it, and what is open below it."""
        with self._lock:
            self._is_over, is_over = True, self._is_over
            left, self._effects = self._effects, {}
        if is_over:
            return
        for span in left.values():
            # Nobody has said whether it took place.
            _end(span, {"duly.effect.state": "open"})
        with suppress(Exception):
            if error is not None:
                self._span.add_event("exception", {"exception.stacktrace": error})
                last = error.strip().rpartition("\n")[2][:DESCRIPTION_LENGTH_MAX]
                self._span.set_status(Status(StatusCode.ERROR, last))
        _end(self._span, attributes)


class _Promised:
    """An order's span, and the first spans of what it promises."""

    def __init__(self, tracing: OtelTracing, span: Span) -> None:
        self._tracing = tracing
        self._span = span

    def tell(self, spans: Sequence[SpanFacts], count: int) -> None:
        """Say what was promised."""
        with suppress(Exception):
            order = self._span.get_span_context()
            back = [Link(order)] if order.is_valid else []
            # What was promised may be under way by now: it began with the order, and not behind it.
            begun = getattr(self._span, "start_time", None)
            for facts in spans:
                first = self._tracing._begin(facts, begun, back)  # noqa: SLF001 - its own other half
                first.end()
                self._span.add_link(first.get_span_context())
            about = spans[0].attributes if len(spans) == 1 >= count else {}
            promised = {"duly.promised": count} if count else {}
            self._span.set_attributes({**about, **promised})


class _Ids:
    """Gives ids for spans: those that are computed, where somebody says so, else the usual ones."""

    def __init__(self, usual: Any) -> None:  # noqa: ANN401 - a generator of the SDK, whichever
        self._usual = usual
        self._given = threading.local()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as above
        return getattr(self._usual, name)

    @contextmanager
    def given(self, trace_id: int, span_id: int) -> Iterator[None]:
        """Give these ids to what this thread begins within."""
        self._given.ids = trace_id, span_id
        try:
            yield
        finally:
            del self._given.ids

    def generate_trace_id(self) -> int:
        """Return the id of a new trace."""
        ids = getattr(self._given, "ids", None)
        return int(self._usual.generate_trace_id()) if ids is None else int(ids[0])

    def generate_span_id(self) -> int:
        """Return the id of a new span."""
        ids = getattr(self._given, "ids", None)
        return int(self._usual.generate_span_id()) if ids is None else int(ids[1])


def passed_on(carrier: Mapping[str, str]) -> OtelAttempt | None:
    """Return an attempt's span as it was passed on to another process; None for what is none."""
    context = _WORDS.extract(carrier, Context())
    span = trace.get_current_span(context)
    if not span.get_span_context().is_valid:
        return None
    return OtelAttempt(span, trace.NoOpTracer())


def heard_from(carrier: Mapping[str, str]) -> AbstractContextManager[object]:
    """Make the span that a caller tells of the current one of whatever is called within."""
    found = passed_on(carrier)
    return nullcontext() if found is None else found.current()


def _used(span: Span) -> AbstractContextManager[object]:
    return trace.use_span(
        span, end_on_exit=False, record_exception=False, set_status_on_exception=False
    )


def _end(span: Span, attributes: Attributes) -> None:
    with suppress(Exception):
        span.set_attributes(dict(attributes))
        span.end()
