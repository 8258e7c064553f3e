"""Orders in a transaction of a caller who awaits, on his own asynchronous connection."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row

from duly import Conflict, StoreUnavailable, UsageError, every
from duly.store.caller_transactions import AwaitedConnection
from duly.store.postgres import joining

WAITS_FOR_A_LOCK = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s"


async def insert(connection, order):
    await connection.execute("INSERT INTO orders VALUES (%s)", (order,))


def test_the_callers_row_and_the_promise_commit_together(shop):
    async def order():
        async with await AsyncConnection.connect(shop.url) as connection:
            await insert(connection, 7)
            await shop.promise_awaited(7, connection)
            assert ([], []) == shop.kept

    asyncio.run(order())

    assert ([7], [7]) == shop.kept


def test_neither_is_there_when_the_caller_rolls_back(shop):
    async def order():
        async with await AsyncConnection.connect(shop.url) as connection:
            await insert(connection, 7)
            await shop.promise_awaited(7, connection)
            await connection.rollback()

    asyncio.run(order())

    assert ([], []) == shop.kept


def test_schedules_and_many_runs_join_as_well(shop):
    async def order():
        aio = shop.app.aio
        async with await AsyncConnection.connect(shop.url, row_factory=dict_row) as connection:
            await aio.schedules.create(
                "hourly", shop.ship.bind(1), every("1h"), connection=connection
            )
            await aio.enqueue_many([shop.ship.bind(one) for one in range(3)], connection=connection)

    asyncio.run(order())

    assert (1, 3) == (len(shop.app.schedules.list()), len(shop.app.runs.list()))


def test_a_refused_order_leaves_nothing_and_the_transaction_goes_on(shop):
    shop.promise(7, None)

    async def order():
        async with await AsyncConnection.connect(shop.url) as connection:
            with pytest.raises(Conflict):
                await shop.app.aio.enqueue(
                    shop.ship.bind(8), delay="1h", key="order:7", connection=connection
                )
            await insert(connection, 9)
            await shop.promise_awaited(9, connection)

    asyncio.run(order())

    assert ([9], [7, 9]) == shop.kept


def test_several_orders_at_once_on_one_connection_take_turns(shop):
    shop.promise(100, None)

    async def order():
        async with await AsyncConnection.connect(shop.url) as connection:
            taken = (
                shop.app.aio.enqueue(
                    shop.ship.bind(0), delay="5h", key="order:100", connection=connection
                )
                for _ in range(4)
            )
            kept = (shop.promise_awaited(number, connection) for number in range(8))
            return await asyncio.gather(*taken, *kept, return_exceptions=True)

    done = asyncio.run(order())

    assert [Conflict] * 4 == [type(one) for one in done[:4]]
    assert ([], [*range(8), 100]) == shop.kept


def test_an_order_waits_for_the_statement_of_another_task(shop):
    async def order():
        async with await AsyncConnection.connect(shop.url) as connection:
            async with await AsyncConnection.connect(shop.url, autocommit=True) as other:
                await other.execute("SELECT pg_advisory_lock(1)")
                slow = asyncio.create_task(connection.execute("SELECT pg_advisory_xact_lock(1)"))
                while connection.info.transaction_status is not TransactionStatus.ACTIVE:
                    await asyncio.wait({slow}, timeout=0.01)
                    assert not slow.done()
                promise = asyncio.create_task(shop.promise_awaited(7, connection))
                await asyncio.sleep(0)  # noqa: TID251 - it gives way, and does not sleep
                assert not promise.done()
            await promise
            await slow

    asyncio.run(order())

    assert ([], [7]) == shop.kept


def test_a_connection_in_the_middle_of_a_copy_is_refused(shop, monkeypatch):
    monkeypatch.setattr(joining, "REST_LIMIT_S", 0.05)

    async def order():
        async with await AsyncConnection.connect(shop.url) as connection:
            async with connection.cursor().copy("COPY orders TO STDOUT") as rows:
                with pytest.raises(UsageError, match="is in the middle of a statement"):
                    await shop.promise_awaited(7, connection)
                assert [] == [row async for row in rows]
            await shop.promise_awaited(8, connection)

    asyncio.run(order())

    assert ([], [8]) == shop.kept


def test_a_connection_outside_of_a_transaction_is_refused(shop):
    async def order():
        async with await AsyncConnection.connect(shop.url, autocommit=True) as connection:
            with pytest.raises(UsageError, match="is in no transaction"):
                await shop.promise_awaited(7, connection)
            async with connection.transaction():
                await shop.promise_awaited(8, connection)

    asyncio.run(order())

    assert ([], [8]) == shop.kept


def test_a_call_that_does_not_await_is_refused_and_blocks_nobody(shop):
    """On the loop's own thread it could never get an answer."""

    async def order():
        async with await AsyncConnection.connect(shop.url) as connection:
            with pytest.raises(UsageError, match="belongs to an event loop; await app"):
                shop.promise(7, connection)
            with pytest.raises(UsageError, match="belongs to an event loop; await app"):
                await asyncio.to_thread(shop.promise, 7, connection)

    asyncio.run(order())

    assert ([], []) == shop.kept


