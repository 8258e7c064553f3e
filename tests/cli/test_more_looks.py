"""`duly run missing|attempts|ambiguous`, `duly schedule diff`, `duly status --watch`."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

from duly_conformance import steps
from duly_conformance.kit import HOUR_US, new_schedule
from tests.cli.scripted_worker import PlayedWorker
from tests.waiting import read_line

if TYPE_CHECKING:
    from duly.store.sqlite import SqliteStore
    from tests.cli.duly_command import Workplace

NIGHTLY = ("--task", "nightly_report", "--when", "every day at 2:30", "--tz", "Europe/Berlin")


def test_what_was_expected_and_has_no_run_is_shown(place: Workplace, store: SqliteStore):
    """A schedule whose time has come several times, and nobody has fired it."""
    store.create_schedule(new_schedule(store.now() - 3 * HOUR_US, "hourly"))
    told = place.duly("run", "missing")
    found = place.duly("run", "missing", "--json", "--schedule", "hourly")

    assert (1, 1) == (told.status, found.status)
    assert {("hourly", "missing", "no-dispatcher")} == {
        (one["schedule"], one["verdict"], one["cause"]) for one in found.json
    }
    assert 3 == len(found.json)
    assert "no dispatcher is alive: start duly dispatcher" in told.out


def test_where_nothing_is_missing_that_is_said(place: Workplace):
    place.duly("schedule", "create", "nightly", *NIGHTLY)
    told = place.duly("run", "missing")
    future = place.duly("run", "missing", "--since", "+1h")

    assert (0, True) == (told.status, told.out.startswith("Nothing is missing since 20"))
    assert (2, True) == (future.status, "lies in the future" in future.err)


def test_each_attempt_of_a_run_is_shown_with_its_error(place: Workplace, store: SqliteStore):
    """Also that of an attempt that was not the last."""
    worker = PlayedWorker(store)
    run = worker.queue()
    waiting = place.duly("run", "attempts", str(run))
    worker.put_off(worker.take())
    told = place.duly("run", "attempts", str(run))
    (found,) = place.duly("run", "attempts", str(run), "--json").json

    assert "was not tried yet" in waiting.out
    assert ("failed", 1) == (found["state"], found["fence"])
    assert "ValueError: no such class" in told.out


def test_runs_in_doubt_are_listed_under_runs_too(place: Workplace, store: SqliteStore):
    """The same as the inbox; exit code 6 while there are any."""
    none = place.duly("run", "ambiguous")
    run = PlayedWorker(store).doubt()
    some = place.duly("run", "ambiguous", "--json")

    assert (0, 6) == (none.status, some.status)
    assert [str(run)] == [one["run"]["id"] for one in some.json]


def test_a_change_of_a_schedule_is_shown_field_by_field(place: Workplace):
    """What somebody else has changed can be seen before one changes it again."""
    place.duly("schedule", "create", "nightly", *NIGHTLY)
    made = place.duly("schedule", "diff", "nightly")
    place.duly("schedule", "edit", "nightly", "--when", "every day at 3:30")
    place.duly("schedule", "pause", "nightly", "--reason", "migration")
    last = place.duly("schedule", "diff", "nightly")
    both = place.duly("schedule", "diff", "nightly", "-n", "2", "--json").json
    edited = place.duly("schedule", "diff", "nightly", "--entry", str(both[1]["number"]))
    none = place.duly("schedule", "diff", "nightly", "--entry", "999")

    assert "nightly is as it was made.\n" == made.out
    assert ("- status: active\n+ status: paused" in last.out, "migration" in last.out) == (
        True,
    ) * 2
    assert ["schedule.paused", "schedule.edited"] == [one["action"] for one in both]
    assert edited.out.count("\n- ") == len(both[1]["changes"]) > 0
    assert 3 == none.status


def test_the_status_is_watched_until_it_is_enough(place: Workplace, store: SqliteStore):
    """One document on each line; the exit code is that of the last look."""
    watching = place.start("status", "--watch", "--interval", "100ms", "--json")
    first = json.loads(read_line(watching))
    steps.create(store, "nightly")
    while json.loads(read_line(watching))["is_well"]:
        pass
    watching.send_signal(signal.SIGINT)
    watching.communicate(timeout=120)

    assert first["is_well"]
    assert 1 == watching.returncode
