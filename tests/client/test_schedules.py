"""Schedules in a program's hands: made, changed, stopped and brought back (S1, S3-S5, S8, L6)."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

import pytest

import duly
from duly import Conflict, Misfire, NotFound, UsageError, at, cron, every
from duly.store.ports.schedules import Stale
from tests.client.conftest import NOON, everything, fire, refused
from tests.timetable.instants import moment

NIGHTLY = cron("0 2 * * *", tz="Europe/Paris")
HOURLY = every("1h")


@pytest.fixture
def nightly(app, tasks):
    return app.schedules.create("nightly-report", tasks.report, NIGHTLY)


def test_a_new_schedule_has_its_first_instant_pending(app, nightly):
    assert ("active", 1, "report") == (nightly.status, nightly.version, nightly.task)
    assert moment("2026-04-03T00:00Z") == nightly.next_for == nightly.next_due
    assert (None, 0, "ada") == (nightly.last_for, nightly.fires, nightly.updated_by)
    assert nightly == app.schedules.get(nightly.id) == app.schedules.get("nightly-report")
    assert nightly == app.schedules.get(str(nightly.id))


def test_an_id_means_that_schedule_whatever_another_is_called(app, tasks, nightly):
    """Also as text, as it comes over the wire; a name that reads as an id is a name."""
    other = app.schedules.create(str(nightly.id), tasks.report, NIGHTLY)
    hexadecimal = app.schedules.create("0196b000000070008000000000000001", tasks.report, NIGHTLY)

    app.schedules.pause(str(nightly.id))

    seen = {one.id: one.status for one in app.schedules.list()}
    assert ("paused", "active") == (seen[nightly.id], seen[other.id])
    assert hexadecimal.id == app.schedules.get(hexadecimal.name).id


def test_a_schedule_says_in_words_what_it_does(app, nightly):
    assert "report: every day at 02:00 (Europe/Paris)" == nightly.describe()
    assert ["2026-04-03T02:00:00+02:00", "2026-04-04T02:00:00+02:00"] == [
        one.local.isoformat() for one in nightly.upcoming(2)
    ]
    app.schedules.pause("nightly-report", reason="migration")

    paused = app.schedules.get("nightly-report")

    assert "report: every day at 02:00 (Europe/Paris) (paused: migration)" == paused.describe()
    assert () == paused.upcoming()


def test_the_same_schedule_made_again_is_the_same_one(app, tasks, nightly):
    again = app.schedules.create("nightly-report", tasks.report, NIGHTLY)

    assert nightly == again
    assert 1 == len(app.schedules.list())


def test_another_schedule_of_the_same_name_is_a_conflict(app, tasks, nightly):
    says = refused(
        app, Conflict, lambda: app.schedules.create("nightly-report", tasks.report, HOURLY)
    )

    assert "nightly-report" in says


def test_policies_are_kept(app, tasks):
    made = app.schedules.create(
        "bill-42",
        tasks.remind.bind(42),
        HOURLY,
        misfire=Misfire("all", at_most=3, not_older="2d", grace="1m"),
        jitter="5m",
        overlap="allow",
        owner="bob",
        queue="billing",
        priority=1,
    )

    assert ("allow", "bob", "billing", 1) == (
        made.overlap,
        made.owner,
        made.queue,
        made.priority,
    )
    assert (timedelta(minutes=5), 3, {"class_id": 42}) == (
        made.jitter,
        made.misfire.at_most,
        made.arguments,
    )
    assert timedelta(0) <= made.next_due - made.next_for < timedelta(minutes=5)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"name": ""}, "name: '' is empty"),
        ({"name": " a"}, "name: ' a' can't be a name"),
        ({"name": "a@b"}, "name: 'a@b' holds an '@'"),
        ({"name": "a\nb"}, "can't be a name"),
        ({"name": "n" * 201}, "name: .* is too long"),
        ({"name": 42}, "name: 42 is not a text"),
        ({"call": "report"}, "call: 'report' is not a call"),
        ({"timetable": "0 2 * * *"}, "timetable: .* is not a timetable"),
        ({"timetable": at("2020-01-01T00:00Z")}, "has no occurrence in the future"),
        ({"misfire": "never"}, "misfire: 'never' is not a misfire policy"),
        ({"jitter": "8d"}, "jitter: '8d' is longer than a week"),
        ({"jitter": "-1s"}, "jitter: '-1s' is negative"),
        ({"preset": "quickly"}, "preset: 'quickly' is not a preset; use one of best-effort, "),
        ({"preset": "serialized"}, "serialize_by is needed to serialize"),
        ({"overlap": "sometimes"}, "overlap: 'sometimes' is not an overlap policy"),
        ({"overlap": "serialize"}, "serialize_by is needed to serialize"),
        ({"overlap": "skip", "serialize_by": "a"}, "serialize_by: 'a' says nothing under"),
        ({"owner": ""}, "owner: '' is empty"),
        ({"queue": ""}, "queue: '' can't be the name"),
        ({"priority": "high"}, "priority: 'high' is not a priority"),
    ],
)
def test_a_schedule_that_can_not_be_kept_is_refused_whole(app, tasks, options, says):
    given = {"name": "nightly", "call": tasks.report, "timetable": NIGHTLY, **options}

    assert re.search(says, refused(app, UsageError, lambda: app.schedules.create(**given)))


def test_a_bad_zone_is_refused_where_it_is_said(app, tasks):
    says = refused(
        app,
        UsageError,
        lambda: app.schedules.create("n", tasks.report, cron("0 2 * * *", tz="Europe/Pariss")),
    )

    assert "Europe/Paris" in says


def test_an_edit_changes_what_is_given_and_keeps_the_rest(app, tasks, nightly):
    edited = app.schedules.edit(
        nightly.id, version=1, timetable=HOURLY, jitter="0s", queue="slow", reason="more often"
    )

    assert (2, "slow", moment("2026-04-02T13:00Z")) == (
        edited.version,
        edited.queue,
        edited.next_for,
    )
    assert ("report", "latest") == (edited.task, edited.misfire.policy)


def test_an_edit_that_keeps_the_timetable_keeps_the_pending_instant(app, tasks, nightly):
    edited = app.schedules.edit("nightly-report", call=tasks.remind.bind(7), priority=2)

    assert nightly.next_for == edited.next_for
    assert ("remind", "mail", 2) == (edited.task, edited.queue, edited.priority)


def test_an_edit_by_somebody_who_saw_an_older_version_is_a_conflict(app, nightly, store, clock):
    bob = duly.App(store=store, clock=clock, actor="bob")
    bob.schedules.edit("nightly-report", priority=1)

    says = refused(
        app, Conflict, lambda: app.schedules.edit("nightly-report", version=1, priority=2)
    )

    assert "is at version 2, changed by bob at 2026-04-02T12:00:00Z" in says


def test_a_schedule_can_be_renamed_and_given_away(app, nightly):
    renamed = app.schedules.edit("nightly-report", name="late-report", owner="bob")

    assert ("late-report", "bob", nightly.next_for) == (
        renamed.name,
        renamed.owner,
        renamed.next_for,
    )
    with pytest.raises(NotFound):
        app.schedules.get("nightly-report")


def test_a_name_that_is_taken_can_not_be_given(app, tasks, nightly):
    app.schedules.create("other", tasks.report, HOURLY)

    assert "name of another" in refused(
        app, Conflict, lambda: app.schedules.edit("other", name="nightly-report")
    )


def test_an_edit_that_changes_nothing_writes_nothing(app, nightly):
    before = everything(app)
    same = app.schedules.edit("nightly-report", timetable=NIGHTLY, name="nightly-report")

    assert nightly == same
    assert before == everything(app)
    assert "change nothing" in refused(app, UsageError, lambda: app.schedules.edit(nightly.id))


def test_an_order_is_decided_anew_when_the_schedule_moved_meanwhile(app, nightly, monkeypatch):
    """Another order comes between looking and writing, once."""
    ours = app.store.change_schedule
    bobs = duly.App(store=app.store, actor="bob")
    turns: list[int] = []

    def change_schedule(command):
        if not turns:
            turns.append(1)
            bobs.schedules.edit(nightly.id, priority=9)
        return ours(command)

    monkeypatch.setattr(app.store, "change_schedule", change_schedule)
    edited = app.schedules.edit(nightly.id, queue="slow")

    assert (3, "slow", 9) == (edited.version, edited.queue, edited.priority)


def test_an_order_gives_up_on_a_schedule_that_never_stands_still(app, nightly, monkeypatch):
    def stale(command):
        seen = app.store.get_schedule(command.id)
        return Stale(seen.record, seen.now)

    monkeypatch.setattr(app.store, "change_schedule", stale)

    with pytest.raises(Conflict, match="kept changing"):
        app.schedules.pause(nightly.id)


def test_a_paused_schedule_does_not_fire_and_says_why(app, nightly, clock):
    paused = app.schedules.pause("nightly-report", reason="migration", until=NOON + timedelta(9))
    clock.advance("3d")
    fire(app, clock)

    assert ("paused", "migration", None) == (paused.status, paused.reason, paused.next_for)
    assert NOON + timedelta(9) == paused.resume_at
    assert [] == app.runs.list()


def test_resuming_skips_what_fell_into_the_pause(app, nightly, clock):
    app.schedules.pause("nightly-report")
    clock.advance("2d")
    resumed = app.schedules.resume("nightly-report", reason="done")
    ledger = app.schedules.occurrences("nightly-report", NOON, NOON + timedelta(3))

    assert ("active", moment("2026-04-05T00:00Z")) == (resumed.status, resumed.next_for)
    assert [("skipped", "paused"), ("skipped", "paused"), ("pending", None)] == [
        (one.verdict, one.reason) for one in ledger
    ]


def test_resuming_by_the_misfire_policy_is_a_choice(app, nightly, clock):
    app.schedules.pause("nightly-report")
    clock.advance("2d")
    app.schedules.resume("nightly-report", missed="misfire")
    fire(app, clock)

    assert ["nightly-report@2026-04-04T02:00+02:00"] == [run.label for run in app.runs.list()]


@pytest.mark.parametrize(
    ("order", "options", "says"),
    [
        ("pause", {"until": NOON}, "until: .* lies in the past"),
        ("pause", {"until": datetime(2027, 1, 1)}, "until: .* has no time zone"),
        ("pause", {"missed": "later"}, "missed: 'later'"),
        ("pause", {"reason": "x" * 1001}, "reason: .* is too long"),
        ("resume", {"missed": "all"}, "missed: 'all'"),
        ("edit", {"jitter": "never"}, "jitter: 'never' is not a duration"),
        ("edit", {"overlap": "queue-two"}, "overlap: 'queue-two' is not an overlap policy"),
        ("edit", {"preset": "quickly"}, "preset: 'quickly' is not a preset"),
        ("edit", {"name": "a@b"}, "name: 'a@b'"),
        ("edit", {"timetable": at("2020-01-01T00:00Z")}, "has no occurrence in the future"),
    ],
)
def test_a_bad_order_leaves_a_schedule_as_it_was(app, nightly, order, options, says):
    change = getattr(app.schedules, order)

    assert re.search(says, refused(app, UsageError, lambda: change(nightly.id, **options)))


def test_what_is_active_can_not_be_resumed_or_restored(app, nightly):
    assert "is active" in refused(app, Conflict, lambda: app.schedules.resume(nightly.id))
    assert "is not deleted" in refused(app, Conflict, lambda: app.schedules.restore(nightly.id))


def test_a_deleted_schedule_can_be_restored(app, nightly, clock):
    deleted = app.schedules.delete("nightly-report", reason="by mistake")
    clock.advance("30h")
    fire(app, clock)

    assert ("deleted", "by mistake") == (deleted.status, deleted.reason)
    assert [] == app.schedules.list() == app.runs.list()
    assert [nightly.id] == [one.id for one in app.schedules.list(include_deleted=True)]
    for order in (app.schedules.pause, app.schedules.skip_next, app.schedules.trigger):
        assert "is deleted" in refused(app, Conflict, partial(order, "nightly-report"))

    restored = app.schedules.restore("nightly-report")

    assert ("active", moment("2026-04-04T00:00Z")) == (restored.status, restored.next_for)


def test_the_next_occurrence_can_be_skipped_on_record(app, nightly):
    skipped = app.schedules.skip_next("nightly-report", reason="holiday")
    ledger = app.schedules.occurrences(nightly.id, NOON, NOON + timedelta(2))

    assert moment("2026-04-04T00:00Z") == skipped.next_for
    assert [("skipped", "skipped"), ("pending", None)] == [
        (one.verdict, one.reason) for one in ledger
    ]


def test_a_schedule_can_be_run_now_also_while_it_is_paused(app, nightly):
    app.schedules.pause(nightly.id)
    promised = app.schedules.trigger(nightly.id, reason="ada wants it", key="by-hand")
    run = app.runs.get(promised.id)

    assert ("manual", "queued", "by-hand") == (run.origin, run.state, run.key)
    assert "nightly-report@2026-04-02T14:00+02:00" == run.label == promised.label
    assert None is run.window
    assert "paused" == app.schedules.get(nightly.id).status


def test_a_one_time_schedule_ends_after_it_has_run(app, tasks, clock):
    app.schedules.create("once", tasks.report, at("2026-04-02T13:00Z"))
    clock.advance("2h")
    fire(app, clock)
    ended = app.schedules.get("once")

    assert ("ended", 1, None) == (ended.status, ended.fires, ended.next_for)
    assert "late" == app.schedules.edit("once", name="late").name


def test_an_unknown_schedule_is_not_found(app, nightly):
    for unknown in ("nightly", UUID(int=5), str(UUID(int=5))):
        for order in (app.schedules.get, app.schedules.pause, app.schedules.trigger):
            says = refused(app, NotFound, partial(order, unknown))

            assert "schedule:" in says
    assert "names no schedule" in refused(app, UsageError, lambda: app.schedules.get(42))


def test_schedules_are_listed_by_name_and_filtered(app, tasks):
    for name in ("b-two", "a-one", "b-one"):
        app.schedules.create(name, tasks.report, NIGHTLY, owner=name[0])
    app.schedules.create("mail", tasks.remind.bind(1), HOURLY)
    app.schedules.pause("b-two")

    def names(**options):
        return [one.name for one in app.schedules.list(**options)]

    assert ["a-one", "b-one", "b-two", "mail"] == names()
    assert ["b-one", "b-two"] == names(name_prefix="b-")
    assert ["mail"] == names(task="remind")
    assert ["a-one"] == names(owner="a")
    assert ["b-two"] == names(status="paused")
    assert "status: 'busy'" in refused(app, UsageError, lambda: names(status="busy"))


def test_a_long_list_is_read_page_by_page(app, tasks):
    """The last page is exactly full in the first case, and not in the second."""
    for number in range(1000):
        app.schedules.create(f"n{number:05}", tasks.report, HOURLY)

    assert 1000 == len(app.schedules.list())
    app.schedules.create("n99999", tasks.report, HOURLY)

    listed = app.schedules.list()

    assert 1001 == len({one.id for one in listed})
    assert sorted(listed, key=lambda one: one.name) == listed


def test_a_tenant_does_not_see_anothers_schedules(app, nightly, store, clock):
    other = duly.App(store=store, clock=clock, tenant="other")

    assert [] == other.schedules.list()
    for name in (nightly.id, nightly.name):
        refused(app, NotFound, partial(other.schedules.get, name))
        refused(app, NotFound, partial(other.schedules.delete, name))


def test_a_preview_shows_what_a_timetable_would_do(app):
    shown = app.schedules.preview(NIGHTLY, n=2)

    assert ["2026-04-03T00:00:00Z", "2026-04-04T00:00:00Z"] == [
        one["utc"] for one in shown.to_json()["occurrences"]
    ]
    assert NOON == shown.after


def test_a_schedule_can_be_written_as_json(app, nightly):
    written = nightly.to_json()

    assert NIGHTLY.to_json() == written["timetable"]
    assert ("nightly-report", "2026-04-03T00:00:00Z") == (written["name"], written["next_for"])


def test_an_edit_keeps_a_skipped_occurrence_skipped_if_it_is_still_the_next(app, tasks):
    """INV-14: a person's order is not undone by another about something else."""
    app.schedules.create("daily", tasks.report, cron("0 9 * * *"))
    app.schedules.skip_next("daily", reason="holiday")
    edited = app.schedules.edit("daily", timetable=cron("0 9,10 * * *"))

    assert moment("2026-04-03T10:00Z") == edited.next_for
