"""What every timetable can do, and what timetables of wall times in a zone share.

A timetable is an immutable value: the person's own words (expression, zone, policies) and what was
compiled from them. It knows no clock. Internal instants are microseconds since 1970. A zone's rules
come from the database with which the timetable was made, so that the same value can be evaluated
under another release.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Self

from duly.errors import UsageError
from duly.timetable.day_sets import DaysAndTimes
from duly.timetable.instants import (
    DAY,
    EPOCH,
    LAST_DAY,
    SECOND_US,
    from_microseconds,
    from_seconds,
    to_microseconds,
)
from duly.timetable.local_time import Fold, Gap, LocalRule, WallRule, check_policies
from duly.timetable.zones import ZoneDatabase, default_zones

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.timetable.business_calendar import BusinessCalendar

    Calendar = BusinessCalendar | str | tuple[str, str] | None

UPCOMING_MAX = 10_000
END_OF_DAYS = (LAST_DAY + 1) * DAY


def check_size(n: int) -> None:
    """Refuse a list without bounds."""
    if not isinstance(n, int) or isinstance(n, bool) or not 0 <= n <= UPCOMING_MAX:
        raise UsageError("n", n, "is out of range", f"ask for 0 to {UPCOMING_MAX} occurrences")


class Timetable(ABC):
    """A rule that says when: a pure function from an instant to the next instant."""

    __slots__ = ()
    kind: ClassVar[str]

    def next(self, after: datetime) -> datetime | None:
        """Return the first occurrence strictly later than `after`, aware UTC, or None."""
        found = self.first_from(to_microseconds(after) + 1)
        return None if found is None else from_microseconds(found)

    def previous(self, before: datetime) -> datetime | None:
        """Return the last occurrence strictly earlier than `before`, aware UTC, or None."""
        found = self.last_until(to_microseconds(before, "before") - 1)
        return None if found is None else from_microseconds(found)

    def upcoming(self, after: datetime, n: int) -> list[datetime]:
        """Return the next `n` occurrences after `after`; fewer if there are no more."""
        check_size(n)
        occurrences: list[datetime] = []
        last = to_microseconds(after)
        while len(occurrences) < n and (found := self.first_from(last + 1)) is not None:
            occurrences.append(from_microseconds(found))
            last = found
        return occurrences

    @abstractmethod
    def first_from(self, instant: int) -> int | None:
        """Return the first occurrence not before an instant, in microseconds since 1970."""

    @abstractmethod
    def last_until(self, instant: int) -> int | None:
        """Return the last occurrence not after an instant, in microseconds since 1970."""

    @abstractmethod
    def describe(self) -> str:
        """Say in words when this fires: "every weekday at 09:00 (Europe/Paris)"."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return what the person said, as JSON values that `timetable_from_json` reads back."""

    @abstractmethod
    def under(self, zones: ZoneDatabase) -> Self:
        """Return the same timetable, read under another release of the time-zone database."""

    def __or__(self, other: Timetable) -> Timetable:
        """Combine: `a | b` fires whenever either does, and once where both do."""
        from duly.timetable.combinators import union

        return union(self, other)

    def excluding(self, *others: Timetable | date | str, tz: str | None = None) -> Timetable:
        """Leave out other timetables' occurrences, or whole days (of `tz`, or its own zone)."""
        from duly.timetable.combinators import excluding

        return excluding(self, others, tz)

    def on_business_days(self, calendar: Calendar = None, *, tz: str | None = None) -> Timetable:
        """Keep what falls on a business day of a calendar: None, "US", ("DE", "BY"), one's own."""
        from duly.timetable.business_calendar import read_calendar
        from duly.timetable.combinators import OnBusinessDays, own_zone

        return OnBusinessDays(self, own_zone(self, tz), read_calendar(calendar))

    def between(
        self,
        start: datetime | date | str | None,
        end: datetime | date | str | None,
        *,
        tz: str | None = None,
    ) -> Timetable:
        """Limit it to a validity, both ends included; None leaves a side open.

        Bounds are aware datetimes, or dates (of `tz`, or its own zone), which count as whole days.
        """
        from duly.timetable.combinators import between, zone_of

        return between(self, start, end, tz or zone_of(self))

    def limited(self, n: int, *, start: datetime) -> Timetable:
        """Limit it to the first `n` occurrences that are not before `start`."""
        from duly.timetable.combinators import Limited

        return Limited(self, n, start)

    def __reduce__(self) -> tuple[partial[Self], tuple[()]]:
        """Copy and pickle the person's words; what was compiled from them is compiled again."""
        given = {one.name: getattr(self, one.name) for one in fields(self) if one.init}  # type: ignore[arg-type]
        return partial(type(self), **given), ()

    def __str__(self) -> str:
        """Describe it."""
        return self.describe()


