"""Waiting for other programs that write, with short pauses: nobody waits much longer than need be.

SQLite's own pauses grow to a tenth of a second, in which a dispatcher and a worker that take turns
could do a dozen transactions: whoever comes second hardly ever finds the file free.
"""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

from duly.store.wakeups import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Callable

PAUSE_MIN_US = 100
PAUSE_MAX_US = 1000
SHARE = 8
"""A pause is as long as this part of what was waited: so much longer is waited at most."""


def patience(timeout_us: int) -> Callable[[int], bool]:
    """Return what SQLite asks, when somebody else writes, whether to try again."""
    waited_us = 0

    def wait(tries: int) -> bool:
        nonlocal waited_us
        if tries == 0:
            waited_us = 0
        if waited_us >= timeout_us:
            return False
        pause_us = min(max(waited_us // SHARE, PAUSE_MIN_US), PAUSE_MAX_US)
        select.select((), (), (), pause_us / SECOND_US)
        waited_us += pause_us
        return True

    return wait
