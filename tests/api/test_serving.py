"""A server that others reach: by granian and uvicorn, mounted elsewhere, and who may reach it."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import duly
from duly.api.app import Api
from duly.api.middleware import ApiSettings
from duly.api.server import BindAddress, Server, chosen_port, require_free
from duly.errors import UsageError
from tests.api.api_client import Asker
from tests.api.api_fixtures import token_for
from tests.waiting import LIMIT_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = ApiSettings(event_seconds=0.02, heartbeat_seconds=0.1, streams_max=3)
EVERYWHERE = "0.0.0.0"  # noqa: S104 - what is refused
NIGHTLY = {"name": "nightly", "task": "report", "when": "0 2 * * *"}


class Live:
    """A server in a thread of this process, and somebody who asks it."""

    def __init__(self, app: duly.App) -> None:
        self.app = app
        self._serving = Server(app, BindAddress(port=0), SETTINGS)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serving.run, args=(self._ready.set,))

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(LIMIT_S)
        self.url = f"{self._serving.url}/api/v1"
        headers = token_for(self.app)
        self.client = httpx.Client(base_url=self.url, headers=headers, timeout=LIMIT_S)

    def close(self) -> None:
        self.client.close()
        self._serving.stop()
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    app = duly.App(f"sqlite:///{tmp_path_factory.mktemp('live') / 'duly.db'}")
    app.task(name="report")(lambda: None)
    server = Live(app)
    server.start()
    yield server
    server.close()
    app.close()


def told(response: httpx.Response) -> Iterator[tuple[int, Any]]:
    """Yield events as a browser takes them: the id, and what was told if anything was."""
    number, told_now = 0, None
    for line in response.iter_lines():
        if line.startswith("id: "):
            number = int(line[4:])
        elif line.startswith("data: "):
            told_now = json.loads(line[6:])
        elif not line:
            yield number, told_now
            told_now = None


@contextmanager
def followed(
    live: Live, path: str = "/events", headers: dict[str, str] | None = None
) -> Iterator[httpx.Response]:
    """Follow, once there is room: a server notices a moment later that a client has gone."""
    request = live.client.build_request("GET", path, headers=headers)

    def begun() -> httpx.Response | None:
        following = live.client.send(request, stream=True)
        if following.status_code != 503:
            return following
        following.close()
        return None

    with closing(wait_until("a stream is free", begun)) as following:
        yield following


def test_events_are_told_as_they_happen_and_exactly_on_after_a_break(live):
    """None twice and none left out, whenever the connection breaks."""
    with followed(live) as following:
        events = told(following)
        begun = next(events)
        for number in range(3):
            live.client.post("/schedules", json=NIGHTLY | {"name": f"of-{number}"})
        seen = [next(event for event in events if event[1] is not None)]
    headers = {"Last-Event-ID": str(seen[0][0])}
    with followed(live, headers=headers) as following:
        rest = []
        for event in told(following):
            rest += [event] if event[1] is not None else []
            if len(rest) == 2:
                break

    assert begun[1] is None
    assert "text/event-stream; charset=utf-8" == following.headers["content-type"]
    assert ["of-0", "of-1", "of-2"] == [event["subject"] for _, event in seen + rest]
    assert [number for number, _ in rest] == [event["number"] for _, event in rest]


def test_a_silent_stream_says_that_it_is_there():
    """An application of its own: nothing that another test did is still to be told."""
    with duly.App("memory:") as app, closing(Live(app)) as own:
        own.start()
        with followed(own) as following:
            events = told(following)
            marks = [next(events) for _ in range(3)]

    assert [None, None, None] == [event for _, event in marks]


def test_of_other_tenants_nothing_is_told(live):
    theirs = token_for(live.app, "theirs", tenant="theirs")
    with followed(live, "/events?after=0", theirs) as following:
        live.client.post("/schedules", json=NIGHTLY | {"name": "ours"})
        live.client.post("/schedules", json=NIGHTLY | {"name": "own"}, headers=theirs)
        told_them = (event for _, event in told(following) if event is not None)
        actions = [next(told_them) for _ in range(2)]

    assert "own" == actions[-1]["subject"]
    assert not [one for one in actions if one["subject"] == "ours"]


def test_a_stream_ends_with_its_token(live):
    """What a token opened is closed a second after its end."""
    made = live.app.tokens.create("brief", role="viewer", tenant="default")
    headers = {"Authorization": f"Bearer {made.text}"}
    with followed(live, headers=headers) as following:
        events = told(following)
        next(events)
        live.app.tokens.revoke(made.token.id)
        for _ in events:
            pass

    assert 401 == live.client.get("/events", headers=headers).status_code


def test_only_so_many_follow_at_once(live):
    with ExitStack() as stack:
        following = [told(stack.enter_context(followed(live))) for _ in range(SETTINGS.streams_max)]
        assert [None] * 3 == [next(events)[1] for events in following]
        refused = live.client.get("/events")

    assert (503, "too-many-streams") == (refused.status_code, refused.json()["code"])
    with followed(live) as again:  # whoever has gone makes room
        assert 200 == again.status_code


@pytest.mark.parametrize("last", ["x", "-1", "9" * 30])
def test_a_place_that_is_none_is_refused(live, last):
    answer = live.client.get("/events", headers={"Last-Event-ID": last})

    assert (422, "Last-Event-ID") == (answer.status_code, answer.json()["field"])


def test_a_body_without_a_length_is_bounded_over_the_wire_too(live):
    answer = live.client.post(
        "/schedules",
        content=(b" " * 10_000 for _ in range(100)),
        headers={"Content-Type": "application/json"},
    )

    assert 413 == answer.status_code


def test_it_says_that_it_lives_without_a_token_and_tells_no_more(live):
    root = live.url.removesuffix("/api/v1")
    answers = [httpx.get(f"{root}{path}", timeout=LIMIT_S) for path in ("/healthz", "/readyz")]

    assert [(200, "ok\n"), (200, "ok\n")] == [(one.status_code, one.text) for one in answers]


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)  # one in memory can't be lost
def test_it_is_ready_for_as_long_as_its_store_answers(app, store, clock):
    with Asker(Api(app, clock=clock), {}) as asker:
        paths = [f"http://localhost/{name}" for name in ("healthz", "readyz")]
        before = [asker.get(path) for path in paths]
        store.close()
        after = [asker.get(path) for path in paths]

    assert [(200, "ok\n"), (200, "ok\n")] == [(one.status_code, one.text) for one in before]
    assert [(200, "ok\n"), (503, "not ready\n")] == [(one.status_code, one.text) for one in after]


def test_it_runs_under_uvicorn(app):
    import asyncio

    import uvicorn

    own = socket.create_server(("127.0.0.1", 0))
    port = own.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(Api(app), log_level="critical", ws="none"))

    async def ask() -> httpx.Response:
        serving = asyncio.ensure_future(server.serve(sockets=[own]))
        while not server.started:
            await asyncio.wait([serving], timeout=0.01)
        async with httpx.AsyncClient(headers=token_for(app), timeout=LIMIT_S) as client:
            answer = await client.get(f"http://127.0.0.1:{port}/api/v1/status")
        server.should_exit = True
        await serving
        return answer

    with own:
        assert 200 == asyncio.run(ask()).status_code


def test_it_can_be_mounted_in_another_application(app, clock):
    """Below a path of another's."""
    from starlette.applications import Starlette
    from starlette.routing import Mount

    outer = Starlette(routes=[Mount("/scheduler", app=Api(app, clock=clock))])
    with Asker(outer, token_for(app)) as asker:
        made = asker.post(
            "http://localhost/scheduler/api/v1/schedules", json=NIGHTLY | {"name": "a/b"}
        )
        seen = asker.get("http://localhost/scheduler/api/v1/schedules/a%2Fb")

    assert (201, 200) == (made.status_code, seen.status_code)


