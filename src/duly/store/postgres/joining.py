"""Orders in the caller's own transaction: his commit makes them durable, his rollback undoes them.

An order stands between a savepoint and its release: refused or failed, nothing of it is left, and
the caller's transaction goes on as if it had not been given. His connection stays as it is; it is
neither committed nor rolled back nor closed here, and none of its settings changes.
"""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg import AsyncConnection, AsyncRawCursor, errors
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from duly.errors import StoreError, UsageError
from duly.store.postgres import arrays
from duly.store.postgres.callers import find, require_fit
from duly.store.postgres.session import ConnectionSession, as_query

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator, Sequence

    from duly.store.caller_transactions import AwaitedConnection
    from duly.store.postgres.callers import Callers
    from duly.store.postgres.connection import Connections
    from duly.store.postgres.session import Session
    from duly.store.postgres.work import Work
    from duly.store.records import Row

SAVE = "SAVEPOINT duly_order"
UNDO = "ROLLBACK TO SAVEPOINT duly_order"
RELEASE = "RELEASE SAVEPOINT duly_order"

REST_LIMIT_S = 5.0

_turns: WeakKeyDictionary[object, threading.Lock] = WeakKeyDictionary()
"""Whose turn it is on a connection: threads and tasks may share one, but not a savepoint."""
_turns_lock = threading.Lock()


@contextmanager
def joined(connections: Connections, within: object) -> Iterator[Work]:
    """Carry out one operation in the caller's transaction: all of it, or none."""
    if not connections.identity:
        with connections.statement():
            pass  # now it is known which database it must be
    callers = find(within, connections.name)
    with _turn(callers.connection), connections.failures(), _callers_mistakes(callers):
        _let_come_to_rest(callers)
        require_fit(callers)
        session = _session(callers)
        session.run(SAVE)
        try:
            work = _begin(connections, session, callers)
            yield work
            _release(callers)
        except BaseException:
            _undo(callers)
            raise
    if callers.after_commit is not None and (work.has_arrivals or work.has_orders):
        # Of several orders in one transaction, the last one rings for all.
        callers.after_commit(connections.bell.ring_all)


def _let_come_to_rest(callers: Callers) -> None:
    """Wait for a statement of another thread's or task's, not for a COPY of the caller's own.

    The driver waits for either alike: for the latter it would do so for ever.
    """
    connection, awaiting = callers.connection, callers.awaiting
    if connection.closed or connection.info.transaction_status is not TransactionStatus.ACTIVE:
        return
    if not isinstance(connection, AsyncConnection):
        has_ended = connection.lock.acquire(timeout=REST_LIMIT_S)
        if has_ended:
            connection.lock.release()
    else:
        assert awaiting is not None, "an awaited connection comes with its loop"
        has_ended = awaiting.run(lambda: _has_come_to_rest(connection.lock))
    if not has_ended:
        problem = "is in the middle of a statement"
        raise UsageError("connection", callers.given, problem, "let it end first")


async def _has_come_to_rest(lock: asyncio.Lock) -> bool:
    import asyncio

    try:
        await asyncio.wait_for(lock.acquire(), REST_LIMIT_S)
    except TimeoutError:
        return False
    lock.release()
    return True


def _begin(connections: Connections, session: Session, callers: Callers) -> Work:
    try:
        work = connections.begin(session)
    except (errors.UndefinedTable, errors.InvalidSchemaName) as error:
        problem = "is a connection to another database than the store's"
        remedy = f"give one to {connections.name}"
        raise UsageError("connection", callers.given, problem, remedy) from error
    except UsageError as error:
        raise UsageError("connection", callers.given, error.problem, error.remedy) from None
    work.is_callers = True
    return work


def _release(callers: Callers) -> None:
    if callers.awaiting is not None:
        callers.awaiting.require_wanted()
    _session(callers, is_ending=True).run(RELEASE)


def _undo(callers: Callers) -> None:
    """Undo the order; a connection that is lost has undone all of the transaction."""
    with suppress(psycopg.Error, StoreError, CancelledError):
        session = _session(callers, is_ending=True)
        if callers.connection.info.transaction_status is not TransactionStatus.IDLE:
            session.run(UNDO)
            session.run(RELEASE)


@contextmanager
def _callers_mistakes(callers: Callers) -> Iterator[None]:
    """Tell the caller's own choice from a standby."""
    try:
        yield
    except errors.ReadOnlySqlTransaction as error:
        problem = "is in a transaction that may only read"
        remedy = "begin one that may write, on the primary server"
        raise UsageError("connection", callers.given, problem, remedy) from error


@contextmanager
def _turn(connection: object) -> Iterator[None]:
    with _turns_lock:
        turn = _turns.setdefault(connection, threading.Lock())
    with turn:
        yield


def _session(callers: Callers, *, is_ending: bool = False) -> Session:
    connection = callers.connection
    if not isinstance(connection, AsyncConnection):
        return ConnectionSession(connection, is_ours=False)
    assert callers.awaiting is not None, "an awaited connection comes with its loop"
    return AwaitedSession(connection, callers.awaiting, is_ending=is_ending)


class AwaitedSession:
    """Statements on a connection that belongs to an event loop, from a thread beside it."""

    def __init__(
        self, connection: AsyncConnection[Any], awaiting: AwaitedConnection, *, is_ending: bool
    ) -> None:
        self._connection = connection
        self._awaiting = awaiting
        self._is_ending = is_ending

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Run a statement; return what it returns."""
        return self._awaiting.run(lambda: self._rows(statement, values), is_ending=self._is_ending)

    def run(self, statement: str, values: Sequence[object] = ()) -> int:
        """Run a statement; return how many rows it touched."""
        return self._awaiting.run(lambda: self._run(statement, values), is_ending=self._is_ending)

    async def _rows(self, statement: str, values: Sequence[object]) -> list[Row]:
        async with self._cursor() as cursor:
            return await (await cursor.execute(as_query(statement), values, binary=True)).fetchall()

    async def _run(self, statement: str, values: Sequence[object]) -> int:
        async with self._cursor() as cursor:
            return (await cursor.execute(as_query(statement), values, binary=True)).rowcount

    def _cursor(self) -> AsyncRawCursor[Row]:
        cursor = AsyncRawCursor(self._connection, row_factory=tuple_row)
        arrays.register(cursor)
        return cursor
