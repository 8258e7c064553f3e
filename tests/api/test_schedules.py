"""Schedules, delayed runs and what is looked at over HTTP."""

from __future__ import annotations

import pytest

from duly.api.app import ROUTES

NIGHTLY = {"name": "nightly", "task": "report", "when": "0 2 * * *", "tz": "Europe/Paris"}


def test_a_schedule_is_made_and_looked_at(asked):
    made = asked.post("/schedules", json=NIGHTLY)
    seen = asked.get("/schedules/nightly")

    assert (201, 200) == (made.status_code, seen.status_code)
    assert '"1"' == made.headers["ETag"] == seen.headers["ETag"]
    assert "every day at 02:00 (Europe/Paris)" == seen.json()["description"]
    assert seen.json() == asked.get(f"/schedules/{made.json()['id']}").json()


def test_making_and_editing_answer_with_the_next_three_in_local_time(asked):
    """With zone and UTC, as the command line and the console do."""
    rule = {"when": "every day at 9", "tz": "Europe/Paris"}
    made = asked.post("/schedules", json={"name": "daily", "task": "report", **rule}).json()
    changed = {"when": "every day at 10", "tz": "Asia/Tokyo", "version": made["version"]}
    coming = asked.get("/schedules/daily/next", params={"count": 3}).json()["items"]
    edited = asked.patch("/schedules/daily", json=changed).json()
    paused = asked.post("/schedules/daily/pause", json={}).json()
    renamed = asked.patch("/schedules/daily", json={"name": "d", "version": paused["version"]})

    assert (3, coming) == (len(made["upcoming"]), made["upcoming"])
    first = made["upcoming"][0]
    assert (made["next_for"], "Europe/Paris") == (first["utc"], first["zone"])
    assert "T09:00:00" in first["local"]
    assert ["Asia/Tokyo"] * 3 == [one["zone"] for one in edited["upcoming"]]
    assert all("T10:00:00" in one["local"] for one in edited["upcoming"])
    assert [] == renamed.json()["upcoming"]


def test_what_is_shown_of_a_timetable_makes_the_same_one(asked):
    policy = {"policy": "all", "at_most": 3, "per_minute": 30}
    made = asked.post("/schedules", json=NIGHTLY | {"misfire": policy})
    timetable, misfire = made.json()["timetable"], made.json()["misfire"]
    again = asked.post(
        "/schedules",
        json={"name": "copy", "task": "report", "timetable": timetable, "misfire": misfire},
    )

    assert (timetable, misfire) == (again.json()["timetable"], again.json()["misfire"])


@pytest.mark.parametrize(
    "beside", [{"timetable": {"kind": "every", "period": "1h"}}, {"when": None}]
)
def test_when_is_said_in_one_of_two_ways(asked, beside):
    answer = asked.post("/schedules", json=NIGHTLY | beside)

    assert (422, "when") == (answer.status_code, answer.json()["field"])


def test_an_edit_says_which_version_it_is_based_on(asked):
    """Nobody overwrites what they have not seen."""
    asked.post("/schedules", json=NIGHTLY)
    blind = asked.patch("/schedules/nightly", json={"jitter": "5m"})
    first = asked.patch("/schedules/nightly", json={"jitter": "5m"}, headers={"If-Match": '"1"'})
    late = asked.patch("/schedules/nightly", json={"queue": "q"}, headers={"If-Match": '"1"'})
    by_body = asked.patch("/schedules/nightly", json={"queue": "q", "version": 2})
    whatever = asked.patch("/schedules/nightly", json={"queue": "r"}, headers={"If-Match": "*"})

    assert (428, "version-needed") == (blind.status_code, blind.json()["code"])
    assert (200, '"2"') == (first.status_code, first.headers["ETag"])
    assert (412, "outdated") == (late.status_code, late.json()["code"])
    assert (200, 200) == (by_body.status_code, whatever.status_code)
    assert ("5m", "r") == (whatever.json()["jitter"], whatever.json()["queue"])


def test_an_edit_of_the_task_keeps_what_is_the_schedules_own(asked):
    asked.post("/schedules", json=NIGHTLY | {"queue": "mine", "priority": 2})
    change = {"task": "remind", "arguments": {"class_id": 1}, "when": "1h", "version": 1}
    edited = asked.patch("/schedules/nightly", json=change).json()

    assert ("remind", {"class_id": 1}, "mine", 2, "every hour") == tuple(
        edited[name] for name in ("task", "arguments", "queue", "priority", "description")
    )


