"""Checks the editor's form, and previews what the schedule would do.

`make_preview` computes occurrences with the engine that will fire them, through the call that the
API's preview makes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from duly import DulyError, Misfire, NotFound, UsageError, default_zones, search_zones
from duly.api.views import (
    PRESETS,
    read_jitter,
    read_json_map,
    read_name,
    read_overlap,
    read_owner,
    read_priority,
    read_queue,
    zone_of,
)
from duly.web.formatting import TimeFormatter
from duly.web.pages.editor_form import (
    LABELS,
    RULE_FIELDS,
    ScheduleForm,
    advanced_text,
    compared,
    read_form_rule,
    rule_fields,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from duly import App, BoundCall, Schedule, Timetable
    from duly.api.views import PreviewedOccurrence
    from duly.web.formatting import Moment
    from duly.web.requests import PageRequest


T = TypeVar("T")
_FIELD_OF = {
    "every": "text", "cron": "text", "rrule": "text", "oncalendar": "text", "when": "text",
    "at": "time", "call": "task", "retry": "preset", "excluding": "away",
    "timetable": "stored",
}  # fmt: skip
"""Where the form asks for what an error names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormProblem:
    """What is wrong with one field, and the value that would mend it, where there is one."""

    field: str
    text: str
    remedy: str
    fix: str | None = None
    """A value for the field, offered by a button."""

    @property
    def label(self) -> str:
        """What the form calls the field."""
        return LABELS.get(self.field, self.field)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A form, read."""

    timetable: Timetable | None
    call: BoundCall | None
    policies: dict[str, Any]
    problems: tuple[FormProblem, ...] = field(default=())

    @property
    def is_fine(self) -> bool:
        """Whether it could be saved."""
        return not self.problems

    def problem(self, name: str) -> FormProblem | None:
        """Return what is wrong with a field."""
        return next((one for one in self.problems if one.field == name), None)


class _Collector:
    """Tries each part, and keeps what goes wrong."""

    def __init__(self, now: datetime) -> None:
        self.problems: list[FormProblem] = []
        self._now = now

    def attempt(self, read: Callable[[], T], field: str | None = None) -> T | None:
        """Read a part; a part that can't be read is a problem of its field."""
        try:
            return read()
        except UsageError as error:
            name = field or _FIELD_OF.get(error.field, error.field)
            self._add(name, error.value, error.problem, error.remedy)
        except NotFound as error:
            self._add(field or error.what, error.name, "was not found", error.remedy)
        except DulyError as error:
            self._add(field or "name", "", str(error), "")
        return None

    def _add(self, name: str, value: object, problem: str, remedy: str) -> None:
        shown = f"“{value}” " if isinstance(value, str) and value and len(value) <= 80 else ""
        text = f"{shown}{problem}" if shown else f"{LABELS.get(name, name)} {problem}"
        fix = None
        if name == "tz" and isinstance(value, str):
            fix = nearest_zone(value, self._now)
        self.problems.append(FormProblem(field=name, text=text, remedy=remedy, fix=fix))


def nearest_zone(typed: str, now: datetime) -> str | None:
    """Return the zone that somebody most likely means."""
    try:
        found = search_zones(typed, at=now, limit=1)
    except UsageError:
        return None
    return found[0].key if found else None


def check_form(
    app: App, form: ScheduleForm, now: datetime, before: Schedule | None = None
) -> Checked:
    """Read a form whole; `before` is the schedule that is edited."""
    collect = _Collector(now)
    collect.attempt(lambda: _name(form.name))
    call = collect.attempt(lambda: _call(app, form))
    timetable = collect.attempt(lambda: _computable(form, before, now))
    misfire = collect.attempt(lambda: _misfire(form))
    collect.attempt(lambda: read_overlap(form.overlap, _serialize_by(form)))
    collect.attempt(lambda: read_jitter(form.jitter or "0s"))
    collect.attempt(lambda: _owner(form.owner, before))
    collect.attempt(lambda: read_queue(form.queue) if form.queue else None)
    policies: dict[str, Any] = {
        "preset": form.preset or (None if before is None or not before.preset else "none"),
        "misfire": misfire,
        "jitter": form.jitter or "0s",
        "overlap": form.overlap,
        "serialize_by": _serialize_by(form),
        "queue": form.queue or None,
        "priority": collect.attempt(lambda: _priority(form.priority)),
    }
    if form.preset and form.preset not in PRESETS:
        collect.attempt(lambda: _preset(form.preset))
    return Checked(
        timetable=timetable, call=call, policies=policies, problems=tuple(collect.problems)
    )


