"""A lent transaction: the caller's own statements beside Duly's, committed together.

The caller may use its own tables freely. It may neither begin nor end a transaction, nor leave
session state on the connection, which other callers use afterwards. Each statement of the caller
and each order of Duly runs in a savepoint, so that a failed one leaves the rest to the caller.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import Cursor, errors
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from duly.errors import UsageError
from duly.store.caller_transactions import (
    LentTransaction,
    TransactionLease,
    another_store,
    mistake,
    parameter_values,
    refused,
)
from duly.store.postgres.savepoints import savepoint
from duly.store.postgres.session import BoundedConnection, ConnectionSession, as_query

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg._queries import PostgresQuery

    from duly.store.ports.schedules import Parameters
    from duly.store.postgres.connection import Connections
    from duly.store.postgres.work import Work

# The server lets go of what stands idle even when this process can't; a little later than we do.
BOUND = """SET LOCAL statement_timeout = '{}ms';
SET LOCAL idle_in_transaction_session_timeout = '{}ms'"""
IDLE_SPARE_US = 3_000_000
LIMIT_MS_MAX = 1_000_000_000
CALLERS_PATH = "SELECT set_config('search_path', $1, true)"
CHECK_NOW = "SET CONSTRAINTS ALL IMMEDIATE"
BE_DURABLE = """
SELECT set_config('synchronous_commit', 'on', true)
WHERE current_setting('synchronous_commit') = 'off'"""

_FORBIDDEN = frozenset(
    (
        "abort",
        "begin",
        "commit",
        "copy",
        "deallocate",
        "discard",
        "end",
        "listen",
        "load",
        "prepare",
        "release",
        "reset",
        "rollback",
        "savepoint",
        "start",
        "unlisten",
    )
)
_SETTABLE = frozenset(("constraints", "local"))
_WORD = re.compile(r"\w*")
_BLANK = re.compile(r"[\s;]+|--[^\n]*(?:\n|\Z)")
_MISTAKES = (
    psycopg.ProgrammingError,
    psycopg.DataError,
    psycopg.NotSupportedError,
    errors.InvalidTransactionTermination,
    errors.PlpgsqlError,
    errors.RaiseException,
    KeyError,
    OverflowError,
    TypeError,
    ValueError,
)
"""How a statement of the caller's fails that no other time would let run."""


class OneStatement(Cursor[Any]):
    """A cursor on which the server takes a single statement and no more."""

    def _execute_send(
        self, query: PostgresQuery, *, force_extended: bool = False, binary: bool | None = None
    ) -> None:
        # The simple protocol, which the driver takes when there are no values, knows no such limit.
        super()._execute_send(query, force_extended=True, binary=binary)


