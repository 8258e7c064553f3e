"""What the end of an attempt says about whom its task calls."""

from __future__ import annotations

import pytest

from duly.domain.outcomes import (
    SUCCEEDED,
    CancelledEnd,
    Failed,
    GaveUp,
    ReturnedToQueue,
    Snoozed,
    Succeeded,
    TimedOut,
    WorkerLost,
    is_answered,
)
from duly.domain.runs import Reason
from tests.each_row import each_row


@pytest.mark.parametrize(
    "end",
    [
        SUCCEEDED,
        Succeeded("1"),
        Failed("no", Reason.HTTP_STATUS, is_answered=True),
        GaveUp(Reason.GONE, "no more"),
    ],
)
def test_who_answers_does_its_part_even_if_it_says_no(end):
    assert is_answered(end) is True


@each_row(
    "end",
    [
        Failed("boom"),
        Failed("503", Reason.HTTP_STATUS),
        Failed("busy", Reason.RETRY_AFTER, after_us=1),
        Failed("exit 1", Reason.EXIT_STATUS),
        TimedOut(Reason.TIMEOUT),
        TimedOut(Reason.STALLED),
    ],
)
def test_an_error_or_a_time_out_counts_against_it(end):
    assert is_answered(end) is False


@each_row(
    "end",
    [
        Failed("bad", Reason.BAD_ARGUMENTS, is_retryable=False),
        Failed("permanent", Reason.NOT_RETRYABLE, is_retryable=False),
        Failed("private", Reason.REFUSED_ADDRESS, is_retryable=False),
        Failed("no secret", Reason.NO_SECRET),
        Failed("later", Reason.ASKED, after_us=1),
        GaveUp(Reason.GAVE_UP, "no use"),
        Snoozed(5),
        CancelledEnd(),
        ReturnedToQueue(Reason.SHUTDOWN, is_started=True),
        TimedOut(Reason.RUN_TIMEOUT),
        WorkerLost(),
    ],
)
def test_what_ended_for_a_reason_of_its_own_says_nothing(end):
    assert is_answered(end) is None
