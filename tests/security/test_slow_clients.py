"""Clients that drip, stay silent, hang up or read nothing hold nobody else up."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from typing import TYPE_CHECKING, Any, Self

import pytest

import duly
from duly.api import server
from duly.api.app import Api
from duly.api.middleware import ApiSettings
from duly.store.memory import MemoryStore
from tests.api.api_client import Asker
from tests.api.api_fixtures import token_for
from tests.security.raw_requests import RawAsker
from tests.security.real_server import HOST, Speaker, served, status_of
from tests.waiting import SkippingLoop, comes_true, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

HALF = b"POST /api/v1/schedules HTTP/1.1\r\nHost: localhost\r\nX-Drips: a"
STREAM = "Accept: text/event-stream"
END_OF_CHUNKS = b"0\r\n\r\n"
SETTINGS = ApiSettings(body_seconds_max=0.2, streams_max=3, streams_of_one_max=2, threads_max=4)


@pytest.fixture(scope="module")
def app() -> Iterator[duly.App]:
    app = duly.App("memory:")
    app.task(name="report")(lambda: None)
    yield app
    app.close()


@pytest.fixture(scope="module")
def speaker(app: duly.App) -> Iterator[Speaker]:
    with served(app, SETTINGS) as speaker:
        yield speaker


@contextlib.contextmanager
def letting_go(app: duly.App, after_ms: int) -> Iterator[Speaker]:
    """Speak to a server that waits so long for the headers of a request."""
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        patch.setattr(server, "HEADER_MILLISECONDS", after_ms)
        yield stack.enter_context(served(app, SETTINGS))


@pytest.fixture(scope="module")
def hasty(app: duly.App) -> Iterator[Speaker]:
    with letting_go(app, after_ms=300) as speaker:
        yield speaker


@pytest.fixture
def patient(app: duly.App) -> Iterator[Speaker]:
    """Speak to a server that also hears a client of a busy machine to its end."""
    with letting_go(app, after_ms=5_000) as speaker:
        yield speaker


def test_those_who_never_finish_asking_hold_nobody_up(speaker: Speaker):
    """More of them than there are threads."""
    with contextlib.ExitStack() as stack:
        for said in [b"", b"G", HALF] * 2:
            stack.enter_context(speaker.connected(*[said] if said else []))

        assert [200] * 3 == [speaker.status() for _ in range(3)]


@pytest.mark.parametrize("said", [b"", b"G", HALF, b"PRI * HTTP/2.0\r\n"], ids=ascii)
def test_who_does_not_finish_asking_is_let_go(hasty: Speaker, said: bytes):
    """A connection over which nothing comes is no place that others lack."""
    with hasty.connected(*[said] if said else []) as line:
        assert line.recv(1 << 16).partition(b"\r\n")[0] in {
            b"",
            b"HTTP/1.1 400 Bad Request",
            b"HTTP/1.1 408 Request Timeout",
        }


def test_who_asked_once_and_stays_is_let_go(patient: Speaker):
    with patient.connected(patient.request("/api/v1/status")) as line:
        assert 200 == status_of(line)
        while line.recv(1 << 16):
            pass  # what is left of the answer; then the server closes the connection


def test_a_body_that_drips_is_not_waited_for(speaker: Speaker):
    head = ("Content-Type: application/json", "Content-Length: 100")
    request = speaker.request("/api/v1/schedules", *head, method="POST")
    with speaker.connected(request, b'{"name"') as line:
        assert 408 == status_of(line)


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n\r\n\x16\x03\x01",
    ],
    ids=range(8),
)
def test_what_two_could_read_in_two_ways_is_refused(speaker: Speaker, said: bytes):
    """So that no proxy in front sees another request than we do."""
    with contextlib.suppress(ConnectionError), speaker.connected(said) as line:
        answer = line.recv(1 << 16)

        assert not answer or 400 <= int(answer.split(b" ", 2)[1]) < 500, answer


def test_so_many_follow_events_and_a_place_is_free_again(app: duly.App, speaker: Speaker):
    """Of one principal fewer than of all; whoever hangs up is gone."""
    of_another = Speaker(speaker.port, app.tokens.create("bert", role="viewer").text)
    path = "/api/v1/events"
    with contextlib.ExitStack() as stack:
        lines = [
            stack.enter_context(speaker.connected(speaker.request(path, STREAM))) for _ in range(2)
        ]
        assert [200, 200] == [status_of(line) for line in lines]
        assert 429 == speaker.status(path, STREAM)
        third = stack.enter_context(of_another.connected(of_another.request(path, STREAM)))
        assert 200 == status_of(third)
        assert 503 == of_another.status(path, STREAM)
        assert 200 == of_another.status()
    assert comes_true(lambda: of_another.status(path, STREAM) == 200)


def test_a_tenant_without_a_stream_takes_one_of_the_tenant_that_has_all(app: duly.App):
    """The client that loses it sees its stream end, and goes on later from the last event."""
    settings = ApiSettings(streams_max=3, streams_of_one_max=3, event_seconds=0.02)
    path = "/api/v1/events"
    with served(app, settings) as everywhere, contextlib.ExitStack() as stack:

        def speaker(tenant: str) -> Speaker:
            made = app.tokens.create("ada", role="viewer", tenant=tenant)
            return Speaker(everywhere.port, made.text)

        def following(one: Speaker) -> socket.socket:
            line = stack.enter_context(one.connected(one.request(path, STREAM)))
            assert 200 == status_of(line)
            return line

        greedy = speaker("greedy")
        lines = [following(greedy) for _ in range(3)]
        following(speaker("modest"))
        assert 503 == speaker("greedy").status(path, STREAM)
        _read_until(lines[-1], END_OF_CHUNKS)


class Flood:
    """Silent connections, each of which is opened again as soon as the server has ended it."""

    def __init__(self, port: int, count: int) -> None:
        self.reopened = 0
        self._port = port
        self._count = count
        self._is_over = False
        self._selector = selectors.DefaultSelector()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            self._close(key)
        self._selector.close()

    def _run(self) -> None:
        for _ in range(self._count):
            self._open()
        while not self._is_over:
            for key, _ in self._selector.select(timeout=0.1):
                self._selector.unregister(key.fileobj)
                self._close(key)
                self._open()
                self.reopened += 1

    @staticmethod
    def _close(key: selectors.SelectorKey) -> None:
        assert isinstance(key.fileobj, socket.socket)
        key.fileobj.close()

    def _open(self) -> None:
        line = socket.socket()
        line.setblocking(False)
        line.connect_ex((HOST, self._port))
        self._selector.register(line, selectors.EVENT_READ)


@pytest.mark.parametrize("path", ["/healthz", "/api/v1/status"])
def test_a_thousand_silent_connections_that_come_again_stop_nothing(app: duly.App, path: str):
    """They have no token, and one address; the time limit of headers is no help here."""
    with letting_go(app, after_ms=3_600_000) as speaker, Flood(speaker.port, 1_000) as flood:
        wait_until("all were ended once", lambda: flood.reopened >= 1_000)
        before = flood.reopened
        statuses = [speaker.status(path) for _ in range(10)]

        assert [200] * 10 == statuses
        wait_until("they come again", lambda: flood.reopened > before)


def test_streams_and_requests_have_places_of_their_own(app: duly.App):
    """As many streams as there may be leave room for requests, and silence does not end them."""
    settings = ApiSettings(
        connections_max=64, streams_max=16, streams_of_one_max=16, event_seconds=0.02
    )
    with served(app, settings) as speaker, contextlib.ExitStack() as stack:
        request = speaker.request("/api/v1/events", STREAM)
        lines = [stack.enter_context(speaker.connected(request)) for _ in range(16)]
        begun = [status_of(line) for line in lines]
        flood = stack.enter_context(Flood(speaker.port, 100))
        wait_until("silent ones were ended", lambda: flood.reopened >= 20)

        assert ([200] * 16, 200) == (begun, speaker.status())
        app.tokens.create("new", role="viewer")
        for line in lines:
            _read_until(line, b"data: ")


def _read_until(line: socket.socket, mark: bytes) -> None:
    while said := line.recv(1 << 16):
        if mark in said:
            return
    raise AssertionError("the server has hung up")


def test_who_hangs_up_before_the_first_word_leaves_their_place(clock):
    """A place that nobody has is not lost for good."""
    app = duly.App(store=MemoryStore(clock), clock=clock)
    api = Api(app, ApiSettings(streams_max=1), clock=clock)
    told: list[int] = []

    async def gone(message: Any) -> None:
        told.append(message["status"])
        raise OSError("gone")

    with RawAsker(api, (b"authorization", token_for(app)["Authorization"].encode())) as asker:
        for _ in range(3):
            with contextlib.suppress(Exception):
                asker.ask("GET", "/events", send=gone)

    assert [200, 200, 200] == told


class Hanging:
    """A store that does not come back, until it is let."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.released = threading.Event()
        self.waiting = 0
        self.loop = SkippingLoop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def has_live_token(self) -> Any:
        return self.now()

    def now(self) -> Any:
        if not self.released.is_set():
            self.waiting += 1
            self.loop.skip()  # the request is given up once its thread is here
            self.released.wait()
        return self._store.now()


def test_a_store_that_hangs_is_not_waited_for_by_more_and_more(clock):
    """Threads that nobody can stop are counted; one too many is refused at once."""
    hanging: Any = Hanging(MemoryStore(clock))
    app = duly.App(store=hanging, clock=clock)
    api = Api(app, ApiSettings(threads_max=2), clock=clock)
    path = "http://localhost/readyz"
    with Asker(api, {}, loop=hanging.loop) as asker:
        answers = [asker.get(path).status_code for _ in range(4)]
        hanging.released.set()

        assert ([503] * 4, 2) == (answers, hanging.waiting)
        assert comes_true(lambda: asker.get(path).status_code == 200)


def test_a_log_line_stays_one_line(caplog):
    """Whatever stood in the address."""
    app = duly.App("memory:")

    class Broken:
        def authenticate(self, _text: str) -> None:
            raise RuntimeError("broken")

    api = Api(app, keeper=Broken())  # type: ignore[arg-type]
    with RawAsker(api, (b"authorization", b"Bearer x")) as asker:
        asker.path = "/api/v1/status\nINFO forged\x1b[2J"
        reply = asker.ask("GET", "/status")

    assert 500 == reply.status
    (record,) = caplog.records
    assert record.getMessage().isprintable()
    app.close()
