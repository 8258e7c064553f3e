"""Connections that are borrowed for as long as a block lasts, and given back whatever happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from duly.store.postgres.failures import failure
from duly.store.postgres.prepared import PreparedSession
from duly.store.postgres.session import ConnectionSession
from duly.store.wakeups import SECOND_US

if TYPE_CHECKING:
    from duly.store.postgres.connection import Connections
    from duly.store.postgres.session import BoundedConnection


class Borrowing:
    """A connection, for as long as a block lasts.

    Written out, and not as a generator: it is there for every statement, and a fifth of what a
    small one costs us was spent on going in and out.
    """

    __slots__ = ("_connection", "_connections", "_is_for_dispatch", "_limit_us")
    _connection: BoundedConnection

    def __init__(
        self, connections: Connections, limit_us: int | None, *, for_dispatch: bool
    ) -> None:
        self._connections = connections
        self._is_for_dispatch = for_dispatch
        settings = connections.settings
        usual_us = settings.dispatch_limit_us if for_dispatch else settings.limit_us
        self._limit_us = limit_us or usual_us

    def __enter__(self) -> BoundedConnection:
        try:
            taken = self._connections.take(
                self._limit_us / SECOND_US, for_dispatch=self._is_for_dispatch
            )
        except psycopg.Error as error:
            raise failure(error, self._connections.name) from error
        self._connection = taken
        return taken

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _where: object
    ) -> None:
        self._connections.give_back(self._connection, error)
        if isinstance(error, psycopg.Error):
            raise failure(error, self._connections.name) from error


class Speaking:
    """A session for statements that each are a transaction of their own, while a block lasts."""

    __slots__ = ("_borrowing", "_connections")

    def __init__(
        self, connections: Connections, limit_us: int | None, *, for_dispatch: bool
    ) -> None:
        self._connections = connections
        self._borrowing = Borrowing(connections, limit_us, for_dispatch=for_dispatch)

    def __enter__(self) -> ConnectionSession:
        connection = self._borrowing.__enter__()
        try:
            self._connections.get_ready(connection)
        except BaseException as error:
            self._borrowing.__exit__(type(error), error, None)
            raise
        if connection.is_pooled:
            return ConnectionSession(connection, is_ours=True)
        return PreparedSession(connection)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: object
    ) -> None:
        self._borrowing.__exit__(kind, error, where)
