"""Each limit of what may be sent: what is just within is taken, and one more is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.api.app import Api
from duly.api.middleware import ApiSettings
from duly.store.memory import MemoryStore
from tests.api.api_fixtures import token_for
from tests.security.raw_requests import RawAsker, Reply, query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BODY_MAX = 256 * 1024
PAYLOAD_MAX = 64 * 1024


@pytest.fixture
def asked(clock) -> Iterator[RawAsker]:
    app = duly.App(store=MemoryStore(clock), clock=clock)
    app.task(name="report")(lambda note="": None)
    token = token_for(app)["Authorization"].encode()
    with RawAsker(Api(app, ApiSettings(), clock=clock), (b"authorization", token)) as asker:
        yield asker


def make(asked: RawAsker, **terms: Any) -> Reply:
    new = {"name": "n", "task": "report", "when": "1h"}
    return asked.ask("POST", "/schedules", json=new | terms)


def look(asked: RawAsker, path: str, **fields: str) -> Reply:
    return asked.ask("GET", path, query=query(**fields))


def of_body(asked: RawAsker, size: int) -> Reply:
    body = b'{"name": "n", "task": "report", "when": "1h"}'
    return asked.ask("POST", "/schedules", content=body.ljust(size))


def of_payload(asked: RawAsker, size: int) -> Reply:
    return make(asked, arguments={"note": "a" * (size - len('{"note":""}'))})


LIMITS: dict[str, tuple[int, int, Callable[[RawAsker, int], Reply]]] = {
    "body": (BODY_MAX, 413, of_body),
    "arguments": (PAYLOAD_MAX, 422, of_payload),
    "name": (200, 422, lambda asked, size: make(asked, name="a" * size)),
    "owner": (200, 422, lambda asked, size: make(asked, owner="a" * size)),
    "queue": (100, 422, lambda asked, size: make(asked, queue="a" * size)),
    "page": (1000, 422, lambda asked, size: look(asked, "/schedules", limit=str(size))),
    "page of runs": (1000, 422, lambda asked, size: look(asked, "/runs", limit=str(size))),
    "page of the trail": (1000, 422, lambda asked, size: look(asked, "/audit", limit=str(size))),
    "occurrences shown": (
        100,
        422,
        lambda asked, size: look(asked, "/next", when="1h", count=str(size)),
    ),
    "key": (
        200,
        422,
        lambda asked, size: asked.ask("POST", "/runs", json={"task": "report", "key": "a" * size}),
    ),
    "key of an order": (
        200,
        422,
        lambda asked, size: asked.ask(
            "POST", "/runs", json={"task": "report"}, headers=[(b"idempotency-key", b"a" * size)]
        ),
    ),
    "reason": (
        1000,
        422,
        lambda asked, size: asked.ask(
            "POST", "/tasks/report/suspend-retries", json={"reason": "a" * size}
        ),
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_one_more_than_a_limit_is_refused(asked: RawAsker, name: str):
    """With the field and what to do, and nothing half done."""
    most, status, send = LIMITS[name]
    over = send(asked, most + 1)
    within = send(asked, most)

    assert status == over.status, over.body
    assert over.json["remedy"] if status == 422 else over.json["code"]
    assert within.status in {200, 201}, within.body


def test_an_expression_is_read_up_to_a_length(asked: RawAsker):
    """What nobody writes by hand is not worth reading."""
    reply = look(asked, "/next", when="every day at 9" + " and 10" * 2000)

    assert reply.status in {414, 422}, reply.body


def test_a_query_has_so_many_fields(asked: RawAsker):
    reply = asked.ask("GET", "/runs", query=b"&".join([b"state=dead"] * 51))

    assert (400, "unreadable-query") == (reply.status, reply.json["code"])


def test_a_path_has_a_length(asked: RawAsker):
    reply = asked.ask("GET", "/schedules/" + "a" * 8000)

    assert (414, "path-too-long") == (reply.status, reply.json["code"])


@pytest.mark.parametrize("depth", [40, 2000, 100_000])
def test_arguments_are_nested_so_deep(asked: RawAsker, depth: int):
    """Nobody runs out of stack."""
    body = b'{"name": "n", "task": "report", "when": "1h", "arguments": {"note": '
    reply = asked.ask("POST", "/schedules", content=body + b"[" * depth + b"]" * depth + b"}}")

    assert reply.status in {400, 422}, reply.body
