"""`duly alert`: what is wrong, who was told of it, and what people say about that (V3)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import App, Parameter

from duly.cli.alert_texts import (
    RULE_HEADINGS,
    alert_state,
    print_removed,
    rule_row,
    silenced_what,
    threshold_text,
)
from duly.cli.output import print_facts, print_json, print_line, print_table
from duly.cli.target import Target, opened
from duly.cli.undoing import print_undo, undo_text
from duly.client.arguments import read_json_text
from duly.domain.time_texts import distance_text, utc_text
from duly.errors import UsageError

TARGET = Target()
FAILED = 1
_Several = Annotated[tuple[str, ...], Parameter(show_default=False)]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOptions:
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
    channel: _Several = ()
    """Who is told; may be given several times."""
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
        said: dict[str, Any] = {
            "kind": self.kind,
            "threshold": self.threshold,
            "hold_for": self.hold_for,
            "clear_for": self.clear_for,
            "severity": self.severity,
            "channels": list(self.channel) or None,
            "is_on": True if self.on else False if self.off else None,
            "schedule": self.schedule,
            "task": self.task,
            "queue": self.queue,
            "tenant": self.tenant,
        }
        return {key: value for key, value in said.items() if value is not None}


RULE = RuleOptions()
app = App(name="alert", help="See what is wrong; silence alerts, and say who is told of them.")
rule = App(name="rule", help="Set a rule of alerts, or take it back.")
channel = App(name="channel", help="Say where alerts go, and try it.")
app.command(rule)
app.command(channel)


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
    with opened(target, makes_store=False) as application:
        found = application.alerts.list(state=state, kind=kind, limit=limit)
        if target.json:
            print_json([one.to_json() for one in found])
            return
        if not found:
            print_line("Nothing is wrong." if state == "open" else "There are no such alerts.")
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
    with opened(target, makes_store=False) as application:
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
    with opened(target, makes_store=False) as application:
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
    until: str | None = None,
    kind: _Several = (),
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
        Or until an instant: 2026-04-03T02:00+02:00.
    kind
        Only of a kind; may be given several times.
    subject
        Only about this, as duly alert list shows it: "queue mail", or "schedule nightly-*".
    tenant
        Only of a tenant.
    """
    with opened(target, makes_store=False) as application:
        made = application.alerts.silence(
            reason=reason,
            duration=duration,
            until=until,
            kind=kind or None,
            subject=subject,
            tenant=tenant,
        )
    taking_back = undo_text("alert", "unsilence", str(made.id))
    if target.json:
        print_json({**made.to_json(), "undo": taking_back})
        return
    print_line(f"Silenced {silenced_what(made)} until {utc_text(made.until)}.")
    print_undo(taking_back)


@app.command
def silences(*, target: Target = TARGET) -> None:
    """List silences that are not over."""
    with opened(target, makes_store=False) as application:
        found = application.alerts.silences()
    if target.json:
        print_json([one.to_json() for one in found])
        return
    if not found:
        print_line("Nothing is silenced.")
        return
    rows = [
        (str(one.id), silenced_what(one), utc_text(one.until), one.set_by, one.reason or "-")
        for one in found
    ]
    print_table(("silence", "of", "until", "by", "because"), rows)


@app.command
def unsilence(
    silence: str,
    /,
    *,
    reason: str | None = None,
    version: int | None = None,
    target: Target = TARGET,
) -> None:
    """End a silence before its time.

    Parameters
    ----------
    silence
        Its id: duly alert silences.
    reason
        Why.
    version
        Only if it is still at this version, as duly alert silences --json has it.
    """
    with opened(target, makes_store=False) as application:
        is_done = application.alerts.unsilence(silence, reason=reason, version=version)
    print_removed(target, is_done=is_done, what="silence", name=silence)


@app.command
def rules(*, target: Target = TARGET) -> None:
    """List the rules: from when on what is an alert, how urgent, and who is told."""
    with opened(target, makes_store=False) as application:
        found = application.alerts.rules()
    if target.json:
        print_json([one.to_json() for one in found])
        return
    print_table(RULE_HEADINGS, [rule_row(one) for one in found])


