"""Lists of days: "monday to thursday", "the 1st and last friday", "24 december", "last day"."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from duly.domain.language import vocabulary
from duly.domain.timetable.phrases import MONTHS, ordinal

if TYPE_CHECKING:
    from duly.domain.language.reader import Reader
    from duly.domain.language.sentence import Days
    from duly.domain.language.tokens import Token

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

    def __init__(self, reader: Reader, days: Days) -> None:
        """Read from `reader` into `days`."""
        self._reader, self._days = reader, days
        self._waiting: list[int] = []
        self._is_named = False  # a weekday by its name, which another may follow: "mon wed fri"

    @staticmethod
    def starts_at(reader: Reader, ahead: int = 0) -> bool:
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
    def continues_ordinal(token: Token) -> bool:
        """Say whether a token may follow "second" where that is an ordinal and not a unit."""
        if token.kind in ("weekdays", "month", "ordinal"):
            return True
        units = ("week", "month", "year", "hour", "minute")
        return token.word in (*_COUNTED, *_BUSINESS, *_WORKDAYS, *units, "last", "to")

    @staticmethod
    def is_business(token: Token) -> bool:
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
        if self._is_named and reader.peek().word in vocabulary.WEEKDAY_NAMES:
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
        self._is_named = token.word in vocabulary.WEEKDAY_NAMES
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
        if after.kind == "part" or after.word in vocabulary.TIMES:
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

    def _comes_to_last(self, token: Token) -> bool:
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

    def _count_weekdays(self, token: Token) -> None:
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
