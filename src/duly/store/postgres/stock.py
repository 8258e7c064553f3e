"""The stock: connections that nobody uses at the moment, and who is to have which.

Threads take from it and put back without a lock: a list's own operations are atomic. What was seen
in it may be another's a moment later.
"""

from __future__ import annotations

import select
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duly.store.postgres.session import BoundedConnection

IDLE_MAX = 8


class Stock:
    """Idle connections of one kind."""

    def __init__(self) -> None:
        self._idle: list[BoundedConnection] = []
        self._is_closed = False

    def __iter__(self) -> Iterator[BoundedConnection]:
        return iter(tuple(self._idle))

    def take(self) -> BoundedConnection | None:
        """Take the connection that this thread has had last, else nobody's, else the newest.

        In a crowd a worker claims while its courier brings ends. If they had each other's
        connection every other time, each statement would be planned on both: 2 to 7 ms for one
        that claims. One that no longer stands is closed.
        """
        while self._idle:
            taken = self._taken(self._chosen() if len(self._idle) > 1 else None)
            if taken is not None:
                return taken
        return None

    def _chosen(self) -> BoundedConnection | None:
        """Return the one for this thread, or nobody's; None if all are others'."""
        for thread in (threading.get_ident(), 0):
            for connection in self:
                if connection.used_by == thread:
                    return connection
        return None

    def _taken(self, found: BoundedConnection | None) -> BoundedConnection | None:
        """Take one out, or the newest; None if it is another's by now, or does not stand."""
        with suppress(ValueError, IndexError):
            if found is None:
                found = self._idle.pop()
            else:
                self._idle.remove(found)
            if _is_quiet(found):
                return found
            found.close()
        return None

    def put(self, connection: BoundedConnection) -> None:
        """Keep a connection that is in order; close it, if there are enough of them, or all go."""
        if len(self._idle) < IDLE_MAX and not self._is_closed:
            self._idle.append(connection)
        else:
            connection.close()

    def look_after(self, do: Callable[[BoundedConnection], None]) -> None:
        """Do something to each connection, up to the first that fails by it, which is closed.

        They are taken one at a time: who comes meanwhile finds the others. And where one waits in
        vain for its answer, so would the next, and a lease lasts no longer than two such waits.
        """
        for connection in self:
            taken = self._taken(connection)
            if taken is None:
                continue
            try:
                do(taken)
            except BaseException as error:
                taken.close()
                if isinstance(error, psycopg.Error):
                    return
                raise
            self.put(taken)

    def empty(self) -> list[BoundedConnection]:
        """Take all of them."""
        taken, self._idle = self._idle, []
        return taken

    def close(self) -> None:
        """Close all of them, and whatever comes back later."""
        self._is_closed = True
        for connection in self.empty():
            connection.close()


def _is_quiet(connection: BoundedConnection) -> bool:
    """Say whether an idle connection still stands: a server that has gone leaves a last word."""
    if connection.closed:
        return False
    if connection.watched is None:
        connection.watched = select.poll()
        connection.watched.register(connection.fileno(), select.POLLIN)
    return not connection.watched.poll(0)
