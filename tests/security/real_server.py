"""A real server on a port of this machine, and clients that speak bytes to it."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from duly.api.server import BindAddress, Server

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duly
    from duly.api.middleware import ApiSettings

LIMIT_SECONDS = 120
HOST = "127.0.0.1"


class Speaker:
    """Opens connections to a server, in the name of somebody."""

    def __init__(self, port: int, token: str) -> None:
        self.port = port
        self._token = token

    @contextmanager
    def connected(self, *said: bytes) -> Iterator[socket.socket]:
        """Yield a connection, over which something was said."""
        with socket.create_connection((HOST, self.port), timeout=LIMIT_SECONDS) as line:
            for one in said:
                line.sendall(one)
            yield line

    def request(self, path: str, *headers: str, method: str = "GET") -> bytes:
        """Return a request of ours."""
        said = (f"{method} {path} HTTP/1.1", "Host: localhost", *headers)
        return "\r\n".join((*said, f"Authorization: Bearer {self._token}", "", "")).encode()

    def status(self, path: str = "/api/v1/status", *headers: str) -> int:
        """Ask as a well-behaved client would; return the answer's status."""
        with self.connected(self.request(path, *headers)) as line:
            return status_of(line)


def status_of(line: socket.socket) -> int:
    """Read the first line of an answer."""
    return int(line.recv(1 << 16).split(b" ", 2)[1])


@contextmanager
def served(app: duly.App, settings: ApiSettings) -> Iterator[Speaker]:
    """Serve an application until the test is over."""
    token = app.tokens.create("anna", role="admin", tenant="*").text
    serving, ready = Server(app, BindAddress(port=0), settings), threading.Event()
    thread = threading.Thread(target=serving.run, args=(ready.set,), daemon=True)
    thread.start()
    assert ready.wait(LIMIT_SECONDS)
    try:
        yield Speaker(int(serving.url.rpartition(":")[2]), token)
    finally:
        serving.stop()
        thread.join(LIMIT_SECONDS)
