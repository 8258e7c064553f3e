"""Virtual time on the caller's own connection: what is rolled back was never ordered."""

from __future__ import annotations

import asyncio
import unittest

import psycopg
import pytest
from django.conf import settings as django_settings
from psycopg.conninfo import conninfo_to_dict

import duly
from duly import Retry, UsageError, every
from duly.testing import VirtualClock, virtual_time
from tests.store.postgres.joining.test_django import django_db

__all__ = ["django_db"]

START = "2026-03-28T12:00"
ELSEWHERE = "postgresql://nobody@127.0.0.1:1/shop"
"""A store that is never reached: a test runner has given its database another name."""


class Shop:
    """An application, and the table that its task writes to by the test's own connection."""

    def __init__(self) -> None:
        self.app = duly.App(ELSEWHERE)
        self.connection: psycopg.Connection | None = None
        self.clock: VirtualClock

        @self.app.task(retry=Retry(attempts=1))
        def ship(order: int) -> None:
            assert self.connection is not None
            self.connection.execute("INSERT INTO orders VALUES (%s)", (order,))

        self.ship = ship

    def promise(self, order: int, connection: object) -> None:
        self.app.enqueue(
            self.ship.bind(order), delay="1h", key=f"order:{order}", connection=connection
        )

    @property
    def pending(self) -> list[str]:
        return sorted(str(one.key) for one in self.app.delayed.list())


@pytest.fixture
def shop():
    shop = Shop()
    with virtual_time(shop.app, START) as shop.clock:
        yield shop


@pytest.fixture
def connection(url):
    with psycopg.connect(url) as connection:
        yield connection
        connection.rollback()


def test_an_order_counts_as_the_open_transaction_sees_it(shop, connection):
    """A test that is rolled back in the end never commits it."""
    shop.connection = connection
    shop.promise(7, connection)
    shop.clock.advance("1h")

    assert [(7,)] == connection.execute("SELECT id FROM orders").fetchall()
    assert ["succeeded"] == [one.state for one in shop.app.runs.list()]


def test_what_is_rolled_back_has_not_been_ordered(shop, connection):
    shop.promise(1, connection)
    connection.commit()
    shop.promise(2, connection)
    shop.app.cancel("order:1", connection=connection)
    connection.rollback()

    assert ["order:1"] == shop.pending


def test_a_savepoint_takes_back_what_came_after_it(shop, connection):
    shop.promise(1, connection)
    with connection.transaction(force_rollback=True):
        shop.promise(2, connection)
        shop.app.move("order:1", delay="9h", connection=connection)
        with connection.transaction():
            shop.app.schedules.create("s", shop.ship.bind(3), every("1h"), connection=connection)
    shop.promise(4, connection)
    (first, *_) = shop.app.delayed.list()

    assert ["order:1", "order:4"] == shop.pending
    assert "2026-03-28T13:00:00+00:00" == first.due_at.isoformat()
    assert [] == shop.app.schedules.list()


def test_a_closed_connection_has_committed_or_not(shop, url):
    with psycopg.connect(url) as kept:
        shop.promise(1, kept)
    lost = psycopg.connect(url)
    shop.promise(2, lost)
    lost.close()

    assert ["order:1"] == shop.pending


def test_a_tasks_order_goes_with_its_own_block(shop, connection):
    """The run fails all the same, on record."""
    connection.execute("SELECT 1")

    @shop.app.task(retry=Retry(attempts=1))
    def fails() -> None:
        with connection.transaction():
            shop.promise(9, connection)
            raise KeyError("the caller's own trouble")

    shop.app.enqueue(fails)
    shop.clock.advance("1m")

    assert [] == shop.pending
    assert ["dead"] == [one.state for one in shop.app.runs.list()]


def test_time_that_has_passed_is_not_taken_back(shop, connection):
    shop.connection = connection
    shop.promise(1, connection)
    shop.clock.advance("2h")
    connection.rollback()

    with pytest.raises(UsageError, match="has rolled back an order after something else"):
        shop.app.runs.list()


def test_a_connection_that_is_refused_outside_is_refused_here(shop, url):
    with (
        psycopg.connect(url, autocommit=True) as connection,
        pytest.raises(UsageError, match="is in no transaction"),
    ):
        shop.promise(7, connection)
    with pytest.raises(UsageError, match="is not a connection that can be joined"):
        shop.promise(7, object())
    local = duly.App("sqlite:///elsewhere.db")
    task = local.task(name="any")(lambda: None)
    with (
        psycopg.connect(url) as connection,
        virtual_time(local, START),
        pytest.raises(UsageError, match="is not a connection that Duly lent"),
    ):
        local.enqueue(task, connection=connection)


def test_an_awaited_connection_joins_as_well(shop, url):
    async def order() -> None:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            call = shop.ship.bind(1)
            await shop.app.aio.enqueue(call, delay="1h", key="order:1", connection=connection)
            await connection.commit()
            await shop.app.aio.enqueue(call, delay="1h", key="order:2", connection=connection)
            await connection.rollback()

    asyncio.run(order())

    assert ["order:1"] == shop.pending


def test_django_s_test_case_orders_runs_and_rolls_back(url, django_db):
    """Its test database has a name of its own, and its transaction is never committed."""
    parts = conninfo_to_dict(url)
    names = {"NAME": parts["dbname"], "USER": parts["user"], "HOST": parts["host"]}
    django_db.connections.databases["default"].update(names, PORT=str(parts["port"]))
    assert django_settings.configured
    from django.test import TestCase

    app = duly.App(ELSEWHERE)

    @app.task
    def ship(order: int) -> None:
        with django_db.connection.cursor() as cursor:
            cursor.execute("INSERT INTO orders VALUES (%s)", [order])

    class Shipping(TestCase):  # type: ignore[misc]  # it is without types
        def test_it(self) -> None:
            connection, atomic = django_db.connection, django_db.transaction.atomic
            with virtual_time(app, START) as clock:
                with atomic():
                    app.enqueue(ship.bind(1), delay="1h", key="kept", connection=connection)
                with pytest.raises(KeyError), atomic():  # noqa: PT012 - the block is what fails
                    app.cancel("kept", connection=connection)
                    app.enqueue(ship.bind(2), delay="1h", connection=connection)
                    raise KeyError
                clock.advance("2h")
            with connection.cursor() as cursor:
                cursor.execute("SELECT id FROM orders")

                assert [(1,)] == cursor.fetchall()

    result = unittest.TestResult()
    try:
        unittest.defaultTestLoader.loadTestsFromTestCase(Shipping).run(result)
    finally:
        for one in django_db.connections.all(initialized_only=True):
            one.close()
            del django_db.connections[one.alias]

    assert ([], [], 1) == (result.errors, result.failures, result.testsRun)
    with psycopg.connect(url) as connection:
        assert [] == connection.execute("SELECT id FROM orders").fetchall()
