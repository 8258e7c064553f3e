"""Orders in a transaction of the caller's, on a connection of Django's."""

from __future__ import annotations

import asyncio
import threading

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from duly import Conflict, UsageError
from duly.store.ports.dispatch import MemberKind
from tests.store.postgres.turnstile import record_rings


@pytest.fixture(scope="module")
def django_db():
    """Django without a project; which database it uses, each test says."""
    import django
    from django.conf import settings

    # Once in a process, to which tests of this file may come in several parts.
    if not settings.configured:
        settings.configure(
            DATABASES={
                "default": {"ENGINE": "django.db.backends.postgresql"},
                "file": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
            }
        )
        django.setup()
    from django import db

    return db


@pytest.fixture
def db(django_db, url):
    parts = conninfo_to_dict(url)
    django_db.connections.databases["default"].update(
        NAME=parts["dbname"], USER=parts["user"], HOST=parts["host"], PORT=str(parts["port"])
    )
    yield django_db
    for one in django_db.connections.all(initialized_only=True):
        one.close()
        del django_db.connections[one.alias]


def insert(db, order):
    with db.connection.cursor() as cursor:
        cursor.execute("INSERT INTO orders VALUES (%s)", [order])


def test_an_atomic_block_commits_both(shop, db):
    with db.transaction.atomic():
        insert(db, 7)
        shop.promise(7, db.connection)

        assert ([], []) == shop.kept

    assert ([7], [7]) == shop.kept


def test_an_atomic_block_that_fails_has_promised_nothing(shop, db):
    with pytest.raises(KeyError), db.transaction.atomic():  # noqa: PT012 - the block is what fails
        insert(db, 7)
        shop.promise(7, db.connection)
        raise KeyError("the caller's own trouble")

    assert ([], []) == shop.kept


def test_nested_blocks_are_savepoints(shop, db):
    with db.transaction.atomic():
        shop.promise(1, db.connection)
        with pytest.raises(KeyError), db.transaction.atomic():  # noqa: PT012 - as above
            shop.promise(2, db.connections["default"])
            raise KeyError("the caller's own trouble")
        with db.transaction.atomic():
            shop.promise(3, db.connection)
        insert(db, 4)

    assert ([4], [1, 3]) == shop.kept


def test_a_refused_order_leaves_the_block_usable(shop, db):
    shop.promise(7, None)
    with db.transaction.atomic():
        with pytest.raises(Conflict):
            shop.app.enqueue(shop.ship.bind(8), delay="1h", key="order:7", connection=db.connection)
        insert(db, 9)

    assert ([9], [7]) == shop.kept


def test_a_connection_outside_of_a_block_is_refused(shop, db):
    says = "is in no transaction; begin one: `with transaction.atomic"
    with pytest.raises(UsageError, match=says):
        shop.promise(7, db.connection)
    insert(db, 1)
    with pytest.raises(UsageError, match=says):
        shop.promise(7, db.connection)

    assert ([1], []) == shop.kept


def test_a_block_that_must_be_rolled_back_is_refused(shop, db):
    with db.transaction.atomic():
        with pytest.raises(KeyError), db.transaction.atomic(savepoint=False):
            raise KeyError("the caller's own trouble")
        with pytest.raises(UsageError, match="is in a transaction that has failed; roll it back"):
            shop.promise(7, db.connection)


def test_a_connection_to_another_kind_of_database_is_refused(shop, db):
    with pytest.raises(UsageError, match="is no connection to PostgreSQL"):
        shop.promise(7, db.connections["file"])


def test_a_connection_belongs_to_its_thread(shop, db):
    said = []

    def order(connection):
        with pytest.raises(UsageError) as caught:
            shop.promise(7, connection)
        said.append(str(caught.value))

    async def order_awaited():
        with pytest.raises(UsageError, match="is Django's, which is never awaited"):
            await shop.promise_awaited(7, db.connection)

    with db.transaction.atomic():
        insert(db, 1)
        thread = threading.Thread(target=order, args=(db.connections["default"],))
        thread.start()
        thread.join()
        asyncio.run(order_awaited())

    assert "can only be used in that same thread" in said[0]
    assert ([1], []) == shop.kept


def test_transactions_managed_by_hand_join_as_well(shop, db):
    db.connection.set_autocommit(False)
    insert(db, 7)
    shop.promise(7, db.connection)
    db.connection.commit()
    db.connection.set_autocommit(True)

    assert ([7], [7]) == shop.kept


def test_the_bell_is_rung_after_the_commit(shop, db, monkeypatch):
    rings = record_rings(shop.app.store, monkeypatch)
    with psycopg.connect(shop.url, autocommit=True) as listener:
        listener.execute("LISTEN duly")
        with db.transaction.atomic():
            shop.promise(1, db.connection)

            assert [] == rings

        assert [*MemberKind] == rings
        assert 1 <= len(list(listener.notifies(timeout=120, stop_after=1)))
