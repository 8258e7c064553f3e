"""Recurrence rules as dateutil, ical.js, ical4j and RFC 5545 itself expand them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from duly import rrule
from duly.timetable.local_time import FOLDS, GAPS
from tests.corpora.corpus import Row, instant, rows

ROWS_THAT_TELL = 100

SECOND = timedelta(seconds=1)


def is_expanded_as_expected(row: Row) -> bool:
    """Compare the first occurrences; a complete list has nothing after it."""
    timetable = rrule(row["rrule"], dtstart=row["dtstart"])
    expected = [instant(text) for text in row["expect"]]
    extra = 1 if row["complete"] else 0
    found = timetable.upcoming(instant(row["dtstart"]) - SECOND, len(expected) + extra)
    return expected == found


def is_expanded_in_window(row: Row) -> bool:
    """Compare the occurrences between two times, both included."""
    start, end = (instant(text) for text in row["between"])
    expected = [instant(text) for text in row["expect"]]
    timetable = rrule(row["rrule"], dtstart=row["dtstart"])
    found = timetable.upcoming(start - SECOND, len(expected) + 1)
    return expected == [occurrence for occurrence in found if occurrence <= end]


def test_every_rule_is_expanded_as_by_its_source():
    """The first occurrences, and the end where there is one."""
    questions = [row for row in rows("rrule") if row["kind"] == "rrule"]

    assert questions
    assert [] == [row["id"] for row in questions if not is_expanded_as_expected(row)]


def test_every_window_has_the_occurrences_of_its_source():
    """As a calendar shows a month."""
    questions = [row for row in rows("rrule") if row["kind"] == "rrule_between"]

    assert questions
    assert [] == [row["id"] for row in questions if not is_expanded_in_window(row)]


def expected_in_zone(row: Row) -> list[datetime]:
    return [instant(text) for text in row["expect"]]


def wrong_in_zones(gap: str, fold: str) -> list[str]:
    wrong = []
    for row in rows("rrule_tz"):
        timetable = rrule(row["rrule"], dtstart=row["dtstart"], tz=row["tz"], gap=gap, fold=fold)  # type: ignore[arg-type]
        expected = expected_in_zone(row)
        before = datetime.fromisoformat(row["dtstart"]).replace(tzinfo=UTC) - timedelta(days=2)
        if expected != timetable.upcoming(before, len(expected)):
            wrong.append(row["id"])
    return wrong


def test_rules_across_changes_of_clocks_follow_the_rfc():
    """Nonexistent local times are left out and not counted, ambiguous ones mean the first."""
    assert rows("rrule_tz")
    assert [] == wrong_in_zones("skip", "first")


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("fold", FOLDS)
def test_the_rows_tell_the_policies_apart(gap, fold):
    """So that passing them says something about the policies."""
    is_of_the_rfc = (gap, fold) == ("skip", "first")
    is_right = not wrong_in_zones(gap, fold)
    if is_right and len(rows("rrule_tz")) < ROWS_THAT_TELL:
        pytest.skip("this folder holds too few rows to tell")

    assert is_of_the_rfc == is_right


def test_previous_walks_every_expansion_backwards():
    """The same occurrences, from the last one back, and nothing before the first."""
    wrong = []
    for row in rows("rrule"):
        if row["kind"] != "rrule" or not row["expect"]:
            continue
        timetable = rrule(row["rrule"], dtstart=row["dtstart"])
        expected = [instant(text) for text in row["expect"]]
        before = expected[-1] + SECOND
        for occurrence in [*reversed(expected), None]:
            found = timetable.previous(before)
            if found != occurrence:
                wrong.append(row["id"])
                break
            before = found or before

    assert [] == wrong
