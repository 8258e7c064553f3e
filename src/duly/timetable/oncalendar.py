"""OnCalendar expressions of systemd: parser and timetable.

The parser accepts what systemd 252 accepts (its systemd.time(7), "Calendar Events"), with the same
meaning and two differences. White space is forgiven around and between the parts. A second must be
a whole number, because a timetable has no finer grain.

systemd itself drops times that a change of clocks skips and takes the first of two that look alike:
`gap="skip", fold="first"`. Duly's defaults are the same as for every timetable, `next` and `first`,
so that each named time fires once on every day.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from duly.errors import UsageError, require_text
from duly.timetable.cron import DatesInYears
from duly.timetable.day_sets import (
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
from duly.timetable.instants import LAST_DAY, SECOND_US, from_seconds
from duly.timetable.phrases import WEEKDAYS
from duly.timetable.time_sets import TimesOfDay
from duly.timetable.timetable import Zoned

if TYPE_CHECKING:
    from duly.timetable.local_time import Fold, Gap, WallRule


TEXT_LENGTH_MAX = 1000
YEAR_FIRST, YEAR_LAST = 1970, 2199
FIELD = "oncalendar"
ALL_DAYS = (1 << 32) - 2
SHORT_FORMS = {
    "minutely": "*-*-* *:*:00",
    "hourly": "*-*-* *:00:00",
    "daily": "*-*-* 00:00:00",
    "weekly": "Mon *-*-* 00:00:00",
    "monthly": "*-*-01 00:00:00",
    "quarterly": "*-01,04,07,10-01 00:00:00",
    "semiannually": "*-01,07-01 00:00:00",
    "yearly": "*-01-01 00:00:00",
}
_OTHER_SPELLINGS = {
    "semi-annually": "semiannually",
    "biannually": "semiannually",
    "bi-annually": "semiannually",
    "annually": "yearly",
    "anually": "yearly",  # systemd keeps it for old units, and so it is found in them
}
_WEEKDAY_NUMBERS = {
    name.lower(): number for number, day in enumerate(WEEKDAYS) for name in (day, day[:3])
}
_NUMBER = r"([0-9]{1,20}(?:\.[0-9]{1,20})?)"
_ITEM = re.compile(rf"{_NUMBER}(?:\.\.{_NUMBER})?(?:/{_NUMBER})?")
_DATE = re.compile(r"(?:([^-~]+)-)?([^-~]+)([-~])([^-~]+)")


@dataclass(frozen=True, slots=True)
class Component:
    """One part of a date or a time: its name and bounds, in steps of `unit`."""

    name: str
    low: int
    high: int
    unit: int = 1


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a component's list: from `start` to `stop`, if there is one, by `repeat`."""

    start: int
    stop: int | None
    repeat: int


YEAR = Component("year", YEAR_FIRST, YEAR_LAST)
MONTH = Component("month", 1, 12)
DAY = Component("day", 1, 31)
DAY_FROM_END = Component("day", 1, 28)  # so that every month has it
HOUR = Component("hour", 0, 23)
MINUTE = Component("minute", 0, 59)
# systemd counts seconds in microseconds, which decides what fits: 0:0:50/10 does not.
SECOND = Component("second", 0, 60 * SECOND_US - 1, SECOND_US)


@dataclass(frozen=True, slots=True)
class CalendarEvent:
    """What a calendar event means, as bitmasks; `years` is None for every year.

    Weekdays count from Monday; bit n of `days` is the nth day of the month, or the nth last if
    `is_from_end`.
    """

    weekdays: int = ALL_WEEKDAYS
    years: int | None = None
    months: int = ALL_MONTHS
    days: int = ALL_DAYS
    is_from_end: bool = False
    hours: int = 1
    minutes: int = 1
    seconds: int = 1
    zone: str | None = None


def read_calendar_event(expression: str) -> CalendarEvent:
    """Read an expression; refuse what systemd 252 refuses, and fractions of a second."""
    require_text(FIELD, expression, TEXT_LENGTH_MAX)
    return _read(expression)