class PostgresTransaction(LentTransaction):
    """A connection that is lent for a bounded time; it never begins or ends a transaction."""

    def __init__(self, connections: Connections, work: Work, limit_us: int) -> None:
        assert isinstance(work.session, ConnectionSession), "a connection of our own"
        self._connections = connections
        self._work = work
        self._connection = work.session.connection
        self._loan = TransactionLease(connections.name, connections.clock, limit_us)

    def execute(self, sql: str, parameters: Parameters = ()) -> list[tuple[object, ...]]:
        """Run one statement of the caller's; the whole commits with ours, or nothing does."""
        self._refuse_late()
        values = _values(sql, parameters)
        _refuse_forbidden(sql)
        with self._connections.failures():
            try:
                with savepoint(self._work.session, "duly_caller"):
                    return self._run(sql, values)
            except errors.QueryCanceled as error:
                raise self._loan.too_late() from error
            except psycopg.IntegrityError as error:
                raise refused(sql, error) from error
            except _MISTAKES as error:
                raise mistake(sql, error) from error

    @contextmanager
    def operation(self, connections: Connections) -> Iterator[Work]:
        """Carry out one of our operations in it: all of the operation, or none."""
        if connections is not self._connections:
            raise another_store(self)
        self._refuse_late()
        with self._connections.failures():
            try:
                with savepoint(self._work.session, "duly_operation"):
                    self._work.look_at_the_clock()
                    yield self._work
            except errors.QueryCanceled as error:
                raise self._loan.too_late() from error

    @contextmanager
    def last_operation(self, connections: Connections) -> Iterator[Work]:
        """Carry out the last of our operations in it; refused, nothing of it all is committed."""
        with self._loan.last_word(), self.operation(connections) as work:
            yield work

    def finish(self) -> None:
        """Refuse to commit what took too long, or what a deferred constraint refuses.

        And what was not the caller's to write.
        """
        self._loan.refuse_commit(self._is_alive)
        self._work.session.rows(BE_DURABLE)
        try:
            self._work.session.run(CHECK_NOW)
        except psycopg.IntegrityError as error:
            raise refused("COMMIT", error) from error
        except _MISTAKES as error:
            raise mistake("COMMIT", error) from error

    def take(self) -> None:
        """Take the connection out of the stock for good: the caller may leave anything on it."""
        assert isinstance(self._connection, BoundedConnection), "it is one of our own"
        self._connection.is_spent = True
        self._work.session.rows(CALLERS_PATH, (self._connection.search_path,))

    def close(self) -> None:
        """Take it back."""
        self._loan.end()

    def _run(self, sql: str, values: Parameters | None) -> list[tuple[object, ...]]:
        with OneStatement(self._connection, row_factory=tuple_row) as cursor:
            # Not prepared, since the caller may change his tables between two of them.
            cursor.execute(as_query(sql), values, prepare=False)
            return cursor.fetchall() if cursor.description is not None else []

    def _refuse_late(self) -> None:
        self._loan.refuse_late(self._is_alive)

    def _is_alive(self) -> bool:
        connection = self._connection
        is_open = not connection.closed
        return is_open and connection.info.transaction_status is TransactionStatus.INTRANS


def _values(sql: str, parameters: Parameters) -> Parameters | None:
    """Return the values to be bound; None when there are none, so that a % is nothing but a %."""
    try:
        return parameter_values(parameters) or None
    except TypeError as error:
        raise mistake(sql, error) from error


def _refuse_forbidden(sql: str) -> None:
    """Refuse what would end the transaction, or outlive it on the connection."""
    word, rest = _first_word(sql)
    is_left_behind = word == "set" and _first_word(rest)[0] not in _SETTABLE
    if word in _FORBIDDEN or is_left_behind:
        remedy = "leave the transaction to the `with` block, and the connection as it is"
        raise UsageError("sql", sql, "can't be run in a transaction that is lent", remedy)


def _first_word(sql: str) -> tuple[str, str]:
    """Return the first word of a statement in small letters, and what comes after it."""
    statement = _without_preface(sql)
    word = _WORD.match(statement)
    assert word is not None, "no word is a word, too"
    return word.group().lower(), statement[word.end() :]


def _without_preface(sql: str) -> str:
    """Return a statement without the comments and blanks that it begins with."""
    position = 0
    while True:
        blank = _BLANK.match(sql, position)
        if blank is not None:
            position = blank.end()
        elif sql.startswith("/*", position):
            position = _end_of_comment(sql, position)
        else:
            return sql[position:]


def _end_of_comment(sql: str, start: int) -> int:
    """Return where a comment ends; one may stand inside another."""
    depth = 0
    for mark in re.compile(r"/\*|\*/").finditer(sql, start):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(sql)


@contextmanager
def lent(connections: Connections, limit_us: int) -> Iterator[PostgresTransaction]:
    """Lend a connection until the block ends: it commits then, or all is undone."""
    with connections.write(max(limit_us, connections.settings.limit_us)) as work:
        work.is_callers = True
        limit_ms = min(max(limit_us // 1000, 1), LIMIT_MS_MAX)
        bound = BOUND.format(limit_ms, limit_ms + IDLE_SPARE_US // 1000)
        for statement in bound.split(";"):
            work.session.run(statement)
        transaction = PostgresTransaction(connections, work, limit_us)
        transaction.take()
        try:
            yield transaction
            transaction.finish()
        finally:
            transaction.close()
