"""What drawings show, without a page: calendar, strips, lateness, timeline, and the chain of a run."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

import duly
from duly import every
from duly.api.views import Attempt, Check, Occurrence
from duly.web.charts import (
    CELL,
    LEFT,
    RUNS,
    RUNS_LOOKED_AT,
    STEP,
    TOP,
    RunChain,
    lateness_spark,
    make_chain,
    run_calendar,
    run_strip,
)
from duly.web.formatting import TimeFormatter, mark
from duly.web.pages.timeline import COLUMNS, EACH_MAX, NARROWEST, RUNS_MAX, Axis, _lane, _ticks
from tests.timetable.instants import moment

NOON = moment("2026-04-03T12:00")
"""A Friday."""
SECOND = timedelta(seconds=1)
ID = UUID(int=7)
# From the one that needs somebody most to the one that needs nobody.
BY_TONE = ("dead", "ambiguous", "retrying", "running", "queued", "succeeded", "cancelled")


def after(seconds: float) -> Any:
    return NOON + timedelta(seconds=seconds)


def run(at: Any = NOON, state: str = "succeeded", took: float | None = None, **terms: Any):
    """Return a run whose every instant is `at`; it took so many seconds, if it was started."""
    times: dict[str, Any] = {"due_at": at, "created_at": at, "fired_at": at, "finished_at": None}
    if took is not None:
        times |= {"claimed_at": at, "started_at": at, "finished_at": at + took * SECOND}
    plain: dict[str, Any] = {
        "id": ID, "label": "r", "schedule": "s", "schedule_id": ID, "key": None, "window": None,
        "attempt": 1, "fence": 1, "origin": "schedule", "root": ID, "lane": "live", "reason": None,
        "task": "t", "arguments": {}, "queue": "default", "priority": 0, "lateness": None,
    }  # fmt: skip
    return duly.Run(scheduled_for=at, state=state, **{**plain, **times, **terms})


@pytest.mark.parametrize(
    ("now", "first", "days"),
    [
        ("2026-03-30T12:00", date(2025, 12, 1), 17 * 7 + 1),  # a Monday begins a column
        ("2026-04-03T12:00", date(2025, 12, 1), 17 * 7 + 5),
        ("2026-04-05T12:00", date(2025, 12, 1), 18 * 7),  # a Sunday ends one
        ("2026-04-06T00:00", date(2025, 12, 8), 17 * 7 + 1),
    ],
)
def test_a_calendar_has_eighteen_weeks_as_columns_with_monday_on_top(now, first, days):
    """The last day is today, and each week is one column to the right."""
    calendar = run_calendar([], "UTC", moment(now))
    places = [(one.x, one.y) for one in calendar.days]

    assert (first, moment(now).date()) == (calendar.days[0].day, calendar.days[-1].day)
    assert days == len(places)
    assert [(LEFT, TOP + place * CELL) for place in range(7)] == places[:7]
    assert all(one.y == TOP + one.day.weekday() * CELL for one in calendar.days)
    assert {LEFT + week * CELL for week in range(18)} == {x for x, _ in places}


def test_a_month_is_named_over_the_first_column_that_begins_in_it():
    """A first Monday may be the seventh."""
    months = run_calendar([], "UTC", moment("2026-09-10T12:00")).months

    assert ["Jun", "Jul", "Aug", "Sep"] == [name for _, name in months][-4:]
    assert (LEFT + 17 * CELL, "Sep") == months[-1]


@pytest.mark.parametrize(("count", "is_cut"), [(RUNS_LOOKED_AT - 1, False), (RUNS_LOOKED_AT, True)])
def test_a_calendar_says_that_there_are_older_runs(count, is_cut):
    """As many as are looked at may not be all."""
    calendar = run_calendar([run()] * count, "UTC", NOON)

    assert (count, is_cut) == (calendar.looked_at, calendar.is_cut)


@pytest.mark.parametrize("place", range(len(BY_TONE)))
def test_a_day_looks_like_the_run_that_needs_somebody_most(place):
    """However many others ended well."""
    runs = [run(state=state) for state in (*BY_TONE[place:], *["cancelled"] * 3)]

    assert mark(BY_TONE[place]).tone == run_calendar(runs[::-1], "UTC", NOON).days[-1].tone


@pytest.mark.parametrize(
    ("lane", "origin", "backfills"),
    [
        ("live", "schedule", 0),
        ("live", "manual", 0),
        ("catch-up", "catch-up", 0),
        ("backfill", "schedule", 1),
        ("live", "backfill", 1),
        ("live", "rerun", 1),
        ("live", "repair", 1),
    ],
)
def test_what_was_run_again_is_counted_apart(lane, origin, backfills):
    """By its lane or by where it comes from; in words, too."""
    runs = [run(), run(), run(state="dead", lane=lane, origin=origin)]
    day = run_calendar(runs, "UTC", NOON).days[-1]

    assert (3, backfills) == (day.count, day.backfills)
    assert "2 succeeded, 1 dead" + "; 1 by backfill or rerun" * backfills == day.words


@pytest.mark.parametrize(
    ("zone", "today", "listed"),
    [
        ("UTC", date(2026, 4, 3), [date(2026, 4, 3), date(2026, 4, 2)]),
        ("Asia/Tokyo", date(2026, 4, 4), [date(2026, 4, 4), date(2026, 4, 3)]),
        ("America/New_York", date(2026, 4, 3), [date(2026, 4, 2)]),
    ],
)
def test_a_day_is_one_of_the_zones_own_calendar(zone, today, listed):
    """By the nominal instant, whenever the run was made; newest first in the table."""
    made: dict[str, Any] = {"created_at": moment("2026-03-01T00:00")}
    runs = [run(moment(f"2026-04-{at}"), **made) for at in ("03T00:30", "02T23:30")]
    runs.append(run(moment("2026-04-03T16:00"), **made)) if zone == "Asia/Tokyo" else None
    calendar = run_calendar(runs, zone, moment("2026-04-03T18:00"))

    assert today == calendar.days[-1].day
    assert listed == [one.day for one in calendar.listed]
    assert zone == calendar.zone


def test_a_strip_has_the_newest_runs_oldest_first_as_high_as_they_took():
    """Newest come first, and are drawn last; older ones than it has room for are left out."""
    strip = run_strip([run(took=10), run(took=5), run(took=0)], NOON)
    full = run_strip([*[run(took=1)] * RUNS, run(state="dead", took=99)], NOON)

    assert strip is not None
    assert (("good", "M0 16v-2h5v2zM6 16v-8h5v8zM12 16v-15h5v15z"),) == strip.paths
    assert "Last 3 runs: 3 succeeded; usually 5 s, at most 10 s" == strip.words
    assert full is not None
    assert ["good"] == [tone for tone, _ in full.paths]
    assert f"M{(RUNS - 1) * STEP} 16v-15h5v15z" in full.paths[0][1]
    assert run_strip([], NOON) is None


def test_what_is_not_over_is_as_high_as_it_has_taken_so_far():
    """A run that goes on grows, and one that is over does not."""
    going = run(state="running", started_at=NOON)
    strip = run_strip([going, run(took=15)], after(30))

    assert strip is not None
    assert {"good": "M0 16v-8h5v8z", "busy": "M6 16v-15h5v15z"} == dict(strip.paths)
    assert strip.words.endswith("1 succeeded, 1 running; usually 15 s, at most 15 s")


def test_each_kind_of_end_has_a_shape_of_its_own():
    """Told apart without colours."""
    shapes = {}
    for state in ("dead", "ambiguous", "succeeded", "cancelled"):
        strip = run_strip([run(state=state, took=5)], NOON)
        assert strip is not None
        ((_, shapes[state]),) = strip.paths
    bar = shapes["succeeded"]

    assert 4 == len(set(shapes.values()))
    assert shapes["dead"].startswith(bar + "M0 17l5 5")
    assert shapes["ambiguous"].startswith(bar + "M2.5 17l2.5")
    assert "M0 16v-2h5v2z" == shapes["cancelled"]


@pytest.mark.parametrize(
    ("late", "points", "words"),
    [
        ([4, 2], "2,11 8,2", "2 runs: usually 4 s, at worst 4 s"),
        ([2, -1], "2,20 8,2", "2 runs: usually 2 s, at worst 2 s"),
        ([1, 3, 2], "2,8 8,2 14,14", "3 runs: usually 2 s, at worst 3 s"),
        ([0.0005, 0.0002], "", "2 runs: usually 0 ms, at worst 0 ms"),
    ],
)
def test_a_line_of_lateness_goes_from_the_oldest_to_the_newest(late, points, words):
    """The latest is on top, what was early is not late, and a clock's noise is not drawn."""
    spark = lateness_spark([run(lateness=one * SECOND) for one in late])

    assert spark is not None
    assert (points, f"Lateness of the last {words}") == (spark.points, spark.words)
    assert words.endswith(spark.worst)
    assert lateness_spark([run(lateness=SECOND), run()]) is None


