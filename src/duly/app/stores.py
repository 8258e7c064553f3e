"""Which store a URL names. A store is opened when it is first used, not when it is named."""

from __future__ import annotations

import os
import re
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from duly.errors import StoreUnavailable, UsageError, require_text
from duly.store.ports.maintenance import SchemaStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import apsw

    from duly.clock import Clock
    from duly.store.ports.store import Store

URL_VARIABLE = "DULY_URL"
URL_DEFAULT = "sqlite:///duly.db"
URL_LENGTH_MAX = 2000
_BUSY_MS = 5000
_SQLITE = "sqlite:///"
_SQLITE_IN_MEMORY = "sqlite:///:memory:"
_MEMORY = frozenset({"memory:", "memory://"})
_POSTGRESQL = ("postgresql://", "postgres://", "postgresql+psycopg://")
_REMEDY = (
    "use postgresql://user@host/database, sqlite:///promises.db, sqlite:////absolute/path.db,"
    " sqlite:///:memory: or memory:"
)
_FIRST_WORD = re.compile(r"[A-Za-z+]{0,20}")
_MAKES_ONE = (
    "is this the right folder, and is $DULY_APP set? `duly dev`, `duly db migrate` or"
    " `duly dispatcher` makes one"
)


def chosen_url(url: str | None) -> str:
    """Return the URL that is given, else that of $DULY_URL, else a file beside the program."""
    return os.environ.get(URL_VARIABLE) or URL_DEFAULT if url is None else url


def opener(url: str, clock: Clock) -> Callable[[], Store]:
    """Return what opens the store of a URL; refuse a URL that names none."""
    require_text("url", url, URL_LENGTH_MAX)
    if url in _MEMORY:
        return lambda: _open_memory(clock)
    if url.startswith(_SQLITE) and len(url) > len(_SQLITE):
        path = sqlite_file(url)
        return lambda: _open_sqlite(path or ":memory:", clock)
    if url.startswith(_POSTGRESQL):
        return lambda: _open_postgres(url, clock)
    # Whatever it is, it may hold a password: no more of it is told than how it begins.
    begins = _FIRST_WORD.match(url)
    shown = f"{begins.group(0) if begins else ''}…"
    raise UsageError("url", shown, "names no store that is known", _REMEDY)


def require_store(url: str, *, is_file_enough: bool = False) -> None:
    """Refuse a URL where no store has been made: looking must make none."""
    path = sqlite_file(url)
    if url.startswith(_POSTGRESQL):
        is_there = _look_at_postgres(url) or is_file_enough
    elif path is not None:
        with _looked_at(path, url) as file:
            is_there = file is not None and (is_file_enough or _has_store(file))
    else:
        return
    if not is_there:
        raise StoreUnavailable(safe_url(url), "there is no store here", _MAKES_ONE)


def read_schema(url: str) -> SchemaStatus | None:
    """Say what is missing where there is no store yet, making none; None where one can say it."""
    path = sqlite_file(url)
    if url.startswith(_POSTGRESQL):
        if _look_at_postgres(url):
            return None
        from duly.store.postgres.schema import known_migrations
    elif path is not None:
        with _looked_at(path, url) as file:
            if file is not None and _has_store(file):
                return None
        from duly.store.sqlite.schema import known_migrations
    else:
        return None
    problem = "there is no store here: run `duly db migrate`"
    return SchemaStatus(safe_url(url), (), known_migrations(), (), is_usable=False, problem=problem)


def safe_url(url: str) -> str:
    """Return a URL for people to read: who logs in with which password is left out."""
    if url.startswith(_SQLITE):
        return url
    scheme, separator, rest = url.partition("?")[0].partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def is_same_store(one: str, other: str) -> bool:
    """Say whether two URLs name one store, for one user: a path may be written in two ways."""
    return _canonical(one) == _canonical(other)


def _canonical(url: str) -> str:
    if url.startswith(_SQLITE):
        return url if url == _SQLITE_IN_MEMORY else str(Path(url.removeprefix(_SQLITE)).resolve())
    for scheme in _POSTGRESQL:
        url = url.removeprefix(scheme)
    return url


