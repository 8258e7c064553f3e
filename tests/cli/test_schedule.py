"""`duly schedule`, run as processes: a person's path through the life of a schedule."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.cli.duly_command import Answer, Workplace
from tests.cli.scripted_worker import PlayedWorker

if TYPE_CHECKING:
    from pathlib import Path

    from duly.store.sqlite import SqliteStore

NIGHTLY = ("--task", "nightly_report", "--when", "every day at 2:30", "--tz", "Europe/Berlin")


def create(place: Workplace, *more: str) -> Answer:
    return place.duly("schedule", "create", "nightly", *NIGHTLY, *more)


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """A store with two schedules, for tests that only look."""
    folder: Path = tmp_path_factory.mktemp("standing")
    place = Workplace.made_in(folder)
    assert 0 == create(place, "--json").status
    reminder = ("--task", "send_reminder", "-a", "class_id=42", "-a", "note=be on time")
    policies = ("--misfire", "all", "--at-most", "3", "--jitter", "5m", "--owner", "school")
    answer = place.duly(
        "schedule", "create", "remind", *reminder, "--when", "H H * * 1-5", *policies, "--json"
    )
    assert 0 == answer.status
    return place


def test_creating_shows_the_next_three_and_the_way_back(place: Workplace):
    """Local time, zone and UTC, before anything has fired."""
    answer = create(place)
    lines = answer.out.splitlines()

    assert 0 == answer.status, answer.err
    assert "nightly_report: every day at 02:30 (Europe/Berlin)" == lines[0]
    assert "local time (Europe/Berlin)" in lines[1]
    assert 3 == sum("Z\tin " in line for line in lines)
    assert any(line.startswith("Created nightly. Next run: ") for line in lines)
    assert "undo: duly schedule delete nightly --reason 'made by mistake' --yes" in lines
    assert any(
        one.startswith("note: no dispatcher has reported yet, and nothing ") for one in lines
    )


def test_a_dry_run_shows_the_same_and_stores_nothing(place: Workplace):
    answer = create(place, "--dry-run")

    assert 0 == answer.status
    assert 3 == answer.out.count("Z\tin ")
    assert [] == place.duly("schedule", "list", "--json").json


def test_the_same_schedule_made_again_is_the_same_one(standing: Workplace):
    answer = create(standing, "--json")

    assert (0, False, 1) == (answer.status, answer.json["is_new"], answer.json["version"])


def test_h_is_spread_by_the_name_of_the_schedule(standing: Workplace):
    """Two schedules with the same words do not fall on the same minute."""
    shown = standing.duly("schedule", "show", "remind", "--json").json

    assert "remind" == shown["timetable"]["seed"]


def test_the_list_says_what_comes_next(standing: Workplace):
    answer = standing.duly("schedule", "list")
    lines = answer.out.splitlines()

    assert ["name", "nightly", "remind"] == [line.split()[0] for line in lines]
    # In the night in which there is no 02:30 it comes at 03:00.
    assert re.search(r"02:30 CES?T|03:00 CEST", lines[1])
    assert ["remind"] == [
        one["name"] for one in standing.duly("schedule", "list", "--owner", "school", "--json").json
    ]


def test_showing_tells_every_effective_policy_with_its_defaults(standing: Workplace):
    out = standing.duly("schedule", "show", "remind").out

    assert 'send_reminder(class_id=42, note="be on time")' in out
    assert "all made up for, beside the fresh ones (at most 3, none older than 1 day)" in out
    assert "gap=next (default), fold=first (default)" in out
    assert "within 5 minutes; this schedule's share is " in out
    assert "1, by ada at 20" in out
    assert 3 == out.count("Z\tin ")


def test_a_beginning_that_only_one_has_is_enough_to_look(standing: Workplace):
    identity = standing.duly("schedule", "show", "nig", "--json").json["id"]

    assert "nightly" == standing.duly("schedule", "show", identity, "--json").json["name"]


def test_a_beginning_shows_all_that_the_whole_name_shows(standing: Workplace):
    """How its newest runs ended is told either way."""
    whole = standing.duly("schedule", "show", "nightly").out

    assert "last verified" in whole
    assert "last verified" in standing.duly("schedule", "show", "nig").out


def test_a_beginning_is_not_enough_to_delete(standing: Workplace):
    answer = standing.duly("schedule", "delete", "nig", "--reason", "x", "--yes")

    assert 3 == answer.status
    assert "did you mean nightly?" in answer.err


def test_pausing_keeps_the_reason_and_resuming_goes_on(place: Workplace):
    create(place)
    paused = place.duly("schedule", "pause", "nightly", "--reason", "migration", "--until", "+2d")
    listed = place.duly("schedule", "list").out
    shown = place.duly("schedule", "show", "nightly").out
    resumed = place.duly("schedule", "resume", "nightly")

    assert "undo: duly schedule resume nightly" in paused.out
    assert "then it resumes by itself" in paused.out
    assert "migration" in listed
    assert "Next after the pause: " in shown
    assert "Resumed nightly. Next run: " in resumed.out
    assert "undo: duly schedule pause nightly --reason migration" in resumed.out


def test_an_edit_says_what_it_moves_and_how_to_move_it_back(place: Workplace):
    create(place)
    answer = place.duly("schedule", "edit", "nightly", "--when", "every day at 4", "--json")
    again = place.duly("schedule", "edit", "nightly", "--tz", "Asia/Tokyo")

    assert "Europe/Berlin" == answer.json["timetable"]["tz"]
    assert answer.json["moved"]["before"] != answer.json["moved"]["after"]
    assert answer.json["undo"].startswith("duly schedule edit nightly --when 'every day at 2:30'")
    assert "The next run moves from " in again.out
    assert " 04:00 JST (+09:00)." in again.out


def test_an_edit_of_a_version_that_is_gone_changes_nothing(place: Workplace):
    """Whoever was faster stays."""
    create(place)
    place.duly("schedule", "pause", "nightly", "--reason", "x")
    late = place.duly("schedule", "edit", "nightly", "--when", "every day at 4", "--version", "1")

    assert 4 == late.status
    assert "is at version 2, changed by ada" in late.err
    assert 2 == place.duly("schedule", "show", "nightly", "--json").json["version"]


def test_what_is_deleted_can_be_restored_and_all_of_it_is_on_record(place: Workplace):
    create(place)
    unsure = place.duly("schedule", "delete", "nightly", "--reason", "gone")
    deleted = place.duly("schedule", "delete", "nightly", "--reason", "gone", "--yes")
    restored = place.duly("schedule", "restore", "nightly", "--reason", "not gone")
    history = place.duly("schedule", "history", "nightly", "--json").json

    assert (2, True) == (unsure.status, "give --yes" in unsure.err)
    assert "undo: duly schedule restore nightly" in deleted.out
    assert "Restored nightly. Next run: " in restored.out
    assert [
        ("schedule.restored", "ada", "cli", "not gone"),
        ("schedule.deleted", "ada", "cli", "gone"),
        ("schedule.created", "ada", "cli", None),
    ] == [(one["action"], one["actor"], one["source"], one["reason"]) for one in history]


def test_success_and_error_are_told_and_what_was_not_is_said(place: Workplace, store: SqliteStore):
    """In the list, and for one schedule with the run, the reason and the last line."""
    create(place)
    fresh = place.duly("schedule", "show", "nightly").out
    worker = PlayedWorker(store, tasks=("nightly_report",))
    for end in (worker.succeed, worker.bury):
        place.duly("schedule", "trigger", "nightly", "--json")
        end(worker.take())
    shown = place.duly("schedule", "show", "nightly").out
    (listed,) = place.duly("schedule", "list", "--json").json

    assert 3 == fresh.count("none on record")
    assert 1 == shown.count("none on record")
    (error,) = (line for line in shown.splitlines() if line.startswith("last error"))
    assert error.endswith("not-retryable: ValueError: no such class")
    ends = listed["last_ends"]
    assert ends["success"]["at"] <= ends["error"]["at"]
    assert (None, None) == (ends["verified"], ends["unknown_through"])
    assert "last verified" in place.duly("schedule", "list").out


def test_an_edit_of_a_cron_rule_is_undone_by_a_command(place: Workplace):
    """Also where nothing in the rule is spread."""
    place.duly("schedule", "create", "early", "--task", "nightly_report", "--when", "0 9 * * *")
    edited = place.duly("schedule", "edit", "early", "--when", "0 10 * * *")

    assert "undo: duly schedule edit early --when '0 9 * * *' --tz UTC" in edited.out


def test_triggering_says_what_becomes_of_the_timetable(place: Workplace):
    """Of a paused one nothing goes on."""
    create(place)
    going = place.duly("schedule", "trigger", "nightly").out
    place.duly("schedule", "pause", "nightly", "--reason", "holidays")
    paused = place.duly("schedule", "trigger", "nightly", "--overlap", "allow").out

    assert "Its timetable goes on as before." in going
    assert "It stays paused." in paused
    assert "goes on" not in paused


def test_an_instant_is_no_rule_and_is_told_so(place: Workplace):
    """The option that is meant is named."""
    answer = place.duly("schedule", "create", "nightly", "--task", "nightly_report", "--at", "9:00")

    assert 2 == answer.status
    assert "unknown option --at; a rule is given by --when" in answer.err


def test_triggering_and_skipping_are_told_apart(place: Workplace):
    create(place)
    triggered = place.duly("schedule", "trigger", "nightly", "--reason", "now please", "--json")
    skipped = place.duly("schedule", "skip", "nightly", "--reason", "holiday", "--json").json
    runs = place.duly("run", "list", "--schedule", "nightly", "--json").json
    ledger = place.duly("schedule", "occurrences", "nightly", "--to", "+3d", "--json").json

    assert [("manual", "queued")] == [(one["origin"], one["state"]) for one in runs]
    assert triggered.json["id"] == runs[0]["id"]
    assert [(skipped["skipped_for"], "skipped"), (skipped["next_for"], "pending")] == [
        (one["scheduled_for"], one["verdict"]) for one in ledger[:2]
    ]


def test_a_schedule_is_made_with_a_validity(place: Workplace):
    """Days count whole, in the rule's zone; a bound that is not given again stays."""
    made = place.duly(
        *("schedule", "create", "term", "--task", "nightly_report", "--when", "every day at 9"),
        *("--tz", "Europe/Berlin", "--from", "2099-09-01", "--until", "2100-06-30", "--json"),
    )
    assert 0 == made.status, made.err
    assert "2099-09-01T07:00:00Z" == made.json["next_for"]
    timetable = made.json["timetable"]
    assert ("between-dates", "2099-09-01", "2100-06-30") == (
        timetable["kind"],
        timetable["start"],
        timetable["end"],
    )

    place.duly("schedule", "edit", "term", "--when", "every day at 10", "--until", "2100-07-31")
    edited = place.duly("schedule", "show", "term", "--json").json["timetable"]
    assert ("2099-09-01", "2100-07-31") == (edited["start"], edited["end"])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--from", "2100-01-02", "--until", "2100-01-01"), "until: '2100-01-01'"),
        (("--from", "2100-01-02", "--until", "2100-02-01T09:00Z"), "is no date"),
        (("--until", "some day"), "until: 'some day'"),
        (("--until", "2001-01-01"), "has no occurrence in the future"),
    ],
)
def test_a_validity_that_can_not_be_is_refused_by_its_option(
    place: Workplace, options: tuple[str, ...], says: str
):
    refused = place.duly(
        "schedule", "create", "term", "--task", "nightly_report", "--when", "1h", *options
    )

    assert (2, "") == (refused.status, refused.out)
    assert says in refused.err
    assert 3 == place.duly("schedule", "show", "term").status
