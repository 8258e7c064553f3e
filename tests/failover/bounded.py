"""Connections on which nothing is waited for without end.

A server that is stopped keeps its connections and says nothing. Whoever waits too long hangs up, and
never asks the server to cancel: a commit that waits for a standby is answered with success when it
is cancelled, and may be lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg

from tests.system.fleet import Fleet
from tests.system.views import PostgresView

if TYPE_CHECKING:
    from psycopg.abc import RV, PQGen

LIMIT_SECONDS = 4.0


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that gives up on an answer after a while."""

    def wait(
        self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = LIMIT_SECONDS
    ) -> RV:
        return super().wait(gen, interval, timeout)


def connect(url: str) -> BoundedConnection:
    """Open a connection on which every statement is a transaction of its own."""
    return BoundedConnection.connect(url, autocommit=True, connect_timeout=2)


class BoundedView(PostgresView):
    """Looks at whichever node leads."""

    def _open(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            self._connection = connect(self._url)
            self._connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        return self._connection


class BoundedFleet(Fleet):
    """A fleet whose store may hang for a while, and be another one afterwards."""

    def open_eyes(self) -> None:
        self.eyes = BoundedView(self.url)

    def start_observer(self) -> None:
        place = [self.url, str(self.folder / "observer.ledger")]
        self._observer = self.start(["tests.failover.observer_program", *place], "observer")
