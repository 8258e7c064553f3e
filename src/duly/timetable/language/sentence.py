"""What a sentence said, part by part, before it is decided whether that makes a timetable."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from duly.timetable.language.tokens import NotUnderstoodError

if TYPE_CHECKING:
    from datetime import date

    from duly.timetable.language.tokens import DayPart

_ONCE = {
    "which days": "join days by 'and'; for both at once, as a friday that is a 13th, use an RRULE",
    "the time of day": "join times by 'and', as in 'at 9:00 and 18:00'",
}


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """A stretch of the day, in seconds, both ends included."""

    start: int
    end: int
    is_exact: bool


@dataclass(slots=True)
class Days:
    """Which days: a set of weekdays (bit 0 is Monday), days of months and yearly dates.

    `ordinals` holds (weekday, k), with k = -1 for the last; `from_end` 0 for the last day, 1 for
    the one before; `nearest` n for the weekday nearest the nth, -1 for a month's last weekday;
    `business` n for the nth business day of a month, and `is_business` means each of them.
    """

    weekdays: int = 0
    numbers: set[int] = field(default_factory=set)
    from_end: set[int] = field(default_factory=set)
    nearest: set[int] = field(default_factory=set)
    ordinals: set[tuple[int, int]] = field(default_factory=set)
    business: set[int] = field(default_factory=set)
    is_business: bool = False
    dates: set[tuple[int, int]] = field(default_factory=set)
    once: date | None = None

    @property
    def is_any(self) -> bool:
        """Whether nothing was chosen."""
        return not (self.is_business or self.weekdays or self.is_other_than_weekdays)

    @property
    def is_other_than_weekdays(self) -> bool:
        """Whether days were chosen by their place in a month or a year."""
        return bool(self.of_months or self.dates or self.once)

    @property
    def of_months(self) -> bool:
        """Whether days of months were chosen, which "of the month" or "in May" can belong to."""
        return bool(self.numbers or self.from_end or self.nearest or self.ordinals or self.business)


@dataclass(slots=True)
class Sentence:
    """The parts of a sentence; each can be said once.

    `minutes` is a set of minutes of the hour, which `is_of_hours` if the hours were said too;
    `left_out` is a set of weekdays; `span` is what days are counted in, if not in a month.
    """

    step: int | None = None
    period: tuple[str, int] | None = None
    days: Days = field(default_factory=Days)
    months: int = 0
    times: list[int] | None = None
    minutes: int = 0
    is_of_hours: bool = False
    parts: list[DayPart] = field(default_factory=list)
    left_out: int = 0
    span: str | None = None
    windows: list[TimeWindow] = field(default_factory=list)
    start: date | None = None
    end: date | None = None
    count: int | None = None
    zone: str | None = None
    is_once: bool = False
    is_shorthand: bool = False
    said: set[str] = field(default_factory=set)

    def say(self, part: str) -> None:
        """Note that a part was said; refuse it a second time, as either might be meant."""
        if part in self.said:
            raise NotUnderstoodError(f"says {part} twice", _ONCE.get(part, "say it once"))
        self.said.add(part)
