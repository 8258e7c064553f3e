"""Values as a page reads and writes them: instants that are typed, spans, and changed fields."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from duly import UsageError, cron, every
from duly.api.views import HistoryEntry, Occurrence
from duly.web.formatting import (
    TimeFormatter,
    local_date,
    read_choice,
    read_coming,
    read_local,
    read_past,
    read_zone,
    span,
)
from duly.web.pages.schedule import (
    PENDING_STATES,
    FieldChange,
    _run_state,
    field_changes,
    history_entry,
    ledger_row,
)
from tests.timetable.instants import moment
from tests.web.test_drawings import ID, NOON, run

NONE = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"


@pytest.mark.parametrize(
    ("text", "zone", "at"),
    [
        ("2026-07-01 09:00", "Europe/Berlin", "2026-07-01T07:00"),
        (" 2026-07-01T09:00:30 ", "Europe/Berlin", "2026-07-01T07:00:30"),
        ("2026-07-01T09:00", None, "2026-07-01T09:00"),
    ],
)
def test_a_wall_time_is_one_of_the_viewers_zone(text, zone, at):
    """With a T or a space, with seconds or without."""
    assert moment(at) == read_local("since", text, zone) == read_past("since", text, zone, NOON)


@pytest.mark.parametrize("text", ["2026-07-01T09:00Z", "yesterday", "-14", "-14y"])
def test_anything_else_is_left_to_the_library(text):
    """Which refuses it with its own remedy."""
    assert text == read_past("since", f" {text} ", "UTC", NOON)


def test_a_wall_time_that_there_is_not_is_refused_by_the_name_of_its_field():
    """A month has no thirteenth."""
    with pytest.raises(UsageError) as refused:
        read_local("since", "2026-13-01T09:00", "UTC")

    assert ("since", "2026-13-01T09:00") == (refused.value.field, refused.value.value)


@pytest.mark.parametrize(
    ("text", "away"),
    [
        ("-90m", timedelta(minutes=90)),
        ("-12345h", timedelta(hours=12345)),
        (" -14d", timedelta(days=14)),
        ("-2w", timedelta(weeks=2)),
    ],
)
def test_how_long_ago_is_counted_back_from_now(text, away):
    """In minutes, hours, days or weeks."""
    assert NOON - away == read_past("since", text, "Asia/Tokyo", NOON)


@pytest.mark.parametrize(
    ("zone", "at"), [(None, "2026-04-04T09:00"), ("Asia/Tokyo", "2026-04-04T00:00")]
)
def test_when_something_ends_is_read_by_the_viewers_clock(zone, at):
    """In the words of the command line."""
    assert moment(at) == read_coming("until", "2026-04-04 09:00", zone, NOON)
    assert read_coming("until", None, zone, NOON) is None


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (None, NONE),
        (timedelta(), "0 ms"),
        (timedelta(milliseconds=999), "999 ms"),
        (timedelta(seconds=1), "1 s"),
        (timedelta(seconds=-61), f"{MINUS}1 min 1 s"),
        (timedelta(milliseconds=-5), f"{MINUS}5 ms"),
    ],
)
def test_a_span_is_milliseconds_below_a_second_and_two_units_above(length, text):
    """With its sign."""
    assert text == span(length)


@pytest.mark.parametrize(
    ("choice", "mine", "own", "zone"),
    [
        ("schedule", "Asia/Tokyo", "Europe/Berlin", "Europe/Berlin"),
        ("schedule", "Asia/Tokyo", None, "Asia/Tokyo"),
        ("schedule", None, None, "UTC"),
        ("mine", "Asia/Tokyo", "Europe/Berlin", "Asia/Tokyo"),
        ("mine", None, "Europe/Berlin", "UTC"),
        ("utc", "Asia/Tokyo", "Europe/Berlin", "UTC"),
    ],
)
def test_a_time_is_shown_in_the_zone_that_was_chosen(choice, mine, own, zone):
    """The schedule's own zone before the viewer's."""
    assert zone == TimeFormatter(choice, mine).zone(own)


def test_a_year_is_named_where_it_is_another_one():
    """By the clock that is shown, not by UTC."""
    clocks = TimeFormatter("mine", "Asia/Tokyo")
    now = moment("2026-12-31T16:00")  # it is 2027 there

    assert "Fri 1 Jan" == clocks.moment(now, now).day
    assert "Thu 31 Dec 2026" == clocks.moment(moment("2026-12-31T14:00"), now).day
    assert date(2027, 1, 1) == local_date(now, "Asia/Tokyo") != local_date(now, "UTC")


def test_what_a_browser_says_of_itself_is_a_choice_and_a_zone_or_nothing():
    """It may say anything."""
    assert ["mine", "schedule"] == [read_choice(one) for one in ("mine", "nonsense")]
    assert ["Asia/Tokyo", None, None] == [
        read_zone(one) for one in ("Asia/Tokyo", "Mars/Base", None)
    ]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"status": "active"}, {"status": "paused"}, [("Status", "active", "paused")]),
        ({"version": 1, "generation": 1}, {"version": 2, "generation": 2}, []),
        ({}, {"owner": "zoe"}, [("Owner", NONE, "zoe")]),
        (
            {"definition": {"priority": 0}},
            {"definition": {"priority": 2}},
            [("Priority", "0", "2")],
        ),
        ({"definition": {"arguments": {"a": 1}}}, {}, [("Arguments", '{"a": 1}', NONE)]),
        ({"status": "active", "new": 1}, {"status": "active", "new": ""}, [("new", "1", "")]),
    ],
)
def test_each_field_that_changed_is_told_before_and_after(before, after, told):
    """What changes with every order is left out."""
    assert tuple(FieldChange(*one) for one in told) == field_changes(before, after)


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        ({}, "every day at 09:00 (UTC)"),
        ({"gap": "skip"}, "every day at 09:00 (UTC) (gap=skip, fold=first)"),
        ({"fold": "both"}, "every day at 09:00 (UTC) (gap=next, fold=both)"),
    ],
)
def test_a_rule_is_told_in_words_with_policies_that_are_no_defaults(policies, words):
    """What happens when clocks change, where it was chosen."""
    rules = [{"timetable": one.to_json()} for one in (every("1h"), cron("0 9 * * *", **policies))]
    (changed,) = field_changes(*rules)

    assert ("Rule", "every hour", words) == (changed.label, changed.before, changed.after)


def test_a_rule_that_can_not_be_read_any_more_is_shown_as_it_is_stored():
    """A trail outlives what it tells of."""
    (changed,) = field_changes({"timetable": {"kind": "odd"}}, {})

    assert '{"kind": "odd"}' == changed.before


@pytest.mark.parametrize(
    ("before", "after", "is_revertible", "count"),
    [
        ({"definition": {"owner": "a"}}, {"definition": {"owner": "b"}}, True, 1),
        ({"definition": {"owner": "a"}, "status": "active"},
         {"definition": {"owner": "a"}, "status": "paused"}, False, 1),
        ({"status": "active"}, {"definition": {"owner": "a"}}, False, 2),
        (None, {"definition": {"owner": "a"}}, False, 0),
    ],
)  # fmt: skip
def test_only_an_edit_of_what_a_schedule_says_can_be_taken_back(
    before, after, is_revertible, count
):
    """An order that made the schedule has nothing before it."""
    told: dict[str, Any] = {"number": 1, "at": NOON, "actor": "ada", "source": "library"}
    told |= {"address": None, "credential": None, "reason": "so", "subject": "s"}
    entry = history_entry(HistoryEntry(**told, action="schedule.edit", before=before, after=after))

    assert ("edit", is_revertible, count) == (
        entry.action, entry.is_revertible, len(entry.changes),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("state", "terms", "told"),
    [
        ("queued", {"fired_at": None}, "materialised"),
        ("blocked", {}, "dispatched"),
        ("running", {}, "claimed"),
        ("running", {"started_at": NOON}, "running"),
        ("succeeded", {}, "verified"),
        ("dead", {}, "failed"),
        ("ambiguous", {}, "ambiguous"),
    ],
)
def test_how_far_a_run_has_come_has_a_word_in_the_ledger(state, terms, told):
    """Made, given to a queue, taken by a worker, begun, ended, checked."""
    assert told == _run_state(run(state=state, **terms), {ID: "verified"})


@pytest.mark.parametrize(
    ("verdict", "reason", "seconds", "state"),
    [
        ("pending", None, 1, "expected"),
        ("pending", None, 0, "due"),
        ("skipped", "coalesced", 0, "coalesced"),
        ("skipped", "by hand", 0, "skipped"),
        ("run", None, 0, "materialised"),
        ("owed", None, 0, "owed"),
    ],
)
def test_an_occurrence_without_a_run_says_where_it_stands(verdict, reason, seconds, state):
    """What is not over is never told as failed."""
    at = NOON + timedelta(seconds=seconds)
    one = Occurrence(scheduled_for=at, label="o", verdict=verdict, run=None, reason=reason)
    row = ledger_row(one, {}, {}, NOON)

    assert (state, None, False) == (row.state, row.run, row.into)
    assert (verdict == "pending") == (row.state in PENDING_STATES)