@dataclass(frozen=True, slots=True, kw_only=True)
class Zoned(Timetable):
    """A rule about wall times in a zone, with policies for those that are missing or doubled."""

    tz: str = "UTC"
    gap: Gap = "next"
    fold: Fold = "first"
    words: str | None = field(default=None, compare=False)
    zones: ZoneDatabase = field(default_factory=default_zones, compare=False, repr=False)
    local: LocalRule = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Check the policies, find the zone, compile the rule."""
        check_policies(self.gap, self.fold)
        zone = self.zones.zone(self.tz)
        local = LocalRule(self._compiled(), zone, *self._effective_policies())
        object.__setattr__(self, "local", local)

    @abstractmethod
    def _compiled(self) -> WallRule:
        """Return the wall rule; refuse what can't be read."""

    def _effective_policies(self) -> tuple[Gap, Fold]:
        return self.gap, self.fold

    def next(self, after: datetime) -> datetime | None:
        """Return the first occurrence strictly later than `after`, aware UTC, or None."""
        # The hot path of every dispatcher: whole seconds throughout, no microseconds in between.
        try:
            since = after - EPOCH
        except TypeError:
            to_microseconds(after)  # raises the error that explains it
            raise
        second = since.days * DAY + since.seconds + 1
        found = self.local.first_from(second)
        if found is None:
            return None
        return datetime.fromtimestamp(found, UTC) if found > 0 else from_seconds(found)

    def upcoming(self, after: datetime, n: int) -> list[datetime]:
        """Return the next `n` occurrences after `after`; fewer if there are no more."""
        check_size(n)
        occurrences: list[datetime] = []
        found = self.next(after)
        while found is not None and len(occurrences) < n:
            occurrences.append(found)
            occurrences += islice(self._following(found), n - len(occurrences))
            found = self.next(occurrences[-1])
        return occurrences

    def _following(self, occurrence: datetime) -> Iterator[datetime]:
        """Yield what follows while no policy has a say: there, it takes only a subtraction."""
        rule, zone = self.local.walls, self.local.zone
        second = to_microseconds(occurrence) // SECOND_US
        segment = zone.segment(second)
        reached = second + segment.offset
        is_plain = segment.plain_from <= reached < segment.plain_until
        if not is_plain or not isinstance(rule, DaysAndTimes):
            return
        moment = datetime.fromtimestamp
        for wall in rule.members(reached + 1, END_OF_DAYS):
            if not segment.plain_from <= wall < segment.plain_until:
                segment = zone.segment(wall - segment.offset)
                if not segment.plain_from <= wall < segment.plain_until:
                    return
            second = wall - segment.offset
            yield moment(second, UTC) if second > 0 else from_seconds(second)

    def first_from(self, instant: int) -> int | None:
        """Return the first occurrence not before an instant, in microseconds since 1970."""
        second = -(-instant // SECOND_US)
        found = self.local.first_from(second)
        return None if found is None else found * SECOND_US

    def last_until(self, instant: int) -> int | None:
        """Return the last occurrence not after an instant, in microseconds since 1970."""
        second = instant // SECOND_US
        found = self.local.last_until(second)
        return None if found is None else found * SECOND_US

    def count(self, start: int, end: int) -> int:
        """Return how many occurrences lie in [start, end), in microseconds since 1970."""
        return self.local.count(-(-start // SECOND_US), -(-end // SECOND_US))

    def under(self, zones: ZoneDatabase) -> Self:
        """Return the same timetable, read under another release of the time-zone database."""
        return replace(self, zones=zones)

    def _stored(self, **own: object) -> dict[str, Any]:
        policies = {"tz": self.tz, "gap": self.gap, "fold": self.fold}
        words = {"words": self.words} if self.words else {}
        return {"kind": self.kind, **own, **policies, **words}
