"""What an order changed about a schedule, field by field, as the audit trail has it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly import DulyError, timetable_from_json

if TYPE_CHECKING:
    from datetime import datetime

    from duly.api.views import HistoryEntry

_LEFT_OUT = frozenset({"version", "generation", "next_due", "held_for", "reason", "resume_missed"})
"""Changes with every order, or is told in a column of its own."""
_WORDS = {
    "status": "Status", "name": "Name", "owner": "Owner", "next_for": "Next",
    "resume_at": "Resumes", "task": "Task", "arguments": "Arguments", "queue": "Queue",
    "priority": "Priority", "timetable": "Rule", "misfire": "Catch-up", "jitter": "Spread",
    "overlap": "Overlap", "serialize_by": "Serialized by", "preset": "Kind of work",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field before and after."""

    label: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One order or decision."""

    number: int
    at: datetime
    actor: str
    source: str
    action: str
    reason: str | None
    changes: tuple[FieldChange, ...]
    is_revertible: bool
    """Whether it changed what the schedule says, so that this can be taken back."""


def history_entry(entry: HistoryEntry) -> Entry:
    """Show an entry of a schedule's history."""
    before, after = entry.before or {}, entry.after or {}
    is_edit = bool(before) and before.get("definition") != after.get("definition")
    return Entry(
        number=entry.number,
        at=entry.at,
        actor=entry.actor,
        source=entry.source,
        action=entry.action.removeprefix("schedule."),
        reason=entry.reason,
        changes=field_changes(before, after) if before else (),
        is_revertible=is_edit and "definition" in before,
    )


def field_changes(before: dict[str, Any], after: dict[str, Any]) -> tuple[FieldChange, ...]:
    """Return each field that is not what it was."""
    old, new = _flat(before), _flat(after)
    return tuple(
        FieldChange(_WORDS.get(name, name), _text(name, old.get(name)), _text(name, new.get(name)))
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name) and name not in _LEFT_OUT
    )


def _flat(facts: dict[str, Any]) -> dict[str, Any]:
    definition = facts.get("definition") or {}
    return {**{key: value for key, value in facts.items() if key != "definition"}, **definition}


def _text(name: str, value: object) -> str:
    if value is None:
        return "–"  # noqa: RUF001 - typography
    if name == "timetable":
        return _rule_text(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _rule_text(stored: Any) -> str:  # noqa: ANN401 - JSON values
    try:
        rule = timetable_from_json(stored).describe()
    except DulyError:
        return json.dumps(stored, ensure_ascii=False)
    policies = [f"{key}={stored[key]}" for key in ("gap", "fold") if stored.get(key)]
    is_default = policies == ["gap=next", "fold=first"]
    return rule if is_default or not policies else f"{rule} ({', '.join(policies)})"
