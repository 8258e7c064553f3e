"""Lists of days, and which days a sentence chooses."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from duly.timetable.day_sets import MONTH_STARTS
from duly.timetable.language import tokens
from duly.timetable.language.tokens import NotUnderstoodError
from duly.timetable.phrases import MONTHS, members, ordinal

if TYPE_CHECKING:
    from duly.timetable.language.sentence import Days, Sentence
    from duly.timetable.language.tokens import TokenCursor, WordToken


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


_COUNTED = ("day", "days")
_BUSINESS = ("business", "working", "work")
_WORKDAYS = ("workday", "workdays")
_EDGES = ("end", "start", "beginning")
_MONTH_LENGTHS = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_LAST_MAX = 31


class DayList:
    """Reads one list of days into `days`.

    Ordinals wait for the noun that they count ("1st and last friday"); where none comes, they are
    days of the month ("1st and 15th").
    """

    def __init__(self, reader: TokenCursor, days: Days) -> None:
        """Read from `reader` into `days`."""
        self._reader, self._days = reader, days
        self._waiting: list[int] = []
        self._is_named = False  # a weekday by its name, which another may follow: "mon wed fri"

    @staticmethod
    def starts_at(reader: TokenCursor, ahead: int = 0) -> bool:
        """Say whether a list of days may start at a token."""
        token, after = reader.peek(ahead), reader.peek(ahead + 1)
        if token.word == "the":
            return True
        if token.kind == "number":
            return after.kind == "month"
        if token.word == "day":
            return after.kind == "number"
        if token.word == "second":
            return DayList.continues_ordinal(after)
        if token.word in _EDGES:
            return after.word == "of"
        is_day = token.kind in ("weekdays", "month", "ordinal", "date")
        return is_day or token.word in ("last", *_BUSINESS, *_WORKDAYS)

    @staticmethod
    def continues_ordinal(token: WordToken) -> bool:
        """Say whether a token may follow "second" where that is an ordinal and not a unit."""
        if token.kind in ("weekdays", "month", "ordinal"):
            return True
        units = ("week", "month", "year", "hour", "minute")
        return token.word in (*_COUNTED, *_BUSINESS, *_WORKDAYS, *units, "last", "to")

    @staticmethod
    def is_business(token: WordToken) -> bool:
        """Say whether a token starts "business day"."""
        return token.word in (*_BUSINESS, *_WORKDAYS)

    def read(self) -> None:
        """Read items for as long as they go on."""
        self._item()
        while self._goes_on():
            self._item()
        self._settle_numbers()
        if self._days.is_business and (self._days.weekdays or self._days.is_other_than_weekdays):
            self._reader.refuse("business days beside other days", "make a timetable for each")

    def _goes_on(self) -> bool:
        reader = self._reader
        if self._is_named and reader.peek().word in tokens.WEEKDAY_NAMES:
            return True
        ahead = 0
        while ahead < 2 and reader.peek(ahead).word in (",", "and", "&", "or"):
            ahead += 1
        is_or = any(reader.peek(place).word == "or" for place in range(ahead))
        skipped = ahead + (ahead > 0 and reader.peek(ahead).word == "on")
        if not ahead or not self.starts_at(reader, skipped):
            return False
        if is_or and not self._changes_kind(skipped):
            reader.refuse("'or' between days, which leaves open which one", "say 'and' for both")
        reader.skip(skipped)
        return True

    def _changes_kind(self, ahead: int) -> bool:
        """Say whether "or" leads from weekdays to days of the month, where it means either."""
        if self._waiting or not (self._days.weekdays or self._days.ordinals):
            return False
        ahead += self._reader.peek(ahead).word == "the"
        coming = [self._reader.peek(ahead), self._reader.peek(ahead + 1)]
        return not any(token.kind == "weekdays" and token.word != "weekday" for token in coming)

    def _item(self) -> None:
        reader = self._reader
        reader.skip_word("the")
        token = reader.peek()
        self._is_named = token.word in tokens.WEEKDAY_NAMES
        if token.kind == "weekdays":
            self._weekdays()
        elif token.kind == "ordinal" or token.word in ("second", "last"):
            self._ordinal()
        elif token.kind in ("month", "number"):
            self._yearly_date()
        elif token.kind == "date":
            self._once()
        elif token.word == "day" and reader.peek(1).kind == "number":
            reader.skip()
            self._number(reader.take().value)
        elif self.is_business(token):
            self._each_business_day()
        elif token.word in _EDGES:
            self._edge()
        else:
            reader.refuse_token()

    def _edge(self) -> None:
        """Read "end" or "start", of the month as a rule."""
        reader = self._reader
        if self._waiting:
            reader.refuse_token()
        edge = reader.take().word
        if reader.peek().word != "of":
            reader.refuse(f"{edge!r} without saying of what", f"say '{edge} of the month'")
        if edge == "end":
            self._days.from_end.add(0)
        else:
            self._days.numbers.add(1)

    def _each_business_day(self) -> None:
        if self._waiting:
            self._reader.refuse_token()
        self._skip_business_day()
        self._days.is_business = True

    def _skip_business_day(self) -> None:
        reader = self._reader
        if reader.take().word in _WORKDAYS or reader.skip_word(*_COUNTED):
            return
        if reader.peek().word in ("hour", "hours"):
            remedy = "say the hours, as in 'every 15 minutes between 9 and 17 on weekdays'"
            reader.refuse("business hours, which are not the same everywhere", remedy)
        reader.refuse_token("write 'business day'")

    def _weekdays(self) -> None:
        reader = self._reader
        first = reader.take()
        if first.word == "weekday" and reader.skip_word("nearest"):
            reader.skip_word("the")
            if reader.peek().kind != "ordinal":
                reader.refuse_token("write 'on the weekday nearest the 15th'")
            self._days.nearest.add(self._checked(reader.take().value))
            return
        is_range = reader.peek().word in ("to", "through", "-")
        if not is_range or reader.peek(1).kind != "weekdays":
            self._days.weekdays |= first.value
            return
        reader.skip()
        last = reader.take()
        if first.value.bit_count() > 1 or last.value.bit_count() > 1:
            reader.refuse("a stretch of weekdays without two ends", "write 'monday to thursday'")
        day = first.value
        self._days.weekdays |= day
        while day != last.value:
            day = day << 1 if day < 1 << 6 else 1
            self._days.weekdays |= day

    def _ordinal(self) -> None:
        """Read "2nd", "last" or "3rd last", and the noun if it comes now."""
        reader = self._reader
        token = reader.take()
        number = -1 if token.word == "last" else 2 if token.kind == "unit" else token.value
        if number > 0 and reader.skip_word("last"):
            number = -number
        elif self._comes_to_last(token):
            reader.skip(2)
            number = -number
        elif number > 0 and reader.peek().word in ("to", "through", "-"):
            self._stretch(number)
            return
        after = reader.peek()
        if after.kind == "part" or after.word in tokens.TIMES:
            remedy = f"say 'on the {token.text}' of the month with 'at …', or 'every 3 days'"
            reader.refuse(f"a count of {after.text}, which may be of a month or on and on", remedy)
        if after.kind == "month" and number > 0:
            reader.skip()
            self._add_date(after.value, number)
            return
        self._waiting.append(number)
        if after.kind == "weekdays":
            self._count_weekdays(reader.take())
        elif after.word in _COUNTED:
            reader.skip()
            self._settle_days()
        elif self.is_business(after):
            self._count_business()

    def _comes_to_last(self, token: WordToken) -> bool:
        """Say whether it is "second to last"; "2nd to last" may be a stretch."""
        is_place = token.text.isalpha() and token.word not in ("first", "last")
        return is_place and (self._reader.peek().word, self._reader.peek(1).word) == ("to", "last")

    def _stretch(self, first: int) -> None:
        """Read the rest of "1st to 7th"."""
        reader = self._reader
        reader.skip()
        reader.skip_word("the")
        if reader.peek().kind != "ordinal":
            reader.refuse_token("write 'on the 1st to 7th', or '2nd last day'")
        last = self._checked(reader.take().value)
        if last < self._checked(first):
            reader.refuse("days that run backwards", "write the lower day first")
        self._days.numbers.update(range(first, last + 1))

    def _count_weekdays(self, token: WordToken) -> None:
        reader = self._reader
        waiting, self._waiting = self._waiting, []
        for number in waiting:
            if token.word == "weekday" and number in (1, -1):
                self._days.nearest.add(number)
            elif token.value.bit_count() > 1:
                remedy = f"say 'business day' for the {token.text}s of a month in order"
                reader.refuse(f"a count of {token.text}", remedy)
            elif number != -1 and not 1 <= number <= 5:
                remedy = "count weekdays from the 1st to the 5th, or say 'last'"
                reader.refuse(f"weekday number {number} of a month", remedy)
            else:
                self._days.ordinals.add((token.value.bit_length() - 1, number))

    def _count_business(self) -> None:
        reader = self._reader
        self._skip_business_day()
        waiting, self._waiting = self._waiting, []
        for number in waiting:
            if not 1 <= abs(number) <= 23:
                reader.refuse(f"business day {abs(number)}", "a month has at most 23 of them")
            self._days.business.add(number)

    def _settle_days(self) -> None:
        """Take waiting ordinals as days of the month, from either end."""
        waiting, self._waiting = self._waiting, []
        for number in waiting:
            if number > 0:
                self._number(number)
            else:
                self._days.from_end.add(self._checked(-number) - 1)

    def _settle_numbers(self) -> None:
        """Take ordinals without a noun as days of the month; "last" alone says too little."""
        if any(number < 0 for number in self._waiting):
            self._reader.refuse("'last' without saying of what", "say 'last day' or 'last friday'")
        self._settle_days()

    def _number(self, number: int) -> None:
        self._days.numbers.add(self._checked(number))

    def _checked(self, number: int) -> int:
        if not 1 <= number <= _LAST_MAX:
            self._reader.refuse(f"day {number} of a month", "give a day from 1 to 31")
        return number

    def _yearly_date(self) -> None:
        """Read "24 december", "december 24th" or "december the 24th"."""
        reader = self._reader
        if reader.peek().kind == "number":
            number = reader.take().value
            if reader.peek().kind != "month":
                remedy = f"write 'the {ordinal(number)}' for a day of the month, or name the month"
                reader.refuse(f"the number {number} where a day belongs", remedy)
            month = reader.take().value
        else:
            month = reader.take().value
            reader.skip_word("the")
            if reader.peek().kind not in ("number", "ordinal"):
                reader.refuse("a month without a day", "say the day, as in 'january 1st'")
            number = reader.take().value
        self._add_date(month, number)

    def _add_date(self, month: int, number: int) -> None:
        if self._waiting:
            self._reader.refuse("a date after days that lack a month", "give each day its month")
        if not 1 <= number <= _MONTH_LENGTHS[month]:
            problem = f"a day that does not exist, {MONTHS[month]} {number}"
            self._reader.refuse(
                problem, f"{MONTHS[month]} has {_MONTH_LENGTHS[month]} days at most"
            )
        self._days.dates.add((month, number))

    def _once(self) -> None:
        if self._days.once:
            self._reader.refuse("two dates", "make one timetable for each date")
        self._days.once = date.fromordinal(self._reader.take().value)
