"""Alerts in a program's hands: looking, taking note, silencing, rules and channels."""

from __future__ import annotations

import logging
from datetime import timedelta
from functools import partial
from uuid import UUID

import pytest

import duly
from duly.engine.manual_clock import ManualClock
from duly.errors import Conflict, Forbidden, NotFound, Outdated, UsageError
from duly.store.memory import MemoryStore
from duly_conformance import alerts, steps
from tests.engine.alerts.alert_rig import GuardRoom


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def app(clock):
    return duly.App(store=MemoryStore(clock), clock=clock, actor="anna")


def raised(app, *conditions):
    """Have something be wrong; return the newest alert."""
    fence = alerts.watch(app.store)
    alerts.look(app.store, fence, *(conditions or [alerts.condition()]))
    app.store.release_watch(fence)
    return app.alerts.list(state="all")[0]


def test_an_alert_tells_what_is_so_and_who_was_told(app):
    listed = raised(app)
    found = app.alerts.get(listed.id)

    assert [listed] == app.alerts.list()
    assert ("queue-age", "queue mail", "open", "warn", None, False) == (
        found.kind,
        found.subject,
        found.state,
        found.severity,
        found.tenant,
        found.is_silenced,
    )
    assert {"log", "mail"} == {one.channel for one in found.deliveries}
    assert found.to_json()["evidence"] == {"queued": 3, "names": ["a", "ß"]}
    assert found == app.alerts.get(str(found.id))


def test_alerts_are_listed_by_state_and_kind(app):
    """Those that are open, unless told."""
    raised(app)
    raised(app, alerts.condition("queue b"))

    assert ["queue b"] == [one.subject for one in app.alerts.list()]
    assert ["queue mail"] == [one.subject for one in app.alerts.list(state="resolved")]
    assert 2 == len(app.alerts.list(state=["open", "resolved"], kind="queue-age"))
    assert 1 == len(app.alerts.list(state="all", limit=1))
    assert [] == app.alerts.list(kind="early-fire")
    for wrong in ({"state": "new"}, {"kind": "loud"}, {"limit": 0}):
        with pytest.raises(UsageError):
            app.alerts.list(**wrong)


def test_somebody_takes_note(app):
    alert = raised(app)
    with pytest.raises(UsageError, match="reason is missing"):
        app.alerts.acknowledge(alert.id, reason=None)
    noted = app.alerts.acknowledge(alert.id, reason="on it")

    assert ("anna", "on it") == (noted.acknowledged_by, noted.acknowledged_reason)
    raised(app, alerts.condition("queue b"))
    with pytest.raises(Conflict, match="is resolved"):
        app.alerts.acknowledge(alert.id, reason="late")
    with pytest.raises(NotFound, match="was not found"):
        app.alerts.get(UUID(int=7))


def test_a_silence_is_made_listed_and_ended(app, clock):
    """For a while, or until an instant."""
    made = app.alerts.silence(
        duration="2h", kind=["queue-age", "queue-depth"], subject="queue *", reason="deploy"
    )
    until = clock.now() + timedelta(hours=1)
    other = app.alerts.silence(until=until, reason="lunch", id=UUID(int=5))

    assert ("anna", "deploy", ("queue-age", "queue-depth"), "queue *") == (
        made.set_by,
        made.reason,
        made.kinds,
        made.subject,
    )
    assert (clock.now() + timedelta(hours=2), until) == (made.until, other.until)
    assert {made.id, UUID(int=5)} == {one.id for one in app.alerts.silences()}
    assert [True, False] == [app.alerts.unsilence(made.id, reason="done") for _ in range(2)]
    clock.advance("1h")
    assert [] == app.alerts.silences()


@pytest.mark.parametrize(
    ("terms", "field"),
    [
        ({}, "duration"),
        ({"duration": "1h", "until": "2099-01-01T00:00Z"}, "duration"),
        ({"duration": "0s"}, "duration"),
        ({"duration": "400d"}, "duration"),
        ({"until": "2001-01-01T00:00Z"}, "until"),
        ({"duration": "1h", "kind": "loud"}, "kind"),
        ({"duration": "1h", "subject": " "}, "subject"),
    ],
)
def test_a_bad_silence_gets_one_clear_error(app, terms, field):
    with pytest.raises(UsageError) as caught:
        app.alerts.silence(reason="r", **terms)

    assert field == caught.value.field


