"""The ledger of limits: what a breaker, a rate and a table of limits must say, by the documents.

Written from SPEC B2, B4, R8 and record 0031, and sharing nothing with shipped decisions: a breaker is
told of ends and goes, a rate keeps every instant at which something began.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from duly.domain.limits import LimitSource
from tests.simulation.recipe import MINUTE, SECOND
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.ids import RunId
    from duly.domain.limits import Limit, Rate

FAILURES = 10
WINDOW_US = 30 * SECOND
PAUSE_US = 5 * SECOND
PAUSE_MAX_US = 5 * MINUTE
LOOK_US = SECOND
PROBE_US = MINUTE
BACK_US = SECOND // 200
SLACK_SHARE = 2
"""One that is late by half of an interval does not shift the next, up to a second."""


@dataclass(eq=False, slots=True)
class BreakerNote:
    """One destination: whether it may be called, and by whom."""

    name: str
    is_open: bool = False
    since: int = 0
    answered: int = 0
    failed: int = 0
    retry_at: int = 0
    pause_us: int = 0
    probe: RunId | None = None
    probe_until: int = 0
    back_at: int = 0
    """The last turn that was given to somebody who waits for it."""

    def is_closed_to(self, run_id: RunId, now: int) -> bool:
        """Say whether an attempt must wait."""
        if not self.is_open or self.probe == run_id:
            return False
        return now < (self.retry_at if self.probe is None else self.probe_until)

    def go(self, run_id: RunId, now: int, probe_us: int) -> str:
        """Let an attempt go; while it is open only as a probe, alone."""
        if not self.is_open or self.probe == run_id:
            return "call"
        if self.is_closed_to(run_id, now):
            why = "open" if self.probe is None else "probed by another"
            raise Violation(f"INV-23: {self.name} was called while it was {why}")
        self.probe = run_id
        self.probe_until = now + max(SECOND, min(PROBE_US, probe_us))
        return "probe"

    def put_off(self, run_id: RunId, now: int, until: int) -> None:
        """Let an attempt wait: not without need, not too short, in a turn of its own."""
        if not self.is_closed_to(run_id, now):
            raise Violation(f"INV-23: an attempt was put off, and {self.name} may be called")
        least = self.retry_at if self.probe is None else now + LOOK_US
        if until != max(least, self.back_at + BACK_US):
            raise Violation(f"INV-23: who waits for {self.name} comes back out of turn")
        self.back_at = until

    def take_in(self, ends: Sequence[tuple[RunId, bool | None]], now: int) -> list[str]:
        """Judge by how attempts have ended that were told at once; return what that has done."""
        done: list[str] = []
        told: list[bool] = []
        for run_id, is_answered in ends:
            if self.is_open and self.probe == run_id:
                done.append(self._end_probe(now, is_answered=is_answered))
            elif is_answered is not None:
                told.append(is_answered)
        return done if self.is_open or not told else [*done, *self._count(told, now)]

    def _count(self, told: Sequence[bool], now: int) -> list[str]:
        if now - self.since >= WINDOW_US:
            self.since, self.answered, self.failed = now, 0, 0
        self.answered += sum(told)
        self.failed += len(told) - sum(told)
        if self.failed < FAILURES or self.failed < self.answered:
            return []
        self._open(now, PAUSE_US)
        return ["breakers opened"]

    def _end_probe(self, now: int, *, is_answered: bool | None) -> str:
        self.probe = None
        if is_answered is None:
            self.retry_at = now
            return "probes that told nothing"
        if is_answered:
            self.reset(now)
            return "probes succeeded"
        self._open(now, min(self.pause_us * 2, PAUSE_MAX_US))
        return "probes failed"

    def _open(self, now: int, pause_us: int) -> None:
        self.is_open, self.pause_us, self.retry_at = True, pause_us, now + pause_us

    def reset(self, now: int) -> None:
        """Take it for well."""
        self.is_open, self.probe = False, None
        self.since, self.answered, self.failed = now, 0, 0


@dataclass(eq=False, slots=True)
class RateNote:
    """One rate, since it was last changed: when something began."""

    rate: Rate
    began: list[int] = field(default_factory=list)

    def has_room(self, now: int) -> bool:
        """Say whether one more keeps to it: the burst, and one for each share of any while."""
        every_us = -(-self.rate.period_us // self.rate.times)
        slack_us = min(SECOND, every_us // SLACK_SHARE)
        count = len(self.began)
        return all(
            count - number + 1 <= self.rate.burst + (now - at + slack_us) // every_us
            for number, at in enumerate(self.began)
        )

    def go(self, place: str, now: int) -> None:
        """Let one begin."""
        if not self.has_room(now):
            raise Violation(f"INV-23: more began at {place} than {self.rate.text} allows")
        self.began.append(now)


class LimitTable:
    """What is said about limits: by people and, where they say nothing, by code."""

    def __init__(self) -> None:
        self.said: dict[tuple[str, LimitSource], Limit] = {}

    def say(self, scope: str, source: LimitSource, limit: Limit | None) -> None:
        """Take over what somebody says."""
        if limit is None:
            self.said.pop((scope, source), None)
        else:
            self.said[scope, source] = limit

    def running(self, scope: str) -> int | None:
        """Return how many may be there at once."""
        return next((one.running for one in self._words(scope) if one.running is not None), None)

    def rate(self, scope: str) -> Rate | None:
        """Return how many may begin in a while."""
        return next((one.rate for one in self._words(scope) if one.rate is not None), None)

    def running_by(self, scope: str) -> dict[str, int]:
        """Return how many may be there at once with one value of a parameter."""
        words = [dict(one.running_by) for one in reversed(self._words(scope))]
        return {name: most for word in words for name, most in word.items()}

    def is_of_code(self, scope: str) -> bool:
        """Say whether the code says anything of it."""
        return (scope, LimitSource.CODE) in self.said

    def _words(self, scope: str) -> list[Limit]:
        keys = ((scope, LimitSource.PERSON), (scope, LimitSource.CODE))
        return [self.said[key] for key in keys if key in self.said]
