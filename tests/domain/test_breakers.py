"""A destination that keeps failing is left alone, and tried again now and then."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain.admission import (
    FAILURES_MIN,
    LOOK_US,
    PAUSE_FIRST_US,
    PAUSE_MAX_US,
    WINDOW_US,
    Breaker,
    BreakerState,
    ask,
    count,
    probed,
    reset_of,
)
from duly.domain.ids import RunId

SECOND = 1_000_000
NOW = 1_000 * SECOND
PROBE_US = 60 * SECOND
RUN, OTHER = RunId(bytes(16)), RunId(bytes(range(16)))
OPEN = count(Breaker(counted_from=NOW), 0, FAILURES_MIN, NOW)
PROBING = ask(OPEN, RUN, NOW + PAUSE_FIRST_US, PROBE_US).breaker


@pytest.mark.parametrize(
    ("succeeded", "failed", "state"),
    [
        (0, FAILURES_MIN - 1, BreakerState.CLOSED),
        (FAILURES_MIN + 1, FAILURES_MIN, BreakerState.CLOSED),
        (FAILURES_MIN, FAILURES_MIN, BreakerState.OPEN),
        (0, FAILURES_MIN, BreakerState.OPEN),
    ],
)
def test_it_opens_when_enough_and_at_least_half_have_failed(
    succeeded: int, failed: int, state: BreakerState
):
    assert count(Breaker(counted_from=NOW), succeeded, failed, NOW).state is state


def test_what_failed_long_ago_does_not_count():
    almost = count(Breaker(counted_from=NOW), 0, FAILURES_MIN - 1, NOW)

    assert count(almost, 0, 1, NOW + WINDOW_US - 1).state is BreakerState.OPEN
    assert count(almost, 0, 1, NOW + WINDOW_US).state is BreakerState.CLOSED


def test_while_it_is_open_everything_is_put_off_until_after_its_pause():
    """Without a slot and without an attempt."""
    first, second = ask(OPEN, RUN, NOW, PROBE_US), ask(OPEN, OTHER, NOW, PROBE_US)

    assert first.breaker == second.breaker == OPEN
    assert NOW + PAUSE_FIRST_US == first.put_off_until == second.put_off_until


def test_when_its_pause_is_over_one_probe_goes_and_the_others_wait():
    assert PROBING.state is BreakerState.HALF_OPEN
    assert PROBING.probe == RUN
    assert ask(PROBING, RUN, NOW + PAUSE_FIRST_US, PROBE_US).put_off_until is None
    other = ask(PROBING, OTHER, NOW + PAUSE_FIRST_US, PROBE_US)
    assert NOW + PAUSE_FIRST_US + LOOK_US == other.put_off_until


def test_a_probe_that_succeeds_closes_it_and_one_that_fails_doubles_the_pause():
    later = NOW + PAUSE_FIRST_US + SECOND

    assert probed(PROBING, RUN, later, is_success=True).state is BreakerState.CLOSED
    failed = probed(PROBING, RUN, later, is_success=False)
    assert failed.state is BreakerState.OPEN
    assert failed.retry_at == later + 2 * PAUSE_FIRST_US
    assert probed(PROBING, OTHER, later, is_success=True) == PROBING


def test_a_probe_that_tells_nothing_is_followed_by_another():
    """Cancelled, or given back by a worker that stops."""
    open_again = probed(PROBING, RUN, NOW + PAUSE_FIRST_US, is_success=None)

    following = ask(open_again, OTHER, NOW + PAUSE_FIRST_US, PROBE_US)
    assert following.put_off_until is None
    assert following.breaker.probe == OTHER


def test_a_probe_that_never_ends_is_given_up_for_lost():
    """Its worker is gone; nobody must say so for things to go on."""
    lost_at = NOW + PAUSE_FIRST_US + PROBE_US

    assert ask(PROBING, OTHER, lost_at - 1, PROBE_US).put_off_until is not None
    assert ask(PROBING, OTHER, lost_at, PROBE_US).breaker.probe == OTHER


def test_what_began_before_it_opened_changes_nothing():
    assert count(OPEN, 50, 0, NOW) == OPEN
    assert count(PROBING, 0, 50, NOW) == PROBING


@given(fails=st.integers(1, 30))
def test_pauses_grow_and_stay_bounded(fails: int):
    """INV-23."""
    breaker, now, pauses = OPEN, NOW, []
    for _ in range(fails):
        assert breaker.retry_at is not None
        now = breaker.retry_at
        breaker = ask(breaker, RUN, now, PROBE_US).breaker
        breaker = probed(breaker, RUN, now, is_success=False)
        pauses.append(breaker.pause_us)

    assert pauses == sorted(pauses)
    assert pauses[-1] <= PAUSE_MAX_US


def test_each_opening_has_an_epoch_of_its_own():
    """Also after a person has reset it; what was put off in another epoch is told apart."""
    epochs, breaker = [], OPEN
    for _ in range(3):
        epochs.append(breaker.epoch)
        breaker = count(reset_of(breaker, NOW), 0, FAILURES_MIN, NOW)

    assert [1, 2, 3] == epochs


def test_a_reset_breaker_counts_from_then():
    """What failed before the reset does not open it, and the window begins with it."""
    later = NOW + PAUSE_FIRST_US

    assert Breaker(counted_from=later, epoch=OPEN.epoch) == reset_of(OPEN, later)
