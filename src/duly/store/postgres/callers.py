"""What a caller gave for his connection: which one of psycopg's is behind it, and is it fit.

Neither SQLAlchemy nor Django is imported: whoever has made one of their connections has done so. A
connection is only looked at here; who uses it is joining.py.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.pq import PipelineStatus, TransactionStatus

from duly.errors import StoreUnavailable, UsageError
from duly.store.caller_transactions import AwaitedConnection, is_a, session_of, unwrapped
from duly.store.postgres.failures import failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ANY_REMEDY = (
    "give a connection of psycopg 3, SQLAlchemy or Django, or what `with app.transaction() as tx`"
    " lends"
)
_DRIVER_REMEDY = "use psycopg 3 (in SQLAlchemy postgresql+psycopg://), or app.transaction()"
_AWAIT_REMEDY = "await app.aio with it, on the event loop that it belongs to"
_BEGIN = "begin one: `with connection.transaction():`"
_BEGIN_SQLALCHEMY = "leave isolation_level AUTOCOMMIT for this one"
_BEGIN_DJANGO = "begin one: `with transaction.atomic():`"
_OTHER_DRIVERS = frozenset({"psycopg2", "asyncpg", "pg8000", "aiopg", "psycopg2cffi"})
_RING = "duly.ring"


@dataclass(frozen=True, slots=True)
class Callers:
    """A connection of the caller's."""

    connection: Connection[Any] | AsyncConnection[Any]
    given: object
    """What the caller knows it as."""
    begin: str
    """How he begins a transaction on it."""
    awaiting: AwaitedConnection | None = None
    """How statements get to its event loop, if it belongs to one."""
    after_commit: Callable[[Callable[[], None]], None] | None = None
    """Has something done after the caller's commit, where somebody says when that is."""


def find(given: object, name: str) -> Callers:
    """Find the connection behind what the caller gave; refuse what can't be joined."""
    awaiting = given if isinstance(given, AwaitedConnection) else None
    connection = session_of(unwrapped(given))
    if isinstance(connection, (Connection, AsyncConnection)):
        return _known(Callers(connection, connection, _BEGIN, awaiting))
    with _others_failures(connection, name):
        if is_a(connection, "django.db.backends.base.base", "BaseDatabaseWrapper") or is_a(
            connection, "django.utils.connection", "ConnectionProxy"
        ):
            return _of_django(connection, awaiting)
        if _is_awaited_of_sqlalchemy(connection):
            if awaiting is None:
                raise UsageError(
                    "connection", connection, "belongs to an event loop", _AWAIT_REMEDY
                )
            return awaiting.run(lambda: _of_async_sqlalchemy(connection, awaiting))
        if _is_of_sqlalchemy(connection):
            return _of_sqlalchemy(connection, awaiting)
    raise _unknown(connection, connection)


def _is_awaited_of_sqlalchemy(value: object) -> bool:
    place = "sqlalchemy.ext.asyncio"
    return is_a(value, place, "AsyncConnection") or is_a(value, place, "AsyncSession")


def _is_of_sqlalchemy(value: object) -> bool:
    return is_a(value, "sqlalchemy.engine", "Connection") or is_a(
        value, "sqlalchemy.orm", "Session"
    )


def _of_sqlalchemy(given: Any, awaiting: AwaitedConnection | None) -> Callers:  # noqa: ANN401 - its types are not ours
    """Find it behind a connection or a session, which then has begun its transaction."""
    is_session = is_a(given, "sqlalchemy.orm", "Session")
    connection = given.connection() if is_session else given
    driver = connection.connection.driver_connection
    after_commit = _session_hook(given) if is_session else None
    found = _known(Callers(driver, given, _BEGIN_SQLALCHEMY, awaiting, after_commit))
    # It counts as begun by its first statement, and ours passes it by: its commit must not be void.
    if not driver.autocommit and not connection.in_transaction():
        connection.begin()
    return found


async def _of_async_sqlalchemy(given: Any, awaiting: AwaitedConnection) -> Callers:  # noqa: ANN401 - as above
    """Find it behind what SQLAlchemy awaits; on the event loop."""
    is_session = is_a(given, "sqlalchemy.ext.asyncio", "AsyncSession")
    connection = await given.connection() if is_session else given
    driver = (await connection.get_raw_connection()).driver_connection
    after_commit = _session_hook(given.sync_session) if is_session else None
    found = _known(Callers(driver, given, _BEGIN_SQLALCHEMY, awaiting, after_commit))
    if not driver.autocommit and not connection.in_transaction():
        await connection.begin()
    return found


