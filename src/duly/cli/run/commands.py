"""The orders of `duly run` by name; each one's file is loaded when it is asked for."""

from __future__ import annotations

from cyclopts import App

app = App(name="run", help="Look at runs, wait for them, stop them, try them again.")
for name, place, purpose in (
    ("list", "look:list_runs", "List runs, newest first."),
    ("show", "look:show", "Show all about a run: where it came from, each step, each attempt."),
    ("why", "why:why", "Say why a run is late, stuck, waiting or dead."),
    ("logs", "logs:logs", "Show what a run's attempts have written; -f follows."),
    ("wait", "wait:wait", "Wait until runs are over; the exit code says how they ended."),
    ("cancel", "cancel:cancel", "Stop a run: at once, or by asking whoever runs it."),
    ("retry", "dead_letters:retry", "Queue dead runs again, or try a waiting one at once."),
    ("discard", "dead_letters:discard", "Give up dead runs for good."),
    ("edit", "edit:edit", "Give a dead run other arguments."),
):
    app.command(f"duly.cli.run.{place}", name=name, help=purpose)
