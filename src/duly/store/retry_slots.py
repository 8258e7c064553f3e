"""Slots of retry budgets: a calendar for each task, in which every retry takes a place of its own.

Slots are the multiples of the budget's spacing. Those that are taken are kept as ranges, so that a
provider that sends thousands of retries to one instant costs each of them one look, and not a walk
along all that came before it.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class ReservedSlots(NamedTuple):
    """Slots without a gap between them, all of them taken."""

    first_at: int
    last_at: int


class Slots(Protocol):
    """What is taken of one task's calendar, as a store keeps it. Ranges do not overlap."""

    def find(self, instant: int) -> ReservedSlots | None:
        """Return the last range that begins at an instant or before it."""
        ...

    def find_after(self, instant: int) -> ReservedSlots | None:
        """Return the first range that begins after an instant."""
        ...

    def put(self, taken: ReservedSlots) -> None:
        """Write a range, over the one that begins at the same slot if there is one."""
        ...

    def drop(self, taken: ReservedSlots) -> None:
        """Remove a range."""
        ...


def reserve_retry_time(slots: Slots, due_at: int, spacing_us: int) -> int:
    """Take the first free slot at an instant or after it; return when that is."""
    slot = -(-due_at // spacing_us) * spacing_us
    before = slots.find(slot)
    slot = _behind(before, slot, spacing_us)
    after = slots.find_after(slot if before is None else before.first_at)
    # More than one is passed only when the task's spacing has changed meanwhile.
    while after is not None and after.first_at <= slot:
        before, slot = after, _behind(after, slot, spacing_us)
        after = slots.find_after(before.first_at)
    first_at = last_at = slot
    if before is not None and slot - before.last_at <= spacing_us:
        first_at = before.first_at
    if after is not None and after.first_at - slot <= spacing_us:
        slots.drop(after)
        last_at = after.last_at
    slots.put(ReservedSlots(first_at, last_at))
    return slot


def _behind(taken: ReservedSlots | None, slot: int, spacing_us: int) -> int:
    """Return a slot, or the first behind a range that holds it."""
    if taken is None or slot > taken.last_at:
        return slot
    return (taken.last_at // spacing_us + 1) * spacing_us
