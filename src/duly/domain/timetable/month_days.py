"""A day of the month as people say it: 15, "last day", "3rd last business day", "first monday"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import NoReturn

from duly.domain.timetable.business_calendar import WEEKDAYS
from duly.domain.timetable.phrases import WEEKDAYS as WEEKDAY_NAMES
from duly.domain.timetable.phrases import ordinal
from duly.errors import UsageError

TEXT_LENGTH_MAX = 80
BUSINESS_DAY = "business day"
DAY = "day"
ORDINALS = (
    *("first", "second", "third", "fourth", "fifth"),
    *("sixth", "seventh", "eighth", "ninth", "tenth"),
)
_NUMBER = re.compile(r"([0-9]{1,2})(st|nd|rd|th)")
_NUMBERS_MAX = {DAY: 31, BUSINESS_DAY: 31} | dict.fromkeys(WEEKDAYS, 5)
_REMEDY = "give 1 to 31, 'last day', '5th business day', '3rd last business day' or 'first monday'"
_SUGGESTED = [
    f"{number} {unit}"
    for unit in _NUMBERS_MAX
    for number in ("first", "second", "third", "5th", "last", "second last", "3rd last")
]


@dataclass(frozen=True, slots=True)
class MonthDay:
    """The nth of a month's days, business days or weekdays by name; from the end if negative."""

    number: int
    unit: str = DAY

    @property
    def weekday(self) -> int | None:
        """The weekday meant, Monday = 0, if it is one."""
        return WEEKDAYS.index(self.unit) if self.unit in WEEKDAYS else None

    def of(self, members: int) -> int | None:
        """Return the place of the nth bit among a month's members, or None if there are fewer."""
        if members.bit_count() < abs(self.number):
            return None
        for _ in range(abs(self.number) - 1):
            members ^= _outermost(members, self.number)
        return _outermost(members, self.number).bit_length() - 1

    def __str__(self) -> str:
        """Say it: "15th", "last day", "3rd last business day", "1st Monday"."""
        if self.unit == DAY:
            return ordinal(self.number) if self.number > 0 else f"{ordinal(self.number)} day"
        weekday = self.weekday
        unit = self.unit if weekday is None else WEEKDAY_NAMES[weekday]
        return f"{'first' if self.number == 1 else ordinal(self.number)} {unit}"


def _outermost(members: int, number: int) -> int:
    """Return the lowest bit alone, or for a negative number the highest."""
    return members & -members if number > 0 else 1 << members.bit_length() - 1


def read_month_day(day: int | str) -> MonthDay:
    """Read a number, or words in any case; refuse others with the nearest thing there is."""
    if isinstance(day, int) and not isinstance(day, bool):
        if not 1 <= day <= 31:
            _refuse(day, "is not a day of a month")
        return MonthDay(day)
    if not isinstance(day, str) or len(day) > TEXT_LENGTH_MAX:
        _refuse(day, "is not a day of a month")
    return _read_words(day)


@lru_cache(maxsize=1024)
def _read_words(text: str) -> MonthDay:
    words = text.lower().split()
    if len(words) == 1 and words[0][0].isdigit():
        words = [ordinal(int(words[0])) if re.fullmatch("[0-9]{1,2}", words[0]) else words[0], DAY]
    unit = " ".join(words[-2:]) if words[-2:] == BUSINESS_DAY.split() else "".join(words[-1:])
    rest = words[: -len(unit.split())] if unit in _NUMBERS_MAX else []
    from_end = rest[-1:] == ["last"]
    number = 1 if rest == ["last"] else _number(rest[:-1] if from_end else rest)
    if not number or number > _NUMBERS_MAX[unit]:
        close = get_close_matches(" ".join(words), _SUGGESTED, n=1)
        remedy = f"did you mean {close[0]!r}?" if close else _REMEDY
        _refuse(text, "is not a day of a month", remedy)
    return MonthDay(-number if from_end else number, unit)


def _number(words: list[str]) -> int | None:
    """Read "third" or "3rd"."""
    if len(words) != 1:
        return None
    if words[0] in ORDINALS:
        return ORDINALS.index(words[0]) + 1
    found = _NUMBER.fullmatch(words[0])
    if not found or ordinal(int(found[1])) != words[0].lstrip("0"):
        return None
    return int(found[1])


def _refuse(day: object, problem: str, remedy: str = _REMEDY) -> NoReturn:
    raise UsageError("day", day, problem, remedy)
