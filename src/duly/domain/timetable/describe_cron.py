"""Cron expressions in words: a sentence that is true for every legal one, and for no other rule.

What is said is what the fields mean, not how they were written: `*/1` and `0-59` are both "every
minute", and cron's ways of joining days and weekdays are spelt out as "or" and "if".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.domain.timetable.cron_fields import YEAR, FieldValue
from duly.domain.timetable.dates import ALL_MONTHS, ALL_WEEKDAYS
from duly.domain.timetable.describe_times import (
    TimesPhrase,
    describe_listed,
    describe_times,
    number_set,
    step_of,
)
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
    from collections.abc import Sequence

    from duly.domain.timetable.cron import Cron, CronFields

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
