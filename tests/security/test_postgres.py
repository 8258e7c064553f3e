"""Hostile texts on PostgreSQL, in the name of a role that sees one tenant's rows at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly import every
from duly.api.app import Api
from duly.api.middleware import ApiSettings
from duly.store.postgres import PostgresStore
from tests.api.api_fixtures import token_for
from tests.postgres.confined_role import as_role, new_role
from tests.security.corpora import HEADERS, LINES, STATEMENTS
from tests.security.raw_requests import RawAsker, query

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXTS = [*STATEMENTS, *HEADERS[::4], *LINES[::4], "\ud800", "a\\' or true --"]


@pytest.fixture
def held(database: str) -> Iterator[tuple[RawAsker, duly.App]]:
    """Somebody who may name any tenant, and another tenant's application."""
    owner = PostgresStore(database)
    theirs = duly.App(store=owner, tenant="acme", actor="ada")
    report = theirs.task(name="report")(lambda: None)
    owner.register_tasks(["report"])
    theirs.schedules.create("their-nightly", report, every("1h"))
    with new_role(database, "api") as role:
        owner.grant_access(role, is_undone=False, is_dry=False)
        app = duly.App(store=PostgresStore(as_role(database, role)), actor="server")
        api = Api(app, ApiSettings(requests_burst_max=1_000_000))
        token = token_for(app)["Authorization"].encode()
        with RawAsker(api, (b"authorization", token)) as asked:
            yield asked, theirs
        app.close()
        owner.close()


def test_no_text_leads_into_another_tenant(held: tuple[RawAsker, duly.App]):
    """Not even as the tenant's own name, which no statement can bind."""
    asked, theirs = held
    before = theirs.schedules.list()
    for text in TEXTS:
        said = text.encode("utf-8", "surrogatepass")
        new = {"name": text, "task": "report", "when": "1h", "owner": text}
        replies: list[Any] = [
            asked.ask("GET", "/schedules", headers=[(b"duly-tenant", said)]),
            asked.ask("GET", "/runs", query=query(task=text.encode("utf-8", "replace").decode())),
            asked.ask("POST", "/schedules", json=new, headers=[(b"idempotency-key", said)]),
        ]

        assert all(one.status < 500 for one in replies), (text, replies)
        assert all(b"their-nightly" not in one.body for one in replies), (text, replies)
    assert before == theirs.schedules.list()
    assert [] == theirs.check()
