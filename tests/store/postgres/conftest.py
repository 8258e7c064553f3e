"""Stores on databases of the tests' own, with the real clock or one that is set by hand."""

from __future__ import annotations

from contextlib import closing

import pytest

from duly.store.postgres import PostgresStore
from tests.postgres.database_clock import DatabaseClock, install_clock
from tests.store.postgres.postgres_pair import Street
from tests.store.postgres.turnstile import PATIENT, Watch, patience


def with_schema(url: str) -> None:
    """Fill a template: the schema, as a program makes it."""
    store = PostgresStore(url)
    store.now()
    store.close()


def with_schema_and_clock(url: str) -> None:
    """The same, with a clock that tests set by hand."""
    with_schema(url)
    install_clock(url)


@pytest.fixture
def url(new_database):
    """A database with our schema, whose clock is the server's own."""
    return new_database(with_schema)


@pytest.fixture
def open_store():
    """Open stores that are closed with the test."""
    opened = []

    def open_one(url, *args, **options):
        opened.append(PostgresStore(url, *args, **options))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def timed_url(new_database):
    """A database with our schema, whose clock is set by hand."""
    return new_database(with_schema_and_clock)


@pytest.fixture
def clock(timed_url):
    """The clock that the database follows."""
    with DatabaseClock(timed_url) as made:
        yield made


@pytest.fixture
def store(timed_url, clock, open_store):
    """A store whose time the test decides."""
    return open_store(timed_url, clock)


@pytest.fixture
def patient():
    """Nobody gives up waiting for a lock."""
    with patience():
        yield


@pytest.fixture
def patient_store(patient, timed_url, clock, open_store):
    """A store that does not give up, whatever the machine is busy with."""
    return open_store(timed_url, clock, settings=PATIENT)


@pytest.fixture
def watch(timed_url):
    """Whoever looks on, and holds others at a place, beside the store."""
    with closing(Watch(timed_url)) as made:
        yield made


@pytest.fixture
def street(timed_url, clock):
    """A dispatcher with all leases, and room for workers next door."""
    with closing(Street(timed_url, clock)) as made:
        yield made