def test_a_connection_that_is_not_awaited_may_be_given_to_who_awaits(shop):
    async def order():
        with psycopg.connect(shop.url) as connection:
            await shop.promise_awaited(7, connection)

    asyncio.run(order())

    assert ([], [7]) == shop.kept


async def started_to_wait(shop, connection):
    """Start an order that waits for what somebody else has locked."""
    pid = connection.info.backend_pid
    task = asyncio.create_task(shop.promise_awaited(7, connection))
    async with await AsyncConnection.connect(shop.url, autocommit=True) as observer:
        while True:
            row = await (await observer.execute(WAITS_FOR_A_LOCK, (pid,))).fetchone()
            if row and row[0]:
                return task
            assert not task.done()


def test_who_is_cancelled_gets_his_connection_back_at_rest_and_nothing_of_the_order(shop):
    """It waits for a lock: it is stopped, undone, and the caller's transaction goes on."""

    async def order():
        with psycopg.connect(shop.url) as other:
            shop.promise(7, other)
            async with await AsyncConnection.connect(shop.url) as connection:
                await insert(connection, 1)
                task = await started_to_wait(shop, connection)
                task.cancel()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

                assert TransactionStatus.INTRANS is connection.info.transaction_status
                await insert(connection, 2)
                await shop.promise_awaited(8, connection)
            other.rollback()

    asyncio.run(order())

    assert ([1, 2], [8]) == shop.kept


def test_a_time_limit_ends_an_order_like_any_statement(shop):
    async def order():
        with psycopg.connect(shop.url) as other:
            shop.promise(7, other)
            async with await AsyncConnection.connect(shop.url) as connection:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.2):
                        await shop.promise_awaited(7, connection)
                await insert(connection, 2)
            other.rollback()

    asyncio.run(order())

    assert ([2], []) == shop.kept


def test_who_is_cancelled_before_it_began_has_ordered_nothing(shop):
    async def order():
        async with await AsyncConnection.connect(shop.url) as connection:
            task = asyncio.create_task(shop.promise_awaited(7, connection))
            turn = asyncio.create_task(shop.promise_awaited(8, connection))
            await asyncio.wait({task}, timeout=0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await turn

    asyncio.run(order())

    assert ([], [8]) == shop.kept


def test_a_loop_that_nobody_runs_is_not_waited_for():
    async def statement():
        """Never run."""

    loop = asyncio.new_event_loop()
    with pytest.raises(StoreUnavailable, match="the event loop of the connection has stopped"):
        AwaitedConnection(None, loop).run(statement)
    loop.run_until_complete(statement())
    loop.close()
    with pytest.raises(StoreUnavailable, match="the event loop of the connection has stopped"):
        AwaitedConnection(None, loop).run(statement)


def test_a_lent_transaction_is_awaited_on_postgresql(shop):
    async def order():
        async with shop.app.aio.transaction() as tx:
            await tx.execute("INSERT INTO orders VALUES (%s)", (7,))
            await shop.promise_awaited(7, tx)
            assert ([], []) == shop.kept

    asyncio.run(order())

    assert ([7], [7]) == shop.kept
