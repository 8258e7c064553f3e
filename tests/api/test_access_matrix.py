"""Every operation, by everybody who may not: made of the table of routes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.api.app import ROUTES, Api
from duly.api.middleware import ApiSettings
from duly.domain.auth import SCOPES_BY_ROLE
from duly.engine.manual_clock import ManualClock
from duly.store.memory import MemoryStore
from duly.timetable.instants import to_microseconds
from tests.api.api_client import Asker
from tests.api.api_fixtures import token_for
from tests.api.examples import BY_OPERATION, examples_of
from tests.client.tenant_walk import NOBODYS, OURS, SECRET, THEIRS, Things, furnish
from tests.each_row import each_row
from tests.timetable.instants import moment

if TYPE_CHECKING:
    import httpx

    from duly.api.route import Route
    from tests.api.examples import Example

OPEN = {"begin_session", "get_openapi"}
"""What anybody may ask, without being known."""
GUARDED = [route for route in ROUTES if route.operation_id not in OPEN]


@dataclass
class World:
    """Two tenants, and everybody who may ask."""

    asker: Asker
    app: duly.App
    theirs: Things
    by_role: dict[str, dict[str, str]]
    strangers: dict[str, dict[str, str]]

    def ask(self, example: Example, headers: dict[str, str]) -> httpx.Response:
        method = example.route.method
        if example.route.is_stream:
            headers = headers | {"Accept": "application/json"}  # a stream has no end
        return self.asker.ask(method, example.path, headers=headers, **example.options)

    def about(self, route: Route) -> Example:
        return next(examples_of(route, self.theirs))

    def as_they_see_it(self) -> str:
        """Return all that the other tenant has, as they see it."""
        app = self.app.within(tenant=THEIRS, actor="ada")
        lists = (app.schedules, app.runs, app.delayed, app.backfills, app.tokens)
        seen = [one.to_json() for each in lists for one in each.list()]
        return json.dumps(
            [seen, [app.runs.attempts(one.id) for one in app.runs.list()]], default=str
        )


@pytest.fixture(scope="module")
def world():
    clock = ManualClock(to_microseconds(moment("2026-04-02T12:00Z")))
    store: Any = MemoryStore(clock)
    theirs = furnish(store, clock)
    app = duly.App(store=store, clock=clock)
    roles = {str(role): token_for(app, role=role, tenant=OURS) for role in SCOPES_BY_ROLE}
    expired = token_for(app, expires="1m")
    clock.advance("2m")
    revoked = app.tokens.create("revoked", role="admin", tenant="*")
    app.tokens.revoke(revoked.token.id)
    strangers = {
        "nobody": {},
        "a wrong token": {"Authorization": "Bearer duly_abc"},
        "another scheme": {"Authorization": "Basic YTpi"},
        "an expired token": expired,
        "a revoked token": {"Authorization": f"Bearer {revoked.text}"},
        "a session that is none": {"Cookie": "duly_session=abc"},
    }
    api = Api(app, ApiSettings(requests_burst_max=1_000_000), clock=clock)
    with Asker(api, {}) as asker:
        yield World(asker, app, theirs, roles, strangers)


def test_only_these_are_open_to_anybody():
    """Nothing is open by default."""
    assert OPEN == {route.operation_id for route in ROUTES if route.scope is None}


def test_the_role_of_workers_opens_nothing_yet():
    """As docs/security.md says; whoever gives it something says there what."""
    assert [] == [route.operation_id for route in ROUTES if route.scope == "worker"]


def test_every_operation_is_there_once():
    assert len(BY_OPERATION) == len(ROUTES)
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)


@each_row("route", GUARDED)
def test_nobody_comes_in_without_a_token_that_is_good(world, route):
    """Neither without one, nor with one that is wrong, expired or revoked."""
    answers = {
        who: world.ask(world.about(route), headers) for who, headers in world.strangers.items()
    }

    assert dict.fromkeys(world.strangers, 401) == {
        who: answer.status_code for who, answer in answers.items()
    }
    assert all("Bearer" in one.headers["WWW-Authenticate"] for one in answers.values())
    assert {"unauthenticated"} == {one.json()["code"] for one in answers.values()}


@each_row("route", GUARDED)
def test_a_role_that_lacks_the_scope_is_refused(world, route):
    """A viewer changes nothing, a worker sees nothing."""
    lacking = [role for role, scopes in SCOPES_BY_ROLE.items() if route.scope not in scopes]
    answers = [world.ask(world.about(route), world.by_role[str(role)]) for role in lacking]

    assert lacking
    assert {403} == {answer.status_code for answer in answers}
    assert {"forbidden"} == {answer.json()["code"] for answer in answers}


@each_row("route", GUARDED)
def test_of_another_tenants_things_there_is_nothing(world, route):
    """The answer is the one for what does not exist, and nothing of theirs is changed."""
    before = world.as_they_see_it()
    admin = world.by_role["admin"]
    pairs = list(zip(examples_of(route, world.theirs), examples_of(route, NOBODYS), strict=True))
    answers = [(world.ask(one, admin), world.ask(other, admin)) for one, other in pairs]

    assert before == world.as_they_see_it()
    for theirs, nobodys in answers:
        assert (theirs.status_code, True) == (nobodys.status_code, theirs.status_code < 500)
        assert SECRET not in theirs.text
        if theirs.status_code >= 400:
            assert _plain(nobodys.text, NOBODYS) == _plain(theirs.text, world.theirs)


def _plain(text: str, of: Things) -> str:
    """Return an answer without what it was about."""
    for said, instead in sorted(of.texts(), key=lambda one: -len(one[0])):
        text = text.replace(said, instead)
    return text
