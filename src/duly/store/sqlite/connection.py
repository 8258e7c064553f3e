"""Connections to one SQLite file: how they are opened, and shared between threads.

One connection writes, under a lock; readers have their own, so that nobody who looks waits for
somebody who writes. A connection must not be carried across a fork: a child process opens a store
of its own.
"""

from __future__ import annotations

import os
import stat
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import apsw

from duly.errors import StoreUnavailable, UsageError
from duly.store.sqlite.failures import failure, refuse_old_sqlite
from duly.store.sqlite.folding import Folding
from duly.store.sqlite.patience import patience
from duly.store.sqlite.schema import create_if_empty, known_migrations, require_usable
from duly.store.sqlite.work import Look, Work, begin_work, end_work
from duly.store.wakeups import SECOND_US, wake_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from duly.clock import Clock
    from duly.store.ports.maintenance import Migration

BUSY_TIMEOUT_US = 5 * SECOND_US
READERS_MAX = 8
LOG_PAGES = 60_000
"""Of four kilobytes each: at ten thousand fires a second they last for some four seconds."""

STATEMENTS_MAX = 256
"""How many statements stay prepared: some are for several numbers of rows."""
WRITER_CACHE_KIB = 65_536
READER_CACHE_KIB = 8192
OWNER_ONLY = stat.S_IRUSR | stat.S_IWUSR


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteSettings:
    """How a file is used; the defaults suit a dispatcher."""

    busy_timeout_us: int = BUSY_TIMEOUT_US
    """How long to wait for other programs that write."""
    log_pages: int = LOG_PAGES
    """How long the log may grow before it is folded into the file: a longer one is folded less
    often, and pages that change often are written to the file once for all their changes."""
    migrations: tuple[Migration, ...] = field(default_factory=known_migrations)
    """The schema that this program knows."""
    is_durable: bool = True
    """Whether a commit waits for the disk. Without it a power cut may damage the file: only for one
    that can be made again."""


