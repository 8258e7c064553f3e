"""`duly run`: looking at runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

from cyclopts import App, Parameter

from duly.cli.moments import read_moment
from duly.cli.output import print_facts, print_json, print_line, print_table
from duly.cli.references import find_run, find_schedule
from duly.cli.target import Target, opened
from duly.cli.times import lateness_text, utc_text
from duly.client.run_view import Run
from duly.clock import SystemClock

TARGET = Target()
NUMBER_DEFAULT = 20

app = App(name="run", help="Look at runs.")


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Which runs."""

    schedule: str | None = None
    """Only those of this schedule, by its name or id."""
    key: str | None = None
    """Only those with this key."""
    task: str | None = None
    """Only those of this task."""
    queue: str | None = None
    """Only those in this queue."""
    state: str | None = None
    """Only those in this state, such as queued or cancelled."""
    since: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None
    """Only those scheduled for this moment or later: an ISO time, today, -2h."""
    number: Annotated[int, Parameter(name=["--number", "-n"])] = NUMBER_DEFAULT
    """How many to show at the most."""


WHICH = RunOptions()


@app.command(name="list")
def list_runs(*, which: RunOptions = WHICH, target: Target = TARGET) -> None:
    """List runs, newest first."""
    with opened(target, makes_store=False) as application:
        since = None
        if which.since is not None:
            since = read_moment(which.since, "UTC", SystemClock(), "since")
        schedule = None
        if which.schedule is not None:
            schedule = find_schedule(application, which.schedule, by_beginning=True).id
        found = application.runs.list(
            schedule=schedule,
            key=which.key,
            task=which.task,
            queue=which.queue,
            state=which.state,
            since=since,
            limit=which.number,
        )
        if target.json:
            print_json([one.to_json() for one in found])
            return
        if not found:
            print_line("No run found. What is not yet due is in duly schedule list.")
            return
        headings = ("run", "state", "origin", "due (UTC)", "after due", "queue", "id")
        print_table(headings, [_row(one) for one in found])


@app.command
def show(run: str, /, *, target: Target = TARGET) -> None:
    """Show all about a run.

    Parameters
    ----------
    run
        Its id, the beginning of it, or its label (nightly-report@2026-04-03T02:00+02:00).
    """
    with opened(target, makes_store=False) as application:
        found = find_run(application, run)
        if target.json:
            print_json(found.to_json())
            return
        print_line((found.label, "bold"))
        print_facts(_facts(found))


def _row(run: Run) -> tuple[str, ...]:
    return (
        run.label,
        run.state,
        run.origin,
        utc_text(run.due_at),
        lateness_text(run.lateness),
        run.queue,
        str(run.id),
    )


def _facts(run: Run) -> list[tuple[str, str]]:
    window = "-"
    if run.window is not None:
        since = "the beginning" if run.window[0] is None else utc_text(run.window[0])
        window = f"after {since}, up to {utc_text(run.window[1])}"
    return [
        ("id", str(run.id)),
        ("state", run.state + (f": {run.reason}" if run.reason else "")),
        ("task", f"{run.task} {json.dumps(run.arguments, ensure_ascii=False)}"),
        ("schedule", run.schedule or "-"),
        ("key", run.key or "-"),
        ("origin", f"{run.origin}, {run.lane} lane"),
        ("scheduled for", utc_text(run.scheduled_for)),
        ("window", window),
        ("due", utc_text(run.due_at)),
        ("queued", f"{utc_text(run.fired_at)}, {lateness_text(run.lateness)} after due"),
        ("finished", utc_text(run.finished_at)),
        ("queue", f"{run.queue}, priority {run.priority}"),
    ]
