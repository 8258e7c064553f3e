"""Slots of retry budgets: each retry has one of its own, the first that is free."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from duly.store.memory.slots import MemorySlots
from duly.store.memory.tables import Journal, Tables
from duly.store.retry_slots import reserve_retry_time

SPACING = 10


def calendar(now=0):
    return MemorySlots(Journal(Tables(shards=1), now), "remind")


@given(st.lists(st.integers(0, 300), max_size=60))
def test_a_retry_takes_the_first_slot_that_is_free(dues):
    """As whoever tries one slot after the other."""
    slots, taken = calendar(), set()
    for due in dues:
        expected = next(
            slot for slot in range(0, 10_000, SPACING) if slot >= due and slot not in taken
        )
        taken.add(expected)

        assert expected == reserve_retry_time(slots, due, SPACING)


@given(st.lists(st.tuples(st.integers(0, 300), st.sampled_from([1, 7, 10])), max_size=60))
def test_a_budget_that_changes_gives_no_slot_twice(asked):
    """Of the old spacing or the new."""
    slots, taken = calendar(), set()
    for due, spacing in asked:
        slot = reserve_retry_time(slots, due, spacing)

        assert slot >= due
        assert 0 == slot % spacing
        assert slot not in taken
        taken.add(slot)


def test_many_retries_of_one_instant_are_one_range():
    """Nobody walks along those that came before."""
    journal = Journal(Tables(shards=1), 0)
    for _ in range(5_000):
        reserve_retry_time(MemorySlots(journal, "remind"), 40, SPACING)

    ((first_at, last_at),) = journal.tables.retry_slots["remind"]
    assert (40, 40 + 4_999 * SPACING) == (first_at, last_at)