class Connections:
    """The connections of one store object: one that writes, some that read, one that is lent."""

    is_lent = False
    """Whether all is part of a transaction that was lent, and commits with it."""

    def __init__(self, path: Path, clock: Clock, settings: SqliteSettings) -> None:
        # Absolute, because connections are opened later too, wherever the program has gone by then.
        self.path = path.absolute()
        self.name = f"sqlite:///{path}"
        self.clock = clock
        self.settings = settings
        self._schema_number = max(migration.number for migration in settings.migrations)
        self._lock = threading.Lock()
        self._holder: int | None = None
        """The thread that has a transaction lent to it."""
        self._writer: apsw.Connection | None = None
        self._idle_readers: list[apsw.Connection] = []
        self._folding = Folding(settings.log_pages, self._open)
        self._reading: set[apsw.Connection] = set()
        """Lent to who reads. Its own operations are atomic."""
        self._is_usable = False
        self._is_interrupted = False
        self._is_closed = False
        self._has_waited = False
        refuse_old_sqlite(apsw.sqlite_lib_version(), self.name)

    def create(self, shards: int) -> None:
        """Give an empty file its schema; leave any other alone."""
        with self.failures(), self._locked():
            create_if_empty(self._open_writer(), self.settings.migrations, self.clock, shards)

    def interrupt(self) -> None:
        """Break off what is being read, and let nobody begin to: the program is about to end."""
        self._is_interrupted = True
        for connection in tuple(self._reading):
            with suppress(apsw.ConnectionClosedError):  # it has just ended by itself
                connection.interrupt()

    def close(self) -> None:
        """Close every connection; whatever was committed stays.

        Somebody who writes is waited for no longer than for the lock of another program: then
        their connection is left to them.
        """
        is_ours = self._lock.acquire(timeout=self.settings.busy_timeout_us / SECOND_US)
        try:
            self._is_closed = True
            self._folding.wait()
            writer = None
            if is_ours:
                writer, self._writer = self._writer, None
            readers, self._idle_readers = self._idle_readers, []
        finally:
            if is_ours:
                self._lock.release()
        for connection in (*readers, writer):
            if connection is not None:
                connection.close()

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Say what an error of SQLite's means."""
        try:
            yield
        except apsw.Error as error:
            raise failure(error, self.name, self.path) from error

    @contextmanager
    def write(self) -> Iterator[Work]:
        """Open a short transaction: it commits, or nothing of it happens."""
        asked_at = self.clock.monotonic_us()
        with self.failures(), self._locked():
            connection = self._open_writer()
            with self.immediate(connection, asked_at) as work:
                yield work
        wake_all(work.wakes)

    @contextmanager
    def immediate(self, connection: apsw.Connection, asked_at: int) -> Iterator[Work]:
        """Begin with the write lock, so that what is read stays true until the commit."""
        try:
            connection.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            # Others could not renew either while somebody held the lock for so long.
            self._has_waited = True
            raise
        try:
            self._require_usable(connection)
            waited_us = self.clock.monotonic_us() - asked_at
            work = begin_work(connection, self.clock, waited_us, has_failed=self._has_waited)
            if work.program_min > self._schema_number:
                # Somebody has migrated it since we looked.
                require_usable(connection, self.settings.migrations, self.name)
            yield work
            end_work(work)
            connection.execute("COMMIT")
        except BaseException:
            roll_back(connection)
            raise
        self._has_waited = False

    @contextmanager
    def raw(self) -> Iterator[apsw.Connection]:
        """Lend the writing connection without a transaction, for migrations and checks."""
        with self.failures(), self._locked():
            connection = self._open_writer()
            try:
                yield connection
            finally:
                roll_back(connection)

    @contextmanager
    def read(self, *, is_any_age: bool = False) -> Iterator[Look]:
        """Open a snapshot; it waits for nobody. Of any schema, when that is what is looked at."""
        with self.failures():
            connection = self._borrow_reader()
            self._reading.add(connection)
            try:
                self._refuse_interrupted()
                connection.execute("BEGIN")
                if not is_any_age:
                    self._require_usable(connection)
                yield Look(connection, self.clock.now_us())
            except BaseException:
                self._reading.discard(connection)
                connection.close(force=True)
                raise
            self._reading.discard(connection)
            self._give_back(connection)

    def read_for_long(self) -> AbstractContextManager[Look]:
        """Open a snapshot that its caller may keep while others write."""
        return self.read()

    @contextmanager
    def lend(self) -> Iterator[apsw.Connection]:
        """Keep other threads of this object from writing, and open a connection to be lent."""
        self._refuse_nested()
        with self.failures(), self._locked():
            connection = self._open()
            self._holder = threading.get_ident()
            try:
                yield connection
            finally:
                self._holder = None
                connection.close(force=True)

    def _refuse_nested(self) -> None:
        if self._holder == threading.get_ident():
            remedy = "go on with the one that is open, or leave it first"
            raise UsageError("transaction", None, "is begun inside another one", remedy)

    def _locked(self) -> AbstractContextManager[None]:
        """Take what it takes to use the writing connection."""
        return self._no_other_writer()

    @contextmanager
    def _no_other_writer(self) -> Iterator[None]:
        if self._holder == threading.get_ident():
            remedy = "pass connection=tx, or leave the transaction first"
            problem = "is missing: this thread is in a transaction"
            raise UsageError("connection", None, problem, remedy)
        if not self._lock.acquire(timeout=self.settings.busy_timeout_us / SECOND_US):
            raise self._kept_busy()
        try:
            yield
        finally:
            self._lock.release()

    def _kept_busy(self) -> StoreUnavailable:
        self._has_waited = True
        problem = "is kept busy by another thread of this program"
        return StoreUnavailable(self.name, problem, "try again, or keep transactions short")

    def _require_usable(self, connection: apsw.Connection) -> None:
        if not self._is_usable:
            require_usable(connection, self.settings.migrations, self.name)
            self._is_usable = True

    def _refuse_interrupted(self) -> None:
        # After it is known who reads: either they are seen by who interrupts, or they see it.
        if self._is_interrupted:
            raise StoreUnavailable(self.name, "is no longer read: the program ends", "start it")

    def _borrow_reader(self) -> apsw.Connection:
        # The list's own operations are atomic; no lock, so that a reader never waits for a writer.
        with suppress(IndexError):
            return self._idle_readers.pop()
        connection = self._open()
        connection.pragma("query_only", 1)
        connection.pragma("cache_size", -READER_CACHE_KIB)
        return connection

    def _give_back(self, connection: apsw.Connection) -> None:
        # What was read stands, even if a damaged file lets its snapshot not end well.
        roll_back(connection)
        has_room = len(self._idle_readers) < READERS_MAX
        if self._is_closed or not has_room or connection.in_transaction:
            connection.close(force=True)
        else:
            self._idle_readers.append(connection)

    def _open_writer(self) -> apsw.Connection:
        if self._writer is not None and self._writer.readonly("main"):
            # It was opened while the file could not be written to; that may be over. Connections of
            # one process share what they know of the file, so the readers go too.
            readers, self._idle_readers = self._idle_readers, []
            for connection in (*readers, self._writer):
                connection.close(force=True)
            self._writer = None
        if self._writer is None:
            self._writer = self._open()
        return self._writer

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise StoreUnavailable(self.name, "has been closed", "open it again")

    def _open(self) -> apsw.Connection:
        self._refuse_closed()
        connection = _connect(self.path)
        try:
            connection.set_busy_handler(patience(self.settings.busy_timeout_us))
            mode = connection.pragma("journal_mode", "wal")
            connection.pragma("synchronous", "full" if self.settings.is_durable else "off")
            connection.set_wal_hook(self._folding.look)
            connection.pragma("cache_size", -WRITER_CACHE_KIB)
            # A plan must not depend on values: else SQLite plans a cached statement anew whenever
            # other values are bound, which costs many times what running it does.
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        except BaseException:
            connection.close(force=True)
            raise
        if mode != "wal":
            connection.close(force=True)
            problem = "lies on a file system without shared memory"
            raise StoreUnavailable(self.name, problem, "keep the file on a local disk")
        return connection


def _connect(path: Path) -> apsw.Connection:
    """Open a file. A new one, and the logs beside it, are for its owner alone.

    SQLite gives `-wal` and `-shm` the permissions of the file.
    """
    is_new = False
    with suppress(OSError, ValueError):  # SQLite says better what is wrong with a path
        is_new = not path.exists()
    if is_new:
        # Opens no descriptor: closing one would drop the locks of the other connections here.
        with suppress(OSError, ValueError, AttributeError):
            os.mknod(path, OWNER_ONLY)
    connection = apsw.Connection(str(path), statementcachesize=STATEMENTS_MAX)
    if is_new:
        with suppress(OSError):  # for systems where only root may call mknod
            path.chmod(OWNER_ONLY)
    return connection


def roll_back(connection: apsw.Connection) -> None:
    """Undo whatever is open; some failures have undone it already."""
    if connection.in_transaction:
        with suppress(apsw.Error):
            connection.execute("ROLLBACK")
