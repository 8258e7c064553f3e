"""An API in this process: an application in memory and on SQLite, and somebody who asks."""

from __future__ import annotations

import pytest

import duly
from duly.api.app import Api
from duly.engine.manual_clock import ManualClock
from duly.testing import SeededDraws, virtual_time
from duly.timetable.instants import to_microseconds
from tests.api.api_client import Asker
from tests.api.api_fixtures import START, Desk, lives, make_app, token_for
from tests.store.made_store import KINDS, made_store
from tests.timetable.instants import moment

NOON = moment("2026-04-02T12:00Z")


@pytest.fixture
def clock():
    return ManualClock(to_microseconds(NOON))


@pytest.fixture(params=KINDS)
def store(request, clock, tmp_path):
    kept = made_store(request.param, tmp_path, clock)
    yield kept
    kept.close()


@pytest.fixture
def app(store, clock):
    """An application with two tasks."""
    app = duly.App(store=store, clock=clock, draws=SeededDraws(), actor="ada")

    @app.task
    def report() -> None: ...

    @app.task(queue="mail")
    def remind(class_id: int, note: str = "") -> None: ...

    return app


@pytest.fixture
def asked(app, clock):
    with Asker(Api(app, clock=clock), token_for(app)) as asker:
        yield asker


@pytest.fixture
def desk():
    """An application in virtual time, two hours after it began, and its API."""
    app = make_app()
    with virtual_time(app, START) as clock:
        lives(app, clock)
        with Asker(Api(app), token_for(app)) as asker:
            yield Desk(app, asker, clock)
