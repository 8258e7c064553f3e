"""Previews and explanations: what a person sees before they agree."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from duly import UsageError, clock_changes, cron, every, rrule
from duly.timetable.preview import preview
from tests.each_row import each_row

SPRING = datetime(2027, 3, 27, tzinfo=UTC), datetime(2027, 3, 30, tzinfo=UTC)
AUTUMN = datetime(2026, 10, 24, tzinfo=UTC), datetime(2026, 10, 27, tzinfo=UTC)
NIGHTLY = cron("30 2 * * *", tz="Europe/Berlin")


def told(timetable, window):
    return [change.text for change in clock_changes(timetable, *window)]


def test_a_clock_change_that_concerns_nothing_says_so():
    (text,) = told(cron("0 9 * * *", tz="Europe/Berlin"), SPRING)

    assert text == (
        "Sun 2027-03-28: clocks in Europe/Berlin jump from 02:00 to 03:00."
        " Nothing is due in the hour concerned."
    )


def test_times_that_collapse_are_told_together():
    (text,) = told(cron("15,45 2 * * *", tz="Europe/Berlin"), SPRING)

    assert "02:15 and 02:45 do not exist that day; they run once, together, at 03:00" in text


def test_a_rule_about_real_instants_is_told_as_one():
    """A leading star leaves every real instant alone, whatever the policies say."""
    timetable = cron("*/15 * * * *", tz="Europe/Berlin", gap="shift", fold="second")

    assert (
        "are left out (every real instant counts, and there is none)" in told(timetable, SPRING)[0]
    )
    assert "run both times (every real instant counts)" in told(timetable, AUTUMN)[0]


def test_half_an_hour_is_half_an_hour():
    window = datetime(2026, 10, 3, tzinfo=UTC), datetime(2026, 10, 5, tzinfo=UTC)

    (text,) = told(cron("15 2 * * *", tz="Australia/Lord_Howe"), window)

    assert "jump from 02:00 to 02:30. 02:15 does not exist that day; it runs at 02:30" in text


def test_an_interval_has_no_clock_to_change():
    assert [] == told(every("1h"), SPRING)


def test_each_zone_of_a_union_is_told():
    both = cron("0 9 * * *", tz="Europe/Berlin") | cron("0 9 * * *", tz="Europe/London")

    assert ["Europe/Berlin", "Europe/London"] == [one.tz for one in clock_changes(both, *SPRING)]


def test_a_preview_marks_the_occurrence_that_a_policy_moved():
    found = preview(cron("30 2 * * *", tz="Europe/Berlin"), SPRING[0], 3)

    assert [False, True, False] == [one.change is not None for one in found.occurrences]
    assert ["02:30", "03:00", "02:30"] == [f"{one.local:%H:%M}" for one in found.occurrences]
    assert ["CET", "CEST", "CEST"] == [one.abbreviation for one in found.occurrences]


def test_a_preview_of_a_rule_without_a_zone_is_shown_in_the_viewers():
    found = preview(every("12h"), AUTUMN[0], 1, tz="Asia/Kathmandu")

    assert "2026-10-24T17:45:00+05:45" == found.to_json()["occurrences"][0]["local"]


def test_a_list_that_ends_the_evening_before_tells_of_the_night_to_come():
    found = preview(cron("0 20 * * *", tz="Europe/Berlin"), datetime(2027, 3, 27, tzinfo=UTC), 1)

    assert 1 == len(found.changes)


def test_a_time_that_falls_on_one_that_is_due_anyway_is_told():
    (text,) = told(cron("0 2,3 * * *", tz="Europe/Berlin"), SPRING)

    assert "it falls together with 03:00, which is due anyway (gap=next)" in text


def test_a_day_that_is_left_out_is_told_with_its_dates():
    window = datetime(2011, 12, 29, tzinfo=UTC), datetime(2012, 1, 1, tzinfo=UTC)

    (text,) = told(cron("0 9 * * *", tz="Pacific/Apia"), window)

    assert "jump from Fri 2011-12-30 00:00 to Sat 2011-12-31 00:00" in text
    assert "it runs at Sat 2011-12-31 00:00" in text


def test_a_window_that_runs_backwards_is_refused():
    with pytest.raises(UsageError, match="lies before the start"):
        clock_changes(every("1h"), SPRING[1], SPRING[0])


@each_row(
    "timetable",
    [
        NIGHTLY.between(None, datetime(2027, 3, 27, 12, tzinfo=UTC)),
        NIGHTLY.excluding("2027-03-28"),
        NIGHTLY.on_business_days("DE"),
        rrule("FREQ=DAILY;COUNT=2", dtstart="2027-03-26T02:30", tz="Europe/Berlin"),
        rrule("FREQ=DAILY;UNTIL=20270327T120000Z", dtstart="2027-03-01T02:30", tz="Europe/Berlin"),
    ],
)
def test_what_does_not_run_that_night_is_not_said_to(timetable):
    """The whole timetable is asked, and not only the rule inside it."""
    (change,) = clock_changes(timetable, *SPRING)

    assert not change.affects
    assert "Nothing is due" in change.text


def test_a_night_that_is_over_is_not_told():
    found = preview(NIGHTLY, datetime(2027, 3, 28, 12, tzinfo=UTC), 1)

    assert () == found.changes


def test_only_the_moment_after_a_gap_is_marked():
    after = datetime(2011, 12, 29, tzinfo=UTC)

    found = preview(cron("0,30 0,9 * * *", tz="Pacific/Apia"), after, 6)

    assert [False] * 4 + [True, False] == [one.change is not None for one in found.occurrences]


def test_the_ends_of_the_calendar_can_be_previewed():
    last = datetime(9999, 12, 29, 23, 58, tzinfo=UTC)

    assert 1 == len(
        preview(cron("* * * * *", tz="Europe/Berlin"), last - timedelta(days=2), 1).occurrences
    )
    assert () == preview(cron("0 0 1 1 *"), last, 1).occurrences
