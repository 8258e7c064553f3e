"""What is another tenant's is answered as what is not there: by the same bytes, at the same cost.

Not timed: a test that measures time on a busy machine fails for nothing. What takes time is asked of
the database, so statements and rows are counted, for every operation that names a thing.
"""

from __future__ import annotations

import threading
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import apsw
import pytest

import duly
from duly.api.app import ROUTES, Api
from duly.api.middleware import ApiSettings
from duly.engine.manual_clock import ManualClock
from duly.store.postgres import PostgresStore
from duly.store.postgres.prepared import PreparedSession
from duly.store.postgres.session import ConnectionSession
from duly.store.sqlite import SqliteStore
from duly.timetable.instants import to_microseconds
from tests.api.api_client import Asker
from tests.api.api_fixtures import token_for
from tests.api.examples import examples_of
from tests.client.tenant_walk import NOBODYS, OURS, SECRET, Things, furnish
from tests.each_row import each_row
from tests.postgres.database_clock import DatabaseClock
from tests.postgres.reused_databases import with_schema
from tests.store.sqlite.made_file import made_file
from tests.timetable.instants import moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from duly.api.route import Route
    from tests.api.examples import Example

MAKES = {"create_schedule", "enqueue_run", "enqueue_runs", "create_token", "create_selection"}
"""What would give us a thing of that name."""
ALWAYS = {"unsilence_alerts": 200, "list_missing": 200}
"""Says that it is not there by something else than 404."""


class Costs:
    """What a database was asked: statements, in order, and how many rows each returned."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self._places: dict[int, int] = {}
        """Of each statement that runs: where it stands among those that were asked."""

    def taken(self) -> list[tuple[str, int]]:
        taken, self.asked, self._places = self.asked, [], {}
        return taken

    def of_sqlite(self, event: dict[str, Any]) -> None:
        # By their beginnings: a statement ends when nobody has its cursor any more.
        if event["code"] == apsw.SQLITE_TRACE_STMT and not event["trigger"]:
            self._places[event["id"]] = len(self.asked)
            self.asked.append((event["sql"], 0))
        elif (place := self._places.get(event["id"])) is not None:
            sql, rows = self.asked[place]
            self.asked[place] = (sql, rows + (event["code"] == apsw.SQLITE_TRACE_ROW))


@pytest.fixture(scope="module")
def costs() -> Costs:
    return Costs()


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def store(request, costs, tmp_path_factory) -> Iterator[tuple[Any, Any]]:
    patch = pytest.MonkeyPatch()
    if request.param == "sqlite":
        clock = ManualClock(to_microseconds(moment("2026-04-02T12:00Z")))
        events = apsw.SQLITE_TRACE_STMT | apsw.SQLITE_TRACE_ROW
        heard = [lambda connection: connection.trace_v2(events, costs.of_sqlite)]
        patch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, *heard])
        made = made_file(tmp_path_factory.mktemp("alike") / "duly.db", clock)
        kept: Any = SqliteStore(made, clock)
        yield kept, clock
        kept.close()
    else:
        databases = request.getfixturevalue("postgres_server")
        url = databases.create_database(databases.prepared(with_schema))
        for session in (ConnectionSession, PreparedSession):
            patch.setattr(session, "rows", _counted(session.rows, costs, len))
            patch.setattr(session, "run", _counted(session.run, costs, int))
        with DatabaseClock(url) as set_clock:
            kept = PostgresStore(url, set_clock)
            yield kept, set_clock
            kept.close()
        databases.drop_database(url)
    patch.undo()


def _counted(asked: Any, costs: Costs, count: Any) -> Any:
    def ask(self: Any, statement: str, values: Any = ()) -> Any:
        found = asked(self, statement, values)
        # Threads that notify members of earlier orders, or vacuum, belong to no request.
        if not threading.current_thread().name.startswith(("duly bell", "duly broom")):
            costs.asked.append((statement, count(found)))
        return found

    return ask


class World:
    """A tenant's admin, who would like to know what another tenant has."""

    def __init__(self, asker: Asker, header: dict[str, str], theirs: Things, costs: Costs) -> None:
        self.asker, self.header, self.theirs, self.costs = asker, header, theirs, costs
        self.place = ""
        """Where the store is, without the kind of database."""

    def ask(self, example: Example) -> tuple[httpx.Response, list[tuple[str, int]]]:
        self.asker.get("/session", headers=self.header)  # who asks is known, and not looked up
        self.costs.taken()
        answer = self.asker.ask(
            example.route.method, example.path, headers=self.header, **example.options
        )
        return answer, self.costs.taken()


