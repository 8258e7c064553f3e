"""`duly run list --as-of`: which runs there were at an instant, and in which state each was."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from duly.app import App
from duly.cli.output import print_aside, print_json, print_line, print_table
from duly.cli.run.selection import RunOptions
from duly.cli.target import Target
from duly.client.as_of import run_state_as_of
from duly.client.run_view import Run
from duly.domain.instants import iso_utc
from duly.domain.time_texts import utc_text
from duly.errors import UsageError

LOOKED_AT_MAX = 1_000
"""So many runs are looked at: of each that was open, its attempts."""
OF_NOW = ("cause", "error", "worker", "until")
"""What says how a run is now, and nothing about then."""
_MICROSECOND = timedelta(microseconds=1)


class RunThen(NamedTuple):
    """A run, and the state in which it was."""

    run: Run
    state: str

    def to_json(self, at: datetime) -> dict[str, Any]:
        """Return what is true of then."""
        run = self.run
        return {
            "as_of": iso_utc(at),
            "id": str(run.id),
            "label": run.label,
            "state": self.state,
            "task": run.task,
            "queue": run.queue,
            "origin": run.origin,
            "scheduled_for": iso_utc(run.scheduled_for),
            "due_at": iso_utc(run.due_at),
        }


def find_runs_then(
    app: App, options: RunOptions, wanted: tuple[int, Sequence[str]], at: datetime
) -> tuple[list[RunThen], bool]:
    """Return so many runs that there were, newest first, and whether that is all there may be."""
    number, states = wanted
    for name in OF_NOW:
        if getattr(options, name) is not None:
            problem = "says how runs are now" if name != "until" else "contradicts --as-of"
            raise UsageError(name, getattr(options, name), problem, "leave it out with --as-of")
    found: list[RunThen] = []
    cursor, looked_at = None, 0
    while len(found) < number and looked_at < LOOKED_AT_MAX:
        # None was made before its time, so that later ones were not there.
        terms = options.terms(app) | {"until": at + _MICROSECOND}
        page = app.runs.page(limit=number, cursor=cursor, **terms)
        looked_at += max(1, len(page.items))
        for run in page.items:
            is_over = run.finished_at is not None and run.finished_at <= at
            attempts = [] if is_over else app.runs.attempts(run.id)
            state = run_state_as_of(run, attempts, at)
            if state is not None and (not states or state in states):
                found.append(RunThen(run, state))
        cursor = page.next_cursor
        if cursor is None:
            break
    return found[:number], cursor is None or len(found) >= number


def print_runs_then(
    found: Sequence[RunThen], at: datetime, target: Target, *, is_all: bool
) -> None:
    """Print them, and what can't be known."""
    if not is_all:
        print_aside(
            "note", f"{LOOKED_AT_MAX:,} runs were looked at: narrow it", as_json=target.json
        )
    if target.json:
        print_json([one.to_json(at) for one in found])
        return
    print_line(f"As of {utc_text(at)}; runs whose record was removed since are not told.")
    if found:
        headings = ("id", "state then", "run", "queue", "due (UTC)")
        print_table(headings, [_row(one) for one in found])
    else:
        print_line("No run found.")


def _row(one: RunThen) -> tuple[str, ...]:
    run = one.run
    return str(run.id), one.state, run.label, run.queue, utc_text(run.due_at)
