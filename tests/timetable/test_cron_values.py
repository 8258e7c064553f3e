"""A cron timetable as a value: asked, compared, copied, shared."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from duly import UsageError, cron
from tests.each_row import each_row
from tests.timetable.instants import NOON, moment, upcoming


def test_next_is_strictly_later_down_to_the_microsecond():
    timetable = cron("0 9 * * *")
    nine = moment("2026-01-02T09:00")
    microsecond = timedelta(microseconds=1)

    assert nine == timetable.next(nine - microsecond)
    assert nine + timedelta(days=1) == timetable.next(nine)
    assert nine + timedelta(days=1) == timetable.next(nine + microsecond)
    assert nine == timetable.previous(nine + microsecond)
    assert nine - timedelta(days=1) == timetable.previous(nine)
    assert nine - timedelta(days=1) == timetable.previous(nine - microsecond)


def test_answers_are_aware_utc():
    found = cron("0 9 * * *", "Asia/Tokyo").next(moment(NOON))

    assert found is not None
    assert UTC is found.tzinfo
    assert moment("2026-01-02T00:00") == found


def test_a_question_may_be_asked_in_any_zone():
    timetable = cron("0 * * * *")
    asked = moment(NOON).astimezone(timezone(timedelta(hours=5, minutes=45)))

    assert moment("2026-01-01T13:00") == timetable.next(asked)


def test_the_second_pass_of_a_fold_is_heard_in_the_question():
    """02:15 in Berlin was asked about in its second pass."""
    timetable = cron("30 * * * *", "Europe/Berlin")
    first = datetime(2026, 10, 25, 2, 15, tzinfo=ZoneInfo("Europe/Berlin"))

    assert moment("2026-10-25T00:30Z") == timetable.next(first)
    assert moment("2026-10-25T01:30Z") == timetable.next(first.replace(fold=1))


class Stamp(datetime):
    """A datetime as libraries derive them."""


def test_a_derived_datetime_is_a_datetime():
    found = cron("0 9 * * *").next(Stamp(2026, 1, 1, 12, tzinfo=UTC))

    assert moment("2026-01-02T09:00") == found


@pytest.mark.parametrize(
    ("question", "problem"),
    [
        (datetime(2026, 1, 1), "no time zone"),
        ("2026-01-01", "not a datetime"),
        (None, "not a datetime"),
        (1.5, "not a datetime"),
    ],
)
def test_a_question_without_a_zone_is_refused(question, problem):
    timetable = cron("0 9 * * *")

    for ask, field in [
        (timetable.next, "after"),
        (timetable.previous, "before"),
        (lambda after: timetable.upcoming(after, 2), "after"),
    ]:
        with pytest.raises(UsageError, match=f"{problem}.*aware datetime") as caught:
            ask(question)
        assert field == caught.value.field


@each_row("n", [-1, 10_001, 1.0, True, None, "3"])
def test_a_number_of_occurrences_is_bounded(n):
    with pytest.raises(UsageError, match="ask for 0 to 10000"):
        cron("0 9 * * *").upcoming(moment(NOON), n)


def test_a_number_too_long_to_write_is_refused_like_any_other():
    """Python itself declines to print it."""
    with pytest.raises(UsageError, match="a value of type int is out of range"):
        cron("0 9 * * *").upcoming(moment(NOON), 10**5000)


def test_no_occurrences_may_be_asked_for():
    assert upcoming(cron("0 9 * * *"), NOON, 0) == []


PARIS = cron("0 9 * * 1-5", "Europe/Paris", gap="shift")


def test_a_timetable_is_equal_by_its_words():
    assert cron("0 9 * * 1-5", "Europe/Paris", gap="shift") == PARIS
    assert hash(cron("0 9 * * 1-5", "Europe/Paris", gap="shift")) == hash(PARIS)
    for other in [
        cron("0 9 * * 1-5", "Europe/Berlin", gap="shift"),
        cron("0 9 * * 1-5", "Europe/Paris"),
        cron("0 9 * * mon-fri", "Europe/Paris", gap="shift"),  # the same times in other words
    ]:
        assert other != PARIS


def test_a_timetable_does_not_change():
    with pytest.raises(FrozenInstanceError):
        PARIS.tz = "UTC"  # type: ignore[misc]


def test_a_timetable_with_one_word_replaced_is_made_anew():
    assert cron("0 9 * * 1-5", "UTC", gap="shift") == replace(PARIS, tz="UTC")
    assert moment("2026-01-02T09:00Z") == replace(PARIS, tz="UTC").next(moment(NOON))


@pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_a_copy_is_equal_and_answers_alike(again):
    copied = again(PARIS)

    assert copied == PARIS
    assert copied.next(moment(NOON)) == PARIS.next(moment(NOON))
    assert copied.local.zone is PARIS.local.zone  # the database is shared, and not copied along


def test_a_pickle_holds_words_and_no_database():
    assert len(pickle.dumps(PARIS)) < 1000


def test_threads_may_share_a_timetable():
    """The remembered year and segment are overwritten by everybody, and trusted by nobody."""
    timetable = cron("30 2 29 2,3,10 *", "Europe/Berlin")
    asked = [moment(f"{year}-0{month}-01T00:00") for year in range(1960, 2040) for month in (1, 3)]
    expected = [timetable.next(after) for after in asked]
    with ThreadPoolExecutor(4) as threads:
        answers = [
            threads.submit(lambda: [timetable.next(after) for after in asked]) for _ in range(8)
        ]

    assert all(answer.result() == expected for answer in answers)
