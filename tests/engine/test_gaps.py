"""What can wait is done between live work, and does not starve where there is no room."""

from __future__ import annotations

import pytest

from duly.engine.dispatcher.background_lanes import SHARE, IdleTime
from duly.engine.manual_clock import ManualClock

STEP_US = 4_000


@pytest.fixture
def clock():
    return ManualClock()


def gaps_after_a_step(clock, due):
    """Return gaps that know what a step costs; `due` holds when live work falls due."""
    gaps = IdleTime(clock, lambda _: due[0])
    for _ in range(40):
        began_at = clock.monotonic_us()
        clock.advance(STEP_US)
        gaps.note(began_at)
    return gaps


def test_there_is_room_while_nothing_is_due(clock):
    assert IdleTime(clock, lambda _: None).has_room()


@pytest.mark.parametrize(("due_in_us", "has_room"), [(STEP_US // 2, False), (2 * STEP_US, True)])
def test_a_step_begins_if_it_will_be_over_in_time(clock, due_in_us, has_room):
    """INV-22: otherwise what falls due meanwhile would wait for it."""
    due = [None]
    gaps = gaps_after_a_step(clock, due)
    due[0] = clock.monotonic_us() + due_in_us

    assert has_room is gaps.has_room()


def test_it_is_asked_again_when_live_work_was_fired(clock):
    due = [None]
    gaps = gaps_after_a_step(clock, due)
    due[0] = clock.monotonic_us() + 100

    assert not gaps.has_room()
    assert due[0] == gaps.until


def test_where_there_is_never_room_a_share_of_the_time_is_taken(clock):
    """The reserved minimum."""
    due = [None]
    gaps = gaps_after_a_step(clock, due)
    due[0] = clock.monotonic_us()
    assert not gaps.has_room()

    clock.advance(SHARE * STEP_US)

    assert gaps.has_room()
