"""Commands about alerts: alert, alert rule, alert channel."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from cyclopts import App, Parameter

from duly.app import App as Application
from duly.cli.confirm import UNSAID, print_undo, undo_command
from duly.cli.context import Target, open_app
from duly.cli.output import print_empty_or_json, print_facts, print_json, print_line, print_table
from duly.cli.times import read_local_moment
from duly.client.alert_view import AlertChannel, AlertRule
from duly.client.arguments import read_json_map
from duly.errors import UsageError
from duly.timetable.instants import distance_text, utc_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.client.alert_view import Alert, AlertSilence
    from duly.client.status import Status


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


TARGET = Target()

app = App(name="alert", help="See what is wrong; silence alerts, and say who is told of them.")
rule = App(name="rule", help="Set a rule of alerts, or take it back.")
channel = App(name="channel", help="Say where alerts go, and try it.")
app.command(rule)
app.command(channel)
# Named by text, as in main: their files are loaded when they are asked for.
for under, name, place, purpose in (
    (
        app,
        "rules",
        "duly.cli.alerts:rules",
        "List the rules: from when on what is an alert, how urgent.",
    ),
    (rule, "set", "duly.cli.alerts:set_rule", "Set a rule; what is not given stays as it is."),
    (rule, "remove", "duly.cli.alerts:remove_rule", "Take back a rule: what is usual holds again."),
    (app, "channels", "duly.cli.alerts:channels", "List where alerts go."),
    (channel, "add", "duly.cli.alerts:add_channel", "Have alerts go somewhere."),
    (channel, "remove", "duly.cli.alerts:remove_channel", "Have alerts go there no more."),
    (
        channel,
        "test",
        "duly.cli.alerts:try_channel",
        "Send a notice that is marked as a test, at once.",
    ),
):
    under.command(place, name=name, help=purpose)


@app.command(name="list")
def list_alerts(
    *,
    state: str = "open",
    kind: str | None = None,
    limit: int = 100,
    target: Target = TARGET,
) -> None:
    """List alerts, newest first.

    Parameters
    ----------
    state
        open, pending (not for long enough yet), resolved, or all.
    kind
        Only of a kind, such as queue-age.
    limit
        At most so many.
    """
    with open_app(target, makes_store=False) as application:
        found = application.alerts.list(state=state, kind=kind, limit=limit)
        nothing = "Nothing is wrong." if state == "open" else "There are no such alerts."
        if print_empty_or_json(found, nothing, as_json=target.json):
            return
        now = application.status().now
    headings = ("alert", "kind", "about", "tenant", "state", "since", "what")
    rows = [
        (
            str(one.id),
            one.kind,
            one.subject,
            one.tenant or "-",
            alert_state(one),
            f"{distance_text(one.since, now)} ago",
            one.summary,
        )
        for one in found
    ]
    print_table(headings, rows)


@app.command
def show(alert: str, /, *, target: Target = TARGET) -> None:
    """Show an alert: what is so, what to do, who was told.

    Parameters
    ----------
    alert
        Its id: duly alert list.
    """
    with open_app(target, makes_store=False) as application:
        found = application.alerts.get(alert)
    if target.json:
        print_json(found.to_json())
        return
    print_line((found.summary, "bold"))
    facts = [
        ("alert", str(found.id)),
        ("kind", f"{found.kind} ({found.severity}), by rule {found.rule}"),
        ("about", found.subject),
        ("tenant", found.tenant or "all"),
        ("state", alert_state(found)),
        ("since", utc_text(found.since)),
        ("raised", utc_text(found.raised_at)),
        ("resolved", utc_text(found.resolved_at)),
    ]
    if found.acknowledged_at is not None:
        by = f"by {found.acknowledged_by} at {utc_text(found.acknowledged_at)}"
        facts.append(("acknowledged", f"{by}: {found.acknowledged_reason or '-'}"))
    facts += [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in found.evidence.items()
    ]
    print_facts(facts)
    if found.deliveries:
        rows = [
            (one.change, one.channel, one.state, str(one.tries), one.error or "-")
            for one in found.deliveries
        ]
        print_table(("told", "channel", "delivery", "tries", "last error"), rows)
    print_line(("remedy: ", "dim"), found.remedy)


@app.command
def acknowledge(alert: str, /, *, reason: str, target: Target = TARGET) -> None:
    """Take note of an alert, so that others know that somebody looks after it.

    Parameters
    ----------
    alert
        Its id: duly alert list.
    reason
        What you are doing about it; it is recorded.
    """
    with open_app(target, makes_store=False) as application:
        found = application.alerts.acknowledge(alert, reason=reason)
    if target.json:
        print_json(found.to_json())
        return
    print_line(f"Acknowledged by {found.acknowledged_by}: {found.subject}, {found.kind}.")


@app.command
def silence(  # noqa: PLR0913 - options of a command
    *,
    reason: str,
    duration: str | None = None,
    until: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    kind: Several = (),
    subject: str | None = None,
    tenant: str | None = None,
    target: Target = TARGET,
) -> None:
    """Tell nobody of such alerts for a while; they are on record all the same.

    What is still open when it is over is told then.

    Parameters
    ----------
    reason
        Why; it is recorded.
    duration
        For how long: 30m, 2h.
    until
        Or until this moment: an ISO time, tomorrow 9am.
    kind
        Only of a kind; may be given several times.
    subject
        Only about this, as duly alert list shows it: "queue mail", or "schedule nightly-*".
    tenant
        Only of a tenant.
    """
    end = None
    if until is not None:
        end = read_local_moment(until, "until", as_json=target.json)
    with open_app(target, makes_store=False) as application:
        made = application.alerts.silence(
            reason=reason,
            duration=duration,
            until=end,
            kind=kind or None,
            subject=subject,
            tenant=tenant,
        )
    taking_back = undo_command("alert", "unsilence", str(made.id))
    if target.json:
        print_json({**made.to_json(), "undo": taking_back})
        return
    print_line(f"Silenced {silenced_what(made)} until {utc_text(made.until)}.")
    print_undo(taking_back)


@app.command
def silences(*, target: Target = TARGET) -> None:
    """List silences that are not over."""
    with open_app(target, makes_store=False) as application:
        found = application.alerts.silences()
    if not found and not target.json:
        print_line("Nothing is silenced.")
        return
    rows = [
        (str(one.id), silenced_what(one), utc_text(one.until), one.set_by, one.reason or "-")
        for one in found
    ]
    print_terms(target, found, (("silence", "of", "until", "by", "because"), *rows))


@app.command
def unsilence(
    silence: str,
    /,
    *,
    said: TermOptions = SAID,
    target: Target = TARGET,
) -> None:
    """End a silence before its time.

    Parameters
    ----------
    silence
        Its id: duly alert silences.
    """
    with open_app(target, makes_store=False) as application:
        known = {str(one.id): one for one in application.alerts.silences()}
        is_done = application.alerts.unsilence(silence, **said.terms())
    before = known.get(silence.lower())
    again = undo_command(*silence_words(before)) if is_done and before is not None else None
    print_removed(target, f"silence {silence}", is_done=is_done, again=again)


FAILED = 1


def channels(*, target: Target = TARGET) -> None:
    """List where alerts go."""
    with open_app(target, makes_store=False) as application:
        found = application.alerts.channels()
    rows = [
        (
            one.name,
            one.kind,
            json.dumps(one.options, ensure_ascii=False) if one.options else "-",
            one.set_by or "-",
            str(one.version),
        )
        for one in found
    ]
    headings = ("channel", "kind", "options", "set by", "version")
    print_terms(target, found, (headings, *rows))


def add_channel(  # noqa: PLR0913 - options of a command
    name: str,
    kind: str,
    /,
    *,
    options: str | None = None,
    said: TermOptions = SAID,
    target: Target = TARGET,
) -> None:
    """Have alerts go somewhere, in place of what was said under that name before.

    Parameters
    ----------
    name
        What to call it, such as ops-mail.
    kind
        log, webhook, smtp, slack or mattermost.
    options
        What the kind needs, as a JSON map; a secret by reference:
        '{"url": {"secret": "env:DULY_SECRET_HOOK"}}'.
    """
    told = None if options is None else read_json_map("options", options)
    with open_app(target) as application:
        before = _find_channel(application, name)
        made = application.alerts.add_channel(name, kind, told, **said.terms())
    taking_back = (
        undo_command("alert", "channel", "remove", name) if before is None else _again(before)
    )
    if target.json:
        print_json({**made.to_json(), "undo": taking_back})
        return
    trying = undo_command("alert", "channel", "test", made.name)
    print_line(f"Alerts go to {made.name} ({made.kind}) as well; try it: ", trying)
    print_undo(taking_back)


def remove_channel(
    name: str,
    /,
    *,
    said: TermOptions = SAID,
    target: Target = TARGET,
) -> None:
    """Have alerts go there no more.

    Parameters
    ----------
    name
        Its name: duly alert channels.
    """
    with open_app(target, makes_store=False) as application:
        before = _find_channel(application, name)
        is_done = application.alerts.remove_channel(name, **said.terms())
    again = _again(before) if is_done and before is not None else None
    print_removed(target, f"channel {name}", is_done=is_done, again=again)


def try_channel(name: str, /, *, target: Target = TARGET) -> None:
    """Send a notice that is marked as a test, at once; the exit code is 1 if it was not taken.

    Parameters
    ----------
    name
        Its name: duly alert channels.
    """
    with open_app(target, makes_store=False) as application:
        tried = application.alerts.test_channel(name)
    if target.json:
        print_json(tried.to_json())
    elif tried.is_done:
        print_line(f"{name} has taken it.")
    else:
        print_line(f"{name} has not taken it: {tried.detail}")
    if not tried.is_done:
        raise SystemExit(FAILED)


def _find_channel(application: Application, name: str) -> AlertChannel | None:
    """Return what somebody has said under that name."""
    found = (one for one in application.alerts.channels() if one.name == name)
    return next((one for one in found if not one.is_default), None)


def _again(channel: AlertChannel) -> str:
    options = json.dumps(channel.options, ensure_ascii=False)
    words = ("--options", options) if channel.options else ()
    return undo_command("alert", "channel", "add", channel.name, channel.kind, *words)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRuleOptions:
    """What a rule says."""

    kind: str | None = None
    """Of which kind it is."""
    threshold: str | None = None
    """From which number on: 100, or 5m of seconds. duly alert rules says what is counted."""
    hold_for: Annotated[str | None, Parameter(name=["--for", "--hold-for"])] = None
    """How long it must hold before it is raised."""
    clear_for: str | None = None
    """How long it must be gone before it is resolved."""
    severity: str | None = None
    """page or warn."""
    channel: Several = ()
    """Who is told; may be given several times."""
    all_channels: bool = False
    """Tell all channels, whichever there are."""
    on: bool = False
    """Raise such alerts again."""
    off: bool = False
    """Raise no such alerts."""
    schedule: str | None = None
    """Only about a schedule, by its name."""
    task: str | None = None
    """Only about a task."""
    queue: str | None = None
    """Only about a queue."""
    tenant: str | None = None
    """Only of a tenant."""

    def terms(self) -> dict[str, Any]:
        """Return what was said of it."""
        if self.on and self.off:
            raise UsageError("off", self.off, "contradicts --on", "give one of them")
        if self.channel and self.all_channels:
            problem = "contradicts --all-channels"
            raise UsageError("channel", self.channel[0], problem, "give one of the two")
        said: dict[str, Any] = {
            "kind": self.kind,
            "threshold": self.threshold,
            "hold_for": self.hold_for,
            "clear_for": self.clear_for,
            "severity": self.severity,
            "channels": [] if self.all_channels else list(self.channel) or None,
            "is_on": True if self.on else False if self.off else None,
            "schedule": self.schedule,
            "task": self.task,
            "queue": self.queue,
            "tenant": self.tenant,
        }
        return {key: value for key, value in said.items() if value is not None}


RULE = AlertRuleOptions()


def rules(*, target: Target = TARGET) -> None:
    """List the rules: from when on what is an alert, how urgent, and who is told."""
    with open_app(target, makes_store=False) as application:
        found = application.alerts.rules()
    print_terms(target, found, (RULE_HEADINGS, *(rule_row(one) for one in found)))


def set_rule(
    name: str,
    /,
    *,
    options: AlertRuleOptions = RULE,
    said: TermOptions = SAID,
    target: Target = TARGET,
) -> None:
    """Set a rule; what is not given stays as it is.

    Parameters
    ----------
    name
        A kind, such as queue-age, for the rule of that kind; any other name for one more, which
        needs --kind and holds for some subjects.
    """
    with open_app(target) as application:
        before = _find_rule(application, name)
        made = application.alerts.set_rule(name, **said.terms(), **options.terms())
    taking_back = _undo(before, made)
    if target.json:
        print_json({**made.to_json(), "undo": taking_back})
        return
    words = "is off" if not made.is_on else f"raises from {threshold_text(made)} on: {made.meaning}"
    print_line(f"Rule {made.name} {words}.")
    print_undo(taking_back)


def remove_rule(
    name: str,
    /,
    *,
    said: TermOptions = SAID,
    target: Target = TARGET,
) -> None:
    """Take back a rule that was set: what is usual holds again.

    Parameters
    ----------
    name
        Its name: duly alert rules.
    """
    with open_app(target, makes_store=False) as application:
        before = _find_rule(application, name)
        is_done = application.alerts.remove_rule(name, **said.terms())
    again = undo_command(*rule_words(before)) if is_done and before is not None else None
    print_removed(target, f"rule {name}", is_done=is_done, again=again)


def _find_rule(application: Application, name: str) -> AlertRule | None:
    """Return a rule that somebody has set."""
    found = (one for one in application.alerts.rules() if one.name == name and not one.is_default)
    return next(found, None)


def _undo(before: AlertRule | None, made: AlertRule) -> str:
    """Return how to have it as it was before; about whom it was can only be said anew."""
    removing = undo_command("alert", "rule", "remove", made.name)
    if before is None:
        return removing
    again = undo_command(*rule_words(before))
    if all(getattr(before, one) == getattr(made, one) for one in ("kind", *NARROWING)):
        return again
    return f"{removing} && {again}"
