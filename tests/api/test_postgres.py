"""The same over PostgreSQL: what is promised, found, ordered about and steered."""

from __future__ import annotations

from typing import Any

import pytest

import duly
from duly import every
from duly.api.app import Api
from duly.store.postgres import PostgresStore
from tests.api.api_client import Asker
from tests.api.api_fixtures import token_for
from tests.postgres.database_clock import DatabaseClock
from tests.postgres.reused_databases import with_schema


@pytest.fixture(scope="module")
def asked(postgres_server):
    """Somebody who asks an API over a real server."""
    url = postgres_server.create_database(postgres_server.prepared(with_schema))
    with DatabaseClock(url) as clock:
        app = duly.App(store=PostgresStore(url, clock), clock=clock, actor="ada")

        @app.task
        def report(number: int = 0) -> None: ...

        app.schedules.create("hourly", report, every("1h"))
        with Asker(Api(app, clock=clock), token_for(app)) as asker:
            yield asker
        app.close()
    postgres_server.drop_database(url)


def test_runs_are_promised_found_and_ordered_about(asked):
    """Page by page, and by a frozen selection."""
    calls = [{"task": "report", "arguments": {"number": number}} for number in range(5)]
    made = asked.post("/runs/bulk", json={"calls": calls, "queue": "bulk"}).json()["items"]

    found: list[Any] = []
    cursor = None
    while True:
        terms = {"limit": 2, "queue": "bulk"} | ({} if cursor is None else {"cursor": cursor})
        page = asked.get("/runs", params=terms).json()
        found += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert {one["id"] for one in made} == {one["id"] for one in found}
    wanted = {"state": ["queued"], "task": "report", "queue": "bulk"}
    chosen = asked.post("/runs/selections", json=wanted).json()
    done = asked.post(f"/runs/selections/{chosen['id']}/cancel", json={"confirm": 5}).json()
    assert (5, 5) == (chosen["count"], done["done"])
    assert {"cancelled"} == {asked.get(f"/runs/{one['id']}").json()["state"] for one in made}


def test_an_order_under_its_key_is_carried_out_once(asked):
    terms: dict[str, Any] = {"json": {"task": "report"}, "headers": {"Idempotency-Key": "k"}}

    first, again = asked.post("/runs", **terms), asked.post("/runs", **terms)

    assert (201, 201) == (first.status_code, again.status_code)
    assert first.json() == again.json()


def test_a_backfill_and_a_limit_are_made_and_taken_back(asked):
    now = asked.get("/status").json()["now"]
    span = {"schedule": "hourly", "since": "2026-03-01T00:00Z", "until": "2026-03-01T04:00Z"}

    made = asked.post("/backfills", json=span)
    assert (201, 4) == (made.status_code, made.json()["total"]), now
    gone = asked.post(f"/backfills/{made.json()['id']}/cancel", json={"reason": "enough"})
    assert "cancelled" == gone.json()["status"]
    assert 200 == asked.put("/limits/task:report", json={"running": 3}).status_code
    assert asked.delete("/limits/task:report").json()["is_removed"]


def test_its_numbers_are_told(asked):
    lines = asked.get("http://localhost/metrics").text.splitlines()

    assert 'duly_schedule_fires_total{tenant="default",schedule="hourly"} 0' in lines
    assert "duly_early_fires 0" in lines


@pytest.mark.parametrize("text", ["a\x00b", "x" * 2_000, "\u20ac", "' OR 1=1 --"])
def test_no_text_comes_further_than_it_may(asked, text):
    """What a database can't hold, or would read otherwise, is refused or not found."""
    answers = [
        asked.get("/runs", params={"key": text}),
        asked.get("/runs", params={"error": text}),
        asked.post("/runs", json={"task": text}),
        asked.post("/runs", json={"task": "report", "key": text, "delay": "1h"}),
        asked.put("/limits/task:report", json={"running": 1, "reason": text}),
    ]

    assert {answer.status_code for answer in answers} <= {200, 201, 404, 422}
