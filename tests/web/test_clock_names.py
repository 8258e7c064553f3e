"""Whose time it is: a zone's clock has one name, wherever a time of it is shown."""

from __future__ import annotations

from datetime import timedelta

import pytest

import duly
from duly import cron
from duly.testing import virtual_time
from duly.timetable.instants import clock_name, clock_name_and_offset
from tests.web.page_client import Visitor


@pytest.mark.parametrize(
    ("letters", "minutes", "name", "whole"),
    [
        ("GMT", 0, "GMT", "GMT (+00:00)"),
        ("CET", 60, "CET", "CET (+01:00)"),
        ("UTC", 0, "UTC", "UTC (+00:00)"),
        ("+0545", 345, "UTC+05:45", "UTC+05:45"),
        ("-03", -180, "UTC-03:00", "UTC-03:00"),
        ("+00", 0, "UTC", "UTC"),
    ],
)
def test_a_clock_is_called_by_its_letters_or_by_what_it_is_off_utc(letters, minutes, name, whole):
    """The offset stands beside the letters, or for them where a zone has none."""
    offset = timedelta(minutes=minutes)

    assert (name, whole) == (clock_name(letters, offset), clock_name_and_offset(letters, offset))


def test_london_in_winter_is_called_the_same_on_every_page():
    """The list of runs, a run, its schedule, the overview, the inbox and the editor."""
    app = duly.App("memory:")

    @app.task(effects="unsafe")
    def settle(run: duly.Run) -> None:
        with run.effect("pay:1"):
            raise ConnectionResetError("no answer")

    with virtual_time(app, "2027-01-11T08:00") as clock, Visitor(app) as visitor:
        app.schedules.create("london", settle, cron("0 9 * * *", tz="Europe/London"))
        clock.advance("25h")
        visitor.enter()
        (run,) = app.runs.list(schedule="london", limit=1)
        pages = {
            path: visitor.whole(path)
            for path in (
                "/", "/runs", f"/runs/{run.id}", "/schedules", "/schedules/london",
                "/inbox", f"/inbox/{run.id}", "/schedules/london/edit",
            )
        }  # fmt: skip
    for path, text in pages.items():
        assert "GMT" in text, path
        assert "UTC+00:00" not in text, path
    assert "GMT (+00:00)" in pages["/schedules/london/edit"]
