"""The stored form of timetables: JSON values that hold what the person said, readable for ever.

The names of kinds and their keys are a promise: a kind may gain keys with defaults, and loses none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, datetime
from typing import Any

from duly.errors import UsageError, require_text
from duly.timetable.business_calendar import read_calendar
from duly.timetable.combinators import (
    DEPTH_MAX,
    Between,
    BetweenDates,
    Excluding,
    ExcludingDates,
    Limited,
    OnBusinessDays,
    Union,
)
from duly.timetable.cron import cron
from duly.timetable.interval import Interval, every
from duly.timetable.monthly import monthly
from duly.timetable.oncalendar import oncalendar
from duly.timetable.once import Once, after, at
from duly.timetable.rrule import rrule
from duly.timetable.timetable import Timetable, Zoned

TEXT_LENGTH_MAX = 200_000

Stored = Mapping[str, Any]


def timetable_from_json(stored: Stored | str) -> Timetable:
    """Read a timetable from what `to_json` returned, or from that as JSON text."""
    if isinstance(stored, str):
        require_text("timetable", stored, TEXT_LENGTH_MAX)
        try:
            stored = json.loads(stored)
        except (ValueError, RecursionError) as error:
            remedy = "give what to_json() returned"
            raise UsageError("timetable", stored, "is not JSON", remedy) from error
    return _read(stored, DEPTH_MAX)


def _read(stored: object, depth: int) -> Timetable:
    if not isinstance(stored, Mapping) or not isinstance(stored.get("kind"), str):
        raise UsageError("timetable", stored, "has no kind", "give what to_json() returned")
    if depth == 0:
        raise UsageError(
            "timetable", stored["kind"], "is nested too deeply", f"nest at most {DEPTH_MAX}"
        )
    reader = _READERS.get(stored["kind"])
    if reader is None:
        raise UsageError("kind", stored["kind"], "is unknown", f"use one of {', '.join(_READERS)}")
    keys = _Keys({key: value for key, value in stored.items() if key != "kind"}, depth)
    words = keys.optional_text("words")
    timetable = reader(keys)
    keys.must_be_used_up(stored["kind"])
    if words is not None and isinstance(timetable, Zoned | Interval | Once):
        timetable = replace(timetable, words=words)
    return timetable


class _Keys:
    """The keys of one stored timetable, taken out one by one so that none is overlooked."""

    def __init__(self, values: dict[str, Any], depth: int) -> None:
        self._values = values
        self._depth = depth

    def take(self, key: str) -> Any:  # noqa: ANN401 - checked by whoever takes it
        if key not in self._values:
            raise UsageError(key, None, "is missing", "give what to_json() returned")
        return self._values.pop(key)

    def optional_text(self, key: str) -> str | None:
        value: str | None = self._values.pop(key, None)
        if value is not None:
            require_text(key, value, TEXT_LENGTH_MAX)
        return value

    def policies(self) -> dict[str, Any]:
        present = [key for key in ("tz", "gap", "fold") if key in self._values]
        return {key: self._values.pop(key) for key in present}

    def optional(self, *keys: str) -> dict[str, Any]:
        return {key: self._values.pop(key) for key in keys if key in self._values}

    def timetable(self, key: str) -> Timetable:
        return _read(self.take(key), self._depth - 1)

    def timetables(self, key: str) -> tuple[Timetable, ...]:
        return tuple(_read(one, self._depth - 1) for one in _list(key, self.take(key)))

    def instant(self, key: str) -> datetime:
        value = self.take(key)
        try:
            return datetime.fromisoformat(value)
        except (TypeError, ValueError) as error:
            raise UsageError(key, value, "is not a time", "give ISO 8601") from error

    def optional_instant(self, key: str) -> datetime | None:
        if self._values.get(key) is None:
            self._values.pop(key, None)
            return None
        return self.instant(key)

    def optional_date(self, key: str) -> date | None:
        value = self._values.pop(key, None)
        try:
            return None if value is None else date.fromisoformat(value)
        except (TypeError, ValueError) as error:
            raise UsageError(key, value, "is not a date", "give an ISO date") from error

    def must_be_used_up(self, kind: str) -> None:
        if self._values:
            key = min(self._values, key=str)
            raise UsageError(
                str(key), self._values[key], f"is not a part of {kind!r}", "leave it out"
            )


def _list(key: str, value: object) -> list[Any]:
    if not isinstance(value, list):
        raise UsageError(key, value, "is not a list", "give what to_json() returned")
    return value


def _dates(key: str, value: object) -> frozenset[date]:
    try:
        return frozenset(date.fromisoformat(day) for day in _list(key, value))
    except (TypeError, ValueError) as error:
        raise UsageError(
            key, value, "has something that is not a date", "give ISO dates"
        ) from error


def _cron(keys: _Keys) -> Timetable:
    options = keys.optional("seed", "dialect")
    return cron(keys.take("expression"), **keys.policies(), **options)


def _rrule(keys: _Keys) -> Timetable:
    return rrule(keys.take("expression"), dtstart=keys.take("dtstart"), **keys.policies())


def _monthly(keys: _Keys) -> Timetable:
    options = keys.optional("calendar", "roll")
    if isinstance(options.get("calendar"), list):
        options["calendar"] = tuple(options["calendar"])
    return monthly(keys.take("day"), keys.take("at"), **keys.policies(), **options)


def _at(keys: _Keys) -> Timetable:
    when = keys.take("when")
    require_text("when", when, TEXT_LENGTH_MAX)
    return at(when, **keys.policies())


def _excluding_dates(keys: _Keys) -> Timetable:
    timetable, tz = keys.timetable("timetable"), keys.take("tz")
    return ExcludingDates(timetable, tz, _dates("dates", keys.take("dates")))


def _between_dates(keys: _Keys) -> Timetable:
    timetable, tz = keys.timetable("timetable"), keys.take("tz")
    return BetweenDates(timetable, keys.optional_date("start"), keys.optional_date("end"), tz)


def _on_business_days(keys: _Keys) -> Timetable:
    timetable, tz = keys.timetable("timetable"), keys.take("tz")
    calendar = keys.take("calendar")
    found = read_calendar(tuple(calendar) if isinstance(calendar, list) else calendar)
    return OnBusinessDays(timetable, tz, found)


_READERS: dict[str, Callable[[_Keys], Timetable]] = {
    "cron": _cron,
    "rrule": _rrule,
    "oncalendar": lambda keys: oncalendar(keys.take("expression"), **keys.policies()),
    "monthly": _monthly,
    "every": lambda keys: every(keys.take("period"), keys.instant("anchor")),
    "at": _at,
    "after": lambda keys: after(keys.instant("event"), keys.take("delay")),
    "union": lambda keys: Union(keys.timetables("parts")),
    "excluding": lambda keys: Excluding(keys.timetable("timetable"), keys.timetable("excluded")),
    "excluding-dates": _excluding_dates,
    "on-business-days": _on_business_days,
    "between-dates": _between_dates,
    "between": lambda keys: Between(
        keys.timetable("timetable"), keys.optional_instant("start"), keys.optional_instant("end")
    ),
    "limited": lambda keys: Limited(
        keys.timetable("timetable"), keys.take("n"), keys.instant("start")
    ),
}
