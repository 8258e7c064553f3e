"""Each defence of the API, by what it keeps out."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, cast

import pytest

from duly.api.app import Api
from duly.api.middleware import ApiSettings
from duly.api.requests import ANSWER_HEADERS
from tests.api.api_client import Asker
from tests.api.api_fixtures import token_for
from tests.waiting import SkippingLoop

if TYPE_CHECKING:
    from duly.client.access import TokenAuthenticator

NIGHTLY = {"name": "nightly", "task": "report", "when": "0 2 * * *"}


@pytest.fixture
def store(clock):
    """Where promises are kept is nothing to a defence."""
    from duly.store.memory import MemoryStore

    return MemoryStore(clock)


@pytest.fixture
def asking(app, clock):
    """Return somebody who asks a server of other settings."""
    opened: list[Asker] = []

    def make(**settings: Any) -> Asker:
        opened.append(Asker(Api(app, ApiSettings(**settings), clock=clock), token_for(app)))
        return opened[-1]

    yield make
    for one in opened:
        one.__exit__()


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "evil.example:8420", "", "a@localhost", "["]
)
def test_a_server_answers_to_its_own_names_only(asked, host):
    """A page whose name was made to point here is refused, whatever it shows."""
    answer = asked.get("/status", headers={"Host": host})

    assert (421, "host-refused") == (answer.status_code, answer.json()["code"])


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8420", "127.0.0.1:1", "[::1]:8420"])
def test_a_server_answers_to_all_of_its_names(asked, host):
    assert 200 == asked.get("/status", headers={"Host": host}).status_code


def test_a_name_that_it_was_told_is_its_own(asking):
    told = asking(hosts=("duly.example",))

    assert 200 == told.get("/status", headers={"Host": "duly.example"}).status_code
    assert 421 == told.get("/status").status_code


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "https://localhost"])
def test_no_page_of_another_origin_gives_an_order(asked, origin):
    """Not even one that knows a token."""
    answer = asked.post("/schedules", json=NIGHTLY, headers={"Origin": origin})

    assert (403, "origin-refused") == (answer.status_code, answer.json()["code"])
    assert [] == asked.get("/schedules").json()["items"]


def test_a_page_of_our_own_gives_orders(asked):
    answer = asked.post("/schedules", json=NIGHTLY, headers={"Origin": "http://localhost"})

    assert 201 == answer.status_code


def test_no_other_page_may_read_an_answer(asked):
    answer = asked.get("/status", headers={"Origin": "https://evil.example"})

    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.fixture
def session(app, asked):
    """A session by a cookie: what the browser sends, and what it was told."""
    token = token_for(app)["Authorization"].removeprefix("Bearer ")
    begun = asked.post("/session", json={"token": token}, headers={"Authorization": ""})
    name, _, value = begun.headers["set-cookie"].partition(";")[0].partition("=")
    return {"Cookie": f"{name}={value}"}, begun.json()["csrf"]


def test_an_order_by_cookie_shows_what_the_session_was_told(app, clock, session):
    """A page elsewhere can have the cookie sent, and not read this."""
    cookie, csrf = session
    with Asker(Api(app, clock=clock), cookie) as browser:
        without = browser.post("/schedules", json=NIGHTLY)
        wrong = browser.post("/schedules", json=NIGHTLY, headers={"Duly-CSRF": "0" * 64})
        looked = browser.get("/schedules")
        shown = browser.post("/schedules", json=NIGHTLY, headers={"Duly-CSRF": csrf})

    assert [403, 403] == [without.status_code, wrong.status_code]
    assert "csrf-refused" == without.json()["code"]
    assert [200, 201] == [looked.status_code, shown.status_code]


def test_a_session_ends_when_it_is_told_to_and_with_its_token(app, clock, session):
    cookie, csrf = session
    with Asker(Api(app, clock=clock), cookie) as browser:
        assert "anna" == browser.get("/session").json()["name"]
        ended = browser.delete("/session", headers={"Duly-CSRF": csrf})
        clock.advance("1s")

        assert (204, True) == (ended.status_code, "Max-Age=0" in ended.headers["set-cookie"])
        assert 401 == browser.get("/session").status_code


def test_a_cookie_is_kept_from_scripts_and_other_sites(app, asked, asking):
    token = {"token": token_for(app)["Authorization"].removeprefix("Bearer ")}
    plain = asked.post("/session", json=token).headers["set-cookie"]
    secure = asking(is_secure=True).post("/session", json=token).headers["set-cookie"]

    assert all(word in plain for word in ("HttpOnly", "SameSite=Strict", "Path=/"))
    assert "Secure" not in plain
    assert secure.startswith("__Host-duly=")
    assert secure.endswith("Secure")


def test_a_one_time_code_begins_one_session(app, asked):
    """The second who comes with it is a stranger, and nobody is told why."""
    code = {"code": app.doorkeeper().make_code()}
    answers = [asked.post("/session", json=code, headers={"Authorization": ""}) for _ in range(2)]

    assert [200, 401] == [answer.status_code for answer in answers]
    assert ("*", "admin") == (answers[0].json()["tenant"], answers[0].json()["role"])


@pytest.mark.parametrize("said", [{}, {"code": "a", "token": "b"}])
def test_a_session_begins_in_one_of_two_ways(asked, said):
    answer = asked.post("/session", json=said)

    assert (422, "None") == (answer.status_code, answer.json()["value"])


@pytest.mark.parametrize(
    "path", ["/status", "/nothing", "/openapi.json", "http://localhost/healthz"]
)
def test_every_answer_is_kept_from_caches_frames_and_guesses(asked, path):
    answer = asked.get(path)

    assert ANSWER_HEADERS == {name: answer.headers[name] for name in ANSWER_HEADERS}


def test_answers_cut_the_ties_to_other_windows_and_to_devices(asked):
    headers = asked.get("/status").headers

    assert "same-origin" == headers["Cross-Origin-Opener-Policy"]
    assert {"camera=()", "microphone=()"} <= set(headers["Permissions-Policy"].split(", "))


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/runs?limit=null", "limit"),
        ("/runs?limit=1e2", "limit"),
        ("/runs?limit=1.0", "limit"),
        ("/runs?limit=%D9%A3", "limit"),
        ("/runs?limit=", "limit"),
        ("/runs?cancel_requested=NULL", None),
        ("/runs?since=null", "since"),
        ("/audit?limit=Null", "limit"),
    ],
)
def test_a_number_is_written_in_digits_and_null_is_no_value(asked, path, field):
    answer = asked.get(path)

    assert 422 == answer.status_code
    assert field in (None, answer.json()["field"])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"name": "nightly", "task": "report", "when": "@daily", "task": "pay"}', "task"),
        (b'{"name": "n", "task": "report", "when": "@daily", "arguments": {"a": 1, "a": 2}}', "a"),
        (b'{"name": "n", "task": "report", "when": "@daily", "n\\u0061me": "m"}', "name"),
    ],
)
def test_a_key_that_a_body_gives_twice_is_refused(asked, body, field):
    """A proxy or a log may have taken the other of the two values."""
    answer = asked.post("/schedules", content=body, headers={"Content-Type": "application/json"})

    assert (422, field) == (answer.status_code, answer.json()["field"])
    assert "is given more than once" in answer.json()["detail"]
    assert not asked.get("/schedules").json()["items"]


def test_browsers_come_by_https_only_where_there_is_any(asked, asking):
    name = "Strict-Transport-Security"

    assert name not in asked.get("/status").headers
    assert "max-age=31536000" == asking(is_secure=True).get("/status").headers[name]


def test_a_body_that_says_it_is_too_large_is_not_read(asked):
    body = b'{"name": "' + b"a" * 300_000 + b'"}'
    answer = asked.post("/schedules", content=body, headers={"Content-Type": "application/json"})

    assert (413, "too-large") == (answer.status_code, answer.json()["code"])


def test_a_body_of_no_said_length_is_read_up_to_the_limit(asked):
    told: list[int] = []

    async def chunks():
        for number in range(1000):
            told.append(number)
            yield b" " * 10_000

    answer = asked.post(
        "/schedules", content=chunks(), headers={"Content-Type": "application/json"}
    )

    assert 413 == answer.status_code
    assert len(told) < 30


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        (
            {"Content-Type": "application/json", "Content-Encoding": "gzip"},
            "unsupported-media-type",
        ),
        ({"Content-Type": "text/plain"}, "unsupported-media-type"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, "unsupported-media-type"),
        ({"Content-Type": "application/json; charset=utf-16"}, "unsupported-media-type"),
    ],
)
def test_a_body_is_json_as_it_is(asked, headers, code):
    """No form can send it, and nothing unfolds into more than was sent."""
    answer = asked.post("/schedules", content=b"{}", headers=headers)

    assert (415, code) == (answer.status_code, answer.json()["code"])


def test_whoever_can_not_read_the_answer_is_told(asked):
    answers = [
        asked.get("/status", headers={"Accept": accept}).status_code
        for accept in ("text/html", "application/json;q=0", "application/*", "text/html, */*;q=0.1")
    ]

    assert [406, 406, 200, 200] == answers


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "unreadable-body"),
        (b"{", "unreadable-body"),
        (b"\xff", "unreadable-body"),
        (b'{"arguments": ' + b'{"a":' * 2000 + b"1" + b"}" * 2001, "unreadable-body"),
    ],
)
def test_what_is_no_json_is_refused(asked, body, code):
    answer = asked.post("/schedules", content=body, headers={"Content-Type": "application/json"})

    assert (400, code) == (answer.status_code, answer.json()["code"])


@pytest.mark.parametrize(
    ("body", "field", "value"),
    [
        ({"name": 5, "task": "report"}, "name", "5"),
        ({"name": "n", "task": "report", "wen": "1h"}, "wen", "'1h'"),
        ({"name": "n"}, "task", "None"),
        ({**NIGHTLY, "misfire": {"policy": "all", "at_most": "x"}}, "misfire.at_most", "'x'"),
        ({**NIGHTLY, "when": "61 2 * * *"}, "minute", "'61'"),
    ],
)
def test_a_wrong_field_is_named_with_what_was_given(asked, body, field, value):
    problem = asked.post("/schedules", json=body).json()

    assert (422, "invalid-value") == (problem["status"], problem["code"])
    assert (field, value) == (problem["field"], problem["value"])
    assert problem["remedy"]


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "limt=5", "limit=1&limit=2", "cursor=!"])
def test_a_wrong_query_is_named(asked, query):
    answer = asked.get(f"/schedules?{query}")

    assert (422, query.partition("=")[0]) == (answer.status_code, answer.json()["field"])


def test_a_token_in_an_address_opens_nothing(app, asked):
    """Addresses are written down by everybody on the way."""
    token = token_for(app)["Authorization"].removeprefix("Bearer ")
    answer = asked.get(f"/status?token={token}", headers={"Authorization": ""})

    assert 401 == answer.status_code
    assert token not in answer.text


def test_whoever_asks_too_often_waits(app, asking, clock):
    hurried = asking(requests_per_second=2, requests_burst_max=3)
    other = token_for(app, "bert")
    answers = [hurried.get("/status").status_code for _ in range(5)]
    of_another = hurried.get("/status", headers=other).status_code
    refused = hurried.get("/status")
    clock.advance("1s")
    later = [hurried.get("/status").status_code for _ in range(3)]

    assert [200, 200, 200, 429, 429] == answers
    assert 200 == of_another
    assert ("1", "too-many-requests") == (refused.headers["Retry-After"], refused.json()["code"])
    assert [200, 200, 429] == later


def test_sessions_of_one_token_ask_as_often_as_the_token_and_not_more(app, clock):
    api = Api(app, ApiSettings(requests_per_second=2, requests_burst_max=3), clock=clock)
    token = token_for(app)
    shown = {"token": token["Authorization"].removeprefix("Bearer ")}
    with Asker(api, {}) as asker:
        begun = [asker.post("/session", json=shown).headers["set-cookie"] for _ in range(4)]
    credentials = [{"Cookie": one.partition(";")[0]} for one in begun] + [token]
    answers = []
    for headers in credentials:
        with Asker(api, headers) as asker:
            answers.append(asker.get("/status").status_code)

    assert 4 == len(set(begun))
    assert [200, 200, 200, 429, 429] == answers


class Stuck:
    """Somebody at the door who says nothing, or what is nobody's business."""

    def __init__(self, error: Exception | None = None, loop: SkippingLoop | None = None) -> None:
        self.error = error
        self.loop = loop
        self.released = threading.Event()

    def authenticate(self, _text: str, _address: str | None) -> None:
        if self.error is not None:
            raise self.error
        if self.loop is not None:
            self.loop.skip()
        self.released.wait()

    def close(self) -> None:
        self.released.set()


