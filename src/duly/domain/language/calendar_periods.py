"""Every so many days, weeks, months or years: they count from a start, which must be said."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING

from duly.domain.instants import days_in_month
from duly.domain.language.tokens import NotUnderstoodError
from duly.domain.timetable.combined import Union
from duly.domain.timetable.phrases import members
from duly.domain.timetable.rrule import rrule

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.domain.language.clock_sets import ClockSet
    from duly.domain.language.meaning import Setting
    from duly.domain.language.sentence import Days, Sentence
    from duly.domain.timetable.timetable import Timetable

PERIOD_MAX = 1000
_FREQUENCIES = {"day": "DAILY", "week": "WEEKLY", "month": "MONTHLY", "year": "YEARLY"}
_CODES = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


def periodic(
    said: Sentence, clock_sets: Callable[[], list[ClockSet]], setting: Setting
) -> Timetable:
    """Make "every 2 weeks on monday at 9 from 2026-04-06"."""
    assert said.period, "only asked for sentences with a period"
    unit, number = said.period
    if number > PERIOD_MAX:
        raise NotUnderstoodError(f"counts more than {PERIOD_MAX} {unit}s", "say fewer")
    if said.step or said.minutes:
        raise NotUnderstoodError(
            "says both a period and a distance", "say one time, as in 'at 9:00'"
        )
    if said.span in ("quarter", "year") or said.left_out:
        remedy = "say the days themselves, or leave the period out"
        raise NotUnderstoodError("says a period and days that don't go with it", remedy)
    if said.start is None:
        raise NotUnderstoodError(f"does not say when the first {unit} is", _EXAMPLES[unit])
    days = _day_parts(said, unit, said.start)
    made = []
    for clock_set in clock_sets():
        hour, minute, second = clock_set.first
        start = datetime.combine(said.start, time(hour, minute, second))
        hours = ",".join(map(str, members(clock_set.hours)))
        minutes = ",".join(map(str, members(clock_set.minutes)))
        rule = (
            f"FREQ={_FREQUENCIES[unit]};INTERVAL={number}{days};BYHOUR={hours};BYMINUTE={minutes}"
        )
        made.append(rrule(rule, dtstart=start, tz=setting.tz, gap=setting.gap, fold=setting.fold))
    return made[0] if len(made) == 1 else Union(tuple(made))


def _day_parts(said: Sentence, unit: str, start: date) -> str:
    """Return the parts of the rule that choose days; the start must be one of them.

    Otherwise it would be open whether counting begins with the start's own week (or month) or with
    the first day that is named.
    """
    days = said.days
    if days.is_any and not said.months:
        return _like_start(unit, start)
    is_day_of_unit = {
        "day": False,
        "week": days.weekdays and not (days.of_months or days.dates or said.months),
        "month": days.of_months and not (days.weekdays or days.dates or said.months),
        "year": len(days.dates) == 1 and not (days.weekdays or days.of_months or said.months),
    }[unit]
    if not is_day_of_unit or days.nearest or days.business or len(_ways(days)) > 1:
        raise NotUnderstoodError(f"names days that can't be counted by the {unit}", _EXAMPLES[unit])
    if not _includes(days, start):
        remedy = "start on the first day that is meant"
        raise NotUnderstoodError(f"starts on {start}, which is not one of its days", remedy)
    return _chosen(days)


_EXAMPLES = {
    "day": "say 'every 3 days at 9 from 2026-04-06'",
    "week": "say 'every 2 weeks on monday at 9 from 2026-04-06'",
    "month": "say 'every 3 months on the 1st at 9 from 2026-04-01'",
    "year": "say 'every 2 years on 24 december at 9 from 2026-12-24'",
}


def _ways(days: Days) -> list[object]:
    """Return the ways in which days of a month were said."""
    return [way for way in (days.numbers, days.from_end, days.ordinals) if way]


def _like_start(unit: str, start: date) -> str:
    """Repeat the start's own day, if every period has it."""
    if unit in ("month", "year") and start.day > 28:
        remedy = f"say the day, as in 'on the last day' or 'on the {start.day}th'"
        raise NotUnderstoodError(f"repeats day {start.day}, which not every month has", remedy)
    return ""


def _chosen(days: Days) -> str:
    if days.weekdays:
        return f";BYDAY={','.join(_CODES[day] for day in members(days.weekdays))}"
    if days.dates:
        ((month, day),) = days.dates
        return f";BYMONTH={month};BYMONTHDAY={day}"
    if days.ordinals:
        return (
            f";BYDAY={','.join(f'{number}{_CODES[day]}' for day, number in sorted(days.ordinals))}"
        )
    numbers = sorted(days.numbers) or [-back - 1 for back in sorted(days.from_end)]
    return f";BYMONTHDAY={','.join(map(str, numbers))}"


def _includes(days: Days, start: date) -> bool:
    """Say whether a date is one of the days."""
    if days.weekdays:
        return bool(days.weekdays >> start.weekday() & 1)
    if days.dates:
        return (start.month, start.day) in days.dates
    from_end = days_in_month(start.year, start.month) - start.day
    if start.day in days.numbers or from_end in days.from_end:
        return True
    is_last = (start + timedelta(days=7)).month != start.month
    counts = {(start.day - 1) // 7 + 1, -1 if is_last else 0}
    return any((start.weekday(), count) in days.ordinals for count in counts)
