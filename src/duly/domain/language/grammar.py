"""The grammar of plain language: tokens in, the parts of a sentence out, in one pass.

A sentence is a row of clauses in any order, each known by its first word:

    every 15 minutes · every weekday · on the 1st and 15th · at 9 and 18:00 · between 8 and 17
    in january · from 2026-01-01 · until 2026-12-31 · 10 times · in Europe/Paris

Nothing is tried twice and nothing is guessed: a clause either reads on or refuses.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, ClassVar

from duly.domain.language import vocabulary
from duly.domain.language.day_list import DayList
from duly.domain.language.reader import Reader
from duly.domain.language.sentence import Sentence, Window
from duly.domain.language.tokens import NotUnderstoodError, Token

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOWS_MAX = 4
YEAR_WRITTEN_MIN = 1000
"""A number of four digits after a day and a month is a year, and no hour."""

_STARTS = ("from", "starting", "since")
_ENDS = ("until", "till")
_TO = ("to", "until", "till", "-", "through")


def read_sentence(tokens: list[Token]) -> Sentence:
    """Read tokens as clauses until none are left."""
    return Grammar(tokens).read()


class Grammar(Reader):
    """One reading of one sentence."""

    def __init__(self, tokens: list[Token]) -> None:
        """Start before the first token."""
        super().__init__(tokens)
        self.said = Sentence()
        self.said.is_shorthand = len(tokens) == 1

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
        elif token.word in vocabulary.ADVERBS:
            self.skip()
            self._period(vocabulary.ADVERBS[token.word], 1)
        elif token.kind == "zone":
            self._zone(self.take().text)
            self.skip_word("time")
        elif token.kind == "time":
            self._at()
        elif token.kind == "number" and self.peek(1).word == "times":
            self._count(self.take().value)
            self.skip()
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
            self._period(vocabulary.UNITS[token.word], 1)
        elif DayList.starts_at(self):
            self._days()
        else:
            self.refuse_token()

    def _every_ordinal(self) -> None:
        """Tell "every second" from "every second day" and "every 2nd monday of the month"."""
        token, after = self.peek(), self.peek(1)
        is_unit = token.kind == "unit"
        if is_unit and not DayList.continues_ordinal(after):
            self.skip()
            self._period("second", 1)
        elif after.word in vocabulary.CALENDAR_UNITS and self.peek(2).word != "of":
            self.skip()
            self._every_nth(2 if is_unit else token.value)
        elif (
            after.kind == "weekdays" and self.peek(2).word not in ("of", "in") and token.value != 1
        ):
            nth, day, number = token.text, after.text, 2 if is_unit else token.value
            remedy = (
                f"write 'every {nth} {day} of the month', or 'every {number} weeks on {day}' with"
                " the date of the first"
            )
            self.refuse(f"'every {nth} {day}', which may count weeks or days of a month", remedy)
        else:
            self._days()

    def _every_nth(self, number: int) -> None:
        """Read "every other day": a period of the calendar, or a weekday every so many weeks."""
        token = self.peek()
        if token.word in vocabulary.CALENDAR_UNITS:
            self.skip()
            self._period(token.word, number)
        elif token.kind == "weekdays":
            self._period("week", number)
            self._days()
        else:
            self.refuse_token()

    def _every_so_many(self) -> None:
        """Read "15 minutes" or "1 hour 30 minutes"; days and more are counted by the calendar."""
        number, unit = self.take().value, vocabulary.UNITS[self.take().word]
        if unit in vocabulary.CALENDAR_UNITS:
            self._period(unit, number)
            return
        seconds = number * vocabulary.UNIT_SECONDS[unit]
        while self._continues_duration():
            self.skip_word("and")
            number, unit = self.take().value, vocabulary.UNITS[self.take().word]
            seconds += number * vocabulary.UNIT_SECONDS[unit]
        self._step(seconds)

    def _continues_duration(self) -> bool:
        ahead = 1 if self.peek().word == "and" else 0
        number, unit = self.peek(ahead), self.peek(ahead + 1)
        return (
            number.kind == "number"
            and unit.kind == "unit"
            and vocabulary.UNITS[unit.word] in vocabulary.UNIT_SECONDS
        )

    def _period(self, unit: str, number: int) -> None:
        if unit in vocabulary.UNIT_SECONDS:
            self._step(number * vocabulary.UNIT_SECONDS[unit])
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
        self._days()

    def _at(self) -> None:
        if self.peek().word in ("minute", "minutes"):
            self.skip()
            self._minutes()
            return
        self.said.say("the time of day")
        times = [self.take_time("a time of day").value]
        while self.continues_list(lambda token: token.kind in ("time", "number")):
            times.append(self.take_time("a time of day").value)
        if self.peek().word == "or":
            self.refuse("'or' between times, which leaves open which one", "say 'and' for both")
        if len(times) > 24:
            self.refuse("more than 24 times", "use 'every … between …' for many times a day")
        self.said.times = times

    def _minutes(self) -> None:
        """Read "at minutes 5 and 35 of every hour"."""
        self.said.say("the time of day")
        numbers = [self.take_number("a minute")]
        while self.continues_list(lambda token: token.kind == "number"):
            numbers.append(self.take_number("a minute"))
        for word in ("of", "every", "hour"):
            if not self.skip_word(word):
                self.refuse_token("write 'at minute 5 of every hour'")
        for number in numbers:
            if number > 59:
                self.refuse(f"minute {number}", "give a minute from 0 to 59")
            self.said.minutes |= 1 << number

    def _between(self) -> None:
        start = self.take_time("the start of a stretch of the day")
        if not self.skip_word("and"):
            self.refuse_token("write 'between 8 and 17'")
        self._window(start)

    def _window(self, start: Token) -> None:
        """Read the end of a stretch of the day, and another stretch if "and from" leads to it."""
        end = self.take_time("the end of a stretch of the day")
        if len(self.said.windows) == WINDOWS_MAX:
            self.refuse(f"more than {WINDOWS_MAX} stretches of the day", "say fewer")
        window = Window(start.value, end.value, start.is_exact and end.is_exact)
        self.said.windows.append(window)
        if self.continues_list(lambda token: token.word in ("from", "between")):
            return
        self.said.say("a stretch of the day")

    def _from(self) -> None:
        token = self.peek()
        if token.kind in ("time", "number") and self.peek(1).kind != "month":
            start = self.take_time("the start of a stretch of the day")
            if not self.skip_word(*_TO):
                self.refuse_token("write 'from 8:00 to 17:00'")
            self._window(start)
            return
        self.said.say("a start date")
        self.said.start = self._date()
        if self.peek().word in ("to", "through"):
            self.skip()
            self._until()

    def _until(self) -> None:
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
        """Read months ("in january and march") or a zone ("in Europe/Paris")."""
        token = self.peek()
        if token.kind == "zone" or (token.kind == "word" and token.word not in vocabulary.KEYWORDS):
            self._zone(self.take().text)
            self.skip_word("time")
            return
        self._of()

    def _of(self) -> None:
        """Read "of the month", "of every month" or "of january"."""
        token = self.peek()
        if token.word in ("every", "each", "the") and self.peek(1).word == "month":
            self.skip(2)
            if not self.said.days.of_months:
                remedy = "say which day, as in 'on the 1st of the month'"
                self.refuse("'of the month' without a day", remedy)
            self.said.say("which months")
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

    def _count(self, number: int) -> None:
        self.said.say("how many times")
        self.said.count = number

    def _once(self) -> None:
        self.said.say("once")
        self.said.is_once = True

    _BY_WORD: ClassVar[dict[str, Callable[[Grammar], None]]] = {
        ",": _comma,
        "every": _every,
        "each": _every,
        "on": _on,
        "at": _at,
        "between": _between,
        **dict.fromkeys(_STARTS, _from),
        **dict.fromkeys(_ENDS, _until),
        "in": _in,
        "of": _of,
        "(": _bracket,
        "once": _once,
        "utc": lambda self: self._zone("UTC"),
    }
