"""Runs over HTTP: find them, look at one from every side, promise new ones."""

from __future__ import annotations

import pytest

SIDES = ("attempts", "checks", "effects", "lineage", "lines", "progress", "scope", "why")


def test_a_run_is_promised_and_looked_at(asked):
    made = asked.post("/runs", json={"task": "remind", "arguments": {"class_id": 42}})
    run = made.json()

    assert (201, True) == (made.status_code, run["is_new"])
    seen = asked.get(f"/runs/{run['id']}")
    assert ({"class_id": 42}, "queued", "now") == tuple(
        seen.json()[part] for part in ("arguments", "state", "origin")
    )
    assert seen.json() == asked.get(f"/runs/{run['label']}").json()


def test_runs_are_promised_together_or_not_at_all(asked):
    """One wrong call spoils the order, and nothing is stored."""
    good = {"task": "remind", "arguments": {"class_id": 1}}
    bad = {"task": "remind", "arguments": {"class": 1}}

    refused = asked.post("/runs/bulk", json={"calls": [good, bad]})
    assert 422 == refused.status_code
    assert [] == asked.get("/runs").json()["items"]
    made = asked.post("/runs/bulk", json={"calls": [good, good], "queue": "slow"})
    assert 201 == made.status_code
    assert ["slow", "slow"] == [one["queue"] for one in asked.get("/runs").json()["items"]]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"task": "remind", "arguments": {"class_id": 1}, "delay": "soon"}, "delay"),
        ({"task": "remind", "arguments": {"class_id": 1}, "at": "tomorrow"}, "at"),
        ({"task": "remind", "arguments": {"class_id": 1}, "priority": 99}, "priority"),
        ({"task": "remind", "arguments": {"class_id": 1}, "wen": "now"}, "wen"),
        ({"task": "remind", "arguments": 42}, "arguments"),
        ({"arguments": {}}, "task"),
    ],
)
def test_a_wrong_order_names_its_field_and_promises_nothing(asked, body, field):
    refused = asked.post("/runs", json=body)

    assert (422, field) == (refused.status_code, refused.json()["field"])
    assert refused.json()["remedy"]
    assert [] == asked.get("/runs").json()["items"]


def test_a_task_that_nobody_knows_is_not_found(asked):
    refused = asked.post("/runs", json={"task": "unheard-of"})

    assert (404, "not-found") == (refused.status_code, refused.json()["code"])


def test_the_same_id_again_is_the_same_order(asked):
    order = {"task": "report", "id": "0196a1b2-0000-7000-8000-000000000042"}
    first, again = (asked.post("/runs", json=order).json() for _ in range(2))

    assert (first["id"], True, False) == (again["id"], first["is_new"], again["is_new"])


def test_a_list_goes_on_where_its_page_ends(asked):
    """Every run once, newest first, whatever the size of a page."""
    calls = [{"task": "remind", "arguments": {"class_id": number}} for number in range(5)]
    asked.post("/runs/bulk", json={"calls": calls})
    whole = [one["id"] for one in asked.get("/runs").json()["items"]]

    found, cursor = [], None
    while True:
        terms = {"limit": 2} | ({} if cursor is None else {"cursor": cursor})
        page = asked.get("/runs", params=terms).json()
        found += [one["id"] for one in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert 5 == len(whole)
    assert whole == found


def test_runs_are_found_by_what_they_are(desk):
    found = {
        tuple(one["task"] for one in desk.asked.get("/runs", params=terms).json()["items"])
        for terms in (
            {"state": "dead"},
            {"error": "badly"},
            {"task": "fail"},
            {"origin": "now", "state": ["dead", "failed"]},
        )
    }

    assert {("fail",)} == found
    assert 2 == len(desk.asked.get("/runs", params={"schedule": "hourly"}).json()["items"])


def test_a_filter_that_nobody_knows_is_refused(asked):
    """It would find everything."""
    refused = asked.get("/runs", params={"stat": "dead"})

    assert (422, "stat") == (refused.status_code, refused.json()["field"])


def test_a_run_is_seen_from_every_side(desk):
    (run,) = desk.runs("ambiguous")

    seen = {side: desk.asked.get(f"/runs/{run['id']}/{side}") for side in SIDES}

    assert {200} == {answer.status_code for answer in seen.values()}
    assert ["failed"] == [one["state"] for one in seen["attempts"].json()["items"]]
    assert [("pay:a", "done"), ("pay:b", "unknown")] == [
        (one["key"], one["state"]) for one in seen["effects"].json()["items"]
    ]
    assert ["on its way"] == [one["text"] for one in seen["lines"].json()["items"]]
    assert [(1, 2)] == [(one["done"], one["total"]) for one in seen["progress"].json()["items"]]
    assert 2 == seen["scope"].json()["expected"]
    assert run["id"] == seen["lineage"].json()["items"][0]["id"]
    assert seen["why"].json()["sentence"]


def test_lines_go_on_after_a_number_or_where_a_page_ends(desk):
    (run,) = desk.runs("ambiguous")
    path = f"/runs/{run['id']}/lines"

    page = desk.asked.get(path, params={"limit": 1}).json()

    assert ([], 1) == (
        desk.asked.get(path, params={"cursor": page["next_cursor"]}).json()["items"],
        len(page["items"]),
    )
    assert [] == desk.asked.get(path, params={"after": page["items"][0]["number"]}).json()["items"]


@pytest.mark.parametrize("side", ["", *(f"/{one}" for one in SIDES)])
def test_of_a_run_that_is_not_there_nothing_is_seen(asked, side):
    answer = asked.get(f"/runs/0196a1b2-0000-7000-8000-000000000042{side}")

    assert (404, "not-found") == (answer.status_code, answer.json()["code"])


def test_attempts_are_found_across_runs(desk):
    """By their state and by what their error says."""
    found = desk.asked.get("/attempts", params={"state": "failed", "error": "no answer"}).json()

    assert [desk.runs("ambiguous")[0]["id"]] == [one["run"] for one in found["items"]]