def schedule(rule: str = "1h", status: str = "active") -> Any:
    """Return what a lane reads of a schedule."""
    return SimpleNamespace(name="s", status=status, timetable=every(rule), next_due=None)


AXIS = Axis.around(NOON, "12h")
COLUMN = timedelta(hours=12) / COLUMNS


def lane(runs: Any, expected: Any = (), rule: str = "1h") -> Any:
    return _lane(schedule(rule), AXIS, runs, expected)


def test_an_axis_is_mostly_past_and_holds_what_reaches_beyond_it():
    """Now is at 70 percent; what began before it begins at its edge."""
    hour = timedelta(hours=1)
    instants = (AXIS.start - hour, AXIS.start, NOON, AXIS.end, AXIS.end + hour)

    assert [0, 0, 70, 100, 100] == [AXIS.x(one) for one in instants]
    assert timedelta(hours=12) == AXIS.end - AXIS.start


def test_a_lane_leaves_out_checks_and_what_is_outside_its_axis():
    """A check of a result is no run of the schedule."""
    runs = [run(), run(origin="verify"), run(AXIS.start - SECOND), run(AXIS.end)]

    assert ((("succeeded", 1),), 1) == (lane(runs).counts, len(lane(runs).bars))


@pytest.mark.parametrize(
    ("oldest", "count", "is_cut"),
    [
        (AXIS.start, RUNS_MAX, True),
        (AXIS.start - SECOND, RUNS_MAX, False),
        (AXIS.start, RUNS_MAX - 1, False),
    ],
)
def test_a_lane_says_that_older_runs_of_its_span_are_not_drawn(oldest, count, is_cut):
    """As many as are looked at, and the oldest of them still within the span."""
    assert is_cut == lane([*[run()] * (count - 1), run(oldest)]).is_cut


