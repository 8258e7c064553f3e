"""Hostile texts, in every place of the API that takes one: none is obeyed by anybody."""

from __future__ import annotations

import json
import os
from itertools import cycle
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest

import duly
from duly.api.app import Api
from duly.api.middleware import ApiSettings
from duly.api.requests import ANSWER_HEADERS
from duly.engine.manual_clock import ManualClock
from duly.store.sqlite import SqliteStore
from duly.timetable.instants import to_microseconds
from tests.api.api_fixtures import token_for
from tests.client.tenant_walk import NOBODYS, OURS, SECRET, THEIRS, furnish
from tests.security.corpora import HEADERS, KINDS, MARKUP, PATHS, STATEMENTS
from tests.security.raw_requests import RawAsker, Reply, encoded, query
from tests.security.slots import slots
from tests.store.sqlite.made_file import made_file
from tests.timetable.instants import moment

if TYPE_CHECKING:
    from collections.abc import Iterator

EACH = int(os.environ.get("DULY_FUZZ_EXAMPLES", "1"))
"""How many texts of each kind are thrown at each place."""
PLACES = list(slots())
MEDIA = {"application/json", "application/problem+json"}


class World:
    """Two tenants on one SQLite file, and an admin of one of them who means ill."""

    def __init__(self, store: Any, clock: ManualClock) -> None:
        self.theirs = furnish(store, clock)
        self.app = duly.App(store=store, clock=clock)
        token = token_for(self.app, tenant=OURS)["Authorization"].encode()
        everybodys = token_for(self.app)["Authorization"].encode()
        api = Api(self.app, ApiSettings(requests_burst_max=1_000_000), clock=clock)
        self.mallory = RawAsker(api, (b"authorization", token))
        self.operator = RawAsker(api, (b"authorization", everybodys), (b"duly-tenant", b"ours"))
        self.stranger = RawAsker(api)

    def of_theirs(self) -> str:
        """Return all that the other tenant has, as they see it."""
        app = self.app.within(tenant=THEIRS, actor="ada")
        lists = (app.schedules, app.runs, app.delayed, app.backfills, app.tokens)
        return json.dumps([one.to_json() for each in lists for one in each.list()], default=str)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    clock = ManualClock(to_microseconds(moment("2026-04-02T12:00Z")))
    store = SqliteStore(made_file(tmp_path_factory.mktemp("hostile") / "duly.db", clock), clock)
    made = World(store, clock)
    with made.mallory, made.operator, made.stranger:
        yield made
    store.close()


def test_the_corpora_are_large_enough_to_mean_something():
    sizes = {kind: len(set(texts)) for kind, texts in KINDS.items()}

    assert sum(sizes.values()) >= 300
    assert (True, True, True, True) == (
        sizes["markup"] >= 80,
        sizes["statements"] >= 60,
        sizes["paths"] >= 40,
        sizes["headers"] >= 40,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_is_obeyed_wherever_it_is_put(world: World, kind: str):
    """The answer is JSON that says so, of our own tenant, and never a failure."""
    before = world.of_theirs()
    texts = cycle(KINDS[kind])
    for slot in PLACES:
        for text in (next(texts) for _ in range(EACH)):
            reply = slot.throw(world.mallory, text, NOBODYS)
            _judge(f"{slot} {text!r}", reply)
            assert SECRET.encode() not in reply.body, (slot, text)

    assert before == world.of_theirs()
    assert [] == world.app.check()


def test_a_tenant_that_is_named_is_a_name(world: World):
    """Also for somebody who may name any."""
    for texts in KINDS.values():
        for text in texts:
            said = [(b"duly-tenant", text.encode())]
            _judge(repr(text), world.operator.ask("GET", "/schedules", headers=said))

    assert [] == world.app.check()


def _judge(about: str, reply: Reply) -> None:
    """Fail for an answer that a browser, a cache or a terminal could take for something else."""
    names = {name.decode().lower(): value.decode("latin-1") for name, value in reply.headers}
    assert reply.status < 500, (about, reply.body)
    assert len(names) == len(reply.headers), about
    assert all(value.isprintable() and value.isascii() for value in names.values()), about
    assert ANSWER_HEADERS == {name: names[name.lower()] for name in ANSWER_HEADERS}, about
    assert names.keys() & {"location", "refresh", "access-control-allow-origin"} == set(), about
    if reply.body:
        assert names["content-type"] in MEDIA, about
        json.loads(reply.body)
        assert not [one for one in reply.body if one < 0x20], (about, reply.body)


def test_a_name_comes_back_as_it_was_given_or_was_refused(world: World):
    """Nothing is cut out of it, and nothing escaped twice."""
    kept = 0
    for text in (*MARKUP, *STATEMENTS):
        name = f"{text}."
        new = {"name": name, "task": "report", "when": "1h", "arguments": {"note": text}}
        made = world.mallory.ask("POST", "/schedules", json=new)
        if made.status == 422:
            assert "name" == made.json["field"]
            continue
        found = world.mallory.ask("GET", f"/schedules/{encoded(name)}")

        assert (201, 200) == (made.status, found.status), (text, made.body, found.body)
        assert (name, {"note": text}) == (found.json["name"], found.json["arguments"])
        kept += 1
    assert kept > 120


@pytest.mark.parametrize("field", ["name_prefix", "task", "owner", "declared_by"])
def test_a_filter_finds_what_it_says_and_nothing_more(world: World, field: str):
    """Neither by a quote, nor by what a pattern would match."""
    new = {"name": "plain", "task": "report", "when": "1h", "owner": "anna"}
    world.mallory.ask("POST", "/schedules", json=new | {"arguments": {"note": ""}})
    for text in STATEMENTS:
        found = world.mallory.ask("GET", "/schedules", query=query(**{field: text}))
        items = found.json.get("items", [])

        assert found.status in {200, 422}, (text, found.body)
        assert all(one["name"].startswith(text) for one in items if field == "name_prefix"), text
        assert field == "name_prefix" or items == [], text


@pytest.mark.parametrize("below", ["/", "/schedules/", "/runs/", "/tokens/"])
def test_a_path_leads_nowhere_but_where_the_table_says(world: World, below: str):
    """As it stands in the address, and not as a part of it."""
    for text in PATHS:
        reply = world.mallory.ask("GET", below + text)

        _judge(below + text, reply)
        assert reply.status in {400, 404, 422} or unquote(text) == reply.json["name"], reply.body


@pytest.mark.parametrize("header", [b"authorization", b"cookie"])
def test_what_is_no_token_opens_nothing(world: World, header: bytes):
    """By whatever header it comes."""
    for text in HEADERS:
        said = text.encode()
        value = b"duly_session=" + said if header == b"cookie" else said
        reply = world.stranger.ask("GET", "/status", headers=[(header, value)])

        assert 401 == reply.status, (text, reply.body)
