"""A schedule as a table of TOML, as short as it can be said, that a declaration reads back."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

from duly.cli.rules import spoken_parts
from duly.client.schedule_view import MICROSECOND, Schedule
from duly.domain.durations import duration_text
from duly.domain.misfire import NO_BOUND, Misfire
from duly.domain.presets import PRESETS
from duly.domain.schedules import OVERLAP_DEFAULT, PRIORITY_DEFAULT, QUEUE_DEFAULT
from duly.domain.timetable.timetable import Timetable

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml_table(schedule: Schedule) -> str:
    """Write a schedule as `[schedules.NAME]` and its keys; defaults go without saying."""
    values: dict[str, Any] = {"task": schedule.task}
    if schedule.arguments:
        values["arguments"] = schedule.arguments
    values |= _rule(schedule.name, schedule.timetable)
    values |= _preset_and_misfire(schedule)
    if schedule.jitter:
        values["jitter"] = duration_text(schedule.jitter // MICROSECOND)
    if schedule.overlap != _usual(schedule)[1]:
        values["overlap"] = schedule.overlap
    if schedule.serialize_by is not None:
        values["serialize_by"] = schedule.serialize_by
    if schedule.queue != QUEUE_DEFAULT:
        values["queue"] = schedule.queue
    if schedule.priority != PRIORITY_DEFAULT:
        values["priority"] = schedule.priority
    if schedule.owner is not None:
        values["owner"] = schedule.owner
    lines = [f"[schedules.{_key(schedule.name)}]"]
    lines += [f"{key} = {_value(value)}" for key, value in values.items()]
    return "\n".join(lines)


def _usual(schedule: Schedule) -> tuple[Misfire, str]:
    """Return the policies that go without saying: those of its preset, or the defaults."""
    preset = PRESETS.get(schedule.preset or "")
    if preset is None:
        return Misfire(), str(OVERLAP_DEFAULT)
    return preset.misfire, str(preset.overlap)


def _preset_and_misfire(schedule: Schedule) -> dict[str, Any]:
    values: dict[str, Any] = {} if schedule.preset is None else {"preset": schedule.preset}
    if schedule.misfire != _usual(schedule)[0]:
        stored = schedule.misfire.to_json()
        values["misfire"] = {
            key: NO_BOUND if part is None else part for key, part in stored.items()
        }
    return values


def _rule(name: str, timetable: Timetable) -> dict[str, Any]:
    """Say a rule as a person would, if that says all of it; else as it is stored."""
    spoken = spoken_parts(timetable, name)
    if spoken is not None:
        defaults = {"tz": "UTC", "gap": "next", "fold": "first"}
        return {key: part for key, part in spoken.items() if defaults.get(key) != part}
    stored = timetable.to_json()
    return {"timetable": {key: part for key, part in stored.items() if part is not None}}


def _key(text: str) -> str:
    return text if _BARE_KEY.fullmatch(text) else _text(text)


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case datetime():
            return value.isoformat()
        case list() | tuple():
            return f"[{', '.join(_value(one) for one in value)}]"
        case dict():
            parts = (f"{_key(str(key))} = {_value(one)}" for key, one in value.items())
            return f"{{ {', '.join(parts)} }}"
        case _:
            return _text(str(value))


def _text(text: str) -> str:
    # JSON's escapes are TOML's as well, but for the slash and what lies past 16 bits.
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in quoted)
