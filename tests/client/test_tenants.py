"""A tenant can't see or touch another's schedules, runs or payloads (INV-20)."""

from __future__ import annotations

from typing import Any

import pytest

import duly
from duly import Conflict, Forbidden, every
from duly.engine.manual_clock import ManualClock
from duly.store.memory import MemoryStore
from duly_conformance.kit import snapshot
from tests.client.tenant_walk import (
    BY_REFERENCE,
    LOOKING,
    NOBODYS,
    NOT_OF_A_TENANT,
    OPERATORS,
    OURS,
    SECRET,
    THEIRS,
    answer,
    confined,
    furnish,
    naming_others,
    shown,
    ways_in,
)
from tests.postgres.database_clock import DatabaseClock
from tests.postgres.reused_databases import with_schema
from tests.store.made_store import made_store

BOTH = (OURS, THEIRS)


@pytest.fixture(params=["memory", "sqlite", "postgres"], scope="module")
def kept(request, tmp_path_factory) -> Any:
    """A store with a clock, which another tenant has furnished."""
    if request.param == "postgres":
        from duly.store.postgres import PostgresStore

        server = request.getfixturevalue("postgres_server")
        url = server.create_database(server.prepared(with_schema))
        with DatabaseClock(url) as clock:
            store: Any = PostgresStore(url, clock)
            yield store, clock, furnish(store, clock)
            store.close()
        server.drop_database(url)
        return
    manual = ManualClock()
    store = made_store(request.param, tmp_path_factory.mktemp("tenants"), manual)
    yield store, manual, furnish(store, manual)
    store.close()


@pytest.fixture
def store(kept) -> Any:
    return kept[0]


@pytest.fixture
def theirs(kept) -> Any:
    return kept[2]


@pytest.fixture
def app(kept) -> duly.App:
    """Ours, as the API of a program that is the other tenant's own would have it for our token."""
    operator = duly.App(store=kept[0], clock=kept[1], tenant=THEIRS, actor="operator")
    operator.task(name="report")(lambda note: None)
    return confined(operator)


def test_every_way_in_is_walked(app):
    """A method that nobody has thought about fails here."""
    walked = {*BY_REFERENCE, *LOOKING, *OPERATORS, *NOT_OF_A_TENANT}

    assert set() == set(ways_in(app)) - walked
    assert {"tasks", "declarations"} == walked - set(ways_in(app))


def test_whose_things_are_meant_an_operator_alone_may_say(app):
    """Each way in that can be told so is refused to a tenant, as is seen below."""
    assert {"within"} == naming_others(app) - set(OPERATORS)


def test_what_is_anothers_is_answered_as_what_is_not_there(app, store, theirs):
    """L2, checklist 15: the same error, or the same nothing, and nothing is changed by asking."""
    before = snapshot(store, BOTH)
    differing = {}
    for name, calls in BY_REFERENCE.items():
        for number, call in enumerate(calls):
            found, expected = answer(call, app, theirs), answer(call, app, NOBODYS)
            if found != expected:
                differing[f"{name} {number}"] = (found, expected)

    assert {} == differing
    assert before == snapshot(store, BOTH)


def test_what_is_shown_holds_nothing_of_anothers(app, store, theirs):
    """INV-20: neither a name, nor an id, nor what was said."""
    marks = {SECRET, THEIRS, "their-", *(text for text, _ in theirs.texts())}
    before = snapshot(store, BOTH)
    told = {name: [shown(call(app)) for call in calls] for name, calls in LOOKING.items() if calls}

    assert {} == {
        name: found
        for name, texts in told.items()
        if (found := {mark for mark in marks for text in texts if mark in text})
    }
    assert before == snapshot(store, BOTH)


def test_an_operator_and_the_tenant_itself_see_what_is_hidden(app, kept, theirs):
    """Or else the walk above would show nothing."""
    store, clock, _ = kept
    operator = duly.App(store=store, clock=clock)
    own = confined(operator, THEIRS)

    assert theirs.name == own.schedules.get(theirs.schedule).name
    assert 1 == own.status().dead == own.status().ambiguous == len(own.inbox.list())
    assert [f"tenant:{THEIRS}"] == [one.name for one in own.limits.list()]
    assert {"their-queue"} == {one.name for one in own.queues.list() if one.queued}
    assert "their-queue" in {one.name for one in operator.queues.list()}
    assert {f"tenant:{THEIRS}", "owner:their-anna"} <= {one.scope for one in own.quotas.list()}
    assert SECRET in shown(own.runs.get(theirs.running))


def test_nothing_of_anothers_is_counted(app):
    """INV-20: and where processes run is the operator's business."""
    status = app.status()

    assert (0, 0, 0, 0, 0, 0) == (
        status.delayed,
        status.queued,
        status.running,
        status.retrying,
        status.dead,
        status.ambiguous,
    )
    assert ({}, {}) == (status.schedules, status.queues)
    assert {("", 0, 0)} == {(one.host, one.process, one.running) for one in status.members}


@pytest.mark.parametrize("name", OPERATORS)
def test_what_concerns_every_tenant_is_an_operators(app, store, name):
    before = snapshot(store, BOTH) if isinstance(store, MemoryStore) else None

    with pytest.raises(Forbidden, match=r"mallory: may not .*: that concerns every tenant; ask an"):
        OPERATORS[name](app)

    assert before is None or before == snapshot(store, BOTH)


def test_names_and_keys_are_each_tenants_own(app, store, theirs):
    """What another tenant has called so is in nobody's way."""
    operator = duly.App(store=store, tenant=THEIRS)
    before = shown(operator.schedules.get(theirs.name)), shown(operator.delayed.get(theirs.key))
    report = app.tasks.find("report")

    made = app.schedules.create(theirs.name, report.bind("ours"), every("2h"))
    pending = app.enqueue(report.bind("ours"), delay="1h", key=theirs.key)

    assert made.id != theirs.schedule
    assert (theirs.key, True) == (app.delayed.get(pending.id).key, pending.is_new)
    assert before == (
        shown(operator.schedules.get(theirs.name)),
        shown(operator.delayed.get(theirs.key)),
    )


@pytest.mark.parametrize("thing", ["delayed", "queued"])
def test_an_id_that_another_has_used_tells_nothing_of_it(app, store, theirs, thing):
    """It is refused as one that we have used for something else ourselves."""
    report = app.tasks.find("report")
    own = app.enqueue(report.bind("ours"), delay="9h")
    before = snapshot(store, BOTH)

    with pytest.raises(Conflict) as ours:
        app.enqueue(report.bind("another"), delay="9h", id=own.id)
    with pytest.raises(Conflict) as refused:
        app.enqueue(report.bind(SECRET), delay="3h", id=getattr(theirs, thing))

    words = str(ours.value).replace(str(own.id), "<id>")
    assert words == str(refused.value).replace(str(getattr(theirs, thing)), "<id>")
    assert before == snapshot(store, BOTH)
