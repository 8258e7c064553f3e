"""`duly alert`: what is wrong, who was told of it, and of what nobody is told for a while (V3)."""

from __future__ import annotations

import json

from cyclopts import App

from duly.cli.alert_texts import (
    SAID,
    Several,
    TermOptions,
    alert_state,
    print_removed,
    print_terms,
    silence_words,
    silenced_what,
)
from duly.cli.output import is_all_told, print_facts, print_json, print_line, print_table
from duly.cli.target import Target, opened
from duly.cli.undoing import print_undo, undo_text
from duly.domain.time_texts import distance_text, utc_text

TARGET = Target()

app = App(name="alert", help="See what is wrong; silence alerts, and say who is told of them.")
rule = App(name="rule", help="Set a rule of alerts, or take it back.")
channel = App(name="channel", help="Say where alerts go, and try it.")
app.command(rule)
app.command(channel)
# Named by text, as in main: their files are loaded when they are asked for.
for under, name, place, purpose in (
    (app, "rules", "rules:rules", "List the rules: from when on what is an alert, how urgent."),
    (rule, "set", "rules:set_rule", "Set a rule; what is not given stays as it is."),
    (rule, "remove", "rules:remove_rule", "Take back a rule: what is usual holds again."),
    (app, "channels", "channels:channels", "List where alerts go."),
    (channel, "add", "channels:add_channel", "Have alerts go somewhere."),
    (channel, "remove", "channels:remove_channel", "Have alerts go there no more."),
    (channel, "test", "channels:try_channel", "Send a notice that is marked as a test, at once."),
):
    under.command(f"duly.cli.alert_{place}", name=name, help=purpose)


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
        nothing = "Nothing is wrong." if state == "open" else "There are no such alerts."
        if is_all_told(found, nothing, as_json=target.json):
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
    with opened(target, makes_store=False) as application:
        known = {str(one.id): one for one in application.alerts.silences()}
        is_done = application.alerts.unsilence(silence, **said.terms())
    before = known.get(silence.lower())
    again = undo_text(*silence_words(before)) if is_done and before is not None else None
    print_removed(target, f"silence {silence}", is_done=is_done, again=again)
