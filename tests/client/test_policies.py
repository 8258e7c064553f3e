"""Policies as a program has them: presets, quotas, and run times beside intervals."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import Conflict, Misfire, NotFound, OverQuota, Retry, UsageError, cron, every
from duly.domain.enums import Effects
from duly.domain.outcomes import Succeeded
from duly.domain.policies import PRESETS
from duly_conformance import steps as work
from tests.client.conftest import fire, refused

NIGHTLY = cron("0 2 * * *", tz="Europe/Paris")


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_fills_in_what_nobody_has_said(app, tasks, name):
    """And it is kept by name, beside the policies themselves."""
    key = "account:42" if name == "serialized" else None
    made = app.schedules.create("it", tasks.report, NIGHTLY, preset=name, serialize_by=key)

    preset = PRESETS[name]
    assert (name, preset.misfire, preset.overlap) == (made.preset, made.misfire, made.overlap)
    assert made == app.schedules.get("it")
    assert name == made.to_json()["preset"]


def test_what_is_said_wins_over_the_preset(app, tasks):
    made = app.schedules.create(
        "it", tasks.report, NIGHTLY, preset="refresh", misfire="skip", overlap="allow"
    )

    assert ("refresh", Misfire("skip"), "allow") == (made.preset, made.misfire, made.overlap)
    keyed = app.schedules.create("keyed", tasks.report, NIGHTLY, preset="refresh", serialize_by="a")
    assert ("serialize", "a") == (keyed.overlap, keyed.serialize_by)


def test_a_preset_is_taken_on_and_off_by_an_edit(app, tasks):
    """Taken off, its policies stay; what is said in the same edit wins."""
    app.schedules.create("it", tasks.report, NIGHTLY, jitter="1m")
    taken = app.schedules.edit("it", preset="one-result", misfire="latest")
    off = app.schedules.edit("it", preset="none")

    assert ("one-result", Misfire("latest"), "queue-all") == (
        taken.preset,
        taken.misfire,
        taken.overlap,
    )
    assert (None, Misfire("latest"), "queue-all") == (off.preset, off.misfire, off.overlap)
    assert timedelta(minutes=1) == off.jitter


def test_a_declared_preset_is_compared_as_any_policy(app, tasks):
    """And what changes is reported."""
    app.schedule(NIGHTLY, name="it", preset="refresh")(tasks.report)
    app.reconcile()
    again = duly.App(store=app.store)
    task = again.task(name="report")(lambda: None)
    again.schedule(NIGHTLY, name="it")(task)

    changed = again.reconcile().changed

    assert {"it": ("overlap", "preset")} == changed


def test_a_tasks_preset_says_how_often_it_is_tried_and_what_it_may_repeat(app):
    """What that is given wins."""

    @app.task(preset="never-twice")
    def pay() -> None:
        """Do nothing."""

    @app.task(preset="refresh", retry=9)
    def refresh() -> None:
        """Do nothing."""

    policies = app.tasks.policies()
    assert (PRESETS["never-twice"].retry, Effects.UNSAFE) == (
        policies["pay"].retry,
        policies["pay"].effects,
    )
    assert Effects.IDEMPOTENT is policies["refresh"].effects
    assert Retry(9) == policies["refresh"].retry
    with pytest.raises(UsageError, match="preset: 'quick' is not a preset"):
        app.task(preset="quick")(lambda: None)


def test_an_end_users_eleventh_schedule_is_refused(app, tasks):
    """Until an operator allows more."""
    for number in range(10):
        app.schedules.create(f"{number}", tasks.report, NIGHTLY, owner="anna")

    def one_more() -> Any:
        return app.schedules.create("more", tasks.report, NIGHTLY, owner="anna")

    assert "duly quota set owner:anna --schedules N" in refused(app, OverQuota, one_more)
    app.quotas.set("owner:anna", schedules=11)

    assert "more" == one_more().name


def test_quotas_are_set_listed_and_taken_back(app):
    """What holds unless it is set is listed, too."""
    app.quotas.set("tenant:*", pending=100, creations=30)
    app.quotas.set("tenant:*", creations="none", reason="moving in")
    app.quotas.set("owner:anna", tenant="acme", schedules=3)

    assert [
        ("owner:*", None, "schedules", 10, True),
        ("owner:anna", "acme", "schedules", 3, False),
        ("tenant:*", None, "creations", None, False),
        ("tenant:*", None, "pending", 100, False),
    ] == [
        (one.scope, one.tenant, one.counted, one.most, one.is_default) for one in app.quotas.list()
    ]
    app.quotas.remove("owner:anna", tenant="acme")
    app.quotas.set("owner:*", schedules=5)
    assert 5 == app.quotas.list()[0].most
    assert "quota list" in refused(app, NotFound, lambda: app.quotas.remove("owner:anna"))


@pytest.mark.parametrize(
    ("scope", "options", "says"),
    [
        ("owner:anna", {}, "quota: 'owner:anna' is asked to change nothing"),
        ("owner:anna", {"pending": 5}, "pending: 5 is not bounded by owner:anna"),
        ("tenant:acme", {"schedules": -1}, "schedules: -1 is out of range"),
        ("everybody", {"schedules": 1}, "scope: 'everybody' is nobody's quota"),
        ("tenant:acme", {"tenant": "a", "schedules": 1}, "tenant: 'a' says nothing about"),
    ],
)
def test_a_quota_that_nobody_could_keep_is_refused(app, scope, options, says):
    assert says in refused(app, UsageError, lambda: app.quotas.set(scope, **options))


def test_a_declaration_over_a_quota_is_reported_and_the_others_are_made(app, tasks):
    app.quotas.set("tenant:default", schedules=1)
    for name in ("first", "second"):
        app.schedule(NIGHTLY, name=name)(tasks.report)

    report = app.reconcile()

    assert (("first",), ["second"]) == (report.created, [*report.conflicts])
    assert "1 is the most" in report.conflicts["second"]


def test_pending_runs_over_a_quota_are_refused_whole(app, tasks):
    """What runs at once is not pending."""
    app.quotas.set("tenant:default", pending=3)
    app.enqueue_many((tasks.remind.bind(one) for one in range(2)), delay="1h")

    def two_more() -> object:
        return app.enqueue_many((tasks.remind.bind(one) for one in range(2)), delay="2h")

    assert "has 2 delayed runs pending and asks for 2 more" in refused(app, Conflict, two_more)
    app.enqueue_many(tasks.remind.bind(one) for one in range(5))


def test_it_is_told_before_runs_overlap(app, tasks, store, clock):
    """What part of the interval runs take, and a warning while there is still room."""
    app.schedules.create("crawl", tasks.report, every("1m"))
    worker = work.join_worker(store, ttl_us=1 << 50)
    fresh = app.schedules.get("crawl")
    clock.advance("1m")
    fire(app, clock)
    claimed = work.take_one(store, worker)
    clock.advance("50s")
    work.end(store, worker, claimed, Succeeded(None))

    slow = app.schedules.get("crawl")

    assert fresh.run_times is not None
    assert (timedelta(minutes=1), None) == (fresh.run_times.interval, fresh.run_times.ratio)
    assert slow.run_times is not None
    assert 0.8 <= (slow.run_times.ratio or 0) < 0.9
    assert "of the 1 minute until the next one: a little slower" in (slow.warning or "")
    assert slow.warning == slow.to_json()["warning"]
    (listed,) = app.schedules.list(with_run_times=True)
    assert slow.run_times == listed.run_times
    assert app.schedules.list()[0].run_times is None
