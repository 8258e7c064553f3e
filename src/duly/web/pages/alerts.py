"""Alerts, rules, silences."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from duly import NotFound, Outdated
from duly.api.views import AlertKind, Severity, runbook_of
from duly.web.formatting import span
from duly.web.rendering import command_text, of_tenant
from duly.web.requests import Flash, Page, PageRequest, Redirect, Rendered, Undo

if TYPE_CHECKING:
    from duly.api.views import Alert, AlertChannel, AlertRule, AlertSilence, ChannelTest


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
class RuleDifference:
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
    stale: tuple[RuleDifference, ...] = ()
    """What somebody else has changed since, beside what is wanted here."""


def show_rules(asked: PageRequest) -> Rendered:
    """Show every rule; what is usual is said to be."""
    rows = tuple(rule_row(one) for one in asked.app.alerts.rules())
    return Rendered(
        template="alert_rules.html", model=RulesModel(rows=rows), title="Rules of alerts"
    )


def show_rule(asked: PageRequest) -> Rendered:
    """Show one, to be changed."""
    rule = find_rule(asked)
    return _rule_page(asked, rule, rule_form(rule))


def set_rule(asked: PageRequest) -> Redirect | Rendered:
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
    return Redirect(to=RULES, said=Flash(text=text, undo=_undo(before, rule)))


def reset_rule(asked: PageRequest) -> Redirect:
    """Take back a rule that was set: what is usual holds again."""
    form: ResetForm = asked.form
    before = find_rule(asked)
    if not asked.app.alerts.remove_rule(before.name, reason=form.reason, version=form.version):
        raise NotFound("alert rule", before.name, "nobody has set it: what is usual holds")
    return Redirect(to=RULES, said=Flash(text=f"the rule {before.name} is taken back"))


def find_rule(asked: PageRequest) -> AlertRule:
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


def _rule_page(asked: PageRequest, rule: AlertRule, form: RuleForm, **more: Any) -> Rendered:  # noqa: ANN401 - further fields of the model
    names = [one.name for one in asked.app.alerts.channels()]
    channels = tuple(dict.fromkeys([*names, *rule.channels, *form.channels]))
    model = RuleModel(row=rule_row(rule), form=form, channels=channels, **more)
    status = 409 if model.is_stale else 200
    return Rendered(
        template="alert_rule.html", model=model, title=f"Rule {rule.name}", status=status
    )


def _stale(asked: PageRequest, form: RuleForm) -> Rendered:
    """Show what somebody else has changed beside what is wanted; whoever goes on has seen it."""
    rule = find_rule(asked)
    current = rule_form(rule)
    seen, theirs, mine = _read_seen(form.seen), _compared(current), _compared(form)
    found: list[RuleDifference] = []
    for name, label in COMPARED.items():
        before = seen.get(name, theirs[name])
        if theirs[name] != mine[name]:
            by = "they" if before == mine[name] else "you" if before == theirs[name] else "both"
            found.append(RuleDifference(label, before, theirs[name], mine[name], by))
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


RULE_PAGES = (
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


PAGE_SIZE = 50
STATES = ("open", "pending", "resolved", "all")
KINDS = tuple(str(one) for one in AlertKind)
DURATIONS = ("30m", "1h", "2h", "8h", "1d", "7d")
"""How long a silence is offered for; another one is said on the command line."""


class AlertsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which alerts are looked at."""

    state: str = "open"
    kind: str | None = None
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class AlertLink:
    """The page of the console that shows what an alert is about."""

    path: str
    query: dict[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsModel:
    """The page."""

    query: AlertsQuery
    rows: tuple[Alert, ...]
    next_cursor: str | None
    states: tuple[str, ...] = STATES
    kinds: tuple[str, ...] = KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class SilencesModel:
    """What nobody is told of."""

    rows: tuple[AlertSilence, ...]
    kinds: tuple[str, ...] = KINDS
    durations: tuple[str, ...] = DURATIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelsModel:
    """Where alerts go: by name and kind; what opens them stays where it is."""

    rows: tuple[AlertChannel, ...]
    tried: ChannelTest | None = None
    """How the try of one of them went, if that was just ordered."""


def show_alerts(asked: PageRequest) -> Rendered:
    """Show what is wrong, newest first."""
    query: AlertsQuery = asked.query
    found = asked.app.alerts.list(
        state=query.state, kind=query.kind, before=query.cursor, limit=PAGE_SIZE + 1
    )
    rows = tuple(found[:PAGE_SIZE])
    last = str(rows[-1].id) if len(found) > PAGE_SIZE else None
    model = AlertsModel(query=query, rows=rows, next_cursor=last)
    return Rendered(template="alerts.html", model=model, title="Alerts")


def show_silences(asked: PageRequest) -> Rendered:
    """Show what nobody is told of, and until when."""
    model = SilencesModel(rows=tuple(asked.app.alerts.silences()))
    return Rendered(template="alert_silences.html", model=model, title="Silences")


def show_channels(asked: PageRequest) -> Rendered:
    """Show where alerts go."""
    return channels_page(asked)


def channels_page(asked: PageRequest, tried: ChannelTest | None = None) -> Rendered:
    """Return the page of channels, with how a try of one went."""
    model = ChannelsModel(rows=tuple(asked.app.alerts.channels()), tried=tried)
    return Rendered(template="alert_channels.html", model=model, title="Channels of alerts")


def subject_place(alert: Alert) -> AlertLink | None:
    """Return where the console shows what an alert is about; None where it does not."""
    sort, _, name = alert.subject.partition(" ")
    query: dict[str, str | None] = {"tenant": alert.tenant}
    match sort:
        case "run":
            return AlertLink(f"/runs/{name}", query)
        case "schedule":
            return AlertLink("/schedules", {**query, "search": name})
        case "task":
            return AlertLink("/runs", {**query, "task": name})
        case "queue":
            return AlertLink("/runs", {"queue": name, "state": "queued"})
        case "dispatcher" | "destination":
            return AlertLink("/fleet", {})
        case _:
            return None


PAGES = (
    Page(
        method="GET",
        path="/alerts",
        name="alerts",
        scope="read",
        handler=show_alerts,
        query=AlertsQuery,
    ),
    Page(
        method="GET",
        path="/alerts/silences",
        name="alert_silences",
        scope="read",
        handler=show_silences,
    ),
    Page(
        method="GET",
        path="/alerts/channels",
        name="alert_channels",
        scope="read",
        handler=show_channels,
    ),
)


COMMAND = "duly "


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertModel:
    """The page."""

    alert: Alert
    place: AlertLink | None
    """What it is about, where the console shows that."""
    commands: tuple[str, ...]
    """What the remedy says to type."""
    advice: tuple[str, ...]
    """What it says besides."""
    command: str
    runbook: str
    """From the root of the repository: the pages are no part of what is installed."""
    durations: tuple[str, ...] = DURATIONS

    @property
    def has_failed(self) -> bool:
        """Whether somebody could not be told."""
        return any(one.state == "given-up" for one in self.alert.deliveries)


def show_alert(asked: PageRequest) -> Rendered:
    """Show one."""
    alert = asked.app.alerts.get(asked.path["alert"])
    parts = remedy_parts(alert.remedy)
    model = AlertModel(
        alert=alert,
        place=subject_place(alert),
        commands=tuple(of_tenant(alert.tenant, one) for one in parts if one.startswith(COMMAND)),
        advice=tuple(one for one in parts if not one.startswith(COMMAND)),
        command=command_text(alert.tenant, "alert", "show", str(alert.id)),
        runbook=runbook_of(alert.kind),
    )
    return Rendered(template="alert.html", model=model, title=f"{alert.kind}: {alert.subject}")


def remedy_parts(remedy: str) -> list[str]:
    """Take a remedy apart at its semicolons; one within quotes belongs to somebody's name."""
    parts, quote = [""], ""
    for letter in remedy:
        if letter == ";" and not quote:
            parts.append("")
            continue
        parts[-1] += letter
        if letter == quote:
            quote = ""
        elif letter in "'\"" and not quote and parts[-1].lstrip().startswith(COMMAND):
            quote = letter  # elsewhere it is an apostrophe
    return [one.strip() for one in parts if one.strip()]


ALERT_PAGES = (
    Page(method="GET", path="/alerts/{alert}", name="alert", scope="read", handler=show_alert),
)


SILENCES, CHANNELS = "/alerts/silences", "/alerts/channels"


class ReasonForm(msgspec.Struct, forbid_unknown_fields=True):
    """Why something is done."""

    reason: str = ""


class SilenceForm(msgspec.Struct, forbid_unknown_fields=True):
    """For how long nobody is told, and why."""

    duration: str = ""
    reason: str = ""


class NewSilenceForm(msgspec.Struct, forbid_unknown_fields=True):
    """Which alerts a new silence covers, for how long, and why."""

    duration: str = ""
    reason: str = ""
    kind: list[str] = []
    """None of them: all."""
    subject: str | None = None


class EmptyForm(msgspec.Struct, forbid_unknown_fields=True):
    """A form with a button, and no more."""


def acknowledge(asked: PageRequest) -> Redirect:
    """Take note of an alert, so that others know."""
    form: ReasonForm = asked.form
    alert = asked.app.alerts.acknowledge(asked.path["alert"], reason=form.reason)
    by = "you" if alert.acknowledged_by == asked.visitor.name else alert.acknowledged_by
    text = f"{alert.kind} of {alert.subject} is acknowledged by {by}"
    return Redirect(to=f"/alerts/{alert.id}", said=Flash(text=text))


def silence_alert(asked: PageRequest) -> Redirect:
    """Tell nobody of such an alert: of its kind, about its subject, in its tenant."""
    form: SilenceForm = asked.form
    alert = asked.app.alerts.get(asked.path["alert"])
    made = asked.app.alerts.silence(
        reason=form.reason,
        duration=form.duration,
        kind=alert.kind,
        subject=alert.subject,
        tenant=alert.tenant,
    )
    return _silenced(made, f"/alerts/{alert.id}")


def silence(asked: PageRequest) -> Redirect:
    """Tell nobody of some alerts."""
    form: NewSilenceForm = asked.form
    made = asked.app.alerts.silence(
        reason=form.reason,
        duration=form.duration,
        kind=form.kind or None,
        subject=form.subject or None,
    )
    return _silenced(made, SILENCES)


def unsilence(asked: PageRequest) -> Redirect:
    """End a silence before its time: what is open is told."""
    form: ReasonForm = asked.form
    name = asked.path["silence"]
    if not asked.app.alerts.unsilence(name, reason=form.reason or None):
        raise NotFound("silence", name, "it is over, or never was: look at the list")
    text = "the silence is over; what is open is told by the next look"
    return Redirect(to=SILENCES, said=Flash(text=text))


def try_channel(asked: PageRequest) -> Rendered:
    """Send a notice that is marked as a test, and show how it went beside its channel."""
    tried = asked.app.alerts.test_channel(asked.path["channel"])
    return channels_page(asked, tried)


def _silenced(made: AlertSilence, to: str) -> Redirect:
    what = f"{', '.join(made.kinds) or 'alerts'} of {made.subject or 'everything'}"
    path = f"{SILENCES}/{made.id}/end"
    undo = Undo(label="Unsilence", path=path, fields={"reason": "undone"})
    return Redirect(to=to, said=Flash(text=f"nobody is told of {what} for now", undo=undo))


ORDER_PAGES = (
    Page(
        method="POST",
        path="/alerts/{alert}/acknowledge",
        name="acknowledge_alert",
        scope="edit",
        handler=acknowledge,
        form=ReasonForm,
    ),
    Page(
        method="POST",
        path="/alerts/{alert}/silence",
        name="silence_alert",
        scope="edit",
        handler=silence_alert,
        form=SilenceForm,
    ),
    Page(
        method="POST",
        path=SILENCES,
        name="silence_alerts",
        scope="edit",
        handler=silence,
        form=NewSilenceForm,
    ),
    Page(
        method="POST",
        path=f"{SILENCES}/{{silence}}/end",
        name="unsilence_alerts",
        scope="edit",
        handler=unsilence,
        form=ReasonForm,
    ),
    Page(
        method="POST",
        path=f"{CHANNELS}/{{channel}}/test",
        name="try_alert_channel",
        scope="admin",
        handler=try_channel,
        form=EmptyForm,
    ),
)
