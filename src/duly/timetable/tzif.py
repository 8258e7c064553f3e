"""Reads TZif files (RFC 9636) and the POSIX rule in their footer."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from datetime import date

from duly.timetable.instants import DAY, EPOCH_ORDINAL, days_in_month

_NAME = r"(?:<[A-Za-z0-9+-]+>|[A-Za-z]+)"
_OFFSET = r"[+-]?\d{1,3}(?::\d{1,2}(?::\d{1,2})?)?"
_FOOTER = re.compile(rf"({_NAME})({_OFFSET})(?:({_NAME})({_OFFSET})?,([^,]+),([^,]+))?")


@dataclass(frozen=True, slots=True)
class OffsetChange:
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

    def changes(self, year: int) -> list[OffsetChange]:
        """Return the two changes of a year, in order."""
        start = self.starts.in_year(year) - self.standard[0]
        end = self.ends.in_year(year) - self.summer[0]
        changes = [OffsetChange(start, *self.summer, is_summer=True)]
        changes.append(OffsetChange(end, *self.standard, is_summer=False))
        return sorted(changes, key=lambda change: change.at)


def read_footer(text: str) -> YearlyRule | OffsetChange | None:
    """Read a footer: a rule, or the one offset that holds for ever, or None where there is none."""
    if not text:
        return None
    found = _FOOTER.fullmatch(text)
    if not found:
        raise ValueError(f"not a POSIX TZ string: {text!r}")
    name, offset, summer_name, summer_offset, starts, ends = found.groups()
    standard = (-_seconds(offset), name.strip("<>"))
    if not summer_name:
        return OffsetChange(0, *standard, is_summer=False)
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


_HEADER = struct.Struct(">4sc15x6l")


@dataclass(frozen=True, slots=True)
class ZoneFile:
    """What a zone file says: the first offset, each change, and the rule after the last."""

    first: OffsetChange
    changes: tuple[OffsetChange, ...]
    rule: YearlyRule | None


def read_tzif(content: bytes) -> ZoneFile:
    """Read a version 2 or later file; raise ValueError for anything else."""
    try:
        return _read_tzif(content)
    except (struct.error, IndexError) as error:
        raise ValueError("a TZif file that is cut short or broken") from error


def _read_tzif(content: bytes) -> ZoneFile:
    magic, version, *_ = _HEADER.unpack_from(content)
    if magic != b"TZif" or version < b"2":
        raise ValueError("not a TZif file of version 2 or later")
    start = _HEADER.size + _block_size(content, 0, time_size=4)
    is_utc, is_std, leaps, times, types, chars = _HEADER.unpack_from(content, start)[2:]
    position = start + _HEADER.size
    instants = struct.unpack_from(f">{times}q", content, position)
    position += times * 8
    kinds = content[position : position + times]
    position += times
    records = [struct.unpack_from(">lbB", content, position + 6 * index) for index in range(types)]
    position += types * 6
    names = content[position : position + chars]
    end = position + chars + leaps * 12 + is_std + is_utc
    footer = read_footer(content[end + 1 :].split(b"\n")[0].decode("ascii"))

    def change(at: int, kind: int) -> OffsetChange:
        offset, is_summer, name = records[kind]
        abbreviation = names[name:].split(b"\0")[0].decode("ascii")
        return OffsetChange(at, offset, abbreviation, is_summer=bool(is_summer))

    changes = [change(at, kind) for at, kind in zip(instants, kinds, strict=True)]
    first = change(0, 0)
    rule = footer if isinstance(footer, YearlyRule) else None
    return ZoneFile(first, tuple(changes), rule)


def _block_size(content: bytes, start: int, time_size: int) -> int:
    is_utc, is_std, leaps, times, types, chars = _HEADER.unpack_from(content, start)[2:]
    size = times * (time_size + 1) + types * 6 + chars + leaps * (time_size + 4) + is_std + is_utc
    return int(size)