def form_timetable(form: ScheduleForm, before: Schedule | None) -> Timetable:
    """Return the rule; the very one that is stored, words and all, if nothing about it changed."""
    if before is not None:
        said, mine = compared(rule_form(before.timetable)), compared(form)
        if all(said[name] == mine[name] for name in RULE_FIELDS):
            return before.timetable
    return read_form_rule(form)


def _computable(form: ScheduleForm, before: Schedule | None, now: datetime) -> Timetable:
    """Return the rule, if a next instant can be computed at all: too much may be left out."""
    timetable = form_timetable(form, before)
    try:
        timetable.next(now)
    except UsageError as error:
        field = {"simple": "repeat", "advanced": "text"}.get(form.mode, "stored")
        raise UsageError(field, error.value, error.problem, error.remedy) from error
    return timetable


def rule_form(timetable: Timetable) -> ScheduleForm:
    """Return a form that says a rule, and nothing else."""
    return ScheduleForm(**rule_fields(timetable))


def _name(text: str) -> str:
    if not text.strip():
        raise UsageError("name", "", "is missing", "give it a name that others recognise")
    return read_name(text)


def _call(app: App, form: ScheduleForm) -> BoundCall:
    if not form.task:
        raise UsageError("task", form.task, "is missing", "choose what is to be run")
    arguments = read_json_map("arguments", form.arguments or "{}")
    try:
        return app.call(form.task, arguments)
    except UsageError as error:
        raise UsageError("arguments", error.value, error.problem, error.remedy) from error
    except NotFound as error:
        raise UsageError("task", form.task, "is not known", error.remedy) from error


def _misfire(form: ScheduleForm) -> Misfire:
    most = _number("at_most", form.at_most)
    older = None if form.not_older == "none" else form.not_older or "1d"
    bounds = {"at_most": most, "per_minute": _number("per_minute", form.per_minute)}
    return Misfire(form.misfire, grace=form.grace or "1m", not_older=older, **bounds)


def _serialize_by(form: ScheduleForm) -> str | None:
    return (form.serialize_by or None) if form.overlap == "serialize" else None


def _owner(name: str, before: Schedule | None) -> str | None:
    if not name and before is not None and before.owner:
        remedy = f"name another, or leave it to {before.owner}"
        raise UsageError("owner", "", "can't be taken away", remedy)
    return read_owner(name or None)


def _preset(name: str) -> None:
    remedy = f"use one of {', '.join(PRESETS)}"
    raise UsageError("preset", name, "is not a kind of work", remedy)


def _priority(text: str) -> int | None:
    number = _number("priority", text)
    return None if number is None else read_priority(number)


