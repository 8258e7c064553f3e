"""Backfills, queues, limits, breakers, quotas, tasks and members over HTTP."""

from __future__ import annotations

import pytest

from duly.app.doctor import examine
from tests.api.api_fixtures import token_for

SPAN = {"schedule": "hourly", "since": "2026-04-02T20:00Z", "until": "2026-04-03T00:00:00Z"}


def test_a_backfill_is_planned_made_steered_and_called_off(desk):
    plan = desk.asked.post("/backfills/plan", json=SPAN).json()
    made = desk.asked.post("/backfills", json=SPAN | {"runs": plan["runs"], "per_minute": 1})
    path = f"/backfills/{made.json()['id']}"

    assert (4, 201) == (plan["runs"], made.status_code)
    assert "paused" == desk.asked.post(f"{path}/pause", json={"reason": "busy"}).json()["status"]
    assert 5 == desk.asked.post(f"{path}/throttle", json={"per_minute": 5}).json()["per_minute"]
    assert "active" == desk.asked.post(f"{path}/resume").json()["status"]
    assert "cancelled" == desk.asked.post(f"{path}/cancel").json()["status"]
    assert "cancelled" == desk.asked.get(path).json()["status"]
    assert 1 == len(desk.asked.get("/backfills", params={"schedule": "hourly"}).json()["items"])


def test_what_a_cancelled_backfill_left_undone_is_gone_on_with(desk):
    """Looked at first, and linked."""
    made = desk.asked.post("/backfills", json=SPAN | {"per_minute": 1}).json()
    path = f"/backfills/{made['id']}"
    early = desk.asked.get(f"{path}/rest")
    desk.asked.post(f"{path}/cancel")
    rest = desk.asked.get(f"{path}/rest").json()
    order = {"reason": "go on", "runs": rest["runs"], "concurrency": 3}
    new = desk.asked.post(f"{path}/resume-from", json=order)

    assert (409, 4, 201) == (early.status_code, rest["runs"], new.status_code)
    assert (made["id"], 3, 1) == (
        desk.asked.get(f"/backfills/{new.json()['id']}").json()["resumes"],
        new.json()["concurrency"],
        new.json()["per_minute"],
    )
    assert new.json()["id"] == desk.asked.post(f"{path}/resume-from", json=order).json()["id"]
    assert 422 == desk.asked.post(f"{path}/resume-from", json={}).status_code


def test_a_backfill_of_another_number_than_was_looked_at_is_refused(desk):
    """Nothing is made."""
    refused = desk.asked.post("/backfills", json=SPAN | {"runs": 3})

    assert 409 == refused.status_code
    assert [] == desk.asked.get("/backfills").json()["items"]


def test_a_queue_is_paused_and_resumed(desk):
    """Each on record."""
    paused = desk.asked.post("/queues/mail/pause", json={"reason": "storm"}).json()

    assert ("anna", "storm") == (paused["paused_by"], paused["reason"])
    assert ["mail"] == [
        one["name"] for one in desk.asked.get("/queues").json()["items"] if one["paused_at"]
    ]
    assert desk.asked.get("/queues/mail").json() == paused
    assert desk.asked.post("/queues/mail/resume").json()["paused_at"] is None


def test_a_limit_is_set_seen_and_lifted(desk):
    terms = {"running": 2, "rate": "5/s", "reason": "careful"}
    limit = desk.asked.put("/limits/task:report", json=terms).json()

    assert ("task:report", 2, "5/1s burst 5", "anna") == tuple(
        limit[part] for part in ("name", "running", "rate", "set_by")
    )
    assert [limit] == desk.asked.get("/limits").json()["items"]
    assert 200 == desk.asked.get("/limits/places").status_code
    gone = [desk.asked.delete("/limits/task:report", params={"reason": "calm"}) for _ in range(2)]
    assert [True, False] == [one.json()["is_removed"] for one in gone]


@pytest.mark.parametrize("terms", [{}, {"running": -1}, {"rate": "fast"}, {"running": "2"}])
def test_a_limit_that_says_nothing_is_refused(desk, terms):
    assert 422 == desk.asked.put("/limits/task:report", json=terms).status_code
    assert [] == desk.asked.get("/limits").json()["items"]


def test_quotas_are_set_and_taken_back(desk):
    (quota,) = desk.asked.put("/quotas/tenant:acme", json={"schedules": 5}).json()["items"]

    assert ("tenant:acme", "schedules", 5) == tuple(
        quota[part] for part in ("scope", "counted", "most")
    )
    assert quota in desk.asked.get("/quotas").json()["items"]
    left = desk.asked.delete("/quotas/tenant:acme").json()["items"]
    assert ["owner:*"] == [one["scope"] for one in left]


def test_the_default_quota_of_an_owner_binds_all_but_admins_of_every_tenant(desk):
    """The refusal says for whom it is."""
    new = {"task": "report", "when": "1d", "owner": "ada"}
    bob = token_for(desk.app, "bob", role="operator")

    def make(name: str, **by: object) -> object:
        return desk.asked.post("/schedules", json={"name": name, **new}, **by).status_code

    made = [make(f"hers {number}", headers=bob) for number in range(10)]
    refused = desk.asked.post("/schedules", json={"name": "more", **new}, headers=bob)

    assert [201] * 10 == made
    assert (429, "over-quota") == (refused.status_code, refused.json()["code"])
    assert "The limit is for end users" in refused.json()["remedy"]
    assert 201 == make("by the admin")


