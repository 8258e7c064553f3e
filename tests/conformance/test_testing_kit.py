"""The testing kit itself: a clock that obeys, and draws that repeat."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from duly.testing import ManualClock, SeededDraws

SECOND = 1_000_000


def test_a_clock_stands_still_until_it_is_moved():
    clock = ManualClock()

    assert (clock.now_us(), clock.now(), 0) == (clock.now_us(), clock.now(), clock.monotonic_us())
    assert datetime(2027, 3, 8, 8, tzinfo=UTC) == clock.now()


@pytest.mark.parametrize("duration", [90 * SECOND, "90s", timedelta(seconds=90)])
def test_time_passes_on_both_clocks(duration):
    clock = ManualClock(5)
    clock.advance(duration)

    assert (5 + 90 * SECOND, 90 * SECOND) == (clock.now_us(), clock.monotonic_us())


def test_setting_the_clock_lets_no_time_pass():
    """A step of the wall clock, forwards or back."""
    clock = ManualClock(5)
    clock.advance(1)
    clock.set(3)

    assert (3, 1) == (clock.now_us(), clock.monotonic_us())


def test_time_never_passes_backwards():
    with pytest.raises(AssertionError):
        ManualClock().advance(-1)


def test_the_same_seed_draws_the_same():
    first, second, other = SeededDraws(7), SeededDraws(7), SeededDraws(8)
    drawn = [first.draw(10) for _ in range(3)]

    assert drawn == [second.draw(10) for _ in range(3)]
    assert len(set(drawn)) == 3
    assert drawn[0] != other.draw(10)


@pytest.mark.parametrize("size", [0, 1, 10, 64, 65, 200])
def test_a_draw_is_as_long_as_asked_for(size):
    assert size == len(SeededDraws().draw(size))


def test_the_kit_is_there_without_pytest():
    """Pytest is asked for by the conformance suite alone."""
    code = "import sys, duly.testing; print('pytest' in sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert "False" == answer.stdout.strip()
