"""How a server is told of the span in which a program asks it, if the program has any (V2)."""

from __future__ import annotations

import sys
from contextlib import suppress

_LIBRARY = "opentelemetry.trace"
"""Whoever has a span has loaded this; nobody else need."""


def trace_headers() -> dict[str, str]:
    """Return `traceparent`, and `tracestate` if there is one; nothing outside of any span."""
    words: dict[str, str] = {}
    if _LIBRARY in sys.modules:
        with suppress(Exception):  # no request fails because nobody can be told of its trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

            TraceContextTextMapPropagator().inject(words)
    return words
