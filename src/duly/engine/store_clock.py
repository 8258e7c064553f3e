"""Estimates the store's clock from its answers; detects skew and steps.

The store alone decides what is due. The estimate only says when asking makes sense.

Each answer that carries the store's time gives a sample after Cristian: the store wrote it between
two readings of the local monotonic clock, so half their distance bounds the error. `ClockSync`
uses the best of the last few samples, widened by the drift of a quartz since then. Setting the
local wall clock does not affect the estimate.

`ClockSync` stops the firing in two cases, late rather than early: the local wall clock and the
store's clock disagree in several samples in a row, or the store's clock has jumped.

`StoreTime` is the worker's estimate, without these checks. Other threads read it without a lock.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.clock import Clock
    from duly.engine.dispatcher.settings import DispatcherSettings


_MILLION = 1_000_000


class _Dated(Protocol):
    """An answer of the store that says when it was given."""

    @property
    def now(self) -> int: ...


AnswerT = TypeVar("AnswerT", bound=_Dated)


@dataclass(frozen=True, slots=True)
class Sample:
    """What one answer tells: store's now less monotonic, and how wrong that may be."""

    offset_us: int
    error_us: int
    at: int
    """When, on the monotonic clock."""


class ClockSync:
    """An estimate of the store's clock, kept up by every dated answer."""

    def __init__(self, clock: Clock, settings: DispatcherSettings) -> None:
        self._clock = clock
        self._settings = settings
        self._samples: deque[Sample] = deque(maxlen=settings.clock_samples)
        self._best: Sample | None = None
        self._disagreeing = 0
        self._agreeing = 0
        self.is_skewed = False
        self.skew_us = 0
        """How far our wall clock is ahead of the store's, in the last sample that could tell."""
        self.held_until = 0
        """After a step of the store's clock nothing is fired before this, by the monotonic one."""
        self._step_us: int | None = None

    def ask(self, call: Callable[[], AnswerT]) -> AnswerT:
        """Make a call to the store and learn from the date of its answer."""
        before = self._clock.monotonic_us()
        answer = call()
        self.hear(before, answer.now)
        return answer

    def hear(self, before: int, store_now: int) -> None:
        """Learn that the store's clock showed `store_now` at some time since `before`."""
        after = self._clock.monotonic_us()
        wall = self._clock.now_us()
        error = (after - before + 1) // 2
        sample = Sample(store_now - (before + after) // 2, error, after)
        self._judge_step(sample)
        self._samples.append(sample)
        # All samples age alike: which of them is best changes with a new one alone.
        self._best = min(self._samples, key=self._staleness)
        self._judge_skew(wall - store_now - error, error)

    def is_contradicted(self, before: int, store_now: int) -> bool:
        """Say whether by our estimate the store's clock can't have shown this since `before`."""
        best, after = self._trusted(), self._clock.monotonic_us()
        latest = after + best.offset_us + self._error(best, after)
        return not self.floor_now(before) <= store_now <= latest

    def floor_now(self, monotonic: int) -> int:
        """Return an instant that the store's clock has surely reached."""
        best = self._trusted()
        return monotonic + best.offset_us - self._error(best, monotonic)

    def reached_at(self, instant: int, monotonic: int) -> int:
        """Return when, on the monotonic clock, the store's clock has surely reached an instant."""
        best = self._trusted()
        wait = instant - best.offset_us - best.at + best.error_us
        # The error grows while we wait, and the wait with it.
        drifting = _MILLION - self._settings.drift_ppm
        return best.at + (wait if wait <= 0 else -(-wait * _MILLION // drifting) + 1)

    def is_held(self, monotonic: int) -> bool:
        """Say whether a step of the store's clock still keeps us from firing."""
        return monotonic < self.held_until

    def take_step(self) -> int | None:
        """Return by how much the store's clock has jumped, once for each jump."""
        step, self._step_us = self._step_us, None
        return step

    def forget(self) -> None:
        """Start anew, as after joining again; what was said about skew stays said."""
        self._samples.clear()
        self._best = None

    def _judge_step(self, sample: Sample) -> None:
        """Give up earlier samples that can't be true any more; wait if that is a jump."""
        if not self._samples:
            return
        best = self._trusted()
        apart = sample.offset_us - best.offset_us
        distance = abs(apart) - sample.error_us - self._error(best, sample.at)
        if distance > 0:
            self._samples.clear()
        if distance > self._settings.step_max_us:
            self.held_until = sample.at + self._settings.step_hold_us
            self._step_us = apart

    def _judge_skew(self, skew_us: int, error_us: int) -> None:
        settings = self._settings
        if error_us > settings.skew_max_us:
            return  # too slow an answer to tell
        self.skew_us = skew_us
        is_apart = abs(skew_us) - error_us > settings.skew_max_us
        self._disagreeing = self._disagreeing + 1 if is_apart else 0
        self._agreeing = 0 if is_apart else self._agreeing + 1
        if self._disagreeing >= settings.skew_samples:
            self.is_skewed = True
        elif self._agreeing >= settings.skew_samples:
            self.is_skewed = False

    def _trusted(self) -> Sample:
        assert self._best is not None, "a member has heard from the store"
        return self._best

    def _staleness(self, sample: Sample) -> int:
        return sample.error_us * _MILLION - sample.at * self._settings.drift_ppm

    def _error(self, sample: Sample, monotonic: int) -> int:
        age = max(0, monotonic - sample.at)
        return sample.error_us - (-age * self._settings.drift_ppm // _MILLION)


DRIFT_PPM = 100
"""How fast a good quartz may drift; a sample is trusted less the older it is."""


class StoreTime:
    """An estimate of the store's clock, kept up by every dated answer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # One value that is replaced as a whole: other threads read it without a lock.
        self._sample = (clock.now_us() - clock.monotonic_us(), -1, 0)

    def hear(self, before: int, store_now: int) -> None:
        """Learn that the store's clock showed `store_now` at some time since `before`."""
        after = self._clock.monotonic_us()
        error = (after - before + 1) // 2
        offset = store_now - (before + after) // 2
        old, old_error, at = self._sample
        widened = old_error + (after - at) * DRIFT_PPM // _MILLION
        is_first = old_error < 0
        if is_first or error <= widened or abs(offset - old) > error + widened:
            self._sample = (offset, error, after)

    def now(self) -> int:
        """Return the store's clock; before anything was heard, our own."""
        return self.at(self._clock.monotonic_us())

    def skew_us(self) -> int:
        """Return how far our wall clock is ahead of the store's; before any answer, 0."""
        return self._clock.now_us() - self.now()

    def at(self, monotonic: int) -> int:
        """Return what the store's clock showed at an instant of our monotonic clock."""
        return monotonic + self._sample[0]
