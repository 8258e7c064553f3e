"""Instants as people type them: with an offset, or as the clock on their own wall shows it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from duly import UsageError, at
from duly.api.views import moment_from

_LOCAL = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?", re.ASCII)
_BEFORE = re.compile(r"-(\d{1,5})(m|h|d|w)", re.ASCII)
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_coming(field: str, text: str | None, zone: str | None, now: datetime) -> datetime | None:
    """Read when something ends, in the words of the command line: tomorrow 9am, +2d, a time."""
    return None if text is None else moment_from(text, zone or "UTC", now, field)


def read_local(field: str, text: str, zone: str | None) -> datetime | str:
    """Read a wall time in the viewer's own zone; anything else is left to who takes it."""
    typed = text.strip()
    if not _LOCAL.fullmatch(typed):
        return typed
    try:
        found = at(typed.replace(" ", "T"), zone or "UTC").next(_EPOCH)
    except UsageError as error:
        raise UsageError(field, text, error.problem, error.remedy) from error
    return typed if found is None else found


def read_past(field: str, text: str, zone: str | None, now: datetime) -> datetime | str:
    """Read how long ago, such as -14d; or a wall time, as above."""
    found = _BEFORE.fullmatch(text.strip())
    if found is None:
        return read_local(field, text, zone)
    return now - timedelta(**{_UNITS[found[2]]: int(found[1])})
