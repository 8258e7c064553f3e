"""Processes of a system test end with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.system.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.postgres.server import Server

SCHEDULES = 40


@pytest.fixture
def fleet(tmp_path):
    made = Fleet(tmp_path)
    yield made
    made.kill_all()


@pytest.fixture(scope="session")
def durable_server() -> Iterator[Server]:
    """PostgreSQL as in production; tests of this process stop and start it, one after the other."""
    from tests.postgres.server import Server
    from tests.system.postgres_campaign import RECOVERING

    with Server.boot(RECOVERING, durable=True) as server:
        yield server


@pytest.fixture
def running_server(durable_server) -> Iterator[Server]:
    """The durable server, which runs when a test begins and when it ends."""
    yield durable_server
    if not durable_server.is_running:
        durable_server.start()


@pytest.fixture
def postgres_fleet(tmp_path, running_server):
    url = running_server.create_database()
    made = Fleet(tmp_path, url)
    yield made
    made.kill_all()
    if running_server.is_running:
        running_server.drop_database(url)


@pytest.fixture
def postgres_campaign(tmp_path, running_server, request):
    from tests.system.postgres_campaign import postgres_campaign

    with postgres_campaign(running_server, tmp_path, request.node.originalname) as made:
        made.schedules = SCHEDULES
        yield made
