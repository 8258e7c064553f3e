"""Whoever collects spans: a server on loopback that reads what OpenTelemetry sends, or is silent."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from collections.abc import Iterator


class Collector(ThreadingHTTPServer):
    """Keeps spans as (service, name, trace id)."""

    daemon_threads = True

    def __init__(self) -> None:
        self.spans: list[tuple[str, str, str]] = []
        super().__init__(("127.0.0.1", 0), _Reader)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def names(self, trace_id: str) -> set[tuple[str, str]]:
        return {(service, name) for service, name, trace in list(self.spans) if trace == trace_id}


class _Reader(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Collector)
        request = ExportTraceServiceRequest()
        request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
        for group in request.resource_spans:
            service = next(
                one.value.string_value
                for one in group.resource.attributes
                if one.key == "service.name"
            )
            for scope in group.scope_spans:
                for span in scope.spans:
                    self.server.spans.append((service, span.name, span.trace_id.hex()))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its own name
        """Say nothing."""


@contextmanager
def collecting() -> Iterator[Collector]:
    with Collector() as collector:
        thread = threading.Thread(target=collector.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield collector
        finally:
            collector.shutdown()
            thread.join()


@contextmanager
def silence() -> Iterator[str]:
    """Lend the URL of somebody who takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