@lru_cache(maxsize=4096)
def _read(expression: str) -> CalendarEvent:
    parts, zone = _split(expression)
    if len(parts) == 1:
        name = parts[0].lower()
        parts = SHORT_FORMS.get(_OTHER_SPELLINGS.get(name, name), parts[0]).split(" ")
    weekdays = _weekdays(parts.pop(0)) if parts[0][0].isalpha() else ALL_WEEKDAYS
    if parts and parts[0].startswith("@"):
        return _instant(parts, weekdays, zone)
    years, months, days, is_from_end = None, ALL_MONTHS, ALL_DAYS, False
    if parts and ":" not in parts[0]:
        years, months, days, is_from_end = _date(parts.pop(0))
    hours, minutes, seconds = _time(parts.pop(0)) if parts else (1, 1, 1)
    if parts:
        remedy = "write weekdays, date, time and zone, in this order"
        _refuse(FIELD, " ".join(parts), "is left over after the time", remedy)
    return CalendarEvent(weekdays, years, months, days, is_from_end, hours, minutes, seconds, zone)


def _split(expression: str) -> tuple[list[str], str | None]:
    """Divide an expression at its spaces, and take the time zone off its end."""
    parts = [part for part in expression.split(" ") if part]
    if not parts:
        _refuse(FIELD, expression, "is empty", "write for example 'Mon..Fri *-*-* 09:00'")
    if len(parts) > 1 and parts[-1][0].isalpha():
        zone = parts.pop()
        if zone.split(",")[0].lower()[:3] in _WEEKDAY_NUMBERS and "/" not in zone:
            _refuse("weekday", expression, "has weekdays in the wrong place", _examples("weekday"))
        return parts, "UTC" if zone.upper() == "UTC" else zone
    return parts, None


def _weekdays(text: str) -> int:
    if text[:3].lower() not in _WEEKDAY_NUMBERS:
        remedy = f"start with weekdays, a date or a time, or write only {' | '.join(SHORT_FORMS)}"
        _refuse(FIELD, text, "is not part of a calendar event", remedy)
    mask = 0
    # A trailing comma is allowed ("Wed, 17:48"); an open range is not.
    for item in text.lower().removesuffix(",").split(","):
        first, separator, last = item.partition(".." if ".." in item else "-")
        start = _WEEKDAY_NUMBERS.get(first)
        end = _WEEKDAY_NUMBERS.get(last) if separator else start
        if start is None or end is None:
            _refuse("weekday", text, "can't be read", _examples("weekday"))
        if start > end:
            remedy = f"weeks start on Monday: write {first}..sun,mon..{last}"
            _refuse("weekday", text, "has a range that runs backwards", remedy)
        mask |= (2 << end) - (1 << start)
    return mask


def _instant(parts: list[str], weekdays: int, zone: str | None) -> CalendarEvent:
    """Read `@seconds`, which is always UTC: one second of one day."""
    number = parts[0][1:]
    if not re.fullmatch("[0-9]{1,12}", number) or int(number) > LAST_DAY * 86_400:
        _refuse(FIELD, parts[0], "is not an instant", "write @ and whole seconds since 1970")
    when = from_seconds(int(number))
    if len(parts) > 1 or zone not in {None, "UTC"} or not YEAR_FIRST <= when.year <= YEAR_LAST:
        remedy = f"write @seconds alone, for a year up to {YEAR_LAST}"
        _refuse(FIELD, " ".join([*parts, zone or ""]).strip(), "is not an instant in UTC", remedy)
    return CalendarEvent(
        weekdays,
        1 << when.year,
        1 << when.month,
        1 << when.day,
        hours=1 << when.hour,
        minutes=1 << when.minute,
        seconds=1 << when.second,
        zone="UTC",
    )


def _date(text: str) -> tuple[int | None, int, int, bool]:
    """Read year-month-day or month-day; `~` before the day counts from the month's end."""
    found = _DATE.fullmatch(text)
    if not found:
        _refuse("date", text, "is neither a date nor a time", "write 2026-12-31, *-*-01 or 09:00")
    year, month, separator, day = found.groups()
    is_from_end = separator == "~" and day != "*"
    years = _members(YEAR, year) if year and year != "*" else None
    days = _members(DAY_FROM_END if is_from_end else DAY, day)
    return years, _members(MONTH, month), days, is_from_end


