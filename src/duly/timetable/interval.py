"""Fixed intervals: every so many minutes of real time from an anchor, blind to wall clocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Self

from duly.errors import UsageError
from duly.timetable.instants import (
    DAY,
    EPOCH,
    FIRST_DAY,
    LAST_DAY,
    SECOND_US,
    UNIT_NAMES,
    UNITS_US,
    duration_microseconds,
    duration_text,
    to_microseconds,
)
from duly.timetable.phrases import plural, spoken
from duly.timetable.timetable import Timetable

if TYPE_CHECKING:
    from duly.timetable.zones import ZoneDatabase

PERIOD_MIN_US = 100_000
FIRST_INSTANT = FIRST_DAY * DAY * SECOND_US
LAST_INSTANT = (LAST_DAY + 1) * DAY * SECOND_US - 1


@dataclass(frozen=True, slots=True)
class Interval(Timetable):
    """Every `period` of real time: the instants that are whole periods away from the anchor."""

    kind: ClassVar[str] = "every"
    period: str | timedelta
    anchor: datetime = EPOCH
    words: str | None = field(default=None, compare=False)
    period_us: int = field(init=False, compare=False, repr=False)
    anchor_us: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Check the period and the anchor."""
        period = duration_microseconds(self.period, "every")
        if period < PERIOD_MIN_US:
            raise UsageError(
                "every", self.period, "is too short", "give a period of at least '100ms'"
            )
        if isinstance(self.period, timedelta):  # in words, like everything that is stored
            object.__setattr__(self, "period", duration_text(period))
        object.__setattr__(self, "period_us", period)
        object.__setattr__(self, "anchor_us", to_microseconds(self.anchor, "anchor"))

    def first_from(self, instant: int) -> int | None:
        """Round up to a whole number of periods."""
        instant = max(instant, FIRST_INSTANT)
        found = instant + (self.anchor_us - instant) % self.period_us
        return found if found <= LAST_INSTANT else None

    def last_until(self, instant: int) -> int | None:
        """Round down to a whole number of periods."""
        instant = min(instant, LAST_INSTANT)
        found = instant - (instant - self.anchor_us) % self.period_us
        return found if found >= FIRST_INSTANT else None

    def describe(self) -> str:
        """Say the period, and the anchor where it is not the usual one."""
        # "Every day" would promise the same wall time each day, which an interval doesn't keep.
        unit = next(
            unit for unit in ("h", "m", "s", "ms", "us") if not self.period_us % UNITS_US[unit]
        )
        number = self.period_us // UNITS_US[unit]
        period = UNIT_NAMES[unit] if number == 1 else plural(number, UNIT_NAMES[unit])
        anchor = "" if self.anchor == EPOCH else f", counted from {spoken(self.anchor)}"
        return f"every {period}{anchor}"

    def to_json(self) -> dict[str, Any]:
        """Return the period and the anchor."""
        stored = {"kind": self.kind, "period": self.period, "anchor": self.anchor.isoformat()}
        return stored | ({"words": self.words} if self.words else {})

    def under(self, zones: ZoneDatabase) -> Self:
        """Return itself: intervals know no zones."""
        return self


def every(period: str | timedelta, anchor: datetime = EPOCH) -> Interval:
    """Make a timetable of a fixed interval: `every("15m")` fires at :00, :15, :30 and :45 UTC.

    It counts real time, so a daily wall time needs `cron` instead: `every("24h")` drifts by an
    hour against the clock on the wall when summer time starts.
    """
    return Interval(period, anchor)
