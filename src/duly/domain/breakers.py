"""Breakers: a destination that keeps failing is left alone, and tried again now and then (B2).

Closed, it counts what succeeds and fails. When enough has failed it opens: whatever is due there is
put off, without a worker's slot and without an attempt. When its pause is over the next that is due
goes as a probe, alone; if that succeeds the breaker closes, else it stays open for twice as long.
One row for the whole fleet, changed by who has looked at it last.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from duly.domain.instants import MINUTE, SECOND_US

if TYPE_CHECKING:
    from duly.domain.identity import RunId

WINDOW_US = 30 * SECOND_US
FAILURES_MIN = 10
"""Fewer failures than this open nothing, whatever their share."""
FAILED_SHARE_MIN = 0.5
PAUSE_FIRST_US = 5 * SECOND_US
PAUSE_MAX_US = 5 * MINUTE * SECOND_US
LOOK_US = SECOND_US
"""While a probe is under way, the others ask again after so long."""
BACK_EVERY_US = SECOND_US // 200
"""Who is put off comes back in a turn of its own: however many wait for a destination that is down,
they do not keep the fleet busy with asking, nor do they all call it at once when it is back."""


class BreakerState(StrEnum):
    """Whether attempts at a destination are made."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"
    """A probe is under way; everything else waits for its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """What is known of a destination."""

    state: BreakerState = BreakerState.CLOSED
    counted_from: int = 0
    succeeded: int = 0
    failed: int = 0
    opened_at: int | None = None
    """When it opened after having been closed."""
    retry_at: int | None = None
    """While open: when a probe may go. While half-open: when it is given up for lost."""
    pause_us: int = 0
    probe: RunId | None = None
    epoch: int = 0
    """Grows with every opening."""


class Pass(NamedTuple):
    """Whether an attempt may be made, and what that does to the breaker."""

    put_off_until: int | None
    """When to ask again at the earliest; None if it goes."""
    breaker: Breaker


def count(breaker: Breaker, succeeded: int, failed: int, now: int) -> Breaker:
    """Take in how attempts have ended that were no probe."""
    if breaker.state is not BreakerState.CLOSED:
        return breaker  # they began before it opened
    if now - breaker.counted_from >= WINDOW_US:
        breaker = replace(breaker, counted_from=now, succeeded=0, failed=0)
    counted = replace(
        breaker, succeeded=breaker.succeeded + succeeded, failed=breaker.failed + failed
    )
    total = counted.succeeded + counted.failed
    is_bad = counted.failed >= FAILURES_MIN and counted.failed >= total * FAILED_SHARE_MIN
    if not is_bad:
        return counted
    return _opened(replace(counted, opened_at=now), PAUSE_FIRST_US, now)


def ask(breaker: Breaker, run: RunId, now: int, probe_us: int) -> Pass:
    """Decide about an attempt that is due; a probe has so long before it is given up for lost."""
    if breaker.state is BreakerState.CLOSED or breaker.probe == run:
        return Pass(None, breaker)
    assert breaker.retry_at is not None, "who is not closed knows when to go on"
    if now < breaker.retry_at:
        is_probing = breaker.state is BreakerState.HALF_OPEN
        # A probe may take its time; the others look again soon, and not after all of that.
        return Pass(now + LOOK_US if is_probing else breaker.retry_at, breaker)
    probing = replace(
        breaker, state=BreakerState.HALF_OPEN, probe=run, retry_at=now + max(probe_us, SECOND_US)
    )
    return Pass(None, probing)


def probed(breaker: Breaker, run: RunId, now: int, *, is_success: bool | None) -> Breaker:
    """Take in how a probe has ended; None when it has told nothing, such as a cancelled one."""
    if breaker.state is not BreakerState.HALF_OPEN or breaker.probe != run:
        return breaker
    if is_success is None:
        return replace(breaker, state=BreakerState.OPEN, probe=None, retry_at=now)
    if is_success:
        return reset_of(breaker, now)
    return _opened(breaker, min(breaker.pause_us * 2, PAUSE_MAX_US), now)


def reset_of(breaker: Breaker, now: int) -> Breaker:
    """Take a destination for well, because a person says so."""
    return Breaker(counted_from=now, epoch=breaker.epoch)


def _opened(breaker: Breaker, pause_us: int, now: int) -> Breaker:
    return replace(
        breaker,
        state=BreakerState.OPEN,
        succeeded=0,
        failed=0,
        retry_at=now + pause_us,
        pause_us=pause_us,
        probe=None,
        epoch=breaker.epoch + 1,
    )
