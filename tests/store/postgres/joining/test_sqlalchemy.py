"""Orders in a transaction of the caller's, on what he has of SQLAlchemy."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import (
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    scoped_session,
    sessionmaker,
)

from duly import Conflict, StoreUnavailable, UsageError
from duly.store.ports.dispatch import MemberKind
from tests.store.postgres.turnstile import record_rings


class Record(DeclarativeBase):
    """The caller's models."""


class Order(Record):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)


def address(url):
    return url.replace("postgresql://", "postgresql+psycopg://")


@pytest.fixture
def engine(url):
    engine = sqlalchemy.create_engine(address(url))
    yield engine
    engine.dispose()


def insert(connection, order):
    connection.execute(sqlalchemy.insert(Order).values(id=order))


def test_a_connection_commits_both(shop, engine):
    with engine.begin() as connection:
        insert(connection, 7)
        shop.promise(7, connection)

        assert ([], []) == shop.kept

    assert ([7], [7]) == shop.kept


def test_a_connection_whose_first_statement_is_ours_has_begun(shop, engine):
    """Its commit must not be void because it has not seen our statement."""
    with engine.connect() as connection:
        shop.promise(7, connection)
        connection.commit()
        shop.promise(8, connection)
        connection.rollback()
        shop.promise(9, connection)

    assert ([], [7]) == shop.kept


def test_a_session_commits_both(shop, engine):
    with Session(engine) as session:
        session.add(Order(id=7))
        shop.promise(7, session)

        assert ([], []) == shop.kept
        session.commit()

    assert ([7], [7]) == shop.kept


def test_a_session_that_is_rolled_back_has_promised_nothing(shop, engine):
    with Session(engine) as session:
        session.add(Order(id=7))
        shop.promise(7, session)
        session.rollback()
        shop.promise(8, session)

    assert ([], []) == shop.kept


def test_a_nested_transaction_undoes_its_own_orders(shop, engine):
    with Session(engine) as session, session.begin():
        shop.promise(1, session)
        with session.begin_nested() as nested:
            shop.promise(2, session)
            nested.rollback()
        with session.begin_nested():
            shop.promise(3, session)

    assert ([], [1, 3]) == shop.kept


def test_a_refused_order_leaves_the_session_usable(shop, engine):
    shop.promise(7, None)
    with Session(engine) as session, session.begin():
        with pytest.raises(Conflict):
            shop.app.enqueue(shop.ship.bind(8), delay="1h", key="order:7", connection=session)
        session.add(Order(id=9))

    assert ([9], [7]) == shop.kept


def test_a_scoped_session_is_the_session_of_this_thread(shop, engine):
    session = scoped_session(sessionmaker(engine))
    session.add(Order(id=7))
    shop.promise(7, session)
    session.commit()
    session.remove()

    assert ([7], [7]) == shop.kept


def test_what_can_not_be_joined_is_refused(shop, engine):
    with (
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
        pytest.raises(UsageError, match="is in no transaction; leave isolation_level AUTOCOMMIT"),
    ):
        shop.promise(7, connection)
    with pytest.raises(UsageError, match="This Connection is closed"):
        shop.promise(7, connection)
    with pytest.raises(UsageError, match=r"Engine.* is not a connection that can be joined"):
        shop.promise(7, engine)
    with Session() as session, pytest.raises(UsageError, match="is not bound to a single Engine"):
        shop.promise(7, session)
    with Session(engine) as session:
        with pytest.raises(sqlalchemy.exc.DataError):
            session.execute(sqlalchemy.text("SELECT 1/0"))
        with pytest.raises(UsageError, match="is in a transaction that has failed; roll it back"):
            shop.promise(7, session)
    file = sqlalchemy.create_engine("sqlite://")
    with Session(file) as session, pytest.raises(UsageError, match="is not a connection that can"):
        shop.promise(7, session)
    file.dispose()

    assert ([], []) == shop.kept


def test_a_session_that_gets_no_connection_says_why(shop):
    nowhere = sqlalchemy.create_engine("postgresql+psycopg://127.0.0.1:1/nowhere")
    with Session(nowhere) as session, pytest.raises(StoreUnavailable, match="can't be reached"):
        shop.promise(7, session)


def test_awaited_connections_and_sessions_commit_both(shop):
    async def order():
        engine = create_async_engine(address(shop.url))
        async with engine.begin() as connection:
            await connection.execute(sqlalchemy.insert(Order).values(id=1))
            await shop.promise_awaited(1, connection)
        async with engine.connect() as connection:
            await shop.promise_awaited(2, connection)
            await connection.commit()
        async with AsyncSession(engine) as session:
            session.add(Order(id=3))
            await shop.promise_awaited(3, session)
            await session.commit()
        async with AsyncSession(engine) as session, session.begin():
            await shop.promise_awaited(4, session)
        scoped = async_scoped_session(async_sessionmaker(engine), asyncio.current_task)
        await shop.promise_awaited(5, scoped)
        await scoped.commit()
        await scoped.remove()
        async with AsyncSession(engine) as session:
            session.add(Order(id=6))
            await shop.promise_awaited(6, session)
            await session.rollback()
        await engine.dispose()

    asyncio.run(order())

    assert ([1, 3], [1, 2, 3, 4, 5]) == shop.kept


def test_a_scoped_session_is_that_of_the_thread_which_awaits(shop, engine):
    async def order():
        session = scoped_session(sessionmaker(engine))
        session.add(Order(id=7))
        await shop.promise_awaited(7, session)
        session.commit()
        session.remove()

    asyncio.run(order())

    assert ([7], [7]) == shop.kept


def test_an_awaited_session_is_refused_where_nobody_awaits(shop):
    async def order():
        engine = create_async_engine(address(shop.url))
        async with AsyncSession(engine) as session:
            with pytest.raises(UsageError, match="belongs to an event loop; await app"):
                shop.promise(7, session)
            with pytest.raises(UsageError, match="belongs to an event loop; await app"):
                await session.run_sync(lambda inner: shop.promise(7, inner))
        await engine.dispose()

    asyncio.run(order())

    assert ([], []) == shop.kept


def test_the_bell_is_rung_after_the_commit_of_a_session(shop, engine, monkeypatch):
    """A commit is when others can see it; a savepoint's end is none, nor is a rollback."""
    rings = record_rings(shop.app.store, monkeypatch)
    with psycopg.connect(shop.url, autocommit=True) as listener, Session(engine) as session:
        listener.execute("LISTEN duly")
        with session.begin_nested():
            shop.promise(1, session)
        shop.promise(2, session)

        assert [] == rings
        session.commit()

        assert [*MemberKind] == rings
        session.execute(sqlalchemy.text("SELECT 1"))
        session.commit()

        assert [*MemberKind] == rings
        shop.promise(3, session)
        session.commit()

        assert 2 * [*MemberKind] == rings
        assert 1 <= len([*listener.notifies(timeout=120, stop_after=1)])
