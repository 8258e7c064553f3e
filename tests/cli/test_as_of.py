"""`--as-of`: the past, where it is on record; elsewhere one clear refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.timetable.instants import from_microseconds, iso_utc
from tests.cli.scripted_worker import PlayedWorker

if TYPE_CHECKING:
    from duly.store.sqlite import SqliteStore
    from tests.cli.duly_command import Workplace


def test_runs_schedules_and_the_trail_are_shown_as_they_were(place: Workplace, store: SqliteStore):
    create = ("schedule", "create", "nightly", "--task", "nightly_report", "--when", "1h")
    assert 0 == place.duly(*create).status
    worker = PlayedWorker(store)
    run = worker.queue()
    claimed = worker.take()
    then = iso_utc(from_microseconds(store.now()))
    worker.succeed(claimed)
    place.duly("schedule", "pause", "nightly", "--reason", "moving")
    (told,) = place.duly("run", "list", "--as-of", then, "--json").json
    shown = place.duly("schedule", "show", "nightly", "--as-of", then)
    as_json = place.duly("schedule", "show", "nightly", "--as-of", then, "--json").json
    trail = place.duly("audit", "--as-of", then, "--json").json
    table = place.duly("run", "list", "--as-of", then, "--state", "running")

    assert (str(run), "running") == (told["id"], told["state"])
    assert "removed since are not told" in table.out
    assert (str(run) in table.out, table.status) == (True, 0)
    assert ("active", 1) == (as_json["status"], as_json["version"])
    assert "nightly  as of " in shown.out
    assert "schedule.created by ada" in shown.out
    assert "schedule.paused" not in {one["action"] for one in trail}


def test_what_can_not_be_told_of_the_past_is_refused(place: Workplace):
    """With what to do instead."""
    for words in (("backfill", "list"), ("schedule", "list"), ("queue", "list")):
        answer = place.duly(*words, "--as-of", "-2h")

        assert 2 == answer.status, answer.out
        assert "duly run list, duly schedule show and duly audit" in answer.err
    ahead = place.duly("run", "list", "--as-of", "+2h")
    both = place.duly("run", "list", "--as-of", "-2h", "--cursor", "first")
    assert (2, True) == (ahead.status, "lies in the future" in ahead.err)
    assert (2, True) == (both.status, "contradicts --as-of" in both.err)
