"""Other tools' expressions are recognised, described and never contradicted."""

from __future__ import annotations

import re

import pytest

from duly.errors import UsageError
from duly.timetable.cron import Cron, cron
from duly.timetable.language.detect import kind_of
from tests.corpora.corpus import Row, rows

LENGTH_MAX = 300
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
CLOCK = re.compile(r"\b(\d{1,2}):(\d{2})(?::(\d{2}))?(?: ([AP])M)?")
CRON = ["cron_plain", "cron_ext", "cron_dst", "cron_suites", "cron_cronos", "cron_validity"]


def accepted(expression: str) -> Cron | None:
    """Return an expression that we accept; the others are counted by the test of their corpus."""
    try:
        return cron(expression, seed="corpus")
    except UsageError:
        return None


@pytest.mark.parametrize(
    "name", ["cron_describe", "cron_plain", "cron_ext", "cron_suites", "cron_dst"]
)
def test_every_expression_has_a_description_of_bearable_length(name):
    described = [found.describe() for row in rows(name) if (found := accepted(row["expr"]))]

    assert len(described) > len(rows(name)) / 2
    assert [words for words in described if not words.endswith(" (UTC)")] == []
    assert [words for words in described if not 10 <= len(words) <= LENGTH_MAX] == []


def clocks(words: str) -> set[tuple[int, int, int]]:
    """Return the times of day in a sentence, of the 12- or 24-hour clock."""
    found = set()
    for hour, minute, second, half in CLOCK.findall(words):
        shifted = int(hour) % 12 + (12 if half == "P" else 0) if half else int(hour)
        found.add((shifted, int(minute), int(second or 0)))
    return found


def is_plain(row: Row) -> bool:
    """Say whether another tool names each time and each weekday that is meant, and no stretches."""
    return not re.search("through|between|every|past|starting", row["expect"].lower())


def test_times_and_weekdays_are_those_that_other_tools_name():
    """Wordings differ; what is named must not."""
    compared = 0
    for row in rows("cron_describe"):
        found = accepted(row["expr"])
        if found is None or not is_plain(row):
            continue
        ours = found.describe()
        compared += 1

        assert clocks(row["expect"]) == clocks(ours), row
        assert [day in row["expect"] for day in WEEKDAYS] == [day in ours for day in WEEKDAYS], row
    assert compared > len(rows("cron_describe")) / 10


@pytest.mark.parametrize("name", CRON)
def test_every_cron_expression_is_recognised_as_one(name):
    expressions = {row["expr"] for row in rows(name) if row["expr"] and accepted(row["expr"])}

    assert expressions
    assert set() == {one for one in expressions if kind_of(one) != "cron"}


@pytest.mark.parametrize("name", ["rrule", "rrule_tz"])
def test_every_recurrence_rule_is_recognised_as_one(name):
    assert {"rrule"} == {kind_of(row["rrule"]) for row in rows(name)}


def test_every_calendar_event_is_recognised_as_one():
    """All but weekdays alone, which are left to plain language: it asks for the time."""
    events = {row["expr"] for row in rows("oncalendar") if row["kind"] == "oncalendar_next"}
    strangers = {event for event in events if kind_of(event) != "oncalendar"}

    assert events
    assert set() == {event for event in strangers if not re.fullmatch("[A-Za-z,. -]+", event)}
