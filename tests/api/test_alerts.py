"""Alerts over HTTP: what is wrong, who was told, and what people say about it."""

from __future__ import annotations

from duly_conformance import alerts
from tests.api.api_fixtures import token_for


def raised(desk, **parts) -> str:
    """Have something be wrong; return the alert's id."""
    fence = alerts.watch(desk.app.store)
    alerts.look(desk.app.store, fence, alerts.condition(**parts))
    desk.app.store.release_watch(fence)
    return str(desk.asked.get("/alerts").json()["items"][0]["id"])


def test_an_alert_is_listed_shown_and_taken_note_of(desk):
    alert = raised(desk)
    listed = desk.asked.get("/alerts", params={"kind": "queue-age"}).json()["items"]
    shown = desk.asked.get(f"/alerts/{alert}").json()
    noted = desk.asked.post(f"/alerts/{alert}/acknowledge", json={"reason": "on it"}).json()

    assert [("queue mail", [])] == [(one["subject"], one["deliveries"]) for one in listed]
    assert ["log", "mail"] == [one["channel"] for one in shown["deliveries"]]
    assert ("anna", "on it") == (noted["acknowledged_by"], noted["acknowledged_reason"])
    assert [] == desk.asked.get("/alerts", params={"state": "resolved"}).json()["items"]
    assert 404 == desk.asked.get("/alerts/0196b000-0000-7000-8000-00000000000a").status_code
    assert 422 == desk.asked.get("/alerts", params={"kind": "loud"}).status_code


def test_a_silence_that_is_ordered_twice_is_one(desk):
    """Under one Idempotency-Key."""
    body = {"duration": "2h", "kind": ["queue-age"], "reason": "moving"}
    made = [
        desk.asked.post("/alerts/silences", json=body, headers={"Idempotency-Key": "k"})
        for _ in range(2)
    ]
    one = made[0].json()
    listed = desk.asked.get("/alerts/silences").json()["items"]
    gone = [desk.asked.delete(f"/alerts/silences/{one['id']}").json() for _ in range(2)]

    assert ([201, 201], one) == ([each.status_code for each in made], made[1].json())
    assert [one] == listed
    assert [True, False] == [each["is_removed"] for each in gone]


def test_a_rule_is_set_seen_and_taken_back(desk):
    terms = {"threshold": "15m", "severity": "page", "reason": "strict"}
    rule = desk.asked.put("/alerts/rules/queue-age", json=terms).json()
    listed = {one["name"]: one for one in desk.asked.get("/alerts/rules").json()["items"]}
    gone = [desk.asked.delete("/alerts/rules/queue-age").json() for _ in range(2)]

    assert (900.0, "page", "anna", False) == (
        rule["threshold"],
        rule["severity"],
        rule["set_by"],
        rule["is_default"],
    )
    assert rule == listed["queue-age"]
    assert [True, False] == [each["is_removed"] for each in gone]
    wrong = desk.asked.put("/alerts/rules/queue-age", json={"threshold": "many"})
    assert (422, "threshold") == (wrong.status_code, wrong.json()["field"])


def test_a_channel_is_added_tried_and_removed(desk):
    """By an admin, who may have the server send something."""
    made = desk.asked.put("/alerts/channels/ops", json={"kind": "log"}).json()
    tried = desk.asked.post("/alerts/channels/ops/test").json()
    names = [one["name"] for one in desk.asked.get("/alerts/channels").json()["items"]]
    operator = token_for(desk.app, role="operator")

    assert ("ops", "log", "anna") == (made["name"], made["kind"], made["set_by"])
    assert ({"channel": "ops", "is_done": True, "detail": ""}, ["log", "ops"]) == (tried, names)
    refused = desk.asked.post("/alerts/channels/ops/test", headers=operator)
    assert 403 == refused.status_code
    assert desk.asked.delete("/alerts/channels/ops").json()["is_removed"]


def test_a_tenants_token_sees_its_own(desk):
    raised(desk, subject="schedule x", tenant="acme")
    theirs, others = (token_for(desk.app, tenant=tenant) for tenant in ("acme", "else"))
    seen = [desk.asked.get("/alerts", headers=who).json()["items"] for who in (theirs, others)]

    assert [["schedule x"], []] == [[one["subject"] for one in each] for each in seen]
    assert 403 == desk.asked.get("/alerts/rules", headers=theirs).status_code


def test_an_edit_of_what_somebody_else_has_set_meanwhile_is_refused(desk):
    """By If-Match; of rules, channels and silences; what is sent twice is taken once."""
    rule, channel = "/alerts/rules/queue-age", "/alerts/channels/ops"
    first = desk.asked.put(rule, json={"threshold": 60}, headers={"If-Match": '"0"'})
    seen = {"If-Match": first.headers["ETag"]}
    second = desk.asked.put(rule, json={"threshold": 70}, headers=seen)
    again = desk.asked.put(rule, json={"threshold": 70}, headers=seen)
    late = desk.asked.put(rule, json={"threshold": 80}, headers=seen)
    gone = desk.asked.delete(rule, headers=seen)
    made = desk.asked.put(channel, json={"kind": "log"}, headers={"If-Match": '"0"'})
    other = desk.asked.put(
        channel, json={"kind": "log", "options": {}}, headers={"If-Match": '"5"'}
    )
    taken = desk.asked.delete(channel, headers={"If-Match": '"5"'})
    silence = desk.asked.post("/alerts/silences", json={"duration": "2h", "reason": "moving"})
    path = f"/alerts/silences/{silence.json()['id']}"

    assert f'"{first.json()["version"]}"' == first.headers["ETag"]
    assert [200, 200, 200, 412, 412] == [
        one.status_code for one in (first, second, again, late, gone)
    ]
    assert second.json() == again.json()
    assert "outdated" == late.json()["code"]
    assert "anna" in late.json()["detail"]
    # The channel is just as it was asked for: nothing would be overwritten.
    assert [200, 200, 412] == [one.status_code for one in (made, other, taken)]
    assert 412 == desk.asked.delete(path, headers={"If-Match": '"5"'}).status_code
    assert desk.asked.delete(path, headers={"If-Match": silence.headers["ETag"]}).is_success


def test_what_is_said_without_a_version_is_set_all_the_same(desk):
    """What is not given stays."""
    rule = "/alerts/rules/queue-age"
    desk.asked.put(rule, json={"threshold": 60})
    last = desk.asked.put(rule, json={"hold_for": "2m"}, headers={"If-Match": "*"}).json()

    assert (60, "2m") == (last["threshold"], last["hold_for"])
