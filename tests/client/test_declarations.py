"""Declared schedules: read whole, reconciled, and what a person did stays done."""

from __future__ import annotations

import re
import threading
from datetime import timedelta

import pytest

import duly
from duly import Conflict, NotFound, UsageError, cron, every
from tests.client.conftest import NOON, everything, refused

NIGHTLY = cron("0 2 * * *", tz="Europe/Paris")

FILE = """
[schedules.nightly-report]
task = "report"
when = "every day at 02:00"
tz = "Europe/Paris"

[schedules.reminder]
task = "remind"
when = "H * * * *"
arguments = { class_id = 42 }
misfire = { policy = "all", at_most = 3 }
jitter = "5m"
queue = "mail"
priority = 2
owner = "bob"
"""


@pytest.fixture
def declare(app, tasks, tmp_path):
    """Write a file and declare it; each with a name of its own."""

    def declare(text, name="schedules.toml", to=app):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return to.declare(path)

    return declare


def start(store, clock, name="app", **options):
    """Start a program anew, on the same store."""
    app = duly.App(store=store, clock=clock, name=name, **options)

    @app.task
    def report(run: duly.Run) -> None: ...

    @app.task
    def remind(class_id: int) -> None: ...

    return app, report


def test_a_schedule_is_declared_above_its_task(app):
    @app.schedule(NIGHTLY, name="nightly-report", misfire="skip", owner="bob", jitter="1m")
    @app.task
    def report(run: duly.Run) -> int:
        return 1

    before = app.schedules.list()
    done = app.reconcile()
    made = app.schedules.get("nightly-report")

    assert [] == before
    assert ("nightly-report",) == done.created
    assert ("report", "skip", "bob", "code:app") == (
        made.task,
        made.misfire.policy,
        made.owner,
        made.declared_by,
    )
    assert 1 == report(None)


def test_a_declaration_can_give_its_task_arguments(app):
    @app.task
    def remind(class_id: int) -> None: ...

    app.schedule(every("1h"), name="one", arguments={"class_id": 1})(remind)
    app.schedule(every("1h"), name="two", call=remind.bind(2))(remind)
    app.reconcile()

    assert [1, 2] == [one.arguments["class_id"] for one in app.schedules.list()]


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({}, UsageError, "'class_id' is missing"),
        ({"arguments": {"class_id": "x"}}, UsageError, r"remind\(class_id\)"),
        ({"call": 42}, UsageError, "call: 42"),
        ({"arguments": {"class_id": 1}, "overlap": "never"}, UsageError, "not an overlap policy"),
        ({"arguments": {"class_id": 1}, "preset": "fast"}, UsageError, "preset: 'fast' is not a"),
        ({"arguments": {"class_id": 1}, "colour": 1}, UsageError, "colour: 1 is not a policy"),
        ({"arguments": {"class_id": 1}, "name": "a@b"}, UsageError, "name: 'a@b'"),
        ({"arguments": {"class_id": 1}, "name": "taken"}, Conflict, "is declared twice"),
    ],
)
def test_a_bad_declaration_is_refused_where_it_stands(app, tasks, options, kind, says):
    app.schedule(every("1h"), name="taken")(tasks.report)

    with pytest.raises(kind, match=says):
        app.schedule(every("1h"), **options)(tasks.remind)


def test_what_is_not_a_task_can_not_be_scheduled(app):
    with pytest.raises(UsageError, match="put @app"):
        app.schedule(every("1h"))(lambda: None)


def test_a_file_declares_schedules(app, declare):
    assert ["nightly-report", "reminder"] == declare(FILE)
    assert ("nightly-report", "reminder") == app.reconcile().created

    nightly, reminder = app.schedules.list()

    assert "every day at 02:00 (Europe/Paris)" == nightly.timetable.describe()
    assert (True, "bob", {"class_id": 42}) == (
        reminder.declared_by.startswith("file:app:/"),
        reminder.owner,
        reminder.arguments,
    )
    assert (3, timedelta(minutes=5), "mail", 2) == (
        reminder.misfire.at_most,
        reminder.jitter,
        reminder.queue,
        reminder.priority,
    )
    assert cron("H * * * *", seed="reminder").to_json() == reminder.timetable.to_json()


