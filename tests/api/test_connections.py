"""Which connections a server ends when there are too many: silent ones, longest silent first."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack
from typing import Any

import pytest

from duly.api.connections import ConnectionGuard, ConnectionLimits

HERE, THERE = "127.0.0.1", "127.0.0.2"


class Door:
    """A listening socket, clients that connect to it, and the guard of its port."""

    def __init__(self, stack: ExitStack, total: int = 100, of_one: int = 100) -> None:
        self._stack = stack
        self._own = stack.enter_context(socket.create_server((HERE, 0)))
        self.port: int = self._own.getsockname()[1]
        limits = ConnectionLimits(total=total, of_one=of_one, is_shared=lambda one: one == THERE)
        self.guard = ConnectionGuard(self._application, self.port, limits)
        self.clients: list[socket.socket] = []
        self._accepted: list[socket.socket] = []
        self._carry_out: Any = None

    def connect(self, count: int, address: str = HERE) -> None:
        for _ in range(count):
            client = socket.create_connection((HERE, self.port), source_address=(address, 0))
            client.setblocking(False)
            self.clients.append(self._stack.enter_context(client))
            accepted = self._stack.enter_context(self._own.accept()[0])
            accepted.setblocking(False)
            self._accepted.append(accepted)

    def end_silent(self) -> int:
        """Let the guard do one pass, and close what it has ended, as a server does."""
        count = self.guard.end_silent()
        for one in self._accepted:
            if one.fileno() >= 0 and _is_ended(one):
                one.close()
        return count

    def ended(self) -> list[int]:
        """Return which clients see that the server has hung up."""
        return [number for number, one in enumerate(self.clients) if _is_ended(one)]

    def ask(self, number: int, carry_out: Any, *parts: dict[str, Any]) -> None:
        """Send a request over a connection; while it is carried out, do something."""
        said = iter(parts or ({"type": "http.request", "more_body": False},))
        address, port = self.clients[number].getsockname()
        self._carry_out = carry_out

        async def receive() -> dict[str, Any]:
            message = next(said)
            message.get("while_waiting", nothing)()
            return message

        scope = {"type": "http", "client": (address, str(port))}  # as granian tells it
        nowhere: Any = None  # nothing is sent
        asyncio.run(self.guard(scope, receive, nowhere))

    async def _application(self, _scope: Any, receive: Any, _send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        self._carry_out()


def _is_ended(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False


@pytest.fixture
def stack():
    with ExitStack() as stack:
        yield stack


def nothing() -> None:
    """Carry nothing out."""


def test_the_longest_silent_connections_of_an_address_are_ended(stack):
    """Not by the pass that sees them first: a request may be on its way."""
    door = Door(stack, of_one=3)
    door.connect(4)
    passes = [door.end_silent()]
    door.connect(2)
    passes += [door.end_silent(), door.end_silent()]

    assert [0, 3, 0] == passes
    assert 3 == len(door.ended())
    assert not {4, 5}.intersection(door.ended())


def test_a_connection_that_has_just_asked_is_the_last_to_be_ended(stack):
    door = Door(stack, of_one=1)
    door.connect(4)
    door.end_silent()
    door.ask(0, nothing)
    door.end_silent()

    assert [1, 2, 3] == door.ended()


def test_a_connection_whose_request_is_carried_out_is_not_ended(stack):
    door = Door(stack, of_one=1)
    door.connect(3)
    door.end_silent()
    door.ask(1, door.end_silent)

    assert [0, 2] == door.ended()


def test_a_connection_whose_body_does_not_come_is_silent(stack):
    door = Door(stack, of_one=1)
    door.connect(2)
    door.end_silent()
    begun = {"type": "http.request", "more_body": True}
    rest = {"type": "http.request", "while_waiting": door.end_silent}
    door.ask(1, nothing, begun, rest)
    door.connect(1)
    door.ask(1, nothing, begun, rest)

    assert [0, 1] == door.ended()


def test_a_trusted_proxy_stands_for_many(stack):
    door = Door(stack, of_one=2)
    door.connect(5, THERE)
    door.connect(3)
    ended = [door.end_silent() for _ in range(3)]

    assert ([0, 1, 0], 1) == (ended, len(door.ended()))
    assert not set(range(5)).intersection(door.ended())


def test_all_together_are_bounded_wherever_they_come_from(stack):
    door = Door(stack, total=6, of_one=5)
    door.connect(5, THERE)
    door.connect(3)
    ended = [door.end_silent() for _ in range(3)]

    assert ([0, 2, 0], 2) == (ended, len(door.ended()))


def test_other_sockets_of_the_process_are_left_alone(stack):
    door, other = Door(stack, of_one=1), Door(stack, of_one=1)
    door.connect(1)
    other.connect(5)
    pair = [stack.enter_context(one) for one in socket.socketpair()]
    pair[0].setblocking(False)
    ended = [door.end_silent() for _ in range(3)]

    assert ([0] * 3, [], False) == (ended, other.ended(), _is_ended(pair[0]))
