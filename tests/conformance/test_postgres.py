"""The PostgreSQL store keeps the contract (SPEC D4)."""

from __future__ import annotations

import pytest

from duly.store.postgres import PostgresStore
from duly.testing.conformance import StoreContract
from tests.postgres.cleaning import Reused
from tests.postgres.database_clock import install_clock


def with_schema(url):
    """Make a database that holds a store whose time is set by hand."""
    store = PostgresStore(url, shards=8)
    store.status()
    store.close()
    install_clock(url)


@pytest.fixture(scope="module")
def databases(postgres_server):
    """Databases that are emptied between tests."""
    reused = Reused(postgres_server, with_schema)
    yield reused
    reused.close()


class TestPostgres(StoreContract):
    placeholder = "%s"

    @pytest.fixture
    def lent(self, databases):
        taken = databases.take()
        yield taken
        databases.give_back(taken)

    @pytest.fixture
    def clock(self, lent):
        with lent.clock() as clock:
            yield clock

    @pytest.fixture
    def store(self, lent, clock):
        with lent.store(clock) as opened:
            yield opened
