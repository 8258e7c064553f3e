"""Stores on databases of the tests' own, with the real clock or one that is set by hand."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.postgres.database_clock import DatabaseClock
from tests.postgres.reused_databases import with_store, with_store_and_clock
from tests.store.postgres.postgres_pair import Street
from tests.store.postgres.turnstile import PATIENT, Watch, patience


@pytest.fixture
def url(lend_database):
    """A database with our schema, whose clock is the server's own."""
    return lend_database(with_store)


@pytest.fixture
def timed_url(lend_database):
    """A database with our schema, whose clock is set by hand."""
    return lend_database(with_store_and_clock)


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
