"""The wheel: timers of the near future in memory, by the millisecond at which they fall due.

It is a hint. An entry that is no longer true dies when the store compares it (F6), so nothing need
ever be removed; only the last that was heard of a promise is handed out.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from duly.domain.settling import Plan
    from duly.store.dispatch import Timer

SLOT_US = 1000
"""Fine enough that a slot seldom holds anything that is not yet due."""
CROWD = 64
"""Of a slot with more entries than this the exact first is not looked for each time."""
HELD_SPARE = 1000
"""So many outdated entries may stay, and as many as there are true ones; then they are dropped."""


@dataclass(slots=True, eq=False)
class Entry:
    """A loaded timer, and what has been worked out of it."""

    timer: Timer
    fire_at: int
    """When to ask the store: its due, or a little later when it was busy."""
    following: int | None = None
    """The nominal time of the schedule's next occurrence, once that has been worked out."""
    plan: Plan | None = None
    """What firing it does; only while it is being fired, as plans are large."""
    late_after: int | None = None


class Wheel:
    """Entries by slot, and a heap of the slots that hold any."""

    def __init__(self) -> None:
        self._slots: dict[int, deque[Entry]] = {}
        self._first: dict[int, int] = {}
        """The first instant of each slot; of entries that are no longer true, too."""
        self._heap: list[int] = []
        self._newest: dict[bytes, Entry] = {}
        self._held = 0

    def __len__(self) -> int:
        """Return how many promises are loaded."""
        return len(self._newest)

    def insert(self, entry: Entry) -> bool:
        """Put an entry in; False if the same timer is there already."""
        timer = entry.timer
        before = self._newest.get(timer.ref)
        if before is not None and _is_same(before.timer, timer):
            return False
        self._newest[timer.ref] = entry
        self._held += 1
        if self._held > 2 * len(self._newest) + HELD_SPARE:
            self.drop_shards(())
            return True
        slot = entry.fire_at // SLOT_US
        entries = self._slots.get(slot)
        if entries is None:
            self._slots[slot] = deque((entry,))
            self._first[slot] = entry.fire_at
            heappush(self._heap, slot)
        else:
            entries.append(entry)
            self._first[slot] = min(self._first[slot], entry.fire_at)
        return True

    def holds(self, entry: Entry) -> bool:
        """Say whether an entry is still the last that was heard of its promise."""
        return self._newest.get(entry.timer.ref) is entry

    def take(self, now: int, limit: int) -> list[Entry]:
        """Remove and return what is to be fired by `now`, in order, at most `limit`."""
        taken: list[Entry] = []
        last = now // SLOT_US
        while self._heap and self._heap[0] <= last and len(taken) < limit:
            if not self._take_slot(heappop(self._heap), now, limit, taken):
                break  # what is left of this very millisecond is not due yet
        return taken

    def _take_slot(self, slot: int, now: int, limit: int, taken: list[Entry]) -> bool:
        """Take what is due of a slot; say whether that was all of it."""
        entries = self._slots.pop(slot)
        later: deque[Entry] = deque()
        # A crowd is taken from its front, batch by batch, without looking at the rest of it.
        while entries and len(taken) < limit:
            entry = entries.popleft()
            if not self.holds(entry):
                self._held -= 1
            elif entry.fire_at > now:
                later.append(entry)
            else:
                self._held -= 1
                del self._newest[entry.timer.ref]
                taken.append(entry)
        later += entries
        if not later:
            del self._first[slot]
            return True
        self._slots[slot] = later
        self._first[slot] = slot * SLOT_US
        heappush(self._heap, slot)
        return False

    def next_at(self) -> int | None:
        """Return the instant of the first entry, in a crowd that or earlier; None when none is."""
        while self._heap:
            slot = self._heap[0]
            entries = self._slots[slot]
            if len(entries) > CROWD:
                return self._first[slot]
            found = [entry.fire_at for entry in entries if self.holds(entry)]
            if found:
                return min(found)
            self._held -= len(self._slots.pop(heappop(self._heap)))
            del self._first[slot]
        return None

    def drop_shards(self, shards: Collection[int]) -> None:
        """Forget everything of shards that are no longer ours."""
        kept = [entry for entry in self._newest.values() if entry.timer.shard not in shards]
        self.clear()
        for entry in kept:
            self.insert(entry)

    def clear(self) -> None:
        """Forget everything."""
        self._slots.clear()
        self._first.clear()
        self._heap.clear()
        self._newest.clear()
        self._held = 0


def _is_same(one: Timer, other: Timer) -> bool:
    return one.due_at == other.due_at and one.generation == other.generation
