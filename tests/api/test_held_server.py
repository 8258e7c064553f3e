"""The API on a role of PostgreSQL that is shown one tenant's rows at a time."""

from __future__ import annotations

import pytest

import duly
from duly import every
from duly.api.app import Api
from duly.store.postgres import PostgresStore
from tests.api.api_client import Asker
from tests.api.api_fixtures import token_for
from tests.postgres.confined_role import as_role, new_role

NIGHTLY = {"name": "nightly", "task": "report", "when": "every day at 2:30", "tz": "Europe/Berlin"}


@pytest.fixture
def held(database):
    """Two tenants' askers, and the other's application, on one database."""
    owner = PostgresStore(database)
    theirs = duly.App(store=owner, tenant="acme", actor="ada")
    report = theirs.task(name="report")(lambda: None)
    owner.register_tasks(["report"])
    theirs.schedules.create("their-nightly", report, every("1h"))
    with new_role(database, "api") as role:
        owner.grant_access(role, is_undone=False, is_dry=False)
        app = duly.App(store=PostgresStore(as_role(database, role)), actor="server")
        app.task(name="report")(lambda: None)
        ours, all_tenants = token_for(app, tenant="ours"), token_for(app)
        with Asker(Api(app), ours) as asked, Asker(Api(app), all_tenants) as operator:
            yield asked, operator, theirs
        app.close()
        owner.close()


def test_a_server_that_is_held_serves_each_tenant_its_own(held):
    """Orders, questions, and orders that come again."""
    asked, operator, theirs = held
    (schedule,) = theirs.schedules.list()
    run = theirs.schedules.trigger("their-nightly")
    key = {"Idempotency-Key": "once"}

    made = asked.post("/schedules", json=NIGHTLY, headers=key)
    again = asked.post("/schedules", json=NIGHTLY, headers=key)
    triggered = asked.post("/schedules/nightly/trigger", json={})

    assert (201, 201) == (made.status_code, again.status_code), made.text
    assert made.json() == again.json()
    assert 2 == triggered.status_code // 100, triggered.text
    assert ["nightly"] == [one["name"] for one in asked.get("/schedules").json()["items"]]
    assert [404, 404] == [
        asked.get(path).status_code for path in (f"/schedules/{schedule.id}", f"/runs/{run.id}")
    ]
    frozen = asked.post("/runs/selections", json={"state": ["queued"]})
    assert (201, 1) == (frozen.status_code, frozen.json().get("count")), frozen.text
    assert {"active": 1} == asked.get("/status").json()["schedules"]
    signs = asked.get("/schedules/nightly/vitals").json()
    assert (1, 1) == (signs["window"]["runs"], signs["work"]["queued"])
    (row,) = asked.get("/vitals/schedules").json()["items"]
    assert "nightly" == row["name"]
    missing = asked.get("/missing", params={"since": "2020-01-01T00:00Z"})
    assert (200, 1) == (missing.status_code, missing.json()["schedules"]), missing.text
    found = operator.get("/schedules", headers={"Duly-Tenant": "acme"}).json()["items"]
    assert ["their-nightly"] == [one["name"] for one in found]
    diagnosis = operator.get("/doctor").json()
    assert "schema" in [one["about"] for one in diagnosis["checks"] if one["level"] == "ok"]
    assert "broken" != diagnosis["level"], diagnosis
    assert [] == theirs.check()


def test_an_owner_is_gone_for_the_tenant_that_says_so(held):
    """Of the same name elsewhere, they are somebody else."""
    asked, operator, theirs = held
    theirs.schedules.edit("their-nightly", owner="ada")
    asked.post("/schedules", json={**NIGHTLY, "owner": "ada"})

    gone = asked.post("/owners/ada/gone", json={"reason": "left"})

    assert (200, 1, 0) == (gone.status_code, *map(gone.json().get, ("paused", "active"))), gone.text
    assert "active" == theirs.schedules.get("their-nightly").status
    assert ["ada"] == [one["owner"] for one in asked.get("/owners").json()["items"]]
    assert [] == operator.get("/owners", headers={"Duly-Tenant": "acme"}).json()["items"]
    assert 409 == asked.post("/schedules/nightly/resume", json={}).status_code
    assert 404 == operator.post("/owners/ada/back", headers={"Duly-Tenant": "acme"}).status_code
    assert 200 == asked.post("/owners/ada/back").status_code
    assert "active" == asked.post("/schedules/nightly/resume", json={}).json()["status"]
