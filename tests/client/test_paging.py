"""Searching in pages: `app.runs.page`, `app.attempts.page`, `app.audit.page` (A4)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from duly import UsageError, every
from tests.client.conftest import NOON, fire

HOUR = timedelta(hours=1)


@pytest.fixture
def runs(app, tasks, clock):
    """Five runs of a schedule, newest first, and one by hand."""
    app.schedules.create("hourly", tasks.report, every("1h"), overlap="allow")
    for _ in range(5):
        clock.advance("1h")
        fire(app, clock)
    app.enqueue(tasks.remind.bind(1), key="k")
    return app.runs.list()


def every_page(page, **terms):
    """Return all items, and how many pages they came in."""
    found, cursor, count = [], None, 0
    while True:
        one = page(cursor=cursor, **terms)
        found += one.items
        count += 1
        if one.next_cursor is None:
            return found, count
        cursor = one.next_cursor


def test_pages_have_what_the_list_has(app, runs):
    """A4: in its order, each once."""
    found, count = every_page(app.runs.page, schedule="hourly", limit=2)

    assert [run for run in runs if run.schedule == "hourly"] == found
    assert 3 == count


def test_a_page_is_told_as_json(app, runs):
    page = app.runs.page(key="k")

    (keyed,) = (run for run in runs if run.key == "k")
    assert {"items": [keyed.to_json()], "next_cursor": None} == page.to_json()


def test_a_span_of_time_is_of_when_runs_were_due(app, runs):
    """A4: its beginning is in it, its end is not."""
    found = app.runs.page(schedule="hourly", since=NOON + 2 * HOUR, until=NOON + 4 * HOUR)

    assert [NOON + 3 * HOUR, NOON + 2 * HOUR] == [run.scheduled_for for run in found.items]


def test_orders_are_found_by_who_gave_them_and_when(app, runs, clock):
    """A2, A4."""
    app.schedules.pause("hourly")
    clock.advance("1h")
    other = app.acting_as("bob", "cli")
    other.schedules.resume("hourly", missed="skip")
    mine, count = every_page(app.audit.page, subject="hourly", limit=1)

    assert ["schedule.resumed", "schedule.paused", "schedule.created"] == [
        one.action for one in mine
    ]
    assert 3 == count
    assert ["schedule.resumed"] == [one.action for one in app.audit.page(actor="bob").items]
    assert ["schedule.paused"] == [
        one.action for one in app.audit.page(since=mine[1].at, until=mine[0].at).items
    ]


def test_no_attempt_is_found_where_none_was_made(app, runs):
    assert ([], None) == (app.attempts.page(worker=7).items, app.attempts.page().next_cursor)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda app: app.runs.page(colour="red"), "filter"),
        (lambda app: app.runs.page(state="happy"), "state"),
        (lambda app: app.runs.page(limit=0), "limit"),
        (lambda app: app.runs.page(limit=1001), "limit"),
        (lambda app: app.runs.page(lane="fast"), "lane"),
        (lambda app: app.runs.page(root="x"), "root"),
        (lambda app: app.runs.page(worker="w"), "worker"),
        (lambda app: app.runs.page(error="x" * 2000), "error"),
        (lambda app: app.runs.page(cursor="??"), "cursor"),
        (lambda app: app.runs.page(cursor="é"), "cursor"),
        (lambda app: app.runs.page(cursor=7), "cursor"),
        (lambda app: app.runs.page(cursor="AAAA"), "cursor"),
        (lambda app: app.runs.page(cursor="A" * 500), "cursor"),
        (lambda app: app.attempts.page(state="happy"), "state"),
        (lambda app: app.attempts.page(worker=-1), "worker"),
        (lambda app: app.audit.page(since="soon"), "since"),
        (lambda app: app.audit.page(subject_id="x"), "subject_id"),
        (lambda app: app.audit.page(limit=True), "limit"),
    ],
)
def test_what_can_not_be_searched_for_is_refused(app, call, field):
    """Bad input has one error with its field and a remedy."""
    with pytest.raises(UsageError) as caught:
        call(app)

    assert field == caught.value.field


def test_a_cursor_goes_with_its_own_search(app, runs):
    """A4: another's would silently leave something out."""
    cursor = app.runs.page(schedule="hourly", limit=2).next_cursor

    for call in (
        lambda: app.runs.page(limit=2, cursor=cursor),
        lambda: app.runs.page(schedule="hourly", state="dead", cursor=cursor),
        lambda: app.attempts.page(cursor=cursor),
        lambda: app.audit.page(cursor=cursor),
    ):
        with pytest.raises(UsageError, match="cursor"):
            call()
    assert 3 == len(app.runs.page(schedule="hourly", limit=5, cursor=cursor).items)
