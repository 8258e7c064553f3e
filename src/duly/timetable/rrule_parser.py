"""Recurrence rules as RFC 5545 writes them: text in, checked parts or an error naming one out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from duly.errors import UsageError, require_text
from duly.timetable.instants import DAY, wall_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Frequency = Literal["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY"]
FREQUENCIES: tuple[Frequency, ...] = (
    *("YEARLY", "MONTHLY", "WEEKLY", "DAILY"),
    *("HOURLY", "MINUTELY", "SECONDLY"),
)
WEEKDAY_CODES = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
TEXT_LENGTH_MAX = 2000
VALUES_MAX = 800
"""As many values as any part can usefully list: each day of a leap year, from either end."""

_NUMBER = re.compile(r"[+-]?[0-9]{1,4}")
_WHOLE = re.compile(r"[0-9]{1,18}")
_WEEKDAY = re.compile(rf"([+-]?[0-9]{{1,2}})?({'|'.join(WEEKDAY_CODES)})")
_UNTIL = re.compile(r"[0-9]{8}(?:T([0-9]{6})(Z?))?")


@dataclass(frozen=True, slots=True)
class Until:
    """The last second that a rule may use: of the wall clock in its zone, or of UTC."""

    second: int
    is_utc: bool
    is_day: bool


@dataclass(frozen=True, slots=True)
class RRuleParts:
    """A rule, part by part; an empty tuple is a part that was not given.

    Weekdays count from Monday = 0. `by_day` holds (weekday, number), where 0 is no number. `wkst`
    is None unless the rule says on which day a week starts.
    """

    freq: Frequency
    interval: int = 1
    count: int | None = None
    until: Until | None = None
    wkst: int | None = None
    by_month: tuple[int, ...] = ()
    by_week_no: tuple[int, ...] = ()
    by_year_day: tuple[int, ...] = ()
    by_month_day: tuple[int, ...] = ()
    by_day: tuple[tuple[int, int], ...] = ()
    by_hour: tuple[int, ...] = ()
    by_minute: tuple[int, ...] = ()
    by_second: tuple[int, ...] = ()
    by_set_pos: tuple[int, ...] = ()


@lru_cache(maxsize=4096)
def read_rrule(expression: str) -> RRuleParts:
    """Read a rule, with or without `RRULE:` before it; case does not matter."""
    texts = _split(expression)
    if "FREQ" not in texts:
        _refuse("FREQ", expression, "is missing", "say how often, as in FREQ=DAILY")
    values: dict[str, Any] = {}
    for name, text in texts.items():
        field, read = _PARTS[name]
        values[field] = read(name, text)
    parts = RRuleParts(**values)
    _check_together(parts, texts)
    return parts


def _split(expression: str) -> Mapping[str, str]:
    """Take the text apart into its named parts, each of which may stand there once."""
    require_text("rrule", expression, TEXT_LENGTH_MAX)
    if not expression.isascii():
        # Upper-casing would turn some foreign letters into ours.
        _refuse("rrule", expression, "has letters beyond ASCII", "write it as in FREQ=DAILY")
    texts: dict[str, str] = {}
    for part in expression.strip().upper().removeprefix("RRULE:").split(";"):
        name, equals, text = part.partition("=")
        if not equals or not text:
            _refuse("rrule", part, "is not a part", "write NAME=VALUE, joined by single semicolons")
        if name not in _PARTS:
            field = name if name.isascii() and name.isalpha() else "rrule"
            _refuse(field, part, "is not a part of a rule", f"use {', '.join(_PARTS)}")
        if name in texts:
            _refuse(name, part, "is there twice", "give each part once, its values in one list")
        texts[name] = text
    return texts


def _check_together(parts: RRuleParts, texts: Mapping[str, str]) -> None:
    """Refuse parts that exclude or need each other."""
    if parts.count is not None and parts.until is not None:
        _refuse("COUNT", parts.count, "stands beside UNTIL", "end the rule by one of the two")
    if parts.by_set_pos and not any(name.startswith("BY") and name != "BYSETPOS" for name in texts):
        remedy = "add the part to choose from, for example BYDAY=MO,TU,WE,TH,FR"
        _refuse("BYSETPOS", texts["BYSETPOS"], "has nothing to choose from", remedy)


def _frequency(name: str, text: str) -> Frequency:
    if text not in FREQUENCIES:
        _refuse(name, text, "is not a frequency", f"use one of {', '.join(FREQUENCIES)}")
    return text


def _whole(name: str, text: str) -> int:
    if not _WHOLE.fullmatch(text) or int(text) < 1:
        _refuse(name, text, "is not a whole number of 1 or more", f"write for example {name}=2")
    return int(text)


def _week_start(name: str, text: str) -> int:
    if text not in WEEKDAY_CODES:
        _refuse(name, text, "is not a weekday", f"use one of {', '.join(WEEKDAY_CODES)}")
    return WEEKDAY_CODES.index(text)


def _until(name: str, text: str) -> Until:
    """Read a date, which includes all of its day, or a date and time, in UTC if it ends in Z."""
    found = _UNTIL.fullmatch(text)
    try:
        wall = datetime.fromisoformat(text.removesuffix("Z")) if found else None
    except ValueError:
        wall = None
    if found is None or wall is None:
        remedy = "write 20261231, 20261231T235959 or, for UTC, 20261231T235959Z"
        _refuse(name, text, "is not a date or a date and time", remedy)
    is_day = not found[1]
    last = wall_seconds(wall) + (DAY - 1 if is_day else 0)
    return Until(last, is_utc=bool(found[2]), is_day=is_day)


def _weekdays(name: str, text: str) -> tuple[tuple[int, int], ...]:
    days = set()
    for item in _items(name, text):
        found = _WEEKDAY.fullmatch(item)
        number = int(found[1] or 0) if found else 0
        if not found or (found[1] and not 1 <= abs(number) <= 53):
            remedy = "write weekdays as MO or, counted, 2MO and -1FR, with 1 to 53"
            _refuse(name, item, "is not a weekday", remedy)
        days.add((WEEKDAY_CODES.index(found[2]), number))
    return tuple(sorted(days))


def _numbers(low: int, high: int) -> Callable[[str, str], tuple[int, ...]]:
    """Return a reader of numbers in a range; one that starts at 1 may also count from the end."""
    is_signed = low == 1 and high != 12  # months have no other end

    def read(name: str, text: str) -> tuple[int, ...]:
        numbers = set()
        for item in _items(name, text):
            number = int(item) if _NUMBER.fullmatch(item) else None
            size = None if number is None else abs(number) if is_signed else number
            if number is None or size is None or not low <= size <= high:
                span = f"{low} to {high}" + (f" or -{high} to -{low}" if is_signed else "")
                _refuse(name, item, "is out of range", f"give {span}")
            numbers.add(number)
        return tuple(sorted(numbers))

    return read


def _seconds(name: str, text: str) -> tuple[int, ...]:
    # Our clocks have no leap seconds, and RFC 5545 (3.3.12) reads a 60 as 59 on such clocks.
    return tuple(sorted({min(second, 59) for second in _numbers(0, 60)(name, text)}))


def _items(name: str, text: str) -> list[str]:
    items = text.split(",")
    if len(items) > VALUES_MAX:
        _refuse(name, text, f"lists {len(items)} values", f"list at most {VALUES_MAX}")
    return items


def _refuse(field: str, value: object, problem: str, remedy: str) -> NoReturn:
    raise UsageError(field, value, problem, remedy)


_PARTS: Mapping[str, tuple[str, Callable[[str, str], object]]] = {
    "FREQ": ("freq", _frequency),
    "INTERVAL": ("interval", _whole),
    "COUNT": ("count", _whole),
    "UNTIL": ("until", _until),
    "WKST": ("wkst", _week_start),
    "BYMONTH": ("by_month", _numbers(1, 12)),
    "BYWEEKNO": ("by_week_no", _numbers(1, 53)),
    "BYYEARDAY": ("by_year_day", _numbers(1, 366)),
    "BYMONTHDAY": ("by_month_day", _numbers(1, 31)),
    "BYDAY": ("by_day", _weekdays),
    "BYHOUR": ("by_hour", _numbers(0, 23)),
    "BYMINUTE": ("by_minute", _numbers(0, 59)),
    "BYSECOND": ("by_second", _seconds),
    "BYSETPOS": ("by_set_pos", _numbers(1, 366)),
}
