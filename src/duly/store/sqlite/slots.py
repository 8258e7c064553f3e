"""The calendar of a task's retries in a file: a row for each range of slots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.store.retry_slots import ReservedSlots

if TYPE_CHECKING:
    from duly.store.sqlite.work import Work

FIND = """
SELECT first_at, last_at FROM duly_retry_slots WHERE task = ? AND first_at <= ?
ORDER BY first_at DESC LIMIT 1"""
FIND_AFTER = """
SELECT first_at, last_at FROM duly_retry_slots WHERE task = ? AND first_at > ?
ORDER BY first_at LIMIT 1"""
PUT = """
INSERT INTO duly_retry_slots (task, first_at, last_at) VALUES (?1, ?2, ?3)
ON CONFLICT (task, first_at) DO UPDATE SET last_at = ?3"""
DROP = "DELETE FROM duly_retry_slots WHERE task = ? AND first_at = ?"
# They do not overlap: those that have passed are the first.
FORGET = "DELETE FROM duly_retry_slots WHERE task = ?1 AND first_at < ?2 AND last_at < ?2"


class SqliteSlots:
    """What is taken of one task's calendar from now on; what has passed is forgotten."""

    def __init__(self, work: Work, task: str) -> None:
        self._connection = work.connection
        self._task = task
        self._connection.execute(FORGET, (task, work.now))

    def find(self, instant: int) -> ReservedSlots | None:
        """Return the last range that begins at an instant or before it."""
        return self._read(FIND, instant)

    def find_after(self, instant: int) -> ReservedSlots | None:
        """Return the first range that begins after an instant."""
        return self._read(FIND_AFTER, instant)

    def put(self, taken: ReservedSlots) -> None:
        """Write a range, over the one that begins at the same slot if there is one."""
        self._connection.execute(PUT, (self._task, *taken))

    def drop(self, taken: ReservedSlots) -> None:
        """Remove a range."""
        self._connection.execute(DROP, (self._task, taken.first_at))

    def _read(self, statement: str, instant: int) -> ReservedSlots | None:
        row = self._connection.execute(statement, (self._task, instant)).fetchone()
        return None if row is None else ReservedSlots(*row)