def _session_hook(session: Any) -> Callable[[Callable[[], None]], None]:  # noqa: ANN401 - as above
    """Return what has something done once, after the session's next commit."""

    def after_commit(ring: Callable[[], None]) -> None:
        if _RING not in session.info:
            sys.modules["sqlalchemy"].event.listen(session, "after_commit", _ring_once)
        session.info[_RING] = ring

    return after_commit


def _ring_once(session: Any) -> None:  # noqa: ANN401 - as above
    # The end of a savepoint counts as a commit here; nobody else sees what was written by then.
    if not session.in_nested_transaction():
        ring, session.info[_RING] = session.info[_RING], None
        if ring is not None:
            ring()


def _of_django(given: Any, awaiting: AwaitedConnection | None) -> Callers:  # noqa: ANN401 - as above
    """Find it behind a connection of Django's, which must be inside of `atomic`."""
    if awaiting is not None:
        remedy = "call app.enqueue in the thread it belongs to (sync_to_async)"
        raise UsageError("connection", given, "is Django's, which is never awaited", remedy)
    if given.vendor != "postgresql":
        raise UsageError("connection", given, "is no connection to PostgreSQL", _ANY_REMEDY)
    given.validate_thread_sharing()
    if given.connection is None:
        raise UsageError("connection", given, "is in no transaction", _BEGIN_DJANGO)
    if given.needs_rollback:
        raise UsageError("connection", given, "is in a transaction that has failed", "roll it back")

    def after_commit(ring: Callable[[], None]) -> None:
        if given.in_atomic_block:
            given.on_commit(ring, robust=True)

    return _known(Callers(given.connection, given, _BEGIN_DJANGO, None, after_commit))


def _known(found: Callers) -> Callers:
    """Refuse what another driver has made, and what only an event loop may use."""
    if isinstance(found.connection, AsyncConnection):
        if found.awaiting is None:
            raise UsageError("connection", found.given, "belongs to an event loop", _AWAIT_REMEDY)
    elif not isinstance(found.connection, Connection):
        raise _unknown(found.given, found.connection)
    return found


def require_fit(callers: Callers) -> None:
    """Refuse a connection on which an order could not be undone, or would never be committed."""
    connection, given = callers.connection, callers.given
    if connection.broken:
        problem = "the connection to the server was lost"
        raise StoreUnavailable("connection", problem, "begin again on another one")
    if connection.closed:
        raise UsageError("connection", given, "is closed", "give one that is open")
    if connection.info.pipeline_status is not PipelineStatus.OFF:
        raise UsageError("connection", given, "is in pipeline mode", "leave the pipeline first")
    status = connection.info.transaction_status
    if status is TransactionStatus.INERROR:
        raise UsageError("connection", given, "is in a transaction that has failed", "roll it back")
    if status is TransactionStatus.IDLE and connection.autocommit:
        raise UsageError("connection", given, "is in no transaction", callers.begin)
    if connection.info.encoding != "utf-8":
        problem = f"speaks {connection.info.encoding}"
        raise UsageError("connection", given, problem, "SET client_encoding TO 'UTF8'")


def _unknown(given: object, driver: object) -> UsageError:
    package = type(driver).__module__.partition(".")[0]
    if package in _OTHER_DRIVERS:
        return UsageError("connection", given, f"is a connection of {package}", _DRIVER_REMEDY)
    return UsageError("connection", given, "is not a connection that can be joined", _ANY_REMEDY)


@contextmanager
def _others_failures(given: object, name: str) -> Iterator[None]:
    """Say what an error of SQLAlchemy's or Django's means to whoever gave the connection."""
    try:
        yield
    except psycopg.Error as error:
        raise failure(error, name) from error
    except Exception as error:
        if not is_a(error, "sqlalchemy.exc", "SQLAlchemyError") and not is_a(
            error, "django.db", "Error"
        ):
            raise
        for cause in (getattr(error, "orig", None), error.__cause__):
            if isinstance(cause, psycopg.Error):
                raise failure(cause, name) from error
        problem = f"can't be used ({str(error).partition(chr(10))[0]})"
        raise UsageError(
            "connection", given, problem, "give one that is open and at rest"
        ) from error
