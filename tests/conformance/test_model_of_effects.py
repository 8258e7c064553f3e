"""Memory is the model of effects, too: the same orders with little else between them."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from tests.conformance.test_model import SameAnswers


class SameEffects(SameAnswers):
    """Two stores, one clock, and of all rules those that doubt comes of and is settled by."""

    # What is no rule any more is not drawn: doubt takes several steps, one after another.
    create = change = add = move_or_cancel = transact = belong = None  # type: ignore[assignment]
    the_clock_is_set_back = fire_again = drain = look_around = None  # type: ignore[assignment]
    pause_or_resume = beat = report = None  # type: ignore[assignment]
    limit = admit = a_destination_is_spoken_to = take_for_well = None  # type: ignore[assignment]


TestSameEffects = pytest.mark.timeout(300)(SameEffects.TestCase)
TestSameEffects.settings = settings(
    max_examples=12,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
