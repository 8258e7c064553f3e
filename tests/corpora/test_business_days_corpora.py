"""Business days of seventeen calendars as the holidays package and numpy have them."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

import pytest

from duly import BusinessCalendar, monthly
from tests.corpora.corpus import Row, rows

# Each question of the file, as a calendar rule.
RULES = {
    "first": ("first business day", None),
    "last": ("last business day", None),
    "fifth": ("5th business day", None),
    "third_last": ("3rd last business day", None),
    "day15_following": (15, "following"),
    "day15_preceding": (15, "preceding"),
    "last_calendar_day_modified_following": ("last day", "modified-following"),
    "first_calendar_day_modified_preceding": ("first day", "modified-preceding"),
}


def business_days() -> tuple[Row, ...]:
    found = rows("business_days")
    assert found
    return found


def calendar_of(row: Row) -> BusinessCalendar:
    return BusinessCalendar(row["country"], row["subdivision"])


def first_of(row: Row) -> date:
    return date.fromisoformat(f"{row['month']}-01")


def test_every_month_has_as_many_business_days():
    wrong = [
        row["id"]
        for row in business_days()
        if len(calendar_of(row).in_month(first_of(row).year, first_of(row).month))
        != row["expect"]["business_days"]
    ]

    assert [] == wrong


def test_every_weekend_is_the_countrys():
    wrong = [
        row["id"]
        for row in business_days()
        if {day for day in range(7) if row["weekmask_mon_sun"][day] == "0"}
        != calendar_of(row).weekend_days
    ]

    assert [] == wrong


@pytest.mark.parametrize("question", RULES)
def test_every_rule_gives_the_same_day(question):
    """Asked from the eve of the month; a rule fires once a month, so the next is the one."""
    day, roll = RULES[question]
    wrong = []
    for row in business_days():
        eve = datetime.combine(first_of(row) - timedelta(days=1), time(12), UTC)
        rule = monthly(day, at="12:00", calendar=calendar_of(row), roll=roll)  # type: ignore[arg-type]
        found = rule.next(eve)
        if found is None or found.date().isoformat() != row["expect"][question]:
            wrong.append(row["id"])

    assert [] == wrong


def test_every_question_of_the_file_is_asked():
    asked = {*RULES, "business_days"}

    assert all(asked == row["expect"].keys() for row in business_days())