def _time(text: str) -> tuple[int, int, int]:
    parts = text.split(":")
    if len(parts) not in {2, 3}:
        _refuse("time", text, "is not a time", "write hour:minute or hour:minute:second")
    second = _members(SECOND, parts[2]) if len(parts) == 3 else 1
    return _members(HOUR, parts[0]), _members(MINUTE, parts[1]), second


@lru_cache(maxsize=4096)
def _members(component: Component, text: str) -> int:
    """Read one component, `*` or a list of items, into a bitmask."""
    if text == "*":
        return (2 << component.high // component.unit) - (1 << component.low)
    mask = 0
    for item in text.split(","):
        found = _ITEM.fullmatch(item)
        if not found:
            if item.startswith("*/"):
                remedy = f"write {component.low}{item[1:]} for a repetition"
                _refuse(component.name, text, "repeats '*', which has no start", remedy)
            _refuse(component.name, text, "can't be read", _examples(component.name))
        for number in _item_members(component, text, _item(component, text, found)):
            mask |= 1 << number
    return mask


def _item(component: Component, text: str, found: re.Match[str]) -> Item:
    """Read start, start..stop, start/repeat or start..stop/repeat, in the component's unit."""
    first, last, step = found.groups()
    start = _number(component, text, first)
    stop = None if last is None else _number(component, text, last)
    repeat = 0 if last is None else component.unit
    if step is not None:
        repeat = _number(component, text, step, is_step=True)
        if repeat == 0:
            _refuse(component.name, text, "repeats every 0", "give a repetition of 1 or more")
    elif component is SECOND and stop is not None and start + repeat > stop:
        _refuse(component.name, text, "is a range of less than two seconds", "name the second")
    if stop is not None and stop > start:
        stop -= (stop - start) % repeat
    return Item(start, None, 0) if stop == start else Item(start, stop, repeat)


def _item_members(component: Component, text: str, item: Item) -> range:
    _check(component, text, item)
    unit = component.unit
    if item.start % unit or item.repeat % unit:
        remedy = "name whole seconds here, or use every('500ms') for a fixed distance"
        _refuse(component.name, text, "has a fraction of a second", remedy)
    start, repeat = item.start // unit, item.repeat // unit
    if not repeat:
        return range(start, start + 1)
    if component is DAY_FROM_END and item.stop is None:
        return range(start, 0, -repeat)  # towards the month's end
    stop = component.high if item.stop is None else item.stop
    return range(start, stop // unit + 1, repeat)


def _check(component: Component, text: str, item: Item) -> None:
    low, high = component.low, component.high
    start, stop = item.start, item.stop
    bounds = f"give {low} to {high // component.unit}"
    if not low <= start <= high or (stop is not None and not low <= stop <= high):
        _refuse(component.name, text, "is out of range", bounds)
    if stop is not None and stop < start:
        remedy = f"{bounds}, the lower number first; name what wraps around as a list"
        _refuse(component.name, text, "has a range that runs backwards", remedy)
    if item.repeat and stop is None:
        end = start - item.repeat if component is DAY_FROM_END else start + item.repeat
        if not low <= end <= high:
            remedy = f"{bounds} so that it repeats at least once, or leave the repetition out"
            _refuse(component.name, text, "repeats beyond the end", remedy)


def _number(component: Component, text: str, digits: str, *, is_step: bool = False) -> int:
    """Return a number in the component's unit; a year of two digits is near 2000."""
    whole, _, fraction = digits.partition(".")
    if component is SECOND:
        return int(whole) * SECOND_US + (int(fraction[:7].ljust(7, "0")) + 5) // 10
    if fraction:
        _refuse(component.name, text, "has a fraction", _examples(component.name))
    number = int(whole)
    if component is YEAR and number < 100 and not is_step:
        number += 2000 if number < 70 else 1900
    return number


def _examples(name: str) -> str:
    if name == "weekday":
        return "write weekdays first, as Mon, Mon..Fri or Sat,Sun"
    component = {part.name: part for part in (YEAR, MONTH, DAY, HOUR, MINUTE, SECOND)}[name]
    last = component.high // component.unit
    low = component.low
    return f"give {low} to {last} as *, {last}, {low}..{last} or {low}/2"


def _refuse(field: str, value: object, problem: str, remedy: str) -> NoReturn:
    raise UsageError(field, value, problem, remedy)


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
        from duly.timetable.description import describe_oncalendar

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
