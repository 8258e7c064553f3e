"""Timetables in words: cron, RRULE and OnCalendar as one English sentence.

A sentence says what the fields mean, not how they were written: `*/1` and `0-59` are both "every
minute", and cron's ways of joining days and weekdays are spelt out as "or" and "if".

A sentence names how often, on which days, at which times and in which zone; then what BYSETPOS
keeps, and the bounds. Where several parts choose days, a day must match them all: the first part is
named, and the others are added as conditions ("on the 13th, only on Friday,").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.timetable.cron import YEAR, FieldValue
from duly.timetable.day_sets import ALL_MONTHS, ALL_WEEKDAYS
from duly.timetable.instants import wall_datetime
from duly.timetable.oncalendar import ALL_DAYS, YEAR_LAST, CalendarEvent
from duly.timetable.phrases import (
    MONTHS,
    WEEKDAYS,
    WORKDAYS_MASK,
    TimesPhrase,
    clock,
    describe_listed,
    describe_times,
    join,
    members,
    months,
    number_set,
    ordinal,
    placed,
    plural,
    step_of,
    stretches,
    weekdays,
)
from duly.timetable.rrule_compiler import UNITS, Nothing, times_of, with_defaults
from duly.timetable.time_sets import TimesOfDay

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duly.timetable.cron import Cron, CronFields
    from duly.timetable.oncalendar import OnCalendar
    from duly.timetable.rrule import RRule
    from duly.timetable.rrule_parser import RRuleParts


TOGETHER_MAX = 1500
"""So many times of day are listed to find out what they have in common."""

_ALL_DAYS = (1 << 32) - 2
_ALL_YEARS = (2 << YEAR.high) - (1 << YEAR.low)
_ORDINALS = [ordinal(number) for number in range(32)]
_YEARS = [str(year) for year in range(YEAR.high + 1)]


@dataclass(frozen=True, slots=True)
class DaysPhrase:
    """The words for a set of days: `leading` before named times, `trailing` after other words."""

    leading: str
    trailing: str

    @classmethod
    def alike(cls, words: str) -> DaysPhrase:
        """Use the same words on either side."""
        return cls(words, words)

    @classmethod
    def clause(cls, words: str, condition: str) -> DaysPhrase:
        """Add a condition in commas, so that the times that follow aren't read as part of it."""
        return cls(f"{words}, {condition},", f"{words}, {condition}")


def describe_cron(cron: Cron) -> str:
    """Say when a cron expression fires: "every weekday at 09:00 (Europe/Paris)"."""
    return _sentence(_days(cron.fields), describe_times(_times(cron.fields)), cron)


def describe_crons(crons: Sequence[Cron]) -> list[str]:
    """Say when any of several fires: one sentence for all those that share their days and zone."""
    shared: dict[tuple[DaysPhrase, str], list[Cron]] = {}
    for cron in crons:
        shared.setdefault((_days(cron.fields), cron.tz), []).append(cron)
    sentences = []
    for (days, _), group in shared.items():
        together = _together([_times(cron.fields) for cron in group]) if len(group) > 1 else None
        if together:
            sentences.append(_sentence(days, together, group[0]))
        else:
            sentences += [describe_cron(cron) for cron in group]
    return sentences


def _together(several: list[TimesOfDay]) -> TimesPhrase | None:
    if sum(times.size for times in several) > TOGETHER_MAX:
        return None
    return describe_listed(sorted({time for times in several for time in times.members()}))


def _sentence(days: DaysPhrase, times: TimesPhrase, cron: Cron) -> str:
    words = f"{days.leading} {times.text}" if times.is_list else f"{times.text} {days.trailing}"
    return placed(words.strip(), cron)


def _times(cron: CronFields) -> TimesOfDay:
    return TimesOfDay(cron.hour.mask, cron.minute.mask, cron.second.mask)


