"""Switching traces on: by an option, a setting, or OpenTelemetry's own variables; else none are.

A program that has set up a provider itself keeps it: spans go there. Where none is, one is made as
the variables say (OTEL_TRACES_EXPORTER, OTEL_EXPORTER_OTLP_*, OTEL_TRACES_SAMPLER, OTEL_BSP_*).
It has a bounded queue and a thread that empties it; what does not fit is dropped, never waited for.
"""

from __future__ import annotations

import atexit
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opentelemetry.sdk.trace import TracerProvider

    from duly.app.application import App
    from duly.config import Settings
    from duly.telemetry.otel import OtelTracing

EXPORTER_VARIABLE = "OTEL_TRACES_EXPORTER"
DISABLED_VARIABLE = "OTEL_SDK_DISABLED"
EXPORTS_VARIABLE = "DULY_EXPORTS_TRACES"
"""Tells processes of tasks that whoever started them exports spans as the variables say."""
FLUSH_SECONDS_MAX = 4.0
"""How long a process that ends waits for its last spans to be taken."""
TASK_FLUSH_SECONDS_MAX = 1.0
"""The same of a task's own process: its slot waits for it."""
_PROTOCOLS = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
_PROTOCOL_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_GROUP = "opentelemetry_traces_exporter"
_NO_TRACES = frozenset({"", "none"})
_REMEDY = "pip install 'duly[otel]'"


def are_traces_wanted(settings: Settings, environ: Mapping[str, str] = os.environ) -> bool:
    """Say whether a program's settings or OpenTelemetry's own variables ask for traces."""
    return settings.traces or environ.get(EXPORTER_VARIABLE, "").strip() not in _NO_TRACES


def begin_tracing(role: str, app: App, *, is_asked: bool = False) -> None:
    """Tell spans of an application in this process, if anybody has asked for them."""
    is_disabled = os.environ.get(DISABLED_VARIABLE, "").strip().lower() == "true"
    if is_disabled or not (is_asked or are_traces_wanted(app.settings)):
        app.traces.tracing = None
        return
    app.traces.tracing = client_tracing()
    if not _has_provider():
        provider = _new_provider(f"duly-{role}", _exporter_names(os.environ))
        _use(provider, FLUSH_SECONDS_MAX)
        os.environ[EXPORTS_VARIABLE] = "1"


def client_tracing() -> OtelTracing:
    """Return who is told of spans: the program's provider, whenever it is set."""
    try:
        from duly.telemetry.otel import OtelTracing
    except ImportError as error:
        raise UsageError("traces", "OpenTelemetry", "is not installed", _REMEDY) from error
    return OtelTracing()


def export_as_worker() -> None:
    """Export spans of a task's own process, if its worker does and its program has no other way."""
    names = [name for name in _exporter_names(os.environ) if name != "console"]
    if not os.environ.get(EXPORTS_VARIABLE) or not names or _has_provider():
        return  # to a console of its own nobody would look
    _use(_new_provider("duly-task", names), TASK_FLUSH_SECONDS_MAX)


def _has_provider() -> bool:
    from opentelemetry import trace

    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def _new_provider(service: str, names: Iterable[str]) -> TracerProvider:
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        problem = "has no SDK here, and the program has set up no provider"
        raise UsageError("traces", "OpenTelemetry", problem, _REMEDY) from error
    is_named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    resource = Resource.create({} if is_named else {"service.name": service})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    for name in names:
        provider.add_span_processor(BatchSpanProcessor(_exporter(name)()))
    return provider


def _use(provider: TracerProvider, seconds_max: float) -> None:
    from opentelemetry import trace

    trace.set_tracer_provider(provider)
    atexit.register(_flush, provider, seconds_max)


def _flush(provider: TracerProvider, seconds_max: float) -> None:
    """Hand over the last spans. Whoever takes them may be gone: no process waits long for that."""

    def shut_down() -> None:
        with suppress(Exception):
            provider.shutdown()

    thread = threading.Thread(target=shut_down, name="duly-spans", daemon=True)
    thread.start()
    thread.join(seconds_max)


def _exporter_names(environ: Mapping[str, str]) -> list[str]:
    said = environ.get(EXPORTER_VARIABLE, "").strip()
    names = [one.strip() for one in ("otlp" if said in _NO_TRACES else said).split(",")]
    return [name for name in names if name]


def _exporter(name: str) -> Any:  # noqa: ANN401 - a class of the package that was found
    """Return an exporter by its name, as OpenTelemetry's packages offer them."""
    from importlib.metadata import entry_points

    found = name
    if name == "otlp":
        said = next(filter(None, map(os.environ.get, _PROTOCOL_VARIABLES)), "http/protobuf")
        found = _PROTOCOLS.get(said, said)
    for offered in entry_points(group=_GROUP, name=found):
        return offered.load()
    known = ", ".join(sorted({"otlp", *(one.name for one in entry_points(group=_GROUP))}))
    remedy = f"use one of {known}, or install its package; for otlp: {_REMEDY}"
    raise UsageError(EXPORTER_VARIABLE, name, "is not an exporter that is installed", remedy)
