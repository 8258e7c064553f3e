"""The wheel: timers of the near future in memory, by the millisecond at which they fall due.

An entry of `Wheel` is a hint. The store compares it when it is fired and ignores one that is no
longer true, so no entry needs to be removed. Of several entries for one timer, the wheel hands out
only the latest.
"""

from __future__ import annotations

from heapq import heappop, heappush
from operator import attrgetter
from typing import TYPE_CHECKING

from duly.store.ports.dispatch import Timer

if TYPE_CHECKING:
    from collections.abc import Collection

    from duly.domain.fire_planning import ScheduleVersion
    from duly.store.ports.dispatch import FireDelayed, FireRetry, FireSchedule, TimerKind

    Fire = FireSchedule | FireDelayed | FireRetry

SLOT_US = 1000
"""Fine enough that a slot seldom holds anything that is not yet due."""
CROWD = 64
"""Of a slot with more entries than this the first is not looked for each time, and they are handed
out in the order of their refs: those that lie side by side in a database are fired together."""
HELD_SPARE = 1000
"""So many outdated entries may stay, and as many as there are true ones; then they are dropped."""


class LoadedTimer:
    """A loaded timer, and what has been worked out of it.

    There may be a hundred thousand of them, for as long as the process lives: each is one object,
    and is used again for the next instant of its schedule, so that there is nothing to collect.
    """

    __slots__ = (
        "definition_number",
        "due_at",
        "fire",
        "fire_at",
        "following",
        "generation",
        "kind",
        "ref",
        "scheduled_for",
        "shard",
        "template",
    )
    kind: TimerKind
    ref: bytes
    shard: int
    due_at: int
    scheduled_for: int
    generation: int
    definition_number: int
    fire_at: int
    """When to ask the store: its due, or a little later when it was busy."""
    following: int | None
    """The nominal time of the schedule's next occurrence, once that has been worked out."""
    template: ScheduleVersion | None
    """What the schedule's plans are made of, once that has been read."""
    fire: Fire | None
    """How it is fired; only while that is done."""

    def __init__(self, timer: Timer, fire_at: int) -> None:
        (
            self.kind,
            self.ref,
            self.shard,
            self.due_at,
            self.scheduled_for,
            self.generation,
            self.definition_number,
        ) = timer
        self.fire_at = fire_at
        self.following = self.template = self.fire = None

    @property
    def timer(self) -> Timer:
        """Return what is believed of it, as the store compares it."""
        timer = (
            self.kind,
            self.ref,
            self.shard,
            self.due_at,
            self.scheduled_for,
            self.generation,
            self.definition_number,
        )
        # As Timer(*timer), without the call in between: it is made for every fire of a run.
        return tuple.__new__(Timer, timer)

    def go_on(self, scheduled_for: int, due_at: int) -> None:
        """Stand for the next instant of the same schedule."""
        self.scheduled_for = scheduled_for
        self.due_at = self.fire_at = due_at
        self.following = self.fire = None


