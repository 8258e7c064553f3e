"""What the API's own description allows and what it does not, asked by a program that tries.

Schemathesis reads the description and makes requests of it, good ones and bad ones; whatever it
sends, the answer is one that the description has, and never the server's fault. `make fuzz-api`
tries for longer.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.generation import GenerationMode

import duly
from duly.api.app import ROUTES, Api
from duly.api.middleware import ApiSettings
from duly.api.openapi import describe, error_statuses
from duly.engine.manual_clock import ManualClock
from duly.interface.problems import Problem
from duly.timetable.instants import to_microseconds
from tests.api.api_client import Asker
from tests.api.api_fixtures import token_for
from tests.api.examples import BY_OPERATION, NAMED, SHARED
from tests.client.tenant_walk import NOBODYS, THEIRS, Things, furnish
from tests.store.sqlite.made_file import made_file
from tests.timetable.instants import moment

if TYPE_CHECKING:
    import httpx

    from duly.api.route import Route

EXAMPLES = int(os.environ.get("DULY_FUZZ_EXAMPLES", "2"))
IS_SHORT = EXAMPLES < 10
ON_POSTGRES = ("list_schedules", "create_schedule", "edit_schedule", "list_runs", "enqueue_run",
               "list_delayed", "move_delayed", "list_audit", "search_attempts", "set_quotas")  # fmt: skip
"""Where texts and numbers reach a database's own statements in the most ways: for the short form."""
ASKED = [route for route in ROUTES if not route.is_stream]
_PART = re.compile(r"\{(\w+)\}")


@dataclass
class Fuzzed:
    """An API whose tenant has something of everything."""

    asker: Asker
    things: Things
    operations: dict[str, Any]

    def operation(self, route: Route) -> Any:
        return self.operations[route.operation_id]


def _operations() -> dict[str, Any]:
    document = describe(ROUTES)
    del document["components"]["securitySchemes"]  # who asks is known here
    for path in document["paths"].values():
        for operation in path.values():
            del operation["security"]
    schema = schemathesis.openapi.from_dict(document)
    found = [one.ok() for one in schema.get_all_operations()]  # type: ignore[union-attr]
    return {one.definition.raw["operationId"]: one for one in found}


def _fuzzed(store: Any, clock: ManualClock) -> Any:
    things = furnish(store, clock)
    app = duly.App(store=store, clock=clock)
    headers = {**token_for(app), "Duly-Tenant": THEIRS}
    api = Api(app, ApiSettings(requests_burst_max=1_000_000), clock=clock)
    return Asker(api, headers), things


@pytest.fixture(scope="module")
def operations():
    return _operations()


@pytest.fixture(scope="module")
def on_sqlite(tmp_path_factory, operations):
    from duly.store.sqlite import SqliteStore

    clock = ManualClock(to_microseconds(moment("2026-04-02T12:00Z")))
    file = made_file(tmp_path_factory.mktemp("hostile") / "duly.db", clock)
    store = SqliteStore(file, clock)
    asker, things = _fuzzed(store, clock)
    with asker:
        yield Fuzzed(asker, things, operations)
    store.close()


@pytest.mark.parametrize("route", ASKED, ids=lambda route: route.operation_id)
def test_whatever_is_asked_has_a_documented_answer(on_sqlite, route):
    """Also what no well-meaning client would send; never 5xx."""
    _try(on_sqlite, route)


def _try(fuzzed: Fuzzed, route: Route) -> None:
    modes = [GenerationMode.POSITIVE]
    if route.body is not None or route.query is not None:
        modes.append(GenerationMode.NEGATIVE)
    for mode in modes:

        @given(case=fuzzed.operation(route).as_strategy(generation_mode=mode))
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=IS_SHORT,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def ask(case: Any) -> None:
            for path in {case.formatted_path, *_real_paths(route, fuzzed.things)}:
                _judge(route, _sent(fuzzed.asker, case, path))

        ask()


def _real_paths(route: Route, things: Things) -> list[str]:
    """Return a path to something that is there."""
    path = f"/api/v1{route.path}"
    for name in _PART.findall(route.path):
        value = str(getattr(things, NAMED[name][0])) if name in NAMED else SHARED[name]
        path = path.replace(f"{{{name}}}", value.replace("/", "%2F"))
    return [path]


def _sent(asker: Asker, case: Any, path: str) -> httpx.Response:
    kept = ("idempotency-key", "if-match", "content-type")
    headers = {name: value for name, value in (case.headers or {}).items() if name.lower() in kept}
    options: dict[str, Any] = {"headers": headers, "params": case.query or {}}
    if case.media_type == "application/json" and isinstance(
        case.body, dict | list | str | int | float | bool | type(None)
    ):
        options["content"] = msgspec.json.encode(case.body)
        headers["Content-Type"] = "application/json"
    return asker.ask(case.method, f"http://localhost{path}", **options)


def _judge(route: Route, answer: httpx.Response) -> None:
    """Fail for an answer that is not as the description has it."""
    status = answer.status_code
    assert status < 500, (answer.request.method, str(answer.request.url), answer.text)
    if status < 400:
        assert route.status == status
        if route.answer is not None:
            msgspec.json.decode(answer.content, type=route.answer)
        return
    assert "application/problem+json" == answer.headers["content-type"]
    problem = msgspec.json.decode(answer.content, type=Problem)
    assert (status, True) == (problem.status, bool(problem.detail))
    # The path that was made up may be of another operation, or of none.
    assert status in error_statuses(route) | {404, 405}, (str(answer.request.url), answer.text)


@pytest.fixture(scope="module")
def on_postgres(postgres_server, operations):
    url = postgres_server.create_database(None)
    with duly.App(url) as app:
        app.migrate()
        report = app.task(name="remind")(lambda: None)
        app.store.register_tasks(["remind"])
        made = app.schedules.create("nightly", report, duly.every("1h"))
        delayed = app.enqueue(report, delay="1h", key="k")
        things = replace(NOBODYS, schedule=made.id, name="nightly", delayed=delayed.id, key="k")
        api = Api(app, ApiSettings(requests_burst_max=1_000_000))
        with Asker(api, token_for(app)) as asker:
            yield Fuzzed(asker, things, operations)
    postgres_server.drop_database(url)


@pytest.mark.parametrize("name", ON_POSTGRES if IS_SHORT else [one.operation_id for one in ASKED])
def test_whatever_is_asked_has_a_documented_answer_on_postgresql(on_postgres, name):
    """Also where texts and numbers reach another database."""
    _try(on_postgres, BY_OPERATION[name])
