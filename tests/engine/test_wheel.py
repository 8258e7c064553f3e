"""The wheel: hands out what is due, in order, once, and only the last that was heard of a promise."""

from __future__ import annotations

from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from duly.engine.dispatcher.timer_wheel import LoadedTimer, Wheel
from duly.store.ports.dispatch import Timer


def entry(ref: int, due_at: int, generation: int = 1, shard: int = 0) -> LoadedTimer:
    timer = Timer("schedule", ref.to_bytes(16), shard, due_at, due_at, generation, 1)
    return LoadedTimer(timer, due_at)


def dues(entries: list[LoadedTimer]) -> list[int]:
    return [one.timer.due_at for one in entries]


def test_an_entry_is_handed_out_when_it_is_due_and_not_before():
    """To the microsecond, though slots are coarser."""
    wheel = Wheel()
    wheel.insert(entry(1, 5_500))
    wheel.insert(entry(2, 5_900))

    assert [] == dues(wheel.take(5_499, 10))
    assert [5_500] == dues(wheel.take(5_500, 10))
    assert [] == dues(wheel.take(5_899, 10))
    assert [5_900] == dues(wheel.take(5_900, 10))
    assert 0 == len(wheel)


def test_the_same_timer_is_held_once():
    """Loaded twice, announced twice: it is one promise."""
    wheel = Wheel()

    assert wheel.insert(entry(1, 5_000))
    assert not wheel.insert(entry(1, 5_000))
    assert [5_000] == dues(wheel.take(9_000, 10))


def test_what_was_heard_last_of_a_promise_is_what_counts():
    """An edit that arrives replaces what was loaded."""
    wheel = Wheel()
    wheel.insert(entry(1, 5_000))
    wheel.insert(entry(1, 8_000, generation=2))

    assert 1 == len(wheel)
    assert 8_000 == wheel.next_at()
    assert [8_000] == dues(wheel.take(9_000, 10))


def test_an_edit_that_keeps_the_instant_is_a_newer_timer():
    """The store would refuse to fire the generation before."""
    wheel = Wheel()
    wheel.insert(entry(1, 5_000))

    assert wheel.insert(entry(1, 5_000, generation=2))
    assert [2] == [one.generation for one in wheel.take(9_000, 10)]


def test_a_limit_leaves_the_rest_for_the_next_time():
    wheel = Wheel()
    for number in range(10):
        wheel.insert(entry(number, 5_000))

    assert 4 == len(wheel.take(5_000, 4))
    assert 6 == len(wheel.take(5_000, 10))


def test_the_entries_of_a_lost_shard_are_dropped():
    wheel = Wheel()
    wheel.insert(entry(1, 5_000, shard=1))
    wheel.insert(entry(2, 6_000, shard=2))
    wheel.drop_shards({1})

    assert [6_000] == dues(wheel.take(9_000, 10))
    assert wheel.next_at() is None


def test_outdated_entries_do_not_pile_up():
    """A promise that is edited a hundred thousand times takes no more room than others."""
    wheel = Wheel()
    for generation in range(100_000):
        wheel.insert(entry(1, 5_000 + generation, generation))
    held = sum(len(entries) for entries in wheel._slots.values())  # noqa: SLF001

    assert held <= 1100


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5_000)), max_size=60),
    st.lists(st.integers(0, 6_000), max_size=10),
    st.integers(1, 7),
)
def test_it_agrees_with_a_sorted_list(inserted, instants, limit):
    """In the order of their milliseconds; of one, half of what is taken at once, and then the rest."""
    wheel, model = Wheel(), {}
    for generation, (ref, due_at) in enumerate(inserted):
        wheel.insert(entry(ref, due_at, generation))
        model[ref.to_bytes(16)] = due_at
    for now in sorted(instants):
        taken = wheel.take(now, limit)
        due = sorted(due_at for due_at in model.values() if due_at <= now)

        assert shared_out([one // 1000 for one in due], limit) == [
            one // 1000 for one in dues(taken)
        ]
        for one in taken:
            del model[one.timer.ref]

        assert len(model) == len(wheel)
        assert min(model.values(), default=None) == wheel.next_at()


def shared_out(due, limit):
    """Return what is taken of sorted milliseconds."""
    half = max(limit // 2, 1)
    groups = [[*group] for _, group in groupby(due)]
    first = [one for group in groups for one in group[:half]]
    rest = [one for group in groups for one in group[half:]]
    return first[:limit] + rest[: max(0, limit - len(first))]


def test_what_falls_due_after_a_crowd_does_not_wait_for_all_of_it():
    """Half of what is taken at once is kept free for it."""
    wheel = Wheel()
    for number in range(1000):
        wheel.insert(entry(number, 1_000_000))
    for number in range(5):
        wheel.insert(entry(5000 + number, 1_500_000 + number))
    first, second = wheel.take(2_000_000, 100), wheel.take(2_000_000, 100)

    assert [1_000_000] * 50 + [1_500_000 + number for number in range(5)] == dues(first)[:55]
    assert [1_000_000] * 45 == dues(first)[55:]
    assert [1_000_000] * 100 == dues(second)
    assert 1_000_000 == wheel.next_at()
    assert 805 == len(wheel)


def test_a_crowd_is_handed_out_in_the_order_of_its_refs():
    """It is read shard by shard; side by side in a database lie those whose ids are near."""
    wheel = Wheel()
    for shard in range(4):
        for ref in range(shard, 400, 4):
            wheel.insert(entry(ref, 5_000, shard=shard))
    taken = [wheel.take(6_000, 100) for _ in range(4)]
    refs = [[int.from_bytes(one.ref) for one in part] for part in taken]

    assert [[*range(first, first + 100)] for first in range(0, 400, 100)] == refs


def test_of_a_crowd_that_is_not_yet_due_the_first_instant_is_known():
    """Nobody asks again and again within the millisecond of a crowd."""
    wheel = Wheel()
    for ref in range(200):
        wheel.insert(entry(ref, 5_000 + ref))

    assert 5_000 == wheel.next_at()
    assert 100 == len(wheel.take(5_099, 1000))
    assert 5_100 == wheel.next_at()
