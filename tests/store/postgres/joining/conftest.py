"""An application on PostgreSQL, and tables of the caller's own in the same database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import duly
from duly.store.postgres import PostgresStore
from duly.testing import SeededDraws
from tests.postgres.database_clock import DatabaseClock
from tests.postgres.reused_databases import with_store_and_clock

if TYPE_CHECKING:
    from duly.client.tasks import AnyTask


def with_orders(url: str) -> None:
    """Make a store, and the caller's own table beside it."""
    with_store_and_clock(url)
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE orders (id int PRIMARY KEY)")


@pytest.fixture
def url(lend_database):
    return lend_database(with_orders)


@pytest.fixture
def clock(url):
    with DatabaseClock(url) as clock:
        yield clock


@pytest.fixture
def app(url, clock):
    with duly.App(store=PostgresStore(url, clock), clock=clock, draws=SeededDraws()) as app:
        yield app


@pytest.fixture
def ship(app):
    @app.task
    def ship(order: int) -> None:
        """Send something off."""

    return ship


@dataclass(frozen=True)
class Shop:
    """The caller's program: what it writes itself, and what it promises."""

    app: duly.App
    ship: AnyTask
    url: str

    def promise(self, order: int, connection: Any) -> duly.EnqueuedRun:
        """Order a run in the caller's transaction."""
        return self.app.enqueue(
            self.ship.bind(order), delay="1s", key=f"order:{order}", connection=connection
        )

    async def promise_awaited(self, order: int, connection: Any) -> duly.EnqueuedRun:
        """Do the same, awaited."""
        found: duly.EnqueuedRun = await self.app.aio.enqueue(
            self.ship.bind(order), delay="1s", key=f"order:{order}", connection=connection
        )
        return found

    @property
    def kept(self) -> tuple[list[int], list[int]]:
        """The orders that are there, and the orders that a run is promised for."""
        with psycopg.connect(self.url) as connection:
            rows = connection.execute("SELECT id FROM orders ORDER BY 1").fetchall()
        promised = [str(one.key) for one in self.app.delayed.list()]
        return [one for (one,) in rows], sorted(int(key.partition(":")[2]) for key in promised)


@pytest.fixture
def shop(app, ship, url):
    return Shop(app, ship, url)
