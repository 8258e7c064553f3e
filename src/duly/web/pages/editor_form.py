"""The editor's form: its fields as a timetable and back, choices, zones.

`read_form_rule` reads a rule with the function that the API's preview uses.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from duly import UsageError, default_zones, search_zones
from duly.api.requests import read_rule
from duly.api.views import PRESETS, Rule, clock_name_and_offset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from duly import Timetable, ZoneMatch


@dataclass(frozen=True, slots=True)
class Card:
    """One choice of a policy: its word, and what it does."""

    value: str
    title: str
    words: str
    is_default: bool = False


MISFIRES = (
    Card(
        "latest", "Run once when back", "One run stands for all that was missed.", is_default=True
    ),
    Card("all", "Run each that was missed", "In order, on the catch-up lane, at a set rate."),
    Card("skip", "Skip what was missed", "On record as skipped; the next one is on time."),
)
OVERLAPS = (
    Card(
        "skip", "Skip the new one", "It is recorded as skipped, with the reason.", is_default=True
    ),
    Card("queue-one", "Let one wait", "One waits for its turn; further ones are skipped."),
    Card("queue-all", "Let all wait", "Each waits for its turn, in order."),
    Card("coalesce", "Let the latest wait", "One waits, and always stands for the newest."),
    Card("replace", "Stop the previous one", "It is asked to stop, and the new one goes ahead."),
    Card("allow", "Run both", "They run side by side."),
    Card("serialize", "One after the other by key", "Runs with the same key wait for each other."),
)
GAPS = (
    Card(
        "next",
        "Run at the first moment after",
        "02:30 does not exist: it runs at 03:00.",
        is_default=True,
    ),
    Card("shift", "Run later by as much", "02:30 does not exist: it runs at 03:30."),
    Card("skip", "Leave it out that day", "02:30 does not exist: nothing runs."),
)
FOLDS = (
    Card(
        "first",
        "Run the first time",
        "02:30 comes twice: it runs once, the first time.",
        is_default=True,
    ),
    Card("second", "Run the second time", "02:30 comes twice: it runs once, the second time."),
    Card("both", "Run both times", "02:30 comes twice: it runs twice."),
)


def preset_cards() -> tuple[Card, ...]:
    """Return the kinds of work that have policies of their own."""
    names = {
        "best-effort": "Best effort",
        "refresh": "Refresh",
        "one-result": "One result each",
        "serialized": "One after the other",
        "never-twice": "Never twice",
    }
    return tuple(
        Card(key, names.get(key, key), one.words[:1].upper() + one.words[1:] + ".")
        for key, one in PRESETS.items()
    )


def preset_policies() -> dict[str, dict[str, str]]:
    """Return what each kind of work fills in, by the form's own fields."""
    found = {}
    for key, one in PRESETS.items():
        misfire = one.misfire.to_json()
        found[key] = {
            "misfire": str(misfire["policy"]),
            "not_older": str(misfire["not_older"] or "none"),
            "overlap": str(one.overlap),
        }
    return found


LENGTH_MAX = 20
REMEDY = "write 9, 09:00, 9:15pm or noon"
_WORDS = {"noon": "12:00", "midday": "12:00", "midnight": "00:00"}
_CLOCK = re.compile(
    r"(?P<hour>\d{1,2})(?:[:.h ]?(?P<minute>\d{2}))?h?\s?(?P<half>[ap])?\.?(?(half)m?\.?)", re.ASCII
)


def read_clock(text: str | None) -> str:
    """Return a time of day as HH:MM; refuse what is none."""
    typed = (text or "").strip().lower()
    if typed in _WORDS:
        return _WORDS[typed]
    found = _CLOCK.fullmatch(typed) if 0 < len(typed) <= LENGTH_MAX else None
    if found is None:
        problem = "is not a time of day" if typed else "is missing"
        raise UsageError("time", text, problem, REMEDY)
    hour, minute = int(found["hour"]), int(found["minute"] or 0)
    if found["half"]:
        if not 1 <= hour <= 12:
            raise UsageError("time", text, "is not a time of day", "a.m. and p.m. count 1 to 12")
        hour = hour % 12 + (12 if found["half"] == "p" else 0)
    if hour > 23 or minute > 59:
        raise UsageError("time", text, "is not a time of day", "give 00:00 to 23:59")
    return f"{hour:02}:{minute:02}"


