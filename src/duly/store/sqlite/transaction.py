"""A lent transaction: the caller's own statements beside ours, committed together."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import apsw

from duly.errors import UsageError
from duly.store.caller_transactions import (
    LentTransaction,
    TransactionLease,
    another_store,
    mistake,
    parameter_values,
    refused,
)
from duly.store.sqlite.connection import Connections
from duly.store.sqlite.work import Look
from duly.store.wakeups import wake_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.store.ports.schedules import Parameters
    from duly.store.sqlite.work import Work

PROGRESS_STEPS = 1000
"""How many steps of SQLite's machine pass between two looks at the clock."""

_PREFIX = "duly_"
_PUBLIC = {
    "duly_public_schedules": {
        "duly_schedules": "id tenant name owner status reason created_at updated_at",
        "duly_schedule_state": "schedule_id version task queue next_for next_due last_for last_run"
        " last_fired_at fires",
    },
    "duly_public_runs": {
        "duly_runs": "id tenant schedule_id key task queue priority origin lane scheduled_for"
        " not_before created_at fired_at",
        "duly_outcomes": "run_id state reason finished_at attempt started_at",
        "duly_claims": "run_id attempt started_at",
        "duly_waiting": "run_id reason attempt due_at",
        "duly_dead": "run_id reason attempt",
        "duly_blocked": "run_id gate attempt",
        "duly_ambiguous": "run_id reason attempt",
    },
    "duly_public_results": {
        "duly_runs": "id origin root",
        "duly_verdicts": "run_id number at finding",
        "duly_scopes": "root expected",
        "duly_scope_items": "root times",
        "duly_effects": "root state",
    },
}
"""The views that may be read, and what they read for whoever does. A statement can give the name of
a view to a table expression of its own, which then gets at no more than the view shows."""
_FORBIDDEN = frozenset(
    (
        apsw.SQLITE_TRANSACTION,
        apsw.SQLITE_SAVEPOINT,
        apsw.SQLITE_ATTACH,
        apsw.SQLITE_DETACH,
        apsw.SQLITE_PRAGMA,
    )
)
_MISTAKES = (
    apsw.SQLError,
    apsw.BindingsError,
    apsw.MismatchError,
    apsw.TooBigError,
    KeyError,
    OverflowError,
    TypeError,
    UnicodeError,
)
"""How a statement of the caller's fails that no other time would let run."""
_COLUMN_SECOND = frozenset((apsw.SQLITE_READ, apsw.SQLITE_UPDATE))
_WRITES = frozenset((apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE))


