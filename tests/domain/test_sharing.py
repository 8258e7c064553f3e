"""Who of several tenants is claimed next: evenly, without an empty slot, and nobody for ever last."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from duly.domain.admission import Sharing, Waiting, begin_behind, ring, share_out
from duly.domain.ids import RunId
from tests.each_row import each_row

lines = st.lists(
    st.builds(
        Waiting,
        priority=st.integers(0, 3),
        tenant=st.sampled_from(["", "a", "ab", "b", "ä", "😀"]),
        rank=st.integers(0, 5),
        run_id=st.integers(0, 1 << 32).map(lambda number: number.to_bytes(8, "big")),
        is_passed=st.booleans(),
    ),
    max_size=30,
    unique_by=lambda one: one.run_id,
)
sharings = st.builds(
    Sharing,
    most=st.integers(0, 12),
    begin=st.sampled_from(["", "a", "b", begin_behind(""), begin_behind("ab"), begin_behind("😀")]),
    first=st.sampled_from([None, 0, 2, 100]),
    newest_first=st.booleans(),
)


def line(tenant, count, priority=0):
    return [Waiting(priority, tenant, rank, RunId(bytes([rank]))) for rank in range(count)]


@each_row(
    ("begin", "expected"),
    [
        (None, "abc"),
        ("", "abc"),
        ("b", "bca"),
        (begin_behind("b"), "cab"),
        (begin_behind("c"), "abc"),
        ("bb", "cab"),
    ],
)
def test_a_ring_begins_where_it_is_told(begin, expected):
    assert list(expected) == ring("abc", begin)


@each_row(
    ("counts", "most", "expected"),
    [
        ({"a": 9, "b": 9}, 4, {"a": 2, "b": 2}),
        ({"a": 9, "b": 9}, 5, {"a": 3, "b": 2}),
        ({"a": 9, "b": 1}, 6, {"a": 5, "b": 1}),
        ({"a": 1, "b": 1, "c": 1}, 2, {"a": 1, "b": 1}),
        ({"a": 2}, 9, {"a": 2}),
        ({"a": 2}, 0, {}),
    ],
)
def test_shares_are_even_and_no_slot_stays_empty(counts, most, expected):
    waiting = [one for tenant, count in counts.items() for one in line(tenant, count)]

    taken = share_out(waiting, Sharing(most=most))

    assert expected == Counter(one.tenant for one in taken)


@given(waiting=lines, sharing=sharings)
def test_as_many_are_taken_as_fit(waiting, sharing):
    """Whoever else waits, and whatever is passed over."""
    first = min((one.priority for one in waiting), default=0)
    if sharing.first is not None:
        ring_of = ring(sorted({one.priority for one in waiting}), sharing.first)
        first = ring_of[0] if ring_of else 0
    fit = [
        one
        for one in waiting
        if not one.is_passed and (one.priority == first or not sharing.newest_first)
    ]

    taken = share_out(waiting, sharing)

    assert min(sharing.most, len(fit)) == len(taken) == len(set(taken))
    assert set(taken) <= set(fit)


@given(waiting=lines, sharing=sharings)
def test_within_a_priority_nobody_gets_two_more_than_one_who_wanted_more(waiting, sharing):
    """INV-22: but for what others have left of their shares."""
    taken = share_out(waiting, sharing)
    for priority in {one.priority for one in waiting}:
        there = Counter(
            one.tenant for one in waiting if one.priority == priority and not one.is_passed
        )
        got = Counter(one.tenant for one in taken if one.priority == priority)
        share = sharing.most // max(
            1, len({one.tenant for one in waiting if one.priority == priority})
        )
        is_full = sum(got.values()) == sharing.most

        assert not is_full or all(got[tenant] >= min(share, there[tenant]) for tenant in there)


@given(counts=st.lists(st.integers(20, 40), min_size=1, max_size=6), most=st.integers(1, 7))
def test_whoever_waits_is_served_within_a_round(counts, most):
    """INV-22: tenants that do not fit into one claim have the next."""
    waiting = [one for number, count in enumerate(counts) for one in line(f"t{number}", count)]
    begin, met = "", Counter[str]()
    for _ in range(-(-len(counts) // most)):
        taken = share_out(waiting, Sharing(most=most, begin=begin))
        met.update(one.tenant for one in taken)
        waiting = [one for one in waiting if one not in taken]
        begin = begin_behind(taken[-1].tenant)

    assert len(counts) == len(met)
