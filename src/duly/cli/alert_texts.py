"""Alerts, rules and silences in the words of the command line."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from duly.cli.output import print_json, print_line

if TYPE_CHECKING:
    from duly.cli.target import Target
    from duly.client.alert_view import Alert, AlertRule, AlertSilence
    from duly.client.status_view import Status

RULE_HEADINGS = (
    "rule", "kind", "from", "for", "clear", "severity", "channels", "set by", "version", "counts"
)  # fmt: skip


def alert_state(alert: Alert) -> str:
    """Say how far an alert has come, and who has taken note."""
    if alert.is_silenced:
        return f"{alert.state}, silenced"
    return f"{alert.state}, acknowledged" if alert.acknowledged_at is not None else alert.state


def open_alerts_text(found: Status) -> str:
    """Say how many are open, by how urgent they are."""
    silenced = sum(one.silenced for one in found.alerts)
    counts = Counter[str]()
    for one in found.alerts:
        counts[one.severity] += one.count
    told = ", ".join(f"{count:,} {severity}" for severity, count in sorted(counts.items()))
    return (told or "none") + (f"; {silenced:,} of them silenced" if silenced else "")


def silenced_what(silence: AlertSilence) -> str:
    """Say of what nobody is told."""
    kinds = ", ".join(silence.kinds) or "all alerts"
    about = "" if silence.subject is None else f" about {silence.subject}"
    return f"{kinds}{about}" + ("" if silence.tenant is None else f" of {silence.tenant}")


def threshold_text(rule: AlertRule) -> str:
    """Say from which number on."""
    unit = {"seconds": " s", "times": " times"}.get(rule.unit, "")
    return f"{rule.threshold:,.10g}{unit}"


def rule_row(one: AlertRule) -> tuple[str, ...]:
    """Show a rule in a line, under `RULE_HEADINGS`."""
    about = [
        f"{name} {value}"
        for name, value in (
            ("schedule", one.schedule),
            ("task", one.task),
            ("queue", one.queue),
            ("tenant", one.tenant),
        )
        if value is not None
    ]
    return (
        one.name,
        ", ".join((one.kind, *about)),
        threshold_text(one) if one.is_on else "off",
        one.hold_for,
        one.clear_for,
        one.severity,
        ", ".join(one.channels) or "all",
        one.set_by or "-",
        str(one.version),
        one.meaning,
    )


def print_removed(target: Target, *, is_done: bool, what: str, name: str) -> None:
    """Say whether there was something to take back."""
    if target.json:
        print_json({"is_removed": is_done})
    elif is_done:
        print_line(f"Removed the {what} {name}.")
    else:
        print_line(f"There is no {what} {name} that somebody has set. Nothing was changed.")
