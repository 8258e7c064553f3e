"""Memory is the model of limits, too: the same orders with little else between them."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from tests.conformance.test_model import SameAnswers


class SameLimits(SameAnswers):
    """Two stores, one clock, and of all rules those that runs begin and end by."""

    # What is no rule any more is not drawn: a line at a limit takes several steps to form.
    create = change = add = move_or_cancel = transact = belong = None  # type: ignore[assignment]
    drain = look_around = pause_or_resume = report = None  # type: ignore[assignment]
    begin_effect = end_effect = say_scope = end_unsafe = None  # type: ignore[assignment]
    leave_in_doubt = settle_doubt = rerun = None  # type: ignore[assignment]
    order_task = add_verdict = None  # type: ignore[assignment]


TestSameLimits = pytest.mark.timeout(300)(SameLimits.TestCase)
TestSameLimits.settings = settings(
    max_examples=10,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
