"""Lent connections: which are open, so that no order joins a transaction that is not ours (D3)."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from duly.client.reading import read_delay
from duly.store.joinable import Lent, not_lent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.client.reading import Delay
    from duly.store.planning import PlanningStore, Transaction


class Lending:
    """The connections that one application has lent and not got back."""

    def __init__(self) -> None:
        self._lent: dict[int, Transaction] = {}
        self._lock = threading.Lock()

    @contextmanager
    def lend(self, store: PlanningStore, limit: Delay) -> Iterator[Transaction]:
        """Lend a connection; all that is done with it commits together, or nothing does."""
        with store.transaction(read_delay("limit", limit)) as transaction:
            with self._lock:
                self._lent[id(transaction)] = transaction
            try:
                yield transaction
            finally:
                with self._lock:
                    self._lent.pop(id(transaction), None)

    def check(self, connection: object) -> None:
        """Refuse one that was lent by another application, or is over.

        A connection of the caller's own is for the store to judge: not every store can join it.
        """
        with self._lock:
            is_ours = id(connection) in self._lent
        if isinstance(connection, Lent) and not is_ours:
            raise not_lent(connection)