@rule.command(name="set")
def set_rule(  # noqa: PLR0913 - options of a command
    name: str,
    /,
    *,
    options: RuleOptions = RULE,
    reason: str | None = None,
    version: int | None = None,
    target: Target = TARGET,
) -> None:
    """Set a rule; what is not given stays as it is.

    Parameters
    ----------
    name
        A kind, such as queue-age, for the rule of that kind; any other name for one more, which
        needs --kind and holds for some subjects.
    reason
        Why.
    version
        Only if the rule is still at this version, as duly alert rules has it; 0 if nobody has set
        it.
    """
    with opened(target) as application:
        made = application.alerts.set_rule(name, reason=reason, version=version, **options.terms())
    taking_back = undo_text("alert", "rule", "remove", name)
    if target.json:
        print_json({**made.to_json(), "undo": taking_back})
        return
    words = "is off" if not made.is_on else f"raises from {threshold_text(made)} on: {made.meaning}"
    print_line(f"Rule {made.name} {words}.")
    print_undo(taking_back)


@rule.command(name="remove")
def remove_rule(
    name: str,
    /,
    *,
    reason: str | None = None,
    version: int | None = None,
    target: Target = TARGET,
) -> None:
    """Take back a rule that was set: what is usual holds again.

    Parameters
    ----------
    name
        Its name: duly alert rules.
    reason
        Why.
    version
        Only if the rule is still at this version, as duly alert rules has it.
    """
    with opened(target, makes_store=False) as application:
        is_done = application.alerts.remove_rule(name, reason=reason, version=version)
    print_removed(target, is_done=is_done, what="rule", name=name)


@app.command
def channels(*, target: Target = TARGET) -> None:
    """List where alerts go."""
    with opened(target, makes_store=False) as application:
        found = application.alerts.channels()
    if target.json:
        print_json([one.to_json() for one in found])
        return
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
    print_table(("channel", "kind", "options", "set by", "version"), rows)


@channel.command
def add(  # noqa: PLR0913 - options of a command
    name: str,
    kind: str,
    /,
    *,
    options: str | None = None,
    reason: str | None = None,
    version: int | None = None,
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
    reason
        Why.
    version
        Only if what is said under that name is still at this version, as duly alert channels has
        it; 0 if nothing is.
    """
    told = None if options is None else read_json_text("options", options)
    with opened(target) as application:
        made = application.alerts.add_channel(name, kind, told, reason=reason, version=version)
    taking_back = undo_text("alert", "channel", "remove", name)
    if target.json:
        print_json({**made.to_json(), "undo": taking_back})
        return
    print_line(f"Alerts go to {made.name} ({made.kind}) as well; try it: ", _trying(made.name))
    print_undo(taking_back)


@channel.command(name="remove")
def remove_channel(
    name: str,
    /,
    *,
    reason: str | None = None,
    version: int | None = None,
    target: Target = TARGET,
) -> None:
    """Have alerts go there no more.

    Parameters
    ----------
    name
        Its name: duly alert channels.
    reason
        Why.
    version
        Only if the channel is still at this version, as duly alert channels has it.
    """
    with opened(target, makes_store=False) as application:
        is_done = application.alerts.remove_channel(name, reason=reason, version=version)
    print_removed(target, is_done=is_done, what="channel", name=name)


@channel.command(name="test")
def try_channel(name: str, /, *, target: Target = TARGET) -> None:
    """Send a notice that is marked as a test, at once; the exit code is 1 if it was not taken.

    Parameters
    ----------
    name
        Its name: duly alert channels.
    """
    with opened(target, makes_store=False) as application:
        tried = application.alerts.test_channel(name)
    if target.json:
        print_json(tried.to_json())
    elif tried.is_done:
        print_line(f"{name} has taken it.")
    else:
        print_line(f"{name} has not taken it: {tried.detail}")
    if not tried.is_done:
        raise SystemExit(FAILED)


def _trying(name: str) -> str:
    return undo_text("alert", "channel", "test", name)
