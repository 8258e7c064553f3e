"""Folding the log into the file, beside whoever writes: no commit waits for it.

SQLite would do it in the commit that finds the log too long. Where two processes write, that is
nearly every commit from then on: the log can only begin anew when nobody has written during the
fold, and till then each one folds its own few pages. Here a thread folds most of it while others go
on writing, sees to it that this is on disk, and then folds the rest with the lock, so that the log
begins anew.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import apsw

from duly.errors import StoreError
from duly.store.sqlite.patience import patience

if TYPE_CHECKING:
    from collections.abc import Callable

WAIT_SECONDS_MAX = 10.0
PATIENCE_US = 50_000
"""How long to wait for whoever writes, and then, while nobody else can write, for who reads."""


class Folding:
    """Keeps the log of one file short, for the connections of one store object."""

    def __init__(self, pages: int, open_connection: Callable[[], apsw.Connection]) -> None:
        self._pages = pages
        self._open = open_connection
        self._fold_at = pages
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def look(self, _connection: apsw.Connection, _file: str, pages: int) -> int:
        """Begin to fold, if the log is long and nobody does; asked after every commit."""
        if pages >= self._fold_at and self._lock.acquire(blocking=False):
            thread = threading.Thread(target=self._fold, args=(pages,), daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the program ends, and what is committed is so all the same
                self._lock.release()
            else:
                self._thread = thread
        return apsw.SQLITE_OK

    def wait(self) -> None:
        """Wait until nobody folds, but not for ever: what is not folded is in the log."""
        thread = self._thread
        if thread is not None:
            thread.join(WAIT_SECONDS_MAX)

    def _fold(self, pages: int) -> None:
        # Unless it succeeds: others fold at this moment, or somebody reads for long.
        self._fold_at = pages + self._pages // 4
        try:
            with suppress(apsw.Error, StoreError):
                connection = self._open()
                try:
                    connection.set_busy_handler(patience(PATIENCE_US))
                    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
                    _flush(connection.filename)
                    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
                    self._fold_at = self._pages
                finally:
                    connection.close()
        finally:
            self._lock.release()


def _flush(path: str) -> None:
    """Have on disk what was folded: else all of it would be waited for with the lock.

    By a file of SQLite's own, because closing any other one would take away its locks. Should it
    fail, the connection that folds finds the same failure when it comes to that.
    """
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0]
    with suppress(apsw.Error):
        file = apsw.VFSFile("", path, flags)
        try:
            file.xSync(apsw.SQLITE_SYNC_NORMAL | apsw.SQLITE_SYNC_DATAONLY)
        finally:
            file.xClose()
