"""Single dates: an instant, a wall time in a zone, or a delay after an event."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

from duly.errors import UsageError, require_text
from duly.timetable.instants import (
    DAY,
    FIRST_DAY,
    LAST_DAY,
    duration_microseconds,
    duration_text,
    duration_words,
    to_microseconds,
    wall_seconds,
)
from duly.timetable.interval import FIRST_INSTANT, LAST_INSTANT
from duly.timetable.phrases import spoken
from duly.timetable.timetable import Timetable, Zoned

if TYPE_CHECKING:
    from duly.timetable.local_time import Fold, Gap, WallRule
    from duly.timetable.zones import ZoneDatabase

MOMENT_LENGTH_MAX = 40
_REMEDY = "give an ISO time such as '2026-04-03T09:00+02:00', or '2026-04-03T09:00' with tz"


@dataclass(frozen=True, slots=True)
class SingleInstant(Timetable):
    """One instant, and never again."""

    instant: int = field(init=False, compare=False, repr=False)

    def first_from(self, instant: int) -> int | None:
        """Return the instant if it is not over."""
        return self.instant if instant <= self.instant else None

    def last_until(self, instant: int) -> int | None:
        """Return the instant if it has come."""
        return self.instant if instant >= self.instant else None

    def under(self, zones: ZoneDatabase) -> Self:
        """Return itself: an instant is the same everywhere."""
        return self


@dataclass(frozen=True, slots=True)
class Once(SingleInstant):
    """An instant that the person gave with its offset."""

    kind: ClassVar[str] = "at"
    when: datetime
    words: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Take the instant."""
        instant = to_microseconds(self.when, "when")
        if not FIRST_INSTANT <= instant <= LAST_INSTANT:
            _refuse_far(self.when)
        object.__setattr__(self, "instant", instant)

    def describe(self) -> str:
        """Say the date."""
        return f"once, on {spoken(self.when)}"

    def to_json(self) -> dict[str, Any]:
        """Return the date with its offset."""
        words = {"words": self.words} if self.words else {}
        return {"kind": self.kind, "when": self.when.isoformat(), **words}


@dataclass(frozen=True, slots=True)
class After(SingleInstant):
    """A delay after (or, if negative, before) an event."""

    kind: ClassVar[str] = "after"
    event: datetime
    delay: str | timedelta

    def __post_init__(self) -> None:
        """Add the delay to the event."""
        delay = duration_microseconds(self.delay, "delay")
        if isinstance(self.delay, timedelta):  # in words, like everything that is stored
            object.__setattr__(self, "delay", duration_text(delay))
        instant = to_microseconds(self.event, "event") + delay
        if not FIRST_INSTANT <= instant <= LAST_INSTANT:
            raise UsageError("delay", self.delay, "leads out of the calendar", "give a shorter one")
        object.__setattr__(self, "instant", instant)

    def describe(self) -> str:
        """Say the delay and the event."""
        delay = duration_microseconds(self.delay, "delay")
        word = "before" if delay < 0 else "after"
        return f"once, {duration_words(delay)} {word} {spoken(self.event)}"

    def to_json(self) -> dict[str, Any]:
        """Return the event and the delay, as they were given."""
        return {"kind": self.kind, "event": self.event.isoformat(), "delay": self.delay}


@dataclass(frozen=True, slots=True, kw_only=True)
class OnceLocal(Zoned):
    """A wall time in a zone, once."""

    kind: ClassVar[str] = "at"
    when: datetime

    def _compiled(self) -> WallRule:
        if self.when.tzinfo is not None or self.when.microsecond:
            raise UsageError("when", self.when.isoformat(), "is not a wall time", _REMEDY)
        wall = wall_seconds(self.when)
        if not FIRST_DAY * DAY <= wall < (LAST_DAY + 1) * DAY:
            _refuse_far(self.when)
        return OneWall(wall)

    def describe(self) -> str:
        """Say the date and the zone."""
        return f"once, on {self.when:%Y-%m-%d at %H:%M:%S}".removesuffix(":00") + f" ({self.tz})"

    def to_json(self) -> dict[str, Any]:
        """Return the wall time, zone and policies."""
        return self._stored(when=self.when.isoformat())


@dataclass(frozen=True, slots=True)
class OneWall:
    """A wall rule with one member."""

    wall: int

    def at_or_after(self, wall: int) -> int | None:
        """Return the member if it is not before `wall`."""
        return self.wall if wall <= self.wall else None

    def at_or_before(self, wall: int) -> int | None:
        """Return the member if it is not after `wall`."""
        return self.wall if wall >= self.wall else None

    def count(self, start: int, end: int) -> int:
        """Return 1 if the member lies in [start, end)."""
        return int(start <= self.wall < end)


def at(
    when: datetime | str, tz: str | None = None, gap: Gap = "next", fold: Fold = "first"
) -> Once | OnceLocal:
    """Make a timetable of one date: an instant with its offset, or a wall time in `tz`."""
    moment = _moment(when)
    if moment.tzinfo is not None:
        if tz is not None:
            raise UsageError(
                "tz", tz, "is given beside an offset", "give a wall time, or leave tz out"
            )
        return Once(moment)
    if tz is None:
        raise UsageError("when", when, "has no time zone", _REMEDY)
    if moment.fold and fold == "first":  # a datetime can say which of the two it means
        moment, fold = moment.replace(fold=0), "second"
    return OnceLocal(when=moment, tz=tz, gap=gap, fold=fold)


def after(event: datetime, delay: str | timedelta) -> After:
    """Make a timetable of one instant: a delay after an event, or before it if it is negative."""
    return After(event, delay)


def _refuse_far(when: datetime) -> NoReturn:
    remedy = "give a date from 0001-01-03 to 9999-12-29"
    raise UsageError("when", when.isoformat(), "is at the end of the calendar", remedy)


def _moment(when: datetime | str) -> datetime:
    if isinstance(when, datetime):
        return when
    require_text("when", when, MOMENT_LENGTH_MAX)
    try:
        return datetime.fromisoformat(when)
    except ValueError as error:
        raise UsageError("when", when, "is not a time", _REMEDY) from error
