"""Virtual time's executor ends an attempt as a worker's would."""

from __future__ import annotations

import pytest

from duly.domain.outcomes import Failed
from duly.domain.runs import Reason
from duly.errors import UsageError
from duly.testing import InlineExecutor
from tests.engine.executors.attempt import attempt_of


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (UsageError("one", "x", "is no number", "give one"), Reason.BAD_ARGUMENTS),
        (ConnectionError("later"), Reason.ERROR),
    ],
)
def test_only_arguments_that_never_fit_are_bad_arguments(error: Exception, reason: Reason):
    """What a task's own types raise may be gone the next time."""

    def prepare(*_: object) -> None:
        raise error

    attempt = attempt_of(lambda: None)
    attempt.runnable.prepare = prepare
    InlineExecutor().start(attempt)
    end = attempt.wait_end()

    assert isinstance(end, Failed)
    assert reason is end.reason
