"""Calendar events in words: the days, then the times, each said as shortly as is still exact."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.timetable.dates import ALL_MONTHS, ALL_WEEKDAYS
from duly.domain.timetable.describe_cron import DaysPhrase
from duly.domain.timetable.describe_times import describe_times, number_set, step_of
from duly.domain.timetable.oncalendar_text import ALL_DAYS, YEAR_LAST, CalendarEvent
from duly.domain.timetable.phrases import (
    WEEKDAYS,
    WORKDAYS_MASK,
    join,
    members,
    months,
    ordinal,
    placed,
    stretches,
    weekdays,
)
from duly.domain.timetable.times import TimesOfDay

if TYPE_CHECKING:
    from duly.domain.timetable.oncalendar import OnCalendar

_ORDINALS = [ordinal(number) for number in range(32)]
_YEARS = [str(year) for year in range(YEAR_LAST + 1)]


def describe_oncalendar(rule: OnCalendar) -> str:
    """Say when a calendar event happens: "every weekday at 09:00 (Europe/Paris)"."""
    event = rule.event
    times = describe_times(TimesOfDay(event.hours, event.minutes, event.seconds))
    days = _days(event)
    words = f"{days.leading} {times.text}" if times.is_list else f"{times.text} {days.trailing}"
    return placed(words.strip(), rule)


def _days(event: CalendarEvent) -> DaysPhrase:
    """Say which days are meant; weekdays and days of the month must both match."""
    is_every_month = event.months == ALL_MONTHS
    when = "" if is_every_month else f" in {months(event.months)}"
    when += _in_years(event.years)
    if event.days == ALL_DAYS:
        if event.weekdays == ALL_WEEKDAYS:
            return DaysPhrase(f"every day{when}", when.strip())
        name = weekdays(event.weekdays)
        plural = "weekdays" if event.weekdays == WORKDAYS_MASK else name
        return DaysPhrase(f"every {name}{when}", f"on {plural}{when}")
    of_months = "every month" if is_every_month else months(event.months)
    words = f"on {_month_days(event)} of {of_months}{_in_years(event.years)}"
    if event.weekdays == ALL_WEEKDAYS:
        return DaysPhrase.alike(words)
    is_workday = event.weekdays == WORKDAYS_MASK
    names = "weekday" if is_workday else join(stretches(members(event.weekdays), WEEKDAYS), "or")
    return DaysPhrase.clause(words, f"if it is a {names}")


def _month_days(event: CalendarEvent) -> str:
    """Say days of the month, counted from its start or from its end."""
    numbers = members(event.days)
    if event.is_from_end:
        if numbers == list(range(1, len(numbers) + 1)) and len(numbers) > 1:
            return f"the last {len(numbers)} days"
        return f"the {join([ordinal(-number) for number in reversed(numbers)])} day"
    step = step_of(numbers)
    if step:
        ends = f"from the {ordinal(numbers[0])} to the {ordinal(numbers[-1])}"
        return f"every {ordinal(step)} day {ends}"
    return f"the {number_set(numbers, _ORDINALS)}"


def _in_years(years: int | None) -> str:
    if years is None:
        return ""
    numbers = members(years)
    step = step_of(numbers)
    if step:
        return f" in every {ordinal(step)} year from {numbers[0]} to {numbers[-1]}"
    return f" in {number_set(numbers, _YEARS)}"
