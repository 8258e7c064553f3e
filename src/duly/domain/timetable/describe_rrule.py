"""Recurrence rules in words: a sentence that is true for every legal one, DTSTART included.

How often, on which days, at which times, in which zone; then what BYSETPOS keeps, and from when to
when. Where several parts choose days, a day has to suit them all: the first is said, the others are
added as conditions ("on the 13th, only on Friday,").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.instants import wall_datetime
from duly.domain.timetable.dates import ALL_WEEKDAYS
from duly.domain.timetable.describe_times import describe_times
from duly.domain.timetable.phrases import (
    MONTHS,
    WEEKDAYS,
    WORKDAYS_MASK,
    clock,
    join,
    ordinal,
    placed,
    plural,
    stretches,
    weekdays,
)
from duly.domain.timetable.rrule_rule import UNITS, Nothing, times_of, with_defaults

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duly.domain.timetable.rrule import RRule
    from duly.domain.timetable.rrule_text import RRuleParts

_NOUNS = {
    "YEARLY": "year",
    "MONTHLY": "month",
    "WEEKLY": "week",
    "DAILY": "day",
    "HOURLY": "hour",
    "MINUTELY": "minute",
    "SECONDLY": "second",
}
_NUMBERS = [str(number) for number in range(60)]
_ORDINALS = [ordinal(number) for number in range(367)]
_DATES_LISTED_MAX = 6


def describe_rrule(rule: RRule) -> str:
    """Say when a rule fires: "every 2 weeks on Monday at 09:00 (Europe/Paris), from 2026-04-03"."""
    parts = with_defaults(rule.parts, rule.dtstart)
    is_short = parts.freq in UNITS
    days = " ".join(words for words in _often_and_days(parts) if words)
    times = _steps(parts, rule.dtstart) if is_short else _times(parts)
    if not times.startswith(" "):
        days = days.removesuffix(",")
    sentence = placed(f"{days}{times}", rule)
    return ", ".join([sentence, *_conditions(parts), *_bounds(rule, parts, is_short=is_short)])


def _times(parts: RRuleParts) -> str:
    phrase = describe_times(times_of(parts))
    return f" {phrase.text}" if phrase.is_list else f", {phrase.text}"


def _often_and_days(parts: RRuleParts) -> list[str]:
    """Say how often and on which days, shorter where one says the other."""
    mask = sum(1 << weekday for weekday in {weekday for weekday, _ in parts.by_day})
    is_simple = parts.freq in ("WEEKLY", "DAILY") and parts.interval == 1
    if is_simple and mask in (WORKDAYS_MASK, ALL_WEEKDAYS):
        often = "every weekday" if mask == WORKDAYS_MASK else "every day"
        return [often, _months(parts), _chosen_days([_month_days(parts), *_in_year(parts)])]
    noun = _NOUNS[parts.freq]
    often = f"every {noun}" if parts.interval == 1 else f"every {plural(parts.interval, noun)}"
    dates = _dates(parts)
    if dates:
        return [often, dates]
    days = [_month_days(parts), _weekdays(parts, mask), *_in_year(parts)]
    return [often, _months(parts), _chosen_days(days)]


def _dates(parts: RRuleParts) -> str:
    """Name whole dates, where months and days of the month are all that a year's rule says."""
    others = parts.by_day or parts.by_year_day or parts.by_week_no
    days = parts.by_month_day
    if parts.freq != "YEARLY" or others or not days or days[0] < 0:
        return ""
    if not 1 <= len(days) * len(parts.by_month) <= _DATES_LISTED_MAX:
        return ""
    return f"on {join([f'{day} {MONTHS[month]}' for month in parts.by_month for day in days])}"


def _months(parts: RRuleParts) -> str:
    return f"in {join(stretches(parts.by_month, MONTHS))}" if parts.by_month else ""


def _chosen_days(phrases: Sequence[str]) -> str:
    first, *others = [phrase for phrase in phrases if phrase] or [""]
    return first + "".join(f", only {phrase}" for phrase in others) + ("," if others else "")


