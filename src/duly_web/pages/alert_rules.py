"""Rules of alerts: from which number on, for how long, how urgent, and who is told (V3)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from duly import NotFound, Outdated
from duly.api.views import Severity
from duly_web.moments import span
from duly_web.page import Asked, Moved, Page, Said, Shown, Undo

if TYPE_CHECKING:
    from duly.api.views import AlertRule

RULES = "/alerts/rules"
SEVERITIES = tuple(str(one) for one in Severity)
NARROWED_BY = ("tenant", "schedule", "task", "queue")
UNSET = "-"
"""What a form says of a rule that nobody had set when it was opened."""


class RuleForm(msgspec.Struct, forbid_unknown_fields=True):
    """What the form of a rule says; all of it is there whenever it is sent."""

    threshold: str = ""
    hold_for: str = ""
    clear_for: str = ""
    severity: str = ""
    is_on: str = "yes"
    channels: list[str] = []
    """None of them ticked: all are told."""
    reason: str | None = None
    seen: str = ""
    """Since when the rule was as the form showed it."""


class ResetForm(msgspec.Struct, forbid_unknown_fields=True):
    """What a form says that takes a rule back."""

    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """A rule, in words."""

    rule: AlertRule
    threshold: str
    about: str
    """Whom it is narrowed to; empty for all."""
    seen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesModel:
    """The page."""

    rows: tuple[RuleRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleModel:
    """One rule, to be changed."""

    row: RuleRow
    value: str
    """The threshold as one types it."""
    channels: tuple[str, ...]
    """Those there are, and those that the rule names."""
    severities: tuple[str, ...] = SEVERITIES


def show_rules(asked: Asked) -> Shown:
    """Show every rule; what is usual is said to be."""
    rows = tuple(rule_row(one) for one in asked.app.alerts.rules())
    return Shown(template="alert_rules.html", model=RulesModel(rows=rows), title="Rules of alerts")


def show_rule(asked: Asked) -> Shown:
    """Show one, to be changed."""
    rule = find_rule(asked)
    names = [one.name for one in asked.app.alerts.channels()]
    channels = tuple(dict.fromkeys([*names, *rule.channels]))
    model = RuleModel(row=rule_row(rule), value=f"{rule.threshold:.15g}", channels=channels)
    return Shown(template="alert_rule.html", model=model, title=f"Rule {rule.name}")


def set_rule(asked: Asked) -> Moved:
    """Set it, unless somebody else has set it since the form was opened."""
    form: RuleForm = asked.form
    before = find_rule(asked)
    if form.seen and form.seen != seen_of(before):
        who = f"was changed by {before.set_by}" if before.set_by else "was taken back"
        raise Outdated("alert rule", before.name, f"{who} meanwhile", "look at it again")
    terms: dict[str, Any] = {
        "threshold": form.threshold or None,
        "hold_for": form.hold_for or None,
        "clear_for": form.clear_for or None,
        "severity": form.severity or None,
        "is_on": form.is_on == "yes",
        "channels": form.channels,
    }
    rule = asked.app.alerts.set_rule(before.name, reason=form.reason, **terms)
    text = f"the rule {rule.name} holds from now on"
    return Moved(to=RULES, said=Said(text=text, undo=_undo(before, rule)))


def reset_rule(asked: Asked) -> Moved:
    """Take back a rule that was set: what is usual holds again."""
    form: ResetForm = asked.form
    before = find_rule(asked)
    if not asked.app.alerts.remove_rule(before.name, reason=form.reason):
        raise NotFound("alert rule", before.name, "nobody has set it: what is usual holds")
    return Moved(to=RULES, said=Said(text=f"the rule {before.name} is taken back"))


def find_rule(asked: Asked) -> AlertRule:
    """Return the rule of a path."""
    name = asked.path["rule"]
    found = next((one for one in asked.app.alerts.rules() if one.name == name), None)
    if found is None:
        raise NotFound("alert rule", name, "take one from the list of rules")
    return found


def rule_row(rule: AlertRule) -> RuleRow:
    """Say a rule in words."""
    narrowed = [
        f"{name} {value}" for name in NARROWED_BY if (value := getattr(rule, name)) is not None
    ]
    return RuleRow(
        rule=rule, threshold=threshold_text(rule), about=", ".join(narrowed), seen=seen_of(rule)
    )


def threshold_text(rule: AlertRule) -> str:
    """Say from which number on."""
    if rule.unit == "seconds":
        return span(timedelta(seconds=rule.threshold)) if rule.threshold else "at once"
    number = f"{rule.threshold:,.15g}"
    return f"{number} times" if rule.unit == "times" else number


def seen_of(rule: AlertRule) -> str:
    """Return since when a rule is as it is."""
    return UNSET if rule.set_at is None else rule.set_at.isoformat()


def _undo(before: AlertRule, after: AlertRule) -> Undo | None:
    """Return the order that sets a rule as it was, if it still is as it was made just now."""
    path = f"{RULES}/{quote(after.name, safe='')}"
    if before.is_default:
        return Undo(label="Undo", path=f"{path}/reset", fields={"reason": "undone"})
    if len(before.channels) > 1:
        return None  # an undo says each thing once
    fields = {
        "threshold": f"{before.threshold:.15g}",
        "hold_for": before.hold_for,
        "clear_for": before.clear_for,
        "severity": before.severity,
        "is_on": "yes" if before.is_on else "no",
        "reason": "undone",
        "seen": seen_of(after),
    }
    if before.channels:
        fields["channels"] = before.channels[0]
    return Undo(label="Undo", path=path, fields=fields)


PAGES = (
    Page(method="GET", path=RULES, name="alert_rules", scope="read", handler=show_rules),
    Page(
        method="GET", path=f"{RULES}/{{rule}}", name="alert_rule", scope="read", handler=show_rule
    ),
    Page(
        method="POST",
        path=f"{RULES}/{{rule}}",
        name="set_alert_rule",
        scope="admin",
        handler=set_rule,
        form=RuleForm,
    ),
    Page(
        method="POST",
        path=f"{RULES}/{{rule}}/reset",
        name="reset_alert_rule",
        scope="admin",
        handler=reset_rule,
        form=ResetForm,
    ),
)
