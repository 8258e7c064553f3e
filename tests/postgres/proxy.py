"""A proxy between a client and PostgreSQL that does to connections what networks do.

In this process (`Proxy`), or as one of its own (`ProxyProcess`, which runs this module and sends it a
line for each order). Connections are carried unencrypted, so that a statement can be recognised.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import urlsplit

from tests.postgres.server_folder import free_ports
from tests.postgres.wire import READY, Asking, Frames

if TYPE_CHECKING:
    from collections.abc import Callable

Then = Literal["cut", "reset", "hang"]

CHUNK_BYTES = 65_536
LIMIT_SECONDS = 120.0
ROOT = Path(__file__).resolve().parents[2]


@dataclass(slots=True)
class Faults:
    """What is being done to every connection."""

    refuse: bool = False
    swallow: bool = False
    to_server_seconds: float = 0.0
    to_client_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Drop:
    """A statement or its answer is to be lost, once."""

    side: Literal["request", "reply"]
    matching: bytes
    then: Then


class Proxy:
    """Listens on loopback and carries each connection to the target, with the faults of the hour."""

    def __init__(self, target_url: str) -> None:
        target = urlsplit(target_url)
        self.target = (target.hostname or "127.0.0.1", target.port or 5432)
        self.faults = Faults()
        self.moving = threading.Event()
        self.moving.set()
        self.dropped = 0
        self._drop: Drop | None = None
        self._changed = threading.Condition()
        self._links: set[Link] = set()
        self._listener = listen()
        self.port = int(self._listener.getsockname()[1])
        account = target.netloc.rpartition("@")[0] or "postgres"
        self.url = target._replace(netloc=f"{account}@127.0.0.1:{self.port}").geturl()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def connections(self) -> int:
        """How many connections are being carried."""
        with self._changed:
            return len(self._links)

    def cut(self) -> None:
        """Close every connection now."""
        self._close_all("cut")

    def reset(self) -> None:
        """Close every connection with a reset, as a machine that knows nothing of it answers."""
        self._close_all("reset")

    def refuse(self) -> None:
        """Reset every new connection; those that are there stay."""
        self.faults.refuse = True

    def accept(self) -> None:
        """Let new connections through again."""
        self.faults.refuse = False

    def delay(self, to_server_ms: float = 0, to_client_ms: float = 0) -> None:
        """Let what is said arrive later from now on, in each direction."""
        self.faults.to_server_seconds = to_server_ms / 1000
        self.faults.to_client_seconds = to_client_ms / 1000

    def swallow(self) -> None:
        """Throw away everything that is said, on old and new connections: nobody notices."""
        self.faults.swallow = True
        self.moving.set()

    def hold(self) -> None:
        """Keep what is said until this is healed: it arrives late, when nobody expects it."""
        self.moving.clear()

    def heal(self) -> None:
        """End every fault; a connection that lost something is cut."""
        self.faults = Faults()
        with self._changed:
            self._drop = None
            lossy = [link for link in self._links if link.has_lost]
        for link in lossy:
            link.close("cut")
        self.moving.set()

    def drop_reply(self, matching: bytes = b"", then: Then = "cut") -> None:
        """Let the next statement with this text be executed, and lose all of its answer."""
        self._arm(Drop("reply", matching, then))

    def drop_request(self, matching: bytes = b"", then: Then = "cut") -> None:
        """Lose the next statement with this text: the server never hears of it."""
        self._arm(Drop("request", matching, then))

    def wait_dropped(self, limit: float = LIMIT_SECONDS) -> bool:
        """Wait until what was to be lost is lost; tell whether it was."""
        with self._changed:
            return self._changed.wait_for(lambda: self._drop is None and self.dropped > 0, limit)

    def close(self) -> None:
        """Close every connection and listen no more."""
        # To wake up whoever waits in accept(), which closing does not.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(LIMIT_SECONDS)
        self.moving.set()
        self._close_all("cut")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take_drop(self, text: bytes) -> Drop | None:
        """Return what is to be lost if this statement is the one; nobody else will be told."""
        with self._changed:
            drop = self._drop
            if drop is None or drop.matching not in text:
                return None
            self._drop = None
            return drop

    def note_dropped(self) -> None:
        """Tell whoever waits that something was lost."""
        with self._changed:
            self.dropped += 1
            self._changed.notify_all()

    def forget(self, link: Link) -> None:
        """A connection has ended."""
        with self._changed:
            self._links.discard(link)

    def _arm(self, drop: Drop) -> None:
        with self._changed:
            self._drop = drop
            self.dropped = 0

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.faults.refuse:
                hang_up(client, "reset")
                continue
            try:
                server = socket.create_connection(self.target, LIMIT_SECONDS)
            except OSError:
                hang_up(client, "reset")
                continue
            server.settimeout(None)
            for end in (client, server):
                # Messages are passed on one by one: none waits until the one before is confirmed.
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = Link(self, client, server)
            with self._changed:
                self._links.add(link)
            link.start()

    def _close_all(self, then: Then) -> None:
        with self._changed:
            links = list(self._links)
        for link in links:
            link.close(then)


class Link:
    """One connection that is carried: two sockets, and a thread for each direction."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self.proxy = proxy
        self.client = client
        self.server = server
        self.closed = threading.Event()
        self.has_lost = False
        self._lock = threading.Lock()
        self._asking = Asking()
        self._answers = Frames(is_starting=False)
        self._answered = 0
        self._drop: Drop | None = None
        self._drop_group = -1

    def start(self) -> None:
        """Carry on until one side ends."""
        for carry in (self._carry_to_server, self._carry_to_client):
            threading.Thread(target=carry, daemon=True).start()

    def close(self, then: Then) -> None:
        """End both sides: in good order, or as if one had crashed."""
        with self._lock:
            if self.closed.is_set():
                return
            self.closed.set()
        for end in (self.client, self.server):
            hang_up(end, then)
        self.proxy.forget(self)

    def _carry_to_server(self) -> None:
        self._carry(self.client, self._asked, lambda: self.proxy.faults.to_server_seconds)

    def _carry_to_client(self) -> None:
        self._carry(self.server, self._answer, lambda: self.proxy.faults.to_client_seconds)

    def _carry(
        self,
        source: socket.socket,
        pass_on: Callable[[bytes], None],
        delay: Callable[[], float],
    ) -> None:
        try:
            while received := source.recv(CHUNK_BYTES):
                self.closed.wait(delay())
                self.proxy.moving.wait()
                if self.proxy.faults.swallow:
                    self.has_lost = True
                elif not self.has_lost:
                    pass_on(received)
        except OSError:
            # The other direction has closed, or a side has gone: there is nothing to carry.
            pass
        finally:
            self.close("cut")

    def _asked(self, received: bytes) -> None:
        for message, text in self._asking.feed(received):
            if text is not None and self._drop is None:
                self._drop = self.proxy.take_drop(text)
                self._drop_group = self._asking.groups if self._drop else -1
            if self._drop is not None and self._drop.side == "request":
                self._lose(self._drop)
                return
            self.server.sendall(message)

    def _answer(self, received: bytes) -> None:
        if self._asking.is_refused_encryption_due:
            assert received[:1] == b"N", "the proxy reads along, so the server must not encrypt"
            self._asking.is_refused_encryption_due = False
            self.client.sendall(received[:1])
            received = received[1:]
        for letter, message in self._answers.feed(received):
            is_lost = self._answered == self._drop_group
            self._answered += letter == READY
            if not is_lost:
                self.client.sendall(message)
            elif letter == READY and self._drop is not None:
                self._lose(self._drop)
                return

    def _lose(self, drop: Drop) -> None:
        self.has_lost = True
        if drop.then != "hang":
            self.close(drop.then)
        self.proxy.note_dropped()


