"""What the editor's form holds: texts as somebody typed them, until a rule is made of them."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import msgspec

from duly import UsageError
from duly_web.editing.clock_text import read_clock

RULE_FIELDS = (
    "mode", "repeat", "days", "month_day", "time", "text", "dtstart", "stored", "tz", "gap", "fold",
    "start", "end", "away", "calendar",
)  # fmt: skip
"""What says when."""
POLICY_FIELDS = (
    "preset", "misfire", "grace", "not_older", "at_most", "overlap", "serialize_by", "jitter",
    "queue", "priority",
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
    "at_most": "At most", "overlap": "If the previous one still runs",
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
    overlap: str = "skip"
    serialize_by: str = ""
    jitter: str = "0s"
    queue: str = ""
    priority: str = ""
    owner: str = ""
    reason: str = ""
    version: int | None = None
    """Which version was seen when the editor was opened (S4)."""
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
