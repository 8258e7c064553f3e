"""Destinations: what the end of an attempt says about whom the task calls (B2).

Only who is called and does not do its part counts against it. An attempt that ended for a reason of
its own, or never came so far, says nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.attempts import Reason
from duly.domain.concluding import Failed, GaveUp, Succeeded, TimedOut

if TYPE_CHECKING:
    from duly.domain.concluding import End

_OWN = frozenset(
    {
        *(Reason.ASKED, Reason.BAD_ARGUMENTS, Reason.KILLED, Reason.NO_SECRET, Reason.NOT_ALLOWED),
        *(Reason.NOT_RETRYABLE, Reason.REFUSED_ADDRESS, Reason.UNKNOWN_TASK),
    }
)
"""Reasons that have nothing to do with whom the task calls."""


def is_answered(end: End) -> bool | None:
    """Say whether a destination did its part; None when the end does not tell."""
    match end:
        case Succeeded() | Failed(is_answered=True) | GaveUp(reason=Reason.GONE):
            return True
        case Failed(is_retryable=True) if end.reason not in _OWN:
            return False
        case TimedOut(reason=Reason.TIMEOUT | Reason.STALLED):
            return False
        case _:
            return None
