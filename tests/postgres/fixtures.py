"""Fixtures for every test that wants a real PostgreSQL; nothing is started before one asks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.postgres.server import Databases, Server


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    """The run's server, for all of its processes. Make databases on it, do not stop it."""
    from tests.postgres.server import shared_databases

    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        # Each worker has a folder of its own in the folder of the run.
        folder = folder.parent
    server = shared_databases(folder)
    yield server
    server.close()


@pytest.fixture
def new_database(postgres_server: Databases) -> Iterator[Callable[..., str]]:
    """Make databases; called with a function, copies of the one that the function has filled."""
    made: list[str] = []

    def make(prepare: Callable[[str], object] | None = None) -> str:
        template = None if prepare is None else postgres_server.prepared(prepare)
        made.append(postgres_server.create_database(template))
        return made[-1]

    yield make
    for url in made:
        postgres_server.drop_database(url)


@pytest.fixture
def database(new_database: Callable[..., str]) -> str:
    """The URL of an empty database of the test's own."""
    return new_database()


@pytest.fixture
def private_server() -> Iterator[Server]:
    """A server of the test's own, which it may stop and start."""
    from tests.postgres.server import Server

    with Server.boot() as server:
        yield server


@pytest.fixture
def pgbouncer_url(postgres_server: Databases) -> Iterator[Callable[[str], str]]:
    """Lead to a database through PgBouncer in transaction mode, over two connections for all."""
    from tests.postgres.pgbouncer import PgBouncer

    with PgBouncer.boot(postgres_server) as pooler:
        yield pooler.url
