"""Owners who are gone, as a program says it: on each store."""

from __future__ import annotations

from typing import Any

import pytest

import duly
from duly import Conflict, NotFound, UsageError, every
from duly.client import limits
from duly.client.schedule_orders import apply_order
from duly.domain.quotas import OWNER_GONE
from duly.errors import StoreUnavailable
from duly.store.ports.queries import AuditFilter
from duly_conformance.kit import HOUR_US


@pytest.fixture
def store(kept):
    return kept[0]


@pytest.fixture
def clock(kept):
    return kept[1]


@pytest.fixture
def app(store, clock):
    app = duly.App(store=store, clock=clock, actor="root")
    app.task(name="remind")(lambda: None)
    store.register_tasks(["remind"])
    return app


def make(app: duly.App, *names: str, owner: str | None = "ada") -> list[Any]:
    call = app.call("remind")
    return [app.schedules.create(one, call, every("1h"), owner=owner) for one in names]


def entries(app: duly.App, action: str) -> list[Any]:
    return app.store.list_audit(AuditFilter(tenant=app.tenant, action=action))


def test_the_schedules_of_an_owner_who_is_gone_are_paused_and_say_why(app, store, clock):
    """With an entry each; nobody else's are touched, and none is deleted."""
    make(app, "one", "two")
    make(app, "his", owner="bob")
    make(app, "nobody's", owner=None)
    rests = app.schedules.pause(make(app, "rests")[0].id, reason="holidays")
    said_at = store.now()

    answer = app.owners.gone("ada", reason="left the company")

    assert ("ada", "default", "root", 2, 0) == (
        answer.owner,
        answer.tenant,
        answer.said_by,
        answer.paused,
        answer.active,
    )
    reason = f"{OWNER_GONE}: 'ada' (left the company)"
    seen = {one.name: (one.status, one.reason) for one in app.schedules.list()}
    assert {
        "one": ("paused", reason),
        "two": ("paused", reason),
        "rests": ("paused", rests.reason),
        "his": ("active", None),
        "nobody's": ("active", None),
    } == seen
    (said,) = entries(app, "owner.gone")
    assert ("ada", "root", "left the company") == (said.subject, said.actor.name, said.actor.reason)
    paused = [one for one in entries(app, "schedule.paused") if one.actor.reason != "holidays"]
    assert {("one", "left the company"), ("two", "left the company")} == {
        (one.subject, one.actor.reason) for one in paused
    }
    clock.set(said_at + 5 * HOUR_US)
    app.dispatcher().tick()
    assert {"his", "nobody's"} == {one.schedule for one in app.runs.list()}


def test_a_pause_until_a_date_has_no_end_for_who_is_gone(app, store):
    """It would go on by itself, and fire for nobody."""
    (made,) = make(app, "one")
    app.schedules.pause(made.id, until="2099-01-01T00:00Z")

    assert 1 == app.owners.gone("ada", reason="left").paused

    seen = app.schedules.get("one")
    assert ("paused", None) == (seen.status, seen.resume_at)


def test_nothing_is_made_resumed_or_restored_for_who_is_gone(app):
    """Until somebody takes it over; also what was deleted."""
    make(app, "kept", "thrown away")
    app.schedules.delete("thrown away", reason="tidy")
    app.owners.gone("ada", reason="left")
    for order in (
        lambda: make(app, "new"),
        lambda: app.schedules.resume("kept"),
        lambda: app.schedules.restore("thrown away"),
    ):
        with pytest.raises(Conflict, match=r"'ada' is gone, as root has said .* duly owner back"):
            order()

    for name in ("kept", "thrown away"):
        assert "bob" == app.schedules.edit(name, owner="bob").owner
    assert "active" == app.schedules.resume("kept").status
    assert "active" == app.schedules.restore("thrown away").status
    assert {"bob"} == {one.owner for one in app.schedules.list()}


def test_a_declaration_of_who_is_gone_is_reported_and_the_others_are_made(app):
    app.schedule(every("1h"), name="hers", owner="ada")(app.tasks.find("remind"))
    app.schedule(every("1h"), name="ours")(app.tasks.find("remind"))
    app.owners.gone("ada", reason="left")

    report = app.reconcile()

    assert ("ours",) == report.created
    assert "is gone" in report.conflicts["hers"]


def test_an_order_that_was_broken_off_goes_on_when_it_is_given_again(app, store, monkeypatch):
    """S6, FAULT: what was paused stays paused, nobody gets anything new, and the rest is found."""
    make(app, "one", "two", "three")
    done: list[object] = []

    def dies(*parts: Any) -> Any:
        if done:
            raise StoreUnavailable("store", "the connection is gone", "try again")
        done.append(parts)
        return apply_order(*parts)

    monkeypatch.setattr(limits, "apply_order", dies)
    with pytest.raises(StoreUnavailable):
        app.owners.gone("ada", reason="left")
    monkeypatch.undo()

    assert [2] == [one.active for one in app.owners.list()]
    with pytest.raises(Conflict):
        make(app, "new")
    again = app.owners.gone("ada", reason="left")
    assert (2, 0) == (again.paused, again.active)
    assert {"paused"} == {one.status for one in app.schedules.list()}
    assert 1 == len(entries(app, "owner.gone"))
    assert 3 == len(entries(app, "schedule.paused"))