def test_whoever_waits_too_long_is_told_what_is_not_known(app):
    loop = SkippingLoop()
    stuck = Stuck(loop=loop)
    api = Api(app, keeper=cast("TokenAuthenticator", stuck))
    with Asker(api, {"Authorization": "Bearer x"}, loop=loop) as asker:
        answer = asker.get("/status")
        stuck.released.set()

    assert (504, "no-answer") == (answer.status_code, answer.json()["code"])
    assert "Idempotency-Key" in answer.json()["remedy"]


def test_what_went_wrong_inside_is_not_told(app, caplog):
    """It is in the server's own log."""
    broken = cast("TokenAuthenticator", Stuck(RuntimeError("the secret is 42")))
    with Asker(Api(app, keeper=broken), {"Authorization": "Bearer x"}) as asker:
        answer = asker.get("/status")

    assert (500, "internal") == (answer.status_code, answer.json()["code"])
    assert "42" not in answer.text
    assert "the secret is 42" in caplog.text


def test_a_body_that_drips_is_not_waited_for(app, asking):
    import anyio

    async def drips():
        yield b"{"
        await anyio.Event().wait()

    asker = asking(body_seconds_max=0.05)
    answer = asker.post("/schedules", content=drips(), headers={"Content-Type": "application/json"})

    assert (408, "too-slow") == (answer.status_code, answer.json()["code"])


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PUT", "TRACE"])
def test_only_what_the_table_has_can_be_done(asked, method):
    answer = asked.ask(method, "/schedules")

    assert (405, "GET, POST") == (answer.status_code, answer.headers["Allow"])


def test_a_name_may_hold_what_an_address_may_not(app, asked):
    asked.post("/schedules", json=NIGHTLY | {"name": "a/b c?d%e"})
    answer = asked.get("/schedules/a%2Fb%20c%3Fd%25e")

    assert (200, "a/b c?d%e") == (answer.status_code, answer.json()["name"])
