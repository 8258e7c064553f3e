"""Bounds the connections of a server, of one address and in all, by ending the longest silent ones.

The server's library accepts up to a number of connections, lets each be silent for ten seconds, and
counts none by address. A client that opens and keeps that many needs no token to stop the server.

`ConnectionGuard` wraps the application, so it knows which connections carry a request. A connection
is silent when it carries none, or when the server waits for the body of one: a handshake that does
not end, headers that do not come, an idle keep-alive connection, a body that drips. Ten times a
second the guard counts the sockets of the server's port. Where one address or all together have too
many, it ends the silent ones, longest silent first. It shuts a duplicate of the descriptor down, so
that the library sees a client that has hung up, and nothing else of the process can be hit.

A new connection is silent, too, until its request has been read. It is never ended by the pass that
sees it first, so a client has a tenth of a second to speak, however many others connect.
"""

from __future__ import annotations

import os
import socket
import stat
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    Peer = tuple[str, int]

DESCRIPTORS = "/dev/fd"
"""Lists the open descriptors of this process, on Linux, macOS and the BSDs."""
PASS_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """How many connections may be open before the silent ones among them are ended."""

    total: int
    of_one: int
    """Of one address."""
    is_shared: Callable[[str], bool]
    """Whether an address is a trusted proxy's, which stands for many clients."""


class ConnectionGuard:
    """An application, and the bounds of the connections over which it is asked."""

    def __init__(self, application: ASGIApp, port: int, limits: ConnectionLimits) -> None:
        self._application = application
        self._port = port
        self._limits = limits
        self._serving: Counter[Peer] = Counter()
        """Requests that are carried out, by connection. HTTP/1.1 has at most one at a time."""
        self._silent: dict[Peer, None] = {}
        """Connections that were silent when last counted, the longest silent first."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Carry out a request; its connection is not silent, but while its body is waited for."""
        client = scope.get("client")
        if client is None:
            await self._application(scope, receive, send)
            return
        peer: Peer = (client[0], int(client[1]))  # granian tells the port as text
        is_complete = False

        async def heard() -> Message:
            nonlocal is_complete
            if is_complete:  # it waits for the client to hang up, as streams do
                return await receive()
            self._leave(peer)
            try:
                message = await receive()
            finally:
                self._enter(peer)
            is_complete = not message.get("more_body", False)
            return message

        self._enter(peer)
        try:
            await self._application(scope, heard, send)
        finally:
            self._leave(peer)

    def end_silent(self) -> int:
        """Count the connections, end silent ones where there are too many; return how many."""
        fewest = min(self._limits.of_one, self._limits.total)
        if len(_descriptors()) <= fewest:
            self._silent.clear()
            return 0
        open_now = dict(self._open())
        victims = self._too_many(open_now)
        for peer in victims:
            _hang_up(open_now[peer], peer)
        known = [peer for peer in self._silent if peer in open_now]
        self._silent = dict.fromkeys(
            peer for peer in (*known, *open_now) if not self._serving[peer]
        )
        return len(victims)

    def _too_many(self, open_now: dict[Peer, int]) -> list[Peer]:
        """Return the connections to end: those that are too many of an address, then of all."""
        of_address = Counter(address for address, _ in open_now)
        shared = {one for one in of_address if self._limits.is_shared(one)}
        total, chosen, rest = len(open_now), [], []
        for peer in self._silent:
            address = peer[0]
            if peer not in open_now or self._serving[peer]:
                continue
            if address not in shared and of_address[address] > self._limits.of_one:
                of_address[address] -= 1
                chosen.append(peer)
            else:
                rest.append(peer)
        over = max(0, total - len(chosen) - self._limits.total)
        return chosen + rest[:over]

    def _open(self) -> Iterator[tuple[Peer, int]]:
        """Yield the open connections of the server's port, with their descriptors."""
        for number in _descriptors():
            with suppress(OSError), _duplicate(number) as own:
                peer = _peer(own)
                if own.getsockname()[1] == self._port:
                    yield peer, number

    def _enter(self, peer: Peer) -> None:
        self._serving[peer] += 1
        self._silent.pop(peer, None)

    def _leave(self, peer: Peer) -> None:
        self._serving[peer] -= 1
        if not self._serving[peer]:
            del self._serving[peer]
            self._silent[peer] = None  # silent from now on: the last to be ended


def _descriptors() -> list[int]:
    try:
        return [int(name) for name in os.listdir(DESCRIPTORS)]  # noqa: PTH208 - names alone
    except OSError:
        return []


def _duplicate(number: int) -> socket.socket:
    """Return the socket of a descriptor under another number, which is ours to use and close."""
    if not stat.S_ISSOCK(os.fstat(number).st_mode):
        raise OSError("is not a socket")
    own = os.dup(number)
    try:
        return socket.socket(fileno=own)
    except OSError:
        os.close(own)
        raise


def _peer(own: socket.socket) -> Peer:
    if own.family not in {socket.AF_INET, socket.AF_INET6}:
        raise OSError("is not a connection over TCP")
    name: Any = own.getpeername()
    return name[0], name[1]


def _hang_up(number: int, peer: Peer) -> None:
    """End a connection, if the descriptor is still its own."""
    with suppress(OSError), _duplicate(number) as own:
        if _peer(own) == peer:
            own.shutdown(socket.SHUT_RDWR)