@pytest.mark.parametrize(
    ("listening", "has_token", "problem"),
    [
        ({"host": EVERYWHERE}, True, "tokens would go over the wire"),
        ({"host": "192.0.2.1"}, True, "tokens would go over the wire"),
        ({"host": "::"}, True, "tokens would go over the wire"),
        ({"host": "duly.example"}, True, "tokens would go over the wire"),
        ({"host": "192.0.2.1", "is_behind_proxy": True}, False, "nobody has a token yet"),
        ({"host": EVERYWHERE, "is_behind_proxy": True}, True, "says no name to be asked for"),
        ({"port": -1}, True, "is not a port"),
        ({"port": 65_536}, True, "is not a port"),
        ({"tls_cert": Path("/nowhere")}, True, "is missing"),
        ({"tls_cert": Path("/no"), "tls_key": Path("/no")}, True, "is not a file"),
    ],
)
def test_nothing_is_open_to_others_by_accident(listening, has_token, problem):
    """Beyond loopback it takes TLS or a proxy that brings it, a live token and a name."""
    with pytest.raises(UsageError, match=problem):
        BindAddress(**listening).checked(has_token=has_token)


def test_beyond_loopback_it_answers_to_the_names_it_was_told():
    terms: dict[str, Any] = {"is_behind_proxy": True, "allow_hosts": ("Duly.example",)}
    listening = BindAddress(host=EVERYWHERE, **terms).checked(has_token=True)
    settings = listening.settings()

    assert ("localhost", "127.0.0.1", "[::1]", "duly.example") == settings.hosts
    assert settings.is_secure
    assert not BindAddress().settings().is_secure