RULE_FIELDS = (
    "mode", "repeat", "days", "month_day", "time", "text", "dtstart", "stored", "tz", "gap", "fold",
    "start", "end", "away", "calendar",
)  # fmt: skip
"""What says when."""
POLICY_FIELDS = (
    "preset", "misfire", "grace", "not_older", "at_most", "per_minute", "overlap", "serialize_by",
    "jitter", "queue", "priority",
)  # fmt: skip
COMPARED = ("name", "task", "arguments", *RULE_FIELDS, *POLICY_FIELDS, "owner")
"""What an edit can change; the rest is about the edit itself."""
LABELS = {
    "name": "Name", "task": "Task", "arguments": "Arguments", "mode": "Written as",
    "repeat": "Every", "days": "Days", "month_day": "Day of the month", "time": "At",
    "text": "Rule", "dtstart": "Counted from", "stored": "Rule", "tz": "Time zone",
    "gap": "Time that does not exist", "fold": "Time that comes twice", "start": "From",
    "end": "Until", "away": "Away on", "calendar": "Holidays of", "preset": "Kind of work",
    "misfire": "If we are late", "grace": "Still on time", "not_older": "Not older than",
    "at_most": "At most", "per_minute": "In a minute", "overlap": "If the previous one still runs",
    "serialize_by": "One after the other by", "jitter": "Spread over", "queue": "Queue",
    "priority": "Priority", "owner": "Owner",
}  # fmt: skip


