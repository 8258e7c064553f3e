"""The one connection of a store in memory, shared by its readers and its writer.

A second connection to `:memory:` would open another, empty database, so threads take turns: each
waits for the question or the short transaction of another one. A lent transaction and an export
last as long as their caller likes, and are not waited for: beside a transaction others read a copy
of the state before it, and an export is read from a copy.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from duly.clock import SystemClock
from duly.store.sqlite.connection import STATEMENTS_MAX, Connections, SqliteSettings, roll_back
from duly.store.sqlite.schema import create_if_empty
from duly.store.sqlite.work import Look
from duly.store.wakeups import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.clock import Clock
    from duly.store.ports.maintenance import Migration

IN_MEMORY = ":memory:"
TURN_WAIT_S = 5.0
"""How long to wait for a statement of another thread; on a file a reader waits for none."""
STEPS_BETWEEN_LOOKS = 1000
"""How many steps of SQLite's machine a reader takes before it looks whether the program ends."""

SET_APPLIED_AT = "UPDATE duly_migrations SET applied_at = ?"
LIST_TEMPORARY = "SELECT type, name FROM temp.sqlite_schema WHERE type IN ('table', 'view')"


class ConnectionInMemory(Connections):
    """One connection; whoever uses it holds the lock of writers, `_turn`, or both in that order."""

    def __init__(self, clock: Clock, settings: SqliteSettings) -> None:
        super().__init__(Path(IN_MEMORY), clock, settings)
        self._turn = threading.Lock()
        """Held for a short transaction, and for what is read."""
        self._copy: apsw.Connection | None = None
        """What is read while a transaction is lent: the state before it."""

    def create(self, shards: int) -> None:
        """Copy a schema that is made once in a program: that takes a hundredth of the time."""
        image = _empty(self.settings.migrations, shards)
        with self.failures(), self._locked():
            source = apsw.Connection(IN_MEMORY)
            try:
                source.deserialize("main", image)
                copy_into(self._open_writer(), source)
            finally:
                source.close()
            self._open_writer().execute(SET_APPLIED_AT, (self.clock.now_us(),))

    def interrupt(self) -> None:
        """Break off what is being read, and nothing that is written by the same connection."""
        self._is_interrupted = True

    def close(self) -> None:
        """Close the connection; all that was committed is gone with it."""
        self._is_closed = True
        if not self._lock.acquire(timeout=self.settings.busy_timeout_us / SECOND_US):
            return  # a thread that writes keeps the connection
        try:
            with self._took_turn():
                if self._writer is not None:
                    self._writer.close()
                    self._writer = None
        finally:
            self._lock.release()

    @contextmanager
    def read(self, *, is_any_age: bool = False) -> Iterator[Look]:
        """Open a snapshot for a question that is answered at once."""
        with self.failures(), self._took_turn():
            connection = self._open_writer() if self._copy is None else self._copy
            with self._looking(connection, is_any_age=is_any_age) as look:
                yield look

    @contextmanager
    def read_for_long(self) -> Iterator[Look]:
        """Open a snapshot that its caller may keep while others write: a copy."""
        with self.failures():
            with self._took_turn():
                copy = copied(self._open_writer() if self._copy is None else self._copy)
            try:
                with self._looking(copy, is_any_age=False) as look:
                    yield look
            finally:
                copy.close(force=True)

    @contextmanager
    def lend(self) -> Iterator[apsw.Connection]:
        """Lend the connection; others read what was committed before."""
        self._refuse_nested()
        with self.failures(), self._no_other_writer():
            with self._took_turn():
                connection = self._open_writer()
                copy = self._copy = copied(connection)
            self._holder = threading.get_ident()
            try:
                yield connection
            finally:
                self._holder = None
                roll_back(connection)
                drop_temporary(connection)
                with self._turn:
                    self._copy = None
                copy.close(force=True)

    @contextmanager
    def _looking(self, connection: apsw.Connection, *, is_any_age: bool) -> Iterator[Look]:
        self._refuse_interrupted()
        connection.set_progress_handler(lambda: self._is_interrupted, STEPS_BETWEEN_LOOKS)
        try:
            connection.execute("BEGIN")
            if not is_any_age:
                self._require_usable(connection)
            yield Look(connection, self.clock.now_us())
        finally:
            connection.set_progress_handler(None)
            roll_back(connection)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._no_other_writer(), self._took_turn():
            yield

    @contextmanager
    def _took_turn(self) -> Iterator[None]:
        if not self._turn.acquire(timeout=TURN_WAIT_S):
            raise self._kept_busy()
        try:
            yield
        finally:
            self._turn.release()

    def _open_writer(self) -> apsw.Connection:
        self._refuse_closed()
        if self._writer is None:
            self._writer = open_empty()
        return self._writer


@cache
def _empty(migrations: tuple[Migration, ...], shards: int) -> bytes:
    connection = apsw.Connection(IN_MEMORY)
    try:
        create_if_empty(connection, migrations, SystemClock(), shards)
        return connection.serialize("main")
    finally:
        connection.close()


def copied(source: apsw.Connection) -> apsw.Connection:
    """Return a connection to a copy of a database."""
    copy = open_empty()
    copy_into(copy, source)
    return copy


def open_empty() -> apsw.Connection:
    """Return a connection to a new database."""
    connection = apsw.Connection(IN_MEMORY, statementcachesize=STATEMENTS_MAX)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # as for a file
    return connection


def copy_into(target: apsw.Connection, source: apsw.Connection) -> None:
    """Replace a database by a copy of another."""
    with target.backup("main", source, "main") as backup:
        backup.step(-1)


def drop_temporary(connection: apsw.Connection) -> None:
    """Drop what a caller has made for the time of a transaction: a file's connection ends here."""
    for kind, name in connection.execute(LIST_TEMPORARY).fetchall():
        quoted = str(name).replace('"', '""')
        connection.execute(f'DROP {kind} temp."{quoted}"')
