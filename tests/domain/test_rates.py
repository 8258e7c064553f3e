"""So many in a while, and no more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain.limits import Rate, RateState, read_rate, spread_turns, take_turn
from duly.errors import UsageError
from tests.each_row import each_row

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
    assert read_rate("rate", text) == rate
    assert read_rate("rate", rate.text) == rate


@each_row(
    "value",
    ["", "100", "0/s", "100/0s", "5/s burst 0", "1/9d", "2000000/s", 5, None, "5/s" * 50, "-1/s"],
)
def test_what_is_no_rate_is_refused_by_its_field(value: object):
    with pytest.raises(UsageError, match="rate"):
        read_rate("rate", value)


def come(rate: Rate, pace: RateState, now: int, count: int) -> tuple[list[int], RateState]:
    """Give turns to so many that come now, for the first time."""
    turns = []
    for _ in range(count):
        turn = take_turn([(rate, pace)], None, now)
        (pace,) = turn.paces
        turns.append(turn.at)
    return turns, pace


def test_after_a_quiet_time_a_burst_goes_at_once_and_the_rest_comes_evenly():
    turns, _ = come(Rate(2, SECOND, 3), RateState(), NOW, 6)

    assert [at - NOW for at in turns] == [0, 0, 0, SECOND // 2, SECOND, 3 * SECOND // 2]


def test_who_comes_later_stands_behind_those_who_came_before():
    rate = Rate(1, SECOND, 1)
    _, pace = come(rate, RateState(), NOW, 3)

    turns, _ = come(rate, pace, NOW + SECOND // 2, 1)

    assert turns == [NOW + 3 * SECOND]


def test_who_comes_back_at_its_turn_is_not_charged_again():
    rate = Rate(1, SECOND, 1)
    turns, pace = come(rate, RateState(), NOW, 3)

    back = take_turn([(rate, pace)], turns[1], turns[1])

    assert back.at == turns[1]
    assert back.paces[0].promised_at == pace.promised_at


def test_one_that_comes_back_too_early_waits_for_its_turn_and_changes_nothing():
    rate = Rate(1, SECOND, 1)
    turns, pace = come(rate, RateState(), NOW, 3)

    early = take_turn([(rate, pace)], turns[2], NOW + 1)

    assert (early.at, early.paces) == (turns[2], (pace,))


def test_the_slowest_of_several_decides_and_all_give_the_same_turn():
    slow, fast = Rate(1, 60 * SECOND, 1), Rate(10, SECOND, 1)
    paces = [come(slow, RateState(), NOW, 2)[1], come(fast, RateState(), NOW, 2)[1]]

    turn = take_turn(list(zip((slow, fast), paces, strict=True)), None, NOW)

    assert turn.at == NOW + 120 * SECOND


def test_when_a_rate_changes_those_who_wait_get_turns_by_the_new_one():
    turns, pace = spread_turns(Rate(1, SECOND, 2), 4, NOW)

    assert [at - NOW for at in turns] == [0, 0, SECOND, 2 * SECOND]
    assert come(Rate(1, SECOND, 2), pace, NOW, 1)[0] == [NOW + 3 * SECOND]
    assert spread_turns(None, 2, NOW) == ([NOW, NOW], RateState())


RATES = st.builds(
    Rate,
    st.integers(1, 50),
    st.integers(1, 60).map(lambda one: one * SECOND),
    st.integers(1, 20),
)


@each_row("rate", ["2/s burst 1", "10/s burst 1", "10/s burst 3", "1000/s burst 1", "1/m burst 5"])
def test_of_those_that_are_late_together_no_more_than_the_burst_begin_at_once(rate: str):
    read = read_rate("rate", rate)
    turns, pace = come(read, RateState(), NOW, read.burst + 20)
    now, begun = NOW + 3600 * SECOND, 0

    for given_at in turns[read.burst :]:
        turn = take_turn([(read, pace)], given_at, now)
        (pace,) = turn.paces
        begun += turn.at <= now

    assert begun == read.burst


@each_row("rate", ["2/s burst 1", "10/s burst 1"])
def test_one_that_comes_a_little_late_at_its_turn_does_not_shift_the_next(rate: str):
    read = read_rate("rate", rate)
    turns, pace = come(read, RateState(), NOW, 4)
    late_us = read.every_us // 4

    for given_at, after_us in zip(turns[1:], (late_us, 0, late_us), strict=True):
        turn = take_turn([(read, pace)], given_at, given_at + after_us)
        (pace,) = turn.paces
        assert turn.at == given_at + after_us


GAPS = st.lists(
    st.tuples(st.integers(0, 5 * SECOND), st.integers(0, 8), st.booleans()), max_size=20
)


@given(rate=RATES, gaps=GAPS)
def test_no_while_holds_more_than_the_rate_and_its_burst(
    rate: Rate, gaps: list[tuple[int, int, bool]]
):
    """Also when those that come back are late, together; nobody goes before its turn.

    Everybody who does not begin is told a later instant.
    """
    now, pace, begun = NOW, RateState(), []
    waiting: list[int] = []
    for gap, count, is_fired in [*gaps, (3600 * SECOND, 0, True)]:
        now += gap
        back = sorted(at for at in waiting if at <= now) if is_fired else []
        for given_at in [None] * count + back:
            if given_at is not None:
                waiting.remove(given_at)
            turn = take_turn([(rate, pace)], given_at, now)
            (pace,) = turn.paces
            if turn.at <= now:
                begun.append(now)
            else:
                waiting.append(turn.at)

    for first, start in enumerate(begun):
        for last in range(first, len(begun)):
            allowed = (
                rate.burst
                + (begun[last] - start + min(rate.every_us // 2, SECOND)) // rate.every_us
            )
            assert last - first + 1 <= allowed


@given(rate=RATES, gaps=GAPS)
def test_without_anybody_who_comes_late_a_rate_is_kept_to_the_last(
    rate: Rate, gaps: list[tuple[int, int, bool]]
):
    """Turns that are given out lie no closer than they may."""
    now, pace, turns = NOW, RateState(), []
    for gap, count, _ in gaps:
        now += gap
        given, pace = come(rate, pace, now, count)
        assert all(at >= now for at in given)
        turns += given

    turns.sort()
    for first, start in enumerate(turns):
        for last in range(first, len(turns)):
            assert last - first + 1 <= rate.burst + (turns[last] - start) // rate.every_us


@given(rate=RATES, late=st.integers(1, 40))
def test_all_that_came_late_get_through_in_the_end(rate: Rate, late: int):
    """Nobody starves, and each waits for an instant that comes."""
    turns, pace = come(rate, RateState(), NOW, late + rate.burst)
    now = max(turns) + 3600 * SECOND
    waiting = [at for at in turns if at > NOW]
    for _ in range(len(waiting) + 1):
        left = []
        for given_at in waiting:
            turn = take_turn([(rate, pace)], given_at, now)
            (pace,) = turn.paces
            if turn.at > now:
                left.append(turn.at)
        if not left:
            break
        assert len(left) < len(waiting)
        waiting, now = sorted(left), max(left)
    else:
        raise AssertionError("somebody never got through")
