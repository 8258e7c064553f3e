"""Names that lead elsewhere when they are looked up again: looked up once, and pinned."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading

import pytest

from duly.domain.outbound_urls import read_allow_list, read_web_address
from duly.domain.outcomes import Failed
from duly.domain.runs import Reason
from duly.engine.executors.address_guard import AddressGuard, RefusedAddress

PUBLIC = "93.184.215.14"


class Turning:
    """A name that leads to one place first, and to another from then on."""

    def __init__(self, *answers):
        self.asked = 0
        self._answers = answers

    async def __call__(self, host, port):
        self.asked += 1
        return self._answers[min(self.asked, len(self._answers)) - 1]


@pytest.fixture
def connected(monkeypatch):
    """Where sockets were about to be connected to; the public network is not reached."""
    places = []

    async def connect(loop, sock, address):
        places.append(address[0])
        if address[0] == PUBLIC:
            raise ConnectionRefusedError("not from a test")
        return await reach(loop, sock, address)

    reach = asyncio.selector_events.BaseSelectorEventLoop.sock_connect
    monkeypatch.setattr(asyncio.selector_events.BaseSelectorEventLoop, "sock_connect", connect)
    return places


def test_a_name_that_turns_inside_after_it_was_checked_is_not_followed(receive, sender, connected):
    inside = receive()
    turning = Turning([PUBLIC], ["127.0.0.1"])
    sending = sender(f"rebinding.example:{inside.port}", lookup=turning)
    end = sending.send(f"http://rebinding.example:{inside.port}/")

    assert isinstance(end, Failed)
    assert (1, [PUBLIC], []) == (turning.asked, connected, inside.seen)


def test_a_name_that_turned_inside_is_refused_at_the_next_attempt(receive, sender, connected):
    inside = receive()
    turning = Turning([PUBLIC], ["127.0.0.1"])
    sending = sender(f"{PUBLIC}:{inside.port}", lookup=turning)
    url = f"http://rebinding.example:{inside.port}/"
    ends = [sending.send(url), sending.send(url)]

    assert [Reason.ERROR, Reason.REFUSED_ADDRESS] == [getattr(end, "reason", None) for end in ends]
    assert ([PUBLIC], []) == (connected, inside.seen)


def test_a_name_with_one_address_inside_is_refused_whole(receive, sender, connected):
    inside = receive()
    sending = sender(f"{PUBLIC}:{inside.port}", lookup=Turning([PUBLIC, "127.0.0.1"]))
    end = sending.send(f"http://rebinding.example:{inside.port}/")

    assert isinstance(end, Failed)
    assert (Reason.REFUSED_ADDRESS, [], []) == (end.reason, connected, inside.seen)


@pytest.mark.parametrize(
    ("address", "port"), [("127.0.0.1", 80), ("8.8.8.8", 80), (PUBLIC, 22), ("::1", 80)]
)
def test_a_socket_is_opened_for_a_checked_address_only(address, port):
    """Whatever an HTTP library makes of a URL, this is the last door."""
    url = read_web_address("url", "http://rebinding.example/")
    guard = AddressGuard(url, read_allow_list([]), Turning([PUBLIC]))
    asyncio.run(guard.resolve())
    family = socket.AF_INET6 if ":" in address else socket.AF_INET

    with pytest.raises(RefusedAddress):
        guard.open_socket((family, socket.SOCK_STREAM, 0, "", (address, port)))


def test_a_socket_is_opened_for_the_address_that_was_checked():
    url = read_web_address("url", "http://rebinding.example/")
    guard = AddressGuard(url, read_allow_list([]), Turning([PUBLIC]))
    asyncio.run(guard.resolve())

    with guard.open_socket((socket.AF_INET, socket.SOCK_STREAM, 6, "", (PUBLIC, 80))) as opened:
        assert opened.family == socket.AF_INET


def test_the_door_refuses_what_a_library_would_connect_to(receive, sender, monkeypatch):
    """Even when the pinned answers are replaced behind our back."""
    from duly.engine.executors import webhook_client

    inside = receive()

    async def lie(self, host, port=0, family=socket.AF_UNSPEC):
        found = {"hostname": host, "host": "127.0.0.1", "port": port}
        return [found | {"family": socket.AF_INET, "proto": 6, "flags": 0}]

    monkeypatch.setattr(webhook_client._Pinned, "resolve", lie)  # noqa: SLF001 - a faulty library
    sending = sender(f"{PUBLIC}:{inside.port}", lookup=Turning([PUBLIC]))
    end = sending.send(f"http://rebinding.example:{inside.port}/")

    assert isinstance(end, Failed)
    assert (Reason.REFUSED_ADDRESS, []) == (end.reason, inside.seen)


class NameServer:
    """A real name server, for one name of no lifetime that turns from outside to inside."""

    def __init__(self, *answers):
        self.asked = 0
        self._answers = answers
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.place = self._socket.getsockname()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while True:
            query, asker = self._socket.recvfrom(512)
            if query == b"over":
                return
            answer = self._answers[min(self.asked, len(self._answers) - 1)]
            self.asked += 1
            head = query[:2] + struct.pack(">HHHHH", 0x8180, 1, 1, 0, 0)
            record = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 0, 4) + socket.inet_aton(answer)
            self._socket.sendto(head + query[12:] + record, asker)

    async def look_up(self, host, port):
        return await asyncio.to_thread(self._ask, host)

    def _ask(self, host):
        labels = b"".join(bytes([len(one)]) + one.encode() for one in host.split("."))
        query = b"du" + struct.pack(">HHHHH", 0x0100, 1, 0, 0, 0) + labels + b"\0\0\1\0\1"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.settimeout(120)
            asking.sendto(query, self.place)
            answer = asking.recv(512)
        return [socket.inet_ntoa(answer[-4:])]

    def close(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.sendto(b"over", self.place)
        self._thread.join(120)
        self._socket.close()


def test_a_name_server_that_rebinds_gets_no_request_inside(receive, sender, closing, connected):
    inside = receive()
    names = NameServer(PUBLIC, "127.0.0.1")
    closing.callback(names.close)
    sending = sender(f"{PUBLIC}:{inside.port}", lookup=names.look_up)
    url = f"http://rebinding.example:{inside.port}/"
    ends = [sending.send(url) for _ in range(3)]

    assert [Reason.ERROR, Reason.REFUSED_ADDRESS, Reason.REFUSED_ADDRESS] == [
        getattr(end, "reason", None) for end in ends
    ]
    assert (3, [PUBLIC], []) == (names.asked, connected, inside.seen)


def test_the_systems_own_lookup_leads_loopback_names_to_a_refusal(receive, sender):
    inside = receive()
    end = sender().send(f"http://localhost:{inside.port}/")

    assert isinstance(end, Failed)
    assert (Reason.REFUSED_ADDRESS, []) == (end.reason, inside.seen)


def test_the_systems_own_lookup_reaches_a_name_that_is_allowed(receive, sender):
    inside = receive()
    sender(f"localhost:{inside.port}").send(f"http://localhost:{inside.port}/")

    assert [f"localhost:{inside.port}"] == [one.headers["host"] for one in inside.seen]
