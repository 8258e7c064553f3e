"""Lexer, vocabulary, and the cursor over tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Literal, NoReturn

from duly.timetable.instants import DAY, HOUR, MINUTE
from duly.timetable.phrases import MONTHS, WEEKDAYS, WEEKEND_MASK, WORKDAYS_MASK

if TYPE_CHECKING:
    from collections.abc import Callable


UNIT_SECONDS = {"second": 1, "minute": MINUTE, "hour": HOUR}
CALENDAR_UNITS = ("day", "week", "month", "year")

_UNITS = {
    "second": "second seconds sec secs s",
    "minute": "minute minutes min mins m",
    "hour": "hour hours hr hrs h",
    "day": "day days",
    "week": "week weeks",
    "month": "month months",
    "year": "year years",
}
UNITS = {word: unit for unit, words in _UNITS.items() for word in words.split()}

_SHORT_WEEKDAYS = ("mon", "tue tues", "wed", "thu thur thurs", "fri", "sat", "sun")
_WEEKDAY_WORDS = [
    (f"{name} {name}s {short}".lower().split(), 1 << number)
    for number, (name, short) in enumerate(zip(WEEKDAYS, _SHORT_WEEKDAYS, strict=True))
]
WEEKDAY_NAMES = {word: mask for words, mask in _WEEKDAY_WORDS for word in words}
WEEKDAY_SETS = {
    "weekday": WORKDAYS_MASK,
    "weekdays": WORKDAYS_MASK,
    "weekend": WEEKEND_MASK,
    "weekends": WEEKEND_MASK,
}
MONTH_NAMES = {
    word: number
    for number, name in enumerate(MONTHS)
    if number
    for word in (name.lower(), name[:3].lower())
} | {"sept": 9}

_NUMBERS = "one two three four five six seven eight nine ten eleven twelve"
NUMBERS = {word: number for number, word in enumerate(_NUMBERS.split(), 1)} | {
    "fifteen": 15,
    "twenty": 20,
    "thirty": 30,
}
ORDINALS = {"first": 1, "third": 3, "fourth": 4, "fifth": 5}
"""Without "second", which is a unit too: where it stands decides."""

TIMES = {"noon": 12 * HOUR, "midday": 12 * HOUR, "midnight": 0}


@dataclass(frozen=True, slots=True)
class DayPart:
    """A part of the day; a night ends in the morning. `usual` is a time that is surely in it."""

    name: str
    start: int
    end: int
    usual: int

    def includes(self, time: int) -> bool:
        """Say whether a second of the day is in it."""
        return (time - self.start) % DAY < self.end - self.start


DAY_PARTS = (
    DayPart("morning", 4 * HOUR, 12 * HOUR, 8 * HOUR),
    DayPart("afternoon", 12 * HOUR, 18 * HOUR, 15 * HOUR),
    DayPart("evening", 16 * HOUR, 24 * HOUR, 19 * HOUR),
    DayPart("night", 18 * HOUR, 30 * HOUR, 22 * HOUR),
)
PART_WORDS = {
    word: number for number, part in enumerate(DAY_PARTS) for word in (part.name, f"{part.name}s")
}

ADVERBS = {
    "secondly": "second",
    "minutely": "minute",
    "hourly": "hour",
    "daily": "day",
    "everyday": "day",
    "weekly": "week",
    "monthly": "month",
    "quarterly": "quarter",
    "yearly": "year",
    "annually": "year",
}

_REFUSED = (
    (
        "today tonight tomorrow yesterday now next this",
        "which means another day each day",
        "write the date, as in 'once on 2026-04-03 at 9:00'",
    ),
    (
        "few couple several some sometimes often regularly occasionally frequently",
        "which is no number",
        "say how many, as in 'every 2 hours'",
    ),
    (
        "around about approximately roughly circa ca",
        "which leaves the time open",
        "say the time, as in 'at 9:00'",
    ),
    (
        "biweekly bimonthly biannual biannually",
        "which has two meanings",
        "say 'every 2 weeks', or the days, as in 'on the 1st and 15th at 9:00'",
    ),
    (
        "christmas xmas easter thanksgiving halloween holiday holidays",
        "and a sentence can't name holidays",
        "say the date, as in 'every year on 24 december at 18:00'",
    ),
    (
        "est edt cst cdt mst mdt pst pdt cet cest bst ist jst aest",
        "which may be several zones",
        "write the name of the zone, such as Europe/Paris",
    ),
)
REFUSED = {word: (problem, remedy) for words, problem, remedy in _REFUSED for word in words.split()}
"""Words that people say but that no rule can keep: it means the same whenever it is read."""

_KEYWORDS = (
    "every each on at and or the of in to through between from until till starting since other"
    " once twice last business working work workday workdays day time times minute minutes nearest"
    " o'clock past half quarter fortnight fortnightly except but not during end start beginning"
    " per nightly"
)
KEYWORDS = frozenset(_KEYWORDS.split())
KNOWN = sorted(
    KEYWORDS
    | UNITS.keys()
    | WEEKDAY_NAMES.keys()
    | WEEKDAY_SETS.keys()
    | MONTH_NAMES.keys()
    | NUMBERS.keys()
    | ORDINALS.keys()
    | TIMES.keys()
    | PART_WORDS.keys()
    | ADVERBS.keys()
)


TEXT_LENGTH_MAX = 200

TokenKind = Literal[
    "word",
    "number",
    "ordinal",
    "time",
    "minute",
    "part",
    "date",
    "weekdays",
    "month",
    "unit",
    "zone",
    "mark",
    "end",
]


class NotUnderstoodError(Exception):
    """A sentence that the grammar does not have: what is wrong and, if known, what to do."""

    def __init__(
        self, problem: str, remedy: str | None = None, *, unless_mended: str | None = None
    ) -> None:
        """Say what is wrong.

        Without a remedy the nearest sentence will be looked for; `unless_mended` is what to do
        where none is near.
        """
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy
        self.unless_mended = unless_mended


@dataclass(frozen=True, slots=True)
class WordToken:
    """One word, number, time or date.

    `value` is a number, an ordinal's number, a time's second of the day, a minute of the hour, the
    place of a part of the day, a set of weekdays, a month or a date's ordinal. `is_exact` marks a
    time that can't be read in two ways, as a bare "9" can.
    """

    kind: TokenKind
    text: str
    value: int = 0
    is_exact: bool = True

    @property
    def word(self) -> str:
        """The text in lower case, by which keywords are known."""
        return self.text.lower()


END = WordToken("end", "")

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<date>\d{4}-\d{2}-\d{2}(?![\w:]))
    | (?P<slashed>\d{1,2}/\d{1,2}/\d{4}(?!\w))
    | (?P<time>\d{1,2}(?:(?:[:.]\d{2}){1,2}(?!\d)(?:\s?[ap]\.?m\b\.?)?|\s?[ap]\.?m\b\.?))
    | (?P<fraction>\d{1,7}\.\d)
    | (?P<minute>:\d{2}(?![\d:]))
    | (?P<ordinal>\d{1,3}(?:st|nd|rd|th)\b)
    | (?P<number>\d{1,7})
    | (?P<zone>[a-z_]+(?:/[a-z0-9_+-]+)+)
    | (?P<word>[a-z]+(?:'[a-z]+)?)
    | (?P<mark>[,&()-])
    )""",
    re.IGNORECASE | re.VERBOSE | re.ASCII,
)
_CLOCK = re.compile(r"(\d+)(?:[:.](\d+))?(?:[:.](\d+))?\s?([ap])?", re.ASCII)


