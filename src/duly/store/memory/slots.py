"""The calendar of a task's retries on the memory store: ranges of slots, in order."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duly.store.memory.tables import Journal
    from duly.store.retry_slots import ReservedSlots


class MemorySlots:
    """What is taken of one task's calendar from now on; what has passed is forgotten."""

    def __init__(self, journal: Journal, task: str) -> None:
        self._journal = journal
        self._task = task
        self._taken = still_ahead(journal, task)

    def find(self, instant: int) -> ReservedSlots | None:
        """Return the last range that begins at an instant or before it."""
        place = self._place(instant)
        return self._taken[place - 1] if place else None

    def find_after(self, instant: int) -> ReservedSlots | None:
        """Return the first range that begins after an instant."""
        place = self._place(instant)
        return self._taken[place] if place < len(self._taken) else None

    def put(self, taken: ReservedSlots) -> None:
        """Write a range, over the one that begins at the same slot if there is one."""
        place = self._place(taken.first_at)
        known = self.find(taken.first_at)
        is_there = known is not None and known.first_at == taken.first_at
        self._write((*self._taken[: place - is_there], taken, *self._taken[place:]))

    def drop(self, taken: ReservedSlots) -> None:
        """Remove a range."""
        place = self._place(taken.first_at)
        self._write((*self._taken[: place - 1], *self._taken[place:]))

    def _place(self, instant: int) -> int:
        return bisect_right(self._taken, instant, key=lambda taken: taken.first_at)

    def _write(self, taken: tuple[ReservedSlots, ...]) -> None:
        self._taken = taken
        self._journal.put(self._journal.tables.retry_slots, self._task, taken)


def still_ahead(journal: Journal, task: str) -> tuple[ReservedSlots, ...]:
    """Return what is taken of a task's calendar and has not passed."""
    known = journal.tables.retry_slots.get(task, ())
    return tuple(taken for taken in known if taken.last_at >= journal.now)