@pytest.mark.parametrize("match", ['"x"', "1", 'W/"1"', '""', '"99"'])
def test_a_version_that_never_was_matches_nothing(asked, match):
    asked.post("/schedules", json=NIGHTLY)
    headers = {"If-Match": match}
    answers = [
        asked.patch("/schedules/nightly", json={"jitter": "5m"}, headers=headers),
        asked.post("/schedules/nightly/pause", headers=headers),
        asked.delete("/schedules/nightly", headers=headers),
    ]

    assert [412, 412, 412] == [answer.status_code for answer in answers]
    assert "active" == asked.get("/schedules/nightly").json()["status"]


def test_a_deleted_schedule_is_shown_as_deleted_and_takes_no_order_but_its_restoration(asked):
    """It is kept for a while; programs that look for uses after a deletion find these answers."""
    asked.post("/schedules", json=NIGHTLY)
    asked.delete("/schedules/nightly", headers={"If-Match": "*"})
    bodies = {"edit_schedule": {"jitter": "5m", "version": 2}}
    answers = {}
    for route in ROUTES:
        is_order = "/schedules/{schedule}" in route.path and route.method != "GET"
        if is_order and route.operation_id != "restore_schedule":
            path = route.path.replace("{schedule}", "nightly")
            body = bodies.get(route.operation_id, {}) if route.body is not None else None
            answer = asked.ask(route.method, f"http://localhost/api/v1{path}", json=body)
            answers[route.operation_id] = answer.status_code

    assert dict.fromkeys(answers, 409) == answers
    assert len(answers) >= 5
    assert "deleted" == asked.get("/schedules/nightly").json()["status"]
    assert 200 == asked.post("/schedules/nightly/restore").status_code


def test_a_schedule_is_paused_resumed_skipped_deleted_and_restored(asked):
    """Each on record, by whoever asked."""
    asked.post("/schedules", json=NIGHTLY)
    orders = [
        ("POST", "/pause", {"json": {"reason": "migration", "until": "2026-05-01T00:00Z"}}),
        ("POST", "/resume", {"json": {"missed": "misfire"}}),
        ("POST", "/skip", {}),
        ("DELETE", "", {"params": {"reason": "done with"}}),
        ("POST", "/restore", {}),
    ]
    statuses = [
        asked.ask(method, f"/schedules/nightly{path}", **options).json()["status"]
        for method, path, options in orders
    ]
    history = asked.get("/schedules/nightly/history").json()["items"]

    assert ["paused", "active", "active", "deleted", "active"] == statuses
    assert ["restored", "deleted", "skipped", "resumed", "paused", "created"] == [
        one["action"].partition(".")[2].partition("-")[0] for one in history
    ]
    assert {("anna", "api")} == {(one["actor"], one["source"]) for one in history}
    assert "migration" == history[-2]["reason"]


def test_a_schedule_is_run_now(asked):
    asked.post("/schedules", json=NIGHTLY)
    made = asked.post("/schedules/nightly/trigger", json={"reason": "asked for"})

    assert (201, True) == (made.status_code, made.json()["is_new"])
    assert "manual" == asked.get(f"/runs/{made.json()['id']}").json()["origin"]


