"""`duly alert`: what is wrong, who was told, and what people say; and who watches."""

from __future__ import annotations

import json
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import duly
from duly.domain.alerts import Silence
from duly_conformance import alerts
from tests.cli.scripted_worker import PlayedWorker
from tests.cli.test_run_orders import HERE, undo
from tests.waiting import LIMIT_S, wait_until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from duly.store.sqlite import SqliteStore
    from tests.cli.duly_command import Workplace


def raise_one(place: Workplace) -> str:
    """Have something be wrong; return the alert's id."""
    with duly.App("sqlite:///" + str(place.folder / "promises.db")) as app:
        fence = alerts.watch(app.store)
        alerts.look(app.store, fence, alerts.condition())
        app.store.release_watch(fence)
        return str(app.alerts.list()[0].id)


def test_nothing_is_wrong_at_first(place: Workplace):
    assert "Nothing is wrong.\n" == place.duly("alert", "list").out
    assert "There are no such alerts.\n" == place.duly("alert", "list", "--state", "all").out
    assert "Nothing is silenced.\n" == place.duly("alert", "silences").out
    assert [] == place.duly("alert", "list", "--json").json


def test_an_alert_is_listed_shown_and_taken_note_of(place: Workplace):
    """One way from what is wrong to what to do."""
    alert = raise_one(place)
    listed = place.duly("alert", "list").out
    noted = place.duly("alert", "acknowledge", alert, "--reason", "on it")
    shown = place.duly("alert", "show", alert).out
    told = place.duly("alert", "show", alert, "--json").json

    assert all(word in listed for word in (alert, "queue-age", "queue mail", "open", "waits"))
    assert "Acknowledged by ada: queue mail, queue-age.\n" == noted.out
    assert "remedy: duly queue list" in shown
    assert "by ada at" in shown
    assert {"log", "mail"} == {one["channel"] for one in told["deliveries"]}
    unknown = place.duly("alert", "show", "0196b000-0000-7000-8000-00000000000a")
    assert (3, True) == (unknown.status, "duly alert list --state all" in unknown.err)


def test_a_silence_is_taken_back_by_what_was_told(place: Workplace):
    words = ("--duration", "2h", "--subject", "queue *", "--reason", "moving")
    made = place.duly("alert", "silence", *words, *HERE)
    listed = place.duly("alert", "silences").out
    back = undo(place, made)
    wrong = place.duly("alert", "silence", "--reason", "r")

    assert made.out.startswith("Silenced all alerts about queue * until ")
    assert "moving" in listed
    assert "Removed the silence " in back.out
    assert "Nothing is silenced.\n" == place.duly("alert", "silences").out
    assert (2, True) == (wrong.status, "duration is needed" in wrong.err)


@pytest.mark.parametrize(
    ("terms", "code", "says"),
    [
        ({"severity": "page"}, 1, "degraded: 1 alert is open, and must be looked at now"),
        ({"severity": "warn"}, 0, "note: 1 alert is open (queue-age 1): duly alert list"),
    ],
)
def test_what_is_open_shows_wherever_one_looks(place: Workplace, terms, code, says):
    """In status, top and doctor; what is to page somebody is an exit code as well."""
    before = place.duly("status")
    with duly.App("sqlite:///" + str(place.folder / "promises.db")) as app:
        fence = alerts.watch(app.store)
        alerts.look(app.store, fence, alerts.condition(), **terms)
    told, top = place.duly("status"), place.duly("top")
    shown = place.duly("status", "--json").json
    doctor = place.duly("doctor")

    assert (0, code) == (before.status, told.status)
    assert "open alerts" in before.out
    assert says in told.out
    assert f"open alerts: 1 {terms['severity']}" in top.out
    assert [{"kind": "queue-age", **terms, "count": 1, "silenced": 0}] == shown["alerts"]
    assert (code, True) == (doctor.status, "alert is open" in doctor.out)


def test_what_is_silenced_is_no_matter_for_an_exit_code(place: Workplace):
    """Somebody knows."""
    place.duly("status")
    with duly.App("sqlite:///" + str(place.folder / "promises.db")) as app:
        quiet = Silence(id="s", until=app.store.now() + 10**9)
        fence = alerts.watch(app.store)
        alerts.look(app.store, fence, alerts.condition(), silences=(quiet,), severity="page")
    told = place.duly("status")

    assert 0 == told.status
    assert "1 page; 1 of them silenced" in told.out


def test_who_was_slower_overwrites_nothing(place: Workplace):
    """By --version, as of schedules."""
    seen = place.duly("alert", "rule", "set", "queue-age", "--threshold", "15m", "--json").json
    version = ("--version", str(seen["version"]))
    place.duly("alert", "rule", "set", "queue-age", "--threshold", "20m", *version)
    late = place.duly("alert", "rule", "set", "queue-age", "--threshold", "9m", *version)
    gone = place.duly("alert", "rule", "remove", "queue-age", *version)
    place.duly("alert", "channel", "add", "ops", "log", "--version", "0")
    kept = place.duly("alert", "channel", "remove", "ops", "--version", "0")
    rules = {one["name"]: one for one in place.duly("alert", "rules", "--json").json}

    assert all(one.status and "was set by ada" in one.err for one in (late, gone, kept))
    assert 1200 == rules["queue-age"]["threshold"]
    assert str(rules["queue-age"]["version"]) in place.duly("alert", "rules").out


