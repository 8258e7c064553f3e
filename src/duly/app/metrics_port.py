"""A port on which a dispatcher or worker tells its own numbers, to this machine alone (V2, L1).

Whoever collects them runs here as well, or has an agent here. There is nothing to order and nothing
of anybody's work but the names of tasks, so it asks for no token; and it can't be opened to others.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer
from typing import TYPE_CHECKING

from duly.errors import UsageError
from duly.telemetry.exposition import MEDIA_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duly.telemetry.exposition import Measured

    Tell = Callable[[str, dict[str, object]], None]

HOST = "127.0.0.1"
PATH = "/metrics"
PORT_MAX = 65_535
SECONDS_MAX = 5.0
"""How long one who asks may take: they are answered one after the other."""
STOP_SECONDS_MAX = 1.0
POLL_SECONDS = 0.1
_NAMES = frozenset({HOST, "localhost"})


@contextmanager
def telling_metrics(
    port: int | None, measure: Callable[[], Measured], tell: Tell
) -> Iterator[None]:
    """Answer on a port with what is measured whenever somebody asks; nothing without a port.

    `tell` gets the address, which is the only way to know it where any free port will do.
    """
    if port is None:
        yield
        return
    server = _listen(port, measure)
    # Whoever is to stop does not wait for one who asks and dawdles: hence daemons.
    thread = threading.Thread(
        target=server.serve_forever, args=(POLL_SECONDS,), name="duly-metrics", daemon=True
    )
    thread.start()
    url = f"http://{HOST}:{server.server_address[1]}{PATH}"
    tell(f"metrics at {url}", {"event": "metrics", "url": url})
    try:
        yield
    finally:
        threading.Thread(target=server.shutdown, daemon=True).start()
        thread.join(STOP_SECONDS_MAX)
        server.server_close()


def _listen(port: int, measure: Callable[[], Measured]) -> _Server:
    if not 0 <= port <= PORT_MAX:
        remedy = f"give 1 to {PORT_MAX}, or 0 for any free port"
        raise UsageError("metrics-port", port, "is not a port", remedy)
    try:
        return _Server((HOST, port), measure)
    except OSError as error:
        problem = f"can't be listened on ({error.strerror})"
        raise UsageError("metrics-port", port, problem, "choose another") from error


class _Server(TCPServer):
    allow_reuse_address = True

    def __init__(self, place: tuple[str, int], measure: Callable[[], Measured]) -> None:
        self.measure = measure
        super().__init__(place, _Teller)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: whoever asked has gone."""


class _Teller(BaseHTTPRequestHandler):
    timeout = SECONDS_MAX
    server_version = "duly"
    sys_version = ""

    def do_GET(self) -> None:
        # A page elsewhere whose name was made to point here asks for another name than ours.
        if self.headers.get("Host", "").rpartition(":")[0] not in _NAMES:
            self.send_error(421)
        elif self.path != PATH:
            self.send_error(404)
        else:
            assert isinstance(self.server, _Server), "nobody else has it answer"
            body = self.server.measure().text().encode()
            self.send_response(200)
            self.send_header("Content-Type", MEDIA_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own name
        """Say nothing: a process tells events, not who looked at it."""
