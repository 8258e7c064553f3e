"""`H` of cron, spread by the schedule that it is given to, however that is made."""

from __future__ import annotations

from datetime import UTC, datetime

import duly
from duly import cron

NAME = "nightly-report"
SEEDED = cron("H 3 * * *", seed=NAME)


def test_a_schedule_spreads_by_its_name_what_is_open(app, tasks):
    """Made again, it is the same one; of another name it is another place."""
    made = app.schedules.create(NAME, tasks.report, cron("H 3 * * *"))
    again = app.schedules.create(NAME, tasks.report, cron("H 3 * * *"))
    other = app.schedules.create("another", tasks.report, cron("H 3 * * *"))

    assert SEEDED == made.timetable == app.schedules.get(NAME).timetable
    assert made.id == again.id
    assert made.timetable != other.timetable
    assert made.next_due == SEEDED.next(datetime(2026, 4, 2, 12, tzinfo=UTC))


def test_an_edit_spreads_by_the_name_that_holds_from_then_on(app, tasks):
    """A rename alone moves nothing."""
    app.schedules.create("old", tasks.report, cron("0 3 * * *"))
    edited = app.schedules.edit("old", timetable=cron("H 3 * * *"), name=NAME)
    renamed = app.schedules.edit(NAME, name="third")

    assert SEEDED == edited.timetable == renamed.timetable


def test_a_schedule_that_code_declares_is_spread_by_its_name(app):
    """And nothing has changed at the next start."""

    @app.schedule(cron("H 3 * * *"), name=NAME)
    @app.task
    def report() -> None:
        pass

    first = app.reconcile()
    second = app.reconcile()

    assert SEEDED == app.schedules.get(NAME).timetable
    assert (NAME,) == first.created
    assert not second.created
    assert not second.changed


def test_a_stored_timetable_is_never_open(app, tasks):
    """What is stored means the same for ever."""
    made = app.schedules.create(NAME, tasks.report, cron("H H * * *") | cron("0 4 * * *"))
    stored = made.timetable.to_json()

    assert [NAME, None] == [part.get("seed") for part in stored["parts"]]
    assert duly.timetable_from_json(stored) == made.timetable
