"""Connections that speak for one tenant, to a database that keeps tenants apart by itself.

Whose a statement is, is said in its own transaction and nowhere else: a connection that is handed
on, by us or by a pooler, carries nothing over. A role that no policy holds for is asked nothing.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.sql import quote

from duly.store.postgres.borrowing import Speaking
from duly.store.postgres.connection import BEGIN_WRITE, Connections
from duly.store.postgres.session import ConnectionSession, as_query

if TYPE_CHECKING:
    from duly.store.postgres.session import BoundedConnection

TENANT_SETTING = "duly.tenant"


class TenantConnections(Connections):
    """The connections of a store, for the orders and questions of one tenant."""

    def __init__(self, all_of: Connections, tenant: str) -> None:  # - it has no stock of its own
        self._all = all_of
        self._tenant = tenant

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the store's own have
        """Have all but the tenant in common with the store's own connections."""
        return getattr(self._all, name)

    def get_ready(self, connection: BoundedConnection) -> None:
        """Make ready the store's own."""
        self._all.get_ready(connection)

    def beginning(self, begin: str) -> str:
        """Say whose the transaction is as it begins: that takes no round trip of its own."""
        if not self._all.keeps_tenants:
            return begin
        return f"{begin}; SET LOCAL {TENANT_SETTING} = {quote(self._tenant)}"

    def statement(self, *, for_dispatch: bool = False) -> Speaking:
        """Lend a session for a few statements, in a transaction that says whose they are."""
        return TenantSpeaking(self, None, for_dispatch=for_dispatch)


class TenantSpeaking(Speaking):
    """A session for a few statements of one tenant's, all or none."""

    __slots__ = ("_connection",)
    _connection: BoundedConnection | None

    def __enter__(self) -> ConnectionSession:
        session = super().__enter__()
        self._connection = None
        if not self._connections.keeps_tenants:
            return session
        connection = session.connection
        try:
            connection.execute(as_query(self._connections.beginning(BEGIN_WRITE)), prepare=False)
        except BaseException as error:
            super().__exit__(type(error), error, None)
            raise
        self._connection = connection  # type: ignore[assignment]
        return ConnectionSession(connection, is_ours=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: object
    ) -> None:
        if self._connection is not None:
            error = self._end(self._connection, error)
            if error is not None and kind is None:
                super().__exit__(type(error), error, where)
                raise error
        super().__exit__(kind, error, where)

    def _end(
        self, connection: BoundedConnection, error: BaseException | None
    ) -> BaseException | None:
        """Commit, or undo all; return what went wrong, now or before."""
        try:
            if error is None:
                connection.execute("COMMIT", prepare=False)
        except psycopg.Error as refused:
            error = refused
        if error is not None:
            # What can't be rolled back any more is rolled back when the connection is closed.
            with suppress(psycopg.Error):
                if connection.info.transaction_status is not TransactionStatus.IDLE:
                    connection.execute("ROLLBACK", prepare=False)
        return error
