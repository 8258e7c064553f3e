"""The grammar of plain language: tokens in, the parts of a sentence out, in one pass.

A sentence is a row of clauses in any order, each known by its first word:

    every 15 minutes · every weekday · on the 1st and 15th · at 9 and 18:00 · in the morning
    between 8 and 17 · except sundays · in january · from 2026-01-01 · until 2026-12-31
    10 times · in Europe/Paris

The parser neither backtracks nor guesses: a clause either reads on or refuses.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, ClassVar, NoReturn

from duly.timetable.language import tokens
from duly.timetable.language.days import DayList
from duly.timetable.language.sentence import Days, Sentence
from duly.timetable.language.times import ClockList
from duly.timetable.language.tokens import NotUnderstoodError, TokenCursor, WordToken

if TYPE_CHECKING:
    from collections.abc import Callable

YEAR_WRITTEN_MIN = 1000
"""A number of four digits after a day and a month is a year, and no hour."""

_STARTS = ("from", "starting", "since")
_ENDS = ("until", "till")
_ARTICLES = ("every", "each", "the")
_RATES = ("a", "an", "per")
_NTH_UNITS = (*tokens.CALENDAR_UNITS, "hour", "minute")
_RATE_EXAMPLES = {
    "day": "every day at 9:00 and 17:00",
    "week": "every monday and thursday at 9:00",
    "month": "on the 1st and 15th at 9:00",
    "quarter": "first day of the quarter at 9:00",
    "year": "on 1 april and 1 october at 9:00",
}


def read_sentence(tokens: list[WordToken]) -> Sentence:
    """Read tokens as clauses until none are left."""
    return Grammar(tokens).read()


class Grammar(TokenCursor):
    """One reading of one sentence."""

    def __init__(self, tokens: list[WordToken]) -> None:
        """Start before the first token."""
        super().__init__(tokens)
        self.said = Sentence()
        self.said.is_shorthand = len(tokens) == 1
        self._clock = ClockList(self, self.said)

    def read(self) -> Sentence:
        """Read clause by clause."""
        if self.is_over:
            raise NotUnderstoodError("is empty")
        while not self.is_over:
            self._clause()
        return self.said

    def _clause(self) -> None:
        token = self.peek()
        if token.word in self._BY_WORD:
            self.skip()
            self._BY_WORD[token.word](self)
        elif token.word in tokens.ADVERBS:
            self.skip()
            self._period(tokens.ADVERBS[token.word], 1)
        elif token.kind == "zone":
            self._zone(self.take().text)
            self.skip_word("time")
        elif ClockList.starts_at(self):
            self._clock.read_bare()
        elif token.kind == "number" and self.peek(1).word in ("times", "x"):
            self._count()
        elif self.peek(1).word == "time" and token.kind == "word":
            self._zone(self.take().text)
            self.skip()
        elif DayList.starts_at(self):
            self._days()
        elif token.kind == "number":
            self.refuse("a number that may be anything")
        else:
            self.refuse_token()

    def _comma(self) -> None:
        if self.is_over:
            self.refuse("a comma at the end")

    def _every(self) -> None:
        token = self.peek()
        if token.word == "other":
            self.skip()
            self._every_nth(2)
        elif token.kind == "number" and self.peek(1).kind == "unit":
            self._every_so_many()
        elif token.word == "second" or token.kind == "ordinal":
            self._every_ordinal()
        elif token.kind == "unit":
            self.skip()
            self._period(tokens.UNITS[token.word], 1)
        elif token.word in ("half", "quarter"):
            self._every_fraction()
        elif self.skip_word("fortnight"):
            self._period("week", 2)
        elif token.kind == "part":
            self._period("day", 1)
            self._clock.parts()
        elif token.word in tokens.TIMES:
            self._period("day", 1)
            self._clock.read()
        elif DayList.starts_at(self):
            self._days()
        else:
            self.refuse_token()

    def _every_fraction(self) -> None:
        """Read "half hour", "half an hour", "quarter of an hour" and "quarter"."""
        word = self.take().word
        if word == "quarter" and self.peek().word == "of":
            self.skip()
            is_hour = self.skip_word("an") and self.peek().word == "hour"
        else:
            is_hour = (word == "half" and self.skip_word("an")) or self.peek().word == "hour"
        if is_hour and self.skip_word("hour"):
            self._step((30 if word == "half" else 15) * tokens.UNIT_SECONDS["minute"])
        elif word == "half":
            self.refuse(
                "half of something other than an hour", "say it whole, as in 'every 12 hours'"
            )
        else:
            self._period("quarter", 1)

    def _every_ordinal(self) -> None:
        """Tell "every second" from "every second day" and "every 2nd monday of the month"."""
        token, after = self.peek(), self.peek(1)
        is_unit = token.kind == "unit"
        if after.kind == "part":
            self.skip()
            self._every_nth(2 if is_unit else token.value)
        elif is_unit and not DayList.continues_ordinal(after):
            self.skip()
            self._period("second", 1)
        elif after.word in _NTH_UNITS and self.peek(2).word != "of":
            self.skip()
            self._every_nth(2 if is_unit else token.value)
        elif token.value == 1:
            self._days()
        elif after.kind == "weekdays" and self.peek(2).word not in ("of", "in"):
            nth, day, number = token.text, after.text, 2 if is_unit else token.value
            remedy = (
                f"write 'every {nth} {day} of the month', or 'every {number} weeks on {day}' with"
                " the date of the first"
            )
            self.refuse(f"'every {nth} {day}', which may count weeks or days of a month", remedy)
        elif DayList.is_business(after) and "of" not in (self.peek(2).word, self.peek(3).word):
            remedy = f"write '{token.text} business day of the month' if that is meant"
            self.refuse("a count of business days, which may be of a month or on and on", remedy)
        else:
            self._days()

    def _every_nth(self, number: int) -> None:
        """Read "every other day": a period of the calendar, or a weekday every so many weeks."""
        token = self.peek()
        if token.word in _NTH_UNITS:
            self.skip()
            self._period(token.word, number)
        elif token.kind == "part":
            self._period("day", number)
            self._clock.parts()
        elif token.kind == "weekdays":
            self._period("week", number)
            self._days()
        else:
            self.refuse_token()

    def _every_so_many(self) -> None:
        """Read "15 minutes" or "1 hour 30 minutes"; days and more are counted by the calendar."""
        number, unit = self.take().value, tokens.UNITS[self.take().word]
        if unit in tokens.CALENDAR_UNITS:
            self._period(unit, number)
            return
        seconds = number * tokens.UNIT_SECONDS[unit]
        while self._continues_duration():
            self.skip_word("and")
            number, unit = self.take().value, tokens.UNITS[self.take().word]
            seconds += number * tokens.UNIT_SECONDS[unit]
        self._step(seconds)

    def _continues_duration(self) -> bool:
        ahead = 1 if self.peek().word == "and" else 0
        number, unit = self.peek(ahead), self.peek(ahead + 1)
        return (
            number.kind == "number"
            and unit.kind == "unit"
            and tokens.UNITS[unit.word] in tokens.UNIT_SECONDS
        )

    def _period(self, unit: str, number: int) -> None:
        if unit in tokens.UNIT_SECONDS:
            self._step(number * tokens.UNIT_SECONDS[unit])
            return
        # "every day … every month" would be two periods; "monthly on the 3rd" is one and its day.
        self.said.say("how often")
        if number == 0:
            self.refuse("a period of zero", "say 1 or more")
        self.said.period = (unit, number)

    def _step(self, seconds: int) -> None:
        self.said.say("how often")
        if seconds == 0:
            self.refuse("a distance of zero", "say 1 or more")
        self.said.step = seconds

    def _days(self) -> None:
        self.said.say("which days")
        DayList(self, self.said.days).read()
        ahead = 1 if self.peek().word == "," else 0
        year = self.peek(ahead)
        if (
            len(self.said.days.dates) == 1
            and year.kind == "number"
            and year.value >= YEAR_WRITTEN_MIN
        ):
            self.skip(ahead + 1)
            ((month, day),) = self.said.days.dates
            self.said.days.dates = set()
            self.said.days.once = self._checked_date(year.value, month, day)

    def _on(self) -> None:
        if not self._clock.on_the_hour():
            self._days()

    def _at(self) -> None:
        ahead = int(self.peek().word == "the")
        if self.peek(ahead).word in ("end", "start", "beginning"):
            self._days()
        else:
            self._clock.read()

    def _nightly(self) -> None:
        self._period("day", 1)
        self.said.say("a part of the day")
        self.said.parts.append(tokens.DAY_PARTS[tokens.PART_WORDS["night"]])

    def _except(self) -> None:
        """Read "except sundays", "except for sundays", "but not on sundays"."""
        self.skip_word("not", "for")
        self.skip_word("on")
        self.said.say("an exception")
        remedy = (
            "name weekdays, as in 'except sundays'; .excluding(…) and .on_business_days(…) leave"
            " out other days"
        )
        if not DayList.starts_at(self):
            self.refuse("an exception other than weekdays", remedy)
        days = Days()
        DayList(self, days).read()
        if not days.weekdays or days.is_other_than_weekdays:
            self.refuse("an exception other than weekdays", remedy)
        self.said.left_out = days.weekdays

    def _from(self) -> None:
        token = self.peek()
        if token.kind in ("time", "number") and self.peek(1).kind != "month":
            self._clock.stretch()
            return
        if token.word == "at":
            self.refuse("a start without an end", "write 'from 8:00 to 17:00'")
        self.said.say("a start date")
        self.said.start = self._date()
        if self.peek().word in ("to", "through"):
            self.skip()
            self._until()

    def _until(self) -> None:
        if self.peek().kind == "time":
            self.refuse("an end without a start", "write 'from 8:00 to 17:00'")
        self.said.say("an end date")
        self.said.end = self._date()

    def _date(self) -> date:
        """Read a whole date: "2026-04-03", "3 april 2026", "april 3rd, 2026"."""
        first = self.peek()
        if first.kind == "date":
            return date.fromordinal(self.take().value)
        second = self.peek(1)
        kinds = {first.kind, second.kind}
        if "month" not in kinds or not kinds & {"number", "ordinal"}:
            self.refuse_token("write a date such as 2026-04-03")
        month, day = (first, second) if first.kind == "month" else (second, first)
        self.skip(2)
        self.skip_word(",")
        year = self.peek()
        if year.kind != "number" or year.value < YEAR_WRITTEN_MIN:
            self.refuse("a date without a year", "write it as 2026-04-03")
        self.skip()
        return self._checked_date(year.value, month.value, day.value)

    def _checked_date(self, year: int, month: int, day: int) -> date:
        try:
            return date(year, month, day)
        except ValueError:
            return self.refuse("a date that does not exist", "write a date such as 2026-04-03")

    def _in(self) -> None:
        """Read months ("in january and march"), a part of the day or a zone ("in Europe/Paris")."""
        token = self.peek()
        ahead = int(token.word == "the")
        if self.peek(ahead).kind == "part":
            self.skip(ahead)
            self._clock.parts()
            return
        if DayList.is_business(token) or token.word in tokens.REFUSED:
            DayList(self, Days()).read()
            self.refuse(f"{token.text!r} after 'in'", "say 'on' before days")
        if token.kind == "number" and self.peek(1).kind == "unit":
            remedy = "write the date, as in 'once on 2026-04-03 at 9:00'"
            self.refuse("a distance from now, which means another time each time", remedy)
        if token.kind == "zone" or (token.kind == "word" and token.word not in tokens.KEYWORDS):
            self._zone(self.take().text)
            self.skip_word("time")
            return
        self._of()

    def _of(self) -> None:
        """Read "of the month", "of every month", "of the quarter" or "of january"."""
        token = self.peek()
        ahead = int(token.word in _ARTICLES)
        span = self.peek(ahead).word
        if span in ("month", "quarter", "year"):
            self.skip(ahead + 1)
            if not self.said.days.of_months:
                remedy = f"say which day, as in 'on the 1st of the {span}'"
                self.refuse(f"'of the {span}' without a day", remedy)
            self.said.say("which months")
            self.said.span = span
        elif span == "day" and self.said.step:
            self.skip(ahead + 1)
        elif span == "week":
            if self.said.period != ("day", 1) or not self.said.days.is_any:
                self.refuse("a day of the week without its name", "name it, as in 'every monday'")
            self.skip(ahead + 1)
        elif token.kind == "month":
            self.said.say("which months")
            self.said.months = self.take_months()
        else:
            self.refuse_token("name a month, or a zone such as Europe/Paris")

    def _bracket(self) -> None:
        token = self.take()
        if token.kind not in ("zone", "word") or not self.skip_word(")"):
            self.refuse("brackets around something else than a zone", "write '(Europe/Paris)'")
        self._zone(token.text)

    def _zone(self, text: str) -> None:
        self.said.say("a zone")
        self.said.zone = text

    def _count(self) -> None:
        """Read "10 times"; refuse "3 times a day", which does not say when."""
        number = self.take().value
        self.skip()
        after, unit = self.peek(), tokens.UNITS.get(self.peek(1).word)
        is_often = after.word in ("every", "each") and unit in tokens.UNIT_SECONDS
        if is_often or after.word in _RATES or after.word in tokens.ADVERBS:
            self._rate()
        self.said.say("how many times")
        self.said.count = number

    def _rate(self) -> NoReturn:
        """Refuse "twice a day": it says how often, and not when."""
        self.skip_word(*_RATES, "every", "each")
        word = self.peek().word
        unit = tokens.ADVERBS.get(word) or tokens.UNITS.get(word)
        if unit is None:
            unit = self.said.period[0] if self.said.period else "day"
        example = _RATE_EXAMPLES.get(unit, "every 30 minutes")
        remedy = f"say when, as in '{example}'"
        raise NotUnderstoodError("says how many times, but not when", remedy)

    def _once(self) -> None:
        """Read "once" before a date, and "once a day", which is "every day"."""
        after, unit = self.peek(), self.peek(1)
        if after.word in _RATES and unit.kind == "unit":
            self.skip(2)
            self._period(tokens.UNITS[unit.word], 1)
        elif after.word not in ("every", "each") and after.word not in tokens.ADVERBS:
            self.said.say("once")
            self.said.is_once = True

    def _and(self) -> None:
        """Refuse "and" where no list goes on."""
        remedy = "say one rule at a time; timetables can be joined, as in a | b"
        raise NotUnderstoodError("can't be read on from 'and'", unless_mended=remedy)

    _BY_WORD: ClassVar[dict[str, Callable[[Grammar], None]]] = {
        ",": _comma,
        "every": _every,
        "each": _every,
        "on": _on,
        "at": _at,
        "between": lambda self: self._clock.between(),
        **dict.fromkeys(_STARTS, _from),
        **dict.fromkeys(_ENDS, _until),
        "in": _in,
        "of": _of,
        "(": _bracket,
        "once": _once,
        "twice": _rate,
        "nightly": _nightly,
        "fortnightly": lambda self: self._period("week", 2),
        "except": _except,
        "but": _except,
        "during": _in,
        "and": _and,
        "gmt": lambda self: self._zone("GMT"),
        "utc": lambda self: self._zone("UTC"),
    }