def _days(cron: CronFields) -> DaysPhrase:  # noqa: PLR0911 - one for each way of choosing days
    """Say which days are meant; where two fields choose, how cron joins them."""
    day, weekday = cron.day_of_month, cron.day_of_week
    is_any_day, is_any_weekday = day.mask == _ALL_DAYS, weekday.mask == ALL_WEEKDAYS
    is_either = not (day.is_star or weekday.is_star)
    in_months = "" if cron.month.mask == ALL_MONTHS else f" in {months(cron.month.mask)}"
    of_months = "every month" if not in_months else months(cron.month.mask)
    in_years = _in_years(cron.year)
    if (is_any_day and is_any_weekday) or (is_either and (is_any_day or is_any_weekday)):
        return DaysPhrase(f"every day{in_months}{in_years}", f"{in_months}{in_years}".strip())
    if is_any_day and not weekday.ordinals:
        monday_first = _monday_first(weekday)
        name = weekdays(monday_first)
        plural = "weekdays" if monday_first == WORKDAYS_MASK else name
        where = f"{in_months}{in_years}"
        return DaysPhrase(f"every {name}{where}", f"on {plural}{where}")
    if is_any_weekday:
        return DaysPhrase.alike(f"on {_month_days(day)} of {of_months}{in_years}")
    if is_any_day and not weekday.mask:
        return DaysPhrase.alike(f"on {_ordinals(weekday)} of {of_months}{in_years}")
    if not (is_any_day or is_either):
        words = f"on {_month_days(day)} of {of_months}{in_years}"
        return DaysPhrase.clause(words, f"if it is {_weekdays(weekday, 'or', article='a ')}")
    words = f"on {_weekdays(weekday, 'and')}"
    words += f" or on {_month_days(day)}" if is_either else ""
    # The months and years hold for every choice, so they are said apart.
    if in_months or in_years:
        return DaysPhrase.clause(words, f"{in_months}{in_years}".strip())
    return DaysPhrase.alike(f"{words} of every month")


def _month_days(day: FieldValue) -> str:
    """Say days of the month, counted from either end or moved to the nearest weekday."""
    numbers = members(day.mask)
    step = step_of(numbers)
    if step:
        ends = f"from the {ordinal(numbers[0])} to the {ordinal(numbers[-1])}"
        items = [f"every {ordinal(step)} day {ends}"]
    else:
        items = stretches(numbers, _ORDINALS)
        items[:1] = [f"the {items[0]}"] if items else []
    items += [f"the {_from_end(back)}" for back in sorted(set(day.from_end))]
    items += [_nearest(number) for number in sorted(set(day.nearest))]
    return join(items)


def _from_end(back: int) -> str:
    return f"{ordinal(-back - 1)} day"


def _nearest(number: int) -> str:
    """Say what W means; it never leaves the month, so at its ends it is the first or last."""
    if number in (-1, 1):
        return "the last weekday" if number < 0 else "the first weekday"
    return f"the weekday nearest the {ordinal(number) if number > 0 else _from_end(-number - 1)}"


def _weekdays(weekday: FieldValue, word: str, article: str = "") -> str:
    """Say weekdays, those of every week before those of certain weeks of a month."""
    mask = _monday_first(weekday)
    parts = []
    if mask == WORKDAYS_MASK:
        parts.append("a weekday" if article else "weekdays")
    elif mask:
        parts.append(article + join(stretches(members(mask), WEEKDAYS), word))
    if weekday.ordinals:
        parts.append(_ordinals(weekday, word))
    return f" {word} {'' if article else 'on '}".join(parts)


def _ordinals(weekday: FieldValue, word: str = "and") -> str:
    """Say "the 1st and 3rd Monday and the last Friday"."""
    weeks: dict[int, set[int]] = {}
    for from_sunday, number in weekday.ordinals:
        weeks.setdefault((from_sunday - 1) % 7, set()).add(number)
    items = []
    for name in sorted(weeks):
        # "last" is kept as -1 and said after the others
        numbers = sorted(weeks[name], key=lambda number: number % 7)
        items.append(f"the {join([ordinal(number) for number in numbers], word)} {WEEKDAYS[name]}")
    return join(items, word)


def _monday_first(weekday: FieldValue) -> int:
    return weekday.mask >> 1 | (weekday.mask & 1) << 6


def _in_years(year: FieldValue | None) -> str:
    """Say the years, if any were left out of those that can be named at all."""
    if year is None or year.mask == _ALL_YEARS:
        return ""
    numbers = members(year.mask)
    step = step_of(numbers)
    if step:
        return f" in every {ordinal(step)} year from {numbers[0]} to {numbers[-1]}"
    return f" in {number_set(numbers, _YEARS)}"