def test_a_bar_reaches_from_its_begin_to_its_end():
    """One that goes on reaches to now, and one that waits has no length."""
    hour = NOON - timedelta(hours=1)
    going = run(hour, "running", started_at=hour)
    runs = [run(hour, took=1800), going, run(hour, "queued")]
    over, on, waiting = lane(runs).bars

    assert {round(70 - 100 / 12, 2)} == {over.x, on.x, waiting.x}
    assert [4.16, 8.33, NARROWEST] == [over.width, on.width, waiting.width]


@pytest.mark.parametrize(
    ("terms", "is_late"),
    [
        ({"started_at": after(60)}, False),
        ({"started_at": after(61)}, True),
        ({"claimed_at": after(61)}, True),
        ({"claimed_at": after(61), "started_at": after(60)}, False),
        ({"started_at": after(61), "attempt": 2}, False),
        ({}, False),
    ],
)
def test_late_is_a_first_attempt_that_began_more_than_a_minute_after_its_due(terms, is_late):
    """A retry begins late by design."""
    found = lane([run(state="running", **terms)])

    assert (is_late, is_late) == (found.bars[0].is_late, bool(found.late))
    assert is_late == found.bars[0].words.endswith(": running, late")


def test_many_runs_are_columns_and_neighbours_that_look_alike_are_one():
    """The run that needs somebody most gives a column its look; counts add up."""
    begin = AXIS.start + COLUMN / 2
    alike = [run(begin + place * COLUMN) for place in (0, 0, 1, 2)]
    apart = [run(begin + 5 * COLUMN)] * (EACH_MAX - 4)
    mixed = [run(begin + 6 * COLUMN, state) for state in ("succeeded", "dead", "queued")]
    last = [run(AXIS.end - SECOND)]
    bars = lane([*last, *mixed, *apart, *alike]).bars

    assert [
        (0, 3.65, "good", "4 runs"),
        (6.25, 1.15, "good", f"{EACH_MAX - 4} runs"),
        (7.5, 1.15, "bad", "3 runs"),
        (98.75, 1.15, "good", "1 runs"),
    ] == [(one.x, one.width, one.tone, one.words) for one in bars]


