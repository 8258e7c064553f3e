"""`duly enqueue`, `move`, `cancel`, `delayed`, `run`: runs that are ordered once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duly.cli.times import machine_zone
from duly.errors import UsageError

if TYPE_CHECKING:
    from tests.cli.duly_command import Workplace

REMIND = ("enqueue", "send_reminder", "-a", "class_id=7")


def test_a_delayed_run_can_be_moved_and_cancelled_by_its_key(place: Workplace):
    promised = place.duly(*REMIND, "--at", "tomorrow", "--tz", "Asia/Tokyo", "--key", "class:7")
    moved = place.duly("move", "class:7", "--in", "3h", "--reason", "the class moved", "--json")
    pending = place.duly("delayed", "list", "--json").json
    cancelled = place.duly("cancel", "class:7", "--reason", "called off")
    run = place.duly("run", "show", promised.out.partition("Id: ")[2].split()[0], "--json")

    assert " 00:00 JST (+09:00), in " in promised.out
    assert "undo: duly cancel class:7 --reason " in promised.out
    assert [("class:7", 1, moved.json["due_at"])] == [
        (one["key"], one["moves"], one["due_at"]) for one in pending
    ]
    assert "undo: duly enqueue send_reminder --at " in cancelled.out
    assert [] == place.duly("delayed", "list", "--json").json
    assert ("cancelled", "called off") == (run.json["state"], run.json["reason"])


def test_a_wall_time_without_a_zone_is_this_machines_which_is_told(place: Workplace):
    """Also where a day is named; an offset or --tz leaves nothing to be told."""
    promised = [
        place.duly(*REMIND, "--at", text, "--json", *more, TZ="Asia/Tokyo")
        for text, more in (
            ("2100-01-01T00:00", ()),
            ("tomorrow at 9", ()),
            ("2100-01-01T00:00", ("--tz", "Europe/Berlin")),
            ("2100-01-01T00:00+05:00", ()),
            ("+2d", ()),
        )
    ]
    shown = place.duly(*REMIND, "--at", "2100-01-01T00:00", TZ="Asia/Tokyo")
    due = [one.json["due_at"][:19] for one in promised]

    assert ["2099-12-31T15:00:00", "2099-12-31T23:00:00", "2099-12-31T19:00:00"] == [
        *due[:1],
        *due[2:4],
    ]
    assert due[1].endswith("T00:00:00")
    assert [True, True, False, False, False] == [
        "Asia/Tokyo, the zone of this machine" in one.err for one in promised
    ]
    assert "due Fri 2100-01-01 00:00 JST (+09:00), in " in shown.out
    assert shown.err.startswith(
        "note: --at 2100-01-01T00:00 is Fri 2100-01-01 00:00 JST (+09:00) in"
    )


def test_a_machine_whose_zone_has_no_name_takes_no_wall_time(place: Workplace):
    """And shows times in UTC."""
    refused = place.duly(*REMIND, "--at", "tomorrow", TZ="CET-1CEST")
    promised = place.duly(*REMIND, "--at", "2100-01-01T00:00Z", TZ="CET-1CEST")

    assert (2, True) == (refused.status, "'CET-1CEST' is this machine's zone ($TZ)" in refused.err)
    assert (0, "") == (promised.status, promised.err)
    assert " 00:00 UTC (+00:00), in " in promised.out


def test_the_zone_of_a_machine_is_what_its_system_is_set_to(tmp_path, monkeypatch):
    monkeypatch.delenv("TZ", raising=False)
    (empty := tmp_path / "empty").mkdir()
    (linked := tmp_path / "linked").mkdir()
    (linked / "localtime").symlink_to("/usr/share/zoneinfo/Asia/Tokyo")
    (written := tmp_path / "written").mkdir()
    (written / "localtime").write_text("TZif")
    (written / "timezone").write_text("Europe/Berlin\n")
    (copied := tmp_path / "copied").mkdir()
    (copied / "localtime").write_text("TZif")
    found = [machine_zone(one) for one in (empty, linked, written)]
    for said in (":Asia/Kolkata", "/usr/share/zoneinfo/Asia/Kolkata", ""):
        monkeypatch.setenv("TZ", said)
        found.append(machine_zone(copied))
    monkeypatch.delenv("TZ")

    assert ["UTC", "Asia/Tokyo", "Europe/Berlin", *["Asia/Kolkata"] * 2, "UTC"] == found
    with pytest.raises(UsageError, match="is this machine's zone"):
        machine_zone(copied)


def test_every_moment_that_is_typed_is_meant_in_a_zone_that_is_told(place: Workplace):
    """By each command that takes one and knows no schedule, whose zone would count."""
    for name in ("a", "b"):
        rule = ("--task", "nightly_report", "--when", "1d")
        place.duly("schedule", "create", name, *rule)
    wrong = []
    for words in (
        ("run", "list", "--since", "2020-01-01"),
        ("run", "list", "--until", "today 9:00"),
        ("run", "list", "--as-of", "2020-01-01T00:00"),
        ("run", "missing", "--since", "2020-01-01"),
        ("run", "missing", "--until", "tomorrow"),
        ("run", "retry", "--dead", "--since", "today", "--reason", "x", "--yes"),
        ("run", "rerun", "--task", "nightly_report", "--since", "today", "--reason", "x", "--yes"),
        ("run", "skip", "--task", "nightly_report", "--until", "today", "--reason", "x", "--yes"),
        ("audit", "--since", "2020-01-01"),
        ("audit", "--until", "tomorrow"),
        ("schedule", "pause", "a", "b", "--reason", "x", "--yes", "--until", "2100-01-01"),
        ("alert", "silence", "--kind", "late-run", "--reason", "x", "--until", "tomorrow"),
        ("zones", "diff", "wheel", "--after", "2026-01-01"),
    ):
        answer = place.duly(*words, "--json", TZ="Asia/Tokyo")
        if answer.status or "in Asia/Tokyo, the zone of this machine" not in answer.err:
            wrong.append((words, answer))
    paused = place.duly("schedule", "show", "a", "--json").json

    assert [] == wrong
    assert "2099-12-31T15:00:00" == paused["resume_at"][:19]


def test_a_run_at_once_is_queued_where_its_task_says(place: Workplace):
    made = place.duly(*REMIND, "-a", "note=be on time", "--json").json
    listed = place.duly("run", "list", "--queue", "mail").out
    found = place.duly("run", "show", made["id"][:18]).out

    assert made["id"] in listed
    assert 'send_reminder {"class_id": 7, "note": "be on time"}' in found
    assert "queue           mail, priority 4" in found


def test_what_lies_in_the_past_runs_at_once_if_that_is_wanted(place: Workplace):
    made = place.duly(*REMIND, "--at", "2020-01-01", "--past", "--json")

    assert 0 == made.status, made.err
    assert ["queued"] == [one["state"] for one in place.duly("run", "list", "--json").json]


def test_the_same_order_under_the_same_key_is_the_same_promise(place: Workplace):
    order = (*REMIND, "--at", "2100-01-01", "--key", "class:7")
    first = place.duly(*order, "--json").json
    again = place.duly(*order)

    assert f"This was promised before, as {first['id']}. Nothing was added." in again.out


def test_an_order_may_replace_the_one_of_its_key(place: Workplace):
    place.duly(*REMIND, "--in", "1h", "--key", "class:7")
    place.duly(*REMIND, "--in", "2h", "--key", "class:7", "--replace")

    assert 1 == len(place.duly("delayed", "list", "--json").json)
    assert ["replaced"] == [one["state"] for one in place.duly("run", "list", "--json").json]
