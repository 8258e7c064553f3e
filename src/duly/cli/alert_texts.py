"""Alerts, rules and silences in the words of the command line."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from cyclopts import Parameter

from duly.cli.output import print_json, print_line, print_table
from duly.cli.undoing import UNSAID, print_undo
from duly.domain.time_texts import utc_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.cli.target import Target
    from duly.client.alert_view import Alert, AlertChannel, AlertRule, AlertSilence
    from duly.client.status_view import Status

NARROWING = ("schedule", "task", "queue", "tenant")
"""What a rule may be about alone."""
Several = Annotated[tuple[str, ...], Parameter(show_default=False)]
Table: TypeAlias = "tuple[tuple[str, ...], ...]"
"""Headings, and rows."""
RULE_HEADINGS = (
    "rule", "kind", "from", "for", "clear", "severity", "channels", "set by", "version", "counts"
)  # fmt: skip


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class TermOptions:
    """Why something is said about alerts, and on which terms."""

    reason: str | None = None
    """Why."""
    version: int | None = None
    """Only if it is still at this version, as the list of them has it (--json); 0 while nobody has
    said anything."""

    def terms(self) -> dict[str, Any]:
        """Return what an order takes."""
        return {"reason": self.reason, "version": self.version}


SAID = TermOptions()


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
    about = [f"{name} {value}" for name in NARROWING if (value := getattr(one, name)) is not None]
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


def rule_words(rule: AlertRule) -> list[str]:
    """Return what to type to have a rule as it is."""
    words = ["alert", "rule", "set", rule.name, "--threshold", f"{rule.threshold:.15g}"]
    words += ["--for", rule.hold_for, "--clear-for", rule.clear_for, "--severity", rule.severity]
    for one in rule.channels:
        words += ["--channel", one]
    words += [] if rule.channels else ["--all-channels"]
    words += ["--on" if rule.is_on else "--off"]
    words += ["--kind", rule.kind] if rule.kind != rule.name else []
    for name in NARROWING:
        value = getattr(rule, name)
        words += [] if value is None else [f"--{name}", value]
    return words


def silence_words(silence: AlertSilence) -> list[str]:
    """Return what to type to have a silence once more."""
    words = ["alert", "silence", "--until", utc_text(silence.until)]
    for one in silence.kinds:
        words += ["--kind", one]
    for name, value in (("--subject", silence.subject), ("--tenant", silence.tenant)):
        words += [] if value is None else [name, value]
    return [*words, "--reason", silence.reason or UNSAID]


def print_terms(
    target: Target, found: Sequence[AlertRule | AlertChannel | AlertSilence], table: Table
) -> None:
    """Print what people have said about alerts: as JSON, or as headings and rows."""
    if target.json:
        print_json([one.to_json() for one in found])
        return
    headings, *rows = table
    print_table(headings, rows)


def print_removed(target: Target, what: str, *, is_done: bool, again: str | None) -> None:
    """Say whether there was something to take back, and how to say it again."""
    if target.json:
        print_json({"is_removed": is_done, "undo": again})
    elif is_done:
        print_line(f"Removed the {what}.")
        if again is not None:
            print_undo(again)
    else:
        print_line(f"There is no {what} that somebody has set. Nothing was changed.")