def test_an_owner_is_gone_and_back(desk):
    """What is made for them meanwhile is refused, with what to do."""
    new = {"task": "report", "when": "1d", "owner": "ada"}
    desk.asked.post("/schedules", json={"name": "hers", **new})

    gone = desk.asked.post("/owners/ada/gone", json={"reason": "left"}).json()
    refused = desk.asked.post("/schedules", json={"name": "new", **new})

    assert ("ada", 1, 0) == tuple(gone[part] for part in ("owner", "paused", "active"))
    assert "its owner is gone: 'ada' (left)" == desk.asked.get("/schedules/hers").json()["reason"]
    assert [{**gone, "paused": 0}] == desk.asked.get("/owners").json()["items"]
    assert (409, "conflict") == (refused.status_code, refused.json()["code"])
    assert "duly owner back ada" in refused.json()["remedy"]
    assert "ada" == desk.asked.post("/owners/ada/back").json()["owner"]
    assert 404 == desk.asked.post("/owners/ada/back").status_code
    assert 422 == desk.asked.post("/owners/ada/gone", json={}).status_code
    assert 200 == desk.asked.post("/schedules/hers/resume").status_code


def test_owners_who_are_gone_are_listed_a_page_at_a_time(desk):
    for name in ("c", "a/b", "d"):
        desk.asked.post(f"/owners/{name.replace('/', '%2F')}/gone", json={"reason": "left"})
    first = desk.asked.get("/owners", params={"limit": 2}).json()
    rest = desk.asked.get("/owners", params={"limit": 2, "cursor": first["next_cursor"]}).json()

    assert ["a/b", "c", "d"] == [one["owner"] for one in (*first["items"], *rest["items"])]
    assert rest["next_cursor"] is None


def test_a_destination_that_was_never_called_is_not_found(desk):
    assert [] == desk.asked.get("/breakers").json()["items"]
    assert 404 == desk.asked.get("/breakers/bank").status_code
    assert 404 == desk.asked.post("/breakers/bank/reset").status_code


def test_retries_and_reruns_of_a_task_are_stopped_and_allowed_again(desk):
    stopped = desk.asked.post("/tasks/fail/suspend-retries", json={"reason": "storm"}).json()
    blocked = desk.asked.post("/tasks/fail/block-reruns", json={"reason": "storm"}).json()

    assert (True, True) == (stopped["is_suspended"], blocked["is_blocked"])
    assert blocked in desk.asked.get("/tasks").json()["items"]
    desk.asked.post("/tasks/fail/allow-retries")
    free = desk.asked.post("/tasks/fail/allow-reruns").json()
    assert free == desk.asked.get("/tasks/fail").json()
    assert (False, False) == (free["is_suspended"], free["is_blocked"])
    assert 404 == desk.asked.get("/tasks/unheard-of").status_code


def test_the_fleet_is_seen(desk):
    kinds = {
        path: {one["kind"] for one in desk.asked.get(path).json()["items"]}
        for path in ("/workers", "/dispatchers")
    }

    assert {"/workers": {"worker"}, "/dispatchers": {"dispatcher"}} == kinds


def test_a_worker_is_put_out_of_service_and_back(desk):
    worker = desk.asked.get("/workers").json()["items"][0]["id"]
    path = f"/workers/{worker}"

    out = desk.asked.post(f"{path}/quarantine", json={"reason": "smokes"}).json()
    back = desk.asked.post(f"{path}/release").json()
    ending = desk.asked.post(f"{path}/drain", json={"reason": "upgrade"}).json()

    assert ["quarantined", None, "draining"] == [one["standing"] for one in (out, back, ending)]
    assert [] == desk.asked.get("/workers/quarantined-hosts").json()["items"]
    assert 404 == desk.asked.post("/workers/4711/release").status_code
    assert 422 == desk.asked.post("/workers/one/release").status_code


def test_the_doctor_can_be_asked_from_elsewhere(desk):
    """It says what `duly doctor --json` says on the server's machine."""
    found = desk.asked.get("/doctor")
    here = examine(desk.app).to_json()

    assert (200, False, "degraded") == (
        found.status_code,
        found.json()["is_well"],
        found.json()["level"],
    )
    # Virtual time is not this machine's; how far off it is, and how fast it answers, varies.
    assert "clock-skew" in [one["code"] for one in found.json()["checks"]]
    assert [one | {"says": ""} for one in here["checks"]] == [
        one | {"says": ""} for one in found.json()["checks"]
    ]


def test_the_doctor_is_not_asked_by_a_tenant(desk):
    """Where the store is, and how all others fare, concerns every tenant."""
    refused = desk.asked.get("/doctor", headers=token_for(desk.app, "bo", tenant="acme"))

    assert (403, "forbidden") == (refused.status_code, refused.json()["code"])
