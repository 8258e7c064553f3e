"""Processes of a system test end with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.system.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.postgres.server import Databases, Server

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


@pytest.fixture(params=["sqlite", "postgres"])
def campaign_url(request) -> str | None:
    """The URL of a campaign's database; None for a SQLite file in the campaign's folder."""
    return None if request.param == "sqlite" else str(request.getfixturevalue("database"))


@pytest.fixture
def chosen_server(request) -> Databases:
    """The durable server for a test that asks for it; else the one that all tests share."""
    is_durable = "running_server" in request.fixturenames
    server: Databases = request.getfixturevalue(
        "running_server" if is_durable else "postgres_server"
    )
    return server


@pytest.fixture
def postgres_fleet(tmp_path, chosen_server):
    url = chosen_server.create_database()
    made = Fleet(tmp_path, url)
    yield made
    made.kill_all()
    chosen_server.drop_database(url)


@pytest.fixture
def postgres_campaign(tmp_path, chosen_server, request):
    from tests.system.postgres_campaign import postgres_campaign

    with postgres_campaign(chosen_server, tmp_path, request.node.originalname) as made:
        made.schedules = SCHEDULES
        yield made
