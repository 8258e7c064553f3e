"""`duly run cancel`: stops a run at once, or asks whoever runs it."""

from __future__ import annotations

import json

from duly.cli.output import print_json, print_line
from duly.cli.references import RunName, find_promise
from duly.cli.target import Target, opened
from duly.cli.undoing import print_undo, undo_text
from duly.client.run_view import Run

TARGET = Target()


def cancel(run: RunName, /, *, reason: str, target: Target = TARGET) -> None:
    """Stop a run: one that nobody runs at once, one that is running by asking its worker.

    Parameters
    ----------
    reason
        Why; it is recorded.
    """
    with opened(target, makes_store=False) as app:
        found = app.runs.cancel(find_promise(app, run), reason=reason)
        is_asked = found.state == "running"
        taking_back = None if is_asked else _again(found)
        if target.json:
            print_json({**found.to_json(), "undo": taking_back})
            return
        if is_asked:
            print_line(f"Asked {found.label} to stop. See how it ends: duly run wait {found.id}")
            print_undo("none; its worker has been told")
            return
        print_line(f"Cancelled {found.label}. What is left is its record.")
        print_undo(f"{taking_back} (a new run of the same)")


def _again(run: Run) -> str:
    """Return the order for another run of the same."""
    words = ["enqueue", run.task, "--queue", run.queue, "--priority", str(run.priority)]
    words += ["--key", run.key] if run.key else []
    if run.arguments:
        words += ["--arguments", json.dumps(run.arguments, ensure_ascii=False)]
    return undo_text(*words)
