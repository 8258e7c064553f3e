"""Which days a sentence chooses: whether they fit how often, and what they are counted in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.language.tokens import NotUnderstoodError
from duly.domain.timetable.dates import MONTH_STARTS
from duly.domain.timetable.phrases import members, ordinal

if TYPE_CHECKING:
    from duly.domain.language.sentence import Days, Sentence

_ALL_MONTHS = (1 << 13) - 2
_ALL_WEEKDAYS = (1 << 7) - 1
_NEXT_DAYS = {
    "week": "on monday",
    "month": "on the 1st",
    "quarter": "on the 1st",
    "year": "on 24 december",
}
_SPANS = {
    "quarter": (sum(1 << month for month in (1, 4, 7, 10)), sum(1 << n for n in (3, 6, 9, 12))),
    "year": (1 << 1, 1 << 12),
}
"""The first and the last months of what days may be counted in."""


def settle_days(said: Sentence) -> None:
    """Refuse days that don't fit how often, or that no year has; settle their months."""
    days = said.days
    unit = said.period[0] if said.period else None
    if said.is_shorthand and unit:
        _fill_shorthand(days, unit)
    elif unit and unit != "day" and days.is_any:
        raise NotUnderstoodError(
            f"does not say which day of the {unit}", f"add it, such as '{_NEXT_DAYS[unit]}'"
        )
    _check_unit(said, unit)
    _settle_span(said, unit)
    if unit == "year" and not (days.dates or (days.of_months and said.months)):
        raise NotUnderstoodError("does not say which day of the year", "add 'on 24 december'")
    if said.months and days.dates:
        raise NotUnderstoodError("names months twice", "say each day with its month")
    months = said.months or _ALL_MONTHS
    for number in sorted(days.numbers):
        if all(number > _longest(month) for month in members(months)):
            remedy = "say 'last day', or a day that the month has"
            raise NotUnderstoodError(f"names a {ordinal(number)} that no such month has", remedy)
    if said.left_out:
        _leave_out(said)


def _check_unit(said: Sentence, unit: str | None) -> None:
    days = said.days
    is_some_weekdays = days.weekdays.bit_count() > 1 and not days.is_other_than_weekdays
    if unit == "day" and not (days.is_any or days.is_business or is_some_weekdays):
        raise NotUnderstoodError("says every day and certain days", "leave 'every day' out")
    if unit == "week" and (days.of_months or days.dates):
        raise NotUnderstoodError(
            "names days of a month in a week", "say weekdays, or 'every month'"
        )
    if unit in ("month", "quarter") and (days.weekdays or days.dates or days.is_business):
        remedy = "say 'on the first monday' or 'on the 1st'"
        raise NotUnderstoodError("names days that are not days of a month", remedy)


def _settle_span(said: Sentence, unit: str | None) -> None:
    """Find the months of days that are counted in a quarter or a year, from one of its ends."""
    days = said.days
    span = "quarter" if unit == "quarter" else said.span
    if span not in _SPANS:
        return
    if unit not in (None, span) or (said.span or span) != span or said.months:
        raise NotUnderstoodError(f"counts days in a {span} and in another way", "say one of them")
    if days.weekdays or days.dates or days.business:
        remedy = "say 'first day', 'last friday' or the like"
        raise NotUnderstoodError(f"names days that can't be counted in a {span}", remedy)
    from_start = {*days.numbers, *(number for number in days.nearest if number > 0)}
    weeks = {number for _, number in days.ordinals}
    if (
        max(from_start, default=0) > 28
        or max(days.from_end, default=0) > 27
        or max(weeks, default=0) > 4
    ):
        raise NotUnderstoodError(f"counts beyond the first month of a {span}", "name the month")
    is_from_end = bool(days.from_end or -1 in days.nearest or -1 in weeks)
    if is_from_end and (from_start or any(number > 0 for number in weeks)):
        raise NotUnderstoodError(f"counts from both ends of a {span}", "make a timetable for each")
    said.months = _SPANS[span][is_from_end]


def _leave_out(said: Sentence) -> None:
    """Take weekdays out of those that were named, or out of all."""
    days = said.days
    if days.is_business or days.is_other_than_weekdays:
        remedy = "leave days out with .excluding(…) or .on_business_days(…)"
        raise NotUnderstoodError("leaves weekdays out of other days", remedy)
    among = days.weekdays or _ALL_WEEKDAYS
    if said.left_out & ~among:
        problem = "leaves out a day that was not among the others"
        raise NotUnderstoodError(problem, "leave out days that were named, or none")
    days.weekdays = among & ~said.left_out
    if not days.weekdays:
        raise NotUnderstoodError("leaves no day", "leave out fewer days")


def _fill_shorthand(days: Days, unit: str) -> None:
    """Say what "weekly" means alone: as systemd has it, the start of each."""
    match unit:
        case "week":
            days.weekdays = 1
        case "month" | "quarter":
            days.numbers = {1}
        case "year":
            days.dates = {(1, 1)}


def _longest(month: int) -> int:
    starts = MONTH_STARTS[True]
    return starts[month] - starts[month - 1]
