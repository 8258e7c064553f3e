"""`duly alert rules`, `duly alert rule …`: from when on what is an alert, and who is told (V3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from duly.app import App
from duly.cli.alert_texts import (
    NARROWING,
    RULE_HEADINGS,
    SAID,
    Several,
    TermOptions,
    print_removed,
    print_terms,
    rule_row,
    rule_words,
    threshold_text,
)
from duly.cli.output import print_json, print_line
from duly.cli.target import Target, opened
from duly.cli.undoing import print_undo, undo_text
from duly.client.alert_view import AlertRule
from duly.errors import UsageError

TARGET = Target()


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


RULE = RuleOptions()


def rules(*, target: Target = TARGET) -> None:
    """List the rules: from when on what is an alert, how urgent, and who is told."""
    with opened(target, makes_store=False) as application:
        found = application.alerts.rules()
    print_terms(target, found, (RULE_HEADINGS, *(rule_row(one) for one in found)))


def set_rule(
    name: str,
    /,
    *,
    options: RuleOptions = RULE,
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
    with opened(target) as application:
        before = _find(application, name)
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
    with opened(target, makes_store=False) as application:
        before = _find(application, name)
        is_done = application.alerts.remove_rule(name, **said.terms())
    again = undo_text(*rule_words(before)) if is_done and before is not None else None
    print_removed(target, f"rule {name}", is_done=is_done, again=again)


def _find(application: App, name: str) -> AlertRule | None:
    """Return a rule that somebody has set."""
    found = (one for one in application.alerts.rules() if one.name == name and not one.is_default)
    return next(found, None)


def _undo(before: AlertRule | None, made: AlertRule) -> str:
    """Return how to have it as it was before; about whom it was can only be said anew."""
    removing = undo_text("alert", "rule", "remove", made.name)
    if before is None:
        return removing
    again = undo_text(*rule_words(before))
    if all(getattr(before, one) == getattr(made, one) for one in ("kind", *NARROWING)):
        return again
    return f"{removing} && {again}"
