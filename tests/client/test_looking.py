"""Looking at runs, labels, history and the ledger of occurrences."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from uuid import UUID

import pytest

import duly
from duly import NotFound, UsageError, cron, every
from duly.client import schedule_history
from duly.client.parameters import read_label, run_label
from duly.timetable.instants import to_microseconds
from tests.client.conftest import NOON, fire, refused
from tests.timetable.instants import moment

NIGHTLY = cron("0 2 * * *", tz="Europe/Paris")
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("instant", "tz", "label"),
    [
        ("2026-04-03T00:00Z", "Europe/Paris", "n@2026-04-03T02:00+02:00"),
        ("2026-04-03T00:00Z", "UTC", "n@2026-04-03T00:00Z"),
        ("2026-04-03T00:00Z", None, "n@2026-04-03T00:00Z"),
        ("2026-04-03T00:00:05Z", "America/New_York", "n@2026-04-02T20:00:05-04:00"),
        ("2026-04-03T00:00:05.25Z", "Asia/Kolkata", "n@2026-04-03T05:30:05.250000+05:30"),
    ],
)
def test_a_label_names_a_moment_in_the_schedules_own_zone(instant, tz, label):
    at = to_microseconds(moment(instant))

    assert label == run_label("n", at, tz)
    assert ("n", at) == read_label(label)


def test_both_times_of_a_night_when_clocks_go_back_have_their_own_label():
    first, second = (to_microseconds(moment(f"2026-10-25T0{hour}:30Z")) for hour in (0, 1))

    assert "n@2026-10-25T02:30+02:00" == run_label("n", first, "Europe/Paris")
    assert "n@2026-10-25T02:30+01:00" == run_label("n", second, "Europe/Paris")


@pytest.mark.parametrize("text", ["n", "n@", "@2026-04-03T00:00Z", "n@soon", "n@2026-04-03T00:00"])
def test_what_names_no_moment_is_not_a_label(text):
    assert None is read_label(text)


def test_a_run_tells_where_it_came_from(app, tasks, clock):
    app.schedules.create("nightly-report", tasks.report, NIGHTLY, overlap="allow")
    clock.advance("12h")
    fire(app, clock)
    clock.advance("24h")
    fire(app, clock)
    second, first = app.runs.list(schedule="nightly-report")

    assert "nightly-report@2026-04-03T02:00+02:00" == first.label
    assert ("nightly-report", "schedule", "live") == (first.schedule, first.origin, first.lane)
    assert (None, moment("2026-04-03T00:00Z")) == first.window
    assert (first.scheduled_for, second.scheduled_for) == second.window
    assert (first.id, 0, 0) == (first.root, first.attempt, first.fence)
    assert timedelta(0) <= first.lateness < timedelta(minutes=1)


def test_a_run_is_found_by_id_and_by_label(app, tasks, clock):
    app.schedules.create("nightly-report", tasks.report, NIGHTLY, overlap="allow")
    triggered = app.schedules.trigger("nightly-report")
    keyed = app.enqueue(tasks.remind.bind(1), key="class:1")
    plain = app.enqueue(tasks.remind.bind(2), delay="1m")
    clock.advance("12h")
    fire(app, clock)
    (nightly,) = app.runs.list(origin="schedule")

    assert nightly == app.runs.get(nightly.id) == app.runs.get(str(nightly.id))
    assert nightly == app.runs.get("nightly-report@2026-04-03T02:00+02:00")
    assert nightly == app.runs.get("nightly-report@2026-04-03T00:00Z")
    for one in (triggered, keyed, plain):
        assert one.id == app.runs.get(one.label).id


@pytest.mark.parametrize("unknown", [UUID(int=3), str(UUID(int=3)), "n@2026-04-03T00:00Z", "what"])
def test_an_unknown_run_is_not_found(app, unknown):
    assert "app.runs.list()" in refused(app, NotFound, lambda: app.runs.get(unknown))


def test_looking_for_a_pending_promise_among_runs_says_where_it_is(app, tasks):
    promised = app.enqueue(tasks.remind.bind(1), delay="1h")

    assert "still pending" in refused(app, NotFound, lambda: app.runs.get(promised.id))


def test_runs_are_filtered(app, tasks, clock):
    app.schedules.create("nightly-report", tasks.report, NIGHTLY)
    app.enqueue(tasks.remind.bind(1), key="class:1", queue="urgent")
    app.enqueue(tasks.remind.bind(2), delay="1h", key="class:2")
    app.cancel("class:2")
    clock.advance("12h")
    fire(app, clock)

    def labels(**options):
        return [run.label.partition("@")[0] for run in app.runs.list(**options)]

    assert ["nightly-report", "class:2", "class:1"] == labels()
    assert ["class:1"] == labels(key="class:1") == labels(queue="urgent") == labels(origin="now")
    assert ["class:2", "class:1"] == labels(task="remind")
    assert ["class:2"] == labels(state="cancelled")
    assert ["nightly-report"] == labels(since=NOON + timedelta(hours=2))
    assert ["class:1"] == labels(until=NOON + timedelta(hours=1))
    assert ["nightly-report"] == labels(limit=1)
    assert "state: 'busy'" in refused(app, UsageError, lambda: labels(state="busy"))
    assert "limit: 0" in refused(app, UsageError, lambda: labels(limit=0))


def test_more_runs_than_a_page_are_listed_in_order(app, tasks):
    app.enqueue_many(tasks.remind.bind(one) for one in range(1500))
    listed = app.runs.list(limit=2000)

    assert 1500 == len({run.id for run in listed})
    assert sorted((run.id for run in listed), reverse=True) == [run.id for run in listed]


def test_history_tells_who_did_what_and_why(app, tasks, store, clock):
    app.schedules.create("nightly", tasks.report, NIGHTLY)
    clock.advance("1h")
    duly.App(store=store, clock=clock, actor="bob").schedules.pause("nightly", reason="migration")
    paused, created = app.schedules.history("nightly")

    assert ("schedule.paused", "bob", "migration") == (paused.action, paused.actor, paused.reason)
    assert ("schedule.created", "ada", "library") == (created.action, created.actor, created.source)
    assert NOON + timedelta(hours=1) == paused.at
    assert ("active", "paused") == (paused.before["status"], paused.after["status"])
    assert [paused] == app.schedules.history("nightly", limit=1)


def test_no_more_of_a_history_is_read_than_is_asked_for(app, tasks, store, monkeypatch):
    """Also where it goes over pages; who wants the last entry does not wait for a thousand."""
    monkeypatch.setattr(schedule_history, "PAGE_MAX", 3)
    app.schedules.create("nightly", tasks.report, NIGHTLY)
    for number in range(6):
        app.schedules.edit("nightly", owner=f"owner {number}")
    asked, list_audit = list[int](), store.list_audit

    def listed(command):
        asked.append(command.limit)
        return list_audit(command)

    monkeypatch.setattr(store, "list_audit", listed)

    found = [app.schedules.history("nightly", limit=limit) for limit in (1, 5, 100)]

    assert [1, 5, 7] == [len(one) for one in found]
    assert found[2][:5] == found[1]
    assert [1, 3, 3, 3, 3, 3] == asked


def test_every_expected_occurrence_has_a_verdict(app, tasks, clock):
    """Run, coalesced by an outage, and pending; no holes."""
    app.schedules.create("hourly", tasks.report, every("1h"), overlap="allow")
    clock.advance("1h")
    fire(app, clock)
    clock.advance("5h")
    fire(app, clock)
    ledger = app.schedules.occurrences("hourly", NOON - DAY, NOON + timedelta(hours=9))

    assert ["run", *["skipped"] * 4, "run", "pending", "pending"] == [one.verdict for one in ledger]
    assert "coalesced" == ledger[1].reason
    assert ledger[5].run == ledger[1].run == app.runs.list()[0].id
    assert "hourly@2026-04-02T13:00Z" == ledger[0].label


def test_an_edit_does_not_make_the_past_look_as_if_something_were_missing(app, tasks, clock):
    """Up to the edit the old timetable decides what was expected, after it the new one."""
    app.schedules.create("report", tasks.report, every("2h"), overlap="allow")
    for _ in range(2):
        clock.advance("2h")
        fire(app, clock)
    app.schedules.edit("report", timetable=every("3h"))
    clock.advance("2h")
    fire(app, clock)
    ledger = app.schedules.occurrences("report", NOON, NOON + timedelta(hours=12))

    assert [(2, "run"), (4, "run"), (6, "run"), (9, "pending")] == [
        ((one.scheduled_for - NOON) // timedelta(hours=1), one.verdict) for one in ledger
    ]


def test_a_ledger_has_an_end(app, tasks):
    app.schedules.create("often", tasks.report, every("1s"))

    assert "too far" in refused(
        app, UsageError, lambda: app.schedules.occurrences("often", NOON, NOON + DAY)
    )


def test_the_state_of_the_store_is_seen_on_one_screen(app, tasks):
    app.schedules.create("nightly", tasks.report, NIGHTLY)
    app.enqueue(tasks.remind.bind(1), delay="1h")
    app.enqueue(tasks.remind.bind(1))
    status = app.status()

    assert ({"active": 1}, 1, 1) == (status.schedules, status.delayed, status.queued)
    assert ({"mail": 1}, 0, 0) == (status.queues, status.overdue, status.early_fires)
    assert (NOON, NOON + timedelta(hours=1)) == (status.now, status.next_due_at)
    assert "2026-04-02T13:00:00Z" == status.to_json()["next_due_at"]


def test_why_a_run_is_where_it_is_can_be_asked(app, tasks, clock):
    """One sentence, what it rests on, and what to do."""
    run = app.enqueue(tasks.report)
    fire(app, clock)
    found = app.runs.why(run.id)
    told = found.to_json()

    assert ("no-worker", "queued", run.id) == (found.cause, found.state, found.id)
    assert (str(found), found.remedy) == (told["sentence"], told["remedy"])
    assert [{"fact": name, "is": fact} for name, fact in found.evidence] == told["evidence"]
    assert found == app.runs.why(app.runs.get(run.id)) == app.runs.why(str(run.id))


def test_why_what_is_pending_has_not_begun_can_be_asked(app, tasks):
    """By its key, its id, or as it was listed."""
    run = app.enqueue(tasks.report, delay="1h", key="later")
    found = app.runs.why("later")

    assert ("not-due", "pending", run.id) == (found.cause, found.state, found.id)
    assert found == app.runs.why(run.id) == app.runs.why(app.delayed.get("later"))


def test_why_of_what_is_not_there_is_told(app):
    for unknown in ("nobody", UUID(int=5)):
        assert "was not found" in refused(app, NotFound, partial(app.runs.why, unknown))
