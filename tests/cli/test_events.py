"""`duly events`: what happens, as it happens, and nothing twice."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

from duly_conformance import steps
from tests.waiting import read_line

if TYPE_CHECKING:
    from duly.store.sqlite import SqliteStore
    from tests.cli.duly_command import Workplace


def test_the_last_events_are_shown_oldest_first(place: Workplace, store: SqliteStore):
    for name in ("a", "b", "c"):
        steps.create(store, name)
    told = place.duly("events", "-n", "2")
    listed = [json.loads(line) for line in place.duly("events", "--json").out.splitlines()]
    rest = place.duly("events", "--after", str(listed[0]["number"]), "--json").out.splitlines()

    assert 0 == told.status, told.err
    assert ["schedule.created b", "schedule.created c"] == [
        " ".join(line.split()[2:4]) for line in told.out.splitlines()
    ]
    assert [1, 2, 3] == [one["number"] for one in listed]
    assert [2, 3] == [json.loads(line)["number"] for line in rest]


def test_who_follows_sees_what_comes(place: Workplace, store: SqliteStore):
    """One document on each line, at once."""
    record = steps.create(store, "a")
    following = place.start("events", "--follow", "--after", "0", "--json")
    first = json.loads(read_line(following))
    steps.pause(store, record)
    second = json.loads(read_line(following))
    following.send_signal(signal.SIGINT)
    following.communicate(timeout=120)

    assert ["schedule.created", "schedule.paused"] == [first["action"], second["action"]]
    assert 130 == following.returncode


def test_a_number_that_is_none_is_refused(place: Workplace):
    wrong = place.duly("events", "--after", "-1")
    many = place.duly("events", "-n", "100000")

    assert (2, True) == (wrong.status, "is not the number of an event" in wrong.err), wrong.err
    assert (2, True) == (many.status, "is out of range" in many.err), many.err
