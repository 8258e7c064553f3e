"""Rates: so many in a while, and no more; what comes too soon is told when its turn is (B4).

One instant is all that is remembered: when the next would come if all had come evenly. What is put
off becomes a timer at its turn, so that it blocks nothing behind it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from duly.domain.durations import UNITS_US, duration_text
from duly.domain.instants import DAY, SECOND_US
from duly.errors import UsageError

COUNT_MAX = 1_000_000
BURST_MAX = 100_000
EVERY_MAX_US = DAY * SECOND_US
LENGTH_MAX = 50
_RATE = re.compile(r"([0-9]{1,7}) ?/ ?([0-9]{1,5})? ?(ms|s|m|h|d)(?: burst ([0-9]{1,6}))?")


class Rate(NamedTuple):
    """How many may begin in how long, and how many of them at once after a quiet time."""

    count: int
    period_us: int
    burst: int

    @property
    def every_us(self) -> int:
        """How far apart they lie when they come evenly."""
        return self.period_us // self.count

    @property
    def text(self) -> str:
        """Write it as it is read: "100/1m burst 10"."""
        return f"{self.count}/{duration_text(self.period_us)} burst {self.burst}"


class Turns(NamedTuple):
    """When each of those that came may begin, and what is to be remembered."""

    at: tuple[int, ...]
    next_at: int


def read_rate(field: str, value: object) -> Rate:
    """Read a rate as people write it: "100/m", "5/s burst 20", "30/15m"."""
    if isinstance(value, Rate):
        return value
    found = None
    if isinstance(value, str) and len(value) <= LENGTH_MAX:
        found = _RATE.fullmatch(value.strip())
    if found is None:
        remedy = "give so many in a while, such as '100/m', '30/15m' or '5/s burst 20'"
        raise UsageError(field, value, "is not a rate", remedy)
    count, many, unit, burst_text = found.groups()
    number, period_us = int(count), int(many or 1) * UNITS_US[unit]
    if not (1 <= number <= COUNT_MAX and 1 <= period_us // max(number, 1) <= EVERY_MAX_US):
        remedy = "give at least one a day, and at most a million a second"
        raise UsageError(field, value, "is out of range", remedy)
    burst = number if burst_text is None else int(burst_text)
    if not 1 <= burst <= BURST_MAX:
        remedy = f"say how many may begin at once: 'burst 1' to 'burst {BURST_MAX}'"
        raise UsageError(field, value, "is out of range", remedy)
    return Rate(number, period_us, burst)


def take_turns(rate: Rate, next_at: int, now: int, count: int) -> Turns:
    """Give turns to so many that come now, in order. `next_at` is 0 if nobody has come before."""
    every_us, allowance_us = rate.every_us, (rate.burst - 1) * rate.every_us
    at: list[int] = []
    for _ in range(count):
        even_at = max(next_at, now)
        at.append(max(now, even_at - allowance_us))
        next_at = even_at + every_us
    return Turns(tuple(at), next_at)
