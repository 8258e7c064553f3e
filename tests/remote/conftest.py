"""A server with runs of every kind, in virtual time, and somebody who may do everything."""

from __future__ import annotations

import pytest

import duly
from duly.api.app import Api
from duly.remote.transport import RetryPolicy
from duly.testing import virtual_time
from tests.api.api_fixtures import START, lives, make_app, token_for
from tests.remote.live_server import Lossy, listening


@pytest.fixture(scope="module")
def server():
    """An application that others reach by a URL, two hours after it began."""
    app = make_app()
    with virtual_time(app, START) as clock:
        lives(app, clock)
        token = token_for(app)["Authorization"].removeprefix("Bearer ")
        with listening(Api(app)) as url:
            yield app, url, token


@pytest.fixture
def app(server):
    return server[0]


@pytest.fixture
def remote(server):
    _, url, token = server
    with duly.connect(url, token=token) as made:
        yield made


@pytest.fixture
def lossy(server):
    with Lossy(server[1]) as way:
        yield way


@pytest.fixture
def rests():
    """How long was waited between tries, each time."""
    return []


@pytest.fixture
def afar(server, lossy, rests):
    """The server over a way on which replies are lost; nobody really waits."""
    patience = RetryPolicy(tries_max=3)
    with duly.connect(lossy.url, token=server[2], patience=patience, rest=rests.append) as made:
        yield made
