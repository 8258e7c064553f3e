"""Orders about many runs over HTTP: look first, then order about exactly these."""

from __future__ import annotations

import duly


def test_a_selection_is_looked_at_and_then_ordered_about(desk):
    """Preview, frozen set, order."""
    made = desk.asked.post("/runs/selections", json={"task": "fail"})
    path = f"/runs/selections/{made.json()['id']}"

    assert (201, 1, ["dead"]) == (
        made.status_code,
        made.json()["count"],
        [run["state"] for run in made.json()["sample"]],
    )
    assert made.json() == desk.asked.get(path).json()
    assert 1 == len(desk.runs("dead"))
    done = desk.asked.post(f"{path}/discard", json={"reason": "of no use", "confirm": 1}).json()
    assert (1, [True]) == (done["done"], [one["is_done"] for one in done["runs"]])
    again = desk.asked.post(f"{path}/retry").json()
    assert (0, ["discarded"]) == (again["done"], [one["state"] for one in again["runs"]])


def test_another_number_than_was_looked_at_changes_nothing(desk):
    made = desk.asked.post("/runs/selections", json={"state": ["dead", "ambiguous"]}).json()

    refused = desk.asked.post(f"/runs/selections/{made['id']}/cancel", json={"confirm": 7})

    assert (2, 409) == (made["count"], refused.status_code)
    assert (1, 1) == (len(desk.runs("dead")), len(desk.runs("ambiguous")))


def test_a_selection_that_is_not_there_is_not_found(desk):
    path = "/runs/selections/0196a1b2-0000-7000-8000-000000000042"

    assert 404 == desk.asked.get(path).status_code
    assert 404 == desk.asked.post(f"{path}/retry").status_code
    assert 422 == desk.asked.post("/runs/selections/mine/retry").status_code


def test_runs_are_rerun_by_a_filter_after_a_look_at_what_would_happen(desk):
    """What is in doubt is left alone, with the reason; given again it is one order."""
    made = desk.asked.post("/runs/selections", json={"state": ["dead", "ambiguous"]}).json()
    path = f"/runs/selections/{made['id']}"
    preview = desk.asked.get(f"{path}/preview", params={"order": "rerun"}).json()
    order = {"reason": "mended", "confirm": 2}
    done = desk.asked.post(f"{path}/rerun", json=order).json()
    again = desk.asked.post(f"{path}/rerun", json=order).json()

    assert (2, 1, made["digest"], "runs") == (
        preview["count"],
        preview["touched"],
        preview["digest"],
        preview["of"],
    )
    assert ["ambiguous"] == [one["state"] for one in preview["left_alone"]]
    assert (1, done) == (done["done"], again)
    (new,) = [one for one in done["runs"] if one["is_done"]]
    assert "rerun" == desk.asked.get(f"/runs/{new['made']}").json()["origin"]
    assert 422 == desk.asked.post(f"{path}/rerun", json={}).status_code
    assert 422 == desk.asked.get(f"{path}/preview", params={"order": "burn"}).status_code


def test_doubts_are_skipped_by_a_filter(desk):
    made = desk.asked.post("/runs/selections", json={"state": ["ambiguous"]}).json()
    done = desk.asked.post(f"/runs/selections/{made['id']}/skip", json={"reason": "too old"}).json()

    assert (1, [True]) == (done["done"], [one["is_done"] for one in done["runs"]])
    assert [] == desk.runs("ambiguous")


def test_schedules_are_paused_and_resumed_as_they_were_seen(desk):
    """One that somebody has changed since is told."""
    desk.app.schedules.create("daily", desk.app.call("report"), duly.every("24h"))
    made = desk.asked.post("/schedule-selections", json={"task": "report"})
    path = f"/schedule-selections/{made.json()['id']}"
    desk.app.schedules.edit("daily", owner="ben")
    preview = desk.asked.get(f"{path}/preview", params={"order": "pause"}).json()
    done = desk.asked.post(f"{path}/pause", json={"reason": "moving", "confirm": 2}).json()
    resumed = desk.asked.post(
        "/schedule-selections", json={"schedules": ["hourly"], "status": "deleted"}
    ).json()
    back = desk.asked.post(
        f"/schedule-selections/{resumed['id']}/resume", json={"reason": "moved"}
    ).json()

    assert (201, 2) == (made.status_code, made.json()["count"])
    assert made.json()["digest"] == desk.asked.get(path).json()["digest"]
    assert (1, {"was changed by ada since it was seen": 1}) == (
        preview["touched"],
        preview["left_by"],
    )
    assert {"hourly": (True, "paused"), "daily": (False, "active")} == {
        one["name"]: (one["is_done"], one["status"]) for one in done["schedules"]
    }
    assert (1, "active") == (back["done"], desk.asked.get("/schedules/hourly").json()["status"])


def test_a_selection_of_runs_is_none_of_schedules(desk):
    runs = desk.asked.post("/runs/selections", json={}).json()["id"]

    assert 404 == desk.asked.get(f"/schedule-selections/{runs}").status_code
    answer = desk.asked.post(f"/schedule-selections/{runs}/pause", json={"reason": "r"})
    assert 404 == answer.status_code


def test_no_state_at_all_is_said_by_null_and_the_document_says_so(desk):
    """What is left out means dead ones, and null those of every state."""
    made = [desk.asked.post("/runs/selections", json=body).json() for body in ({}, {"state": None})]
    every = desk.asked.get("/runs", params={"limit": 1000}).json()["items"]
    document = desk.asked.get("/openapi.json").json()["components"]["schemas"]["NewSelection"]

    assert [len(desk.runs("dead")), len(every)] == [one["count"] for one in made]
    assert len(desk.runs("dead")) < len(every)
    assert "null for those of every state" in document["properties"]["state"]["description"]
