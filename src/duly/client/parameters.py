"""Reads and checks what callers give: names, keys, instants, delays, queues, priorities.

A run's label names an instant exactly, in the schedule's own zone, and can be typed in look-ups. It
is no identity: a renamed schedule or a rerun may share a label.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from enum import StrEnum
from typing import Any, TypeVar

from duly.domain.auth import EVERY_TENANT
from duly.domain.enums import Overlap
from duly.domain.runs import KEY_LENGTH_MAX
from duly.domain.schedules import JITTER_MAX_US, NAME_LENGTH_MAX, OVERLAP_DEFAULT, PRIORITY_MAX
from duly.errors import UsageError, read_text
from duly.timetable.instants import (
    SECOND_US,
    duration_microseconds,
    from_microseconds,
    iso_utc,
    to_microseconds,
)
from duly.timetable.interval import FIRST_INSTANT, LAST_INSTANT
from duly.timetable.zones import default_zones

SEPARATOR = "@"


def run_label(name: str, instant: int, tz: str | None) -> str:
    """Return a run's label: in a zone's own time with its offset, or in UTC with a Z."""
    if tz is None or tz == "UTC":
        return (
            f"{name}{SEPARATOR}{_moment(from_microseconds(instant))}".removesuffix("+00:00") + "Z"
        )
    return f"{name}{SEPARATOR}{_moment(local_moment(instant, tz))}"


def read_label(text: str) -> tuple[str, int] | None:
    """Return a label's name and instant; None when the text is not a label."""
    name, separator, moment = text.rpartition(SEPARATOR)
    if not (name and separator):
        return None
    try:
        instant = datetime.fromisoformat(moment)
    except ValueError:
        return None
    return (name, to_microseconds(instant)) if instant.utcoffset() is not None else None


