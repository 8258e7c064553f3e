"""RRule: RFC 5545 rule with DTSTART, and where COUNT or UNTIL end it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from duly.errors import UsageError, require_text
from duly.timetable.instants import (
    DAY,
    EPOCH,
    LAST_DAY,
    SECOND_US,
    to_microseconds,
    wall_datetime,
    wall_seconds,
)
from duly.timetable.local_time import REACH
from duly.timetable.rrule_compiler import compile_rrule
from duly.timetable.rrule_parser import TEXT_LENGTH_MAX, RRuleParts, read_rrule
from duly.timetable.timetable import Zoned
from duly.timetable.zones import FOREVER, default_zones

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.timetable.local_time import Fold, Gap, WallRule


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
class CountLimit:
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

    def __init__(self, limit: int, counting: CountLimit) -> None:
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


DTSTART_LENGTH_MAX = 40
COUNTED_YEARS_MAX = 200
COUNTED_YEARS_BY_DAY_MAX = 40
"""COUNT is counted no further from DTSTART where that takes a step for every year, or day."""

_END = (LAST_DAY + 1) * DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class RRule(Zoned):
    """A recurrence rule that starts at a wall time in a zone."""

    kind: ClassVar[str] = "rrule"
    expression: str
    dtstart: datetime
    limit: CountOfInstants | UntilInstant | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Compile the rule and find out what ends it."""
        Zoned.__post_init__(self)
        object.__setattr__(self, "limit", self._limit())

    @property
    def parts(self) -> RRuleParts:
        """The rule, part by part."""
        return read_rrule(self.expression)

    def next(self, after: datetime) -> datetime | None:
        """Return the first occurrence strictly later than `after`, aware UTC, or None."""
        found = self._first_from(to_microseconds(after) // SECOND_US + 1)
        return None if found is None else EPOCH + timedelta(0, found)

    def first_from(self, instant: int) -> int | None:
        """Return the first occurrence not before an instant, in microseconds since 1970."""
        found = self._first_from(-(-instant // SECOND_US))
        return None if found is None else found * SECOND_US

    def last_until(self, instant: int) -> int | None:
        """Return the last occurrence not after an instant, in microseconds since 1970."""
        second = min(instant // SECOND_US, _END + REACH)
        second = second if self.limit is None else self.limit.clip(second)
        found = self.local.last_until(second)
        return None if found is None else found * SECOND_US

    def count(self, start: int, end: int) -> int:
        """Return how many occurrences lie in [start, end), in microseconds since 1970."""
        first, last = -(-start // SECOND_US), min(-(-end // SECOND_US) - 1, _END + REACH)
        last = last if self.limit is None else self.limit.clip(last)
        return self.local.count(max(first, self._start), last + 1)

    def describe(self) -> str:
        """Say in words when this fires."""
        from duly.timetable.description import describe_rrule

        return describe_rrule(self)

    def to_json(self) -> dict[str, Any]:
        """Return the expression, its start, zone and policies."""
        return self._stored(expression=self.expression, dtstart=self.dtstart.isoformat())

    def _compiled(self) -> WallRule:
        require_text("rrule", self.expression, TEXT_LENGTH_MAX)
        return compile_rrule(self.expression, self.dtstart)

    @property
    def _start(self) -> int:
        """An instant before which there is nothing."""
        return wall_seconds(self.dtstart) - REACH

    def _first_from(self, second: int) -> int | None:
        found = self.local.first_from(second)
        if found is None or self.limit is None or self.limit.clip(found) == found:
            return found
        return None

    def _limit(self) -> CountOfInstants | UntilInstant | None:
        parts = self.parts
        if parts.until is not None and parts.until.is_utc:
            return UntilInstant(parts.until.second)
        if parts.count is None:
            return None
        if parts.freq == "SECONDLY" and self.gap == "shift":
            # Each second of each gap would have to be looked at, to tell which ones fall together.
            remedy = "use gap='next' or 'skip', or end the rule by UNTIL"
            raise UsageError("gap", self.gap, "can't be counted with SECONDLY and COUNT", remedy)
        counts_by_day = compile_rrule(self.expression, self.dtstart).counts_by_day
        horizon = _END + REACH
        if counts_by_day:
            horizon = min(horizon, self._start + COUNTED_YEARS_BY_DAY_MAX * 366 * DAY)
        elif self.local.zone.changes_every_year:
            horizon = min(horizon, self._start + COUNTED_YEARS_MAX * 366 * DAY)

        def instants_max() -> int | None:
            # A fold can double a wall time, and no policy makes more of it.
            return None if counts_by_day else 2 * self.local.walls.count(self._start, _END)

        local = self.local
        counting = CountLimit(self._start, horizon, local.count, local.first_from, instants_max)
        return CountOfInstants(parts.count, counting)


def rrule(  # noqa: PLR0913 - a rule, its start, and three policies
    expression: str,
    *,
    dtstart: datetime | date | str,
    tz: str = "UTC",
    gap: Gap = "next",
    fold: Fold = "first",
) -> RRule:
    """Make a timetable of an RFC 5545 recurrence rule, such as `FREQ=MONTHLY;BYDAY=-1FR`.

    `dtstart` is a wall time in the zone, or a date for its midnight, or either as ISO text; an
    aware one is converted. It is an occurrence only if the rule matches it. COUNT counts real
    instants; UNTIL is included, as an instant if it ends in Z, else as a wall time or whole day.
    """
    start = read_dtstart(dtstart, tz)
    return RRule(expression=expression, dtstart=start, tz=tz, gap=gap, fold=fold)


def read_dtstart(dtstart: datetime | date | str, tz: str) -> datetime:
    """Return the start as a wall time in a zone, in whole seconds."""
    remedy = "give a datetime, a date, or text such as '2026-04-03T09:00' or '20260403T090000'"
    start: object = dtstart
    if isinstance(dtstart, str):
        require_text("dtstart", dtstart, DTSTART_LENGTH_MAX)
        try:
            start = datetime.fromisoformat(dtstart.strip())
        except ValueError as error:
            raise UsageError("dtstart", dtstart, "is not a date or time", remedy) from error
    if isinstance(start, date) and not isinstance(start, datetime):
        return datetime(start.year, start.month, start.day)  # noqa: DTZ001 - a wall time
    if not isinstance(start, datetime):
        raise UsageError("dtstart", dtstart, "is not a date or time", remedy)
    if start.microsecond:
        raise UsageError("dtstart", dtstart, "has fractions of a second", "give whole seconds")
    if start.tzinfo is None:
        return start.replace(fold=0)
    second = to_microseconds(start, "dtstart") // SECOND_US
    segment = default_zones().zone(tz).segment(second)
    if second + segment.offset < segment.floor:
        remedy = "give the wall time without a zone, and fold='second'"
        raise UsageError("dtstart", dtstart, "shows a wall time for the second time", remedy)
    try:
        return wall_datetime(second + segment.offset)
    except OverflowError as error:
        problem = f"lies outside the years 1 to 9999 in {tz}"
        raise UsageError("dtstart", dtstart, problem, "give a wall time without a zone") from error
