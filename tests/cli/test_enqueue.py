"""`duly enqueue`, `move`, `cancel`, `delayed`, `run`: runs that are ordered once."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
