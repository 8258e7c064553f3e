"""Where COUNT or UNTIL ends a rule; instants are counted no further than is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.domain.instants import DAY, wall_datetime
from duly.domain.zones.zone import FOREVER
from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_SPAN = 32 * DAY
WALKED_MAX = 500


class UntilInstant:
    """A fixed last instant."""

    def __init__(self, last: int) -> None:
        """End with an instant, in seconds since 1970."""
        self._last = last

    def clip(self, instant: int) -> int:
        """Return an instant, or the last one if that is earlier."""
        return min(instant, self._last)


@dataclass(frozen=True, slots=True)
class Counting:
    """How to count a rule's instants: from where, and up to where many at a time."""

    start: int
    horizon: int
    instants_in: Callable[[int, int], int]
    first_from: Callable[[int], int | None]
    instants_max: Callable[[], int | None]


class CountOfInstants:
    """The last instant of a rule that gives a number of instants.

    What was counted is remembered, so that a schedule which moves along with the time counts each
    stretch once. Threads may overwrite each other's memory: every value of it is true.
    """

    def __init__(self, limit: int, counting: Counting) -> None:
        """Start with nothing counted."""
        self._limit, self._counting = limit, counting
        self._reached = (counting.start, 0)
        self._last: int | None = None

    def clip(self, instant: int) -> int:
        """Return an instant, or the last one if that is earlier."""
        if self._last is None:
            self._count_to(instant + 1)
        return instant if self._last is None else min(instant, self._last)

    def _count_to(self, end: int) -> None:
        """Count on in growing spans, until the end or the limit comes."""
        start, counted = self._reached
        span = FIRST_SPAN
        while start < end:
            if start >= self._counting.horizon:
                self._walk_to(end)
                return
            stop = min(start + span, end, self._counting.horizon)
            found = self._counting.instants_in(start, stop)
            if counted + found >= self._limit:
                self._last = self._nth(self._limit - counted, start, stop)
                return
            start, counted = stop, counted + found
            self._reached = (start, counted)
            span *= 2

    def _walk_to(self, end: int) -> None:
        """Go on one by one beyond the horizon: a rule that is rare there is still counted."""
        start, counted = self._reached
        for _ in range(WALKED_MAX):
            found = self._counting.first_from(start)
            if found is None or found >= end:
                return
            start, counted = found + 1, counted + 1
            self._reached = (start, counted)
            if counted == self._limit:
                self._last = found
                return
        self._last = self._never()

    def _nth(self, number: int, start: int, stop: int) -> int:
        """Return the n-th instant in [start, stop), by halving."""
        while stop - start > 1:
            middle = (start + stop) // 2
            found = self._counting.instants_in(start, middle)
            if found >= number:
                stop = middle
            else:
                start, number = middle, number - found
        return start

    def _never(self) -> int:
        """Return the end of time for a limit that can't be reached; else refuse to count on."""
        most = self._counting.instants_max()
        if most is not None and most < self._limit:
            return FOREVER
        year = wall_datetime(self._counting.horizon).year
        problem = f"is not used up by the year {year}, and is not counted further"
        remedy = "end the rule by UNTIL, or ask about an earlier time"
        raise UsageError("COUNT", self._limit, problem, remedy)
