"""`duly prove`: whether a day's work is done, all of it and once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

import duly
from duly.domain.ids import ScheduleId
from duly.domain.outcomes import Succeeded
from duly.domain.verification import ItemReport
from duly.engine.manual_clock import ManualClock
from duly.store.sqlite import SqliteStore
from duly.timetable.instants import to_microseconds
from duly_conformance import kit, steps
from tests.cli.scripted_worker import PlayedWorker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.store.ports.execution import ClaimedRun
    from tests.cli.duly_command import Workplace

ORDER = ("prove", "nightly-close", "--for", "2026-04-03")


class Night:
    """The night of April 3, on the command's store: its run is in a worker's hands."""

    def __init__(self, store: SqliteStore, clock: ManualClock) -> None:
        app = duly.App(store=store)
        close = app.task(name="close")(lambda: None)
        timetable = duly.cron("0 2 * * *", tz="Europe/Paris")
        made = app.schedules.create("nightly-close", close, timetable)
        seen = store.get_schedule(ScheduleId(made.id.bytes))
        assert seen is not None
        self.record = seen.record
        steps.fire_due(store, clock, self.record)
        self.worker = PlayedWorker(store, tasks=("close",))
        self.store = store

    def take(self) -> ClaimedRun:
        return self.worker.take()

    def close(self, *done: str) -> None:
        """End the run well, with the items that are done of the three that are expected."""
        names = ("a", "b", "c")
        scope = ItemReport(expected=len(names), names=names, done=done)
        finish = kit.finish(self.take(), Succeeded(), scope=scope)
        self.store.finish_runs(self.worker.member, [finish])


@pytest.fixture
def night(place: Workplace) -> Iterator[Night]:
    clock = ManualClock(to_microseconds(datetime(2026, 4, 2, 12, tzinfo=UTC)))
    store = SqliteStore(place.folder / "promises.db", clock)
    yield Night(store, clock)
    store.close()


def test_a_close_of_everything_is_proven(place: Workplace, night: Night):
    """One command, and its exit code."""
    night.close("a", "b", "c")
    answer = place.duly(*ORDER)
    told = place.duly(*ORDER, "--json").json

    assert 0 == answer.status, answer.err
    assert "nightly-close on 2026-04-03 (Europe/Paris): proven" in answer.out
    assert "3 of 3" in answer.out
    assert ("Europe/Paris", True) == (told["zone"], told["is_proven"])
    assert ["proven"] == [one["standing"] for one in told["occurrences"]]


def test_what_is_missing_is_named(place: Workplace, night: Night):
    """A success is no proof."""
    night.close("a", "c")
    answer = place.duly(*ORDER)

    assert 1 == answer.status
    assert "not proven" in answer.out
    assert "2 of 3 items are done" in answer.out
    assert "missing of nightly-close@2026-04-03T02:00+02:00: b" in answer.out.splitlines()


def test_what_is_in_doubt_has_its_own_exit_code(place: Workplace, night: Night):
    claimed = night.take()
    night.worker.begin(claimed, "payout")
    night.worker.leave_in_doubt(claimed)
    answer = place.duly(*ORDER)

    assert 6 == answer.status
    assert "nobody knows what a run of it did: see the inbox" in answer.out


def test_what_still_runs_is_not_proven(place: Workplace, night: Night):
    answer = place.duly(*ORDER)

    assert (1, True) == (answer.status, "unfinished" in answer.out)


def test_what_is_not_due_yet_is_counted_and_not_called_unfinished(place: Workplace):
    """Each hour of a day to come."""
    place.duly("schedule", "create", "hourly", "--task", "nightly_report", "--when", "0 * * * *")
    answer = place.duly("prove", "hourly", "--for", "2100-01-01")
    told = place.duly("prove", "hourly", "--for", "2100-01-01", "--json").json

    assert 1 == answer.status
    assert [
        "hourly on 2100-01-01 (UTC): not proven yet",
        "not due yet: 24 occurrences, the next Fri 2100-01-01 00:00 UTC (+00:00)",
    ] == answer.out.splitlines()
    assert (False, {"expected"}) == (
        told["is_proven"],
        {one["standing"] for one in told["occurrences"]},
    )


@pytest.mark.parametrize(
    ("order", "status", "part"),
    [
        (("prove", "nightly-close", "--for", "yesterday"), 2, "is not a day"),
        (("prove", "nightly-close"), 2, "--for"),
        (("prove", "nobody", "--for", "2026-04-03"), 3, "nobody"),
    ],
)
def test_a_bad_question_is_refused(
    place: Workplace, night: Night, order: tuple[str, ...], status: int, part: str
):
    assert night.record.name == "nightly-close"
    answer = place.duly(*order)

    assert (status, "") == (answer.status, answer.out)
    assert part in answer.err