def test_schedules_come_in_pages_in_order_of_name(asked):
    """None twice and none left out."""
    for name in ("c", "a", "e", "b", "d"):
        asked.post("/schedules", json=NIGHTLY | {"name": name})
    seen, cursor = [], None
    while True:
        asked_for = {"limit": 2} | ({} if cursor is None else {"cursor": cursor})
        page = asked.get("/schedules", params=asked_for).json()
        seen += [one["name"] for one in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break

    assert ["a", "b", "c", "d", "e"] == seen
    assert ["b"] == [
        one["name"] for one in asked.get("/schedules", params={"name_prefix": "b"}).json()["items"]
    ]


def test_a_rule_is_shown_before_anything_is_stored(asked):
    """In words, in local time and UTC, with what the clocks do to it."""
    rule = {"when": "every day at 2:30", "tz": "Europe/Paris"}
    shown = asked.post("/schedules/preview", json={**rule, "after": "2026-03-28T12:00Z"}).json()
    same = asked.get("/next", params={**rule, "after": "2026-03-28T12:00Z", "count": 3}).json()

    assert shown == same
    assert "2026-03-29T01:00:00Z" == shown["occurrences"][0]["utc"]
    assert "+02:00" in shown["occurrences"][0]["local"]
    assert [] == asked.get("/schedules").json()["items"]


def test_what_comes_next_and_what_became_of_it(asked, clock):
    asked.post("/schedules", json=NIGHTLY | {"when": "1h"})
    coming = asked.get("/schedules/nightly/next", params={"count": 2}).json()["items"]
    span = {"start": "2026-04-02T12:00Z", "end": "2026-04-02T14:00Z"}
    judged = asked.get("/schedules/nightly/occurrences", params=span).json()["items"]

    assert ["2026-04-02T13:00:00Z", "2026-04-02T14:00:00Z"] == [one["utc"] for one in coming]
    assert ["pending"] == [one["verdict"] for one in judged]


def test_a_delayed_run_is_moved_and_cancelled_by_its_key(asked):
    call = {"task": "remind", "arguments": {"class_id": 42}, "delay": "24h", "key": "class/42"}
    made = asked.post("/runs", json=call).json()
    listed = asked.get("/delayed").json()["items"]
    moved = asked.patch("/delayed/class%2F42", json={"delay": "48h"}).json()
    by_id = asked.get(f"/delayed/{made['id']}").json()
    cancelled = asked.delete("/delayed/class%2F42", params={"reason": "called off"})

    assert [made["id"]] == [one["id"] for one in listed]
    assert ("2026-04-04T12:00:00Z", 1) == (moved["due_at"], moved["moves"])
    assert moved == by_id
    assert (200, "cancelled") == (cancelled.status_code, cancelled.json()["state"])
    assert 404 == asked.get("/delayed/class%2F42").status_code


def test_a_key_that_looks_like_an_id_is_a_key_all_the_same(asked):
    key = "0196b000-0000-7000-8000-000000000001"
    made = asked.post("/runs", json={"task": "report", "delay": "1h", "key": key}).json()

    assert made["id"] == asked.get(f"/delayed/{key}").json()["id"]


def test_delayed_runs_come_in_pages(asked):
    made = [
        asked.post("/runs", json={"task": "report", "delay": f"{hours}h"}).json()["id"]
        for hours in (3, 1, 2)
    ]
    first = asked.get("/delayed", params={"limit": 2}).json()
    rest = asked.get("/delayed", params={"limit": 2, "cursor": first["next_cursor"]}).json()

    assert [made[1], made[2], made[0]] == [one["id"] for one in first["items"] + rest["items"]]
    assert rest["next_cursor"] is None


def test_the_audit_trail_is_searched_in_pages(asked):
    asked.post("/schedules", json=NIGHTLY)
    asked.post("/schedules/nightly/pause", json={"reason": "why not"})
    found = asked.get("/audit", params={"action": "schedule.paused"}).json()["items"]
    first = asked.get("/audit", params={"limit": 1, "subject": "nightly"}).json()
    cursor = {"limit": 1, "subject": "nightly", "cursor": first["next_cursor"]}
    rest = asked.get("/audit", params=cursor).json()

    assert [("anna", "why not")] == [(one["actor"], one["reason"]) for one in found]
    assert ["schedule.paused", "schedule.created"] == [
        one["action"] for one in first["items"] + rest["items"]
    ]


def test_zones_are_found_and_the_state_of_everything_shown(asked):
    zones = asked.get("/zones", params={"search": "berlin", "limit": 1}).json()["items"]
    status = asked.get("/status").json()

    assert ("Europe/Berlin", "+02:00") == (zones[0]["zone"], zones[0]["offset"])
    assert ("2026-04-02T12:00:00Z", 0) == (status["now"], status["early_fires"])


def test_a_token_is_made_used_and_revoked(asked, clock):
    """Its text is told once, and a second after its end it opens nothing."""
    made = asked.post("/tokens", json={"name": "ci", "role": "viewer", "tenant": "acme"})
    shown = {"Authorization": f"Bearer {made.json()['text']}"}
    used = asked.get("/session", headers=shown)
    listed = asked.get("/tokens", params={"tenant": "acme"})
    revoked = asked.delete(f"/tokens/{made.json()['prefix']}", params={"reason": "left"})
    clock.advance("1s")

    assert (201, 200) == (made.status_code, used.status_code)
    assert ("acme", ["read"]) == (used.json()["tenant"], used.json()["scopes"])
    assert made.json()["text"] not in listed.text
    assert (200, "revoked") == (revoked.status_code, revoked.json()["state"])
    assert 401 == asked.get("/session", headers=shown).status_code


def test_a_tenant_is_named_by_whoever_may_name_any(app, asked):
    from tests.api.api_fixtures import token_for

    there = {"Duly-Tenant": "acme"}
    asked.post("/schedules", json=NIGHTLY, headers=there)
    own = token_for(app, tenant="acme", role="viewer")

    assert [] == asked.get("/schedules").json()["items"]
    assert 1 == len(asked.get("/schedules", headers=own).json()["items"])
    assert 403 == asked.get("/schedules", headers=own | {"Duly-Tenant": "other"}).status_code


def test_the_description_is_of_all_there_is(asked):
    from duly.api.app import ROUTES

    document = asked.get("/openapi.json", headers={"Authorization": ""}).json()
    described = {
        operation["operationId"]
        for path in document["paths"].values()
        for operation in path.values()
    }

    assert {route.operation_id for route in ROUTES} == described
    assert "3.1.0" == document["openapi"]