class ScheduleForm(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The form; what was left empty has its default."""

    step: str = ""
    """What the pressed button asks for: `review`, `edit`, `simple`, `advanced`, `save`, `run`."""
    name: str = ""
    task: str = ""
    arguments: str = "{}"
    mode: str = "simple"
    """How the rule is said: `simple` (a sentence), `advanced` (a text), `stored` (as JSON)."""
    repeat: str = "weekdays"
    days: list[str] = []
    month_day: str = "1"
    time: str = ""
    text: str = ""
    dtstart: str = ""
    stored: str = ""
    tz: str = ""
    gap: str = "next"
    fold: str = "first"
    start: str = ""
    end: str = ""
    away: str = ""
    calendar: str = ""
    preset: str = ""
    misfire: str = "latest"
    grace: str = "1m"
    not_older: str = "1d"
    at_most: str = ""
    per_minute: str = ""
    overlap: str = "skip"
    serialize_by: str = ""
    jitter: str = "0s"
    queue: str = ""
    priority: str = ""
    owner: str = ""
    reason: str = ""
    version: int | None = None
    """Which version was seen when the editor was opened."""
    seen: str = ""
    """The form as it was then, so that it can be told who changed what."""
    draft: str = "new"
    """Under which name the browser keeps what was typed."""
    count: int = 3
    """How many occurrences the preview shows."""


def compared(form: ScheduleForm) -> dict[str, Any]:
    """Return what an edit can change, by field; ways of saying that are not used say nothing."""
    found = {name: getattr(form, name) for name in COMPARED}
    with suppress(UsageError):  # what is no time is compared as it was typed
        found["time"] = read_clock(form.time)
    for name in ("arguments", "stored"):
        found[name] = canonical(found[name])
    used = {
        "simple": {"repeat", "time"}
        | ({"days"} if form.repeat == "weekly" else set())
        | ({"month_day"} if form.repeat == "monthly" else set()),
        "advanced": {"text", "dtstart"},
        "stored": {"stored"},
    }.get(form.mode, set())
    for name in ("repeat", "days", "month_day", "time", "text", "dtstart", "stored"):
        if name not in used:
            found[name] = ""
    if form.mode == "stored":
        found |= dict.fromkeys(("tz", "gap", "fold", "start", "end", "away", "calendar"), "")
    return found


def canonical(text: str) -> str:
    """Write JSON so that equal values are equal texts: browsers end lines in their own way."""
    try:
        return json.dumps(json.loads(text), sort_keys=True, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text.replace("\r\n", "\n")


def shown_value(value: object) -> str:
    """Write a field's value for people."""
    return ", ".join(value) if isinstance(value, list) else str(value)


DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
REPEATS = {
    "weekdays": "weekday (Monday to Friday)",
    "daily": "day",
    "weekly": "week, on certain days",
    "monthly": "month, on a certain day",
    "first-business-day": "month, on the first business day",
    "last-business-day": "month, on the last weekday (Monday to Friday)",
}
_BUSINESS = {
    "first-business-day": "1st business day",
    "last-business-day": "last business day",
}
_SIMPLE_CRON = re.compile(r"(\d{1,2}) (\d{1,2}) (\*|L|\d{1,2}) \* (\*|[0-7](?:[-,][0-7])*)")
_WRAPPERS = {"between-dates", "excluding-dates", "on-business-days"}
_AWAY = re.compile(r"[\s,;]+")
AWAY_MAX = 200


def read_form_rule(form: ScheduleForm) -> Timetable:
    """Make a timetable of what the form says about when; refuse by the form's own fields."""
    if form.mode == "stored":
        return _stored_rule(form)
    zone = read_zone_name(form.tz)
    base = _simple_rule(form, zone) if form.mode == "simple" else _text_rule(form, zone)
    return _limited(form, base, zone)


def read_zone_name(text: str) -> str:
    """Return a zone by its IANA name; anything else is refused, and could be looked for."""
    if text in default_zones().keys:
        return text
    if "profile" in text.lower():
        remedy = "choose a zone; whoever edits it from elsewhere can move it by one button"
        raise UsageError("tz", text, "can't be followed: the zone of a schedule is fixed", remedy)
    problem = "is not the name of a time zone" if text else "is missing"
    raise UsageError("tz", text, problem, "choose one: search by city, country or abbreviation")


def _simple_rule(form: ScheduleForm, zone: str) -> Timetable:
    hour, minute = (int(part) for part in read_clock(form.time).split(":"))
    policies = {"tz": zone, "gap": form.gap, "fold": form.fold}
    day, weekdays = "*", "*"
    match form.repeat:
        case "daily":
            pass
        case "weekdays":
            weekdays = "1-5"
        case "weekly":
            weekdays = _weekdays(form.days)
        case "monthly":
            day = _month_day(form.month_day)
        case "first-business-day" | "last-business-day":
            calendar = _calendar(form.calendar)
            stored = {"day": _BUSINESS[form.repeat], "at": f"{hour:02}:{minute:02}"}
            return _read({"kind": "monthly", **stored, "calendar": calendar, **policies})
        case _:
            remedy = f"use one of {', '.join(REPEATS)}"
            raise UsageError("repeat", form.repeat, "is not a way to repeat", remedy)
    expression = f"{minute} {hour} {day} * {weekdays}"
    return _read({"kind": "cron", "expression": expression, **policies})


def _weekdays(days: list[str]) -> str:
    numbers = sorted(DAYS.index(day) + 1 for day in set(days) if day in DAYS)
    if not numbers:
        raise UsageError("days", ", ".join(days), "names no day", "choose at least one day")
    return ",".join(str(number % 7) for number in numbers)


def _month_day(text: str) -> str:
    if text == "last":
        return "L"
    if text.isascii() and text.isdigit() and 1 <= int(text) <= 31:
        return str(int(text))
    raise UsageError("month_day", text, "is not a day of the month", "give 1 to 31, or last")


def _text_rule(form: ScheduleForm, zone: str) -> Timetable:
    if not form.text.strip():
        remedy = 'write for example "every weekday at 9", 0 9 * * 1-5, or 15m'
        raise UsageError("text", form.text, "is missing", remedy)
    rule = Rule(when=form.text, tz=zone, gap=form.gap, fold=form.fold, dtstart=form.dtstart or None)
    return _by_field("text", lambda: read_rule(rule, form.name or None))


def _stored_rule(form: ScheduleForm) -> Timetable:
    try:
        given = json.loads(form.stored or "null")
    except (ValueError, RecursionError) as error:
        raise UsageError("stored", form.stored, "is not JSON", "write JSON") from error
    return _by_field("stored", lambda: read_rule(Rule(timetable=given), None))


def _read(stored: dict[str, Any]) -> Timetable:
    return read_rule(Rule(timetable=stored), None)


def _by_field(field: str, read: Callable[[], Timetable]) -> Timetable:
    """Read a rule; what is wrong with it is told at the field where it was typed."""
    try:
        return read()
    except UsageError as error:
        if error.field in {"tz", "gap", "fold", "dtstart"}:
            raise
        raise UsageError(field, error.value, error.problem, error.remedy) from error


def _limited(form: ScheduleForm, timetable: Timetable, zone: str) -> Timetable:
    """Leave out holidays, days away, and what lies outside of its validity."""
    is_business = form.mode == "simple" and form.repeat in _BUSINESS
    if form.calendar and not is_business:
        calendar = _calendar(form.calendar)
        shape = {"kind": "on-business-days", "timetable": timetable.to_json(), "tz": zone}
        timetable = _by_field("calendar", lambda: _read({**shape, "calendar": calendar}))
    away = [day for day in _AWAY.split(form.away) if day]
    if len(away) > AWAY_MAX:
        raise UsageError("away", len(away), "are too many days", f"give at most {AWAY_MAX}")
    if away:
        inner = timetable
        timetable = _by_field("away", lambda: inner.excluding(*away, tz=zone))
    if form.start or form.end:
        limited = timetable
        start, end = form.start or None, form.end or None
        timetable = limited.between(start, end, tz=zone)
    return timetable


def _calendar(text: str) -> Any:  # noqa: ANN401 - as the stored form has it
    country, _, part = text.strip().partition("-")
    return [country, part] if part else (country or None)


def rule_fields(timetable: Timetable) -> dict[str, Any]:
    """Return the form's fields that say a timetable: simple, as a text, or as it is stored."""
    stored = timetable.to_json()
    base, limits = _peeled(stored)
    whole = {"mode": "stored", "stored": json.dumps(stored, indent=2, ensure_ascii=False)}
    if base is None:
        return whole
    said = _simple_fields(base) or _text_fields(base)
    if said is None:
        return whole
    if base["kind"] == "monthly":
        limits = {"calendar": _calendar_text(base.get("calendar")), **limits}
    kept: dict[str, Any] = {name: base[name] for name in ("tz", "gap", "fold") if name in base}
    # An interval knows no zone, and the form asks for one.
    return {"tz": "UTC", **kept, **limits, **said}


def advanced_text(timetable: Timetable) -> str | None:
    """Return a text that means the same as the sentence, for who goes on with it by hand."""
    base, _ = _peeled(timetable.to_json())
    if base is None:
        return None
    if base["kind"] == "monthly":
        return f"on the {base['day']} of the month at {base['at']}"
    fields = _text_fields(base)
    return None if fields is None else str(fields["text"])


def _peeled(stored: dict[str, Any]) -> tuple[dict[str, Any] | None, dict[str, str]]:
    """Take off validity, days away and holidays, each at most once and in the rule's own zone."""
    limits: dict[str, str] = {}
    zones = set()
    while stored["kind"] in _WRAPPERS:
        found = _limit_fields(stored)
        if set(found) & set(limits):
            return None, {}
        limits |= found
        zones.add(stored["tz"])
        stored = stored["timetable"]
    if zones and stored.get("tz") is None:
        limits["tz"] = next(iter(zones))
    is_one_zone = len(zones) <= 1 and (not zones or stored.get("tz") in {None, *zones})
    return (stored, limits) if is_one_zone else (None, {})


def _limit_fields(stored: dict[str, Any]) -> dict[str, str]:
    match stored["kind"]:
        case "between-dates":
            return {"start": stored["start"] or "", "end": stored["end"] or ""}
        case "excluding-dates":
            return {"away": " ".join(stored["dates"])}
        case _:
            return {"calendar": _calendar_text(stored["calendar"])}


def _calendar_text(calendar: object) -> str:
    if isinstance(calendar, list):
        return "-".join(map(str, calendar))
    return calendar if isinstance(calendar, str) else ""


def _simple_fields(base: dict[str, Any]) -> dict[str, Any] | None:
    if base["kind"] == "monthly":
        return _simple_monthly(base)
    is_cron = base["kind"] == "cron" and base.get("dialect", "cron") == "cron"
    found = _SIMPLE_CRON.fullmatch(base["expression"]) if is_cron else None
    if found is None:
        return None
    minute, hour, day, weekdays = found.groups()
    said = _simple_days(day, weekdays)
    if said is None or int(minute) > 59 or int(hour) > 23:
        return None
    return {"mode": "simple", "time": f"{int(hour):02}:{int(minute):02}", **said}


def _simple_days(day: str, weekdays: str) -> dict[str, Any] | None:
    """Return on which days a cron expression is, if that is one of the sentence's choices."""
    match day, weekdays:
        case "*", "*":
            return {"repeat": "daily"}
        case "*", "1-5":
            return {"repeat": "weekdays"}
        case "*", _ if "-" not in weekdays:
            numbers = sorted({int(number) % 7 or 7 for number in weekdays.split(",")})
            return {"repeat": "weekly", "days": [DAYS[number - 1] for number in numbers]}
        case _, "*":
            return {"repeat": "monthly", "month_day": "last" if day == "L" else day}
        case _:
            return None


def _simple_monthly(base: dict[str, Any]) -> dict[str, Any] | None:
    names = {words: repeat for repeat, words in _BUSINESS.items()}
    names["first business day"] = "first-business-day"
    repeat = names.get(base["day"]) if isinstance(base["day"], str) else None
    is_plain = isinstance(base["at"], str) and base.get("roll") is None
    is_named = base.get("calendar") is None or _calendar_text(base["calendar"])
    if repeat is None or not is_plain or not is_named:
        return None
    return {"mode": "simple", "repeat": repeat, "time": base["at"][:5]}


def _text_fields(base: dict[str, Any]) -> dict[str, Any] | None:
    """Return a text that reads back as the very same rule, or nothing."""
    kind = base["kind"]
    text = {"cron": "expression", "oncalendar": "expression", "rrule": "expression"}.get(kind)
    found = {"mode": "advanced", "dtstart": base.get("dtstart", "")}
    if kind == "every":
        found["text"] = str(base["period"])
    elif kind == "at":
        found["text"] = str(base["when"])
    elif base.get("words"):
        found["text"] = str(base["words"])
    elif text is not None:
        found["text"] = str(base[text])
    else:
        return None
    return found if _reads_back(found, base) else None


def _reads_back(said: dict[str, Any], base: dict[str, Any]) -> bool:
    """Say whether what is shown would be read as what is stored."""
    rule = Rule(
        when=said["text"],
        tz=base.get("tz"),
        gap=base.get("gap"),
        fold=base.get("fold"),
        dtstart=said["dtstart"] or None,
    )
    try:
        again = read_rule(rule, base.get("seed")).to_json()
    except UsageError:
        return False
    return {**again, "words": None, "seed": None} == {**base, "words": None, "seed": None}


FOUND_MAX = 30
RECENT_MAX = 5
SUGGESTED = ("UTC",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneRow:
    """One zone to choose."""

    key: str
    city: str
    country: str
    clock: str
    offset: str
    """What its clock is called now, and what it is off UTC: GMT (+00:00)."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneGroup:
    """Zones under one heading."""

    name: str
    rows: tuple[ZoneRow, ...]


def zone_row(key: str, now: datetime) -> ZoneRow | None:
    """Show one zone; None for what is none."""
    if key not in default_zones().keys:
        return None
    found = search_zones(key, at=now, limit=1)
    return _row(found[0]) if found else None


def found_zones(typed: str, now: datetime) -> tuple[ZoneGroup, ...]:
    """Return the zones that somebody may mean, the likeliest group first."""
    try:
        found = search_zones(typed, at=now, limit=FOUND_MAX)
    except UsageError:
        return ()
    groups: dict[str, list[ZoneRow]] = {}
    for one in found:
        groups.setdefault(one.group, []).append(_row(one))
    return tuple(ZoneGroup(name=name, rows=tuple(rows)) for name, rows in groups.items())


def offered_zones(now: datetime, mine: str | None, recent: Iterable[str]) -> tuple[ZoneGroup, ...]:
    """Return what is offered before anybody has typed anything: their own, and what they used."""
    suggested = _rows((mine, *SUGGESTED), now)
    known = {one.key for one in suggested}
    lately = [row for row in _rows(list(recent)[:RECENT_MAX], now) if row.key not in known]
    groups = (
        ZoneGroup(name="Suggested", rows=suggested),
        ZoneGroup(name="Recent", rows=(*lately,)),
    )
    return tuple(one for one in groups if one.rows)


def _rows(keys: Iterable[str | None], now: datetime) -> tuple[ZoneRow, ...]:
    named = dict.fromkeys(key for key in keys if key)
    return tuple(row for key in named if (row := zone_row(key, now)) is not None)


def _row(match: ZoneMatch) -> ZoneRow:
    return ZoneRow(
        key=match.key,
        city=match.city,
        country=", ".join(match.countries[:2]),
        clock=f"{match.local_at:%H:%M}",
        offset=clock_name_and_offset(match.abbreviation, match.offset),
        why=match.why,
    )