def test_rules_are_set_and_taken_back_by_what_was_told(place: Workplace):
    made = place.duly("alert", "rule", "set", "queue-age", "--threshold", "15m", *HERE)
    off = place.duly("alert", "rule", "set", "overlap", "--off").out
    more = ("--kind", "queue-age", "--queue", "mail", "--for", "10s", "--channel", "ops")
    other = place.duly("alert", "rule", "set", "mail", *more, "--json").json
    listed = place.duly("alert", "rules").out
    back = undo(place, made)
    again = place.duly("alert", "rule", "remove", "queue-age")

    assert "Rule queue-age raises from 900 s on: how long the first of a queue" in made.out
    assert "Rule overlap is off.\n" in off
    assert ("queue-age", "mail", "10s", ["ops"]) == (
        other["kind"],
        other["queue"],
        other["hold_for"],
        other["channels"],
    )
    assert "queue-age, queue mail" in listed
    assert "Removed the rule queue-age." == back.out.splitlines()[0]
    assert "Nothing was changed." in again.out
    wrong = place.duly("alert", "rule", "set", "nonsense")
    assert (2, True) == (wrong.status, "say of which kind it is" in wrong.err)


RULE_FIELDS = ("threshold", "hold_for", "severity", "channels", "is_on", "kind", "queue")


def rule_of(place: Workplace, name: str) -> tuple[object, ...]:
    found = {one["name"]: one for one in place.duly("alert", "rules", "--json").json}
    return tuple(found[name][field] for field in RULE_FIELDS)


def test_an_undo_brings_back_the_rule_that_somebody_had_set(place: Workplace):
    """Not what is usual, where that was not what held."""
    own = ("--kind", "queue-age", "--queue", "mail", "--threshold", "10m", "--for", "10s")
    place.duly("alert", "rule", "set", "mail", *own)
    first = rule_of(place, "mail")
    changes = ("--threshold", "15m", "--channel", "ops", "--severity", "page", "--off")
    changed = place.duly("alert", "rule", "set", "mail", *changes, *HERE)
    undo(place, changed)
    second = rule_of(place, "mail")
    removed = place.duly("alert", "rule", "remove", "mail", *HERE)
    undo(place, removed)
    third = rule_of(place, "mail")
    moved = place.duly("alert", "rule", "set", "mail", "--task", "charge", *HERE)

    assert (600, "10s", "warn", [], True, "queue-age", "mail") == first
    assert (first, first) == (second, third)
    assert "undo: duly alert rule remove mail" in moved.out
    assert "task charge" in place.duly("alert", "rules").out
    undo(place, moved)
    assert (first, False) == (rule_of(place, "mail"), "charge" in place.duly("alert", "rules").out)
    both = place.duly("alert", "rule", "set", "mail", "--channel", "ops", "--all-channels")
    assert (2, True) == (both.status, "contradicts --all-channels" in both.err)


def test_an_undo_brings_back_the_channel_and_the_silence_that_there_were(place: Workplace):
    hook = '{"url": {"secret": "env:DULY_SECRET_HOOK"}}'
    place.duly("alert", "channel", "add", "ops", "slack", "--options", hook)
    replaced = place.duly("alert", "channel", "add", "ops", "log", *HERE)
    undo(place, replaced)
    removed = place.duly("alert", "channel", "remove", "ops", *HERE)
    undo(place, removed)
    words = ("--duration", "2h", "--subject", "queue mail", "--kind", "queue-age")
    made = place.duly("alert", "silence", *words, "--reason", "moving", *HERE)
    undo(place, undo(place, made))

    (ops,) = (one for one in place.duly("alert", "channels", "--json").json if one["name"] == "ops")
    assert ("slack", json.loads(hook)["url"]) == (ops["kind"], ops["options"]["url"])
    (silence,) = place.duly("alert", "silences", "--json").json
    assert ("queue mail", ["queue-age"], "moving") == (
        silence["subject"],
        silence["kinds"],
        silence["reason"],
    )


def test_channels_are_added_tried_and_removed(place: Workplace):
    """The exit code of a try says whether it was taken."""
    made = place.duly("alert", "channel", "add", "ops", "log", *HERE)
    listed = place.duly("alert", "channels").out
    tried = place.duly("alert", "channel", "test", "ops")
    back = undo(place, made)
    gone = place.duly("alert", "channel", "test", "ops")
    wrong = place.duly("alert", "channel", "add", "ops", "log", "--options", "{")

    assert "Alerts go to ops (log) as well" in made.out
    assert ("log", "ops") == tuple(line.split()[0] for line in listed.splitlines()[1:])
    assert (0, "ops has taken it.\n") == (tried.status, tried.out)
    assert "Removed the channel ops." == back.out.splitlines()[0]
    assert (3, 2) == (gone.status, wrong.status)


@contextmanager
def running(place: Workplace, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a process that watches; one that a failing test leaves behind is killed."""
    process = place.start(*arguments)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("who", ["dispatcher", "server"])
def test_whoever_runs_watches(place: Workplace, store: SqliteStore, who: str):
    """A server does, too, so that a fleet without any dispatcher is told about."""
    with duly.App("sqlite:///" + str(place.folder / "promises.db")) as app:
        worker = PlayedWorker(store)
        worker.queue()
        worker.bury_all()
        with running(place, who, "--json") as process:
            (alert,) = wait_until(
                "the alert is raised", lambda: app.alerts.list(kind="dead-letters")
            )
            wait_until(
                "the alert is delivered",
                lambda: all(one.state == "done" for one in app.alerts.get(alert.id).deliveries),
            )
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=LIMIT_S)

    assert 0 == process.returncode
    told = [json.loads(line) for line in out.splitlines()]
    assert ["task send_reminder"] == [
        one["subject"] for one in told if one["event"] == "alert-raised"
    ]
    assert "send_reminder" in err