def test_a_rule_is_set_changed_and_taken_back(app):
    """What is not given stays."""
    usual = {one.name: one for one in app.alerts.rules()}
    app.alerts.set_rule("queue-age", threshold="1m", severity="page", reason="strict")
    app.alerts.set_rule("queue-age", hold_for="2m")
    app.alerts.set_rule("mail", kind="queue-age", queue="mail", threshold=5, channels=["log"])
    found = {one.name: one for one in app.alerts.rules()}

    assert len(usual) + 1 == len(found)
    assert all(one.is_default for one in usual.values())
    assert (60.0, "page", "2m", "anna", False) == (
        found["queue-age"].threshold,
        found["queue-age"].severity,
        found["queue-age"].hold_for,
        found["queue-age"].set_by,
        found["queue-age"].is_default,
    )
    assert ("mail", ("log",)) == (found["mail"].queue, found["mail"].channels)
    assert [True, False] == [app.alerts.remove_rule("queue-age") for _ in range(2)]
    assert usual["queue-age"] == {one.name: one for one in app.alerts.rules()}["queue-age"]
    actions = [one.action for one in steps.audit(app.store)]
    assert 3 == actions.count("alert-rule.set")


def test_who_was_slower_is_told_so(app):
    """Of rules, channels and silences; 0 stands for what nobody has set."""
    first = app.alerts.set_rule("queue-age", threshold="1m", version=0)
    app.alerts.set_rule("queue-age", threshold="2m", version=first.version)
    channel = app.alerts.add_channel("ops", "log", version=0)
    silence = app.alerts.silence(duration="1h", reason="moving")
    slow = (
        partial(app.alerts.set_rule, "queue-age", threshold="3m", version=first.version),
        partial(app.alerts.remove_rule, "queue-age", version=first.version),
        partial(app.alerts.remove_channel, "ops", version=channel.version - 1),
        partial(app.alerts.unsilence, silence.id, version=silence.version - 1),
    )

    for order in slow:
        with pytest.raises(Outdated, match="was set by anna"):
            order()
    rules = {one.name: one for one in app.alerts.rules()}
    assert (120, 0) == (rules["queue-age"].threshold, rules["overlap"].version)
    assert app.alerts.unsilence(silence.id, version=silence.version)
    for wrong in (-1, True, "1"):
        with pytest.raises(UsageError, match="is not a version"):
            app.alerts.remove_rule("queue-age", version=wrong)


class Interrupted:
    """A store to which somebody else speaks right after it was looked at."""

    def __init__(self, store, speak) -> None:
        self._store = store
        self._speak = speak

    def __getattr__(self, name):
        found = getattr(self._store, name)
        if name != "list_alert_terms":
            return found

        def listed(sort):
            seen = found(sort)
            speak, self._speak = self._speak, None
            if speak is not None:
                speak()
            return seen

        return listed


def test_parts_that_somebody_else_sets_at_that_moment_stay(app, clock):
    """It is decided anew."""
    store = Interrupted(app.store, partial(app.alerts.set_rule, "queue-age", hold_for="2m"))
    other = duly.App(store=store, clock=clock, actor="ben")
    made = other.alerts.set_rule("queue-age", threshold="1m")

    assert (60, "2m", "ben") == (made.threshold, made.hold_for, made.set_by)


def test_what_a_person_says_while_a_file_is_read_stays_said(app, clock, tmp_path):
    """It is reported, as all that was set by hand."""
    file, text = tmp_path / "alerts.toml", "[alerts.rules.queue-age]\nthreshold = '15m'\n"
    declaring(app.store, clock, file, text).reconcile()
    store = Interrupted(app.store, partial(app.alerts.set_rule, "queue-age", threshold="1m"))
    report = declaring(store, clock, file, text.replace("15m", "20m")).reconcile()
    rules = {one.name: one for one in app.alerts.rules()}

    assert ["alert rule queue-age"] == list(report.conflicts)
    assert 60 == rules["queue-age"].threshold


def test_a_channel_is_added_tried_and_removed(app, caplog):
    """The log is there unless somebody says other."""
    with caplog.at_level(logging.INFO, logger="duly.alerts"):
        made = app.alerts.add_channel("ops", "log", reason="for all")
        tried = app.alerts.test_channel("ops")

    assert ["log", "ops"] == [one.name for one in app.alerts.channels()]
    assert (True, "ops", "anna") == (tried.is_done, tried.channel, made.set_by)
    assert "test of the channel ops" in caplog.text
    assert [True, False] == [app.alerts.remove_channel("ops") for _ in range(2)]
    with pytest.raises(NotFound):
        app.alerts.test_channel("ops")
    with pytest.raises(UsageError, match="is not a kind of channel"):
        app.alerts.add_channel("ops", "pigeon")