_EVENT_YEARS = [str(year) for year in range(YEAR_LAST + 1)]


def describe_oncalendar(rule: OnCalendar) -> str:
    """Say when a calendar event happens: "every weekday at 09:00 (Europe/Paris)"."""
    event = rule.event
    times = describe_times(TimesOfDay(event.hours, event.minutes, event.seconds))
    days = _event_days(event)
    words = f"{days.leading} {times.text}" if times.is_list else f"{times.text} {days.trailing}"
    return placed(words.strip(), rule)


def _event_days(event: CalendarEvent) -> DaysPhrase:
    """Say which days are meant; weekdays and days of the month must both match."""
    is_every_month = event.months == ALL_MONTHS
    when = "" if is_every_month else f" in {months(event.months)}"
    when += _in_event_years(event.years)
    if event.days == ALL_DAYS:
        if event.weekdays == ALL_WEEKDAYS:
            return DaysPhrase(f"every day{when}", when.strip())
        name = weekdays(event.weekdays)
        plural = "weekdays" if event.weekdays == WORKDAYS_MASK else name
        return DaysPhrase(f"every {name}{when}", f"on {plural}{when}")
    of_months = "every month" if is_every_month else months(event.months)
    words = f"on {_event_month_days(event)} of {of_months}{_in_event_years(event.years)}"
    if event.weekdays == ALL_WEEKDAYS:
        return DaysPhrase.alike(words)
    is_workday = event.weekdays == WORKDAYS_MASK
    names = "weekday" if is_workday else join(stretches(members(event.weekdays), WEEKDAYS), "or")
    return DaysPhrase.clause(words, f"if it is a {names}")


def _event_month_days(event: CalendarEvent) -> str:
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


def _in_event_years(years: int | None) -> str:
    if years is None:
        return ""
    numbers = members(years)
    step = step_of(numbers)
    if step:
        return f" in every {ordinal(step)} year from {numbers[0]} to {numbers[-1]}"
    return f" in {number_set(numbers, _EVENT_YEARS)}"


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
_RRULE_ORDINALS = [ordinal(number) for number in range(367)]
_DATES_LISTED_MAX = 6


def describe_rrule(rule: RRule) -> str:
    """Say when a rule fires: "every 2 weeks on Monday at 09:00 (Europe/Paris), from 2026-04-03"."""
    parts = with_defaults(rule.parts, rule.dtstart)
    is_short = parts.freq in UNITS
    days = " ".join(words for words in _often_and_days(parts) if words)
    times = _steps(parts, rule.dtstart) if is_short else _rrule_times(parts)
    if not times.startswith(" "):
        days = days.removesuffix(",")
    sentence = placed(f"{days}{times}", rule)
    return ", ".join([sentence, *_conditions(parts), *_bounds(rule, parts, is_short=is_short)])


def _rrule_times(parts: RRuleParts) -> str:
    phrase = describe_times(times_of(parts))
    return f" {phrase.text}" if phrase.is_list else f", {phrase.text}"


def _often_and_days(parts: RRuleParts) -> list[str]:
    """Say how often and on which days, shorter where one says the other."""
    mask = sum(1 << weekday for weekday in {weekday for weekday, _ in parts.by_day})
    is_simple = parts.freq in ("WEEKLY", "DAILY") and parts.interval == 1
    if is_simple and mask in (WORKDAYS_MASK, ALL_WEEKDAYS):
        often = "every weekday" if mask == WORKDAYS_MASK else "every day"
        return [often, _months(parts), _chosen_days([_rrule_month_days(parts), *_in_year(parts)])]
    noun = _NOUNS[parts.freq]
    often = f"every {noun}" if parts.interval == 1 else f"every {plural(parts.interval, noun)}"
    dates = _dates(parts)
    if dates:
        return [often, dates]
    days = [_rrule_month_days(parts), _rrule_weekdays(parts, mask), *_in_year(parts)]
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


def _rrule_month_days(parts: RRuleParts) -> str:
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


def _rrule_weekdays(parts: RRuleParts, mask: int) -> str:
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
    forward = stretches([number for number in numbers if number > 0], _RRULE_ORDINALS)
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
