"""Orders in the caller's own transaction: his commit makes them durable, his rollback undoes them.

An order stands between a savepoint and its release: refused or failed, nothing of it is left, and
the caller's transaction goes on as if it had not been given. His connection stays as it is; it is
neither committed nor rolled back nor closed here, and none of its settings changes.
"""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import psycopg
from psycopg import AsyncConnection, AsyncRawCursor, Connection, RawCursor, errors
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from duly.errors import StoreError, UsageError
from duly.store.postgres import arrays
from duly.store.postgres.callers import find, require_fit
from duly.store.postgres.connection import Connections
from duly.store.postgres.failures import failure
from duly.store.postgres.session import ConnectionSession, as_query, one
from duly.store.postgres.transaction import PostgresTransaction
from duly.store.postgres.work import Look

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator, Sequence

    from duly.store.caller_transactions import AwaitedConnection
    from duly.store.postgres.callers import Callers
    from duly.store.postgres.session import Session
    from duly.store.postgres.work import Work
    from duly.store.records import Row

SAVE = "SAVEPOINT duly_order"
UNDO = "ROLLBACK TO SAVEPOINT duly_order"
RELEASE = "RELEASE SAVEPOINT duly_order"

MARK = """
SELECT pg_catalog.pg_current_xact_id()::text,
    pg_catalog.set_config('duly.order', $1, false)"""
LAST_MARK = b"SELECT pg_catalog.current_setting('duly.order', true)"
HOW_IT_ENDED = "SELECT pg_catalog.pg_xact_status($1::xid8)"

REST_LIMIT_S = 5.0

_turns: WeakKeyDictionary[object, threading.Lock] = WeakKeyDictionary()
"""Whose turn it is on a connection: threads and tasks may share one, but not a savepoint."""
_turns_lock = threading.Lock()


class JoinedConnections(Connections):
    """The connections of a store, for operations in a transaction that is not theirs to commit."""

    is_callers = True

    def __init__(self, all_of: Connections, within: object) -> None:
        self._all = all_of
        self._within = within

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the store's own have
        """Have all else in common with the store's own connections."""
        return getattr(self._all, name)

    @contextmanager
    def write(
        self,
        limit_us: int | None = None,
        *,
        for_dispatch: bool = False,
    ) -> Iterator[Work]:
        """Carry out an operation: all of it, or none."""
        if isinstance(self._within, PostgresTransaction):
            with self._within.operation(self._all) as work:
                yield work
        else:
            with joined(self._all, self._within) as work:
                yield work

    @contextmanager
    def read(self, *, for_dispatch: bool = False, is_any_age: bool = False) -> Iterator[Look]:
        """Look at what the transaction sees, what it has written included."""
        assert not is_any_age, "its schema was found usable when it was joined"
        with self.write(for_dispatch=for_dispatch) as work:
            yield Look(work.session, work.now)

    @contextmanager
    def statement(self, *, for_dispatch: bool = False) -> Iterator[Session]:  # type: ignore[override]
        """Lend a session for the statements of one operation."""
        with self.write(for_dispatch=for_dispatch) as work:
            yield work.session


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


class OrderMark(NamedTuple):
    """An order that was noted in a caller's transaction."""

    number: int
    connection: Connection[Any] | AsyncConnection[Any]
    transaction: str
    """Its id on the server,"""
    server: str
    """and how to get there, once the connection is closed."""


def mark_order(within: object, name: str, number: int) -> OrderMark:
    """Note in a caller's transaction that an order was given; the numbers grow.

    The note is a setting: it goes back by itself when the transaction is rolled back, or the
    savepoint, and stays after the commit.
    """
    callers = find(within, name)
    connection = callers.connection
    try:
        with _turn(connection):
            _let_come_to_rest(callers)
            require_fit(callers)
            transaction, _ = one(_session(callers), MARK, (str(number),))
            info = connection.info
            server = make_conninfo(info.dsn, password=info.password)
    except psycopg.Error as error:
        raise failure(error, name) from error
    return OrderMark(number, connection, transaction, server)


class OrderFate(Enum):
    """What has become of an order in a caller's transaction."""

    OPEN = auto()
    """The transaction goes on, or is in the middle of a statement."""
    COMMITTED = auto()
    ROLLED_BACK = auto()


def fate_of(mark: OrderMark) -> OrderFate:
    """Say what has become of an order that was noted; the caller's transaction stays as it is."""
    connection = mark.connection
    if connection.closed:
        with Connection.connect(mark.server, autocommit=True, cursor_factory=RawCursor) as looking:
            (ended,) = looking.execute(HOW_IT_ENDED, (mark.transaction,)).fetchone() or (None,)
        return OrderFate.COMMITTED if ended == "committed" else OrderFate.ROLLED_BACK
    status = connection.info.transaction_status
    if status not in {TransactionStatus.IDLE, TransactionStatus.INTRANS}:
        return OrderFate.OPEN
    # Past the driver, which would begin a transaction for it.
    last = connection.pgconn.exec_(LAST_MARK).get_value(0, 0)
    if int(last or 0) < mark.number:
        return OrderFate.ROLLED_BACK
    return OrderFate.OPEN if status is TransactionStatus.INTRANS else OrderFate.COMMITTED
