"""Orders about runs over HTTP: each is carried out once, or refused with nothing done."""

from __future__ import annotations

import pytest


def test_a_dead_run_is_edited_and_retried(desk):
    """The same run goes on."""
    (dead,) = desk.runs("dead")
    edited = desk.asked.patch(
        f"/runs/{dead['id']}", json={"arguments": {"how": "twice"}, "reason": "typo"}
    )
    again = desk.order(dead["id"], "retry", reason="typo")

    assert ({"how": "twice"}, "queued") == (edited.json()["arguments"], again.json()["state"])
    desk.clock.advance("1m")
    assert "twice" in desk.runs("dead")[0]["error"]


def test_a_dead_run_is_discarded_with_a_reason(desk):
    """Who and why are on record."""
    (dead,) = desk.runs("dead")

    nameless = desk.order(dead["id"], "discard")
    gone = desk.order(dead["id"], "discard", reason="of no use")

    assert (422, "reason") == (nameless.status_code, nameless.json()["field"])
    assert "discarded" == gone.json()["state"]
    (entry,) = desk.app.audit.page(action="run.discarded").items
    assert ("anna", "api", "of no use") == (entry.actor, entry.source, entry.reason)


@pytest.mark.parametrize("verb", ["retry", "discard"])
def test_what_is_over_can_not_be_ordered_about(desk, verb):
    """A conflict that says what it is."""
    run = desk.runs("succeeded")[0]

    refused = desk.order(run["id"], verb, reason="once more")

    assert (409, "conflict") == (refused.status_code, refused.json()["code"])
    assert "is succeeded" in refused.json()["detail"]


def test_a_run_is_cancelled_while_it_waits(asked):
    """Also one that is still pending, and without a body."""
    queued = asked.post("/runs", json={"task": "report"}).json()["id"]
    pending = asked.post("/runs", json={"task": "report", "delay": "1h"}).json()["id"]

    answers = [asked.post(f"/runs/{one}/cancel") for one in (queued, pending)]

    assert ["cancelled", "cancelled"] == [one.json()["state"] for one in answers]


def test_the_inbox_says_what_is_safest(desk):
    (item,) = desk.asked.get("/inbox").json()["items"]

    assert ("retry", True) == (item["advice"]["safest"], item["advice"]["may_repeat"])
    assert (2, 0, ["a", "b"]) == tuple(
        item["scope"][one] for one in ("expected", "done", "missing")
    )
    assert item == desk.asked.get(f"/inbox/{item['run']['id']}").json()
    (dead,) = desk.runs("dead")
    assert 409 == desk.asked.get(f"/inbox/{dead['id']}").status_code


def test_a_risky_choice_is_confirmed_by_the_runs_id(desk):
    """Retry and resume may do something a second time."""
    (run,) = desk.runs("ambiguous")

    unsure = desk.order(run["id"], "retry", reason="again")
    assert (422, "confirm") == (unsure.status_code, unsure.json()["field"])
    other = desk.order(run["id"], "resume", reason="again", confirm=desk.runs("dead")[0]["id"])
    assert 422 == other.status_code
    typo = desk.order(run["id"], "retry", reason="again", effects={"pay:c": True})
    assert (422, "effects") == (typo.status_code, typo.json()["field"])
    sure = desk.order(run["id"], "retry", reason="again", effects={"pay:b": True})
    assert "queued" == sure.json()["state"]
    late = desk.order(desk.runs("dead")[0]["id"], "retry", effects={"pay:b": True})
    assert (422, "effects") == (late.status_code, late.json()["field"])


def test_a_repair_says_what_is_known_of_effects(desk):
    """Then nothing has to be confirmed; a second one beside it is a conflict."""
    (run,) = desk.runs("ambiguous")
    known = {"reason": "the rest", "repair": True, "effects": {"pay:b": True}}

    unsure = desk.order(run["id"], "rerun", reason="the rest", repair=True)
    plain = desk.order(run["id"], "rerun", reason="the rest", effects={"pay:b": True})
    made = desk.order(run["id"], "rerun", **known)

    assert [(422, "confirm"), (422, "effects")] == [
        (one.status_code, one.json()["field"]) for one in (unsure, plain)
    ]
    assert (201, "repair") == (made.status_code, made.json()["origin"])
    assert 409 == desk.order(run["id"], "rerun", reason="the rest", repair=True).status_code


def test_an_ambiguous_run_is_reconciled_with_evidence(desk):
    """With items missing only on purpose."""
    (run,) = desk.runs("ambiguous")
    found = {"is_done": True, "reason": "bank says so", "evidence": {"receipt": 7}}

    refused = desk.order(run["id"], "reconcile", **found)
    settled = desk.order(run["id"], "reconcile", **found, despite_missing=True)

    assert (409, True) == (refused.status_code, "0 of 2 items done" in refused.text)
    assert ("succeeded", "reconciled-incomplete") == (
        settled.json()["state"],
        settled.json()["reason"],
    )
    assert 409 == desk.order(run["id"], "skip", reason="too late").status_code


def test_an_ambiguous_run_is_left_as_it_is(desk):
    """Skip with a reason."""
    (run,) = desk.runs("ambiguous")

    skipped = desk.order(run["id"], "skip", reason="nobody cares")

    assert 200 == skipped.status_code
    assert [] == desk.asked.get("/inbox").json()["items"]


def test_a_run_is_run_once_more(desk):
    """As another run, which says what it repeats."""
    run = desk.runs("succeeded")[0]
    desk.clock.advance("1s")

    made = desk.order(run["id"], "rerun", reason="for the auditors")

    assert (201, "rerun", run["id"]) == (
        made.status_code,
        made.json()["origin"],
        made.json()["root"],
    )
    line = desk.asked.get(f"/runs/{run['id']}/lineage").json()["items"]
    assert [run["id"], made.json()["id"]] == [one["id"] for one in line]


def test_a_run_is_verified_by_its_tasks_own_check(desk):
    run = next(one for one in desk.runs("succeeded") if one["task"] == "report")

    check = desk.order(run["id"], "verify")
    desk.clock.advance("1m")

    assert (201, "verify") == (check.status_code, check.json()["origin"])
    found = desk.asked.get(f"/runs/{run['id']}/checks").json()["items"]
    assert check.json()["id"] in [one["by"] for one in found]


def test_a_day_is_proven(desk):
    """One query."""
    proof = desk.asked.get("/proofs", params={"schedule": "hourly", "day": "2026-04-03"}).json()

    assert ("hourly", "UTC") == (proof["schedule"], proof["zone"])
    assert {"run", "pending"} >= {one["verdict"] for one in proof["occurrences"]}
    wrong = desk.asked.get("/proofs", params={"schedule": "hourly", "day": "someday"})
    assert (422, "day") == (wrong.status_code, wrong.json()["field"])


def test_a_page_has_its_bounds(desk):
    """Nobody asks for everything at once."""
    (run,) = desk.runs("ambiguous")
    paths = (
        "/runs",
        "/attempts",
        "/inbox",
        f"/runs/{run['id']}/lines",
        f"/runs/{run['id']}/progress",
    )

    answers = [
        desk.asked.get(path, params={"limit": limit}) for path in paths for limit in (0, 1_001)
    ]

    assert {(422, "limit")} == {(one.status_code, one.json()["field"]) for one in answers}