def test_one_order_pauses_so_many_and_tells_how_many_are_left(app, monkeypatch):
    """Whoever has thousands gives it again."""
    monkeypatch.setattr(limits, "ONE_BY_ONE_MAX", 2)
    make(app, *"abcde")
    orders = [app.owners.gone("ada", reason="left") for _ in range(4)]

    assert [(2, 3), (2, 1), (1, 0), (0, 0)] == [(one.paused, one.active) for one in orders]


def test_what_changes_hands_meanwhile_is_left_to_who_has_it(app, store, monkeypatch):
    """It is compared once more in the transaction that would pause it."""
    (made,) = make(app, "one")
    found = store.list_active_of("default", "ada", 10)
    app.schedules.edit(made.id, owner="bob")
    monkeypatch.setattr(type(store), "list_active_of", lambda *_: found)

    answer = app.owners.gone("ada", reason="left")

    assert 0 == answer.paused
    assert "active" == app.schedules.get("one").status


def test_one_that_is_removed_meanwhile_stops_none_of_the_others(app, monkeypatch):
    """Retention may be faster."""
    make(app, "one", "two")

    def removed(*parts: Any) -> Any:
        if parts[1].record.name == "one":
            raise NotFound("schedule", "one", "it was removed")
        return apply_order(*parts)

    monkeypatch.setattr(limits, "apply_order", removed)

    assert 1 == app.owners.gone("ada", reason="left").paused
    assert "paused" == app.schedules.get("two").status


def test_a_name_with_spaces_is_quoted_where_it_is_to_be_copied(app):
    """A shell gets one word."""
    acme = app.within(tenant="a me", actor="anna")
    acme.owners.gone("ada; reboot", reason="left")

    with pytest.raises(Conflict, match=r"duly owner back 'ada; reboot' --tenant 'a me'$"):
        make(acme, "new", owner="ada; reboot")


def test_who_is_back_has_schedules_again_and_resumes_them(app):
    make(app, "one")
    app.owners.gone("ada", reason="left")

    was = app.owners.back("ada", reason="hired again")

    assert ("ada", 0) == (was.owner, was.active)
    assert [] == app.owners.list()
    assert "paused" == app.schedules.get("one").status
    assert "active" == app.schedules.resume("one").status
    (entry,) = entries(app, "owner.back")
    assert "hired again" == entry.actor.reason
    with pytest.raises(NotFound, match="duly owner list"):
        app.owners.back("ada")


def test_an_owner_is_one_of_a_tenant(app):
    """Of the same name elsewhere, they are somebody else."""
    acme = app.within(tenant="acme", actor="anna", is_confined=True)
    make(acme, "theirs")
    make(app, "ours")

    acme.owners.gone("ada", reason="left")

    assert ("paused", "active") == (
        acme.schedules.get("theirs").status,
        app.schedules.get("ours").status,
    )
    assert [] == app.owners.list()
    assert ["acme"] == [one.tenant for one in acme.owners.list()]
    with pytest.raises(Conflict, match=r"duly owner back ada --tenant acme$"):
        make(acme, "new")
    make(app, "new")


def test_the_command_that_has_them_back_can_be_typed_as_it_is(app):
    """Also for a name of two words."""
    app.owners.gone("ada lovelace", reason="left")

    with pytest.raises(Conflict, match=r"duly owner back 'ada lovelace'$"):
        make(app, "hers", owner="ada lovelace")


def test_those_who_are_gone_are_listed_by_name(app):
    """A page at a time."""
    for name in "cab":
        app.owners.gone(name, reason="left")
    first = app.owners.page(limit=2)
    rest = app.owners.page(limit=2, after=first.after)

    assert (["a", "b"], "b") == ([one.owner for one in first.items], first.after)
    assert (["c"], None) == ([one.owner for one in rest.items], rest.after)
    assert [] == [one for one in app.quotas.list() if not one.is_default]


@pytest.mark.parametrize(
    ("order", "problem"),
    [
        (lambda app: app.owners.gone(None, reason="left"), "owner is missing"),
        (lambda app: app.owners.gone(" ", reason="left"), "owner: ' ' is empty"),
        (lambda app: app.owners.gone("a" * 201, reason="left"), "owner: "),
        (lambda app: app.owners.gone("ada", reason=""), "reason: '' is missing"),
        (lambda app: app.owners.back("\n"), "owner: "),
        (lambda app: app.owners.list(limit=0), "limit: 0 is out of range"),
        (lambda app: app.owners.list(after=3), "after: 3 "),
    ],
)
def test_what_names_no_owner_is_refused(app, order, problem):
    """And nothing is said of anybody."""
    with pytest.raises(UsageError, match=problem):
        order(app)

    assert [] == app.owners.list()
