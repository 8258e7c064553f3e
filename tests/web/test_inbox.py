"""Deciding in the console about runs that nobody knows about: the safest first, unsafe ones typed."""

from __future__ import annotations

import re

import pytest


def only_doubt(visitor):
    (item,) = visitor.app.inbox.list()
    return item.run


def test_the_inbox_says_what_is_safest_and_why(visitor):
    """Each run in doubt is shown with the advice of the library, word for word."""
    (item,) = visitor.app.inbox.list()
    text = visitor.get("/inbox").text

    assert item.run.label.rpartition("@")[0] in text
    assert f"Safest: {item.advice.choice}" in text
    assert item.advice.why in text


def test_the_safest_choice_comes_first_and_is_the_only_open_one(visitor):
    """What is recommended is the primary button."""
    run = only_doubt(visitor)
    text = visitor.get(f"/inbox/{run.id}").text
    cards = re.findall(r'<details class="card choice"\s*(open)?', text)

    assert ["open", "", "", "", ""] == cards
    assert text.index("Retry</b>") < text.index("Reconcile</b>")


def test_a_run_with_items_missing_is_not_recorded_as_done_by_accident(visitor):
    """The page counts the items, the order is refused, and the box says what it means."""
    run = only_doubt(visitor)
    text = visitor.get(f"/inbox/{run.id}").text
    fields = {"choice": "reconcile", "found": "done", "reason": "so", "effect": "done:pay:b"}
    refused = visitor.post(f"/inbox/{run.id}/decide", fields)
    unknown = visitor.post(f"/inbox/{run.id}/decide", {**fields, "effect": "unknown:pay:b"})
    unclear = visitor.post(f"/inbox/{run.id}/decide", {**fields, "despite_missing": "perhaps"})
    batch = visitor.post("/inbox/preview", {"choice": "reconcile", "runs": [str(run.id)]})
    before = visitor.app.runs.get(run.id).state
    done = visitor.post(f"/inbox/{run.id}/decide", {**fields, "despite_missing": "yes"})

    assert "0 of 2 items done. Missing: a, b." in text
    assert "; 0 of 2 items done" in visitor.get("/inbox").text or "0 of 2 items done" in batch.text
    assert (409, True) == (refused.status_code, "0 of 2 items done" in refused.text)
    assert (422, True) == (unknown.status_code, "is not known, and all is said" in unknown.text)
    assert 422 == unclear.status_code
    assert "decide it by itself" in batch.text
    assert ("ambiguous", 303) == (before, done.status_code)
    assert "reconciled-incomplete" == visitor.app.runs.get(run.id).reason


def test_a_repair_is_told_what_is_known_of_effects(visitor):
    """What has happened is not done again, and no id is typed."""
    run = only_doubt(visitor)
    fields = {"choice": "repair", "reason": "the bank was asked", "effect": "done:pay:b"}
    done = visitor.post(f"/inbox/{run.id}/decide", fields)
    (effect,) = [one for one in visitor.app.inbox.effects(run.id) if one.key == "pay:b"]

    assert 303 == done.status_code
    assert "done" == effect.state


def test_what_may_do_something_twice_asks_for_the_runs_id(visitor):
    """Without it nothing is done, and the error says what to type."""
    run = only_doubt(visitor)
    unknown = {"choice": "retry", "reason": "so", "effect": "unknown:pay:b"}
    refused = visitor.post(f"/inbox/{run.id}/decide", unknown)

    assert 422 == refused.status_code
    assert str(run.id) in refused.text
    assert "ambiguous" == visitor.app.runs.get(run.id).state

    fields = {**unknown, "reason": "the bank was asked", "confirm": str(run.id)}
    done = visitor.post(f"/inbox/{run.id}/decide", fields)

    assert 303 == done.status_code
    assert "ambiguous" != visitor.app.runs.get(run.id).state


