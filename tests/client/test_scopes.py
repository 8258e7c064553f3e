"""One scope for the whole screen: all tenants for an operator, one's own for a tenant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import duly
from duly import Forbidden, every
from duly.client import status
from duly.domain.alert_rules import AlertKind
from duly.domain.runs import TASK_GONE
from duly_conformance import alerts
from duly_conformance import steps as work
from duly_conformance.kit import HOUR_US

if TYPE_CHECKING:
    from duly.domain.alerts import Condition

ACME, GLOBEX = "acme", "globex"


@pytest.fixture
def app(kept) -> duly.App:
    """As the command line has it: on the store itself, in the default tenant."""
    operator = duly.App(store=kept[0], clock=kept[1], actor="operator")
    operator.task(name="report")(lambda: None)
    return operator


def within(app: duly.App, tenant: str, *, is_confined: bool = True) -> duly.App:
    return app.within(tenant=tenant, actor="anna", is_confined=is_confined)


def stale(name: str) -> Condition:
    """Say of a schedule that its last completion is old."""
    return alerts.condition(
        f"schedule {name}",
        kind=AlertKind.STALE_COMPLETION,
        tenant="default",
        labels={"schedule": name},
    )


def test_work_that_is_stale_in_any_tenant_is_an_operators_finding(app, kept):
    """Whoever sees all is not told that all is well, while one tenant's work is not done."""
    acme = within(app, ACME)
    acme.schedules.create("nightly", acme.call("report"), every("1h"))
    kept[1].set(kept[0].now() + 16 * HOUR_US)

    (seen,) = app.status().stale
    (own,) = acme.status().stale

    assert "stale-completion" == seen.code == own.code
    assert seen.problem == f"in tenant acme, {own.problem}"
    assert f"{own.remedy} --tenant acme" == seen.remedy
    assert seen in app.health().work
    assert () == within(app, GLOBEX).status().stale
    assert () == app.status(own=True).stale


def test_what_alerts_are_about_is_judged_beyond_the_first_by_name(app, kept, monkeypatch):
    """Of more schedules than are asked, those that alerts have found; it is said how many."""
    monkeypatch.setattr(status, "STALE_LOOKED_AT_MAX", 2)
    store, clock = kept
    for name in "abcd":
        app.schedules.create(name, app.call("report"), every("1h"))
    app.schedules.pause("d")
    clock.set(store.now() + 16 * HOUR_US)
    assert (2, 2) == (app.status().judged, len(app.status().stale))
    fence = alerts.watch(store)
    alerts.look(store, fence, *(stale(name) for name in ("b", "c", "d", "no longer there")))

    seen = app.status()

    assert (3, {"active": 3, "paused": 1}) == (seen.judged, seen.schedules)
    assert ["a", "b", "c"] == [one.remedy.split()[-1] for one in seen.stale]
    assert 3 == seen.to_json()["judged"]
    assert 0 == within(app, ACME).status().judged
    assert 0 == app.status(with_stale=False).judged


def test_alerts_about_those_that_are_asked_anyway_take_nobodys_place(app, kept, monkeypatch):
    """So many more are asked as are said."""
    monkeypatch.setattr(status, "STALE_LOOKED_AT_MAX", 2)
    monkeypatch.setattr(status, "SUSPECTS_MAX", 1)
    store, clock = kept
    for name in "abc":
        app.schedules.create(name, app.call("report"), every("1h"))
    clock.set(store.now() + 16 * HOUR_US)
    fence = alerts.watch(store)
    for names in ("c", "abc"):
        alerts.look(store, fence, *(stale(name) for name in names))
        clock.set(store.now() + 1)

    assert ["a", "b", "c"] == [one.remedy.split()[-1] for one in app.status().stale]


def test_schedules_without_their_tasks_code_are_named_with_their_tenant(app):
    acme = within(app, ACME)
    acme.schedules.create("nightly", acme.call("report"), every("1h"))
    acme.schedules.pause("nightly", reason=f"{TASK_GONE}: report")

    assert ("nightly of tenant acme",) == app.status().taskless
    assert ("nightly",) == acme.status().taskless
    assert () == within(app, GLOBEX).status().taskless


def test_open_runs_are_told_by_tenant_to_who_sees_all_alone(app, kept):
    """A tenant is not told that there are others."""
    work.make_dead(kept[0], "dead", tenant=ACME)
    work.queue(kept[0], "queued", tenant=GLOBEX)
    found = app.status()

    assert {ACME: {"dead": 1}, GLOBEX: {"queued": 1}} == found.tenants
    assert (1, 1, None) == (found.dead, found.queued, found.tenant)
    assert {} == within(app, ACME).status().tenants
    assert (1, 0) == (within(app, ACME).status().dead, within(app, GLOBEX).status().dead)


def test_an_operator_may_look_at_one_tenant_only(app, kept):
    """Counts, findings and lists are then all of it."""
    work.make_dead(kept[0], "dead", tenant=ACME)
    own = within(app, ACME, is_confined=False).status(own=True)
    other = app.status(own=True)

    assert (1, ACME, {}) == (own.dead, own.tenant, own.tenants)
    assert (0, "default", {}) == (other.dead, other.tenant, other.tenants)


def test_speaking_for_another_tenant_is_refused_to_a_tenants_caller(app):
    """The name of who acts may change, whose promises it is about may not."""
    acme = within(app, ACME)

    assert ACME == acme.acting_as("bea", "cli").tenant
    assert GLOBEX == app.acting_as("bea", "cli", GLOBEX).tenant
    with pytest.raises(Forbidden, match="may not speak for another tenant"):
        acme.acting_as("bea", "cli", GLOBEX)