def open_scratch(path: Path, clock: Clock) -> Store:
    """Open a file that can be made again: nothing that is written to it waits for the disk.

    It is for one dispatcher: all of its time is one shard.
    """
    from duly.store.sqlite import SqliteStore
    from duly.store.sqlite.connection import SqliteSettings

    return SqliteStore(path, clock, shards=1, settings=SqliteSettings(is_durable=False))


def sqlite_file(url: str) -> Path | None:
    """Return the file that a URL names; None for stores of other kinds."""
    if not url.startswith(_SQLITE) or url == _SQLITE_IN_MEMORY:
        return None
    text = url.removeprefix(_SQLITE)
    if "?" in text or "#" in text or text.startswith(":memory:"):
        raise UsageError("url", url, "is more than a path", _REMEDY)
    return Path(text)


def require_shared(url: str) -> None:
    """Refuse a store in memory, for a process that is one of several: no other would see it."""
    if url.startswith(("memory", _SQLITE_IN_MEMORY)):
        problem = "is in the memory of one process, and another one would not see it"
        raise UsageError("url", url, problem, "use sqlite:///promises.db or postgresql://…")


@contextmanager
def _looked_at(path: Path, url: str) -> Iterator[apsw.Connection | None]:
    """Open a file for reading alone; nothing is made of what is not there."""
    try:
        is_there = path.exists()
    except (OSError, ValueError) as error:
        problem = f"can't be looked at ({error})"
        raise StoreUnavailable(url, problem, "give a path that this user may read") from error
    if not is_there:
        yield None
        return
    import apsw

    from duly.store.sqlite.failures import failure

    try:
        file = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            file.set_busy_timeout(_BUSY_MS)
            yield file
        finally:
            file.close()
    except apsw.Error as error:
        raise failure(error, url, path) from error


def _has_store(file: apsw.Connection) -> bool:
    from duly.store.sqlite.schema import HAS_SCHEMA

    return file.execute(HAS_SCHEMA).fetchone() is not None


class LazyStore:
    """A store that is opened once, by whoever first needs it, on any thread."""

    def __init__(self, open_store: Callable[[], Store]) -> None:
        self._open_store = open_store
        self._lock = threading.Lock()
        self._store: Store | None = None
        self._is_closed = False

    def get(self) -> Store:
        """Return the store, opened if it was not."""
        with self._lock:
            if self._is_closed:
                raise StoreUnavailable(
                    "app", "the application has been closed", "make a new duly.App"
                )
            if self._store is None:
                self._store = self._open_store()
            return self._store

    def opened(self) -> Store | None:
        """Return the store if somebody has opened it."""
        with self._lock:
            return self._store

    @contextmanager
    def replaced(self, store: Store) -> Iterator[None]:
        """Have another store stand in for it, for a while."""
        with self._lock:
            kept = self._store, self._is_closed
            self._store, self._is_closed = store, False
        try:
            yield
        finally:
            with self._lock:
                self._store, self._is_closed = kept

    def close(self) -> None:
        """Close the store if it was opened; it is not opened again."""
        with self._lock:
            store, self._store, self._is_closed = self._store, None, True
        if store is not None:
            store.close()


def _open_memory(clock: Clock) -> Store:
    from duly.store.memory import MemoryStore

    return MemoryStore(clock)


def _open_sqlite(path: Path | str, clock: Clock) -> Store:
    from duly.store.sqlite import SqliteStore

    return SqliteStore(path, clock)


def _open_postgres(url: str, clock: Clock) -> Store:
    with _driver(url):
        from duly.store.postgres import PostgresStore

    return PostgresStore(url, clock)


def _look_at_postgres(url: str) -> bool:
    """Say whether there is a store in a database, making none."""
    with _driver(url):
        from duly.store.postgres.looking import has_store

    return has_store(url)


@contextmanager
def _driver(url: str) -> Iterator[None]:
    """Say what to install when there is no driver for PostgreSQL."""
    try:
        yield
    except ImportError as error:
        if (error.name or "psycopg").partition(".")[0] != "psycopg":
            raise
        problem = f"needs the driver for PostgreSQL ({error})"
        remedy = "pip install 'duly[postgres]'"
        raise UsageError("url", safe_url(url), problem, remedy) from error
