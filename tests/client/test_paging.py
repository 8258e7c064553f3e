"""Searching in pages: `app.runs.page`, `app.attempts.page`, `app.audit.page`."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from duly import UsageError, every
from duly.client.paging import read_cursor, write_cursor
from duly.domain.enums import RunState
from duly.store.ports.queries import RunFilter
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
    """In its order, each once."""
    found, count = every_page(app.runs.page, schedule="hourly", limit=2)

    assert [run for run in runs if run.schedule == "hourly"] == found
    assert 3 == count


def test_a_page_is_told_as_json(app, runs):
    page = app.runs.page(key="k")

    (keyed,) = (run for run in runs if run.key == "k")
    assert {"items": [keyed.to_json()], "next_cursor": None} == page.to_json()


def test_a_span_of_time_is_of_when_runs_were_due(app, runs):
    """Its beginning is in it, its end is not."""
    found = app.runs.page(schedule="hourly", since=NOON + 2 * HOUR, until=NOON + 4 * HOUR)

    assert [NOON + 3 * HOUR, NOON + 2 * HOUR] == [run.scheduled_for for run in found.items]


def test_orders_are_found_by_who_gave_them_and_when(app, runs, clock):
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
    """Another's would silently leave something out."""
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


POSITION = bytes(range(16))
DEAD = RunFilter(tenant="default", states=frozenset((RunState.DEAD,)))


class Alike(str):
    """A text whose hash is that of all others: a set has such texts in the order of their coming."""

    __slots__ = ()

    def __hash__(self) -> int:
        return 0


def test_a_cursor_holds_in_another_process():
    """Where a set has its members in another order."""
    one: Any = frozenset((Alike("dead"), Alike("queued")))
    other: Any = frozenset((Alike("queued"), Alike("dead")))
    cursor = write_cursor(replace(DEAD, states=one), POSITION)

    assert [*one] != [*other]
    assert POSITION == read_cursor(replace(DEAD, states=other), cursor, len(POSITION))


def test_a_position_belongs_to_no_search_and_all_else_does():
    cursor = write_cursor(DEAD, POSITION)

    assert POSITION == read_cursor(replace(DEAD, limit=7), cursor, len(POSITION))
    for other in (
        replace(DEAD, tenant="another"),
        replace(DEAD, states=None),
        replace(DEAD, worker=1),
    ):
        with pytest.raises(UsageError, match="with other filters"):
            read_cursor(other, cursor, len(POSITION))


@pytest.mark.parametrize("length", [0, 15, 17, 100])
def test_a_position_of_another_length_is_refused(length):
    """A store would read it as it likes."""
    cursor = write_cursor(DEAD, bytes(length))

    with pytest.raises(UsageError, match="is not a cursor of this list"):
        read_cursor(DEAD, cursor, len(POSITION))


def test_a_cursor_is_not_decoded_beyond_two_hundred_characters():
    with pytest.raises(UsageError, match="is not a cursor of this list"):
        read_cursor(DEAD, "A" * 200, len(POSITION))
    with pytest.raises(UsageError, match="is not a cursor;"):
        read_cursor(DEAD, "A" * 201, len(POSITION))