def test_what_was_expected_and_has_no_run_is_a_sign():
    """One that another run stands for is drawn as that run, and what is pending as to come."""
    told = (
        ("skipped", None),
        ("skipped", ID),
        ("owed", None),
        ("missing", None),
        ("pending", None),
    )
    expected = [
        Occurrence(scheduled_for=NOON, label="o", verdict=verdict, run=of, reason=None)
        for verdict, of in told
    ]

    assert ["skipped", "owed", "missing"] == [one.kind for one in lane([], expected).signs]


@pytest.mark.parametrize(("rule", "is_dense"), [("1h", False), ("4m", True), ("6m", False)])
def test_what_comes_too_close_to_be_told_apart_is_dense(rule, is_dense):
    """Within the axis, and a bounded number of them."""
    found = lane([], rule=rule)

    assert is_dense == found.is_dense
    assert all(70 < x < 100 for x in found.coming)


@pytest.mark.parametrize(
    ("zone", "first", "last"), [("UTC", "04:00", "14:00"), ("Asia/Kolkata", "10:00", "20:00")]
)
def test_the_axis_has_whole_hours_of_the_visitors_clock(zone, first, last):
    """Also where a zone is half an hour off."""
    ticks = list(_ticks(AXIS, TimeFormatter("mine", zone)))

    assert (first, last, 6) == (ticks[0].text, ticks[-1].text, len(ticks))
    assert {16.67, 16.66} >= {round(b.x - a.x, 2) for a, b in pairwise(ticks)}
    assert 3.33 == ticks[0].x if zone == "UTC" else 7.5 == ticks[0].x


def attempt(**terms: Any) -> Attempt:
    plain: dict[str, Any] = {
        "id": "a", "run": ID, "number": 1, "fence": 1, "worker": 1, "worker_name": "w",
        "state": "succeeded", "reason": None, "claimed_at": after(2), "started_at": after(3),
        "heartbeat_at": None, "progress": None, "progress_at": None, "cancel_asked_at": None,
        "ended_at": None, "error": None, "late": None,
    }  # fmt: skip
    return Attempt(**plain | terms)


def chain(
    seconds: float = 60,
    attempts: Any = None,
    checks: Any = (),
    state: str = "succeeded",
    **terms: Any,
) -> RunChain:
    """Return the chain of a run that was due at noon and worked from second 3 to second 13."""
    over = {"fired_at": after(1), "claimed_at": after(2), "started_at": after(3)}
    over["finished_at"] = after(13)
    found = run(state=state, **over | terms)
    tries = [attempt(ended_at=after(13))] if attempts is None else attempts
    return make_chain(found, tries, checks, after(seconds))


