"""Rates: so many in a while, and no more; what comes too soon is told when its turn is (B4).

What is put off becomes a timer at its turn, so that it blocks nothing behind it. Turns that were
given out, and those that have begun, are each remembered as one instant: when the next would come
if all had come evenly. Who comes back at its turn has to conform once more with those that have
begun: when many come late, because of an outage, they do not all begin at once.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from duly.domain.durations import UNITS_US, duration_text
from duly.domain.instants import DAY, SECOND_US
from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

COUNT_MAX = 1_000_000
BURST_MAX = 100_000
EVERY_MAX_US = DAY * SECOND_US
LENGTH_MAX = 50
SLACK_US = SECOND_US
"""How late one may come at its turn and begin beside the next: workers take runs in batches."""
_RATE = re.compile(r"([0-9]{1,7}) ?/ ?([0-9]{1,5})? ?(ms|s|m|h|d)(?: burst ([0-9]{1,6}))?")


class Rate(NamedTuple):
    """How many may begin in how long, and how many of them at once after a quiet time."""

    times: int
    period_us: int
    burst: int

    @property
    def every_us(self) -> int:
        """How far apart they lie when they come evenly."""
        return -(-self.period_us // self.times)

    @property
    def text(self) -> str:
        """Write it as it is read: "100/1m burst 10"."""
        return f"{self.times}/{duration_text(self.period_us)} burst {self.burst}"


class Pace(NamedTuple):
    """What is remembered of a rate: three instants, 0 while nobody has come."""

    promised_at: int = 0
    """When the turn after the last that was given out would be."""
    begun_at: int = 0
    """When the next would begin after the last that has begun."""
    again_at: int = 0
    """The turn after the last of those that came back at theirs and could not begin."""


class Turn(NamedTuple):
    """When one that comes may begin, and the paces as they are then."""

    at: int
    """Now or earlier, if it begins."""
    paces: tuple[Pace, ...]


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


def take_turn(rates: Sequence[tuple[Rate, Pace]], given_at: int | None, now: int) -> Turn:
    """Give a turn, at all of its rates, to one that comes; `given_at` was its turn if it had one.

    It begins if that is not later than now. In any while there begin no more than the burst and one
    for each share of the while and of SLACK_US.
    """
    begins_at = max(_earliest(rate, pace.begun_at, now, SLACK_US) for rate, pace in rates)
    if given_at is None:
        promised_at = max(_earliest(rate, pace.promised_at, now) for rate, pace in rates)
        at = max(promised_at, begins_at)
        return Turn(
            at, tuple(_promised(rate, pace, now, is_begun=at <= now) for rate, pace in rates)
        )
    if given_at > now:
        return Turn(given_at, tuple(pace for _, pace in rates))
    if begins_at <= now:
        return Turn(now, tuple(_begun(rate, pace, now) for rate, pace in rates))
    at = max(begins_at, *(pace.again_at for _, pace in rates))
    return Turn(at, tuple(pace._replace(again_at=at + rate.every_us) for rate, pace in rates))


def spread_turns(rate: Rate | None, count: int, now: int) -> tuple[list[int], Pace]:
    """Give turns anew to so many that wait, because the rate has changed or is none any more."""
    if rate is None:
        return [now] * count, Pace()
    allowance_us = (rate.burst - 1) * rate.every_us
    at = [max(now, now + number * rate.every_us - allowance_us) for number in range(count)]
    return at, Pace(promised_at=now + count * rate.every_us)


def _earliest(rate: Rate, even_at: int, now: int, slack_us: int = 0) -> int:
    return max(now, even_at - (rate.burst - 1) * rate.every_us - slack_us)


def _promised(rate: Rate, pace: Pace, now: int, *, is_begun: bool) -> Pace:
    promised = pace._replace(promised_at=max(pace.promised_at, now) + rate.every_us)
    return _begun(rate, promised, now) if is_begun else promised


def _begun(rate: Rate, pace: Pace, now: int) -> Pace:
    return pace._replace(begun_at=max(pace.begun_at, now) + rate.every_us)
