"""Which page of the runbooks belongs to an alert: what it means, how to look, what is safe (A5)."""

from __future__ import annotations

from duly.errors import UsageError

FOLDER = "docs/runbooks"
RUNBOOK_KINDS = (
    "missing-run",
    "late-run",
    "stale-completion",
    "no-executions",
    "ambiguous-run",
    "stalled-run",
    "several-attempts",
    "dead-letters",
    "queue-age",
    "queue-depth",
    "breaker-open",
    "clock-skew",
    "early-fire",
    "creation-rate",
    "overlap",
    "schedule-paused",
)
"""The kinds of alert, each of which has a page of its own."""


def runbook_of(kind: str) -> str:
    """Return the path of the page about a kind of alert, from the root of the repository."""
    if kind not in RUNBOOK_KINDS:
        raise UsageError("kind", kind, "has no runbook", f"give one of {', '.join(RUNBOOK_KINDS)}")
    return f"{FOLDER}/{kind}.md"
