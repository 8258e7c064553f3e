"""Cron expressions as other schedulers answer them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest

from duly.errors import UsageError
from duly.timetable.cron import cron
from tests.corpora.corpus import Row, instant, rows
from tests.corpora.dialect_differences import (
    DIFFERENCES,
    WRITTEN_LIST,
    Difference,
    Question,
    classes_of,
)

POLICIES = {
    "vixie_debian": {},
    "skip_gap_repeat_fold": {"gap": "skip", "fold": "both"},
    "shift_forward_first_fold": {"gap": "shift", "fold": "first"},
}
FIELDS = {
    "Seconds": "second",
    "Minutes": "minute",
    "Hours": "hour",
    "Days of month": "day of month",
    "Months": "month",
    "Days of week": "day of week",
    "between 0 and 59": "minute",
    "between 1 and 59": "minute",
    "": "cron",
}
SUITE_ROWS = {"cron_suites": 323, "cron_cronos": 1126}
"""How many rows these files have that the list was written for; a folder may hold others."""
MEETINGS_MAX = 1000


def questions(*names: str) -> list[Question]:
    found = [Question.of(row) for name in names for row in rows(name) if row["kind"] == "cron_next"]
    assert found, f"{names} hold no questions"
    return found


def is_answered_alike(question: Question) -> bool:
    try:
        return list(question.expected) == question.answer()
    except UsageError:
        return False


def told(question: Question) -> str:
    return f"{question.dialect}: {question.expression!r} in {question.tz} from {question.start}"


@pytest.mark.parametrize("name", ["cron_plain", "cron_ext"])
def test_plain_and_extended_expressions_are_answered_alike(name):
    different = [told(question) for question in questions(name) if not is_answered_alike(question)]

    assert different == []


@pytest.mark.parametrize("policy", POLICIES)
def test_changes_of_clocks_are_answered_alike_under_each_policy(policy):
    asked = [row for row in rows("cron_dst") if policy in row["expect"]]
    assert asked
    different = [row["expr"] for row in asked if not is_row_answered_alike(row, policy)]

    assert different == []


def is_row_answered_alike(row: Row, policy: str) -> bool:
    expected = [instant(text) for text in row["expect"][policy]]
    timetable = cron(row["expr"], row["tz"], **POLICIES[policy])  # type: ignore[arg-type]
    return expected == timetable.upcoming(instant(row["start"]), len(expected))


@pytest.mark.parametrize("name", SUITE_ROWS)
def test_a_row_that_differs_is_of_exactly_one_class_and_one_of_no_class_agrees(name):
    unexplained = [
        (told(question), classes)
        for question in questions(name)
        if len(classes := classes_of(question)) != 1 and not is_answered_alike(question)
    ]

    assert unexplained == []


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda one: one.name)
def test_each_class_of_differences_occurs(difference: Difference):
    covered = [one for one in questions(*SUITE_ROWS) if difference.covers(one)]
    is_whole = all(len(rows(name)) == size for name, size in SUITE_ROWS.items())
    occurs = any(not is_answered_alike(question) for question in covered)
    if not occurs and not is_whole:
        pytest.skip("this folder holds other rows of the suites")

    assert occurs


def test_the_written_list_names_the_classes():
    headings = re.findall(r"^## (.+)$", WRITTEN_LIST.read_text(encoding="utf-8"), re.MULTILINE)

    assert [one.name for one in DIFFERENCES] == headings


def test_cronos_joins_its_day_fields_by_and():
    """The largest class of differences has no other reason than the one given."""
    joined = DIFFERENCES[0]
    different = [
        told(question)
        for question in questions("cron_cronos")
        if joined.covers(question) and list(question.expected) != first_meeting(question)
    ]

    assert different == []


def first_meeting(question: Question) -> list[datetime]:
    """Return the first instant at which both day fields match, each asked on its own."""
    *times, day, month, weekday = question.expression.split()
    by_day = cron(" ".join([*times, day, month, "*"]), question.tz)
    by_weekday = cron(" ".join([*times, "*", month, weekday]), question.tz)
    microsecond = timedelta(microseconds=1)
    after = question.start - question.is_inclusive * microsecond
    for _ in range(MEETINGS_MAX):
        one, other = by_day.next(after), by_weekday.next(after)
        if one is None or other is None:
            return []
        if one == other:
            return [one]
        after = max(one, other) - microsecond
    return []


def test_an_instant_is_an_occurrence_where_others_match_it():
    asked = [row for row in rows("cron_suites") if row["kind"] == "cron_matches"]
    assert asked
    different = [
        told(question)
        for question in map(Question.of, asked)
        if (question.start in question.expected) != question.is_occurrence()
        and len(classes_of(question)) != 1
    ]

    assert different == []


def test_what_every_parser_refuses_is_refused():
    refused_by_all = [
        row
        for row in rows("cron_validity")
        # None of them knows H, which is ours: it is spread by the schedule's name.
        if is_refused_by_all(row) and not row["expr"].startswith("H ")
    ]
    assert refused_by_all
    accepted = [row["expr"] for row in refused_by_all if refusal(row["expr"]) is None]

    assert accepted == []


def is_refused_by_all(row: Row) -> bool:
    return set(row["verdict"].values()) <= {"invalid", "n/a"}


def refusal(expression: str) -> UsageError | None:
    try:
        cron(expression)
    except UsageError as error:
        return error
    return None


def test_a_refusal_names_the_field_at_fault():
    """Or, where fields are missing or too many, how many there are."""
    invalid = rows("cron_cronos_validity")
    assert invalid
    misnamed = [
        (row["expr"], row["field"], str(error))
        for row in invalid
        if (error := refusal(row["expr"])) is None or not is_named(row, error)
    ]

    assert misnamed == []


def is_named(row: Row, error: UsageError) -> bool:
    size = len(row["expr"].split())
    if error.field == "cron" and f"has {size} fields" in str(error):
        return size not in {5, 6} and "day of month" in error.remedy
    return error.field == FIELDS[row["field"]]
