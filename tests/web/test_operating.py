"""Operating from the console: backfills, missing runs, the fleet, and the trail of all that."""

from __future__ import annotations

import re

import pytest

from duly import every


@pytest.fixture
def gap(visitor):
    """A schedule whose last hour was skipped by a pause."""
    app, clock = visitor.app, visitor.clock
    app.schedules.create("minutely", app.call("report"), every("10m"))
    clock.advance("30m")
    app.schedules.pause("minutely", reason="test")
    clock.advance("1h")
    app.schedules.resume("minutely", missed="skip")
    clock.advance("10m")
    return visitor


def planned(visitor, **more):
    query = {"schedule": "minutely", "since": "2026-04-03T04:00Z", **more}
    return visitor.get("/backfills/plan", params=query)


def fields_of(text):
    """Return what the form of a plan says."""
    form = text.partition('id="order"')[2]
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form)
    fields = {name: value for name, value in found if name not in {"csrf", "classes"}}
    return fields | {"classes": [value for name, value in found if name == "classes"]}


def test_a_backfill_is_planned_slot_by_slot_before_anything_is_made(gap):
    """Each occurrence with what is known of it; missing and failed unless told."""
    plan = gap.app.backfills.plan("minutely", since="2026-04-03T04:00Z", until="2026-04-03T05:40Z")
    text = planned(gap, until="2026-04-03T05:40Z").text

    assert 0 < plan.runs < len(plan.slots)
    assert f"{plan.runs} runs would be made of {len(plan.slots)} occurrences" in text
    assert [] == gap.app.backfills.list()


def test_what_was_planned_is_ordered_and_steered(gap):
    """Made on its own lane; paused, throttled, resumed and cancelled, on record."""
    fields = fields_of(planned(gap, until="2026-04-03T05:40Z").text)
    made = gap.post("/backfills/create", {**fields, "per_minute": "6", "reason": "close the gap"})
    (backfill,) = gap.app.backfills.list()
    place = f"/backfills/{backfill.id}"
    states = []
    for verb, more in (
        ("pause", {}),
        ("throttle", {"per_minute": "3"}),
        ("resume", {}),
        ("cancel", {}),
    ):
        gap.post(f"{place}/{verb}", {"reason": verb, **more})
        now = gap.app.backfills.get(backfill.id)
        states.append((now.status, now.per_minute))

    assert place == made.headers["location"]
    assert [("paused", 6), ("paused", 3), ("active", 3), ("cancelled", 3)] == states
    assert "The live lane meanwhile" in gap.get(place).text
    assert "close the gap" in gap.get("/audit").text


def test_a_plan_that_no_longer_holds_makes_nothing(gap):
    """Revalidated when it is ordered; what the person saw is what is made, or nothing."""
    fields = fields_of(planned(gap, until="2026-04-03T05:40Z").text)
    answer = gap.post("/backfills/create", {**fields, "runs": "2", "reason": "x"})

    assert 409 == answer.status_code
    assert "look at the plan again" in answer.text
    assert [] == gap.app.backfills.list()


def test_more_than_a_hundred_runs_are_made_only_by_who_types_how_many(visitor):
    """A large backfill is not one click away."""
    visitor.app.schedules.create("often", visitor.app.call("report"), every("1m"))
    query = {"schedule": "often", "since": "2026-04-03T01:00Z", "until": "2026-04-03T04:00Z"}
    text = visitor.get("/backfills/plan", params=query).text
    fields = fields_of(text)
    refused = visitor.post("/backfills/create", {**fields, "reason": "x"})

    assert "to confirm" in text
    assert 422 == refused.status_code
    assert [] == visitor.app.backfills.list()


def test_what_is_not_there_is_shown_with_what_is_known_of_it(visitor):
    """An occurrence whose time has come and that nobody fired."""
    app, clock = visitor.app, visitor.clock
    before = visitor.get("/missing").text
    app.schedules.create("quarterly", app.call("report"), every("15m"))
    app.schedules.pause("quarterly", reason="test")
    clock.advance("1h")
    after = visitor.get("/missing?schedule=quarterly").text

    assert "Nothing is missing" in before
    assert "its schedule rests" in after


def test_a_queue_is_paused_with_a_reason_and_that_is_undone(visitor):
    """What runs goes on; the next page offers to take it back."""
    visitor.post("/fleet/queues/default/pause", {"reason": "migration"})
    text = visitor.get("/fleet").text

    assert "migration" == visitor.app.queues.get("default").reason
    assert 'action="/fleet/queues/default/resume"' in text

    visitor.post("/fleet/queues/default/resume", {"reason": "undone"})

    assert not visitor.app.queues.get("default").is_paused


@pytest.mark.parametrize("worker", ["nobody", "-1", "9" * 30, "77"])
def test_a_worker_that_is_none_is_refused(visitor, worker):
    """Named, with what to do."""
    answer = visitor.post(f"/fleet/workers/{worker}/drain", {"reason": "x"})

    assert answer.status_code in {404, 422}
    assert "worker" in answer.text


def test_the_trail_shows_who_why_and_what_changed(visitor):
    """Orders of people and decisions of the system, apart."""
    visitor.app.schedules.pause("hourly", reason="because of <b>")
    text = visitor.get("/audit?subject=hourly").text

    assert "because of &lt;b&gt;" in text
    assert "<del>active</del>" in text
    assert "<ins>paused</ins>" in text
    assert "No entry fits" in visitor.get("/audit?actor=nobody").text


def test_the_trail_shows_from_which_address_and_by_which_session_an_order_came(visitor):
    """An order of a page."""
    visitor.post("/fleet/queues/mail/pause", {"reason": "moving house"})
    (entry,) = visitor.app.audit.page(action="queue.paused", all_tenants=True).items
    text = visitor.get("/audit?action=queue.paused&scope=all").text

    assert ("console", "127.0.0.1") == (entry.source, entry.address)
    assert (entry.credential or "").startswith("session:")
    assert "by console, from 127.0.0.1" in text
    assert entry.credential in text


def test_who_may_only_look_is_offered_no_order(visitor):
    """Buttons that would be refused are not there."""
    visitor.enter("viewer", "default")
    (item,) = visitor.app.inbox.list()
    pages = ("/inbox", f"/inbox/{item.run.id}", "/inbox?kind=dead", "/fleet", "/backfills")
    mains = [re.findall("<main.*</main>", visitor.get(path).text, re.DOTALL)[0] for path in pages]

    assert [[]] * len(pages) == [
        re.findall('<button(?! type="button")[^>]*>', one) for one in mains
    ]
