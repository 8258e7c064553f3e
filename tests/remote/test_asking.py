"""Looking at a server and giving it orders, over a real connection."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

import duly
from duly import Conflict
from duly.interface.backfills import PlanBackfill
from duly.interface.runs import Run
from duly.interface.schedules import Schedule
from duly.remote.transport import said
from duly_conformance import alerts


def test_schedules_are_made_looked_at_and_changed(remote):
    """A program anywhere orders what a program beside the store does."""
    made = remote.schedules.create(
        "a/b ü", "report", "0 2 * * *", tz="Europe/Berlin", misfire=duly.Misfire("skip")
    )
    paused = remote.schedules.pause("a/b ü", reason="holidays", until="2027-01-01T00:00Z")
    edited = remote.schedules.edit(made.id, when=duly.every("2h"), reason="more often")
    deleted = remote.schedules.delete("a/b ü", reason="over")

    assert isinstance(made, Schedule)
    assert ("skip", "Europe/Berlin") == (made.misfire.policy, made.timetable["tz"])
    assert ("paused", "holidays") == (paused.status, paused.reason)
    assert "every 2 hours" in edited.description
    assert "deleted" == deleted.status
    assert ["deleted", "edited", "paused", "created"] == [
        one.action.partition(".")[2] for one in remote.schedules.history(made.id)
    ]
    assert "paused" == remote.schedules.restore(made.id).status


def test_runs_are_promised_found_and_stopped(remote):
    later = remote.enqueue("report", key="later", delay=timedelta(hours=3))
    moved = remote.move("later", at=datetime(2026, 4, 4, tzinfo=UTC), reason="not yet")
    pending = remote.delayed.get("later")
    cancelled = remote.cancel("later", reason="never mind")
    now = remote.enqueue_many([("report", {}), ("fail", {"how": "well"})], queue="other")

    assert later.is_new
    assert moved == pending
    assert datetime(2026, 4, 4, tzinfo=UTC) == moved.due_at
    assert "cancelled" == cancelled.state
    assert isinstance(cancelled, Run)
    assert ["queued"] * 2 == [remote.runs.get(one.id).state for one in now]
    assert "cancelled" == remote.runs.cancel(now[0].id, reason="no").state
    assert [one.id for one in now[1:]] == [
        one.id for one in remote.runs.list(queue="other", state=["queued"])
    ]


def test_lists_are_read_page_by_page(remote, app):
    every = app.runs.list(limit=1000)
    first = remote.runs.page(limit=2)

    assert len(every) > 2
    assert [one.id for one in every] == [one.id for one in remote.runs.list(limit=1000)]
    assert [one.id for one in every[:2]] == [one.id for one in first.items]
    assert first.next_cursor is not None
    assert 1 == len(remote.runs.list(limit=1))


def test_no_state_at_all_is_refused_as_it_is_here(remote, app):
    """An empty list is not every state, and nobody takes it for that."""
    for of in (app, remote):
        with pytest.raises(duly.UsageError, match=r"^state: \[\] "):
            of.runs.list(state=[])


def test_a_set_is_said_in_the_same_words_whatever_its_order():
    """Under the same key it is the same order."""
    words = {"skipped", "missing", "failed", "cancelled", "expired"}

    assert sorted(words) == said(PlanBackfill, classes=words)["classes"]


def test_a_run_in_doubt_is_looked_at_and_decided(remote):
    """Somebody elsewhere sees what is safest, and decides."""
    (item,) = remote.inbox.list()
    effects = {one.key: one.state for one in remote.inbox.effects(item.run.id)}
    found = {"is_done": True, "reason": "the bank has it", "evidence": {"receipt": 7}}
    with pytest.raises(Conflict, match="0 of 2 items done"):
        remote.inbox.reconcile(item.run.id, **found)
    settled = remote.inbox.reconcile(item.run.id, **found, despite_missing=True)

    assert "ambiguous" == item.run.state
    assert ("retry", ["a", "b"]) == (item.advice.safest, item.scope.missing)
    assert {"pay:a": "done", "pay:b": "unknown"} == effects
    assert ("succeeded", "reconciled-incomplete") == (settled.state, settled.reason)
    assert [] == remote.inbox.list()


def test_a_backfill_that_was_called_off_is_gone_on_from(remote):
    span = {"since": "2026-04-02T10:00Z", "until": "2026-04-02T14:00Z"}
    old = remote.backfills.create("hourly", **span)
    remote.backfills.cancel(old.id, reason="too much")
    rest = remote.backfills.plan_rest(old.id)
    new = remote.backfills.resume_from(old.id, reason="go on", runs=rest.runs)

    assert (4, old.id) == (rest.runs, new.resumes)
    assert old.id == remote.backfills.get(new.id).resumes


def test_many_are_ordered_about_as_they_were_seen(remote):
    """A program anywhere looks first, and then orders about just that."""
    for name in ("bulk-a", "bulk-b"):
        remote.schedules.create(name, "report", "1h")
    frozen = remote.schedule_selections.freeze(name_prefix="bulk-")
    preview = remote.schedule_selections.preview(frozen.id, "pause")
    remote.schedules.edit("bulk-b", owner="ben")
    done = remote.schedule_selections.pause(frozen.id, reason="r", confirm=2)
    paused = remote.schedule_selections.freeze(schedules=["bulk-a"])
    back = remote.schedule_selections.resume(paused.id, reason="r")
    runs = remote.selections.freeze(state=["succeeded"], limit=1)
    rerun = remote.selections.rerun(runs.id, reason="once more")
    doubts = remote.selections.freeze(state=["ambiguous"], limit=1)

    assert (2, 2, frozen.digest) == (preview.count, preview.touched, preview.digest)
    assert [("bulk-a", True), ("bulk-b", False)] == [
        (one.name, one.is_done) for one in done.schedules
    ]
    assert 1 == back.done
    assert ("rerun", 1) == (remote.runs.get(rerun.runs[0].made).origin, rerun.done)
    assert "skip" == remote.selections.preview(doubts.id, "skip").order


def test_events_go_on_where_somebody_was(remote):
    """Whoever comes back is told all that happened since, once and in order."""
    remote.schedules.create("watched", "report", "1h")
    remote.schedules.pause("watched", reason="a")
    with closing(remote.events(after=0)) as events:
        created = next(one for one in events if one.subject == "watched")
    with closing(remote.events(after=created.number)) as events:
        paused = next(events)

    assert ("schedule.created", "schedule.paused") == (created.action, paused.action)


def test_a_token_of_every_tenant_follows_what_happens_to_all(server, app):
    """And one of a tenant does not."""
    _, url, token = server
    acme = app.within(tenant="acme", actor="eve")
    viewer = app.tokens.create("ben", role="viewer", tenant="acme").text
    start = app.events.after(None, all_tenants=True).through
    acme.schedules.create("theirs", app.call("report"), duly.every("1h"))
    app.schedules.create("of-ours", app.call("report"), duly.every("1h"))
    with duly.connect(url, token=token) as all_of_them, duly.connect(url, token=viewer) as one:
        with closing(all_of_them.events(start, all_tenants=True)) as told:
            seen = [entry.subject for entry in islice(told, 2)]
        with closing(all_of_them.events(start)) as told:
            ours = next(told).subject
        with pytest.raises(duly.Forbidden, match="all_tenants"):
            next(one.events(start, all_tenants=True))
        with closing(one.events(start)) as told:
            own = next(told).subject

    assert (["theirs", "of-ours"], "of-ours", "theirs") == (seen, ours, own)


def test_no_number_goes_ahead_of_what_it_stands_for(remote):
    """Whoever is cut off right after a number has been told all up to it."""
    with closing(remote.events.stream(0)) as stream:
        numbers = [number for number, _ in islice(stream, 5)]

    assert sorted(numbers) == numbers


@pytest.mark.parametrize(
    ("order", "kind", "parts"),
    [
        (
            lambda one: one.schedules.create("x", "report", "never mind"),
            duly.UsageError,
            {"field": "when", "value": "never mind"},
        ),
        (
            lambda one: one.schedules.get("nowhere"),
            duly.NotFound,
            {"what": "schedule", "name": "nowhere"},
        ),
        (
            lambda one: one.schedules.edit("hourly", version=99, priority=1),
            duly.Outdated,
            {"what": "schedule"},
        ),
        (
            lambda one: one.alerts.set_rule("overlap", version=99, threshold=1),
            duly.Outdated,
            {"what": "alert rule", "name": "overlap"},
        ),
        (
            lambda one: one.alerts.add_channel("ops", "log", version=99),
            duly.Outdated,
            {"what": "alert channel"},
        ),
        (lambda one: one.runs.discard("x@y", reason="r"), duly.NotFound, {"what": "run"}),
        (lambda one: one.enqueue("report", delay="soon"), duly.UsageError, {"field": "delay"}),
    ],
)
def test_refusals_are_the_errors_of_the_library(remote, app, order, kind, parts):
    """The same error, with its field, value and remedy, wherever it was raised."""
    with pytest.raises(kind) as caught:
        order(remote)

    error = caught.value
    assert kind is type(error)
    assert parts == {name: getattr(error, name) for name in parts}
    assert str(error).endswith(f"; {error.remedy}")


def test_an_error_is_the_same_sentence_here_and_there(remote, app):
    calls = [
        lambda one: one.schedules.get("nowhere"),
        lambda one: one.schedules.pause("hourly", until="yesterday"),
        lambda one: one.inbox.get(one.runs.list(state="succeeded", limit=1)[0].id),
        lambda one: one.runs.list(state="asleep"),
    ]

    for call in calls:
        with pytest.raises(duly.DulyError) as here:
            call(app)
        with pytest.raises(duly.DulyError) as there:
            call(remote)
        assert (type(here.value), str(here.value)) == (type(there.value), str(there.value))


@pytest.mark.parametrize(
    "terms",
    [
        {},
        {"state": None},
        {"state": "succeeded"},
        {"state": ("succeeded", "dead")},
        {"state": None, "origin": "schedule"},
        {"state": None, "origin": ["schedule", "now"], "lane": "live"},
        {"error": "no"},
    ],
    ids=str,
)
def test_the_same_filter_freezes_the_same_runs_here_and_there(remote, app, terms):
    """Dead ones unless told, those of every state if None is said, one word or several."""
    here = app.selections.freeze(**terms)
    there = remote.selections.freeze(**terms)

    assert (len(here), here.digest) == (there.count, there.digest)


def test_alerts_of_several_states_are_listed_here_and_there(remote, app):
    """Of one state, of several, or all of them."""
    fence = alerts.watch(app.store)
    over, mail = (alerts.condition(f"queue {name}") for name in ("over", "mail"))
    alerts.look(app.store, fence, over, mail)
    alerts.look(app.store, fence, mail)
    app.store.release_watch(fence)

    def seen(of, state) -> set[tuple[str, str]]:
        return {(one.subject, one.state) for one in of.alerts.list(state=state)}

    both = {("queue over", "resolved"), ("queue mail", "open")}
    for state, expected in (
        ("open", {("queue mail", "open")}),
        (["open", "resolved"], both),
        ("all", both),
    ):
        assert expected == seen(app, state) == seen(remote, state)
    for of in (app, remote):
        with pytest.raises(duly.UsageError, match="'loud'"):
            of.alerts.list(state=["open", "loud"])


def test_a_term_that_nobody_knows_is_refused_before_anything_is_sent(remote):
    with pytest.raises(duly.UsageError, match="colour"):
        remote.runs.list(colour="red")


def test_nobody_comes_in_by_another_token(server):
    with (
        duly.connect(server[1], token="duly_nothing") as stranger,  # noqa: S106
        pytest.raises(duly.Unauthenticated),
    ):
        stranger.status()


def test_a_token_does_what_its_role_may(server):
    app, url, _ = server
    viewer = app.tokens.create("vera", role="viewer", tenant="default")
    with duly.connect(url, token=viewer.text) as remote:
        assert remote.status().schedules
        with pytest.raises(duly.Forbidden):
            remote.enqueue("report")