def tokenise(text: str) -> list[WordToken]:
    """Cut a text into tokens; refuse characters that no sentence has."""
    ends = text.rstrip().rstrip(".!")
    tokens = []
    position = 0
    while position < len(ends):
        found = _TOKEN.match(ends, position)
        if not found or found.lastgroup is None:
            wrong = ends[position:].lstrip()[:1]
            raise NotUnderstoodError(f"has a character that no sentence has, {wrong!a}")
        tokens.append(_token(found.lastgroup, found[found.lastgroup]))
        position = found.end()
    return tokens


def _token(kind: str, text: str) -> WordToken:  # noqa: PLR0911 - one for each kind
    match kind:
        case "date":
            return _date(text)
        case "slashed":
            return _slashed(text)
        case "time":
            return _clock(text)
        case "ordinal":
            return WordToken("ordinal", text, int(text[:-2]))
        case "number":
            return WordToken("number", text, int(text))
        case "minute":
            return _minute(text)
        case "fraction":
            remedy = "use whole numbers, as in 'every 90 minutes'"
            raise NotUnderstoodError(f"has a number with a fraction, {text}", remedy)
        case "zone":
            return _zone(text)
        case "mark":
            return WordToken("mark", text)
        case _:
            return _word(text)


def _word(text: str) -> WordToken:
    word = text.lower()
    for kind, table in _TABLES:
        if word in table:
            return WordToken(kind, text, table[word])
    return WordToken("unit" if word in UNITS else "word", text)


_TABLES: tuple[tuple[TokenKind, dict[str, int]], ...] = (
    ("weekdays", WEEKDAY_NAMES | WEEKDAY_SETS),
    ("month", MONTH_NAMES),
    ("number", NUMBERS),
    ("ordinal", ORDINALS),
    ("time", TIMES),
    ("part", PART_WORDS),
)


def _zone(text: str) -> WordToken:
    """Tell "mon/wed/fri" from the name of a zone."""
    words = text.lower().split("/")
    if not all(word in WEEKDAY_NAMES for word in words):
        return WordToken("zone", text)
    weekdays = 0
    for word in words:
        weekdays |= WEEKDAY_NAMES[word]
    return WordToken("weekdays", text, weekdays)


def _minute(text: str) -> WordToken:
    """Read ":15", a minute of every hour."""
    minute = int(text[1:])
    if minute > 59:
        raise NotUnderstoodError(f"names a minute that no hour has, {text}", "give :00 to :59")
    return WordToken("minute", text, minute)


