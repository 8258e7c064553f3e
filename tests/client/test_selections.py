"""Selections: what an order about many runs touches is what was looked at."""

from __future__ import annotations

from dataclasses import replace as replace_parts

import pytest

import duly
from duly import Conflict, NotFound, Retry, UsageError
from duly.client import selections
from duly.testing import virtual_time


@pytest.fixture
def desk():
    """An application in virtual time, three of whose runs are dead."""
    app = duly.App("memory:", actor="ada")

    @app.task(retry=Retry(attempts=1))
    def fail() -> None:
        raise ValueError

    with virtual_time(app, "2026-04-03T02:00") as clock:
        app.enqueue_many([fail] * 3)
        clock.advance("1m")
        yield app, clock


def test_a_selection_shows_what_it_holds_and_does_nothing(desk):
    app, _ = desk
    frozen = app.selections.freeze(task="fail")

    assert (3, "ada", {"state": "dead", "task": "fail"}) == (
        len(frozen),
        frozen.made_by,
        frozen.chosen_by,
    )
    assert frozen == app.selections.get(frozen.id)
    assert ["dead"] * 3 == [run.state for run in frozen.sample]


def test_an_order_touches_what_was_looked_at_and_nothing_else(desk):
    """Whatever has died meanwhile."""
    app, clock = desk
    frozen = app.selections.freeze()
    later = app.enqueue(app.call("fail"))
    clock.advance("1m")

    done = app.selections.discard(frozen.id, reason="of no use")

    assert [True] * 3 == [one.is_done for one in done]
    assert [later.id] == [run.id for run in app.runs.list(state="dead")]


def test_what_has_changed_meanwhile_is_told(desk):
    app, _ = desk
    frozen = app.selections.freeze()
    app.runs.discard(frozen.ids[0], reason="first")

    done = {one.id: one for one in app.selections.retry(frozen.id)}

    assert (False, "discarded") == (done[frozen.ids[0]].is_done, done[frozen.ids[0]].state)
    assert 2 == sum(one.is_done for one in done.values())


def test_runs_are_chosen_by_their_ids_whatever_their_state(desk):
    """The boxes that somebody ticked; each once, and one that is not there is told."""
    app, _ = desk
    first, second, _ = app.runs.list(state="dead")
    app.runs.discard(second, reason="first")
    frozen = app.selections.freeze(ids=[first.id, str(second.id), first.id])

    assert ({first.id, second.id}, {"ids": 2}) == (set(frozen.ids), frozen.chosen_by)
    assert list(frozen.ids) == sorted(frozen.ids, reverse=True)
    with pytest.raises(NotFound, match="run"):
        app.selections.freeze(ids=["01960000-0000-7000-8000-000000000000"])
    small = replace_parts(app._caller, settings=duly.Settings(runs_per_order_max=1))  # noqa: SLF001
    with pytest.raises(UsageError, match="ids: '2 runs' are more than one order takes"):
        selections.Selections(small, app.runs).freeze(ids=[first.id, second.id])


def test_runs_are_cancelled_together(desk):
    app, _ = desk
    app.enqueue_many([app.call("fail")] * 2)
    frozen = app.selections.freeze(state=["queued", "dead"])

    done = app.selections.cancel(frozen.id, reason="stop")

    assert {("queued", True): 2, ("dead", False): 3} == {
        (one.state, one.is_done): sum(two.state == one.state for two in done) for one in done
    }


def test_many_are_confirmed_by_their_number(desk, monkeypatch):
    """Whoever orders about a crowd says how large it is."""
    app, _ = desk
    monkeypatch.setattr(selections, "CONFIRMED_ABOVE", 2)
    frozen = app.selections.freeze()

    with pytest.raises(UsageError, match="confirm is missing: this order is about 3 runs"):
        app.selections.discard(frozen.id, reason="of no use")
    with pytest.raises(Conflict, match="holds 3 runs, not 4"):
        app.selections.discard(frozen.id, reason="of no use", confirm=4)
    assert 3 == len(app.runs.list(state="dead"))
    assert 3 == len(app.selections.discard(frozen.id, reason="of no use", confirm=3))


def test_a_selection_does_not_last(desk):
    app, clock = desk
    frozen = app.selections.freeze()
    clock.advance("16m")

    with pytest.raises(NotFound, match="choose the runs anew"):
        app.selections.retry(frozen.id)


def test_what_is_no_id_of_a_selection_is_refused(desk):
    app, _ = desk

    with pytest.raises(UsageError, match="selection"):
        app.selections.get("mine")
    with pytest.raises(UsageError, match="limit"):
        app.selections.freeze(limit=0)


def test_nobody_believes_that_a_part_is_all(desk):
    """More than one order takes are refused, unless a number is asked for."""
    app, _ = desk
    small = replace_parts(app._caller, settings=duly.Settings(runs_per_order_max=2))  # noqa: SLF001
    few = selections.Selections(small, app.runs)

    with pytest.raises(UsageError, match="there are more than 2 runs"):
        few.freeze()
    assert (2, 2) == (len(few.freeze(limit=2)), few.freeze(limit=2).chosen_by["limit"])
