"""One run: where it comes from, its times in a chain, each attempt, and why it is as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly_web.page import Asked, Page, Shown
from duly_web.pages.runs import RunRow, run_row

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from duly import Run
    from duly.api.views import Attempt, Line, RunExplanation

LINES_MAX = 200


@dataclass(frozen=True, slots=True)
class Link:
    """One fact of the chain, with its time; None for what has not happened (R2)."""

    name: str
    at: datetime | None
    since: timedelta | None
    """How long after the one before that has happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunModel:
    """The page."""

    run: RunRow
    key: str | None
    root: str
    arguments: dict[str, Any]
    result: object
    chain: tuple[Link, ...]
    attempts: tuple[Attempt, ...]
    lines: tuple[Line, ...]
    why: RunExplanation
    json: dict[str, Any]
    command: str


def show_run(asked: Asked) -> Shown:
    """Show a run with its attempts."""
    run = asked.app.runs.get(asked.path["run"])
    attempts = asked.app.runs.attempts(run.id)
    model = RunModel(
        run=run_row(run),
        key=run.key,
        root=str(run.root),
        arguments=run.arguments,
        result=run.result,
        chain=_chain(run, attempts[-1] if attempts else None),
        attempts=tuple(reversed(attempts)),
        lines=tuple(asked.app.runs.lines(run.id, limit=LINES_MAX)),
        why=asked.app.runs.why(run.id),
        json=run.to_json(),
        command=f"duly run show {run.id}",
    )
    return Shown(template="run.html", model=model, title=run.label)


def _chain(run: Run, last: Attempt | None) -> tuple[Link, ...]:
    """Return the facts in their order; none stands in for another."""
    facts: list[tuple[str, datetime | None]] = [
        ("due", run.due_at),
        ("created", run.fired_at or run.created_at),
        ("claimed", run.claimed_at or (last.claimed_at if last else None)),
        ("started", run.started_at or (last.started_at if last else None)),
        ("heartbeat", last.heartbeat_at if last else None),
        ("progress", last.progress_at if last else None),
        ("completed", run.finished_at),
    ]
    before: datetime | None = None
    links: list[Link] = []
    for name, at in facts:
        since = at - before if at is not None and before is not None else None
        links.append(Link(name, at, since))
        before = at or before
    return tuple(links)


PAGES = (Page(method="GET", path="/runs/{run}", name="run", scope="read", handler=show_run),)
