"""Fixtures for every test that wants a real PostgreSQL; nothing is started before one asks."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duly.store.postgres import PostgresStore
    from tests.postgres.reused_databases import Reused
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


@pytest.fixture(scope="session")
def reused(postgres_server: Databases) -> Iterator[Callable[..., Reused]]:
    """Return the databases that a function has filled and that are emptied between tests."""
    from tests.postgres.reused_databases import Reused

    made: dict[Callable[[str], object], Reused] = {}

    def of(prepare: Callable[[str], object]) -> Reused:
        if prepare not in made:
            made[prepare] = Reused(postgres_server, prepare)
        return made[prepare]

    yield of
    for one in made.values():
        one.close()


@pytest.fixture
def lend_database(reused: Callable[..., Reused]) -> Iterator[Callable[..., str]]:
    """Lend the test a database that a function has filled; return its URL."""
    with ExitStack() as stack:

        def lend(prepare: Callable[[str], object]) -> str:
            databases = reused(prepare)
            lent = databases.take()
            stack.callback(databases.give_back, lent)
            return lent.url

        yield lend


@pytest.fixture
def open_store() -> Iterator[Callable[..., PostgresStore]]:
    """Open stores that are closed with the test."""
    from duly.store.postgres import PostgresStore

    with ExitStack() as stack:

        def open_one(*args: Any, **options: Any) -> PostgresStore:
            return stack.enter_context(closing(PostgresStore(*args, **options)))

        yield open_one


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
