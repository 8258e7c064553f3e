"""systemd calendar events (`OnCalendar=`) as timetables.

systemd itself drops times that a change of clocks skips and takes the first of two that look alike:
`gap="skip", fold="first"`. Duly's defaults are the same as for every timetable, `next` and `first`,
so that each named time fires once on every day.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from duly.domain.timetable.cron import DatesInYears
from duly.domain.timetable.dates import (
    ALL_MONTHS,
    ALL_WEEKDAYS,
    MONTH_STARTS,
    CalendarDates,
    Dates,
    DaysAndTimes,
    EveryDay,
    days_of_month_days,
    days_of_months,
    days_of_weekdays,
)
from duly.domain.timetable.oncalendar_text import ALL_DAYS, CalendarEvent, read_calendar_event
from duly.domain.timetable.times import TimesOfDay
from duly.domain.timetable.timetable import Zoned
from duly.errors import UsageError

if TYPE_CHECKING:
    from duly.domain.local_time import Fold, Gap, WallRule


@dataclass(frozen=True, slots=True, kw_only=True)
class OnCalendar(Zoned):
    """A systemd calendar event in a zone."""

    kind: ClassVar[str] = "oncalendar"
    expression: str

    @property
    def event(self) -> CalendarEvent:
        """The expression, component by component."""
        return read_calendar_event(self.expression)

    def _compiled(self) -> WallRule:
        named = self.event.zone
        if named not in {None, self.tz}:
            remedy = f"leave tz out, or leave {named!r} out of the expression"
            raise UsageError("tz", self.tz, f"contradicts {self.expression!r}", remedy)
        return compile_calendar_event(self.expression)

    def describe(self) -> str:
        """Say in words when this fires."""
        from duly.domain.timetable.describe_oncalendar import describe_oncalendar

        return describe_oncalendar(self)

    def to_json(self) -> dict[str, Any]:
        """Return the expression, zone and policies."""
        return self._stored(expression=self.expression)


class EventDates(CalendarDates):
    """The days of a calendar event, whatever the year."""

    def __init__(self, event: CalendarEvent) -> None:
        """Take months, days and weekdays, all of which must match."""
        super().__init__()
        self._event = event

    def days_of_kind(self, first_weekday: int, *, leap: bool) -> int:
        """Intersect the three sets."""
        event = self._event
        if event.is_from_end:
            days = _days_from_end(event.days, leap=leap)
        else:
            days = days_of_month_days(event.days, leap=leap)
        days &= days_of_months(event.months, leap=leap)
        return days & days_of_weekdays(event.weekdays, first_weekday, leap=leap)


@lru_cache(maxsize=256)
def _days_from_end(month_days: int, *, leap: bool) -> int:
    """Return the bitmap of all days whose number from their month's end is in a set."""
    ends = MONTH_STARTS[leap][1:]
    days = 0
    for number in range(1, 29):
        if month_days >> number & 1:
            for end in ends:
                days |= 1 << end - number
    return days


@lru_cache(maxsize=1024)
def compile_calendar_event(expression: str) -> DaysAndTimes:
    """Return the wall rule of an expression."""
    event = read_calendar_event(expression)
    chosen = event.weekdays, event.months, event.days
    days = EventDates(event)
    dates: Dates = EveryDay() if chosen == (ALL_WEEKDAYS, ALL_MONTHS, ALL_DAYS) else days
    if event.years is not None:
        dates = DatesInYears(days, event.years)
    return DaysAndTimes(dates, TimesOfDay(event.hours, event.minutes, event.seconds))


def oncalendar(
    expr: str, tz: str | None = None, gap: Gap = "next", fold: Fold = "first"
) -> OnCalendar:
    """Make a timetable of a systemd calendar event: "Mon..Fri *-*-* 09:00", "*-*~1", "weekly".

    The expression may end with a time zone; `tz` may be left out then, and must not contradict it.
    Without either the zone is UTC. For what systemd does when clocks change, give `gap="skip"`.
    """
    if tz is None:
        tz = read_calendar_event(expr).zone or "UTC"
    return OnCalendar(expression=expr, tz=tz, gap=gap, fold=fold)
