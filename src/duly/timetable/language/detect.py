"""Reads what a person typed: which kind of rule it is, or a moment ("tomorrow", "+10m").

The kinds differ in shape. `kind_of` decides once by the shape, and then a single reader parses the
text, so that the person sees only that reader's error. A text that two kinds accept means the same
in both: "weekly" is Monday 00:00 in systemd and in plain language. (Cron's `@weekly` is Sunday
00:00, and is recognised by its `@`.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Literal

from duly.errors import UsageError, require_text
from duly.timetable.cron import cron
from duly.timetable.instants import duration_microseconds, to_microseconds
from duly.timetable.interval import FIRST_INSTANT, LAST_INSTANT, every
from duly.timetable.language import tokens
from duly.timetable.oncalendar import SHORT_FORMS, oncalendar
from duly.timetable.once import at
from duly.timetable.rrule import rrule
from duly.timetable.zones import default_zones

if TYPE_CHECKING:
    from duly.timetable.local_time import Fold, Gap
    from duly.timetable.timetable import Timetable


FIELD = "when"
TEXT_LENGTH_MAX = 1000

Kind = Literal["cron", "rrule", "oncalendar", "every", "at", "plain"]
KIND_NAMES: dict[Kind, str] = {
    "cron": "a cron expression",
    "rrule": "a recurrence rule",
    "oncalendar": "a calendar event of systemd",
    "every": "an interval",
    "at": "a date",
    "plain": "plain language",
}
_OWN_ERRORS = frozenset({"tz", "gap", "fold", "seed", "dtstart"})

_DATE = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?"
    r"(?P<offset>\s?(?:Z|[+-]\d{2}:?\d{2}))?)?",
    re.ASCII | re.IGNORECASE,
)
_INTERVAL = re.compile(r"(?:@?every\s+)?((?:\d{1,12}(?:us|ms|s|m|h|d|w)\s?){1,20})", re.ASCII)
_CRON_FIELD = re.compile(r"[\w*?/,#()-]+", re.ASCII)
_CRON_MARKS = re.compile(r"[\d*?/,#-]+", re.ASCII)
_CALENDAR_MARK = re.compile(r"\w\.\.\w|~|\*-|-\*|\*:|:\*|:\d{1,2}/", re.ASCII)
_WEEKDAY = "(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6}"
_WEEKDAYS = re.compile(rf"{_WEEKDAY}(?:(?:,|-|\.\.){_WEEKDAY}){{0,20}},?", re.IGNORECASE)
_NUMBERS = re.compile(r"[\d*,./:~-]+", re.ASCII)
_MONTH_DAY = re.compile(r"\d{1,2}-\d{1,2}", re.ASCII)
_SHORT_FORMS = frozenset({*SHORT_FORMS, "annually", "biannually", "bi-annually", "semi-annually"})


@dataclass(frozen=True, slots=True)
class Context:
    """What a person did not type but that a reader may need."""

    tz: str
    gap: Gap
    fold: Fold
    seed: str | None
    dtstart: datetime | date | str | None


def kind_of(text: str) -> Kind:
    """Say which kind of rule a text looks most like; it need not be a correct one."""
    require_text(FIELD, text, TEXT_LENGTH_MAX)
    stripped = text.strip()
    lower = stripped.lower()
    words = lower.split()
    if "freq=" in lower or lower.startswith(("rrule:", "dtstart")):
        return "rrule"
    if _DATE.fullmatch(stripped):
        return "at"
    if _INTERVAL.fullmatch(lower):
        return "every"
    if lower.startswith("@") or _is_cron(words):
        return "cron"
    if _is_calendar_event(words):
        return "oncalendar"
    return "cron" if words and all(map(_CRON_MARKS.fullmatch, words)) else "plain"


def recognise(  # noqa: PLR0913 - what the readers need
    text: str,
    *,
    tz: str = "UTC",
    gap: Gap = "next",
    fold: Fold = "first",
    seed: str | None = None,
    dtstart: datetime | date | str | None = None,
) -> Timetable:
    """Read whatever a person typed: cron, RRULE, OnCalendar, "15m", a date, or plain language.

    A zone in the text wins over `tz` if that is UTC, the default; another one must agree. `dtstart`
    is where an RRULE starts unless the text says so itself; `seed` spreads cron's H.
    """
    kind = kind_of(text)
    try:
        return _READERS[kind](text.strip(), Context(tz, gap, fold, seed, dtstart))
    except UsageError as error:
        if error.field in _OWN_ERRORS:
            raise
        problem = f"{error.problem} (read as {KIND_NAMES[kind]})"
        raise UsageError(error.field, error.value, problem, error.remedy) from error


def _is_cron(words: list[str]) -> bool:
    """Say whether words are fields: two at least are numbers, and none is a word of a sentence."""
    if not 5 <= len(words) <= 7 or not tokens.KEYWORDS.isdisjoint(words):
        return False
    numbers = [word for word in words if word[0] in "*?0123456789"]
    is_starred = any(_CRON_MARKS.fullmatch(word) and word[0] in "*?" for word in numbers)
    is_clean = all(_CRON_FIELD.fullmatch(word) for word in words)
    return len(numbers) >= 2 and (
        is_clean or (is_starred and not any(":" in word for word in words))
    )


def _is_calendar_event(words: list[str]) -> bool:
    if words in (["hourly"], ["minutely"]):
        return False  # in plain language they mean every real hour, also when clocks go back
    if len(words) == 1 and (words[0] in _SHORT_FORMS or _MONTH_DAY.fullmatch(words[0])):
        return True
    if not 1 <= len(words) <= 4 or not tokens.KEYWORDS.isdisjoint(words):
        return False
    if any(_CALENDAR_MARK.search(word) for word in words):
        return True
    rest = words[1:] if _WEEKDAYS.fullmatch(words[0]) else words
    zone = len(rest) > 1 and rest[-1][0].isalpha() and rest[-1] not in tokens.KNOWN
    shapes = rest[:-1] if zone else rest
    return any(":" in word for word in shapes) and all(_NUMBERS.fullmatch(word) for word in shapes)


def _cron(text: str, context: Context) -> Timetable:
    return cron(text, context.tz, context.gap, context.fold, seed=context.seed)


def _calendar_event(text: str, context: Context) -> Timetable:
    tz = None if context.tz == "UTC" else context.tz
    return oncalendar(text, tz, context.gap, context.fold)


def _every(text: str, context: Context) -> Timetable:  # noqa: ARG001 - readers are called alike
    found = _INTERVAL.fullmatch(text.lower())
    assert found, "the kind was decided by this shape"
    return every(found[1].strip())


def _at(text: str, context: Context) -> Timetable:
    found = _DATE.fullmatch(text)
    assert found, "the kind was decided by this shape"
    if found["offset"]:
        return at(text.replace(" ", "T", 1).replace(" ", ""))
    return at(text, context.tz, context.gap, context.fold)


def _plain(text: str, context: Context) -> Timetable:
    # Most rules are of another kind, and need no grammar of English.
    from duly.timetable.language.english import read_plain

    return read_plain(text, context.tz, context.gap, context.fold)


def _rrule(text: str, context: Context) -> Timetable:
    """Read a rule, alone or in a block after its DTSTART."""
    dtstart, tz, rule = context.dtstart, context.tz, text
    if text.upper().startswith("DTSTART"):
        start, _, rule = text.replace("\\n", "\n").partition("\n" if "\n" in text else " ")
        dtstart, tz = _read_start(start, context.tz)
        rule = rule.strip()
    if "\n" in rule or not rule:
        remedy = "give DTSTART and one RRULE; leave days out with .excluding()"
        raise UsageError("rrule", text, "is not a start and one rule", remedy)
    if dtstart is None:
        remedy = "give dtstart, or write 'DTSTART:20260403T090000' before the rule"
        raise UsageError("dtstart", text, "does not say where the rule starts", remedy)
    return rrule(rule, dtstart=dtstart, tz=tz, gap=context.gap, fold=context.fold)


def _read_start(text: str, tz: str) -> tuple[str, str]:
    """Read "DTSTART;TZID=Europe/Paris:20260403T090000" as a start and its zone."""
    name, _, start = text.strip().partition(":")
    for parameter in name.split(";")[1:]:
        key, _, value = parameter.partition("=")
        if key.upper() == "VALUE":
            continue
        if key.upper() != "TZID":
            raise UsageError("dtstart", text, f"has an unknown part {key!r}", "give TZID at most")
        if tz not in ("UTC", value):
            remedy = f"leave one of them out, or give {tz!r} in both"
            raise UsageError("tz", value, f"contradicts the zone {tz!r}", remedy)
        tz = value
    return start.upper(), tz


_READERS = {
    "cron": _cron,
    "rrule": _rrule,
    "oncalendar": _calendar_event,
    "every": _every,
    "at": _at,
    "plain": _plain,
}


MOMENT_LENGTH_MAX = 60

_DAY = re.compile(
    r"(?P<day>today|tomorrow)(?: +(?:at +)?(?P<hour>[0-9]{1,2})(?::(?P<minute>[0-5][0-9]))?"
    r" *(?P<half>am|pm)?)?"
)


def moment_from(text: str, tz: str, now: datetime, field: str) -> datetime:
    """Read a moment; wall times and days are meant in `tz`."""
    require_text(field, text, MOMENT_LENGTH_MAX)
    words = text.strip().lower()
    if words == "now":
        return now
    if (spoken := _DAY.fullmatch(words)) is not None:
        today = local_date(now, tz) + timedelta(days=spoken["day"] == "tomorrow")
        hour, minute = _clock(spoken, text, field)
        day = datetime(today.year, today.month, today.day, hour, minute)  # noqa: DTZ001
        return _instant_of(day, tz)
    ways = "give such as 2026-11-18T09:00, now, today, tomorrow 9am, +2d or -2h"
    if words.startswith(("+", "-")):
        if words[1:].lstrip().startswith(("+", "-")):  # ahead or ago, but not both
            raise UsageError(field, text, "has two signs, so it is not a moment", ways)
        return now + timedelta(microseconds=duration_microseconds(words.removeprefix("+"), field))
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        remedy = f"{ways}; without an offset it is meant in {tz}"
        raise UsageError(field, text, "is not a moment", remedy) from error
    remedy = "give a date from 0001-01-03 to 9999-12-29"
    try:
        instant = moment.astimezone(UTC) if moment.tzinfo else _instant_of(moment, tz)
    except (OverflowError, UsageError) as error:
        raise UsageError(field, text, "is out of the calendar", remedy) from error
    if not FIRST_INSTANT <= to_microseconds(instant) <= LAST_INSTANT:
        raise UsageError(field, text, "is out of the calendar", remedy)
    return instant


def needs_zone(text: str) -> bool:
    """Say whether a text names a day or a wall time, which is another instant in another zone."""
    words = text.strip().lower()
    if words == "now" or words.startswith(("+", "-")):
        return False
    try:
        return datetime.fromisoformat(text.strip()).tzinfo is None
    except ValueError:
        return _DAY.fullmatch(words) is not None


def _clock(spoken: re.Match[str], text: str, field: str) -> tuple[int, int]:
    """Return hour and minute of a day as they were said; midnight if they were not."""
    if spoken["hour"] is None:
        return 0, 0
    hour, half = int(spoken["hour"]), spoken["half"]
    if not (1 <= hour <= 12 if half else hour <= 23):
        raise UsageError(field, text, "is no time of day", "give such as tomorrow 9am or 17:30")
    hour = hour % 12 + 12 * (half == "pm") if half else hour
    return hour, int(spoken["minute"] or 0)


def local_date(instant: datetime, tz: str) -> date:
    """Return the date that a zone's calendar shows at an instant."""
    segment = default_zones().zone(tz).segment(int(instant.timestamp()))
    return (instant.astimezone(UTC) + timedelta(seconds=segment.offset)).date()


def _instant_of(wall: datetime, tz: str) -> datetime:
    """Return the instant of a wall time; one that a gap swallows is the first moment after it."""
    whole = at(wall.replace(microsecond=0), tz=tz).next(datetime.min.replace(tzinfo=UTC))
    assert whole is not None, "every wall time has an instant under the default policies"
    return whole + timedelta(microseconds=wall.microsecond)
