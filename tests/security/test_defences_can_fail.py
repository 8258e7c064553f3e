"""Each defence is what stops the attack: without it, the attack succeeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.api import app, middleware, repeating, requests
from duly.api.app import Api
from duly.api.middleware import ApiSettings
from duly.domain.auth import Principal
from duly.store.memory import MemoryStore
from tests.api.api_fixtures import token_for
from tests.security.raw_requests import RawAsker, Reply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NEW = {"name": "n", "task": "report", "when": "1h"}


class Attack:
    """Somebody with a viewer's token, an operator's and an operator's cookie."""

    def __init__(self, app: duly.App, api: Api) -> None:
        self.token = (b"authorization", token_for(app)["Authorization"].encode())
        self.viewer = (
            b"authorization",
            token_for(app, "vera", role="viewer", tenant="ours")["Authorization"].encode(),
        )
        begun = app.doorkeeper().begin_session(self.token[1].decode().removeprefix("Bearer "))
        self.cookie = (b"cookie", f"duly_session={begun.secret}".encode())
        self.asker = RawAsker(api)

    def order(self, *headers: tuple[bytes, bytes], **options: Any) -> Reply:
        said = {"json": NEW, "headers": [self.token, *headers]} | options
        return self.asker.ask("POST", "/schedules", **said)

    def look(self, path: str, *headers: tuple[bytes, bytes], **options: Any) -> Reply:
        return self.asker.ask("GET", path, headers=[self.token, *headers], **options)


@pytest.fixture
def attack(clock) -> Iterator[Attack]:
    app = duly.App(store=MemoryStore(clock), clock=clock)
    app.task(name="report")(lambda: None)
    made = Attack(app, Api(app, ApiSettings(), clock=clock))
    with made.asker:
        yield made


def nothing(*_: Any, **__: Any) -> None:
    """Check nothing."""


DEFENCES: dict[str, tuple[Any, str, Any, int, Callable[[Attack], Reply]]] = {
    "another name": (
        middleware, "check_host", nothing, 421,
        lambda it: it.look("/status", (b"host", b"evil.example")),
    ),
    "another origin": (
        middleware, "check_origin", nothing, 403,
        lambda it: it.order((b"origin", b"https://evil.example")),
    ),
    "a forged order by cookie": (
        middleware, "check_csrf", nothing, 403, lambda it: it.order(headers=[it.cookie]),
    ),
    "a form": (
        app, "check_body_headers", nothing, 415,
        lambda it: it.order((b"content-type", b"text/plain")),
    ),
    "a role that may not": (
        Principal, "require", nothing, 403, lambda it: it.order(headers=[it.viewer]),
    ),
    "another tenant": (
        Principal, "tenant_for", lambda _self, asked: asked, 403,
        lambda it: it.asker.ask(
            "GET", "/schedules", headers=[it.viewer, (b"duly-tenant", b"acme")]
        ),
    ),
    "a path without an end": (
        app, "PATH_LENGTH_MAX", 10**9, 414, lambda it: it.look("/schedules/" + "a" * 9000),
    ),
    "a query without an end": (
        requests, "QUERY_FIELDS_MAX", 10**9, 400,
        lambda it: it.look("/runs", query=b"&".join([b"state=dead"] * 60)),
    ),
    "a key without an end": (
        repeating, "IDEMPOTENCY_KEY_LENGTH_MAX", 10**9, 422,
        lambda it: it.order((b"idempotency-key", b"a" * 300)),
    ),
}  # fmt: skip
"""What is attacked: where the defence is, what is there instead, how it refuses, the attack."""


@pytest.mark.parametrize("name", DEFENCES)
def test_an_attack_is_stopped_by_its_defence_and_by_nothing_else(
    attack: Attack, monkeypatch: pytest.MonkeyPatch, name: str
):
    place, defence, instead, status, attacks = DEFENCES[name]
    defended = attacks(attack)
    monkeypatch.setattr(place, defence, instead)
    bare = attacks(attack)

    assert status == defended.status, defended.body
    assert status != bare.status, bare.body
