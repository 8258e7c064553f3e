"""What a backfill did and left undone: planned anew, in the ledger of occurrences, in a proof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly import Conflict, UsageError, every
from duly.domain.ids import BackfillId
from duly.domain.schedules import TENANT_DEFAULT
from duly.store.ports.dispatch import FireResult
from duly.store.ports.queries import AuditFilter
from duly.timetable.instants import from_microseconds
from duly_conformance import backfills as conformance
from duly_conformance import steps
from duly_conformance.kit import HOUR_US
from tests.client.conftest import work

if TYPE_CHECKING:
    from uuid import UUID

SLOTS = 5


@pytest.fixture
def app(kept):
    """An application whose schedule has five occurrences that nobody has made."""
    store, clock = kept
    app = duly.App(store=store, clock=clock, actor="ada")

    @app.task
    def remind(run: duly.Run) -> None:
        """Do the one item there is."""
        run.expect(1)
        run.done("item")

    app.schedules.create("hourly", app.call("remind"), every("1h"))
    return app


def span(app: duly.App) -> dict[str, Any]:
    """Return the hours before the schedule was made."""
    now = app.store.now()
    end = now - now % HOUR_US
    return {"since": from_microseconds(end - SLOTS * HOUR_US), "until": from_microseconds(end)}


def called_off(app: duly.App, done: int = 2, **terms: Any) -> duly.client.backfill_view.Backfill:
    """Return a backfill that was cancelled after so many of its occurrences."""
    made = app.backfills.create(
        "hourly", **span(app), per_minute=7, concurrency=9, reason="new", **terms
    )
    step(app, made.id, done)
    return app.backfills.cancel(made.id, reason="too much")


def step(app: duly.App, backfill: UUID, count: int) -> None:
    record = app.store.get_backfill(TENANT_DEFAULT, BackfillId(backfill.bytes))
    assert record is not None
    fence = steps.own(app.store)
    stepped = conformance.step(app.store, record, count=count, fence=fence)
    assert stepped.result is FireResult.FIRED
    app.store.leave(fence.member)


@pytest.mark.parametrize("order", ["oldest-first", "newest-first"])
def test_what_was_left_undone_is_planned_made_and_linked(app, order):
    """From where it stood, at its pace; the trail names the one that was called off."""
    old = called_off(app, order=order)
    rest = app.backfills.plan_rest(old.id)
    new = app.backfills.resume_from(old.id, reason="there is time again", runs=rest.runs)
    step(app, new.id, SLOTS)

    whole = app.backfills.plan("hourly", **span(app))
    done = {one.scheduled_for for one in whole.slots} - {one.scheduled_for for one in rest.slots}
    assert (SLOTS - 2, 2) == (rest.runs, len(done))
    assert (old.id, order, 7, 9, "active") == (
        new.resumes,
        new.order,
        new.per_minute,
        new.concurrency,
        new.status,
    )
    assert (old.id, "done") == (app.backfills.get(new.id).resumes, app.backfills.get(new.id).status)
    assert (SLOTS, 0) == (len(app.runs.list(origin="backfill")), whole.runs)
    entry = app.store.list_audit(AuditFilter(action="backfill.created", limit=1))[0]
    assert (str(old.id), "there is time again") == (entry.after["resumes"], entry.actor.reason)
    assert app.backfills.get(old.id).resumes is None


def test_the_same_order_given_again_is_one(app):
    """And what went on from it is gone on from itself when it is called off, too."""
    old = called_off(app)
    first = app.backfills.resume_from(old.id, reason="go on", per_minute=3)

    assert first == app.backfills.resume_from(old.id, reason="go on")
    assert (3, 2) == (first.per_minute, len(app.backfills.list("hourly")))
    app.backfills.cancel(first.id, reason="again too much")
    with pytest.raises(Conflict, match=f"was gone on with by {first.id}, which is cancelled, too"):
        app.backfills.resume_from(old.id, reason="go on")
    assert first.id == app.backfills.resume_from(first.id, reason="go on").resumes


def test_the_same_order_given_again_when_all_is_done_is_one(app):
    """Whoever got no answer asks again, also late."""
    old = called_off(app)
    first = app.backfills.resume_from(old.id, reason="go on")
    step(app, first.id, SLOTS)

    again = app.backfills.resume_from(old.id, reason="go on")

    assert (first.id, "done") == (again.id, again.status)


def test_each_answer_about_one_names_what_it_goes_on_from(app):
    """Also after an order about it."""
    old = called_off(app)
    new = app.backfills.resume_from(old.id, reason="go on")

    slower = app.backfills.throttle(new.id, per_minute=1)
    paused = app.backfills.pause(new.id)

    assert [old.id] * 3 == [one.resumes for one in (new, slower, paused)]
    assert app.backfills.pause(app.backfills.resume(new.id).id).resumes == old.id


def test_only_what_was_called_off_is_gone_on_from(app):
    """What is paused is resumed; of what is done nothing is left."""
    made = app.backfills.create("hourly", **span(app), concurrency=9)

    with pytest.raises(Conflict, match="is active, not cancelled; resume it, or cancel it first"):
        app.backfills.plan_rest(made.id)
    step(app, made.id, SLOTS)
    with pytest.raises(Conflict, match="has left nothing undone"):
        app.backfills.resume_from(made.id, reason="go on")


def test_a_rest_that_is_no_longer_as_it_was_seen_is_not_made(app):
    """Nor one without a reason."""
    old = called_off(app)

    with pytest.raises(Conflict, match="has 3 to be made now, not 4"):
        app.backfills.resume_from(old.id, reason="go on", runs=4)
    with pytest.raises(UsageError, match="reason: '' is missing"):
        app.backfills.resume_from(old.id, reason="")
    assert [old.id] == [one.id for one in app.backfills.list()]


def ledger(app: duly.App) -> list[tuple[str, str | None]]:
    """Return what the ledger says of the hours before the schedule was made."""
    return [
        (one.verdict, one.reason)
        for one in app.schedules.occurrences("hourly", span(app)["since"], span(app)["until"])
    ]


def test_the_time_before_a_schedule_existed_is_in_the_ledger_once_a_backfill_made_it(app, kept):
    """Until then nothing was expected; afterwards each occurrence is there, and can be proven."""
    assert [] == ledger(app)
    made = app.backfills.create("hourly", **span(app), concurrency=9, per_minute=60)
    step(app, made.id, SLOTS)
    work(app, kept[1])

    assert [("run", None)] * SLOTS == ledger(app)
    days = {one.scheduled_for.date() for one in app.backfills.plan("hourly", **span(app)).slots}
    proven = [one for day in days for one in app.prove("hourly", day).occurrences]
    standings = [one.standing for one in proven if one.occurrence.verdict == "run"]
    assert ["proven"] * SLOTS == standings


def test_what_a_backfill_still_owes_or_was_called_off_from_is_not_proven(app, kept):
    """Else a day of which a part was made would count as done."""
    made = app.backfills.create("hourly", **span(app), concurrency=9, per_minute=60)
    step(app, made.id, 2)
    owed = ledger(app)
    app.backfills.cancel(made.id, reason="too much")
    work(app, kept[1])

    assert [("run", None)] * 2 + [("owed", "backfill")] * 3 == owed
    assert [("run", None)] * 2 + [("skipped", "backfill-cancelled")] * 3 == ledger(app)
    days = sorted({one.scheduled_for.date() for one in app.runs.list(origin="backfill")})
    assert not any(app.prove("hourly", day).is_proven for day in days)


def test_an_occurrence_of_a_rule_that_was_not_in_force_is_in_the_ledger(app, kept):
    """A backfill uses the rule as it is now: what it made is there beside what was expected."""
    kept[1].advance(3 * HOUR_US)
    work(app, kept[1])
    seen = app.schedules.get("hourly")
    app.schedules.edit("hourly", timetable=every("30m"), version=seen.version)
    end = from_microseconds(app.store.now() - app.store.now() % HOUR_US)
    start = from_microseconds(app.store.now() - app.store.now() % HOUR_US - HOUR_US)
    before = app.schedules.occurrences("hourly", start, end)
    made = app.backfills.create("hourly", since=start, until=end, concurrency=9)
    step(app, made.id, 2)

    assert 1 == len(before)
    after = app.schedules.occurrences("hourly", start, end)
    assert ["run", "run"] == [one.verdict for one in after]