@pytest.fixture(scope="module")
def world(store, costs) -> Iterator[World]:
    kept, clock = store
    theirs = furnish(kept, clock)
    app = duly.App(store=kept, clock=clock)
    header = token_for(app, role="admin", tenant=OURS)
    api = Api(app, ApiSettings(requests_burst_max=1_000_000), clock=clock)
    with Asker(api, {}) as asker:
        world = World(asker, header, theirs, costs)
        world.place = kept.name.partition("://")[2]
        yield world


def nobodys(theirs: Things) -> Things:
    """Return what is not there, by names as long as those that are: lengths tell, too."""
    absent: dict[str, Any] = {
        name: "".join("x" if one.isalpha() else one for one in getattr(theirs, name))
        for name in ("name", "key", "prefix")
    }
    _, _, at = theirs.label.partition("@")
    return replace(NOBODYS, label=f"{absent['name']}@{at}", **absent)


def pairs(route: Route, theirs: Things) -> list[tuple[Example, Example]]:
    both = zip(examples_of(route, theirs), examples_of(route, nobodys(theirs)), strict=True)
    return [
        (one, other)
        for one, other in both
        if (one.path, one.options) != (other.path, other.options)
    ]


OTHERS: dict[str, Any] = {
    one.name: UUID(int=value.int + 99)
    for one in fields(NOBODYS)
    if isinstance(value := getattr(NOBODYS, one.name), UUID)
}
SOMEBODYS = replace(NOBODYS, **OTHERS)
NAMING = [
    route
    for route in ROUTES
    if route.operation_id not in MAKES and route.scope is not None and pairs(route, SOMEBODYS)
]


def test_every_operation_that_names_a_thing_is_compared():
    """They are found by what their examples name; the table has many."""
    assert {"get_run", "get_schedule", "cancel_run", "get_alert", "get_token"} <= {
        route.operation_id for route in NAMING
    }
    assert len(NAMING) > 40


@each_row("route", NAMING)
def test_another_tenants_thing_is_answered_as_none_at_the_same_cost(world: World, route: Route):
    """Status, every header and the body byte for byte; each statement and row."""
    for theirs, absent in pairs(route, world.theirs):
        (first, first_cost), (second, second_cost) = world.ask(theirs), world.ask(absent)
        expected = ALWAYS.get(route.operation_id, 404)

        assert (expected, expected) == (first.status_code, second.status_code), first.text
        assert first.headers.raw == second.headers.raw
        assert _plain(second.text, nobodys(world.theirs)) == _plain(first.text, world.theirs)
        assert SECRET not in first.text
        assert first_cost == second_cost
        assert first_cost, "it was looked for"


@each_row("route", [one for one in ROUTES if one.method == "GET" and not one.is_stream])
def test_no_answer_to_one_tenant_says_where_the_store_is(world: World, route: Route):
    """A path or a host is the operator's business; the kind of database is not secret."""
    assert world.place
    for example in examples_of(route, world.theirs):
        answer, _ = world.ask(example)
        assert world.place not in answer.text


def test_the_id_of_another_tenants_run_tells_only_that_it_is_taken(world: World):
    """Ids are one space for all tenants: the documented limit, and no more than that."""
    example = next(one for one in ROUTES if one.operation_id == "enqueue_run")
    taken, free = str(world.theirs.queued), str(UUID(int=world.theirs.queued.int + 99))
    answers = [
        world.asker.ask(
            example.method,
            "http://localhost/api/v1/runs",
            headers=world.header,
            json={"task": "remind", "id": one},
        )
        for one in (taken, free)
    ]

    assert [409, 201] == [one.status_code for one in answers]
    assert SECRET not in answers[0].text
    told = answers[0].json()
    assert (f"'{taken}'", "conflict") == (told["value"], told["code"])
    assert "acme" not in answers[0].text


def _plain(text: str, of: Things) -> str:
    """Return an answer without what it was about."""
    for said, instead in sorted(of.texts(), key=lambda one: -len(one[0])):
        text = text.replace(said, instead)
    return text