def test_any_free_port_is_bound_and_reported(live):
    """It is the server's own until it ends: nothing else can listen there."""
    port = httpx.URL(live.url).port

    assert port
    with pytest.raises(UsageError, match="can't be listened on"):
        require_free(BindAddress(port=port))


def test_no_other_process_can_share_the_port_of_a_server(live):
    """Else requests would be answered by either of two servers."""
    port = httpx.URL(live.url).port
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))


def test_of_two_servers_that_start_on_one_port_at_once_one_is_refused(app):
    """The second begins while the first has claimed the port, and does not accept yet."""
    with socket.create_server(("127.0.0.1", 0)) as own:
        port = own.getsockname()[1]
    refused: list[UsageError] = []

    class StartsAnother(Api):
        def make_ready(self) -> None:
            second = Server(app, BindAddress(port=port))
            try:
                second.run(second.stop)
            except UsageError as error:
                refused.append(error)

    first = Server(app, BindAddress(port=port), make=StartsAnother)
    first.run(first.stop)

    assert ["port"] == [error.field for error in refused]


def test_a_server_claims_its_port_before_it_serves(app):
    """So that of two consoles that start at once, one can say that it has none."""
    first = Server(app, BindAddress(port=0))
    first.claim()
    second = Server(app, BindAddress(port=httpx.URL(first.url).port or 0))
    with pytest.raises(UsageError, match="can't be listened on"):
        second.claim()

    first.run(first.stop)
    second.run(second.stop)


def test_a_port_is_given_or_set_in_the_environment_or_the_default(monkeypatch):
    monkeypatch.setenv("DULY_PORT", "0")
    chosen = [chosen_port(None), chosen_port(1)]
    monkeypatch.delenv("DULY_PORT")

    assert [0, 1, 8420] == [*chosen, chosen_port(None)]


@pytest.mark.parametrize("text", ["x", "-1", "65536", "8" * 5_000, "\u0663"])
def test_a_port_of_the_environment_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv("DULY_PORT", text)

    with pytest.raises(UsageError, match="DULY_PORT"):
        chosen_port(None)


def test_a_port_that_is_taken_is_named(app):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match="can't be listened on"):
            Server(app, BindAddress(port=taken.getsockname()[1])).run()