def test_a_decision_is_on_record_with_who_and_why(visitor):
    """The choice, beside what was advised."""
    run = only_doubt(visitor)
    fields = {
        "choice": "reconcile",
        "found": "done",
        "reason": "statement 42",
        "effect": "done:pay:b",
        "despite_missing": "yes",
    }
    visitor.post(f"/inbox/{run.id}/decide", fields)
    last = visitor.app.audit.page(subject_id=run.id, limit=1).items[0]

    assert ("anna", "console", "statement 42") == (last.actor, last.source, last.reason)
    assert "succeeded" == visitor.app.runs.get(run.id).state


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"choice": "reconcile", "reason": "x"}, "found"),
        ({"choice": "skip"}, "reason"),
        ({"choice": "nonsense", "reason": "x"}, "choice"),
        ({"choice": "skip", "reason": "x", "more": "x"}, "more"),
        ({"choice": "retry", "reason": "x", "effect": "perhaps:pay:b"}, "effect"),
    ],
)
def test_a_decision_that_is_not_whole_changes_nothing(visitor, fields, said):
    """One clear error that names the field."""
    run = only_doubt(visitor)
    answer = visitor.post(f"/inbox/{run.id}/decide", fields)

    assert 422 == answer.status_code
    assert said in answer.text
    assert "ambiguous" == visitor.app.runs.get(run.id).state


def test_several_are_decided_after_a_look_at_exactly_these(visitor):
    """The preview names them, the order takes their number, and no other is touched."""
    app, clock = visitor.app, visitor.clock
    app.enqueue(app.call("fail"))
    clock.advance("1m")
    seen = [str(one.id) for one in app.runs.list(state="dead")]
    preview = visitor.post("/inbox/dead/preview", {"choice": "discard", "runs": seen})
    later = app.enqueue(app.call("fail")).id
    clock.advance("1m")

    assert "Discard 2 runs" in preview.text
    assert all(one in preview.text for one in seen)

    fields = {"choice": "discard", "runs": seen, "reason": "known", "confirm": "2"}
    visitor.post("/inbox/dead/decide", fields)

    assert ["discarded"] * 2 == [app.runs.get(one).state for one in seen]
    assert "dead" == app.runs.get(later).state


def test_many_are_decided_only_by_who_types_how_many(visitor):
    """Two runs ask for a typed 2."""
    run = only_doubt(visitor)
    fields = {"choice": "skip", "runs": [str(run.id), str(run.root)], "reason": "known"}
    twice = visitor.post("/inbox/decide", {**fields, "runs": [str(run.id), "a" * 8]})

    assert 422 == twice.status_code
    assert "type 2" in twice.text
    assert "ambiguous" == visitor.app.runs.get(run.id).state

    visitor.post("/inbox/decide", {**fields, "runs": [str(run.id), "a" * 8], "confirm": "2"})

    assert "ambiguous" != visitor.app.runs.get(run.id).state


def test_a_batch_never_repeats_what_may_have_happened(visitor):
    """A risky choice is left out of a batch, with the reason."""
    run = only_doubt(visitor)
    preview = visitor.post("/inbox/preview", {"choice": "retry", "runs": [str(run.id)]})

    assert "decide it by itself" in preview.text
    assert "Nothing is left" in preview.text


def test_dead_and_late_have_places_of_their_own(visitor):
    """The inbox holds three kinds, and never mixes them."""
    app, clock = visitor.app, visitor.clock
    before = visitor.get("/inbox?kind=late").text
    app.queues.pause("default", reason="test")
    app.enqueue(app.call("report"))
    clock.advance("5m")
    late = visitor.get("/inbox?kind=late").text

    assert "Nothing is late" in before
    assert "report" in late
    assert "ValueError" in visitor.get("/inbox?kind=dead").text


def test_the_tabs_count_what_the_lists_hold_and_other_tenants_are_named(visitor):
    """One scope for lists and counts; elsewhere it is said where, to who may look there."""
    run = only_doubt(visitor)
    text = visitor.get("/inbox?tenant=acme").text

    assert "In doubt (0)" in text
    assert "Nothing is in doubt" in text
    assert ">1 in default</a>" in text
    assert "In other tenants" not in visitor.get("/inbox?tenant=default").text
    visitor.enter(tenant="acme")
    assert "In other tenants" not in visitor.get("/inbox").text
    visitor.enter(tenant="default")
    own = visitor.get("/inbox").text
    assert "In doubt (1)" in own
    assert run.label.rpartition("@")[0] in own
