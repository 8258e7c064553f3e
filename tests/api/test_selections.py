"""Orders about many runs over HTTP: look first, then order about exactly these (A1)."""

from __future__ import annotations


def test_a_selection_is_looked_at_and_then_ordered_about(desk):
    """A1: preview, frozen set, order."""
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
    """A1."""
    made = desk.asked.post("/runs/selections", json={"state": ["dead", "ambiguous"]}).json()

    refused = desk.asked.post(f"/runs/selections/{made['id']}/cancel", json={"confirm": 7})

    assert (2, 409) == (made["count"], refused.status_code)
    assert (1, 1) == (len(desk.runs("dead")), len(desk.runs("ambiguous")))


def test_a_selection_that_is_not_there_is_not_found(desk):
    """L2, L6."""
    path = "/runs/selections/0196a1b2-0000-7000-8000-000000000042"

    assert 404 == desk.asked.get(path).status_code
    assert 404 == desk.asked.post(f"{path}/retry").status_code
    assert 422 == desk.asked.post("/runs/selections/mine/retry").status_code
