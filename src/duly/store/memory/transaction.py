"""A lent transaction on the memory store: buffered, and written whole when it commits.

Like one on a server, it may stay open while others go on. Its announcements get their numbers when
they are made and become visible at the commit, which is what makes a high-water mark lose them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from duly.errors import UsageError
from duly.store.caller_transactions import LentTransaction, TransactionLease
from duly.store.memory.tables import Journal, Tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.clock import Clock
    from duly.store.ports.dispatch import MemberKind
    from duly.store.ports.schedules import Parameters

T = TypeVar("T")


class MemoryTransaction(LentTransaction):
    """Operations to be carried out together at the commit."""

    def __init__(self, tables: Tables, clock: Clock, limit_us: int) -> None:
        self._tables = tables
        self._clock = clock
        self._began_at = clock.now_us()
        self._loan = TransactionLease("memory", clock, limit_us)
        self._operations: list[Callable[[Journal], object]] = []
        self._reserved: list[int] = []

    def execute(self, sql: str, parameters: Parameters = ()) -> list[tuple[object, ...]]:
        """Refuse: there are no tables of the caller's in memory."""
        remedy = "use a sqlite:/// store to keep your own tables beside Duly's"
        raise UsageError("sql", sql, "can't be run on the memory store", remedy)

    def run(self, operation: Callable[[Journal], T], *, is_kept: bool = True) -> T:
        """Try an operation on top of those before it; keep it for the commit, undo the trial.

        What only looks is not kept.
        """
        self._loan.refuse_late(lambda: True)
        journal = Journal(self._tables, self._clock.now_us(), list(self._reserved))
        try:
            for earlier in self._operations:
                earlier(journal)
            result = operation(journal)
        finally:
            journal.undo()
        if not is_kept:
            return result
        self._operations.append(operation)
        self._reserved = journal.announced
        self._tables.open_arrivals.update(self._reserved)
        return result

    def run_last(self, operation: Callable[[Journal], T]) -> T:
        """Try the last operation; refused, nothing of it all is committed."""
        with self._loan.last_word():
            return self.run(operation)

    def commit(self) -> set[MemberKind]:
        """Carry everything out, or nothing; return who is to be told."""
        self._loan.refuse_commit(lambda: True)
        journal = Journal(self._tables, self._clock.now_us(), list(self._reserved))
        try:
            for operation in self._operations:
                operation(journal)
        except BaseException:
            journal.undo()
            raise
        return journal.wakes

    def close(self) -> None:
        """Let go of the numbers that were reserved."""
        self._loan.end()
        self._tables.open_arrivals.difference_update(self._reserved)
