"""The calendar of a task's retries: a row for each range of slots, under the lock of its budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.store.postgres.arrays import Texts
from duly.store.postgres.session import first
from duly.store.retry_slots import ReservedSlots

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly.store.postgres.work import Work

# Locked whether it was there or not: who comes second reads what the first has written.
LOCK_BUDGETS = """
INSERT INTO duly.retry_budgets (task)
SELECT task FROM pg_catalog.unnest($1::text[]) task ORDER BY task
ON CONFLICT (task) DO UPDATE SET task = excluded.task"""
FIND_SLOTS = """
SELECT first_at, last_at FROM duly.retry_slots WHERE task = $1 AND first_at <= $2::int8
ORDER BY first_at DESC LIMIT 1"""
FIND_SLOTS_AFTER = """
SELECT first_at, last_at FROM duly.retry_slots WHERE task = $1 AND first_at > $2::int8
ORDER BY first_at LIMIT 1"""
PUT_SLOTS = """
INSERT INTO duly.retry_slots (task, first_at, last_at) VALUES ($1, $2::int8, $3::int8)
ON CONFLICT (task, first_at) DO UPDATE SET last_at = excluded.last_at"""
DROP_SLOTS = "DELETE FROM duly.retry_slots WHERE task = $1 AND first_at = $2::int8"
# They do not overlap: those that have passed are the first.
FORGET_SLOTS = """
DELETE FROM duly.retry_slots
WHERE task = ANY($1::text[]) AND first_at < $2::int8 AND last_at < $2::int8"""


def open_calendars(work: Work, tasks: Iterable[str]) -> dict[str, PostgresSlots]:
    """Hold on to the budgets of tasks, in the order of their names; forget what has passed."""
    names = sorted(set(tasks))
    if names:
        work.session.run(LOCK_BUDGETS, (Texts(names),))
        work.session.run(FORGET_SLOTS, (Texts(names), work.now))
    return {task: PostgresSlots(work, task) for task in names}


class PostgresSlots:
    """What is taken of one task's calendar, while its budget is locked."""

    def __init__(self, work: Work, task: str) -> None:
        self._session = work.session
        self._task = task

    def find(self, instant: int) -> ReservedSlots | None:
        """Return the last range that begins at an instant or before it."""
        return self._read(FIND_SLOTS, instant)

    def find_after(self, instant: int) -> ReservedSlots | None:
        """Return the first range that begins after an instant."""
        return self._read(FIND_SLOTS_AFTER, instant)

    def put(self, taken: ReservedSlots) -> None:
        """Write a range, over the one that begins at the same slot if there is one."""
        self._session.run(PUT_SLOTS, (self._task, *taken))

    def drop(self, taken: ReservedSlots) -> None:
        """Remove a range."""
        self._session.run(DROP_SLOTS, (self._task, taken.first_at))

    def _read(self, statement: str, instant: int) -> ReservedSlots | None:
        row = first(self._session, statement, (self._task, instant))
        return None if row is None else ReservedSlots(*row)