def _month_days(parts: RRuleParts) -> str:
    if not parts.by_month_day:
        return ""
    is_plain = parts.by_month_day[0] > 0
    which = "every month" if parts.freq == "YEARLY" and not parts.by_month else "the month"
    days = f"on the {_both_ends(parts.by_month_day)}"
    return days if is_plain and which == "the month" else f"{days} day of {which}"


def _in_year(parts: RRuleParts) -> list[str]:
    phrases = []
    if parts.by_year_day:
        phrases.append(f"on the {_both_ends(parts.by_year_day)} day of the year")
    if parts.by_week_no:
        has_days = parts.by_day or parts.by_month_day or parts.by_year_day
        which = "in the" if has_days or parts.freq in UNITS else "on every day of the"
        phrases.append(f"{which} {_both_ends(parts.by_week_no)} week of the year")
    return phrases


def _weekdays(parts: RRuleParts, mask: int) -> str:
    """Name weekdays; their numbers count in months or years, and mean nothing elsewhere."""
    if not mask:
        return ""
    is_numbered = parts.freq in ("YEARLY", "MONTHLY") and any(number for _, number in parts.by_day)
    if not is_numbered:
        if parts.freq in ("YEARLY", "MONTHLY") and not parts.by_month_day:
            return f"on every {weekdays(mask)}"
        return "on weekdays" if mask == WORKDAYS_MASK else f"on {weekdays(mask)}"
    within = "month" if parts.freq == "MONTHLY" or parts.by_month else "year"
    plain = [f"every {WEEKDAYS[weekday]}" for weekday, number in parts.by_day if not number]
    numbered = sorted((number < 0, number, weekday) for weekday, number in parts.by_day if number)
    names = [f"the {ordinal(number)} {WEEKDAYS[weekday]}" for _, number, weekday in numbered]
    return f"on {join(plain + names)} of the {within}"


def _both_ends(numbers: Sequence[int]) -> str:
    """Name places counted from the start, then those counted from the end, the last first."""
    forward = stretches([number for number in numbers if number > 0], _ORDINALS)
    backward = [ordinal(number) for number in reversed(numbers) if number < 0]
    return join(forward + backward)


def _steps(parts: RRuleParts, dtstart: datetime) -> str:
    """Say which hours, minutes and seconds a rule with a short period keeps, and which it adds."""
    phrases = []
    for unit, name, numbers, start in (
        ("HOURLY", "hour", parts.by_hour, dtstart.hour),
        ("MINUTELY", "minute", parts.by_minute, dtstart.minute),
        ("SECONDLY", "second", parts.by_second, dtstart.second),
    ):
        is_filter = UNITS[parts.freq] <= UNITS[unit]
        # What comes from DTSTART alone is said by "from": the steps simply go on from there.
        if numbers and (is_filter or numbers != (start,)):
            names = join(stretches(numbers, _NUMBERS))
            several = name if len(numbers) == 1 else f"{name}s"
            phrases.append(f" {'in' if is_filter else 'at'} {several} {names}")
    return "".join(phrases)


def _conditions(parts: RRuleParts) -> list[str]:
    conditions = []
    if parts.by_set_pos:
        places = _both_ends(parts.by_set_pos)
        conditions.append(f"of these only the {places} in each {_NOUNS[parts.freq]}")
    is_by_week = parts.freq == "WEEKLY" and (parts.interval > 1 or parts.by_set_pos)
    if parts.wkst and (is_by_week or parts.by_week_no):
        conditions.append(f"weeks starting on {WEEKDAYS[parts.wkst]}")
    return conditions


def _bounds(rule: RRule, parts: RRuleParts, *, is_short: bool) -> list[str]:
    start = rule.dtstart.date().isoformat()
    bounds = [f"from {start} {_clock(rule.dtstart)}" if is_short else f"from {start}"]
    if parts.count is not None:
        bounds.append("once" if parts.count == 1 else plural(parts.count, "time"))
    if parts.until is not None:
        until = wall_datetime(parts.until.second)
        time = "" if parts.until.is_day else f" {_clock(until)}"
        zone = " UTC" if parts.until.is_utc else ""
        bounds.append(f"until {until.date().isoformat()}{time}{zone}")
    if isinstance(rule.local.walls, Nothing):
        bounds.append("which never happens")
    return bounds


def _clock(time: datetime) -> str:
    return clock(time.hour, time.minute, time.second)
