"""Delayed runs: promised, moved, cancelled, replaced; and what is refused."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

import pytest

import duly
from duly import Conflict, NotFound, UsageError
from tests.client.conftest import NOON, everything, fire, refused
from tests.timetable.instants import moment

DAY = timedelta(days=1)


def test_a_run_can_be_promised_after_a_delay(app, tasks):
    promised = app.enqueue(tasks.remind.bind(42), delay="24h", key="class:42")

    assert NOON + DAY == promised.due_at
    assert promised.is_new
    assert "class:42@2026-04-03T12:00Z" == promised.label
    assert [promised.id] == [one.id for one in app.delayed.list()]


@pytest.mark.parametrize("at", [NOON + DAY, "2026-04-03T14:00+02:00", "2026-04-03T12:00:00Z"])
def test_a_run_can_be_promised_at_an_instant(app, tasks, at):
    app.enqueue(tasks.remind.bind(42), at=at, key="k")

    assert NOON + DAY == app.delayed.get("k").due_at


def test_a_run_that_is_wanted_at_once_is_queued_at_once(app, tasks):
    promised = app.enqueue(tasks.remind.bind(42))
    run = app.runs.get(promised.id)

    assert ("now", "queued", NOON) == (run.origin, run.state, run.due_at)
    assert ("mail", {"class_id": 42}, 0) == (run.queue, run.arguments, run.attempt)
    assert [] == app.delayed.list()


def test_a_delayed_run_says_so_when_it_has_fired(app, tasks, clock):
    promised = app.enqueue(tasks.remind.bind(42), delay="1h", key="k")
    clock.advance("1h")
    fire(app, clock)
    run = app.runs.get(promised.id)

    assert ("delay", "queued", "k") == (run.origin, run.state, run.key)
    assert [] == app.delayed.list()


def test_a_task_without_arguments_can_be_passed_as_it_is(app, tasks):
    assert app.enqueue(tasks.report).is_new


def test_the_terms_of_a_call_win_over_the_tasks_own(app, tasks):
    promised = app.enqueue(tasks.remind.bind(1), queue="urgent", priority=0)
    run = app.runs.get(promised.id)

    assert ("urgent", 0) == (run.queue, run.priority)


def test_the_same_order_with_the_same_id_makes_one_run(app, tasks):
    wanted = UUID(int=7)
    first = app.enqueue(tasks.remind.bind(42), delay="1h", id=wanted)
    again = app.enqueue(tasks.remind.bind(42), delay="1h", id=wanted)

    assert (True, False) == (first.is_new, again.is_new)
    assert wanted == first.id == again.id
    assert 1 == len(app.delayed.list())


def test_many_with_the_same_ids_again_are_the_same_order(app, tasks):
    """Whoever has lost the answer asks again, and makes no second ones."""
    ids = [UUID(int=7), UUID(int=8)]
    calls = [tasks.remind.bind(1), tasks.remind.bind(2)]
    first = app.enqueue_many(calls, delay="1h", ids=ids)
    again = app.enqueue_many(calls, delay="1h", ids=ids)

    assert ids == [one.id for one in first]
    assert [(True, False)] * 2 == [(a.is_new, b.is_new) for a, b in zip(first, again, strict=True)]
    assert 2 == len(app.delayed.list())


def test_each_of_many_has_its_own_id_or_none_has(app, tasks):
    calls = [tasks.remind.bind(1), tasks.remind.bind(2)]

    too_few = refused(app, UsageError, lambda: app.enqueue_many(calls, ids=[UUID(int=7)]))
    alike = refused(app, UsageError, lambda: app.enqueue_many(calls, ids=[UUID(int=7)] * 2))

    assert "ids" in too_few
    assert "ids" in alike


def test_the_same_order_under_the_same_key_makes_one_run(app, tasks):
    first = app.enqueue(tasks.remind.bind(42), at=NOON + DAY, key="k")
    again = app.enqueue(tasks.remind.bind(42), at=NOON + DAY, key="k")

    assert (first.id, False) == (again.id, again.is_new)


def test_another_order_under_a_pending_key_is_a_conflict(app, tasks):
    app.enqueue(tasks.remind.bind(42), at=NOON + DAY, key="k")

    says = refused(
        app, Conflict, lambda: app.enqueue(tasks.remind.bind(43), at=NOON + DAY, key="k")
    )

    assert "'k'" in says


def test_a_pending_run_can_be_replaced_by_its_key(app, tasks):
    old = app.enqueue(tasks.remind.bind(42), at=NOON + DAY, key="k")
    new = app.enqueue(tasks.remind.bind(43), delay="2h", key="k", replace=True)

    assert "replaced" == app.runs.get(old.id).state
    assert [(new.id, {"class_id": 43})] == [(one.id, one.arguments) for one in app.delayed.list()]


def test_a_pending_run_can_be_moved_by_its_key_or_id(app, tasks):
    promised = app.enqueue(tasks.remind.bind(42), delay="24h", key="k")

    assert NOON + 2 * DAY == app.move("k", at=NOON + 2 * DAY).due_at
    assert NOON + DAY / 2 == app.move(promised.id, delay="12h", reason="sooner").due_at
    assert (2, "k@2026-04-03T00:00Z") == (app.delayed.get("k").moves, app.delayed.get("k").label)


def test_a_cancelled_run_leaves_a_record_with_its_reason(app, tasks):
    promised = app.enqueue(tasks.remind.bind(42), delay="24h", key="k")
    run = app.cancel("k", reason="class called off")

    assert ("cancelled", "class called off") == (run.state, run.reason)
    assert (promised.id, None) == (run.id, run.fired_at)
    assert [] == app.delayed.list()


def test_a_cancelled_run_never_fires(app, tasks, clock):
    app.enqueue(tasks.remind.bind(42), delay="1h", key="k")
    app.cancel("k")
    clock.advance("2h")
    fire(app, clock)

    assert ["cancelled"] == [run.state for run in app.runs.list()]


@pytest.mark.parametrize("order", ["move", "cancel"])
def test_an_unknown_key_or_id_is_not_found(app, tasks, order):
    options = {"delay": "1h"} if order == "move" else {}
    for unknown in ("class:43", UUID(int=9)):
        says = refused(
            app,
            NotFound,
            partial(getattr(app, order), unknown, **options),
        )

        assert str(unknown) in says


def test_what_has_fired_can_no_longer_be_moved_or_cancelled(app, tasks, clock):
    app.enqueue(tasks.remind.bind(42), delay="1h", key="k")
    clock.advance("1h")
    fire(app, clock)

    assert "fired" in refused(app, Conflict, lambda: app.move("k", delay="1h"))
    assert "fired" in refused(app, Conflict, lambda: app.cancel("k"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"at": moment("2026-04-02T11:59Z")}, "is in the past"),
        ({"at": datetime(2026, 4, 3)}, "at: .* has no time zone"),
        ({"at": "2026-04-03T12:00"}, "at: .* has no offset"),
        ({"at": "tomorrow"}, "at: 'tomorrow' is not an instant"),
        ({"at": 5}, "at: 5 is not an instant"),
        ({"delay": "-1h"}, "delay: '-1h' is negative"),
        ({"delay": timedelta(-1)}, "delay: .* is negative"),
        ({"delay": "soon"}, "delay: 'soon' is not a duration"),
        ({"delay": 5}, "delay: 5 is not a duration"),
        ({"delay": "1h", "at": NOON + DAY}, "delay: '1h' contradicts `at`"),
        ({"past": "skip", "at": NOON + DAY}, "past: 'skip' is not a choice"),
        ({"key": ""}, "key: '' is empty"),
        ({"key": "k" * 201}, "key: .* is too long"),
        ({"key": 42}, "key: 42 is not a text"),
        ({"queue": "no spaces"}, "queue: 'no spaces'"),
        ({"priority": 11}, "priority: 11 is not a priority"),
        ({"id": "nonsense"}, "id: 'nonsense' is not an id"),
        ({"connection": object()}, "connection: .* is not a connection that Duly lent"),
    ],
)
def test_an_order_that_can_not_be_kept_is_refused_whole(app, tasks, options, says):
    call = tasks.remind.bind(42)

    problem = refused(app, UsageError, lambda: app.enqueue(call, **options))

    assert re.search(says, problem)


def test_running_at_once_what_lies_in_the_past_is_an_explicit_choice(app, tasks):
    promised = app.enqueue(tasks.remind.bind(42), at=NOON - DAY, past="run")
    run = app.runs.get(promised.id)

    assert ("delay", "queued") == (run.origin, run.state)
    assert (NOON - DAY, NOON, DAY) == (run.due_at, run.fired_at, run.lateness)


@pytest.mark.parametrize("call", [None, "remind", lambda: None, 42])
def test_what_is_not_a_call_of_a_task_is_refused(app, call):
    assert "call:" in refused(app, UsageError, lambda: app.enqueue(call))


def test_a_task_that_needs_arguments_can_not_be_passed_without(app, tasks):
    assert "'class_id' is missing" in refused(app, UsageError, lambda: app.enqueue(tasks.remind))


def test_many_runs_are_promised_together(app, tasks):
    promised = app.enqueue_many((tasks.remind.bind(one) for one in range(2500)), delay="1h")

    assert 2500 == len({one.id for one in promised})
    assert 2500 == app.status().delayed


def test_each_of_many_runs_has_its_own_arguments_and_the_terms_of_the_order(app, tasks):
    calls = [tasks.remind.bind(one) for one in range(3)]
    alike = app.enqueue_many(calls, delay="1h", queue="urgent", priority=0)
    mixed = app.enqueue_many([*calls, tasks.report], delay="1h")

    pending = {one.id: one for one in app.delayed.list()}
    kept = [pending[one.id] for one in alike]
    assert [{"class_id": one} for one in range(3)] == [one.arguments for one in kept]
    assert {("remind", "urgent", 0)} == {(one.task, one.queue, one.priority) for one in kept}
    assert ["remind", "remind", "remind", "report"] == [pending[one.id].task for one in mixed]
    assert all(one.is_new and one.due_at == NOON + timedelta(hours=1) for one in alike)
    assert {"remind@2026-04-02T13:00Z"} == {one.label for one in alike}


@pytest.mark.parametrize("terms", [{"queue": "a b"}, {"priority": 10}, {"at": NOON - DAY}])
def test_terms_that_many_runs_can_not_have_are_refused(app, tasks, terms):
    before = everything(app)
    given = {"delay": "1h"} if "at" not in terms else {}

    with pytest.raises(UsageError):
        app.enqueue_many([tasks.remind.bind(1), tasks.remind.bind(2)], **terms, **given)
    assert before == everything(app)


def test_many_runs_are_all_refused_when_one_is(app, tasks):
    calls = [tasks.remind.bind(1), tasks.report, "nonsense"]

    assert "nonsense" in refused(app, UsageError, lambda: app.enqueue_many(calls))
    assert "past" in refused(
        app, UsageError, lambda: app.enqueue_many([tasks.report], at=NOON - DAY)
    )


def test_more_runs_than_one_transaction_takes_are_refused(store, clock):
    settings = duly.Settings(runs_per_order_max=3)
    app = duly.App(store=store, clock=clock, settings=settings)
    report = app.task(name="report")(lambda: None)

    assert 3 == len(app.enqueue_many([report] * 3))
    assert "split them" in refused(app, UsageError, lambda: app.enqueue_many(iter([report] * 4)))


def test_no_runs_are_no_order(app, tasks):
    before = everything(app)

    assert [] == app.enqueue_many([])
    assert before == everything(app)


def test_a_tenant_does_not_see_anothers_promises(app, tasks, store, clock):
    promised = app.enqueue(tasks.remind.bind(42), delay="1h", key="k")
    queued = app.enqueue(tasks.report)
    other = duly.App(store=store, clock=clock, tenant="other")

    assert ([], []) == (other.delayed.list(), other.runs.list())
    for look in (
        lambda: other.delayed.get("k"),
        lambda: other.delayed.get(promised.id),
        lambda: other.runs.get(queued.id),
        lambda: other.cancel("k"),
        lambda: other.cancel(promised.id),
        lambda: other.move(promised.id, delay="2h"),
    ):
        refused(app, NotFound, look)
