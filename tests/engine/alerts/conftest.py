"""Stores whose time is set by hand: SQLite in memory, and PostgreSQL for all but the quick run."""

from __future__ import annotations

import pytest

from tests.engine.alerts.alert_rig import GuardRoom
from tests.postgres.reused_databases import Reused, with_schema


@pytest.fixture(scope="module")
def databases(postgres_server):
    """Databases that are emptied between tests."""
    reused = Reused(postgres_server, with_schema)
    yield reused
    reused.close()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.thorough)])
def stored(request):
    """A store and its clock. A module that is about more than one store says so by its own."""
    yield from store_of(request)


def store_of(request):
    """Lend the store that a fixture's parameter names, and its clock."""
    if request.param == "sqlite":
        yield request.getfixturevalue("stored_in_memory")
        return
    databases = request.getfixturevalue("databases")
    lent = databases.take()
    with lent.clock() as clock, lent.store(clock) as store:
        store.url = lent.url
        yield store, clock
    databases.give_back(lent)


@pytest.fixture
def guard(stored):
    """Somebody who watches."""
    return GuardRoom(*stored)
