"""The tokens of a sentence: text is cut once, from left to right, and each piece has its kind."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import Literal

from duly.domain.instants import HOUR, MINUTE
from duly.domain.language import vocabulary

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
class Token:
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


END = Token("end", "")

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


def tokenise(text: str) -> list[Token]:
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


def _token(kind: str, text: str) -> Token:  # noqa: PLR0911 - one for each kind
    match kind:
        case "date":
            return _date(text)
        case "slashed":
            return _slashed(text)
        case "time":
            return _clock(text)
        case "ordinal":
            return Token("ordinal", text, int(text[:-2]))
        case "number":
            return Token("number", text, int(text))
        case "minute":
            return _minute(text)
        case "fraction":
            remedy = "use whole numbers, as in 'every 90 minutes'"
            raise NotUnderstoodError(f"has a number with a fraction, {text}", remedy)
        case "zone":
            return _zone(text)
        case "mark":
            return Token("mark", text)
        case _:
            return _word(text)


def _word(text: str) -> Token:
    word = text.lower()
    for kind, table in _TABLES:
        if word in table:
            return Token(kind, text, table[word])
    return Token("unit" if word in vocabulary.UNITS else "word", text)


_TABLES: tuple[tuple[TokenKind, dict[str, int]], ...] = (
    ("weekdays", vocabulary.WEEKDAY_NAMES | vocabulary.WEEKDAY_SETS),
    ("month", vocabulary.MONTH_NAMES),
    ("number", vocabulary.NUMBERS),
    ("ordinal", vocabulary.ORDINALS),
    ("time", vocabulary.TIMES),
    ("part", vocabulary.PART_WORDS),
)


def _zone(text: str) -> Token:
    """Tell "mon/wed/fri" from the name of a zone."""
    words = text.lower().split("/")
    if not all(word in vocabulary.WEEKDAY_NAMES for word in words):
        return Token("zone", text)
    weekdays = 0
    for word in words:
        weekdays |= vocabulary.WEEKDAY_NAMES[word]
    return Token("weekdays", text, weekdays)


def _minute(text: str) -> Token:
    """Read ":15", a minute of every hour."""
    minute = int(text[1:])
    if minute > 59:
        raise NotUnderstoodError(f"names a minute that no hour has, {text}", "give :00 to :59")
    return Token("minute", text, minute)


def _date(text: str) -> Token:
    try:
        return Token("date", text, date.fromisoformat(text).toordinal())
    except ValueError:
        problem = f"names a date that does not exist, {text}"
        raise NotUnderstoodError(problem, "write a date such as 2026-04-03") from None


def _slashed(text: str) -> Token:
    """Read a date with slashes, if only one of the two orders of day and month makes sense."""
    first, second, year = (int(part) for part in text.split("/"))
    if first <= 12 and second <= 12 and first != second:
        orders = f"{year:04}-{first:02}-{second:02} or {year:04}-{second:02}-{first:02}"
        raise NotUnderstoodError(f"may mean two dates by {text}", f"write {orders}")
    month, day = (second, first) if first > 12 else (first, second)
    return _date(f"{year:04}-{month:02}-{day:02}")


def _clock(text: str) -> Token:
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
    return Token("time", text, hour * HOUR + minute * MINUTE + second)
