"""Whether a form can be saved: each part by itself, so that everything wrong is told at once."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from duly import DulyError, Misfire, NotFound, UsageError, search_zones
from duly.api.views import (
    PRESETS,
    read_jitter,
    read_name,
    read_overlap,
    read_owner,
    read_priority,
    read_queue,
)
from duly_web.editing.form import LABELS, RULE_FIELDS, ScheduleForm, compared
from duly_web.editing.rules import read_form_rule, rule_fields

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from duly import App, BoundCall, Schedule, Timetable

T = TypeVar("T")
_FIELD_OF = {
    "every": "text", "cron": "text", "rrule": "text", "oncalendar": "text", "when": "text",
    "at": "time", "call": "task", "retry": "preset", "excluding": "away",
    "timetable": "stored",
}  # fmt: skip
"""Where the form asks for what an error names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
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
    problems: tuple[Problem, ...] = field(default=())

    @property
    def is_fine(self) -> bool:
        """Whether it could be saved."""
        return not self.problems

    def problem(self, name: str) -> Problem | None:
        """Return what is wrong with a field."""
        return next((one for one in self.problems if one.field == name), None)


class _Collector:
    """Tries each part, and keeps what goes wrong."""

    def __init__(self, now: datetime) -> None:
        self.problems: list[Problem] = []
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
        self.problems.append(Problem(field=name, text=text, remedy=remedy, fix=fix))


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
    arguments = read_arguments(form.arguments)
    try:
        return app.call(form.task, arguments)
    except UsageError as error:
        raise UsageError("arguments", error.value, error.problem, error.remedy) from error
    except NotFound as error:
        raise UsageError("task", form.task, "is not known", error.remedy) from error


def read_arguments(text: str) -> dict[str, Any]:
    """Read arguments as JSON."""
    remedy = 'write an object such as {"class_id": 42}'
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise UsageError("arguments", text[:80], f"is not JSON ({error})", remedy) from error
    if not isinstance(found, dict):
        raise UsageError("arguments", text[:80], "is not an object", remedy)
    return found


def _misfire(form: ScheduleForm) -> Misfire:
    most = _number("at_most", form.at_most)
    older = None if form.not_older == "none" else form.not_older or "1d"
    return Misfire(form.misfire, grace=form.grace or "1m", at_most=most, not_older=older)


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
