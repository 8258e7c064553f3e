"""The stored form: what was said is read back for ever."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from duly import (
    BusinessCalendar,
    UsageError,
    after,
    at,
    cron,
    every,
    monthly,
    oncalendar,
    read_plain,
    rrule,
    timetable_from_json,
)
from tests.each_row import each_row

NOW = datetime(2026, 12, 20, tzinfo=UTC)
WEEKDAYS = cron("0 9 * * 1-5", tz="America/New_York")
TIMETABLES = [
    WEEKDAYS,
    cron("30 2 * * *", tz="Europe/Paris", gap="shift", fold="both"),
    cron("H H * * *", seed="nightly-report"),
    cron("0 15 10 ? * 6L 2027-2030", dialect="quartz"),
    every("90m"),
    every(timedelta(minutes=7), anchor=NOW),
    rrule(
        "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR;COUNT=9", dtstart="2026-12-21T09:00", tz="Asia/Tokyo"
    ),
    oncalendar("Mon..Fri *-*~01..03 17:30", tz="Europe/London", gap="skip"),
    monthly("last business day", at="18:00", tz="America/New_York", calendar="US"),
    monthly("3rd last day", at=["9:00", "18:00:30"], tz="Europe/Berlin"),
    monthly(31, at="00:00", calendar=("DE", "BY"), roll="modified-following"),
    monthly(
        1,
        at="00:00",
        calendar=BusinessCalendar(weekend=["friday"], holidays=["2027-01-02"]),
        roll="following",
    ),
    at(NOW),
    at("2027-03-28T02:30", tz="Europe/Berlin", gap="shift"),
    after(NOW + timedelta(days=2), "-24h"),
    WEEKDAYS | every("6h"),
    WEEKDAYS.excluding(cron("0 9 * * 1", tz="America/New_York"), "2026-12-25"),
    WEEKDAYS.on_business_days("US"),
    WEEKDAYS.between(NOW, None).limited(5, start=NOW),
    read_plain("every weekday at 9", tz="Europe/Paris"),
]


@each_row("timetable", TIMETABLES)
def test_a_timetable_comes_back_from_json_text_as_it_was(timetable):
    read = timetable_from_json(json.dumps(timetable.to_json()))

    assert timetable == read
    assert timetable.to_json() == read.to_json()
    assert timetable.upcoming(NOW, 5) == read.upcoming(NOW, 5)


def test_the_stored_form_is_the_persons_own_words():
    """Intent as it was said; no instant in it."""
    stored = cron("30 2 * * *", tz="Europe/Paris").to_json()

    assert stored == {
        "kind": "cron",
        "expression": "30 2 * * *",
        "tz": "Europe/Paris",
        "gap": "next",
        "fold": "first",
    }


def test_policies_may_be_left_out_and_mean_the_defaults():
    """What is stored today can be read by a release that knows more keys, and the other way round."""
    assert cron("0 0 * * *") == timetable_from_json({"kind": "cron", "expression": "0 0 * * *"})


@each_row(
    ("stored", "field"),
    [
        ("{", "timetable"),
        ("[]", "timetable"),
        ("[" * 100_000, "timetable"),
        ({}, "timetable"),
        ({"kind": "sundial"}, "kind"),
        ({"kind": "cron"}, "expression"),
        ({"kind": "cron", "expression": "0 0 * * *", "until": "x"}, "until"),
        ({"kind": "cron", "expression": 5}, "cron"),
        ({"kind": "cron", "expression": "0 0 * * *", "words": 5}, "words"),
        ({"kind": "every", "period": "15m", "anchor": "then"}, "anchor"),
        ({"kind": "at", "when": None}, "when"),
        ({"kind": "union", "parts": {}}, "parts"),
        ({"kind": "union", "parts": []}, "union"),
        (
            {
                "kind": "excluding-dates",
                "timetable": every("1h").to_json(),
                "dates": ["x"],
                "tz": "UTC",
            },
            "dates",
        ),
        (
            {
                "kind": "limited",
                "timetable": every("1h").to_json(),
                "n": "3",
                "start": "2026-01-01T00:00Z",
            },
            "limited",
        ),
    ],
)
def test_what_is_not_a_stored_timetable_is_refused_by_name(stored, field):
    """One error that names the field."""
    with pytest.raises(UsageError) as refused:
        timetable_from_json(stored)

    assert field == refused.value.field


def test_nesting_has_a_limit():
    stored = every("1h").to_json()
    for _ in range(25):
        stored = {"kind": "between", "timetable": stored, "start": None, "end": None}

    with pytest.raises(UsageError, match="nested too deeply"):
        timetable_from_json(stored)
