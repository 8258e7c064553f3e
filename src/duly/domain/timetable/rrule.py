"""Recurrence rules (RFC 5545) in a zone: DTSTART, a rule, and where COUNT or UNTIL end it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from duly.domain.instants import (
    DAY,
    EPOCH,
    LAST_DAY,
    SECOND_US,
    to_microseconds,
    wall_datetime,
    wall_seconds,
)
from duly.domain.local_time import REACH
from duly.domain.timetable.rrule_limit import Counting, CountOfInstants, UntilInstant
from duly.domain.timetable.rrule_rule import compile_rrule
from duly.domain.timetable.rrule_text import TEXT_LENGTH_MAX, RRuleParts, read_rrule
from duly.domain.timetable.timetable import Zoned
from duly.domain.zones.database import default_zones
from duly.errors import UsageError, require_text

if TYPE_CHECKING:
    from duly.domain.local_time import Fold, Gap, WallRule

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
        from duly.domain.timetable.describe_rrule import describe_rrule

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
        counting = Counting(self._start, horizon, local.count, local.first_from, instants_max)
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