def _number(name: str, text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise UsageError(name, text, "is not a whole number", "give digits alone")
    return int(text)


SHOWN, SHOWN_MORE = 3, 5
CROWD_LOOKED_AT = 500
"""So many active schedules are asked whether they fall due in the same minute."""
CROWD_FROM = 3
QUIETER_MINUTES = (7, 23)
MINUTE = timedelta(minutes=1)
MICROSECOND = timedelta(microseconds=1)
KIND_WORDS = {
    "cron": "a cron expression",
    "rrule": "a recurrence rule",
    "oncalendar": "a calendar event of systemd",
    "every": "an interval",
    "at": "a date",
    "monthly": "a calendar rule",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UpcomingOccurrence:
    """One coming occurrence."""

    own: Moment
    mine: Moment | None
    """On the viewer's clock, where that shows another time."""
    utc: Moment
    change: str | None
    """What a clock change does to it, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrentSchedules:
    """How many others fall due in the minute of the next occurrence, and when fewer do."""

    count: int
    looked_at: int
    at: str
    quieter: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Previewed:
    """What somebody sees before they agree."""

    description: str
    kind: str
    zone: str
    occurrences: tuple[UpcomingOccurrence, ...]
    has_more: bool
    changes: tuple[str, ...]
    tzdata: str
    crowd: ConcurrentSchedules | None
    simple: str
    """The form's fields that say the same as a sentence, as JSON; empty if there is none."""
    text: str
    """The same as a text."""


def make_preview(
    asked: PageRequest, timetable: Timetable, form: ScheduleForm, edited: Schedule | None = None
) -> Previewed:
    """Preview a form's rule for whoever looks; `edited` is no crowd for itself."""
    count = min(max(form.count, 1), SHOWN_MORE)
    found = asked.app.schedules.preview(timetable, None, count + 1)
    shown = found.occurrences[:count]
    own = zone_of(timetable) or form.tz or "UTC"
    fields = rule_fields(timetable)
    return Previewed(
        description=timetable.describe(),
        kind="" if form.mode == "simple" else _kind(timetable),
        zone=own,
        occurrences=tuple(_coming(one, own, asked) for one in shown),
        has_more=len(found.occurrences) > count and count < SHOWN_MORE,
        changes=tuple(dict.fromkeys(one.text for one in found.changes)),
        tzdata=found.tzdata,
        crowd=_crowd(asked, timetable, own, edited),
        simple=json.dumps(fields) if fields["mode"] == "simple" else "",
        text=advanced_text(timetable) or "",
    )


def _kind(timetable: Timetable) -> str:
    """Say how a text was understood."""
    stored = timetable.to_json()
    return "plain words" if stored.get("words") else KIND_WORDS.get(stored["kind"], "a rule")


def _coming(one: PreviewedOccurrence, own: str, asked: PageRequest) -> UpcomingOccurrence:
    now, mine = asked.now, asked.clocks.mine
    shown = TimeFormatter("schedule").moment(one.utc, now, own)
    viewers = None if mine is None else TimeFormatter("mine", mine).moment(one.utc, now)
    is_same = viewers is not None and (viewers.day, viewers.clock) == (shown.day, shown.clock)
    return UpcomingOccurrence(
        own=shown,
        mine=None if is_same else viewers,
        utc=TimeFormatter("utc").moment(one.utc, now),
        change=None if one.change is None else one.change.text,
    )


def _crowd(
    asked: PageRequest, timetable: Timetable, zone: str, edited: Schedule | None
) -> ConcurrentSchedules | None:
    """Count who else falls due in the minute of the next occurrence: planned load, not past."""
    first = timetable.next(asked.now)
    if first is None:
        return None
    minute = first.replace(second=0, microsecond=0)
    active = asked.app.schedules.page(status="active", limit=CROWD_LOOKED_AT).items
    own = None if edited is None else edited.id
    rules = [one.timetable for one in active if one.id != own]
    count = _due_in(rules, minute)
    if count < CROWD_FROM:
        return None
    hour = minute - timedelta(minutes=_local(minute, zone).minute)
    quieter = []
    for number in QUIETER_MINUTES:
        there = _due_in(rules, hour + number * MINUTE)
        if there < count:
            quieter.append((f"{_local(hour + number * MINUTE, zone):%H:%M}", there))
    at = f"{_local(minute, zone):%H:%M}"
    return ConcurrentSchedules(count=count, looked_at=len(rules), at=at, quieter=tuple(quieter))


def _due_in(rules: list[Timetable], minute: datetime) -> int:
    """Count the rules that have an occurrence in a minute."""
    found = 0
    for rule in rules:
        try:
            coming = rule.next(minute - MICROSECOND)
        except DulyError:  # one that can't be computed is told elsewhere
            continue
        found += coming is not None and coming < minute + MINUTE
    return found


def _local(at: datetime, zone: str) -> datetime:
    segment = default_zones().zone(zone).segment(int(at.timestamp()))
    return at + timedelta(seconds=segment.offset)