class Wheel:
    """Entries by slot, and a heap of the slots that hold any."""

    def __init__(self) -> None:
        self._slots: dict[int, list[LoadedTimer]] = {}
        self._heap: list[int] = []
        self._newest: dict[bytes, LoadedTimer] = {}
        self._held = 0
        self._crowds: dict[int, tuple[int, int]] = {}
        """Of crowds by slot: how many they were when put in order, and their first instant."""

    def __len__(self) -> int:
        """Return how many promises are loaded."""
        return len(self._newest)

    def insert(self, entry: LoadedTimer) -> bool:
        """Put an entry in; False if the same timer is there already."""
        newest, ref = self._newest, entry.ref
        before = newest.get(ref)
        if before is not None and _is_same(before, entry):
            return False
        newest[ref] = entry
        self._held += 1
        if self._held > 2 * len(newest) + HELD_SPARE:
            self.drop_shards(())
            return True
        slot = entry.fire_at // SLOT_US
        entries = self._slots.get(slot)
        if entries is None:
            self._slots[slot] = [entry]
            heappush(self._heap, slot)
        else:
            entries.append(entry)
        return True

    def holds(self, entry: LoadedTimer) -> bool:
        """Say whether an entry is still the last that was heard of its promise."""
        return self._newest.get(entry.ref) is entry

    def take(self, now: int, limit: int) -> list[LoadedTimer]:
        """Remove and return what is to be fired by `now`, in order, at most `limit`.

        Of a crowd that fills more than half of that, half is kept free for what fell due after it:
        a second in which fifty thousand fall due must not become a second for everybody else.
        """
        taken: list[LoadedTimer] = []
        cut: list[int] = []
        last, half = now // SLOT_US, max(limit // 2, 1)
        while self._heap and self._heap[0] <= last and len(taken) < limit:
            slot = heappop(self._heap)
            if not self._take_slot(slot, now, min(len(taken) + half, limit), taken):
                cut.append(slot)
        for slot in cut:
            if len(taken) == limit or not self._take_slot(slot, now, limit, taken):
                heappush(self._heap, slot)
        return taken

    def _take_slot(self, slot: int, now: int, limit: int, taken: list[LoadedTimer]) -> bool:
        """Take what is due of a slot, up to a limit; say whether that was all of it."""
        entries, newest = self._slots.pop(slot), self._newest
        crowd = self._crowds.pop(slot, None)
        if len(entries) > CROWD and (crowd is None or crowd[0] != len(entries)):
            crowd = _put_in_order(entries)
        later: list[LoadedTimer] = []
        seen = 0
        # A crowd is taken from its front, batch by batch, without looking at the rest of it.
        for entry in entries:
            if len(taken) >= limit:
                break
            seen += 1
            if newest.get(entry.ref) is not entry:
                self._held -= 1
            elif entry.fire_at > now:
                later.append(entry)
            else:
                self._held -= 1
                del newest[entry.ref]
                taken.append(entry)
        is_cut = seen < len(entries)
        # In place: of what is left of a crowd nothing is touched, however much it is.
        entries[:seen] = later
        if entries:
            self._slots[slot] = entries
            if crowd is not None and is_cut:
                self._crowds[slot] = (len(entries), crowd[1])
        return not entries

    def next_at(self) -> int | None:
        """Return the instant of the first entry, in a crowd that or earlier; None when none is."""
        while self._heap:
            slot = self._heap[0]
            entries = self._slots[slot]
            if len(entries) > CROWD:
                return self._first_of_crowd(slot, entries)
            found = [entry.fire_at for entry in entries if self.holds(entry)]
            if found:
                return min(found)
            self._held -= len(self._slots.pop(heappop(self._heap)))
        return None

    def _first_of_crowd(self, slot: int, entries: list[LoadedTimer]) -> int:
        """Return the first instant of a slot; of entries that are no longer true, too."""
        crowd = self._crowds.get(slot)
        if crowd is None or crowd[0] != len(entries):
            crowd = self._crowds[slot] = _put_in_order(entries)
        return crowd[1]

    def drop_shards(self, shards: Collection[int]) -> None:
        """Forget everything of shards that are no longer ours."""
        kept = [entry for entry in self._newest.values() if entry.shard not in shards]
        self.clear()
        for entry in kept:
            self.insert(entry)

    def clear(self) -> None:
        """Forget everything."""
        self._slots.clear()
        self._heap.clear()
        self._crowds.clear()
        self._newest.clear()
        self._held = 0


def _put_in_order(crowd: list[LoadedTimer]) -> tuple[int, int]:
    """Sort a crowd by its refs; return how many they are, and the first instant of any.

    It was read shard by shard, each in order: these are merged rather than sorted.
    """
    crowd.sort(key=attrgetter("ref"))
    return len(crowd), min(entry.fire_at for entry in crowd)


def _is_same(one: LoadedTimer, other: LoadedTimer) -> bool:
    return one.due_at == other.due_at and one.generation == other.generation
