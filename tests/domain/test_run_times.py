"""How much of the time between two occurrences runs take, and when somebody is told."""

from __future__ import annotations

from datetime import timedelta

import pytest

from duly.domain.vitals import RunSpan, RunTimes, run_times
from duly.timetable.cron import cron
from duly.timetable.instants import to_microseconds
from duly.timetable.interval import every
from duly.timetable.once import at
from tests.each_row import each_row
from tests.timetable.instants import moment

NOW = moment("2026-04-02T12:00Z")
NOW_US = to_microseconds(NOW)
SECOND = 1_000_000


def spans(*seconds: float) -> list[RunSpan]:
    """Return runs that took so long."""
    return [RunSpan(NOW_US, NOW_US + int(one * SECOND)) for one in seconds]


def test_nine_of_ten_runs_decide_and_not_the_slowest_nor_the_mean():
    found = run_times(every("1m"), spans(*[10] * 17, 20, 300, 300), NOW, NOW_US)

    assert (timedelta(seconds=20), 20) == (found.usual, found.count)
    assert timedelta(minutes=1) == found.interval
    assert found.ratio == pytest.approx(1 / 3)
    assert found.warning is None


def test_the_shortest_way_between_two_occurrences_counts():
    """The night between two working days helps no run of nine o'clock."""
    found = run_times(cron("0,5 9 * * *", tz="UTC"), spans(270), NOW, NOW_US)

    assert timedelta(minutes=5) == found.interval
    assert (
        "runs take up to 4 minutes 30 seconds, 90% of the 5 minutes until the next one:"
        " a little slower, and they overlap"
    ) == found.warning


@each_row(
    ("seconds", "says"),
    [
        (47.9, None),
        (48, "80% of the 1 minute until the next one: a little slower, and they overlap"),
        (59.9, "a little slower"),
        (60, "they overlap"),
        (90, "150% of the 1 minute until the next one: they overlap"),
    ],
)
def test_somebody_is_told_while_there_is_still_room(seconds: float, says: str | None):
    """Before overlap starts."""
    warning = run_times(every("1m"), spans(seconds), NOW, NOW_US).warning

    assert (warning is None) if says is None else (says in (warning or ""))


def test_a_run_that_does_not_end_is_told_of_although_earlier_ones_were_quick():
    quick = spans(1, 1, 1)
    hanging = RunSpan(NOW_US - 55 * SECOND, None)
    fresh = RunSpan(NOW_US - 5 * SECOND, None)

    found = run_times(every("1m"), [fresh, hanging, *quick], NOW, NOW_US)

    assert timedelta(seconds=55) == found.open_for
    assert "a run has been open for 55 seconds, and the next comes every minute" == found.warning
    assert run_times(every("1m"), [fresh, *quick], NOW, NOW_US).warning is None
    long = run_times(every("90s"), [RunSpan(NOW_US - 85 * SECOND, None)], NOW, NOW_US)
    assert (long.warning or "").endswith("the next comes every 1 minute 30 seconds")


def test_without_a_next_one_or_a_last_one_nothing_is_said():
    once = run_times(at("2026-04-03T00:00Z"), spans(100_000), NOW, NOW_US)
    new = run_times(every("1m"), [], NOW, NOW_US)

    assert (None, None, None) == (once.interval, once.ratio, once.warning)
    assert (None, None, None) == (new.usual, new.ratio, new.warning)
    assert {"interval": 60.0, "usual": None, "open_for": None, "ratio": None, "runs": 0} == (
        new.to_json()
    )


def test_times_below_a_second_are_told_as_they_are():
    found = RunTimes(
        interval=timedelta(seconds=1),
        usual=timedelta(milliseconds=850, microseconds=7),
        open_for=None,
        count=3,
    )

    assert "runs take up to 850 milliseconds, 85% of the 1 second" in (found.warning or "")