def test_a_file_can_hold_a_whole_timetable_or_name_a_calendar(app, declare):
    declare(
        """
        [schedules.a]
        task = "report"
        timetable = { kind = "every", period = "15m", anchor = "1970-01-01T00:00:00Z" }

        [schedules.b]
        task = "report"
        when = "last business day of the month at 18:00"
        calendar = "US"
        tz = "America/New_York"

        [schedules.c]
        task = "report"
        when = "FREQ=WEEKLY;BYDAY=MO"
        dtstart = 2026-04-06T09:00:00
        """
    )
    app.reconcile()
    a, b, c = app.schedules.list()

    assert every("15m").to_json() == a.timetable.to_json()
    assert "US" == b.timetable.to_json()["calendar"]
    assert "2026-04-06T09:00:00Z" == c.to_json()["next_for"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = ", r"schedules.toml.* is not TOML"),
        ("[schedule.n]", r"schedules.toml, schedule: .* is not known"),
        ("schedules = 1", r"schedules.toml, schedules: 1 is not a table"),
        ("[schedules]\nn = 1", r"schedules.toml, n: 1 is not a table"),
        ('[schedules.n]\nwhen = "1h"', r"schedules.toml, n, task: None"),
        ('[schedules.n]\ntask = "report"', r"schedules.toml, n, when is"),
        ('[schedules.n]\ntask = "report"\nwhen = "1h"\ntimetable = {}', r"n, when: '1h' is one of"),
        ('[schedules.n]\ntask = "report"\nwhen = "1h"\nwhne = 1', r"n, whne: 1 is not known"),
        ('[schedules.n]\ntask = "report"\nwhen = "at noonish"', r"schedules.toml, n, "),
        ('[schedules.n]\ntask = "report"\nwhen = "1 2 3 4 5"\ntz = "Mars"', r"n, tz: 'Mars'"),
        ('[schedules."a@b"]\ntask = "report"\nwhen = "1h"', r"a@b, name: 'a@b'"),
        ('[schedules.n]\ntask = "report"\nwhen = 5', r"n, .*5 is not a text"),
    ],
)
def test_a_bad_file_is_refused_with_the_place(app, declare, text, says):
    assert re.search(says, refused(app, UsageError, lambda: declare(text)))


@pytest.mark.parametrize(
    ("line", "kind", "says"),
    [
        (
            'task = "rep0rt"',
            NotFound,
            r"file:app:.*/schedules.toml, n, task: 'rep0rt' was not found",
        ),
        ('task = "report"\nmisfire = "never"', UsageError, "n, misfire: 'never'"),
        ('task = "report"\njitter = 5', UsageError, "n, jitter: 5"),
        ('task = "report"\noverlap = "never"', UsageError, "n, overlap: 'never' is not an"),
        ('task = "report"\npreset = "serialized"', UsageError, "n, serialize_by is needed"),
        ('task = "report"\narguments = { a = 1 }', UsageError, "n, report: 'a'"),
        ('task = "remind"\narguments = { class_id = "1" }', UsageError, r"n, remind\(class_id\)"),
        ('task = "report"\narguments = 1', UsageError, "n, arguments: 1 is not a map"),
    ],
)
def test_nothing_is_made_when_one_declaration_can_not_be(app, declare, line, kind, says):
    declare(FILE, "good.toml")
    declare(f'[schedules.n]\nwhen = "1h"\n{line}')

    assert re.search(says, refused(app, kind, app.reconcile))


def test_a_file_that_is_not_there_is_not_found(app, tmp_path):
    assert "none.toml" in refused(app, NotFound, lambda: app.declare(tmp_path / "none.toml"))
    assert "can't be read" in refused(app, UsageError, lambda: app.declare(tmp_path))


def test_a_file_is_declared_once(app, declare):
    declare(FILE)

    assert "is declared already" in refused(app, Conflict, lambda: declare(FILE))
    assert "is declared twice" in refused(app, Conflict, lambda: declare(FILE, "copy.toml"))


def test_reconciling_again_changes_nothing(app, declare):
    declare(FILE)
    app.reconcile()
    before = everything(app)
    done = app.reconcile()

    assert before == everything(app)
    assert ("nightly-report", "reminder") == done.unchanged
    assert ["2 unchanged"] == done.lines()


def test_what_differs_from_the_declaration_is_changed_and_told(app, tasks, store, clock):
    app.schedule(NIGHTLY, name="nightly")(tasks.report)
    app.reconcile()
    again, report = start(store, clock)
    again.schedule(every("1h"), name="nightly", queue="slow", owner="bob")(report)
    done = again.reconcile()

    assert {"nightly": ("queue", "timetable", "owner")} == done.changed
    assert ["changed nightly: queue, timetable, owner"] == done.lines()
    assert ("slow", 2) == (app.schedules.get("nightly").queue, app.schedules.get("nightly").version)


