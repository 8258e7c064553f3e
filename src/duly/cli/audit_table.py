"""The audit trail as a table: when, who, from where, what, why, and what it changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duly.cli.output import print_line, print_table
from duly.client.history import HistoryEntry
from duly.domain.time_texts import utc_text

CHANGES_SHOWN_MAX = 4
VALUE_SHOWN_MAX = 40
_LEFT_OUT = frozenset({"version", "generation", "next_due", "held_for", "reason"})
"""Changes with every order, or is told in a column of its own."""


def print_entries(entries: Sequence[HistoryEntry], *, has_subject: bool) -> None:
    """Print audit entries, in the order given."""
    headings = ["when (UTC)", "who", "from", "action", "reason", "change"]
    if has_subject:
        headings.insert(4, "subject")
    rows = []
    for entry in entries:
        row = [
            utc_text(entry.at),
            entry.actor,
            source_text(entry),
            entry.action,
            entry.reason or "-",
            change_text(entry.before, entry.after),
        ]
        if has_subject:
            row.insert(4, subject_text(entry))
        rows.append(row)
    if not rows:
        print_line("Nothing is recorded.")
        return
    print_table(headings, rows)


def subject_text(entry: HistoryEntry) -> str:
    """Say what an order was about, as people call it; the id of a run beside its label."""
    return entry.subject if entry.label is None else f"{entry.label} ({entry.subject})"


def source_text(entry: HistoryEntry) -> str:
    """Say from where an order came: by which way, and over the network from which address."""
    return entry.source if entry.address is None else f"{entry.source}, {entry.address}"


def change_text(before: dict[str, Any] | None, after: dict[str, Any] | None) -> str:
    """Say what an order changed: "status: active → paused"."""
    changed = [f"{key}: {_shown(old)} → {_shown(new)}" for key, old, new in changes(before, after)]
    more = ", …" if len(changed) > CHANGES_SHOWN_MAX else ""
    return ", ".join(changed[:CHANGES_SHOWN_MAX]) + more if changed else "-"


def changes(
    before: dict[str, Any] | None, after: dict[str, Any] | None
) -> list[tuple[str, Any, Any]]:
    """Return each field that an order changed, with its value before and after."""
    if before is None or after is None:
        return []
    old, new = flat_facts(before), flat_facts(after)
    return [
        (key, old.get(key), new.get(key))
        for key in dict.fromkeys((*old, *new))
        if old.get(key) != new.get(key) and key not in _LEFT_OUT
    ]


def flat_facts(facts: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return facts without nesting; a definition's parts are called by their own names."""
    flat: dict[str, Any] = {}
    for key, value in facts.items():
        name = key if key != "definition" else ""
        if isinstance(value, dict) and key != "arguments":
            flat |= flat_facts(value, f"{name}." if name else "")
        elif prefix != "timetable." or key != "words":
            flat[f"{prefix}{key}"] = value
    return flat


def _shown(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= VALUE_SHOWN_MAX else f"{text[:VALUE_SHOWN_MAX]}…"
