"""What can't be read is refused with its field and a remedy, and nothing is stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest

import duly
from duly import DulyError, UsageError, every
from tests.client.conftest import refused

HALF = "\ud800"
FAR = datetime(9999, 12, 31, 23, 59, tzinfo=timezone(timedelta(hours=-14)))
NEAR_THE_BEGINNING = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))


@pytest.mark.parametrize("at", [FAR, FAR.isoformat(), NEAR_THE_BEGINNING, "9999-12-30T00:00Z"])
def test_an_instant_out_of_the_calendar_is_refused(app, tasks, at):
    app.schedules.create("nightly", tasks.report, every("1h"))
    app.enqueue(tasks.report, delay="1h", key="k")

    orders = [
        lambda: app.enqueue(tasks.report, at=at, past="run"),
        lambda: app.enqueue_many([tasks.report], at=at, past="run"),
        lambda: app.move("k", at=at, past="run"),
        lambda: app.schedules.pause("nightly", until=at),
        lambda: app.schedules.occurrences("nightly", at, at),
        lambda: app.schedules.preview(every("1h"), after=at),
        lambda: app.runs.list(since=at),
    ]
    said = [refused(app, UsageError, order) for order in orders]

    assert all("is out of the calendar; give a date from 0001-01-03" in one for one in said)


def test_the_last_instant_of_the_calendar_can_be_promised_and_listed(app, tasks):
    last = datetime(9999, 12, 29, 23, 59, tzinfo=UTC)
    app.enqueue(tasks.report, at=last)

    assert [last] == [one.due_at for one in app.delayed.list()]


def test_a_delay_that_leads_out_of_the_calendar_is_refused(app, tasks):
    app.enqueue(tasks.report, delay="1h", key="k")
    long = timedelta(days=365 * 7999)
    orders = [
        lambda: app.enqueue(tasks.report, delay=long),
        lambda: app.move("k", delay=long),
    ]

    assert all("delay: " in refused(app, UsageError, order) for order in orders)


@pytest.mark.parametrize("reference", [HALF, f"{HALF}@2026-04-03T02:00Z", 5, None, b"x", []])
def test_a_reference_that_names_nothing_is_refused(app, tasks, reference):
    orders = [
        lambda: app.schedules.get(reference),
        lambda: app.schedules.pause(reference),
        lambda: app.schedules.resume(reference),
        lambda: app.schedules.delete(reference),
        lambda: app.schedules.restore(reference),
        lambda: app.schedules.skip_next(reference),
        lambda: app.schedules.trigger(reference),
        lambda: app.schedules.edit(reference, jitter="1m"),
        lambda: app.schedules.edit(reference),
        lambda: app.schedules.history(reference),
        lambda: app.runs.get(reference),
        lambda: app.delayed.get(reference),
        lambda: app.move(reference, delay="1h"),
        lambda: app.cancel(reference),
        lambda: app.call(reference),
    ]

    assert all(refused(app, UsageError, order) for order in orders)


@pytest.mark.parametrize("value", [HALF, 5, b"x", []])
def test_a_filter_that_is_no_text_is_refused(app, value):
    for name in ("status", "task", "owner", "declared_by", "name_prefix"):
        assert f"{name}: " in refused(app, UsageError, partial(app.schedules.list, **{name: value}))
    for name in ("schedule", "key", "task", "queue", "state", "origin", "since"):
        assert f"{name}: " in refused(app, UsageError, partial(app.runs.list, **{name: value}))


@pytest.mark.parametrize("limit", ["5", 0, None, 2.5, True, 10**9])
def test_a_limit_that_is_none_is_refused(app, tasks, limit):
    app.schedules.create("nightly", tasks.report, every("1h"))
    orders = [
        lambda: app.runs.list(limit=limit),
        lambda: app.delayed.list(limit=limit),
        lambda: app.schedules.owed("nightly", limit=limit),
        lambda: app.schedules.history("nightly", limit=limit),
    ]

    assert all("limit: " in refused(app, UsageError, order) for order in orders)


def test_what_is_of_another_type_is_refused(app, tasks):
    app.schedules.create("nightly", tasks.report, every("1h"))
    five: Any = 5
    orders = [
        lambda: app.enqueue_many(5),
        lambda: app.declare(5),
        lambda: app.declare("\0"),
        lambda: app.declare(HALF),
        lambda: app.schedules.preview(5),
        lambda: app.schedules.preview(every("1h"), after=5),
        lambda: app.schedules.preview(every("1h"), n="3"),
        lambda: app.schedules.edit("nightly", version="1", jitter="1m"),
        lambda: app.call("report", [1]),
        lambda: duly.App(settings=five),
        lambda: app.task(int),
        lambda: app.task(5),
        lambda: app.task(name="x")(dict),
        lambda: app.schedule(every("1h"), arguments=5)(tasks.remind),
        lambda: app.schedule(every("1h"), arguments={5: 5})(tasks.remind),
    ]

    assert all(refused(app, UsageError, order) for order in orders)


def test_a_pause_that_is_over_says_which_instant_was_given(app, tasks):
    app.schedules.create("nightly", tasks.report, every("1h"))
    past = datetime(2026, 4, 1, tzinfo=UTC)

    assert "until: '2026-04-01T00:00:00Z' lies in the past" in refused(
        app, UsageError, lambda: app.schedules.pause("nightly", until=past)
    )


def test_every_error_has_a_code_of_its_own():
    """Programs and documents name an error by a code that stays as it is."""
    kinds: list[type[DulyError]] = [DulyError]
    for kind in kinds:
        kinds += [one for one in kind.__subclasses__() if one.__module__ == "duly.errors"]
    codes = [kind.code for kind in kinds]

    assert sorted(set(codes)) == sorted(codes)