def _date(text: str) -> WordToken:
    try:
        return WordToken("date", text, date.fromisoformat(text).toordinal())
    except ValueError:
        problem = f"names a date that does not exist, {text}"
        raise NotUnderstoodError(problem, "write a date such as 2026-04-03") from None


def _slashed(text: str) -> WordToken:
    """Read a date with slashes, if only one of the two orders of day and month makes sense."""
    first, second, year = (int(part) for part in text.split("/"))
    if first <= 12 and second <= 12 and first != second:
        orders = f"{year:04}-{first:02}-{second:02} or {year:04}-{second:02}-{first:02}"
        raise NotUnderstoodError(f"may mean two dates by {text}", f"write {orders}")
    month, day = (second, first) if first > 12 else (first, second)
    return _date(f"{year:04}-{month:02}-{day:02}")


def _clock(text: str) -> WordToken:
    """Read "9:30", "21:15:30", "9pm" or "9.30 a.m." as a second of the day."""
    found = _CLOCK.match(text.lower())
    assert found, "the token's own pattern is narrower"
    hour, minute, second = int(found[1]), int(found[2] or 0), int(found[3] or 0)
    half = found[4]
    is_right = 1 <= hour <= 12 if half else hour <= 23
    if not is_right or minute > 59 or second > 59:
        remedy = "write a time from 00:00 to 23:59, or one such as 9:30pm"
        raise NotUnderstoodError(f"names a time that no day has, {text}", remedy)
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    return WordToken("time", text, hour * HOUR + minute * MINUTE + second)


_BETWEEN = (",", "and", "&")


class TokenCursor:
    """Where a reading has got to."""

    def __init__(self, tokens: list[WordToken]) -> None:
        """Start before the first token."""
        self._tokens = tokens
        self.position = 0

    @property
    def is_over(self) -> bool:
        """Whether all tokens are read."""
        return self.position >= len(self._tokens)

    def peek(self, ahead: int = 0) -> WordToken:
        """Return a coming token, or the end."""
        place = self.position + ahead
        return self._tokens[place] if place < len(self._tokens) else END

    def take(self) -> WordToken:
        """Return the coming token and go past it."""
        token = self.peek()
        self.position += 1
        return token

    def skip(self, number: int = 1) -> None:
        """Go past tokens."""
        self.position += number

    def skip_word(self, *words: str) -> bool:
        """Go past the coming token if it is one of these words; say whether it was."""
        if self.peek().word not in words:
            return False
        self.position += 1
        return True

    def continues_list(self, fits: Callable[[WordToken], bool]) -> bool:
        """Go past a comma or "and" if something that fits comes after it; say whether it did."""
        ahead = 0
        while ahead < 2 and self.peek(ahead).word in _BETWEEN:
            ahead += 1
        if not ahead or not fits(self.peek(ahead)):
            return False
        self.position += ahead
        return True

    def take_time(self, what: str) -> WordToken:
        """Take a time of day; a bare number is an hour of the 24-hour clock."""
        token = self.peek()
        if token.kind == "time":
            return self.take()
        if token.kind != "number":
            self.refuse_token(f"say {what}, such as 9, 9:30 or 9:30pm")
        if token.value > 23 or (len(token.text) > 2 and token.text.isdigit()):
            remedy = "write an hour from 0 to 23, or a time such as 09:30"
            raise NotUnderstoodError(f"has {token.text!r} as {what}", unless_mended=remedy)
        self.skip()
        self.skip_word("o'clock")
        return WordToken("time", token.text, token.value * HOUR, is_exact=token.value > 12)

    def take_number(self, what: str) -> int:
        """Take a number."""
        if self.peek().kind != "number":
            self.refuse_token(f"say {what} as a number")
        return self.take().value

    def take_months(self) -> int:
        """Take a list of months and ranges of them, as a set (bit 1 is January)."""
        months = self._month_or_range()
        while self.continues_list(lambda token: token.kind == "month"):
            months |= self._month_or_range()
        if self.peek().word == "or":
            self.refuse("'or' between months, which leaves open which one", "say 'and' for both")
        return months

    def _month_or_range(self) -> int:
        first = last = self.take().value
        if self.peek().word in ("to", "through", "-") and self.peek(1).kind == "month":
            self.skip()
            last = self.take().value
        if last < first:
            remedy = "name the months: 'in november, december and january'"
            self.refuse("months that run backwards", remedy)
        return (2 << last) - (1 << first)

    def refuse(self, what: str, remedy: str | None = None) -> NoReturn:
        """Refuse what was understood but can't be meant."""
        raise NotUnderstoodError(f"has {what}", remedy)

    def refuse_token(self, remedy: str | None = None) -> NoReturn:
        """Refuse the coming token."""
        token = self.peek()
        if token is END:
            raise NotUnderstoodError("stops too early", remedy)
        if token.word in REFUSED:
            problem, remedy = REFUSED[token.word]
            raise NotUnderstoodError(f"says {token.text!r}, {problem}", remedy)
        is_known = token.kind != "word" or token.word in KEYWORDS
        problem = "can't be read on from" if is_known else "has a word that Duly does not know,"
        raise NotUnderstoodError(f"{problem} {token.text!r}", remedy)
