"""A destination that keeps failing is left alone, and tried again now and then."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain.admission import (
    ASKED_PAUSE_MAX_US,
    FAILURES_MIN,
    LOOK_US,
    PAUSE_FIRST_US,
    PAUSE_MAX_US,
    WINDOW_US,
    Breaker,
    BreakerState,
    EndAtDestination,
    ask,
    count,
    probed,
    reset_of,
)
from duly.domain.ids import RunId
from duly.store.admission import fold

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

    assert probed(PROBING, EndAtDestination(RUN, True), later).state is BreakerState.CLOSED
    failed = probed(PROBING, EndAtDestination(RUN, False), later)
    assert failed.state is BreakerState.OPEN
    assert failed.retry_at == later + 2 * PAUSE_FIRST_US
    assert probed(PROBING, EndAtDestination(OTHER, True), later) == PROBING


def test_a_probe_that_is_asked_to_wait_is_followed_when_the_destination_says():
    """Whatever the pause would have been; the pauses after it have not grown."""
    later, asked = NOW + PAUSE_FIRST_US + SECOND, 4 * SECOND
    waits = probed(PROBING, EndAtDestination(RUN, False, asked), later)

    assert (BreakerState.OPEN, later + asked) == (waits.state, waits.retry_at)
    probing = ask(waits, OTHER, later + asked, PROBE_US).breaker
    assert OTHER == probing.probe
    failed = probed(probing, EndAtDestination(OTHER, False), later + asked)
    assert later + asked + 2 * PAUSE_FIRST_US == failed.retry_at
    long = probed(PROBING, EndAtDestination(RUN, False, 10 * ASKED_PAUSE_MAX_US), later)
    assert later + ASKED_PAUSE_MAX_US == long.retry_at


def test_failures_that_open_it_say_when_the_first_probe_goes():
    """The longest of what they were asked to wait; one that opens nothing changes nothing."""
    ends = [EndAtDestination(RUN, False) for _ in range(FAILURES_MIN - 2)]
    asked = [EndAtDestination(RUN, False, wait * SECOND) for wait in (40, 2)]

    opened = fold(Breaker(counted_from=NOW), ends + asked, NOW)
    assert (BreakerState.OPEN, NOW + 40 * SECOND) == (opened.state, opened.retry_at)
    assert fold(Breaker(counted_from=NOW), asked, NOW).retry_at is None


def test_failures_are_still_told_while_it_is_open():
    """Those that opened it, and failed probes since; none after it has closed."""
    failed = probed(PROBING, EndAtDestination(RUN, False), NOW + PAUSE_FIRST_US)

    assert (FAILURES_MIN, FAILURES_MIN, FAILURES_MIN + 1) == (
        OPEN.failed,
        PROBING.failed,
        failed.failed,
    )
    assert 0 == probed(PROBING, EndAtDestination(RUN, True), NOW + PAUSE_FIRST_US).failed


def test_a_probe_that_tells_nothing_is_followed_by_another():
    """Cancelled, or given back by a worker that stops."""
    open_again = probed(PROBING, EndAtDestination(RUN, None), NOW + PAUSE_FIRST_US)

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
        breaker = probed(breaker, EndAtDestination(RUN, False), now)
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
