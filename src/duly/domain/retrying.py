"""Retrying: how many attempts a run has, and how long it waits between them (B1).

The wait is drawn from the run's id and the number of the try, so that whoever decides it, a worker
or the one that files what a dead worker left, comes to the same instant.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, cast

from duly.domain.durations import duration_microseconds, duration_text
from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from duly.domain.identity import RunId

ATTEMPTS_DEFAULT = 5
ATTEMPTS_MAX = 1_000
BASE_DEFAULT = "10s"
CAP_DEFAULT = "1h"
CAP_MAX_US = 30 * 86_400 * 1_000_000
PER_MINUTE_MAX = 1_000_000
_DOUBLINGS_MAX = 40
_MINUTE_US = 60 * 1_000_000
_DRAW_BYTES = 7


@dataclass(frozen=True, slots=True, init=False)
class Retry:
    """A task's budget of attempts, and its backoff: full jitter under a doubling bound, capped."""

    attempts: int
    base_us: int
    cap_us: int
    errors: tuple[str, ...] | None
    """Names of the exceptions that are tried again, by class name; None for all."""
    per_minute: int | None
    """At most this many retries of all runs of the task in a minute; more come later."""

    def __init__(  # noqa: PLR0913 - each has a default that is right for most
        self,
        attempts: int = ATTEMPTS_DEFAULT,
        *,
        base: str | timedelta = BASE_DEFAULT,
        cap: str | timedelta = CAP_DEFAULT,
        on: Sequence[type[BaseException] | str] | None = None,
        per_minute: int | None = None,
    ) -> None:
        """Take how many attempts in all (1: no retry), the bounds of the wait, and which errors.

        After the n-th attempt a run waits a random time below `base` x 2^(n-1), at most `cap`. `on`
        names the exceptions (or their base classes) that are worth another try, by the name of the
        class alone; a group of exceptions is worth it when each one in it is.
        """
        set_field = object.__setattr__
        set_field(self, "attempts", _whole("attempts", attempts, ATTEMPTS_MAX))
        set_field(self, "base_us", duration_microseconds(base, "base"))
        set_field(self, "cap_us", duration_microseconds(cap, "cap"))
        set_field(self, "errors", None if on is None else tuple(_error_name(one) for one in on))
        rate = None if per_minute is None else _whole("per_minute", per_minute, PER_MINUTE_MAX)
        set_field(self, "per_minute", rate)
        if not 0 <= self.base_us <= self.cap_us <= CAP_MAX_US:
            remedy = "give 0 <= base <= cap <= 30d, such as base='10s', cap='1h'"
            raise UsageError("retry", (base, cap), "are waits that contradict each other", remedy)

    @property
    def spacing_us(self) -> int:
        """How far apart the task's retries lie at its budget's rate; 0 for no budget."""
        return 0 if self.per_minute is None else _MINUTE_US // self.per_minute

    def delay_us(self, run: RunId, number: int) -> int:
        """Return how long to wait after a run's n-th charged attempt: uniform up to the bound."""
        assert number >= 1, "the first wait comes after the first attempt"
        bound = min(self.cap_us, self.base_us << min(number - 1, _DOUBLINGS_MAX))
        seed = run + number.to_bytes(4)
        draw = blake2b(seed, digest_size=_DRAW_BYTES, person=b"duly.backoff").digest()
        return int.from_bytes(draw) * bound >> 8 * _DRAW_BYTES

    def is_worth(self, error: BaseException) -> bool:
        """Say whether an exception is tried again: by its class, or if all that it groups are."""
        return self.errors is None or all(self._names(leaf) for leaf in leaves_of(error))

    def _names(self, error: BaseException) -> bool:
        return any(one.__name__ in (self.errors or ()) for one in type(error).__mro__)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values that `read_retry` reads back."""
        return {
            "attempts": self.attempts,
            "base": duration_text(self.base_us),
            "cap": duration_text(self.cap_us),
            "on": None if self.errors is None else list(self.errors),
            "per_minute": self.per_minute,
        }


def leaves_of(error: BaseException) -> list[BaseException]:
    """Return what an exception group holds, groups within it opened; any other as it is."""
    leaves: list[BaseException] = []
    left = [error]
    while left:
        one = left.pop()
        # By its type: what a class of the task's own says about itself is not asked.
        if issubclass(type(one), BaseExceptionGroup):
            left += cast("BaseExceptionGroup[BaseException]", one).exceptions
        else:
            leaves.append(one)
    return leaves


def read_retry(value: object) -> Retry:
    """Read a budget as people give it: a number of attempts, a Retry, or the parts of one."""
    if isinstance(value, Retry):
        return value
    if isinstance(value, dict):
        unknown = sorted(str(key) for key in value if key not in _KEYS)
        if unknown:
            raise UsageError("retry", unknown[0], "is not a part of it", f"use {', '.join(_KEYS)}")
        return Retry(**value)
    if isinstance(value, int) and not isinstance(value, bool):
        return Retry(value)
    remedy = "give a number of attempts, or duly.Retry(attempts=5, base='10s', cap='1h')"
    raise UsageError("retry", value, "is not a budget of attempts", remedy)


def stored_retry(stored: Mapping[str, Any]) -> Retry:
    """Read a budget from what `to_json` returned; what another release has added is passed over."""
    return Retry(**{key: stored[key] for key in _KEYS if key in stored})


_KEYS = ("attempts", "base", "cap", "on", "per_minute")


def _error_name(error: object) -> str:
    if isinstance(error, str) and error.isidentifier():
        return error
    if isinstance(error, type) and issubclass(error, BaseException):
        return error.__name__
    remedy = "give exception classes, such as on=(TimeoutError, ConnectionError)"
    raise UsageError("on", error, "is not an exception class", remedy)


def _whole(field: str, value: object, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        remedy = f"give a whole number, 1 to {most:,}"
        raise UsageError(field, value, "is not such a number", remedy)
    return value
