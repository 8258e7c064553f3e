"""The orders of `duly run` by name; each one's file is loaded when it is asked for."""

from __future__ import annotations

from cyclopts import App

app = App(name="run", help="Look at runs, wait for them, stop them, try them again.")
for name, place, purpose in (
    ("list", "look:list_runs", "List runs, newest first."),
    ("show", "look:show", "Show all about a run: where it came from, each step, each attempt."),
    ("attempts", "attempts:attempts", "Show each attempt of a run, with its error."),
    ("missing", "missing:missing", "Show what was expected and has no run."),
    ("ambiguous", "attempts:ambiguous", "List runs of which nobody knows what they did."),
    ("why", "why:why", "Say why a run is late, stuck, waiting or dead."),
    ("logs", "logs:logs", "Show what a run's attempts have written; -f follows."),
    ("wait", "wait:wait", "Wait until runs are over; the exit code says how they ended."),
    ("cancel", "cancel:cancel", "Stop runs: at once, or by asking whoever runs them."),
    ("retry", "dead_letters:retry", "Queue dead runs again, or try a waiting one at once."),
    ("discard", "dead_letters:discard", "Give up dead runs for good."),
    ("edit", "edit:edit", "Give a dead run other arguments."),
    ("resume", "doubts:resume", "Try a run in doubt again from its last checkpoint."),
    ("reconcile", "doubts:reconcile", "Record what has become of a run in doubt."),
    ("skip", "repeating:skip", "Leave runs in doubt as they are, on record."),
    (
        "rerun",
        "repeating:rerun",
        "Run once more what runs were to do; --repair does only the rest.",
    ),
    ("verify", "doubts:verify", "Have the result of a run checked by its task's own check."),
):
    app.command(f"duly.cli.run.{place}", name=name, help=purpose)
