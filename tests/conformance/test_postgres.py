"""The PostgreSQL store keeps the contract (SPEC D4)."""

from __future__ import annotations

import pytest

from duly.store.postgres import PostgresStore
from duly.testing.conformance import StoreContract
from tests.postgres.database_clock import DatabaseClock, install_clock


def with_schema(url):
    """Make a database that holds a store whose time is set by hand."""
    store = PostgresStore(url, shards=8)
    store.status()
    store.close()
    install_clock(url)


class TestPostgres(StoreContract):
    placeholder = "%s"

    @pytest.fixture
    def url(self, new_database):
        return new_database(with_schema)

    @pytest.fixture
    def clock(self, url):
        with DatabaseClock(url) as clock:
            yield clock

    @pytest.fixture
    def store(self, url, clock):
        opened = PostgresStore(url, clock)
        yield opened
        opened.close()