def since(found: RunChain) -> dict[str, float | None]:
    return {
        one.name: None if one.since is None else one.since.total_seconds() for one in found.links
    }


def longest(found: RunChain) -> list[str]:
    return [one.name for one in found.links if one.is_longest]


def test_each_fact_tells_how_long_after_the_one_before_and_one_is_the_longest():
    """Beats are no gap, and what follows them counts from the last fact before."""
    beating = attempt(heartbeat_at=after(12), progress_at=after(11), ended_at=after(13))
    found = chain(attempts=[beating])

    assert {"due": None, "created": None, "dispatched": 1, "claimed": 1, "started": 1} == {
        name: seconds or None for name, seconds in list(since(found).items())[:5]
    }
    assert 10 == since(found)["completed"]
    assert ["completed"] == longest(found)
    assert "The longest part is its work." == found.sentence


def test_what_happened_before_its_due_is_no_gap():
    """A run that was made ahead is counted from its due."""
    found = chain(created_at=after(-3600))

    assert since(found)["created"] is None
    assert 1 == since(found)["dispatched"]


def test_of_a_run_without_any_time_nothing_is_the_longest():
    """No fact took longer than another."""
    found = make_chain(run(took=0), [attempt(claimed_at=NOON, started_at=NOON)], [], NOON)

    assert ([], (), "") == (longest(found), found.stretches, found.sentence)


@pytest.mark.parametrize(("tries", "is_told"), [(1, False), (2, True)])
def test_a_run_that_was_tried_again_tells_its_first_claim(tries, is_told):
    """By the first of its attempts."""
    attempts = [attempt(claimed_at=after(2 - tries), ended_at=after(13)) for _ in range(tries)]

    assert is_told == ("first claimed" in since(chain(attempts=attempts)))


def test_a_result_is_verified_when_it_was_last_found():
    """The newest check that found it; what found nothing verifies nothing."""
    told = (("present", 20), ("present", 30), ("absent", 40))
    checks = [
        Check(finding=found, verdict="verified", at=after(at), by="ada", evidence=None)
        for found, at in told
    ]

    assert 17 == since(chain(checks=checks))["verified"]
    assert since(chain(checks=checks[2:]))["verified"] is None


def test_the_parts_of_the_bar_follow_one_another_and_fill_it():
    """Each as wide as it took, and what took no time is still seen."""
    parts = chain(attempts=[attempt(ended_at=after(1000))], finished_at=after(1000)).stretches
    ends = [one.x + one.width for one in parts]

    assert [0, *ends[:-1]] == pytest.approx([one.x for one in parts], abs=0.02)
    assert 100 == pytest.approx(ends[-1], abs=0.02)
    assert {1.44} == {round(one.width, 2) for one in parts[:-1]}
    assert [False, False, False, True] == [one.is_longest for one in parts]
    assert [True, True, True, False] == [one.is_waiting for one in parts]


@pytest.mark.parametrize(
    ("state", "tried", "words", "seconds"),
    [
        ("running", None, "its work", 97),
        ("queued", None, "and nothing happens since", 97),
        ("ambiguous", "lost", "nothing has been heard for", 97),  # since it was started
        ("ambiguous", "failed", "in doubt for", 87),
        ("dead", "failed", "and nothing happens since", 87),
    ],
)
def test_what_is_not_over_says_what_goes_on(state, tried, words, seconds):
    """Work, waiting, silence and doubt are four things."""
    last = attempt() if tried is None else attempt(state=tried, ended_at=after(13))
    part = chain(100, [last], state=state, finished_at=None).stretches[-1]

    assert (words, seconds) == (part.words, part.length.total_seconds())
    assert (state != "running") == part.is_waiting
