"""So many in a while, and no more (B4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain.rates import Rate, read_rate, take_turns
from duly.errors import UsageError

SECOND = 1_000_000
NOW = 1_000 * SECOND


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("100/m", Rate(100, 60 * SECOND, 100)),
        ("30/15m", Rate(30, 900 * SECOND, 30)),
        ("5/s burst 20", Rate(5, SECOND, 20)),
        (" 1 / h burst 1", Rate(1, 3600 * SECOND, 1)),
    ],
)
def test_a_rate_is_read_as_people_write_it_and_written_as_it_is_read(text: str, rate: Rate):
    """B4."""
    assert read_rate("rate", text) == rate
    assert read_rate("rate", rate.text) == rate


@pytest.mark.parametrize(
    "value",
    ["", "100", "0/s", "100/0s", "5/s burst 0", "1/9d", "2000000/s", 5, None, "5/s" * 50, "-1/s"],
)
def test_what_is_no_rate_is_refused_by_its_field(value: object):
    """L6."""
    with pytest.raises(UsageError, match="rate"):
        read_rate("rate", value)


def test_after_a_quiet_time_a_burst_goes_at_once_and_the_rest_comes_evenly():
    """B4."""
    turns = take_turns(Rate(2, SECOND, 3), 0, NOW, 6)

    late = [at - NOW for at in turns.at]
    assert late == [0, 0, 0, SECOND // 2, SECOND, 3 * SECOND // 2]


def test_who_comes_later_stands_behind_those_who_came_before():
    """B4: what is remembered is one instant."""
    rate = Rate(1, SECOND, 1)
    first = take_turns(rate, 0, NOW, 3)

    second = take_turns(rate, first.next_at, NOW + SECOND // 2, 1)

    assert second.at == (NOW + 3 * SECOND,)


@given(
    rate=st.builds(
        Rate,
        st.integers(1, 50),
        st.integers(1, 60).map(lambda one: one * SECOND),
        st.integers(1, 20),
    ),
    gaps=st.lists(st.tuples(st.integers(0, 5 * SECOND), st.integers(1, 8)), max_size=20),
)
def test_no_while_holds_more_than_the_rate_and_its_burst(rate: Rate, gaps: list[tuple[int, int]]):
    """B4: in any span, at most the burst and one for each share of it; and nobody goes early."""
    now, next_at, begun = NOW, 0, []
    for gap, count in gaps:
        now += gap
        turns = take_turns(rate, next_at, now, count)
        assert all(at >= now for at in turns.at)
        begun += turns.at
        next_at = turns.next_at

    begun.sort()
    for first, start in enumerate(begun):
        for last in range(first, len(begun)):
            allowed = rate.burst + (begun[last] - start) // rate.every_us
            assert last - first + 1 <= allowed
