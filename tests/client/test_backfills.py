"""Backfills in a program's hands."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

import duly
from duly import Conflict, NotFound, UsageError, every
from duly.testing import virtual_time

START = "2026-05-04T12:00"
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
SPAN: dict[str, Any] = {"since": NOON - timedelta(hours=5), "until": NOON}


@pytest.fixture
def app() -> duly.App:
    return duly.App("memory:")


def close_books(app: duly.App) -> Any:
    @app.task
    def close() -> None:
        """Do nothing."""

    return close


def test_a_plan_shows_the_exact_occurrences_and_makes_nothing(app: duly.App):
    with virtual_time(app, START):
        app.schedules.create("close", close_books(app), every("1h"))

        plan = app.backfills.plan("close", **SPAN)

        assert [slot.scheduled_for.hour for slot in plan.slots] == [7, 8, 9, 10, 11]
        assert (plan.runs, plan.counts) == (5, {"missing": 5})
        assert app.runs.list() == []


def test_what_is_missing_is_made_and_done(app: duly.App):
    """At its rate, one at a time, and a second time nothing is left to do."""
    with virtual_time(app, START) as clock:
        app.schedules.create("close", close_books(app), every("1h"))
        made = app.backfills.create("close", **SPAN, per_minute=6, runs=5, reason="new report")

        clock.advance("2m")

        done = app.backfills.get(made.id)
        assert (done.status, done.made, done.open, done.looked_at) == ("done", 5, 0, 5)
        runs = app.runs.list(schedule="close")
        assert {(run.origin, run.state) for run in runs} == {("backfill", "succeeded")}
        again = app.backfills.plan("close", **SPAN)
        assert (again.runs, again.counts) == (0, {"succeeded": 5})
        assert app.backfills.plan("close", **SPAN, mode="redo", classes=["succeeded"]).runs == 5


def test_it_is_paused_throttled_resumed_and_called_off(app: duly.App):
    with virtual_time(app, START) as clock:
        app.schedules.create("close", close_books(app), every("1h"))
        made = app.backfills.create("close", **SPAN, per_minute=1)
        clock.advance("1m")

        assert app.backfills.pause(made.id).status == "paused"
        so_far = app.backfills.get(made.id).made
        clock.advance("5m")
        assert app.backfills.get(made.id).made == so_far
        assert app.backfills.throttle(made.id, per_minute=60, concurrency=5).per_minute == 60
        assert app.backfills.resume(made.id).status == "active"
        assert app.backfills.cancel(made.id, reason="not needed").status == "cancelled"
        clock.advance("5m")

        assert app.backfills.list("close") == [app.backfills.get(made.id)]
        assert app.backfills.get(made.id).made == so_far


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        ({"until": NOON + timedelta(hours=1)}, "until"),
        ({"since": NOON, "until": NOON - timedelta(hours=1)}, "until"),
        ({"since": NOON - timedelta(minutes=5)}, "since"),
        ({"since": "2026-05-01"}, "since"),
        ({"classes": ["in-flight"]}, "classes"),
        ({"classes": ["nonsense"]}, "classes"),
        ({"classes": []}, "classes"),
        ({"classes": iter(())}, "classes"),
        ({"classes": "in-flight"}, "classes"),
        ({"classes": 5}, "classes"),
        ({"mode": "again"}, "mode"),
        ({"order": "any"}, "order"),
        ({"per_minute": 0}, "per_minute"),
        ({"concurrency": True}, "concurrency"),
    ],
)
def test_what_can_not_be_is_refused_by_its_field(app: duly.App, parts: dict[str, Any], field: str):
    """And nothing is written."""
    with virtual_time(app, START):
        app.schedules.create("close", close_books(app), every("1h"))

        with pytest.raises(UsageError) as refused:
            app.backfills.create("close", **SPAN | parts)

        assert refused.value.field == field
        assert app.backfills.list() == []


@pytest.mark.parametrize(
    "classes",
    ["failed", ["failed"], {"failed"}, iter(["failed"])],
    ids=["one", "list", "set", "iter"],
)
def test_what_is_filled_is_said_in_one_word_or_several(app: duly.App, classes: Any):
    """However they are handed over, they are those that were said."""
    with virtual_time(app, START):
        app.schedules.create("close", close_books(app), every("1h"))

        assert ("failed",) == app.backfills.create("close", **SPAN, classes=classes).classes


def test_a_plan_that_has_changed_is_not_carried_out(app: duly.App):
    """What a person agreed to is what is made."""
    with virtual_time(app, START):
        app.schedules.create("close", close_books(app), every("1h"))

        with pytest.raises(Conflict, match="5 to be made now, not 7"):
            app.backfills.create("close", **SPAN, runs=7)


def test_what_is_not_there_is_not_found(app: duly.App):
    with virtual_time(app, START), pytest.raises(NotFound, match="backfill"):
        app.backfills.get("019a8a5c-7d00-7c3e-9b1f-0a2b3c4d5e6f")


def test_the_same_id_again_is_the_same_order(app: duly.App):
    """Whoever has lost the answer asks again, and makes no second one."""
    with virtual_time(app, START) as clock:
        close = close_books(app)
        app.schedules.create("close", close, every("1h"))
        app.schedules.create("other", close, every("1h"))
        wanted = UUID("0196a1b2-0000-7000-8000-000000000042")

        first = app.backfills.create("close", **SPAN, id=wanted, runs=5)
        clock.advance("1h")
        again = app.backfills.create("close", **SPAN, id=wanted, runs=5)

        assert wanted == first.id == again.id
        assert [wanted] == [one.id for one in app.backfills.list()]
        with pytest.raises(Conflict, match="is that of another request"):
            app.backfills.create("other", **SPAN, id=wanted)
