"""Asking about many schedules at once: the answers of asking one by one, within bounds."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

import duly
from duly import UsageError, every
from duly.client.runs import SCHEDULES_MAX
from duly.client.schedules import SEVERAL_MAX, SPANS_MAX
from duly.client.vitals import LOOKED_AT_MAX
from duly.testing import virtual_time

HOUR = timedelta(hours=1)
NOBODY = UUID(int=1)


@pytest.fixture
def school():
    app = duly.App("memory:")

    @app.task
    def report() -> None: ...

    with virtual_time(app, "2026-04-03T02:00") as clock:
        first = app.schedules.create("first", report, every("1h"))
        second = app.schedules.create("second", report, every("30m"))
        clock.advance("2h")
        app.schedules.pause("first", reason="so")
        clock.advance("2h")
        app.schedules.resume("first", missed="skip")
        app.schedules.edit("second", timetable=every("20m"))
        clock.advance("90m")
        yield app, clock.now, [first.id, second.id]


def test_occurrences_of_many_are_those_of_each(school):
    """What was skipped is told, and what an edit left to the old rule."""
    app, now, ids = school
    span = (now - 6 * HOUR, now + HOUR)

    found = app.schedules.many_occurrences(dict.fromkeys([*ids, NOBODY], span))

    assert {one: app.schedules.occurrences(one, *span) for one in ids} == found
    assert {"run", "skipped", "pending"} == {one.verdict for one in found[ids[0]]}


def test_of_too_many_occurrences_the_newest_are_told(school):
    """So that a dense rule costs as much as any."""
    app, now, ids = school
    span = (now - 6 * HOUR, now)

    found = app.schedules.many_occurrences({ids[1]: span}, most=3)

    assert app.schedules.occurrences(ids[1], *span)[-3:] == found[ids[1]]


def test_the_newest_runs_of_many_are_those_of_each(school):
    """Who has none is left out, and so is nobody's id."""
    app, _, ids = school

    found = app.runs.newest([*ids, NOBODY], limit=2)

    assert {one: app.runs.list(schedule=one, limit=2) for one in ids} == found


def test_windows_tell_what_the_vitals_of_each_do(school):
    """Of as many runs as are asked for."""
    app, _, ids = school

    found = app.vitals.windows(ids, runs=100)

    assert app.vitals.of_tenant().window == found.tenant
    assert {one: app.vitals.of_schedule(one).window.window for one in ids} == {
        one: window.window for one, window in found.schedules.items()
    }


def test_several_are_those_that_go_by_an_id_or_a_name(school):
    """Each once, in order of name; none that is deleted, and none of other tenants."""
    app, _, ids = school
    app.schedules.delete(app.schedules.create("over", app.call("report"), every("1h")).id)
    other = duly.App(store=app.store, tenant="theirs")
    theirs = other.schedules.create("theirs", app.call("report"), every("1h"))

    found = app.schedules.several(
        ids=[ids[1], theirs.id, NOBODY], names=["first", "second", "over", "theirs"]
    )

    assert ["first", "second"] == [one.name for one in found]


def test_how_several_are_doing_is_what_a_page_of_them_tells(school):
    """In no more questions, wherever they stand by name."""
    app, _, ids = school

    found = app.vitals.of_schedules([*ids, NOBODY])

    page = app.vitals.schedules(with_errors=False).items
    assert {one.id: one for one in page} == {one.id: one for one in found}


def test_too_many_at_once_are_refused(school):
    """With how many may be asked about."""
    app, now, _ = school
    many = [UUID(int=number) for number in range(max(SCHEDULES_MAX, SPANS_MAX) + 1)]

    with pytest.raises(UsageError, match=f"ask for {SCHEDULES_MAX} at a time"):
        app.runs.newest(many)
    with pytest.raises(UsageError, match=f"ask for {SPANS_MAX} at a time"):
        app.schedules.many_occurrences(dict.fromkeys(many, (now, now + HOUR)))
    with pytest.raises(UsageError, match=f"schedules: {len(many)} are too many"):
        app.vitals.windows(many, runs=1)
    more = [*many, *many]
    with pytest.raises(UsageError, match=f"ask for {SEVERAL_MAX} at a time"):
        app.schedules.several(ids=many, names=[str(one) for one in many])
    with pytest.raises(UsageError, match=f"ask for {LOOKED_AT_MAX} at a time"):
        app.vitals.of_schedules(more)