def test_what_a_person_paused_stays_paused(app, tasks, store, clock):
    app.schedule(NIGHTLY, name="nightly")(tasks.report)
    app.reconcile()
    app.schedules.pause("nightly", reason="migration")
    again, report = start(store, clock)
    again.schedule(every("1h"), name="nightly")(report)
    done = again.reconcile()
    kept = app.schedules.get("nightly")

    assert ["nightly"] == list(done.changed)
    assert ("paused", "migration", "every hour") == (
        kept.status,
        kept.reason,
        kept.timetable.describe(),
    )


def test_what_a_person_deleted_stays_deleted(app, tasks):
    app.schedule(NIGHTLY, name="nightly")(tasks.report)
    app.reconcile()
    app.schedules.delete("nightly")
    before = everything(app)
    done = app.reconcile()

    assert ("nightly",) == done.kept_deleted
    assert before == everything(app)
    assert "was deleted by hand" in done.lines()[0]


def test_what_a_person_made_is_not_taken_over(app, tasks):
    app.schedules.create("nightly", tasks.report, every("1h"))
    app.schedule(NIGHTLY, name="nightly")(tasks.report)
    app.schedule(NIGHTLY, name="other")(tasks.report)
    done = app.reconcile()

    assert ["nightly"] == list(done.conflicts)
    assert "was made by hand" in done.conflicts["nightly"]
    assert (("other",), False) == (done.created, done.is_clean)
    assert "every hour" == app.schedules.get("nightly").timetable.describe()


def test_a_name_that_a_deleted_schedule_had_is_free(app, tasks):
    made = app.schedules.create("nightly", tasks.report, every("1h"))
    app.schedules.delete("nightly")
    app.schedule(NIGHTLY, name="nightly")(tasks.report)

    assert ("nightly",) == app.reconcile().created
    assert ("active", False) == (
        app.schedules.get("nightly").status,
        app.schedules.get("nightly").id == made.id,
    )


def test_what_another_application_declared_is_not_taken_over(app, tasks, store, clock):
    app.schedule(NIGHTLY, name="nightly")(tasks.report)
    app.reconcile()
    other, report = start(store, clock, name="other")
    other.schedule(every("1h"), name="nightly")(report)

    assert "was made by code:app" in other.reconcile().conflicts["nightly"]


def test_what_is_no_longer_declared_goes_on_and_is_told(app, tasks, store, clock):
    app.schedule(NIGHTLY, name="nightly")(tasks.report)
    app.reconcile()
    app.schedules.create("by-hand", tasks.report, NIGHTLY)
    again, report = start(store, clock)
    again.schedule(NIGHTLY, name="other")(report)
    done = again.reconcile()

    assert ("nightly",) == done.orphaned
    assert "no longer declared and goes on" in done.lines()[1]
    assert "active" == app.schedules.get("nightly").status


def test_what_is_no_longer_declared_is_deleted_when_asked_for_and_revived_later(
    app, tasks, store, clock
):
    app.schedule(NIGHTLY, name="nightly")(tasks.report)
    app.reconcile()
    without, report = start(store, clock)
    without.schedule(NIGHTLY, name="other")(report)

    assert ("nightly",) == without.reconcile(prune=True).pruned
    assert ("deleted", "no longer declared") == (
        app.schedules.get("nightly").status,
        app.schedules.get("nightly").reason,
    )
    assert ("nightly",) == app.reconcile().revived
    assert "active" == app.schedules.get("nightly").status


def test_an_application_without_a_name_prunes_nothing_of_code_unless_its_code_declares(
    app, tasks, store, clock
):
    """Another program of the same default name may have declared it."""
    app.schedule(NIGHTLY, name="nightly")(tasks.report)
    app.reconcile()
    other, _ = start(store, clock)
    done = other.reconcile(prune=True)

    assert ((), ()) == (done.pruned, done.orphaned)
    assert "active" == app.schedules.get("nightly").status


def test_an_application_with_a_name_of_its_own_prunes_its_last_declaration(store, clock):
    first, report = start(store, clock, name="billing")
    first.schedule(NIGHTLY, name="nightly")(report)
    first.reconcile()
    later, _ = start(store, clock, name="billing")

    assert ("nightly",) == later.reconcile(prune=True).pruned