def test_what_people_say_is_what_the_watcher_goes_by(app, clock):
    """Rules, channels and silences, from the next look on."""
    guard = GuardRoom(app.store, clock)
    app.enqueue(app.task(name="remind")(lambda: None), queue="mail")
    app.alerts.set_rule("no-executions", threshold="20m", hold_for="0s", channels=["ops"])
    app.alerts.add_channel("ops", "log")
    guard.look(40)
    before = guard.subjects("no-executions")
    app.alerts.silence(subject="queue mail", duration="1h", reason="known")
    guard.look(60)
    during = (guard.subjects("no-executions"), guard.told("no-executions"))
    guard.look(240)

    assert ([], (["queue mail"], [])) == (before, during)
    assert [("raised", "queue mail")] == guard.told("no-executions")
    (alert,) = app.alerts.list(kind="no-executions")
    assert ["ops"] == [one.channel for one in app.alerts.get(alert.id).deliveries]


def test_a_tenant_sees_and_silences_its_own(app):
    """And neither rules nor channels, which are everybody's."""
    raised(app, alerts.condition("schedule x", tenant="acme"), alerts.condition())
    ours = app.within(tenant="acme", actor="ada")
    made = ours.alerts.silence(duration="1h", reason="r")

    assert ["schedule x"] == [one.subject for one in ours.alerts.list()]
    assert ("acme", 2) == (made.tenant, len(app.alerts.list()))
    assert [made] == app.alerts.silences()
    theirs = app.within(tenant="else", actor="eve")
    assert ([], [], False) == (
        theirs.alerts.list(),
        theirs.alerts.silences(),
        theirs.alerts.unsilence(made.id),
    )
    for forbidden in (ours.alerts.rules, ours.alerts.channels):
        with pytest.raises(Forbidden):
            forbidden()


DECLARED = """
[alerts.rules.queue-age]
threshold = "10m"
severity = "page"

[alerts.rules.mail]
kind = "queue-age"
queue = "mail"
channels = ["ops"]

[alerts.channels.ops]
kind = "log"
"""


def declaring(store, clock, path, text):
    path.write_text(text, encoding="utf-8")
    app = duly.App(store=store, clock=clock, actor="anna")
    app.declare(path)
    return app


def test_rules_and_channels_can_be_declared(app, clock, tmp_path):
    """Made so at start-up, once; and changed with the file."""
    file = tmp_path / "alerts.toml"
    reports = [
        declaring(app.store, clock, file, text).reconcile()
        for text in (DECLARED, DECLARED, DECLARED.replace("10m", "20m"))
    ]
    rules = {one.name: one for one in app.alerts.rules()}

    names = ("alert rule queue-age", "alert rule mail", "alert channel ops")
    assert [set(names), set(), set()] == [set(one.created) for one in reports]
    assert set(names) == set(reports[1].unchanged)
    assert ["alert rule queue-age"] == list(reports[2].changed)
    assert (1200.0, "page", ("ops",)) == (
        rules["queue-age"].threshold,
        rules["queue-age"].severity,
        rules["mail"].channels,
    )
    assert ["log", "ops"] == [one.name for one in app.alerts.channels()]


def test_what_was_set_by_hand_is_not_taken_over(app, clock, tmp_path):
    """It is reported, and the rest is made so."""
    app.alerts.set_rule("queue-age", threshold=7)
    report = declaring(app.store, clock, tmp_path / "a.toml", DECLARED).reconcile()

    assert ["alert rule queue-age"] == list(report.conflicts)
    assert 7.0 == {one.name: one for one in app.alerts.rules()}["queue-age"].threshold


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("alerts = 3", "a.toml, alerts"),
        ("[alerts.rule.x]", "a.toml, alerts.rule"),
        ("[alerts.rules]\nx = 3", "a.toml, alerts.rules.x"),
        ("[alerts.rules.x]\nthreshold = 3", "a.toml, alerts.rules.x, kind"),
        ("[alerts.channels.x]\nkind = 'pigeon'", "a.toml, alerts.channels.x, kind"),
        ("[alerts.channels.x]\nkind = 'log'\nloud = true", "a.toml, alerts.channels.x, loud"),
    ],
)
def test_a_bad_declaration_gets_one_clear_error(app, clock, tmp_path, text, field):
    with pytest.raises(UsageError) as caught:
        declaring(app.store, clock, tmp_path / "a.toml", text)

    assert field == caught.value.field
