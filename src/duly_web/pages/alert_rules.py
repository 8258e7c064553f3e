"""Rules of alerts: from which number on, for how long, how urgent, and who is told (V3)."""

from __future__ import annotations

import json
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
COMPARED = {
    "threshold": "From this number on",
    "hold_for": "Raised when it has held for",
    "clear_for": "Resolved when it is gone for",
    "severity": "Severity",
    "channels": "Who is told",
    "is_on": "The rule is on",
}
"""What a form says of a rule, field by field."""
EVERYBODY = "all"


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
    version: int | None = None
    """Of the rule that the form showed."""
    seen: str = "{}"
    """What that one said, field by field, for who finds that somebody was faster."""


class ResetForm(msgspec.Struct, forbid_unknown_fields=True):
    """What a form says that takes a rule back."""

    reason: str | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """A field that is not the same for two who change a rule at once."""

    label: str
    before: str
    theirs: str
    mine: str
    by: str
    """Who changed it: they, you, or both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """A rule, in words."""

    rule: AlertRule
    threshold: str
    about: str
    """Whom it is narrowed to; empty for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesModel:
    """The page."""

    rows: tuple[RuleRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleModel:
    """One rule, to be changed."""

    row: RuleRow
    form: RuleForm
    """What is in the fields: the rule, or what was typed where somebody was faster."""
    channels: tuple[str, ...]
    """Those there are, and those that the rule names."""
    severities: tuple[str, ...] = SEVERITIES
    is_stale: bool = False
    stale: tuple[Difference, ...] = ()
    """What somebody else has changed since, beside what is wanted here (UX 41)."""


def show_rules(asked: Asked) -> Shown:
    """Show every rule; what is usual is said to be."""
    rows = tuple(rule_row(one) for one in asked.app.alerts.rules())
    return Shown(template="alert_rules.html", model=RulesModel(rows=rows), title="Rules of alerts")


def show_rule(asked: Asked) -> Shown:
    """Show one, to be changed."""
    rule = find_rule(asked)
    return _rule_page(asked, rule, rule_form(rule))


def set_rule(asked: Asked) -> Moved | Shown:
    """Set it; who finds that somebody was faster is shown what differs, and nothing is written."""
    form: RuleForm = asked.form
    before = find_rule(asked)
    terms: dict[str, Any] = {
        "threshold": form.threshold or None,
        "hold_for": form.hold_for or None,
        "clear_for": form.clear_for or None,
        "severity": form.severity or None,
        "is_on": form.is_on == "yes",
        "channels": form.channels,
    }
    try:
        rule = asked.app.alerts.set_rule(
            before.name, reason=form.reason, version=form.version, **terms
        )
    except Outdated:
        return _stale(asked, form)
    text = f"the rule {rule.name} holds from now on"
    return Moved(to=RULES, said=Said(text=text, undo=_undo(before, rule)))


def reset_rule(asked: Asked) -> Moved:
    """Take back a rule that was set: what is usual holds again."""
    form: ResetForm = asked.form
    before = find_rule(asked)
    if not asked.app.alerts.remove_rule(before.name, reason=form.reason, version=form.version):
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
    return RuleRow(rule=rule, threshold=threshold_text(rule), about=", ".join(narrowed))


def rule_form(rule: AlertRule) -> RuleForm:
    """Return the form that says what a rule says."""
    made = RuleForm(
        threshold=f"{rule.threshold:.15g}",
        hold_for=rule.hold_for,
        clear_for=rule.clear_for,
        severity=rule.severity,
        is_on="yes" if rule.is_on else "no",
        channels=list(rule.channels),
        version=rule.version,
    )
    made.seen = json.dumps(_compared(made))
    return made


def threshold_text(rule: AlertRule) -> str:
    """Say from which number on."""
    if rule.unit == "seconds":
        return span(timedelta(seconds=rule.threshold)) if rule.threshold else "at once"
    number = f"{rule.threshold:,.15g}"
    return f"{number} times" if rule.unit == "times" else number


def _rule_page(asked: Asked, rule: AlertRule, form: RuleForm, **more: Any) -> Shown:  # noqa: ANN401 - further fields of the model
    names = [one.name for one in asked.app.alerts.channels()]
    channels = tuple(dict.fromkeys([*names, *rule.channels, *form.channels]))
    model = RuleModel(row=rule_row(rule), form=form, channels=channels, **more)
    status = 409 if model.is_stale else 200
    return Shown(template="alert_rule.html", model=model, title=f"Rule {rule.name}", status=status)


def _stale(asked: Asked, form: RuleForm) -> Shown:
    """Show what somebody else has changed beside what is wanted; whoever goes on has seen it."""
    rule = find_rule(asked)
    current = rule_form(rule)
    seen, theirs, mine = _read_seen(form.seen), _compared(current), _compared(form)
    found: list[Difference] = []
    for name, label in COMPARED.items():
        before = seen.get(name, theirs[name])
        if theirs[name] != mine[name]:
            by = "they" if before == mine[name] else "you" if before == theirs[name] else "both"
            found.append(Difference(label, before, theirs[name], mine[name], by))
        if before == mine[name]:
            # What they changed and I did not is theirs; what both did is mine, and shown.
            setattr(form, name, getattr(current, name))
    form.version, form.seen = current.version, current.seen
    return _rule_page(asked, rule, form, is_stale=True, stale=tuple(found))


def _compared(form: RuleForm) -> dict[str, str]:
    """Return what a form says, as texts."""
    said = {name: getattr(form, name) for name in COMPARED}
    return {**said, "channels": ", ".join(sorted(form.channels)) or EVERYBODY}


def _read_seen(text: str) -> dict[str, str]:
    """Return what a form was made from; what can't be read was nothing."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, str)}


def _undo(before: AlertRule, after: AlertRule) -> Undo | None:
    """Return the order that sets a rule as it was, if it still is as it was made just now."""
    path = f"{RULES}/{quote(after.name, safe='')}"
    version = str(after.version)
    if before.is_default:
        fields = {"reason": "undone", "version": version}
        return Undo(label="Undo", path=f"{path}/reset", fields=fields)
    if len(before.channels) > 1:
        return None  # an undo says each thing once
    fields = {
        "threshold": f"{before.threshold:.15g}",
        "hold_for": before.hold_for,
        "clear_for": before.clear_for,
        "severity": before.severity,
        "is_on": "yes" if before.is_on else "no",
        "reason": "undone",
        "version": version,
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
