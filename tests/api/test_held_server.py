"""The API on a role of PostgreSQL that is shown one tenant's rows at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

import duly
from duly import every
from duly.api.app import Api
from duly.store.postgres import PostgresStore
from duly_conformance import steps as work
from duly_conformance.kit import snapshot
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


def kept(theirs):
    """Return all that both tenants have, without the time of the look."""
    seen = snapshot(theirs.store, ("acme", "ours"))
    return replace(seen, status=replace(seen.status, now=0))


def test_an_id_of_another_tenants_run_is_a_conflict_on_a_held_and_an_owners_server(held):
    """Whether the run is delayed, open or over, and whenever ours would be due."""
    asked, _, theirs = held
    report = theirs.tasks.find("report")
    delayed, queued, over = (theirs.enqueue(report, delay=delay) for delay in ("1h", None, None))
    theirs.runs.cancel(over.id)
    own = duly.App(store=theirs.store, actor="server")
    own.task(name="report")(lambda: None)
    with Asker(Api(own), token_for(own, tenant="ours")) as asked_owner:
        before = kept(theirs)
        for run in (delayed, queued, over):
            for terms in ({}, {"delay": "2h"}, {"key": "ours"}):
                order = {"task": "report", "id": str(run.id), **terms}
                answers = [one.post("/runs", json=order) for one in (asked, asked_owner)]

                assert [409, 409] == [one.status_code for one in answers], answers[0].text
                assert answers[0].json() == answers[1].json()
        assert before == kept(theirs)
    assert [] == theirs.check()


@pytest.mark.parametrize("header", [{}, {"Duly-Tenant": "ours"}, {"Duly-Tenant": "acme"}])
def test_an_order_about_a_tenant_in_its_body_acts_within_that_tenant(held, header):
    """Whichever tenant the header names; it is on that tenant's trail."""
    _, operator, theirs = held
    orders = (
        ("PUT", "/quotas/owner:ada", {"json": {"tenant": "acme", "schedules": 7}}),
        ("DELETE", "/quotas/owner:ada", {"params": {"tenant": "acme"}}),
        (
            "POST",
            "/alerts/silences",
            {"json": {"tenant": "acme", "duration": "1h", "reason": "they move"}},
        ),
        ("POST", "/tokens", {"json": {"tenant": "acme", "name": "theirs"}}),
        ("PUT", "/alerts/rules/queue-age", {"json": {"tenant": "acme", "threshold": 9}}),
    )
    for method, path, terms in orders:
        answer = operator.ask(method, path, headers=header, **terms)
        assert 2 == answer.status_code // 100, (path, answer.text)

    told = [entry.action for entry in theirs.audit.page(limit=4).items]
    assert ["token.created", "alert-silence.set"] == told[:2], told
    assert ["quota.removed", "quota.set"] == told[2:], told
    (silence,) = theirs.alerts.silences()
    assert ("acme", "they move") == (silence.tenant, silence.reason)


def test_what_is_of_all_tenants_is_refused_by_name_and_never_answered_in_part(held):
    """A part that is well would say that all is."""
    _, operator, theirs = held
    theirs.enqueue(theirs.tasks.find("report"), queue="idle")
    for path in ("/audit", "/events"):
        answer = operator.get(path, params={"all_tenants": "true"})

        assert 403 == answer.status_code, answer.text
        assert "sees one tenant at a time" in answer.text
    diagnosis = operator.get("/doctor").json()
    assert (False, "degraded") == (diagnosis["is_well"], diagnosis["level"])
    assert ("fleet", "one-tenant-seen") in [
        (one["about"], one["code"]) for one in diagnosis["checks"]
    ]
    assert not {"dispatch", "work", "alerts"} & {one["about"] for one in diagnosis["checks"]}
    assert 200 == operator.get("/audit", headers={"Duly-Tenant": "acme"}).status_code


def test_queues_and_workers_are_counted_for_all_tenants_or_for_ones_own(held):
    """To an operator as over an owner's server; to a tenant what is its own."""
    asked, operator, theirs = held
    report, store = theirs.tasks.find("report"), theirs.store
    for queue in ("idle", "idle", "busy"):
        theirs.enqueue(report, queue=queue)
    worker = work.join_worker(store, tasks=("report",), queues=("busy",), slots=3)
    assert 1 == len(work.take(store, worker, queues=("busy",)))
    own = duly.App(store=store, actor="server")
    with Asker(Api(own), token_for(own)) as owners:
        for path in ("/queues", "/queues/idle", "/queues/busy"):
            assert owners.get(path).json() == operator.get(path).json()
        running = [
            [one["running"] for one in each.get("/workers").json()["items"]]
            for each in (owners, operator, asked)
        ]

    assert (2, 0) == tuple(each.get("/queues/idle").json()["queued"] for each in (operator, asked))
    assert [[1], [1], [0]] == running


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
