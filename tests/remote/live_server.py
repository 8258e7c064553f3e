"""A server of the API that listens, and a way to it on which replies are lost."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

import uvicorn

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def listening(api: Any) -> Iterator[str]:
    """Have an API listen on loopback; lend its URL."""
    own = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(api, log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [own]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{own.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(120)
        own.close()


class Lossy:
    """A way to a server: what it answers may be lost after it was done."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self._there = (host, int(port))
        self._own = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._own.getsockname()[1]}"
        self.losses = 0
        """How many of the next replies are lost."""
        self.lost: list[bytes] = []
        self.asked: list[bytes] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._own.close()

    def keys(self) -> set[bytes]:
        """Return the Idempotency-Keys that were sent."""
        lines = b"".join(self.asked).split(b"\r\n")
        return {one for one in lines if one.lower().startswith(b"idempotency-key")}

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._own.accept()
                far = socket.create_connection(self._there)
                threading.Thread(target=self._carry, args=(near, far), daemon=True).start()
                threading.Thread(target=self._carry_back, args=(far, near), daemon=True).start()

    def _carry(self, near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError), near, far:
            while part := near.recv(1 << 16):
                self.asked.append(part)
                far.sendall(part)

    def _carry_back(self, far: socket.socket, near: socket.socket) -> None:
        with suppress(OSError), near, far:
            while part := far.recv(1 << 16):
                if self.losses:
                    self.losses -= 1
                    self.lost.append(part)
                    near.shutdown(socket.SHUT_RDWR)
                    return
                near.sendall(part)
