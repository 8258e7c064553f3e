"""The yearly rule in a zone file's footer (`CET-1CEST,M3.5.0,M10.5.0/3`): the future of a zone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

from duly.domain.instants import DAY, EPOCH_ORDINAL, days_in_month

_NAME = r"(?:<[A-Za-z0-9+-]+>|[A-Za-z]+)"
_OFFSET = r"[+-]?\d{1,3}(?::\d{1,2}(?::\d{1,2})?)?"
_FOOTER = re.compile(rf"({_NAME})({_OFFSET})(?:({_NAME})({_OFFSET})?,([^,]+),([^,]+))?")


@dataclass(frozen=True, slots=True)
class Change:
    """A moment at which a zone's offset changes, and what holds from then on."""

    at: int
    offset: int
    abbreviation: str
    is_summer: bool


@dataclass(frozen=True, slots=True)
class YearlyMoment:
    """A day and a time of day (in wall seconds, possibly negative or beyond 24 h) in any year."""

    kind: str
    numbers: tuple[int, ...]
    seconds: int

    def in_year(self, year: int) -> int:
        """Return this year's moment, in wall seconds since the epoch."""
        return self._day(year) * DAY + self.seconds

    def _day(self, year: int) -> int:
        first = date(year, 1, 1).toordinal() - EPOCH_ORDINAL
        if self.kind == "J":  # the 29th of February is never counted
            (number,) = self.numbers
            is_leap = days_in_month(year, 2) == 29  # the calendar's own number
            return first + number - 1 + (1 if is_leap and number > 59 else 0)
        if self.kind == "":
            return first + self.numbers[0]
        month, week, weekday = self.numbers
        start = date(year, month, 1).toordinal() - EPOCH_ORDINAL
        day = (weekday - (start + 4)) % 7 + 7 * (week - 1)  # day 0 of the epoch was a Thursday
        while day >= days_in_month(year, month):
            day -= 7
        return start + day


@dataclass(frozen=True, slots=True)
class YearlyRule:
    """Standard and summer time, and when they alternate."""

    standard: tuple[int, str]
    summer: tuple[int, str]
    starts: YearlyMoment
    ends: YearlyMoment

    def changes(self, year: int) -> list[Change]:
        """Return the two changes of a year, in order."""
        start = self.starts.in_year(year) - self.standard[0]
        end = self.ends.in_year(year) - self.summer[0]
        changes = [Change(start, *self.summer, is_summer=True)]
        changes.append(Change(end, *self.standard, is_summer=False))
        return sorted(changes, key=lambda change: change.at)


def read_footer(text: str) -> YearlyRule | Change | None:
    """Read a footer: a rule, or the one offset that holds for ever, or None where there is none."""
    if not text:
        return None
    found = _FOOTER.fullmatch(text)
    if not found:
        raise ValueError(f"not a POSIX TZ string: {text!r}")
    name, offset, summer_name, summer_offset, starts, ends = found.groups()
    standard = (-_seconds(offset), name.strip("<>"))
    if not summer_name:
        return Change(0, *standard, is_summer=False)
    shift = -_seconds(summer_offset) if summer_offset else standard[0] + 3600
    summer = (shift, summer_name.strip("<>"))
    return YearlyRule(standard, summer, _moment(starts), _moment(ends))


def _moment(text: str) -> YearlyMoment:
    day, _, time = text.partition("/")
    seconds = _seconds(time) if time else 2 * 3600
    if day.startswith("M"):
        return YearlyMoment("M", tuple(int(part) for part in day[1:].split(".")), seconds)
    if day.startswith("J"):
        return YearlyMoment("J", (int(day[1:]),), seconds)
    return YearlyMoment("", (int(day),), seconds)


def _seconds(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    hours, minutes, seconds = (int(part) for part in (text.lstrip("+-") + ":0:0").split(":")[:3])
    return sign * (hours * 3600 + minutes * 60 + seconds)
