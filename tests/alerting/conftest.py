"""Real stores whose time is set by hand, each in turn: memory, a file, PostgreSQL."""

from __future__ import annotations

import pytest

from duly.store.memory import MemoryStore
from duly.store.sqlite import SqliteStore
from duly.testing.manual_clock import ManualClock
from tests.alerting.alert_rig import GuardRoom
from tests.postgres.reused_databases import Reused, with_schema
from tests.store.sqlite.made_file import made_file


@pytest.fixture(scope="module")
def databases(postgres_server):
    """Databases that are emptied between tests."""
    reused = Reused(postgres_server, with_schema)
    yield reused
    reused.close()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def stored(request, tmp_path):
    """A store and its clock."""
    if request.param == "postgres":
        databases = request.getfixturevalue("databases")
        lent = databases.take()
        with lent.clock() as clock, lent.store(clock) as store:
            store.url = lent.url
            yield store, clock
        databases.give_back(lent)
        return
    clock = ManualClock()
    if request.param == "memory":
        yield MemoryStore(clock), clock
        return
    store = SqliteStore(made_file(tmp_path / "duly.db", clock), clock)
    yield store, clock
    store.close()


@pytest.fixture
def guard(stored):
    """Somebody who watches."""
    return GuardRoom(*stored)
