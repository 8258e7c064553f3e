"""How fast one principal may ask: a bucket for each that fills steadily and empties by asking.

It is this server's own and in memory: it bounds what one caller costs this process, and is no
quota.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from duly.api.problems import refuse
from duly.domain.instants import SECOND_US

if TYPE_CHECKING:
    from duly.api.settings import ApiSettings
    from duly.clock import Clock

PRINCIPALS_MAX = 10_000
"""How many are remembered; whoever was silent longest is forgotten first, with a full bucket."""


class Pace:
    """Says whether a principal may ask once more."""

    def __init__(self, settings: ApiSettings, clock: Clock) -> None:
        self._fill = settings.requests_per_second
        self._most = float(settings.requests_burst_max)
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[bytes, tuple[float, int]] = OrderedDict()

    def require(self, principal: bytes) -> None:
        """Take one from a principal's bucket; refuse when it is empty."""
        now = self._clock.monotonic_us()
        with self._lock:
            left, before = self._buckets.pop(principal, (self._most, now))
            left = min(self._most, left + (now - before) * self._fill / SECOND_US)
            is_enough = left >= 1
            self._buckets[principal] = (left - 1 if is_enough else left, now)
            if len(self._buckets) > PRINCIPALS_MAX:
                self._buckets.popitem(last=False)
        if not is_enough:
            problem = f"more than {self._fill} requests a second come from you"
            raise refuse(429, "too-many-requests", problem, "ask less often", Retry_After="1")
