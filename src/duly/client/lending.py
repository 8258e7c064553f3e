"""Lent connections: which are open, so that no order joins a transaction that is not ours (D3)."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from duly.client.reading import read_delay
from duly.client.transacting import TaskTransaction
from duly.store.joinable import Lent, not_lent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.client.reading import Delay
    from duly.store.planning import PlanningStore, Transaction


class Lending:
    """The connections that one application has lent and not got back."""

    def __init__(self, limit: Delay) -> None:
        """Take for how long one is lent unless told."""
        self.limit = limit
        self._lent: dict[int, Transaction] = {}
        self._lock = threading.Lock()

    def limit_us(self, limit: Delay | None) -> int:
        """Read for how long a connection is lent."""
        return read_delay("limit", limit or self.limit)

    @contextmanager
    def lend(self, store: PlanningStore, limit: Delay | None) -> Iterator[Transaction]:
        """Lend a connection; all that is done with it commits together, or nothing does."""
        with store.transaction(self.limit_us(limit)) as transaction, self.lent(transaction):
            yield transaction

    @contextmanager
    def lent(self, transaction: Transaction) -> Iterator[None]:
        """Let orders join a transaction of this application's store, for as long as this lasts."""
        with self._lock:
            self._lent[id(transaction)] = transaction
        try:
            yield
        finally:
            with self._lock:
                self._lent.pop(id(transaction), None)

    def joined(self, connection: object) -> object:
        """Return what an order joins; refuse what another application has lent, or what is over.

        A connection of the caller's own is for the store to judge: not every store can join it.
        """
        joined = connection.transaction if isinstance(connection, TaskTransaction) else connection
        with self._lock:
            is_ours = id(joined) in self._lent
        if isinstance(joined, Lent) and not is_ours:
            raise not_lent(connection)
        return joined