class SqliteTransaction(LentTransaction):
    """A connection that is lent for a bounded time; it never begins or ends a transaction."""

    def __init__(self, connections: Connections, work: Work, limit_us: int) -> None:
        self._connections = connections
        self._work = work
        self._loan = TransactionLease(connections.name, work.clock, limit_us)
        self._is_callers = False
        work.connection.authorizer = self._authorize
        work.connection.set_progress_handler(self._loan.is_late, PROGRESS_STEPS)

    def execute(self, sql: str, parameters: Parameters = ()) -> list[tuple[object, ...]]:
        """Run one statement of the caller's; the whole commits with ours, or nothing does."""
        self._refuse_late()
        self._is_callers = True
        try:
            values = parameter_values(parameters)
            # Not from the cache: a statement of ours was prepared without being asked about.
            cursor = self._work.connection.execute(sql, values, can_cache=False)
            return [tuple(row) for row in cursor]
        except apsw.InterruptError as error:
            raise self._loan.too_late() from error
        except apsw.AuthError as error:
            remedy = "use your own tables, or read duly_public_schedules, _runs and _results"
            raise UsageError("sql", sql, "touches what is not the caller's", remedy) from error
        except apsw.ConstraintError as error:
            raise refused(sql, error) from error
        except _MISTAKES as error:
            raise mistake(sql, error) from error
        finally:
            self._is_callers = False

    @contextmanager
    def operation(self, connections: Connections) -> Iterator[Work]:
        """Carry out one of our operations in it: all of the operation, or none."""
        if connections is not self._connections:
            raise another_store(self)
        self._refuse_late()
        connection = self._work.connection
        connection.execute("SAVEPOINT duly_operation")
        try:
            yield self._work
        except apsw.InterruptError as error:
            raise self._loan.too_late() from error
        except BaseException:
            connection.execute("ROLLBACK TO duly_operation")
            raise
        finally:
            if connection.in_transaction:
                connection.execute("RELEASE duly_operation")

    @contextmanager
    def last_operation(self, connections: Connections) -> Iterator[Work]:
        """Carry out the last of our operations in it; refused, nothing of it all is committed."""
        with self._loan.last_word(), self.operation(connections) as work:
            yield work

    def finish(self) -> None:
        """Refuse to commit what took too long, or was not the caller's to write."""
        self._loan.refuse_commit(self._is_alive)
        self._work.connection.set_progress_handler(None)

    def close(self) -> None:
        """Take it back."""
        self._loan.end()
        self._work.connection.set_progress_handler(None)
        self._work.connection.authorizer = None

    def _refuse_late(self) -> None:
        self._loan.refuse_late(self._is_alive)

    def _is_alive(self) -> bool:
        return self._work.connection.in_transaction

    def _authorize(
        self,
        operation: int,
        first: str | None,
        second: str | None,
        _database: str | None,
        inside: str | None,
    ) -> int:
        """Keep the caller's statements away from the transaction itself and from our tables."""
        if not self._is_callers:
            return apsw.SQLITE_OK
        if operation in _FORBIDDEN:
            return apsw.SQLITE_DENY
        if operation in _WRITES and first == "sqlite_sequence":
            return apsw.SQLITE_DENY
        if operation == apsw.SQLITE_READ and _is_public(first, second, inside):
            return apsw.SQLITE_OK
        names = (first,) if operation in _COLUMN_SECOND else (first, second)
        is_ours = any((name or "").lower().startswith(_PREFIX) for name in names)
        return apsw.SQLITE_DENY if is_ours else apsw.SQLITE_OK


def _is_public(table: str | None, column: str | None, inside: str | None) -> bool:
    """Say whether a read is one of a shipped view, or one that the view does."""
    # A view is named as the caller has written it; tables and columns are as they were made.
    shown = _PUBLIC.get((inside or "").lower(), {}).get(table or "")
    return (table or "").lower() in _PUBLIC or (
        shown is not None and (not column or column in shown.split())
    )


class ConnectionsInTransaction(Connections):
    """The connections of a store, for operations in a transaction that was lent."""

    is_lent = True

    def __init__(self, all_of: Connections, transaction: SqliteTransaction) -> None:
        self._all = all_of
        self._transaction = transaction

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the store's own have
        """Have all else in common with the store's own connections."""
        return getattr(self._all, name)

    @contextmanager
    def write(self) -> Iterator[Work]:
        """Carry out an operation: all of it, or none."""
        with self._transaction.operation(self._all) as work:
            yield work

    @contextmanager
    def read(self, *, is_any_age: bool = False) -> Iterator[Look]:
        """Look at what the transaction sees, what it has written included."""
        assert not is_any_age, "its schema was found usable when it began"
        with self._transaction.operation(self._all) as work:
            yield Look(work.connection, self._all.clock.now_us())


@contextmanager
def lent(connections: Connections, limit_us: int) -> Iterator[SqliteTransaction]:
    """Lend a connection until the block ends: it commits then, or all is undone."""
    asked_at = connections.clock.monotonic_us()
    with connections.lend() as connection, connections.immediate(connection, asked_at) as work:
        transaction = SqliteTransaction(connections, work, limit_us)
        try:
            yield transaction
            transaction.finish()
        finally:
            transaction.close()
    wake_all(work.wakes)