def local_moment(instant: int, tz: str) -> datetime:
    """Return an instant as the clock on the wall of a zone shows it, with its offset."""
    offset = default_zones().zone(tz).segment(instant // SECOND_US).offset
    return from_microseconds(instant).astimezone(timezone(timedelta(seconds=offset)))


def _moment(moment: datetime) -> str:
    """Write minutes alone where that is exact, and as much more as it takes where it is not."""
    if moment.microsecond:
        return moment.isoformat()
    return moment.isoformat(timespec="seconds" if moment.second else "minutes")


QUEUE_LENGTH_MAX = 100
REASON_LENGTH_MAX = 1000
OWNER_LENGTH_MAX = 200
ACTOR_LENGTH_MAX = 200
LOOKED_FOR_LENGTH_MAX = 1000
ONE_BY_ONE_MAX = 1_000
"""So many are ordered about by one order that is a transaction for each."""
_INSTANT_LENGTH_MAX = 40
_CALENDAR_REMEDY = "give a date from 0001-01-03 to 9999-12-29"

Instant = datetime | str
Delay = timedelta | str
Choice = TypeVar("Choice", bound=StrEnum)


def read_instant(field: str, value: object) -> int:
    """Read an aware datetime, or an ISO text with an offset, as microseconds since 1970."""
    remedy = "give an aware datetime, or a text such as '2026-04-03T02:00+02:00'"
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise UsageError(field, value, "has no time zone", remedy)
        return _within_calendar(field, value, to_microseconds(value, field))
    if not isinstance(value, str) or len(value) > _INSTANT_LENGTH_MAX:
        raise UsageError(field, value, "is not an instant", remedy)
    try:
        moment = datetime.fromisoformat(value.strip())
    except ValueError as error:
        raise UsageError(field, value, "is not an instant", remedy) from error
    if moment.utcoffset() is None:
        raise UsageError(field, value, "has no offset, so it names no instant", remedy)
    return _within_calendar(field, value, to_microseconds(moment, field))


def require_future(field: str, said: object, instant: int, now: int) -> None:
    """Refuse an instant that has passed."""
    if instant <= now:
        shown = said if isinstance(said, str) else iso_utc(from_microseconds(instant))
        remedy = f"give an instant after {iso_utc(from_microseconds(now))}"
        raise UsageError(field, shown, "lies in the past", remedy)


def check_reachable(field: str, delay_us: int, now: int) -> None:
    """Refuse a delay that leads out of the calendar."""
    if now + delay_us > LAST_INSTANT:
        delay = timedelta(microseconds=delay_us)
        raise UsageError(field, str(delay), "leads out of the calendar", _CALENDAR_REMEDY)


def _within_calendar(field: str, value: object, instant: int) -> int:
    """Refuse an instant that could be stored, but not be shown in every zone."""
    if not FIRST_INSTANT <= instant <= LAST_INSTANT:
        raise UsageError(field, str(value), "is out of the calendar", _CALENDAR_REMEDY)
    return instant


def read_delay(field: str, value: object) -> int:
    """Read a duration that lies ahead, in microseconds."""
    if not isinstance(value, str | timedelta):
        raise UsageError(field, value, "is not a duration", "give '15m', '24h' or a timedelta")
    length = duration_microseconds(value, field)
    if length < 0:
        raise UsageError(field, value, "is negative", "give a duration such as '15m' or '24h'")
    return length


def read_jitter(value: object) -> int:
    """Read a jitter: none, or a window of at most a week."""
    if value is None:
        return 0
    length = read_delay("jitter", value)
    if length > JITTER_MAX_US:
        raise UsageError("jitter", value, "is longer than a week", "give at most '7d'")
    return length


def read_name(value: object) -> str:
    """Read a schedule's name: what a label, an address and a command line can hold."""
    text = read_text("name", value, NAME_LENGTH_MAX)
    remedy = "give 1 to 200 printable characters, without '@' and without spaces around them"
    if not text:
        raise UsageError("name", text, "is empty", remedy)
    if text != text.strip() or not text.isprintable():
        raise UsageError("name", text, "can't be a name", remedy)
    if "@" in text:
        raise UsageError("name", text, "holds an '@', which labels put before a time", remedy)
    return text


def read_key(value: object) -> str | None:
    """Read a business key, if there is one."""
    return _optional_text("key", value, KEY_LENGTH_MAX)


def read_owner(value: object) -> str | None:
    """Read the name of whoever a schedule belongs to, if there is one."""
    return _optional_text("owner", value, OWNER_LENGTH_MAX)


def read_actor(value: object) -> str:
    """Read the name of whoever gives orders."""
    name = _optional_text("actor", value, ACTOR_LENGTH_MAX)
    assert name is not None, "somebody gives an order"
    return name


def read_tenant(value: object) -> str:
    """Read the name of a tenant."""
    name = _optional_text("tenant", value, NAME_LENGTH_MAX)
    if name is None:
        raise UsageError("tenant", value, "is not a text", "give a name, or leave it out")
    if name == EVERY_TENANT:
        raise UsageError("tenant", value, "means every tenant", "name one, or leave it out")
    return name


def require_reason(reason: object) -> None:
    """Refuse an order that says no reason, or one that can't be kept, where one is needed."""
    if not isinstance(reason, str) or not reason.strip():
        remedy = "say why, in a few words: it is kept with the decision"
        raise UsageError("reason", reason, "is missing", remedy)
    read_reason(reason)


def read_reason(value: object) -> str | None:
    """Read the reason that a person gives, if they do."""
    return _optional_text("reason", value, REASON_LENGTH_MAX)


def read_queue(value: object) -> str:
    """Read the name of a queue."""
    text = read_text("queue", value, QUEUE_LENGTH_MAX)
    if not text or not text.isprintable() or " " in text:
        remedy = "give printable characters without spaces, such as 'mail'"
        raise UsageError("queue", text, "can't be the name of a queue", remedy)
    return text


def read_priority(value: object) -> int:
    """Read a priority: 0 goes first, 9 last."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= PRIORITY_MAX:
        remedy = f"give 0 (first) to {PRIORITY_MAX} (last)"
        raise UsageError("priority", value, "is not a priority", remedy)
    return value


def read_overlap(value: object, serialize_by: object = None) -> tuple[Overlap, str | None]:
    """Read an overlap policy, and the key to serialize by, which one of them needs."""
    if value is None:
        value = OVERLAP_DEFAULT if serialize_by is None else Overlap.SERIALIZE
    if value not in list(Overlap):
        choices = ", ".join(Overlap)
        raise UsageError("overlap", value, "is not an overlap policy", f"use one of {choices}")
    policy = Overlap(str(value))
    key = _optional_text("serialize_by", serialize_by, KEY_LENGTH_MAX)
    if policy is Overlap.SERIALIZE and not key:
        remedy = "say by what: serialize_by='account:42'"
        raise UsageError("serialize_by", serialize_by, "is needed to serialize", remedy)
    if policy is not Overlap.SERIALIZE and key is not None:
        remedy = "give overlap='serialize' with it, or leave it out"
        raise UsageError("serialize_by", key, f"says nothing under overlap={policy!s}", remedy)
    return policy, key


def read_looked_for(field: str, value: object) -> str | None:
    """Read a name that a list is to be narrowed by, if there is one; it need not exist."""
    return None if value is None else read_text(field, value, LOOKED_FOR_LENGTH_MAX)


def read_limit(value: object, most: int) -> int:
    """Read how many are wanted at the most; refuse a list without bounds."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise UsageError("limit", value, "is out of range", f"give 1 to {most:,}")
    return value


def require_at_most(field: str, count: int, most: int) -> None:
    """Refuse to be asked about more things at once than there is an answer for."""
    if count > most:
        raise UsageError(field, count, "are too many", f"ask for {most} at a time")


def read_choice(field: str, value: object, choices: type[Choice]) -> Choice:
    """Read one of a set of words."""
    if isinstance(value, str) and value in list(choices):
        return choices(value)
    raise UsageError(field, value, "is not one of its words", f"use one of {', '.join(choices)}")


def read_choices(field: str, value: object, choices: type[Choice]) -> frozenset[Choice]:
    """Read one of a set of words, or several."""
    if not isinstance(value, list | tuple | set | frozenset) or not value:
        return frozenset({read_choice(field, value, choices)})
    return frozenset(read_choice(field, one, choices) for one in value)


def one_or_several(value: object) -> tuple[Any, ...]:
    """Return what somebody named as several, also a single one; each is still to be read."""
    # A text is one name, and not one for each of its letters.
    if isinstance(value, str) or not isinstance(value, Iterable):
        return (value,)
    return tuple(value)


def read_number(field: str, value: object) -> int:
    """Read the number that something goes by."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise UsageError(field, value, "is not a number", "give a whole number from 0 on")
    return value


def _optional_text(field: str, value: object, length_max: int) -> str | None:
    if value is None:
        return None
    text = read_text(field, value, length_max)
    if not text.strip() or not text.isprintable():
        remedy = "give printable characters, or leave it out"
        raise UsageError(field, text, "is empty or not printable", remedy)
    return text