class ProxyProcess:
    """A proxy in a process of its own, with the same orders."""

    def __init__(self, target_url: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.postgres.proxy", target_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            start_new_session=True,
        )
        self.url = str(self._answer())
        self.port = urlsplit(self.url).port or 0

    @property
    def connections(self) -> int:
        """How many connections are being carried."""
        return int(self._order("connections"))

    @property
    def dropped(self) -> int:
        """How many statements or answers were lost."""
        return int(self._order("dropped"))

    def cut(self) -> None:
        """Close every connection now."""
        self._order("cut")

    def reset(self) -> None:
        """Close every connection with a reset."""
        self._order("reset")

    def refuse(self) -> None:
        """Reset every new connection."""
        self._order("refuse")

    def accept(self) -> None:
        """Let new connections through again."""
        self._order("accept")

    def delay(self, to_server_ms: float = 0, to_client_ms: float = 0) -> None:
        """Let what is said arrive later."""
        self._order("delay", to_server_ms, to_client_ms)

    def swallow(self) -> None:
        """Throw away everything that is said."""
        self._order("swallow")

    def hold(self) -> None:
        """Keep what is said until this is healed."""
        self._order("hold")

    def heal(self) -> None:
        """End every fault."""
        self._order("heal")

    def drop_reply(self, matching: bytes = b"", then: Then = "cut") -> None:
        """Lose the answer to the next statement with this text."""
        self._order("drop_reply", matching.decode(), then)

    def drop_request(self, matching: bytes = b"", then: Then = "cut") -> None:
        """Lose the next statement with this text."""
        self._order("drop_request", matching.decode(), then)

    def wait_dropped(self, limit: float = LIMIT_SECONDS) -> bool:
        """Wait until what was to be lost is lost."""
        return bool(self._order("wait_dropped", limit))

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _order(self, *words: object) -> Any:
        assert self._process.stdin is not None, "piped"
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None, "piped"
        return json.loads(self._process.stdout.readline())


def listen() -> socket.socket:
    """Return a socket that listens on loopback."""
    for port in free_ports():
        # Another process may have been faster with this port.
        with suppress(OSError):
            return socket.create_server(("127.0.0.1", port))
    raise AssertionError("no port is free")


def hang_up(end: socket.socket, then: Then) -> None:
    """Close a socket: the other side is told in good order, or by a reset."""
    with suppress(OSError):
        if then == "reset":
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # Closing does not wake up a thread that reads, and would wait for it; this does. Before a
        # reset the other side must hear nothing.
        end.shutdown(socket.SHUT_RD if then == "reset" else socket.SHUT_RDWR)
    end.close()


def main(target_url: str) -> None:
    """Carry connections and take orders, a line of JSON each, until there are no more."""
    with Proxy(target_url) as proxy:
        tell(proxy.url)
        for line in sys.stdin:
            name, *arguments = json.loads(line)
            if name in {"drop_reply", "drop_request"}:
                arguments[0] = arguments[0].encode()
            order = getattr(proxy, name)
            tell(order(*arguments) if callable(order) else order)


def tell(answer: object) -> None:
    """Write an answer for whoever gave the order."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
