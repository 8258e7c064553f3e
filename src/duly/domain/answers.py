"""Answers: what a task may return to say that it is not done, besides a result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.domain.durations import duration_microseconds
from duly.errors import UsageError, require_text

if TYPE_CHECKING:
    from datetime import timedelta

REASON_LENGTH_MAX = 2_000
AFTER_MIN_US = 1_000_000
"""Who asks for less is given this: "at once", at no cost, would be a circle at full speed."""
AFTER_MAX_US = 366 * 86_400 * 1_000_000


@dataclass(frozen=True, slots=True)
class Snooze:
    """Run me again later; this try costs nothing of my budget."""

    after_us: int


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Try me again, after this wait or my backoff; this try counts."""

    after_us: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """There is no point in trying again: the run has failed."""

    reason: str


def snooze(delay: str | timedelta) -> Snooze:
    """Return this from a task to be run again after a delay, at no cost of its budget.

    A delay below a second is raised to one: what was worked out as zero is no reason to fail.
    """
    return Snooze(_after(delay))


def retry(delay: str | timedelta | None = None, reason: str = "asked for") -> TryAgain:
    """Return this from a task to be tried again: after a delay (1s at least), or by the backoff."""
    require_text("reason", reason, REASON_LENGTH_MAX)
    return TryAgain(None if delay is None else _after(delay), reason)


def give_up(reason: str) -> GiveUp:
    """Return this from a task that can't succeed, however often it is tried."""
    require_text("reason", reason, REASON_LENGTH_MAX)
    return GiveUp(reason)


def _after(delay: str | timedelta) -> int:
    after_us = duration_microseconds(delay, "delay")
    if not 0 <= after_us <= AFTER_MAX_US:
        raise UsageError("delay", delay, "is out of range", "give a duration from 0s to 366d")
    return max(after_us, AFTER_MIN_US)