@pytest.mark.parametrize(("name", "folder"), [("other", "a"), ("app", "b")])
def test_files_of_the_same_base_name_never_prune_each_other(
    app, tasks, store, clock, tmp_path, name, folder
):
    for one, text in (("a", FILE), ("b", '[schedules.x]\ntask = "report"\nwhen = "1h"')):
        (tmp_path / one).mkdir()
        (tmp_path / one / "schedules.toml").write_text(text)
    app.declare(tmp_path / "a" / "schedules.toml")
    app.reconcile()
    other, _ = start(store, clock, name=name)
    (tmp_path / folder / "schedules.toml").write_text((tmp_path / "b/schedules.toml").read_text())
    other.declare(tmp_path / folder / "schedules.toml")

    assert ((), ("x",)) == (other.reconcile(prune=True).pruned, other.reconcile().unchanged)
    assert 3 == len(app.schedules.list())


def test_a_files_source_is_its_application_and_its_path_as_given(app, tasks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "s.toml").write_text(FILE)
    app.declare("team/s.toml")
    app.reconcile()

    assert {"file:app:team/s.toml"} == {one.declared_by for one in app.schedules.list()}


def test_a_dry_run_says_what_a_reconciliation_would_do_and_does_nothing(app, tasks, store, clock):
    app.schedules.create("by-hand", tasks.report, every("1h"))
    for name in ("changed", "kept", "deleted", "pruned", "orphan"):
        app.schedule(NIGHTLY, name=name)(tasks.report)
    app.reconcile()
    app.schedules.delete("deleted")
    pruner, report = start(store, clock)
    for name in ("changed", "kept", "deleted", "orphan"):
        pruner.schedule(NIGHTLY, name=name)(report)
    pruner.reconcile(prune=True)
    again, report = start(store, clock)
    for name in ("by-hand", "kept", "deleted", "pruned", "new"):
        again.schedule(NIGHTLY, name=name)(report)
    again.schedule(every("1h"), name="changed")(report)
    again.schedule(duly.at("2020-01-01T00:00Z"), name="launch")(report)
    before = everything(app)
    tried = again.reconcile(dry_run=True, prune=True)

    assert before == everything(app)
    assert [
        "would create new",
        "would change changed: timetable",
        "would revive pruned: it is declared again",
        "would delete orphan: no longer declared",
    ] == tried.lines()[:4]
    assert tried.to_json() == again.reconcile(prune=True).to_json()


def test_a_declaration_may_move_from_code_into_a_file(app, tasks, store, clock, declare):
    app.schedule(NIGHTLY, name="nightly-report")(tasks.report)
    app.reconcile()
    again, _ = start(store, clock)
    declare(FILE.partition("[schedules.reminder]")[0], to=again)
    done = again.reconcile()

    assert {"nightly-report": ("timetable", "declared_by")} == done.changed
    assert app.schedules.get("nightly-report").declared_by.endswith("/schedules.toml")
    assert () == done.orphaned


def test_a_date_that_has_passed_is_told_and_keeps_nobody_waiting(app, tasks):
    app.schedule(duly.at("2020-01-01T00:00Z"), name="launch")(tasks.report)
    app.schedule(NIGHTLY, name="nightly")(tasks.report)
    done = app.reconcile()

    assert "no occurrence in the future" in done.conflicts["launch"]
    assert ("nightly",) == done.created


def test_reconciling_makes_the_tasks_known(app, tasks):
    app.reconcile()

    assert ["remind", "report"] == app.store.list_tasks()


def test_two_programs_that_start_at_once_come_to_the_same_end(store, clock):
    apps = []
    for _ in range(4):
        app, report = start(store, clock)
        for number in range(10):
            app.schedule(NIGHTLY, name=f"n{number}")(report)
        apps.append(app)
    done: list[duly.Reconciliation] = []
    threads = [
        threading.Thread(target=lambda app=app: done.append(app.reconcile())) for app in apps
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)

    assert 4 == len(done)
    assert 10 == len(apps[0].schedules.list()) == sum(len(one.created) for one in done)
    assert {} == {name: says for one in done for name, says in one.conflicts.items()}


def test_a_reconciliation_can_be_written_as_json(app, declare):
    declare(FILE)

    assert ["nightly-report", "reminder"] == app.reconcile().to_json()["created"]
    assert NOON == app.status().now
