"""`duly next`, run as a process: what people and programs get to see."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.duly_command import duly
from tests.waiting import read_line

BERLIN = ("--tz", "Europe/Berlin")


def test_it_prints_local_time_zone_utc_and_distance():
    answer = duly("next", "30 2 * * *", *BERLIN, "--after", "2026-11-02T00:00", "-n", "2")

    assert answer.status == 0
    assert answer.out.splitlines()[:4] == [
        "every day at 02:30 (Europe/Berlin)",
        "local time (Europe/Berlin)\tUTC\tdistance",
        "Mon 2026-11-02 02:30 CET (+01:00)\t2026-11-02T01:30:00Z\t+ 2 h 30 min",
        "Tue 2026-11-03 02:30 CET (+01:00)\t2026-11-03T01:30:00Z\t+ 1 d 2 h",
    ]


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        (
            "next",
            "02:30 does not exist that day; it runs at 03:00, the first moment after (gap=next).",
        ),
        ("shift", "02:30 does not exist that day; it runs at 03:30, moved by the gap (gap=shift)."),
        ("skip", "02:30 does not exist that day and is left out (gap=skip)."),
    ],
)
def test_it_says_what_happens_on_the_night_that_jumps_ahead(policy, sentence):
    """Each policy, in words."""
    answer = duly(
        "next", "30 2 * * *", *BERLIN, "--after", "2027-03-27", "-n", "3", "--gap", policy
    )

    assert (
        "Sun 2027-03-28: clocks in Europe/Berlin jump from 02:00 to 03:00. " + sentence
        in answer.out
    )


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        ("first", "02:30 comes twice and runs once, the first time, 00:30 UTC (fold=first)."),
        ("second", "02:30 comes twice and runs once, the second time, 01:30 UTC (fold=second)."),
        ("both", "02:30 comes twice and runs both times (fold=both)."),
    ],
)
def test_it_says_what_happens_on_the_night_that_goes_back(policy, sentence):
    """Each policy, in words."""
    answer = duly(
        "next", "30 2 * * *", *BERLIN, "--after", "2026-10-24T12:00", "-n", "2", "--fold", policy
    )

    assert (
        "Sun 2026-10-25: clocks in Europe/Berlin go back from 03:00 to 02:00. " + sentence
        in answer.out
    )


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("0 2 * * *", "cron"),
        ("@daily", "cron"),
        ("FREQ=DAILY;BYHOUR=9", "rrule"),
        ("Mon..Fri *-*-* 09:00", "oncalendar"),
        ("15m", "every"),
        ("2030-01-01T09:00", "at"),
        ("every weekday at 9", "cron"),
        ("last business day of the month at 18:00", "monthly"),
    ],
)
def test_it_recognises_what_was_typed(expression, kind):
    """One command for every kind of rule."""
    answer = duly("next", expression, "--json", "--after", "2026-01-01", "-n", "1")

    assert kind == answer.json["kind"]
    assert 1 == len(answer.json["occurrences"])


def test_json_holds_the_occurrences_and_a_rule_that_can_be_read_back():
    answer = duly(
        "next", "every weekday at 9", *BERLIN, "--json", "--after", "2026-11-13", "-n", "2"
    )

    assert [one["utc"] for one in answer.json["occurrences"]] == [
        "2026-11-13T08:00:00Z",
        "2026-11-16T08:00:00Z",
    ]
    assert answer.json["occurrences"][0] == {
        "utc": "2026-11-13T08:00:00Z",
        "local": "2026-11-13T09:00:00+01:00",
        "zone": "Europe/Berlin",
        "abbreviation": "CET",
        "in_seconds": 9 * 3600,
        "clock_change": None,
    }
    assert "every weekday at 9" == answer.json["timetable"]["words"]
    assert answer.json["tzdata"]


def test_a_rule_without_a_future_says_so():
    """30 February ends; it is not searched for."""
    answer = duly("next", "0 0 30 2 *", "--after", "2026-01-01")

    assert 0 == answer.status
    assert "No further occurrence after 2026-01-01 00:00:00+00:00" in answer.out


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("61 * * * *",), ("minute", "'61'", "give 0 to 59")),
        (("0 9 * * *", "--tz", "Mars/Olympus"), ("tz", "'Mars/Olympus'", "is not a time zone")),
        (("0 9 * * *", "--after", "someday"), ("after", "'someday'", "tomorrow 9am")),
        (("0 9 * * *", "-n", "0x"), ("-n", "0x")),
        (("0 9 * * *", "--gap", "maybe"), ("maybe", "next", "skip")),
        (("every wekday at 9",), ("every weekday at 09:00",)),
        (("berlin-morning",), ("for a schedule: duly schedule show berlin-morning",)),
        ((), ("EXPRESSION",)),
    ],
)
def test_bad_input_is_one_line_on_standard_error_and_exit_code_2(arguments, parts):
    """Field, value and remedy; nothing on standard output."""
    answer = duly("next", *arguments)

    assert (2, "") == (answer.status, answer.out)
    assert 1 == len(answer.err.splitlines())
    assert all(part in answer.err for part in parts), answer.err


def test_an_error_is_json_when_json_is_asked_for():
    answer = duly("next", "61 * * * *", "--json")

    assert 2 == answer.status
    assert '"field": "minute"' in answer.err


def test_wall_times_are_meant_in_the_zone_and_offsets_are_respected():
    in_zone = duly("next", "1h", *BERLIN, "--after", "2026-07-01T10:30", "-n", "1", "--json")
    with_offset = duly("next", "1h", *BERLIN, "--after", "2026-07-01T10:30Z", "-n", "1", "--json")

    assert "2026-07-01T08:30:00Z" == in_zone.json["after"]
    assert "2026-07-01T10:30:00Z" == with_offset.json["after"]


def test_the_machines_own_zone_has_no_say():
    """The same answer everywhere."""
    here = duly("next", "30 2 * * *", *BERLIN, "--after", "2026-03-28", TZ="UTC")
    there = duly("next", "30 2 * * *", *BERLIN, "--after", "2026-03-28", TZ="Pacific/Apia")

    assert here == there


def test_a_long_list_is_printed_whole():
    answer = duly("next", "* * * * *", "-n", "10000", "--after", "2026-01-01")

    assert 0 == answer.status
    assert 10_000 < len(answer.out.splitlines())


def test_a_reader_that_leaves_early_is_no_error():
    command = [sys.executable, "-m", "duly", "next", "* * * * *", "-n", "10000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout
        assert running.stderr
        read_line(running)
        running.stdout.close()
        complaint = running.stderr.read()

    assert (0, b"") == (running.returncode, complaint)


def test_an_expression_without_quotes_is_told_to_use_them():
    answer = duly("next", "0", "9", "*", "*", "*")

    assert 2 == answer.status
    assert "put an expression with spaces in quotes" in answer.err


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("15m", "--gap", "skip"), "gap"),
        (("15m", "--fold", "both"), "fold"),
        (("0 9 * * *", "--dtstart", "2026-01-01"), "dtstart"),
        (("0 9 * * *", "--seed", "nightly"), "seed"),
        (("0 9 * * *", "-n", "0"), "limit"),
        (("0 9 * * *", "--calendar", "QQ"), "calendar"),
        (("0 9 * * *", "--after", "0001-01-01"), "after"),
    ],
)
def test_an_option_that_would_be_ignored_or_is_wrong_is_refused(arguments, field):
    """What can't be honoured is refused, never ignored."""
    answer = duly("next", *arguments)

    assert 2 == answer.status
    assert answer.err.startswith(f"error: {field}: ")


def test_a_moment_may_lie_in_the_past_relative_to_now():
    assert 0 == duly("next", "1h", "--after", "-2h", "-n", "1").status


def test_business_days_are_those_of_a_calendar():
    """Thanksgiving 2026 is the 26th of November."""
    answer = duly(
        *("next", "every weekday at 9", "--calendar", "US", "--after", "2026-11-25T12:00"),
        *("-n", "1", "--json"),
    )

    assert "2026-11-27T09:00:00Z" == answer.json["occurrences"][0]["utc"]


def test_only_what_a_policy_decided_is_marked():
    """The hour that comes twice, and not the ones beside it."""
    answer = duly(
        "next", "0 0-4 * * *", *BERLIN, "--after", "2026-10-24T23:30", "-n", "5", "--json"
    )

    marked = [one["local"][11:16] for one in answer.json["occurrences"] if one["clock_change"]]

    assert ["02:00"] == marked
